"""Says where each value is zero and where it is needed (R10): choices and masks, followed through the values of a function.

`p_x = where(top_{T,x}(r_x), r_x, 0)` is zero but for T numbers of x. In `p_x silu(g_xf) u_xf O_xfd` the other factors are
needed for those T only, and so is every value that nothing else reads: the experts that compute. In the same way the scores
`q_bse k_bs'e` are needed only where a mask allows them. Supports are followed from the inputs to the output, and with them
which values depend on trained weights; needs from the output back; a loop is repeated until nothing changes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import reduce

from einformer.language.calls import axis_of
from einformer.language.primitives import Primitive
from einformer.language.sizes import Legend
from einformer.language.tree import Expression, Index, Spec
from einformer.language.walk import subexpressions
from einformer.program import operations as op
from einformer.program.inequalities import INFINITE, Atom, Cases, Factor, Facts, Inequality, Linear, compare, negated, written
from einformer.program.numbers import UNDECIDED, UNKNOWN, Reader, spell
from einformer.program.operations import Function, Line, Value
from einformer.program.rewrite import list_differentiated
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
        """The letters in it."""
        return self.along | {self.letter}

    def under(self, letters: Mapping[str, str]) -> Choice:
        """The same choice of other letters; one that is none here stays another."""
        along = frozenset(letters.get(letter, f"~{letter}") for letter in self.along)
        return replace(self, letter=letters[self.letter], along=along)


@dataclass(frozen=True, slots=True)
class Bound:
    """`s - W < s'`: the `later` of two positions stands at least so many after the `earlier`; here s' after s, 1 - W."""

    later: str
    earlier: str
    least: Expression

    @property
    def letters(self) -> frozenset[str]:
        """The letters in it."""
        return frozenset((self.later, self.earlier))

    def under(self, letters: Mapping[str, str]) -> Bound:
        """The same bound between other positions."""
        return replace(self, later=letters[self.later], earlier=letters[self.earlier])


Choices = frozenset[Choice | Bound]
NO_CHOICE: Choices = frozenset()


@dataclass(frozen=True, slots=True)
class Support:
    """Outside of some choices a value is zero, outside of others -inf; `trained` if it depends on trained weights."""

    zero: Choices = NO_CHOICE
    infinite: Choices = NO_CHOICE
    trained: bool = False

    def each(self, change: Callable[[Choices], Choices]) -> Support:
        """The same of other choices."""
        return replace(self, zero=change(self.zero), infinite=change(self.infinite))

    def meet(self, other: Support) -> Support:
        """The facts that hold of both."""
        return Support(self.zero & other.zero, self.infinite & other.infinite, self.trained or other.trained)


def made_by(support: Support, maker: int) -> Support:
    """A support by the same choices of one maker, by whatever they were made."""
    change = lambda c: replace(c, of=(~maker,)) if isinstance(c, Choice) else c  # noqa: E731
    return support.each(lambda choices: frozenset(map(change, choices)))


DENSE = Support()
INNER = Support(trained=True)  # of what a layer is given inside a model


@dataclass(frozen=True, slots=True)
class Need:
    """Where a value is needed: for these choices, in the turns of the loops in which these cases hold."""

    choices: Choices = NO_CHOICE
    cases: frozenset[Case] = frozenset()

    def chosen(self, choices: Choices) -> Need:
        """The need of a value that is used for these choices only."""
        return replace(self, choices=self.choices | choices)

    def either(self, other: Need) -> Need:
        """Where one of two users needs a value."""
        return Need(self.choices & other.choices, self.cases & other.cases)


def union(choices: Iterable[Choices]) -> Choices:
    """The union of these."""
    return NO_CHOICE.union(*choices)


def shared(choices: Iterable[Choices]) -> Choices:
    """The intersection of these."""
    return reduce(frozenset.__and__, choices)


def without(choices: Choices, letters: Iterable[str]) -> Choices:
    """The choices that remain outside an operator: all numbers of its own letters enter together."""
    return frozenset(choice for choice in choices if choice.letters.isdisjoint(letters))


