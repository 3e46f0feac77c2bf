"""Says how a formula grows with its letters, what is left of it when some of them are large, and whether two formulas agree.

Letters are positive. Of `min` the smallest growth counts, of `max` the largest; `floor` and `ceil` change nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from decimal import Decimal

import sympy

from einformer.errors import fail

_T = sympy.Dummy("t", positive=True)  # what the letters are multiplied by


def exponent(formula: sympy.Expr, letters: str | Iterable[str]) -> sympy.Rational:
    """Returns the power with which a formula grows when all of these letters do, at the same rate. Raises EinformerError E607.

    >>> B, S, D = sympy.symbols("B S D")
    >>> attention = 8 * B * S * D**2 + 4 * B * S**2 * D
    >>> exponent(attention, "S"), exponent(attention, "D"), exponent(attention, "SD")
    (2, 2, 3)
    """
    return _find_leading(formula, letters)[1]


def leading(formula: sympy.Expr, letters: str | Iterable[str]) -> sympy.Expr:
    """Returns the formula to leading order in some letters, when all of them grow at the same rate. Raises EinformerError E607.

    >>> L, E, D, V, K = sympy.symbols("L E D V K")
    >>> leading(L * ((4 + 2 * E) * D**2 + (9 + E) * D) + (V + K + 2) * D, "LD")
    2*D**2*L*(E + 2)
    """
    return sympy.factor(_find_leading(formula, letters)[0])


# The leading part of a formula, and its power.
def _find_leading(formula: sympy.Expr, letters: str | Iterable[str]) -> tuple[sympy.Expr, sympy.Rational]:
    formula = sympy.sympify(formula)
    positive = {symbol: sympy.Symbol(symbol.name, positive=True) for symbol in formula.free_symbols}
    scaled = {positive[symbol]: _T * positive[symbol] for symbol in positive if symbol.name in set(letters)}
    whole = formula.xreplace(positive).xreplace(scaled)
    part, power = _find_ratio(whole.replace(sympy.floor, lambda x: x).replace(sympy.ceiling, lambda x: x))
    return part.xreplace({new: old for old, new in positive.items()}), power


# The leading coefficient in t and its power, of a numerator over a denominator.
def _find_ratio(e: sympy.Expr) -> tuple[sympy.Expr, sympy.Rational]:
    above, below = map(_find_highest, sympy.fraction(sympy.together(e.replace(_is_extreme, _decide))))
    return sympy.cancel(above[0] / below[0]), above[1] - below[1]


# The terms of the highest power of t, without it.
def _find_highest(e: sympy.Expr) -> tuple[sympy.Expr, sympy.Rational]:
    powers: dict[sympy.Rational, sympy.Expr] = {}
    for term in sympy.Add.make_args(sympy.expand(e)):
        rest, power = term.as_independent(_T, as_Add=False)
        base, exponent = power.as_base_exp()
        if base not in (_T, 1):
            message = "with these letters the formula grows by no power of them"
            raise fail("E607", message, fix="a formula of sums, products, powers, `min` and `max`")
        exponent = exponent if base == _T else sympy.Integer(0)
        powers[exponent] = powers.get(exponent, sympy.Integer(0)) + rest
    highest = max(powers)
    return powers[highest], highest


def _is_extreme(e: sympy.Expr) -> bool:
    return isinstance(e, sympy.Min | sympy.Max)


# Those arguments of a `min` or `max` that decide it in the end.
def _decide(e: sympy.Expr) -> sympy.Expr:
    ratios = [_find_ratio(argument) for argument in e.args]
    power = (min if isinstance(e, sympy.Min) else max)(power for _, power in ratios)
    return type(e)(*(part for part, own in ratios if own == power)) * _T**power


# ------------------------------------------------------------------------------------------------- two formulas


def are_equal(left: sympy.Expr, right: sympy.Expr) -> bool:
    """Returns whether two formulas are the same function of their letters.

    >>> L, D = sympy.symbols("L D")
    >>> are_equal(12 * L * D**2 * (1 + 13 / (12 * D)), L * D * (12 * D + 13))
    True
    """
    over, _ = sympy.fraction(sympy.together(left - right))
    return bool(sympy.expand(over) == 0)


def agree_in_leading(left: sympy.Expr, right: sympy.Expr, letters: tuple[sympy.Symbol, ...]) -> bool:
    """Returns whether the ratio of two formulas goes to 1 where the letters grow alike.

    >>> D, S = sympy.symbols("D S")
    >>> agree_in_leading(12 * D**2 + 13 * D, 12 * D**2, (D,)), agree_in_leading(12 * D**2 + D * S, 12 * D**2, (D, S))
    (True, False)
    """
    (first, power), (second, other) = (_find_leading(e, [x.name for x in letters]) for e in (left, right))
    return bool(power == other) and are_equal(first, second)


def grow_alike(left: sympy.Expr, right: sympy.Expr, letters: tuple[sympy.Symbol, ...]) -> bool:
    """Returns whether two formulas bound each other up to a factor, however the letters grow. A maximum grows as a sum does.

    >>> n, D = sympy.symbols("n D")
    >>> grow_alike(24 * n * D**2 + 4 * n**2 * D, sympy.Max(n * D**2, n**2 * D), (n, D))
    True
    >>> grow_alike(2 * n**2 * D, n * D**2, (n, D))
    False
    """
    (over, under), (above, below) = (sympy.fraction(sympy.together(e.replace(sympy.Max, sympy.Add))) for e in (left, right))
    return _dominant(over * below, letters) == _dominant(above * under, letters)


# The powers of the letters in each term that divides no other.
def _dominant(formula: sympy.Expr, letters: tuple[sympy.Symbol, ...]) -> set[tuple[int, ...]]:
    powers = set(sympy.Poly(formula, *letters).monoms())
    return {some for some in powers if not any(some != other and all(map(int.__le__, some, other)) for other in powers)}


def is_rounded(printed: str, value: sympy.Expr) -> bool:
    """Returns whether a printed number is the value, to its digits.

    >>> is_rounded("1.7e9", sympy.Integer(1_652_226_048)), is_rounded("1.70e9", sympy.Integer(1_652_226_048))
    (True, False)
    """
    number = Decimal(printed)
    exponent = number.as_tuple().exponent
    assert isinstance(exponent, int), "a finite number"
    return bool(abs(value - sympy.Rational(printed)) <= sympy.Rational(10) ** exponent / 2)


def solve(difference: sympy.Expr, letter: sympy.Symbol) -> sympy.Expr:
    """Returns the letter for which a difference of two powers next to each other vanishes, other than 0.

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
