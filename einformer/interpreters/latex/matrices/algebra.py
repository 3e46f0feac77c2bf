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
    """The binding strength of a formula, loosest first. A chain is a product of matrices."""

    SUM, TERM, CHAIN, FACTOR, ATOM = range(5)


@dataclass(frozen=True, slots=True)
class Piece:
    """A formula: a matrix, a row without the letter of rows, a column without the letter of columns, or a number.

    `turn` makes the transposed formula if a sign after this one does not. `under` is the divisor of a reciprocal. `factors`
    are the numbers in a product of numbers.
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
        """Returns the letters of the rows and of the columns."""
        return self.rows, self.cols

    @property
    def letters(self) -> tuple[str, ...]:
        """Returns two letters for a matrix, one for a row or a column, none for a number."""
        return tuple(dict.fromkeys(letter for letter in self.shape if letter))

    def within(self, least: Level) -> str:
        """Returns the text, in parentheses if it binds less tightly than `least`."""
        return self.text if self.level >= least else LATEX.enclose(self.text)


@dataclass(frozen=True, slots=True)
class Printer:
    """Prints operations with the names of one layer. Each result has its shape and its transposed form."""

    names: Names
    called: Mapping[str, str]  # layers that a document has another name for

    # --------------------------------------------------------------------------------------------------------- leaves

    def number(self, e: Expression) -> Piece:
        """Prints a number without tensors: `sqrt(H)`, `2 ε`."""
        return Piece(LATEX.expression(e), level=Level.__members__.get(printer.level(e).name, Level.SUM))

    def tensor(self, e: Tensor, rows: str = "", cols: str = "", turned: bool = False) -> Piece:
        """Prints a tensor. Its slots `rows` and `cols` are axes, all others labels."""
        text = self.names.letter(e, rows, cols, self.names.style.transpose * turned)
        level = Level.FACTOR if turned else Level.ATOM
        rows_of, cols_of = (cols, rows) if turned else (rows, cols)
        return Piece(text, rows_of, cols_of, level, lambda: self.tensor(e, rows, cols, not turned))

    def ones(self, letter: str) -> Piece:
        """Prints a column of ones."""
        return Piece(r"\mathbf{1}", letter)

    def lookup(self, e: Tensor, cols: str, by: Piece) -> Piece:
        """Prints the rows of a matrix that a vector of whole numbers names, or one row."""
        return Piece(f"{self.names.letter(e, cols, cols)}[{by.text}]", "".join(by.letters), cols)

    # ------------------------------------------------------------------------------------------------------- products

    def transpose(self, m: Piece) -> Piece:
        """Exchanges rows and columns: `(A B)^⊤` is `B^⊤ A^⊤`."""
        if not m.letters:
            return m
        if m.turn:
            return m.turn()
        text = raise_to(m.within(Level.ATOM), self.names.style.transpose)
        return Piece(text, m.cols, m.rows, Level.FACTOR, lambda: m)

    def times(self, one: Piece, other: Piece) -> Piece:
        """Prints a product of matrices: the columns of one are the rows of the other."""
        text = LATEX.multiply([one.within(Level.CHAIN), other.within(Level.CHAIN)])
        turn = lambda: self.times(self.transpose(other), self.transpose(one))  # noqa: E731
        return Piece(text, one.rows, other.cols, Level.CHAIN, turn)

    def scale(self, numbers: Sequence[Piece], of: Piece | None = None) -> Piece:
        """Prints numbers times a matrix, or times one another, over the numbers that divide them. A sign comes first."""
        numbers = [inner for factor in numbers for inner in factor.factors or (factor,)]
        over = [factor for factor in numbers if not factor.under and factor.text != "1"]
        under = [factor.under for factor in numbers if factor.under]
        if of and not over and not under:
            return of
        first, *others = product = [*over, of] if of else over or [Piece("1")]
        text, level = first.text, first.level
        if others:
            sign, shown = ("-", others) if text == "-1" else ("", product)
            text, level = sign + LATEX.multiply([factor.within(Level.FACTOR) for factor in shown]), Level.TERM
        if under:
            text, level, product = f"\\frac{{{text}}}{{{self.scale(under).text}}}", Level.FACTOR, []
        if not of:
            return Piece(text, level=level, factors=tuple(product))
        return Piece(text, *of.shape, level, lambda: self.scale(numbers, self.transpose(of)))

    def entrywise(self, factors: Sequence[Piece]) -> Piece:
        """Prints a product of the numbers at each place. A reciprocal divides."""
        first, *others = factors
        signed = ((r"\oslash", other.under) if other.under else (r"\odot", other) for other in others)
        text = " ".join([first.within(Level.FACTOR), *(f"{sign} {of.within(Level.FACTOR)}" for sign, of in signed)])
        return Piece(text, *first.shape, Level.TERM, lambda: self.entrywise([*map(self.transpose, factors)]))

    def reciprocal(self, m: Piece) -> Piece:
        """Prints one over each number."""
        text = raise_to(m.within(Level.ATOM), r"\circ -1")
        return Piece(text, *m.shape, Level.FACTOR, lambda: self.reciprocal(self.transpose(m)), m)

    def diagonal(self, vector: Piece) -> Piece:
        """Prints the square matrix with a vector on its diagonal."""
        (letter,) = vector.letters
        text = f"\\operatorname{{diag}}({(vector.under or vector).text})" + "^{-1}" * bool(vector.under)
        level = Level.FACTOR if vector.under else Level.ATOM
        return Piece(text, letter, letter, level, lambda: self.diagonal(vector))

    def total(self, labels: Sequence[str], m: Piece) -> Piece:
        """Prints a sum over labels."""
        text = f"\\sum_{{{''.join(map(LATEX.symbol, labels))}}} {m.within(Level.TERM)}"
        return Piece(text, *m.shape, Level.TERM, lambda: self.total(labels, self.transpose(m)))

    # ------------------------------------------------------------------------------------------- sums and functions

    def plus(self, terms: Sequence[Piece]) -> Piece:
        """Prints a sum of matrices of one shape, with its signs."""
        text = printer.join_terms(term.within(Level.TERM) for term in terms)
        return Piece(text, *terms[0].shape, Level.SUM, lambda: self.plus([*map(self.transpose, terms)]))

    def power(self, base: Piece, exponent: Piece) -> Piece:
        """Prints each number to the same power."""
        text = raise_to(base.within(Level.ATOM), r"\circ " * bool(base.letters) + exponent.text)
        return Piece(text, *base.shape, Level.FACTOR, lambda: self.power(self.transpose(base), exponent))

    def function(self, name: str, arguments: Sequence[Piece]) -> Piece:
        """Prints a function of each number: a name before its arguments, or a sign between two."""
        rows, cols = next((argument.shape for argument in arguments if argument.letters), ("", ""))
        level = Level.SUM if name in COMPARISONS or name in INFIX else Level.ATOM
        if name in INFIX:
            text = f" {INFIX[name]} ".join(argument.within(Level.FACTOR) for argument in arguments)
        elif name == "sqrt":
            text = f"\\sqrt{{{arguments[0].text}}}"
        else:
            text = LATEX.operator(name, ()) + _join_arguments(arguments)
        return Piece(text, rows, cols, level, lambda: self.function(name, [*map(self.transpose, arguments)]))

    def by_row(self, name: str, of: Piece, first: Sequence[Piece] = ()) -> Piece:
        """Prints an operator that keeps its columns: on each row, or on a vector. The k of `top` stands below."""
        spelled = f"\\mathrm{{{self.names.style.softmax}}}" if name == "Sm" else LATEX.operator(name, ())
        below = f"_{{{', '.join(argument.text for argument in first)}}}" if first else ""
        turn = (lambda: self.by_row(name, self.transpose(of), first)) if len(of.letters) == 1 else None
        return Piece(spelled + below + _join_arguments([of]), *of.shape, turn=turn)

    def reduce(self, e: Apply, of: Piece, whole: bool) -> Piece:
        """Prints an operator that makes a number of each row, or of a `whole` vector. For a whole matrix its letters stand
        below.
        """
        below = e.indices if whole and len(of.letters) > 1 else ()
        return Piece(LATEX.operator(e.name, below) + _join_arguments([of]), "" if whole else of.rows)

    def call(self, e: Apply, arguments: Sequence[Piece], shape: Shape) -> Piece:
        """Prints the application of a layer."""
        return Piece(LATEX.operator(self.layer(e.name), e.indices) + _join_arguments(arguments), *shape)

    def layer(self, name: str) -> str:
        """Prints the name of a layer."""
        return self.called.get(name, name)

    def concat(self, labels: Sequence[str], of: Expression, m: Piece, cols: str) -> Piece:
        """Prints the matrices of all labels side by side: `Concat(Y_1, …, Y_h)`, if the heads are one label of a tensor."""
        size = self.names.legend.axes[axis_of(labels[0])].size
        one = len(labels) == 1 and isinstance(of, Tensor) and m.text == self.names.letter(of, *m.shape)
        if not (one and isinstance(of, Tensor) and isinstance(size, Name | Number)):
            below = f"_{{{''.join(map(LATEX.symbol, labels))}}}"
            return Piece(rf"\mathrm{{Concat}}{below}" + _join_arguments([m]), m.rows, cols)
        first, last = (self.names.letter(_replace_label(of, labels[0], place), *m.shape) for place in (Number(1), size))
        return Piece(f"\\mathrm{{Concat}}({first}, \\dots, {last})", m.rows, cols)


def _replace_label(tensor: Tensor, label: str, place: Name | Number) -> Tensor:
    return Tensor(tensor.name, tuple(place if slot == Index(label) else slot for slot in tensor.slots))


def _join_arguments(of: Iterable[Piece]) -> str:
    return LATEX.enclose_arguments(", ".join(piece.text for piece in of))


def raise_to(text: str, power: str) -> str:
    """Prints a power of a text that may have a superscript."""
    scripted = not text.endswith(")") and ("^" in text or "'" in text)
    return f"{{{text}}}^{{{power}}}" if scripted else f"{text}^{{{power}}}"


class NoForm(Exception):
    """An expression without a form in matrices. The message says why."""


def orient(out: Printer, m: Piece, wanted: Shape) -> Piece:
    """Returns m in the wanted shape: transposed, or repeated by ones along missing letters. Raises NoForm for others."""
    if m.shape == wanted:
        return m
    if m.shape == wanted[::-1]:
        return out.transpose(m)
    if others := sorted({*m.letters}.difference(wanted)):
        raise NoForm(f"the letters {', '.join(others)} are on one side only")
    rows, cols = wanted
    column = [out.ones(rows)] if rows and rows not in m.letters else []
    row = [out.transpose(out.ones(cols))] if cols and cols not in m.letters else []
    if not m.letters:
        return out.scale([m], reduce(out.times, column + row))
    return reduce(out.times, [*column, orient(out, m, ("", cols) if column else (rows, "")), *row])


def along(out: Printer, m: Piece, letter: str) -> Piece:
    """Returns m with this letter over its columns."""
    return m if m.cols == letter else out.transpose(m)


def down(out: Printer, m: Piece, letter: str) -> Piece:
    """Returns m with this letter over its rows."""
    return m if m.rows == letter else out.transpose(m)


def find_common_shape(pieces: Sequence[Piece]) -> Shape:
    """Returns the shape of the first matrix, to which all pieces can be brought, else of vectors side by side."""
    letters = dict.fromkeys(letter for m in pieces for letter in m.letters)
    if len(letters) > 2:
        raise NoForm(f"the letters {', '.join(letters)} are three axes of one number")
    widest = max(pieces, key=lambda m: len(m.letters))
    rows, cols = (*letters, "", "")[:2]
    return widest.shape if len(widest.letters) == len(letters) else (rows, cols)


def product(out: Printer, factors: Sequence[Piece], summed: frozenset[str] = frozenset()) -> Piece:
    """Prints the product of factors, summed over some letters. Raises NoForm if no order of the factors gives one.

    Numbers come first. The others combine as long as a rule applies. Two that share only a summed letter are a product of
    matrices. Factors with the same letters are multiplied entry by entry. A summed letter of only one factor is summed by
    ones. A vector beside a matrix is a diagonal. The last two vectors are an outer product.
    """
    numbers, rest = [m for m in factors if not m.letters], [m for m in factors if m.letters]
    while step := next(_find_steps(out, rest, summed), None):
        used, result = step
        rest = [result if m is used[0] else m for m in rest if m is used[0] or not any(m is other for other in used)]
        numbers, rest = numbers + [m for m in rest if not m.letters], [m for m in rest if m.letters]
    if len(rest) > 1:
        raise NoForm(f"no two of its {len(rest)} factors have a product that is a matrix")
    return out.scale(numbers, *rest)


def _find_steps(out: Printer, rest: Sequence[Piece], summed: frozenset[str]) -> Iterator[tuple[Sequence[Piece], Piece]]:
    often = Counter(letter for m in rest for letter in m.letters)
    pairs = [(one, other, set(one.letters) & set(other.letters)) for one, other in combinations(rest, 2)]
    for one, other, shared in pairs:  # `A_ni B_iu` summed over i: `A B`
        if len(shared) == 1 and shared <= summed and often[letter := min(shared)] == 2:
            yield (one, other), out.times(along(out, one, letter), down(out, other, letter))
    for one in rest:  # `A_nu B_nu`: `A ⊙ B`
        same = [m for m in rest if set(m.letters) == set(one.letters)]
        if len(same) > 1:
            yield same, out.entrywise([orient(out, m, one.shape) for m in same])
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
