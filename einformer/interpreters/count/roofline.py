"""Bounds the time of a step on a device from below, never an estimate: its FLOPs at the peak rate, or the bytes
that must move at least once at the full bandwidth, whichever takes longer.

What must be computed: the products of the text, under a mask only the pairs that it allows, of experts those chosen; of a
prompt only the last logits. What must move: the weights of the products once, and each number of the cache, read or written;
in training what the optimiser changes, read and written. Everything else may stay on the chip. Left out as well are the
tables of which a step reads single rows, and a second expert that another token chooses.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from einformer.interpreters.count import numbers
from einformer.interpreters.count.conventions import CONVENTIONS
from einformer.interpreters.count.derived import derive
from einformer.interpreters.count.devices import Device
from einformer.interpreters.count.precisions import Precision
from einformer.interpreters.count.rules import Recompute
from einformer.language.calls import axis_of
from einformer.language.sizes import Legend
from einformer.language.tree import Index, Spec, Tensor, Weight
from einformer.language.walk import subexpressions
from einformer.language.weights import key

Work = Literal["prefill", "decode", "training"]
EXACT = CONVENTIONS["exact"]
PREFILL = replace(EXACT, name="prefill", logits="last")


@dataclass(frozen=True, slots=True)
class Bound:
    """A step takes so many FLOPs and moves so many bytes, on `count` devices that share both: it takes `seconds` at least.

    >>> from einformer.interpreters.count.devices import read_devices
    >>> Bound("decode", 2 * 200 * 40 * 10**9, 80 * 10**9, read_devices()["a100-80gb"], 312e12, 4).seconds  # Falcon, 200 rows
    0.01282051282051282
    """

    work: Work
    flops: int
    moved: int
    device: Device
    rate: float
    count: int = 1

    def __str__(self) -> str:
        """How long it takes at least, and why."""
        if self.limit == "compute":
            why = f"{self.flops:,} FLOPs at {self.rate * self.count / 1e12:g} TFLOP/s"
        else:
            why = f"{self.moved:,} bytes at {self.device.bandwidth * self.count / 1e12:g} TB/s"
        return f"{self.time} for {self.work} on {self.device.title}: {why}"

    @property
    def computing(self) -> float:
        """Seconds that the FLOPs take at the peak rate."""
        return self.flops / (self.rate * self.count)

    @property
    def moving(self) -> float:
        """Seconds that the bytes take at the full bandwidth."""
        return self.moved / (self.device.bandwidth * self.count)

    @property
    def seconds(self) -> float:
        """No implementation takes less."""
        return max(self.computing, self.moving)

    @property
    def time(self) -> str:
        """`3.2 ms`."""
        value, unit = self.seconds, "s"
        for smaller in ("ms", "µs", "ns"):
            if value >= 1:
                break
            value, unit = value * 1000, smaller
        return f"{value:.3g} {unit}"

    @property
    def limit(self) -> Literal["compute", "memory"]:
        """What the bound comes from."""
        return "compute" if self.computing >= self.moving else "memory"


def bound_prefill(
    spec: Spec, name: str, legend: Legend, cache: int, precision: Precision, device: Device, count: int = 1
) -> Bound:
    """The forward pass of a prompt that fills a cache of so many bytes. Raises EinformerError E601, E605."""
    flops = numbers.sum_counts(numbers.count_flops(spec, name, legend, PREFILL))
    moved = count_read_weights(spec, name, legend, precision) + cache
    return Bound("prefill", flops, moved, device, device.rate(precision), count)


def bound_decode(
    spec: Spec, name: str, single: Legend, cached: int, cache: int, precision: Precision, device: Device, count: int = 1
) -> Bound:
    """One more position after the `cached` ones; `cache` are its bytes with it. Raises EinformerError E601, E605."""
    flops = numbers.sum_counts(numbers.count_flops(spec, name, single, EXACT, cached))
    moved = count_read_weights(spec, name, single, precision) + cache
    return Bound("decode", flops, moved, device, device.rate(precision), count)


def bound_training(
    spec: Spec,
    name: str,
    legend: Legend,
    precision: Precision,
    device: Device,
    recompute: Recompute = "none",
    count: int = 1,
) -> Bound:
    """A training step; gradients may stay on the chip. Raises EinformerError E601, E605."""
    flops = sum(each.spent("training", recompute) for each in numbers.count_flops(spec, name, legend, EXACT))
    state = precision.total - precision.gradients - precision.main_gradients
    moved = 2 * state * numbers.count_parameters(numbers.count_weights(spec, name, legend))
    return Bound("training", flops, moved, device, device.rate(precision), count)


def count_read_weights(spec: Spec, name: str, legend: Legend, precision: Precision) -> int:
    """The bytes of the weights that a forward pass cannot but read: not tables of which it reads rows."""
    rows = _list_tables(spec, name)
    counts = (
        count for count in numbers.count_weights(spec, name, legend) if count.trained and (count.path, count.name) not in rows
    )
    return precision.parameters * sum(count.times * count.active for count in counts)


def _list_tables(spec: Spec, name: str) -> set[tuple[str, str]]:
    """The weights that are read by number only, as those of tokens and positions are: path and name."""
    derived, layers = derive(spec, name), {layer.name: layer for layer in spec.layers}
    tables = {(held.path, key(held.weight.name)) for held in derived.held if held.embedding}
    for done in derived.done:
        weights = {weight.name: weight for weight in layers[done.layer].weights if weight.kind == "trained"}
        for e in subexpressions(done.equation.right):
            if isinstance(e, Tensor) and e.name in weights and _reads_whole(e, weights[e.name]):
                tables -= {(done.path, key(read)) for read in (e.name, *_list_ties(weights[e.name]))}
    return tables


def _reads_whole(e: Tensor, weight: Weight) -> bool:
    """Does each slot run over all of its axis?"""
    pairs = zip(e.slots, weight.indices, strict=True)
    return all(isinstance(slot, Index) and axis_of(slot.letter) == axis_of(index.letter) for slot, index in pairs)


def _list_ties(weight: Weight) -> set[str]:
    """The weights that it is, where it is none of its own."""
    ties = () if weight.default is None or weight.optional else subexpressions(weight.default)
    return {e.name for e in ties if isinstance(e, Tensor)}
