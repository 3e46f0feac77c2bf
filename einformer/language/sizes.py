"""Computes the size of an axis: as a polynomial in letters, which proves two sizes equal, and as a number once bound."""

from __future__ import annotations

import math
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import TypeVar, assert_never

from einformer.errors import EinformerError, Span, fail
from einformer.language import tree
from einformer.language.calls import axis_of
from einformer.language.primitives import CONSTANTS, NUMERIC, row_of
from einformer.language.printer import show
from einformer.language.tree import Apply, Axis, Expression, Group, Index, Name, Number, Power, Product, Quotient, Sum, Tensor
from einformer.language.walk import children, find_all, subexpressions

Monomial = tuple[tuple[str, int], ...]  # letters with their powers, in order; a power may be negative
Polynomial = dict[Monomial, Fraction]
Value = int | float | Fraction

MAXIMUM_SIZE = 10**18
MAXIMUM_NUMBER = 10**300
MAXIMUM_TERMS = 200  # of a size multiplied out
_ONE: Monomial = ()


@dataclass
class Legend:
    """The axes and scalars of a spec by name, with the values that are bound."""

    axes: dict[str, Axis]
    scalars: dict[str, tree.Scalar]
    values: Mapping[str, Value] = field(default_factory=dict)
    origins: Mapping[str, str] = field(default_factory=dict)
    inputs: frozenset[str] = frozenset()  # the sizes that inputs have brought along: another call may bring others

    @classmethod
    def of(cls, spec: tree.Spec, values: Mapping[str, Value] | None = None, origins: Mapping[str, str] | None = None) -> Legend:
        axes = {axis.letter: axis for axis in spec.axes}
        return cls(axes, {scalar.name: scalar for scalar in spec.scalars}, values or {}, origins or {})

    def axis(self, letter: str) -> Axis | None:
        return self.axes.get(axis_of(letter))

    # A longer axis is read at its first numbers, as `P_kd` in `P_sd`.
    def reads_part(self, letter: str, before: str) -> bool:
        axis = self.axis(letter)
        return axis_of(letter) != axis_of(before) and axis is not None and axis.bound is not None

    def axis_of_size(self, name: str) -> Axis | None:
        return self._sized.get(name)

    @cached_property
    def _sized(self) -> dict[str, Axis]:
        return {axis.size.name: axis for axis in reversed(self.axes.values()) if isinstance(axis.size, Name)}

    @cached_property
    def formulas(self) -> dict[str, Expression]:
        sizes = {name: axis.default for name, axis in self._sized.items() if axis.default is not None}
        return sizes | {name: s.value for name, s in self.scalars.items() if not isinstance(s.value, tuple)}

    # Names are followed through formulas that are not bound, each once. A weight may have the name of a size, or of a scalar
    # without
    # indices (R1).
    def made_of(self, roots: Iterable[Expression], seen: Iterable[str] = ()) -> Iterator[Name | Tensor]:
        waiting, passed = list(roots), set(seen)
        for x in (x for root in waiting for x in subexpressions(root)):
            indexed = isinstance(x, Tensor) and x.name in self.scalars and bool(self.scalars[x.name].indices)
            if isinstance(x, Name | Tensor) and (indexed or isinstance(x, Name)) and x.name not in passed:
                passed.add(x.name)
                yield x
                waiting += [self.formulas[x.name]] if x.name in self.formulas and x.name not in self.values else []

    def made_from(self, letters: Iterable[str]) -> frozenset[str]:
        sizes = {axis.size.name for axis in map(self.axis, letters) if axis and isinstance(axis.size, Name)}
        return frozenset(sizes).union(
            name for name in self.formulas if any(x.name in sizes for x in self.made_of([Name(name)]))
        )

    def is_brought(self, e: Expression) -> bool:
        return any(x.name in self.inputs for x in self.made_of([e]))

    # These are the names of sizes: of axes, and those from which a size is derived (`A` in `J = A / G`).
    @cached_property
    def letters(self) -> frozenset[str]:
        roots = [e for axis in self.axes.values() for e in (axis.size, axis.default, axis.bound) if e is not None]
        names = {x.name for x in find_all(Name, *roots)}
        return frozenset(names - self.scalars.keys() - CONSTANTS.keys())

    def are_apart(self, one: str, other: str) -> bool:
        return axis_of(one) != axis_of(other)

    # Returns whether both provably hold as many numbers.
    def fits(self, slot: Expression, own: Expression) -> bool:
        return self.size(slot) == self.size(own)

    # ------------------------------------------------------------------------------------------------ polynomials

    # An index holds as many numbers as its axis, a group the product of its members.
    def size(self, slot: Expression) -> Polynomial | None:
        match slot:
            case Index():
                axis = self.axis(slot.letter)
                return self.polynomial(axis.size) if axis else None
            case Group():
                sizes = [self.size(index_of(member) or member) for member in slot.members]
                return _multiply([size for size in sizes if size is not None], slot.span) if None not in sizes else None
            case _:
                return None

    def spell(self, slot: Expression) -> str:
        return " + ".join(map(_spell_term, (self.size(slot) or {}).items())) or "unknown"

    # Letters with a default are replaced by it, bound ones by their number.
    def polynomial(self, e: Expression) -> Polynomial:
        match e:
            case Number():
                return {_ONE: Fraction(e.value)} if math.isfinite(e.value) else {((str(e.value), 1),): Fraction(1)}
            case Name() if e.name in self.values and math.isfinite(self.values[e.name]):
                return {_ONE: Fraction(self.values[e.name])}
            case Name():
                axis = self.axis_of_size(e.name)
                return self.polynomial(axis.default) if axis and axis.default else {((e.name, 1),): Fraction(1)}
            case Sum():
                return _add(map(self.polynomial, e.terms))
            case Product():
                return _multiply(map(self.polynomial, e.factors), e.span)
            case Quotient():
                return _multiply([self.polynomial(e.numerator), self.inverse(e.denominator)], e.span)
            case Power(exponent=Number(value=int() as times)) if 0 <= times < 10:
                return _multiply([self.polynomial(e.base)] * times, e.span)
            case Power() | Apply() | Index() | Tensor() | Group():
                return {((repr(e), 1),): Fraction(1)}
            case _:
                assert_never(e)

    # A monomial has an inverse; a sum stays a letter of its own.
    def inverse(self, e: Expression) -> Polynomial:
        terms = self.polynomial(e)
        if not any(terms.values()):
            raise fail("E604", "this divides by zero", e.span, fix="a size")
        if len(terms) != 1:
            return {((repr(e), -1),): Fraction(1)}
        ((monomial, factor),) = terms.items()
        return {tuple((letter, -power) for letter, power in monomial): 1 / factor}

    # ---------------------------------------------------------------------------------------------------- numbers

    # Returns a size, or a scalar at the index numbers `at`. Raises EinformerError E601 for an open letter, E309, E604.
    def number(self, e: Expression, at: Mapping[str, int] | None = None) -> Value:
        match e:
            case Number():
                return e.value
            case Name():
                return self.named(e)
            case Index() if at and e.letter in at:
                return at[e.letter]
            case Sum() | Product() | Quotient() | Power():
                return _compute(_ARITHMETIC[type(e)], e.span, *(self.number(part, at) for part in children(e)))
            case Apply(name="where", arguments=(condition, then, otherwise)):
                return self.number(then if self.number(condition, at) else otherwise, at)
            case Apply(indices=()) if e.name in NUMERIC and len(e.arguments) in row_of(e.name, False).arity:
                return _compute(NUMERIC[e.name], e.span, *(self.number(argument, at) for argument in e.arguments))
            case Tensor() if e.name in self.scalars:
                places = [_compute(int, slot.span, self.number(slot, at)) for slot in e.slots]
                return self.element(self.scalars[e.name], [int(place) for place in places])
            case Apply() | Index() | Tensor() | Group():
                fix = "numbers, sizes, scalars and functions of them"
                raise fail("E601", "this is not a number: it has an index or an operator", e.span, fix=fix)
            case _:
                assert_never(e)

    # A scalar with indices at these places. Raises EinformerError E304, E309.
    def element(self, scalar: tree.Scalar, places: list[int]) -> Value:
        if len(places) != len(scalar.indices):
            raise fail("E304", f"`{scalar.name}` has {len(scalar.indices)} slots, here are {len(places)}", scalar.span)
        if isinstance(scalar.value, tuple):
            if not 0 <= places[0] < len(scalar.value):
                message = f"`{scalar.name}` has no number {places[0]}"
                raise fail("E309", message, scalar.span, fix=f"0 … {len(scalar.value) - 1}")
            return scalar.value[places[0]].value
        return self.number(scalar.value, {index.letter: place for index, place in zip(scalar.indices, places, strict=True)})

    def named(self, e: Name) -> Value:
        if e.name in self.values:
            return self.values[e.name]
        if e.name in CONSTANTS:
            return CONSTANTS[e.name]
        axis, scalar = self.axis_of_size(e.name), self.scalars.get(e.name)
        if scalar is not None and not isinstance(scalar.value, tuple) and not scalar.indices:
            return self.number(scalar.value)
        if axis is None or axis.default is None:
            raise fail_unbound(e)
        return self.whole(axis, axis.default)

    # The size of an axis: a positive whole number. Raises EinformerError E602, E604.
    def whole(self, axis: Axis, e: Expression) -> int:
        value = self.number(e)
        if isinstance(value, int) and 0 < value <= MAXIMUM_SIZE:
            return value  # before anything is spelled out: sizes are asked for all the time
        origins = [self.origin(name) for name in _list_names(e)]
        if not math.isfinite(value) or value > MAXIMUM_SIZE:
            message = f"the size of `{axis.letter}` would be beyond {MAXIMUM_SIZE:.0e}"
            raise fail("E604", message, axis.span, origins, fix="a positive whole number")
        if value != int(value):
            message = f"the size of `{axis.letter}` would be {float(value):g}, which is not whole"
            raise fail("E602", message, axis.span, origins, fix=_suggest_whole(e))
        if value < 1:
            message = f"the size of `{axis.letter}` would be {int(value)}"
            raise fail("E604", message, axis.span, origins, fix="a positive whole number")
        return int(value)

    # Checks that the size of an axis can be a positive whole number. Raises EinformerError E602, E604 if it provably cannot. A
    # polynomial in whole numbers is a multiple of the common divisor of its coefficients, plus its constant.
    def check_possible(self, axis: Axis) -> None:
        size = axis.size if axis.default is None else axis.default
        terms = Legend({}, self.scalars, self.values).polynomial(size)  # each size may be bound itself, whatever its default
        letters = {letter for monomial in terms for letter, power in monomial if power > 0}
        constant = terms.pop(_ONE, Fraction(0))
        if not letters <= self.letters or any(power < 0 for monomial in terms for _, power in monomial):
            return
        digits = math.lcm(constant.denominator, *(factor.denominator for factor in terms.values()))
        if constant * digits % math.gcd(digits, *(int(factor * digits) for factor in terms.values())):
            message = f"the size of `{axis.letter}` is never whole"
            raise fail("E602", message, size.span, [self.describe(axis.letter)], _suggest_whole(size))
        if all(factor < 0 for factor in terms.values()) and sum(terms.values(), constant) < 1:
            fix = "a positive whole number"
            raise fail("E604", f"the size of `{axis.letter}` is never positive", size.span, [self.describe(axis.letter)], fix)

    def length(self, letter: str) -> int:
        name = axis_of(letter)
        if name not in self._lengths:
            if name not in self.axes:
                raise fail("E201", f"no axis `{name}` is declared")
            self._lengths[name] = self.whole(self.axes[name], self.axes[name].size)
        return self._lengths[name]

    @cached_property
    def _lengths(self) -> dict[str, int]:
        return {}  # filled as they are asked for, again and again

    def is_bound(self, letter: str) -> bool:
        try:
            self.length(letter)
        except EinformerError:
            return False
        return True

    # `D = 768 (given)`, `H = D / A (gpt2.ein:8)`.
    def origin(self, name: str) -> str:
        axis = self.axis_of_size(name)
        declared = axis or self.scalars.get(name)
        place = str(declared.span) if declared else "?"
        if name in self.values:
            return f"{name} = {self.values[name]} ({self.origins.get(name, place)})"
        return f"{name} ({place})"

    # `d: D (gpt2.ein:5), here 768 (given)`.
    def describe(self, letter: str) -> str:
        axis = self.axis(letter)
        if axis is None:
            return f"{letter} is not declared"
        return f"{letter}: {show(axis).partition(': ')[2]} ({axis.span}){self.here(axis.size)}"

    # `, here 768 (given)`.
    def here(self, size: Expression) -> str:
        if not (isinstance(size, Name) and size.name in self.values):
            return ""
        return f", here {self.values[size.name]}" + (f" ({self.origins[size.name]})" if size.name in self.origins else "")


