"""Prints formulas in two dimensions: fractions, roots, powers and cases, and the lines of a text below each other.

The printers of LaTeX and of MathML, `interpreters/latex/pages.py` and `interpreters/mathml.py`, spell the parts.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from typing import TypeGuard

from einformer.language.primitives import PRIMITIVES
from einformer.language.printer import Level, PrintedLine, Printer, is_minus, level, number
from einformer.language.tree import Apply, Axis, Expression, Layer, Loop, Number, Product, Quotient, Scalar, Spec

FENCED = {row.name: row.fence for row in PRIMITIVES.values() if any(row.fence)}
_BLANK = PrintedLine(0, "")


class Display(Printer):
    """Prints nodes as formulas are set. `inline`: without fractions."""

    def __init__(self, inline: bool = False) -> None:
        self.inline = inline

    # ------------------------------------------------------------------------------------------------ how it is spelled

    @abstractmethod
    def fraction(self, above: str, below: str) -> str: ...

    @abstractmethod
    def raised(self, base: Expression, text: str, exponent: str) -> str: ...

    @abstractmethod
    def fence(self, name: str, text: str) -> str: ...

    @abstractmethod
    def root(self, text: str) -> str: ...

    @abstractmethod
    def total(self, e: Apply, summand: str) -> str: ...

    @abstractmethod
    def branches(self, rows: Sequence[tuple[str, str]]) -> str: ...

    @abstractmethod
    def heading(self, word: str) -> str: ...

    @abstractmethod
    def remarks_beside(self, note: str, comment: str) -> str: ...

    @abstractmethod
    def separate(self, *parts: str) -> str: ...

    @abstractmethod
    def align(self, rows: Iterable[tuple[int, Sequence[str]]]) -> str: ...

    def close(self, summand: str) -> str:
        return summand

    # --------------------------------------------------------------------------------------------------------- formulas

    def expression(self, e: Expression, least: Level = Level.OR) -> str:
        """Prints e. A fraction is a factor as it stands."""
        if isinstance(e, Quotient) and least is Level.FACTOR and not self.inline:
            return self.divide(e.numerator, e)
        return super().expression(e, least)

    def quotient(self, e: Quotient) -> str:
        """Prints a fraction, with the sign of its numerator in front."""
        if self.inline:
            return super().quotient(e)
        match e.numerator:
            case Number(value) as minuend if level(minuend) is Level.TERM:
                return self.sign("-") + self.divide(Number(-value), e)
            case Product((Number(-1), *factors)) as product if is_minus(product.factors):
                alone = len(factors) == 1 and not isinstance(factors[0], Product)
                return self.sign("-") + self.divide(factors[0] if alone else Product(tuple(factors)), e)
            case Product((Number(value) as minuend, *factors)) if level(minuend) is Level.TERM:
                return self.sign("-") + self.divide(Product((Number(-value), *factors)), e)
            case numerator:
                return self.divide(numerator, e)

    def divide(self, numerator: Expression, e: Quotient) -> str:
        return self.fraction(self.expression(numerator), self.expression(e.denominator))

    def power(self, base: Expression, exponent: Expression) -> str:
        text = self.base(base)
        if isinstance(base, Number) and "e" in number(base.value):
            text = self.enclose(text)
        return self.raised(base, text, self.flat.expression(exponent))

    def deny(self, condition: Expression) -> str:
        """Prints the operand of ¬, which is read with what stands next to it: `¬(s = e)`, where `not s == e` is plain."""
        alone = level(condition) in (Level.NOT, Level.FACTOR, Level.ATOM)
        return self.text(condition) if alone else self.enclose(self.text(condition))

    def application(self, e: Apply) -> str:
        """Prints fences around an argument, a root, Σ before the rest of its product, or a name before its arguments."""
        match e.name, e.indices, e.arguments:
            case (_, (), (argument,)) if e.name in FENCED:
                return self.fence(e.name, self.expression(argument))
            case ("sqrt", (), (argument,)):
                return self.root(self.expression(argument))
            case ("sum", (_, *_), (argument,)):
                return self.total(e, self.summand(argument))
            case _:
                return self.call(self.operator(e.name, e.indices), e.arguments)

    def call(self, head: str, arguments: Sequence[Expression]) -> str:
        """Prints a call in one call less than plain text: a formula in loops may be 150 deep (R13)."""
        return head + self.enclose_arguments(self.comma.join(map(self.expression, arguments)))

    def summand(self, e: Expression) -> str:
        """Prints the terms under Σ: the rest of the product."""
        text, whole = self.text(e), isinstance(e, Product) or (isinstance(e, Quotient) and not self.inline)
        if text.startswith(self.sign("-")) or not (whole or level(e) >= Level.FACTOR):
            return self.enclose(text)
        return self.close(text)

    def right(self, e: Expression) -> str:
        """Prints a right side: `where` as cases, a condition in parentheses if `=` compares."""
        return self.branches(list(self.cases(e))) if _is_where(e) else self.expression(e, Level.SUM)

    def cases(self, e: Apply) -> Iterator[tuple[str, str]]:
        """Yields values with their conditions. The last has none."""
        condition, value, other = e.arguments
        yield self.expression(value), self.flat.expression(condition)
        if _is_where(other):
            yield from self.cases(other)
        else:
            yield self.expression(other), ""

    # ------------------------------------------------------------------------------------------------------------ lines

    def page(self, node: Spec | Layer | Loop) -> str:
        match node:
            case Spec():
                lines = self.specification(node)
            case Layer():
                lines = self.layer(node)
            case Loop():
                lines = self.statement(node, 0)
        return self.align((line.indent, self.cells(line)) for line in lines)

    def cells(self, line: PrintedLine) -> list[str]:
        """Returns the cells of a line. Notes stand in a column of their own."""
        cells = [part for part in (line.text, self.remarks_beside(line.note, "")) if part]
        return [*cells[:-1], self.separate(*cells[-1:], self.remarks_beside("", line.comment))]

    def specification(self, spec: Spec) -> Iterator[PrintedLine]:
        yield from self.remarks((spec.title, *spec.about) if spec.title else (), 0)
        for head, entries in (("axes", spec.axes), ("scalars", spec.scalars)):
            if entries:
                yield from [_BLANK] * (head != "axes")
                yield PrintedLine(0, self.heading(head))
                yield PrintedLine(1, self.entries(entries))
        for layer in spec.layers:
            yield _BLANK
            yield from self.layer(layer)
        yield from self.remarks(spec.below, 0)

    def entries(self, entries: Iterable[Axis | Scalar]) -> str:
        """Prints the lines of a legend. Remarks stand in a column of their own."""
        lines = self.legend(entries, 0)
        return self.align((0, list(filter(None, (line.text, self.remarks_beside(line.note, line.comment))))) for line in lines)


def _is_where(e: Expression) -> TypeGuard[Apply]:
    return isinstance(e, Apply) and e.name == "where" and len(e.arguments) == 3 and not e.indices
