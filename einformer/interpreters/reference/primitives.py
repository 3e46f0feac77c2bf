"""The value of each primitive, in NumPy: the column `numpy` of the table, on arrays whose axes have names."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import reduce

import numpy as np

from einformer.interpreters.reference.named import Array, Named, lifted
from einformer.language.primitives import PRIMITIVES, Primitive


def softmax(x: Array, axes: tuple[int, ...]) -> Array:
    """exp x / Σ exp x; zero where every x is -inf (R12)."""
    top = x.max(axis=axes, keepdims=True)
    powers = np.exp(x - np.where(np.isfinite(top), top, 0))
    total = powers.sum(axis=axes, keepdims=True)
    return np.where(total == 0, 0, powers / np.where(total == 0, 1, total))


def log_sum_exp(x: Array, axis: tuple[int, ...]) -> Array:
    """log Σ exp x; -inf where every x is."""
    top = x.max(axis=axis, keepdims=True)
    shift = np.where(np.isfinite(top), top, 0)
    found: Array = np.log(np.exp(x - shift).sum(axis=axis)) + shift.squeeze(axis)
    return found


def along(f: Callable[[Array, int], Array], x: Array, axes: tuple[int, ...]) -> Array:
    """f along one axis after the other."""
    return reduce(f, axes, x)


def top(x: Array, axes: tuple[int, ...], count: int) -> Array:
    """True at the `count` largest; of equal ones at the lower index, row-major where there are several (R3)."""
    last = range(-len(axes), 0)
    moved = np.moveaxis(x, axes, last)
    flat = moved.reshape(*moved.shape[: x.ndim - len(axes)], -1)
    rank = np.argsort(np.argsort(-flat, kind="stable"), kind="stable")
    return np.moveaxis((rank < count).reshape(moved.shape), last, axes)


def sigmoid(x: Array) -> Array:
    """1 / (1 + exp -x)"""
    return 1 / (1 + np.exp(-x))


def _operator(row: Primitive) -> Callable[..., Named]:
    """An operator over the named axes; a reducing one takes them away."""
    f = _evaluated(row, "x, axis, y=None")

    def named(value: Named, letters: tuple[str, ...], *counts: int) -> Named:
        axes = tuple(value.dims.index(letter) for letter in letters)
        lost = letters if row.kind == "reducing" else ()
        return Named(tuple(dim for dim in value.dims if dim not in lost), np.asarray(f(value.array, axes, *counts)))

    return named


def _evaluated(row: Primitive, parameters: str) -> Callable[..., Array]:
    """The function that a row has as text."""
    f: Callable[..., Array] = eval(f"lambda {parameters}: {row.numpy}", globals())
    return f


erf = np.vectorize(math.erf, otypes=[np.float64])
FUNCTIONS = {name: lifted(_evaluated(row, "x, y=None, z=None")) for (name, over), row in PRIMITIVES.items() if not over}
OPERATORS = {name: _operator(row) for (name, over), row in PRIMITIVES.items() if over}
