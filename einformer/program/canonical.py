"""Gives expressions with one meaning one value, and names the definition that reaches them.

A tensor that `<-` changes is another value afterwards, and another one in each turn of a loop: definitions reach their uses by
control flow, not by name. Values are sums of products; whoever looks for a norm, an attention or a causal mask looks at values,
so that the way in which it is written does not matter.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from math import ceil, floor, gcd, lcm

from einformer.errors import EinformerError
from einformer.language.primitives import primitive
from einformer.language.sizes import Legend
from einformer.language.tree import (
    Apply,
    Equation,
    Expression,
    Index,
    Layer,
    Loop,
    Name,
    Number,
    Power,
    Product,
    Quotient,
    Statement,
    Sum,
    Tensor,
)
from einformer.language.walk import children, equations, rebuild, subexpressions

ONE, MINUS = Fraction(1), Number(-math.inf)


@dataclass(frozen=True, slots=True, eq=False)
class Definition:
    """One value of a name: the equation that computes it, the loops around it, the definitions that its right side reads.

    What one turn of a loop hands to the next has no equation, nor has a recurrence.
    """

    equation: Equation | None = None
    loops: tuple[str, ...] = ()
    known: Known = field(default_factory=dict)


Known = dict[str, Definition]
Definitions = frozenset[Definition]


@dataclass(frozen=True, slots=True)
class Reach:
    """The definitions that reach one equation, and the loops around it. Formals and weights have none.

    `reads` counts the expressions that read each definition; a `wide` one opens those that several read too.
    """

    known: Known = field(default_factory=dict)
    loops: tuple[str, ...] = ()
    reads: Counter[Definition] = field(default_factory=Counter)
    wide: bool = False
    closed: frozenset[int] = frozenset()  # equations, by id, that stand for themselves

    def definition(self, e: Expression) -> Definition | None:
        """The definition of a tensor that is read at the letters of its left side."""
        definition = self.known.get(e.name) if isinstance(e, Tensor) else None
        return definition if definition is not None and definition.equation and definition.equation.left == e else None

    def defined(self, e: Expression) -> tuple[Expression, Reach]:
        """The right side that defines a tensor and what reaches that; other expressions as they are."""
        definition = self.definition(e)
        if definition is None or definition.equation is None:
            return e, self
        return definition.equation.right, replace(self, known=definition.known, loops=definition.loops)

    def opening(self, e: Expression) -> tuple[Expression, Definitions]:
        """What can stand in the place of a tensor that nothing else reads, and the definitions that are not needed then."""
        definition = self.definition(e)
        if definition is None or definition.loops != self.loops or id(definition.equation) in self.closed:
            return e, frozenset()
        if not self.wide and self.reads[definition] != 1:
            return e, frozenset()
        renewed = self.renewed(*self.defined(e))
        return (e, frozenset()) if renewed is None else (renewed[0], renewed[1] | {definition})

    def opened(self, e: Expression) -> Expression:
        """What can stand in the place of a tensor; e itself where nothing can."""
        return self.opening(e)[0]

    def renewed(self, e: Expression, there: Reach) -> tuple[Expression, Definitions] | None:
        """An expression of another place as it reads here: a name that has changed since is its right side, if that can be."""
        if (name := _name(e)) is not None and there.known.get(name) is not self.known.get(name):
            right, taken = there.opening(e)
            rest = self.renewed(right, there) if taken else None
            return None if rest is None else (rest[0], rest[1] | taken)
        parts = [part for child in children(e) if (part := self.renewed(child, there)) is not None]
        if len(parts) < len(children(e)):
            return None
        if all(part is child for (part, _), child in zip(parts, children(e), strict=True)):
            return e, frozenset()
        rights = iter(part for part, _ in parts)
        return rebuild(e, lambda _: next(rights)), frozenset[Definition]().union(*(taken for _, taken in parts))

    def covers(self, e: Expression, taken: Definitions) -> bool:
        """Do an expression and definitions alone read these definitions?"""
        reads = Counter(self.known.get(_name(x) or "") for x in subexpressions(e))
        for each in taken:
            rights = subexpressions(each.equation.right) if each.equation else ()
            reads.update(each.known.get(_name(x) or "") for x in rights)
        return all(reads[each] == self.reads[each] for each in taken)


def reaching(layer: Layer) -> dict[int, Reach]:
    """The definitions that reach each equation of a layer, by the id of the equation."""
    reach, reads = dict[int, Reach](), Counter[Definition]()

    def follow(body: tuple[Statement, ...], known: Known, loops: tuple[str, ...]) -> Known:
        for statement in body:
            if isinstance(statement, Loop):
                changed = {equation.left.name for equation in equations(statement.body)}
                after = follow(
                    statement.body, known | {name: Definition() for name in changed}, (*loops, statement.index.letter)
                )
                for name in changed & known.keys():  # a turn reads what was before it, the next one what it leaves
                    reads.update({known[name]: 2, after[name]: 2})
                known = known | {name: Definition() for name in changed}
            else:
                reach[id(statement)] = Reach(known, loops, reads)
                reads.update(known[read] for e in subexpressions(statement.right) if (read := _name(e) or "") in known)
                known = known | {statement.left.name: _definition(statement, known, loops)}
        return known

    end = follow(layer.body, {}, ())
    reads.update(end[name] for name in {layer.output.name} & end.keys())
    return reach


def _definition(equation: Equation, known: Known, loops: tuple[str, ...]) -> Definition:
    recurs = equation.relation == "=" and equation.left.name in map(_name, subexpressions(equation.right))
    return Definition(None if recurs else equation, loops, known)


def _name(e: Expression) -> str | None:
    return e.name if isinstance(e, Tensor | Name) else None


# --------------------------------------------------------------------------------------------------------- values


@dataclass(frozen=True, slots=True)
class Factor:
    """What is multiplied: its meaning, by which two are equal, and how the text writes it."""

    meaning: tuple[object, ...]
    written: Expression = field(compare=False)

    @property
    def letters(self) -> set[str]:
        """The indices that stand in it."""
        return {x.letter for x in subexpressions(self.written) if isinstance(x, Index)}


@dataclass(frozen=True, slots=True)
class Term:
    """A product: a number, and factors with their powers in the order of the text."""

    number: Fraction = Fraction(1)
    powers: Mapping[Factor, Fraction] = field(default_factory=dict)

    @property
    def product(self) -> frozenset[tuple[Factor, Fraction]]:
        """The factors and their powers, in no order."""
        return frozenset(self.powers.items())

    def times(self, other: Term, power: Fraction = ONE) -> Term:
        """The product with a power of another term."""
        powers = dict(self.powers)
        for factor, own in other.powers.items():
            powers[factor] = powers.get(factor, Fraction(0)) + own * power
        return Term(self.number * other.number ** int(power), {factor: p for factor, p in powers.items() if p})

    def part(self, keep: Callable[[Factor], bool]) -> Term:
        """Some of the factors."""
        return Term(ONE, {factor: power for factor, power in self.powers.items() if keep(factor)})


Value = tuple[Term, ...]  # a sum; that of nothing is zero
Place = tuple[Definition, Tensor]  # where a definition is read
Fact = tuple[str, object, Fraction]  # what is compared, and the number added to it


def identity(value: Value) -> frozenset[object]:
    """By which two values are equal."""
    return frozenset((term.number, term.product) for term in value)


@dataclass(frozen=True, slots=True)
class Values:
    """The values of expressions where some definitions reach: sums of products of what cannot be taken apart.

    Values are equal if they are written alike up to the order of terms and factors, powers and quotients, means and variances
    as sums, and comparisons of whole numbers. With `opens` a name that is read once is its right side; `deep` values
    are what all names stand for, wherever that was computed.
    """

    reach: Reach
    legend: Legend
    opens: bool = False
    deep: bool = False
    known: dict[Place, Value] = field(default_factory=dict)  # the deep values of tensors

    def value(self, e: Expression) -> Value:
        """The value of an expression."""
        match e:
            case Number(value) if math.isfinite(value):
                return (Term(Fraction(value)),) if value else ()
            case Sum():
                return _total(term for each in e.terms for term in self.value(each))
            case Product():
                return self.product(e, *((factor, ONE) for factor in e.factors))
            case Quotient():
                return self.product(e, (e.numerator, ONE), (e.denominator, -ONE))
            case Power():
                power = self.number(e.exponent)
                return self.product(e, (e.base, power)) if power is not None else self.alone(e)
            case Apply("sqrt", ()):
                return self.product(e, (e.arguments[0], Fraction(1, 2)))
            case Apply("sum"):
                return self.summed(e)
            case Apply("mean"):
                sizes = [self.legend.axis(index.letter) for index in e.indices]
                sums = replace(e, name="sum")
                return self.product(e, (sums, ONE), *((axis.size, -ONE) for axis in sizes if axis is not None))
            case Apply("var"):
                centred = Sum((*e.arguments, Product((Number(-1), replace(e, name="mean")))))
                return self.value(replace(e, name="mean", arguments=(Power(centred, Number(2)),)))
            case Tensor() if self.deep and (defined := self.defined(e)) is not None:
                return defined
            case Tensor() if self.opens and (right := self.reach.opened(e)) is not e:
                return self.value(right)
            case _:
                return self.alone(e)

    def defined(self, e: Tensor) -> Value | None:
        """The value of what defines a tensor, where it does, at the letters at which it is read."""
        definition = self.reach.known.get(e.name)
        equation = definition.equation if definition is not None else None
        if definition is None or equation is None or not isinstance(equation.left, Tensor):
            return None
        if (definition, e) not in self.known:
            own, slots = (tuple(x.letter for x in tensor.slots if isinstance(x, Index)) for tensor in (equation.left, e))
            inside = {x.letter for x in subexpressions(equation.right) if isinstance(x, Index)} - set(own)
            plain = len(own) == len(equation.left.slots) and len(slots) == len(set(slots)) == len(e.slots)
            if not plain or inside & set(slots):
                return None
            there = replace(self.reach, known=definition.known, loops=definition.loops)
            right = relettered(equation.right, dict(zip(own, slots, strict=True)))
            self.known[definition, e] = replace(self, reach=there).value(right)
        return self.known[definition, e]

    def alone(self, e: Expression) -> Value:
        """What cannot be taken apart."""
        return (Term(ONE, {Factor(self.meaning(e), e): ONE}),)

    def meaning(self, e: Expression) -> tuple[object, ...]:
        """What an expression means that cannot be taken apart: of a name which definition of it is read."""
        match e:
            case Index():
                return "index", e.letter
            case Name() if self.legend.sized(e.name) is not None:
                return "size", e.name
            case Name():
                return "name", e.name, self.reach.known.get(e.name)
            case Tensor():
                return "tensor", e.name, self.reach.known.get(e.name), *(identity(self.value(slot)) for slot in e.slots)
            case Apply("where", (), (condition, then, otherwise)):
                return "where", self.facts(condition), identity(self.value(then)), identity(self.value(otherwise))
            case Apply(name) if name != "Dr" and primitive(name, bool(e.indices)) is not None:
                return name, frozenset(e.indices), *(identity(self.value(argument)) for argument in e.arguments)
            case Apply():
                return "call", id(e)  # dropout draws anew
            case _:
                return (
                    type(e).__name__,
                    *(identity(self.value(child)) for child in children(e)),
                    repr(e) if not children(e) else "",
                )

    def number(self, e: Expression) -> Fraction | None:
        """The number that an expression is, if it is one."""
        value = self.value(e)
        return Fraction(0) if not value else value[0].number if len(value) == 1 and not value[0].powers else None

    def product(self, e: Expression, *factors: tuple[Expression, Fraction]) -> Value:
        """Factors and their powers, those of factors multiplied out; a number and a sum are a sum."""
        product, sums = Term(), list[Value]()
        for factor, power in factors:
            value = self.value(factor)
            if not value and power > 0:
                return ()
            if len(value) > 1 and power == 1:
                sums.append(value)
            whole = len(value) == 1 and self.raises(value[0], power)
            product = product.times(value[0] if whole else Term(ONE, {self.sealed(factor, value): ONE}), power)
        if len(sums) == 1 and len(product.powers) == 1:
            return tuple(replace(term, number=term.number * product.number) for term in sums[0])
        return (product,)

    def raises(self, term: Term, power: Fraction) -> bool:
        """Is the power of a product that of its factors? A root only of one factor, and of sizes, which are positive."""
        if power.denominator == 1:
            return abs(power) < 8 and max(term.number.numerator.bit_length(), term.number.denominator.bit_length()) < 256
        positive = len(term.powers) < 2 or all(factor.meaning[0] == "size" for factor in term.powers)
        return term.number == 1 and positive and all(abs(own) == 1 for own in term.powers.values())

    def sealed(self, e: Expression, value: Value) -> Factor:
        """A sum, or a product whose powers are not those of its factors, as one factor."""
        return Factor(("sealed", identity(value)), e)

    def summed(self, e: Apply) -> Value:
        """A sum over indices; what has none of them stands before it."""
        over, value = {index.letter for index in e.indices}, self.value(e.arguments[0])
        if len(value) != 1:
            return (Term(ONE, {Factor(("sum", frozenset(over), identity(value)), e): ONE}),) if value else ()
        inside = value[0].part(lambda factor: bool(factor.letters & over))
        outside = replace(value[0].part(lambda factor: not factor.letters & over), number=value[0].number)
        plain = not outside.powers and outside.number == 1
        written = e if plain else replace(e, arguments=(spelled(inside),))
        return (outside.times(Term(ONE, {Factor(("sum", frozenset(over), inside.product), written): ONE})),)

    # ---------------------------------------------------------------------------------------------------- conditions

    def facts(self, e: Expression, holds: bool = True) -> frozenset[Fact]:
        """What must all be true for a condition to hold, or not to."""
        match e:
            case Apply("not", (), (inner,)):
                return self.facts(inner, not holds)
            case Apply("and" | "or" as name, ()) if (name == "and") == holds:
                return _strongest(fact for argument in e.arguments for fact in self.facts(argument, holds))
            case Apply("<" | "<=" | ">" | ">=" as name, (), (left, right)):
                less, strict = (name in ("<", "<=")) == holds, (name in ("<", ">")) == holds
                above, below = (right, left) if less else (left, right)
                return self.at_least(Sum((above, Product((Number(-1), below)))), strict)
            case _:
                return frozenset([("condition", (self.meaning(e), holds), ONE)])

    def at_least(self, e: Expression, strict: bool) -> frozenset[Fact]:
        """That a number is at least zero, or above it, in lowest terms; of whole numbers always the former."""
        value = self.value(e)
        if any(term.number > 0 and self.infinite(term) for term in value):
            return frozenset()
        rest = [term for term in value if term.powers]
        unit = Fraction(gcd(*(t.number.numerator for t in rest)), lcm(*(t.number.denominator for t in rest))) or ONE
        constant = sum((term.number for term in value if not term.powers), Fraction(0)) / unit
        if all(f.meaning[0] in ("index", "size") and p == int(p) > 0 for term in rest for f, p in term.powers.items()):
            constant, strict = Fraction(ceil(constant) - 1 if strict else floor(constant)), False
            if constant >= 0 and all(term.number > 0 for term in rest):
                return frozenset()
        terms = frozenset((term.number / unit, term.product) for term in rest)
        return frozenset([("above" if strict else "at least", terms, constant)])

    def infinite(self, term: Term) -> bool:
        """Is a term an infinite number alone?"""
        match tuple(term.powers.items()):
            case ((Factor(written=Number(value)), 1),):
                return value == math.inf
            case ((Factor(written=Name(name) as scalar), 1),) if name in self.legend.scalars and name not in self.reach.known:
                try:
                    return self.legend.number(scalar) == math.inf
                except EinformerError:  # not bound
                    return False
            case _:
                return False

    def is_causal(self, e: Expression, query: str, key: str) -> bool:
        """Is e zero where the number of one index is at most the other's, and -inf elsewhere?"""
        match e:
            case Apply("where", (), (condition, then, otherwise)) if MINUS in (then, otherwise):
                zero, holds = (otherwise, False) if then == MINUS else (then, True)
                earlier = self.facts(Apply("<=", (), (Index(key), Index(query))))
                return not self.value(zero) and self.facts(condition, holds) == earlier
            case _:
                return False


