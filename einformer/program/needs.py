"""Says where each value is zero and where it is needed (R10): choices and masks, followed through the values of a function.

`p_x = where(top_{T,x}(r_x), r_x, 0)` is zero but for T numbers of x. In `p_x silu(g_xf) u_xf O_xfd` the other factors are
needed for those T only, and so is every value that nothing else reads: the experts that compute. In the same way the scores
`q_bse k_bs'e` are needed only where a mask allows them. Supports are followed from the inputs to the output, and with them
which values depend on trained weights; needs from the output back; a loop is repeated until nothing changes.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import reduce
from typing import Literal

from einformer.language.calls import axis_of
from einformer.language.primitives import Primitive
from einformer.language.sizes import Legend
from einformer.language.tree import Expression, Index, Spec
from einformer.language.walk import subexpressions
from einformer.program import operations as op
from einformer.program.arithmetic import UNDECIDED, UNKNOWN, Reader, spell
from einformer.program.inequalities import (
    ALWAYS,
    MOST_CASES,
    Atom,
    Cases,
    Conjunction,
    Factor,
    Facts,
    Inequality,
    Linear,
    both,
    cases_at,
    compare,
    either,
    find_reached,
    letters_of,
    negated,
    plain,
    written,
)
from einformer.program.operations import Function, Line, Value
from einformer.program.rewrite import list_differentiated, walk_loops
from einformer.program.turns import Case, Loops

# ----------------------------------------------------------------------------------------------------------- choices


@dataclass(frozen=True, slots=True)
class Choice:
    """`top_{T,x}(r_sx)`: of the numbers of x only T are chosen, others for each s. `of` says by which `top`, in which calls."""

    letter: str
    count: Expression
    along: frozenset[str]
    of: tuple[int, ...]
    number: Value = field(compare=False, repr=False)  # the count in the function that chooses

    @property
    def letters(self) -> frozenset[str]:
        return self.along | {self.letter}

    @property
    def name(self) -> str:
        """The name of the data that are above 0 where it chooses: one for each `top` and each count."""
        return f"top {self.of} {self.count}"


@dataclass(frozen=True, slots=True)
class Support:
    """Outside of some cases a value is zero, outside of others -inf; `trained` if it depends on trained weights."""

    nonzero: Cases = ALWAYS
    alive: Cases = ALWAYS
    trained: bool = False

    def each(self, change: Callable[[Cases], Cases]) -> Support:
        return replace(self, nonzero=change(self.nonzero), alive=change(self.alive))

    def meet(self, other: Support) -> Support:
        return Support(either(self.nonzero, other.nonzero), either(self.alive, other.alive), self.trained or other.trained)


DENSE = Support()
INNER = Support(trained=True)  # of what a layer is given inside a model


@dataclass(frozen=True, slots=True)
class Need:
    """Where a value is needed: where these inequalities hold, in the turns of the loops in which these cases hold."""

    where: Cases = ALWAYS
    cases: frozenset[Case] = frozenset()

    def within(self, where: Cases) -> Need:
        """The need of what is used there only."""
        return replace(self, where=both(self.where, where))

    def either(self, other: Need) -> Need:
        """Where one of two users needs a value."""
        return Need(either(self.where, other.where), self.cases & other.cases)


def only(cases: Cases, keeps: Callable[[Inequality], bool]) -> Cases:
    """What some of the inequalities say: a weaker claim."""
    return either(frozenset(frozenset(filter(keeps, case)) for case in cases))


def apart(cases: Cases, letters: Iterable[str], mark: str) -> Cases:
    """The cases for some numbers of these letters: inside an operator all of them enter together."""
    return cases_at(cases, {x: Linear.index(f"{x}~{mark}") for x in letters})


def letters_read(value: Value) -> dict[str, str]:
    """Of the letters of what a view, a gather or a spread reads those that are still one, with the letters that they are."""
    match value.operation:
        case op.View(_, old, new):
            pairs = ((one, other) for one, other in zip(old, new, strict=True) if op.renames(one, other))
            return {inner: outer for one, other in pairs for inner, outer in zip(one, other, strict=True)}
        case op.Gather(_, slots):
            single = ((slot.label[0], slot.number.operation) for slot in slots if len(slot.label) == 1)
            return {letter: number.letter for letter, number in single if isinstance(number, op.Iota)}
        case _:
            return {letter: letter for letter in value.axes}


def renamed(cases: Cases, axes: Iterable[str], letters: Mapping[str, str], mark: str) -> Cases:
    """Cases of these axes under other letters; for some number of a letter that is lost, and of what was lost before any."""
    lost = {x: Linear.index(letters.get(x, f"{x}~{mark}")) for x in axes if letters.get(x) != x}
    return cases_at(only(cases, lambda i: not is_some(i)), lost) if lost else cases


def is_some(inequality: Inequality) -> bool:
    """Does it speak of some number of a letter?"""
    return any("~" in letter for letter in inequality.linear.letters())


def data_in(cases: Iterable[Conjunction]) -> set[Atom]:
    """The elements of data in cases."""
    return {atom for case in cases for inequality in case for atom in _data_in(inequality)}


def _data_in(inequality: Inequality) -> set[Atom]:
    return {atom for atom in inequality.linear.atoms() if atom.kind == "data"}


# ----------------------------------------------------------------------------------------------------------- regions


@dataclass(frozen=True, slots=True)
class Bound:
    """`s - W < s'`: the `later` of two positions stands at least so many after the `earlier`; here s' after s, 1 - W."""

    later: str
    earlier: str
    least: Expression