def under(choices: Choices, letters: Mapping[str, str]) -> Choices:
    """Choices under other letters; lost where one of theirs is: T for each s are all for no s."""
    return frozenset(choice.under(letters) for choice in choices if choice.letters <= letters.keys())


def letters_read(value: Value) -> dict[str, str]:
    """Of the letters of what a view, a gather or a spread reads those that are still one, with the letters that they are."""
    match value.operation:
        case op.View(_, old, new):
            pairs = ((one, other) for one, other in zip(old, new, strict=True) if len(one) == len(other))
            return {inner: outer for one, other in pairs for inner, outer in zip(one, other, strict=True)}
        case op.Gather(_, labels, numbers):
            pairs_ = ((label, number.operation) for label, number in zip(labels, numbers, strict=True))
            return {label[0]: number.letter for label, number in pairs_ if len(label) == 1 and isinstance(number, op.Iota)}
        case _:
            return {letter: letter for letter in value.axes}


# ------------------------------------------------------------------------------------------------------------ bounds


def bounds(cases: Cases, facts: Facts) -> Choices:
    """The bounds of each case on two positions."""
    told = {inequality: bound for case in cases for inequality in case if (bound := _bound(inequality)) is not None}
    return frozenset(
        bound for inequality, bound in told.items() if all(facts.refutes(case | {negated(inequality)}) for case in cases)
    )


def _bound(inequality: Inequality) -> Bound | None:
    """`s' - s - 3 >= 0`, and nothing of other indices or of data: index numbers are whole."""
    (strict, linear), numbers = (inequality.strict, inequality.linear), dict[str, Factor]()
    rest = Linear.of({m: f for m, f in linear.terms if not any(atom.kind == "index" for atom, _ in m)})
    for monomial, factor in (linear - rest).terms:
        ((atom, power), *more) = monomial
        numbers[atom.name if power == 1 and not more else ""] = factor
    later, earlier = (next((x for x, f in numbers.items() if f * sign > 0), "") for sign in (1, -1))
    if len(numbers) != 2 or not later or axis_of(later) != axis_of(earlier) or numbers[later] + numbers[earlier]:
        return None
    least = rest * Fraction(-1, numbers[later]) + Linear.number(int(strict))
    return None if any(atom.kind == "data" for atom in least.atoms()) else Bound(later, earlier, written(least))


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
    """A value and its operands that were not seen before, users before their operands."""
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
    known: dict[tuple[str, tuple[Support, ...]], Flow] = field(default_factory=dict)
    places: dict[Value, int] = field(default_factory=dict)  # of choices and calls
    bodies: dict[str, Steps] = field(default_factory=dict)

    @classmethod
    def of_spec(cls, spec: Spec, functions: Mapping[str, Function], legend: Legend) -> Flows:
        """The flows of the functions of a specialised spec."""
        trained = {layer.name: frozenset(w.name for w in layer.weights if w.kind == "trained") for layer in spec.layers}
        return cls(functions, trained, legend, Facts(legend, "", letters=True))

    def of(self, name: str, inputs: tuple[Support, ...]) -> Flow:
        """The flow through a function whose inputs have these supports."""
        key = name, inputs
        if key not in self.known:
            self.known[key] = Flow(self, self.functions[name], self.trained[name], inputs)
        return self.known[key]

    def steps(self, name: str) -> Steps:
        """The steps of a function."""
        if name not in self.bodies:
            self.bodies[name] = steps_of(self.functions[name])
        return self.bodies[name]

    def choose(self) -> bool:
        """Is anything chosen at all?"""
        steps = (step for name in self.functions for step in flat(self.steps(name)))
        return any(is_top(value.operation) for step in steps for value in step.values)

    def settled(self) -> dict[str, Flow]:
        """The flow of each function, of whose inputs is known what holds in all its calls, whatever each of them chooses by."""
        flows, calls = dict[str, Flow](), {name: list[tuple[Support, ...]]() for name in self.functions}
        for name in reversed(list(self.functions)):  # callers stand last
            inputs = zip(*calls[name], strict=True) if calls[name] else [(DENSE,)] * len(self.functions[name].inputs)
            met = (reduce(Support.meet, (made_by(support, k) for support in some)) for k, some in enumerate(inputs))
            flows[name] = flow = self.of(name, tuple(met))
            for step in flat(flow.body):
                for call in (value.operation for value in step.values if isinstance(value.operation, op.Call)):
                    calls[call.function].append(tuple(map(flow.support, call.arguments)))
        return flows

    def place(self, value: Value) -> int:
        """The number of a choice or a call."""
        return self.places.setdefault(value, len(self.places))


