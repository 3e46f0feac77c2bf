"""Puts symbols for sizes: counts become formulas of sympy in the letters of the legend, as it declares them.

A size that is derived from others is replaced by its default (`H` by `D / A`, `F` by `E D`) unless it is bound by itself;
scalars stay letters. Symbols have no assumptions, so that `sympy.symbols("D L")` are the same ones.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import assert_never

import sympy

from einformer.errors import EinformerError, Span, fail
from einformer.interpreters.count import rules
from einformer.interpreters.count.rules import CacheBytes, Counted, Sizes, WeightCount
from einformer.language import tree
from einformer.language.calls import axis_of
from einformer.language.primitives import CONSTANTS, MIRRORED, PRIMITIVES
from einformer.language.sizes import MAXIMUM_NUMBER, Legend
from einformer.language.tree import Expression, Spec
from einformer.language.walk import find_all, letters_in
from einformer.program.keeping import kept_in_letters
from einformer.program.needs import Region
from einformer.program.sharding import Sharding
from einformer.program.turns import Case, Site, TurnCount

MOST_TERMS = 30  # of a number multiplied out
MOST_POWER = 1000


# Counts the bytes that decoding keeps of the causal model `name`, `element` or `p` for a number, as formulas. Raises
# EinformerError E508, E607.
def count_cache(spec: Spec, name: str, sizes: Symbols, element: sympy.Expr | int | None) -> CacheBytes[sympy.Expr]:
    entries = kept_in_letters(spec, name, sizes.legend)
    time = next(layer.time.letter for layer in spec.layers if layer.name == name and layer.time)
    counted = rules.count_cache(entries, replace(sizes, time=time), sympy.Symbol("p") if element is None else element)
    return CacheBytes(sympy.factor_terms(counted.per_token), sympy.factor_terms(counted.total))


def sum_counts(counts: Iterable[Counted[sympy.Expr]]) -> sympy.Expr:
    """Returns the sum of all counts. Terms of the same turns are collected, `L (… D² + … D)`.

    >>> from einformer import load
    >>> gpt2 = load("gpt2")
    >>> sum_counts(rules.count_weights(gpt2.tree, "GPT2", Symbols(Legend.of(gpt2.tree))))
    D*(K + V + 2) + L*(D**2*(2*E + 4) + D*(E + 9))
    """
    groups: dict[sympy.Expr, sympy.Expr] = {}
    for count in counts:
        groups[count.times] = groups.get(count.times, sympy.Integer(0)) + count.each
    collected = (times * sympy.collect(sympy.expand(sum_of_one), sympy.Symbol("D")) for times, sum_of_one in groups.items())
    return sympy.Add(*collected)


def sum_trained(counts: Iterable[WeightCount[sympy.Expr]]) -> sympy.Expr:
    return sum_counts(count for count in counts if count.trained)


def name_ranks(sharding: Sharding) -> dict[str, sympy.Expr]:
    return {axis: sympy.Symbol(axis) for axis, _ in sharding.mesh}


@dataclass(slots=True)
class Symbols(Sizes[sympy.Expr]):
    """Sizes as letters. `branches` are values of scalars in some turns, `loops` the turns that one stage has of a loop."""

    branches: Mapping[Expression, Expression] = field(default_factory=dict)
    loops: Mapping[str, sympy.Expr] = field(default_factory=dict)
    walks = False
    smallest = staticmethod(lambda numbers: sympy.Min(*numbers))
    largest = staticmethod(lambda numbers: sympy.Max(*numbers))
    divide = staticmethod(lambda number, by: number / by)
    round_up = staticmethod(lambda number, by: sympy.ceiling(number / by))

    def size(self, axis: str) -> sympy.Expr:
        return self.value(self.legend.axes[axis].size)

    # A scalar of layers, `W_l`, is a `where` of two values.
    def kinds(
        self, turns: tuple[TurnCount, ...], numbers: tuple[Expression, ...], each: bool = False
    ) -> Iterator[tuple[tuple[sympy.Expr, ...], Symbols]]:
        turning = {x for e in numbers for x in find_all(tree.Tensor, e) if x not in self.branches}
        if not turning:
            yield tuple(map(self.turns, turns)), self
            return
        scalar = min(turning, key=repr)
        value = self.legend.scalars[scalar.name].value
        if scalar.name in self.legend.values or not (isinstance(value, tree.Apply) and value.name == "where"):
            raise _refuse(self.legend.scalars[scalar.name])
        condition, *values = value.arguments
        for holds, branch in zip((True, False), values, strict=True):
            inner = replace(self, branches={**self.branches, scalar: branch})
            yield from inner.kinds(tuple(_split(turn, Case(condition, holds)) for turn in turns), numbers)

    def walk(self, region: Region, at: Span) -> sympy.Expr:
        message = "the number of pairs of positions that this mask allows has no formula: it is not a band around the diagonal"
        raise fail("E607", message, at, fix="bound sizes, whose pairs are counted one by one")

    def chosen(self, letter: str, count: Expression) -> sympy.Expr:
        return self.value(count)

    def value(self, e: Expression) -> sympy.Expr:
        number = self._write(e)
        if _is_long(number):
            raise fail("E607", "the formula of this number is too long", e.span, fix="bind the sizes")
        return number

    @classmethod
    def of(cls, spec: Spec) -> Symbols:
        return cls(Legend.of(spec))

    # The same, of any length.
    def _write(self, e: Expression) -> sympy.Expr:
        match e:
            case tree.Number():
                return sympy.Rational(str(e.value)) if math.isfinite(e.value) else sympy.sympify(e.value)
            case tree.Name():
                return self._name(e.name)
            case tree.Sum():
                return sympy.Add(*map(self.value, e.terms))
            case tree.Product():
                return sympy.Mul(*map(self.value, e.factors))
            case tree.Quotient():
                return self.value(e.numerator) / self.value(e.denominator)
            case tree.Power():
                return self._raise(self.value(e.base), e.exponent)
            case _ if e in self.branches:
                return self.value(self.branches[e])
            case tree.Apply(name="exp"):
                return self._raise(sympy.E, e.arguments[0])
            case tree.Apply() if e.name in _FUNCTIONS:
                return _FUNCTIONS[e.name](*map(self.value, e.arguments))
            case tree.Apply() | tree.Index() | tree.Tensor() | tree.Group():
                raise fail("E607", "this number has no formula in the letters of the legend", e.span, fix="bind the sizes")
            case _:
                assert_never(e)

    # A power whose exponent is a number, and not a large one.
    def _raise(self, base: sympy.Expr, e: Expression) -> sympy.Expr:
        exponent = self.value(e)
        if not exponent.is_number or not abs(exponent) <= MOST_POWER:
            message = f"a formula has exponents that are numbers, {MOST_POWER} at most"
            raise fail("E607", message, e.span, fix="bind the sizes")
        return base**exponent

    # A size by its default, where that is made of other letters; else the letter itself.
    def _name(self, name: str) -> sympy.Expr:
        axis = self.legend.axis_of_size(name)
        default = axis.default if axis is not None and name not in self.legend.values else None
        if default is not None and any(find_all(tree.Name, default)):
            return self.value(default)
        return sympy.pi if name in CONSTANTS else sympy.Symbol(name)

    # ------------------------------------------------------------------------------------------------------ turns

    # A `where` on layer numbers takes both of its branches.
    def turns(self, turns: TurnCount) -> sympy.Expr:
        sites = [*filter(None, map(self._settle, turns.sites))]
        if not turns.letters or not sites:
            return sympy.Integer(bool(sites))
        if len(sites) > 1 and (len(turns.letters) > 1 or any(site.cases for site in sites)):
            raise _refuse(sites[0].loops[0][1])
        return sympy.Max(*(self._count_site(site, turns.letters) for site in sites))

    # A site without the conditions of scalars alone; none where one of these does not hold.
    def _settle(self, site: Site) -> Site | None:
        turning = {case for case in site.cases if any(find_all(tree.Index, case.condition))}
        settled = sorted(site.cases - turning, key=repr)
        exists = all(self._decide(case.condition) == case.holds for case in settled)
        return replace(site, cases=frozenset(turning)) if exists else None

    # Sizes are letters, and decide nothing.
    def _decide(self, e: Expression) -> bool:
        if any(self.legend.axis_of_size(x.name) for x in find_all(tree.Name, e)):
            raise _refuse(e)
        try:
            return bool(self.legend.number(e))
        except EinformerError as error:
            raise _refuse(e) from error

    # How many numbers they take at one site.
    def _count_site(self, site: Site, letters: tuple[str, ...]) -> sympy.Expr:
        counts = {letter: self.loops[letter] if letter in self.loops else self.value(count) for letter, count in site.loops}
        split: set[str] = set()
        for case in site.cases:
            on = letters_in(case.condition)
            if len(on) != 1 or on & split:
                raise _refuse(case.condition)
            (letter,) = on
            split.add(letter)
            true = self._count_holding(case.condition, counts[letter])
            counts[letter] = true if case.holds else counts[letter] - true
        return sympy.Mul(*(counts[letter] for letter in letters))

    # In how many of `count` turns a condition holds: `l < P` in P, as 0 <= P <= L; `l mod 2 == 0` in ceil(L / 2).
    def _count_holding(self, e: Expression, count: sympy.Expr) -> sympy.Expr:
        match e:
            case tree.Apply(name="not", arguments=(inner,)):
                return count - self._count_holding(inner, count)
            case tree.Apply(name="==", arguments=(tree.Apply(name="mod", arguments=(tree.Index(), m)), r)):
                return sympy.ceiling((count - self.value(r)) / self.value(m))
            case tree.Apply(name="!=", arguments=(tree.Apply(name="mod"), _)):
                return count - self._count_holding(replace(e, name="=="), count)
            case tree.Apply(arguments=(tree.Index(), bound)) if e.name in _HOLDING:
                return _HOLDING[e.name](self.value(bound), count)
            case tree.Apply(arguments=(bound, tree.Index() as index)) if e.name in MIRRORED:
                return self._count_holding(replace(e, name=MIRRORED[e.name], arguments=(index, bound)), count)
        raise _refuse(e)


# Has it many terms when it is multiplied out, or a number of many digits?
def _is_long(e: sympy.Expr) -> bool:
    number = e.as_coeff_Mul()[0]
    return _count_terms(e) > MOST_TERMS or (number.is_finite and max(abs(number).as_numer_denom()) > MAXIMUM_NUMBER)


# How many terms it has when it is multiplied out, at most.
def _count_terms(e: sympy.Expr) -> int:
    if e.is_Add or e.is_Mul:
        return (sum if e.is_Add else math.prod)(map(_count_terms, e.args))
    several = e.is_Pow and e.exp.is_Integer and e.exp > 0
    return math.comb(_count_terms(e.base) + int(e.exp) - 1, int(e.exp)) if several else 1


# Those of the turns in which a condition on their letter holds, or does not.
def _split(turns: TurnCount, case: Case) -> TurnCount:
    letters = {axis_of(x.letter) for x in find_all(tree.Index, case.condition)}
    if not letters & set(turns.letters):
        return turns
    return replace(turns, sites=tuple(replace(site, cases=site.cases | {case}) for site in turns.sites))


def _refuse(e: Expression | tree.Scalar) -> EinformerError:
    fix = "bound sizes, whose turns are counted one by one; a formula knows `l < P` and `l mod 2 == 0`, one for each loop"
    return fail("E607", "in how many turns this holds has no formula", e.span, fix=fix)


# The next whole number; letters are whole, what is divided may not be.
def _round_up(c: sympy.Expr) -> sympy.Expr:
    return c if sympy.denom(c) == 1 else sympy.ceiling(c)


def _round_down(c: sympy.Expr) -> sympy.Expr:
    return -_round_up(-c)


# How many of 0 … n - 1 are less than c, and so on.
_HOLDING: dict[str, Callable[[sympy.Expr, sympy.Expr], sympy.Expr]] = {
    "<": lambda c, n: _round_up(c),
    "<=": lambda c, n: _round_down(c) + 1,
    ">": lambda c, n: n - _round_down(c) - 1,
    ">=": lambda c, n: n - _round_up(c),
    "==": lambda c, n: sympy.Integer(1),
    "!=": lambda c, n: n - 1,
}
_FUNCTIONS: dict[str, Callable[..., sympy.Expr]] = {
    row.name: eval(f"lambda x, y=None: {row.sympy}", vars(sympy).copy()) for row in PRIMITIVES.values() if row.sympy
}