@dataclass(frozen=True, slots=True)
class Region:
    """The numbers of some letters for which one of the cases holds, whatever those of letters that are not among them.

    It is a `band` where bounds between two positions say the same.
    """

    letters: tuple[str, ...]
    cases: Cases
    band: tuple[Bound, ...] = ()

    def parameters(self, turns: Container[str]) -> Iterator[Expression]:
        """The numbers in it that differ from turn to turn."""
        todo = [inequality.linear for case in self.cases for inequality in case]
        while todo:
            for atom in (atom for monomial, _ in todo.pop().terms for atom, _ in monomial):
                if atom.kind in ("index", "table") and all(letter in turns for letter in Linear.atom(atom).letters()):
                    yield written(Linear.atom(atom))
                else:
                    todo += atom.arguments


def region_of(cases: Cases, letters: Iterable[str], turning: Collection[str], facts: Facts) -> Region | None:
    """What cases say of several of these letters that number one axis, and of what they compare those with, in some turn.

    A condition on other letters alone hides no pair: what hides some features, or all in some turn, counts nothing away.
    """
    numbering = Counter(map(axis_of, letters))
    positions = {x for x in letters if numbering[axis_of(x)] > 1}
    numbered = [_settled(frozenset(i for i in case if not _data_in(i))) for case in cases]
    inside = [find_reached(case, (Atom("index", x) for x in positions)) for case in numbered]
    beside = [
        frozenset(i for i in case - own if i.linear.letters().isdisjoint(letters))
        for case, own in zip(numbered, inside, strict=True)
    ]
    always = frozenset.intersection(*beside) if beside else frozenset()
    cases = either(frozenset(own | other - always for own, other in zip(inside, beside, strict=True)))
    if cases and not any(len(i.linear.letters() & positions) > 1 for case in cases for i in case):
        return None
    own = tuple(sorted(letters_of(cases).intersection(letters), key=lambda x: (len(x), x)))  # who attends stands first
    return Region(own, cases, _band(cases, turning, facts) if len(own) == 2 else ())


def _settled(case: Conjunction) -> Conjunction:
    """The case without what it says of some number of a letter, where this holds of the number of that letter itself."""
    for letter in sorted({x for i in case for x in i.linear.letters() if "~" in x}):
        own = {i for i in case if letter in i.linear.letters()}
        if {i.at({letter: Linear.index(plain(letter))}) for i in own} <= case - own:
            case -= own
    return case


