"""Computes the series of pictures: FLOPs against length, the memory of a training step, the intensity of products."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields
from typing import Literal

from einformer.errors import fail
from einformer.interpreters.count import engines, roofline, rules
from einformer.interpreters.count.conventions import Convention, Device, Precision, choose_cache
from einformer.interpreters.count.inventory import derive
from einformer.interpreters.count.numbers import Numbers
from einformer.interpreters.count.rules import EquationCount, Memory, Recompute, count_flops, count_traffic, find_intensity
from einformer.objects import Model, choose_rows
from einformer.report.generation import describe, find_model_type

SHORTEST, LONGEST = 16, 2**17  # positions, where a text says no bound
_A_DOUBLING = 4  # points
_BEYOND = 3  # times the size of a device
_TWO_POSITIONS = ", pairs of positions"

Series = dict[str, list[float]]


@dataclass(frozen=True, slots=True)
class Point:
    """The products of one equation in a step: FLOPs for each byte that it moves."""

    step: Literal["prefill", "decode"]
    part: str
    intensity: float


# Lengths go up to the bound of the text, evenly spaced on a logarithmic axis.
def lengths(model: Model) -> list[int]:
    axis = model.legend.axis_of_size("S")
    longest = LONGEST if axis is None or axis.bound is None else int(model.legend.number(axis.bound))
    steps, shortest = range(_A_DOUBLING * (longest.bit_length() + 1)), min(SHORTEST, longest // 2)
    return sorted({longest, *(n for k in steps if shortest <= (n := round(2 ** (k / _A_DOUBLING))) < longest)})


# In percent of the FLOPs of a forward pass.
def shares(model: Model, batch: int, sequence_lengths: Iterable[int], convention: Convention) -> Series:
    shares_by_part: Series = {}
    for k, length in enumerate(sequence_lengths):
        spent: dict[str, int] = {}
        for count in count_flops(model.spec.tree, model.spec.name, Numbers(model.at(B=batch, S=length)), convention):
            for label, flops in _split_flops(model, count):
                spent[label] = spent.get(label, 0) + flops
        if not (whole := sum(spent.values())):
            raise fail("E804", f"no equation of `{model.spec.name}` multiplies two tensors", model.spec.layer.span)
        for label, flops in spent.items():
            shares_by_part.setdefault(label, [0.0] * k).append(100 * flops / whole)
    return {label: share for label, share in shares_by_part.items() if any(share)}


# The FLOPs of pairs of positions stand apart.
def _split_flops(model: Model, count: EquationCount[int]) -> Iterator[tuple[str, int]]:
    label = part(model, count.path)
    yield label, count.times * (count.each - count.core)
    yield label + _TWO_POSITIONS, count.times * count.core


# `blocks.{l}.MLP.Gate` is in `MLP`, the layer that the model itself calls. The model's own equations are its logits.
def part(model: Model, path: str) -> str:
    called = [name for name in path.split(".") if name not in ("", "blocks") and not name.startswith("{")]
    own = "logits" if derive(model.spec.tree, model.spec.name).logits else model.spec.name
    return called[0] if called else own


# In GB of a training step.
def components(model: Model, batch: int, sequence_lengths: Iterable[int], precision: str, recompute: Recompute) -> Series:
    memories = [model.memory(precision=precision, recompute=recompute, B=batch, S=length) for length in sequence_lengths]
    bytes_by_component = {
        part.name.replace("_", " "): [getattr(memory, part.name) / 1e9 for memory in memories] for part in fields(Memory)
    }
    return {name: sizes for name, sizes in bytes_by_component.items() if any(sizes)}


# In GB: what each kind of layer needs, and what each engine allocates. Raises EinformerError E508.
def cache(model: Model, batch: int, sequence_lengths: Iterable[int], precision: Precision) -> tuple[Series, Series]:
    kept, time, stored = model.kept, model.spec.layer.time, choose_cache("", precision.dtype)
    assert time is not None
    needed, allocated = Series(), Series()
    for k, length in enumerate(sequence_lengths):
        kinds = engines.list_kinds(kept, Numbers(model.at(B=batch, S=length), time.letter))
        for kind in kinds:
            whole = kind.layers * engines.count_needed(kind, stored, rules.BYTES[precision.dtype])
            row = needed.setdefault(f"{kind.path}: {describe(kind)}", [])
            row += [0.0] * (k + 1 - len(row))
            row[k] += whole / 1e9
        for engine in engines.read_engines().values():
            counted = engine.count_bytes(kinds, length, stored, find_model_type(model))
            if not isinstance(counted, str):
                allocated.setdefault(engine.title, []).append(sum(counted) / 1e9)
    return needed, allocated


# Larger stacks would flatten the picture.
def readable(at: Sequence[int], stack: Series, size: float) -> tuple[list[int], Series]:
    most = _BEYOND * max(size, sum(area[0] for area in stack.values()))
    heights = [sum(areas) for areas in zip(*stack.values(), strict=True)]
    end = max(2, sum(height <= most for height in heights))
    return list(at[:end]), {name: area[:end] for name, area in stack.items()}


# Unfused, for a prompt, and for its last position with a cache.
def points(model: Model, batch: int, length: int, precision: Precision, convention: Convention) -> list[Point]:
    prompt, last = model.at(B=batch, S=length), model.at(B=batch, S=1)
    steps: tuple[tuple[Literal["prefill", "decode"], Numbers], ...] = (
        ("prefill", Numbers(prompt)),
        ("decode", Numbers(last, cached=length - 1)),
    )
    return [
        Point(step, part(model, moves.path) + _TWO_POSITIONS * moves.pairs, find_intensity([moves]))
        for step, sizes in steps
        for moves in count_traffic(model.spec.tree, model.spec.name, sizes, convention, precision.element)
        if moves.each
    ]


# The least times of a prompt, of its last position, and of a training step.
def bounds(
    model: Model, batch: int, length: int, precision: str, device: Device, recompute: Recompute = "none"
) -> tuple[roofline.TimeBound, roofline.TimeBound, roofline.TimeBound]:
    _, chosen = choose_rows("exact", precision)
    tree, name, whole, last = model.spec.tree, model.spec.name, model.at(B=batch, S=length), model.at(B=batch, S=1)
    cache = model.cache_bytes(chosen.dtype, B=batch, S=length).total
    return (
        roofline.bound_prefill(tree, name, whole, cache, chosen, device),
        roofline.bound_decode(tree, name, last, length - 1, cache, chosen, device),
        roofline.bound_training(tree, name, whole, chosen, device, recompute),
    )
