"""Which storages does a piece of PyTorch take, and which does autograd keep? Tensors without numbers."""

from __future__ import annotations

import functools
import math
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import FrameType
from typing import Any, NamedTuple, NoReturn

from einformer.errors import EinformerError, fail
from einformer.interpreters.torch import strided
from einformer.interpreters.torch.autograd import BESIDE, RESULT, ROWS
from einformer.interpreters.torch.dtypes import BOOL, FLOAT32, INT64, Dtype, promoted
from einformer.interpreters.torch.strided import Shape

FILE = "<traced>"  # what the file that is run is called


@dataclass(slots=True)
class Tape:
    """A run of a file: the bytes in use, the most at once, the steps recorded, and how often what is recorded happens."""

    live: int = 0
    peak: int = 0
    steps: int = 0
    times: int = 1


class Storage:
    """The memory of a tensor and its views. It is freed when nothing refers to it any more, just as torch's is."""

    __slots__ = ("bytes", "kind", "tape")

    def __init__(self, tape: Tape, size: int, kind: str = "") -> None:
        self.tape, self.bytes, self.kind = tape, size, kind
        tape.live += size
        tape.peak = max(tape.peak, tape.live)

    def __del__(self) -> None:
        self.tape.live -= self.bytes


@dataclass(slots=True, eq=False)
class Node:
    """The backward step of an operation."""

    operation: str
    line: int
    step: int
    times: int
    inputs: tuple[Edge | None, ...]  # None where no gradient is wanted
    keeps: tuple[Storage, ...]
    back: Callable[[Traced], Traced] | None = None  # what a view does with a gradient


@dataclass(frozen=True, slots=True)
class Edge:
    """Where the gradient of an operand goes, and how it lies."""

    node: Node
    shape: Shape
    strides: Shape
    dtype: Dtype


