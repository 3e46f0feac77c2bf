r"""Prints a text as LaTeX for MathJax, KaTeX and TeX, which the reader of `language/latex_lines.py` reads back.

A whole specification is one formula that keeps the lines of the text; an equation or an expression stands without any
environment around it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import TypeGuard, assert_never

from einformer.interpreters.latex.expressions import expression, flat, indexed, literal, operator, symbol
from einformer.language.printer import Level, rows
from einformer.language.tokens import is_latex
from einformer.language.tree import (
    Apply,
    Axis,
    Declaration,
    Equation,
    Expression,
    Layer,
    Loop,
    Name,
    Number,
    Scalar,
    Spec,
    Statement,
    Tensor,
    Weight,
)

_RELATIONS = {"=": "=", "<-": r"\leftarrow"}
_UNSPEAKABLE = {"^": r"\hat{\ }", "\\": r"{\backslash}", "~": r"{\sim}"} | {sign: f"\\{sign}" for sign in "_&%#${}"}


def latex(node: Declaration | Expression, lines: LayerLines | None = None) -> str:
    r"""The LaTeX of a node; `lines` writes a layer in another form.

    >>> latex(Equation(Tensor("q", (Index("s"),)), "=", Quotient(Name("H"), Number(2))))
    'q_{s} = \\frac{H}{2}'
    """
    match node:
        case Spec():
            return aligned(_spec(node, lines or _layer))
        case Layer():
            return aligned((lines or _layer)(node))
        case Loop():
            return aligned(statement(node, 0))
        case Equation() | Axis() | Scalar() | Weight():
            return _unmistakable(_row(declaration(node)), 1)
        case _:
            return _unmistakable(_right(node), 0)


def _unmistakable(text: str, defining: int) -> str:
    """A formula without commands is read as plain text, where `=` only defines: one that compares gets a command."""
    text = text.replace(" && ", r" \qquad ")  # one alone has no columns
    return text if is_latex(text) or text.count("=") <= defining else rf"\displaystyle {text}"


@dataclass(frozen=True, slots=True)
class PrintedLine:
    """A line of the text: its indentation in steps, what it says, the note and the comment beside it."""

    indent: int
    text: str
    note: str = ""
    comment: str = ""


_BLANK = PrintedLine(0, "")
LayerLines = Callable[[Layer], Iterator[PrintedLine]]


def aligned(lines: Iterator[PrintedLine]) -> str:
    """LayerLines one below the other."""
    rows = " \\\\\n".join("&" + r"\quad " * line.indent + _row(line) for line in lines)
    return f"\\begin{{aligned}}\n{rows}\n\\end{{aligned}}"


def _row(line: PrintedLine) -> str:
    said = " && ".join(filter(None, (line.text, _note(line))))  # notes stand in a column of their own
    return _apart(said, line.comment and _words(line.comment))


def _note(line: PrintedLine) -> str:
    return f"@\\ {_words(line.note)}" if line.note else ""


def _apart(*parts: str) -> str:
    return r" \qquad ".join(filter(None, parts))


def _words(text: str, font: str = "text") -> str:
    r"""Prose: in \text, except the signs that have a meaning there."""
    parts = (part for part in re.split(r"([\^\\~_&%#${}])", text) if part)
    return "".join(_UNSPEAKABLE.get(part) or f"\\{font}{{{part}}}" for part in parts)


def _spec(spec: Spec, lines: LayerLines) -> Iterator[PrintedLine]:
    yield from said((spec.title, *spec.about) if spec.title else (), 0)
    for head, entries in (("axes", spec.axes), ("scalars", spec.scalars)):
        if entries:
            yield from [_BLANK] * (head != "axes")
            yield PrintedLine(0, f"\\textbf{{{head}}}")
            yield PrintedLine(1, _legend(entries))
    for layer in spec.layers:
        yield _BLANK
        yield from lines(layer)
    yield from said(spec.below, 0)


def said(comments: tuple[str, ...], indent: int) -> Iterator[PrintedLine]:
    r"""Whole lines of comment; `\textit` at the start says that a row is one."""
    for comment in comments:
        yield PrintedLine(indent, (r"\textit{}" if comment[:1] in {*_UNSPEAKABLE, ""} else "") + _words(comment, "textit"))


def _legend(entries: Iterable[Axis | Scalar]) -> str:
    """The legend: what each letter means, or follows, stands in a column of its own."""
    return aligned(line for entry in entries for line in _entry(entry))


def _entry(entry: Axis | Scalar) -> Iterator[PrintedLine]:
    yield from said(entry.above, 0)
    line = declaration(entry)
    beside = _apart(_note(line), line.comment and _words(line.comment))
    yield PrintedLine(0, " && ".join(filter(None, (line.text, beside))))


def declaration(node: Axis | Scalar | Weight | Equation) -> PrintedLine:
    """The line of what is declared or defined, in indices."""
    match node:
        case Axis():
            return PrintedLine(0, _axis(node), comment=node.comment)
        case Scalar():
            return PrintedLine(0, f"{indexed(node.name, node.indices)} = {_scalar(node.value)}", node.note, node.comment)
        case Weight():
            return PrintedLine(0, _weight(node))
        case Equation():
            return PrintedLine(0, _equation(node), node.note, node.comment)
        case _:
            assert_never(node)


def _axis(axis: Axis) -> str:
    default = f" = {flat(axis.default, Level.SUM)}" if axis.default is not None else ""
    bound = f" \\leq {flat(axis.bound, Level.SUM)}" if axis.bound is not None else ""
    return f"{symbol(axis.letter)}\\colon {flat(axis.size, Level.SUM)}{default}{bound}"


def _scalar(value: Expression | tuple[Number, ...]) -> str:
    return f"[{', '.join(literal(item) for item in value)}]" if isinstance(value, tuple) else _right(value)


def _layer(layer: Layer) -> Iterator[PrintedLine]:
    formals = ", ".join(map(_left, layer.formals))
    time = f"\\ \\textbf{{causal in}}\\ {symbol(layer.time.letter)}" if layer.time else ""
    name = operator(layer.name, layer.indices)
    head = f"\\textbf{{{layer.kind}}}\\ {name}({formals}) \\rightarrow {_left(layer.output)}{time}\\colon"
    yield from said(layer.above, 0)
    yield PrintedLine(0, head, layer.note, layer.comment)
    for row in rows(layer.weights, _weight):
        yield from said(row[0].above, 1)
        kind, of = "buffers" if row[0].kind == "buffer" else "weights", row[0].layer
        names = ", ".join(map(_weight, row)) + (f"\\colon {symbol(of)}" if of else "")
        yield PrintedLine(1, f"\\textbf{{{kind}}}\\ {names}", comment=row[-1].comment)
    for each in layer.body:
        yield from statement(each, 1)


def _weight(weight: Weight) -> str:
    default = f" = {expression(weight.default, Level.SUM)}" if weight.default is not None else ""
    return f"{indexed(weight.name, weight.indices)}{'?' * weight.optional}{default}"


def statement(
    node: Statement, indent: int, write: Callable[[Equation], PrintedLine | None] = declaration
) -> Iterator[PrintedLine]:
    """The lines of an equation, as `write` has it, or of a loop; none where `write` has none."""
    if isinstance(node, Loop):
        bound = f"{symbol(node.index.letter)} < {flat(node.count, Level.SUM)}"
        line: PrintedLine | None = PrintedLine(0, f"\\textbf{{for}}\\ {bound}\\colon", comment=node.comment)
    else:
        line = write(node)
    if line is not None:
        yield from said(node.above, indent)
        yield replace(line, indent=indent)
    for inner in node.body if isinstance(node, Loop) else ():
        yield from statement(inner, indent + 1, write)


def _equation(equation: Equation) -> str:
    if equation.relation == "return":
        return f"\\textbf{{return}}\\ {_right(equation.right)}"
    return f"{_left(equation.left)} {_RELATIONS[equation.relation]} {_right(equation.right)}"


def _left(left: Tensor | Name) -> str:
    return symbol(left.name) if isinstance(left, Name) else indexed(left.name, left.slots)


def _right(e: Expression) -> str:
    """A right side: `where` as cases; a condition in parentheses, where `=` compares."""
    if _is_where(e):
        return "\\begin{cases} " + r" \\ ".join(_cases(e)) + " \\end{cases}"
    return expression(e, Level.SUM)


def _is_where(e: Expression) -> TypeGuard[Apply]:
    return isinstance(e, Apply) and e.name == "where" and len(e.arguments) == 3 and not e.indices


def _cases(e: Apply) -> Iterator[str]:
    condition, value, other = e.arguments
    yield f"{expression(value)} & \\text{{if}}\\ {flat(condition)}"
    if _is_where(other):
        yield from _cases(other)
    else:
        yield f"{expression(other)} & \\text{{otherwise}}"
