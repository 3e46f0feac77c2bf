"""Holds the facts of a section: its equations as they are read, and the sizes and shapes that its words state."""

from __future__ import annotations

import functools
from dataclasses import dataclass, field

from einformer.errors import Finding, Span
from einformer.language.calls import axis_of
from einformer.language.sizes import Legend
from einformer.language.tree import Apply, Expression, Sum, Tensor
from einformer.language.walk import subexpressions
from einformer.lint.balance import is_left
from einformer.lint.legend import Sizes
from einformer.lint.reading import Equation


@dataclass
class Read:
    """An equation with its sides as trees and its findings."""

    equation: Equation
    left: Expression
    right: Expression | None
    findings: list[Finding] = field(default_factory=list)

    @functools.cached_property
    def defines(self) -> Tensor | None:
        """Returns the tensor that the equation defines, or None."""
        computed = any(isinstance(x, Tensor | Apply) for x in self.made_of)
        if not computed or self.equation.rebinds or not isinstance(self.left, Tensor) or not is_left(self.left):
            return None
        own = (x for x in self.made_of if isinstance(x, Tensor) and x.name == self.left.name)
        return None if any(not _earlier(x) for x in own) else self.left  # `A_c = sum_l A_cl` says A in two ways

    @functools.cached_property
    def made_of(self) -> tuple[Expression, ...]:
        """Returns the right side and all its nodes."""
        return tuple(subexpressions(self.right)) if self.right is not None else ()

    @functools.cached_property
    def tensors(self) -> tuple[Tensor, ...]:
        """Returns every tensor of both sides."""
        return tuple(x for x in (*subexpressions(self.left), *self.made_of) if isinstance(x, Tensor))

    def place(self, span: Span) -> Span:
        """Returns the place in the file of a span of its trees."""
        return self.equation.left.place(span)


def _earlier(x: Tensor) -> bool:
    return any(isinstance(slot, Sum) for slot in x.slots)


@dataclass(frozen=True, slots=True)
class Context:
    """The facts of a section: sizes, the same as a legend, tensors with a stated shape, and letters that are fixed ("for
    each layer $l$").

    `causal`: the text calls its model causal.
    """

    sizes: Sizes
    legend: Legend
    declared: dict[str, Tensor]
    fixed: frozenset[str]
    causal: bool

    def are_twins(self, one: str, other: str) -> bool:
        """Returns whether two letters run over one axis, or over two of one size."""
        sizes = [self.sizes.known[i].size for i in map(axis_of, (one, other)) if i in self.sizes.known]
        return axis_of(one) == axis_of(other) or (len(sizes) == 2 and sizes[0] == sizes[1] != "")

    def are_apart(self, one: str, other: str) -> bool:
        """Returns whether the axes of two letters have different sizes."""
        sizes = [self.sizes.known[axis].size for axis in (one, other) if axis in self.sizes.known]
        return len(sizes) == 2 and "" not in sizes and sizes[0] != sizes[1]
