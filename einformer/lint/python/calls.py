"""Describes a call to the linter: its function, its arguments, and the known axes of its tensors, sizes and shapes."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from einformer.lint.python.axes import ONE, Axis, Shape, Value


@dataclass(frozen=True, slots=True)
class Size:
    """The length of an axis, or the product of several lengths."""

    axis: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Sizes:
    """The `shape` of a tensor."""

    shape: Shape


@dataclass(frozen=True, slots=True)
class Several:
    """A tuple of tensors that all have these axes, however many are unpacked."""

    shape: Shape


Known = Value | Size | Sizes | Several | int | tuple["Known | None", ...]


def spread_sizes(sizes: Sizes | tuple[Known | None, ...]) -> tuple[Known | None, ...]:
    """Returns the sizes of a shape one by one."""
    if isinstance(sizes, tuple):
        return sizes
    return tuple(1 if axis == ONE else Size(axis) if axis else None for axis in sizes.shape)


def axis_of_size(size: Known | None) -> Axis:
    """Returns the axis that has a size."""
    return size.axis if isinstance(size, Size) else ONE if size == 1 else None


Evaluate = Callable[[ast.expr], Known | None]


@dataclass(frozen=True, slots=True)
class Call:
    """A call. `first` is the receiver or the first argument: `x` in `x.view(…)` and in `torch.softmax(x, …)`."""

    first: ast.expr
    rest: Sequence[ast.expr]
    keywords: Mapping[str, ast.expr] = field(default_factory=dict)
    evaluate: Evaluate = lambda _: None

    @property
    def value(self) -> Value | None:
        """Returns the receiver if it is a tensor with known axes."""
        return as_tensor(self.evaluate(self.first))

    def argument(self, position: int, *names: str) -> ast.expr | None:
        """Returns the argument at a position after the receiver, or with one of these names."""
        named = next((self.keywords[name] for name in names if name in self.keywords), None)
        return named or (self.rest[position] if position < len(self.rest) else None)

    def tensor(self, position: int, *names: str) -> Value | None:
        """Returns the argument if it is a tensor with known axes."""
        node = self.argument(position, *names)
        return as_tensor(self.evaluate(node)) if node is not None else None

    def number(self, position: int, *names: str) -> int | None:
        """Returns the argument if it is a literal whole number."""
        node = self.argument(position, *names)
        return None if node is None else read_number(node)

    def dims(self, position: int, *names: str) -> tuple[int, ...] | None:
        """Returns the argument as one number or several."""
        node = self.argument(position, *names)
        written = node.elts if isinstance(node, ast.Tuple | ast.List) else [node] if node is not None else []
        numbers = [read_number(argument) for argument in written]
        return tuple(argument for argument in numbers if argument is not None) if numbers and None not in numbers else None

    def numbers(self) -> list[ast.expr]:
        """Returns the arguments after the receiver: `(2, 3)` or `2, 3`."""
        if len(self.rest) == 1 and isinstance(self.rest[0], ast.Tuple | ast.List):
            return list(self.rest[0].elts)
        return list(self.rest)

    def sizes(self, written: Sequence[ast.expr]) -> tuple[Known | None, ...] | None:
        """Returns known sizes: alone, in a tuple, or in a shape with a star. Returns None if their number is unknown."""
        if len(written) == 1 and not isinstance(written[0], ast.Starred):
            known_sizes = self.evaluate(written[0])
            return (
                spread_sizes(known_sizes)
                if isinstance(known_sizes, Sizes | tuple)
                else (known_sizes,)
                if isinstance(known_sizes, int | Size)
                else None
            )
        known_sizes = self.evaluate(ast.Tuple(list(written), ast.Load()))
        return known_sizes if isinstance(known_sizes, tuple) else None


def as_tensor(value: Known | None) -> Value | None:
    """Returns a tensor if all its axes are known."""
    return value if isinstance(value, Value) and not value.open else None


def read_number(node: ast.expr) -> int | None:
    """Returns a literal whole number."""
    match node:
        case ast.Constant(value=int(number)) if not isinstance(number, bool):
            return number
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int(number))):
            return -number
    return None


Operation = Callable[[Call], Known | None]
