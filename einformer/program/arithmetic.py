"""Reads values as numbers that arithmetic follows, case by case, and conditions as cases of inequalities (R10).

What no data decide can also be written as an expression of the language.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from fractions import Fraction

from einformer.language.primitives import COMPARISONS, CONSTANTS, NUMERIC, OPPOSITE, primitive, row_of
from einformer.language.sizes import Legend
from einformer.language.tree import Apply, Expression, Index, Layer, Name, Number, Power, Product, Quotient, Sum, Tensor
from einformer.program import operations as op
from einformer.program.inequalities import (
    ALWAYS,
    INFINITE,
    MOST_CASES,
    NEVER,
    Atom,
    Cases,
    Conjunction,
    Facts,
    Inequality,
    Linear,
    atoms_in,
    both,
    cases_at,
    compare,
    either,
    letters_of,
    simplified,
)
from einformer.program.lowering import Lowering
from einformer.program.operations import Function, Label, Line, Value

_MOST_ATOMS = 100  # of a number, before it is some number
MOST_VALUES = 200  # of which an expression is made, each as often as it is read

Numbers = tuple[tuple[Conjunction, Linear], ...]  # the number that a value is, case by case; () where it is none
Place = tuple[dict[str, Linear], Conjunction]  # the numbers of some letters, in a case

UNSURE = Inequality(Linear.atom(Atom("data", "?")))  # data decide, whichever way
UNDECIDED: Cases = frozenset((frozenset((UNSURE,)),))
ZERO = Value(op.Constant(0), (), "integer")
UNKNOWN = Apply("?", (), ())  # stands for what data decide


class Reader:
    """Reads the values of one function. A loop whose turns are followed one by one has a number for its letter in `turn`."""

    def __init__(self, function: Function, facts: Facts) -> None:
        self.function, self.facts, self.legend = function, facts, facts.legend
        self.turn: dict[str, Linear] = {}
        self.scalars = {line.value: line for line in function.scalars}
        self.known: dict[Value, Numbers] = {}
        self.inside: dict[Value, tuple[bool, frozenset[str]]] = {}

    # ----------------------------------------------------------------------------------------------------- numbers

    def numbers(self, value: Value) -> Numbers:
        """The number that a value is, case by case; () where it is none that arithmetic follows."""
        if value not in self.known:
            numbers = tuple(itertools.islice(self.numbers_of(value), MOST_CASES + 1))
            long = len(numbers) > MOST_CASES or any(atoms_in(linear) > _MOST_ATOMS for _, linear in numbers)
            self.known[value] = () if long else numbers
        return self.known[value]

    def numbers_of(self, value: Value) -> Iterable[tuple[Conjunction, Linear]]:
        match value.operation:
            case _ if value in self.scalars and self.facts.letters:
                line = self.scalars[value]
                return _one(_element("table", line.name, (letter for label in line.labels for letter in label)))
            case op.Constant(str() as name):
                return self.named(name)
            case op.Constant(number):
                return _one(Linear.number(number))
            case op.Iota(letter):
                return _one(Linear.index(letter))
            case op.Turn(letter):
                return _one(self.turn.get(letter) or Linear.index(letter))
            case op.Table(name, letter):
                return _one(_element("table", name, (letter,)))
            case op.StoredWeight(name):
                return _one(_element("data", f"{self.function.name}.{name}", value.axes))
            case op.Spread(argument):
                return self.numbers(argument)
            case op.View(argument) | op.Gather(argument):
                return self.numbers_read(value, self.numbers(argument))
            case op.Map(name, arguments):
                return self.mapped(name, arguments)
            case _:
                return ()

    def named(self, name: str) -> Numbers:
        """A size, a scalar or a constant; a scalar made of sizes that are open is its formula."""
        if name in CONSTANTS:
            return _one(Linear.number(CONSTANTS[name]))
        if name.startswith("|"):
            length = self.facts.length(name.strip("|"))
            return _one(length) if length is not None else ()
        scalar = self.legend.scalars.get(name)
        if scalar is not None and not self.facts.letters and not isinstance(scalar.value, tuple):
            if (value := self.facts.value(name)) is not None:
                return _one(Linear.number(value))
            return self.numbers(Lowering(_NOTHING, {}, self.legend, "").value(scalar.value))
        return _one(Linear.atom(Atom("size", name)))

    def numbers_read(self, value: Value, numbers: Numbers) -> Iterator[tuple[Conjunction, Linear]]:
        """The value that is read, at the numbers of its letters."""
        for place, case in self.places(value) if numbers else ():
            for own, linear in numbers:
                yield frozenset(i.at(place) for i in own) | case, linear.at(place)

    def places(self, value: Value) -> Iterator[Place]:
        """The numbers at which a view or a gather reads, case by case, of the letters that it changes."""
        match value.operation:
            case op.View(_, old, new):
                yield {letter: x for pair in zip(old, new, strict=True) for letter, x in self.view(*pair)}, frozenset()
            case op.Gather(_, every):
                slots = {slot.label: slot.number for slot in every if not slot.is_whole}
                cases = [self.numbers(number) or _one(self.somewhere()) for number in slots.values()]
                if math.prod(map(len, cases)) > MOST_CASES:
                    cases = [_one(self.somewhere()) for _ in cases]
                for chosen in itertools.product(*cases):
                    numbers = {
                        x: n for label, (_, number) in zip(slots, chosen, strict=True) for x, n in self.numbered(label, number)
                    }
                    yield numbers, frozenset().union(*(case for case, _ in chosen))

    def view(self, old: Label, new: Label) -> Iterator[tuple[str, Linear]]:
        """The numbers of the letters of an axis that becomes another: `(ae)` is a H + e."""
        if op.renames(old, new):
            yield from ((one, Linear.index(other)) for one, other in zip(old, new, strict=True) if one != other)
        else:
            total: Linear | None = Linear.number(0)
            for letter in new:
                length = self.facts.length(letter)
                total = total * length + Linear.index(letter) if total is not None and length is not None else None
            yield from self.numbered(old, self.somewhere() if total is None else total)

    def numbered(self, label: Label, number: Linear) -> Iterator[tuple[str, Linear]]:
        """The numbers of the letters of an axis that is read at a number: of a group each is some number."""
        for letter in label:
            yield letter, number if len(label) == 1 else Linear.index(self.facts.fresh(letter))

    def somewhere(self) -> Linear:
        return Linear.atom(Atom("data", self.facts.fresh("?")))

    def mapped(self, name: str, arguments: tuple[Value, ...]) -> Iterable[tuple[Conjunction, Linear]]:
        """A function of numbers: one that chooses between them has a case for each."""
        match name, arguments:
            case "where", (condition, then, otherwise):
                cases = self.condition(condition), self.condition(condition, False)
                return _chosen(cases, self.numbers(then), self.numbers(otherwise))
            case "max" | "min", (first, second):
                return self.larger(first, second, self.numbers(first), self.numbers(second), name)
            case "abs", (argument,):
                numbers = self.numbers(argument)
                return self.larger(argument, ZERO, numbers, tuple((case, linear * -1) for case, linear in numbers))
            case "relu", (argument,):
                return self.larger(argument, ZERO, self.numbers(argument), _one(Linear.number(0)))
            case "^", (base, Value(operation=op.Constant(int() as times))) if 0 < times < 5:
                return _combine(_times, itertools.repeat(self.numbers(base), times))
            case name, _ if name in _ARITHMETIC:
                return _combine(_ARITHMETIC[name], map(self.numbers, arguments))
            case name, (argument,) if (row := primitive(name, False)) is not None and row.python and not row.condition:
                return _combine(functools.partial(_function, name), (self.numbers(argument),))
        return ()

    def larger(
        self, one: Value, other: Value, first: Numbers, second: Numbers, name: str = "max"
    ) -> Iterable[tuple[Conjunction, Linear]]:
        """The first number where one value is at least another, or at most; else the second."""
        comparison = ">=" if name == "max" else "<="
        cases = self.compared(comparison, one, other), self.compared(OPPOSITE[comparison], one, other)
        return _chosen(cases, first, second)

    # -------------------------------------------------------------------------------------------------- conditions

    def condition(self, value: Value, holds: bool = True) -> Cases:
        """The cases in which a condition may hold, or may not."""
        match value.operation:
            case op.Map("not", (inner,)):
                return self.condition(inner, not holds)
            case op.Map("and" | "or" as name, (first, second)):
                parts = self.condition(first, holds), self.condition(second, holds)
                return both(*parts) if (name == "and") == holds else either(*parts)
            case op.Map(name, (left, right)) if name in COMPARISONS:
                return self.compared(name if holds else OPPOSITE[name], left, right)
            case op.Spread(argument):
                return self.condition(argument, holds)
            case op.View(argument) | op.Gather(argument):
                cases = self.condition(argument, holds)
                places = self.places(value) if cases not in (ALWAYS, NEVER, UNDECIDED) else [({}, frozenset())]
                return either(
                    *(both(cases_at(cases, to | self.others(letters_of(cases))), frozenset((case,))) for to, case in places)
                )
            case _:
                return self.suppose(value, holds)

    def suppose(self, value: Value, holds: bool) -> Cases:
        """The facts about a condition that is not a comparison."""
        return UNDECIDED

    def compared(self, name: str, left: Value, right: Value) -> Cases:
        """A comparison of two numbers; of anything else both verdicts are possible."""
        pairs = tuple(itertools.product(self.numbers(left), self.numbers(right)))
        if not pairs or len(pairs) > MOST_CASES:
            return ALWAYS if self.numeric(left) and self.numeric(right) else UNDECIDED
        return either(*(both(frozenset((a | b,)), compare(name, one, other)) for (a, one), (b, other) in pairs))

    def sign(self, value: Value) -> int:
        """1 for a positive number, -1 for a negative one, 0 for anything else."""
        match value.operation:
            case op.Map("/" | "*", factors):
                return math.prod(map(self.sign, factors)) or self.sign_of(value)
            case _:
                return self.sign_of(value)

    def sign_of(self, value: Value) -> int:
        """The same, of a number as a whole."""
        if self.numeric(value):
            for sign, name in ((1, "<="), (-1, ">=")):
                if not self.facts.holding(self.compared(name, value, ZERO)):
                    return sign
        return 0

    def others(self, letters: Iterable[str]) -> dict[str, Linear]:
        """Others for letters that stand for some number."""
        return {x: Linear.index(self.facts.fresh(x)) for x in sorted(letters) if "~" in x}

    # ------------------------------------------------------------------------------------------------ what is inside

    def numeric(self, value: Value) -> bool:
        """Is a value made of numbers, sizes, scalars and indices alone?"""
        return self.made_of(value)[0]

    def letters(self, value: Value) -> frozenset[str]:
        """The letters of a value's axes, and of the turns in which it is computed."""
        return self.made_of(value)[1].union(value.axes)

    def made_of(self, value: Value) -> tuple[bool, frozenset[str]]:
        """Whether it is made of numbers alone, and the letters of turns in it."""
        if value not in self.inside:
            parts = [*map(self.made_of, value.operands)]
            operation = value.operation
            numeric = not isinstance(operation, op.Input | op.StoredWeight | op.Reduce | op.Einsum | op.Call | op.Recur)
            own = {operation.letter} if isinstance(operation, op.Turn) else set[str]()
            self.inside[value] = numeric and all(part for part, _ in parts), frozenset(own).union(*(part for _, part in parts))
        return self.inside[value]


