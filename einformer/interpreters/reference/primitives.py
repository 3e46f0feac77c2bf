"""Evaluates each primitive in NumPy, by the column `numpy` of the table, on arrays with named axes."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import reduce

import numpy as np

from einformer.interpreters.reference.named import Array, Named, lift
from einformer.language.primitives import PRIMITIVES, Primitive


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
