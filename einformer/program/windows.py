"""Derives how far from its own positions a rank reads, where an index is split over ranks (R10).

With `cp: s` a rank has some positions of `s`, and reads all at `s'`. Where masks bound how far `s'` stands from `s`, it is a
window: on each rank it runs over the rank's own positions and as many before and after as the bounds say. A slot `s - c` reads
through a window as well. What has no proved bound is read whole.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import cast

from einformer.errors import EinformerError
from einformer.language.calls import axis_of
from einformer.language.sizes import Legend
from einformer.language.tree import Expression, Index, Number, Spec
from einformer.language.walk import find_all, letters_in
from einformer.program import operations as op
from einformer.program.inequalities import NEVER, Cases, Facts, Linear
from einformer.program.keeping import farthest, find_least
from einformer.program.needs import Flow, Flows, Step, flat
from einformer.program.operations import Function, Value
from einformer.program.rewrite import walk_loops, walk_values
from einformer.program.sharding import Sharding, Window

Reach = tuple[Expression, Expression]  # how far before and after its own positions a rank reads
Sides = tuple[Expression | None, Expression | None]  # the same; none without a bound


@dataclass(frozen=True, slots=True)
class Windows:
    """The windows by their letters, and those through which slots with computed numbers read: at each value, of each axis."""

    letters: Mapping[str, Window]
    slots: Mapping[tuple[Value, str], str]


# The windows of the functions of the model `name`.
def find_windows(functions: Mapping[str, Function], spec: Spec, name: str, sharding: Sharding, legend: Legend) -> Windows:
    values = [value for function in functions.values() for value in walk_values(function)]
    letters = {letter for value in values for letter in value.axes}
    split = [(letter, mesh) for letter, mesh in sharding.places if legend.axis(letter) and letter not in sharding.zigzag]
    others = {letter: [*_list_others(letter, letters, sharding)] for letter, _ in split}
    if not any(others[letter] or any(True for value in values for _ in _list_shifted(value, letter)) for letter, _ in split):
        return Windows({}, {})
    search = _Search(functions, name, legend, Flows.of_spec(spec, functions, legend).settled())
    windows, slots = dict[str, Window](), dict[tuple[Value, str], str]()
    for letter, mesh in split:
        for other in others[letter]:
            if (reach := search.find_reach(letter, other)) is not None:
                windows[other] = Window(letter, mesh, *reach)
        for value, reach in search.find_slots(letter):
            window = Window(letter, mesh, *reach)
            same = (x for x, own in windows.items() if own == window and x not in letters)
            slots[value, letter] = next(same, None) or _choose_letter(letter, {*letters, *windows})
            windows[slots[value, letter]] = window
    return Windows(windows, slots)


def find_sides(
    functions: Mapping[str, Function], spec: Spec, name: str, sharding: Sharding, legend: Legend
) -> dict[tuple[str, str], Sides]:
    """How far before and after its own positions a rank reads of indices that go round: of each with its other index."""
    if not sharding.round:
        return {}
    letters = {letter for function in functions.values() for value in walk_values(function) for letter in value.axes}
    search = _Search(functions, name, legend, Flows.of_spec(spec, functions, legend).settled())
    pairs = [(letter, other) for letter in sharding.round for other in _list_others(letter, letters, sharding)]
    return {(letter, other): search.find_sides(letter, other) for letter, other in pairs}


def _list_others(letter: str, letters: Iterable[str], sharding: Sharding) -> Iterator[str]:
    return (x for x in sorted(letters) if axis_of(x) == axis_of(letter) and x != letter and not sharding.over((x,)))


def _choose_letter(letter: str, taken: set[str]) -> str:
    return letter if letter not in taken else _choose_letter(letter + "'", taken)


def _list_shifted(value: Value, letter: str) -> Iterator[Value]:
    slots = value.operation.slots if isinstance(value.operation, op.Gather) else ()
    return (s.number for s in slots if s.label == (letter,) and letter in s.number.axes and not s.is_whole)


@dataclass(slots=True)
class _Search:
    """Looks for bounds in the functions of a model."""

    functions: Mapping[str, Function]
    name: str
    legend: Legend
    flows: Mapping[str, Flow]
    turns: dict[str, frozenset[str]] = field(default_factory=dict)  # the letters of the loops around all calls of a function
    counts: dict[str, Expression] = field(default_factory=dict)  # of the turns of loops

    def __post_init__(self) -> None:
        for name in reversed([*self.functions]):  # callers stand last
            self.counts |= {turns.letter: turns.loop.count for turns in walk_loops(self.functions[name].lines)}
            around = [
                self.turns[caller] | {letter for letter, _ in step.loops}
                for caller in self.turns
                for step in flat(self.flows[caller].body)
                for value in step.values
                if isinstance(value.operation, op.Call) and value.operation.function == name
            ]
            self.turns[name] = frozenset.intersection(*map(frozenset, around)) if around else frozenset()

    # Returns None where the reach has no bound.
    def find_reach(self, letter: str, other: str) -> Reach | None:
        reaches, places = self.list_reaches(letter, other)
        return self.unite(reaches, places) if reaches else None

    # Each side has a bound of its own, which is the same in all turns.
    def find_sides(self, letter: str, other: str) -> Sides:
        reaches, _ = self.list_reaches(letter, other)
        bounds = [(None, None) if reach is None else reach for reach in reaches]
        before, after = (self.find_number(farthest(some)) for some in zip(*bounds, strict=True)) if bounds else (None, None)
        return before, after

    def find_number(self, e: Expression | None) -> Expression | None:
        if e is None or letters_in(e):
            return None
        values = self.list_values(e)
        return None if math.inf in values else Number(0) if values and max(values) <= 0 else e

    def list_reaches(self, letter: str, other: str) -> tuple[list[Sides | None], list[frozenset[str]]]:
        reaches, places = list[Sides | None](), list[frozenset[str]]()
        model = self.functions[self.name]
        stored = (line for function in self.functions.values() for line in (*function.weights, *function.scalars))
        if any(other in line.value.axes for line in (*model.inputs, model.output, *stored)):
            return [None], []
        for name, flow in self.flows.items():
            for step in flat(flow.body):
                for value in step.values:
                    if other in (*value.axes, *op.unite_axes(value.operands)):
                        cases = self.find_cases(name, value, letter, other)
                        places.append(self.list_turns(name, step))
                        if cases != NEVER:
                            distance = Linear.index(letter) - Linear.index(other)
                            reaches.append(None if cases is None else self.bound(letter, distance, cases))
        return reaches, places

    def find_slots(self, letter: str) -> Iterator[tuple[Value, Reach]]:
        for name, flow in self.flows.items():
            for step in flat(flow.body):
                for value in step.values:
                    for number in _list_shifted(value, letter):
                        distances = [(Linear.index(letter) - linear, case) for case, linear in flow.reader.numbers(number)]
                        bounds = [self.bound(letter, distance, frozenset((case,))) for distance, case in distances]
                        reach = self.unite(bounds, [self.list_turns(name, step)]) if bounds else None
                        if reach is not None:
                            yield value, reach

    def list_turns(self, name: str, step: Step) -> frozenset[str]:
        return self.turns[name] | {letter for letter, _ in step.loops}

    # What an operator sums or compares along a letter must be near, also what a layer that is called does so.
    # Returns None where the value needs all numbers of `other`.
    def find_cases(self, name: str, value: Value, letter: str, other: str) -> Cases | None:
        flow, row = self.flows[name], op.find_row(value.operation)
        match value.operation:
            case op.Einsum(letters, factors) if other in letters:
                return flow.nonzero_of(factors)
            case op.Reduce(_, letters, argument, counts) if other in letters:
                if row is None or counts or row.neutral not in (0, -math.inf):
                    return None
                support = flow.support(argument)
                return support.alive if row.neutral else support.nonzero if row.kind == "reducing" else None
            case op.Map() | op.Reduce() | op.Einsum() | op.Iota() | op.Spread():
                return NEVER
            case op.View(_, old, new):
                pairs = [(one, after) for one, after in zip(old, new, strict=True) if other in (*one, *after)]
                return NEVER if all(after == (other,) and one in ((other,), (letter,)) for one, after in pairs) else None
            case op.Gather(_, slots):
                own = [slot for slot in slots if other in (*slot.label, *slot.number.axes)]
                return NEVER if all(slot.is_whole or {letter, other}.isdisjoint(slot.label) for slot in own) else None
            case op.Call(function, arguments=arguments):
                formals = zip(arguments, self.functions[function].inputs, strict=True)
                return NEVER if all(other not in actual.axes or other in line.value.axes for actual, line in formals) else None
            case _:
                return None

    def bound(self, letter: str, distance: Linear, cases: Cases) -> Sides:
        facts = Facts(self.legend, axis_of(letter), letters=True)
        before, after = (find_most(facts, linear, cases) for linear in (distance, distance * -1))
        return before, after

    # The reach is a number in all turns, and not infinite in all.
    def unite(self, reaches: Iterable[Sides | None], places: Iterable[frozenset[str]]) -> Reach | None:
        distinct = dict.fromkeys(reaches)
        if None in distinct:
            return None
        before, after = (farthest(some) for some in zip(*filter(None, distinct), strict=True))
        letters = {x.letter for e in (before, after) if e is not None for x in find_all(Index, e)}
        if before is None or after is None or not all(letters <= turns for turns in places):
            return None
        sides = [(e, self.list_values(e)) for e in (before, after)]
        if any(values and min(values) == math.inf for _, values in sides):
            return None
        before, after = (Number(0) if values and max(values) <= 0 else e for e, values in sides)
        return before, after

    # Yields the number in every turn; nothing where sizes are open.
    def list_values(self, e: Expression) -> list[float]:
        letters = sorted(letters_in(e))
        try:
            turns = itertools.product(*(range(int(self.legend.number(self.counts[letter]))) for letter in letters))
            return [float(self.legend.number(e, dict(zip(letters, turn, strict=True)))) for turn in turns]
        except EinformerError:
            return []


def find_most(facts: Facts, linear: Linear, cases: Cases) -> Expression | None:
    most = [find_least(bounds) for case in cases for bounds, _ in facts.upper(linear, case)]
    return cast("Expression | None", farthest(most)) if most else None
