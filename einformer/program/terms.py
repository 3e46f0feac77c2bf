"""Gives values with one meaning one number, and takes values apart: sums of products, means and variances as sums.

However a norm, an attention or a causal mask is written, its terms are the same. A value of which nothing is known but itself
(an input, a call, a dropout) has a meaning of its own.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from fractions import Fraction
from math import ceil, floor, gcd, lcm

from einformer.errors import EinformerError
from einformer.language.calls import axis_of
from einformer.language.sizes import Legend
from einformer.language.tree import Name, Number
from einformer.program import operations as op
from einformer.program.kernels import Picked
from einformer.program.operations import Label, Value, contract, map_values, multiply, replace_operands

ONE, HALF = Fraction(1), Fraction(1, 2)
MINUS = op.Constant(-math.inf)


@dataclass(frozen=True, slots=True)
class Factor:
    """An operand of a product: its meaning, by which two are equal, and its value."""

    meaning: int
    value: Value = field(compare=False)

    @property
    def letters(self) -> frozenset[str]:
        return frozenset(self.value.axes)


@dataclass(frozen=True, slots=True)
class Term:
    """A product: a number, and factors with their powers in the order of the text."""

    number: Fraction = ONE
    powers: Mapping[Factor, Fraction] = field(default_factory=dict)

    @property
    def product(self) -> frozenset[tuple[Factor, Fraction]]:
        return frozenset(self.powers.items())

    def times(self, other: Term, power: Fraction = ONE) -> Term:
        powers = dict(self.powers)
        for factor, own in other.powers.items():
            powers[factor] = powers.get(factor, Fraction(0)) + own * power
        return Term(self.number * other.number ** int(power), {factor: p for factor, p in powers.items() if p})

    def without(self, factor: Factor) -> Term:
        return Term(self.number, {base: power for base, power in self.powers.items() if base != factor})

    def part(self, keep: Callable[[Factor], bool]) -> Term:
        return Term(ONE, {factor: power for factor, power in self.powers.items() if keep(factor)})


Terms = tuple[Term, ...]  # a sum; that of nothing is zero
Fact = tuple[str, object, Fraction]  # what is compared, and the number added to it


# Two sums are equal if their identities are.
def identity(terms: Terms) -> frozenset[object]:
    return frozenset((term.number, term.product) for term in terms)


@dataclass(slots=True)
class Values:
    """The terms and the meanings of the values of one function."""

    legend: Legend
    numbers: dict[object, int] = field(default_factory=dict)  # of meanings
    deep: dict[Value, Terms] = field(default_factory=dict)  # of what values stand for, wherever that was computed
    meanings: dict[Value, int] = field(default_factory=dict)
    others: dict[tuple[Value, frozenset[tuple[str, str]]], Value | None] = field(default_factory=dict)

    # ------------------------------------------------------------------------------------------------------- terms

    # Values that are closed are not taken apart.
    def terms(self, value: Value, closed: Callable[[Value], bool]) -> Terms:
        return self.alone(value) if closed(value) else self.apart(value, lambda inner: self.terms(inner, closed))

    def expand_sums(self, value: Value) -> Terms:
        if value not in self.deep:
            self.deep[value] = self.apart(self.plain(value), self.expand_sums)
        return self.deep[value]

    def apart(self, value: Value, terms: Callable[[Value], Terms]) -> Terms:
        match value.operation:
            case op.Constant(int() | float() as number) if math.isfinite(number):
                return (Term(Fraction(number)),) if number else ()
            case op.Constant(str() as name) if (size := self.sized(name)) is not None:
                return terms(size)
            case op.Spread(argument) if set(argument.axes) == set(value.axes):
                return terms(argument)
            case op.Map("+", parts):
                return _total(term for part in parts for term in terms(part))
            case op.Map("*", factors):
                return self.product(terms, *((factor, ONE) for factor in factors))
            case op.Map("/", (top, bottom)):
                return self.product(terms, (top, ONE), (bottom, -ONE))
            case op.Map("^", (base, exponent)) if (power := _number(terms(exponent))) is not None:
                return self.product(terms, (base, power))
            case op.Map("sqrt", (argument,)):
                return self.product(terms, (argument, HALF))
            case op.Einsum(letters, factors):
                return self.sum_over(value, frozenset(letters), self.product(terms, *((factor, ONE) for factor in factors)))
            case op.Reduce("mean", letters, argument):
                total = replace(value, operation=op.Einsum(letters, (argument,)))
                return self.product(terms, (total, ONE), *((self.size(letter), -ONE) for letter in letters))
            case op.Reduce("var", letters, argument):
                return terms(replace(value, operation=op.Reduce("mean", letters, _square(value, argument))))
            case _:
                return self.alone(value)

    def alone(self, value: Value) -> Terms:
        return (Term(ONE, {Factor(self.meaning(value), value): ONE}),)

    # Factors that are sums are multiplied out; a number and a sum are a sum.
    def product(self, terms: Callable[[Value], Terms], *factors: tuple[Value, Fraction]) -> Terms:
        product, sums = Term(), list[Terms]()
        for factor, power in factors:
            value = terms(factor)
            if not value and power > 0:
                return ()
            if len(value) > 1 and power == 1:
                sums.append(value)
            whole = len(value) == 1 and self.raises(value[0], power)
            product = product.times(value[0] if whole else Term(ONE, {self.seal(factor): ONE}), power)
        if len(sums) == 1 and len(product.powers) == 1:
            return tuple(replace(term, number=term.number * product.number) for term in sums[0])
        return (product,)

    # A root may be taken of one factor, and of sizes, which are positive.
    def raises(self, term: Term, power: Fraction) -> bool:
        if power.denominator == 1:
            return abs(power) < 8 and max(term.number.numerator.bit_length(), term.number.denominator.bit_length()) < 256
        positive = len(term.powers) < 2 or all(self.is_size(factor.value) for factor in term.powers)
        return term.number == 1 and positive and all(abs(own) == 1 for own in term.powers.values())

    def seal(self, value: Value) -> Factor:
        return Factor(self.meaning(value), value)

    # Factors without the letters stand before the sum.
    def sum_over(self, value: Value, letters: frozenset[str], inside: Terms) -> Terms:
        if not inside:
            return ()
        if len(inside) != 1 or not any(factor.letters & letters for factor in inside[0].powers):
            return (self.total(value),)
        under = inside[0].part(lambda factor: bool(factor.letters & letters))
        outside = replace(inside[0].part(lambda factor: not factor.letters & letters), number=inside[0].number)
        if outside.powers or outside.number != 1:
            factors = tuple(spell(Term(ONE, {factor: power})) for factor, power in under.powers.items())
            value = contract(tuple(sorted(letters)), factors)
        return (outside.times(self.total(value)),)

    def total(self, value: Value) -> Term:
        assert isinstance(value.operation, op.Einsum)
        inside = self.product(self.expand_sums, *((factor, ONE) for factor in value.operation.factors))
        return Term(ONE, {Factor(self.number("sum", frozenset(value.operation.letters), identity(inside)), value): ONE})

    def size(self, letter: str) -> Value:
        name = f"|{axis_of(letter)}|"
        return self.sized(name) or Value(op.Constant(name), (), "integer")

    def sized(self, name: str) -> Value | None:
        axis = self.legend.axis(name.strip("|")) if name.startswith("|") else None
        match axis.size if axis is not None else None:
            case Name(size):
                return Value(op.Constant(size), (), "integer")
            case Number(number):
                return Value(op.Constant(number), (), "integer")
            case _:
                return None

    def is_size(self, value: Value) -> bool:
        match value.operation:
            case op.Constant(str() as name):
                return name.startswith("|") or self.legend.axis_of_size(name) is not None
            case _:
                return False

    # ---------------------------------------------------------------------------------------------------- meanings

    def meaning(self, value: Value) -> int:
        if value not in self.meanings:
            match self.expand_sums(value) if self.is_arithmetic(self.plain(value).operation) else None:
                case None:
                    key = self.structure(self.plain(value))
                case (Term(number=number, powers=powers),) if number == 1 and list(powers.values()) == [ONE]:
                    self.meanings[value] = next(iter(powers)).meaning
                    return self.meanings[value]
                case terms:
                    key = "sum of products", identity(terms)
            self.meanings[value] = self.number(*key)
        return self.meanings[value]

    def number(self, *key: object) -> int:
        return self.numbers.setdefault(key, len(self.numbers))

    def is_arithmetic(self, operation: op.Operation) -> bool:
        match operation:
            case op.Map("^", (_, exponent)):
                return _number(self.expand_sums(exponent)) is not None
            case op.Map("+" | "*" | "/" | "sqrt") | op.Einsum() | op.Reduce("mean" | "var"):
                return True
            case op.Constant(str() as name):
                return self.sized(name) is not None
            case op.Constant(int() | float() as number):
                return math.isfinite(number)
            case _:
                return False

    def structure(self, value: Value) -> tuple[object, ...]:
        match value.operation:
            case op.Constant(name):
                return "constant", name
            case op.Map("where", (condition, then, otherwise)):
                return "where", self.facts(condition), self.meaning(then), self.meaning(otherwise)
            case op.Map("Dr") | op.Input() | op.Call() | op.Recur():
                return "itself", value  # dropout draws anew
            case op.Reduce(operator, letters, argument, counts):
                return operator, frozenset(letters), self.meaning(argument), *map(self.meaning, counts)
            case op.Spread():
                return "spread", frozenset(value.axes), *map(self.meaning, value.operands)
            case operation:
                return type(operation).__name__, *(self.part(getattr(operation, member.name)) for member in fields(operation))

    def part(self, part: object) -> object:
        if isinstance(part, Value):
            return self.meaning(part)
        return tuple(map(self.part, part)) if isinstance(part, tuple) else part

    # ----------------------------------------------------------------------------------------------- other letters

    # The value has these letters in it, where they are not bound there.
    def plain(self, value: Value) -> Value:
        match value.operation:
            case op.View(argument, old, new) if all(len(label) == 1 for label in (*old, *new)):
                letters = {one[0]: other[0] for one, other in zip(old, new, strict=True)}
                inner = self.reletter(argument, letters)
                if inner is None:
                    return value
                leaf = isinstance(inner.operation, op.View) and inner.operation.argument is argument
                return inner if leaf else self.plain(inner)
            case op.Spread(argument) if set(argument.axes) == set(value.axes):
                return self.plain(argument)
            case _:
                return value

    # Returns None where one of the letters is bound in the value.
    def reletter(self, value: Value, letters: Mapping[str, str]) -> Value | None:
        own = frozenset((old, letters[old]) for old in value.axes if letters.get(old, old) != old)
        if not own:
            return value
        if (value, own) not in self.others:
            self.others[value, own] = self.rename(value, dict(own))
        return self.others[value, own]

    def rename(self, value: Value, letters: dict[str, str]) -> Value | None:
        axes = _replace_letters(value.axes, letters)
        match value.operation:
            case op.Iota(letter):
                return replace(value, operation=op.Iota(letters[letter]), axes=axes)
            case op.View(argument, old, new):
                labels = tuple(_replace_letters(label, letters) for label in new)
                if labels == old:
                    return argument
                return replace(value, operation=op.View(argument, old, labels), axes=axes)
            case op.Map() | op.Spread() | op.Einsum() | op.Reduce() | op.Gather() | Picked():
                operation = value.operation
            case _:
                labels = tuple((letter,) for letter in value.axes)
                new = tuple(_replace_letters(label, letters) for label in labels)
                return Value(op.View(value, labels, new), axes, value.kind, value.span)
        if isinstance(operation, op.Einsum | op.Reduce) and {*letters.values()} & {*operation.letters} - {*letters}:
            return None
        if isinstance(operation, op.Reduce):  # some keep their letters
            operation = replace(operation, letters=_replace_letters(operation.letters, letters))
        held = {operation.argument} if isinstance(operation, op.Gather) else set()
        inner = {operand: operand if operand in held else self.reletter(operand, letters) for operand in value.operands}
        if None in inner.values() or len(set(axes)) < len(axes):
            return None
        return replace(value, operation=replace_operands(operation, lambda operand: inner[operand] or operand), axes=axes)

    # -------------------------------------------------------------------------------------------------- conditions

    # All facts must be true for the condition to hold, or not to.
    def facts(self, value: Value, holds: bool = True) -> frozenset[Fact]:
        value = self.plain(value)
        match value.operation:
            case op.Map("not", (inner,)):
                return self.facts(inner, not holds)
            case op.Map("and" | "or" as name, arguments) if (name == "and") == holds:
                return _strongest(fact for argument in arguments for fact in self.facts(argument, holds))
            case op.Map("<" | "<=" | ">" | ">=" as name, (left, right)):
                less, strict = (name in ("<", "<=")) == holds, (name in ("<", ">")) == holds
                above, below = (right, left) if less else (left, right)
                return self.at_least(above, below, strict)
            case op.Spread(inner):
                return self.facts(inner, holds)
            case _:
                return frozenset([("condition", (self.structure(value), holds), ONE)])

    # A number is at least another, or above it, in lowest terms. Facts about whole numbers always say at least.
    def at_least(self, above: Value, below: Value, strict: bool) -> frozenset[Fact]:
        less = (replace(term, number=-term.number) for term in self.expand_sums(below))
        value = _total((*self.expand_sums(above), *less))
        if any(term.number > 0 and self.infinite(term) for term in value):
            return frozenset()
        rest = [term for term in value if term.powers]
        unit = Fraction(gcd(*(t.number.numerator for t in rest)), lcm(*(t.number.denominator for t in rest))) or ONE
        constant = sum((term.number for term in value if not term.powers), Fraction(0)) / unit
        if all(self.is_whole(f.value) and p == int(p) > 0 for term in rest for f, p in term.powers.items()):
            constant, strict = Fraction(ceil(constant) - 1 if strict else floor(constant)), False
            if constant >= 0 and all(term.number > 0 for term in rest):
                return frozenset()
        terms = frozenset((term.number / unit, term.product) for term in rest)
        return frozenset([("above" if strict else "at least", terms, constant)])

    def is_whole(self, value: Value) -> bool:
        return isinstance(value.operation, op.Iota | op.Turn) or self.is_size(value)

    def infinite(self, term: Term) -> bool:
        match [(factor.value.operation, power) for factor, power in term.powers.items()]:
            case [(op.Constant(float() as number), 1)]:
                return number == math.inf
            case [(op.Constant(str() as name), 1)] if name in self.legend.scalars:
                try:
                    return self.legend.number(Name(name)) == math.inf
                except EinformerError:  # not bound
                    return False
            case _:
                return False

    # A causal mask is zero where the number of one index is at most the other's, and -inf elsewhere.
    def is_causal(self, mask: Value, query: str, key: str) -> bool:
        mask = self.plain(mask)
        match mask.operation:
            case op.Spread(argument):
                return self.is_causal(argument, query, key)
            case op.Map("where", (condition, then, otherwise)) if MINUS in (then.operation, otherwise.operation):
                zero, holds = (otherwise, False) if then.operation == MINUS else (then, True)
                later, earlier = (Value(op.Iota(letter), (letter,), "integer") for letter in (query, key))
                facts = self.at_least(later, earlier, False)
                return not self.expand_sums(zero) and self.facts(condition, holds) == facts
            case _:
                return False


# ------------------------------------------------------------------------------------------------------ new values


def spell(term: Term) -> Value:
    above = [_power(factor, power) for factor, power in term.powers.items() if power > 0]
    below = [_power(factor, -power) for factor, power in term.powers.items() if power < 0]
    number = term.number if term.number.denominator < 1000 else Fraction(1)
    if number != term.number:
        above = [_constant(float(term.number)), *above]
    above = [_constant(number.numerator), *above] if number.numerator != 1 or not above else above
    below = [_constant(number.denominator), *below] if number.denominator != 1 else below
    return map_values("/", [multiply(above), multiply(below)]) if below else multiply(above)


def spell_factors(term: Term) -> list[Value]:
    return [spell(Term(ONE, {factor: power})) for factor, power in term.powers.items()]


def _constant(number: float) -> Value:
    return Value(op.Constant(number), (), "number" if isinstance(number, float) else "integer")


def _power(factor: Factor, power: Fraction) -> Value:
    if power == HALF:
        return map_values("sqrt", [factor.value])
    whole = int(power) if power.denominator == 1 else float(power)
    return factor.value if power == 1 else map_values("^", [factor.value, _constant(whole)])


def _square(value: Value, argument: Value) -> Value:
    assert isinstance(value.operation, op.Reduce)
    mean = replace(value, operation=replace(value.operation, operator="mean"))
    return map_values("^", [map_values("+", [argument, map_values("*", [_constant(-1), mean])]), _constant(2)])


def _number(terms: Terms) -> Fraction | None:
    return Fraction(0) if not terms else terms[0].number if len(terms) == 1 and not terms[0].powers else None


def _replace_letters(letters: Label, new: Mapping[str, str]) -> Label:
    return tuple(new.get(letter, letter) for letter in letters)


# Only the closest bound of one difference is kept.
def _strongest(facts: Iterable[Fact]) -> frozenset[Fact]:
    closest = dict[tuple[str, object], Fraction]()
    for kind, terms, constant in facts:
        closest[kind, terms] = min(constant, closest.get((kind, terms), constant))
    return frozenset((*key, constant) for key, constant in closest.items())


def _total(terms: Iterable[Term]) -> Terms:
    totals = dict[frozenset[tuple[Factor, Fraction]], Term]()
    for term in terms:
        before = totals.get(term.product)
        totals[term.product] = term if before is None else replace(before, number=before.number + term.number)
    return tuple(term for term in totals.values() if term.number)
