"""What do the functions of PyTorch that emitted files call do to storages? What torch composes is composed here too."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence

from einformer.interpreters.torch import strided
from einformer.interpreters.torch.dtypes import FLOAT32, INT64, Dtype, promoted
from einformer.interpreters.torch.strided import Shape
from einformer.interpreters.torch.traced import Operand, Sorted, Storage, Traced, common, elementwise, made

_UNARY = "abs ceil cos exp floor log relu rsqrt sigmoid silu sin softplus sqrt tanh"
_REDUCING = "amax amin logsumexp mean sum"


def linear(x: Traced, weight: Traced, bias: Traced | None = None) -> Traced:
    """One product of matrices; a bias is added in it if the rows lie one after another, and after it if not."""
    strided.broadcast([x.shape[-1:], weight.shape[-1:]])
    rows, out = math.prod(x.shape[:-1]), (*x.shape[:-1], weight.shape[0])
    turned = weight.permute(1, 0)
    if bias is not None and (len(x.shape) == 2 or strided.is_contiguous(x.shape, x.strides)):
        flat = x.reshape(rows, x.shape[-1])
        return made("addmm", (bias, flat, turned), (rows, out[-1]), x.dtype).reshape(*out)
    product = made("mm", (x.reshape(rows, x.shape[-1]), turned), (rows, out[-1]), x.dtype).reshape(*out)
    return product if bias is None else product + bias


def matmul(left: Traced, right: Traced) -> Traced:
    """Products of matrices, one for each place of the axes before them, which are the same on both sides."""
    places, rows, columns = left.shape[:-2], left.shape[-2], right.shape[-1]
    count, inner = math.prod(places), left.shape[-1]
    pair = left.reshape(count, rows, inner), right.reshape(count, inner, columns)
    return made("bmm", pair, (count, rows, columns), left.dtype).reshape(*places, rows, columns)


def grouped(x: Traced, matrices: Traced, ends: Traced) -> Traced:
    """Each row times the matrix of its expert, one after another in one tensor."""
    return made("grouped", (x, matrices), (x.shape[0], matrices.shape[1]), x.dtype)


def einsum(equation: str, *operands: Traced) -> Traced:
    """From left to right, as torch does where opt_einsum is not installed."""
    inputs, output = equation.split("->")
    terms = inputs.split(",")
    letters = output + "".join(sorted(set(inputs) - set(output) - {","}))
    aligned = [_aligned(term, operand, letters) for term, operand in zip(terms, operands, strict=True)]
    left = {at: sum(operand.shape[at] != 1 for operand in aligned) for at in range(len(output), len(letters))}
    result = aligned[0]
    for operand in aligned[1:]:
        result = _pair(result, operand, left)
    if len(operands) == 1 and left:
        return result.sum(tuple(left))
    return result.reshape(*result.shape[: len(output)])


def _aligned(term: str, operand: Traced, letters: str) -> Traced:
    """Its axes in the order of the letters, with axes of one for those that it lacks."""
    lacking = [letter for letter in letters if letter not in term]
    for _ in lacking:
        operand = operand.unsqueeze(len(operand.shape))
    order = [*term, *lacking]
    return operand.permute(*(order.index(letter) for letter in letters))


def _pair(one: Traced, other: Traced, left: dict[int, int]) -> Traced:
    """The product of two operands, summed over what no later one has."""
    summed: list[int] = []
    alone: tuple[list[int], list[int]] = ([], [])  # what only one of the two has, and no later one
    for axis, count in left.items():
        here = one.shape[axis] != 1, other.shape[axis] != 1
        left[axis] = count - all(here)
        if all(here) and left[axis] == 1:
            summed.append(axis)
        elif any(here) and not all(here) and count == 1:
            alone[here[1]].append(axis)
    one, other = (x.sum(axes, keepdim=True) if axes else x for x, axes in zip((one, other), alone, strict=True))
    return _contracted(one, other, summed) if summed else one * other


def _contracted(one: Traced, other: Traced, summed: Sequence[int]) -> Traced:
    """`at::native::sumproduct_pair`: both as stacks of matrices, `bmm`, and back."""
    sizes = strided.broadcast([one.shape, other.shape])
    axes = [axis for axis in range(len(sizes)) if axis not in summed]
    both = [axis for axis in axes if one.shape[axis] != 1 and other.shape[axis] != 1]
    rows = [axis for axis in axes if one.shape[axis] != 1 and other.shape[axis] == 1]
    columns = [axis for axis in axes if one.shape[axis] == 1]
    count, height, width, inner = (math.prod(sizes[axis] for axis in group) for group in (both, rows, columns, summed))
    left = one.permute(*both, *rows, *summed, *columns).reshape(count, height, inner)
    right = other.permute(*both, *summed, *columns, *rows).reshape(count, inner, width)
    product = made("bmm", (left, right), (count, height, width), one.dtype)
    order = [*both, *rows, *summed, *columns]
    shape = [1 if axis in summed else sizes[axis] for axis in order]
    return product.reshape(*shape).permute(*(order.index(axis) for axis in range(len(order))))


def dropout(x: Traced, p: float = 0.5, training: bool = True) -> Traced:
    """Off a GPU, torch multiplies by a mask of the same dtype."""
    return x * zeros_like(x) if training and p else x


def zeros_like(x: Traced, dtype: Dtype | None = None) -> Traced:
    """New memory for as many numbers, which wants no gradient."""
    dtype = dtype or x.dtype
    strides = strided.elementwise(x.shape, [(x.shape, x.strides)])
    return Traced(x.shape, strides, dtype, Storage(x.storage.tape, math.prod(x.shape) * dtype.bytes))


def scaled_dot_product_attention(
    q: Traced,
    k: Traced,
    v: Traced,
    attn_mask: Traced | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Traced:
    """The fused kernel, or, where something is dropped or the mask wants a gradient, one product after another."""
    if dropout_p or _unfit(q, k, v, attn_mask):
        return _attention_by_products(q, k, v, attn_mask, dropout_p, is_causal, enable_gqa)
    b, a, s, e = (*q.shape[:3], v.shape[3])
    logarithms = Storage(q.storage.tape, b * a * s * promoted(q.dtype, FLOAT32).bytes)
    operands = (q, k, v) if attn_mask is None else (q, k, v, attn_mask.to(q.dtype))
    return made("attention", operands, (b, a, s, e), q.dtype, strided.along((b, a, s, e), (3, 1, 2, 0)), [logarithms])


def _unfit(q: Traced, k: Traced, v: Traced, mask: Traced | None) -> bool:
    """Is this nothing for the fused kernel? It wants heads of one size, their numbers side by side, and a constant mask."""
    scattered = any(x.strides[-1] != 1 for x in (q, k, v) if x.shape[-1] != 1)
    refused = mask is not None and (len(mask.shape) not in (2, 4) or mask.node is not None)
    return len(q.shape) != 4 or q.shape[-1] != v.shape[-1] or scattered or refused


def _attention_by_products(
    q: Traced, k: Traced, v: Traced, mask: Traced | None, p: float, causal: bool, grouped: bool
) -> Traced:
    """`_scaled_dot_product_attention_math`: in float32 at least, and scaled on both sides so that nothing overflows."""
    dtype, wide = q.dtype, promoted(q.dtype, FLOAT32)
    q, k, v = (x.to(wide) for x in (q, k, v))
    q = q * 1.0
    if causal:
        mask = _causal(q, k)
    if grouped:
        k, v = (_repeated(x, q.shape[1]) for x in (k, v))
    last = len(k.shape) - 1
    turned = k.permute(*range(last - 1), last, last - 1) * 1.0
    scores = matmul(q, turned)
    if mask is not None:
        scores = scores + mask.to(wide)
    scores = softmax(scores, -1)
    return matmul(dropout(scores, p), v).to(dtype)


def _causal(q: Traced, k: Traced) -> Traced:
    """The mask that torch makes of `is_causal`."""
    shape = (q.shape[-2], k.shape[-2])
    return Traced(shape, strided.contiguous(shape), q.dtype, Storage(q.storage.tape, math.prod(shape) * q.dtype.bytes))


def _repeated(x: Traced, heads: int) -> Traced:
    """Each group once for each head that reads it: a copy."""
    b, groups, s, e = x.shape
    return x.unsqueeze(2).expand(b, groups, heads // groups, s, e).reshape(b, heads, s, e)


def softmax(x: Traced, axis: int) -> Traced:
    """A new tensor, its last axis fastest."""
    return made("softmax", (x,), x.shape, x.dtype)


def cumsum(x: Traced, axis: int) -> Traced:
    """A new tensor, as the given one lies."""
    return elementwise("cumsum", x)


def layer_norm(x: Traced, shape: Shape, weight: Traced | None = None, bias: Traced | None = None, eps: float = 1e-5) -> Traced:
    """One kernel, which keeps a mean and a deviation of each row too."""
    rows = math.prod(x.shape) // math.prod(shape)
    aside = [Storage(x.storage.tape, rows * x.dtype.bytes) for _ in range(2)]
    operands = [each for each in (x, weight, bias) if each is not None]
    return made("layer_norm", operands, x.shape, x.dtype, beside=aside)


def rms_norm(x: Traced, shape: Shape, weight: Traced | None = None, eps: float | None = None) -> Traced:
    """Composed, and in float32 where the input is shorter."""
    wide = x.to(promoted(x.dtype, FLOAT32))
    axes = tuple(range(len(x.shape) - len(shape), len(x.shape)))
    normed = wide * elementwise("rsqrt", (wide**2).reduced("mean", axes, keepdim=True))
    return (normed if weight is None else normed * weight).to(x.dtype)


def gelu(x: Traced, approximate: str = "none") -> Traced:
    """Element by element."""
    return elementwise("gelu", x)


def embedding(places: Traced, weight: Traced) -> Traced:
    """A row of the weight for each place."""
    return made("embedding", (weight, places), (*places.shape, weight.shape[1]), weight.dtype)


def where(condition: Traced, one: Operand, other: Operand) -> Traced:
    """Element by element."""
    return elementwise("where", condition, one, other, dtype=common((one, other)))


def var(x: Traced, axes: int | Sequence[int], correction: int = 1, keepdim: bool = False) -> Traced:
    """Over some axes."""
    return x.reduced("var", axes, keepdim)


def topk(x: Traced, count: int) -> Sorted:
    """The largest along the last axis, and where they stood."""
    shape = (*x.shape[:-1], count)
    places = made("compare", (x,), shape, INT64)
    return Sorted(made("sort", (x,), shape, x.dtype, beside=[places.storage]), places)


def narrow(x: Traced, axis: int, start: int, length: int) -> Traced:
    """A stretch of an axis."""
    return x._part("slice", axis % len(x.shape), (length,))


def searchsorted(places: Traced, values: Traced, right: bool) -> Traced:
    """Where each value would stand."""
    return made("compare", (places, values), values.shape, INT64)


def argsort(x: Traced) -> Traced:
    """Where its numbers stood, in order."""
    return x.sort().indices


def roll(x: Traced, by: int, axis: int) -> Traced:
    """A copy that starts elsewhere."""
    return made("roll", (x,), x.shape, x.dtype)


def flip(x: Traced, axes: Sequence[int]) -> Traced:
    """A copy that runs backwards."""
    return made("roll", (x,), x.shape, x.dtype)


def stack(parts: Sequence[Traced], axis: int = 0) -> Traced:
    """One after another, along a new axis."""
    shape = list(parts[0].shape)
    shape.insert(axis, len(parts))
    return made("stack", parts, tuple(shape), parts[0].dtype)


def cross_entropy(logits: Traced, targets: Traced) -> Traced:
    """The mean loss of rows of logits."""
    logarithms = made("log_softmax", (logits,), logits.shape, logits.dtype)
    weight = Storage(logits.storage.tape, logits.dtype.bytes)
    return made("nll_loss", (logarithms, targets), (), logits.dtype, beside=[weight])


def _unary(operation: str) -> Callable[[Traced], Traced]:
    return functools.partial(elementwise, operation, floating=True)


def _over(operation: str) -> Callable[..., Traced]:
    def reduce(x: Traced, axes: int | Sequence[int] = (), keepdim: bool = False) -> Traced:
        return x.reduced(operation, axes, keepdim)

    return reduce


COMPOSED: tuple[Callable[..., Traced | Sorted], ...] = (
    *(linear, einsum, dropout, scaled_dot_product_attention, softmax, cumsum, layer_norm, rms_norm, gelu, embedding),
    *(where, var, topk, narrow, searchsorted, argsort, roll, flip, stack, cross_entropy, zeros_like),
)
FUNCTIONS: dict[str, Callable[..., Traced | Sorted]] = {
    **{function.__name__: function for function in COMPOSED},
    **{name: _unary(name) for name in _UNARY.split()},
    **{name: _over(name) for name in _REDUCING.split()},
}
