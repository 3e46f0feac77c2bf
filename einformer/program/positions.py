"""What each value needs of each position (R10): bounds that prove causality and say what decoding keeps.

A specialised body is followed equation by equation. A tensor with a number for each position being computed is an *anchor*.
Every value knows which anchors it reads, at which position, and in which cases; and outside which cases it is zero or -inf,
so that reads which a mask excludes have cases without a solution. Tensors over other positions (masks, scores) are looked
through. All cases are supersets: what they exclude does not happen. Nothing is sampled.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import assert_never

from einformer.errors import EinformerError
from einformer.language.calls import axis_of, callees, slot_letters
from einformer.language.primitives import COMPARISONS, CONDITIONS, CONSTANTS, NUMERIC, primitive, row_of
from einformer.language.scope import Scope
from einformer.language.sizes import Legend
from einformer.language.tree import (
    Apply,
    Equation,
    Expression,
    Group,
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
from einformer.language.walk import equations, loops, subexpressions
from einformer.program.inequalities import (
    ALWAYS,
    MOST_CASES,
    NEVER,
    OPPOSITE,
    Atom,
    Cases,
    Conjunction,
    Facts,
    Linear,
    atoms_in,
    both,
    branches,
    cases_at,
    compare,
    either,
    letters_of,
    of_data,
    plain,
    simplified,
)
from einformer.program.turns import Case, Loops

_MOST_ATOMS = 100  # of a number, before it is some number
_MOST_TURNS = 4  # of a loop whose masks change, before nothing is claimed of them

Numbers = tuple[tuple[Conjunction, Linear], ...]  # the number that a value is, case by case; () where it is none


@dataclass(frozen=True, slots=True, eq=False)
class Anchor:
    """A tensor with a number for each position being computed, as one equation or one call leaves it."""

    name: str
    left: Tensor | Name


@dataclass(frozen=True, slots=True)
class Read:
    """What is read of an anchor, or of how many positions there are: at a position, in these cases.

    A position is `computed` where its slot holds a tensor or a function.
    """

    anchor: Anchor | None
    position: Linear
    cases: Cases = ALWAYS
    computed: bool = False
    at: Expression = field(default=Number(0), compare=False)

    def where(self, cases: Cases) -> Read:
        """The same where these cases hold too."""
        return Read(self.anchor, self.position, both(self.cases, cases), self.computed, self.at)


@dataclass(frozen=True, slots=True)
class Value:
    """A value: what it reads, and the cases outside which it is not what the field says.

    It may be other than 0 in the cases `nonzero`, other than -inf in `alive`; -inf in `low`, inf or not a number in `high`;
    0 in `zero`, by what the text says: of data it is taken that none is.
    """

    reads: tuple[Read, ...] = ()
    nonzero: Cases = ALWAYS
    alive: Cases = ALWAYS
    low: Cases = NEVER
    high: Cases = NEVER
    zero: Cases = NEVER

    @property
    def wild(self) -> Cases:
        """Where it may be infinite."""
        return either(self.low, self.high)

    def each(self, change: Callable[[Cases], Cases], position: Callable[[Linear], Linear]) -> Value:
        """The value with all its cases and positions changed."""
        reads = [Read(read.anchor, position(read.position), change(read.cases), read.computed, read.at) for read in self.reads]
        return Value(tuple(reads), *map(change, _claims(self)))

    def where(self, cases: Cases) -> tuple[Read, ...]:
        """The reads where these cases hold; none that no case is left to."""
        if cases == ALWAYS:
            return self.reads
        return tuple(read for own in self.reads if (read := own.where(cases)).cases)

    def join(self, other: Value) -> Value:
        """One of two values."""
        return Value(
            merged(self.reads, other.reads),
            either(self.nonzero, other.nonzero),
            either(self.alive, other.alive),
            either(self.low, other.low),
            either(self.high, other.high),
            either(self.zero, other.zero),
        )


PLAIN = Value()
UNDECIDED: Cases = compare("<=", Linear.number(0), Linear.atom(Atom("data", "?")))  # data decide, whichever way
INPUT = Anchor("", Name(""))  # stands for whatever a caller gives


def merged(*reads: Iterable[Read]) -> tuple[Read, ...]:
    """Reads, each once."""
    return tuple(dict.fromkeys(itertools.chain(*reads)))


@dataclass(frozen=True, slots=True)
class Definition:
    """A tensor as it is known in a body: its letters by slot, what it is, the number that it is, and its anchor."""

    letters: tuple[str | None, ...]
    value: Value
    numbers: Numbers = ()
    anchor: Anchor | None = None


@dataclass(slots=True)
class Step:
    """An equation in one turn of the loops around it, or in any: what it defines, reads, calls, and the running sums in it."""

    equation: Equation
    path: str
    loops: Loops
    anchor: Anchor | None = None
    reads: tuple[Read, ...] = ()
    calls: list[Call] = field(default_factory=list)
    sums: list[Apply] = field(default_factory=list)
    recurrent: bool = False


@dataclass(frozen=True, slots=True)
class Call:
    """A call in a body, and for each formal with an anchor what is given for it: its value, and the anchor that it is.

    `seen` are the formals over visible positions that depend on inputs; it exists in the turns in which the `cases` hold.
    """

    apply: Apply
    body: Body
    given: Mapping[str, tuple[Value, Anchor | None]]
    seen: tuple[str, ...]
    cases: frozenset[Case]


@dataclass(slots=True)
class Analysis:
    """What is the same in all bodies of a model. With `unroll`, loops are followed turn by turn."""

    layers: Mapping[str, Layer]
    legend: Legend
    time: str
    facts: Facts
    unroll: bool = False
    bodies: dict[object, Body] = field(default_factory=dict)
    made: Iterator[int] = field(default_factory=itertools.count)

    def fresh(self, letter: str) -> str:
        """A letter over the same axis for some number of it."""
        return f"{plain(letter)}~{next(self.made)}"

    def is_time(self, letter: str) -> bool:
        """Does an index run over positions?"""
        return axis_of(plain(letter)) == self.time

    def model(self, layer: Layer) -> Body:
        """The body of a model whose inputs are given."""
        given = tuple(self.given() if self.time in slot_letters(formal) else PLAIN for formal in layer.formals)
        return self.body(layer, given, tuple(() for _ in layer.formals))

    def given(self, value: Value = PLAIN) -> Value:
        """A value as a layer sees it that is given it at the position being computed: it depends on an input."""
        return replace(value, reads=(Read(INPUT, Linear.index(self.time)),))

    def body(self, layer: Layer, given: tuple[Value, ...], numbers: tuple[Numbers, ...]) -> Body:
        """A layer whose formals are these values; of anchors the reads are told apart by the caller."""
        key = layer.name, given, numbers
        if key not in self.bodies:
            self.bodies[key] = Body(self, layer, given, numbers)
        return self.bodies[key]

    def tells(self, value: Value, formula: bool) -> bool:
        """Is a tensor over the position being computed an anchor: do inputs decide its value?"""
        return _depends(value)

    # The judgements of whoever proves something; an analysis on its own proves nothing.

    def needs(self, reads: Sequence[Read], own: str, at: Expression) -> None:
        """Something at the position `own` has these reads."""

    def sees(self, low: Cases, own: str, bound: Sequence[str], at: Expression) -> None:
        """An operator over the positions `bound` may be given -inf in these cases."""

    def crossed(self, read: Tensor, definition: Definition) -> None:
        """A tensor over the positions being computed and visible ones is read at another position."""

    def unclear(self, e: Expression) -> None:
        """It is not known in which turns this holds, which no data decide."""


class Body:
    """A body followed from its inputs to its output."""

    def __init__(self, analysis: Analysis, layer: Layer, given: tuple[Value, ...], numbers: tuple[Numbers, ...]) -> None:
        self.analysis, self.layer, self.facts, self.time = analysis, layer, analysis.facts, analysis.time
        self.callees = callees(layer, analysis.layers)
        self.scope = Scope(self.callees, frozenset(loop.index.letter for loop in loops(layer.body)))
        self.turn: dict[str, Linear] = {}
        self.loops: Loops = ()
        self.cases: frozenset[Case] = frozenset()
        self.steps: list[Step] = []
        self.passed: dict[Anchor, Loops] = {}  # what a tensor that loops change is before any turn, and after the last
        self.weights = {weight.name for weight in layer.weights if weight.kind != "instance"}
        self.formulas = formulas(layer, self.time)
        self.env: dict[tuple[str, bool], Definition] = {}
        self.inputs: dict[str, Anchor] = {}
        self.values: dict[Expression, Value] = {}  # of the expressions of one equation
        for formal, value, number in zip(layer.formals, given, numbers, strict=True):
            definition = self.definition(formal.name, formal, value, number)
            if definition.anchor is not None:
                self.inputs[formal.name] = definition.anchor
            self.env[_key(formal)] = definition
        self.statements(layer.body)

    @property
    def output(self) -> Definition:
        """What the body gives."""
        return self.env[_key(self.layer.output)]

    # ------------------------------------------------------------------------------------------------- statements

    def statements(self, body: tuple[Statement, ...]) -> None:
        """The statements in order."""
        for statement in body:
            match statement:
                case Equation():
                    self.equation(statement)
                case Loop() if self.analysis.unroll:
                    for number in range(int(self.analysis.legend.number(statement.count))):
                        self.turn[statement.index.letter] = Linear.number(number)
                        self.statements(statement.body)
                    self.turn.pop(statement.index.letter, None)
                case Loop():
                    self.loop(statement)
                case _:
                    assert_never(statement)

    def loop(self, loop: Loop) -> None:
        """All turns at once: what holds before each of them is what holds before the first and after any."""
        letter, around = loop.index.letter, self.loops
        self.turn[letter], self.loops = Linear.index(letter), (*around, (letter, loop.count))
        changed = {_key(equation.left) for equation in equations(loop.body)} & self.env.keys()
        unknown = self.somewhere()
        for turn in itertools.count(1):
            before = {key: self.any_turn(key, self.env[key]) for key in changed}
            self.env |= before
            steps = len(self.steps)
            self.statements(loop.body)
            after = {key: self.past_turn(self.env[key], letter) for key in changed}
            if all(self.includes(before[key], after[key], unknown) for key in changed):
                break
            del self.steps[steps:]
            for key in changed:
                joined = before[key].value.join(after[key].value)
                joined = self.widened(before[key].value, joined, unknown) if turn > _MOST_TURNS else joined
                self.env[key] = replace(before[key], value=joined, anchor=before[key].anchor or after[key].anchor)
        del self.turn[letter]
        self.loops = around
        for key in {_key(equation.left) for equation in equations(loop.body)}:
            self.env[key] = self.renewed(self.past_turn(self.env[key], letter), around)

    def renewed(self, definition: Definition, loops: Loops) -> Definition:
        """A tensor as these loops leave it from turn to turn: an anchor of its own."""
        if definition.anchor is None:
            return definition
        same = self.passed.get(definition.anchor) == loops
        anchor = definition.anchor if same else Anchor(definition.anchor.name, definition.anchor.left)
        self.passed[anchor] = loops
        value = Value((Read(anchor, Linear.index(self.time)),), *_claims(definition.value))
        return replace(definition, value=value, anchor=anchor)

    def any_turn(self, key: tuple[str, bool], definition: Definition) -> Definition:
        """What a tensor that a loop changes is before some turn: some number of which nothing is known."""
        numbers = self.opaque(f"?{key[0]}~{next(self.analysis.made)}", definition.letters)
        return replace(self.renewed(definition, self.loops), numbers=numbers)

    def widened(self, before: Value, after: Value, unknown: Linear) -> Value:
        """A value of which nothing is claimed that a turn has changed; what it reads is somewhere."""
        claims = (old if old == new else ALWAYS for old, new in zip(_claims(before), _claims(after), strict=True))
        reads = after.reads
        if set(reads) - set(before.reads):
            reads = (Read(INPUT, unknown),)
        return Value(reads, *claims)

    def past_turn(self, definition: Definition, letter: str) -> Definition:
        """What a turn leaves, for whichever number the loop's letter had."""
        some = {letter: Linear.index(self.analysis.fresh(letter))}
        numbers = tuple((frozenset(i.at(some) for i in case), linear.at(some)) for case, linear in definition.numbers)
        value = definition.value.each(lambda cases: cases_at(cases, some), lambda position: position.at(some))
        return replace(definition, value=value, numbers=numbers)

    def includes(self, before: Definition, after: Definition, unknown: Linear) -> bool:
        """Is what a turn leaves one of the values that it began with?"""
        joined, known = before.value.join(after.value), set(before.value.reads)
        new = (read not in known for read in after.value.reads)
        told = before.anchor is not None or Read(INPUT, unknown) in known or not any(new)
        return told and _claims(joined) == _claims(before.value)

    def equation(self, equation: Equation) -> None:
        """What an equation defines; with `=` it may read itself at earlier positions."""
        left, key = equation.left, _key(equation.left)
        turns = (f"{{{letter}}}" if turn.value is None else turn.value for letter, turn in self.turn.items())
        self.step = step = Step(equation, ".".join(f"blocks.{turn}" for turn in turns), self.loops)
        self.steps.append(step)
        self.values = {}
        anchor = Anchor(left.name, left)
        if equation.relation == "=":
            step.recurrent = any(isinstance(x, Tensor) and _key(x) == key for x in subexpressions(equation.right))
            itself = self.definition(left.name, left, self.analysis.given(), anchor=anchor)
            self.env[key] = itself if itself.anchor is not None else replace(itself, value=PLAIN)
            value = self.value(equation.right)
            if itself.anchor is None and step.recurrent:
                value = self.earlier_too(value, itself)
        else:
            value = self.value(equation.right)
        if not value.zero and value.nonzero != ALWAYS:
            value = replace(value, zero=self.vanishes(equation.right, value))
        numbers = () if step.recurrent else self.numbers(equation.right)
        self.env[key] = self.definition(left.name, left, value, numbers, anchor)
        step.anchor, step.reads = self.env[key].anchor, value.reads
        if step.anchor is not None:
            self.analysis.needs(value.reads, self.time, left if equation.relation != "return" else equation.right)

    def definition(
        self, name: str, left: Tensor | Name, value: Value, numbers: Numbers = (), anchor: Anchor | None = None
    ) -> Definition:
        """A left side or a formal with its value: an anchor where its only position is the one computed, and inputs decide."""
        slots = left.slots if isinstance(left, Tensor) else ()
        letters = tuple(slot.letter if isinstance(slot, Index) else None for slot in slots)
        numbers = numbers or self.opaque(f"{self.layer.name}.{name}~{len(self.steps)}", letters)
        times = [letter for letter in slot_letters(left) if self.analysis.is_time(letter)]
        if times != [self.time] or self.time not in letters or not self.analysis.tells(value, name in self.formulas):
            return Definition(letters, value, numbers)
        anchor = anchor or Anchor(name, left)
        read = Read(anchor, Linear.index(self.time), at=left)
        claims = (_of_own_letters(claim) for claim in _claims(value))  # else they grow from line to line
        return Definition(letters, Value((read,), *claims), numbers, anchor)

    def opaque(self, name: str, letters: tuple[str | None, ...]) -> Numbers:
        """Some number, the same wherever the letters are."""
        arguments = tuple(Linear.index(letter) for letter in letters if letter is not None)
        whole = None not in letters
        return ((frozenset(), Linear.atom(Atom("data", name, arguments))),) if whole else ()

    def earlier_too(self, value: Value, itself: Definition) -> Value:
        """A recurrence over all visible positions reads at each what it reads at any before."""
        (letter,) = {letter for letter in itself.letters if letter and self.analysis.is_time(letter)} or {self.time}
        some = self.analysis.fresh(letter)
        earlier = compare("<=", Linear.index(some), Linear.index(letter))
        reads = _at(value, {letter: Linear.index(some)}).where(earlier)
        return Value(merged(value.reads, reads))

    def somewhere(self) -> Linear:
        """A position of which nothing is known."""
        return Linear.atom(Atom("data", f"?{next(self.analysis.made)}"))

    # ------------------------------------------------------------------------------------------------ expressions

    def value(self, e: Expression) -> Value:
        """What is known of e, in this equation the same wherever it stands."""
        value = self.values.get(e)
        if value is None:
            value = self.values[e] = self.value_of(e)
        return value

    def value_of(self, e: Expression) -> Value:
        """The same, followed."""
        match e:
            case Number():
                return _number(e.value)
            case Name() if _key(e) in self.env:
                return self.read(e, self.env[_key(e)], ())
            case Name():
                return self.named(e)
            case Index():
                return PLAIN
            case Tensor():
                return self.tensor(e)
            case Group():
                return Value(merged(*(self.value(member).reads for member in e.members)))
            case Sum():
                return _sum([self.value(term) for term in e.terms])
            case Product():
                return self.product(e)
            case Quotient():
                return self.quotient(e)
            case Power():
                return self.power(e)
            case Apply():
                return self.apply(e)
            case _:
                assert_never(e)

    def named(self, e: Name) -> Value:
        """A size or a scalar."""
        try:
            return _number(float(self.analysis.legend.number(e)))
        except (EinformerError, ValueError, OverflowError):
            return PLAIN

    def tensor(self, e: Tensor) -> Value:
        """A tensor of this body, or a weight or scalar; its slots read too."""
        selecting = merged(*(self.value(slot).reads for slot in e.slots if not isinstance(slot, Index)))
        definition = self.env.get(_key(e))
        value = self.read(e, definition, e.slots) if definition is not None else self.constant(e)
        return replace(value, reads=merged(value.reads, selecting)) if selecting else value

    def constant(self, e: Tensor) -> Value:
        """A weight, or a scalar with indices, which may be infinite where one of the numbers that it chooses from is."""
        scalar = self.analysis.legend.scalars.get(e.name)
        if e.name in self.weights or scalar is None:
            return PLAIN
        low, high = (any(_may_be(infinity, x) for x in branches(scalar.value)) for infinity in (-math.inf, math.inf))
        return replace(PLAIN, low=ALWAYS if low else NEVER, high=ALWAYS if high else NEVER)

    def read(self, e: Tensor | Name, definition: Definition, slots: tuple[Expression, ...]) -> Value:
        """A tensor at the numbers in its slots."""
        letters = {letter: slot for letter, slot in zip(definition.letters, slots, strict=True) if letter is not None}
        moved = {letter: slot for letter, slot in letters.items() if slot != Index(letter)}
        if self.time in moved and definition.anchor is None and len([x for x in letters if self.analysis.is_time(x)]) > 1:
            self.analysis.crossed(e, definition) if isinstance(e, Tensor) and definition.value.reads else None
        values = [self.instance(definition.value, at, case) for at, case in self.places(moved)]
        joined = values[0]
        for value in values[1:]:
            joined = joined.join(value)
        computed = any(isinstance(x, Tensor | Apply) for slot in moved.values() for x in subexpressions(slot))
        reads = [Read(read.anchor, read.position, read.cases, read.computed or computed, e) for read in joined.reads]
        return replace(joined, reads=tuple(reads))

    def places(self, slots: Mapping[str, Expression]) -> Iterator[tuple[dict[str, Linear], Conjunction]]:
        """The numbers in some slots, case by case."""
        cases = [self.numbers(slot) or ((frozenset(), self.somewhere()),) for slot in slots.values()]
        if math.prod(map(len, cases)) > MOST_CASES:
            cases = [((frozenset(), self.somewhere()),) for _ in cases]
        for chosen in itertools.product(*cases):
            yield (
                dict(zip(slots, (linear for _, linear in chosen), strict=True)),
                frozenset().union(*(case for case, _ in chosen)),
            )

    def instance(self, value: Value, at: Mapping[str, Linear], case: Conjunction) -> Value:
        """A value at these numbers of its letters; letters for some number become others."""
        held = {letter for read in value.reads for letter in read.position.letters() | letters_of(read.cases)}
        held |= letters_of(value.nonzero | value.alive | value.low | value.high | value.zero)
        some = {letter: Linear.index(self.analysis.fresh(letter)) for letter in sorted(held) if "~" in letter}
        moved = _at(value, {**at, **some}) if at or some else value
        within: Cases = frozenset((case,))
        return moved.each(lambda cases: both(cases, within), lambda position: position) if case else moved

    def product(self, e: Product) -> Value:
        """Zero where a factor is, unless another is infinite there; each factor matters only where none is zero."""
        factors = [self.value(factor) for factor in e.factors]
        wild = either(*(factor.wild for factor in factors))
        nonzero = either(both(*(factor.nonzero for factor in factors)), wild)
        reads = merged(*(factor.where(nonzero) for factor in factors))
        if not wild:
            return Value(reads, nonzero)
        signs = [self.sign(factor) for factor in e.factors]
        unknown = [factor for factor, sign in zip(factors, signs, strict=True) if not sign]
        if len(unknown) == 1 and math.prod(sign for sign in signs if sign) > 0:
            return Value(reads, nonzero, unknown[0].alive, unknown[0].low, unknown[0].high)
        if len(unknown) == 1:
            return Value(reads, nonzero, ALWAYS, unknown[0].high, unknown[0].low)
        return Value(reads, nonzero, ALWAYS, wild, wild)

    def quotient(self, e: Quotient) -> Value:
        """A numerator over what is zero at most where its cases say so."""
        top, bottom = self.value(e.numerator), self.value(e.denominator)
        wild = either(top.wild, bottom.wild, self.undefined(e.denominator, bottom))
        nonzero = either(top.nonzero, wild)
        reads = merged(top.where(nonzero), bottom.where(nonzero))
        if wild and self.sign(e.denominator) > 0:
            return Value(reads, nonzero, top.alive, top.low, top.high)
        return Value(reads, nonzero, ALWAYS, wild, wild)

    def power(self, e: Power) -> Value:
        """Zero where its base is, for a positive exponent."""
        base, exponent = self.value(e.base), self.value(e.exponent)
        reads, wild = merged(base.reads, exponent.reads), either(base.wild, exponent.wild)
        if self.sign(e.exponent) > 0:
            return Value(reads, base.nonzero, ALWAYS, wild, wild)
        wild = either(wild, self.undefined(e.base, base))
        return Value(reads, ALWAYS, ALWAYS, wild, wild)

    def undefined(self, e: Expression, value: Value) -> Cases:
        """Where one divides by zero, unless data decide that; a formula is one of sizes by which one can divide."""
        cases = (case for case in self.vanishes(e, value) if not of_data(case))
        return self.facts.holding(frozenset(c for c in cases if not self.facts.letters or letters_of(frozenset((c,)))))

    def vanishes(self, e: Expression, value: Value) -> Cases:
        """Where e is zero, by what the text says of it."""
        if self.numeric(e):
            return self.condition(Apply("==", (), (e, Number(0))))
        if value.nonzero == ALWAYS:
            return NEVER
        match e:
            case Tensor() | Name():
                return value.zero
            case Product():
                return either(*(self.vanishes(factor, self.value(factor)) for factor in e.factors))
            case Quotient():
                return self.vanishes(e.numerator, self.value(e.numerator))
            case Sum():
                return both(*(self.vanishes(term, self.value(term)) for term in e.terms))
            case Apply("where", (), (condition, then, otherwise)):
                taken = [(x, self.facts.holding(self.condition(condition, c))) for x, c in ((then, True), (otherwise, False))]
                return either(*(both(cases, self.vanishes(x, self.value(x))) for x, cases in taken if cases))
            case Apply("exp", (), (argument,)):
                return self.value(argument).low
            case Apply("sum", indices, (argument,)):
                return self.nowhere_else(self.vanishes(argument, self.value(argument)), e, [index.letter for index in indices])
        return ALWAYS

    def nowhere_else(self, zero: Cases, e: Apply, letters: list[str]) -> Cases:
        """Where a sum is zero: where each of its terms is, those at the own position and at the first number among them."""
        own = [Linear.index(x) for x in self.scope.free(e) if self.analysis.is_time(x)]
        places = [Linear.number(0), *own]
        return both(
            *(cases_at(zero, {x: place if self.analysis.is_time(x) else Linear.number(0) for x in letters}) for place in places)
        )

    def sign(self, e: Expression) -> int:
        """1 for a positive finite number, -1 for a negative one, 0 for anything else."""
        if not self.numeric(e):
            return 0
        for sign, name in ((1, "<="), (-1, ">=")):
            if not self.facts.holding(self.condition(Apply(name, (), (e, Number(0))))):
                return sign if not self.value(e).wild else 0
        return 0

    def numeric(self, e: Expression) -> bool:
        """Is e made of numbers, sizes, scalars and indices alone?"""
        return not any(isinstance(x, Tensor | Name) and _key(x) in self.env for x in subexpressions(e)) and not any(
            (isinstance(x, Tensor) and x.name in self.weights)
            or (isinstance(x, Apply) and (x.indices or x.name in self.callees))
            for x in subexpressions(e)
        )

    # -------------------------------------------------------------------------------------------------- operators

    def apply(self, e: Apply) -> Value:
        """A call, an operator over indices, or a function."""
        if e.name in self.callees:
            return self.call(e)
        if e.name == "where":
            return self.where(e)
        if e.name in CONDITIONS and not e.indices:
            arguments = map(self.value, e.arguments)
            nonzero, zero = self.condition(e), self.condition(e, False)
            return Value(merged(*(argument.reads for argument in arguments)), nonzero, zero=zero)
        arguments_ = [self.value(argument) for argument in e.arguments]
        return self.operator(e, arguments_) if e.indices else self.function(e, arguments_)

    def where(self, e: Apply) -> Value:
        """A branch matters where the condition may take it; one that it never takes does not exist (R8)."""
        condition, then, otherwise = e.arguments
        holding = [(x, c, self.facts.holding(self.condition(condition, c))) for x, c in ((then, True), (otherwise, False))]
        taken = [(branch, holds, cases) for branch, holds, cases in holding if cases]
        turning = len(taken) == 2 and set(self.scope.free(condition)) <= self.turn.keys()
        branches, cases_, values = [], self.cases, self.values
        for branch, holds, cases in taken:
            if turning and self.numeric(condition):
                self.cases, self.values = cases_ | {Case(condition, holds)}, {}
            elif turning and not all(map(of_data, cases)):
                self.analysis.unclear(condition)
            value, self.cases, self.values = self.value(branch), cases_, values
            narrow = value.each(lambda own, cases=cases: both(own, cases), lambda position: position)  # type: ignore[misc]
            branches.append(narrow)
        joined = branches[0] if len(branches) == 1 else branches[0].join(branches[1]) if branches else PLAIN
        reads = self.value(condition).reads if len(branches) == 2 else ()
        return replace(joined, reads=merged(joined.reads, reads))

    def function(self, e: Apply, arguments: list[Value]) -> Value:
        """A function of values, of which the table says what it is at zero and at -inf."""
        reads = merged(*(argument.reads for argument in arguments))
        if e.name in ("min", "max"):
            first, second = arguments if e.name == "max" else [_negative(argument) for argument in arguments]
            larger = Value(
                reads,
                either(first.nonzero, second.nonzero),
                either(first.alive, second.alive),
                both(first.low, second.low),
                either(first.high, second.high),
            )
            return larger if e.name == "max" else replace(_negative(larger), nonzero=larger.nonzero)
        argument, wild = arguments[0], either(*(argument.wild for argument in arguments))
        row = row_of(e.name, False)
        if 1 not in row.arity:
            return Value(reads, ALWAYS, ALWAYS, wild, wild)
        matters = argument.nonzero if row.at_zero is not None else ALWAYS  # what it is at 0 and at -inf no data decide
        matters = both(matters, argument.alive) if row.at_minus_infinity is not None else matters
        nonzero = argument.nonzero if row.at_zero == 0 else ALWAYS
        nonzero = both(nonzero, argument.alive) if row.at_minus_infinity == 0 else nonzero
        vanishing = row.at_zero == -math.inf and argument.nonzero != ALWAYS
        finite = row.at_minus_infinity is not None and math.isfinite(row.at_minus_infinity)
        return Value(
            merged(argument.where(matters), *(other.reads for other in arguments[1:])),
            nonzero,
            argument.nonzero if row.at_zero == -math.inf else ALWAYS,
            ALWAYS if vanishing else NEVER if finite else wild,
            argument.high if finite else wild,
        )

    def operator(self, e: Apply, arguments: list[Value]) -> Value:
        """An operator over indices: elements that do not matter to it are not read, how many matter is."""
        letters, argument = [index.letter for index in e.indices], arguments[-1]
        row = row_of(e.name, True)
        if row.looks_back and self.time in letters:
            self.step.sums.append(e)
            return Value(argument.reads)
        matter = (
            {-math.inf: argument.alive, 0: argument.nonzero}.get(row.neutral, ALWAYS) if row.neutral is not None else ALWAYS
        )
        times = [letter for letter in letters if self.analysis.is_time(letter)]
        count = tuple(Read(None, Linear.index(letter), matter, at=e) for letter in times if not row.looks_back)
        some = {letter: Linear.index(self.analysis.fresh(letter)) for letter in letters}
        others = merged(*(other.reads for other in arguments[:-1]))
        inner = _at(Value((*argument.where(matter), *count), *_claims(argument)), some)
        inner = replace(inner, reads=merged(inner.reads, others))
        if row.looks_back:
            earlier = both(*(compare("<=", some[letter], Linear.index(letter)) for letter in times))
            inner = replace(inner, reads=inner.where(earlier))
        own = [x for x in self.scope.free(e) if self.analysis.is_time(x) and x not in letters]
        if times and len(own) == 1:
            self.analysis.needs(inner.reads, own[0], e)
            if e.name in ("Sm", "top"):
                self.analysis.sees(argument.low, own[0], times, e)
        match e.name:
            case "Sm":
                return Value(inner.reads, argument.alive, high=inner.high)
            case "sum" | "mean" | "var":
                return Value(inner.reads, either(inner.nonzero, inner.wild), ALWAYS, inner.wild, inner.wild)
            case "max" | "lse":
                return Value(inner.reads, inner.nonzero if e.name == "max" else ALWAYS, inner.alive, inner.low, inner.high)
            case _:
                return Value(inner.reads, ALWAYS, ALWAYS, inner.wild, inner.wild)

    def call(self, e: Apply) -> Value:
        """A layer of values: inside, what is given at the position being computed is an anchor of its own."""
        layer = self.callees[e.name]
        values = [self.value(argument) for argument in e.arguments]
        numbers = [_alone(self.numbers(argument)) for argument in e.arguments]
        given: dict[str, tuple[Value, Anchor | None]] = {}
        for k, (formal, argument) in enumerate(zip(layer.formals, e.arguments, strict=True)):
            times = [letter for letter in slot_letters(formal) if self.analysis.is_time(letter)]
            if times == [self.time] and self.analysis.tells(values[k], formula=False):
                self.analysis.needs(values[k].reads, self.time, argument)
                given[formal.name] = values[k], self.as_it_stands(argument)
                values[k] = self.analysis.given(values[k])
        body = self.analysis.body(layer, tuple(values), tuple(numbers))
        over = {formal.name: {x for x in slot_letters(formal) if self.analysis.is_time(x)} for formal in layer.formals}
        seen = (name for name, value in zip(over, values, strict=True) if value.reads and over[name] - {self.time})
        self.step.calls.append(Call(e, body, given, tuple(seen), self.cases))
        output = self.instance(body.output.value, {}, frozenset())
        if body.output.anchor is not None:
            output = replace(output, reads=(Read(body.output.anchor, Linear.index(self.time), at=e),))
        return _apart(output, next(self.analysis.made))

    def as_it_stands(self, e: Expression) -> Anchor | None:
        """The anchor that an argument is, at its own position."""
        definition = self.env.get(_key(e)) if isinstance(e, Tensor) else None
        if definition is None or definition.anchor is None or not isinstance(e, Tensor):
            return None
        plain_slots = all(isinstance(slot, Index) for slot in e.slots)
        return definition.anchor if plain_slots and e.slots[definition.letters.index(self.time)] == Index(self.time) else None

    # -------------------------------------------------------------------------------------------- numbers, conditions

    def numbers(self, e: Expression) -> Numbers:
        """The number that e is, case by case; () where it is none that arithmetic follows."""
        numbers = tuple(itertools.islice(self.numbers_of(e), MOST_CASES + 1))
        long = len(numbers) > MOST_CASES or any(atoms_in(linear) > _MOST_ATOMS for _, linear in numbers)
        return () if long else numbers

    def numbers_of(self, e: Expression) -> Iterable[tuple[Conjunction, Linear]]:
        """The same, of any length."""
        match e:
            case Number():
                return ((frozenset(), Linear.number(e.value)),)
            case Index():
                return ((frozenset(), self.turn.get(e.letter) or Linear.index(e.letter)),)
            case Name() if _key(e) in self.env:
                return self.env[_key(e)].numbers
            case Name():
                return self.number_named(e)
            case Tensor() if _key(e) in self.env:
                return self.numbers_read(e)
            case Tensor():
                return self.numbers_constant(e)
            case Group():
                return self.numbers_group(e)
            case Sum():
                return _combined(_total, map(self.numbers, e.terms))
            case Product():
                return _combined(_times, map(self.numbers, e.factors))
            case Quotient():
                return _combined(_divided, (self.numbers(e.numerator), self.numbers(e.denominator)))
            case Power(exponent=Number(value=int() as times)) if 0 < times < 5:
                return _combined(_times, itertools.repeat(self.numbers(e.base), times))
            case Power():
                return _combined(_power, (self.numbers(e.base), self.numbers(e.exponent)))
            case Apply():
                return self.numbers_applied(e)
            case _:
                return ()

    def number_named(self, e: Name) -> Numbers:
        """A size, a scalar or a constant; a scalar made of sizes that are open is its formula."""
        scalar = self.analysis.legend.scalars.get(e.name)
        if e.name in CONSTANTS:
            return ((frozenset(), Linear.number(CONSTANTS[e.name])),)
        if scalar is not None and not self.facts.letters and not isinstance(scalar.value, tuple):
            try:
                return ((frozenset(), Linear.number(self.analysis.legend.number(e))),)
            except (EinformerError, ValueError, OverflowError):
                return self.numbers(scalar.value)
        return ((frozenset(), Linear.atom(Atom("size", e.name))),)

    def numbers_read(self, e: Tensor) -> Iterator[tuple[Conjunction, Linear]]:
        """A tensor of this body at the numbers in its slots."""
        definition = self.env[_key(e)]
        slots = {letter: slot for letter, slot in zip(definition.letters, e.slots, strict=True) if letter is not None}
        for at, case in self.places({letter: slot for letter, slot in slots.items() if self.moves(letter, slot)}):
            for own, linear in definition.numbers:
                yield frozenset(i.at(at) for i in own) | case, linear.at(at)

    def moves(self, letter: str, slot: Expression) -> bool:
        """Is a slot any other number than that of its letter?"""
        return letter in self.turn or slot != Index(letter)

    def numbers_constant(self, e: Tensor) -> Iterable[tuple[Conjunction, Linear]]:
        """A scalar with indices, or an element of a weight."""
        scalar = self.analysis.legend.scalars.get(e.name)
        table = scalar is not None and e.name not in self.weights
        if scalar is not None and table and not isinstance(scalar.value, tuple) and not self.facts.letters:
            pairs = zip((index.letter for index in scalar.indices), e.slots, strict=True)
            slots = {letter: slot for letter, slot in pairs if self.moves(letter, slot)}
            formula = self.numbers(scalar.value)
            return [
                (frozenset(i.at(at) for i in own) | case, linear.at(at))
                for at, case in self.places(slots)
                for own, linear in formula
            ]
        kind, name = ("table", e.name) if table else ("data", f"{self.layer.name}.{e.name}")
        numbered = enumerate(e.slots)
        return [
            (case, Linear.atom(Atom(kind, name, tuple(at.values()))))  # type: ignore[arg-type]
            for at, case in self.places({str(k): slot for k, slot in numbered})
        ]

    def numbers_group(self, e: Group) -> Iterable[tuple[Conjunction, Linear]]:
        """`(ae)` is a H + e."""
        total: Numbers = ((frozenset(), Linear.number(0)),)
        for member in e.members:
            letters = [x.letter for x in subexpressions(member) if isinstance(x, Index)]
            length = self.facts.length(letters[0]) if len(letters) == 1 else None
            if length is None:
                return ()
            total = tuple(_combined(lambda parts, size=length: parts[0] * size + parts[1], (total, self.numbers(member))))  # type: ignore[misc]
        return total

    def numbers_applied(self, e: Apply) -> Iterable[tuple[Conjunction, Linear]]:
        """A function of numbers: one that chooses between them has a case for each."""
        if e.indices or e.name in self.callees:
            return ()
        match e.name, e.arguments:
            case "where", (condition, then, otherwise):
                return self.chosen(condition, then, otherwise)
            case "max", (first, second):
                return self.chosen(Apply(">=", (), (first, second)), first, second)
            case "min", (first, second):
                return self.chosen(Apply("<=", (), (first, second)), first, second)
            case "abs", (argument,):
                return self.chosen(Apply(">=", (), (argument, Number(0))), argument, Product((Number(-1), argument)))
            case "relu", (argument,):
                return self.chosen(Apply(">=", (), (argument, Number(0))), argument, Number(0))
            case "floor", (argument,):
                return _combined(_floor, (self.numbers(argument),))
            case "ceil", (argument,):
                return _combined(_ceil, (self.numbers(argument),))
            case "mod", (number, divisor):
                return _combined(_mod, (self.numbers(number), self.numbers(divisor)))
            case name, (argument,) if (row := primitive(name, False)) is not None and row.python and not row.condition:
                return _combined(functools.partial(_function, name), (self.numbers(argument),))
        return ()

    def chosen(self, condition: Expression, then: Expression, otherwise: Expression) -> Iterator[tuple[Conjunction, Linear]]:
        """One of two numbers."""
        branches = [(self.condition(condition, holds), self.numbers(e)) for e, holds in ((then, True), (otherwise, False))]
        if all(numbers or not cases for cases, numbers in branches):
            for cases, numbers in branches:
                for case, (own, linear) in itertools.product(cases, numbers):
                    yield case | own, linear

    def condition(self, e: Expression, holds: bool = True) -> Cases:
        """The cases in which a condition may hold, or may not."""
        match e:
            case Apply("not", (), (inner,)):
                return self.condition(inner, not holds)
            case Apply("and" | "or", (), (first, second)):
                parts = self.condition(first, holds), self.condition(second, holds)
                return both(*parts) if (e.name == "and") == holds else either(*parts)
            case Apply(name, (), (left, right)) if name in COMPARISONS:
                return self.comparison(name if holds else OPPOSITE[name], left, right)
            case Tensor() | Name() if _key(e) in self.env:
                value = self.read(e, self.env[_key(e)], e.slots if isinstance(e, Tensor) else ())
                return value.nonzero if holds else value.zero or UNDECIDED
            case _:
                return UNDECIDED

    def comparison(self, name: str, left: Expression, right: Expression) -> Cases:
        """A comparison of two numbers; of anything else both verdicts are possible."""
        pairs = tuple(itertools.product(self.numbers(left), self.numbers(right)))
        if not pairs or len(pairs) > MOST_CASES:
            return ALWAYS if self.numeric(left) and self.numeric(right) else UNDECIDED
        return either(*(both(frozenset((a | b,)), compare(name, one, other)) for (a, one), (b, other) in pairs))


