"""What does a program compute? Each operation in NumPy, in the order of the lines: a third interpreter of programs."""

from __future__ import annotations

import math
from collections import ChainMap
from collections.abc import Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any, assert_never

import numpy as np

from einformer.interpreters.reference import FUNCTIONS, OPERATORS, Array, Named, lift
from einformer.language.sizes import Legend
from einformer.language.tree import Name
from einformer.language.weights import key
from einformer.program import operations as op
from einformer.program.operations import Line, Program, Turns, Value

ARITHMETIC = {"+": np.add, "*": np.multiply, "/": np.divide, "^": np.power}


def executed(program: Program, inputs: Sequence[Array], weights: Mapping[str, Array], legend: Legend) -> Array:
    """The output of a program, as `reference` gives it."""
    with np.errstate(all="ignore"):
        array = _call(_Run(program, weights, legend), program.name, inputs, "").array
    for place, label in enumerate(program.functions[program.name].output.labels):  # merged axes are one
        array = array.reshape(*array.shape[:place], -1, *array.shape[place + len(label) :])
    return array


@dataclass(frozen=True)
class _Run:
    program: Program
    weights: Mapping[str, Array]
    legend: Legend


def _call(run: _Run, name: str, arguments: Sequence[Array], path: str) -> Named:
    function = run.program.functions[name]
    frame = _Frame(run, path, ChainMap[Value, Named](), {})
    for line, array in zip(function.inputs, arguments, strict=True):
        frame.known[line.value] = Named(line.value.axes, np.asarray(array))
    frame.lines(function.lines)
    letters = tuple(letter for label in function.output.labels for letter in label)
    result = frame.value(function.output.value)
    return Named(letters, result.over(letters))


