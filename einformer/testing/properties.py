"""Asserts properties of code: no position depends on a later one, no row on another, order does not matter, a cache
changes nothing.

Each assertion runs the code on its inputs, and again with one thing changed, so equations are not needed. Modules are
tested as copies in float64 in evaluation mode.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from einformer.errors import fail
from einformer.testing.code import name_code, prepare, to_array
from einformer.testing.verdict import disagree, its_own_errors

Array = NDArray[np.float64]
Step = Callable[..., tuple[Any, Any]]
TRIED = 16  # positions or rows at most, spread evenly


@dataclass(frozen=True, slots=True)
class Leak:
    """An output that changes with an input that is hidden from it."""

    moved: int
    seen: int
    amount: float
    input: int


def assert_causal(f: Callable[..., Any], *inputs: torch.Tensor, axis: int = 1, tolerance: float = 1e-6) -> None:
    """Fails if an output at some position changes with an input at a later one.

    >>> assert_causal(lambda z: z.cumsum(1), torch.ones(2, 5, 3))

    Positions are along `axis`, in the inputs and in the output. An input without this axis stays. One position of one input
    is changed at a time. `tolerance` is relative to the largest output. Raises Disagreement E911, and EinformerError E915 if
    the output has another length.
    """
    f = prepare(f)
    _check_lengths(f, inputs, axis)
    leaks = _find_leaks(f, inputs, axis, tolerance, lambda seen, moved: seen < moved)
    if leak := min(leaks, key=lambda leak: (leak.seen, leak.moved), default=None):
        message = f"position {leak.seen} of the output sees position {leak.moved} of {_name_input(leak, inputs)}"
        facts = [f"it moves by {leak.amount:.2g} of the largest output when that alone is changed"]
        raise disagree("E911", message, facts=facts, fix="a mask that hides later positions, `s' <= s`")


def assert_batch_independent(f: Callable[..., Any], *inputs: torch.Tensor, axis: int = 0, tolerance: float = 1e-6) -> None:
    """Fails if a row of the output changes with another row of an input, or when it is computed alone.

    >>> assert_batch_independent(lambda z: z.cumsum(1), torch.ones(2, 5, 3))

    Rows are along `axis`. `tolerance` is relative to the largest output. Raises Disagreement E912.
    """
    f = prepare(f)
    leaks = _find_leaks(f, inputs, axis, tolerance, lambda seen, moved: seen != moved)
    if leak := min(leaks, key=lambda leak: (leak.seen, leak.moved), default=None):
        message = f"row {leak.seen} of the output sees row {leak.moved} of {_name_input(leak, inputs)}"
        facts = [f"it moves by {leak.amount:.2g} of the largest output when that alone is changed"]
        raise disagree("E912", message, facts=facts, fix="operations along the other axes only")
    doubles = _to_double(inputs)
    whole = _find_output(f, doubles, axis)
    for row in _choose_places(whole.shape[axis]):
        alone = _find_output(f, [_cut_part(x, axis, row, row + 1) for x in doubles], axis)
        if (amount := _measure_difference(alone, whole.take([row], axis), whole)) > tolerance:
            message = f"row {row} of the output is another one when it is computed alone"
            raise disagree("E912", message, facts=[f"it departs by {amount:.2g} of the largest output"])


def assert_permutation_equivariant(
    f: Callable[..., Any], *inputs: torch.Tensor, axis: int = 1, tolerance: float = 1e-6
) -> None:
    """Fails unless the output of reordered inputs is the reordered output.

    >>> assert_permutation_equivariant(lambda z: z - z.mean(1, keepdim=True), torch.ones(2, 5, 3))

    `tolerance` is relative to the largest output. Raises Disagreement E913.
    """
    f, doubles = prepare(f), _to_double(inputs)
    whole = _find_output(f, doubles, axis)
    forward = torch.arange(whole.shape[axis])
    for order in (forward.roll(1), forward.flip(0)):
        moved = _find_output(f, [x.index_select(axis, order) if _has_axis(x, axis) else x for x in doubles], axis)
        for position, source in enumerate(order.tolist()):
            if (amount := _measure_difference(moved.take([position], axis), whole.take([source], axis), whole)) > tolerance:
                message = f"position {source} has another output when it stands at {position}"
                facts = [f"it departs by {amount:.2g} of the largest output"]
                raise disagree("E913", message, facts=facts, fix="no positions, no mask, and no operation along the positions")


def assert_cache_consistent(
    f: Callable[..., Any], step: Step, *inputs: torch.Tensor, axis: int = 1, tolerance: float = 1e-6
) -> None:
    """Fails unless decoding part by part, with a cache, gives the output of the whole.

    >>> def step(f, kept, z):
    ...     z = z if kept is None else torch.cat([kept, z], 1)
    ...     return f(z)[:, -1:], z
    >>> assert_cache_consistent(lambda z: z.cumsum(1), step, torch.ones(2, 1, 3))

    `step(f, kept, *parts)` computes the next positions, and returns them and the new cache. `kept` is None at first. The
    parts are single positions, a long part before single ones, and parts of several. Raises Disagreement E914.
    """
    f, doubles = prepare(f), _to_double(inputs)
    whole = _find_output(f, doubles, axis)
    for lengths in _choose_partings(whole.shape[axis]):
        kept, start = None, 0
        for length in lengths:
            part = [_cut_part(x, axis, start, start + length) for x in doubles]
            with torch.no_grad(), its_own_errors(name_code(f), [f"an input has shape {tuple(x.shape)}" for x in part]):
                output, kept = step(f, kept, *part)
            answer, expected = to_array(output), whole.take(range(start, start + length), axis)
            if answer.shape != expected.shape or _measure_difference(answer, expected, whole) > tolerance:
                raise _report_cache(answer, expected, whole, start, lengths, _find_output(f, part, axis), tolerance, axis)
            start += length


# -------------------------------------------------------------------------------------------------------------- leaks


def _find_leaks(
    f: Callable[..., Any], inputs: Sequence[torch.Tensor], axis: int, tolerance: float, hidden: Callable[[int, int], bool]
) -> Iterator[Leak]:
    doubles = _to_double(inputs)
    whole = _find_output(f, doubles, axis)
    for number, x in enumerate(doubles):
        for moved in _choose_places(x.shape[axis]) if _has_axis(x, axis) else ():
            other = [*doubles[:number], _change_place(x, axis, moved), *doubles[number + 1 :]]
            value = _find_output(f, other, axis)
            for seen in range(whole.shape[axis]):
                amount = _measure_difference(value.take([seen], axis), whole.take([seen], axis), whole)
                if hidden(seen, moved) and amount > tolerance:
                    yield Leak(moved, seen, amount, number)


# Where lengths differ, as of a model that returns its last logits alone, positions have no places in common.
def _check_lengths(f: Callable[..., Any], inputs: Sequence[torch.Tensor], axis: int) -> None:
    length = _find_output(f, _to_double(inputs), axis).shape[axis]
    for number, x in enumerate(inputs):
        if _has_axis(x, axis) and x.shape[axis] != length:
            name = "the input" if len(inputs) == 1 else f"input {number}"
            message = f"the output has the length {length} along axis {axis}, and {name} has {x.shape[axis]}"
            fix = "code that returns all positions, not the last alone; an input without positions inside a `lambda`"
            raise fail("E915", message, fix=fix)


# Tokens become others that occur elsewhere in the input.
def _change_place(x: torch.Tensor, axis: int, place: int) -> torch.Tensor:
    other = x.clone()
    numbers = other.select(axis, place)
    if x.is_floating_point():
        numbers += 1 + torch.rand(numbers.shape, generator=torch.Generator().manual_seed(place), dtype=x.dtype)
    else:
        low, high = int(x.min()), int(x.max())
        if low == high:
            raise fail("E915", f"all numbers of the input are {low}", fix="tokens of which some are different")
        numbers.copy_(low + (numbers - low + 1) % (high - low + 1))
    return other


def _choose_places(count: int) -> list[int]:
    return sorted({round(place) for place in np.linspace(0, count - 1, min(count, TRIED))})


def _name_input(leak: Leak, inputs: Sequence[object]) -> str:
    return "the input" if len(inputs) == 1 else f"input {leak.input}"


# ------------------------------------------------------------------------------------------------------------- caches


# One at a time, then all but two and one at a time, then parts of three.
def _choose_partings(length: int) -> list[list[int]]:
    long = max(1, length - 2)
    parts = [[1] * length, [long] + [1] * (length - long), [min(3, length - start) for start in range(0, length, 3)]]
    return list(map(list, dict.fromkeys(map(tuple, parts))))


def _report_cache(
    answer: Array, expected: Array, whole: Array, start: int, lengths: list[int], alone: Array, tolerance: float, axis: int
) -> Exception:
    parts = "one at a time" if set(lengths) == {1} else f"in parts of {', '.join(map(str, lengths))}"
    if answer.shape != expected.shape:
        message = f"{parts}, the part that starts at position {start} has shape {answer.shape}, not {expected.shape}"
        return disagree("E914", message, fix="the outputs of the new positions only")
    amounts = [_measure_difference(answer.take([k], axis), expected.take([k], axis), whole) for k in range(answer.shape[axis])]
    first_wrong = next(k for k, amount in enumerate(amounts) if not amount <= tolerance)
    message = f"computed {parts}, position {start + first_wrong} is another one than in the whole"
    facts = [f"it departs by {amounts[first_wrong]:.2g} of the largest output, with {start} positions before its part"]
    if start and answer.shape == alone.shape and _measure_difference(answer, alone, whole) <= tolerance:
        facts.append("its part has the outputs that it has alone: what is kept is not used, and positions start again")
    return disagree("E914", message, facts=facts, fix="keys and values of all positions so far, at their own positions")


# ------------------------------------------------------------------------------------------------------------- values


def _to_double(inputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    return [x.detach().double() if x.is_floating_point() else x for x in inputs]


def _find_output(f: Callable[..., Any], inputs: Sequence[torch.Tensor], axis: int) -> Array:
    with torch.no_grad(), its_own_errors(name_code(f), [f"an input has shape {tuple(x.shape)}" for x in inputs]):
        value = to_array(f(*inputs))
    if value.ndim <= axis:
        raise fail("E915", f"the output has {value.ndim} axes, and no axis {axis}", fix="`axis=` the number of one that it has")
    return value


def _has_axis(x: torch.Tensor, axis: int) -> bool:
    return x.ndim > axis


def _cut_part(x: torch.Tensor, axis: int, start: int, end: int) -> torch.Tensor:
    return x.narrow(axis, start, end - start) if _has_axis(x, axis) else x


# NaN on one side only is a difference without bound.
def _measure_difference(one: Array, other: Array, whole: Array) -> float:
    if not np.array_equal(np.isfinite(one), np.isfinite(other)):
        return float("inf")
    finite, scale = np.isfinite(one), float(np.abs(whole[np.isfinite(whole)]).max(initial=0)) or 1.0
    return float(np.abs(one - other)[finite].max(initial=0)) / scale
