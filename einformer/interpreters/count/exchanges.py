"""Counts what the ranks of a mesh exchange in a training step: which collective, how often, over how many numbers."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from einformer.language.primitives import NUMERIC
from einformer.language.sizes import Legend
from einformer.language.tree import Name
from einformer.program import operations as op
from einformer.program.collectives import (
    AllGather,
    AllGatherVary,
    AllReduce,
    Collective,
    Largest,
    Own,
    ReduceScatter,
    Vary,
    is_smooth,
)
from einformer.program.kernels import PAIR, Routed
from einformer.program.operations import Function, Line, Turns, Value
from einformer.program.rewrite import walk, walk_loops

NAMES: dict[type[Collective], tuple[tuple[str, str], ...]] = {
    AllReduce: (("all-reduce", "forward"),),
    Largest: (("all-reduce", "forward"),),
    AllGather: (("all-gather", "forward"),),
    Vary: (("all-reduce", "backward"),),
    Own: (("all-gather", "backward"),),
    AllGatherVary: (("all-gather", "forward"), ("reduce-scatter", "backward")),
    ReduceScatter: (("reduce-scatter", "forward"), ("all-gather", "backward")),
}


@dataclass(frozen=True, slots=True)
class Exchange:
    """A collective of a layer over an axis of the mesh: how often a step has it, and how many numbers a rank puts in each time.

    `letters` are the indices of these numbers.
    """

    layer: str
    mesh: str
    collective: str
    phase: str
    letters: tuple[str, ...]
    element: int  # the bytes of a number that is a condition or whole; 0 of those of the model
    times: int
    numbers: int

    def count_bytes(self, element: int) -> int:
        """The bytes that a rank puts in, all times together, where a number of the model has so many."""
        return self.times * self.numbers * (self.element or element)


def list_exchanges(functions: Mapping[str, Function], name: str, legend: Legend) -> tuple[Exchange, ...]:
    """What a rank exchanges in a step: the collectives of its functions, in a legend of its own sizes."""
    counter = _Counter(functions, legend)
    totals = counter.count(name)
    return tuple(Exchange(*key, times, counter.numbers[key]) for key, times in totals.items())


Key = tuple[str, str, str, str, tuple[str, ...], int]


@dataclass(slots=True)
class _Counter:
    """The collectives of each function, once for one call."""

    functions: Mapping[str, Function]
    legend: Legend
    numbers: dict[Key, int] = field(default_factory=dict)
    counted: dict[str, Counter[Key]] = field(default_factory=dict)
    felt: dict[str, set[Value]] = field(default_factory=dict)
    first: set[Value] = field(default_factory=set)  # what the first step of a recurrence does not exchange

    def count(self, name: str) -> Counter[Key]:
        if name not in self.counted:
            function = self.functions[name]
            there = {line.value for line in (*function.inputs, *function.weights, *function.scalars)}
            total = Counter(self.lines(function.lines, there, {}, name))
            total.update(self.value(function.output.value, there, {}, name))
            self.counted[name] = total
        return self.counted[name]

    def lines(self, lines: Iterable[Line | Turns], there: set[Value], at: Mapping[str, int], name: str) -> Iterator[Key]:
        for line in lines:
            if isinstance(line, Line):
                yield from self.value(line.value, there, at, name)
                continue
            carried = {value for each in line.carried for value in (each.within, each.after)}
            for turn in range(int(self.number(line.count, at))):
                inner = {*there, *carried}
                yield from self.lines(line.lines, inner, {**at, line.letter: turn}, name)
                for each in line.carried:
                    yield from self.value(each.last, inner, at, name)
            there |= carried

    def value(self, value: Value, there: set[Value], at: Mapping[str, int], name: str) -> Iterator[Key]:
        """What is exchanged until a value is there."""
        if value in there:
            return
        there.add(value)
        match value.operation:
            case op.Map("where", (condition, then, otherwise)) if condition.plain:
                yield from self.value(then if self.number(condition, at) else otherwise, there, at, name)
            case op.Recur(letter, step, so_far):
                steps = self.legend.length(letter)
                for inner in walk(step, closed={*there, so_far}):  # no gradient comes to what there was before the first step
                    if isinstance(inner.operation, Vary | Own) and _reads_only(inner, so_far):
                        self.first.add(inner)
                yield from [*self.value(step, {*there, so_far}, at, name)] * steps
                for inner in self.first - there:
                    there.add(inner)
                    if isinstance(inner.operation, Collective):
                        yield from [*self.list_keys(inner, inner.operation, name)] * (steps - 1)
            case op.Call(function) as call:
                for argument in call.arguments:
                    yield from self.value(argument, there, at, name)
                yield from self.count(function).elements()
            case operation:
                for operand in value.operands:
                    yield from self.value(operand, there, at, name)
                if isinstance(operation, Collective) and value not in self.first:
                    yield from self.list_keys(value, operation, name)

    def list_keys(self, value: Value, operation: Collective, name: str) -> Iterator[Key]:
        """What is exchanged: forward, and backward where a gradient comes and goes on."""
        moves = getattr(operation, "moves", True) and value in self.find_felt(name)
        for collective, phase in NAMES[type(operation)]:
            if phase == "forward" or moves:
                whole = phase == "backward" or isinstance(operation, Largest)
                letters = value.axes if whole else operation.argument.axes
                key = name, operation.mesh, collective, phase, letters, _find_element(operation.argument)
                self.numbers[key] = math.prod(self.size(letter, value) for letter in letters)
                yield key

    def find_felt(self, name: str) -> set[Value]:
        """The values of a function whose gradient its output gives."""
        if name not in self.felt:
            function, felt = self.functions[name], set[Value]()
            carried = [each for turns in walk_loops(function.lines) for each in turns.carried]
            sources = {value: (each.before, each.last) for each in carried for value in (each.within, each.after)}
            todo: list[Value | None] = [function.output.value]
            while todo:
                value = todo.pop()
                if value is not None and value not in felt:
                    felt.add(value)
                    todo += [*sources.get(value, ()), *self.list_felt(value)]
            self.felt[name] = felt
        return self.felt[name]

    def list_felt(self, value: Value) -> Iterable[Value]:
        """The operands to which a gradient goes on."""
        match value.operation:
            case op.Call(function, arguments=arguments):
                felt, formals = self.find_felt(function), self.functions[function].inputs
                return [argument for argument, line in zip(arguments, formals, strict=True) if line.value in felt]
            case op.Map("where", (_, *arms)):
                return arms
            case operation:
                return value.operands if is_smooth(operation) else ()

    def size(self, letter: str, value: Value) -> int:
        if letter != PAIR:
            return self.legend.length(letter)
        routed = next(each.operation for each in walk(value) if isinstance(each.operation, Routed))
        chosen = min(int(self.number(routed.count, {})), self.legend.length(routed.letter))
        return chosen * math.prod(map(self.legend.length, routed.rows))

    def number(self, value: Value, at: Mapping[str, int]) -> float:
        """A number that is the same on every rank."""
        match value.operation:
            case op.Constant(str() as text) if text.startswith("|"):
                return self.legend.length(text.strip("|"))
            case op.Constant(str() as text):
                return float(self.legend.named(Name(text)))
            case op.Constant(int() | float() as number):
                return number
            case op.Turn(letter) | op.Iota(letter):
                return at[letter]
            case op.Table(name, letter):
                listed = self.legend.scalars[name].value
                assert isinstance(listed, tuple)
                return listed[at[letter]].value
            case op.Gather(argument, slots):
                return self.number(argument, {slot.label[0]: int(self.number(slot.number, at)) for slot in slots})
            case op.Spread(argument) | op.View(argument):
                return self.number(argument, at)
            case op.Map("where", (condition, then, otherwise)):
                return self.number(then if self.number(condition, at) else otherwise, at)
            case op.Map(function, arguments):
                return _apply(function, [self.number(argument, at) for argument in arguments])
            case operation:
                raise AssertionError(operation)


def _find_element(value: Value) -> int:
    """The bytes of a condition or of a whole number; 0 of a number of the model."""
    row = op.find_row(value.operation)
    return 1 if value.kind == "condition" or (row and row.condition) else 8 if value.kind == "integer" else 0


def _reads_only(value: Value, so_far: Value) -> bool:
    """Is a value made of earlier steps alone?"""
    sources = {each for each in walk(value) if isinstance(each.operation, op.Input | op.Weight | op.Call)}
    return {each for each in sources if each.kind == "tensor"} == {so_far}


def _apply(function: str, numbers: list[float]) -> float:
    match function:
        case "+":
            return sum(numbers)
        case "*":
            return math.prod(numbers)
        case "/":
            return numbers[0] / numbers[1]
        case "^":
            return float(numbers[0] ** numbers[1])
        case _:
            return float(NUMERIC[function](*numbers))