# ------------------------------------------------------------------------------------------------------ as expressions


def spell(value: Value, scalars: Mapping[Value, Line], legend: Legend) -> Expression:
    """A value as an expression; `UNKNOWN` if data decide it, or if it is too long."""
    return _spell(value, scalars, legend, {}) if _measure(value, {}) <= MOST_VALUES else UNKNOWN


def _measure(value: Value, sizes: dict[Value, int]) -> int:
    if value not in sizes:
        sizes[value] = 1 + sum(_measure(operand, sizes) for operand in value.operands)
    return sizes[value]


def _spell(value: Value, scalars: Mapping[Value, Line], legend: Legend, at: Mapping[str, Expression]) -> Expression:
    """The same, with these numbers for letters."""

    def of(inner: Value, at: Mapping[str, Expression] = at) -> Expression:
        return _spell(inner, scalars, legend, at)

    if value in scalars:
        letters = (letter for label in scalars[value].labels for letter in label)
        return Tensor(scalars[value].name, tuple(at.get(letter) or Index(letter) for letter in letters), span=value.span)
    match value.operation:
        case op.Constant(str() as name):
            axis = legend.axis(name.strip("|")) if name.startswith("|") else None
            return axis.size if axis is not None else Name(name, span=value.span)
        case op.Constant(int() | float() as number):
            return Number(number, span=value.span)
        case op.Iota(letter):
            return at.get(letter) or Index(letter)
        case op.Turn(letter):
            return Index(letter)
        case op.Map(function, arguments):
            return replace(_apply(function, tuple(map(of, arguments))), span=value.span)
        case op.Spread(argument):
            return of(argument)
        case op.View(argument, old, new) if all(len(label) == 1 for label in (*old, *new)):
            return of(argument, {one: at.get(other) or Index(other) for (one,), (other,) in zip(old, new, strict=True)})
        case op.Gather(argument, slots) if all(len(slot.label) == 1 for slot in slots):
            return of(argument, {slot.label[0]: of(slot.number) for slot in slots})
        case _:
            return UNKNOWN


