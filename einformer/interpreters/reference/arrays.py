"""Defines arrays with named axes, their broadcasting, and each primitive on them, by the column `numpy` of the table."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray

from einformer.language.primitives import PRIMITIVES, Primitive

Array = NDArray[Any]


@dataclass(frozen=True, slots=True)
class Named:
    """An array with the name of an index on each axis."""

    dims: tuple[str, ...]
    array: Array

    def over(self, dims: Sequence[str]) -> Array:
        """Returns the array with its axes in the order of `dims`, with length 1 for axes that it lacks."""
        own = [dim for dim in dims if dim in self.dims]
        assert len(own) == len(self.dims), (dims, self.dims)
        shape = [self.array.shape[self.dims.index(dim)] if dim in self.dims else 1 for dim in dims]
        return self.array.transpose([self.dims.index(dim) for dim in own]).reshape(shape)


@dataclass(frozen=True, slots=True)
class Stored:
    """A tensor as its definition stored it: an axis for each slot, then one for each carried index."""

    axes: tuple[str, ...]  # the letter of the axis that each slot runs over, "" for a group
    carried: tuple[str, ...]
    array: Array


def constant(value: float) -> Named:
    """Returns a number, which has no axes."""
    return Named((), np.asarray(value, dtype=np.float64))


def union(*dims: Sequence[str]) -> tuple[str, ...]:
    """Returns the names of several arrays, each once, in order."""
    return tuple(dict.fromkeys(dim for some in dims for dim in some))


def lift(f: Callable[..., Array]) -> Callable[..., Named]:
    """Applies f to named arrays, lined up by name."""

    def apply(*values: Named) -> Named:
        dims = union(*(value.dims for value in values))
        return Named(dims, f(*(value.over(dims) for value in values)))

    return apply


choose = lift(np.where)  # by a condition


def softmax(x: Array, axes: tuple[int, ...]) -> Array:
    """exp x / Σ exp x; zero if every x is -inf (R12)."""
    top = x.max(axis=axes, keepdims=True)
    powers = np.exp(x - np.where(np.isfinite(top), top, 0))
    total = powers.sum(axis=axes, keepdims=True)
    return np.where(total == 0, 0, powers / np.where(total == 0, 1, total))


def log_sum_exp(x: Array, axis: tuple[int, ...]) -> Array:
    """log Σ exp x; -inf if every x is."""
    top = x.max(axis=axis, keepdims=True)
    shift = np.where(np.isfinite(top), top, 0)
    result: Array = np.log(np.exp(x - shift).sum(axis=axis)) + shift.squeeze(axis)
    return result


def along(f: Callable[[Array, int], Array], x: Array, axes: tuple[int, ...]) -> Array:
    """Applies f along one axis after the other."""
    return reduce(f, axes, x)


def top(x: Array, axes: tuple[int, ...], count: int) -> Array:
    """Returns True at the `count` largest values. Equal values count at the lower index, row-major for several axes (R3)."""
    last = range(-len(axes), 0)
    moved = np.moveaxis(x, axes, last)
    flat = moved.reshape(*moved.shape[: x.ndim - len(axes)], -1)
    rank = np.argsort(np.argsort(-flat, kind="stable"), kind="stable")
    return np.moveaxis((rank < count).reshape(moved.shape), last, axes)


def sigmoid(x: Array) -> Array:
    """1 / (1 + exp -x)"""
    return 1 / (1 + np.exp(-x))


# A reducing operator removes the named axes.
def _make_operator(row: Primitive) -> Callable[..., Named]:
    f = _compile_row(row, "x, axis, y=None")

    def apply(value: Named, letters: tuple[str, ...], *counts: int) -> Named:
        axes = tuple(value.dims.index(letter) for letter in letters)
        lost = letters if row.kind == "reducing" else ()
        return Named(tuple(dim for dim in value.dims if dim not in lost), np.asarray(f(value.array, axes, *counts)))

    return apply


def _compile_row(row: Primitive, parameters: str) -> Callable[..., Array]:
    f: Callable[..., Array] = eval(f"lambda {parameters}: {row.numpy}", globals())
    return f


erf = np.vectorize(math.erf, otypes=[np.float64])
FUNCTIONS = {name: lift(_compile_row(row, "x, y=None, z=None")) for (name, over), row in PRIMITIVES.items() if not over}
OPERATORS = {name: _make_operator(row) for (name, over), row in PRIMITIVES.items() if over}


def evaluate_rows(evaluate: Callable[..., Array], inputs: Sequence[Array], lengths: Sequence[int]) -> Array:
    """Returns the values of a batch whose rows have these lengths, with NaN beyond the length of a row."""
    rows = [evaluate(*(array[[row], :n] for array in inputs))[0] for row, n in enumerate(lengths)]
    return np.stack([_fill(row, max(lengths)) for row in rows])


def _fill(row: Array, length: int) -> Array:
    after = [(0, length - len(row)), *[(0, 0)] * (row.ndim - 1)]
    return np.pad(row, after, constant_values=np.nan)
