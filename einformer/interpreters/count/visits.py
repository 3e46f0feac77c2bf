"""Walks through the calls of a program, line by line, with what is needed of each value."""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from einformer.language.calls import axis_of
from einformer.language.sizes import Legend
from einformer.language.specialise import specialise
from einformer.language.tree import Layer, Spec
from einformer.program.kernels import Norm
from einformer.program.lowering import lower_functions
from einformer.program.matching import find_norms
from einformer.program.needs import DENSE, INNER, NO_CHOICE, Choices, Flow, Flows, Need, Step, flat, made_of
from einformer.program.operations import Call, Function, Gather, Input, Iota, Turn, Value, View, Weight
from einformer.program.orders import Letters
from einformer.program.turns import Turns, below, turns_of

T = TypeVar("T")
Norms = tuple[Mapping[Value, Norm], set[Value]]

MOST_TREES = 64


def per_tree(f: Callable[[Spec, str], T]) -> Callable[[Spec, str], T]:
    """f of the trees asked for last, found again by identity: to hash a whole tree takes longer than to count it."""
    found: dict[tuple[int, str], tuple[Spec, T]] = {}

    @functools.wraps(f)
    def remembered(spec: Spec, name: str) -> T:
        key = id(spec), name
        if key not in found:
            if len(found) >= MOST_TREES:
                del found[next(iter(found))]
            found[key] = spec, f(spec, name)  # as long as the tree is kept, its id is its own
        return found[key][1]

    return remembered


@dataclass(frozen=True, slots=True)
class Visit:
    """A line on a walk through the calls: what is needed of its values, and where the walk stands."""

    path: str
    flow: Flow
    step: Step
    needs: Mapping[Value, Need]
    turns: tuple[Turns, ...]  # of the calls on the way

    def letters(self, value: Value) -> Letters:
        """The letters of what is computed at once: a recurrence computes all anew in each step."""
        return self.step.letters.union(value.axes)

    def within(self, value: Value) -> tuple[Turns, ...]:
        """The turns in which a value is computed."""
        return (*self.turns, turns_of(self.step.loops, self.needs[value].cases))


@per_tree
def work_of(spec: Spec, name: str) -> Work:
    """The work of counting the layer or model `name`."""
    specialised = specialise(spec, name)
    legend, layers = Legend.of(specialised), {layer.name: layer for layer in specialised.layers}
    program = lower_functions(specialised, legend)
    names = {layer.span: layer.name for layer in spec.layers}
    flows = Flows.of_spec(specialised, program, legend)
    return Work(layers, {layer.name: names[layer.span] for layer in specialised.layers}, flows)


@dataclass(frozen=True, slots=True)
class Work:
    """The functions of a specialised spec, and the names that its author gave their layers."""

    layers: Mapping[str, Layer]
    names: Mapping[str, str]
    flows: Flows
    known: dict[str, Norms] = field(default_factory=dict)  # those of each function that was asked for

    @property
    def vocabulary(self) -> str:
        """The axis that tokens number, along which a table is read at an input."""
        return next((rows.axis for name in self.layers for rows in self.tables(name) if rows.by_input), "")

    def tables(self, name: str) -> Iterator[Rows]:
        """The rows of trained weights that a function reads."""
        trained = self.flows.trained[name]
        for step in flat(self.flows.steps(name)):
            yield from (rows for value in step.values if (rows := rows_of(value, trained)) is not None)

    def norms(self, function: Function) -> Norms:
        """The norms of a function, and the values that they take in."""
        if function.name not in self.known:
            found = find_norms(function, self.flows.numbers.legend)
            self.known[function.name] = found, {inner for value, norm in found.items() for inner in _taken(value, norm)}
        return self.known[function.name]

    def whole(self, name: str) -> Flow:
        """The flow through a model whose inputs are constants, or through a layer as it stands inside a model."""
        layer = self.layers[name]
        return self.flows.of(name, (DENSE if layer.kind == "model" else INNER,) * len(layer.formals))

    def visits(self, flow: Flow, output: Choices = NO_CHOICE, path: str = "", turns: tuple[Turns, ...] = ()) -> Iterator[Visit]:
        """The lines of a function whose output is needed for some choices, each after those of the calls in it."""
        needs = flow.needs(output)
        for step in flat(flow.body):
            visit = Visit(path, flow, step, needs, turns)
            for value in step.values:
                if isinstance(value.operation, Call) and value in needs:
                    inner = self.path(path, value.operation, step)
                    yield from self.visits(flow.called(value), needs[value].choices, inner, visit.within(value))
            if step.line.equation is not None:
                yield visit

    def path(self, path: str, call: Call, step: Step) -> str:
        """The path of what is called: the name of an instance, or else of the layer as the text has it."""
        loops = [letter for letter, _ in step.loops]
        letters = [letter for letter in call.turns if letter in loops] if call.instance else loops
        return below(path, letters, call.instance or self.names[call.function])


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows read from a table of weights, along an axis whose numbers are those of another axis or of an input."""

    table: str
    axis: str
    by_input: bool


def rows_of(value: Value, trained: Collection[str]) -> Rows | None:
    """The rows of a table that a value reads."""
    match value.operation:
        case View(Value(Weight(name)), old, new) if name in trained:
            pairs = ((one[0], other[0]) for one, other in zip(old, new, strict=True) if len(one) == len(other) == 1)
            return next((Rows(name, axis_of(one), False) for one, other in pairs if axis_of(one) != axis_of(other)), None)
        case Gather(Value(Weight(name)), labels, numbers) if name in trained:
            some = (_numbered(name, axis_of(label[0]), number) for label, number in zip(labels, numbers, strict=True))
            return next((rows for rows in some if rows is not None), None)
        case _:
            return None


def _numbered(name: str, axis: str, number: Value) -> Rows | None:
    """The rows at a number that is made of an input, or of the index of another axis."""
    inside = made_of(number, set())
    by_input = any(isinstance(value.operation, Input) for value in inside)
    letters = {value.operation.letter for value in inside if isinstance(value.operation, Iota | Turn)}
    return Rows(name, axis, by_input) if by_input or {axis} < {axis, *map(axis_of, letters)} else None


def _taken(value: Value, norm: Norm) -> Iterable[Value]:
    """What a norm computes by itself: all that is in it but what it is given."""
    given = set(Value(norm).operands) | {inner for operand in Value(norm).operands for inner in operand.operands}
    return made_of(value, given)[1:]
