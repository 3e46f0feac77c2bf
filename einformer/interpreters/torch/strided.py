"""Where do the numbers of a tensor lie, and which of its views need no copy? Torch's own arithmetic of strides."""

from __future__ import annotations

import functools
from collections.abc import Sequence

from einformer.errors import fail

Shape = tuple[int, ...]


@functools.lru_cache
def contiguous(shape: Shape) -> Shape:
    """The strides of a tensor whose last axis runs fastest."""
    return along(shape, range(len(shape) - 1, -1, -1))


def along(shape: Shape, fastest_first: Sequence[int]) -> Shape:
    """The strides of a dense tensor whose axes run in this order."""
    strides, step = [0] * len(shape), 1
    for axis in fastest_first:
        strides[axis] = step
        step *= max(shape[axis], 1)
    return tuple(strides)


def is_contiguous(shape: Shape, strides: Shape) -> bool:
    """Does the last axis run fastest? The stride of an axis of one says nothing."""
    step = 1
    for size, stride in zip(reversed(shape), reversed(strides), strict=True):
        if size != 1 and stride != step:
            return False
        step *= size
    return True


def viewed(shape: Shape, strides: Shape, wanted: Shape) -> Shape | None:
    """The strides of the same numbers in another shape, or None where that takes a copy (`at::detail::computeStride`)."""
    if not shape:
        return (1,) * len(wanted)
    result, at = [0] * len(wanted), len(wanted) - 1
    chunk, there, here = strides[-1], 1, 1
    for axis in range(len(shape) - 1, -1, -1):
        there *= shape[axis]
        if axis and (shape[axis - 1] == 1 or strides[axis - 1] == there * chunk):
            continue
        while at >= 0 and (here < there or wanted[at] == 1):
            result[at] = here * chunk
            here *= wanted[at]
            at -= 1
        if here != there:
            return None
        chunk, there, here = strides[axis - 1], 1, 1
    return tuple(result) if at < 0 else None


def broadcast(shapes: Sequence[Shape]) -> Shape:
    """The shape of an element-wise result. Raises EinformerError E701."""
    if len(set(shapes)) == 1:
        return shapes[0]
    length = max(map(len, shapes), default=0)
    axes = zip(*((1,) * (length - len(shape)) + shape for shape in shapes), strict=True)
    result = tuple(max(sizes, key=lambda size: size != 1) for sizes in axes)
    for shape in shapes:
        for size, wanted in zip(reversed(shape), reversed(result), strict=False):
            if size not in (1, wanted):
                raise fail("E701", f"{' and '.join(map(str, shapes))} do not fit together")
    return result


def elementwise(shape: Shape, operands: Sequence[tuple[Shape, Shape]]) -> Shape:
    """The strides of an element-wise result: its axes run in the order in which those of the operands do (`TensorIterator`)."""
    if all(each == shape and is_contiguous(each, strides) for each, strides in operands):
        return contiguous(shape)
    lying = [spread(shape, each, strides) for each, strides in operands]
    order = list(range(len(shape) - 1, -1, -1))
    for start in range(1, len(order)):
        place = start
        for before in range(start - 1, -1, -1):
            decided = _slower(order[before], order[place], shape, lying)
            if decided < 0:
                break
            if decided:
                order[before], order[place] = order[place], order[before]
                place = before
    return along(shape, order)


def spread(shape: Shape, own: Shape, strides: Shape) -> Shape:
    """The strides of an operand in a larger shape: zero along the axes that it lacks, or has once."""
    missing = len(shape) - len(own)
    there = zip(shape[missing:], own, strides, strict=True)
    return (0,) * missing + tuple(0 if size == 1 != wanted else stride for wanted, size, stride in there)


def _slower(one: int, other: int, shape: Shape, lying: Sequence[Shape]) -> int:
    """Does the first axis run slower than the second (1), faster (-1), or does no operand say?"""
    for strides in lying:
        if not strides[one] or not strides[other]:
            continue
        if strides[one] != strides[other]:
            return 1 if strides[one] > strides[other] else -1
        if shape[one] > shape[other]:
            return 1
    return 0
