"""What each value needs of each position (R10): bounds that prove causality and say what decoding keeps.

A function is followed line by line. A tensor with a number for each position being computed is an *anchor*. Every value knows
which anchors it reads, at which position, and in which cases; and outside which cases it is zero or -inf, so that reads which a
mask excludes have cases without a solution. Tensors over other positions (masks, scores) are looked through. All cases are
supersets: what they exclude does not happen. Nothing is sampled.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from einformer.errors import NOWHERE, Span
from einformer.language.calls import axis_of
from einformer.language.primitives import CONDITIONS, row_of
from einformer.language.sizes import Legend
from einformer.language.tree import Expression, Number
from einformer.language.walk import subexpressions
from einformer.program import operations as op
from einformer.program.arithmetic import UNDECIDED, UNSURE, ZERO, Numbers, Reader, spell
from einformer.program.inequalities import (
    ALWAYS,
    NEVER,
    Atom,
    Cases,
    Conjunction,
    Facts,
    Inequality,
    Linear,
    both,
    branches,
    cases_at,
    compare,
    data_in,
    data_of,
    either,
    letters_of,
    map_data,
    of_data,
    plain,
    without_some,
)
from einformer.program.operations import Carried, Function, Line, Turns, Value
from einformer.program.rewrite import walk, walk_lines
from einformer.program.turns import Case, Loops

_MOST_TURNS = 4  # of a loop whose masks change, before nothing is claimed of them


@dataclass(frozen=True, slots=True, eq=False)
class Anchor:
    """A tensor with a number for each position being computed, as one line, one call or the turns of a loop leave it."""

    line: Line
    loops: Loops | None = None  # those that changed it, where it is what their turns leave


@dataclass(frozen=True, slots=True)
class Read:
    """A read of an anchor, or of how many positions there are: at a position, in these cases.

    A position is `computed` where its slot holds a tensor or a function.
    """

    anchor: Anchor | None
    position: Linear
    cases: Cases = ALWAYS
    computed: bool = False
    at: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Support:
    """The reads of a value, and the cases outside which it differs from the field.

    It may be other than 0 in the cases `nonzero`, other than -inf in `alive`, other than inf in `under`; -inf in `low`, inf in
    `high`, not a number in both; 0 in `zero`, by what the text says: of data it is taken that each formula of theirs is
    defined.
    """

    reads: tuple[Read, ...] = ()
    nonzero: Cases = ALWAYS
    alive: Cases = ALWAYS
    low: Cases = NEVER
    high: Cases = NEVER
    zero: Cases = NEVER
    under: Cases = ALWAYS

    @property
    def wild(self) -> Cases:
        return either(self.low, self.high) if self.low or self.high else NEVER

    @property
    def undefined(self) -> Cases:
        """Where it may be not a number."""
        return both(self.low, self.high)

    @property
    def claims(self) -> tuple[Cases, ...]:
        return self.nonzero, self.alive, self.low, self.high, self.zero, self.under

    def each(
        self, change: Callable[[Cases], Cases], position: Callable[[Linear], Linear] = lambda position: position
    ) -> Support:
        """The support with all its cases and positions changed."""
        reads = tuple([Read(r.anchor, position(r.position), change(r.cases), r.computed, r.at) for r in self.reads])
        return Support(reads, *map(change, self.claims))

    def within(self, cases: Cases) -> Support:
        return self if cases == ALWAYS else self.each(lambda own: both(own, cases))

    def at(self, numbers: Mapping[str, Linear]) -> Support:
        return self.each(lambda cases: cases_at(cases, numbers), lambda position: position.at(numbers)) if numbers else self

    def where(self, cases: Cases) -> tuple[Read, ...]:
        """The reads where these cases hold; none that no case is left to."""
        if cases == ALWAYS:
            return self.reads
        return tuple(replace(read, cases=own) for read in self.reads if (own := both(read.cases, cases)))

    def join(self, other: Support) -> Support:
        return Support(merged(self.reads, other.reads), *map(either, self.claims, other.claims))

    def letters(self) -> set[str]:
        cases = (*self.claims, *(read.cases for read in self.reads))
        return set[str]().union(*map(letters_of, cases), *(read.position.letters() for read in self.reads))


PLAIN = Support()
INPUT = Anchor(Line("", ZERO, ()))  # stands for whatever a caller gives


def merged(*reads: Iterable[Read]) -> tuple[Read, ...]:
    """Reads, each once."""
    return tuple(dict.fromkeys(itertools.chain(*reads)))


@dataclass(frozen=True, slots=True)
class State:
    """The facts about a tensor that has a name: its support, the number that it is, its anchor."""

    support: Support
    numbers: Numbers
    anchor: Anchor | None = None


@dataclass(slots=True)
class Step:
    """A line in one turn of the loops around it, or in any: its value, its reads, its calls, and the running sums in it."""

    line: Line
    path: str
    loops: Loops
    anchor: Anchor | None = None
    reads: tuple[Read, ...] = ()
    calls: list[Call] = field(default_factory=list)
    sums: list[Value] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Call:
    """A call, and for each formal with an anchor its argument: its support, and the anchor that it is.

    `seen` are the formals over visible positions that depend on inputs; it exists in the turns in which the `cases` hold.
    """

    path: str
    span: Span
    body: Body
    given: Mapping[str, tuple[Support, Anchor | None]]
    seen: tuple[str, ...]
    cases: frozenset[Case]


@dataclass(slots=True)
class Analysis:
    """The state shared by all functions of a model. With `unroll`, loops are followed turn by turn."""

    functions: Mapping[str, Function]
    legend: Legend
    time: str
    facts: Facts
    unroll: bool = False
    proves: bool = True  # else all is defined, and claims are short
    bodies: dict[object, Body] = field(default_factory=dict)
    known: dict[str, set[Value]] = field(default_factory=dict)  # formulas
    places: dict[object, int] = field(default_factory=dict)

    def is_time(self, letter: str) -> bool:
        return axis_of(letter.partition("~")[0]) == self.time

    def model(self, name: str) -> Body:
        inputs = self.functions[name].inputs
        states = tuple(self.given() if self.time in line.value.axes else PLAIN for line in inputs)
        return self.body(name, states, tuple(() for _ in inputs))

    def given(self, support: Support = PLAIN) -> Support:
        """A value as a layer sees it that is given it at the position being computed: it depends on an input."""
        return replace(support, reads=(Read(INPUT, Linear.index(self.time)),))

    def body(self, name: str, given: tuple[Support, ...], numbers: tuple[Numbers, ...]) -> Body:
        """A function whose inputs are these; of anchors the reads are told apart by the caller."""
        key = name, given, numbers
        if key not in self.bodies:
            self.bodies[key] = Body(self, self.functions[name], given, numbers)
        return self.bodies[key]

    def formulas(self, function: Function) -> set[Value]:
        """The tensors of a function that can be computed at any position."""
        if function.name not in self.known:
            self.known[function.name] = formulas(function, self.time)
        return self.known[function.name]

    def place(self, *key: object) -> int:
        """The number of a place: of a choice, of a call in some turns, of what loses letters."""
        return self.places.setdefault(key, len(self.places))

    def chosen(self, body: Body, value: Value) -> Cases:
        """Where a `top` chooses; nobody asks."""
        return ALWAYS

    def tells(self, support: Support, formula: bool) -> bool:
        """Is a tensor over the position being computed an anchor: do inputs decide its value?"""
        return any(read.anchor is not None for read in support.reads)

    # The judgements of whoever proves something; an analysis on its own proves nothing.

    def needs(self, reads: Sequence[Read], own: str, at: Span) -> None:
        """Something at the position `own` has these reads."""

    def sees(self, low: Cases, own: str, bound: Sequence[str], at: Span) -> None:
        """An operator over the positions `bound` may be given -inf in these cases."""

    def crossed(self, name: str, at: Span) -> None:
        """A tensor over the positions being computed and visible ones is read at another position."""

    def unclear(self, at: Span) -> None:
        """It is not known in which turns this holds, which no data decide."""


class Body(Reader):
    """A function followed from its inputs to its output."""

    def __init__(
        self, analysis: Analysis, function: Function, given: tuple[Support, ...], numbers: tuple[Numbers, ...]
    ) -> None:
        super().__init__(function, analysis.facts)
        self.analysis, self.time, self.here = analysis, analysis.time, Linear.index(analysis.time)
        self.loops: Loops = ()
        self.standing: frozenset[str] = frozenset()  # the letters of the recurrences around
        self.cases: frozenset[Case] = frozenset()
        self.steps: list[Step] = []
        self.anchors: dict[Value, Anchor] = {}
        self.sources: dict[Anchor, Anchor] = {}  # of a tensor that is another one
        self.names: dict[Value, Line] = {}
        self.states: dict[Value, State] = {}
        self.supports: dict[Value, Support] = {}  # of what has no name
        self.calls: dict[Value, Call] = {}
        self.formulas = analysis.formulas(function)
        for line, support, number in zip(function.inputs, given, numbers, strict=True):
            self.define(line, support, number)
        self.inputs = {line.name: a for line in function.inputs if (a := self.states[line.value].anchor) is not None}
        self.lines(function.lines)
        self.output = self.support(function.output.value)

    # ------------------------------------------------------------------------------------------------------- lines

    def lines(self, lines: Iterable[Line | Turns]) -> None:
        for line in lines:
            if isinstance(line, Line):
                self.line(line)
            elif self.analysis.unroll:
                self.unroll_turns(line)
            else:
                self.turns(line)

    def line(self, line: Line) -> None:
        """The value of a line; a recurrence reads itself at earlier positions."""
        turns = (f"{{{letter}}}" if turn.value is None else turn.value for letter, turn in self.turn.items())
        self.step = step = Step(line, ".".join(f"blocks.{turn}" for turn in turns), self.loops)
        self.steps.append(step)
        support = self.recurrence(line) if isinstance(line.value.operation, op.Recur) else self.support(line.value)
        if line.value in self.states:
            return
        source = self.as_it_stands(line.value)
        if not support.zero:
            support = replace(support, zero=self.vanishes(line.value))
        self.define(line, support, self.numbers(line.value))
        step.anchor, step.reads = self.states[line.value].anchor, support.reads
        if step.anchor is not None and source is not None:
            self.sources[step.anchor] = source
        if step.anchor is not None and line.equation is not None:
            side = line.equation.left if line.equation.relation != "return" else line.equation.right
            self.analysis.needs(support.reads, self.time, side.span)

    def define(self, line: Line, support: Support, numbers: Numbers = ()) -> None:
        """A line or an input: an anchor where its only position is the one computed, and inputs decide."""
        numbers = numbers or self.opaque(line, f"{self.function.name}.{line.name}")
        timed = [letter for letter in line.value.axes if self.analysis.is_time(letter)] == [self.time]
        anchor = None
        if timed and (self.time,) in line.labels and self.analysis.tells(support, line.value in self.formulas):
            anchor = self.anchor(line)
            claims = map(without_some, support.claims)  # else they grow from line to line
            support = Support((Read(anchor, self.here),), *claims)
        self.names[line.value] = line
        self.state(line.value, State(support, numbers, anchor))

    def state(self, value: Value, state: State) -> None:
        self.states[value], self.known[value] = state, state.numbers

    def anchor(self, line: Line, loops: Loops | None = None) -> Anchor:
        """The anchor that a line is, in each turn that is followed another."""
        if line.value not in self.anchors:
            self.anchors[line.value] = Anchor(line, loops)
        return self.anchors[line.value]

    def opaque(self, line: Line, name: str) -> Numbers:
        """Some number, the same wherever the letters are."""
        if any(len(label) != 1 for label in line.labels):
            return ()
        arguments = tuple(Linear.index(letter) for (letter,) in line.labels)
        return ((frozenset(), Linear.atom(Atom("data", self.facts.fresh(name), arguments))),)

    def recurrence(self, line: Line) -> Support:
        """A line that reads itself at earlier positions; over all visible ones it reads at each what it reads at any before."""
        operation = line.value.operation
        assert isinstance(operation, op.Recur)
        so_far = replace(line, value=operation.so_far)
        timed = [letter for letter in line.value.axes if self.analysis.is_time(letter)]
        anchored = timed == [self.time] and (self.time,) in line.labels
        if anchored:
            self.anchors[so_far.value] = self.anchor(line)
        self.define(so_far, self.analysis.given() if anchored else PLAIN)
        around, self.standing = self.standing, self.standing | {operation.letter}
        support = self.support(operation.step)
        self.standing = around
        if anchored:
            return support
        letter, some = timed[0] if timed else self.time, self.facts.fresh(timed[0] if timed else self.time)
        earlier = compare("<=", Linear.index(some), Linear.index(letter))
        return Support(merged(support.reads, support.at({letter: Linear.index(some)}).where(earlier)))

    # ------------------------------------------------------------------------------------------------------- loops

    def unroll_turns(self, turns: Turns) -> None:
        latest = {c: self.whole_state(c.before) for c in turns.carried if c.before is not None}
        around, anchors = self.loops, self.anchors
        for number in range(int(self.legend.number(turns.loop.count))):
            self.turn[turns.letter], self.anchors = Linear.number(number), dict(anchors)
            latest = self.followed(turns, {c: state for c, state in latest.items() if c.before is not None})
        self.turn.pop(turns.letter, None)
        self.loops, self.anchors = around, anchors
        for c, state in latest.items():
            self.hold(c, c.after, state)

    def turns(self, turns: Turns) -> None:
        """All turns at once: before each of them hold the facts that hold before the first and after any."""
        around, unknown, places = self.loops, self.somewhere(), dict[tuple[str, int], Linear]()
        before = {c: self.whole_state(c.before) for c in turns.carried if c.before is not None}
        self.turn[turns.letter], self.loops = Linear.index(turns.letter), (*around, (turns.letter, turns.loop.count))
        outside = data_in(case for state in self.states.values() for cases in state.support.claims for case in cases)
        for turn in itertools.count(1):
            entering = {c: self.renew(c, c.within, state, self.opaque_turn(c)) for c, state in before.items()}
            steps = len(self.steps)
            after = {c: self.past(state, turns.letter, outside) for c, state in self.followed(turns, entering).items()}
            gathered = {c: replace(after[c].support, reads=self.gathered(after[c].support, places)) for c in before}
            if all(self.includes(entering[c], after[c].support, gathered[c].reads, unknown) for c in before):
                break
            del self.steps[steps:]
            for c in before:
                joined = entering[c].support.join(gathered[c] if turn >= _MOST_TURNS else after[c].support)
                joined = self.widen(entering[c].support, joined, unknown) if turn > _MOST_TURNS else joined
                before[c] = State(joined, (), entering[c].anchor or after[c].anchor)
        del self.turn[turns.letter]
        self.loops = around
        self.states, self.supports, self.known = self.of_turn
        for c, state in after.items():
            self.hold(c, c.after, self.renew(c, c.after, state, state.numbers))

    def followed(self, turns: Turns, entering: Mapping[Carried, State]) -> dict[Carried, State]:
        """The facts after a turn, from those before it."""
        outside = self.states, self.supports, self.known
        self.states, self.supports, self.known = dict(self.states), dict(self.supports), dict(self.known)
        for c, state in entering.items():
            self.hold(c, c.within, state)
        self.lines(turns.lines)
        after = {c: self.whole_state(c.last) for c in turns.carried}
        self.of_turn = self.states, self.supports, self.known
        self.states, self.supports, self.known = outside
        return after

    def whole_state(self, value: Value) -> State:
        """The facts about a value that a loop carries."""
        return self.states.get(value) or State(self.support(value), self.numbers(value))

    def hold(self, carried: Carried, value: Value, state: State) -> None:
        """The values that a loop carries, where a turn begins or after the last."""
        first = carried.last if carried.before is None else carried.before
        self.names[value] = replace(self.names[first], value=value)
        self.state(value, state)

    def renew(self, carried: Carried, value: Value, state: State, numbers: Numbers) -> State:
        """A tensor as these loops leave it from turn to turn: an anchor of its own."""
        if state.anchor is None:
            return replace(state, numbers=numbers)
        anchor = self.anchor(replace(state.anchor.line, value=value), self.loops)
        return State(Support((Read(anchor, self.here),), *state.support.claims), numbers, anchor)

    def opaque_turn(self, carried: Carried) -> Numbers:
        """What a tensor that a loop changes is before some turn: some number of which nothing is known."""
        assert carried.before is not None
        return self.opaque(self.names[carried.before], f"?{carried.name}")

    def widen(self, before: Support, after: Support, unknown: Linear) -> Support:
        """A support of which nothing is claimed that a turn has changed; what it reads is somewhere."""
        claims = (old if old == new else ALWAYS for old, new in zip(before.claims, after.claims, strict=True))
        reads = (Read(INPUT, unknown),) if set(after.reads) - set(before.reads) else after.reads
        return Support(reads, *claims)

    def past(self, state: State, letter: str, outside: set[Atom]) -> State:
        """The facts after a turn, for whichever number the loop's letter had, but for those about data of this turn."""
        some = {letter: Linear.index(self.facts.fresh(letter))}
        numbers = tuple((frozenset(i.at(some) for i in case), linear.at(some)) for case, linear in state.numbers)
        support = state.support.at(some).each(lambda cases: decide(cases, outside))
        return State(Support(support.reads, *map(without_some, support.claims)), numbers, state.anchor)

    def gathered(self, support: Support, places: dict[tuple[str, int], Linear]) -> tuple[Read, ...]:
        """The reads of turn after turn, whatever data decide: a place within bounds that speak of it and of known letters."""

        def gather(read: Read) -> Read:
            some = sorted((x for x in read.position.letters() if "~" in x), key=lambda x: int(x.rpartition("~")[2]))
            new = {x: places.setdefault((plain(x), k), Linear.index(self.facts.fresh(plain(x)))) for k, x in enumerate(some)}

            def is_told(i: Inequality) -> bool:
                return not of_data(frozenset((i,))) and all("~" not in x or x in new for x in i.linear.letters())

            cases = either(frozenset(frozenset(filter(is_told, case)) for case in read.cases))
            return replace(read, position=read.position.at(new), cases=cases_at(cases, new))

        return tuple(map(gather, support.reads))

    def includes(self, before: State, after: Support, gathered: tuple[Read, ...], unknown: Linear) -> bool:
        """Is the result of a turn one of the values that it began with?"""
        joined, reads = before.support.join(after), set(before.support.reads)
        new = (read not in reads and other not in reads for read, other in zip(after.reads, gathered, strict=True))
        is_settled = before.anchor is not None or Read(INPUT, unknown) in reads or not any(new)
        return is_settled and joined.claims == before.support.claims

    # ---------------------------------------------------------------------------------------------------- supports

    def support(self, value: Value) -> Support:
        if value in self.states:
            return self.states[value].support
        if value not in self.supports:
            self.supports[value] = self.follow(value)
        return self.supports[value]

    def follow(self, value: Value) -> Support:
        match value.operation:
            case op.Constant(number):
                return self.constant(number)
            case _ if value in self.scalars:
                return self.scalar(self.scalars[value].name)
            case op.Map("+", terms):
                return _sum([self.support(term) for term in terms])
            case op.Map("*", factors):
                return self.product(factors)
            case op.Map("/", (top, bottom)):
                return self.quotient(top, bottom)
            case op.Map("^", (base, exponent)):
                return self.power(base, exponent)
            case op.Map("where", (condition, then, otherwise)):
                return self.where(condition, then, otherwise)
            case op.Map(name, arguments) if name in CONDITIONS:
                reads = merged(*(self.support(argument).reads for argument in arguments))
                return Support(reads, self.condition(value), zero=self.condition(value, False))
            case op.Map(name, arguments):
                return self.function_of(name, arguments)
            case op.Einsum(letters, factors):
                return self.operator(value, "sum", letters, self.product(factors))
            case op.Reduce(name, letters, argument):
                return self.operator(value, name, letters, self.support(argument))
            case op.Spread(argument):
                return self.support(argument)
            case op.View(argument):
                return self.read(value, argument, ())
            case op.Gather(argument, slots):
                return self.read(value, argument, [slot.number for slot in slots if not _stands(slot)])
            case op.Call():
                return self.call(value, value.operation)
            case _:
                return PLAIN

    def constant(self, number: float | str) -> Support:
        value = self.facts.value(number) if isinstance(number, str) else number
        if value is None:
            return PLAIN
        nonzero, zero = (ALWAYS, NEVER) if value else (NEVER, ALWAYS)
        low, high = (ALWAYS if value == infinity else NEVER for infinity in (-math.inf, math.inf))
        alive, under = (NEVER if value == infinity else ALWAYS for infinity in (-math.inf, math.inf))
        return Support((), nonzero, alive, low, high, zero, under)

    def scalar(self, name: str) -> Support:
        """A scalar with indices, which may be infinite where one of the numbers that it chooses from is."""
        numbers = branches(self.legend.scalars[name].value)
        low, high = (any(_may_be(infinity, e) for e in numbers) for infinity in (-math.inf, math.inf))
        return Support(low=ALWAYS if low else NEVER, high=ALWAYS if high else NEVER)

    def compared(self, name: str, left: Value, right: Value) -> Cases:
        """A comparison; of what is not a number both verdicts are possible."""
        cases = super().compared(name, left, right)
        return cases if cases in (ALWAYS, UNDECIDED) else either(cases, *(self.support(x).undefined for x in (left, right)))

    def suppose(self, value: Value, holds: bool) -> Cases:
        """The facts about a condition that is not a comparison."""
        support = self.support(value)
        cases = support.nonzero if holds else support.zero
        return UNDECIDED if cases == (ALWAYS if holds else NEVER) else cases

    def read(self, value: Value, argument: Value, slots: Sequence[Value]) -> Support:
        """A value at other numbers; the slots read too."""
        support = self.support(argument)
        if support == PLAIN:
            return replace(PLAIN, reads=merged(*(self.support(slot).reads for slot in slots)))
        places = [*self.places(value)]
        self.crosses(value, argument, support, places)
        joined, *others = (self.instance(support, numbers, case) for numbers, case in places)
        for other in others:
            joined = joined.join(other)
        computed = any(map(self.is_computed, slots))
        reads = (Read(r.anchor, r.position, r.cases, r.computed or computed, value.span) for r in joined.reads)
        return replace(joined, reads=merged(reads, *(self.support(slot).reads for slot in slots)))

    def crosses(
        self, value: Value, argument: Value, support: Support, places: Sequence[tuple[Mapping[str, Linear], Conjunction]]
    ) -> None:
        """Is another position read, of a value that is over all visible positions too?"""
        state, several = self.states.get(argument), sum(map(self.analysis.is_time, argument.axes)) > 1
        here = Linear.index(self.time)
        moved = any(numbers.get(self.time, here) != here for numbers, _ in places)
        if state is not None and state.anchor is None and support.reads and several and moved:
            self.analysis.crossed(self.names[argument].name, value.span)

    def is_computed(self, number: Value) -> bool:
        """Does a slot hold a tensor or a function?"""
        match number.operation:
            case op.Iota() | op.Turn() | op.Constant():
                return False
            case op.Map("+" | "*" | "/" | "^", arguments) if number not in self.names:
                return any(map(self.is_computed, arguments))
            case _:
                return True

    def instance(self, support: Support, at: Mapping[str, Linear], case: Conjunction = frozenset()) -> Support:
        """A support at these numbers of its letters; letters for some number become others."""
        if not self.analysis.proves:
            support = support.each(without_some)
        return support.at({**at, **self.others(support.letters())}).within(frozenset((case,)))

    # -------------------------------------------------------------------------------------------------- arithmetic

    def product(self, factors: Sequence[Value]) -> Support:
        """Zero where a factor is, unless another is infinite there; each factor matters only where none is zero."""
        supports = [self.support(factor) for factor in factors]
        if len(supports) == 1:
            return supports[0]
        wild = either(*(support.wild for support in supports))
        nonzero = either(both(*(support.nonzero for support in supports)), wild)
        reads = merged(*(support.where(nonzero) for support in supports))
        if not wild:
            return Support(reads, nonzero)
        signs = [0 if support.wild else self.sign(factor) for factor, support in zip(factors, supports, strict=True)]
        unknown = [support for support, sign in zip(supports, signs, strict=True) if not sign]
        if len(unknown) == 1 and math.prod(sign for sign in signs if sign) > 0:
            return replace(unknown[0], reads=reads, nonzero=nonzero, zero=NEVER)
        if len(unknown) == 1:
            return replace(_negative(unknown[0]), reads=reads, nonzero=nonzero, zero=NEVER)
        return Support(reads, nonzero, ALWAYS, wild, wild)

    def quotient(self, numerator: Value, denominator: Value) -> Support:
        """A numerator over what is zero at most where its cases say so; over an infinity what is finite is zero."""
        top, bottom = self.support(numerator), self.support(denominator)
        undefined = either(self.vanishes_by_text(denominator), bottom.undefined, both(top.wild, bottom.wild))
        wild = either(top.wild, undefined)
        nonzero = either(top.nonzero, wild)
        reads = merged(top.where(nonzero), bottom.where(nonzero))
        if wild and not undefined and self.sign(denominator) > 0:
            return replace(top, reads=reads, nonzero=nonzero, zero=NEVER)
        return Support(reads, nonzero, ALWAYS, wild, wild)

    def power(self, base: Value, exponent: Value) -> Support:
        """Zero where its base is, for a positive exponent."""
        below, above = self.support(base), self.support(exponent)
        reads, wild = merged(below.reads, above.reads), either(below.wild, above.wild)
        if not _is_whole(exponent):
            wild = either(wild, self.negative(base))
        if not above.wild and self.sign(exponent) > 0:
            return Support(reads, below.nonzero, ALWAYS, wild, wild)
        wild = either(wild, self.vanishes_by_text(base))
        return Support(reads, ALWAYS, ALWAYS, wild, wild)

    def vanishes_by_text(self, value: Value) -> Cases:
        """Where one divides by zero, unless data decide that; a formula is one of sizes by which one can divide."""
        return self.by_text(self.vanishes(value))

    def negative(self, value: Value) -> Cases:
        """Where a value is negative, unless data decide that."""
        if self.numeric(value):
            return self.by_text(self.compared("<", value, ZERO))
        match value.operation:
            case op.Map("where", (condition, *arms)):
                return either(*(both(cases, self.negative(arm)) for arm, _, cases in self.taken(condition, arms)))
        return ALWAYS if self.tells_positions(value) else NEVER

    def by_text(self, cases: Cases) -> Cases:
        """The cases that the text decides."""
        if not self.analysis.proves:
            return NEVER
        of_text = (case for case in cases if not of_data(case))
        return self.facts.holding(frozenset(c for c in of_text if not self.facts.letters or letters_of(frozenset((c,)))))

    def tells_positions(self, value: Value) -> bool:
        """Do positions decide a value beside data?"""
        parts = walk(value, closed=self.anchored)
        return any(self.numeric(part) and any(map(self.analysis.is_time, part.axes)) for part in parts)

    def data(self, value: Value) -> set[Value]:
        """The tensors that decide a value."""
        closed = self.anchored
        return {leaf for leaf in walk(value, closed=closed) if (leaf in closed or not leaf.operands) and not self.numeric(leaf)}

    @property
    def anchored(self) -> set[Value]:
        """The tensors with a number for each position being computed."""
        return {value for value, state in self.states.items() if state.anchor is not None}

    def vanishes(self, value: Value) -> Cases:
        """Where a value is zero, according to the text."""
        if self.numeric(value):
            return self.compared("==", value, ZERO)
        if value in self.states:
            return self.states[value].support.zero
        if self.support(value).nonzero == ALWAYS and not self.tells_positions(value):
            return NEVER
        match value.operation:
            case op.Map("*", factors):
                return either(*map(self.vanishes, factors))
            case op.Map("/", (numerator, denominator)):
                return either(self.vanishes(numerator), self.support(denominator).wild)
            case op.Map("+", terms) if self.are_apart(terms):
                return both(*map(self.vanishes, terms))
            case op.Map("where", (condition, *arms)):
                return either(*(both(cases, self.vanishes(arm)) for arm, _, cases in self.taken(condition, arms)))
            case op.Map("exp", (argument,)):
                return self.support(argument).low
            case op.Einsum(letters, factors):
                return self.nowhere_else(either(*map(self.vanishes, factors)), value, letters)
            case op.Spread(argument):
                return self.vanishes(argument)
            case op.View() | op.Gather() | op.Input() | op.Call():
                return self.support(value).zero
        return ALWAYS

    def are_apart(self, terms: Sequence[Value]) -> bool:
        """Does no tensor decide two of the terms, so that they do not cancel?"""
        data = [self.data(term) for term in terms]
        return all(one.isdisjoint(other) for one, other in itertools.combinations(data, 2))

    def taken(self, condition: Value, arms: Sequence[Value]) -> list[tuple[Value, bool, Cases]]:
        """The arms of a choice that are taken: under which verdict, and where."""
        both_arms = zip(arms, (True, False), strict=True)
        return [(arm, holds, cases) for arm, holds in both_arms if (cases := self.told(condition, holds))]

    def told(self, condition: Value, holds: bool) -> Cases:
        """Where a condition holds, or does not."""
        return self.facts.holding(self.condition(condition, holds))

    def nowhere_else(self, zero: Cases, value: Value, letters: Sequence[str]) -> Cases:
        """Where a sum is zero: where each of its terms is, those at the own position and at the first number among them."""
        own = [Linear.index(x) for x in self.own(value, letters)]
        places = [Linear.number(0), *own]
        return both(
            *(cases_at(zero, {x: place if self.analysis.is_time(x) else Linear.number(0) for x in letters}) for place in places)
        )

    # ------------------------------------------------------------------------------------------ choices, functions

    def where(self, condition: Value, *arms: Value) -> Support:
        """An arm matters where the condition may take it; one that it never takes does not exist (R8)."""
        choices = self.taken(condition, arms)
        turning = len(choices) == 2 and not condition.axes and self.letters(condition) <= self.turn.keys()
        around, supports = self.cases, list[Support]()
        for arm, holds, cases in choices:
            if turning and self.numeric(condition):
                self.cases = around | {Case(spell(condition, self.scalars, self.legend), holds)}
            elif len(choices) == 2 and self.cannot_tell(condition, arm, cases):
                self.analysis.unclear(condition.span)
            supports.append(self.support(arm).within(cases))
            self.cases = around
        if len(supports) < 2:
            return supports[0] if supports else PLAIN
        joined = supports[0].join(supports[1])
        if not self.analysis.proves:  # what is whole in both cases is whole
            whole = zip(joined.claims, *(self.support(arm).claims for arm in arms), strict=True)
            joined = Support(
                joined.reads, *(ALWAYS if then == otherwise == ALWAYS else cases for cases, then, otherwise in whole)
            )
        return replace(joined, reads=merged(joined.reads, self.support(condition).reads))

    def cannot_tell(self, condition: Value, arm: Value, cases: Cases) -> bool:
        """Is it unknown in which turns an arm is taken, for what a layer is given or for data beside numbers of turns?"""
        if not condition.axes and self.letters(condition) <= self.turn.keys():
            return not all(map(of_data, cases))
        calls = (isinstance(value.operation, op.Call) for value in walk(arm, closed=self.states))
        return not self.letters(condition).isdisjoint(self.turn) and any(calls)

    def function_of(self, name: str, arguments: Sequence[Value]) -> Support:
        """A function of values, of which the table says what it is at zero and at -inf, and where it is defined."""
        supports = [self.support(argument) for argument in arguments]
        reads, row = merged(*(support.reads for support in supports)), row_of(name, False)
        if name in ("min", "max"):
            return _larger(*supports) if name == "max" else _negative(_larger(*map(_negative, supports)))
        argument, wild = supports[0], either(*(support.wild for support in supports))
        if name == "mod":
            wild = either(wild, self.vanishes_by_text(arguments[1]))
        if 1 not in row.arity:
            return Support(reads, ALWAYS, ALWAYS, wild, wild)
        undefined = self.negative(arguments[0]) if row.of_positive else NEVER
        matters = argument.nonzero if row.at_zero is not None else ALWAYS  # what it is at 0 and at -inf no data decide
        matters = both(matters, argument.alive) if row.at_minus_infinity is not None else matters
        nonzero = argument.nonzero if row.at_zero == 0 else ALWAYS
        nonzero = both(nonzero, argument.alive) if row.at_minus_infinity == 0 else nonzero
        vanishing = row.at_zero == -math.inf and argument.nonzero != ALWAYS
        finite = row.at_minus_infinity is not None and math.isfinite(row.at_minus_infinity)
        return Support(
            merged(argument.where(matters), *(other.reads for other in supports[1:])),
            either(nonzero, undefined),
            argument.nonzero if row.at_zero == -math.inf else ALWAYS,
            either(ALWAYS if vanishing else argument.undefined if finite else wild, undefined),
            either(argument.high if finite else wild, undefined),
        )

    def operator(self, value: Value, name: str, letters: Sequence[str], argument: Support) -> Support:
        """An operator over indices: elements that do not matter to it are not read, how many matter is."""
        row = row_of(name, True)
        if row.looks_back and self.time in letters:
            self.step.sums.append(value)
            return Support(argument.reads)
        matter = ALWAYS
        if row.neutral is not None:
            passed = {-math.inf: argument.alive, 0: argument.nonzero, math.inf: argument.under}
            matter = passed.get(row.neutral, ALWAYS)
        times = [letter for letter in letters if self.analysis.is_time(letter)]
        count = tuple(Read(None, Linear.index(letter), matter, at=value.span) for letter in times if not row.looks_back)
        some = {letter: Linear.index(self.facts.fresh(letter)) for letter in letters}
        inner = replace(argument, reads=(*argument.where(matter), *count)).at(some)
        if row.looks_back:
            earlier = both(*(compare("<=", some[letter], Linear.index(letter)) for letter in times))
            inner = replace(inner, reads=inner.where(earlier))
        own = self.own(value, letters)
        if times and len(own) == 1:
            self.analysis.needs(inner.reads, own[0], value.span)
            if name in ("Sm", "top"):
                self.analysis.sees(argument.low, own[0], times, value.span)
        match name:
            case "Sm":
                return Support(inner.reads, either(argument.alive, inner.high), low=inner.high, high=inner.high)
            case "max" | "lse":
                return Support(inner.reads, inner.nonzero if name == "max" else ALWAYS, inner.alive, inner.low, inner.high)
            case "min":
                return replace(inner, zero=NEVER)
            case "top":
                return Support(inner.reads, self.analysis.chosen(self, value), ALWAYS, inner.wild, inner.wild)
            case _:
                nonzero = either(inner.nonzero, inner.wild) if row.zero else ALWAYS
                return Support(inner.reads, nonzero, ALWAYS, inner.wild, inner.wild)

    def own(self, value: Value, letters: Sequence[str]) -> list[str]:
        """The letters of positions at which an operator over these letters stands."""
        standing = self.letters(value) & self.standing if self.standing else frozenset[str]()
        return [x for x in dict.fromkeys((*value.axes, *standing)) if self.analysis.is_time(x) and x not in letters]

    # ------------------------------------------------------------------------------------------------------- calls

    def call(self, value: Value, call: op.Call) -> Support:
        """A layer of values: inside, what is given at the position being computed is an anchor of its own."""
        callee = self.analysis.functions[call.function]
        supports = [self.support(argument) for argument in call.arguments]
        anchors: dict[str, tuple[Support, Anchor | None]] = {}
        for k, (line, argument) in enumerate(zip(callee.inputs, call.arguments, strict=True)):
            times = [letter for letter in line.value.axes if self.analysis.is_time(letter)]
            if times == [self.time] and self.analysis.tells(supports[k], formula=False):
                self.analysis.needs(supports[k].reads, self.time, argument.span)
                anchors[line.name] = supports[k], self.as_it_stands(argument)
                supports[k] = self.analysis.given(supports[k])
        numbers = tuple(_alone(self.numbers(argument)) for argument in call.arguments)
        body = self.analysis.body(callee.name, tuple(supports), numbers)
        over = {line.name: {x for x in line.value.axes if self.analysis.is_time(x)} for line in callee.inputs}
        seen = (name for name, support in zip(over, supports, strict=True) if support.reads and over[name] - {self.time})
        self.calls[value] = Call(call.path, value.span, body, anchors, tuple(seen), self.cases)
        self.step.calls.append(self.calls[value])
        output, state = self.instance(body.output, {}), body.states.get(callee.output.value)
        if state is not None and state.anchor is not None:
            output = replace(output, reads=(Read(state.anchor, self.here, at=value.span),))
        outside, mark = data_in(case for support in supports for cases in support.claims for case in cases), self.mark(value)
        return output.each(lambda cases: rename_data(cases, mark, outside))

    def mark(self, call: Value) -> str:
        """What tells the data of a call from those of others."""
        turns = (turn.value for turn in self.turn.values())
        return f"@{self.analysis.place(call, *(turn for turn in turns if turn is not None))}"

    def as_it_stands(self, argument: Value) -> Anchor | None:
        """The anchor that an argument is, at its own position."""
        if argument in self.states:
            anchor = self.states[argument].anchor
            return None if anchor is None else self.sources.get(anchor, anchor)
        match argument.operation:
            case op.View(inner, old, new):
                own = any(one == other == (self.time,) for one, other in zip(old, new, strict=True))
                plain = all(len(label) == 1 for label in new)
                return self.as_it_stands(inner) if own and plain else None
            case op.Map("where", (condition, *arms)):
                choices = self.taken(condition, arms)
                return self.as_it_stands(choices[0][0]) if len(choices) == 1 else None
            case _:
                return None