T = TypeVar("T")


def try_number(number: Callable[[T], Value], of: T) -> Value | None:
    try:
        return number(of)
    except EinformerError as error:
        if error.findings[0].code != "E601":
            raise
        return None


# Every size is a positive whole number within its bound, or may become one when the open letters are bound. One that is `given`
# has a bound that is known. Raises EinformerError E601 to E604.
def check_sizes(legend: Legend, given: Container[str] = ()) -> None:
    for axis in legend.axes.values():
        size = try_number(legend.length, axis.letter)
        bound = None if axis.bound is None else try_number(legend.number, axis.bound)
        if axis.bound is not None and bound is None and isinstance(axis.size, Name) and axis.size.name in given:
            legend.number(axis.bound)
        if size is None:
            legend.check_possible(axis)
        elif bound is not None and size > bound:
            facts = [legend.origin(e.name) for e in (axis.size, axis.bound) if isinstance(e, Name)]
            message = f"the size of `{axis.letter}` is {size}, its bound {bound}"
            raise fail("E603", message, axis.span, facts, f"at most {bound}")


def fail_unbound(*names: Name) -> EinformerError:
    listed = ", ".join(f"`{e.name}`" for e in names)
    message = f"the sizes {listed} are not bound" if len(names) > 1 else f"the size {listed} is not bound"
    return fail("E601", message, names[0].span, fix=f"`bind({', '.join(f'{e.name}=…' for e in names)})`")