def formulas(layer: Layer, time: str) -> set[str]:
    """The tensors of a body that can be computed at any position: one line each, of numbers, weights and such tensors."""
    lines = Counter(equation.left.name for equation in equations(layer.body))
    names = {formal.name for formal in layer.formals if time not in slot_letters(formal)}
    own = lines.keys() | {formal.name for formal in layer.formals}
    for equation in equations(layer.body):
        inside = {e.name for e in subexpressions(equation.right) if isinstance(e, Tensor | Name)}
        if lines[equation.left.name] == 1 and inside & own <= names:
            names.add(equation.left.name)
    return names


def _key(e: Expression) -> tuple[str, bool]:
    """A tensor and a bare name of one letter are two (R1)."""
    return (e.name, bool(e.slots)) if isinstance(e, Tensor) else (e.name if isinstance(e, Name | Apply) else "", False)


def _depends(value: Value) -> bool:
    """Does a value depend on an input, or on its own past?"""
    return any(read.anchor is not None for read in value.reads)


def _of_own_letters(cases: Cases) -> Cases:
    """The cases without what they say of some number of an index: a weaker claim, and a shorter one."""
    kept = (frozenset(i for i in case if not any("~" in x for x in i.linear.letters())) for case in cases)
    return either(frozenset(kept))