def _apply(function: str, arguments: tuple[Expression, ...]) -> Expression:
    match function, arguments:
        case "+", _:
            return Sum(arguments)
        case "*", _:
            return Product(arguments)
        case "/", (numerator, denominator):
            return Quotient(numerator, denominator)
        case "^", (base, exponent):
            return Power(base, exponent)
        case _:
            return Apply(function, (), arguments)


# ---------------------------------------------------------------------------------------------------------- arithmetic


_NOTHING = Layer("", (), (), Name(""), (), ())


def _one(linear: Linear) -> Numbers:
    return ((frozenset(), linear),)


def _element(kind: str, name: str, letters: Iterable[str]) -> Linear:
    return Linear.atom(Atom(kind, name, tuple(map(Linear.index, letters))))  # type: ignore[arg-type]


def _chosen(cases: tuple[Cases, Cases], then: Numbers, otherwise: Numbers) -> Iterator[tuple[Conjunction, Linear]]:
    branches = [*zip(cases, (then, otherwise), strict=True)]
    if all(numbers or not cases for cases, numbers in branches):
        for own, numbers in branches:
            for case, (inner, linear) in itertools.product(own, numbers):
                yield case | inner, linear


_INFINITIES = {Linear.number(infinity): infinity for infinity in (math.inf, -math.inf)}


