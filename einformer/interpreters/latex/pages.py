"""Prints a text as LaTeX for MathJax, KaTeX and TeX. The reader in `language/latex_reader.py` reads it back.

A whole specification is one formula that keeps the lines of the text. An equation or an expression has no environment
around it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import cached_property

from einformer.language import tree
from einformer.language.latex_reader import GREEK
from einformer.language.primitives import PRIMITIVES, primitive
from einformer.language.printer import FENCED, Display, Printer, abut, is_apart, number
from einformer.language.tokens import is_latex
from einformer.language.tree import Apply, Axis, Equation, Expression, Index, Name, Spec, Tensor

INFIX = {row.name: row.latex for row in PRIMITIVES.values() if row.infix}
_SIGNS = INFIX | {"not": r"\lnot", "=": "=", "<-": r"\leftarrow", "->": r"\rightarrow", ":": r"\colon"}
_UPRIGHT = (r"\mathrm", *(left for left, _ in FENCED.values()))
_CLOSED = re.compile(r"\)$|\\mathrm\{[^{}]*\}'*$")
_TALL = re.compile(r"\\(frac|sum|begin)(?![a-zA-Z])")
_UNSPEAKABLE = {"^": r"\hat{\ }", "\\": r"{\backslash}", "~": r"{\sim}"} | {sign: f"\\{sign}" for sign in "_&%#${}"}


def latex(node: tree.Declaration | Expression, printer: Latex | None = None) -> str:
    r"""Returns the LaTeX of a node.

    >>> latex(Equation(Tensor("q", (Index("s"),)), "=", tree.Quotient(Name("H"), tree.Number(2))))
    'q_{s} = \\frac{H}{2}'
    """
    printer = printer or LATEX
    match node:
        case Spec() | tree.Layer() | tree.Loop():
            return printer.page(node)
        case Equation() | Axis() | tree.Scalar() | tree.Weight():
            cells = printer.cells(printer.declaration(node))
            return _mark_comparison(r" \qquad ".join(cells), 1)  # one alone has no columns
        case _:
            return _mark_comparison(printer.right(node), 0)


# Without commands, `=` would define: a comparison gets a command.
def _mark_comparison(text: str, defining: int) -> str:
    return text if is_latex(text) or text.count("=") <= defining else rf"\displaystyle {text}"


class Latex(Display):
    """Prints nodes in the signs of LaTeX."""

    signs = _SIGNS
    blank = "\\ "

    @cached_property
    def flat(self) -> Printer:
        return self if self.inline else Latex(inline=True)

    def keyword(self, word: str) -> str:
        return f"\\textbf{{{word}}}{self.blank}"

    # A line of comment begins with `\textit`.
    def remark(self, comment: str) -> str:
        return (r"\textit{}" if comment[:1] in {*_UNSPEAKABLE, ""} else "") + _print_words(comment, "textit")

    # ------------------------------------------------------------------------------------------------- names

    # A power of ten stays a power.
    def number(self, value: float) -> str:
        mantissa, exponential, exponent = number(value).partition("e")
        return f"{mantissa} \\times 10^{{{exponent}}}" if exponential else mantissa.replace("inf", r"\infty")

    # Documents have `d_model` and `seq_len`.
    def symbol(self, name: str) -> str:
        first, _, below = name.partition("_")
        if below and len(first) == 1:
            return f"{first}_{{{self.symbol(below)}}}"
        letters = name.rstrip("'")
        text = abut(f"\\{GREEK[letter]}" if letter in GREEK else letter for letter in letters.replace("_", r"\_"))
        return (text if len(letters) == 1 else f"\\mathrm{{{text}}}") + "'" * (len(name) - len(letters))

    # The digits of `W0_d` stand above: `W^{0}_{d}` (R11).
    def tensor(self, name: str, slots: Sequence[Expression]) -> str:
        letters = name.rstrip("'")
        if slots and len(letters) > 1 and letters[1:].isdigit():
            primes = r"\prime" * (len(name) - len(letters))
            return f"{self.symbol(letters[0])}^{{{letters[1:]}{primes}}}{self.subscript(slots)}"
        return self.symbol(name) + self.subscript(slots)

    # `\,` stands between slots if one of them is more than letters.
    def subscript(self, slots: Sequence[Expression]) -> str:
        text = r"\,".join(map(self.slot, slots)) if is_apart(slots) else abut(map(self.slot, slots))
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

    # Space follows numbers and upright names.
    def multiply(self, factors: Sequence[str]) -> str:
        text = factors[0]
        for factor in factors[1:]:
            apart = factor.startswith(_UPRIGHT) or _CLOSED.search(text)
            text += (r" \cdot " if factor[0].isdigit() else r" \, " if apart else " ") + factor
        return text

    def fraction(self, above: str, below: str) -> str:
        return f"\\frac{{{above}}}{{{below}}}"

    # A name with a superscript gets braces.
    def write_power(self, base: Expression, text: str, exponent: str) -> str:
        scripted = isinstance(base, Tensor | Name | Index) and any(sign in text.partition("_")[0] for sign in "'^")
        return f"{f'{{{text}}}' if scripted else text}^{{{exponent}}}"

    def fence(self, name: str, text: str) -> str:
        left, right = FENCED[name]
        return f"\\left{left} {text} \\right{right}" if _TALL.search(text) else f"{left} {text} {right}"

    def root(self, text: str) -> str:
        return f"\\sqrt{{{text}}}"

    def total(self, e: Apply, summand: str) -> str:
        return f"{self.operator(e.name, e.indices)} {summand}"

    # Braces keep leading parentheses from being all of the summand.
    def close(self, summand: str) -> str:
        return f"{{{summand}}}" if summand.startswith(("(", r"\left(")) else summand

    def branches(self, rows: Sequence[tuple[str, str]]) -> str:
        ends = (f"\\text{{if}}\\ {condition}" if condition else "\\text{otherwise}" for _, condition in rows)
        texts = (f"{value} & {end}" for (value, _), end in zip(rows, ends, strict=True))
        return "\\begin{cases} " + r" \\ ".join(texts) + " \\end{cases}"

    # ------------------------------------------------------------------------------------------------- lines

    def heading(self, word: str) -> str:
        return f"\\textbf{{{word}}}"

    def remarks_beside(self, note: str, comment: str) -> str:
        return self.separate(f"@\\ {_print_words(note)}" if note else "", _print_words(comment))

    def separate(self, *parts: str) -> str:
        return r" \qquad ".join(filter(None, parts))

    def align(self, rows: Iterable[tuple[int, Sequence[str]]]) -> str:
        lines = " \\\\\n".join("&" + r"\quad " * indent + " && ".join(cells) for indent, cells in rows)
        return f"\\begin{{aligned}}\n{lines}\n\\end{{aligned}}"


LATEX = Latex()


# Prose stands in \text, except signs with a meaning there.
def _print_words(text: str, font: str = "text") -> str:
    parts = (part for part in re.split(r"([\^\\~_&%#${}])", text) if part)
    return "".join(_UNSPEAKABLE.get(part) or f"\\{font}{{{part}}}" for part in parts)
