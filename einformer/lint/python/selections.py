"""Infers the axes of elements that are selected, repeated, stacked, or made of sizes alone."""

from __future__ import annotations

import ast
from collections.abc import Mapping

from einformer.lint.python.axes import Axis, Disagreement, Shape, Value, reduce, show
from einformer.lint.python.calls import Call, Known, Operation, Several, Size, as_tensor, axis_of_size


def _replace_axis(shape: Shape, dim: int, axis: Axis) -> Shape:
    place = dim % len(shape)
    return (*shape[:place], axis, *shape[place + 1 :])


# The named axis, if the tensor has it.
def _read_dim(call: Call, position: int, default: int | None) -> int | None:
    node, value = call.argument(position, "dim", "axis"), call.value
    dim = default if node is None else call.number(position, "dim", "axis")
    return dim if dim is not None and value and -len(value.shape) <= dim < len(value.shape) else None


def _find_top(call: Call) -> Known | None:
    value, dim = call.value, _read_dim(call, 1, -1)
    return Several(_replace_axis(value.shape, dim, None)) if value and dim is not None else None


def _sort(call: Call) -> Known | None:
    return Several(call.value.shape) if call.value else None


# `x.max(-1)` gives values and places. `x.max(y)` is another function.
def _find_extreme(call: Call) -> Known | None:
    value, dim, keep = call.value, _read_dim(call, 0, None), call.argument(1, "keepdim", "keepdims")
    if value is None or dim is None or not (keep is None or isinstance(keep, ast.Constant)):
        return None
    return Several(reduce(value.shape, [dim], isinstance(keep, ast.Constant) and keep.value is True))


def _find_place(call: Call) -> Known | None:
    values = _find_extreme(call)
    return Value(values.shape) if isinstance(values, Several) else None


def _gather(call: Call) -> Known | None:
    value, places = call.value, call.tensor(1, "index")
    if value and places and len(value.shape) != len(places.shape):
        facts = [f"the tensor has {show(value.shape)}", f"the places have {show(places.shape)}"]
        raise Disagreement("E773", "what is gathered and its places have different numbers of axes", facts)
    return places and Value(places.shape)


def _look_up(call: Call) -> Known | None:
    value, table = call.value, call.tensor(0, "weight")
    return Value((*value.shape, *table.shape[1:])) if value and table else None


def _encode(call: Call) -> Known | None:
    return call.value and Value((*call.value.shape, None))


def _stack(call: Call) -> Known | None:
    parts = call.first.elts if isinstance(call.first, ast.Tuple | ast.List) else []
    shapes = [value.shape for value in map(as_tensor, map(call.evaluate, parts)) if value]
    dim = 0 if call.argument(0, "dim", "axis") is None else call.number(0, "dim", "axis")
    if not shapes or len(shapes) < len(parts) or dim is None or not -len(shapes[0]) <= dim + 1 <= len(shapes[0]) + 1:
        return None
    place = dim if dim >= 0 else len(shapes[0]) + 1 + dim
    return Value((*shapes[0][:place], None, *shapes[0][place:]))


def _repeat(call: Call) -> Known | None:
    value, dim = call.value, call.number(1, "dim")
    return Value(_replace_axis(value.shape, dim, None)) if value and dim is not None else None


def _expand(call: Call) -> Known | None:
    value, sizes = call.value, call.sizes(call.rest)
    if value is None or sizes is None or len(sizes) < len(value.shape):
        return None
    head = len(sizes) - len(value.shape)
    kept = (axis if size == -1 or axis else axis_of_size(size) for size, axis in zip(sizes[head:], value.shape, strict=True))
    return Value((*map(axis_of_size, sizes[:head]), *kept))


def _make_tensor(call: Call) -> Known | None:
    sizes = call.sizes([call.first, *call.rest])
    return Value(tuple(map(axis_of_size, sizes))) if sizes else None


def _make_new(call: Call) -> Known | None:
    sizes = call.sizes(call.rest)
    return Value(tuple(map(axis_of_size, sizes))) if sizes else None


def _count_up(call: Call) -> Known | None:
    size = call.evaluate(call.first if not call.rest else call.rest[0])
    return Value((size.axis if isinstance(size, Size) and len(call.rest) < 2 else None,))


SELECTIONS: Mapping[str, Operation] = {
    "topk": _find_top,
    "sort": _sort,
    **dict.fromkeys(("max", "min", "cummax", "cummin", "median"), _find_extreme),
    **dict.fromkeys(("argmax", "argmin"), _find_place),
    **dict.fromkeys(("gather", "take_along_dim"), _gather),
    "embedding": _look_up,
    "one_hot": _encode,
    "stack": _stack,
    "repeat_interleave": _repeat,
    "expand": _expand,
    **dict.fromkeys(("zeros", "ones", "empty", "rand", "randn"), _make_tensor),
    **dict.fromkeys(("new_zeros", "new_ones", "new_empty"), _make_new),
    "arange": _count_up,
}