# An arithmetic member of a group, `(1 - i)`, runs over the axis of the index i.
def index_of(e: Expression) -> Index | None:
    if isinstance(e, Index):
        return e
    terms = e.terms if isinstance(e, Sum) else (e,)
    parts = [part for term in terms for part in (term.factors if isinstance(term, Product) else (term,))]
    indices = [part for part in parts if isinstance(part, Index)]
    return indices[0] if len(indices) == 1 else None


def _suggest_whole(size: Expression) -> str:
    return f"sizes that divide, or `floor({show(size)})` or `ceil({show(size)})`"


def _list_names(e: Expression) -> Iterable[str]:
    return dict.fromkeys(x.name for x in find_all(Name, e))


def _add(terms: Iterable[Polynomial]) -> Polynomial:
    total: Polynomial = {}
    for term in terms:
        for monomial, factor in term.items():
            total[monomial] = total.get(monomial, Fraction(0)) + factor
    return {monomial: factor for monomial, factor in total.items() if factor}


def _multiply(factors: Iterable[Polynomial], span: Span) -> Polynomial:
    total: Polynomial = {_ONE: Fraction(1)}
    for factor in factors:
        total = _add({_multiply_monomials(m, n): a * b} for m, a in total.items() for n, b in factor.items())
        digits = max((max(abs(f.numerator), f.denominator) for f in total.values()), default=0)
        if len(total) > MAXIMUM_TERMS or digits > MAXIMUM_NUMBER:
            raise fail("E604", "this size cannot be multiplied out", span, fix="a simpler size")
    return total