class Conditions(Reader):
    """Reads conditions; one that says nothing of numbers is an element of data, and `supposing` has it by the name of that."""

    def __init__(self, function: Function, facts: Facts) -> None:
        super().__init__(function, facts)
        self.supposing: dict[str, Value] = {}

    def supposed(self, value: Value, holds: bool) -> Cases:
        """Where it holds, an element of data is above 0."""
        if not holds:
            return UNDECIDED
        name = self.facts.fresh("?")
        self.supposing[name] = value
        return compare(">", Linear.atom(Atom("data", name, tuple(map(Linear.index, value.axes)))), Linear.number(0))


class Flow:
    """One function: the support of each value, and where each is needed."""

    def __init__(self, flows: Flows, function: Function, weights: frozenset[str], inputs: tuple[Support, ...]) -> None:
        self.flows, self.function, self.weights = flows, function, weights
        self.reader = Conditions(function, flows.facts)
        self.consequences: dict[tuple[Value, bool], Choices] = {}
        self.body = flows.steps(function.name)
        self.loops = frozenset(letter for step in flat(self.body) for letter, _ in step.loops)
        self.supports = {line.value: support for line, support in zip(function.inputs, inputs, strict=True)}
        self.needed: dict[Choices, tuple[Mapping[Value, Need], tuple[Choices, ...]]] = {}
        self.forward(self.body)
        self.output = self.support(function.output.value)

    # --------------------------------------------------------------------------------------------------- supports

    def forward(self, body: Steps) -> None:
        """Follow the supports of some steps."""
        for step in body:
            if isinstance(step, Repeat):
                self.repeat(step)
                continue
            self.compute(step)
            if isinstance(recur := step.line.value.operation, op.Recur):  # it reads itself, which is trained if its step is
                self.supports[recur.so_far] = Support(trained=self.support(recur.step).trained)
                self.compute(step)

    def compute(self, step: Step) -> None:
        """Follow the supports of the values of a line."""
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
            last = {c: self.support(c.last).each(lambda choices: _lasting(choices, repeat)) for c in some}
            met = {c: last[c].meet(start.get(c, last[c])) for c in some}
            if all(met[c] == start[c] for c in start):
                break
            start = {c: met[c] for c in start}
        self.supports |= {c.after: met[c] for c in some}

    def support(self, value: Value) -> Support:
        """The facts about a value."""
        if value not in self.supports:
            self.supports[value] = self.follow(value)
        return self.supports[value]

    def follow(self, value: Value) -> Support:
        """The facts about a value, from those of its operands."""
        return replace(self.nothing(value), trained=self.trained(value))

    def trained(self, value: Value) -> bool:
        """Has a value a gradient with respect to some weight, or to an input that has one?"""
        match value.operation:
            case op.Weight(name):
                return name in self.weights
            case op.Call():
                return self.called(value).output.trained
            case _:
                return any(self.support(operand).trained for operand in list_differentiated(value))

    def nothing(self, value: Value) -> Support:
        """Where a value is zero or -inf; a condition counts as zero where it does not hold."""
        row = op.find_row(value.operation)
        match value.operation:
            case op.Map("where", (condition, then, otherwise)):
                return self.branched(condition, then, otherwise)
            case op.Map("+", terms):
                parts = [self.support(term) for term in terms]
                return Support(shared(part.zero for part in parts), union(part.infinite for part in parts))
            case op.Map("*", factors):
                return Support(self.zero_of(factors))
            case op.Map("/", (numerator, _)):
                return Support(self.support(numerator).zero)
            case op.Map("^", (base, Value(op.Constant(int() | float() as exponent)))) if exponent > 0:
                return Support(self.support(base).zero)
            case op.Contract(letters, factors):
                return Support(without(self.zero_of(factors), letters))
            case op.Map(_, (argument, *_)) | op.Reduce(_, _, argument) if row is not None:
                return Support(self.told(value, True) if row.condition else self.passed(value.operation, row, argument))
            case op.View(argument) | op.Gather(argument) | op.Spread(argument):
                return self.support(argument).each(lambda choices: under(choices, letters_read(value)))
            case op.Recur(_, step):
                return self.support(step)
            case op.Call(arguments=arguments):
                outside = union(s.zero | s.infinite for s in map(self.support, arguments))
                return self.called(value).output.each(lambda choices: self.in_call(choices, value, outside))
            case _:
                return DENSE

    def passed(self, operation: op.Operation, row: Primitive, argument: Value) -> Choices:
        """Outside of which choices a function or an operator is zero, since its argument is zero, or -inf."""
        support, letters = self.support(argument), operation.letters if isinstance(operation, op.Reduce) else ()
        zero = without(support.zero, letters) if row.zero else NO_CHOICE
        return zero | support.infinite if row.at_minus_infinity == 0 else zero

    def zero_of(self, factors: Iterable[Value]) -> Choices:
        """Outside of which choices a product is zero."""
        return union(self.support(factor).zero for factor in factors)

    def branched(self, condition: Value, then: Value, otherwise: Value) -> Support:
        """`where(c, y, 0)` is zero outside of c, `where(c, -inf, y)` is -inf inside; a c on layers chooses nothing."""
        arms = [(arm, self.support(arm), holds) for arm, holds in ((then, True), (otherwise, False))]

        def outside(number: float, choices: Callable[[Support], Choices]) -> Choices:
            others = [(choices(support), holds) for arm, support, holds in arms if not _is(arm, number)]
            says = len(others) == 1 or any(own for own, _ in others)
            return shared(own | self.told(condition, holds) for own, holds in others) if others and says else NO_CHOICE

        return Support(outside(0, lambda s: s.zero), outside(-math.inf, lambda s: s.infinite))

    def told(self, condition: Value, holds: bool) -> Choices:
        """The facts where a condition holds, or does not."""
        key = condition, holds
        if key not in self.consequences:
            cases = self.flows.facts.holding(self.reader.condition(condition, holds))
            made = (union(map(self.meant, case)) for case in cases)
            self.consequences[key] = (shared(made) if cases else NO_CHOICE) | without(
                bounds(cases, self.flows.facts), self.loops
            )
        return self.consequences[key]

    def meant(self, inequality: Inequality) -> Choices:
        """What it says that a condition holds of which nothing else is read, at some numbers of its letters."""
        ((monomial, _), *_) = inequality.linear.terms or ((frozenset(), 0),)
        ((atom, _), *_) = monomial or ((INFINITE, 0),)
        if atom.name not in self.reader.supposing:
            return NO_CHOICE
        value = self.reader.supposing[atom.name]
        letters = zip(value.axes, atom.arguments, strict=True)
        own = {letter: x for letter, number in letters if number == Linear.index(x := next(iter(number.letters()), ""))}
        return under(self.chosen(value), own)

    def chosen(self, value: Value) -> Choices:
        """The choices outside of which a condition does not hold."""
        match value.operation:
            case op.Reduce("top", (letter,), argument, (count,)) if not count.axes:
                number, along = self.spelled(count), frozenset(argument.axes) - {letter}
                turning = any(isinstance(x, Index) for x in subexpressions(number))  # in another turn it chooses others
                return NO_CHOICE if turning else frozenset([Choice(letter, number, along, (self.flows.place(value),), count)])
            case op.Reduce("top"):
                return NO_CHOICE
            case _:
                return self.support(value).zero

    def spelled(self, value: Value) -> Expression:
        """A value as an expression."""
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
        """The flow through the function that is called."""
        assert isinstance(call.operation, op.Call)
        return self.flows.of(call.operation.function, tuple(map(self.support, call.operation.arguments)))

    def in_call(self, choices: Choices, call: Value, outside: Choices) -> Choices:
        """Choices made in a function are those of one call; a mask is the same in every call."""
        place, made = self.flows.place(call), {choice for choice in choices - outside if isinstance(choice, Choice)}
        return (choices - made) | {replace(choice, of=(place, *choice.of)) for choice in made}

    # ------------------------------------------------------------------------------------------------------ needs

    def needs(self, output: Choices = NO_CHOICE) -> Mapping[Value, Need]:
        """Where each value is needed if the output is needed for `output`."""
        return self.backwards(output)[0]

    def backwards(self, output: Choices) -> tuple[Mapping[Value, Need], tuple[Choices, ...]]:
        """The same, and for which choices each input is needed."""
        output = _within(output, self.function.output.value)
        if output not in self.needed:
            asked, needs = {self.function.output.value: output}, dict[Value, Need]()
            self.backward(self.body, asked, needs)
            self.needed[output] = needs, tuple(asked.get(line.value, NO_CHOICE) for line in self.function.inputs)
        return self.needed[output]

    def backward(self, body: Steps, asked: dict[Value, Choices], needs: dict[Value, Need]) -> None:
        """Follow the needs of some steps, the last first; `asked` is by later lines."""
        for step in reversed(body):
            if isinstance(step, Repeat):
                self.turn_back(step, asked, needs)
            elif step.values or step.line is self.function.output:
                self.line(step, asked, needs)

    def turn_back(self, repeat: Repeat, asked: dict[Value, Choices], needs: dict[Value, Need]) -> None:
        """The need of a turn of the one before it. Its choices are others in each turn, together perhaps all."""
        some, made = repeat.turns.carried, {v for step in flat(repeat.body) for v in step.values}
        places = {self.flows.places[value] for value in made & self.flows.places.keys()}
        last = {c: asked[c.after] for c in some if c.after in asked}
        while True:
            inner = dict[Value, Choices]()
            for c, choices in last.items():
                _ask(inner, c.last, choices)
            self.backward(repeat.body, inner, needs)
            inner = {value: _lasting(choices, repeat, places) for value, choices in inner.items()}
            turned = {c: inner[c.within] for c in some if c.within in inner}
            met = last | {c: choices & last.get(c, choices) for c, choices in turned.items()}
            if met == last:
                break
            last = met
        for c, choices in last.items():
            if c.before is not None:
                _ask(asked, c.before, choices)
        for value in inner.keys() - made:
            _ask(asked, value, inner[value])

    def line(self, step: Step, asked: dict[Value, Choices], needs: dict[Value, Need]) -> None:
        """A line that nobody asks for is computed, and asks for nothing."""
        value = step.line.value
        need = Need(asked.get(value, NO_CHOICE))
        while True:
            own = {value: need}
            for user in step.values:
                for operand, inner in self.inside(user, own[user]) if user in own else ():
                    own[operand] = own[operand].either(inner) if operand in own else inner
            read = own.get(value.operation.so_far) if isinstance(value.operation, op.Recur) else None
            if read is None or need.choices <= read.choices:
                break
            need = Need(need.choices & read.choices)  # a recurrence reads itself
        for each, inner in own.items():
            if each in step.values:
                needs[each] = inner
            elif isinstance(each.operation, op.Weight):
                needs[each] = needs[each].either(inner) if each in needs else inner
            elif value in asked:
                _ask(asked, each, inner.choices)

    def inside(self, value: Value, need: Need) -> Iterable[tuple[Value, Need]]:
        """The operands of a value that is needed, each with where it is needed."""
        row = op.find_row(value.operation)
        match value.operation:
            case op.Map("*" | "/", arguments):  # each factor only where none is zero
                return [(argument, need.chosen(self.support(value).zero)) for argument in arguments]
            case op.Contract(letters, factors):
                zero = self.zero_of(factors) if len(factors) > 1 else NO_CHOICE
                inner = replace(need, choices=without(need.choices, letters) | zero)
                return [(factor, inner) for factor in factors]
            case op.Map("where", (condition, then, otherwise)):
                return self.where(condition, then, otherwise, need)
            case op.Map(_, (argument,)) if row is not None and row.at_minus_infinity == 0:
                return [(argument, need.chosen(self.support(argument).infinite))]
            case op.Reduce(_, letters, argument, counts):
                inner = replace(need, choices=without(need.choices, letters))
                deaf = row is not None and row.neutral == -math.inf and not counts
                chosen = inner.chosen(self.support(argument).infinite) if deaf else inner
                return [(argument, chosen), *((count, inner) for count in counts)]
            case op.View(argument) | op.Spread(argument):
                return [(argument, _read(value, need))]
            case op.Gather(argument, _, numbers):
                return [(argument, _read(value, need)), *((number, need) for number in numbers)]
            case op.Call(arguments=arguments):
                outside = need.choices | union(s.zero | s.infinite for s in map(self.support, arguments))
                asked = (self.in_call(choices, value, outside) for choices in self.called(value).backwards(need.choices)[1])
                return [(argument, replace(need, choices=choices)) for argument, choices in zip(arguments, asked, strict=True)]
            case op.Recur(_, step):
                return [(step, need)]
            case _:
                return [(operand, need) for operand in value.operands]

    def where(self, condition: Value, then: Value, otherwise: Value, need: Need) -> Iterator[tuple[Value, Need]]:
        """The branch that is not taken is not evaluated (R8)."""
        yield condition, need
        on_layers = self.on_layers(condition)
        for arm, holds in ((then, True), (otherwise, False)):
            if on_layers is not None:
                yield arm, replace(need, cases=need.cases | {Case(on_layers, holds)})
            else:
                yield arm, need if isinstance(arm.operation, op.Constant) else need.chosen(self.told(condition, holds))


