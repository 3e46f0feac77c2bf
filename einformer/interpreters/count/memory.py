"""Counts the bytes of training a model, or of running it, each component apart: the sums of papers differ in their parts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from typing import Generic

from einformer.interpreters.count.derived import Derived
from einformer.interpreters.count.kept import Carried, Kept, Value
from einformer.interpreters.count.precisions import Precision
from einformer.interpreters.count.rules import Arithmetic, N, Recompute, WeightCount, has_two_positions, product, total
from einformer.language.calls import axis_of
from einformer.program.orders import Letters


@dataclass(frozen=True, slots=True)
class Activation(Generic[N]):
    """The bytes of what an equation keeps for the backward pass: `each`, so often in the loops around."""

    path: str
    layer: str
    text: str
    letters: str
    what: str
    each: N
    turns: tuple[N, ...]

    @property
    def total(self) -> N:
        """In all turns together."""
        return product((*self.turns, self.each))


@dataclass(frozen=True, slots=True)
class Memory(Generic[N]):
    """Bytes on one device, by component."""

    parameters: N
    gradients: N
    main_gradients: N
    master: N
    momentum: N
    variance: N
    activations: N
    logits: N

    @property
    def total(self) -> N:
        """All together: the peak of a training step, if nothing is freed before its end."""
        parts: list[N] = [getattr(self, each.name) for each in fields(self)]
        return total(parts)


def count_activations(
    kept: Iterable[Kept],
    carried: Iterable[Carried],
    derived: Derived,
    arithmetic: Arithmetic[N],
    element: N | int,
    recompute: Recompute = "none",
    shards: Mapping[str, N] | None = None,
) -> tuple[Activation[N], ...]:
    """The bytes of each value that is kept, `element` for each number and 1 for each of a mask.

    `shards` say how many devices share the axes of some letters, `{"afs": 8}`: heads, else the MLP, else positions.
    `selective` recomputation drops what has two positions, the core of attention; `full` keeps of a block only its input.
    """
    sizes = _Sizes(arithmetic, shards or {})
    values = [
        _count_activation(kept_value, value, sizes, element)
        for kept_value in kept
        for value in kept_value.values(arithmetic.typical)
        if not (recompute == "selective" and has_two_positions(value.letters, derived.time))
        and not (recompute == "full" and any(turns.letters for turns in value.turns))
    ]
    inputs = [_count_input(kept_value, sizes, element) for kept_value in carried] if recompute == "full" else []
    return (*inputs, *values)


def count_training(
    counts: Iterable[WeightCount[N]],
    kept: Iterable[Activation[N]],
    logits: N | int,
    arithmetic: Arithmetic[N],
    precision: Precision,
    shards: Mapping[str, N] | None = None,
    zero: int = 0,
    ranks: N | int = 1,
) -> Memory[N]:
    """The bytes of a training step on one device; ZeRO of stage `zero` shares between so many data-parallel `ranks`."""
    held, state = count_on_one_device(counts, arithmetic, shards or {}), {}
    for component in fields(Precision)[2:8]:
        whole = product((held, getattr(precision, component.name)))
        state[component.name] = arithmetic.divided(whole, ranks) if zero >= _STAGES.get(component.name, 1) else whole
    return Memory(**state, activations=total(each.total for each in kept), logits=product((logits,)))


def count_on_one_device(counts: Iterable[WeightCount[N]], arithmetic: Arithmetic[N], shards: Mapping[str, N]) -> N:
    """The trained parameters on each of the devices that share axes."""
    sizes = _Sizes(arithmetic, shards)
    return total(sizes.divided(count.total, count.merged.union(count.letters)) for count in counts if count.trained)


_STAGES = {"parameters": 3, "gradients": 2}  # of ZeRO; what belongs to the optimiser is shared from the first on


@dataclass(frozen=True, slots=True)
class _Sizes(Generic[N]):
    """The sizes of tensors whose axes devices share."""

    arithmetic: Arithmetic[N]
    shards: Mapping[str, N]

    def shared(self, letters: Letters, factors: Iterable[N | int]) -> N:
        """The product of some sizes and factors, on one device."""
        whole: N = product((*map(self.arithmetic.length, sorted(letters)), *factors))
        return self.divided(whole, letters)

    def divided(self, whole: N, letters: Letters) -> N:
        """What one device has: a group of devices shares one axis of a tensor, the first that it has."""
        if not self.shards:
            return whole
        axes = set(map(axis_of, letters))
        devices: N = product(devices for shared, devices in self.shards.items() if axes & set(shared))
        return self.arithmetic.divided(whole, devices)


def _count_activation(kept: Kept, value: Value, sizes: _Sizes[N], element: N | int) -> Activation[N]:
    chosen = {bytes_of_one.letter: bytes_of_one.count for bytes_of_one in value.chosen}
    counts = [sizes.arithmetic.chosen(letter, chosen[letter]) for letter in sorted(value.letters & chosen.keys())]
    bytes_of_one = sizes.shared(value.letters - chosen.keys(), (*counts, element if kept.what == "value" else 1))
    return Activation(
        kept.path, kept.layer, kept.equation.span.text, _spell(value), kept.what, bytes_of_one, _count_turns(value, sizes)
    )


def _count_input(carried: Carried, sizes: _Sizes[N], element: N | int) -> Activation[N]:
    value = carried.value
    bytes_of_one = sizes.shared(value.letters, (element,))
    return Activation(carried.path, "", "", _spell(value), "input of a block", bytes_of_one, _count_turns(value, sizes))


def _spell(value: Value) -> str:
    return "".join(sorted(value.letters))


def _count_turns(value: Value, sizes: _Sizes[N]) -> tuple[N, ...]:
    return tuple(map(sizes.arithmetic.turns, value.turns))
