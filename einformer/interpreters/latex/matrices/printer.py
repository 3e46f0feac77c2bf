"""How does a formula of matrices look in LaTeX?"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import assert_never

from einformer.interpreters.latex import formulas
from einformer.interpreters.latex.formulas import enclosed, operator, symbol
from einformer.interpreters.latex.matrices.algebra import letters
from einformer.interpreters.latex.matrices.names import Names
from einformer.interpreters.latex.matrices.style import raised
from einformer.interpreters.latex.matrices.tree import (
    Call,
    Concat,
    Diagonal,
    Function,
    Hadamard,
    Inverse,
    Letter,
    Matrix,
    Ones,
    Over,
    Plus,
    Raised,
    Reduced,
    Rows,
    RowWise,
    Scalar,
    Scaled,
    Summed,
    Times,
    Transposed,
)
from einformer.language import printer
from einformer.language.calls import axis_of
from einformer.language.primitives import COMPARISONS
from einformer.language.tree import Index, Name, Number

_INFIX = formulas.SIGNS
_ONES = r"\mathbf{1}"


class Level(IntEnum):
    """How tightly a formula holds together, loosest first."""

    SUM, TERM, FACTOR, ATOM = range(4)


@dataclass(frozen=True, slots=True)
class Printer:
    """Writes formulas of matrices by the names of one layer."""

    names: Names
    called: Mapping[str, str]  # layers that a document has another name for

    def text(self, m: Matrix, least: Level = Level.SUM) -> str:
        """The LaTeX of m, in parentheses where something is wanted that holds tighter."""
        text = self.bare(m)
        return text if _level(m) >= least else enclosed(text)

    def bare(self, m: Matrix) -> str:
        """The LaTeX of m alone."""
        match m:
            case Scalar():
                return formulas.expression(m.value)
            case Letter():
                return self.names.letter(m)
            case Ones():
                return _ONES
            case Transposed():
                return self.turned(m.of)
            case Times():
                return self.beside(self.text(each, Level.FACTOR) for each in m.factors)
            case Scaled():
                return self.scaled(m)
            case Over():
                return f"\\frac{{{self.text(m.of)}}}{{{self.text(m.under)}}}"
            case Hadamard():
                return self.hadamard(m)
            case Inverse():
                return raised(self.text(m.of, Level.ATOM), r"\circ -1")
            case Diagonal():
                of, power = (m.of.of, "^{-1}") if isinstance(m.of, Inverse) else (m.of, "")
                return f"\\operatorname{{diag}}({self.text(of)}){power}"
            case Plus():
                return self.plus(m)
            case Raised():
                circle = r"\circ " if letters(m.of) else ""
                return raised(self.text(m.of, Level.ATOM), circle + self.text(m.exponent))
            case Function() | RowWise() | Reduced() | Call():
                return self.applied(m)
            case Summed():
                return f"\\sum_{{{''.join(map(symbol, m.labels))}}} {self.text(m.of, Level.TERM)}"
            case Concat():
                return self.concat(m)
            case Rows():
                by = m.by.of if isinstance(m.by, Transposed) else m.by
                return f"{self.names.letter(replace(m.of, rows=m.of.cols), labels=m.of.labels[1:])}[{self.text(by)}]"
            case _:
                assert_never(m)

    def applied(self, m: Function | RowWise | Reduced | Call) -> str:
        """A name and its arguments."""
        match m:
            case Function():
                return self.function(m)
            case RowWise():
                return self.row_wise(m)
            case Reduced():
                return operator(m.name, ()) + _arguments([self.text(m.of)])
            case Call():
                return operator(self.layer(m.call.name), m.call.indices) + _arguments(map(self.text, m.arguments))
            case _:
                assert_never(m)

    def layer(self, name: str) -> str:
        """What a layer is called."""
        return self.called.get(name, name)

    def turned(self, m: Matrix) -> str:
        """Rows for columns."""
        sign = self.names.style.transpose
        return self.names.letter(m, sign) if isinstance(m, Letter) else raised(self.text(m, Level.ATOM), sign)

    def beside(self, factors: Iterable[str]) -> str:
        """Factors that neither a number nor a name runs into."""
        return formulas.beside(list(factors))

    def scaled(self, m: Scaled) -> str:
        """Numbers in front; a sign of them first."""
        factors = [*m.by, m.of]
        minus = factors[0] == Scalar(Number(-1))
        text = self.beside(self.text(each, Level.FACTOR) for each in factors[minus:])
        return f"-{text}" if minus else text

    def hadamard(self, m: Hadamard) -> str:
        """A product number by number; what is inverted there divides."""
        first, *others = m.factors
        text = self.text(first, Level.FACTOR)
        for each in others:
            sign, of = (r"\oslash", each.of) if isinstance(each, Inverse) else (r"\odot", each)
            text += f" {sign} {self.text(of, Level.FACTOR)}"
        return text

    def plus(self, m: Plus) -> str:
        """Terms with their signs."""
        first, *others = (self.text(term, Level.TERM) for term in m.terms)
        return first + "".join(f" - {term[1:]}" if term.startswith("-") else f" + {term}" for term in others)

    def function(self, m: Function) -> str:
        """A name before its arguments, or a sign between two."""
        if m.name in _INFIX:
            one, other = (self.text(each, Level.FACTOR) for each in m.arguments)
            return f"{one} {_INFIX[m.name]} {other}"
        if m.name == "sqrt":
            return f"\\sqrt{{{self.text(m.arguments[0])}}}"
        return operator(m.name, ()) + _arguments(map(self.text, m.arguments))

    def row_wise(self, m: RowWise) -> str:
        """`softmax`, as the document spells it; the k of `top` below."""
        name = f"\\mathrm{{{self.names.style.softmax}}}" if m.name == "Sm" else operator(m.name, ())
        below = f"_{{{', '.join(map(self.text, m.first))}}}" if m.first else ""
        return name + below + _arguments([self.text(m.of)])

    def concat(self, m: Concat) -> str:
        """`Concat(Y_1, …, Y_h)` where the heads are one label."""
        name = r"\mathrm{Concat}"
        size = self.names.legend.axes[axis_of(m.labels[0])].size
        if len(m.labels) > 1 or not isinstance(m.of, Letter) or not isinstance(size, Name | Number):
            return f"{name}_{{{''.join(map(symbol, m.labels))}}}" + _arguments([self.text(m.of)])
        first, last = (self.names.letter(m.of, labels=_at(m.of, m.labels[0], each)) for each in (Number(1), size))
        return f"{name}({first}, \\dots, {last})"


def _at(m: Letter, label: str, place: Name | Number) -> tuple[Name | Number | Index, ...]:
    return tuple(place if each == Index(label) else each for each in m.labels if isinstance(each, Index))


def _level(m: Matrix) -> Level:
    match m:
        case Scalar():
            return Level(max(0, printer.level(m.value) - printer.Level.SUM))
        case Plus():
            return Level.SUM
        case Times() | Scaled() | Hadamard() | Summed():
            return Level.TERM
        case Function(name) if name in COMPARISONS or name in _INFIX:
            return Level.SUM
        case Transposed() | Inverse() | Raised() | Over() | Diagonal(Inverse()):
            return Level.FACTOR
        case _:
            return Level.ATOM


def _arguments(texts: Iterable[str]) -> str:
    return formulas.argued(", ".join(texts))
