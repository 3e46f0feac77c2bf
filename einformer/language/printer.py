"""Prints a tree as plain text in the one style of the project, which parses to the same tree again.

The rules of precedence stand here once. `Display` prints formulas in two dimensions: fractions, roots, powers, cases, lines
below each other. The printers of LaTeX and of MathML, `interpreters/latex/pages.py` and `interpreters/mathml.py`, spell its
parts.
"""

from __future__ import annotations

import math
import re
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from types import MappingProxyType
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
_COMMAND = re.compile(r"\\[a-zA-Z]+$")
Written = Axis | Scalar | Weight | Equation | Loop | Layer  # with a line or a head of its own

# ------------------------------------------------------------------------------------------------------- precedence


class Level(IntEnum):
    """How tightly an expression holds together: the rules of the grammar, loosest first."""

    OR, AND, NOT, COMPARISON, SUM, TERM, FACTOR, ATOM = range(8)


_INFIX = {"or": Level.OR, "and": Level.AND, "not": Level.NOT, "mod": Level.TERM} | dict.fromkeys(COMPARISONS, Level.COMPARISON)


_LEVELS = {Sum: Level.SUM, Product: Level.TERM, Quotient: Level.TERM, Power: Level.FACTOR}


def level(e: Expression) -> Level:
    if isinstance(e, Number):
        return Level.TERM if math.copysign(1, e.value) < 0 else Level.ATOM
    if isinstance(e, Apply):
        return Level.COMPARISON if links(e) else _INFIX.get(e.name, Level.ATOM)
    return _LEVELS.get(type(e), Level.ATOM)


# `a < b <= c` is `a < b and b <= c`.
def links(e: Expression) -> list[Apply]:
    comparisons: list[Apply] = []
    while isinstance(e, Apply) and (e.name == "and" or e.name in COMPARISONS):
        link = e.arguments[1] if e.name == "and" else e
        if not (isinstance(link, Apply) and link.name in COMPARISONS) or (
            comparisons and link.arguments[1] != comparisons[0].arguments[0]
        ):
            return []
        comparisons.insert(0, link)
        if link is e:
            return comparisons
        e = e.arguments[0]
    return []


# `-1 2` is not `-2`.
def is_minus(factors: tuple[Expression, ...]) -> bool:
    first, second = factors[0], factors[1:2]
    minus = isinstance(first, Number) and type(first.value) is int and first.value == -1
    return minus and bool(second) and not isinstance(second[0], Number)


# A sign would negate the remainder (R11).
def is_dividend(e: Expression) -> TypeGuard[Product]:
    return isinstance(e, Product) and not (isinstance(e.factors[0], Number) and level(e.factors[0]) is Level.TERM)


# Σ takes all factors that follow (R11).
def needs_end(e: Expression) -> bool:
    return isinstance(e, Apply) and e.name == "sum"


# A letter would join the tensor or the number before it.
def is_apart(slots: Sequence[Expression]) -> bool:
    return any(isinstance(slot, Tensor | Number) for slot in slots)


# A power directly after e would have two readings (R11).
def takes_no_power(e: Expression) -> bool:
    return isinstance(e, Apply) and bool(e.indices) and e.name in _OPERATORS


# ---------------------------------------------------------------------------------------------------------- printing


@dataclass(frozen=True, slots=True)
class PrintedLine:
    """A line of the text: its indentation in steps, its text, its note and its comment."""

    indent: int
    text: str
    note: str = ""
    comment: str = ""