def _claims(value: Value) -> tuple[Cases, Cases, Cases, Cases, Cases]:
    return value.nonzero, value.alive, value.low, value.high, value.zero


def _at(value: Value, numbers: Mapping[str, Linear]) -> Value:
    return value.each(lambda cases: cases_at(cases, numbers), lambda position: position.at(numbers))


def _apart(value: Value, call: int) -> Value:
    """The value with elements of data that are this call's alone."""

    def named(atom: Atom) -> Linear:
        name = f"{atom.name}@{call}" if atom.kind == "data" else atom.name
        return Linear.atom(Atom(atom.kind, name, tuple(argument.mapped(named) for argument in atom.arguments)))

    def changed(cases: Cases) -> Cases:
        if not any(atom.kind == "data" for case in cases for inequality in case for atom in inequality.linear.atoms()):
            return cases
        return frozenset(frozenset(i._replace(linear=i.linear.mapped(named)) for i in case) for case in cases)

    return value.each(changed, lambda position: position)


def _alone(numbers: Numbers) -> Numbers:
    """Numbers that say more than that they are some element of data."""
    return () if any(atom.kind == "data" for _, linear in numbers for atom in linear.atoms()) and len(numbers) == 1 else numbers


def _number(value: float) -> Value:
    known, zero = (ALWAYS, NEVER) if value else (NEVER, ALWAYS)
    low, high = (ALWAYS if value == infinity else NEVER for infinity in (-math.inf, math.inf))
    return Value((), known, NEVER if value == -math.inf else ALWAYS, low, high, zero)


