"""Says what a forward pass keeps for the backward pass: values of the program, each once, by a rule for each operation.

The convention of Korthikanti et al. 2022 (section 4.1): a product of two tensors keeps what the gradient of the other needs,
a softmax its output, a GELU its input, a norm its input, a dropout its mask of one byte; sums and reshapes keep nothing.
Weights are no activations. What PyTorch really saves is another convention, and larger.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Literal, assert_never

from einformer.interpreters.count.contraction import Chosen, Contraction, chosen_of, steps
from einformer.interpreters.count.visits import Work, per_tree, rows_of, work_of
from einformer.language.primitives import Keeps, row_of
from einformer.language.tree import Equation, Spec
from einformer.program import operations as op
from einformer.program.needs import NO_CHOICE, Choices, Flow, Need, Repeat, Step, made_of
from einformer.program.orders import Letters
from einformer.program.terms import Values
from einformer.program.turns import Loops, Turns, turns_of


@dataclass(frozen=True, slots=True)
class Value:
    """What an expression computes: the letters over which it was computed, where, and how often.

    A product is no value of its own that is kept: its `parts` are, from which it is computed again.
    """

    key: int
    letters: Letters
    turns: tuple[Turns, ...]
    chosen: tuple[Chosen, ...] = ()
    trained: bool = False  # a weight is not
    parts: tuple[Value, ...] = ()


@dataclass(frozen=True, slots=True)
class Kept:
    """A value, or the mask of a dropout, that the equation of a layer keeps."""

    value: Value
    what: Literal["value", "mask"]
    path: str
    layer: str
    equation: Equation
    contraction: Contraction | None = None  # the values are those between its steps

    def values(self, size: Callable[[str], int]) -> Iterator[Value]:
        """What is kept, where `size` decides the order of contractions."""
        if self.contraction is None:
            yield self.value
            return
        for step, _ in pairwise(steps(self.contraction, size)):
            yield replace(self.value, letters=step.output)


@dataclass(frozen=True, slots=True)
class Carried:
    """A value that enters a turn of a loop from the one before: all that full recomputation keeps of a block."""

    value: Value
    path: str


CONSTANT = Value(0, frozenset(), ())


@per_tree
def keeps(spec: Spec, name: str) -> tuple[tuple[Kept, ...], tuple[Carried, ...]]:
    """What the layer or model `name` keeps, in the order of the text, and what its outer loops carry."""
    work = work_of(spec, name)
    flow, found, trained = work.whole(name), _Found(work), work.layers[name].kind == "layer"
    inputs = (Value(found.key(line.name), frozenset(line.value.axes), (), (), trained) for line in flow.function.inputs)
    _Body(found, flow, NO_CHOICE, inputs, "", ()).run()
    return tuple(found.kept.values()), tuple(found.carried)


@dataclass(slots=True)
class _Found:
    """All that is kept, each value once."""

    work: Work
    kept: dict[tuple[int, str], Kept] = field(default_factory=dict)
    carried: list[Carried] = field(default_factory=list)
    meanings: dict[str, Values] = field(default_factory=dict)  # of the values of each function
    keys: dict[object, int] = field(default_factory=dict)

    def key(self, *facts: object) -> int:
        """The number of a value of which these facts say what it is."""
        return self.keys.setdefault(facts, len(self.keys) + 1)


class _Body:
    """One function: what each value is that is kept, and what each line keeps."""

    def __init__(
        self, found: _Found, flow: Flow, output: Choices, given: Iterable[Value], path: str, turns: tuple[Turns, ...]
    ) -> None:
        self.found, self.flow, self.path, self.turns = found, flow, path, turns
        self.values = {line.value: value for line, value in zip(flow.function.inputs, given, strict=True)}
        self.inputs = tuple(value.key for value in self.values.values())
        self.needs = flow.needs(output)
        self.meanings = found.meanings.setdefault(flow.function.name, Values(flow.numbers.legend))
        self.norms, self.taken = found.work.norms(flow.function)

    def run(self) -> Value:
        """The value of the output."""
        self.steps(self.flow.body)
        return self.of(self.flow.function.output.value)

    def steps(self, body: tuple[Step | Repeat, ...]) -> None:
        for step in body:
            if isinstance(step, Repeat):
                self.loop(step)
            else:
                self.lines(step)

    def loop(self, repeat: Repeat) -> None:
        """What a turn changes enters the next one as another value, and is another one after the last."""
        turns, inside = repeat.turns, repeat.loops
        for carried in turns.carried:
            if carried.before is not None:
                self.values[carried.within] = self.renewed(self.of(carried.before), repeat, carried.name, inside)
                if len(inside) == 1:
                    self.found.carried.append(Carried(self.values[carried.within], self.path))
        self.steps(repeat.body)
        for carried in turns.carried:
            self.values[carried.after] = self.renewed(self.of(carried.last), repeat, carried.name, inside[:-1])

    def renewed(self, value: Value, repeat: Repeat, name: str, loops: Loops) -> Value:
        """What a name stands for where a turn begins, or after the last."""
        key = self.found.key(self.path, self.inputs, repeat.turns.loop.span.start, name, len(loops))
        return Value(key, value.letters, (*self.turns, turns_of(loops, frozenset())), value.chosen, trained=True)

    def lines(self, step: Step) -> None:
        self.step, self.own = step, set(step.values)
        if step.line.value not in self.taken:
            self.of(step.line.value)

    def argument(self, value: op.Value) -> Value:
        """What a norm is given: a value of the program, or a part of one."""
        return self.of(value) if value in self.values or value in self.own else self.value(value)

    def of(self, value: op.Value) -> Value:
        """What a value is that is kept: a weight, or what is made of numbers, is a constant."""
        if value not in self.values:
            self.values[value] = self.value(value) if value in self.own else CONSTANT
        return self.values[value]

    # --------------------------------------------------------------------------------------------------- what is kept

    def keep(self, value: Value, what: Literal["value", "mask"] = "value", contraction: Contraction | None = None) -> None:
        """Weights and constants are not activations; a value that several operations keep is there once."""
        for part in value.parts:
            self.keep(part, what, contraction)
        if value.parts:
            return
        key = value.key, what
        if value.trained and key not in self.found.kept:
            layer, equation = self.found.work.names[self.flow.function.name], self.step.line.equation
            assert equation is not None
            self.found.kept[key] = Kept(value, what, self.path, layer, equation, contraction)

    def new(self, value: op.Value, letters: Letters | None = None) -> Value:
        """What an operation itself computes."""
        need = self.needs.get(value, Need())
        letters = self.letters(value) if letters is None else letters
        turns = (*self.turns, turns_of(self.step.loops, need.cases))
        taken = chosen_of(need.choices, letters)
        key = self.found.key(self.path, self.inputs, turns, taken, letters, self.meanings.meaning(value))
        return Value(key, letters, turns, taken, self.flow.support(value).trained)

    def letters(self, value: op.Value) -> Letters:
        """The letters of what is computed in one turn of the loops around; a recurrence keeps what each step computes anew."""
        turns = {inner.operation for inner in made_of(value, set())} if self.step.letters else set()
        return frozenset([*value.axes, *(letter for letter in self.step.letters if op.Turn(letter) in turns)])

    # --------------------------------------------------------------------------------------------------- operations

    def value(self, value: op.Value) -> Value:
        """What an operation computes; what it needs for its gradient is kept."""
        if value in self.norms:
            self.keep(self.argument(self.norms[value].argument))
            return self.new(value)
        for operand in value.operands:
            self.of(operand)
        match value.operation:
            case op.Gather() if rows_of(value, self.flow.weights) is not None:
                return self.new(value)
            case op.View(argument) | op.Gather(argument) | op.Spread(argument):
                return self.of(argument)
            case op.Map("*" | "/", factors):
                return self.multiplied(value, factors)
            case op.Map("^", (base, _)):
                return self.applied(value, "input", base)
            case op.Map("+"):
                return self.new(value)
            case op.Map(name, arguments):
                return self.applied(value, row_of(name, False).keeps, *arguments)
            case op.Reduce(name, _, argument):
                return self.applied(value, row_of(name, True).keeps, argument)
            case op.Contract(letters, factors):
                return self.contracted(value, frozenset(letters), factors)
            case op.Call():
                return self.called(value, value.operation)
            case op.Recur(_, step):
                return self.of(step)
            case _:
                return CONSTANT

    def multiplied(self, value: op.Value, factors: tuple[op.Value, ...]) -> Value:
        """Element by element: each factor is kept for the gradients of the others, a divisor for its own."""
        trained = [self.flow.support(factor).trained for factor in factors]
        divides = isinstance(value.operation, op.Map) and value.operation.function == "/"
        for k, factor in enumerate(factors):
            if (divides and k == len(factors) - 1 and trained[k]) or any(trained[:k]) or any(trained[k + 1 :]):
                self.keep(self.of(factor))
        return replace(self.new(value), parts=tuple(map(self.of, factors)))

    def contracted(self, value: op.Value, summed: Letters, factors: tuple[op.Value, ...]) -> Value:
        """Two tensors at a time, in the best order; what lies between is kept too."""
        if len(factors) > 1:
            self.multiplied(value, factors)
        operands = tuple(letters for factor in factors if (letters := self.letters(factor)))
        if len(operands) > 2:
            between = self.new(value, frozenset[str]().union(*operands))
            self.keep(between, contraction=Contraction(operands, summed, (True,) * len(operands)))
        return self.new(value)

    def applied(self, value: op.Value, keeps: Keeps, *arguments: op.Value) -> Value:
        """A function of the table."""
        own = self.new(value)
        if not own.trained:
            return own
        match keeps:
            case "input":
                for argument in arguments:
                    self.keep(self.of(argument))
            case "output":
                self.keep(own)
            case "both":
                self.keep(self.of(arguments[0]))
                self.keep(own)
            case "mask":
                self.keep(own, "mask")
            case "nothing":
                pass
            case _ as never:
                assert_never(never)
        return own

    def called(self, value: op.Value, call: op.Call) -> Value:
        """A layer is given values, and keeps them as its own body says."""
        need = self.needs.get(value)
        if need is None:
            return self.new(value)
        path, turns = self.found.work.path(self.path, call, self.step), (*self.turns, turns_of(self.step.loops, need.cases))
        return _Body(self.found, self.flow.called(value), need.choices, map(self.of, call.arguments), path, turns).run()
