"""Does a model that says `causal in s` ever read the future (R6, R10)?

The equations are followed with what is known of each value instead of the value: at which positions it is a known number
(0 outside a support, -inf under a mask) and otherwise the latest position on which it may depend. Positions are samples: the
first ones, and those around every constant of the text, which decide each comparison of positions with each other or with
a constant. A tensor defined at s must depend on nothing later than s; everything else follows.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial, reduce
from typing import assert_never

import numpy as np

from einformer.errors import EinformerError, Finding
from einformer.notation.callers import Caller, of_rows, over_positions, whose
from einformer.notation.calls import axis_of, slot_letters
from einformer.notation.instances import callees
from einformer.notation.known import (
    FUNCTIONS,
    NEUTRAL,
    NEVER,
    Array,
    Kept,
    Known,
    added,
    bounded,
    collapsed,
    combined,
    constant,
    divided,
    looked_up,
    multiplied,
    selected,
    settled,
)
from einformer.notation.positions import FIRST, UNKNOWN_SIZE, lengths_of, number_of, sampled_numbers, sampled_positions
from einformer.notation.primitives import CONSTANTS
from einformer.notation.rows import met
from einformer.notation.scope import Scope
from einformer.notation.sizes import Legend
from einformer.notation.tree import (
    Apply,
    Equation,
    Expression,
    Group,
    Index,
    Layer,
    Loop,
    Name,
    Node,
    Number,
    Power,
    Product,
    Quotient,
    Spec,
    Statement,
    Sum,
    Tensor,
)
from einformer.notation.walk import equations, loops, subexpressions

CARRIED, CARRIED_TIME = "°", "·"  # mark an index that a layer carries along


def check_causality(spec: Spec, legend: Legend) -> tuple[Finding, ...]:
    """Findings E501 to E506 of every model of a checked spec that says that it is causal."""
    layers = {layer.name: layer for layer in spec.layers}
    findings: list[Finding] = []
    samples = sampled_positions(spec, legend)
    lengths = {
        letter: lengths_of(spec, axis_of(letter)) for letter in {layer.time.letter for layer in spec.layers if layer.time}
    }
    for layer in spec.layers:
        if layer.time is not None:
            model = Analysis(legend, layers, layer.time.letter, samples, lengths[layer.time.letter])
            try:
                model.run(layer)
            except EinformerError as error:
                model.findings += (replace(finding, span=layer.span) for finding in error.findings)
            findings += model.findings
    return tuple(dict.fromkeys(findings))


@dataclass(slots=True)
class Analysis:
    """What is the same in every layer of one model."""

    legend: Legend
    layers: Mapping[str, Layer]
    time: str
    samples: Array
    lengths: frozenset[str]
    findings: list[Finding] = field(default_factory=list)

    def run(self, model: Layer) -> None:
        """Follow the model from its inputs."""
        letters = [letter for formal in model.formals for letter in slot_letters(formal)]
        rows = frozenset(letters[: letters.index(self.time)]) if self.time in letters else frozenset()
        frame = Frame(self, model, {axis_of(self.time): False}, rows)
        for formal in model.formals:
            frame.keep(formal, self.input(slot_letters(formal)))
        frame.statements(model.body)

    def input(self, letters: tuple[str, ...]) -> Known:
        """An input at position s depends on position s."""
        if self.time not in letters:
            return Known((), np.array(np.nan), np.array(NEVER))
        return Known((self.time,), np.full(len(self.samples), np.nan), self.samples)

    def report(self, code: str, message: str, at: Node, fix: str) -> None:
        """Add a finding. What depends on the future behind another slip, or again, is a consequence of it."""
        if code != "E501" or not self.findings:
            self.findings.append(Finding(code, message, at.span, (self.legend.describe(self.time),), fix))

    def length(self, e: Name | Tensor) -> None:
        """S as a number, or what is made of it, is known only at the end of the sequence (R6)."""
        if e.name in self.lengths:
            message = f"`{e.name}` is the length of the sequence, or made of it, and that is known only at its end"
            self.report("E504", message, e, "a position, or a size that is not that of the time axis")


@dataclass(slots=True)
class Frame:
    """One layer as it is called. `visible` has each letter of an axis that runs over time: at all visible positions or not."""

    model: Analysis
    layer: Layer
    visible: Mapping[str, bool]
    rows: frozenset[str]
    caller: Caller | None = None
    kept: dict[str, Kept] = field(default_factory=dict)
    scope: Scope = field(init=False)

    def __post_init__(self) -> None:
        turns = frozenset(loop.index.letter for loop in loops(self.layer.body))
        self.scope = Scope(callees(self.layer, self.model.layers), turns)

    def is_time(self, letter: str) -> bool:
        """Does an index run over positions?"""
        return axis_of(letter) in self.visible

    def is_position(self, dim: str) -> bool:
        """Does a dimension of something known run over time, here or in the caller?"""
        return dim.startswith(CARRIED_TIME) or (dim[0] != CARRIED and self.is_time(dim))

    def samples(self, dim: str) -> Array:
        """The numbers at which a dimension is looked at."""
        if self.is_position(dim):
            return self.model.samples
        return sampled_numbers(dim.lstrip(CARRIED), self.model.legend)

    def is_visible(self, letter: str) -> bool:
        """Does a letter run over all visible positions: a prime, or a letter bound to one by the call?"""
        return letter != axis_of(letter) or self.visible[letter]

    # ------------------------------------------------------------------------------------------------- statements

    def statements(self, body: tuple[Statement, ...]) -> None:
        """The statements in order; a loop once, whatever its turns."""
        for statement in body:
            match statement:
                case Equation():
                    self.rows_apart(statement.right)
                    self.keep(statement.left, self.value(statement.right))
                case Loop():
                    self.value(statement.count)
                    self.statements(statement.body)
                case _:
                    assert_never(statement)

    def keep(self, left: Tensor | Name, known: Known) -> None:
        """Under a left side, in whatever turn; a tensor at one position must depend on nothing later."""
        slots = left.slots if isinstance(left, Tensor) else ()
        grouped = {letter for slot in slots if isinstance(slot, Group) for letter in slot_letters(Tensor("", (slot,)))}
        known = collapsed(known, tuple(dim for dim in known.dims if dim in grouped | self.scope.loops))
        own = {k: slot.letter for k, slot in enumerate(slots) if isinstance(slot, Index)}
        own = {k: letter for k, letter in own.items() if self.is_time(letter) or letter in known.dims}
        letters = tuple(own.values())
        known = self.not_later(self.spread(known, (*letters, *(dim for dim in known.dims if dim not in letters))), left)
        visible = frozenset(k for k, letter in own.items() if self.is_time(letter) and self.is_visible(letter))
        rows = {k: slot.letter for k, slot in enumerate(slots) if isinstance(slot, Index) and slot.letter in self.rows}
        self.kept[left.name] = Kept(tuple(own), letters, visible, known, not slots, rows)

    def not_later(self, known: Known, at: Node, kept: frozenset[str] = frozenset()) -> Known:
        """Report what depends on a later position than its own, once: what follows is taken to be causal."""
        own = [k for k, dim in enumerate(known.dims) if self.is_position(dim) and dim not in kept]
        if len(own) != 1:
            return known
        shape = [-1 if k == own[0] else 1 for k in range(len(known.dims))]
        position = self.model.samples.reshape(shape)
        wrong = np.isnan(known.number) & (known.late > position)
        if wrong.any():
            first = tuple(np.argwhere(wrong)[0])
            here, there = int(self.model.samples[first[own[0]]]), known.late[first]
            which = f"position {int(there)}, which is later" if np.isfinite(there) else "any position, later ones too"
            message = f"at position {here} this depends on {which}"
            time = axis_of(self.model.time)
            fix = f"a mask inside the softmax, `where({time}' <= {time}, 0, -inf)`, or an earlier position"
            self.model.report("E501", message, at, fix)
        number = known.number
        for dim in kept if wrong.any() else ():
            later = self.samples(dim).reshape([-1 if other == dim else 1 for other in known.dims]) > position
            number = np.where(later, 0.0, number)
        return Known(known.dims, number, np.minimum(known.late, position))

    # ------------------------------------------------------------------------------------------------ expressions

    def value(self, e: Expression) -> Known:
        """What is known of e at the samples."""
        match e:
            case Number():
                return constant(e.value)
            case Name():
                return self.name(e)
            case Index():
                return self.index(e)
            case Tensor():
                return self.read(e)
            case Group():
                return combined(lambda *_: np.array(np.nan), *map(self.value, e.members))
            case Sum():
                return combined(added, *map(self.value, e.terms))
            case Product():
                return combined(multiplied, *map(self.value, e.factors))
            case Quotient():
                return combined(divided, self.value(e.numerator), self.value(e.denominator))
            case Power():
                return combined(np.power, self.value(e.base), self.value(e.exponent))
            case Apply():
                return self.apply(e)
            case _:
                assert_never(e)

    def name(self, e: Name) -> Known:
        """A number of the legend; a size that is not bound is some positive number."""
        if e.name in self.kept and self.kept[e.name].bare:
            return self.kept[e.name].known
        self.model.length(e)
        number = CONSTANTS.get(e.name) or number_of(e, self.model.legend)
        if number is None:
            number = math.nan if e.name in self.model.legend.scalars else UNKNOWN_SIZE
        return constant(number)

    def index(self, e: Index) -> Known:
        """Its numbers."""
        samples = self.samples(e.letter)
        return Known((e.letter,), samples, np.full(len(samples), NEVER))

    def read(self, e: Tensor) -> Known:
        """A tensor at the positions that its slots hold."""
        kept = self.kept.get(e.name) or self.recurrent(e)
        if kept is None:  # a weight or a scalar: it depends on what selects it
            number = self.is_number(e)
            if number:
                self.model.length(e)
            slots = [self.value(slot) for slot in e.slots if not isinstance(slot, Index) or number]
            return combined(partial(selected, self.model.legend, e.name), *slots) if slots else constant(math.nan)
        found = len(self.model.findings)
        for place in kept.visible:
            self.never_at_s(e, e.slots[place], kept.letters[kept.places.index(place)])
        if len(self.model.findings) > found:
            return constant(0)
        selecting = [self.value(slot) for k, slot in enumerate(e.slots) if k not in kept.places and not isinstance(slot, Index)]
        selecting = [collapsed(known, tuple(d for d in known.dims if not self.is_position(d))) for known in selecting]
        return combined(lambda number, *_: number, self.at(kept, e), *selecting)

    def is_number(self, e: Tensor) -> bool:
        """Is this a scalar with indices? A weight may have the name of a size or of a scalar without any (R1)."""
        scalar = self.model.legend.scalars.get(e.name)
        return scalar is not None and bool(scalar.indices) and e.name not in {w.name for w in self.layer.weights}

    def recurrent(self, e: Tensor) -> Kept | None:
        """An equation's own left side: at each position it depends on nothing later, as is being shown."""
        equation = next((s for s in equations(self.layer.body) if s.left.name == e.name), None)
        if equation is None or any(weight.name == e.name for weight in self.layer.weights):
            return None
        slots = equation.left.slots if isinstance(equation.left, Tensor) else ()
        own = [(k, slot.letter) for k, slot in enumerate(slots) if isinstance(slot, Index) and self.is_time(slot.letter)]
        if not own:
            return Kept((), (), frozenset(), constant(math.nan))
        place, letter = own[0]
        samples = self.model.samples
        return Kept((place,), (letter,), frozenset(), Known((letter,), np.full(len(samples), np.nan), samples))

    def at(self, kept: Kept, e: Tensor) -> Known:
        """What was kept of a tensor, at the numbers of its slots over time."""
        samples = [self.samples(letter) for letter in kept.letters]
        times = [self.is_time(letter) for letter in kept.letters]
        return looked_up(kept, [self.value(e.slots[place]) for place in kept.places], samples, times)

    def never_at_s(self, e: Tensor, slot: Expression, defined: str) -> None:
        """What is defined at s', over all visible positions, is never read at s (R6)."""
        for x in subexpressions(slot):
            if isinstance(x, Index) and self.is_time(x.letter) and not self.is_visible(x.letter):
                message = f"`{e.name}` is defined here over all visible positions, and read at the one being computed"
                fix = f"`{defined}` here, as in the definition of `{e.name}`"
                self.model.report("E505", message, x, fix)

    # -------------------------------------------------------------------------------------------------- operators

    def apply(self, e: Apply) -> Known:
        """A call, a function or an operator."""
        if e.name in self.scope.layers:
            return self.call(e)
        arguments = [self.value(argument) for argument in e.arguments]
        if not e.indices:
            return FUNCTIONS[e.name](*arguments)
        for index in e.indices:
            if self.is_time(index.letter) and not self.is_visible(index.letter) and e.name != "cumsum":
                slip = whose(index if e.name != "sum" else e, index.letter, self.layer, self.caller)
                self.model.findings.append(over_positions(e.name, slip, self.model.legend))
                return constant(math.nan)
        return self.operator(e, arguments)

    def operator(self, e: Apply, arguments: list[Known]) -> Known:
        """What an operator over indices leaves."""
        letters = tuple(i.letter for i in e.indices if self.is_time(i.letter) or i.letter in arguments[-1].dims)
        argument = self.spread(arguments[-1], (*arguments[-1].dims, *letters))
        axes = tuple(argument.dims.index(letter) for letter in letters)
        if e.name == "cumsum":
            late = reduce(lambda x, axis: np.maximum.accumulate(x, axis), axes, argument.late)
            return Known(argument.dims, np.full(late.shape, np.nan), late)
        neutral = NEUTRAL.get(e.name, np.nan)
        late = np.where(argument.number == neutral, NEVER, self.at_positions(argument, axes))
        if e.name in ("Sm", "top"):
            self.some_key(e, argument, axes)
            number = np.where((argument.number == -np.inf) & (e.name == "Sm"), 0.0, np.nan)
            late = np.broadcast_to(late.max(axis=axes, keepdims=True), late.shape)
            return self.not_later(settled(argument.dims, number, late), e, frozenset(letters))
        number = np.where((argument.number == neutral).all(axis=axes), neutral, np.nan)
        dims = tuple(dim for dim in argument.dims if dim not in letters)
        known = settled(dims, number, late.max(axis=axes))
        return self.not_later(known, e) if letters else known

    def at_positions(self, known: Known, axes: tuple[int, ...]) -> Array:
        """The latest position on which each element depends, if only by being there: how many there are is the future too."""
        late = known.late
        for axis in (axis for axis in axes if self.is_position(known.dims[axis])):
            shape = [-1 if k == axis else 1 for k in range(late.ndim)]
            late = np.maximum(late, self.model.samples.reshape(shape))
        return late

    def some_key(self, e: Apply, argument: Known, axes: tuple[int, ...]) -> None:
        """For each of the first positions some key is allowed: a softmax over nothing would be 0."""
        own = [k for k, dim in enumerate(argument.dims) if self.is_position(dim) and k not in axes]
        if len(own) != 1 or not any(self.is_position(argument.dims[axis]) for axis in axes):
            return
        empty = np.moveaxis((argument.number == -np.inf).all(axis=axes, keepdims=True), own[0], 0)[:FIRST]
        positions = np.flatnonzero(empty.reshape(len(empty), -1).any(axis=1))
        if positions.size:
            message = f"at position {positions[0]} every key is masked"
            self.model.report("E502", message, e, "a mask that allows at least `s' == s`")

    def spread(self, known: Known, dims: Sequence[str]) -> Known:
        """Repeated along the positions on which it does not depend."""
        dims = tuple(dict.fromkeys(dims))
        shape = [len(self.samples(dim)) for dim in dims]
        number, late = known.over(dims)
        bounded(shape)
        return Known(dims, np.broadcast_to(number, shape), np.broadcast_to(late, shape))

    def call(self, e: Apply) -> Known:
        """A layer as it is called here: its letters for time are those that the binding gives them."""
        layer, binding = self.scope.layers[e.name], self.scope.binding(e)
        assert binding is not None
        time = {formal: actual for formal, actual in binding.letters.items() if self.is_time(actual)}
        visible = {formal: self.is_visible(actual) for formal, actual in time.items() if formal == axis_of(formal)}
        visible = dict.fromkeys(map(axis_of, time), True) | visible
        rows = frozenset(formal for formal, actual in binding.letters.items() if actual in self.rows)
        frame = Frame(self.model, layer, visible, rows, Caller(self.layer, e, binding.letters, self.caller))
        for formal, argument in zip(layer.formals, e.arguments, strict=True):
            inner = {binding.letters[letter]: letter for letter in slot_letters(formal)}
            known = self.value(argument)
            dims = tuple(inner.get(dim) or (CARRIED_TIME if self.is_position(dim) else CARRIED) + dim for dim in known.dims)
            frame.keep(formal, Known(dims, known.number, known.late))
        frame.statements(layer.body)
        result = frame.kept[layer.output.name].known
        outer = tuple(dim[1:] if dim[0] in CARRIED + CARRIED_TIME else binding.letters[dim] for dim in result.dims)
        return Known(outer, result.number, result.late)

    def rows_apart(self, e: Expression) -> None:
        """Report where rows meet: each means itself alone (R6)."""
        for at, letter in met(e, self.rows, self.row_places, self.scope.layers):
            self.model.findings.append(of_rows(whose(at, letter, self.layer, self.caller), self.model.legend))

    def row_places(self, name: str) -> Mapping[int, str]:
        """The slots of a tensor that are its rows, with their letters; a recurrence knows its own before it is defined."""
        if name in self.kept:
            return self.kept[name].rows
        left = next((q.left for q in equations(self.layer.body) if q.left.name == name), None)
        slots = left.slots if isinstance(left, Tensor) else ()
        return {k: slot.letter for k, slot in enumerate(slots) if isinstance(slot, Index) and slot.letter in self.rows}