# `2 D^2 / A`
def _spell_term(term: tuple[Monomial, Fraction]) -> str:
    powers = [(letter if letter.isalpha() else "…", power) for letter, power in term[0]]
    above = [letter if power == 1 else f"{letter}^{power}" for letter, power in powers if power > 0]
    below = [letter if power == -1 else f"{letter}^{-power}" for letter, power in powers if power < 0]
    number = [] if term[1] == 1 and above else [f"({term[1]})" if above and term[1].denominator > 1 else str(term[1])]
    return " / ".join([" ".join(number + above), *below])


def _multiply_monomials(left: Monomial, right: Monomial) -> Monomial:
    powers = dict(left)
    for letter, power in right:
        powers[letter] = powers.get(letter, 0) + power
    return tuple(sorted((letter, power) for letter, power in powers.items() if power))


# A fraction of endless digits is rounded.
def _compute(f: Callable[..., Value], span: Span, *values: Value) -> Value:
    try:
        value = f(*values)
        if math.isfinite(value) and not -MAXIMUM_NUMBER <= value <= MAXIMUM_NUMBER:
            raise OverflowError
        return float(value) if isinstance(value, Fraction) and value.denominator > MAXIMUM_NUMBER else value
    except (ArithmeticError, ValueError) as error:
        arguments = ", ".join(f"{float(value):g}" for value in values)
        message = f"this is not a number, or one beyond bounds: it is made of {arguments}"
        raise fail("E604", message, span, fix="a number") from error


def _divide(top: Value, bottom: Value) -> Value:
    return Fraction(top) / Fraction(bottom) if math.isfinite(top) and math.isfinite(bottom) else top / bottom


def _power(base: Value, exponent: Value) -> Value:
    if not -1000 <= exponent <= 1000:
        raise OverflowError
    if exponent == int(exponent):
        return Fraction(base) ** int(exponent) if math.isfinite(base) else float(base) ** int(exponent)
    return math.pow(base, exponent)


_ARITHMETIC: dict[type[Expression], Callable[..., Value]] = {
    Sum: lambda *values: sum(values, start=Fraction(0)),
    Product: lambda *values: math.prod(values, start=Fraction(1)),
    Quotient: _divide,
    Power: _power,
}
