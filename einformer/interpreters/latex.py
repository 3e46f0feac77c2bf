r"""How does a tree look in print? LaTeX for MathJax, KaTeX and TeX, which the reader of `notation/latex.py` reads back.

A whole specification is one formula that keeps the lines of the text; an equation or an expression stands without any
environment around it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import TypeGuard, assert_never

from einformer.notation.latex import is_latex
from einformer.notation.latex_marks import GREEK
from einformer.notation.primitives import primitive
from einformer.notation.printer import Level, is_minus, level, links, needs_end, number, rows, takes_no_power
from einformer.notation.tree import (
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

_SIGNS = {"<=": r"\leq", ">=": r"\geq", "!=": r"\neq", "==": "=", "<": "<", ">": ">"}
_RELATIONS = {"=": "=", "<-": r"\leftarrow"}
_FENCES = {"floor": (r"\lfloor", r"\rfloor"), "ceil": (r"\lceil", r"\rceil"), "abs": (r"\lvert", r"\rvert")}
_UNSPEAKABLE = {"^": r"\hat{\ }", "\\": r"{\backslash}", "~": r"{\sim}"} | {sign: f"\\{sign}" for sign in "_&%#${}"}
_UPRIGHT = (r"\mathrm", r"\lfloor", r"\lceil", r"\lvert")
_CLOSED = re.compile(r"\)$|\\mathrm\{[^{}]*\}'*$")
_TALL = re.compile(r"\\(frac|sum|begin)(?![a-zA-Z])")


def latex(node: Declaration | Expression) -> str:
    r"""The LaTeX of a node.

    >>> latex(Equation(Tensor("q", (Index("s"),)), "=", Quotient(Name("H"), Number(2))))
    'q_{s} = \\frac{H}{2}'
    """
    match node:
        case Spec():
            return _aligned(_spec(node))
        case Layer():
            return _aligned(_layer(node))
        case Loop():
            return _aligned(_statement(node, 0))
        case Equation() | Axis() | Scalar() | Weight():
            return _unmistakable(_row(_declaration(node)), 1)
        case _:
            return _unmistakable(_right(node), 0)


def _unmistakable(text: str, defining: int) -> str:
    """A formula without commands is read as plain text, where `=` only defines: one that compares gets a command."""
    return text if is_latex(text) or text.count("=") <= defining else rf"\displaystyle {text}"


# ------------------------------------------------------------------------------------------------------------- rows


@dataclass(frozen=True, slots=True)
class _Line:
    """A line of the text: its indentation in steps, what it says, the note and the comment beside it."""

    indent: int
    text: str
    note: str = ""
    comment: str = ""


_BLANK = _Line(0, "")


def _aligned(lines: Iterator[_Line]) -> str:
    rows = " \\\\\n".join("&" + r"\quad " * line.indent + _row(line) for line in lines)
    return f"\\begin{{aligned}}\n{rows}\n\\end{{aligned}}"


def _row(line: _Line) -> str:
    note = f"@\\ {_words(line.note)}" if line.note else ""
    return r" \qquad ".join(filter(None, (line.text, note, line.comment and _words(line.comment))))


def _words(text: str, font: str = "text") -> str:
    r"""Prose: in \text, except the signs that have a meaning there."""
    parts = (part for part in re.split(r"([\^\\~_&%#${}])", text) if part)
    return "".join(_UNSPEAKABLE.get(part) or f"\\{font}{{{part}}}" for part in parts)


def _spec(spec: Spec) -> Iterator[_Line]:
    yield from _said((spec.title, *spec.about) if spec.title else (), 0)
    for head, entries in (("axes", spec.axes), ("scalars", spec.scalars)):
        if entries:
            yield from [_BLANK] * (head != "axes")
            yield _Line(0, f"\\textbf{{{head}}}")
            yield _Line(1, _legend(entries))
    for layer in spec.layers:
        yield _BLANK
        yield from _layer(layer)
    yield from _said(spec.below, 0)


def _said(comments: tuple[str, ...], indent: int) -> Iterator[_Line]:
    r"""Whole lines of comment; `\textit` at the start says that a row is one."""
    for comment in comments:
        yield _Line(indent, (r"\textit{}" if comment[:1] in {*_UNSPEAKABLE, ""} else "") + _words(comment, "textit"))


def _legend(entries: Iterable[Axis | Scalar]) -> str:
    """The legend: what each letter means stands in a column of its own."""
    return _aligned(line for entry in entries for line in _entry(entry))


def _entry(entry: Axis | Scalar) -> Iterator[_Line]:
    yield from _said(entry.above, 0)
    line = _declaration(entry)
    yield _Line(0, line.text + (f" && {_words(line.comment)}" if line.comment else ""))


def _declaration(node: Axis | Scalar | Weight | Equation) -> _Line:
    match node:
        case Axis():
            return _Line(0, _axis(node), comment=node.comment)
        case Scalar():
            return _Line(0, f"{_indexed(node.name, node.indices)} = {_scalar(node.value)}", comment=node.comment)
        case Weight():
            return _Line(0, _weight(node))
        case Equation():
            return _Line(0, _equation(node), node.note, node.comment)
        case _:
            assert_never(node)


def _axis(axis: Axis) -> str:
    default = f" = {_inline(axis.default, Level.SUM)}" if axis.default is not None else ""
    bound = f" \\leq {_inline(axis.bound, Level.SUM)}" if axis.bound is not None else ""
    return f"{_symbol(axis.letter)}\\colon {_inline(axis.size, Level.SUM)}{default}{bound}"


def _scalar(value: Expression | tuple[Number, ...]) -> str:
    return f"[{', '.join(_number(item) for item in value)}]" if isinstance(value, tuple) else _right(value)


def _layer(layer: Layer) -> Iterator[_Line]:
    formals = ", ".join(map(_left, layer.formals))
    time = f"\\ \\textbf{{causal in}}\\ {_symbol(layer.time.letter)}" if layer.time else ""
    name = _operator(layer.name, layer.indices)
    head = f"\\textbf{{{layer.kind}}}\\ {name}({formals}) \\rightarrow {_left(layer.output)}{time}\\colon"
    yield from _said(layer.above, 0)
    yield _Line(0, head, layer.note, layer.comment)
    for row in rows(layer.weights, _weight):
        yield from _said(row[0].above, 1)
        kind, of = "buffers" if row[0].kind == "buffer" else "weights", row[0].layer
        names = ", ".join(map(_weight, row)) + (f"\\colon {_symbol(of)}" if of else "")
        yield _Line(1, f"\\textbf{{{kind}}}\\ {names}", comment=row[-1].comment)
    for statement in layer.body:
        yield from _statement(statement, 1)


def _weight(weight: Weight) -> str:
    default = f" = {_expression(weight.default, Level.SUM)}" if weight.default is not None else ""
    return f"{_indexed(weight.name, weight.indices)}{'?' * weight.optional}{default}"


def _statement(statement: Statement, indent: int) -> Iterator[_Line]:
    yield from _said(statement.above, indent)
    match statement:
        case Equation():
            yield replace(_declaration(statement), indent=indent)
        case Loop():
            bound = f"{_symbol(statement.index.letter)} < {_inline(statement.count, Level.SUM)}"
            yield _Line(indent, f"\\textbf{{for}}\\ {bound}\\colon", comment=statement.comment)
            for inner in statement.body:
                yield from _statement(inner, indent + 1)
        case _:
            assert_never(statement)


def _equation(equation: Equation) -> str:
    if equation.relation == "return":
        return f"\\textbf{{return}}\\ {_right(equation.right)}"
    return f"{_left(equation.left)} {_RELATIONS[equation.relation]} {_right(equation.right)}"


def _left(left: Tensor | Name) -> str:
    return _symbol(left.name) if isinstance(left, Name) else _indexed(left.name, left.slots)


def _right(e: Expression) -> str:
    """A right side: `where` as cases; a condition in parentheses, where `=` compares."""
    if _is_where(e):
        return "\\begin{cases} " + r" \\ ".join(_cases(e)) + " \\end{cases}"
    return _expression(e, Level.SUM)


def _is_where(e: Expression) -> TypeGuard[Apply]:
    return isinstance(e, Apply) and e.name == "where" and len(e.arguments) == 3 and not e.indices


def _cases(e: Apply) -> Iterator[str]:
    condition, value, other = e.arguments
    yield f"{_expression(value)} & \\text{{if}}\\ {_inline(condition)}"
    if _is_where(other):
        yield from _cases(other)
    else:
        yield f"{_expression(other)} & \\text{{otherwise}}"


# ------------------------------------------------------------------------------------------------------ expressions


def _expression(e: Expression, least: Level = Level.OR, inline: bool = False) -> str:
    """The LaTeX of e, in parentheses where something is wanted that holds tighter; `inline`, without fractions."""
    if isinstance(e, Quotient) and not inline and least > Level.TERM:
        return _fraction(e.numerator, e) if least is Level.FACTOR else _enclosed(_text(e, inline))
    return _text(e, inline) if level(e) >= least else _enclosed(_text(e, inline))


def _inline(e: Expression, least: Level = Level.OR) -> str:
    return _expression(e, least, inline=True)


def _text(e: Expression, inline: bool) -> str:
    match e:
        case Number():
            return _number(e)
        case Name():
            return _symbol(e.name)
        case Index():
            return _symbol(e.letter)
        case Tensor():
            return _indexed(e.name, e.slots)
        case Group():
            return f"({_abut(map(_member, e.members))})"
        case Sum():
            return _sum(e, inline)
        case Product():
            return _product(e.factors, inline)
        case Quotient():
            return _quotient(e, inline)
        case Power():
            return f"{_base(e.base, inline)}^{{{_inline(e.exponent)}}}"
        case Apply():
            return _apply(e, inline)
        case _:
            assert_never(e)


def _number(e: Number) -> str:
    mantissa, exponential, exponent = number(e.value).partition("e")
    return f"{mantissa} \\times 10^{{{exponent}}}" if exponential else mantissa.replace("inf", r"\infty")


def _sum(e: Sum, inline: bool) -> str:
    first, *others = (_expression(term, Level.TERM, inline) for term in e.terms)
    return first + "".join(f" - {term[1:]}" if term.startswith("-") else f" + {term}" for term in others)


def _product(factors: tuple[Expression, ...], inline: bool) -> str:
    """Factors side by side, with a sign only in front; a single factor is one in parentheses (a numerator)."""
    if len(factors) == 1:
        return _enclosed(_text(factors[0], inline))
    sign, factors = ("-", factors[1:]) if is_minus(factors) else ("", factors)
    if sign and len(factors) == 1 and isinstance(factors[0], Quotient):
        return sign + _enclosed(_text(factors[0], inline))  # `-\frac{a}{b}` is (-a) / b
    first = [_number(factors[0])] if isinstance(factors[0], Number) else []
    *before, last = factors[len(first) :]
    middle = [_enclosed(_text(f, inline)) if needs_end(f) else _expression(f, Level.FACTOR, inline) for f in before]
    return sign + _beside([*first, *middle, _expression(last, Level.FACTOR, inline)])


def _beside(factors: list[str]) -> str:
    r"""Factors that neither a number nor an upright name runs into."""
    text = factors[0]
    for factor in factors[1:]:
        apart = factor.startswith(_UPRIGHT) or _CLOSED.search(text)
        text += (r" \cdot " if factor[0].isdigit() else r" \, " if apart else " ") + factor
    return text


def _quotient(e: Quotient, inline: bool) -> str:
    if inline:
        numerator = e.numerator
        over = _text(numerator, inline) if isinstance(numerator, Product | Number) else _inline(numerator, Level.FACTOR)
        return f"{over} / {_inline(e.denominator, Level.FACTOR)}"
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
    return f"\\frac{{{_expression(numerator)}}}{{{_expression(e.denominator)}}}"


def _base(e: Expression, inline: bool) -> str:
    """What a power is of; braces around a name that has a superscript already."""
    text = _expression(e, Level.ATOM, inline)
    if takes_no_power(e) or needs_end(e) or r"\times" in text:
        return _enclosed(text)
    scripted = isinstance(e, Tensor | Name | Index) and ("'" in text.partition("_")[0] or "^" in text.partition("_")[0])
    return f"{{{text}}}" if scripted else text


def _apply(e: Apply, inline: bool) -> str:
    chain = links(e)
    if chain:
        first = _expression(chain[0].arguments[0], Level.SUM, inline)
        return first + "".join(f" {_SIGNS[link.name]} {_expression(link.arguments[1], Level.SUM, inline)}" for link in chain)
    match e.name, e.indices, e.arguments:
        case ("or", _, (left, right)):
            return f"{_expression(left, Level.OR, inline)} \\lor {_expression(right, Level.AND, inline)}"
        case ("and", _, (left, right)):
            return f"{_expression(left, Level.AND, inline)} \\land {_expression(right, Level.NOT, inline)}"
        case ("not", _, (condition,)):
            return f"\\lnot {_expression(condition, Level.NOT, inline)}"
        case ("mod", _, (left, right)):
            over = _text(left, True) if isinstance(left, Product | Number) else _inline(left, Level.FACTOR)
            return f"{over} \\bmod {_inline(right, Level.FACTOR)}"
        case ("top", _, (k, *arguments)):
            return (
                f"\\mathrm{{top}}_{{{_inline(k, Level.SUM)},{_abut(map(_member, e.indices))}}}{_arguments(arguments, inline)}"
            )
        case ("floor" | "ceil" | "abs", (), (argument,)):
            return _fenced(e.name, _expression(argument, inline=inline))
        case ("sqrt", (), (argument,)):
            return f"\\sqrt{{{_expression(argument, inline=inline)}}}"
        case ("sum", (_, *_), (argument,)):
            return f"{_operator(e.name, e.indices)} {_summand(argument, inline)}"
        case _:
            return _operator(e.name, e.indices) + _arguments(list(e.arguments), inline)


def _arguments(arguments: list[Expression], inline: bool) -> str:
    text = ", ".join(_expression(argument, inline=inline) for argument in arguments)
    return f"\\!\\left({text}\\right)" if _TALL.search(text) else f"({text})"


def _summand(e: Expression, inline: bool) -> str:
    """What Σ sums: the rest of the product. Braces keep parentheses at its start from being all of it."""
    text = _text(e, inline)
    if text.startswith("-") or not (
        isinstance(e, Product) or (isinstance(e, Quotient) and not inline) or level(e) >= Level.FACTOR
    ):
        return _enclosed(text)
    return f"{{{text}}}" if text.startswith(("(", r"\left(")) else text


def _operator(name: str, indices: tuple[Index, ...]) -> str:
    """An operator or a layer with its subscript."""
    row = primitive(name, bool(indices))
    symbol = (
        r"\log_{2}" if name == "log2" and not indices else row.latex if row and row.latex and name != "sqrt" else _symbol(name)
    )
    return symbol + _subscript(indices)


def _enclosed(text: str) -> str:
    return f"\\left({text}\\right)" if _TALL.search(text) else f"({text})"


def _fenced(name: str, text: str) -> str:
    left, right = _FENCES[name]
    return f"\\left{left} {text} \\right{right}" if _TALL.search(text) else f"{left} {text} {right}"


# ------------------------------------------------------------------------------------------------------------ names


def _symbol(name: str) -> str:
    r"""A letter, or a name of several letters upright; its primes after it."""
    letters = name.rstrip("'")
    text = _abut(f"\\{GREEK[letter]}" if letter in GREEK else letter for letter in letters)
    return (text if len(letters) == 1 else f"\\mathrm{{{text}}}") + "'" * (len(name) - len(letters))


def _indexed(name: str, slots: tuple[Expression, ...]) -> str:
    r"""A tensor. The digits of `W0_d` stand above: `W^{0}_{d}` (R11)."""
    letters = name.rstrip("'")
    if slots and len(letters) > 1 and letters[1:].isdigit():
        primes = r"\prime" * (len(name) - len(letters))
        return f"{_symbol(letters[0])}^{{{letters[1:]}{primes}}}{_subscript(slots)}"
    return _symbol(name) + _subscript(slots)


def _subscript(slots: tuple[Expression, ...]) -> str:
    apart = any(isinstance(slot, Tensor | Number) for slot in slots)
    text = r"\,".join(map(_slot, slots)) if apart else _abut(map(_slot, slots))
    return f"_{{{text}}}" if slots else ""


def _slot(e: Expression) -> str:
    return _text(e, True) if isinstance(e, Tensor) or (isinstance(e, Number) and level(e) is Level.ATOM) else _member(e)


def _member(e: Expression) -> str:
    return _text(e, True) if isinstance(e, Index | Group) else f"({_inline(e, Level.SUM)})"


def _abut(parts: Iterable[str]) -> str:
    r"""Letters side by side, with a space after a command that the next letter would lengthen."""
    text = ""
    for part in parts:
        text += " " * bool(re.search(r"\\[a-zA-Z]+$", text) and part[:1].isalpha()) + part
    return text
