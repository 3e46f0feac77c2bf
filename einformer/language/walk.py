"""Goes through trees: the children of an expression, an expression rebuilt from others, the statements of a body."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from operator import attrgetter, is_
from typing import Any

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


def children(e: Expression) -> Parts:
    """The expressions directly inside e (of an `Apply` the arguments, not its indices)."""
    return _CHILDREN[type(e)](e) if type(e) in _CHILDREN else ()


def rebuild(e: Expression, f: Callable[[Expression], Expression]) -> Expression:
    """e with f applied to each child; e itself where f changes none."""
    old = children(e)
    new = tuple(map(f, old))
    if all(map(is_, new, old)):
        return e
    fields = _FIELDS[type(e)]
    changed: dict[str, Any] = dict(zip(fields, new if len(fields) > 1 else (new,), strict=True))
    return replace(e, **changed)


def subexpressions(e: Expression) -> Iterator[Expression]:
    """e and everything inside it, outside first, in the order of the text; without recursion, for trees of any height."""
    waiting = [e]
    while waiting:
        node = waiting.pop()
        yield node
        if type(node) in _CHILDREN:
            waiting += _CHILDREN[type(node)](node)[::-1]


def indices_in(e: Expression) -> Iterator[Index]:
    """The indices in e, in the order of the text; those of operators are not among them."""
    return (x for x in subexpressions(e) if isinstance(x, Index))


def slots_of(left: Tensor | Name) -> tuple[Expression, ...]:
    """The slots of a left side; a bare name has none."""
    return left.slots if isinstance(left, Tensor) else ()


def open_groups(slots: Iterable[Expression]) -> list[Expression]:
    """The slots, with the members of each group in its place."""
    return [member for slot in slots for member in (slot.members if isinstance(slot, Group) else (slot,))]


def height(e: Expression) -> int:
    """How many operations stand one in another (a subscript is none); without recursion, for trees of any height."""
    highest, below = 0, [(e, 0)]
    while below:
        node, depth = below.pop()
        highest = max(highest, depth)
        depth += not isinstance(node, Tensor)
        below += ((child, depth) for child in children(node))
    return highest


def statements(body: tuple[Statement, ...], around: int = 0) -> Iterator[tuple[Statement, int]]:
    """The statements of a body in the order of the text, each with the number of loops around it."""
    for statement in body:
        yield statement, around
        if isinstance(statement, Loop):
            yield from statements(statement.body, around + 1)


def equations(body: tuple[Statement, ...]) -> Iterator[Equation]:
    """The equations of a body in the order of the text, those in loops too."""
    return (statement for statement, _ in statements(body) if isinstance(statement, Equation))


def loops(body: tuple[Statement, ...]) -> Iterator[Loop]:
    """The loops of a body, those in loops too."""
    return (statement for statement, _ in statements(body) if isinstance(statement, Loop))


def expressions(layer: Layer) -> Iterator[Expression]:
    """Every expression of a layer; the indices that its head and its loops name are not among them."""
    yield from (*layer.formals, layer.output)
    for weight in layer.weights:
        yield from weight.indices
        yield from () if weight.default is None else (weight.default,)
    for statement, _ in statements(layer.body):
        if isinstance(statement, Loop):
            yield statement.count
        else:
            yield from (*slots_of(statement.left), statement.right)


def list_letters(layer: Layer) -> dict[str, None]:
    """The letters of the indices of a layer, those of its head and of operators too."""
    inside = (e for root in (*layer.indices, *expressions(layer)) for e in subexpressions(root))
    opened = (x for e in inside for x in (e.indices if isinstance(e, Apply) else (e,)))
    return dict.fromkeys(x.letter for x in opened if isinstance(x, Index))


def map_equations(body: Body, f: Callable[[Equation], Equation]) -> Body:
    """The body with f applied to each equation."""
    return map_in_turns(body, lambda equation, _: f(equation))


def map_in_turns(body: Body, f: Callable[[Equation, Indices], Equation], turning: Indices = ()) -> Body:
    """The body with f applied to each equation and to the indices of the loops around it."""
    return tuple(
        f(s, turning) if isinstance(s, Equation) else replace(s, body=map_in_turns(s.body, f, (*turning, s.index)))
        for s in body
    )


def map_expressions(layer: Layer, f: Callable[[Expression], Expression]) -> Layer:
    """The layer with f applied to the right side of each equation and to the defaults of its weights."""
    weights = tuple(replace(w, default=f(w.default)) if w.default is not None else w for w in layer.weights)
    return replace(layer, weights=weights, body=map_equations(layer.body, lambda eq: replace(eq, right=f(eq.right))))


def map_right_sides(body: Body, f: Callable[[Expression], Expression]) -> Body:
    """The body with f applied to each right side, and to how often its loops turn."""
    return tuple(
        replace(s, right=f(s.right))
        if isinstance(s, Equation)
        else replace(s, count=f(s.count), body=map_right_sides(s.body, f))
        for s in body
    )
