"""How does one go through a tree? The children of an expression, and an expression rebuilt from new children."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import assert_never

from einformer.language.tree import (
    Apply,
    Equation,
    Expression,
    Group,
    Index,
    Layer,
    Loop,
    Name,
    Number,
    Power,
    Product,
    Quotient,
    Statement,
    Sum,
    Tensor,
)


def children(e: Expression) -> tuple[Expression, ...]:
    """The expressions directly inside e (of an `Apply` the arguments, not its indices)."""
    match e:
        case Number() | Name() | Index():
            return ()
        case Tensor():
            return e.slots
        case Group():
            return e.members
        case Sum():
            return e.terms
        case Product():
            return e.factors
        case Quotient():
            return (e.numerator, e.denominator)
        case Power():
            return (e.base, e.exponent)
        case Apply():
            return e.arguments
        case _:
            assert_never(e)


def rebuild(e: Expression, f: Callable[[Expression], Expression]) -> Expression:
    """e with f applied to each child."""
    match e:
        case Number() | Name() | Index():
            return e
        case Tensor():
            return replace(e, slots=tuple(map(f, e.slots)))
        case Group():
            return replace(e, members=tuple(map(f, e.members)))
        case Sum():
            return replace(e, terms=tuple(map(f, e.terms)))
        case Product():
            return replace(e, factors=tuple(map(f, e.factors)))
        case Quotient():
            return replace(e, numerator=f(e.numerator), denominator=f(e.denominator))
        case Power():
            return replace(e, base=f(e.base), exponent=f(e.exponent))
        case Apply():
            return replace(e, arguments=tuple(map(f, e.arguments)))
        case _:
            assert_never(e)


def subexpressions(e: Expression) -> Iterator[Expression]:
    """e and everything inside it, outside first, in the order of the text; without recursion, for trees of any height."""
    waiting = [e]
    while waiting:
        node = waiting.pop()
        yield node
        waiting += reversed(children(node))


def height(e: Expression) -> int:
    """How many operations stand one in another (a subscript is none); without recursion, for trees of any height."""
    highest, below = 0, [(e, 0)]
    while below:
        node, depth = below.pop()
        highest = max(highest, depth)
        depth += not isinstance(node, Tensor)
        below += ((child, depth) for child in children(node))
    return highest


def equations(body: tuple[Statement, ...]) -> Iterator[Equation]:
    """The equations of a body in the order of the text, those in loops too."""
    for statement in body:
        match statement:
            case Equation():
                yield statement
            case Loop():
                yield from equations(statement.body)
            case _:
                assert_never(statement)


def loops(body: tuple[Statement, ...]) -> Iterator[Loop]:
    """The loops of a body, those in loops too."""
    for statement in body:
        if isinstance(statement, Loop):
            yield statement
            yield from loops(statement.body)


def map_equations(body: tuple[Statement, ...], f: Callable[[Equation], Equation]) -> tuple[Statement, ...]:
    """The body with f applied to each equation."""
    return tuple(
        f(statement) if isinstance(statement, Equation) else replace(statement, body=map_equations(statement.body, f))
        for statement in body
    )


def map_expressions(layer: Layer, f: Callable[[Expression], Expression]) -> Layer:
    """The layer with f applied to the right side of each equation and to the defaults of its weights."""
    weights = tuple(replace(w, default=f(w.default)) if w.default is not None else w for w in layer.weights)
    return replace(layer, weights=weights, body=map_equations(layer.body, lambda eq: replace(eq, right=f(eq.right))))