def _strongest(facts: Iterable[Fact]) -> frozenset[Fact]:
    """Facts without those that others imply: of one difference only the closest bound."""
    closest = dict[tuple[str, object], Fraction]()
    for kind, terms, constant in facts:
        closest[kind, terms] = min(constant, closest.get((kind, terms), constant))
    return frozenset((*key, constant) for key, constant in closest.items())


def _total(terms: Iterable[Term]) -> Value:
    """The terms of a sum, those with the same factors as one."""
    totals = dict[frozenset[tuple[Factor, Fraction]], Term]()
    for term in terms:
        before = totals.get(term.product)
        totals[term.product] = term if before is None else replace(before, number=before.number + term.number)
    return tuple(term for term in totals.values() if term.number)


def relettered(e: Expression, letters: Mapping[str, str]) -> Expression:
    """An expression with other letters for some."""
    if isinstance(e, Index):
        return Index(letters.get(e.letter, e.letter))
    return rebuild(e, lambda child: relettered(child, letters)) if children(e) else e


def spelled(term: Term) -> Expression:
    """A term as an expression, in the order of the text."""
    above = [_power(factor, power) for factor, power in term.powers.items() if power > 0]
    below = [_power(factor, -power) for factor, power in term.powers.items() if power < 0]
    number = term.number if term.number.denominator < 1000 else Fraction(1)
    if number != term.number:
        above = [Number(float(term.number)), *above]
    above = [Number(number.numerator), *above] if number.numerator != 1 or not above else above
    below = [Number(number.denominator), *below] if number.denominator != 1 else below
    top = above[0] if len(above) == 1 else Product(tuple(above))
    return Quotient(top, below[0] if len(below) == 1 else Product(tuple(below))) if below else top


def _power(factor: Factor, power: Fraction) -> Expression:
    if power == Fraction(1, 2):
        return Apply("sqrt", (), (factor.written,))
    whole = int(power) if power.denominator == 1 else float(power)
    return factor.written if power == 1 else Power(factor.written, Number(whole))