def _band(cases: Cases, turning: Collection[str], facts: Facts) -> tuple[Bound, ...]:
    """What each of these cases says of the distance of two positions, if together this says no more than they."""
    told = {inequality: bound for case in cases for inequality in case if (bound := _bound(inequality, turning)) is not None}
    sure = frozenset(i for i in told if all(i in case or facts.refutes(case | {negated(i)}) for case in cases))
    if math.prod(map(len, cases)) > MOST_CASES:
        return ()
    others = (frozenset(map(negated, chosen)) for chosen in itertools.product(*(case - sure for case in cases)))
    exact = any(case <= sure for case in cases) or all(facts.refutes(sure | other) for other in others)
    return tuple(told[i] for i in sorted(sure, key=repr)) if exact else ()


def _bound(inequality: Inequality, turning: Collection[str]) -> Bound | None:
    """`s' - s - 3 >= 0`, and nothing of other indices than turns: index numbers are whole."""
    (linear, strict), numbers = inequality, dict[str, Factor]()
    rest = Linear.of({m: f for m, f in linear.terms if not any(atom.kind == "index" for atom, _ in m)})
    for monomial, factor in (linear - rest).terms:
        ((atom, power), *more) = monomial
        numbers[atom.name if power == 1 and not more else ""] = factor
    later, earlier = (next((x for x, f in numbers.items() if f * sign > 0), "") for sign in (1, -1))
    if len(numbers) != 2 or not later or axis_of(later) != axis_of(earlier) or numbers[later] + numbers[earlier]:
        return None
    least = rest * Fraction(-1, numbers[later]) + Linear.number(int(strict))
    return None if least.letters().difference(turning) else Bound(later, earlier, written(least))


# ------------------------------------------------------------------------------------------------------------- steps


@dataclass(frozen=True, slots=True, eq=False)
class Step:
    """A line, the values that it computes, users before their operands, and the loops around it."""

    line: Line
    values: tuple[Value, ...]
    loops: Loops = ()

    @property
    def letters(self) -> frozenset[str]:
        """The letter of a recurrence, which computes everything anew in each of its steps."""
        operation = self.line.value.operation
        return frozenset([operation.letter]) if isinstance(operation, op.Recur) else frozenset()


@dataclass(frozen=True, slots=True, eq=False)
class Repeat:
    """A loop, itself among the loops around its steps."""

    turns: op.Turns
    body: Steps
    loops: Loops


Steps = tuple[Step | Repeat, ...]


def steps_of(function: Function) -> Steps:
    """The lines of a function, each with the values that no line before it computes; the output stands last."""
    seen = set[Value]()
    for line in (*function.inputs, *function.weights, *function.scalars):
        made_of(line.value, seen)
    return (*_steps(function.lines, (), seen), Step(function.output, made_of(function.output.value, seen)))


def _steps(lines: Iterable[Line | op.Turns], loops: Loops, seen: set[Value]) -> Iterator[Step | Repeat]:
    for line in lines:
        if isinstance(line, op.Turns):
            seen.update(value for carried in line.carried for value in (carried.within, carried.after))
            inner = (*loops, (line.letter, line.loop.count))
            yield Repeat(line, tuple(_steps(line.lines, inner, seen)), inner)
        else:
            yield Step(line, made_of(line.value, seen), loops)


def made_of(value: Value, seen: set[Value]) -> tuple[Value, ...]:
    """A value and its operands that were not seen before, users before their operands, and these in the order of the text."""
    values, todo = list[Value](), [(value, False)]
    while todo:
        value, done = todo.pop()
        if done:
            values.append(value)
        elif value not in seen:
            seen.add(value)
            todo += [(value, True), *((operand, False) for operand in value.operands)]
    return tuple(reversed(values))


def flat(body: Iterable[Step | Repeat]) -> Iterator[Step]:
    """The steps in order, those of loops too."""
    for step in body:
        yield from flat(step.body) if isinstance(step, Repeat) else (step,)


# ------------------------------------------------------------------------------------------------------------- flows


