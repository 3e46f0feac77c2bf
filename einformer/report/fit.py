"""Finds the largest size of a model that fits: a batch, sequence or depth into memory, a width into a number of parameters."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal

from einformer.errors import EinformerError, fail
from einformer.huggingface.quantized import count_quantized, read_quantization
from einformer.huggingface.storage import count_file
from einformer.interpreters.count import engines, rules
from einformer.interpreters.count.conventions import Precision, choose_cache
from einformer.interpreters.count.exchanges import find_rows
from einformer.interpreters.count.numbers import Numbers
from einformer.interpreters.count.rules import Recompute, count_cache
from einformer.interpreters.count.table import spell_bytes
from einformer.language import weights as placed
from einformer.language.sizes import MAXIMUM_SIZE
from einformer.objects import Model, choose_rows
from einformer.program.sharding import WHOLE, own

Use = Literal["training", "generation"]
MOST_STEPS = 64  # multiples of the heads that are tried for a width whose sizes come out whole


@dataclass(frozen=True, slots=True)
class Fit:
    """The largest size of a letter within a limit of bytes or parameters, at the sizes of the inputs."""

    letter: str
    what: Use | Literal["parameters"]
    limit: int
    found: LargestSize
    inputs: Mapping[str, int]
    counted: str

    def data(self) -> dict[str, Any]:
        above = dict(zip(("size", "count"), self.found.above, strict=True)) if self.found.above else None
        record = {"letter": self.letter, "size": self.found.size, "count": self.found.count, "above": above}
        return record | {"what": self.what, "limit": self.limit, "inputs": dict(self.inputs), "counted": self.counted}

    def rows(self) -> Iterator[tuple[str, str]]:
        size, above = self.found.size, self.found.above
        yield f"{self.letter} = {size:,}" if size < MAXIMUM_SIZE else f"any {self.letter}", self.describe(self.found.count)
        if above:
            yield f"{self.letter} = {above[0]:,}", f"{self.describe(above[1])}: above the limit"
        elif size < MAXIMUM_SIZE:
            yield "", f"a larger {self.letter} is out of bounds"
        yield "limit", self.describe(self.limit)
        yield "counted", self.counted

    # `79,932,170,240 bytes, 79.93 GB`, or a number of parameters.
    def describe(self, count: int) -> str:
        return f"{count:,} parameters" if self.what == "parameters" else f"{count:,} bytes, {spell_bytes(count)}"


def in_memory(
    model: Model,
    limit: int,
    letter: str = "B",
    *,
    use: Use = "training",
    precision: str = "bfloat16",
    recompute: Recompute = "none",
    mesh: str = "",
    shard: str = "",
    zero: int = 0,
    microbatches: int = 1,
    cache: str = "",
    file: str = "",
    **sizes: int,
) -> Fit:
    """Returns the largest `letter`, of the inputs or the model, with which a use takes at most this many bytes on one
    device, of a mesh with a map of letters if there is one. Through stages of a pipeline pass so many `microbatches`. The cache
    of generation has a format, `q8_0`, and the weights are those of a kind of file, `q4_k_m`; both by default that of the
    precision.

    Raises EinformerError E601, E603 to E605, E609, E741, E742.
    """
    others = {k: n for k, n in sizes.items() if k != letter}
    memory = _Memory(model, use, precision, recompute, mesh, shard, zero, microbatches, cache, file, others)
    step = _find_shared_factor(model, letter, mesh, shard, microbatches)
    answer = _find_largest(memory.bytes(letter), limit, step, _find_bound(model, letter))
    if isinstance(answer, int):
        message = f"{use} with {letter} = {step} takes {answer:,} bytes, more than {limit:,}"
        fix = "more memory, smaller sizes" + (", or `--recompute full`" if use == "training" and recompute != "full" else "")
        raise fail("E609", message, fix=fix)
    return Fit(letter, use, limit, answer, memory.sizes, memory.counted)


# Returns the largest `letter` with at most this many parameters: a multiple of `step`, by default of the number that makes all
# sizes whole. Raises EinformerError E602 to E606, E609.
def of_parameters(model: Model, wanted: int, letter: str = "D", step: int | None = None) -> Fit:
    step = step or _find_step(model, letter)
    answer = _find_largest(lambda size: _count_parameters(model, letter, size), wanted, step)
    if isinstance(answer, int):
        message = f"with {letter} = {step} there are {answer:,} parameters, more than {wanted:,}"
        raise fail("E609", message, fix="more parameters, or a smaller size of another letter")
    model.bind(**{letter: answer.size})  # says so where even that is too small for the text
    return Fit(letter, "parameters", wanted, answer, {}, f"{letter} in multiples of {step}; a tie counts once")


# Returns the count of the smallest size if it exceeds the limit.
def _find_largest(count: Callable[[int], int], limit: int, step: int = 1, most: int = MAXIMUM_SIZE) -> LargestSize | int:
    return find_largest(count, limit, step, most) or count(step)


# `S <= K`
def _find_bound(model: Model, letter: str) -> int:
    axis = model.legend.axis_of_size(letter)
    return MAXIMUM_SIZE if axis is None or axis.bound is None else int(model.legend.number(axis.bound))


# Devices, and microbatches, share an axis in equal parts.
def _find_shared_factor(model: Model, letter: str, mesh: str, shard: str, microbatches: int) -> int:
    axis, sharding = model.legend.axis_of_size(letter), model._shard(mesh, shard, stages=True)
    if axis is None or sharding is None:
        return 1
    rows = microbatches > 1 and axis.letter == find_rows(model.spec.layer, model.legend)
    return sharding.times(own(axis.letter)) * (microbatches if rows else 1)


# 1, or a multiple of the heads.
def _find_step(model: Model, letter: str) -> int:
    heads = int(model.legend.values.get("A", 1))
    for step in itertools.chain((1,), range(heads, heads * MOST_STEPS, heads)):
        try:
            model.bind(**{letter: step})
        except EinformerError as error:
            if error.findings[0].code == "E602":
                continue
        return step
    raise fail("E609", f"no multiple of {heads} as {letter} makes all sizes whole", fix="another `--step`")


# None if a size is too small for the text: rotary pairs need a wide head.
def _count_parameters(model: Model, letter: str, size: int) -> int:
    try:
        return model.bind(**{letter: size}).num_parameters
    except EinformerError as error:
        if error.findings[0].code != "E309":
            raise
        return 0


@dataclass(frozen=True, slots=True)
class _Memory:
    """The bytes that a use of a model takes at some sizes."""

    model: Model
    use: Use
    precision: str
    recompute: Recompute
    mesh: str
    shard: str
    zero: int
    microbatches: int
    cache: str
    file: str
    sizes: Mapping[str, int]

    @property
    def counted(self) -> str:
        if self.use == "generation":
            stored, cache = self.file or name_stored(self.model) or self.precision, self.cache or self.precision
            kept = f"weights and cache in {cache}" if stored == cache else f"weights in {stored}, cache in {cache}"
            return f"{kept}; what a step computes is not kept"
        return f"a training step in {self.precision}, recomputation {self.recompute}; activations as Korthikanti et al. 2022"

    def bytes(self, letter: str) -> Callable[[int], int]:
        if letter not in self.model.open:
            return lambda size: self.of(self.model.bind(**{letter: size}))(self.sizes)
        bytes_of = self.of(self.model)
        return lambda size: bytes_of({**self.sizes, letter: size})

    def of(self, model: Model) -> Callable[[Mapping[str, int]], int]:
        if self.use == "training":
            return lambda sizes: (
                model.memory(
                    precision=self.precision,
                    recompute=self.recompute,
                    mesh=self.mesh,
                    shard=self.shard,
                    zero=self.zero,
                    microbatches=self.microbatches,
                    **sizes,
                ).total
            )
        _, precision = choose_rows("torch", self.precision)
        time = model.spec.layer.time.letter if model.spec.layer.time else ""
        sharding, kept = model._shard(self.mesh, self.shard) or WHOLE, model.kept
        held = Numbers.of_rank(model.spec.tree, model.spec.name, model.legend, sharding)
        weights, stored = count_weights(model, precision, self.file, held), choose_cache(self.cache, precision.dtype)
        parts = [
            ([entry for entry in kept if (entry.kind == "visible") == growing], element)
            for growing, element in ((True, stored.element), (False, rules.BYTES[precision.dtype]))
        ]

        def count(sizes: Mapping[str, int]) -> int:
            numbers = Numbers(model.at(**sizes), time, shares=sharding.shares)
            engines.check_blocks(engines.list_kinds(kept, numbers) if self.cache else (), stored)
            return weights + sum(int(count_cache(entries, numbers, element).total) for entries, element in parts)

        return count


# Returns the bytes of the weights on a device with these sizes in a precision, or those of the tensors of a kind of file,
# `q4_k_m`; where no kind is given, those that the `quantization_config` of the model says. A rank of a mesh has blocks of its
# part of each tensor. Raises EinformerError E605 if the kind of file does not say how a tensor is stored, E612 to E614.
def count_weights(model: Model, precision: Precision, kind: str = "", sizes: Numbers | None = None) -> int:
    tree, origin = model.spec.tree, model._origin
    sizes = sizes or Numbers(model.legend)
    held = {path: each.share(sizes.shares) for path, each in placed.weights(tree, model.spec.layer, model.legend).items()}
    if not kind and name_stored(model):
        return count_quantized(origin.family, held, origin.config, rules.BYTES[precision.dtype])
    if not kind:
        return precision.parameters * rules.count_on_one_device(rules.count_weights(tree, model.spec.name, sizes), sizes)
    if not model._origin.family:
        message = f"`{model.spec.name}` is not a model of a config, and `{kind}` goes by the names of its tensors"
        raise fail("E605", message, fix="a config.json, or a model with published sizes")
    return count_file(model._origin.family, held, kind)


# Returns how the config of a model says that its weights are stored, `gptq: 4 bits, groups of 128`, or nothing.
def name_stored(model: Model) -> str:
    quantization = read_quantization(model._origin.config) if model._origin.family else None
    return quantization.title if quantization is not None else ""


# ------------------------------------------------------------------------------------------------------- quantities, bisection

_SHORT = ("K", "M", "G", "T", "P")
BYTES = {
    "B": 1,
    **{f"{prefix}B": 1000**power for power, prefix in enumerate(_SHORT, 1)},
    **{f"{prefix}iB": 1024**power for power, prefix in enumerate(_SHORT, 1)},
}
NUMBERS = {"": 1, "K": 10**3, "M": 10**6, "B": 10**9, "T": 10**12}
_QUANTITY = re.compile(r"\s*(?P<number>[0-9]+(?:\.[0-9]+)?)\s*(?P<unit>[A-Za-z]*)\s*")


def parse_quantity(text: str, units: Mapping[str, int]) -> int:
    """A number with a unit, rounded down; `k` and `K` are a thousand, `Ki` is 1024. Raises EinformerError E608.

    >>> parse_quantity("80GB", BYTES), parse_quantity("1.5 KiB", BYTES), parse_quantity("1.3B", NUMBERS)
    (80000000000, 1536, 1300000000)
    """
    match = _QUANTITY.fullmatch(text)
    unit = match["unit"].replace("k", "K") if match else ""
    if not match or unit not in units:
        names = ", ".join(unit for unit in units if unit)
        raise fail("E608", f"`{text}` is not a number with one of the units {names}", fix=f"`80{[*units][3]}`")
    if not 0 < (size := int(Fraction(match["number"]) * units[unit])) <= MAXIMUM_SIZE:
        raise fail("E608", f"`{text}` is nothing, or beyond {MAXIMUM_SIZE:.0e}", fix=f"`80{[*units][3]}`")
    return size


@dataclass(frozen=True, slots=True)
class LargestSize:
    """The largest size within a limit and its count, and the next size with its own, if there is one."""

    size: int
    count: int
    above: tuple[int, int] | None


def find_largest(count: Callable[[int], int], limit: int, step: int = 1, most: int = MAXIMUM_SIZE) -> LargestSize | None:
    """The largest multiple of `step`, up to `most`, whose count is at most `limit`; None where already the first exceeds it.

    `count` does not shrink as the size grows.

    >>> find_largest(lambda size: 3 * size + 1, limit=50, step=5)
    LargestSize(size=15, count=46, above=(20, 61))
    """
    within, beyond, last = 0, 1, most // step
    while beyond <= last and count(beyond * step) <= limit:
        within, beyond = beyond, 2 * beyond
    beyond = min(beyond, last + 1)
    while beyond - within > 1:
        middle = (within + beyond) // 2
        within, beyond = (middle, beyond) if count(middle * step) <= limit else (within, middle)
    if not within:
        return None
    above = (beyond * step, count(beyond * step)) if beyond <= last else None
    return LargestSize(within * step, count(within * step), above)
