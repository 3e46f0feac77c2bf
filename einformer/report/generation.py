"""Reports the memory of generation by kind of layer: the bytes that the equations need, and those that engines allocate."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from einformer.errors import EinformerError
from einformer.interpreters.count import engines, rules
from einformer.interpreters.count.conventions import Format, choose_cache
from einformer.interpreters.count.engines import KeptLayers, KeptTensor
from einformer.interpreters.count.numbers import Numbers
from einformer.interpreters.count.table import spell_bytes
from einformer.language.sizes import MAXIMUM_SIZE
from einformer.objects import Model, choose_rows
from einformer.report import fit

HEAD = ("kind of layer", "layers", "keeps of a row", "bytes of a position", "bytes")


@dataclass(frozen=True, slots=True)
class Generation:
    """What generation takes at a batch and a length, and the length up to which it fits into a memory.

    Numbers of the cache have the format `cache`, those of states so many bytes.
    """

    inputs: Mapping[str, int]
    weights: int
    stored: str
    parameters: int
    model_type: str
    kinds: tuple[KeptLayers, ...]
    length: int
    cache: Format
    states: int
    memory: int
    longest: int | None

    @property
    def needed(self) -> int:
        return sum(kind.layers * engines.count_needed(kind, self.cache, self.states) for kind in self.kinds)

    def allocated(self, engine: str) -> int | str:
        counted = engines.read_engines()[engine].count_bytes(self.kinds, self.length, self.cache, self.model_type)
        return counted if isinstance(counted, str) else sum(counted)

    @property
    def advice(self) -> str:
        rows = self.inputs.get("B", 1)
        where = f"{spell_bytes(self.memory)} hold the weights and the cache of {rows:,} row{'s' * (rows > 1)}"
        if self.longest is None:
            times = f", and the weights alone take {self.weights / self.memory:.1f} times as much" * (
                self.weights > self.memory
            )
            return f"{spell_bytes(self.memory)} do not hold the weights and one position{times}"
        return f"{where} up to {self.longest:,} positions" if self.longest < MAXIMUM_SIZE else f"{where} of any length"

    def table(self) -> Iterator[tuple[str, ...]]:
        for kind in self.kinds:
            position, needed = self._count_position(kind), kind.layers * engines.count_needed(kind, self.cache, self.states)
            yield kind.path, f"{kind.layers:,}", describe(kind), f"{position:,}" if position else "", f"{needed:,}"

    # Needed bytes, those that each engine allocates, and advice.
    def rows(self) -> Iterator[tuple[str, str]]:
        bits = 8 * self.weights / self.parameters
        yield (
            "weights",
            f"{self.weights:,} bytes, {spell_bytes(self.weights)} as {self.stored}: {bits:.4g} bits each",
        )
        yield "cache", f"{self.needed:,} bytes, {spell_bytes(self.needed)} as {self.cache.name}: what the equations read again"
        titles: dict[int | str, list[str]] = {}
        for name, engine in engines.read_engines().items():
            titles.setdefault(self.allocated(name), []).append(engine.title)
        for size, same in titles.items():
            yield "", f"{self._spell(size)}: {', '.join(same)}"
        yield "fits", self.advice
        for number, engine in enumerate(engines.read_engines().values()):
            yield "" if number else "sources", f"{engine.title}: {engine.source}"

    def data(self) -> dict[str, Any]:
        counts = {name: (self.allocated(name), engine.source) for name, engine in engines.read_engines().items()}
        listed = {name: {"bytes": None if isinstance(n, str) else n, "source": source} for name, (n, source) in counts.items()}
        silent = {name: {"why": n} for name, (n, _) in counts.items() if isinstance(n, str)}
        return {
            "inputs": dict(self.inputs),
            "weights": self.weights,
            "stored": self.stored,
            "dtype": self.cache.name,
            "kinds": [self._describe_kind(kind) for kind in self.kinds],
            "cache": self.needed,
            "engines": {name: row | silent.get(name, {}) for name, row in listed.items()},
            "memory": self.memory,
            "longest": self.longest,
        }

    def _describe_kind(self, kind: KeptLayers) -> dict[str, Any]:
        needed = engines.count_needed(kind, self.cache, self.states)
        record = {"path": kind.path, "layers": kind.layers, "keeps": describe(kind)}
        return record | {"position": self._count_position(kind), "needed": needed}

    def _spell(self, size: int | str) -> str:
        if isinstance(size, str):
            return size
        return f"{size:,} bytes, {spell_bytes(size)}" + (f", {size / self.needed:.2f} of that" if self.needed else "")

    def _count_position(self, kind: KeptLayers) -> int:
        return sum(engines.count_stored(held, self.cache) for held in kind.growing)


# Returns what generation takes at these sizes of the inputs, with numbers of the cache in a format, `q8_0`, and weights in a
# kind of file, `q4_k_m`, by default both in the precision. Raises EinformerError E508 if the model cannot be decoded step by
# step, E601, E603 to E605.
def count_generation(
    model: Model, memory: int, precision: str = "bfloat16", cache: str = "", file: str = "", **sizes: int
) -> Generation:
    _, chosen = choose_rows("torch", precision)
    stored = choose_cache(cache, chosen.dtype)
    assert model.spec.layer.time is not None
    numbers = Numbers(model.at(**sizes), model.spec.layer.time.letter)
    kinds = engines.list_kinds(model.kept, numbers)
    engines.check_blocks(kinds, stored)
    return Generation(
        sizes,
        fit.count_weights(model, chosen, file),
        file or fit.name_stored(model) or chosen.name,
        model.num_parameters,
        find_model_type(model),
        kinds,
        numbers.length(numbers.time),
        stored,
        rules.BYTES[chosen.dtype],
        memory,
        _find_longest(model, memory, sizes, precision=precision, cache=cache, file=file),
    )


def find_model_type(model: Model) -> str:
    """Returns the `model_type` of a config, or an empty string."""
    return model._origin.family.partition(" ")[0]


def describe(kind: KeptLayers) -> str:
    """Returns which positions a layer keeps: `a window of 4,096 positions`."""
    return ", ".join(dict.fromkeys(map(_describe_held, kind.held)))


def _describe_held(held: KeptTensor) -> str:
    if held.kind in ("sum", "same"):
        return "a sum" if held.kind == "sum" else "what is the same at every step"
    if held.kind == "earlier":
        return "a state" if held.back == 1 else f"the last {held.back} positions"
    return "all positions" if held.back is None else f"a window of {held.back + 1:,} positions"


def _find_longest(model: Model, memory: int, sizes: Mapping[str, int], **stored: str) -> int | None:
    rest: dict[str, Any] = {**stored, **{letter: size for letter, size in sizes.items() if letter != "S"}}
    try:
        return fit.in_memory(model, memory, "S", use="generation", **rest).found.size
    except EinformerError as error:
        if error.findings[0].code != "E609":
            raise
        return None