@dataclass(slots=True)
class Flows:
    """The flow of each function of a program, from the facts about its inputs."""

    functions: Mapping[str, Function]
    trained: Mapping[str, frozenset[str]]  # the weights of each that are trained
    legend: Legend
    facts: Facts
    turning: frozenset[str]  # the letters of all loops
    known: dict[tuple[str, tuple[Support, ...]], Flow] = field(default_factory=dict)
    places: dict[Value, int] = field(default_factory=dict)  # of choices, calls, and what loses letters
    chosen: dict[str, Choice] = field(default_factory=dict)  # by name
    bodies: dict[str, Steps] = field(default_factory=dict)

    @classmethod
    def of_spec(cls, spec: Spec, functions: Mapping[str, Function], legend: Legend) -> Flows:
        trained = {layer.name: frozenset(w.name for w in layer.weights if w.kind == "trained") for layer in spec.layers}
        turning = frozenset(turns.letter for function in functions.values() for turns in walk_loops(function.lines))
        return cls(functions, trained, legend, Facts(legend, "", letters=True), turning)

    def of(self, name: str, inputs: tuple[Support, ...]) -> Flow:
        """The flow through a function whose inputs have these supports."""
        key = name, inputs
        if key not in self.known:
            self.known[key] = Flow(self, self.functions[name], self.trained[name], inputs)
        return self.known[key]

    def steps(self, name: str) -> Steps:
        if name not in self.bodies:
            self.bodies[name] = steps_of(self.functions[name])
        return self.bodies[name]

    def choose(self) -> bool:
        steps = (step for name in self.functions for step in flat(self.steps(name)))
        return any(is_top(value.operation) for step in steps for value in step.values)

    def settled(self) -> dict[str, Flow]:
        """The flow of each function, of whose inputs is known what holds in all its calls, whatever each of them chooses by."""
        flows, calls = dict[str, Flow](), {name: list[tuple[Support, ...]]() for name in self.functions}
        for name in reversed(list(self.functions)):  # callers stand last
            inputs = zip(*calls[name], strict=True) if calls[name] else [(DENSE,)] * len(self.functions[name].inputs)
            met = (reduce(Support.meet, (self.made_by(support, k) for support in some)) for k, some in enumerate(inputs))
            flows[name] = flow = self.of(name, tuple(met))
            for step in flat(flow.body):
                for call in (value.operation for value in step.values if isinstance(value.operation, op.Call)):
                    calls[call.function].append(tuple(map(flow.support, call.arguments)))
        return flows

    def place(self, value: Value) -> int:
        return self.places.setdefault(value, len(self.places))

    def choose_by(self, choice: Choice, arguments: tuple[Linear, ...]) -> Atom:
        """The data that are above 0 where a choice chooses: of the letter of which some are chosen, then of others."""
        self.chosen[choice.name] = choice
        return Atom("data", choice.name, arguments)

    def made_by(self, support: Support, maker: int) -> Support:
        """A support by the same choices of one maker, by whatever they were made."""
        return support.each(lambda cases: self.changed(cases, lambda of: (~maker,)))

    def changed(self, cases: Cases, of: Callable[[tuple[int, ...]], tuple[int, ...]], but: Container[Atom] = ()) -> Cases:
        """Cases by choices that were made elsewhere."""

        def atom_of(atom: Atom) -> Linear:
            if atom.kind != "data" or atom in but:
                return Linear.atom(atom)
            choice = self.chosen[atom.name]
            return Linear.atom(self.choose_by(replace(choice, of=of(choice.of)), atom.arguments))

        if not data_in(cases):
            return cases
        return frozenset(frozenset(i._replace(linear=i.linear.mapped(atom_of)) for i in case) for case in cases)

    def choices(self, cases: Cases) -> set[Choice]:
        """The choices outside of which no case holds."""
        some = data_in([frozenset.intersection(*cases)] if cases else ())
        named = ((self.chosen[atom.name], [_letter(number) for number in atom.arguments]) for atom in some)
        return {replace(choice, letter=x, along=frozenset(rest)) for choice, (x, *rest) in named if "~" not in x}


