"""Does a model that says `causal in s` ever read the future (R6, R10)?

The equations are followed with what is known of each value instead of the value: at which positions it is a known number
(0 outside a support, -inf under a mask) and otherwise the latest position on which it may depend. Positions are samples: the
first ones, and those around every constant of the text, which decide each comparison of positions with each other or with
a constant. A tensor defined at s must depend on nothing later than s; everything else follows.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial, reduce
from typing import Any, assert_never

import numpy as np
from numpy.typing import NDArray

from einformer.errors import EinformerError, Finding, fail
from einformer.notation.calls import axis_of, slot_letters
from einformer.notation.instances import callees
from einformer.notation.primitives import COMPARISONS, CONSTANTS
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
    Scalar,
    Spec,
    Statement,
    Sum,
    Tensor,
)
from einformer.notation.walk import children, loops, subexpressions

Array = NDArray[Any]
CARRIED, CARRIED_TIME = "°", "·"  # mark an index that a layer carries along
NEVER = -1  # depends on no position
FIRST = 12  # the first positions are all sampled
MANY = 120  # positions around constants
UNKNOWN_SIZE = 5.0  # a size that is not bound is some positive number
MAXIMUM_CELLS = 4_000_000
OTHER = np.arange(4.0)  # the samples of an index that is no position, where its number matters: a tap, a layer


@dataclass(frozen=True, slots=True)
class Known:
    """What is known of a value at sampled positions: its number, NaN where unknown, and the latest position it depends on."""

    dims: tuple[str, ...]
    number: Array
    late: Array

    def over(self, dims: Sequence[str]) -> tuple[Array, Array]:
        """Number and latest position with their axes in the order of `dims`."""
        order = [self.dims.index(dim) for dim in dims if dim in self.dims]
        shape = [self.number.shape[self.dims.index(dim)] if dim in self.dims else 1 for dim in dims]
        return self.number.transpose(order).reshape(shape), self.late.transpose(order).reshape(shape)


@dataclass(frozen=True, slots=True)
class Kept:
    """A defined tensor: what is known of it over those of its slots that matter (their places), and over carried indices."""

    places: tuple[int, ...]
    letters: tuple[str, ...]
    visible: frozenset[int]  # the places that were defined at s', over all visible positions
    known: Known
    bare: bool = False  # it has no subscript
    rows: Mapping[int, str] = field(default_factory=dict)  # the slots of rows, with their letters


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


def sampled_positions(spec: Spec, legend: Legend) -> Array:
    """The first positions and those around every whole constant of the text, numbers made of constants too, in order."""
    formulas = [equation.right for layer in spec.layers for equation in _equations(layer.body)]
    formulas += [scalar.value for scalar in spec.scalars if not isinstance(scalar.value, tuple)]
    sizes = {name: _scalar(Name(name), legend) or UNKNOWN_SIZE for name in legend.letters()}
    numbered = Legend(legend.axes, legend.scalars, sizes | dict(legend.values))
    constants = {_scalar(e, numbered) for formula in formulas for e in subexpressions(formula)}
    constants |= {number.value for scalar in spec.scalars if isinstance(scalar.value, tuple) for number in scalar.value}
    near = {int(c) + step for c in constants if c and FIRST < c < 2**40 and c == int(c) for step in (-1, 0, 1)}
    return np.array(sorted({*range(FIRST), *sorted(near)[:MANY]}), dtype=np.float64)


def _scalar(e: Expression, legend: Legend) -> float | None:
    """The number that e is, if it is one whatever the indices."""
    try:
        return float(legend.number(e))
    except (EinformerError, ValueError, OverflowError):
        return None


def lengths_of(spec: Spec, time: str) -> frozenset[str]:
    """The names of sizes and scalars that are made of the length of the time axis, and that length itself."""
    made = {a.size.name: a.default for a in spec.axes if isinstance(a.size, Name) and a.default is not None}
    made |= {scalar.name: scalar.value for scalar in spec.scalars if not isinstance(scalar.value, tuple)}
    used = {name: {x.name for x in subexpressions(e) if isinstance(x, Name | Tensor)} for name, e in made.items()}
    found = {axis.size.name for axis in spec.axes if axis.letter == time and isinstance(axis.size, Name)}
    while more := {name for name in used.keys() - found if used[name] & found}:
        found |= more
    return frozenset(found)


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

    def report(self, code: str, message: str, at: Node, fix: str, letter: str = "") -> None:
        """Add a finding. What depends on the future behind another slip, or again, is a consequence of it."""
        if code != "E501" or not self.findings:
            self.findings.append(Finding(code, message, at.span, (self.legend.describe(letter or self.time),), fix))

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
        return self.model.samples if self.is_position(dim) else OTHER

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
        known = _collapsed(known, tuple(dim for dim in known.dims if dim in grouped | self.scope.loops))
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
                return _combined(lambda *_: np.array(np.nan), *map(self.value, e.members))
            case Sum():
                return _combined(_sum, *map(self.value, e.terms))
            case Product():
                return _combined(_product, *map(self.value, e.factors))
            case Quotient():
                return _combined(_quotient, self.value(e.numerator), self.value(e.denominator))
            case Power():
                return _combined(np.power, self.value(e.base), self.value(e.exponent))
            case Apply():
                return self.apply(e)
            case _:
                assert_never(e)

    def name(self, e: Name) -> Known:
        """A number of the legend; a size that is not bound is some positive number."""
        if e.name in self.kept and self.kept[e.name].bare:
            return self.kept[e.name].known
        self.model.length(e)
        number = CONSTANTS.get(e.name) or _scalar(e, self.model.legend)
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
            return _combined(partial(self.scalar, e.name), *slots) if slots else constant(math.nan)
        found = len(self.model.findings)
        for place in kept.visible:
            self.never_at_s(e, e.slots[place], kept.letters[kept.places.index(place)])
        if len(self.model.findings) > found:
            return constant(0)
        selecting = [self.value(slot) for k, slot in enumerate(e.slots) if k not in kept.places and not isinstance(slot, Index)]
        selecting = [_collapsed(known, tuple(d for d in known.dims if not self.is_position(d))) for known in selecting]
        return _combined(lambda number, *_: number, self.at(kept, [self.value(e.slots[k]) for k in kept.places]), *selecting)

    def is_number(self, e: Tensor) -> bool:
        """Is this a scalar with indices? A weight may have the name of a size or of a scalar without any (R1)."""
        scalar = self.model.legend.scalars.get(e.name)
        return scalar is not None and bool(scalar.indices) and e.name not in {w.name for w in self.layer.weights}

    def recurrent(self, e: Tensor) -> Kept | None:
        """An equation's own left side: at each position it depends on nothing later, as is being shown."""
        equation = next((s for s in _equations(self.layer.body) if s.left.name == e.name), None)
        if equation is None or any(weight.name == e.name for weight in self.layer.weights):
            return None
        slots = equation.left.slots if isinstance(equation.left, Tensor) else ()
        own = [(k, slot.letter) for k, slot in enumerate(slots) if isinstance(slot, Index) and self.is_time(slot.letter)]
        if not own:
            return Kept((), (), frozenset(), constant(math.nan))
        place, letter = own[0]
        samples = self.model.samples
        return Kept((place,), (letter,), frozenset(), Known((letter,), np.full(len(samples), np.nan), samples))

    def scalar(self, name: str, *numbers: Array) -> Array:
        """A scalar at the numbers of its slots; of a weight nothing is known."""
        scalar = self.model.legend.scalars.get(name)
        if scalar is None:
            return np.array(np.nan)
        found: Array = np.vectorize(lambda *at: self.element(scalar, at), otypes=[np.float64])(*numbers)
        return found

    def element(self, scalar: Scalar, at: tuple[float, ...]) -> float:
        """One number of a scalar; NaN where that is no number."""
        try:
            return float(self.model.legend.element(scalar, [int(n) for n in at]))
        except (EinformerError, IndexError, ValueError, OverflowError):
            return math.nan

    def at(self, kept: Kept, slots: list[Known]) -> Known:
        """What was kept, at the numbers of its slots over time: by name where the slot is an index, else looked up."""
        carried = kept.known.dims[len(kept.places) :]
        dims = tuple(dict.fromkeys(dim for slot in slots for dim in slot.dims))
        numbers = [slot.over(dims)[0] for slot in slots]
        axes = [self.samples(letter) for letter in kept.letters]
        found = [
            np.clip(np.searchsorted(s, np.nan_to_num(n, nan=0)), 0, len(s) - 1) for s, n in zip(axes, numbers, strict=True)
        ]
        number, late = kept.known.number[tuple(found)], kept.known.late[tuple(found)]
        widen = (..., *[None] * len(carried))
        sampled = reduce(np.logical_and, (s[f] == n for s, f, n in zip(axes, found, numbers, strict=True)), np.array(True))[
            widen
        ]
        number = np.where(sampled, number, np.nan)
        positions = [n for letter, n in zip(kept.letters, numbers, strict=True) if self.is_time(letter)]
        if len(positions) == 1 and (kept.known.late > NEVER).any():  # it depends on nothing later, also between the samples
            late = np.where(sampled, late, np.where(np.isnan(positions[0]), np.inf, positions[0])[widen])
        else:
            late = np.where(sampled, late, NEVER)
        inside = reduce(np.logical_and, (~(n < 0) for n in positions), np.array(True))[widen]
        shape = np.broadcast_shapes(number.shape, *(n.shape + (1,) * len(carried) for n in numbers))
        number, late = (
            np.broadcast_to(np.where(inside, number, 0.0), shape),
            np.broadcast_to(np.where(inside, late, NEVER), shape),
        )
        return Known((*dims, *carried), number, late)

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
            return _FUNCTIONS[e.name](*arguments)
        for index in e.indices:
            if self.is_time(index.letter) and not self.is_visible(index.letter) and e.name != "cumsum":
                message = f"`{e.name}` runs over `{index.letter}`, the positions being computed, those to come too"
                self.model.report(
                    "E503", message, index if e.name != "sum" else e, f"`{index.letter}'`, or `cumsum_{index.letter}`"
                )
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
        neutral = _NEUTRAL.get(e.name, np.nan)
        late = np.where(argument.number == neutral, NEVER, self.at_positions(argument, axes))
        if e.name in ("Sm", "top"):
            self.some_key(e, argument, axes)
            number = np.where((argument.number == -np.inf) & (e.name == "Sm"), 0.0, np.nan)
            late = np.broadcast_to(late.max(axis=axes, keepdims=True), late.shape)
            return self.not_later(_settled(argument.dims, number, late), e, frozenset(letters))
        number = np.where((argument.number == neutral).all(axis=axes), neutral, np.nan)
        dims = tuple(dim for dim in argument.dims if dim not in letters)
        known = _settled(dims, number, late.max(axis=axes))
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
        _bounded(shape)
        return Known(dims, np.broadcast_to(number, shape), np.broadcast_to(late, shape))

    def call(self, e: Apply) -> Known:
        """A layer as it is called here: its letters for time are those that the binding gives them."""
        layer, binding = self.scope.layers[e.name], self.scope.binding(e)
        assert binding is not None
        time = {formal: actual for formal, actual in binding.letters.items() if self.is_time(actual)}
        visible = {formal: self.is_visible(actual) for formal, actual in time.items() if formal == axis_of(formal)}
        visible = dict.fromkeys(map(axis_of, time), True) | visible
        rows = frozenset(formal for formal, actual in binding.letters.items() if actual in self.rows)
        frame = Frame(self.model, layer, visible, rows)
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
        """The index of a row stands in the slots of rows, as it is, and nowhere else: each row means itself alone (R6)."""
        bound = e.indices if isinstance(e, Apply) and e.name not in self.scope.layers else ()
        mixed = (e,) if isinstance(e, Index) else bound
        for index in mixed:
            if axis_of(index.letter) in self.rows:
                self.mixes_rows(e if isinstance(e, Apply) and e.name == "sum" else index, index.letter)
        rows = self.row_places(e.name) if isinstance(e, Tensor) else {}
        for place, child in enumerate(children(e)):
            if place not in rows:
                self.rows_apart(child)
            elif not (isinstance(child, Index) and child.letter in self.rows):
                self.mixes_rows(child, rows[place])

    def row_places(self, name: str) -> Mapping[int, str]:
        """The slots of a tensor that are its rows, with their letters; a recurrence knows its own before it is defined."""
        if name in self.kept:
            return self.kept[name].rows
        left = next((q.left for q in _equations(self.layer.body) if q.left.name == name), None)
        slots = left.slots if isinstance(left, Tensor) else ()
        return {k: slot.letter for k, slot in enumerate(slots) if isinstance(slot, Index) and slot.letter in self.rows}

    def mixes_rows(self, at: Expression, letter: str) -> None:
        """Report that rows meet."""
        message = f"this mixes the rows of a batch, `{axis_of(letter)}`"
        self.model.report("E506", message, at, f"`{axis_of(letter)}`, the same on both sides", letter)


