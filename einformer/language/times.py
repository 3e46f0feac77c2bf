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
from einformer.language.walk import children, equations, subexpressions


def check_times(spec: Spec, legend: Legend) -> tuple[Finding, ...]:
    """Findings E503 to E506 and E510 of every model of an elaborated spec that says that it is causal."""
    layers = {layer.name: layer for layer in spec.layers}
    findings: list[Finding] = []
    for model in spec.layers:
        if model.time is None:
            continue
        rows = find_rows(model)
        text = _Text(legend, layers, model.time.letter, find_lengths(spec, model.time.letter), findings)
        text.batches = frozenset[str]().union(*(find_lengths(spec, row) for row in rows))
        _Frame(text, model, {axis_of(model.time.letter): False}, rows).statements(model.body)
        if model.time.letter not in slot_letters(model.output):
            text.no_positions(model)
    return tuple(dict.fromkeys(findings))


def find_rows(model: Layer) -> frozenset[str]:
    """The letters of a batch: those that stand before the time in an input."""
    time = model.time.letter if model.time is not None else ""
    formals = [slot_letters(formal) for formal in model.formals]
    return frozenset(letter for letters in formals if time in letters for letter in letters[: letters.index(time)])


def find_lengths(spec: Spec, letter: str) -> frozenset[str]:
    """The name of the size of an axis, and the names of sizes and scalars that are made of it."""
    made = {a.size.name: a.default for a in spec.axes if isinstance(a.size, Name) and a.default is not None}
    made |= {scalar.name: scalar.value for scalar in spec.scalars if not isinstance(scalar.value, tuple)}
    used = {name: {x.name for x in subexpressions(e) if isinstance(x, Name | Tensor)} for name, e in made.items()}
    lengths = {axis.size.name for axis in spec.axes if axis.letter == letter and isinstance(axis.size, Name)}
    while more := {name for name in used.keys() - lengths if used[name] & lengths}:
        lengths |= more
    return frozenset(lengths)


@dataclass(slots=True)
class _Text:
    """The state that all layers of one model share."""

    legend: Legend
    layers: Mapping[str, Layer]
    time: str
    lengths: frozenset[str]
    findings: list[Finding]
    batches: frozenset[str] = frozenset()

    def report(self, code: str, message: str, at: Node, fix: str) -> None:
        self.findings.append(Finding(code, message, at.span, (self.legend.describe(self.time),), fix))

    def report_slip(self, code: str, message: str, at: Node, fix: str, letter: str, called: tuple[Layer, ...]) -> None:
        """Where it is a call that gives the letter, only the call can be another."""
        facts = (self.legend.describe(letter), *map(cite_layer, called))
        fix = f"`{called[0].name}` over another index" if called else fix
        self.findings.append(Finding(code, message, at.span, facts, fix))

    def length(self, e: Name | Tensor, own: bool) -> None:
        """S as a number, or what is made of it, is known only at the end of the sequence; B is not the same for a row alone."""
        if e.name in self.lengths or own:
            message = f"`{e.name}` is the length of the sequence, or made of it, and that is known only at its end"
            self.report("E504", message, e, "a position, or a size that is not that of the time axis")
        elif e.name in self.batches:
            message = f"`{e.name}` is the number of rows, or made of it, and each row means what it means alone"
            self.report("E506", message, e, "a size that is not the number of rows")

    def no_positions(self, model: Layer) -> None:
        """The claim says that nothing at `s` depends on a later position: an output without `s` would make it empty."""
        message = f"`{model.name}` says `causal in {self.time}`, and its output has no `{self.time}`"
        fix = f"an output with `{self.time}`, or a head without `causal in {self.time}`"
        self.report("E510", message, model.output, fix)