@dataclass(slots=True, eq=False)
class Traced:
    """A tensor without its numbers. `node` made it, if a gradient is wanted for it."""

    shape: Shape
    strides: Shape
    dtype: Dtype
    storage: Storage
    node: Node | None = None

    is_cuda = False

    @property
    def bytes(self) -> int:
        """Of its numbers; a view may keep more alive."""
        return math.prod(self.shape) * self.dtype.bytes

    @property
    def T(self) -> Traced:
        """Its axes in reverse."""
        return self.permute(*reversed(range(len(self.shape))))

    @property
    def mT(self) -> Traced:
        """Its last two axes in each other's place."""
        return self.transpose(-2, -1)

    @property
    def device(self) -> None:
        """Wherever the others are."""

    def __getattr__(self, name: str) -> NoReturn:
        raise unknown(name)

    def __add__(self, other: Operand) -> Traced:
        return elementwise("add", self, other)

    def __sub__(self, other: Operand) -> Traced:
        return elementwise("sub", self, other)

    def __rsub__(self, other: float) -> Traced:
        return elementwise("rsub", self, other)

    def __mul__(self, other: Operand) -> Traced:
        return elementwise("mul", self, other)

    def __truediv__(self, other: Operand) -> Traced:
        return elementwise("div", self, other, floating=True)

    def __rtruediv__(self, other: float) -> Traced:
        return elementwise("reciprocal", self, floating=True) * other

    def __pow__(self, other: Operand) -> Traced:
        return elementwise("pow", self, other)

    def __rpow__(self, other: float) -> Traced:
        return elementwise("rpow", self, other)

    def __neg__(self) -> Traced:
        return elementwise("neg", self)

    def _compared(self, other: Operand) -> Traced:
        return elementwise("compare", self, other, dtype=BOOL)

    __radd__, __rmul__ = __add__, __mul__
    __lt__ = __le__ = __gt__ = __ge__ = __and__ = __or__ = _compared
    __eq__ = __ne__ = _compared  # type: ignore[assignment]

    def __floordiv__(self, other: Operand) -> Traced:
        return elementwise("floor", self, other)

    def __mod__(self, other: Operand) -> Traced:
        return elementwise("remainder", self, other)

    def __invert__(self) -> Traced:
        return elementwise("compare", self, dtype=BOOL)

    def to(self, dtype: Dtype) -> Traced:
        """In another dtype: itself if it has that."""
        return self if dtype == self.dtype else elementwise("to", self, dtype=dtype)

    def long(self) -> Traced:
        """As whole numbers."""
        return self.to(INT64)

    def clamp(self, min: float | None = None, max: float | None = None) -> Traced:
        """Element by element."""
        return elementwise("clamp", self)

    def permute(self, *order: int) -> Traced:
        """Its axes in another order."""
        there, strides = tuple(self.shape[i] for i in order), tuple(self.strides[i] for i in order)
        back = tuple(order.index(i) for i in range(len(order)))
        return view("permute", self, there, strides, lambda gradient: gradient.permute(*back))

    def transpose(self, one: int, other: int) -> Traced:
        """Two of its axes in each other's place."""
        return self.movedim((one, other), (other, one))

    def movedim(self, axes: Sequence[int], places: Sequence[int]) -> Traced:
        """Some of its axes elsewhere, the others in their order."""
        rank = len(self.shape)
        there = {place % rank: axis % rank for axis, place in zip(axes, places, strict=True)}
        others = iter(axis for axis in range(rank) if axis not in there.values())
        return self.permute(*(there[at] if at in there else next(others) for at in range(rank)))

    def reshape(self, *shape: int) -> Traced:
        """A view, or a view of a copy where that is needed."""
        if shape == self.shape:
            return self
        strides = strided.viewed(self.shape, self.strides, shape)
        if strides is None:
            return self.clone().reshape(*shape)
        own = self.shape
        return view("reshape", self, shape, strides, lambda gradient: gradient.reshape(*own))

    def view(self, shape: Shape) -> Traced:
        """The same numbers in another shape."""
        return self.reshape(*shape)

    def clone(self) -> Traced:
        """A copy whose last axis runs fastest."""
        return made("clone", (self,), self.shape, self.dtype)

    def flatten(self, first: int = 0, last: int = -1) -> Traced:
        """Adjacent axes as one."""
        first, last = first % len(self.shape), last % len(self.shape)
        merged = math.prod(self.shape[first : last + 1])
        return self.reshape(*self.shape[:first], merged, *self.shape[last + 1 :])

    def unflatten(self, axis: int, sizes: Shape) -> Traced:
        """One axis as several."""
        axis %= len(self.shape)
        return self.reshape(*self.shape[:axis], *sizes, *self.shape[axis + 1 :])

    def expand(self, *shape: int) -> Traced:
        """Axes of one, and axes that are not there, repeated without a copy."""
        return view("expand", self, shape, strided.spread(shape, self.shape, self.strides))

    def unsqueeze(self, axis: int) -> Traced:
        """With an axis of one more."""
        shape, strides = list(self.shape), list(self.strides)
        strides.insert(axis, shape[axis] * strides[axis] if axis < len(shape) else 1)
        shape.insert(axis, 1)
        return view("unsqueeze", self, tuple(shape), tuple(strides), lambda gradient: gradient._part("select", axis, ()))

    def split(self, sizes: Shape, axis: int) -> list[Traced]:
        """Views of stretches of an axis, which have one backward step together."""
        axis %= len(self.shape)
        parts = [view("split", self, (*self.shape[:axis], size, *self.shape[axis + 1 :]), self.strides) for size in sizes]
        for part in parts:
            part.node = parts[0].node
        return parts

    def chunk(self, count: int, axis: int) -> list[Traced]:
        """Equal stretches of an axis."""
        return self.split((self.shape[axis] // count,) * count, axis)

    def reduced(self, operation: str, axes: int | Sequence[int] = (), keepdim: bool = False) -> Traced:
        """A sum, a mean and the like over some axes, or over all."""
        gone = {axis % len(self.shape) for axis in ((axes,) if isinstance(axes, int) else axes)} or set(range(len(self.shape)))
        kept = tuple(1 if axis in gone else size for axis, size in enumerate(self.shape) if keepdim or axis not in gone)
        return made(operation, (self,), kept, INT64 if self.dtype == BOOL else self.dtype)

    def detach(self) -> Traced:
        """The same numbers, of which no gradient is wanted."""
        return Traced(self.shape, self.strides, self.dtype, self.storage)

    def sort(self, dim: int = -1, descending: bool = False, stable: bool = False) -> Sorted:
        """Its numbers in order, and where they stood."""
        places = made("compare", (self,), self.shape, INT64)
        return Sorted(made("sort", (self,), self.shape, self.dtype, beside=[places.storage]), places)

    def scatter(self, axis: int, places: Traced, value: float) -> Traced:
        """A copy with a number at some places."""
        return made("scatter", (self, places), self.shape, self.dtype)

    def sum(self, axes: int | Sequence[int] = (), keepdim: bool = False) -> Traced:
        """Over some axes, or over all."""
        return self.reduced("sum", axes, keepdim)

    def __getitem__(self, key: Any) -> Traced:
        result, axis, chosen = self, 0, {}
        items = key if isinstance(key, tuple) else (key,)
        for item in items:
            if item is Ellipsis:
                axis += len(self.shape) - sum(each is not Ellipsis and each is not None for each in items)
                continue
            if isinstance(item, int):
                result = result._part("select", axis, ())
                continue
            if item is None:
                result = result.unsqueeze(axis)
            elif isinstance(item, Traced):
                chosen[axis] = item
            elif item != slice(None):
                result = result._part("slice", axis, (len(range(*item.indices(result.shape[axis]))),))
            axis += 1
        return result._indexed(chosen) if chosen else result

    def _part(self, operation: str, axis: int, sizes: Shape) -> Traced:
        strides = self.strides[axis : axis + len(sizes)]
        after = axis + 1
        return view(
            operation,
            self,
            (*self.shape[:axis], *sizes, *self.shape[after:]),
            (*self.strides[:axis], *strides, *self.strides[after:]),
        )

    def _indexed(self, chosen: Mapping[int, Traced]) -> Traced:
        """The elements at computed places: the axes of those stand where the first of the chosen ones stood."""
        axes = sorted(chosen)
        first, after = axes[0], axes[-1] + 1
        places = strided.broadcast([each.shape for each in chosen.values()])
        shape = (*self.shape[:first], *places, *self.shape[after:])
        read = (*self.strides[:first], *(0 for _ in places), *self.strides[after:])
        tail = (1,) * (len(self.shape) - after)
        lying = [(each.shape + tail, each.strides + (0,) * len(tail)) for each in chosen.values()]
        strides = strided.elementwise(shape, [(shape, read), *lying])
        return made("index", (self, *(chosen[axis] for axis in axes)), shape, self.dtype, strides)


class Sorted(NamedTuple):
    """What `sort` returns."""

    values: Traced
    indices: Traced


Operand = Traced | int | float | bool


def elementwise(operation: str, *operands: Operand, dtype: Dtype | None = None, floating: bool = False) -> Traced:
    """An operation on the elements at each place, in the shape that all the operands fit."""
    tensors = [operand for operand in operands if isinstance(operand, Traced)]
    shape = strided.broadcast([tensor.shape for tensor in tensors])
    if dtype is None:
        dtype = common(operands)
        dtype = FLOAT32 if floating and not dtype.is_floating_point else dtype
    strides = strided.elementwise(shape, [(tensor.shape, tensor.strides) for tensor in tensors])
    return made(operation, operands, shape, dtype, strides)


def common(operands: Sequence[Operand]) -> Dtype:
    """The dtype of a result: a number, and a tensor without axes, count only where they are of a higher kind."""
    tensors = [operand for operand in operands if isinstance(operand, Traced)]
    result = functools.reduce(promoted, [tensor.dtype for tensor in tensors if tensor.shape] or [BOOL])
    for operand in operands:
        other = operand.dtype if isinstance(operand, Traced) else _KINDS[type(operand)]
        if min(other.rank, 2) > min(result.rank, 2):
            result = other
    return result


_KINDS: dict[type, Dtype] = {bool: BOOL, int: INT64, float: FLOAT32}


def line() -> int:
    """The line of the file that is being run, or 0."""
    frame: FrameType | None = sys._getframe(1)
    while frame and frame.f_code.co_filename != FILE:
        frame = frame.f_back
    return frame.f_lineno if frame else 0


def unknown(operation: str) -> EinformerError:
    """The refusal of an operation that no row describes."""
    place = [f"line {line()} of the file has it"] if line() else []
    return fail("E620", f"no row says what `{operation}` keeps", facts=place)


def made(
    operation: str,
    operands: Sequence[Operand],
    shape: Shape,
    dtype: Dtype,
    strides: Shape | None = None,
    beside: Sequence[Storage] = (),
) -> Traced:
    """A new tensor, in storage of its own."""
    tape = tape_of(operands)
    storage = Storage(tape, math.prod(shape) * dtype.bytes)
    result = Traced(shape, strided.contiguous(shape) if strides is None else strides, dtype, storage)
    result.node = _node(tape, operation, operands, result, beside)
    return result


def view(
    operation: str, tensor: Traced, shape: Shape, strides: Shape, back: Callable[[Traced], Traced] | None = None
) -> Traced:
    """The same storage seen otherwise; `back` sees a gradient as the tensor was seen."""
    result = Traced(shape, strides, tensor.dtype, tensor.storage)
    result.node = _node(tensor.storage.tape, operation, (tensor,), result, ())
    if result.node:
        result.node.back = back
    return result


def tape_of(operands: Sequence[Operand]) -> Tape:
    """The run that the operands belong to."""
    return next(operand.storage.tape for operand in operands if isinstance(operand, Traced))


def _node(tape: Tape, operation: str, operands: Sequence[Operand], result: Traced, beside: Sequence[Storage]) -> Node | None:
    if operation not in ROWS:
        raise unknown(operation)
    inputs = tuple(map(_edge, operands))
    if not any(inputs) or not result.dtype.is_floating_point:
        return None
    keeps: list[Storage] = []
    for what, whose in ROWS[operation].keeps:
        if whose is None or (whose < len(inputs) and inputs[whose]):
            keeps += _kept(what, operands, result, beside)
    tape.steps += 1
    return Node(operation, line(), tape.steps, tape.times, inputs, tuple(keeps))


def _edge(operand: Operand) -> Edge | None:
    if isinstance(operand, Traced) and operand.node:
        return Edge(operand.node, operand.shape, operand.strides, operand.dtype)
    return None


def _kept(what: int, operands: Sequence[Any], result: Traced, beside: Sequence[Storage]) -> Sequence[Storage]:
    if what == BESIDE:
        return beside
    found = result if what == RESULT else operands[what] if what < len(operands) else None
    return (found.storage,) if isinstance(found, Traced) else ()
