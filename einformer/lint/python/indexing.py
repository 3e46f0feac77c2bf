"""Which axes has a part of a tensor, of its shape, of several tensors?"""

from __future__ import annotations

import ast
from collections.abc import Sequence

from einformer.lint.python.axes import ONE, Axis, Shape, Value
from einformer.lint.python.calls import Evaluate, Known, Several, Sizes, closed, spread, whole


def taken(found: Known | None, keys: Sequence[ast.expr], evaluate: Evaluate) -> Known | None:
    """What `found[keys]` is."""
    match found, keys:
        case Sizes() | tuple(), [key] if (k := whole(key)) is not None:
            sizes = spread(found)
            return sizes[k] if -len(sizes) <= k < len(sizes) else None
        case Sizes(shape), [ast.Slice(lower=lower, upper=upper, step=None)] if _is_whole(lower) and _is_whole(upper):
            return Sizes(shape[_bound(lower) : _bound(upper)])
        case Several(shape), [key] if whole(key) is not None:
            return Value(shape)
        case Value(), [key] if (rows := closed(evaluate(key))) and (table := closed(found)):
            return _rows(table.shape, rows.shape)
        case Value(), _ if tensor := closed(found):
            return _cut(tensor.shape, keys)
    return None


def _is_whole(node: ast.expr | None) -> bool:
    return node is None or whole(node) is not None


def _bound(node: ast.expr | None) -> int | None:
    return None if node is None else whole(node)


def _rows(table: Shape, rows: Shape) -> Value | None:
    """`E_vd[x_bs]`, unless it may be a choice by a mask, which has the axes that it chooses from."""
    mask = rows and table and rows[0] is not None and rows[0] == table[0]
    return None if mask or not table else Value((*rows, *table[1:]))


def part_of(found: Known | None, k: int, count: int) -> Known | None:
    """What the k-th of so many names gets."""
    match found:
        case Sizes(shape) if len(shape) == count:
            return spread(found)[k]
        case Several(shape):
            return Value(shape)
        case tuple() if len(found) == count:
            return found[k]
    return None


def _cut(shape: Shape, keys: Sequence[ast.expr]) -> Value | None:
    """The axes of `x[:, None, 0]`; of a slice with bounds nothing is known."""
    taken = sum(not (isinstance(key, ast.Constant) and key.value in (None, ...)) for key in keys)
    if taken > len(shape):
        return None
    found: list[Axis] = []
    rest = list(shape)
    for place, key in enumerate(keys):
        match key:
            case ast.Constant(value=None):
                found.append(ONE)
            case ast.Constant(value=value) if value is ...:
                after = sum(not (isinstance(each, ast.Constant) and each.value is None) for each in keys[place + 1 :])
                found += rest[: len(rest) - after]
                rest = rest[len(rest) - after :]
            case ast.Slice(lower=None, upper=None, step=None):
                found.append(rest.pop(0))
            case ast.Slice():
                rest.pop(0)
                found.append(None)
            case _ if whole(key) is not None:
                rest.pop(0)
            case _:
                return None
    return Value((*found, *rest))
