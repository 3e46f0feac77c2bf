"""How does one go through a tree? The children of an expression, and an expression rebuilt from new children."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from operator import attrgetter, is_
from typing import Any, assert_never

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

_CHILDREN: dict[type[Expression], Callable[[Any], tuple[Expression, ...]]] = {
    Number: lambda e: (),
    Name: lambda e: (),
    Index: lambda e: (),
    Tensor: attrgetter("slots"),
    Group: attrgetter("members"),
    Sum: attrgetter("terms"),
    Product: attrgetter("factors"),
    Quotient: attrgetter("numerator", "denominator"),
    Power: attrgetter("base", "exponent"),
    Apply: attrgetter("arguments"),
}


def children(e: Expression) -> tuple[Expression, ...]:
    """The expressions directly inside e (of an `Apply` the arguments, not its indices)."""
    return _CHILDREN[type(e)](e)


def rebuild(e: Expression, f: Callable[[Expression], Expression]) -> Expression:
    """e with f applied to each child; e itself where f changes none."""
    old = children(e)
    new = tuple(map(f, old))
    if all(map(is_, new, old)):
        return e
    match e:
        case Number() | Name() | Index():
            return e
        case Tensor():
            return Tensor(e.name, new, span=e.span)
        case Group():
            return Group(new, span=e.span)
        case Sum():
            return Sum(new, span=e.span)
        case Product():
            return Product(new, span=e.span)
        case Quotient():
            return Quotient(*new, span=e.span)
        case Power():
            return Power(*new, span=e.span)
        case Apply():
            return Apply(e.name, e.indices, new, span=e.span)
        case _:
            assert_never(e)


def subexpressions(e: Expression) -> Iterator[Expression]:
    """e and everything inside it, outside first, in the order of the text; without recursion, for trees of any height."""
    waiting = [e]
    while waiting:
        node = waiting.pop()
        yield node
        if below := _CHILDREN[type(node)](node):
            waiting += below[::-1]


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
