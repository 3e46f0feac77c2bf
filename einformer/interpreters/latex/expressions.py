"""Prints formulas as LaTeX."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import assert_never

from einformer.language.latex_marks import GREEK
from einformer.language.primitives import PRIMITIVES, primitive, row_of
from einformer.language.printer import Level, is_dividend, is_minus, level, links, needs_end, number, takes_no_power
from einformer.language.tree import (
    Apply,
    Expression,
    Group,
    Index,
    Name,
    Number,
    Power,
    Product,
    Quotient,
    Sum,
    Tensor,
)

SIGNS = {row.name: row.latex for row in PRIMITIVES.values() if row.infix}
_FENCES = {row.name: row.fence for row in PRIMITIVES.values() if any(row.fence)}
_UPRIGHT = (r"\mathrm", *(left for left, _ in _FENCES.values()))
_CLOSED = re.compile(r"\)$|\\mathrm\{[^{}]*\}'*$")
_TALL = re.compile(r"\\(frac|sum|begin)(?![a-zA-Z])")


def expression(e: Expression, least: Level = Level.OR, inline: bool = False) -> str:
    """The LaTeX of e, in parentheses where something is wanted that holds tighter; `inline`, without fractions."""
    if isinstance(e, Quotient) and not inline and least > Level.TERM:
        return _fraction(e.numerator, e) if least is Level.FACTOR else enclosed(_text(e, inline))
    return _text(e, inline) if level(e) >= least else enclosed(_text(e, inline))


def flat(e: Expression, least: Level = Level.OR) -> str:
    """The LaTeX of e without fractions."""
    return expression(e, least, inline=True)


def _text(e: Expression, inline: bool) -> str:
    match e:
        case Number():
            return literal(e)
        case Name():
            return symbol(e.name)
        case Index():
            return symbol(e.letter)
        case Tensor():
            return indexed(e.name, e.slots)
        case Group():
            return f"({_abut(map(_member, e.members))})"
        case Sum():
            return _sum(e, inline)
        case Product():
            return _product(e.factors, inline)
        case Quotient():
            return _quotient(e, inline)
        case Power():
            return f"{_base(e.base, inline)}^{{{flat(e.exponent)}}}"
        case Apply():
            return _apply(e, inline)
        case _:
            assert_never(e)


def literal(e: Number) -> str:
    """A number; a power of ten is written as one."""
    mantissa, exponential, exponent = number(e.value).partition("e")
    return f"{mantissa} \\times 10^{{{exponent}}}" if exponential else mantissa.replace("inf", r"\infty")


def _sum(e: Sum, inline: bool) -> str:
    first, *others = (expression(term, Level.TERM, inline) for term in e.terms)
    return first + "".join(f" - {term[1:]}" if term.startswith("-") else f" + {term}" for term in others)


def _product(factors: tuple[Expression, ...], inline: bool) -> str:
    """Factors side by side, with a sign only in front; a single factor is one in parentheses (a numerator)."""
    if len(factors) == 1:
        return enclosed(_text(factors[0], inline))
    sign, factors = ("-", factors[1:]) if is_minus(factors) else ("", factors)
    if sign and len(factors) == 1 and isinstance(factors[0], Quotient):
        return sign + enclosed(_text(factors[0], inline))  # `-\frac{a}{b}` is (-a) / b
    first = [literal(factors[0])] if isinstance(factors[0], Number) else []
    *before, last = factors[len(first) :]
    middle = [enclosed(_text(f, inline)) if needs_end(f) else expression(f, Level.FACTOR, inline) for f in before]
    return sign + beside([*first, *middle, expression(last, Level.FACTOR, inline)])


def beside(factors: list[str]) -> str:
    r"""Factors that neither a number nor an upright name runs into."""
    text = factors[0]
    for factor in factors[1:]:
        apart = factor.startswith(_UPRIGHT) or _CLOSED.search(text)
        text += (r" \cdot " if factor[0].isdigit() else r" \, " if apart else " ") + factor
    return text


def _quotient(e: Quotient, inline: bool) -> str:
    if inline:
        numerator = e.numerator
        over = _text(numerator, inline) if isinstance(numerator, Product | Number) else flat(numerator, Level.FACTOR)
        return f"{over} / {flat(e.denominator, Level.FACTOR)}"
    match e.numerator:
        case Number(value) as minuend if level(minuend) is Level.TERM:
            return "-" + _fraction(Number(-value), e)
        case Product((Number(-1), *factors)) as product if is_minus(product.factors):
            alone = len(factors) == 1 and not isinstance(factors[0], Product)
            return "-" + _fraction(factors[0] if alone else Product(tuple(factors)), e)
        case Product((Number(value) as minuend, *factors)) if level(minuend) is Level.TERM:
            return "-" + _fraction(Product((Number(-value), *factors)), e)
        case numerator:
            return _fraction(numerator, e)


def _fraction(numerator: Expression, e: Quotient) -> str:
    return f"\\frac{{{expression(numerator)}}}{{{expression(e.denominator)}}}"


def _base(e: Expression, inline: bool) -> str:
    """What a power is of; braces around a name that has a superscript already."""
    text = expression(e, Level.ATOM, inline)
    if takes_no_power(e) or needs_end(e) or r"\times" in text:
        return enclosed(text)
    scripted = isinstance(e, Tensor | Name | Index) and ("'" in text.partition("_")[0] or "^" in text.partition("_")[0])
    return f"{{{text}}}" if scripted else text


def _apply(e: Apply, inline: bool) -> str:
    chain = links(e)
    if chain:
        first = expression(chain[0].arguments[0], Level.SUM, inline)
        return first + "".join(f" {SIGNS[link.name]} {expression(link.arguments[1], Level.SUM, inline)}" for link in chain)
    match e.name, e.indices, e.arguments:
        case ("or", _, (left, right)):
            return f"{expression(left, Level.OR, inline)} {SIGNS['or']} {expression(right, Level.AND, inline)}"
        case ("and", _, (left, right)):
            return f"{expression(left, Level.AND, inline)} {SIGNS['and']} {expression(right, Level.NOT, inline)}"
        case ("not", _, (condition,)):
            return f"{row_of('not', False).latex} {expression(condition, Level.NOT, inline)}"
        case ("mod", _, (left, right)):
            over = _product(left.factors, inline=True) if is_dividend(left) else flat(left, Level.FACTOR)
            return f"{over} \\bmod {flat(right, Level.FACTOR)}"
        case ("top", _, (k, *arguments)):
            return f"\\mathrm{{top}}_{{{flat(k, Level.SUM)},{_abut(map(_member, e.indices))}}}{_arguments(arguments, inline)}"
        case (_, (), (argument,)) if e.name in _FENCES:
            return _fenced(e.name, expression(argument, inline=inline))
        case ("sqrt", (), (argument,)):
            return f"\\sqrt{{{expression(argument, inline=inline)}}}"
        case ("sum", (_, *_), (argument,)):
            return f"{operator(e.name, e.indices)} {_summand(argument, inline)}"
        case _:
            return operator(e.name, e.indices) + _arguments(list(e.arguments), inline)


def _arguments(arguments: list[Expression], inline: bool) -> str:
    return argued(", ".join(expression(argument, inline=inline) for argument in arguments))


def argued(text: str) -> str:
    """The arguments of a function in their parentheses."""
    return f"\\!\\left({text}\\right)" if _TALL.search(text) else f"({text})"


def _summand(e: Expression, inline: bool) -> str:
    """What Σ sums: the rest of the product. Braces keep parentheses at its start from being all of it."""
    text = _text(e, inline)
    if text.startswith("-") or not (
        isinstance(e, Product) or (isinstance(e, Quotient) and not inline) or level(e) >= Level.FACTOR
    ):
        return enclosed(text)
    return f"{{{text}}}" if text.startswith(("(", r"\left(")) else text


def operator(name: str, indices: tuple[Index, ...]) -> str:
    """An operator or a layer with its subscript."""
    row = primitive(name, bool(indices))
    braced = row is not None and row.latex.endswith("{}")  # takes its one argument in braces, and is a name elsewhere
    return (row.latex if row and row.latex and not braced else symbol(name)) + _subscript(indices)


def enclosed(text: str) -> str:
    """A formula in parentheses, as tall as it is."""
    return f"\\left({text}\\right)" if _TALL.search(text) else f"({text})"


def _fenced(name: str, text: str) -> str:
    left, right = _FENCES[name]
    return f"\\left{left} {text} \\right{right}" if _TALL.search(text) else f"{left} {text} {right}"


def symbol(name: str) -> str:
    r"""A letter, or a name of several letters upright; its primes after it. Documents have `d_model` and `seq_len` too."""
    first, _, below = name.partition("_")
    if below and len(first) == 1:
        return f"{first}_{{{symbol(below)}}}"
    letters = name.rstrip("'")
    text = _abut(f"\\{GREEK[letter]}" if letter in GREEK else letter for letter in letters.replace("_", r"\_"))
    return (text if len(letters) == 1 else f"\\mathrm{{{text}}}") + "'" * (len(name) - len(letters))


def indexed(name: str, slots: tuple[Expression, ...]) -> str:
    r"""A tensor. The digits of `W0_d` stand above: `W^{0}_{d}` (R11)."""
    letters = name.rstrip("'")
    if slots and len(letters) > 1 and letters[1:].isdigit():
        primes = r"\prime" * (len(name) - len(letters))
        return f"{symbol(letters[0])}^{{{letters[1:]}{primes}}}{_subscript(slots)}"
    return symbol(name) + _subscript(slots)


def _subscript(slots: tuple[Expression, ...]) -> str:
    apart = any(isinstance(slot, Tensor | Number) for slot in slots)
    text = r"\,".join(map(_slot, slots)) if apart else _abut(map(_slot, slots))
    return f"_{{{text}}}" if slots else ""


def _slot(e: Expression) -> str:
    return _text(e, True) if isinstance(e, Tensor) or (isinstance(e, Number) and level(e) is Level.ATOM) else _member(e)


def _member(e: Expression) -> str:
    return _text(e, True) if isinstance(e, Index | Group) else f"({flat(e, Level.SUM)})"


def _abut(parts: Iterable[str]) -> str:
    r"""Letters side by side, with a space after a command that the next letter would lengthen."""
    text = ""
    for part in parts:
        text += " " * bool(re.search(r"\\[a-zA-Z]+$", text) and part[:1].isalpha()) + part
    return text
