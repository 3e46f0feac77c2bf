"""What is known of a value of which only some numbers are known, and of what is made of such values?"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from itertools import zip_longest
from typing import Any

import numpy as np
from numpy.typing import NDArray

from einformer.errors import EinformerError, fail
from einformer.notation.primitives import COMPARISONS
from einformer.notation.sizes import Legend
from einformer.notation.tree import Scalar

Array = NDArray[Any]
NEVER = -1  # depends on no position
MAXIMUM_CELLS = 4_000_000


@dataclass(frozen=True, slots=True)
class Known:
    """What is known of a value at sampled positions: its number, NaN where unknown, and the latest position it depends on."""

    dims: tuple[str, ...]
    number: Array
    late: Array

    def over(self, dims: Sequence[str]) -> tuple[Array, Array]:
        """Number and latest position with their axes in the order of `dims`."""
        order = [self.dims.index(dim) for dim in dims if dim in self.dims]
        shape = [self.number.shape[self.dims.index(dim)] if dim in self.dims else 1 for dim in dims]
        return self.number.transpose(order).reshape(shape), self.late.transpose(order).reshape(shape)


@dataclass(frozen=True, slots=True)
class Kept:
    """A defined tensor: what is known of it over those of its slots that matter (their places), and over carried indices."""

    places: tuple[int, ...]
    letters: tuple[str, ...]
    visible: frozenset[int]  # the places that were defined at s', over all visible positions
    known: Known
    bare: bool = False  # it has no subscript
    rows: Mapping[int, str] = field(default_factory=dict)  # the slots of rows, with their letters


def constant(value: float) -> Known:
    """What is known of a number."""
    return Known((), np.array(float(value)), np.array(NEVER))


def settled(dims: tuple[str, ...], number: Array, late: Array) -> Known:
    """A known number depends on no position."""
    return Known(dims, number, np.where(np.isnan(number), late, NEVER))


def bounded(*shapes: Sequence[int]) -> None:
    """R13: no formula is looked at for more numbers at once than fit."""
    if math.prod(map(max, zip_longest(*map(reversed, shapes), fillvalue=1))) > MAXIMUM_CELLS:
        raise fail("E002", "too many indices are numbers of the same formula", fix="formulas of fewer indices")


def combined(f: Callable[..., Array], *parts: Known) -> Known:
    """A function of several values: its number where that is known, else it depends on whatever they depend on."""
    dims = tuple(dict.fromkeys(dim for part in parts for dim in part.dims))
    pairs = [part.over(dims) for part in parts]
    bounded(*(number.shape for number, _ in pairs))
    with np.errstate(all="ignore"):
        number = f(*(number for number, _ in pairs))
    late = reduce(np.maximum, (late for _, late in pairs))
    number, late = np.broadcast_arrays(number, late)
    return settled(dims, number, late)


def collapsed(known: Known, dims: tuple[str, ...]) -> Known:
    """Without these dimensions: the latest position, and the number where it is the same along them."""
    if not dims:
        return known
    axes = tuple(known.dims.index(dim) for dim in dims)
    least, most = known.number.min(axis=axes), known.number.max(axis=axes)
    rest = tuple(dim for dim in known.dims if dim not in dims)
    return Known(rest, np.where(least == most, least, np.nan), known.late.max(axis=axes))


def looked_up(kept: Kept, slots: Sequence[Known], axes: Sequence[Array], times: Sequence[bool]) -> Known:
    """What was kept, at the numbers of its slots: by name where a slot is an index, else among the samples of its axis."""
    carried = kept.known.dims[len(kept.places) :]
    dims = tuple(dict.fromkeys(dim for slot in slots for dim in slot.dims))
    numbers = [slot.over(dims)[0] for slot in slots]
    found = [np.clip(np.searchsorted(s, np.nan_to_num(n, nan=0)), 0, len(s) - 1) for s, n in zip(axes, numbers, strict=True)]
    number, late = kept.known.number[tuple(found)], kept.known.late[tuple(found)]
    widen = (..., *[None] * len(carried))
    sampled = reduce(np.logical_and, (s[f] == n for s, f, n in zip(axes, found, numbers, strict=True)), np.array(True))[widen]
    number = np.where(sampled, number, np.nan)
    positions = [n for is_time, n in zip(times, numbers, strict=True) if is_time]
    if len(positions) == 1 and (kept.known.late > NEVER).any():  # it depends on nothing later, also between the samples
        late = np.where(sampled, late, np.where(np.isnan(positions[0]), np.inf, positions[0])[widen])
    else:
        late = np.where(sampled, late, NEVER)
    inside = reduce(np.logical_and, (~(n < 0) for n in positions), np.array(True))[widen]
    shape = np.broadcast_shapes(number.shape, *(n.shape + (1,) * len(carried) for n in numbers))
    number, late = (
        np.broadcast_to(np.where(inside, number, 0.0), shape),
        np.broadcast_to(np.where(inside, late, NEVER), shape),
    )
    return Known((*dims, *carried), number, late)


def selected(legend: Legend, name: str, *numbers: Array) -> Array:
    """A scalar of the legend at the numbers of its slots; of a weight nothing is known."""
    scalar = legend.scalars.get(name)
    if scalar is None:
        return np.array(np.nan)
    found: Array = np.vectorize(lambda *at: _element(legend, scalar, at), otypes=[np.float64])(*numbers)
    return found


def _element(legend: Legend, scalar: Scalar, at: tuple[float, ...]) -> float:
    try:
        return float(legend.element(scalar, [int(n) for n in at]))
    except (EinformerError, IndexError, ValueError, OverflowError):
        return math.nan


def _any(found: Iterable[Array]) -> Array:
    return reduce(np.logical_or, found)


def added(*numbers: Array) -> Array:
    """-inf swallows what is unknown, but not inf."""
    masked = _any(number == -np.inf for number in numbers) & ~_any(number == np.inf for number in numbers)
    return np.where(masked, -np.inf, reduce(np.add, numbers))


def multiplied(*numbers: Array) -> Array:
    """Zero swallows what is unknown, but not what is known to be infinite."""
    zero = _any(number == 0 for number in numbers) & ~_any(np.isinf(number) for number in numbers)
    return np.where(zero, 0.0, reduce(np.multiply, numbers))


def divided(top: Array, bottom: Array) -> Array:
    """Zero over what is unknown is zero."""
    return np.where((top == 0) & (bottom != 0), 0.0, top / bottom)


def _and(a: Array, b: Array) -> Array:
    return np.where((a == 0) | (b == 0), 0.0, np.where(np.isnan(a) | np.isnan(b), np.nan, 1.0))


def _or(a: Array, b: Array) -> Array:
    return np.where((a == 1) | (b == 1), 1.0, np.where(np.isnan(a) | np.isnan(b), np.nan, 0.0))


def _compare(f: Callable[[Array, Array], Array]) -> Callable[[Array, Array], Array]:
    return lambda a, b: np.where(np.isnan(a) | np.isnan(b), np.nan, f(a, b))


def _where(condition: Known, then: Known, otherwise: Known) -> Known:
    """The branch that is taken; where that is not known, either."""
    dims = tuple(dict.fromkeys((*condition.dims, *then.dims, *otherwise.dims)))
    (c, c_late), (a, a_late), (b, b_late) = (part.over(dims) for part in (condition, then, otherwise))
    bounded(c.shape, a.shape, b.shape)
    number = np.where(c == 1, a, np.where(c == 0, b, np.where(a == b, a, np.nan)))
    late = np.where(c == 1, a_late, np.where(c == 0, b_late, np.maximum(np.maximum(a_late, b_late), c_late)))
    return settled(dims, *np.broadcast_arrays(number, late))


def _function(f: Callable[..., Array]) -> Callable[..., Known]:
    return lambda *parts: combined(f, *parts)


def _unknown_but(zero: float | None = None, low: float | None = None) -> Callable[..., Known]:
    """A function of which only the values at 0 and at -inf matter here."""

    def known(x: Array) -> Array:
        at_zero = np.where(x == 0, np.nan if zero is None else zero, np.nan)
        return np.where(x == -np.inf, np.nan if low is None else low, at_zero)

    return _function(known)


# What an operator passes over: elements that are this do not matter. A mean counts its elements, so for it all of them do.
NEUTRAL = {"sum": 0.0, "max": -np.inf, "lse": -np.inf, "Sm": -np.inf, "top": -np.inf, "min": np.inf}
_NUMPY: dict[str, Callable[..., Array]] = {
    "<": np.less, "<=": np.less_equal, ">": np.greater, ">=": np.greater_equal, "==": np.equal, "!=": np.not_equal,
}  # fmt: skip
FUNCTIONS: dict[str, Callable[..., Known]] = {
    **{name: _function(_compare(_NUMPY[name])) for name in COMPARISONS},
    **{
        name: _function(getattr(np, name))
        for name in ("exp", "log", "log2", "sin", "cos", "tanh", "sqrt", "abs", "floor", "ceil")
    },
    **{name: _unknown_but(zero=0, low=0) for name in ("gelu", "gelutanh", "silu")},
    "relu": _function(lambda x: np.maximum(x, 0)),
    "sigmoid": _unknown_but(low=0),
    "softplus": _unknown_but(low=0),
    "min": _function(np.minimum),
    "max": _function(np.maximum),
    "mod": _function(np.mod),
    "and": _function(_and),
    "or": _function(_or),
    "not": _function(lambda x: 1 - x),
    "Dr": lambda value, probability=None: value,
    "where": _where,
}