@dataclass(slots=True)
class _Frame:
    """One layer as it is called. `visible` has each letter of an axis that runs over time: at all visible positions or not.

    `letters` are those of the `caller` for those of the layer.
    """

    text: _Text
    layer: Layer
    visible: Mapping[str, bool]
    rows: frozenset[str]
    caller: _Frame | None = None
    call: Apply | None = None
    letters: Mapping[str, str] = field(default_factory=dict)
    defined: dict[str, Tensor | Name] = field(init=False)
    scope: Scope = field(init=False)

    def __post_init__(self) -> None:
        self.scope = Scope.of(self.layer, self.text.layers)
        self.defined = {formal.name: formal for formal in self.layer.formals}

    def is_computed(self, letter: str) -> bool:
        """Does an index run over the positions being computed: without a prime, and bound to no prime by the call?"""
        return letter in self.visible and not self.visible[letter]

    def statements(self, body: tuple[Statement, ...]) -> None:
        for statement in body:
            if isinstance(statement, Loop):
                self.expression(statement.count)
                self.statements(statement.body)
            else:
                for place, letter in self.meetings(statement.right):
                    self.mixes_rows(place, letter)
                self.expression(statement.right)
                self.defined[statement.left.name] = statement.left

    def expression(self, e: Expression) -> None:
        """What one expression reads, and what is in it."""
        match e:
            case Name() if not isinstance(self.defined.get(e.name), Name):
                axis = self.text.legend.axis_of_size(e.name)
                self.text.length(e, axis is not None and axis.letter in self.visible)
            case Tensor() if isinstance(left := self.defined.get(e.name), Tensor):
                self.read(e, left)
            case Tensor() if self.is_number(e):
                self.text.length(e, False)
            case Apply() if e.name in self.scope.layers:
                self.enter(e)
            case Apply() if e.indices:
                self.operator(e)
        for child in children(e):
            self.expression(child)

    def is_number(self, e: Tensor) -> bool:
        """Is this a scalar with indices? A weight may have the name of a size or of a scalar without any (R1)."""
        scalar = self.text.legend.scalars.get(e.name)
        return scalar is not None and bool(scalar.indices) and e.name not in {w.name for w in self.layer.weights}

    def read(self, e: Tensor, left: Tensor) -> None:
        """What is defined at s', over all visible positions, is never read at s."""
        for slot, own in zip(e.slots, left.slots, strict=True):
            if not isinstance(own, Index) or axis_of(own.letter) not in self.visible or self.is_computed(own.letter):
                continue
            for x in subexpressions(slot):
                if isinstance(x, Index) and self.is_computed(x.letter):
                    message = f"`{e.name}` is defined here over all visible positions, and read at the one being computed"
                    self.text.report("E505", message, x, f"`{own.letter}` here, as in the definition of `{e.name}`")

    def operator(self, e: Apply) -> None:
        """No operator runs over the positions being computed but one that looks back only."""
        row = primitive(e.name, True)
        for index in e.indices:
            if self.is_computed(index.letter) and not (row is not None and row.looks_back):
                position, letter, called = self.whose(index if e.name != "sum" else e, index.letter)
                name = called[0].name if called else e.name
                message = f"`{name}` runs over `{letter}`, the positions being computed, those to come too"
                self.text.report_slip("E503", message, position, f"`{letter}'`, or `cumsum_{letter}`", letter, called)

    def enter(self, e: Apply) -> None:
        """A layer as it is called here: its letters for time are those that the binding gives them."""
        layer, binding = self.scope.layers[e.name], self.scope.binding(e)
        assert binding is not None
        time = {formal: actual for formal, actual in binding.letters.items() if axis_of(actual) in self.visible}
        visible = {formal: not self.is_computed(actual) for formal, actual in time.items() if formal == axis_of(formal)}
        visible = dict.fromkeys(map(axis_of, time), True) | visible
        rows = frozenset(formal for formal, actual in binding.letters.items() if actual in self.rows)
        _Frame(self.text, layer, visible, rows, self, e, binding.letters).statements(layer.body)

    def whose(self, at: Expression, letter: str) -> tuple[Expression, str, tuple[Layer, ...]]:
        """Where to look, at which letter, and the layers that are called on the way to what it is about.

        A layer of the same text that has the letter itself can be mended; else it is the call that gives it this one.
        """
        if self.caller is None or self.call is None:
            return at, letter, ()
        given = self.letters.get(letter) or self.letters[axis_of(letter)]
        place, outer, called = self.caller.whose(self.call, given)
        own = axis_of(given) == axis_of(letter) and self.layer.span.source == self.caller.layer.span.source
        return (at, letter, ()) if own and not called else (place, outer, (*called, self.layer))

    # -------------------------------------------------------------------------------------------------- rows of a batch

    def mixes_rows(self, at: Expression, letter: str) -> None:
        """Rows of a batch meet."""
        at, letter, called = self.whose(at, letter)
        row = axis_of(letter)
        fix = f"`{row}`, the same on both sides"
        self.text.report_slip("E506", f"this mixes the rows of a batch, `{row}`", at, fix, letter, called)

    def meetings(self, e: Expression) -> Iterator[tuple[Expression, str]]:
        """Where the letter of a row stands but as it is in a slot of rows, and the letters; calls carry rows along."""
        bound = e.indices if isinstance(e, Apply) and e.name not in self.scope.layers else ()
        for index in (e,) if isinstance(e, Index) else bound:
            if axis_of(index.letter) in self.rows:
                yield e if isinstance(e, Apply) and e.name == "sum" else index, index.letter
        own = self.row_places(e.name) if isinstance(e, Tensor) else {}
        for place, child in enumerate(children(e)):
            if place not in own:
                yield from self.meetings(child)
            elif not (isinstance(child, Index) and child.letter in self.rows):
                yield child, own[place]

    def row_places(self, name: str) -> Mapping[int, str]:
        """The slots of a tensor that are its rows, with their letters; a recurrence knows its own before it is defined."""
        left = self.defined.get(name) or next((q.left for q in equations(self.layer.body) if q.left.name == name), None)
        slots = left.slots if isinstance(left, Tensor) else ()
        return {k: slot.letter for k, slot in enumerate(slots) if isinstance(slot, Index) and slot.letter in self.rows}