# ------------------------------------------------------------------------------------------------------- what is known


def constant(value: float) -> Known:
    """What is known of a number."""
    return Known((), np.array(float(value)), np.array(NEVER))


def _settled(dims: tuple[str, ...], number: Array, late: Array) -> Known:
    """A known number depends on no position."""
    return Known(dims, number, np.where(np.isnan(number), late, NEVER))


def _bounded(*shapes: Sequence[int]) -> None:
    """R13: no formula is looked at for more numbers at once than fit."""
    if math.prod(np.broadcast_shapes(*map(tuple, shapes))) > MAXIMUM_CELLS:
        raise fail("E002", "too many indices are numbers of the same formula", fix="formulas of fewer indices")


def _combined(f: Callable[..., Array], *parts: Known) -> Known:
    """A function of several values: its number where that is known, else it depends on whatever they depend on."""
    dims = tuple(dict.fromkeys(dim for part in parts for dim in part.dims))
    pairs = [part.over(dims) for part in parts]
    _bounded(*(number.shape for number, _ in pairs))
    with np.errstate(all="ignore"):
        number = f(*(number for number, _ in pairs))
    late = reduce(np.maximum, (late for _, late in pairs))
    number, late = np.broadcast_arrays(number, late)
    return _settled(dims, number, late)