class Printer:
    """Prints nodes as plain text. Subclasses override the spelling, and no rule."""

    signs: Mapping[str, str] = MappingProxyType({})
    blank = " "
    comma = ", "

    @property
    def flat(self) -> Printer:
        return self

    # ------------------------------------------------------------------------------------------------ how it is spelled

    def sign(self, name: str) -> str:
        return self.signs.get(name, name)

    def keyword(self, word: str) -> str:
        return word + self.blank

    def remark(self, comment: str) -> str:
        return f"# {comment}"

    # A number reads again as the same: `12`, `0.1`, `1e-5`, `-inf`.
    def number(self, value: float) -> str:
        return number(value)

    def symbol(self, name: str) -> str:
        return name

    def letter(self, letter: str) -> str:
        return self.symbol(letter)

    def tensor(self, name: str, slots: Sequence[Expression]) -> str:
        return name + self.subscript(slots)

    # `_bsea` of letters; else in braces, apart where a letter would join the one before it: `_{x_bs d}`.
    def subscript(self, slots: Sequence[Expression]) -> str:
        if all(isinstance(slot, Index) for slot in slots):
            return "_" * bool(slots) + "".join(map(self.slot, slots))
        return f"_{{{(' ' * is_apart(slots)).join(map(self.slot, slots))}}}"

    # `Sm_s'`, but `mean_{egj}`: several letters under an operator stand in braces.
    def operator(self, name: str, indices: Sequence[Index]) -> str:
        return name + (f"_{{{abut(map(self.member, indices))}}}" if len(indices) > 1 else self.subscript(indices))

    def enclose(self, text: str) -> str:
        return f"({text})"

    def enclose_slot(self, text: str) -> str:
        return f"({text})"

    def group(self, members: Sequence[str]) -> str:
        return f"({abut(members)})"

    def sequence(self, members: Sequence[str]) -> str:
        return f"[{self.comma.join(members)}]"

    def enclose_arguments(self, text: str) -> str:
        return f"({text})"

    def multiply(self, factors: Sequence[str]) -> str:
        return " ".join(factors)

    def quotient(self, e: Quotient) -> str:
        over = e.numerator
        above = self.text(over) if isinstance(over, Product | Number) else self.expression(over, Level.FACTOR)
        return f"{above} {self.sign('/')} {self.expression(e.denominator, Level.FACTOR)}"

    def power(self, base: Expression, exponent: Expression) -> str:
        below = self.base(base)
        if isinstance(exponent, Number):
            return f"{below}^{self.number(exponent.value)}"
        return f"{below}^{self.enclose(self.text(exponent)) if needs_end(exponent) else self.expression(exponent, Level.ATOM)}"

    def base(self, e: Expression) -> str:
        text = self.expression(e, Level.ATOM)
        return self.enclose(text) if takes_no_power(e) else text

    def application(self, e: Apply) -> str:
        return self.operator(e.name, e.indices) + self.arguments(e.arguments)

    def deny(self, condition: Expression) -> str:
        return self.expression(condition, Level.NOT)

    def call(self, head: str, arguments: Sequence[Expression]) -> str:
        return head + self.arguments(arguments)

    def top(self, k: str, indices: Sequence[Index]) -> str:
        return f"{self.symbol('top')}_{{{k},{abut(map(self.member, indices))}}}"

    def right(self, e: Expression) -> str:
        return self.expression(e)

    # ---------------------------------------------------------------------------------------------------------- formulas

    def expression(self, e: Expression, least: Level = Level.OR) -> str:
        return self.text(e) if level(e) >= least else self.enclose(self.text(e))

    def text(self, e: Expression) -> str:
        match e:
            case Number():
                return self.number(e.value)
            case Name():
                return self.symbol(e.name)
            case Index():
                return self.letter(e.letter)
            case Tensor():
                return self.tensor(e.name, e.slots)
            case Group():
                return self.group(list(map(self.member, e.members)))
            case Sum():
                signs = self.sign("-"), self.sign("+")
                return join_terms((self.expression(term, Level.TERM) for term in e.terms), *signs)
            case Product():
                return self.product(e.factors)
            case Quotient():
                return self.quotient(e)
            case Power():
                return self.power(e.base, e.exponent)
            case Apply():
                return self.apply(e)
            case _:
                assert_never(e)

    # A single factor is a numerator in parentheses.
    def product(self, factors: tuple[Expression, ...]) -> str:
        if len(factors) == 1:
            return self.enclose(self.text(factors[0]))
        sign, factors = (self.sign("-"), factors[1:]) if is_minus(factors) else ("", factors)
        first = [self.number(factors[0].value)] if isinstance(factors[0], Number) else []
        *before, last = factors[len(first) :]
        middle = [self.enclose(self.text(f)) if needs_end(f) else self.expression(f, Level.FACTOR) for f in before]
        alone = sign and not before and isinstance(last, Quotient)  # `-a / b` and `-\frac{a}{b}` are (-a) / b
        end = self.enclose(self.text(last)) if alone else self.expression(last, Level.FACTOR)
        return sign + self.multiply([*first, *middle, end])

    def apply(self, e: Apply) -> str:
        if chain := links(e):
            first = self.expression(chain[0].arguments[0], Level.SUM)
            others = (f" {self.sign(link.name)} {self.expression(link.arguments[1], Level.SUM)}" for link in chain)
            return first + "".join(others)
        match e.name, e.arguments:
            case ("or" | "and" as word, (left, right)):
                own, inner = (Level.OR, Level.AND) if word == "or" else (Level.AND, Level.NOT)
                return f"{self.expression(left, own)} {self.sign(word)} {self.expression(right, inner)}"
            case ("not", (condition,)):
                return f"{self.sign('not')} {self.deny(condition)}"
            case ("mod", (left, right)):
                flat = self.flat
                over = flat.product(left.factors) if is_dividend(left) else flat.expression(left, Level.FACTOR)
                return f"{over} {self.sign('mod')} {flat.expression(right, Level.FACTOR)}"
            case ("top", (k, *arguments)):
                return self.call(self.top(self.flat.expression(k, Level.SUM), e.indices), arguments)
            case _:
                return self.application(e)

    def arguments(self, arguments: Sequence[Expression]) -> str:
        return self.enclose_arguments(self.comma.join(map(self.expression, arguments)))

    def slot(self, e: Expression) -> str:
        plain = isinstance(e, Tensor) or (isinstance(e, Number) and level(e) is Level.ATOM)
        return self.flat.text(e) if plain else self.member(e)

    def member(self, e: Expression) -> str:
        return self.flat.text(e) if isinstance(e, Index | Group) else self.enclose_slot(self.flat.expression(e, Level.SUM))

    # ------------------------------------------------------------------------------------------------------ declarations

    def declaration(self, node: Written) -> PrintedLine:
        match node:
            case Axis():
                return PrintedLine(0, self.axis(node), comment=node.comment)
            case Scalar():
                return PrintedLine(0, self.scalar(node), node.note, node.comment)
            case Weight():
                return PrintedLine(0, self.weight(node))
            case Equation():
                return PrintedLine(0, self.equation(node), node.note, node.comment)
            case Loop():
                turns = f"{self.letter(node.index.letter)} {self.sign('<')} {self.flat.expression(node.count, Level.SUM)}"
                return PrintedLine(0, f"{self.keyword('for')}{turns}{self.sign(':')}", comment=node.comment)
            case Layer():
                return self.head(node, self.signature(node))
            case _:
                assert_never(node)

    # `RMSNorm_d(z_d) -> z_d`.
    def signature(self, layer: Layer) -> str:
        name, formals = self.symbol(layer.name) + self.subscript(layer.indices), self.comma.join(map(self.left, layer.formals))
        return f"{name}{self.enclose_arguments(formals)} {self.sign('->')} {self.left(layer.output)}"

    # `model Decoder(x_bs) -> y_bsv causal in s:`, where `called` says how the layer is called.
    def head(self, layer: Layer, called: str) -> PrintedLine:
        time = f"{self.blank}{self.keyword('causal in')}{self.letter(layer.time.letter)}" if layer.time else ""
        return PrintedLine(0, f"{self.keyword(layer.kind)}{called}{time}{self.sign(':')}", layer.note, layer.comment)

    def axis(self, axis: Axis) -> str:
        default = f" {self.sign('=')} {self.flat.expression(axis.default, Level.SUM)}" if axis.default is not None else ""
        bound = f" {self.sign('<=')} {self.flat.expression(axis.bound, Level.SUM)}" if axis.bound is not None else ""
        size = self.flat.expression(axis.size, Level.SUM)
        return f"{self.letter(axis.letter)}{self.sign(':')} {size}{default}{bound}"

    # `W_l = [128, inf]`.
    def scalar(self, scalar: Scalar) -> str:
        value = scalar.value
        text = self.sequence([self.number(n.value) for n in value]) if isinstance(value, tuple) else self.right(value)
        return f"{self.tensor(scalar.name, scalar.indices)} {self.sign('=')} {text}"

    # `U_vd? = E_vd`.
    def weight(self, weight: Weight) -> str:
        default = f" {self.sign('=')} {self.expression(weight.default, Level.SUM)}" if weight.default is not None else ""
        return f"{self.tensor(weight.name, weight.indices)}{self.sign('?') * weight.optional}{default}"

    # `y_s <- z_s + y_s`.
    def equation(self, equation: Equation) -> str:
        right = self.right(equation.right)
        if equation.relation == "return":
            return f"{self.keyword('return')}{right}"
        return f"{self.left(equation.left)} {self.sign(equation.relation)} {right}"

    def left(self, left: Tensor | Name) -> str:
        return self.symbol(left.name) if isinstance(left, Name) else self.tensor(left.name, left.slots)

    def statement(self, node: Statement, indent: int) -> Iterator[PrintedLine]:
        yield from self.remarks(node.above, indent)
        yield replace(self.declaration(node), indent=indent)
        for inner in node.body if isinstance(node, Loop) else ():
            yield from self.statement(inner, indent + 1)

    def layer(self, layer: Layer) -> Iterator[PrintedLine]:
        yield from self.remarks(layer.above, 0)
        yield self.declaration(layer)
        for row in self.rows(layer.weights):
            yield from self.remarks(row[0].above, 1)
            kind, of = "buffers" if row[0].kind == "buffer" else "weights", row[0].layer
            names = self.comma.join(map(self.weight, row)) + (f"{self.sign(':')} {self.symbol(of)}" if of else "")
            yield PrintedLine(1, self.keyword(kind) + names, comment=row[-1].comment)
        for statement in layer.body:
            yield from self.statement(statement, 1)

    # Weights of one kind stand on one line, as many as fit, with comments only above and at the end.
    def rows(self, weights: tuple[Weight, ...]) -> Iterator[list[Weight]]:
        row: list[Weight] = []
        for weight in weights:
            if row and (_kind(row[-1]) != _kind(weight) or row[-1].comment or weight.above or not self.fits(row, weight)):
                yield row
                row = []
            row.append(weight)
        yield from [row] * bool(row)

    def fits(self, row: list[Weight], weight: Weight) -> bool:
        return len(", ".join(map(self.weight, row))) + len(self.weight(weight)) <= _ROW

    def legend(self, entries: Iterable[Axis | Scalar], indent: int) -> Iterator[PrintedLine]:
        for entry in entries:
            yield from self.remarks(entry.above, indent)
            yield replace(self.declaration(entry), indent=indent)

    def remarks(self, comments: Iterable[str], indent: int) -> Iterator[PrintedLine]:
        return (PrintedLine(indent, self.remark(comment)) for comment in comments)


