"""How many parameters and FLOPs are there in letters? Formulas of sympy in the letters of the legend, as it declares them.

A size that is derived from others is replaced by its default (`H` by `D / A`, `F` by `E D`) unless it is bound by itself;
scalars stay letters. Symbols have no assumptions, so that `sympy.symbols("D L")` are the same ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import assert_never

import sympy

from einformer.errors import EinformerError, fail
from einformer.interpreters.count import rules
from einformer.interpreters.count.numbers import Numbers
from einformer.interpreters.count.rules import EquationCount, Site, Turns, WeightCount
from einformer.notation.primitives import CONSTANTS
from einformer.notation.sizes import Legend
from einformer.notation.tree import (
    Apply,
    Expression,
    Group,
    Index,
    Name,
    Number,
    Power,
    Product,
    Quotient,
    Spec,
    Sum,
    Tensor,
)
from einformer.notation.walk import subexpressions

MANY = 1024  # what a size that is not bound counts as, where sizes decide the order of a contraction


def weights(spec: Spec, name: str, legend: Legend | None = None) -> tuple[WeightCount[sympy.Expr], ...]:
    """The parameters of each weight of the layer or model `name`, and the numbers in its buffers, as formulas.

    Sizes that `legend` binds stay letters. Raises EinformerError E607.
    """
    return rules.weights(rules.derive(spec, name), Letters(legend or Legend.of(spec)))


def flops(spec: Spec, name: str, legend: Legend | None = None) -> tuple[EquationCount[sympy.Expr], ...]:
    """The forward FLOPs of the products of each equation of the layer or model `name`, as formulas.

    The order of a product of three tensors or more is the best at the sizes that `legend` binds; others count as 1024
    there, and ties go to the order of the text. Raises EinformerError E607.
    """
    return rules.equations(rules.derive(spec, name), Letters(legend or Legend.of(spec)))


def parameters(counts: Iterable[WeightCount[sympy.Expr]]) -> sympy.Expr:
    """The trained parameters in all."""
    return total(count for count in counts if count.trained)


def total(counts: Iterable[WeightCount[sympy.Expr] | EquationCount[sympy.Expr]]) -> sympy.Expr:
    """The sum of all counts; what stands in the same turns is gathered, `L (… D² + … D)`.

    >>> from einformer import load
    >>> gpt2 = load("gpt2")
    >>> total(weights(gpt2.tree, "GPT2"))
    D*(K + V + 2) + L*(D**2*(2*E + 4) + D*(E + 9))
    """
    groups: dict[sympy.Expr, sympy.Expr] = {}
    for count in counts:
        groups[count.times] = groups.get(count.times, sympy.Integer(0)) + count.each
    gathered = (times * sympy.collect(sympy.expand(each), sympy.Symbol("D")) for times, each in groups.items())
    return sympy.Add(*gathered)


@dataclass(slots=True)
class Letters:
    """Sizes as letters."""

    legend: Legend
    lengths: dict[str, sympy.Expr] = field(default_factory=dict)

    @property
    def deciding(self) -> _Deciding:
        """Sizes as numbers, as far as they are bound."""
        return _Deciding(self.legend)

    def length(self, letter: str) -> sympy.Expr:
        """The size of the axis that an index runs over."""
        axis = self.legend.axis(letter)
        assert axis is not None
        if axis.letter not in self.lengths:
            self.lengths[axis.letter] = self.number(axis.size)
        return self.lengths[axis.letter]

    def number(self, e: Expression) -> sympy.Expr:
        """A number that the text writes."""
        match e:
            case Number():
                return sympy.sympify(e.value)
            case Name():
                return self.named(e.name)
            case Sum():
                return sympy.Add(*map(self.number, e.terms))
            case Product():
                return sympy.Mul(*map(self.number, e.factors))
            case Quotient():
                return self.number(e.numerator) / self.number(e.denominator)
            case Power():
                return self.number(e.base) ** self.number(e.exponent)
            case Apply() if e.name in _FUNCTIONS:
                return _FUNCTIONS[e.name](*map(self.number, e.arguments))
            case Apply() | Index() | Tensor() | Group():
                raise fail("E607", "this number has no formula in the letters of the legend", e.span, fix="bind the sizes")
            case _:
                assert_never(e)

    def named(self, name: str) -> sympy.Expr:
        """A size by its default, where that is made of other letters; else the letter itself."""
        axis = self.legend.sized(name)
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
            raise _refused(turns.sites[0].loops[0][1])
        return sympy.Max(*(self.at(site, turns.letters) for site in turns.sites))

    def at(self, site: Site, letters: tuple[str, ...]) -> sympy.Expr:
        """How many numbers they take at one site."""
        counts = {letter: self.number(count) for letter, count in site.loops}
        split: set[str] = set()
        for case in site.cases:
            on = {x.letter for x in subexpressions(case.condition) if isinstance(x, Index)}
            if len(on) != 1 or on & split:
                raise _refused(case.condition)
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
        raise _refused(e)


def _refused(e: Expression) -> EinformerError:
    fix = "bound sizes, whose turns are counted one by one; a formula knows `l < P` and `l mod 2 == 0`, one for each loop"
    return fail("E607", "in how many turns this holds has no formula", e.span, fix=fix)


def _up(c: sympy.Expr) -> sympy.Expr:
    """The next whole number; letters are whole, what is divided may not be."""
    return c if sympy.denom(c) == 1 else sympy.ceiling(c)


def _down(c: sympy.Expr) -> sympy.Expr:
    return -_up(-c)


# How many of 0 … n - 1 are less than c, and so on; the second table has the sides exchanged.
_HOLDING: dict[str, Callable[[sympy.Expr, sympy.Expr], sympy.Expr]] = {
    "<": lambda c, n: _up(c),
    "<=": lambda c, n: _down(c) + 1,
    ">": lambda c, n: n - _down(c) - 1,
    ">=": lambda c, n: n - _up(c),
    "==": lambda c, n: sympy.Integer(1),
    "!=": lambda c, n: n - 1,
}
_MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "==": "==", "!=": "!="}
_FUNCTIONS: dict[str, Callable[..., sympy.Expr]] = {
    "floor": sympy.floor,
    "ceil": sympy.ceiling,
    "sqrt": sympy.sqrt,
    "log": sympy.log,
    "log2": lambda x: sympy.log(x, 2),
    "exp": sympy.exp,
    "abs": sympy.Abs,
    "min": sympy.Min,
    "max": sympy.Max,
    "mod": sympy.Mod,
}


class _Deciding(Numbers):
    """Numbers that decide an order of contraction, where not all of them need be bound."""

    def length(self, letter: str) -> int:
        try:
            return super().length(letter)
        except EinformerError:
            return MANY

    def number(self, e: Expression) -> int:
        try:
            return super().number(e)
        except EinformerError:
            return MANY
