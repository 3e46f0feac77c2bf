"""Has some code a property: no position sees a later one, no row another, no order matters, a cache changes nothing?

Each assertion runs the code on what it is given, and again on that with one thing changed: no equations are needed.
Modules are tested as copies in float64 that do not train.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from einformer.errors import fail
from einformer.testing.code import named, prepared, result
from einformer.testing.verdict import disagree, its_own_errors

Array = NDArray[np.float64]
Step = Callable[..., tuple[Any, Any]]
TRIED = 16  # positions or rows at most, spread evenly


@dataclass(frozen=True, slots=True)
class Leak:
    """An output that moves as an input does that it should not see."""

    moved: int
    seen: int
    amount: float
    input: int


def assert_causal(f: Callable[..., Any], *inputs: torch.Tensor, axis: int = 1, tolerance: float = 1e-6) -> None:
    """Fail if an output at some position moves when an input at a later one does.

    >>> assert_causal(lambda z: z.cumsum(1), torch.ones(2, 5, 3))

    Positions are along `axis`, of the inputs and of the output; an input without that axis is left alone. One position of
    one input is changed at a time. `tolerance` is relative to the largest output. Raises Disagreement E911.
    """
    leaks = _leaks(prepared(f), inputs, axis, tolerance, lambda seen, moved: seen < moved)
    if leak := min(leaks, key=lambda leak: (leak.seen, leak.moved), default=None):
        message = f"position {leak.seen} of the output sees position {leak.moved} of {_named(leak, inputs)}"
        facts = [f"it moves by {leak.amount:.2g} of the largest output when that alone is changed"]
        raise disagree("E911", message, facts=facts, fix="a mask that hides later positions, `s' <= s`")


def assert_batch_independent(f: Callable[..., Any], *inputs: torch.Tensor, axis: int = 0, tolerance: float = 1e-6) -> None:
    """Fail if a row of the output moves when another row of an input does, or is another one when it is alone.

    >>> assert_batch_independent(lambda z: z.cumsum(1), torch.ones(2, 5, 3))

    Rows are along `axis`. `tolerance` is relative to the largest output. Raises Disagreement E912.
    """
    f = prepared(f)
    leaks = _leaks(f, inputs, axis, tolerance, lambda seen, moved: seen != moved)
    if leak := min(leaks, key=lambda leak: (leak.seen, leak.moved), default=None):
        message = f"row {leak.seen} of the output sees row {leak.moved} of {_named(leak, inputs)}"
        facts = [f"it moves by {leak.amount:.2g} of the largest output when that alone is changed"]
        raise disagree("E912", message, facts=facts, fix="operations along the other axes only")
    given = _doubled(inputs)
    whole = _value(f, given, axis)
    for row in _places(whole.shape[axis]):
        alone = _value(f, [_cut(x, axis, row, row + 1) for x in given], axis)
        if (amount := _amount(alone, whole.take([row], axis), whole)) > tolerance:
            message = f"row {row} of the output is another one when it is computed alone"
            raise disagree("E912", message, facts=[f"it departs by {amount:.2g} of the largest output"])


def assert_permutation_equivariant(
    f: Callable[..., Any], *inputs: torch.Tensor, axis: int = 1, tolerance: float = 1e-6
) -> None:
    """Fail unless the output of reordered inputs is the output in that order: no position knows where it stands.

    >>> assert_permutation_equivariant(lambda z: z - z.mean(1, keepdim=True), torch.ones(2, 5, 3))

    `tolerance` is relative to the largest output. Raises Disagreement E913.
    """
    f, given = prepared(f), _doubled(inputs)
    whole = _value(f, given, axis)
    forward = torch.arange(whole.shape[axis])
    for order in (forward.roll(1), forward.flip(0)):
        moved = _value(f, [x.index_select(axis, order) if _has(x, axis) else x for x in given], axis)
        for position, source in enumerate(order.tolist()):
            if (amount := _amount(moved.take([position], axis), whole.take([source], axis), whole)) > tolerance:
                message = f"position {source} has another output when it stands at {position}"
                facts = [f"it departs by {amount:.2g} of the largest output"]
                raise disagree("E913", message, facts=facts, fix="no positions, no mask, and no operation along the positions")


def assert_cache_consistent(
    f: Callable[..., Any], step: Step, *inputs: torch.Tensor, axis: int = 1, tolerance: float = 1e-6
) -> None:
    """Fail unless positions that are computed part after part, with what is kept between them, are those of the whole.

    >>> def step(f, kept, z):
    ...     z = z if kept is None else torch.cat([kept, z], 1)
    ...     return f(z)[:, -1:], z
    >>> assert_cache_consistent(lambda z: z.cumsum(1), step, torch.ones(2, 1, 3))

    `step(f, kept, *parts)` computes the next positions and returns them and what is to be kept; `kept` is None at first. One
    position at a time is tried, then a long part before single ones, and parts of several. Raises Disagreement E914.
    """
    f, given = prepared(f), _doubled(inputs)
    whole = _value(f, given, axis)
    for lengths in _partings(whole.shape[axis]):
        kept, start = None, 0
        for length in lengths:
            part = [_cut(x, axis, start, start + length) for x in given]
            with torch.no_grad(), its_own_errors(named(f), [f"an input has shape {tuple(x.shape)}" for x in part]):
                output, kept = step(f, kept, *part)
            answer, expected = result(output), whole.take(range(start, start + length), axis)
            if answer.shape != expected.shape or _amount(answer, expected, whole) > tolerance:
                raise _of_cache(answer, expected, whole, start, lengths, _value(f, part, axis), tolerance, axis)
            start += length


# -------------------------------------------------------------------------------------------------------------- leaks


def _leaks(
    f: Callable[..., Any], inputs: Sequence[torch.Tensor], axis: int, tolerance: float, hidden: Callable[[int, int], bool]
) -> Iterator[Leak]:
    """Every output place that moves with an input place that is hidden from it: changed by one input at a time."""
    given = _doubled(inputs)
    whole = _value(f, given, axis)
    for number, x in enumerate(given):
        for moved in _places(x.shape[axis]) if _has(x, axis) else ():
            other = [*given[:number], _moved(x, axis, moved), *given[number + 1 :]]
            value = _value(f, other, axis)
            for seen in range(whole.shape[axis]):
                amount = _amount(value.take([seen], axis), whole.take([seen], axis), whole)
                if hidden(seen, moved) and amount > tolerance:
                    yield Leak(moved, seen, amount, number)


def _moved(x: torch.Tensor, axis: int, place: int) -> torch.Tensor:
    """The input with other numbers at one place; tokens become others that occur elsewhere in it."""
    other = x.clone()
    at = other.select(axis, place)
    if x.is_floating_point():
        at += 1 + torch.rand(at.shape, generator=torch.Generator().manual_seed(place), dtype=x.dtype)
    else:
        low, high = int(x.min()), int(x.max())
        if low == high:
            raise fail("E915", f"all numbers of the input are {low}", fix="tokens of which some are different")
        at.copy_(low + (at - low + 1) % (high - low + 1))
    return other


def _places(count: int) -> list[int]:
    return sorted({round(place) for place in np.linspace(0, count - 1, min(count, TRIED))})


def _named(leak: Leak, inputs: Sequence[object]) -> str:
    return "the input" if len(inputs) == 1 else f"input {leak.input}"


# ------------------------------------------------------------------------------------------------------------- caches


def _partings(length: int) -> list[list[int]]:
    """One at a time; all but two, then one at a time; parts of three."""
    long = max(1, length - 2)
    parts = [[1] * length, [long] + [1] * (length - long), [min(3, length - start) for start in range(0, length, 3)]]
    return list(map(list, dict.fromkeys(map(tuple, parts))))


def _of_cache(
    answer: Array, expected: Array, whole: Array, start: int, lengths: list[int], alone: Array, tolerance: float, axis: int
) -> Exception:
    """Which positions depart, after how many that are kept, and whether what is kept is used at all."""
    parts = "one at a time" if set(lengths) == {1} else f"in parts of {', '.join(map(str, lengths))}"
    if answer.shape != expected.shape:
        message = f"{parts}, the part that starts at position {start} has shape {answer.shape}, not {expected.shape}"
        return disagree("E914", message, fix="the outputs of the new positions only")
    amounts = [_amount(answer.take([k], axis), expected.take([k], axis), whole) for k in range(answer.shape[axis])]
    first_wrong = next(k for k, amount in enumerate(amounts) if not amount <= tolerance)
    message = f"computed {parts}, position {start + first_wrong} is another one than in the whole"
    facts = [f"it departs by {amounts[first_wrong]:.2g} of the largest output, with {start} positions before its part"]
    if start and answer.shape == alone.shape and _amount(answer, alone, whole) <= tolerance:
        facts.append("its part has the outputs that it has alone: what is kept is not used, and positions start again")
    return disagree("E914", message, facts=facts, fix="keys and values of all positions so far, at their own positions")


# ------------------------------------------------------------------------------------------------------------- values


def _doubled(inputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    return [x.detach().double() if x.is_floating_point() else x for x in inputs]


def _value(f: Callable[..., Any], inputs: Sequence[torch.Tensor], axis: int) -> Array:
    """The output, which must have the axis. Raises EinformerError E915."""
    with torch.no_grad(), its_own_errors(named(f), [f"an input has shape {tuple(x.shape)}" for x in inputs]):
        value = result(f(*inputs))
    if value.ndim <= axis:
        raise fail("E915", f"the output has {value.ndim} axes, and no axis {axis}", fix="`axis=` the number of one that it has")
    return value


def _has(x: torch.Tensor, axis: int) -> bool:
    return x.ndim > axis


def _cut(x: torch.Tensor, axis: int, start: int, end: int) -> torch.Tensor:
    return x.narrow(axis, start, end - start) if _has(x, axis) else x


def _amount(one: Array, other: Array, whole: Array) -> float:
    """The largest difference, by the largest number of the whole; NaN on one side only is a difference without bound."""
    if not np.array_equal(np.isfinite(one), np.isfinite(other)):
        return float("inf")
    known, scale = np.isfinite(one), float(np.abs(whole[np.isfinite(whole)]).max(initial=0)) or 1.0
    return float(np.abs(one - other)[known].max(initial=0)) / scale
