"""Prints products, sums and functions of matrices. A piece is a printed formula with the letters of its rows and columns."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import reduce
from itertools import combinations

from einformer.interpreters.latex.matrices.naming import Names
from einformer.interpreters.latex.pages import INFIX, LATEX
from einformer.language import printer
from einformer.language.calls import axis_of
from einformer.language.primitives import COMPARISONS
from einformer.language.tree import Apply, Expression, Index, Name, Number, Tensor

Shape = tuple[str, str]


class Level(IntEnum):
    """How tightly a formula holds together, loosest first; a chain is a product of matrices."""

    SUM, TERM, CHAIN, FACTOR, ATOM = range(5)


@dataclass(frozen=True, slots=True)
class Piece:
    """A formula: a matrix, a row without the letter of rows, a column without the letter of columns, or a number.

    `turn` makes the transposed formula where it is not this one with a sign; `under` is what a reciprocal divides by,
    `factors` are the numbers that a product of numbers is made of.
    """

    text: str
    rows: str = ""
    cols: str = ""
    level: Level = Level.ATOM
    turn: Callable[[], Piece] | None = None
    under: Piece | None = None
    factors: tuple[Piece, ...] = ()

    @property
    def shape(self) -> Shape:
        """The letters of the rows and of the columns."""
        return self.rows, self.cols

    @property
    def letters(self) -> tuple[str, ...]:
        """Two letters of a matrix, one of a row or a column, none of a number."""
        return tuple(dict.fromkeys(letter for letter in self.shape if letter))

    def within(self, least: Level) -> str:
        """The text, in parentheses where a formula is wanted that holds tighter."""
        return self.text if self.level >= least else LATEX.enclosed(self.text)


@dataclass(frozen=True, slots=True)
class Printer:
    """Prints the operations by the names of one layer; each one knows its shape and what it is transposed."""

    names: Names
    called: Mapping[str, str]  # layers that a document has another name for

    # --------------------------------------------------------------------------------------------------------- leaves

    def number(self, e: Expression) -> Piece:
        """A number made of no tensor: `sqrt(H)`, `2 ε`."""
        return Piece(LATEX.expression(e), level=Level.__members__.get(printer.level(e).name, Level.SUM))

    def tensor(self, e: Tensor, rows: str = "", cols: str = "", turned: bool = False) -> Piece:
        """A tensor; of its slots those of `rows` and `cols` are axes, all others labels."""
        text = self.names.letter(e, rows, cols, self.names.style.transpose * turned)
        level = Level.FACTOR if turned else Level.ATOM
        rows_of, cols_of = (cols, rows) if turned else (rows, cols)
        return Piece(text, rows_of, cols_of, level, lambda: self.tensor(e, rows, cols, not turned))

    def ones(self, letter: str) -> Piece:
        """A column of ones."""
        return Piece(r"\mathbf{1}", letter)

    def lookup(self, e: Tensor, cols: str, by: Piece) -> Piece:
        """The rows of a matrix that a vector of whole numbers names; one row, if that is a number."""
        return Piece(f"{self.names.letter(e, cols, cols)}[{by.text}]", "".join(by.letters), cols)

    # ------------------------------------------------------------------------------------------------------- products

    def transposed(self, m: Piece) -> Piece:
        """Rows for columns: `(A B)^⊤` is `B^⊤ A^⊤`."""
        if not m.letters:
            return m
        if m.turn:
            return m.turn()
        text = raised(m.within(Level.ATOM), self.names.style.transpose)
        return Piece(text, m.cols, m.rows, Level.FACTOR, lambda: m)

    def times(self, one: Piece, other: Piece) -> Piece:
        """A product of matrices: the columns of one are the rows of the other."""
        text = LATEX.beside([one.within(Level.CHAIN), other.within(Level.CHAIN)])
        turn = lambda: self.times(self.transposed(other), self.transposed(one))  # noqa: E731
        return Piece(text, one.rows, other.cols, Level.CHAIN, turn)

    def scaled(self, numbers: Sequence[Piece], of: Piece | None = None) -> Piece:
        """Numbers times a matrix, or times one another, over the numbers that divide them; a sign stands first."""
        numbers = [inner for each in numbers for inner in each.factors or (each,)]
        over = [each for each in numbers if not each.under and each.text != "1"]
        under = [each.under for each in numbers if each.under]
        if of and not over and not under:
            return of
        first, *others = product = [*over, of] if of else over or [Piece("1")]
        text, level = first.text, first.level
        if others:
            sign, shown = ("-", others) if text == "-1" else ("", product)
            text, level = sign + LATEX.beside([each.within(Level.FACTOR) for each in shown]), Level.TERM
        if under:
            text, level, product = f"\\frac{{{text}}}{{{self.scaled(under).text}}}", Level.FACTOR, []
        if not of:
            return Piece(text, level=level, factors=tuple(product))
        return Piece(text, *of.shape, level, lambda: self.scaled(numbers, self.transposed(of)))

    def entrywise(self, factors: Sequence[Piece]) -> Piece:
        """A product of the numbers at each place; a reciprocal divides."""
        first, *others = factors
        signed = ((r"\oslash", each.under) if each.under else (r"\odot", each) for each in others)
        text = " ".join([first.within(Level.FACTOR), *(f"{sign} {of.within(Level.FACTOR)}" for sign, of in signed)])
        return Piece(text, *first.shape, Level.TERM, lambda: self.entrywise([*map(self.transposed, factors)]))

    def reciprocal(self, m: Piece) -> Piece:
        """One over each number."""
        text = raised(m.within(Level.ATOM), r"\circ -1")
        return Piece(text, *m.shape, Level.FACTOR, lambda: self.reciprocal(self.transposed(m)), m)

    def diagonal(self, vector: Piece) -> Piece:
        """The square matrix with a vector on its diagonal."""
        (letter,) = vector.letters
        text = f"\\operatorname{{diag}}({(vector.under or vector).text})" + "^{-1}" * bool(vector.under)
        level = Level.FACTOR if vector.under else Level.ATOM
        return Piece(text, letter, letter, level, lambda: self.diagonal(vector))

    def total(self, labels: Sequence[str], m: Piece) -> Piece:
        """A sum over labels."""
        text = f"\\sum_{{{''.join(map(LATEX.symbol, labels))}}} {m.within(Level.TERM)}"
        return Piece(text, *m.shape, Level.TERM, lambda: self.total(labels, self.transposed(m)))

    # ------------------------------------------------------------------------------------------- sums and functions

    def plus(self, terms: Sequence[Piece]) -> Piece:
        """A sum of matrices of one shape, with its signs."""
        text = printer.added(term.within(Level.TERM) for term in terms)
        return Piece(text, *terms[0].shape, Level.SUM, lambda: self.plus([*map(self.transposed, terms)]))

    def power(self, base: Piece, exponent: Piece) -> Piece:
        """Each number to the same power."""
        text = raised(base.within(Level.ATOM), r"\circ " * bool(base.letters) + exponent.text)
        return Piece(text, *base.shape, Level.FACTOR, lambda: self.power(self.transposed(base), exponent))

    def function(self, name: str, arguments: Sequence[Piece]) -> Piece:
        """A function of each number: a name before its arguments, or a sign between two."""
        rows, cols = next((each.shape for each in arguments if each.letters), ("", ""))
        level = Level.SUM if name in COMPARISONS or name in INFIX else Level.ATOM
        if name in INFIX:
            text = f" {INFIX[name]} ".join(each.within(Level.FACTOR) for each in arguments)
        elif name == "sqrt":
            text = f"\\sqrt{{{arguments[0].text}}}"
        else:
            text = LATEX.operator(name, ()) + _arguments(arguments)
        return Piece(text, rows, cols, level, lambda: self.function(name, [*map(self.transposed, arguments)]))

    def by_row(self, name: str, of: Piece, first: Sequence[Piece] = ()) -> Piece:
        """An operator that keeps the columns it works on: on each row, or on a vector; the k of `top` below."""
        spelled = f"\\mathrm{{{self.names.style.softmax}}}" if name == "Sm" else LATEX.operator(name, ())
        below = f"_{{{', '.join(each.text for each in first)}}}" if first else ""
        turn = (lambda: self.by_row(name, self.transposed(of), first)) if len(of.letters) == 1 else None
        return Piece(spelled + below + _arguments([of]), *of.shape, turn=turn)

    def reduced(self, e: Apply, of: Piece, whole: bool) -> Piece:
        """An operator that makes a number of each row, or of a `whole` vector; of a whole matrix with its letters below."""
        below = e.indices if whole and len(of.letters) > 1 else ()
        return Piece(LATEX.operator(e.name, below) + _arguments([of]), "" if whole else of.rows)

    def call(self, e: Apply, arguments: Sequence[Piece], shape: Shape) -> Piece:
        """A layer applied."""
        return Piece(LATEX.operator(self.layer(e.name), e.indices) + _arguments(arguments), *shape)

    def layer(self, name: str) -> str:
        """What a layer is called."""
        return self.called.get(name, name)

    def concat(self, labels: Sequence[str], of: Expression, m: Piece, cols: str) -> Piece:
        """The matrices of all labels side by side: `Concat(Y_1, …, Y_h)` where the heads are one label of a tensor."""
        size = self.names.legend.axes[axis_of(labels[0])].size
        one = len(labels) == 1 and isinstance(of, Tensor) and m.text == self.names.letter(of, *m.shape)
        if not (one and isinstance(of, Tensor) and isinstance(size, Name | Number)):
            below = f"_{{{''.join(map(LATEX.symbol, labels))}}}"
            return Piece(rf"\mathrm{{Concat}}{below}" + _arguments([m]), m.rows, cols)
        first, last = (self.names.letter(_at(of, labels[0], each), *m.shape) for each in (Number(1), size))
        return Piece(f"\\mathrm{{Concat}}({first}, \\dots, {last})", m.rows, cols)


def _at(tensor: Tensor, label: str, place: Name | Number) -> Tensor:
    return Tensor(tensor.name, tuple(place if each == Index(label) else each for each in tensor.slots))


def _arguments(of: Iterable[Piece]) -> str:
    return LATEX.argued(", ".join(each.text for each in of))


def raised(text: str, power: str) -> str:
    """A power of what may have something above it already."""
    scripted = not text.endswith(")") and ("^" in text or "'" in text)
    return f"{{{text}}}^{{{power}}}" if scripted else f"{text}^{{{power}}}"


class NoForm(Exception):
    """An expression has no form in matrices; the message says why."""


def oriented(out: Printer, m: Piece, wanted: Shape) -> Piece:
    """m in the wanted shape: transposed, or repeated by ones along the letters that it lacks. Raises NoForm for others."""
    if m.shape == wanted:
        return m
    if m.shape == wanted[::-1]:
        return out.transposed(m)
    if others := sorted({*m.letters}.difference(wanted)):
        raise NoForm(f"the letters {', '.join(others)} are on one side only")
    rows, cols = wanted
    column = [out.ones(rows)] if rows and rows not in m.letters else []
    row = [out.transposed(out.ones(cols))] if cols and cols not in m.letters else []
    if not m.letters:
        return out.scaled([m], reduce(out.times, column + row))
    return reduce(out.times, [*column, oriented(out, m, ("", cols) if column else (rows, "")), *row])


def along(out: Printer, m: Piece, letter: str) -> Piece:
    """m with this letter over its columns."""
    return m if m.cols == letter else out.transposed(m)


def down(out: Printer, m: Piece, letter: str) -> Piece:
    """m with this letter over its rows."""
    return m if m.rows == letter else out.transposed(m)


def common(pieces: Sequence[Piece]) -> Shape:
    """The shape that all of them can be brought to: the shape of the first matrix among them, else of vectors side by side."""
    letters = dict.fromkeys(letter for m in pieces for letter in m.letters)
    if len(letters) > 2:
        raise NoForm(f"the letters {', '.join(letters)} are three axes of one number")
    widest = max(pieces, key=lambda m: len(m.letters))
    rows, cols = (*letters, "", "")[:2]
    return widest.shape if len(widest.letters) == len(letters) else (rows, cols)


def product(out: Printer, factors: Sequence[Piece], summed: frozenset[str] = frozenset()) -> Piece:
    """The product of factors, summed over some of their letters. Raises NoForm where no order of the factors makes it one.

    Numbers stand in front. Of the others, as long as one of the rules applies: two that share a letter that is summed, and
    nothing else, are a product of matrices; factors of the same letters are multiplied number by number; a letter summed that
    one alone has is summed by ones; a vector beside a matrix is a diagonal; two vectors that are left are an outer product.
    """
    numbers, rest = [m for m in factors if not m.letters], [m for m in factors if m.letters]
    while step := next(_steps(out, rest, summed), None):
        taken, result = step
        rest = [result if m is taken[0] else m for m in rest if m is taken[0] or not any(m is each for each in taken)]
        numbers, rest = numbers + [m for m in rest if not m.letters], [m for m in rest if m.letters]
    if len(rest) > 1:
        raise NoForm(f"no two of its {len(rest)} factors have a product that is a matrix")
    return out.scaled(numbers, *rest)


def _steps(out: Printer, rest: Sequence[Piece], summed: frozenset[str]) -> Iterator[tuple[Sequence[Piece], Piece]]:
    """The products that can be taken next, the best first: the factors that go into one, and what it is."""
    often = Counter(letter for m in rest for letter in m.letters)
    pairs = [(one, other, set(one.letters) & set(other.letters)) for one, other in combinations(rest, 2)]
    for one, other, shared in pairs:  # `A_ni B_iu` summed over i: `A B`
        if len(shared) == 1 and shared <= summed and often[letter := min(shared)] == 2:
            yield (one, other), out.times(along(out, one, letter), down(out, other, letter))
    for one in rest:  # `A_nu B_nu`: `A ⊙ B`
        same = [m for m in rest if set(m.letters) == set(one.letters)]
        if len(same) > 1:
            yield same, out.entrywise([oriented(out, m, one.shape) for m in same])
    for one in rest:  # `A_nu` summed over u: `A 1`
        for letter in one.letters:
            if letter in summed and often[letter] == 1:
                yield (one,), out.times(along(out, one, letter), out.ones(letter))
    for one, other, shared in pairs:  # `v_n A_nu`: `diag(v) A`; `A_nu v_u`: `A diag(v)`
        vector, m = (one, other) if len(one.letters) == 1 else (other, one)
        if shared and len(vector.letters) == 1:
            chain = [out.diagonal(vector), m] if m.rows == vector.letters[0] else [m, out.diagonal(vector)]
            yield (one, other), reduce(out.times, chain)
    if len(rest) == 2 and all(len(m.letters) == 1 for m in rest):  # `u_n v_u`: `u v^⊤`
        yield rest, out.times(down(out, rest[0], *rest[0].letters), along(out, rest[1], *rest[1].letters))