def formulas(function: Function, time: str) -> set[Value]:
    """The tensors that can be computed at any position: one line each, of numbers, weights and such tensors."""
    lines = [*walk_lines(function.lines)]
    several, named = Counter(line.name for line in lines), {line.value for line in lines}
    timeless = {line.value for line in function.inputs if time not in line.value.axes}

    def is_known(value: Value) -> bool:
        if value in timeless or value in named or isinstance(value.operation, op.Input):
            return value in timeless
        return all(map(is_known, value.operands))

    for line in lines:
        if several[line.name] == 1 and all(map(is_known, line.value.operands)):
            timeless.add(line.value)
    return timeless


def _may_be(infinity: float, e: Expression) -> bool:
    """Is it this infinity, or computed from an infinity of either sign?"""
    if isinstance(e, Number):
        return e.value == infinity
    return any(isinstance(x, Number) and math.isinf(x.value) for x in subexpressions(e))


def _stands(slot: op.Slot) -> bool:
    number = slot.number.operation
    return isinstance(number, op.Iota | op.Turn) and slot.label == (number.letter,)


def decide(cases: Cases, outside: set[Atom]) -> Cases:
    """The cases with nothing of other data than these but that they decide."""
    if not any(map(of_data, cases)):
        return cases
    return either(frozenset(frozenset(i if data_of(i) <= outside else UNSURE for i in case) for case in cases))


