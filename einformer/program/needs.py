"""Says where each value is needed (R10): what choices and masks exclude, followed back through the values of a function.

`p_x = where(top_{T,x}(r_x), r_x, 0)` is zero but for T numbers of x. In `p_x silu(g_xf) u_xf O_xfd` the other factors are
needed for those T only, and so is every value that nothing else reads: the experts that compute. In the same way the scores
`q_bse k_bs'e` are needed only where a mask allows them. Where a value is zero or -inf is derived in `positions`, from the
inputs on; needs are followed from the output back. A loop is repeated until nothing changes.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Collection, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import reduce

from einformer.language.calls import axis_of
from einformer.language.sizes import Legend
from einformer.language.tree import Expression, Index, Spec
from einformer.language.walk import subexpressions
from einformer.program import operations as op
from einformer.program.arithmetic import UNKNOWN, spell
from einformer.program.inequalities import (
    ALWAYS,
    MOST_CASES,
    Atom,
    Cases,
    Factor,
    Facts,
    Inequality,
    Linear,
    both,
    cases_at,
    compare,
    data_in,
    data_of,
    either,
    find_reached,
    letters_of,
    map_data,
    negated,
    only,
    settled,
    without_some,
    written,
)
from einformer.program.operations import Function, Line, Value
from einformer.program.positions import PLAIN, Analysis, Body, Support, rename_data
from einformer.program.rewrite import walk_loops, walk_values
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


@dataclass(frozen=True, slots=True)
class Need:
    """Where a value is needed: where these inequalities hold, in the turns of the loops in which these cases hold."""

    where: Cases = ALWAYS
    cases: frozenset[Case] = frozenset()

    def within(self, where: Cases) -> Need:
        """The need of what is used there only."""
        return replace(self, where=settled(both(self.where, where)))

    def either(self, other: Need) -> Need:
        """Where one of two users needs a value."""
        return Need(either(self.where, other.where), self.cases & other.cases)


def apart(cases: Cases, letters: Iterable[str], mark: str) -> Cases:
    """The cases for some numbers of these letters: inside an operator all of them enter together."""
    return cases_at(cases, {x: Linear.index(f"{x}~{mark}") for x in letters})


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
    numbered = settled(only(cases, lambda inequality: not data_of(inequality)))
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


def _band(cases: Cases, turning: Collection[str], facts: Facts) -> tuple[Bound, ...]:
    """What each of these cases says of the distance of two positions, if together this says no more than they."""
    bounds = {inequality: bound for case in cases for inequality in case if (bound := _bound(inequality, turning)) is not None}
    sure = frozenset(i for i in bounds if all(i in case or facts.refutes(case | {negated(i)}) for case in cases))
    if math.prod(map(len, cases)) > MOST_CASES:
        return ()
    others = (frozenset(map(negated, chosen)) for chosen in itertools.product(*(case - sure for case in cases)))
    exact = any(case <= sure for case in cases) or all(facts.refutes(sure | other) for other in others)
    return tuple(bounds[i] for i in sorted(sure, key=repr)) if exact else ()


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
class Flows(Analysis):
    """The supports of a program's values at all sizes, what each `top` chooses, and the flow of each function."""

    trained: Mapping[str, frozenset[str]] = field(default_factory=dict)  # the weights of each function that are trained
    turning: frozenset[str] = frozenset()  # the letters of all loops
    flows: dict[Body, Flow] = field(default_factory=dict)
    named: dict[str, Choice] = field(default_factory=dict)  # by the name of the data that are above 0 where it chooses
    order: dict[str, Steps] = field(default_factory=dict)  # of each function

    @classmethod
    def of_spec(cls, spec: Spec, functions: Mapping[str, Function], legend: Legend) -> Flows:
        trained = {layer.name: frozenset(w.name for w in layer.weights if w.kind == "trained") for layer in spec.layers}
        turning = frozenset(turns.letter for function in functions.values() for turns in walk_loops(function.lines))
        return cls(functions, legend, "", Facts(legend, "", letters=True), proves=False, trained=trained, turning=turning)

    def whole(self, name: str, inputs: Sequence[Support] = ()) -> Flow:
        """The flow through a function, of whose inputs nothing else is known."""
        lines = self.functions[name].inputs
        return self.of(self.body(name, tuple(inputs) or (PLAIN,) * len(lines), ((),) * len(lines)))

    def of(self, body: Body) -> Flow:
        """The flow through a function."""
        if body not in self.flows:
            self.flows[body] = Flow(self, body)
        return self.flows[body]

    def steps(self, name: str) -> Steps:
        if name not in self.order:
            self.order[name] = steps_of(self.functions[name])
        return self.order[name]

    def choose(self) -> bool:
        operations = (value.operation for function in self.functions.values() for value in walk_values(function))
        return any(isinstance(operation, op.Reduce) and operation.operator == "top" for operation in operations)

    def settled(self) -> dict[str, Flow]:
        """The flow of each function, of whose inputs is known what holds in all its calls, whatever each of them chooses by."""
        flows, calls = dict[str, Flow](), {name: list[tuple[Support, ...]]() for name in self.functions}
        for name in reversed(list(self.functions)):  # callers stand last
            met = [
                reduce(Support.join, (self.made_by(x, k) for x in some))
                for k, some in enumerate(zip(*calls[name], strict=True))
            ]
            flows[name] = flow = self.whole(name, inputs=met)
            for step in flat(flow.body):
                for call in (value.operation for value in step.values if isinstance(value.operation, op.Call)):
                    calls[call.function].append(tuple(map(flow.support, call.arguments)))
        return flows

    # ----------------------------------------------------------------------------------------------------- choices

    def chosen(self, body: Body, value: Value) -> Cases:
        """Where a `top` chooses; in another turn it chooses others if their count does."""
        match value.operation:
            case op.Reduce("top", (letter,), argument, (count,)) if not count.axes:
                number, along = spell(count, body.scalars, self.legend), [x for x in argument.axes if x != letter]
                if not any(isinstance(x, Index) for x in subexpressions(number)):
                    choice = Choice(letter, number, frozenset(), (self.place(value),), count)
                    return compare(
                        ">", Linear.atom(self.choose_by(choice, tuple(map(Linear.index, (letter, *along))))), Linear.number(0)
                    )
        return ALWAYS

    def choose_by(self, choice: Choice, arguments: tuple[Linear, ...]) -> Atom:
        """The data that are above 0 where a choice chooses: of the letter of which some are chosen, then of others."""
        name = f"top {self.place(choice.of, choice.count)}"
        self.named[name] = choice
        return Atom("data", name, arguments)

    def find(self, atom: Atom) -> Choice | None:
        """The choice by which data are above 0, which the calls on the way tell from others."""
        name, *calls = atom.name.split("@")
        choice = self.named.get(name)
        return choice and replace(choice, of=(*map(int, reversed(calls)), *choice.of))

    def made_by(self, support: Support, maker: int) -> Support:
        """A support by the same choices of one maker, by whatever they were made."""

        def rename(atom: Atom) -> Atom:
            choice = self.find(atom)
            return self.choose_by(replace(choice, of=(~maker,)), atom.arguments) if choice else atom

        return support.each(lambda cases: map_data(cases, rename))

    def choices(self, cases: Cases) -> set[Choice]:
        """The choices outside of which no case holds."""
        some = data_in([frozenset.intersection(*cases)] if cases else ())
        named = ((self.find(atom), [_letter(number) for number in atom.arguments]) for atom in some)
        return {replace(choice, letter=x, along=frozenset(rest)) for choice, (x, *rest) in named if choice and "~" not in x}

    def speaks(self, inequality: Inequality) -> bool:
        """Does an inequality compare nothing but choices, numbers and indices?"""
        return all(map(self.find, data_of(inequality)))