def _collapsed(known: Known, dims: tuple[str, ...]) -> Known:
    """Without these dimensions: the latest position, and the number where it is the same along them."""
    if not dims:
        return known
    axes = tuple(known.dims.index(dim) for dim in dims)
    least, most = known.number.min(axis=axes), known.number.max(axis=axes)
    rest = tuple(dim for dim in known.dims if dim not in dims)
    return Known(rest, np.where(least == most, least, np.nan), known.late.max(axis=axes))


def _equations(body: tuple[Statement, ...]) -> list[Equation]:
    return [e for s in body for e in (_equations(s.body) if isinstance(s, Loop) else [s])]


def _any(found: Iterable[Array]) -> Array:
    return reduce(np.logical_or, found)


def _sum(*numbers: Array) -> Array:
    """-inf swallows what is unknown, but not inf."""
    masked = _any(number == -np.inf for number in numbers) & ~_any(number == np.inf for number in numbers)
    return np.where(masked, -np.inf, reduce(np.add, numbers))


def _product(*numbers: Array) -> Array:
    """Zero swallows what is unknown, but not what is known to be infinite."""
    zero = _any(number == 0 for number in numbers) & ~_any(np.isinf(number) for number in numbers)
    return np.where(zero, 0.0, reduce(np.multiply, numbers))