def rename_data(cases: Cases, mark: str, outside: Iterable[Atom]) -> Cases:
    """The cases with elements of data of one call alone; those from `outside` are the same in every call."""
    same = {*outside, *data_of(UNSURE)}
    return map_data(cases, lambda atom: atom if atom in same else atom._replace(name=f"{atom.name}{mark}"))


def _alone(numbers: Numbers) -> Numbers:
    """Numbers that say more than that they are some element of data."""
    return () if any(atom.kind == "data" for _, linear in numbers for atom in linear.atoms()) and len(numbers) == 1 else numbers


def _negative(support: Support) -> Support:
    """-x, where only the infinities matter."""
    return replace(support, alive=support.under, low=support.high, high=support.low, under=support.alive)


def _larger(first: Support, second: Support) -> Support:
    """The maximum of two; none of what is not a number."""
    undefined = either(first.undefined, second.undefined)
    return Support(
        merged(first.reads, second.reads),
        either(first.nonzero, second.nonzero),
        either(first.alive, second.alive),
        either(both(first.low, second.low), undefined),
        either(first.high, second.high),
        under=either(both(first.under, second.under), undefined),
    )


def _is_whole(exponent: Value) -> bool:
    """Is it a whole number, so that there is such a power of a negative one?"""
    number = exponent.operation
    return isinstance(number, op.Constant) and isinstance(number.value, int | float) and float(number.value).is_integer()


def _sum(terms: Sequence[Support]) -> Support:
    """An infinity swallows finite terms, and one zero alone is zero."""
    return Support(
        merged(*(term.reads for term in terms)),
        either(*(term.nonzero for term in terms)),
        either(both(*(term.alive for term in terms)), *(term.high for term in terms)),
        either(*(term.low for term in terms)),
        either(*(term.high for term in terms)),
        under=either(both(*(term.under for term in terms)), *(either(term.low, both(term.high, term.under)) for term in terms)),
    )
