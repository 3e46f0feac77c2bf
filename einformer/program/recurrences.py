"""Equations that are solved position by position, since they read their own left side at earlier ones (R4)."""

from __future__ import annotations

from einformer.language.tree import Equation, Index, Sum, Tensor
from einformer.language.walk import subexpressions


def recurrent(equation: Equation) -> str | None:
    """The index in whose order an equation must be solved: it reads its own left side at an earlier position."""
    if equation.relation != "=" or not isinstance(equation.left, Tensor):
        return None
    for e in subexpressions(equation.right):
        if isinstance(e, Tensor) and e.name == equation.left.name:
            for mine, slot in zip(equation.left.slots, e.slots, strict=True):
                if isinstance(mine, Index) and isinstance(slot, Sum) and mine in slot.terms:
                    return mine.letter
    return None
