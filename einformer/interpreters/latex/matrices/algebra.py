"""How are matrices multiplied, turned and brought to one shape? The rules of the algebra, each on the tree of matrices."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from itertools import combinations
from typing import assert_never

from einformer.interpreters.latex.matrices.tree import (
    NUMBER,
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
    Shape,
    Summed,
    Times,
    Transposed,
)
from einformer.language.tree import Number

ONE = Scalar(Number(1))


class NoForm(Exception):
    """An expression has no form in matrices; the message says why."""


def shape(m: Matrix) -> Shape:
    """The letters of the rows and of the columns.

    >>> shape(Transposed(Ones("n")))
    ('', 'n')
    """
    match m:
        case Scalar():
            return NUMBER
        case Letter() | Call():
            return m.rows, m.cols
        case Ones():
            return m.rows, ""
        case Transposed():
            return _swapped(shape(m.of))
        case Times():
            return shape(m.factors[0])[0], shape(m.factors[-1])[1]
        case Scaled() | Over() | Inverse() | Raised() | RowWise() | Summed():
            return shape(m.of)
        case Hadamard():
            return shape(m.factors[0])
        case Diagonal():
            (letter,) = letters(m.of)
            return letter, letter
        case Plus():
            return shape(m.terms[0])
        case Function():
            return next((shape(each) for each in m.arguments if letters(each)), NUMBER)
        case Reduced():
            return NUMBER if m.whole else (shape(m.of)[0], "")
        case Concat():
            return shape(m.of)[0], m.cols
        case Rows():
            return "".join(letters(m.by)), m.of.cols
        case _:
            assert_never(m)


def _swapped(of: Shape) -> Shape:
    return of[1], of[0]


def letters(m: Matrix) -> tuple[str, ...]:
    """The letters of the shape: two of a matrix, one of a vector, none of a number."""
    return tuple(dict.fromkeys(letter for letter in shape(m) if letter))


# ------------------------------------------------------------------------------------------------------------ turned


def transposed(m: Matrix) -> Matrix:
    """Rows for columns, said of letters: `(A B)^⊤` is `B^⊤ A^⊤`."""
    if not letters(m):
        return m
    match m:
        case Transposed():
            return m.of
        case Diagonal():
            return m
        case Times():
            return Times(tuple(transposed(factor) for factor in reversed(m.factors)))
        case Scaled() | Over() | Inverse() | Raised() | Summed():
            return replace(m, of=transposed(m.of))
        case Hadamard():
            return Hadamard(tuple(map(transposed, m.factors)))
        case Plus():
            return Plus(tuple(map(transposed, m.terms)))
        case Function():
            return replace(m, arguments=tuple(map(transposed, m.arguments)))
        case RowWise() if len(letters(m)) == 1:
            return replace(m, of=transposed(m.of))
        case _:
            return Transposed(m)


def oriented(m: Matrix, wanted: Shape) -> Matrix:
    """m in the wanted shape: turned, or repeated along what it lacks by columns of ones."""
    own = shape(m)
    if own == wanted:
        return m
    if own == _swapped(wanted):
        return transposed(m)
    rows, cols = wanted
    if own == NUMBER:
        ones = [one for one in (Ones(rows) if rows else None, Transposed(Ones(cols)) if cols else None) if one]
        return scaled([m], joined(ones))
    if letters(m) == (rows,):
        return joined([oriented(m, (rows, "")), Transposed(Ones(cols))])
    assert letters(m) == (cols,), (own, wanted)
    return joined([Ones(rows), oriented(m, ("", cols))])


def along(m: Matrix, letter: str) -> Matrix:
    """m with this letter over its columns."""
    return m if shape(m)[1] == letter else transposed(m)


def down(m: Matrix, letter: str) -> Matrix:
    """m with this letter over its rows."""
    return m if shape(m)[0] == letter else transposed(m)


def common(matrices: Sequence[Matrix]) -> Shape:
    """The shape that all of them can be brought to: that of the first matrix among them, else of vectors side by side."""
    found = dict.fromkeys(letter for m in matrices for letter in letters(m))
    if len(found) > 2:
        raise NoForm(f"the letters {', '.join(found)} are three axes of one number")
    widest = max(matrices, key=lambda m: len(letters(m)))
    first, second = (*found, "", "")[:2]
    return shape(widest) if len(letters(widest)) == len(found) else (first, second)


# -------------------------------------------------------------------------------------------------------- multiplied


def joined(factors: Iterable[Matrix]) -> Matrix:
    """A product of matrices, those of products among them written out."""
    flat = [inner for factor in factors for inner in (factor.factors if isinstance(factor, Times) else (factor,))]
    return flat[0] if len(flat) == 1 else Times(tuple(flat))


def product(factors: Sequence[Matrix], summed: AbstractSet[str]) -> Matrix:
    """The product of factors, summed over some of their letters. Raises NoForm where no order of products makes it one.

    Numbers stand in front. Of the others, as long as one of the rules applies: two that share a letter that is summed, and
    nothing else, are a product of matrices; two of the same letters are multiplied number by number; a letter summed that
    one alone has is summed by ones; a vector beside a matrix is a diagonal; two vectors that are left are an outer product.
    """
    rest = list(factors)
    while shorter := next((found for rule in _RULES if (found := rule([m for m in rest if letters(m)], summed))), None):
        rest = [m for m in rest if not letters(m)] + shorter
    numbers, shaped = [m for m in rest if not letters(m)], [m for m in rest if letters(m)]
    if len(shaped) > 1:
        raise NoForm(f"no two of its {len(shaped)} factors have a product that is a matrix")
    return scaled(numbers, *shaped)


def scaled(numbers: Sequence[Matrix], of: Matrix | None = None) -> Matrix:
    """Numbers times a matrix, or one another, over those that divide it."""
    flat = [inner for each in numbers for inner in ((*each.by, each.of) if isinstance(each, Scaled) else (each,))]
    over = tuple(each for each in flat if not isinstance(each, Inverse) and each != ONE)
    under = tuple(each.of for each in flat if isinstance(each, Inverse))
    *by, last = (*over, of) if of else over or (ONE,)
    product = Scaled(tuple(by), last) if by else last
    return Over(product, scaled(under)) if under else product


def _pairs(rest: list[Matrix]) -> Iterable[tuple[Matrix, Matrix, list[Matrix]]]:
    for i, j in combinations(range(len(rest)), 2):
        yield rest[i], rest[j], [each for k, each in enumerate(rest) if k not in (i, j)]


def _contracted(rest: list[Matrix], summed: AbstractSet[str]) -> list[Matrix] | None:
    """`A_ni B_iu` summed over i: `A B`."""
    for one, other, others in _pairs(rest):
        (*shared,) = set(letters(one)) & set(letters(other))
        if len(shared) == 1 and shared[0] in summed and not any(shared[0] in letters(each) for each in others):
            return _placed(rest, one, other, joined([along(one, shared[0]), down(other, shared[0])]))
    return None


def _numberwise(rest: list[Matrix], summed: AbstractSet[str]) -> list[Matrix] | None:
    """`A_nu B_nu`: `A ⊙ B`."""
    for one, other, _ in _pairs(rest):
        if set(letters(one)) == set(letters(other)):
            before = one.factors if isinstance(one, Hadamard) else (one,)
            return _placed(rest, one, other, Hadamard((*before, oriented(other, shape(one)))))
    return None


def _alone(rest: list[Matrix], summed: AbstractSet[str]) -> list[Matrix] | None:
    """`A_nu` summed over u: `A 1`."""
    for one in rest:
        others = [each for each in rest if each is not one]
        for letter in letters(one):
            if letter in summed and not any(letter in letters(each) for each in others):
                return _placed(rest, one, one, joined([along(one, letter), Ones(letter)]))
    return None


def _absorbed(rest: list[Matrix], summed: AbstractSet[str]) -> list[Matrix] | None:
    """`v_n A_nu`: `diag(v) A`; `A_nu v_u`: `A diag(v)`."""
    for one, other, _ in _pairs(rest):
        vector, m = (one, other) if len(letters(one)) == 1 else (other, one)
        if len(letters(vector)) == 1 and len(letters(m)) == 2 and letters(vector)[0] in letters(m):
            ordered = [Diagonal(vector), m] if shape(m)[0] == letters(vector)[0] else [m, Diagonal(vector)]
            return _placed(rest, one, other, joined(ordered))
    return None


def _outer(rest: list[Matrix], summed: AbstractSet[str]) -> list[Matrix] | None:
    """`u_n v_u`: `u v^⊤`."""
    if len(rest) == 2 and len(letters(rest[0])) == len(letters(rest[1])) == 1:
        return [joined([down(rest[0], *letters(rest[0])), along(rest[1], *letters(rest[1]))])]
    return None


_Rule = Callable[[list[Matrix], AbstractSet[str]], list[Matrix] | None]
_RULES: tuple[_Rule, ...] = (_contracted, _numberwise, _alone, _absorbed, _outer)


def _placed(rest: list[Matrix], one: Matrix, other: Matrix, result: Matrix) -> list[Matrix]:
    """The result where the first of the two stood."""
    return [result if each is one else each for each in rest if each is one or each is not other]
