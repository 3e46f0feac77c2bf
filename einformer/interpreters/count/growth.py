"""Says how a formula grows with its letters, and what is left of it when some of them are large.

Letters are positive. Of `min` the smallest growth counts, of `max` the largest; `floor` and `ceil` change nothing.
"""

from __future__ import annotations

from collections.abc import Iterable

import sympy

from einformer.errors import fail

_T = sympy.Dummy("t", positive=True)  # what the letters are multiplied by


def exponent(formula: sympy.Expr, letters: str | Iterable[str]) -> sympy.Rational:
    """The power with which a formula grows when all of these letters do, at the same rate. Raises EinformerError E607.

    >>> B, S, D = sympy.symbols("B S D")
    >>> attention = 8 * B * S * D**2 + 4 * B * S**2 * D
    >>> exponent(attention, "S"), exponent(attention, "D"), exponent(attention, "SD")
    (2, 2, 3)
    """
    return _leading(formula, letters)[1]


def leading(formula: sympy.Expr, letters: str | Iterable[str]) -> sympy.Expr:
    """The formula to leading order in some letters, when all of them grow at the same rate. Raises EinformerError E607.

    >>> L, E, D, V, K = sympy.symbols("L E D V K")
    >>> leading(L * ((4 + 2 * E) * D**2 + (9 + E) * D) + (V + K + 2) * D, "LD")
    2*D**2*L*(E + 2)
    """
    return sympy.factor(_leading(formula, letters)[0])


def _leading(formula: sympy.Expr, letters: str | Iterable[str]) -> tuple[sympy.Expr, sympy.Rational]:
    """The leading part of a formula, and its power."""
    formula = sympy.sympify(formula)
    positive = {symbol: sympy.Symbol(symbol.name, positive=True) for symbol in formula.free_symbols}
    scaled = {positive[symbol]: _T * positive[symbol] for symbol in positive if symbol.name in set(letters)}
    whole = formula.xreplace(positive).xreplace(scaled)
    part, power = _find_ratio(whole.replace(sympy.floor, lambda x: x).replace(sympy.ceiling, lambda x: x))
    return part.xreplace({new: old for old, new in positive.items()}), power


def _find_ratio(e: sympy.Expr) -> tuple[sympy.Expr, sympy.Rational]:
    """The leading coefficient in t and its power, of a numerator over a denominator."""
    above, below = map(_find_highest, sympy.fraction(sympy.together(e.replace(_is_extreme, _decide))))
    return sympy.cancel(above[0] / below[0]), above[1] - below[1]


def _find_highest(e: sympy.Expr) -> tuple[sympy.Expr, sympy.Rational]:
    """The terms of the highest power of t, without it."""
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


def _decide(e: sympy.Expr) -> sympy.Expr:
    """Those arguments of a `min` or `max` that decide it in the end."""
    ratios = [_find_ratio(argument) for argument in e.args]
    power = (min if isinstance(e, sympy.Min) else max)(power for _, power in ratios)
    return type(e)(*(part for part, own in ratios if own == power)) * _T**power
