"""Compares two formulas: exactly, to leading order, in growth, or to the digits that are printed."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal

import sympy


def are_equal(left: sympy.Expr, right: sympy.Expr) -> bool:
    """Are they the same function of their letters?

    >>> L, D = sympy.symbols("L D")
    >>> are_equal(12 * L * D**2 * (1 + 13 / (12 * D)), L * D * (12 * D + 13))
    True
    """
    over, _ = sympy.fraction(sympy.together(left - right))
    return bool(sympy.expand(over) == 0)


def agree_in_leading(left: sympy.Expr, right: sympy.Expr, letters: tuple[sympy.Symbol, ...]) -> bool:
    """Does their ratio go to 1 where the letters grow alike?

    >>> D, S = sympy.symbols("D S")
    >>> agree_in_leading(12 * D**2 + 13 * D, 12 * D**2, (D,)), agree_in_leading(12 * D**2 + D * S, 12 * D**2, (D, S))
    (True, False)
    """
    scale = sympy.Dummy()
    (power, first), (other, second) = (_leading(e.xreplace({x: x * scale for x in letters}), scale) for e in (left, right))
    return power == other and are_equal(first, second)


def _leading(formula: sympy.Expr, scale: sympy.Symbol) -> tuple[int, sympy.Expr]:
    """The highest power of `scale`, and what stands before it."""
    over, under = (sympy.Poly(e, scale) for e in sympy.fraction(sympy.together(formula)))
    return over.degree() - under.degree(), over.LC() / under.LC()


def grow_alike(left: sympy.Expr, right: sympy.Expr, letters: tuple[sympy.Symbol, ...]) -> bool:
    """Are each other's bound up to a factor, however the letters grow? A maximum grows as a sum does.

    >>> n, D = sympy.symbols("n D")
    >>> grow_alike(24 * n * D**2 + 4 * n**2 * D, sympy.Max(n * D**2, n**2 * D), (n, D))
    True
    >>> grow_alike(2 * n**2 * D, n * D**2, (n, D))
    False
    """
    (over, under), (above, below) = (sympy.fraction(sympy.together(e.replace(sympy.Max, sympy.Add))) for e in (left, right))
    return _dominant(over * below, letters) == _dominant(above * under, letters)


def _dominant(formula: sympy.Expr, letters: tuple[sympy.Symbol, ...]) -> set[tuple[int, ...]]:
    """The powers of the letters in each term that divides no other."""
    powers = set(sympy.Poly(formula, *letters).monoms())
    return {some for some in powers if not any(some != other and all(map(int.__le__, some, other)) for other in powers)}


def is_rounded(printed: str, value: sympy.Expr) -> bool:
    """Is the number the value, to the digits that are printed?

    >>> is_rounded("1.7e9", sympy.Integer(1_652_226_048)), is_rounded("1.70e9", sympy.Integer(1_652_226_048))
    (True, False)
    """
    number = Decimal(printed)
    exponent = number.as_tuple().exponent
    assert isinstance(exponent, int), "a finite number"
    return bool(abs(value - sympy.Rational(printed)) <= sympy.Rational(10) ** exponent / 2)


def solve(difference: sympy.Expr, letter: sympy.Symbol) -> sympy.Expr:
    """The letter for which a difference of two powers next to each other vanishes, other than 0.

    >>> S, D = sympy.symbols("S D")
    >>> solve(4 * S**2 * D - 24 * S * D**2, S)
    6*D
    """
    over, _ = sympy.fraction(sympy.together(difference))
    first, last = (factor for factor in sympy.Poly(over, letter).all_coeffs() if factor != 0)
    return sympy.cancel(-last / first)


RELATIONS: dict[str, Callable[[sympy.Expr, sympy.Expr, tuple[sympy.Symbol, ...]], bool]] = {
    "equal": lambda left, right, _: are_equal(left, right),
    "leading": agree_in_leading,
    "growth": grow_alike,
}
