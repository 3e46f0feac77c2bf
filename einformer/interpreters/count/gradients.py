"""Says which values have a gradient, call by call and turn by turn: those made of what is trained, of which the output is made.

A turn may keep what an earlier one left, choose by its number, or leave what the next one overwrites: with sizes each is gone
through. Without sizes one turn stands for all, and what is so in `all` of them, and in `any`, is told apart.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from einformer.language.sizes import Legend
from einformer.program import operations as op
from einformer.program.needs import Flow, Repeat, Step, Steps, flat
from einformer.program.operations import Value
from einformer.program.rewrite import list_differentiated, walk_carried

Turn = tuple[tuple[str, int], ...]  # the number of each loop around a line, outside first
Calls = tuple[tuple[Value, int], ...]  # each call on the way, in so many loops


@dataclass(frozen=True, slots=True)
class ReachedFactor:
    """A factor of a product, in a function that these calls reach."""

    calls: Calls
    value: Value
    product: Value


@dataclass(slots=True)
class Gradients:
    """The gradients in one call of a function, forward from what is trained, and back from an output that is `reached`."""

    flow: Flow
    inputs: tuple[bool, ...]
    reached: bool = True
    legend: Legend | None = None
    join: Callable[[Iterable[bool]], bool] = any
    moving: dict[tuple[Value, Turn], bool] = field(default_factory=dict)  # what is made of what is trained
    wanted: set[Value] = field(default_factory=set)  # of what the output is made, in the turn at hand
    products: dict[tuple[Value, Turn], bool] = field(default_factory=dict)  # the same, in each turn
    calls: dict[tuple[Flow, tuple[bool, ...], bool], Gradients] = field(default_factory=dict)  # those that are known

    def __post_init__(self) -> None:
        function = self.flow.function
        self.moving |= {(line.value, ()): moves for line, moves in zip(function.inputs, self.inputs, strict=True)}
        self._forward(self.flow.body, ())
        self.wanted |= {function.output.value} if self.reached else set()
        self._backward(self.flow.body, ())

    def find(self, factor: ReachedFactor, turn: Turn) -> bool:
        called, turn = self.reach(factor.calls, turn)
        return called.products.get((factor.product, turn), False) and called.moves(factor.value, turn)

    def reach(self, calls: Calls, turn: Turn) -> tuple[Gradients, Turn]:
        """Returns the gradients in the function that these calls reach, and the turn of its own loops."""
        called = self
        for call, depth in calls:
            called, turn = called.call(call, turn[:depth]), turn[depth:]
        return called, turn

    def call(self, value: Value, turn: Turn) -> Gradients:
        assert isinstance(value.operation, op.Call)
        inputs = tuple(self.moves(argument, turn) for argument in value.operation.arguments)
        flow, reached = self.flow.called(value), self.products.get((value, turn), False)
        if (flow, inputs, reached) not in self.calls:
            own = Gradients(flow, inputs, reached, self.legend, self.join, calls=self.calls)
            self.calls[flow, inputs, reached] = own
        return self.calls[flow, inputs, reached]

    # Of a choice by the number of the turn, the branch that is taken; None where there is no number.
    def _choose(self, value: Value, turn: Turn) -> tuple[Value, ...] | None:
        match value.operation:
            case op.Map("where", (condition, *arms)) if (e := self.flow.on_layers(condition)) is not None:
                return None if self.legend is None else (arms[0 if self.legend.number(e, dict(turn)) else 1],)
        return list_differentiated(value)

    # One turn stands for all where there is no number.
    def _count(self, repeat: Repeat, turn: Turn) -> int | None:
        return None if self.legend is None else int(self.legend.number(repeat.turns.loop.count, dict(turn)))

    # ------------------------------------------------------------------------------------------------------ forward

    def moves(self, value: Value, turn: Turn) -> bool:
        keys = ((value, turn[:depth]) for depth in range(len(turn), -1, -1))
        key = next((key for key in keys if key in self.moving), None)
        return self._follow(value, turn) if key is None else self.moving[key]

    def _follow(self, value: Value, turn: Turn) -> bool:
        match value.operation:
            case op.StoredWeight(name):
                return name in self.flow.weights
            case op.Call():
                called = self.call(value, turn)
                return called.moves(called.flow.function.output.value, ())
        chosen = self._choose(value, turn)
        own = [self.moves(operand, turn) for operand in (list_differentiated(value) if chosen is None else chosen)]
        return self.join(own) if chosen is None else any(own)

    def _forward(self, body: Steps, turn: Turn) -> None:
        for step in body:
            if isinstance(step, Repeat):
                self._go_round(step, turn)
                continue
            if isinstance(recur := step.line.value.operation, op.Recur):  # it reads itself, which moves if its step does
                self.moving[recur.so_far, turn] = False
                self._compute(step, turn)
                self.moving[recur.so_far, turn] = self.moves(recur.step, turn)
            self._compute(step, turn)

    def _compute(self, step: Step, turn: Turn) -> None:
        for value in reversed(step.values):
            if not isinstance(value.operation, op.Input):
                self.moving[value, turn] = self._follow(value, turn)

    def _go_round(self, repeat: Repeat, turn: Turn) -> None:
        some, count = repeat.turns.carried, self._count(repeat, turn)
        left = start = {c: c.before is not None and self.moves(c.before, turn) for c in some}
        for number in itertools.count() if count is None else range(count):
            inner = (*turn, (repeat.turns.letter, 0 if count is None else number))
            self.moving |= {(c.within, inner): left[c] for c in some}
            self._forward(repeat.body, inner)
            last, before = {c: self.moves(c.last, inner) for c in some}, left
            left = last if count is not None else {c: self.join((start[c], last[c])) for c in some}
            if count is None and left == before:
                left = last
                break
        self.moving |= {(c.after, turn): left[c] for c in some}

    # ----------------------------------------------------------------------------------------------------- backward

    def _backward(self, body: Steps, turn: Turn) -> None:
        for step in reversed(body):
            if isinstance(step, Repeat):
                self._go_back(step, turn)
                continue
            for value in step.values:
                self.products[value, turn] = value in self.wanted
                if value in self.wanted:
                    self.wanted.update(self._list_wanted(value, turn))

    def _list_wanted(self, value: Value, turn: Turn) -> Iterable[Value]:
        if isinstance(value.operation, op.Call):
            called = self.call(value, turn)
            formals = zip(value.operation.arguments, called.flow.function.inputs, strict=True)
            return [argument for argument, line in formals if line.value in called.wanted]
        chosen = self._choose(value, turn)
        return chosen if chosen is not None else list_differentiated(value) if self.join is any else ()

    def _go_back(self, repeat: Repeat, turn: Turn) -> None:
        some, count, inside = repeat.turns.carried, self._count(repeat, turn), set(_list_inside(repeat))
        asked = after = {c.last for c in some if c.after in self.wanted}
        outside = self.wanted - inside
        for number in itertools.count() if count is None else reversed(range(count)):
            self.wanted = (outside if count is None else self.wanted - inside) | asked
            self._backward(repeat.body, (*turn, (repeat.turns.letter, 0 if count is None else number)))
            within, before = {c.last for c in some if c.within in self.wanted}, asked
            asked = within if count is not None else {v for v in after | within if self.join((v in after, v in within))}
            if count is None and asked == before:
                asked = within
                break
        self.wanted = (self.wanted - inside) | {c.before for c in some if c.before is not None and c.last in asked}


def _list_inside(repeat: Repeat) -> Iterator[Value]:
    yield from (value for step in flat(repeat.body) for value in step.values)
    yield from (carried.within for carried in repeat.turns.carried)
    yield from (value for carried in walk_carried(repeat.turns.lines) for value in carried.values)
