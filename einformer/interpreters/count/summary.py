"""Sums up a bound model: parameters, FLOPs of each phase, bytes of a training step, and how they read."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from einformer.interpreters.count import numbers, table
from einformer.interpreters.count.conventions import Convention
from einformer.interpreters.count.derived import derive
from einformer.interpreters.count.memory import Memory
from einformer.interpreters.count.precisions import Precision
from einformer.interpreters.count.rules import Phase, Recompute
from einformer.language.sizes import Legend
from einformer.language.tree import Spec

PHASES: tuple[Phase, ...] = ("forward", "backward", "training")


@dataclass(frozen=True, slots=True)
class Summary:
    """The counts of a model at sizes of its inputs, under a convention; `parameters` as `numbers.breakdown` says."""

    convention: Convention
    precision: Precision
    recompute: Recompute
    parts: tuple[table.Part[int], ...]
    parameters: dict[str, int]
    flops: dict[Phase, int]
    next_token: int | None
    memory: Memory[int]
    cache: tuple[int, int] | None  # bytes for a further position of one row, and in all

    @property
    def weights(self) -> int:
        """The bytes of the parameters."""
        return self.parameters["total"] * self.precision.parameters

    def data(self) -> dict[str, Any]:
        """For `--json`; FLOPs and bytes, exact."""
        return table.data(self.parts) | {
            "convention": str(self.convention),
            "precision": self.precision.name,
            "recompute": self.recompute,
            "parameter_counts": self.parameters,
            "parameter_bytes": self.weights,
            "flops_by_phase": self.flops,
            "flops_of_next_token": self.next_token,
            "memory": asdict(self.memory) | {"total": self.memory.total},
            "cache": dict(zip(("per_token", "total"), self.cache, strict=True)) if self.cache else None,
        }

    def rows(self) -> Iterator[tuple[str, str]]:
        """What there is to say in words, under a heading for each line."""
        counts, flops = self.parameters, self.flops
        yield "parameters", f"{counts['total']:,}: embeddings {counts['embedding']:,}, all others {counts['non_embedding']:,}"
        if counts["active"] != counts["total"]:
            yield "", f"{counts['active']:,} of them compute for one token"
        yield "weights", f"{spell_bytes(self.weights)} as {self.precision.name}"
        yield "forward", f"{flops['forward']:,} FLOPs"
        again = flops["training"] - flops["forward"] - flops["backward"]
        yield "training", f"{flops['training']:,} FLOPs a step: backward {flops['backward']:,}, recomputed {again:,}"
        if self.next_token is not None:
            yield "decoding", f"{self.next_token:,} FLOPs for the last position, all others cached"
        if self.cache:
            one, whole = self.cache
            both = spell_bytes(self.weights + whole)
            yield (
                "",
                f"{both}: weights, and a cache of {spell_bytes(whole)}, {one:,} B a position and row",
            )
        components = asdict(self.memory).items()
        yield "memory", f"{spell_bytes(self.memory.total)} for a training step ({self.precision.source}):"
        yield "", ", ".join(f"{name.replace('_', ' ')} {spell_bytes(size)}" for name, size in components if size)
        yield "counted", str(self.convention)
        yield "", "kept: values by the rules of Korthikanti et al. 2022, each once, masks of dropout 1 byte"


def summarise(
    spec: Spec,
    name: str,
    legend: Legend,
    single: Legend | None,
    convention: Convention,
    precision: Precision,
    recompute: Recompute = "none",
    cache: tuple[int, int] | None = None,
) -> Summary:
    """The summary of the layer or model `name`; `single` has one position, to follow upon the others in a `cache`.

    Raises EinformerError E601.
    """
    parts = table.count_parts(spec, name, legend, convention, precision.element, recompute)
    counts = [count for part in parts for count in part.equations]
    cached = legend.length(derive(spec, name).time) - 1 if single else 0
    return Summary(
        convention,
        precision,
        recompute,
        parts,
        numbers.break_down(count for part in parts for count in part.weights),
        {phase: sum(count.spent(phase, recompute) for count in counts) for phase in PHASES},
        numbers.sum_counts(numbers.count_flops(spec, name, single, convention, cached)) if single else None,
        numbers.count_training(spec, name, legend, precision, recompute),
        cache,
    )


def spell_bytes(size: int) -> str:
    """`248.9 MB`: decimal units, four digits."""
    value, unit = float(size), "B"
    for larger in ("kB", "MB", "GB", "TB", "PB"):
        if value < 1000:
            break
        value, unit = value / 1000, larger
    return f"{value:.4g} {unit}"