# A number reads again as the same: `12`, `0.1`, `1e-5`, `-inf`.
def number(value: float) -> str:
    mantissa, e, exponent = str(value).partition("e")
    return f"{mantissa}e{int(exponent)}" if e else mantissa


def join_terms(terms: Iterable[str], minus: str = "-", plus: str = "+") -> str:
    first, *others = terms
    return first + "".join(f" {minus} {term[len(minus) :]}" if term.startswith(minus) else f" {plus} {term}" for term in others)


# A command of LaTeX stands apart from a letter that would lengthen it.
def abut(parts: Iterable[str]) -> str:
    text = ""
    for part in parts:
        text += " " * bool(part[:1].isalpha() and _COMMAND.search(text)) + part
    return text


def _kind(weight: Weight) -> tuple[str, str]:
    return weight.kind, weight.layer


# ---------------------------------------------------------------------------------------------------------- plain text

PLAIN = Printer()
expression = PLAIN.expression


def show(node: Declaration | Expression) -> str:
    """The text of a node; of a whole `Spec`, a file.

    >>> show(Equation(Tensor("q", (Index("s"),)), "=", Product((Number(-1), Name("H")))))
    'q_s = -H'
    """
    match node:
        case Spec():
            return "\n\n".join("\n".join(block) for block in _blocks(node) if block) + "\n"
        case Layer():
            return "\n".join(map(_write, PLAIN.layer(node)))
        case Equation() | Loop():
            return "\n".join(map(_write, PLAIN.statement(node, 0)))
        case Axis() | Scalar() | Weight():
            return PLAIN.declaration(node).text
        case _:
            return expression(node)


