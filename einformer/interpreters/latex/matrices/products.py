"""Orders the factors of a product so that neighbours share the letter that is summed, and brings terms to one shape."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from functools import reduce
from itertools import combinations

from einformer.interpreters.latex.matrices.algebra import Piece, Printer, Shape


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