def _quotient(top: Array, bottom: Array) -> Array:
    return np.where((top == 0) & (bottom != 0), 0.0, top / bottom)


def _and(a: Array, b: Array) -> Array:
    return np.where((a == 0) | (b == 0), 0.0, np.where(np.isnan(a) | np.isnan(b), np.nan, 1.0))


def _or(a: Array, b: Array) -> Array:
    return np.where((a == 1) | (b == 1), 1.0, np.where(np.isnan(a) | np.isnan(b), np.nan, 0.0))


def _compare(f: Callable[[Array, Array], Array]) -> Callable[[Array, Array], Array]:
    return lambda a, b: np.where(np.isnan(a) | np.isnan(b), np.nan, f(a, b))


def _where(condition: Known, then: Known, otherwise: Known) -> Known:
    """The branch that is taken; where that is not known, either."""
    dims = tuple(dict.fromkeys((*condition.dims, *then.dims, *otherwise.dims)))
    (c, c_late), (a, a_late), (b, b_late) = (part.over(dims) for part in (condition, then, otherwise))
    _bounded(c.shape, a.shape, b.shape)
    number = np.where(c == 1, a, np.where(c == 0, b, np.where(a == b, a, np.nan)))
    late = np.where(c == 1, a_late, np.where(c == 0, b_late, np.maximum(np.maximum(a_late, b_late), c_late)))
    return _settled(dims, *np.broadcast_arrays(number, late))


def _function(f: Callable[..., Array]) -> Callable[..., Known]:
    return lambda *parts: _combined(f, *parts)


def _unknown_but(zero: float | None = None, low: float | None = None) -> Callable[..., Known]:
    """A function of which only the values at 0 and at -inf matter here."""

    def known(x: Array) -> Array:
        at_zero = np.where(x == 0, np.nan if zero is None else zero, np.nan)
        return np.where(x == -np.inf, np.nan if low is None else low, at_zero)

    return _function(known)


# What an operator passes over: elements that are this do not matter. A mean counts its elements, so for it all of them do.
_NEUTRAL = {"sum": 0.0, "max": -np.inf, "lse": -np.inf, "Sm": -np.inf, "top": -np.inf, "min": np.inf}
_NUMPY: dict[str, Callable[..., Array]] = {
    "<": np.less, "<=": np.less_equal, ">": np.greater, ">=": np.greater_equal, "==": np.equal, "!=": np.not_equal,
}  # fmt: skip
_FUNCTIONS: dict[str, Callable[..., Known]] = {
    **{name: _function(_compare(_NUMPY[name])) for name in COMPARISONS},
    **{
        name: _function(getattr(np, name))
        for name in ("exp", "log", "log2", "sin", "cos", "tanh", "sqrt", "abs", "floor", "ceil")
    },
    **{name: _unknown_but(zero=0, low=0) for name in ("gelu", "gelutanh", "silu")},
    "relu": _function(lambda x: np.maximum(x, 0)),
    "sigmoid": _unknown_but(low=0),
    "softplus": _unknown_but(low=0),
    "min": _function(np.minimum),
    "max": _function(np.maximum),
    "mod": _function(np.mod),
    "and": _function(_and),
    "or": _function(_or),
    "not": _function(lambda x: 1 - x),
    "Dr": lambda value, probability=None: value,
    "where": _where,
}