def _combine(f: Callable[[tuple[Linear, ...]], Linear | None], parts: Iterable[Numbers]) -> Numbers:
    """f of numbers, case by case, without those in which it is not a number; nothing where a part is no number."""
    operands = [*parts]
    if not all(operands):
        return ()
    try:
        values = [(chosen, f(tuple(linear for _, linear in chosen))) for chosen in itertools.product(*operands)]
    except OverflowError:
        return ()
    return tuple((frozenset().union(*(case for case, _ in chosen)), _absorb(x)) for chosen, x in values if x is not None)


def _absorb(linear: Linear) -> Linear:
    """Infinity beside what is finite is infinity."""
    infinite = [(monomial, factor) for monomial, factor in linear.terms if (INFINITE, 1) in monomial]
    if len(infinite) != 1 or len(infinite[0][0]) > 1:
        return linear
    return Linear.number(math.copysign(math.inf, infinite[0][1]))


def _total(parts: tuple[Linear, ...]) -> Linear:
    return sum(parts[1:], start=parts[0])


def _times(parts: tuple[Linear, ...]) -> Linear:
    return functools.reduce(Linear.__mul__, parts)


def _divide(parts: tuple[Linear, ...]) -> Linear | None:
    top, bottom = parts
    if bottom in _INFINITIES and INFINITE not in top.atoms():
        return Linear.number(0)
    value = _finite(bottom).value
    if value is not None:
        return top * Fraction(1, value) if value else None
    return top * _inverse(bottom)


def _finite(linear: Linear) -> Linear:
    """A number; none that may be infinite, of which no bound is known."""
    if INFINITE in linear.atoms():
        raise OverflowError
    return linear


def _inverse(bottom: Linear) -> Linear:
    if len(bottom.terms) == 1:
        ((monomial, factor),) = bottom.terms
        if all(atom.kind == "size" for atom, _ in monomial):
            return Linear.of({frozenset((atom, -power) for atom, power in monomial): Fraction(1, factor)})
    return Linear.atom(Atom("function", "/", (bottom,)))


def _power(parts: tuple[Linear, ...]) -> Linear | None:
    base, exponent = (_finite(part).value for part in parts)
    if base is None or exponent is None:
        return Linear.atom(Atom("function", "^", parts))
    try:
        return Linear.number(math.pow(base, exponent))
    except ValueError:
        return None


def _function(name: str, parts: tuple[Linear, ...]) -> Linear | None:
    (argument,) = parts
    value = _INFINITIES[argument] if argument in _INFINITIES else _finite(argument).value
    row = row_of(name, False)
    limit = row.at_zero if value == 0 else row.at_minus_infinity if value == -math.inf else None
    if limit is not None:
        return Linear.number(limit)
    try:
        return Linear.atom(Atom("function", name, parts)) if value is None else Linear.number(NUMERIC[name](value))
    except ValueError:
        return None


def _floor(parts: tuple[Linear, ...]) -> Linear:
    return parts[0] if parts[0] in _INFINITIES else simplified(Atom("function", "floor"), (_finite(parts[0]),))


def _ceil(parts: tuple[Linear, ...]) -> Linear:
    return _floor((parts[0] * -1,)) * -1


def _mod(parts: tuple[Linear, ...]) -> Linear | None:
    number, divisor = map(_finite, parts)
    if divisor.value == 0:
        return None
    quotient = _divide((number, divisor))
    return number - divisor * _floor((quotient,)) if quotient is not None else None


_ARITHMETIC: Mapping[str, Callable[[tuple[Linear, ...]], Linear | None]] = {
    "+": _total,
    "*": _times,
    "/": _divide,
    "^": _power,
    "floor": _floor,
    "ceil": _ceil,
    "mod": _mod,
}
