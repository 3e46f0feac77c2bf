"""Refuses terms that an operator cannot feel: those without its index in a softmax, a variance, a choice of the largest.

`Sm_i(x_i + c)` is `Sm_i(x_i)`: `c` says nothing, and as a rule it lacks a prime. A tensor that one expression alone reads is
what stands in its line; the axes of any other are its letters. Terms of numbers and indices alone may stand (`s' - s` is one
number), and so may a term with an operator over `i` (`x_i - max_i x_i`): its author knows that it does not depend on `i`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace

from einformer.errors import Finding
from einformer.language.calls import axis_of, slot_letters
from einformer.language.primitives import primitive
from einformer.language.printer import expression
from einformer.language.scope import Scope, factors_of
from einformer.language.tree import Apply, Equation, Expression, Index, Number, Product, Quotient, Sum, Tensor
from einformer.language.walk import subexpressions

Line = Callable[[Tensor], Equation | None]  # that defines a tensor which is read once


def unfelt(e: Expression, scope: Scope, line: Line) -> Iterator[Finding]:
    """The terms of an elaborated expression, and of such lines before it, that an operator around them cannot feel."""
    for x in subexpressions(e):
        row = primitive(x.name, True) if isinstance(x, Apply) and x.indices else None
        if isinstance(x, Apply) and row is not None and row.ignores_shifts and scope.binding(x) is None:
            for term in _shifts(x.arguments[-1], {index.letter for index in x.indices}, scope, line):
                yield _finding(term, x, scope)


def _shifts(e: Expression, over: set[str], scope: Scope, line: Line) -> Iterator[Expression]:
    """The terms of e without an index of `over`, through factors without one and past what a mask hides."""
    match e:
        case Tensor() if (there := line(e)) is not None and over & scope.free(e).keys():
            if len(e.slots) != len(letters := slot_letters(there.left)):  # another finding
                return
            own = dict(zip(e.slots, letters, strict=True))
            over = {own[slot] for slot in own if isinstance(slot, Index) and slot.letter in over}
            parts: tuple[Expression, ...] = (there.right,)
        case Sum() if over & scope.free(e).keys():
            parts = e.terms
        case Product() | Quotient() if over & scope.free(e).keys():
            parts = tuple(factor for factor in factors_of(e) if over & scope.free(factor).keys())
            parts = parts if len(parts) == 1 and not _is_denominator(parts[0], e) else ()
        case Apply(name="where", arguments=(_, *branches)) if Number(-math.inf) in branches:
            parts = tuple(branches)
        case _:
            parts = ()
            if not over & scope.free(e).keys() and _may_be_a_slip(e, over, line):
                yield e
    for part in parts:
        yield from _shifts(part, over, scope, line)


def _is_denominator(factor: Expression, e: Product | Quotient) -> bool:
    return isinstance(e, Quotient) and factor is e.denominator


def _may_be_a_slip(e: Expression, over: set[str], line: Line) -> bool:
    """Has e a tensor, and no operator over one of these indices?"""
    inside = list(subexpressions(e))
    lines = [there.right for x in inside if isinstance(x, Tensor) and (there := line(x)) is not None]
    operators = (x for part in (e, *lines) for x in subexpressions(part) if isinstance(x, Apply))
    return any(isinstance(x, Tensor) for x in inside) and not any(
        index.letter in over for x in operators for index in x.indices
    )


def _finding(term: Expression, operator: Apply, scope: Scope) -> Finding:
    """The index that a term lacks, and what to write."""
    letters = [index.letter for index in operator.indices]
    shown, named = f"`{operator.name}_{letters[0]}`", " or ".join(f"`{letter}`" for letter in letters)
    facts = tuple(scope.legend.describe(letter) for letter in letters) if scope.legend else ()
    message = f"this has no {named}, so {shown} is the same without it"
    return Finding("E313", message, term.span, facts, _fix(term, operator, scope))


def _fix(term: Expression, operator: Apply, scope: Scope) -> str:
    """The tensor with the prime that makes it right, else an index that each term has."""
    letters = [index.letter for index in operator.indices]
    for tensor in reversed([x for x in subexpressions(term) if isinstance(x, Tensor)]):
        for slot in tensor.slots:
            if isinstance(slot, Index) and (twin := next((i for i in letters if axis_of(i) == axis_of(slot.letter)), "")):
                slots = tuple(replace(slot, letter=twin) if other is slot else other for other in tensor.slots)
                return f"`{expression(replace(tensor, slots=slots))}`, or the text without it"
    argument = operator.arguments[-1]
    free = [scope.free(part) for part in (argument.terms if isinstance(argument, Sum) else (argument,))]
    shared = sorted((letter for letter in free[0] if all(letter in each for each in free)), key=lambda i: "'" not in i)
    other = f"`{operator.name}_{shared[0]}`" if shared and len(free) > 1 else f"`{letters[0]}` in this term"
    return f"{other}, or the text without it"