class Conditions(Reader):
    """Reads conditions; one that says nothing of numbers holds where it is not zero."""

    def __init__(self, flow: Flow) -> None:
        super().__init__(flow.function, flow.flows.facts)
        self.flow = flow

    def supposed(self, value: Value, holds: bool) -> Cases:
        where = self.flow.support(value).nonzero
        return UNDECIDED if not holds or where == ALWAYS else where


class Flow:
    """One function: the support of each value, and where each is needed."""

    def __init__(self, flows: Flows, function: Function, weights: frozenset[str], inputs: tuple[Support, ...]) -> None:
        self.flows, self.function, self.weights = flows, function, weights
        self.reader = Conditions(self)
        self.consequences: dict[tuple[Value, bool], Cases] = {}
        self.body = flows.steps(function.name)
        self.loops = frozenset(letter for step in flat(self.body) for letter, _ in step.loops)
        self.supports = {line.value: support for line, support in zip(function.inputs, inputs, strict=True)}
        self.needed: dict[Cases, tuple[Mapping[Value, Need], tuple[Cases, ...]]] = {}
        self.forward(self.body)
        self.output = self.support(function.output.value)

    # --------------------------------------------------------------------------------------------------- supports

    def forward(self, body: Steps) -> None:
        for step in body:
            if isinstance(step, Repeat):
                self.repeat(step)
                continue
            self.compute(step)
            if isinstance(recur := step.line.value.operation, op.Recur):  # it reads itself, which is trained if its step is
                self.supports[recur.so_far] = Support(trained=self.support(recur.step).trained)
                self.compute(step)

    def compute(self, step: Step) -> None:
        for value in reversed(step.values):
            if not isinstance(value.operation, op.Input):
                self.supports[value] = self.follow(value)

    def repeat(self, repeat: Repeat) -> None:
        """The facts that hold before each turn of a loop and after the last."""
        some = repeat.turns.carried
        start = {c: self.support(c.before) for c in some if c.before is not None}
        while True:
            self.supports |= {c.within: start.get(c, DENSE) for c in some}
            self.forward(repeat.body)
            last = {c: self.support(c.last).each(lambda cases: self.lasting(cases, repeat)) for c in some}
            met = {c: last[c].meet(start.get(c, last[c])) for c in some}
            if all(met[c] == start[c] for c in start):
                break
            start = {c: met[c] for c in start}
        self.supports |= {c.after: met[c] for c in some}

    def support(self, value: Value) -> Support:
        if value not in self.supports:
            self.supports[value] = self.follow(value)
        return self.supports[value]

    def follow(self, value: Value) -> Support:
        return replace(self.nothing(value), trained=self.trained(value))

    def trained(self, value: Value) -> bool:
        """Has a value a gradient with respect to some weight, or to an input that has one?"""
        match value.operation:
            case op.StoredWeight(name):
                return name in self.weights
            case op.Call():
                return self.called(value).output.trained
            case _:
                return any(self.support(operand).trained for operand in list_differentiated(value))

    def nothing(self, value: Value) -> Support:
        """Where a value is not zero, and not -inf; a condition counts as zero where it does not hold."""
        row = op.find_row(value.operation)
        match value.operation:
            case op.Map("where", (condition, then, otherwise)):
                return self.branched(condition, then, otherwise)
            case op.Map("+", terms):
                parts = [self.support(term) for term in terms]
                return Support(either(*(part.nonzero for part in parts)), both(*(part.alive for part in parts)))
            case op.Map("*", factors):
                return Support(self.nonzero_of(factors))
            case op.Map("/", (numerator, _)):
                return Support(self.support(numerator).nonzero)
            case op.Map("^", (base, Value(op.Constant(int() | float() as exponent)))) if exponent > 0:
                return Support(self.support(base).nonzero)
            case op.Einsum(letters, factors):
                return Support(apart(self.nonzero_of(factors), letters, self.mark(value)))
            case op.Reduce("top"):
                return Support(self.chosen(value))
            case op.Map(_, (argument, *_)) | op.Reduce(_, _, argument) if row is not None:
                return Support(self.told(value, True) if row.condition else self.passed(value, row, argument))
            case op.View(argument) | op.Gather(argument) | op.Spread(argument):
                read, mark = letters_read(value), self.mark(value)
                return self.support(argument).each(lambda cases: renamed(cases, argument.axes, read, mark))
            case op.Recur(_, step):
                return self.support(step)
            case op.Call(arguments=arguments):
                outside = data_in(case for s in map(self.support, arguments) for case in (*s.nonzero, *s.alive))
                return self.called(value).output.each(lambda cases: self.in_call(cases, value, outside))
            case _:
                return DENSE

    def mark(self, value: Value, what: Literal["v", "n"] = "v") -> str:
        """What tells the letters that a value loses, or lacks where it is needed, from those of others."""
        return f"{what}{self.flows.place(value)}"

    def passed(self, value: Value, row: Primitive, argument: Value) -> Cases:
        """Where a function or an operator is not zero, since its argument is neither, nor -inf."""
        support, letters = self.support(argument), value.operation.letters if isinstance(value.operation, op.Reduce) else ()
        nonzero = apart(support.nonzero, letters, self.mark(value)) if row.zero else ALWAYS
        return both(nonzero, support.alive) if row.at_minus_infinity == 0 else nonzero

    def nonzero_of(self, factors: Iterable[Value]) -> Cases:
        return both(*(self.support(factor).nonzero for factor in factors))

    def branched(self, condition: Value, then: Value, otherwise: Value) -> Support:
        """`where(c, y, 0)` is zero outside of c, `where(c, -inf, y)` is -inf inside; a c on layers chooses nothing."""
        arms = [(arm, self.support(arm), holds) for arm, holds in ((then, True), (otherwise, False))]

        def outside(number: float, cases: Callable[[Support], Cases]) -> Cases:
            others = [(cases(support), holds) for arm, support, holds in arms if not _is(arm, number)]
            says = len(others) < 2 or any(own != ALWAYS for own, _ in others)
            return either(*(both(own, self.told(condition, holds)) for own, holds in others)) if says else ALWAYS

        return Support(outside(0, lambda s: s.nonzero), outside(-math.inf, lambda s: s.alive))

    def told(self, condition: Value, holds: bool) -> Cases:
        """Where a condition holds, or does not: by what it says of choices and of indices."""
        key = condition, holds
        if key not in self.consequences:
            cases = self.flows.facts.holding(self.reader.condition(condition, holds))
            self.consequences[key] = only(cases, self.tells)
        return self.consequences[key]

    def tells(self, inequality: Inequality) -> bool:
        """Does an inequality compare nothing but choices, numbers and indices?"""
        return not is_some(inequality) and all(atom.name in self.flows.chosen for atom in _data_in(inequality))

    def chosen(self, value: Value) -> Cases:
        """Where a `top` chooses; in another turn it chooses others if their count does."""
        match value.operation:
            case op.Reduce("top", (letter,), argument, (count,)) if not count.axes:
                number, along = self.spelled(count), [x for x in argument.axes if x != letter]
                if not any(isinstance(x, Index) for x in subexpressions(number)):
                    choice = Choice(letter, number, frozenset(), (self.flows.place(value),), count)
                    atom = self.flows.choose_by(choice, tuple(map(Linear.index, (letter, *along))))
                    return compare(">", Linear.atom(atom), Linear.number(0))
        return ALWAYS

    def spelled(self, value: Value) -> Expression:
        return spell(value, self.reader.scalars, self.flows.legend)

    def on_layers(self, condition: Value) -> Expression | None:
        """A condition on nothing but the numbers of layers and the legend (R8)."""
        if condition.axes or condition.kind == "tensor":
            return None
        e = self.spelled(condition)
        inside = list(subexpressions(e))
        letters = {x.letter for x in inside if isinstance(x, Index)}
        return e if UNKNOWN not in inside and letters <= self.loops else None

    def called(self, call: Value) -> Flow:
        assert isinstance(call.operation, op.Call)
        return self.flows.of(call.operation.function, tuple(map(self.support, call.operation.arguments)))

    def in_call(self, cases: Cases, call: Value, outside: Container[Atom]) -> Cases:
        """Choices made in a function are those of one call; a mask is the same in every call."""
        place = self.flows.place(call)
        return self.flows.changed(only(cases, lambda i: not is_some(i)), lambda of: (place, *of), outside)

    def lasting(self, cases: Cases, repeat: Repeat, made: Iterable[Value] = ()) -> Cases:
        """Those that are the same in each turn and by no choice `made` in it: a window `W_l` is not."""
        places = {self.flows.places.get(value) for value in made}

        def lasts(inequality: Inequality) -> bool:
            own = (self.flows.chosen[atom.name].of[0] for atom in _data_in(inequality))
            return repeat.turns.letter not in inequality.linear.letters() and places.isdisjoint(own)

        return only(cases, lasts)

    # ------------------------------------------------------------------------------------------------------ needs

    def needs(self, output: Cases = ALWAYS) -> Mapping[Value, Need]:
        """Where each value is needed if the output is needed in `output`."""
        return self.backwards(output)[0]

    def backwards(self, output: Cases) -> tuple[Mapping[Value, Need], tuple[Cases, ...]]:
        """The same, and where each input is needed."""
        output = self.within(output, self.function.output.value)
        if output not in self.needed:
            asked, needs = {self.function.output.value: output}, dict[Value, Need]()
            self.backward(self.body, asked, needs)
            self.needed[output] = needs, tuple(asked.get(line.value, ALWAYS) for line in self.function.inputs)
        return self.needed[output]

    def backward(self, body: Steps, asked: dict[Value, Cases], needs: dict[Value, Need]) -> None:
        """Follow the needs of some steps, the last first; `asked` is by later lines."""
        for step in reversed(body):
            if isinstance(step, Repeat):
                self.turn_back(step, asked, needs)
            elif step.values or step.line is self.function.output:
                self.line(step, asked, needs)

    def turn_back(self, repeat: Repeat, asked: dict[Value, Cases], needs: dict[Value, Need]) -> None:
        """What a turn needs of the one before it. Its choices are others in each turn, together perhaps all."""
        some, made = repeat.turns.carried, {v for step in flat(repeat.body) for v in step.values}
        last = {c: asked[c.after] for c in some if c.after in asked}
        while True:
            inner = dict[Value, Cases]()
            for c, cases in last.items():
                self.ask(inner, c.last, cases)
            self.backward(repeat.body, inner, needs)
            inner = {value: self.lasting(cases, repeat, made) for value, cases in inner.items()}
            turned = {c: inner[c.within] for c in some if c.within in inner}
            met = last | {c: either(cases, last.get(c, cases)) for c, cases in turned.items()}
            if met == last:
                break
            last = met
        for c, cases in last.items():
            if c.before is not None:
                self.ask(asked, c.before, cases)
        for value in inner.keys() - made:
            self.ask(asked, value, inner[value])

    def line(self, step: Step, asked: dict[Value, Cases], needs: dict[Value, Need]) -> None:
        """A line that nobody asks for is computed, and asks for nothing."""
        value = step.line.value
        need = Need(asked.get(value, ALWAYS))
        while True:
            own = {value: need}
            for user in step.values:
                for operand, inner in self.inside(user, own[user]) if user in own else ():
                    own[operand] = own[operand].either(inner) if operand in own else inner
            read = own.get(value.operation.so_far) if isinstance(value.operation, op.Recur) else None
            if read is None or (joined := need.either(read)).where == need.where:
                break
            need = Need(joined.where)  # a recurrence reads itself
        for each, inner in own.items():
            if each in step.values:
                needs[each] = inner
            elif isinstance(each.operation, op.StoredWeight):
                needs[each] = needs[each].either(inner) if each in needs else inner
            elif value in asked:
                self.ask(asked, each, inner.where)

    def ask(self, asked: dict[Value, Cases], value: Value, cases: Cases) -> None:
        """A line needs a value in these cases."""
        own = self.within(cases, value)
        asked[value] = either(asked[value], own) if value in asked else own

    def within(self, cases: Cases, value: Value) -> Cases:
        """The cases, in letters of a value and for some number of others."""
        return apart(
            cases, {x for x in letters_of(cases) if "~" not in x} - {*value.axes} - self.flows.turning, self.mark(value, "n")
        )

    def inside(self, value: Value, need: Need) -> Iterable[tuple[Value, Need]]:
        """The operands of a value that is needed, each with where it is needed."""
        row = op.find_row(value.operation)
        match value.operation:
            case op.Map("*" | "/", arguments):  # each factor only where none is zero
                return [(argument, need.within(self.support(value).nonzero)) for argument in arguments]
            case op.Einsum(letters, factors):
                nonzero = self.nonzero_of(factors) if len(factors) > 1 else ALWAYS
                return [(factor, self.before(need, value, letters).within(nonzero)) for factor in factors]
            case op.Map("where", (condition, then, otherwise)):
                return self.where(condition, then, otherwise, need)
            case op.Map(_, (argument,)) if row is not None and row.at_minus_infinity == 0:
                return [(argument, need.within(self.support(argument).alive))]
            case op.Reduce(_, letters, argument, counts):
                inner = self.before(need, value, letters)
                deaf = row is not None and row.neutral == -math.inf and not counts
                alive = inner.within(self.support(argument).alive) if deaf else inner
                return [(argument, alive), *((count, inner) for count in counts)]
            case op.View(argument) | op.Spread(argument):
                return [(argument, self.read(value, need))]
            case op.Gather(argument, numbers=numbers):
                return [(argument, self.read(value, need)), *((number, need) for number in numbers)]
            case op.Call(arguments=arguments):
                supports = (need.where, *(cases for s in map(self.support, arguments) for cases in (s.nonzero, s.alive)))
                outside = data_in(case for cases in supports for case in cases)
                asked = (self.in_call(cases, value, outside) for cases in self.called(value).backwards(need.where)[1])
                return [(argument, replace(need, where=cases)) for argument, cases in zip(arguments, asked, strict=True)]
            case op.Recur(_, step):
                return [(step, need)]
            case _:
                return [(operand, need) for operand in value.operands]

    def before(self, need: Need, value: Value, letters: Iterable[str]) -> Need:
        """The need of what an operator over these letters is given."""
        return replace(need, where=apart(need.where, letters, self.mark(value, "n")))

    def read(self, value: Value, need: Need) -> Need:
        """The need of what a value reads: a weight may be chosen along letters that it has not."""
        letters = {outer: inner for inner, outer in letters_read(value).items()}
        (source, *_), mark = value.operands, self.mark(value, "n")
        return replace(need, where=renamed(need.where, {*value.axes, *source.axes}, letters, mark))

    def where(self, condition: Value, then: Value, otherwise: Value, need: Need) -> Iterator[tuple[Value, Need]]:
        """The branch that is not taken is not evaluated (R8)."""
        yield condition, need
        on_layers = self.on_layers(condition)
        for arm, holds in ((then, True), (otherwise, False)):
            if on_layers is not None:
                yield arm, replace(need, cases=need.cases | {Case(on_layers, holds)})
            else:
                yield arm, need if isinstance(arm.operation, op.Constant) else need.within(self.told(condition, holds))


def is_top(operation: op.Operation) -> bool:
    """Does it choose?"""
    return isinstance(operation, op.Reduce) and operation.operator == "top"


def _is(value: Value, number: float) -> bool:
    match value.operation:
        case op.Constant(int() | float() as own):
            return own == number
        case op.View(argument) | op.Spread(argument):
            return _is(argument, number)
        case _:
            return False


def _letter(number: Linear) -> str:
    """The letter that a number is; what is none of these speaks of some number of no letter."""
    return next((x for x in number.letters() if number == Linear.index(x)), "~")
