"""Keeps positions and rows apart in a model that says `causal in s` (R6), by letters alone.

No operator runs over the positions being computed, how many there are is not a number, what is defined at s' is not read at s,
and no equation mixes the rows of a batch. Whether a value depends on later positions is proved elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from einformer.errors import Finding
from einformer.language.calls import axis_of, cite_layer, slot_letters
from einformer.language.primitives import primitive
from einformer.language.scope import Scope
from einformer.language.sizes import Legend
from einformer.language.tree import Apply, Expression, Index, Layer, Loop, Name, Node, Spec, Statement, Tensor
from einformer.language.walk import children, equations, find_all, slots_of


# Findings E503 to E506 and E510 of every model of an elaborated spec that says that it is causal.
def check_times(spec: Spec, legend: Legend) -> tuple[Finding, ...]:
    layers = {layer.name: layer for layer in spec.layers}
    findings: list[Finding] = []
    for model in spec.layers:
        if model.time is not None:
            rows, time, written = find_rows(model), model.time.letter, Legend.of(spec)
            text = _CheckedText(legend, layers, time, written.made_from({time}), written.made_from(rows), findings)
            _CallFrame(text, model, {axis_of(time): False}, rows).statements(model.body)
            if time not in slot_letters(model.output):
                message = f"`{model.name}` says `causal in {time}`, and its output has no `{time}`"
                text.report("E510", message, model.output, f"an output with `{time}`, or a head without `causal in {time}`")
    return tuple(dict.fromkeys(findings))


# The letters of a batch stand before the time in an input.
def find_rows(model: Layer) -> frozenset[str]:
    time = model.time.letter if model.time is not None else ""
    formals = [slot_letters(formal) for formal in model.formals]
    return frozenset(letter for letters in formals if time in letters for letter in letters[: letters.index(time)])


@dataclass(slots=True)
class _CheckedText:
    legend: Legend
    layers: Mapping[str, Layer]
    time: str
    lengths: frozenset[str]  # the sizes of the time axis, and what is made of them
    batches: frozenset[str]
    findings: list[Finding]

    def report(self, code: str, message: str, place: Node, fix: str, letter: str = "", called: tuple[Layer, ...] = ()) -> None:
        facts = (self.legend.describe(letter or self.time), *map(cite_layer, called))
        if called:  # a call gives the letter, and only it can be another
            fix = f"`{called[0].name}` over another index"
        self.findings.append(Finding(code, message, place.span, facts, fix))

    # S as a number, or what is made of it, is known only at the end of the sequence; B is not the same for a row alone.
    def check_length(self, e: Name | Tensor, own: bool) -> None:
        if e.name in self.lengths or own:
            message = f"`{e.name}` is the length of the sequence, or made of it, and that is known only at its end"
            self.report("E504", message, e, "a position, or a size that is not that of the time axis")
        elif e.name in self.batches:
            message = f"`{e.name}` is the number of rows, or made of it, and each row means what it means alone"
            self.report("E506", message, e, "a size that is not the number of rows")


@dataclass(slots=True)
class _CallFrame:  # one layer as it is called
    text: _CheckedText
    layer: Layer
    visible: Mapping[str, bool]  # each letter of an axis that runs over time: over all visible positions or not
    rows: frozenset[str]
    caller: _CallFrame | None = None
    call: Apply | None = None
    letters: Mapping[str, str] = field(default_factory=dict)  # of the caller, for those of the layer
    defined: dict[str, Tensor | Name] = field(init=False)
    scope: Scope = field(init=False)

    def __post_init__(self) -> None:
        self.scope = Scope.of(self.layer, self.text.layers)
        self.defined = {formal.name: formal for formal in self.layer.formals}

    def is_computed(self, letter: str) -> bool:
        return letter in self.visible and not self.visible[letter]

    def statements(self, body: tuple[Statement, ...]) -> None:
        for statement in body:
            if isinstance(statement, Loop):
                self.expression(statement.count)
                self.statements(statement.body)
            else:
                for place, letter in self.find_meetings(statement.right):
                    where, letter, called = self.trace(place, letter)
                    row = axis_of(letter)
                    fix = f"`{row}`, the same on both sides"
                    self.text.report("E506", f"this mixes the rows of a batch, `{row}`", where, fix, letter, called)
                self.expression(statement.right)
                self.defined[statement.left.name] = statement.left

    def expression(self, e: Expression) -> None:
        match e:
            case Name() if not isinstance(self.defined.get(e.name), Name):
                axis = self.text.legend.axis_of_size(e.name)
                self.text.check_length(e, axis is not None and axis.letter in self.visible)
            case Tensor() if isinstance(left := self.defined.get(e.name), Tensor):
                self.check_read(e, left)
            case Tensor() if self.is_number(e):
                self.text.check_length(e, False)
            case Apply() if e.name in self.scope.layers:
                self.enter(e)
            case Apply() if e.indices:
                self.check_operator(e)
        for child in children(e):
            self.expression(child)

    # A scalar with indices. A weight may have the name of a size or of a scalar without any (R1).
    def is_number(self, e: Tensor) -> bool:
        scalar = self.text.legend.scalars.get(e.name)
        return scalar is not None and bool(scalar.indices) and e.name not in {w.name for w in self.layer.weights}

    # What is defined at s', over all visible positions, is never read at s.
    def check_read(self, e: Tensor, left: Tensor) -> None:
        for slot, own in zip(e.slots, left.slots, strict=True):
            if not isinstance(own, Index) or axis_of(own.letter) not in self.visible or self.is_computed(own.letter):
                continue
            for x in find_all(Index, slot):
                if self.is_computed(x.letter):
                    message = f"`{e.name}` is defined here over all visible positions, and read at the one being computed"
                    self.text.report("E505", message, x, f"`{own.letter}` here, as in the definition of `{e.name}`")

    # No operator runs over the positions being computed but one that looks back only.
    def check_operator(self, e: Apply) -> None:
        row = primitive(e.name, True)
        for index in e.indices:
            if self.is_computed(index.letter) and not (row is not None and row.looks_back):
                place, letter, called = self.trace(index if e.name != "sum" else e, index.letter)
                name = called[0].name if called else e.name
                message = f"`{name}` runs over `{letter}`, the positions being computed, those to come too"
                self.text.report("E503", message, place, f"`{letter}'`, or `cumsum_{letter}`", letter, called)

    def enter(self, e: Apply) -> None:
        layer, binding = self.scope.layers[e.name], self.scope.binding(e)
        assert binding is not None
        time = {formal: actual for formal, actual in binding.letters.items() if axis_of(actual) in self.visible}
        visible = {formal: not self.is_computed(actual) for formal, actual in time.items() if formal == axis_of(formal)}
        visible = dict.fromkeys(map(axis_of, time), True) | visible
        rows = frozenset(formal for formal, actual in binding.letters.items() if actual in self.rows)
        _CallFrame(self.text, layer, visible, rows, self, e, binding.letters).statements(layer.body)

    # Where to look, at which letter, and the layers that are called on the way to what it is about. A layer of the same text
    # that has the letter itself can be mended; else it is the call that gives it this one.
    def trace(self, place: Expression, letter: str) -> tuple[Expression, str, tuple[Layer, ...]]:
        if self.caller is None or self.call is None:
            return place, letter, ()
        actual = self.letters.get(letter) or self.letters[axis_of(letter)]
        outer_place, outer, called = self.caller.trace(self.call, actual)
        own = axis_of(actual) == axis_of(letter) and self.layer.span.source == self.caller.layer.span.source
        return (place, letter, ()) if own and not called else (outer_place, outer, (*called, self.layer))

    # Where the letter of a row stands but as it is in a slot of rows, and the letters; calls carry rows along.
    def find_meetings(self, e: Expression) -> Iterator[tuple[Expression, str]]:
        bound = e.indices if isinstance(e, Apply) and e.name not in self.scope.layers else ()
        for index in (e,) if isinstance(e, Index) else bound:
            if axis_of(index.letter) in self.rows:
                yield e if isinstance(e, Apply) and e.name == "sum" else index, index.letter
        own = self.find_rows(e.name) if isinstance(e, Tensor) else {}
        for place, child in enumerate(children(e)):
            if place not in own:
                yield from self.find_meetings(child)
            elif not (isinstance(child, Index) and child.letter in self.rows):
                yield child, own[place]

    # The slots of a tensor that are its rows, with their letters; a recurrence knows its own before it is defined.
    def find_rows(self, name: str) -> Mapping[int, str]:
        left = self.defined.get(name) or next((q.left for q in equations(self.layer.body) if q.left.name == name), None)
        slots = enumerate(slots_of(left)) if left else ()
        return {k: slot.letter for k, slot in slots if isinstance(slot, Index) and slot.letter in self.rows}
