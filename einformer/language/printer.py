"""How is a tree written? As plain text in the one style of the project, which parses to the same tree again.

The rules of precedence stand here once; the printer of LaTeX (`interpreters/latex.py`) asks them too.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from enum import IntEnum
from typing import TypeGuard, assert_never

from einformer.language.primitives import COMPARISONS, PRIMITIVES
from einformer.language.tree import (
    Apply,
    Axis,
    Declaration,
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
    Scalar,
    Spec,
    Statement,
    Sum,
    Tensor,
    Weight,
)

_LEGEND, _COMMENT, _NOTE = 22, 48, 65  # columns of what is said beside the code
_ROW = 90  # characters of a row of weights
_OPERATORS = frozenset(name for name, with_indices in PRIMITIVES if with_indices)


def show(node: Declaration | Expression) -> str:
    """The text of a node; of a whole `Spec`, a file.

    >>> show(Equation(Tensor("q", (Index("s"),)), "=", Product((Number(-1), Name("H")))))
    'q_s = -H'
    """
    match node:
        case Spec():
            return "\n".join(_spec(node)) + "\n"
        case Layer():
            return "\n".join(_layer(node))
        case Equation() | Loop():
            return "\n".join(_statement(node, ""))
        case Axis():
            return _axis(node)
        case Scalar():
            return _scalar(node)
        case Weight():
            return _weight(node)
        case _:
            return expression(node)


# ----------------------------------------------------------------------------------------------------- declarations


def _spec(spec: Spec) -> Iterator[str]:
    legend = list(_said((spec.title, *spec.about) if spec.title else (), ""))
    axes = [line for axis in spec.axes for line in _entry(axis, _axis(axis))]
    scalars = [line for scalar in spec.scalars for line in _entry(scalar, _scalar(scalar))]
    blocks = [legend + (["axes", *axes] if axes else []), ["scalars", *scalars] if scalars else []]
    blocks += (list(_layer(layer)) for layer in spec.layers)
    blocks.append(list(_said(spec.below, "")))
    for at, block in enumerate(block for block in blocks if block):
        yield from [""] * bool(at) + block


def _entry(node: Axis | Scalar, text: str) -> Iterator[str]:
    yield from _said(node.above, "  ")
    note = node.note if isinstance(node, Scalar) else ""
    yield _beside(_beside(f"  {text}", _LEGEND, "@", note), _LEGEND, "#", node.comment)


def _said(comments: tuple[str, ...], indent: str) -> Iterator[str]:
    """Whole lines of comment."""
    return (f"{indent}# {comment}" for comment in comments)


def _axis(axis: Axis) -> str:
    default = f" = {expression(axis.default, Level.SUM)}" if axis.default is not None else ""
    bound = f" <= {expression(axis.bound, Level.SUM)}" if axis.bound is not None else ""
    return f"{axis.letter}: {expression(axis.size, Level.SUM)}{default}{bound}"


def _scalar(scalar: Scalar) -> str:
    value = scalar.value
    text = f"[{', '.join(number(item.value) for item in value)}]" if isinstance(value, tuple) else expression(value)
    return f"{scalar.name}{_subscript(scalar.indices)} = {text}"


def _layer(layer: Layer) -> Iterator[str]:
    formals = ", ".join(map(_left, layer.formals))
    time = f" causal in {layer.time.letter}" if layer.time else ""
    head = f"{layer.kind} {layer.name}{_subscript(layer.indices)}({formals}) -> {_left(layer.output)}{time}:"
    yield from _said(layer.above, "")
    yield _remarked(head, layer.note, layer.comment)
    for row in rows(layer.weights, _weight):
        yield from _said(row[0].above, "  ")
        kind, of = "buffers" if row[0].kind == "buffer" else "weights", row[0].layer
        yield _remarked(f"  {kind} {', '.join(map(_weight, row))}{of and ': '}{of}", "", row[-1].comment)
    for statement in layer.body:
        yield from _statement(statement, "  ")


def rows(weights: tuple[Weight, ...], write: Callable[[Weight], str]) -> Iterator[list[Weight]]:
    """The weights of one line after the other: of one kind, as many as fit, with comments only above and at the end."""
    row: list[Weight] = []
    for weight in weights:
        width = len(", ".join(map(write, row))) + len(write(weight))
        if row and (_kind(row[-1]) != _kind(weight) or row[-1].comment or weight.above or width > _ROW):
            yield row
            row = []
        row.append(weight)
    yield from [row] * bool(row)


def _kind(weight: Weight) -> tuple[str, str]:
    return weight.kind, weight.layer


def _weight(weight: Weight) -> str:
    default = f" = {expression(weight.default, Level.SUM)}" if weight.default is not None else ""
    return f"{weight.name}{_subscript(weight.indices)}{'?' * weight.optional}{default}"


def _statement(statement: Statement, indent: str) -> Iterator[str]:
    yield from _said(statement.above, indent)
    match statement:
        case Equation():
            yield _remarked(indent + alone(statement), statement.note, statement.comment)
        case Loop():
            head = f"{indent}for {statement.index.letter} < {expression(statement.count, Level.SUM)}:"
            yield _remarked(head, "", statement.comment)
            for inner in statement.body:
                yield from _statement(inner, indent + "  ")
        case _:
            assert_never(statement)


def alone(equation: Equation | Scalar) -> str:
    """An equation or a scalar without what is remarked above and beside it."""
    if isinstance(equation, Scalar):
        return _scalar(equation)
    head = "return" if equation.relation == "return" else f"{_left(equation.left)} {equation.relation}"
    return f"{head} {expression(equation.right)}"


def _left(left: Tensor | Name) -> str:
    return left.name if isinstance(left, Name) else left.name + _subscript(left.slots)


def _remarked(text: str, note: str, comment: str) -> str:
    return _beside(_beside(text, _NOTE, "@", note), _COMMENT, "#", comment)


def _beside(text: str, column: int, mark: str, remark: str) -> str:
    return f"{text:<{column - 1}} {mark} {remark}" if remark else text


# ------------------------------------------------------------------------------------------------------- precedence


class Level(IntEnum):
    """How tightly an expression holds together: the rules of the grammar, loosest first."""

    OR, AND, NOT, COMPARISON, SUM, TERM, FACTOR, ATOM = range(8)


_INFIX = {"or": Level.OR, "and": Level.AND, "not": Level.NOT, "mod": Level.TERM} | dict.fromkeys(COMPARISONS, Level.COMPARISON)


def level(e: Expression) -> Level:
    """The rule of the grammar whose text e is."""
    match e:
        case Number():
            return Level.TERM if math.copysign(1, e.value) < 0 else Level.ATOM
        case Name() | Index() | Tensor() | Group():
            return Level.ATOM
        case Sum():
            return Level.SUM
        case Product() | Quotient():
            return Level.TERM
        case Power():
            return Level.FACTOR
        case Apply():
            return Level.COMPARISON if links(e) else _INFIX.get(e.name, Level.ATOM)
        case _:
            assert_never(e)


def links(e: Expression) -> list[Apply]:
    """The comparisons of a chain: `a < b <= c` is `a < b and b <= c`. Empty when e is no chain."""
    found: list[Apply] = []
    while isinstance(e, Apply) and (e.name == "and" or e.name in COMPARISONS):
        link = e.arguments[1] if e.name == "and" else e
        if not (isinstance(link, Apply) and link.name in COMPARISONS) or (found and link.arguments[1] != found[0].arguments[0]):
            return []
        found.insert(0, link)
        if link is e:
            return found
        e = e.arguments[0]
    return []


def is_minus(factors: tuple[Expression, ...]) -> bool:
    """Is the first factor the -1 of a minus sign? `-1 2` is not `-2`."""
    first, second = factors[0], factors[1:2]
    minus = isinstance(first, Number) and type(first.value) is int and first.value == -1
    return minus and bool(second) and not isinstance(second[0], Number)


def is_dividend(e: Expression) -> TypeGuard[Product]:
    """Is e a product that `mod` divides without parentheses? A sign in front of it would negate the remainder (R11)."""
    return isinstance(e, Product) and not (isinstance(e.factors[0], Number) and level(e.factors[0]) is Level.TERM)


def needs_end(e: Expression) -> bool:
    """Must e end its product? Σ takes whatever factors follow it (R11)."""
    return isinstance(e, Apply) and e.name == "sum"


def takes_no_power(e: Expression) -> bool:
    """Would a power directly after e have two readings (R11)?"""
    return isinstance(e, Apply) and bool(e.indices) and e.name in _OPERATORS


# ------------------------------------------------------------------------------------------------------ expressions


def expression(e: Expression, least: Level = Level.OR) -> str:
    """The text of e, in parentheses where the grammar wants something that holds tighter."""
    return _expression(e) if level(e) >= least else f"({_expression(e)})"


def _expression(e: Expression) -> str:
    match e:
        case Number():
            return number(e.value)
        case Name():
            return e.name
        case Index():
            return e.letter
        case Tensor():
            return e.name + _subscript(e.slots)
        case Group():
            return f"({''.join(map(_member, e.members))})"
        case Sum():
            return _sum(e)
        case Product():
            return _product(e.factors)
        case Quotient():
            return f"{_numerator(e.numerator)} / {expression(e.denominator, Level.FACTOR)}"
        case Power():
            return f"{_base(e.base)}^{_exponent(e.exponent)}"
        case Apply():
            return _apply(e)
        case _:
            assert_never(e)


def number(value: float) -> str:
    """A number that reads again as the same: `12`, `0.1`, `1e-5`, `-inf`."""
    mantissa, e, exponent = str(value).partition("e")
    return f"{mantissa}e{int(exponent)}" if e else mantissa


def _sum(e: Sum) -> str:
    first, *others = (expression(term, Level.TERM) for term in e.terms)
    return first + "".join(f" - {term[1:]}" if term.startswith("-") else f" + {term}" for term in others)


def _product(factors: tuple[Expression, ...]) -> str:
    """Factors with a space between; a sign only in front, and a single factor is one in parentheses (a numerator)."""
    if len(factors) == 1:
        return f"({_expression(factors[0])})"
    sign, factors = ("-", factors[1:]) if is_minus(factors) else ("", factors)
    *before, last = factors
    leading = [number(factors[0].value)] if isinstance(factors[0], Number) and before else []
    middle = [f"({_expression(f)})" if needs_end(f) else expression(f, Level.FACTOR) for f in before[len(leading) :]]
    return sign + " ".join([*leading, *middle, expression(last, Level.FACTOR)])


def _numerator(e: Expression) -> str:
    return _expression(e) if isinstance(e, Product | Number) else expression(e, Level.FACTOR)


def _base(e: Expression) -> str:
    return f"({_expression(e)})" if takes_no_power(e) else expression(e, Level.ATOM)


def _exponent(e: Expression) -> str:
    return number(e.value) if isinstance(e, Number) else f"({_expression(e)})" if needs_end(e) else expression(e, Level.ATOM)


def _apply(e: Apply) -> str:
    chain = links(e)
    if chain:
        first = expression(chain[0].arguments[0], Level.SUM)
        return first + "".join(f" {link.name} {expression(link.arguments[1], Level.SUM)}" for link in chain)
    match e.name, e.arguments:
        case ("or", (left, right)):
            return f"{expression(left, Level.OR)} or {expression(right, Level.AND)}"
        case ("and", (left, right)):
            return f"{expression(left, Level.AND)} and {expression(right, Level.NOT)}"
        case ("not", (condition,)):
            return f"not {expression(condition, Level.NOT)}"
        case ("mod", (left, right)):
            over = _product(left.factors) if is_dividend(left) else expression(left, Level.FACTOR)
            return f"{over} mod {expression(right, Level.FACTOR)}"
        case ("top", (k, *arguments)):
            return f"top_{{{expression(k, Level.SUM)},{_letters(e.indices)}}}({', '.join(map(expression, arguments))})"
        case _:
            return f"{e.name}{_operator_subscript(e.indices)}({', '.join(map(expression, e.arguments))})"


# ------------------------------------------------------------------------------------------------------- subscripts


def _subscript(slots: tuple[Expression, ...]) -> str:
    """`_bsea` of letters; else in braces, apart where a letter would join what stands before it: `_{x_bs d}`."""
    if all(isinstance(slot, Index) for slot in slots):
        return "_" * bool(slots) + "".join(map(_slot, slots))
    apart = " " if any(isinstance(slot, Tensor | Number) for slot in slots) else ""
    return f"_{{{apart.join(map(_slot, slots))}}}"


def _slot(e: Expression) -> str:
    return _expression(e) if isinstance(e, Tensor) or (isinstance(e, Number) and level(e) is Level.ATOM) else _member(e)


def _member(e: Expression) -> str:
    """What stands in a group: a letter, a group, or anything else in parentheses."""
    return _expression(e) if isinstance(e, Index | Group) else f"({expression(e, Level.SUM)})"


def _operator_subscript(indices: tuple[Index, ...]) -> str:
    """`Sm_s'`, but `mean_{egj}`: several letters under an operator stand in braces."""
    return f"_{{{_letters(indices)}}}" if len(indices) > 1 else _subscript(indices)


def _letters(indices: tuple[Index, ...]) -> str:
    return "".join(index.letter for index in indices)
