"""What is known of a section: its equations as they are read, the sizes and shapes that its words state?"""

from __future__ import annotations

import functools
from dataclasses import dataclass, field

from einformer.errors import Finding, Span
from einformer.language.sizes import Legend
from einformer.language.tree import Apply, Expression, Sum, Tensor
from einformer.language.walk import subexpressions
from einformer.lint.balance import is_left
from einformer.lint.legend import Sizes
from einformer.lint.reading import Equation


@dataclass
class Read:
    """An equation that is read: its sides as trees, and what was found in it."""

    equation: Equation
    left: Expression
    right: Expression | None
    findings: list[Finding] = field(default_factory=list)

    @functools.cached_property
    def defines(self) -> Tensor | None:
        """The tensor that it defines."""
        made = any(isinstance(x, Tensor | Apply) for x in self.made_of)
        if not made or self.equation.rebinds or not isinstance(self.left, Tensor) or not is_left(self.left):
            return None
        own = (x for x in self.made_of if isinstance(x, Tensor) and x.name == self.left.name)
        return None if any(not _earlier(x) for x in own) else self.left  # `A_c = sum_l A_cl` says A in two ways

    @functools.cached_property
    def made_of(self) -> tuple[Expression, ...]:
        """The right side and everything in it."""
        return tuple(subexpressions(self.right)) if self.right is not None else ()

    @functools.cached_property
    def tensors(self) -> tuple[Tensor, ...]:
        """Every tensor of both sides."""
        return tuple(x for x in (*subexpressions(self.left), *self.made_of) if isinstance(x, Tensor))

    def place(self, span: Span) -> Span:
        """Where in the file a place of its trees stands."""
        return self.equation.left.place(span)


def _earlier(x: Tensor) -> bool:
    """Is this a read at another position, as in a recurrence?"""
    return any(isinstance(slot, Sum) for slot in x.slots)


@dataclass(frozen=True, slots=True)
class Context:
    """What is known of a section: sizes, also as the checker takes them, the tensors whose shapes it states, the names
    that only have one subscript, the letters that are fixed ("for each layer $l$").

    `primed`: indices have primes, so that the letter of one is that of its axis. `causal`: the text says it of its model.
    """

    sizes: Sizes
    legend: Legend
    declared: dict[str, Tensor]
    constant: frozenset[str]
    fixed: frozenset[str]
    primed: bool
    causal: bool

    def are_apart(self, one: str, other: str) -> bool:
        """Are two letters said to run over axes of different sizes?"""
        sizes = [self.sizes.known[axis].size for axis in (one, other) if axis in self.sizes.known]
        return len(sizes) == 2 and sizes[0] != sizes[1]
