"""Infers the axes of the results of functions and methods of PyTorch, einops and NumPy. A table has a row for each."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Mapping, Sequence

from einformer.lint.python import suffixes
from einformer.lint.python.axes import (
    ONE,
    SOFT,
    Axis,
    Disagreement,
    Shape,
    Value,
    agree,
    broadcast,
    check_weights,
    contract,
    move,
    multiply,
    reduce,
    show,
    show_axis,
    swap,
    view,
)
from einformer.lint.python.calls import Call, Known, Operation, Several, as_tensor, axis_of_size, read_number
from einformer.lint.python.selections import SELECTIONS


def _keep_axes(call: Call) -> Known | None:
    value = call.evaluate(call.first)
    return value if isinstance(value, Value) else None


def _normalise(call: Call) -> Known | None:
    value, dim = call.value, call.number(0, "dim", "axis")
    if value is None or dim is None or not -len(value.shape) <= dim < len(value.shape):
        return value and Value(value.shape)
    return Value(value.shape, dim - len(value.shape) if dim >= 0 else dim)


def _reduce_axes(call: Call) -> Known | None:
    value, dims, keep = call.value, call.dims(0, "dim", "axis"), call.argument(1, "keepdim", "keepdims")
    if value is None or dims is None or not value.shape or not all(-len(value.shape) <= dim < len(value.shape) for dim in dims):
        return None
    kept = isinstance(keep, ast.Constant) and keep.value is True
    return Value(reduce(value.shape, dims, kept)) if keep is None or isinstance(keep, ast.Constant) else None


def _apply_elementwise(call: Call) -> Known | None:
    one, other = call.value, call.tensor(0, "other", "mask")
    return Value(broadcast(one.shape, other.shape, "the arguments")) if one and other else None


def _apply_number(call: Call) -> Known | None:
    node = call.argument(0, "exponent", "other")
    return call.value if isinstance(node, ast.Constant) else _apply_elementwise(call)


def _fill_masked(call: Call) -> Known | None:
    value, mask = call.value, call.tensor(0, "mask")
    if value and mask and len(mask.shape) <= len(value.shape):
        broadcast(value.shape, mask.shape, "the tensor and its mask")
    return value and Value(value.shape)


def _choose_where(call: Call) -> Known | None:
    one, other = call.tensor(0, "input"), call.tensor(1, "other")
    if not (one and other):
        return None
    shape = broadcast(one.shape, other.shape, "the branches of `where`")
    return Value(tuple(axis or None for axis in shape))  # along an axis of size 1 the condition may have more


def _view_tensor(call: Call) -> Known | None:
    value, sizes = call.value, call.sizes(call.rest)
    if not sizes:  # another dtype, or sizes of somebody
        return None
    wanted, rest = list(map(axis_of_size, sizes)), sizes.index(-1) if -1 in sizes else None
    return Value(view(value.shape, wanted, rest) if value else tuple(wanted))


def _transpose(call: Call) -> Known | None:
    value, one, other = call.value, call.number(0, "dim0", "axis0"), call.number(1, "dim1", "axis1")
    if len(call.rest) > 2:
        return _permute(call)  # as NumPy means it
    if (
        value is None
        or one is None
        or other is None
        or not all(-len(value.shape) <= k < len(value.shape) for k in (one, other))
    ):
        return None
    return Value(swap(value.shape, one, other))


def _permute(call: Call) -> Known | None:
    value, order = call.value, [read_number(node) for node in call.numbers()]
    if value is None or None in order:
        return None
    places = [k % len(value.shape) for k in order if k is not None]
    if sorted(places) == list(range(len(value.shape))):
        return Value(move(value.shape, places))
    facts = [f"the order is {tuple(order)}"]
    raise Disagreement("E771", f"a tensor of {len(value.shape)} axes is permuted by {len(order)}", facts)


def _unsqueeze(call: Call) -> Known | None:
    value, dim = call.value, call.number(0, "dim", "axis")
    if value is None or dim is None:
        return None
    place = dim if dim >= 0 else len(value.shape) + 1 + dim
    return Value((*value.shape[:place], ONE, *value.shape[place:]))


def _squeeze(call: Call) -> Known | None:
    value, dim = call.value, call.number(0, "dim", "axis")
    if value is None or dim is None or not -len(value.shape) <= dim < len(value.shape) or value.shape[dim] != ONE:
        return None
    return Value(reduce(value.shape, [dim], False))


def _flatten(call: Call) -> Known | None:
    value, start, end = call.value, call.number(0, "start_dim"), call.number(1, "end_dim")
    if value is None or start is None:
        return None
    first, last = start % len(value.shape), (-1 if end is None else end) % len(value.shape)
    inner = value.shape[first : last + 1]
    merged = None if None in inner else tuple(letter for axis in inner for letter in axis or ())
    return Value((*value.shape[:first], merged, *value.shape[last + 1 :]), open=merged is None)  # a name may say its parts


def _unflatten(call: Call) -> Known | None:
    value, dim, sizes = call.value, call.number(0, "dim"), call.argument(1, "sizes")
    if value is None or dim is None or not isinstance(sizes, ast.Tuple | ast.List):
        return None
    place = dim % len(value.shape)
    parts = [axis_of_size(call.evaluate(node)) for node in sizes.elts]
    return Value((*value.shape[:place], *parts, *value.shape[place + 1 :]))


def _chunk(call: Call) -> Known | None:
    value, dim = call.value, call.number(1, "dim", "axis")
    if value is None or (dim is None and call.argument(1, "dim", "axis") is not None):
        return None
    place = (dim or 0) % len(value.shape)
    return Several((*value.shape[:place], None, *value.shape[place + 1 :]))


def _concatenate(call: Call) -> Known | None:
    if not isinstance(call.first, ast.Tuple | ast.List):
        return None
    values, dim = [call.evaluate(node) for node in call.first.elts], call.number(0, "dim", "axis")
    shapes = [value.shape for value in map(as_tensor, values) if value]
    if not shapes or (dim is None and call.rest) or len(shapes) < len(values):
        return None
    if len({len(shape) for shape in shapes}) > 1:
        raise Disagreement(
            "E773", "tensors of different numbers of axes are joined", [f"they have {' and '.join(map(show, shapes))}"]
        )
    place = (dim or 0) % len(shapes[0])
    whole_shape = shapes[0]
    for shape in shapes[1:]:
        for k, (one, other) in enumerate(zip(whole_shape, shape, strict=True)):
            if k != place and not agree(one, other):
                raise Disagreement("E773", f"axis {k} of what is joined differs: {show_axis(one)} and {show_axis(other)}")
    return Value((*whole_shape[:place], None, *whole_shape[place + 1 :]))


def _multiply_call(call: Call) -> Known | None:
    one, other = call.value, call.tensor(0, "other", "mat2")
    return multiply_values(one, other) if one and other else None


def multiply_values(one: Value, other: Value) -> Value:
    """Returns the axes of `one @ other`. Checks that weights are summed over the axis over which they add up to 1."""
    shape = multiply(one.shape, other.shape)
    if other.normalised is None:
        check_weights(one, -1)
    return Value(shape)


def _apply_linear(call: Call) -> Known | None:
    value, weight = call.value, call.tensor(0, "weight")
    if value is None:
        return None
    if weight is None or len(weight.shape) != 2:
        return Value((*value.shape[:-1], None))
    if not agree(value.shape[-1], weight.shape[-1]):
        fix = "the weight transposed" if agree(value.shape[-1], weight.shape[0]) else ""
        facts = [f"the input has {show(value.shape)}", f"the weight {show(weight.shape)}: (out, in)"]
        raise Disagreement("E773", "the last axis of the input is not the last of the weight", facts, fix)
    return Value((*value.shape[:-1], weight.shape[0]))


def _attend(call: Call) -> Known | None:
    query, key, value = call.value, call.tensor(0, "key"), call.tensor(1, "value")
    if not query or not key or not value or not len(query.shape) == len(key.shape) == len(value.shape) >= 2:
        return None
    keys, values = (_share_heads(tensor.shape, query.shape, call) for tensor in (key, value))
    scores = multiply(query.shape, swap(keys, -1, -2))
    return Value(multiply((*scores[:-1], keys[-2]), values))


# Each head of keys or values may serve several heads of queries.
def _share_heads(shape: Shape, query: Shape, call: Call) -> Shape:
    grouped = "enable_gqa" in call.keywords and len(query) > 2
    return (*query[:-2], *shape[-2:]) if grouped else shape


def _apply_einsum(call: Call) -> Known | None:
    match call.first:
        case ast.Constant(value=str(text)):
            return _contract_terms(text, False, call.rest, call)
    match call.rest[-1:]:
        case [ast.Constant(value=str(text))]:
            return _contract_terms(text, True, [call.first, *call.rest[:-1]], call)
    return None


def _contract_terms(text: str, spaced: bool, nodes: Iterable[ast.expr], call: Call) -> Value | None:
    read, operands = suffixes.read_einsum(text, spaced), [call.evaluate(node) for node in nodes]
    if read is None or len(read[0]) != len(operands):
        return None
    terms, output = read
    if new := [letter for letter in output if not any(letter in term for term in terms)]:
        raise Disagreement("E772", f"`{new[0]}` is on the right of the equation, and on nothing left of it")
    values = list(map(as_tensor, operands))
    shape = contract(terms, output, [operand.shape if operand else None for operand in values])
    for term, weights in zip(terms, values, strict=True):
        if weights and sum(operand is not None and operand.normalised is not None for operand in values) == 1 < len(terms):
            _check_term_weights(term, weights, output, [other for other in terms if other is not term])
    return Value(shape)


def _check_term_weights(term: Sequence[str], weights: Value, output: Sequence[str], others: Iterable[Sequence[str]]) -> None:
    if weights.normalised is None:
        return
    over, others = term[weights.normalised], list(others)
    if over not in output:
        if not any(over in other for other in others):
            message = f"the weights add up to 1 over axis {weights.normalised}, and are summed over it alone"
            raise Disagreement("E775", message, [f"they have {show(weights.shape)}"], f"`{over}` on what they weigh")
        return
    for k, letter in enumerate(term):
        if letter not in output and any(letter in other for other in others):
            check_weights(weights, k - len(term))


def _rearrange(call: Call) -> Known | None:
    node = call.argument(0, "pattern")
    text = node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""
    read, value = suffixes.read_pattern(text), call.value
    if read is None:
        return None
    left, right = read
    if value is None:
        return Value(tuple(_rename_axis(axis, {}) for axis in right))
    terms = [axis[0] if axis and len(axis) == 1 else f"({' '.join(axis or ())})" for axis in left]
    contract([terms], [], [value.shape])
    meaning = {term: axis for term, axis in zip(terms, value.shape, strict=True) if not term.startswith("(")}
    return Value(tuple(_rename_axis(axis, meaning) for axis in right))


# The letters of the tensor for an axis of a pattern, as far as it has them.
def _rename_axis(axis: Axis, meaning: Mapping[str, Axis]) -> Axis:
    parts = [meaning.get(letter, (letter + SOFT,)) for letter in axis or ()]
    return None if None in parts else tuple(letter for part in parts for letter in part or ())


_SAME = re.findall(
    r"\w+",
    """
    abs add_ bfloat16 bool celu clamp clip clone contiguous cos cpu cuda detach div_ double dropout elu exp
    exp_ float gelu half hardtanh layer_norm leaky_relu log log1p logical_not mish mul_ neg norm_ normalize
    pin_memory reciprocal relu relu_ requires_grad_ rms_norm round rsqrt selu sigmoid sigmoid_ sign silu sin
    softplus sqrt square sub_ tan tanh tanh_ to tril triu type type_as cumsum cumprod zeros_like ones_like
    empty_like full_like rand_like randn_like flip roll nan_to_num floor ceil
    scatter scatter_ scatter_add scatter_add_ index_add index_add_ logical_and logical_or bitwise_not cummax_ argsort
    """,
)
_REDUCED = re.findall(
    r"\w+",
    """
    all amax amin any logsumexp mean prod std sum var
    """,
)
OPERATIONS: Mapping[str, Operation] = {
    **dict.fromkeys(_SAME, _keep_axes),
    **dict.fromkeys(_REDUCED, _reduce_axes),
    **dict.fromkeys(("softmax", "softmin"), _normalise),
    "log_softmax": lambda call: call.value and Value(call.value.shape),
    **dict.fromkeys(("add", "sub", "mul", "div", "maximum", "minimum"), _apply_elementwise),
    **dict.fromkeys(("pow", "gt", "lt", "ge", "le", "eq", "ne", "remainder", "fmod"), _apply_number),
    **dict.fromkeys(("masked_fill", "masked_fill_"), _fill_masked),
    "where": _choose_where,
    **dict.fromkeys(("view", "reshape"), _view_tensor),
    **dict.fromkeys(("transpose", "swapaxes", "swapdims"), _transpose),
    "permute": _permute,
    "unsqueeze": _unsqueeze,
    "squeeze": _squeeze,
    "flatten": _flatten,
    "unflatten": _unflatten,
    **dict.fromkeys(("chunk", "split"), _chunk),
    **dict.fromkeys(("cat", "concat", "concatenate"), _concatenate),
    **dict.fromkeys(("matmul", "bmm", "mm"), _multiply_call),
    "linear": _apply_linear,
    "scaled_dot_product_attention": _attend,
    "einsum": _apply_einsum,
    **dict.fromkeys(("rearrange", "reduce"), _rearrange),
    **SELECTIONS,
}