def is_top(operation: op.Operation) -> bool:
    """Does it choose?"""
    return isinstance(operation, op.Reduce) and operation.operator == "top"


def _ask(asked: dict[Value, Choices], value: Value, choices: Choices) -> None:
    own = _within(choices, value)
    asked[value] = asked[value] & own if value in asked else own


def _within(choices: Choices, value: Value) -> Choices:
    """The choices that speak of a value's letters alone."""
    return frozenset(choice for choice in choices if choice.letters <= set(value.axes))


def _read(value: Value, need: Need) -> Need:
    """The need of the operands of a value: a weight may be chosen along letters that it has not."""
    letters = {outer: inner for inner, outer in letters_read(value).items()}
    spoken = ((choice, {choice.letter} if isinstance(choice, Choice) else choice.letters) for choice in need.choices)
    return replace(need, choices=frozenset(choice.under(letters) for choice, own in spoken if own <= letters.keys()))


def _is(value: Value, number: float) -> bool:
    match value.operation:
        case op.Constant(int() | float() as own):
            return own == number
        case op.View(argument) | op.Spread(argument):
            return _is(argument, number)
        case _:
            return False


def _lasting(choices: Choices, repeat: Repeat, made: Iterable[int] = ()) -> Choices:
    """Those that are the same in each turn and not `made` in it: a window `W_l` is not."""
    turning = Index(repeat.turns.letter)
    return frozenset(
        c for c in choices if (c.of[0] not in made if isinstance(c, Choice) else turning not in subexpressions(c.least))
    )
