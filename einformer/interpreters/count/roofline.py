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

from einformer.interpreters.count.conventions import CONVENTIONS, Device, Precision, Work
from einformer.interpreters.count.numbers import Numbers
from einformer.interpreters.count.rules import Recompute, count_flops, count_weights, sum_counts, sum_trained
from einformer.language.sizes import Legend
from einformer.language.tree import Spec

EXACT = CONVENTIONS["exact"]
PREFILL = replace(EXACT, name="prefill", logits="last")


@dataclass(frozen=True, slots=True)
class TimeBound:
    """A step takes so many FLOPs and moves so many bytes, on `count` devices that share both: it takes `seconds` at least.

    >>> from einformer.interpreters.count.conventions import read_devices
    >>> TimeBound("decode", 2 * 200 * 40 * 10**9, 80 * 10**9, read_devices()["a100-80gb"], 312e12, 4).seconds  # Falcon
    0.01282051282051282
    """

    work: Work
    flops: int
    moved: int
    device: Device
    rate: float
    count: int = 1

    def __str__(self) -> str:
        if self.limit == "compute":
            why = f"{self.flops:,} FLOPs at {self.rate * self.count / 1e12:g} TFLOP/s"
        else:
            why = f"{self.moved:,} bytes at {self.device.bandwidth * self.count / 1e12:g} TB/s"
        return f"{self.time} for {self.work} on {self.device.title}: {why}"

    @property
    def computing(self) -> float:
        return self.flops / (self.rate * self.count)

    @property
    def moving(self) -> float:
        return self.moved / (self.device.bandwidth * self.count)

    @property
    def seconds(self) -> float:
        return max(self.computing, self.moving)

    # `3.2 ms`.
    @property
    def time(self) -> str:
        value, unit = self.seconds, "s"
        for smaller in ("ms", "µs", "ns"):
            if value >= 1:
                break
            value, unit = value * 1000, smaller
        return f"{value:.3g} {unit}"

    @property
    def limit(self) -> Literal["compute", "memory"]:
        return "compute" if self.computing >= self.moving else "memory"


# Bounds the forward pass of a prompt that fills a cache of so many bytes. Raises EinformerError E601, E605.
def bound_prefill(
    spec: Spec, name: str, legend: Legend, cache: int, precision: Precision, device: Device, count: int = 1
) -> TimeBound:
    flops = sum_counts(count_flops(spec, name, Numbers(legend), PREFILL))
    moved = count_read_weights(spec, name, legend, precision) + cache
    return TimeBound("prefill", flops, moved, device, device.rate(precision), count)


# Bounds one more position after the `cached` ones; `cache` are its bytes with it. Raises EinformerError E601, E605.
def bound_decode(
    spec: Spec, name: str, single: Legend, cached: int, cache: int, precision: Precision, device: Device, count: int = 1
) -> TimeBound:
    flops = sum_counts(count_flops(spec, name, Numbers(single, cached=cached), EXACT))
    moved = count_read_weights(spec, name, single, precision) + cache
    return TimeBound("decode", flops, moved, device, device.rate(precision), count)


# Bounds a training step; gradients may stay on the chip. Raises EinformerError E601, E605.
def bound_training(
    spec: Spec,
    name: str,
    legend: Legend,
    precision: Precision,
    device: Device,
    recompute: Recompute = "none",
    count: int = 1,
) -> TimeBound:
    flops = sum(done.spent("training", recompute) for done in count_flops(spec, name, Numbers(legend), EXACT))
    state = precision.total - precision.gradients - precision.main_gradients
    moved = 2 * state * sum_trained(count_weights(spec, name, Numbers(legend)))
    return TimeBound("training", flops, moved, device, device.rate(precision), count)


# A forward pass reads only rows of a table, so tables do not count.
def count_read_weights(spec: Spec, name: str, legend: Legend, precision: Precision) -> int:
    read = (count for count in count_weights(spec, name, Numbers(legend)) if count.trained and not count.rows)
    return precision.parameters * sum(count.times * count.active for count in read)