def alone(equation: Equation | Scalar) -> str:
    return PLAIN.declaration(equation).text


def _blocks(spec: Spec) -> Iterator[list[str]]:
    title = [line.text for line in PLAIN.remarks((spec.title, *spec.about) if spec.title else (), 0)]
    axes, scalars = ([_write(line, _LEGEND, _LEGEND) for line in PLAIN.legend(of, 1)] for of in (spec.axes, spec.scalars))
    yield [*title, *["axes"] * bool(axes), *axes]
    yield [*["scalars"] * bool(scalars), *scalars]
    yield from ([show(layer)] for layer in spec.layers)
    yield [line.text for line in PLAIN.remarks(spec.below, 0)]


def _write(line: PrintedLine, note: int = _NOTE, comment: int = _COMMENT) -> str:
    return _append(_append("  " * line.indent + line.text, note, "@", line.note), comment, "#", line.comment)


def _append(text: str, column: int, mark: str, remark: str) -> str:
    return f"{text:<{column - 1}} {mark} {remark}" if remark else text


# ------------------------------------------------------------------------------------------------- two dimensions

_BLANK = PrintedLine(0, "")
FENCED = {row.name: row.fence for row in PRIMITIVES.values() if any(row.fence)}


class Display(Printer):
    """Prints nodes as formulas are set. `inline`: without fractions."""

    def __init__(self, inline: bool = False) -> None:
        self.inline = inline

    # ------------------------------------------------------------------------------------------------ how it is spelled

    @abstractmethod
    def fraction(self, above: str, below: str) -> str: ...

    @abstractmethod
    def write_power(self, base: Expression, text: str, exponent: str) -> str: ...

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
        if isinstance(e, Quotient) and least is Level.FACTOR and not self.inline:
            return self.divide(e.numerator, e)
        return super().expression(e, least)

    def quotient(self, e: Quotient) -> str:
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
        return self.write_power(base, text, self.flat.expression(exponent))

    # ¬ is read with what stands next to it: `¬(s = e)`, where `not s == e` is plain.
    def deny(self, condition: Expression) -> str:
        alone = level(condition) in (Level.NOT, Level.FACTOR, Level.ATOM)
        return self.text(condition) if alone else self.enclose(self.text(condition))

    def application(self, e: Apply) -> str:
        match e.name, e.indices, e.arguments:
            case (_, (), (argument,)) if e.name in FENCED:
                return self.fence(e.name, self.expression(argument))
            case ("sqrt", (), (argument,)):
                return self.root(self.expression(argument))
            case ("sum", (_, *_), (argument,)):
                return self.total(e, self.summand(argument))
            case _:
                return self.call(self.operator(e.name, e.indices), e.arguments)

    # LaTeX takes one call less than plain text: a formula in loops may be 150 deep (R13).
    def call(self, head: str, arguments: Sequence[Expression]) -> str:
        return head + self.enclose_arguments(self.comma.join(map(self.expression, arguments)))

    def summand(self, e: Expression) -> str:
        text, whole = self.text(e), isinstance(e, Product) or (isinstance(e, Quotient) and not self.inline)
        if text.startswith(self.sign("-")) or not (whole or level(e) >= Level.FACTOR):
            return self.enclose(text)
        return self.close(text)

    # `where` becomes cases. A condition is in parentheses if `=` compares.
    def right(self, e: Expression) -> str:
        return self.branches(list(self.cases(e))) if _is_where(e) else self.expression(e, Level.SUM)

    # The last value has no condition.
    def cases(self, e: Apply) -> Iterator[tuple[str, str]]:
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
        lines = self.legend(entries, 0)
        return self.align((0, list(filter(None, (line.text, self.remarks_beside(line.note, line.comment))))) for line in lines)


def _is_where(e: Expression) -> TypeGuard[Apply]:
    return isinstance(e, Apply) and e.name == "where" and len(e.arguments) == 3 and not e.indices
