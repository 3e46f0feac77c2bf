"""Derives what a forward pass saves for the backward pass: values of the program, each once, by a rule for each operation.

The convention of Korthikanti et al. 2022 (section 4.1): a product of two tensors saves what the gradient of the other needs,
a softmax its output, a GELU its input, a norm its input, a dropout its mask of one byte; sums and reshapes save nothing.
Weights are no activations. PyTorch itself saves more, by another convention.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Literal

from einformer.interpreters.count.gradients import Gradients, Turn
from einformer.interpreters.count.inventory import (
    EVERYWHERE,
    Chosen,
    Contraction,
    Work,
    build_work,
    cache_by_tree,
    find_rows,
    list_chosen,
    list_pairs,
)
from einformer.language.primitives import Keeps, row_of
from einformer.language.tree import Equation, Spec
from einformer.program import operations as op
from einformer.program.inequalities import ALWAYS, Cases
from einformer.program.needs import Need, Repeat, Step, made_of
from einformer.program.orders import Letters
from einformer.program.terms import Values
from einformer.program.turns import Loops, TurnCount, turns_of


@dataclass(frozen=True, slots=True)
class SavedValue:
    """The value of an expression: the letters over which it was computed, where, and how often.

    A product is not saved itself: its `parts` are, from which it is computed again.
    """

    key: int
    letters: Letters
    turns: tuple[TurnCount, ...]
    value: op.Value | None = None
    chosen: tuple[Chosen, ...] = ()
    trained: bool = False  # a weight is not
    parts: tuple[SavedValue, ...] = ()
    read: op.Value | None = None  # the view by which it is read


@dataclass(frozen=True, slots=True)
class Saved:
    """A value, or the mask of a dropout, that the equation of a layer saves.

    The input of a block enters a turn of a loop from the one before: all that full recomputation saves of a block.
    """

    value: SavedValue
    what: Literal["value", "mask", "input of a block"]
    path: str
    layer: str = ""
    equation: Equation | None = None
    contraction: Contraction | None = None  # the values are those between its steps

    # The order of contractions depends on `size`.
    def values(self, size: Callable[[str], int]) -> Iterator[SavedValue]:
        if self.contraction is None:
            yield self.value
            return
        for pair, _ in pairwise(list_pairs(self.contraction, size)):
            yield replace(self.value, letters=pair.output)


_CONSTANT = SavedValue(0, frozenset(), ())


# Returns the inputs of the blocks of a layer or model, then the values that it saves, in the order of the text.
@cache_by_tree
def find_saved(spec: Spec, name: str) -> tuple[Saved, ...]:
    work = build_work(spec, name)
    flow, store, trained = work.whole(name), _Store(work), work.layers[name].kind == "layer"
    inputs = (
        SavedValue(store.key(line.name), frozenset(line.value.axes), (), line.value, trained=trained)
        for line in flow.function.inputs
    )
    _SavedTensors(store, work.gradients[1], ALWAYS, inputs, "", ()).run()
    return (*store.carried, *store.saved.values())


@dataclass(slots=True)
class _Store:
    """All that is saved, each value once."""

    work: Work
    saved: dict[tuple[int, str], Saved] = field(default_factory=dict)
    carried: list[Saved] = field(default_factory=list)
    meanings: dict[str, Values] = field(default_factory=dict)  # of the values of each function
    keys: dict[object, int] = field(default_factory=dict)

    def key(self, *facts: object) -> int:
        return self.keys.setdefault(facts, len(self.keys) + 1)


class _SavedTensors:
    """One function: what is saved of each value, and by each line."""

    def __init__(
        self,
        store: _Store,
        gradients: Gradients,
        output: Cases,
        arguments: Iterable[SavedValue],
        path: str,
        turns: tuple[TurnCount, ...],
    ) -> None:
        self.store, self.gradients, self.path, self.turns = store, gradients, path, turns
        self.flow = flow = gradients.flow
        self.values = {line.value: value for line, value in zip(flow.function.inputs, arguments, strict=True)}
        self.inputs = tuple(value.key for value in self.values.values())
        self.needs = flow.needs(output)
        self.meanings = store.meanings.setdefault(flow.function.name, Values(flow.flows.legend))
        self.norms, self.in_norms = store.work.norms[flow.function.name]

    def run(self) -> SavedValue:
        self.steps(self.flow.body)
        return self.of(self.flow.function.output.value)

    def steps(self, body: tuple[Step | Repeat, ...]) -> None:
        for step in body:
            if isinstance(step, Repeat):
                self.loop(step)
                continue
            self.step, self.own = step, set(step.values)
            if step.line.value not in self.in_norms:
                self.of(step.line.value)

    # What a turn changes enters the next one as another value, and is another one after the last.
    def loop(self, repeat: Repeat) -> None:
        inside = repeat.loops
        for carried in repeat.turns.carried:
            if carried.before is not None:
                self.values[carried.within] = self.renew(self.of(carried.before), repeat, carried.name, carried.within, inside)
                if len(inside) == 1:
                    whole = replace(self.values[carried.within], chosen=())
                    self.store.carried.append(Saved(whole, "input of a block", self.path))
        self.steps(repeat.body)
        for carried in repeat.turns.carried:
            self.values[carried.after] = self.renew(self.of(carried.last), repeat, carried.name, carried.after, inside[:-1])

    def renew(self, old: SavedValue, repeat: Repeat, name: str, value: op.Value, loops: Loops) -> SavedValue:
        key = self.store.key(self.path, self.inputs, repeat.turns.loop.span.start, name, len(loops))
        return SavedValue(key, old.letters, (*self.turns, turns_of(loops, frozenset())), value, old.chosen, trained=True)

    # A value that is not computed here, a weight or what is made of numbers, is a constant.
    def of(self, value: op.Value) -> SavedValue:
        if value not in self.values:
            self.values[value] = self.compute(value) if value in self.own else _CONSTANT
        return self.values[value]

    # --------------------------------------------------------------------------------------------------- what is saved

    # Weights and constants are not activations; a value that several operations save is there once.
    def save(self, value: SavedValue, what: Literal["value", "mask"] = "value", contraction: Contraction | None = None) -> None:
        for part in value.parts:
            self.save(part, what, contraction)
        key = value.key, what
        if value.trained and not value.parts and key not in self.store.saved:
            layer, equation = self.store.work.names[self.flow.function.name], self.step.line.equation
            assert equation is not None
            self.store.saved[key] = Saved(value, what, self.path, layer, equation, contraction)

    def new(self, value: op.Value, letters: Letters | None = None) -> SavedValue:
        need = self.needs.get(value, Need())
        letters = self.letters(value) if letters is None else letters
        turns = (*self.turns, turns_of(self.step.loops, need.cases))
        chosen = list_chosen(self.flow.flows, need.where, letters)
        key = self.store.key(self.path, self.inputs, turns, chosen, letters, self.meanings.meaning(value))
        return SavedValue(key, letters, turns, value, chosen, self.is_trained(value))

    def is_trained(self, value: op.Value) -> bool:
        return self.gradients.moves(value, self.turn)

    @property
    def turn(self) -> Turn:
        return tuple((letter, 0) for letter, _ in self.step.loops)

    # A recurrence saves what each step computes anew.
    def letters(self, value: op.Value) -> Letters:
        turns = {inner.operation for inner in made_of(value, set())} if self.step.letters else set()
        return frozenset([*value.axes, *(letter for letter in self.step.letters if op.Turn(letter) in turns)])

    # --------------------------------------------------------------------------------------------------- operations

    # What an operation needs for its gradient is saved.
    def compute(self, value: op.Value) -> SavedValue:
        if value in self.norms:
            argument = self.norms[value].argument  # a value of the program, or a part of one
            self.save(self.of(argument) if argument in self.values or argument in self.own else self.compute(argument))
            return self.new(value)
        for operand in value.operands:
            self.of(operand)
        match value.operation:
            case op.Gather() if find_rows(value, self.flow.weights) is not None:
                return self.new(value)
            case op.View(argument, old, new):
                return _rename(self.of(argument), [*zip(old, new, strict=True)], value)
            case op.Gather(argument) | op.Spread(argument) | op.Recur(_, argument):
                return self.of(argument)
            case op.Map("*" | "/", factors):
                return self.multiply(value, factors)
            case op.Map("+"):
                return self.new(value)
            case op.Map("^", (base, _)):
                return self.apply(value, "input", base)
            case op.Map(name, arguments):
                return self.apply(value, row_of(name, False).keeps, *arguments)
            case op.Reduce(name, _, argument):
                return self.apply(value, row_of(name, True).keeps, argument)
            case op.Einsum(letters, factors):
                return self.contract(value, frozenset(letters), factors)
            case op.Call():
                return self.call(value, value.operation)
            case _:
                return _CONSTANT

    # Element by element: each factor is saved for the gradients of the others, a divisor for its own.
    def multiply(self, value: op.Value, factors: tuple[op.Value, ...]) -> SavedValue:
        trained = [*map(self.is_trained, factors)]
        divides = isinstance(value.operation, op.Map) and value.operation.function == "/"
        for k, factor in enumerate(factors):
            if (divides and k == len(factors) - 1 and trained[k]) or any(trained[:k]) or any(trained[k + 1 :]):
                self.save(self.of(factor))
        return replace(self.new(value), parts=tuple(map(self.of, factors)))

    # Two tensors at a time, in the best order; what lies between is saved too.
    def contract(self, value: op.Value, summed: Letters, factors: tuple[op.Value, ...]) -> SavedValue:
        if len(factors) > 1:
            self.multiply(value, factors)
        operands = tuple(letters for factor in factors if (letters := self.letters(factor)))
        if len(operands) > 2:
            between = self.new(value, frozenset[str]().union(*operands))
            self.save(between, contraction=Contraction(operands, summed, (EVERYWHERE,) * len(operands), value))
        return self.new(value)

    def apply(self, value: op.Value, keeps: Keeps, *arguments: op.Value) -> SavedValue:
        own = self.new(value)
        if own.trained:
            for argument in arguments if keeps == "input" else arguments[:1] if keeps == "both" else ():
                self.save(self.of(argument))
            if keeps in ("output", "both", "mask"):
                self.save(own, "mask" if keeps == "mask" else "value")
        return own

    # A layer is given values, and saves them as its own body says.
    def call(self, value: op.Value, call: op.Call) -> SavedValue:
        if (need := self.needs.get(value)) is None:
            return self.new(value)
        path, turns = self.store.work.path(self.path, call, self.step), (*self.turns, turns_of(self.step.loops, need.cases))
        called = self.gradients.call(value, self.turn)
        return _SavedTensors(self.store, called, need.where, map(self.of, call.arguments), path, turns).run()


# A value under the letters by which it is read: on a mesh all ranks have what is read at s', and each its own at s.
def _rename(value: SavedValue, pairs: Sequence[tuple[op.Axes, op.Axes]], view: op.Value) -> SavedValue:
    chosen = {choice.letter for choice in value.chosen}
    for old, new in pairs:
        if value.letters.issuperset(old) and chosen.isdisjoint(old):
            value = replace(value, letters=value.letters - set(old) | set(new), read=view)
    return replace(value, parts=tuple(_rename(part, pairs, view) for part in value.parts))