def _may_be(infinity: float, e: Expression) -> bool:
    """Is it this infinity, or computed from an infinity of either sign?"""
    if isinstance(e, Number):
        return e.value == infinity
    return any(isinstance(x, Number) and math.isinf(x.value) for x in subexpressions(e))


def _negative(value: Value) -> Value:
    """-x, where only the infinities matter."""
    return replace(value, alive=ALWAYS, low=value.high, high=value.low)


def _sum(terms: list[Value]) -> Value:
    """-inf swallows what is finite, and one zero alone is zero."""
    return Value(
        merged(*(term.reads for term in terms)),
        either(*(term.nonzero for term in terms)),
        either(both(*(term.alive for term in terms)), *(term.high for term in terms)),
        either(*(term.low for term in terms)),
        either(*(term.high for term in terms)),
    )


def _combined(
    f: Callable[[tuple[Linear, ...]], Linear | None], parts: Iterable[Numbers]
) -> Iterator[tuple[Conjunction, Linear]]:
    """f of numbers, case by case; nothing where a part is no number."""
    known: list[Numbers] = []
    for part in parts:
        if not part:
            return
        known.append(part)
    for chosen in itertools.product(*known):
        value = f(tuple(linear for _, linear in chosen))
        if value is not None:
            yield frozenset().union(*(case for case, _ in chosen)), value


