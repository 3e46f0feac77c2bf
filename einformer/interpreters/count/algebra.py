"""Prints a formula as a person writes it, `(4 + 2 E) L D² + (V + K) D`, says how it grows, and whether two formulas agree.

Printed terms are collected by depth, inputs and width, not expanded. Of growth, letters are positive; of `min` the smallest
counts, of `max` the largest; `floor` and `ceil` change nothing.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal

import sympy

from einformer.errors import fail
from einformer.language.latex_reader import GREEK
from einformer.language.primitives import PRIMITIVES
from einformer.language.tree import Name, Spec
from einformer.language.walk import find_all

# The notes' letters by which terms are collected, in the order in which they are written; other letters stand before D.
DEPTH, INPUTS, WIDTH = "L", ("B", "S"), "D"
_COLLECTED = (DEPTH, *INPUTS, WIDTH)
_RAISED = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")


@dataclass(frozen=True, slots=True)
class Form:
    """How products, quotients, powers, roots, calls and letters are written."""

    times: str
    quotient: str
    power: Callable[[str, str], str]
    root: str
    brackets: str
    functions: Mapping[str, str]
    call: str = "{}({})"
    letter: Callable[[str], str] = str
    grouped: bool = True  # a denominator of several factors stands in brackets


def _raise_(base: str, power: str) -> str:
    return base + (power.translate(_RAISED) if power.isdigit() else f"^({power})")


def _latex_letter(name: str) -> str:
    return f"\\{GREEK[name]}" if name in GREEK else name


# The rows of the table that sympy has as one function, by its name there.
_FUNCTIONS = {row.sympy.partition("(")[0]: row for row in PRIMITIVES.values() if re.fullmatch(r"\w+\(x(, y)?\)", row.sympy)}

FORMS = {
    "text": Form(" ", "{} / {}", _raise_, "sqrt({})", "({})", {name: row.name for name, row in _FUNCTIONS.items()}),
    "latex": Form(
        " ",
        r"\frac{{{}}}{{{}}}",
        lambda base, power: f"{base}^{{{power}}}",
        r"\sqrt{{{}}}",
        r"\left({}\right)",
        {name: row.latex if row.latex and not row.infix else f"\\mathrm{{{row.name}}}" for name, row in _FUNCTIONS.items()},
        r"{}\left({}\right)",
        _latex_letter,
        grouped=False,
    ),
    "python": Form(
        " * ",
        "{} / {}",
        lambda base, power: f"{base}**{power}" if power.isalnum() else f"{base} ** ({power})",
        "math.sqrt({})",
        "({})",
        {name: row.python.partition("(")[0] for name, row in _FUNCTIONS.items() if not row.infix},
    ),
}

Powers = dict[sympy.Expr, sympy.Expr]
Term = tuple[sympy.Rational, Powers]  # a number times powers


def show(formula: sympy.Expr, order: Iterable[str] = (), form: str = "text") -> str:
    """A formula as people write it, as text, LaTeX or Python; `order` is that of the other letters, such as the legend's.

    >>> L, E, D, V, K = sympy.symbols("L E D V K")
    >>> show(L * ((4 + 2 * E) * D**2 + 9 * D) + (V + K) * D, "VK")
    '(4 + 2 E) L D² + 9 L D + (V + K) D'
    >>> show((4 + 2 * E) * L * D**2, form="python")
    '(4 + 2 * E) * L * D**2'
    """
    return _Writing(order, FORMS[form]).formula(sympy.sympify(formula))


# Letters come in the order in which the legend mentions them.
def list_letters(spec: Spec) -> list[str]:
    roots = [e for axis in spec.axes for e in (axis.size, axis.default) if e is not None]
    names = [x.name for x in find_all(Name, *roots)]
    return list(dict.fromkeys([*names, *(scalar.name for scalar in spec.scalars)]))


class _Writing:
    """One formula, its letters in one order."""

    def __init__(self, order: Iterable[str], form: Form) -> None:
        self.order, self.form = list(dict.fromkeys(order)), form

    # Groups of terms with equal powers of the collected letters, the highest degree first.
    def formula(self, formula: sympy.Expr) -> str:
        groups: dict[tuple[tuple[sympy.Expr, sympy.Expr], ...], list[Term]] = {}
        for number, powers in _list_terms(formula):
            outer = tuple(sorted((item for item in powers.items() if _is_collected(item[0])), key=self.place))
            inner = {base: power for base, power in powers.items() if not _is_collected(base)}
            groups.setdefault(outer, []).append((number, inner))
        written = [self.group(dict(outer), groups[outer]) for outer in sorted(groups, key=self.degree)]
        return _join(written) or "0"

    # `(4 + 2 E) L D²`, `2 A (N + U) L S²`, or a single term with all its letters in order.
    def group(self, outer: Powers, terms: list[Term]) -> str:
        if len(terms) == 1 or not outer:
            return _join(self.term(number, outer | inner) for number, inner in sorted(terms, key=self.rank))
        number, common = _find_common(terms)
        rest = [(n / number, {base: p - common.get(base, 0) for base, p in powers.items()}) for n, powers in terms]
        coefficient = self.form.brackets.format(_join(self.term(*term) for term in sorted(rest, key=self.rank)))
        before = self.term(number, common) + self.form.times if common or number != 1 else ""
        return self.term(sympy.Integer(1), outer, before + coefficient)

    # `-2 B S² D / A`.
    def term(self, number: sympy.Rational, powers: Powers, coefficient: str = "") -> str:
        ordered = sorted(((base, power) for base, power in powers.items() if power != 0), key=self.place)
        above = [self.power(base, power) for base, power in ordered if not power.could_extract_minus_sign()]
        below = [self.power(base, -power) for base, power in ordered if power.could_extract_minus_sign()]
        above = [coefficient, *above] if coefficient else above
        if abs(number.p) != 1 or not above:
            above = [str(abs(number.p)), *above]
        below = [str(number.q), *below] if number.q != 1 else below
        sign, over, under = "-" if number < 0 else "", self.form.times.join(above), self.form.times.join(below)
        if not below:
            return sign + over
        under = self.form.brackets.format(under) if len(below) > 1 and self.form.grouped else under
        return sign + self.form.quotient.format(over, under)

    def power(self, base: sympy.Expr, power: sympy.Expr) -> str:
        if power == sympy.Rational(1, 2):
            return self.form.root.format(self.formula(base))
        if base == sympy.E:
            return self.factor(sympy.Function("exp")(power))
        text = self.factor(base)
        if power == 1:
            return text
        return self.form.power(text, str(power) if power.is_Integer else self.formula(power))

    # A letter, `ceil(L / 2)`, or a sum in parentheses.
    def factor(self, e: sympy.Expr) -> str:
        if e.is_Function or isinstance(e, sympy.Min | sympy.Max):
            name = type(e).__name__
            return self.form.call.format(self.form.functions.get(name, name), ", ".join(map(self.formula, e.args)))
        if e.is_Atom:
            return self.form.letter(str(e))
        return self.form.brackets.format(_join(self.term(*term) for term in sorted(_list_terms(e), key=self.rank)))

    # ------------------------------------------------------------------------------------------------------ order

    # The order is: depth, inputs, other letters as given, width.
    def place(self, item: tuple[sympy.Expr, sympy.Expr]) -> tuple[int, int, str]:
        base, name = item[0], str(item[0])
        if DEPTH in _names(base):
            return (0, 0 if base.is_Symbol else 1, name)
        if name in INPUTS:
            return (1, INPUTS.index(name), name)
        if name == WIDTH:
            return (3, 0, name)
        return (2, self.order.index(name) if name in self.order else len(self.order), name)

    def degree(self, outer: Sequence[tuple[sympy.Expr, sympy.Expr]]) -> tuple[object, ...]:
        powers = {str(base): power for base, power in outer}
        single = [-powers.get(letter, 0) for letter in (WIDTH, *reversed(INPUTS))]
        return (-sum(powers.values()), *single, [self.place(item) for item in outer])

    # A sum of few letters begins with numbers, then come the letters in their order, depth before all.
    def rank(self, term: Term) -> tuple[object, ...]:
        number, powers = term[0], {base: power for base, power in term[1].items() if power != 0}
        places = sorted(map(self.place, powers.items()))
        return (bool(powers) and DEPTH not in map(str, powers), sum(powers.values()), places, number)


# Letters, and the number of the terms where it is the same.
def _find_common(terms: list[Term]) -> Term:
    numbers = {number for number, _ in terms}
    powers = {base: min(powers.get(base, 0) for _, powers in terms) for base in terms[0][1]}
    return numbers.pop() if len(numbers) == 1 else sympy.Integer(1), {base: p for base, p in powers.items() if p > 0}


# Expanded; a factor made of the depth, `(L - P)`, stays one.
def _list_terms(formula: sympy.Expr) -> list[Term]:
    hidden: dict[sympy.Dummy, sympy.Expr] = {}
    whole = sympy.Add(*(_hide_depths(term, hidden) for term in sympy.Add.make_args(formula)))
    terms = []
    for term in sympy.Add.make_args(sympy.expand(whole)):
        number, rest = term.as_coeff_Mul()
        powers = {hidden.get(base, base): power for base, power in rest.as_powers_dict().items() if base != 1}
        terms.append((number, powers))
    return [] if formula == 0 else terms


def _hide_depths(term: sympy.Expr, hidden: dict[sympy.Dummy, sympy.Expr]) -> sympy.Expr:
    factors = []
    for factor in sympy.Mul.make_args(term):
        if factor.is_Add and term != factor and DEPTH in _names(factor) and not _names(factor) & {*INPUTS, WIDTH}:
            dummy = next((symbol for symbol, e in hidden.items() if e == factor), sympy.Dummy())
            hidden[dummy] = factor
            factor = dummy
        factors.append(factor)
    return sympy.Mul(*factors)


def _is_collected(base: sympy.Expr) -> bool:
    return DEPTH in _names(base) or str(base) in _COLLECTED


def _names(e: sympy.Expr) -> set[str]:
    return {symbol.name for symbol in e.free_symbols}


def _join(terms: Iterable[str]) -> str:
    return " + ".join(terms).replace("+ -", "- ")


# ---------------------------------------------------------------------------------------------------------------- growth

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