class Flow:
    """One function: where each value is needed."""

    def __init__(self, flows: Flows, body: Body) -> None:
        self.flows, self.reader, self.function = flows, body, body.function
        self.weights, self.body = flows.trained[self.function.name], flows.steps(self.function.name)
        self.loops = frozenset(letter for step in flat(self.body) for letter, _ in step.loops)
        self.supports: dict[Value, Support] = {}
        self.needed: dict[Cases, tuple[Mapping[Value, Need], tuple[Cases, ...]]] = {}

    # --------------------------------------------------------------------------------------------------- supports

    def called(self, call: Value) -> Flow:
        self.reader.support(call)  # a call that is never reached was not followed
        return self.flows.of(self.reader.calls[call].body)

    def support(self, value: Value) -> Support:
        """The facts about a value that choices, numbers and indices tell."""
        if value not in self.supports:
            self.supports[value] = self.reader.support(value).each(self.tell)
        return self.supports[value]

    def tell(self, cases: Cases) -> Cases:
        """What cases say of choices, numbers and indices."""
        return settled(only(cases, self.flows.speaks))

    def nonzero_of(self, factors: Iterable[Value]) -> Cases:
        return both(*(self.support(factor).nonzero for factor in factors))

    def on_layers(self, condition: Value) -> Expression | None:
        """A condition on nothing but the numbers of layers and the legend (R8)."""
        if condition.axes or condition.kind == "tensor":
            return None
        e = spell(condition, self.reader.scalars, self.flows.legend)
        inside = list(subexpressions(e))
        letters = {x.letter for x in inside if isinstance(x, Index)}
        return e if UNKNOWN not in inside and letters <= self.loops else None

    def in_call(self, cases: Cases, call: Value, outside: set[Atom]) -> Cases:
        """Choices made in a function are those of one call; a mask is the same in every call."""
        return rename_data(without_some(cases), self.reader.mark(call), outside)

    def lasting(self, cases: Cases, repeat: Repeat, made: Iterable[Value]) -> Cases:
        """Those that are the same in each turn and by no choice `made` in it: a window `W_l` is not."""
        places = {self.flows.place(value) for value in made}

        def lasts(inequality: Inequality) -> bool:
            own = (choice.of[0] for atom in data_of(inequality) if (choice := self.flows.find(atom)))
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
        some, computed = repeat.turns.carried, {v for step in flat(repeat.body) for v in step.values}
        last = {c: asked[c.after] for c in some if c.after in asked}
        while True:
            inner = dict[Value, Cases]()
            for c, cases in last.items():
                self.ask(inner, c.last, cases)
            self.backward(repeat.body, inner, needs)
            inner = {value: self.lasting(cases, repeat, computed) for value, cases in inner.items()}
            turned = {c: inner[c.within] for c in some if c.within in inner}
            met = last | {c: either(cases, last.get(c, cases)) for c, cases in turned.items()}
            if met == last:
                break
            last = met
        for c, cases in last.items():
            if c.before is not None:
                self.ask(asked, c.before, cases)
        for value in inner.keys() - computed:
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
        for read_value, inner in own.items():
            if read_value in step.values:
                needs[read_value] = inner
            elif isinstance(read_value.operation, op.StoredWeight):
                needs[read_value] = needs[read_value].either(inner) if read_value in needs else inner
            elif value in asked:
                self.ask(asked, read_value, inner.where)

    def ask(self, asked: dict[Value, Cases], value: Value, cases: Cases) -> None:
        """A line needs a value in these cases."""
        own = self.within(cases, value)
        asked[value] = either(asked[value], own) if value in asked else own

    def within(self, cases: Cases, value: Value) -> Cases:
        """The cases, in letters of a value and for some number of others."""
        return apart(
            cases, {x for x in letters_of(cases) if "~" not in x} - {*value.axes} - self.flows.turning, self.mark(value)
        )

    def mark(self, value: Value) -> str:
        """What tells the letters that a value lacks where it is needed from those that others lack."""
        return f"n{self.flows.place(value)}"

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
                supports = (need.where, *(cases for s in map(self.support, arguments) for cases in s.claims))
                outside = data_in(case for cases in supports for case in cases)
                asked = (self.in_call(cases, value, outside) for cases in self.called(value).backwards(need.where)[1])
                return [(argument, replace(need, where=cases)) for argument, cases in zip(arguments, asked, strict=True)]
            case op.Recur(_, step):
                return [(step, need)]
            case _:
                return [(operand, need) for operand in value.operands]

    def before(self, need: Need, value: Value, letters: Iterable[str]) -> Need:
        """The need of what an operator over these letters is given."""
        return replace(need, where=apart(need.where, letters, self.mark(value)))

    def read(self, value: Value, need: Need) -> Need:
        """The need of what a value reads: a weight may be chosen along letters that it has not."""
        (source, *_), (numbers, *more) = value.operands, [numbers for numbers, _ in self.reader.places(value)] or [{}]
        letters = {} if more else {_letter(numbers.get(x, Linear.index(x))): x for x in source.axes}
        others = {x: letters.get(x, f"{x}~{self.mark(value)}") for x in {*value.axes, *source.axes} if letters.get(x) != x}
        where = cases_at(without_some(need.where), {x: Linear.index(letter) for x, letter in others.items()})
        return replace(need, where=where) if others else need

    def where(self, condition: Value, then: Value, otherwise: Value, need: Need) -> Iterator[tuple[Value, Need]]:
        """The branch that is not taken is not evaluated (R8)."""
        yield condition, need
        on_layers = self.on_layers(condition)
        for arm, holds in ((then, True), (otherwise, False)):
            if on_layers is not None:
                yield arm, replace(need, cases=need.cases | {Case(on_layers, holds)})
            else:
                cases = ALWAYS if isinstance(arm.operation, op.Constant) else self.tell(self.reader.told(condition, holds))
                yield arm, need.within(cases)


def _letter(number: Linear) -> str:
    """The letter that a number is; what is none of these speaks of some number of no letter."""
    return next((x for x in number.letters() if number == Linear.index(x)), "~")
