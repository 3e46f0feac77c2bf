"""Prints a text as LaTeX for MathJax, KaTeX and TeX. The reader in `language/latex_reader.py` reads it back.

A whole specification is one formula that keeps the lines of the text. An equation or an expression has no environment
around it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import TypeGuard

from einformer.language import tree
from einformer.language.latex_reader import GREEK
from einformer.language.primitives import PRIMITIVES, primitive
from einformer.language.printer import Level, PrintedLine, Printer, abut, is_minus, level, number
from einformer.language.tokens import is_latex
from einformer.language.tree import Apply, Axis, Equation, Expression, Index, Name, Number, Product, Quotient, Spec, Tensor

INFIX = {row.name: row.latex for row in PRIMITIVES.values() if row.infix}
_SIGNS = INFIX | {"not": r"\lnot", "=": "=", "<-": r"\leftarrow", "->": r"\rightarrow", ":": r"\colon"}
_FENCES = {row.name: row.fence for row in PRIMITIVES.values() if any(row.fence)}
_UPRIGHT = (r"\mathrm", *(left for left, _ in _FENCES.values()))
_CLOSED = re.compile(r"\)$|\\mathrm\{[^{}]*\}'*$")
_TALL = re.compile(r"\\(frac|sum|begin)(?![a-zA-Z])")
_UNSPEAKABLE = {"^": r"\hat{\ }", "\\": r"{\backslash}", "~": r"{\sim}"} | {sign: f"\\{sign}" for sign in "_&%#${}"}
_BLANK = PrintedLine(0, "")


def latex(node: tree.Declaration | Expression, printer: Latex | None = None) -> str:
    r"""Returns the LaTeX of a node.

    >>> latex(Equation(Tensor("q", (Index("s"),)), "=", Quotient(Name("H"), Number(2))))
    'q_{s} = \\frac{H}{2}'
    """
    printer = printer or LATEX
    match node:
        case Spec():
            return _align(_print_spec(node, printer))
        case tree.Layer():
            return _align(printer.layer(node))
        case tree.Loop():
            return _align(printer.statement(node, 0))
        case Equation() | Axis() | tree.Scalar() | tree.Weight():
            return _mark_comparison(_print_row(printer.declaration(node)), 1)
        case _:
            return _mark_comparison(printer.right(node), 0)


# Without commands, `=` would define: a comparison gets a command.
def _mark_comparison(text: str, defining: int) -> str:
    text = text.replace(" && ", r" \qquad ")  # one alone has no columns
    return text if is_latex(text) or text.count("=") <= defining else rf"\displaystyle {text}"


class Latex(Printer):
    """Prints nodes in the signs of LaTeX. `inline`: without fractions."""

    signs = _SIGNS
    blank = "\\ "

    def __init__(self, inline: bool = False) -> None:
        self.inline = inline

    @cached_property
    def flat(self) -> Printer:
        return self if self.inline else Latex(inline=True)

    def keyword(self, word: str) -> str:
        return f"\\textbf{{{word}}}{self.blank}"

    def remark(self, comment: str) -> str:
        r"""Prints a line of comment, which begins with `\textit`."""
        return (r"\textit{}" if comment[:1] in {*_UNSPEAKABLE, ""} else "") + _print_words(comment, "textit")

    # ------------------------------------------------------------------------------------------------- names

    def number(self, value: float) -> str:
        """Prints a number. A power of ten stays a power."""
        mantissa, exponential, exponent = number(value).partition("e")
        return f"{mantissa} \\times 10^{{{exponent}}}" if exponential else mantissa.replace("inf", r"\infty")

    def symbol(self, name: str) -> str:
        """Prints a letter, or a name of several letters upright, with its primes. Documents have `d_model` and `seq_len`."""
        first, _, below = name.partition("_")
        if below and len(first) == 1:
            return f"{first}_{{{self.symbol(below)}}}"
        letters = name.rstrip("'")
        text = abut(f"\\{GREEK[letter]}" if letter in GREEK else letter for letter in letters.replace("_", r"\_"))
        return (text if len(letters) == 1 else f"\\mathrm{{{text}}}") + "'" * (len(name) - len(letters))

    def tensor(self, name: str, slots: Sequence[Expression]) -> str:
        """Prints a tensor. The digits of `W0_d` stand above: `W^{0}_{d}` (R11)."""
        letters = name.rstrip("'")
        if slots and len(letters) > 1 and letters[1:].isdigit():
            primes = r"\prime" * (len(name) - len(letters))
            return f"{self.symbol(letters[0])}^{{{letters[1:]}{primes}}}{self.subscript(slots)}"
        return self.symbol(name) + self.subscript(slots)

    def subscript(self, slots: Sequence[Expression]) -> str:
        r"""Prints a subscript, with `\,` between slots if one of them is more than letters."""
        apart = any(isinstance(slot, Tensor | Number) for slot in slots)
        text = r"\,".join(map(self.slot, slots)) if apart else abut(map(self.slot, slots))
        return f"_{{{text}}}" if slots else ""

    def operator(self, name: str, indices: Sequence[Index]) -> str:
        row = primitive(name, bool(indices))
        braced = row is not None and row.latex.endswith("{}")  # takes its one argument in braces, and is a name elsewhere
        return (row.latex if row and row.latex and not braced else self.symbol(name)) + self.subscript(indices)

    # ---------------------------------------------------------------------------------------------- formulas

    def enclose(self, text: str) -> str:
        return f"\\left({text}\\right)" if _TALL.search(text) else f"({text})"

    def enclose_arguments(self, text: str) -> str:
        return f"\\!\\left({text}\\right)" if _TALL.search(text) else f"({text})"

    def multiply(self, factors: Sequence[str]) -> str:
        """Prints factors, with space after numbers and upright names."""
        text = factors[0]
        for factor in factors[1:]:
            apart = factor.startswith(_UPRIGHT) or _CLOSED.search(text)
            text += (r" \cdot " if factor[0].isdigit() else r" \, " if apart else " ") + factor
        return text

    def expression(self, e: Expression, least: Level = Level.OR) -> str:
        """Prints e. A fraction is a factor as it stands."""
        if isinstance(e, Quotient) and least is Level.FACTOR and not self.inline:
            return self.fraction(e.numerator, e)
        return super().expression(e, least)

    def quotient(self, e: Quotient) -> str:
        """Prints a fraction, with the sign of its numerator in front."""
        if self.inline:
            return super().quotient(e)
        match e.numerator:
            case Number(value) as minuend if level(minuend) is Level.TERM:
                return "-" + self.fraction(Number(-value), e)
            case Product((Number(-1), *factors)) as product if is_minus(product.factors):
                alone = len(factors) == 1 and not isinstance(factors[0], Product)
                return "-" + self.fraction(factors[0] if alone else Product(tuple(factors)), e)
            case Product((Number(value) as minuend, *factors)) if level(minuend) is Level.TERM:
                return "-" + self.fraction(Product((Number(-value), *factors)), e)
            case numerator:
                return self.fraction(numerator, e)

    def fraction(self, numerator: Expression, e: Quotient) -> str:
        return f"\\frac{{{self.expression(numerator)}}}{{{self.expression(e.denominator)}}}"

    def power(self, base: Expression, exponent: Expression) -> str:
        """Prints a power. A name with a superscript gets braces."""
        text = self.base(base)
        if isinstance(base, Number) and r"\times" in text:
            text = self.enclose(text)
        scripted = isinstance(base, Tensor | Name | Index) and any(sign in text.partition("_")[0] for sign in "'^")
        return f"{f'{{{text}}}' if scripted else text}^{{{self.flat.expression(exponent)}}}"

    def application(self, e: Apply) -> str:
        """Prints fences around an argument, a root, Σ before the rest of its product, or a name before its arguments."""
        match e.name, e.indices, e.arguments:
            case (_, (), (argument,)) if e.name in _FENCES:
                (left, right), text = _FENCES[e.name], self.expression(argument)
                return f"\\left{left} {text} \\right{right}" if _TALL.search(text) else f"{left} {text} {right}"
            case ("sqrt", (), (argument,)):
                return f"\\sqrt{{{self.expression(argument)}}}"
            case ("sum", (_, *_), (argument,)):
                return f"{self.operator(e.name, e.indices)} {self.summand(argument)}"
            case _:  # as in plain text, in one call less: a formula in loops may be 150 deep (R13)
                return self.operator(e.name, e.indices) + self.arguments(e.arguments)

    def summand(self, e: Expression) -> str:
        """Prints the terms under Σ: the rest of the product. Braces keep leading parentheses from being all of it."""
        text, whole = self.text(e), isinstance(e, Product) or (isinstance(e, Quotient) and not self.inline)
        if text.startswith("-") or not (whole or level(e) >= Level.FACTOR):
            return self.enclose(text)
        return f"{{{text}}}" if text.startswith(("(", r"\left(")) else text

    def right(self, e: Expression) -> str:
        """Prints a right side: `where` as cases, a condition in parentheses if `=` compares."""
        if _is_where(e):
            return "\\begin{cases} " + r" \\ ".join(self.cases(e)) + " \\end{cases}"
        return self.expression(e, Level.SUM)

    def cases(self, e: Apply) -> Iterator[str]:
        condition, value, other = e.arguments
        yield f"{self.expression(value)} & \\text{{if}}\\ {self.flat.expression(condition)}"
        if _is_where(other):
            yield from self.cases(other)
        else:
            yield f"{self.expression(other)} & \\text{{otherwise}}"


LATEX = Latex()


def _is_where(e: Expression) -> TypeGuard[Apply]:
    return isinstance(e, Apply) and e.name == "where" and len(e.arguments) == 3 and not e.indices


# --------------------------------------------------------------------------------------------------------------- lines


def _align(lines: Iterator[PrintedLine]) -> str:
    rows = " \\\\\n".join("&" + r"\quad " * line.indent + _print_row(line) for line in lines)
    return f"\\begin{{aligned}}\n{rows}\n\\end{{aligned}}"


# Notes stand in a column of their own.
def _print_row(line: PrintedLine) -> str:
    cells = " && ".join(filter(None, (line.text, _print_note(line))))
    return _separate(cells, line.comment and _print_words(line.comment))


def _print_note(line: PrintedLine) -> str:
    return f"@\\ {_print_words(line.note)}" if line.note else ""


def _separate(*parts: str) -> str:
    return r" \qquad ".join(filter(None, parts))


# Prose stands in \text, except signs with a meaning there.
def _print_words(text: str, font: str = "text") -> str:
    parts = (part for part in re.split(r"([\^\\~_&%#${}])", text) if part)
    return "".join(_UNSPEAKABLE.get(part) or f"\\{font}{{{part}}}" for part in parts)


def _print_spec(spec: Spec, printer: Latex) -> Iterator[PrintedLine]:
    yield from printer.remarks((spec.title, *spec.about) if spec.title else (), 0)
    for head, entries in (("axes", spec.axes), ("scalars", spec.scalars)):
        if entries:
            yield from [_BLANK] * (head != "axes")
            yield PrintedLine(0, f"\\textbf{{{head}}}")
            yield PrintedLine(1, _align(map(_print_entry, printer.legend(entries, 0))))
    for layer in spec.layers:
        yield _BLANK
        yield from printer.layer(layer)
    yield from printer.remarks(spec.below, 0)


# Remarks stand in a column of their own.
def _print_entry(line: PrintedLine) -> PrintedLine:
    beside = _separate(_print_note(line), line.comment and _print_words(line.comment))
    return PrintedLine(0, " && ".join(filter(None, (line.text, beside))))