def _total(parts: tuple[Linear, ...]) -> Linear:
    return sum(parts[1:], start=parts[0])


def _times(parts: tuple[Linear, ...]) -> Linear:
    product = parts[0]
    for part in parts[1:]:
        product = product * part
    return product


def _divided(parts: tuple[Linear, ...]) -> Linear | None:
    top, bottom = parts
    value = bottom.value
    if value is not None:
        return top * Fraction(1, value) if value else None
    return top * _inverse(bottom)


def _inverse(bottom: Linear) -> Linear:
    if len(bottom.terms) == 1:
        ((monomial, factor),) = bottom.terms
        if all(atom.kind == "size" for atom, _ in monomial):
            return Linear.of({frozenset((atom, -power) for atom, power in monomial): Fraction(1, factor)})
    return Linear.atom(Atom("function", "/", (bottom,)))


def _power(parts: tuple[Linear, ...]) -> Linear | None:
    base, exponent = (part.value for part in parts)
    if base is None or exponent is None:
        return Linear.atom(Atom("function", "^", parts))
    try:
        return Linear.number(float(base) ** float(exponent)) if base > 0 else None
    except OverflowError:
        return None


def _function(name: str, parts: tuple[Linear, ...]) -> Linear | None:
    (argument,) = parts
    if argument.value is None:
        return Linear.atom(Atom("function", name, parts))
    try:
        return Linear.number(NUMERIC[name](argument.value))
    except (ValueError, OverflowError, ZeroDivisionError):
        return None


def _floor(parts: tuple[Linear, ...]) -> Linear:
    return simplified(Atom("function", "floor"), parts)


def _ceil(parts: tuple[Linear, ...]) -> Linear:
    return _floor((parts[0] * -1,)) * -1


def _mod(parts: tuple[Linear, ...]) -> Linear | None:
    number, divisor = parts
    if divisor.value == 0:
        return None
    quotient = _divided((number, divisor))
    return number - divisor * _floor((quotient,)) if quotient is not None else None
