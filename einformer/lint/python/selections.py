"""Which axes has what is chosen among the numbers of a tensor, repeated, stacked, or made of sizes alone?"""

from __future__ import annotations

import ast
from collections.abc import Mapping

from einformer.lint.python.axes import Axis, Disagreement, Shape, Value, reduced, show
from einformer.lint.python.calls import Call, Known, Operation, Several, Size, axis_of_size, closed


def _put(shape: Shape, dim: int, axis: Axis) -> Shape:
    """The shape with one axis exchanged."""
    at = dim % len(shape)
    return (*shape[:at], axis, *shape[at + 1 :])


def _dim(call: Call, position: int, default: int | None) -> int | None:
    """The axis that is named, if the tensor has it."""
    node, value = call.argument(position, "dim", "axis"), call.value
    dim = default if node is None else call.number(position, "dim", "axis")
    return dim if dim is not None and value and -len(value.shape) <= dim < len(value.shape) else None


def _largest(call: Call) -> Known | None:
    value, dim = call.value, _dim(call, 1, -1)
    return Several(_put(value.shape, dim, None)) if value and dim is not None else None


def _sorted(call: Call) -> Known | None:
    return Several(call.value.shape) if call.value else None


def _extreme(call: Call) -> Known | None:
    """`x.max(-1)` gives values and places; what `x.max(y)` gives is known of another function."""
    value, dim, keep = call.value, _dim(call, 0, None), call.argument(1, "keepdim", "keepdims")
    if value is None or dim is None or not (keep is None or isinstance(keep, ast.Constant)):
        return None
    return Several(reduced(value.shape, [dim], isinstance(keep, ast.Constant) and keep.value is True))


def _place(call: Call) -> Known | None:
    """`argmax` leaves the axes without its own."""
    found = _extreme(call)
    return Value(found.shape) if isinstance(found, Several) else None


def _gathered(call: Call) -> Known | None:
    value, places = call.value, call.tensor(1, "index")
    if value and places and len(value.shape) != len(places.shape):
        facts = [f"the tensor has {show(value.shape)}", f"the places have {show(places.shape)}"]
        raise Disagreement("E773", "what is gathered and its places have different numbers of axes", facts)
    return places and Value(places.shape)


def _looked_up(call: Call) -> Known | None:
    value, table = call.value, call.tensor(0, "weight")
    return Value((*value.shape, *table.shape[1:])) if value and table else None


def _one_hot(call: Call) -> Known | None:
    return call.value and Value((*call.value.shape, None))


def _stacked(call: Call) -> Known | None:
    parts = call.first.elts if isinstance(call.first, ast.Tuple | ast.List) else []
    shapes = [found.shape for found in map(closed, map(call.evaluate, parts)) if found]
    dim = 0 if call.argument(0, "dim", "axis") is None else call.number(0, "dim", "axis")
    if not shapes or len(shapes) < len(parts) or dim is None or not -len(shapes[0]) <= dim + 1 <= len(shapes[0]) + 1:
        return None
    at = dim if dim >= 0 else len(shapes[0]) + 1 + dim
    return Value((*shapes[0][:at], None, *shapes[0][at:]))


def _repeated(call: Call) -> Known | None:
    value, dim = call.value, call.number(1, "dim")
    return Value(_put(value.shape, dim, None)) if value and dim is not None else None


def _expanded(call: Call) -> Known | None:
    value, known = call.value, call.sizes(call.rest)
    if value is None or known is None or len(known) < len(value.shape):
        return None
    head = len(known) - len(value.shape)
    kept = (axis if size == -1 or axis else axis_of_size(size) for size, axis in zip(known[head:], value.shape, strict=True))
    return Value((*map(axis_of_size, known[:head]), *kept))


def _made(call: Call) -> Known | None:
    """`zeros(B, S)`, of sizes alone."""
    known = call.sizes([call.first, *call.rest])
    return Value(tuple(map(axis_of_size, known))) if known else None


def _new(call: Call) -> Known | None:
    known = call.sizes(call.rest)
    return Value(tuple(map(axis_of_size, known))) if known else None


def _counted(call: Call) -> Known | None:
    """`arange(S)`, `arange(0, S)`."""
    found = call.evaluate(call.first if not call.rest else call.rest[0])
    return Value((found.axis if isinstance(found, Size) and len(call.rest) < 2 else None,))


SELECTIONS: Mapping[str, Operation] = {
    "topk": _largest,
    "sort": _sorted,
    **dict.fromkeys(("max", "min", "cummax", "cummin", "median"), _extreme),
    **dict.fromkeys(("argmax", "argmin"), _place),
    **dict.fromkeys(("gather", "take_along_dim"), _gathered),
    "embedding": _looked_up,
    "one_hot": _one_hot,
    "stack": _stacked,
    "repeat_interleave": _repeated,
    "expand": _expanded,
    **dict.fromkeys(("zeros", "ones", "empty", "rand", "randn"), _made),
    **dict.fromkeys(("new_zeros", "new_ones", "new_empty"), _new),
    "arange": _counted,
}
