"""Which letters of one text are those of another, and how does a node read in them? What is only renamed reads the same."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar, assert_never

from einformer.language.calls import axis_of
from einformer.language.printer import show
from einformer.language.tree import Apply, Axis, Equation, Expression, Index, Layer, Loop, Number, Scalar, Spec, Weight
from einformer.language.walk import rebuild

Line = Axis | Scalar | Weight | Layer | Equation | Loop
E = TypeVar("E", bound=Expression)

# By what two axes are the same one, the surest first: size and letter, size, what is said of them, letter.
_RULES: tuple[Callable[[Axis], str], ...] = (
    lambda axis: f"{show(axis.size)} {axis.letter}",
    lambda axis: show(axis.size),
    lambda axis: axis.comment,
    lambda axis: axis.letter,
)


def same_axes(one: Spec, other: Spec) -> dict[str, str]:
    """The letters of the axes of `other` in those of `one`; those of axes that `one` lacks are no letters of it."""
    found: dict[str, str] = {}
    for rule in _RULES:
        free = {rule(axis): axis.letter for axis in reversed(one.axes) if axis.letter not in found.values()}
        for axis in other.axes:
            if axis.letter not in found and rule(axis) and rule(axis) in free:
                found[axis.letter] = free.pop(rule(axis))
    taken = {axis.letter for axis in one.axes}
    return {axis.letter: axis.letter + "°" * (axis.letter in taken) for axis in other.axes} | found


@dataclass(slots=True)
class Reading:
    """How one line reads: its axes by the letters of the other text, its primes by the order in which they first stand.

    Positions that are computed and those that are visible are told apart by a prime (R6), so that `time` without one stays.
    """

    letters: Mapping[str, str]
    time: str
    seen: dict[str, dict[str, int]] = field(default_factory=dict)

    def line(self, node: Line) -> Line:
        """A declaration, the head of a layer or of a loop, or an equation."""
        match node:
            case Axis():
                return replace(node, letter=self.letters.get(node.letter, node.letter))
            case Scalar(value=tuple()):
                return replace(node, indices=self.indices(node.indices))
            case Scalar():
                assert not isinstance(node.value, tuple)
                return replace(node, indices=self.indices(node.indices), value=self.expression(node.value))
            case Weight():
                default = node.default and self.expression(node.default)
                return replace(node, indices=self.indices(node.indices), default=default)
            case Layer():
                indices, formals = self.indices(node.indices), tuple(map(self.expression, node.formals))
                time = node.time and self.index(node.time)
                return replace(node, indices=indices, formals=formals, output=self.expression(node.output), time=time)
            case Equation():
                return replace(node, left=self.expression(node.left), right=self.expression(node.right))
            case Loop():
                return replace(node, index=self.index(node.index), count=self.expression(node.count))
            case _:
                assert_never(node)

    def expression(self, e: E) -> E:
        """An expression; what it is, it stays."""
        read: Any = e
        match e:
            case Index():
                read = self.index(e)
            case Number():
                read = replace(e, value=whole(e.value))
            case Apply():
                read = replace(e, indices=self.indices(e.indices), arguments=tuple(map(self.expression, e.arguments)))
            case _:
                read = rebuild(e, self.expression)
        result: E = read
        return result

    def indices(self, indices: Iterable[Index]) -> tuple[Index, ...]:
        """Indices in their order."""
        return tuple(map(self.index, indices))

    def index(self, index: Index) -> Index:
        """One of them."""
        axis = axis_of(index.letter)
        letter = self.letters.get(axis, axis)
        if index.letter == self.time:
            return replace(index, letter=letter)
        seen = self.seen.setdefault(axis, {})
        return replace(index, letter=letter + "'" * seen.setdefault(index.letter, len(seen) + (axis == self.time)))


def whole(value: float) -> float:
    """A whole number without a point: `500000.0` says what `500000` says."""
    return int(value) if isinstance(value, float) and value.is_integer() and abs(value) < 1e15 else value
