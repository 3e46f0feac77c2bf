"""Counts parameters and FLOPs in letters: formulas of sympy in the letters of the legend, as it declares them.

A size that is derived from others is replaced by its default (`H` by `D / A`, `F` by `E D`) unless it is bound by itself;
scalars stay letters. Symbols have no assumptions, so that `sympy.symbols("D L")` are the same ones.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import assert_never

import sympy

from einformer.errors import EinformerError, fail
from einformer.interpreters.count import cached as cached_
from einformer.interpreters.count import memory, rules
from einformer.interpreters.count.bands import count_pairs
from einformer.interpreters.count.conventions import DEFAULT, Convention
from einformer.interpreters.count.derived import derive
from einformer.interpreters.count.kept import keeps
from einformer.interpreters.count.memory import Activation
from einformer.interpreters.count.rules import EquationCount, Recompute, WeightCount
from einformer.language.calls import axis_of
from einformer.language.primitives import CONSTANTS, PRIMITIVES
from einformer.language.sizes import MAXIMUM_NUMBER, Legend
from einformer.language.tree import (
    Apply,
    Expression,
    Group,
    Index,
    Name,
    Number,
    Power,
    Product,
    Quotient,
    Scalar,
    Spec,
    Sum,
    Tensor,
)
from einformer.language.walk import subexpressions
from einformer.program.cache import kept_in_letters
from einformer.program.needs import Bound
from einformer.program.orders import estimate_size
from einformer.program.turns import Case, Site, Turns

MOST_TERMS = 30  # of a number multiplied out
MOST_POWER = 1000


def count_weights(spec: Spec, name: str, legend: Legend | None = None) -> tuple[WeightCount[sympy.Expr], ...]:
    """The parameters of each weight of the layer or model `name`, and the numbers in its buffers, as formulas.

    Sizes that `legend` binds stay letters. Raises EinformerError E607.
    """
    return rules.count_weights(derive(spec, name), Letters(legend or Legend.of(spec)))


def count_flops(
    spec: Spec, name: str, legend: Legend | None = None, convention: Convention = DEFAULT, cached: sympy.Expr | int = 0
) -> tuple[EquationCount[sympy.Expr], ...]:
    """The FLOPs of each equation of the layer or model `name`, by a convention, as formulas.

    The order of a product of three tensors or more is that of `orders.pairs`. Raises EinformerError E607.
    """
    derived = derive(spec, name)
    return rules.count_equations(derived, Letters(legend or Legend.of(spec), derived.time, cached), convention)


def count_activations(
    spec: Spec,
    name: str,
    element: sympy.Expr | int,
    recompute: Recompute = "none",
    shards: Mapping[str, sympy.Expr] | None = None,
    legend: Legend | None = None,
) -> tuple[Activation[sympy.Expr], ...]:
    """The bytes of what each equation keeps for the backward pass, as formulas, `element` for a number."""
    derived = derive(spec, name)
    letters = Letters(legend or Legend.of(spec), derived.time)
    return memory.count_activations(*keeps(spec, name), derived, letters, element, recompute, shards)


def count_cache(
    spec: Spec, name: str, element: sympy.Expr | int | None, legend: Legend | None = None
) -> cached_.CacheBytes[sympy.Expr]:
    """The bytes that decoding keeps of the causal model `name`, `element` or `p` for a number, as formulas.

    Raises EinformerError E508, E607.
    """
    bytes_, letters = sympy.Symbol("p") if element is None else element, Letters(legend or Legend.of(spec))
    entries = kept_in_letters(spec, name, letters.legend)
    time = next(layer.time.letter for layer in spec.layers if layer.name == name and layer.time)
    counted = cached_.count_cache(entries, time, letters, bytes_)
    return cached_.CacheBytes(sympy.factor_terms(counted.per_token), sympy.factor_terms(counted.total))


def count_parameters(counts: Iterable[WeightCount[sympy.Expr]]) -> sympy.Expr:
    """The trained parameters in all."""
    return sum_counts(count for count in counts if count.trained)


def sum_counts(counts: Iterable[WeightCount[sympy.Expr] | EquationCount[sympy.Expr]]) -> sympy.Expr:
    """The sum of all counts; what stands in the same turns is gathered, `L (… D² + … D)`.

    >>> from einformer import load
    >>> gpt2 = load("gpt2")
    >>> sum_counts(count_weights(gpt2.tree, "GPT2"))
    D*(K + V + 2) + L*(D**2*(2*E + 4) + D*(E + 9))
    """
    groups: dict[sympy.Expr, sympy.Expr] = {}
    for count in counts:
        groups[count.times] = groups.get(count.times, sympy.Integer(0)) + count.each
    gathered = (times * sympy.collect(sympy.expand(each), sympy.Symbol("D")) for times, each in groups.items())
    return sympy.Add(*gathered)


@dataclass(slots=True)
class Letters:
    """Sizes as letters; of the axis `time` so many positions are `cached`. `branches` are values of scalars in some turns."""

    legend: Legend
    time: str = ""
    cached: sympy.Expr | int = 0
    branches: Mapping[Tensor, Expression] = field(default_factory=dict)
    lengths: dict[str, sympy.Expr] = field(default_factory=dict)

    def typical(self, letter: str) -> int:
        """The size of an axis as it decides in which order tensors are contracted; after a cache comes one position."""
        return estimate_size(self.legend, letter, self.time if self.cached != 0 else "")

    def length(self, letter: str) -> sympy.Expr:
        """The size of the axis that an index runs over."""
        axis = self.legend.axis(letter)
        assert axis is not None
        if letter not in self.lengths:
            cached = self.cached if axis.letter == self.time and letter != axis.letter else 0
            self.lengths[letter] = self.number(axis.size) + cached
        return self.lengths[letter]

    def value(self, e: Expression) -> sympy.Expr:
        """The same: a letter may stand for an infinite number."""
        return self.number(e)

    def smallest(self, numbers: Iterable[sympy.Expr]) -> sympy.Expr:
        """Of some numbers."""
        return sympy.Min(*numbers)

    def largest(self, numbers: Iterable[sympy.Expr]) -> sympy.Expr:
        """Of some numbers."""
        return sympy.Max(*numbers)

    def divided(self, number: sympy.Expr, by: sympy.Expr | int) -> sympy.Expr:
        """A part of a number."""
        return number / by

    def pairs(self, later: str, earlier: str, bounds: tuple[Bound, ...]) -> sympy.Expr:
        """Twice the number of pairs of two positions that keep to some bounds."""
        before = self.length(earlier) - self.length(later)
        least = [self.number(bound.least) for bound in bounds if bound.later == later]
        most = [-self.number(bound.least) for bound in bounds if bound.earlier == later]
        return count_pairs(
            self.length(later), before, sympy.Max(*least) if least else None, sympy.Min(*most) if most else None, sympy.Min
        )

    def kinds(
        self, turns: tuple[Turns, ...], numbers: tuple[Expression, ...]
    ) -> Iterator[tuple[tuple[sympy.Expr, ...], Letters]]:
        """The turns in which these numbers are the same: a scalar of layers, `W_l`, is a `where` of two values."""
        turning = {x for e in numbers for x in subexpressions(e) if isinstance(x, Tensor) and x not in self.branches}
        if not turning:
            yield tuple(map(self.turns, turns)), self
            return
        scalar = min(turning, key=repr)
        value = self.legend.scalars[scalar.name].value
        if scalar.name in self.legend.values or not (isinstance(value, Apply) and value.name == "where"):
            raise _refuse(self.legend.scalars[scalar.name])
        condition, *values = value.arguments
        for holds, branch in zip((True, False), values, strict=True):
            inner = replace(self, branches={**self.branches, scalar: branch})
            yield from inner.kinds(tuple(_split(turn, Case(condition, holds)) for turn in turns), numbers)

    def chosen(self, letter: str, count: Expression) -> sympy.Expr:
        """As the text writes it: in letters there are more to choose from. Raises EinformerError E607."""
        return self.number(count)

    def number(self, e: Expression) -> sympy.Expr:
        """A number that the text writes. Raises EinformerError E607."""
        number = self.written(e)
        if _is_long(number):
            raise fail("E607", "the formula of this number is too long", e.span, fix="bind the sizes")
        return number

    def written(self, e: Expression) -> sympy.Expr:
        """The same, of any length."""
        match e:
            case Number():
                return sympy.Rational(str(e.value)) if math.isfinite(e.value) else sympy.sympify(e.value)
            case Name():
                return self.named(e.name)
            case Sum():
                return sympy.Add(*map(self.number, e.terms))
            case Product():
                return sympy.Mul(*map(self.number, e.factors))
            case Quotient():
                return self.number(e.numerator) / self.number(e.denominator)
            case Power():
                return self.power(self.number(e.base), e.exponent)
            case Tensor() if e in self.branches:
                return self.number(self.branches[e])
            case Apply(name="exp"):
                return self.power(sympy.E, e.arguments[0])
            case Apply() if e.name in _FUNCTIONS:
                return _FUNCTIONS[e.name](*map(self.number, e.arguments))
            case Apply() | Index() | Tensor() | Group():
                raise fail("E607", "this number has no formula in the letters of the legend", e.span, fix="bind the sizes")
            case _:
                assert_never(e)

    def power(self, base: sympy.Expr, e: Expression) -> sympy.Expr:
        """A power whose exponent is a number, and not a large one. Raises EinformerError E607."""
        exponent = self.number(e)
        if not exponent.is_number or not abs(exponent) <= MOST_POWER:
            message = f"a formula has exponents that are numbers, {MOST_POWER} at most"
            raise fail("E607", message, e.span, fix="bind the sizes")
        return base**exponent

    def named(self, name: str) -> sympy.Expr:
        """A size by its default, where that is made of other letters; else the letter itself."""
        axis = self.legend.axis_of_size(name)
        default = axis.default if axis is not None and name not in self.legend.values else None
        if default is not None and any(isinstance(x, Name) for x in subexpressions(default)):
            return self.number(default)
        return sympy.pi if name in CONSTANTS else sympy.Symbol(name)

    # ------------------------------------------------------------------------------------------------------ turns

    def turns(self, turns: Turns) -> sympy.Expr:
        """How many different numbers the letters of loops take; a `where` on layer numbers takes both of its branches."""
        if not turns.letters:
            return sympy.Integer(1)
        if len(turns.sites) > 1 and (len(turns.letters) > 1 or any(site.cases for site in turns.sites)):
            raise _refuse(turns.sites[0].loops[0][1])
        return sympy.Max(*(self.at(site, turns.letters) for site in turns.sites))

    def at(self, site: Site, letters: tuple[str, ...]) -> sympy.Expr:
        """How many numbers they take at one site."""
        counts = {letter: self.number(count) for letter, count in site.loops}
        split: set[str] = set()
        for case in site.cases:
            on = {x.letter for x in subexpressions(case.condition) if isinstance(x, Index)}
            if len(on) != 1 or on & split:
                raise _refuse(case.condition)
            (letter,) = on
            split.add(letter)
            true = self.holding(case.condition, counts[letter])
            counts[letter] = true if case.holds else counts[letter] - true
        return sympy.Mul(*(counts[letter] for letter in letters))

    def holding(self, e: Expression, count: sympy.Expr) -> sympy.Expr:
        """In how many of `count` turns a condition holds: `l < P` in P, as 0 <= P <= L; `l mod 2 == 0` in ceil(L / 2)."""
        match e:
            case Apply(name="not", arguments=(inner,)):
                return count - self.holding(inner, count)
            case Apply(name="==", arguments=(Apply(name="mod", arguments=(Index(), m)), r)):
                return sympy.ceiling((count - self.number(r)) / self.number(m))
            case Apply(name="!=", arguments=(Apply(name="mod"), _)):
                return count - self.holding(replace(e, name="=="), count)
            case Apply(arguments=(Index(), bound)) if e.name in _HOLDING:
                return _HOLDING[e.name](self.number(bound), count)
            case Apply(arguments=(bound, Index() as index)) if e.name in _MIRRORED:
                return self.holding(replace(e, name=_MIRRORED[e.name], arguments=(index, bound)), count)
        raise _refuse(e)


def _is_long(e: sympy.Expr) -> bool:
    """Has it many terms when it is multiplied out, or a number of many digits?"""
    number = e.as_coeff_Mul()[0]
    return _count_terms(e) > MOST_TERMS or (number.is_finite and max(abs(number).as_numer_denom()) > MAXIMUM_NUMBER)


def _count_terms(e: sympy.Expr) -> int:
    """How many terms it has when it is multiplied out, at most."""
    if e.is_Add or e.is_Mul:
        return (sum if e.is_Add else math.prod)(map(_count_terms, e.args))
    several = e.is_Pow and e.exp.is_Integer and e.exp > 0
    return math.comb(_count_terms(e.base) + int(e.exp) - 1, int(e.exp)) if several else 1


def _split(turns: Turns, case: Case) -> Turns:
    """Those of the turns in which a condition on their letter holds, or does not."""
    letters = {axis_of(x.letter) for x in subexpressions(case.condition) if isinstance(x, Index)}
    if not letters & set(turns.letters):
        return turns
    return replace(turns, sites=tuple(replace(site, cases=site.cases | {case}) for site in turns.sites))


def _refuse(e: Expression | Scalar) -> EinformerError:
    fix = "bound sizes, whose turns are counted one by one; a formula knows `l < P` and `l mod 2 == 0`, one for each loop"
    return fail("E607", "in how many turns this holds has no formula", e.span, fix=fix)


def _round_up(c: sympy.Expr) -> sympy.Expr:
    """The next whole number; letters are whole, what is divided may not be."""
    return c if sympy.denom(c) == 1 else sympy.ceiling(c)


def _round_down(c: sympy.Expr) -> sympy.Expr:
    return -_round_up(-c)


# How many of 0 … n - 1 are less than c, and so on; the second table has the sides exchanged.
_HOLDING: dict[str, Callable[[sympy.Expr, sympy.Expr], sympy.Expr]] = {
    "<": lambda c, n: _round_up(c),
    "<=": lambda c, n: _round_down(c) + 1,
    ">": lambda c, n: n - _round_down(c) - 1,
    ">=": lambda c, n: n - _round_up(c),
    "==": lambda c, n: sympy.Integer(1),
    "!=": lambda c, n: n - 1,
}
_MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "==": "==", "!=": "!="}
_FUNCTIONS: dict[str, Callable[..., sympy.Expr]] = {
    row.name: eval(f"lambda x, y=None: {row.sympy}", vars(sympy).copy()) for row in PRIMITIVES.values() if row.sympy
}
