"""Computes the functions and operators of the language on matrices, in one line of NumPy each; operators work on rows."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
_erf = np.vectorize(math.erf, otypes=[np.float64])

FUNCTIONS: dict[str, Callable[..., Any]] = {
    "exp": np.exp, "log": np.log, "log2": np.log2, "sin": np.sin, "cos": np.cos, "tanh": np.tanh, "sqrt": np.sqrt,
    "abs": np.abs, "floor": np.floor, "ceil": np.ceil, "min": np.minimum, "max": np.maximum, "mod": np.mod,
    "relu": lambda x: np.maximum(x, 0), "erf": _erf,
    "gelu": lambda x: x * (1 + _erf(x / math.sqrt(2))) / 2,
    "gelutanh": lambda x: x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))) / 2,
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "silu": lambda x: x / (1 + np.exp(-x)),
    "softplus": lambda x: np.logaddexp(0, x),
    "where": lambda condition, then, otherwise: np.where(condition, then, otherwise),
    "Dr": lambda x, *_: x,
    "not": np.logical_not, "and": np.logical_and, "or": np.logical_or,
    "<": np.less, "<=": np.less_equal, ">": np.greater, ">=": np.greater_equal, "==": np.equal, "!=": np.not_equal,
}  # fmt: skip


def softmax(x: Array) -> Array:
    """Of each row; nothing but -inf becomes zeros."""
    most = x.max(axis=1, keepdims=True)
    e: Array = np.exp(x - np.where(np.isfinite(most), most, 0))
    total = e.sum(axis=1, keepdims=True)
    return np.asarray(np.divide(e, total, out=np.zeros_like(e), where=total > 0))


def top(x: Array, k: int) -> Array:
    """Is a number among the k largest of its row? Of equal ones the first."""
    order = np.argsort(-x, axis=1, kind="stable")
    return np.asarray(np.argsort(order, axis=1) < k, dtype=np.float64)


def log_sum_exp(x: Array) -> Array:
    """The logarithm of the sum of each row's exponentials."""
    return np.asarray(np.logaddexp.reduce(x, axis=1, keepdims=True))


KEEPING: dict[str, Callable[..., Array]] = {
    "Sm": softmax,
    "cumsum": lambda x: np.cumsum(x, axis=1),
    "cumprod": lambda x: np.asarray(np.cumprod(x, axis=1)),
    "top": top,
}
REDUCING: dict[str, Callable[[Array], Array]] = {
    "mean": lambda x: x.mean(axis=1, keepdims=True),
    "var": lambda x: x.var(axis=1, keepdims=True),
    "max": lambda x: x.max(axis=1, keepdims=True),
    "min": lambda x: x.min(axis=1, keepdims=True),
    "lse": log_sum_exp,
}