@dataclass
class _Frame:
    run: _Run
    path: str
    known: MutableMapping[Value, Named]
    turns: dict[str, int]

    def lines(self, lines: tuple[Line | Turns, ...]) -> None:
        for line in lines:
            if isinstance(line, Turns):
                self.loop(line)
            else:
                self.value(line.value)

    def loop(self, loop: Turns) -> None:
        left = {each.name: self.value(each.before) for each in loop.carried if each.before is not None}
        for turn in range(int(self.value(loop.count).array)):
            known = ChainMap[Value, Named]({}, self.known)
            known.update({each.within: left[each.name] for each in loop.carried if each.name in left})
            inner = _Frame(self.run, self.path, known, self.turns | {loop.letter: turn})
            inner.lines(loop.lines)
            left = {each.name: inner.value(each.last) for each in loop.carried}
        self.known.update({each.after: left[each.name] for each in loop.carried if each.name in left})

    def value(self, value: Value) -> Named:
        if value not in self.known:
            self.known[value] = self.computed(value)
        return self.known[value]

    def computed(self, value: Value) -> Named:
        match value.operation:
            case op.Input(name):
                raise AssertionError(f"nothing is known of {name}")
            case op.StoredWeight(name):
                return Named(value.axes, np.asarray(self.run.weights[f"{self.path}{key(name)}"], dtype=np.float64))
            case op.Constant(number):
                return _number(self.number(number))
            case op.Table(name, letter):
                listed = self.run.legend.scalars[name].value
                assert isinstance(listed, tuple)
                return Named((letter,), np.array([number.value for number in listed], dtype=np.float64))
            case op.Iota(letter):
                return Named((letter,), np.arange(self.run.legend.length(letter), dtype=np.float64))
            case op.Turn(letter):
                return _number(self.turns[letter])
            case op.Map("where", (condition, then, otherwise)) if condition.plain:
                return self.spread(self.value(then if self.value(condition).array else otherwise), value.axes)
            case op.Map(function, arguments) if function in ARITHMETIC:
                return reduce(lift(ARITHMETIC[function]), map(self.value, arguments))
            case op.Map(function, arguments):
                return FUNCTIONS[function](*map(self.value, arguments))
            case op.Reduce(operator, letters, argument, counts):
                return OPERATORS[operator](self.value(argument), letters, *(int(self.value(k).array) for k in counts))
            case op.Einsum(letters, factors):
                product = reduce(lift(np.multiply), map(self.value, factors))
                return OPERATORS["sum"](self.spread(product, (*value.axes, *letters)), letters)
            case op.Spread(argument):
                return self.spread(self.value(argument), value.axes)
            case op.View(argument, old, new):
                return self.viewed(self.value(argument), old, new)
            case op.Gather():
                return self.gathered(value.operation)
            case op.Call(function, instance, turns, arguments):
                inside = "".join(f"blocks.{self.turns[letter]}." for letter in turns) + f"{key(instance)}." * bool(instance)
                formals = self.run.program.functions[function].inputs
                arrays = [self.value(v).over(line.value.axes) for v, line in zip(arguments, formals, strict=True)]
                return _call(self.run, function, arrays, self.path + inside)
            case op.Recur(letter, step, so_far):
                return self.solved(letter, step, so_far)
            case op.Rewritten():
                raise AssertionError(f"{value.operation} is for one interpreter alone")
            case _:
                assert_never(value.operation)

    def number(self, value: float | str) -> float:
        if not isinstance(value, str):
            return value
        if value.startswith("|"):
            return self.run.legend.length(value.strip("|"))
        return float(self.run.legend.named(Name(value)))

    def spread(self, value: Named, letters: tuple[str, ...]) -> Named:
        sizes = [self.size(value, letter) for letter in letters]
        return Named(letters, np.broadcast_to(value.over(letters), sizes))

    def size(self, value: Named, letter: str) -> int:
        return value.array.shape[value.dims.index(letter)] if letter in value.dims else self.run.legend.length(letter)

    def viewed(self, value: Named, old: Sequence[op.Label], new: Sequence[op.Label]) -> Named:
        array = _lying(value, old)
        lengths = [[self.run.legend.length(letter) for letter in label] for label in new]
        array = array[tuple(slice(math.prod(some)) for some in lengths)]
        return Named(_letters(new), array.reshape([length for some in lengths for length in some]))

    def gathered(self, e: op.Gather) -> Named:
        array, numbers = _lying(self.value(e.argument), e.labels), [self.value(number) for number in e.numbers]
        dims = tuple(dict.fromkeys(dim for number in numbers for dim in number.dims))
        early, places = np.zeros((), dtype=bool), list[Any]()
        for number, slot, size in zip(numbers, e.slots, array.shape, strict=True):
            place = number.over(dims)
            early = early | ((place < 0) & slot.timed)
            places.append(np.clip(np.nan_to_num(place), 0, size - 1).astype(np.int64))
        return Named(dims, np.where(early, 0, array[tuple(places)]))

    def solved(self, letter: str, step: Value, so_far: Value) -> Named:
        axis, letters = so_far.axes.index(letter), tuple(other for other in so_far.axes if other != letter)
        array = np.zeros([self.run.legend.length(each) for each in so_far.axes])
        for position in range(array.shape[axis]):
            known = ChainMap({so_far: Named(so_far.axes, array.copy())}, self.known)
            part = _Frame(self.run, self.path, known, self.turns | {letter: position}).value(step)
            array[(slice(None),) * axis + (position,)] = part.over(letters)
        return Named(so_far.axes, array)


def _number(value: float) -> Named:
    return Named((), np.asarray(value, dtype=np.float64))


def _lying(value: Named, labels: Sequence[op.Label]) -> Array:
    """The array with an axis for each label."""
    array = value.over(_letters(labels))
    sizes = iter(array.shape)
    return array.reshape([math.prod(next(sizes) for _ in label) for label in labels])


def _letters(labels: Sequence[op.Label]) -> tuple[str, ...]:
    return tuple(letter for label in labels for letter in label)
