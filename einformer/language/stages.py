"""Cuts a model into the stages of a pipeline: each has some turns of its loop, and is a specification like others.

What stands before the loop belongs to the first stage, and what stands behind it to the last. One tensor passes from stage to
stage: the one that the loop changes. Later stages compute again what is made of numbers alone, such as masks and angles.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial

from einformer.errors import fail
from einformer.language.sizes import Legend
from einformer.language.tree import (
    Equation,
    Expression,
    Index,
    Layer,
    Loop,
    Name,
    Number,
    Scalar,
    Spec,
    Statement,
    Sum,
    Tensor,
    Weight,
)
from einformer.language.walk import equations, map_expressions, map_right_sides, rebuild, subexpressions


@dataclass(frozen=True, slots=True)
class Stage:
    """One of the stages of a pipeline: its number, how many there are, and the index of the loop that they share."""

    number: int
    count: int
    letter: str
    turns: int  # of the loop in each stage

    @property
    def first_turn(self) -> int:
        return self.number * self.turns

    # The path is "" where another stage has the weight.
    def find_own(self, path: str) -> str:
        match path.split(".", 2):
            case ["blocks", turn, rest]:
                own = int(turn) - self.first_turn
                return f"blocks.{own}.{rest}" if 0 <= own < self.turns else ""
            case _:
                return path

    def find_whole(self, path: str) -> str:
        match path.split(".", 2):
            case ["blocks", turn, rest]:
                return f"blocks.{int(turn) + self.first_turn}.{rest}"
            case _:
                return path


def find_loop(layer: Layer, letter: str) -> Loop | None:
    loops = [part for part in layer.body if isinstance(part, Loop)]
    return loops[0] if [loop.index.letter for loop in loops] == [letter] else None


# A stage of a model. Raises EinformerError E741, E742.
def make_stage(layer: Layer, legend: Legend, letter: str, number: int, count: int) -> Stage:
    if (loop := find_loop(layer, letter)) is None:
        raise fail(
            "E741", f"`{layer.name}` has no loop over `{letter}` that stages could share", layer.span, fix="a map without it"
        )
    turns = int(legend.number(loop.count))
    if turns % count or not 0 <= number < count:
        message = f"the loop over `{letter}` has {turns} turns, which {count} stages cannot share"
        raise fail("E742", message, loop.span, [legend.describe(letter)], "another number of stages")
    return Stage(number, count, letter, turns // count)


# The text of a stage of an elaborated specification. Raises EinformerError E741.
def cut_stage(spec: Spec, name: str, legend: Legend, stage: Stage) -> Spec:
    layer = next(layer for layer in spec.layers if layer.name == name)
    cutting = _Cutting(layer, legend, stage)
    named = {
        axis.size.name: legend.length(stage.letter)
        for axis in spec.axes
        if axis.letter == stage.letter and isinstance(axis.size, Name)
    }
    put = partial(_put, numbers=named)
    axes = tuple(
        replace(axis, size=Number(stage.turns), default=None)
        if axis.letter == stage.letter
        else replace(axis, size=put(axis.size), default=axis.default and put(axis.default))
        for axis in spec.axes
    )
    scalars = tuple(cutting.shift_scalar(scalar, put) for scalar in spec.scalars)
    layers = (cutting.cut() if other is layer else other for other in spec.layers)
    layers = (replace(map_expressions(other, put), body=map_right_sides(other.body, put)) for other in layers)
    return replace(spec, axes=axes, scalars=scalars, layers=tuple(layers))


@dataclass(frozen=True, slots=True)
class _Cutting:
    layer: Layer
    legend: Legend
    stage: Stage

    def cut(self) -> Layer:
        loop = find_loop(self.layer, self.stage.letter)
        assert loop is not None
        place = self.layer.body.index(loop)
        before, after = self.layer.body[:place], self.layer.body[place + 1 :]
        first, last = self.stage.number == 0, self.stage.number == self.stage.count - 1
        fixed = self.find_fixed(before)
        passed = self.find_passed(before, (loop, *after), fixed)
        for equation in equations(loop.body):
            self.shift(equation.left)  # refuses a number for each turn
        own = replace(loop, count=Number(self.stage.turns), body=map_right_sides(loop.body, self.shift))
        ours = (own, *(after if last else ()))
        body = (*(before if first else _keep_read(fixed, ours)), *ours)
        returns = () if last else (Equation(passed, "return", passed, span=loop.span),)
        formals, output = (self.layer.formals if first else (passed,)), (self.layer.output if last else passed)
        body = (*body, *returns)
        return replace(self.layer, formals=formals, output=output, body=body, weights=_keep_weights(self.layer, body))

    def find_fixed(self, before: tuple[Statement, ...]) -> tuple[Equation, ...]:
        moving = {formal.name for formal in self.layer.formals} | {weight.name for weight in self.layer.weights}
        fixed = list[Equation]()
        for statement in before:
            if isinstance(statement, Equation) and not moving.intersection({statement.left.name, *_list_names(statement)}):
                fixed.append(statement)
            else:
                moving.update(equation.left.name for equation in equations((statement,)))
        return tuple(equation for equation in fixed if equation.left.name not in moving)

    # Returns the tensor that passes from stage to stage.
    def find_passed(self, before: tuple[Statement, ...], rest: tuple[Statement, ...], fixed: tuple[Equation, ...]) -> Tensor:
        there = {equation.left.name: equation.left for equation in equations(before)}
        there |= {formal.name: formal for formal in self.layer.formals if formal.name not in there}
        again = {equation.left.name for equation in fixed}
        read = {name for equation in equations(rest) for name in _list_names(equation)}
        read |= {equation.left.name for equation in equations(rest) if equation.relation == "<-"}
        passed = [left for name, left in there.items() if name in read and name not in again]
        if len(passed) != 1 or not isinstance(passed[0], Tensor) or not all(isinstance(x, Index) for x in passed[0].slots):
            listed = ", ".join(f"`{left.name}`" for left in passed) or "no tensor"
            message = f"{listed} would pass from stage to stage, and a stage passes one tensor with plain indices on"
            raise fail("E741", message, self.layer.span, fix="a map without stages")
        return passed[0]

    # ------------------------------------------------------------------------------------------------- numbers of turns

    # The number of a turn is that of the whole model; weights have the numbers of the stage.
    def shift(self, e: Expression) -> Expression:
        if e == Index(self.stage.letter):
            return Sum((e, Number(self.stage.first_turn, span=e.span)), span=e.span) if self.stage.number else e
        if not isinstance(e, Tensor):
            return rebuild(e, self.shift)
        listed = e.name in {weight.name for weight in self.layer.weights} | self.legend.scalars.keys()
        if not listed and Index(self.stage.letter) in e.slots:
            raise fail(
                "E741", f"`{e.name}` has a number for each turn, which stages would share", e.span, fix="a map without stages"
            )
        return rebuild(e, lambda slot: slot if slot == Index(self.stage.letter) else self.shift(slot))

    # A scalar with a number for each turn has those of the stage.
    def shift_scalar(self, scalar: Scalar, put: Callable[[Expression], Expression]) -> Scalar:
        shifted, first = Index(self.stage.letter) in scalar.indices, self.stage.first_turn
        if isinstance(scalar.value, tuple):
            return replace(scalar, value=scalar.value[first : first + self.stage.turns]) if shifted else scalar
        return replace(scalar, value=put(self.shift(scalar.value) if shifted else scalar.value))


def _list_names(equation: Equation) -> Iterator[str]:
    for e in (*(slot for slot in getattr(equation.left, "slots", ())), equation.right):
        for inner in subexpressions(e):
            name = getattr(inner, "name", "")
            yield from (name,) if name else ()


def _keep_read(fixed: tuple[Equation, ...], rest: tuple[Statement, ...]) -> tuple[Equation, ...]:
    read, kept = {name for equation in equations(rest) for name in _list_names(equation)}, list[Equation]()
    for equation in reversed(fixed):
        if equation.left.name in read:
            kept.insert(0, equation)
            read.update(_list_names(equation))
    return tuple(kept)


def _keep_weights(layer: Layer, body: tuple[Statement, ...]) -> tuple[Weight, ...]:
    read, kept = {name for equation in equations(body) for name in _list_names(equation)}, list[Weight]()
    for weight in reversed(layer.weights):
        if weight.name in read:
            weight = replace(weight, default=None, optional=False) if weight.optional else weight
            kept.insert(0, weight)
            if weight.default is not None:
                read.update(getattr(e, "name", "") for e in subexpressions(weight.default))
    return tuple(kept)


# --------------------------------------------------------------------------------------------- the size of the whole loop


def _put(e: Expression, numbers: dict[str, int]) -> Expression:
    if isinstance(e, Name) and e.name in numbers:
        return Number(numbers[e.name], span=e.span)
    return rebuild(e, lambda inner: _put(inner, numbers))
