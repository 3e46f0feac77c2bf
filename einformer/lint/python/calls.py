"""What is a call to the linter: which function, of what, and what is known of a tensor, a size, a shape?"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from einformer.lint.python.axes import ONE, Axis, Shape, Value


@dataclass(frozen=True, slots=True)
class Size:
    """The length of an axis, or the product of several."""

    axis: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Sizes:
    """The `shape` of a tensor."""

    shape: Shape


@dataclass(frozen=True, slots=True)
class Several:
    """A tuple of tensors that have these axes each, as many as are unpacked."""

    shape: Shape


Known = Value | Size | Sizes | Several | int | tuple["Known | None", ...]


def spread(found: Sizes | tuple[Known | None, ...]) -> tuple[Known | None, ...]:
    """The sizes of a shape one by one."""
    if isinstance(found, tuple):
        return found
    return tuple(1 if axis == ONE else Size(axis) if axis else None for axis in found.shape)


def axis_of_size(found: Known | None) -> Axis:
    """The axis that has a size."""
    return found.axis if isinstance(found, Size) else ONE if found == 1 else None


Evaluate = Callable[[ast.expr], Known | None]


@dataclass(frozen=True, slots=True)
class Call:
    """A call: its receiver or first argument, `x` of `x.view(…)` and of `torch.softmax(x, …)`; the others; how to know them."""

    first: ast.expr
    rest: Sequence[ast.expr]
    keywords: Mapping[str, ast.expr] = field(default_factory=dict)
    evaluate: Evaluate = lambda _: None

    @property
    def value(self) -> Value | None:
        """The receiver, if it is a tensor of known axes."""
        return closed(self.evaluate(self.first))

    def argument(self, position: int, *names: str) -> ast.expr | None:
        """The argument of this position after the receiver, or of one of these names."""
        named = next((self.keywords[name] for name in names if name in self.keywords), None)
        return named or (self.rest[position] if position < len(self.rest) else None)

    def tensor(self, position: int, *names: str) -> Value | None:
        """The same, if it is a tensor of known axes."""
        node = self.argument(position, *names)
        return closed(self.evaluate(node)) if node is not None else None

    def number(self, position: int, *names: str) -> int | None:
        """The same, if it is a whole number that stands there."""
        node = self.argument(position, *names)
        return None if node is None else whole(node)

    def dims(self, position: int, *names: str) -> tuple[int, ...] | None:
        """One number or several, in a tuple or alone."""
        node = self.argument(position, *names)
        written = node.elts if isinstance(node, ast.Tuple | ast.List) else [node] if node is not None else []
        found = [whole(each) for each in written]
        return tuple(each for each in found if each is not None) if found and None not in found else None

    def numbers(self) -> list[ast.expr]:
        """The arguments after the receiver, `(2, 3)` or `2, 3`."""
        if len(self.rest) == 1 and isinstance(self.rest[0], ast.Tuple | ast.List):
            return list(self.rest[0].elts)
        return list(self.rest)

    def sizes(self, written: Sequence[ast.expr]) -> tuple[Known | None, ...] | None:
        """What is known of sizes, alone, in a tuple, or in a shape with a star; None where their number is not."""
        if len(written) == 1 and not isinstance(written[0], ast.Starred):
            found = self.evaluate(written[0])
            return spread(found) if isinstance(found, Sizes | tuple) else (found,) if isinstance(found, int | Size) else None
        found = self.evaluate(ast.Tuple(list(written), ast.Load()))
        return found if isinstance(found, tuple) else None


def closed(found: Known | None) -> Value | None:
    """A tensor all of whose axes are known."""
    return found if isinstance(found, Value) and not found.open else None


def whole(node: ast.expr) -> int | None:
    """The whole number that is written there."""
    match node:
        case ast.Constant(value=int(number)) if not isinstance(number, bool):
            return number
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int(number))):
            return -number
    return None


Operation = Callable[[Call], Known | None]
