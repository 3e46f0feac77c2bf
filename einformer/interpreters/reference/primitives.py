"""What does each primitive do? The columns of the table, in NumPy."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import reduce

import numpy as np

from einformer.interpreters.reference.named import Array, Named, binary, chosen, unary


def _reducing(f: Callable[..., Array]) -> Callable[[Named, tuple[str, ...]], Named]:
    """f over the named axes, which disappear."""

    def named(value: Named, letters: tuple[str, ...]) -> Named:
        axes = tuple(value.dims.index(letter) for letter in letters)
        return Named(tuple(dim for dim in value.dims if dim not in letters), np.asarray(f(value.array, axis=axes)))

    return named


def _keeping(f: Callable[..., Array]) -> Callable[..., Named]:
    """f along the named axes, which stay."""

    def named(value: Named, letters: tuple[str, ...], *counts: int) -> Named:
        axes = tuple(value.dims.index(letter) for letter in letters)
        return Named(value.dims, f(value.array, axes, *counts))

    return named


def _softmax(x: Array, axes: tuple[int, ...]) -> Array:
    """exp x / Σ exp x; zero where every x is -inf (R12)."""
    top = x.max(axis=axes, keepdims=True)
    powers = np.exp(x - np.where(np.isfinite(top), top, 0))
    total = powers.sum(axis=axes, keepdims=True)
    return np.where(total == 0, 0, powers / np.where(total == 0, 1, total))


def _log_sum_exp(x: Array, axis: tuple[int, ...]) -> Array:
    top = x.max(axis=axis, keepdims=True)
    shift = np.where(np.isfinite(top), top, 0)
    found: Array = np.log(np.exp(x - shift).sum(axis=axis)) + shift.squeeze(axis)
    return found


def _cumulative(x: Array, axes: tuple[int, ...]) -> Array:
    return reduce(lambda y, axis: np.cumsum(y, axis), axes, x)


def _top(x: Array, axes: tuple[int, ...], count: int) -> Array:
    """True at the `count` largest; of equal ones at the lower index, row-major where there are several (R3)."""
    last = range(-len(axes), 0)
    moved = np.moveaxis(x, axes, last)
    flat = moved.reshape(*moved.shape[: x.ndim - len(axes)], -1)
    rank = np.argsort(np.argsort(-flat, kind="stable"), kind="stable")
    return np.moveaxis((rank < count).reshape(moved.shape), last, axes)


def _sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


_erf = np.vectorize(math.erf, otypes=[np.float64])
FUNCTIONS: dict[str, Callable[..., Named]] = {
    "exp": unary(np.exp),
    "log": unary(np.log),
    "log2": unary(np.log2),
    "sin": unary(np.sin),
    "cos": unary(np.cos),
    "tanh": unary(np.tanh),
    "sqrt": unary(np.sqrt),
    "abs": unary(np.abs),
    "floor": unary(np.floor),
    "ceil": unary(np.ceil),
    "relu": unary(lambda x: np.maximum(x, 0)),
    "gelu": unary(lambda x: x * (1 + _erf(x / math.sqrt(2))) / 2),
    "gelutanh": unary(lambda x: x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))) / 2),
    "silu": unary(lambda x: x * _sigmoid(x)),
    "sigmoid": unary(_sigmoid),
    "softplus": unary(lambda x: np.logaddexp(x, 0)),
    "Dr": lambda value, probability=None: value,
    "mod": binary(np.mod),
    "not": unary(np.logical_not),
    "and": binary(np.logical_and),
    "or": binary(np.logical_or),
    "<": binary(np.less),
    "<=": binary(np.less_equal),
    ">": binary(np.greater),
    ">=": binary(np.greater_equal),
    "==": binary(np.equal),
    "!=": binary(np.not_equal),
    "min": binary(np.minimum),
    "max": binary(np.maximum),
    "where": chosen,
}
OPERATORS: dict[str, Callable[..., Named]] = {
    "sum": _reducing(np.sum),
    "mean": _reducing(np.mean),
    "var": _reducing(np.var),
    "max": _reducing(np.max),
    "min": _reducing(np.min),
    "lse": _reducing(_log_sum_exp),
    "Sm": _keeping(_softmax),
    "cumsum": _keeping(_cumulative),
    "top": _keeping(_top),
}
