"""Infers the axes of a part of a tensor, of its shape, or of several tensors."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from einformer.lint.python.axes import ONE, Axis, Shape, Value
from einformer.lint.python.calls import Evaluate, Known, Several, Sizes, as_tensor, read_number, spread_sizes


def index(value: Known | None, keys: Sequence[ast.expr], evaluate: Evaluate) -> Known | None:
    """Returns the value of `value[keys]`."""
    match value, keys:
        case Sizes() | tuple(), [key] if (k := read_number(key)) is not None:
            sizes = spread_sizes(value)
            return sizes[k] if -len(sizes) <= k < len(sizes) else None
        case Sizes(shape), [ast.Slice(lower=lower, upper=upper, step=None)] if _is_whole(lower) and _is_whole(upper):
            return Sizes(shape[_read_bound(lower) : _read_bound(upper)])
        case Several(shape), [key] if read_number(key) is not None:
            return Value(shape)
        case Value(), [key] if (rows := as_tensor(evaluate(key))) and (table := as_tensor(value)):
            return _look_up(table.shape, rows.shape)
        case Value(), _ if tensor := as_tensor(value):
            return _slice_axes(tensor.shape, keys)
    return None


def _is_whole(node: ast.expr | None) -> bool:
    return node is None or read_number(node) is not None


def _read_bound(node: ast.expr | None) -> int | None:
    return None if node is None else read_number(node)


# `E_vd[x_bs]`, unless it may be a choice by a mask, which has the axes of its table.
def _look_up(table: Shape, rows: Shape) -> Value | None:
    mask = rows and table and rows[0] is not None and rows[0] == table[0]
    return None if mask or not table else Value((*rows, *table[1:]))


def unpack(value: Known | None, k: int, count: int) -> Known | None:
    """Returns the k-th of several unpacked values."""
    match value:
        case Sizes(shape) if len(shape) == count:
            return spread_sizes(value)[k]
        case Several(shape):
            return Value(shape)
        case tuple() if len(value) == count:
            return value[k]
    return None


# The axes of `x[:, None, 0]`. A slice with bounds has unknown length.
def _slice_axes(shape: Shape, keys: Sequence[ast.expr]) -> Value | None:
    used = sum(not (isinstance(key, ast.Constant) and key.value in (None, ...)) for key in keys)
    if used > len(shape):
        return None
    axes: list[Axis] = []
    rest = list(shape)
    for place, key in enumerate(keys):
        match key:
            case ast.Constant(value=None):
                axes.append(ONE)
            case ast.Constant(value=value) if value is ...:
                after = sum(not (isinstance(later, ast.Constant) and later.value is None) for later in keys[place + 1 :])
                axes += rest[: len(rest) - after]
                rest = rest[len(rest) - after :]
            case ast.Slice(lower=None, upper=None, step=None):
                axes.append(rest.pop(0))
            case ast.Slice():
                rest.pop(0)
                axes.append(None)
            case _ if read_number(key) is not None:
                rest.pop(0)
            case _:
                return None
    return Value((*axes, *rest))
