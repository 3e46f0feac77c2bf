"""Goes through trees: the children of an expression, an expression rebuilt from others, the statements of a body."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from operator import attrgetter, is_
from typing import Any, TypeVar

from einformer.language.tree import (
    Apply,
    Equation,
    Expression,
    Group,
    Index,
    Layer,
    Loop,
    Name,
    Power,
    Product,
    Quotient,
    Statement,
    Sum,
    Tensor,
)

Parts = tuple[Expression, ...]
Body = tuple[Statement, ...]
Indices = tuple[Index, ...]
Kind = TypeVar("Kind")

# The fields of each kind of node but the leaves that hold the expressions directly inside it.
_FIELDS: dict[type[Expression], tuple[str, ...]] = {
    Tensor: ("slots",),
    Group: ("members",),
    Sum: ("terms",),
    Product: ("factors",),
    Quotient: ("numerator", "denominator"),
    Power: ("base", "exponent"),
    Apply: ("arguments",),
}
_CHILDREN: dict[type[Expression], Callable[[Any], Parts]] = {kind: attrgetter(*fields) for kind, fields in _FIELDS.items()}


# The expressions directly inside e (of an `Apply` the arguments, not its indices).
def children(e: Expression) -> Parts:
    return _CHILDREN[type(e)](e) if type(e) in _CHILDREN else ()


# The result is e itself where f changes nothing.
def rebuild(e: Expression, f: Callable[[Expression], Expression]) -> Expression:
    old = children(e)
    new = tuple(map(f, old))
    if all(map(is_, new, old)):
        return e
    fields = _FIELDS[type(e)]
    changed: dict[str, Any] = dict(zip(fields, new if len(fields) > 1 else (new,), strict=True))
    return replace(e, **changed)


# Outer expressions come first, in the order of the text. There is no recursion, so trees may have any height.
def subexpressions(e: Expression) -> Iterator[Expression]:
    waiting = [e]
    while waiting:
        node = waiting.pop()
        yield node
        if type(node) in _CHILDREN:
            waiting += _CHILDREN[type(node)](node)[::-1]


# Indices of operators are not among the nodes: they are a part of `Apply`.
def find_all(kind: type[Kind], *roots: Expression) -> Iterator[Kind]:
    return (x for root in roots for x in subexpressions(root) if isinstance(x, kind))


def letters_in(*roots: Expression) -> set[str]:
    return {index.letter for index in find_all(Index, *roots)}


def slots_of(left: Tensor | Name) -> tuple[Expression, ...]:
    return left.slots if isinstance(left, Tensor) else ()


# The members of a group stand in its place.
def open_groups(slots: Iterable[Expression]) -> list[Expression]:
    return [member for slot in slots for member in (slot.members if isinstance(slot, Group) else (slot,))]


# A subscript is not an operation. There is no recursion, so trees may have any height.
def height(e: Expression) -> int:
    highest, below = 0, [(e, 0)]
    while below:
        node, depth = below.pop()
        highest = max(highest, depth)
        depth += not isinstance(node, Tensor)
        below += ((child, depth) for child in children(node))
    return highest


# Each statement comes with the number of loops around it.
def statements(body: tuple[Statement, ...], around: int = 0) -> Iterator[tuple[Statement, int]]:
    for statement in body:
        yield statement, around
        if isinstance(statement, Loop):
            yield from statements(statement.body, around + 1)


def equations(body: tuple[Statement, ...]) -> Iterator[Equation]:
    return (statement for statement, _ in statements(body) if isinstance(statement, Equation))


def loops(body: tuple[Statement, ...]) -> Iterator[Loop]:
    return (statement for statement, _ in statements(body) if isinstance(statement, Loop))


# The indices that its head and its loops name are not among them.
def expressions(layer: Layer) -> Iterator[Expression]:
    yield from (*layer.formals, layer.output)
    for weight in layer.weights:
        yield from weight.indices
        yield from () if weight.default is None else (weight.default,)
    for statement, _ in statements(layer.body):
        if isinstance(statement, Loop):
            yield statement.count
        else:
            yield from (*slots_of(statement.left), statement.right)


# Letters of the head and of operators are among them.
def list_letters(layer: Layer) -> dict[str, None]:
    inside = (e for root in (*layer.indices, *expressions(layer)) for e in subexpressions(root))
    opened = (x for e in inside for x in (e.indices if isinstance(e, Apply) else (e,)))
    return dict.fromkeys(x.letter for x in opened if isinstance(x, Index))


def map_equations(body: Body, f: Callable[[Equation], Equation]) -> Body:
    return map_in_turns(body, lambda equation, _: f(equation))


def map_in_turns(body: Body, f: Callable[[Equation, Indices], Equation], turning: Indices = ()) -> Body:
    return tuple(
        f(s, turning) if isinstance(s, Equation) else replace(s, body=map_in_turns(s.body, f, (*turning, s.index)))
        for s in body
    )


def map_expressions(layer: Layer, f: Callable[[Expression], Expression]) -> Layer:
    weights = tuple(replace(w, default=f(w.default)) if w.default is not None else w for w in layer.weights)
    return replace(layer, weights=weights, body=map_equations(layer.body, lambda eq: replace(eq, right=f(eq.right))))


# f changes how often loops turn, too.
def map_right_sides(body: Body, f: Callable[[Expression], Expression]) -> Body:
    return tuple(
        replace(s, right=f(s.right))
        if isinstance(s, Equation)
        else replace(s, count=f(s.count), body=map_right_sides(s.body, f))
        for s in body
    )
