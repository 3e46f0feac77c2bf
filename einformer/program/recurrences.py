"""Equations that are solved position by position, since they read their own left side at earlier ones (R4)."""

from __future__ import annotations

import itertools

from einformer.errors import EinformerError, fail
from einformer.language.slots import Numbers
from einformer.language.tree import Equation, Expression, Index, Sum, Tensor
from einformer.language.walk import subexpressions


def find_recurrence(equation: Equation) -> str | None:
    """The index in whose order an equation must be solved: it reads its own left side at an earlier position."""
    if equation.relation != "=" or not isinstance(equation.left, Tensor):
        return None
    for e in subexpressions(equation.right):
        if isinstance(e, Tensor) and e.name == equation.left.name:
            for mine, slot in zip(equation.left.slots, e.slots, strict=True):
                if isinstance(mine, Index) and isinstance(slot, Sum) and mine in slot.terms:
                    return mine.letter
    return None


def measure_back(numbers: Numbers, slot: Expression, letter: str) -> tuple[int, int]:
    """How many positions back a recurrence reads at least and at most: 1 and 1 of `(s - 1)`. Raises EinformerError E507."""
    letters = list(dict.fromkeys(x.letter for x in subexpressions(slot) if isinstance(x, Index) and x.letter != letter))
    ranges = [numbers.numbers(x, None) for x in letters]
    ends = itertools.product(*({*some[:1], *some[-1:]} for some, _ in ranges))
    try:
        values = [numbers.legend.number(slot, dict(zip(letters, place, strict=True)) | {letter: 0}) for place in ends] or [-1]
    except EinformerError:
        values = [0]
    if all(whole for _, whole in ranges) and max(values) < 0 and all(value == int(value) for value in values):
        return -int(max(values)), -int(min(values))
    raise fail("E507", "a recurrence reads a fixed number of positions back", slot.span, fix=f"`({letter} - 1)`")
