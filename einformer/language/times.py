"""Keeps positions and rows apart in a model that says `causal in s` (R6), by letters alone.

No operator runs over the positions being computed, how many there are is not a number, what is defined at s' is not read at s,
and no equation mixes the rows of a batch. Whether a value depends on later positions is proved elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field

from einformer.errors import Finding
from einformer.language.calls import axis_of, defined, slot_letters
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
        rows = rows_of(model)
        text = _Text(legend, layers, model.time.letter, lengths_of(spec, model.time.letter), findings)
        text.batches = frozenset[str]().union(*(lengths_of(spec, row) for row in rows))
        frame = _Frame(text, model, {axis_of(model.time.letter): False}, rows)
        for formal in model.formals:
            frame.define(formal)
        frame.statements(model.body)
        if model.time.letter not in slot_letters(model.output):
            text.no_positions(model)
    return tuple(dict.fromkeys(findings))


def rows_of(model: Layer) -> frozenset[str]:
    """The letters of a batch: those that stand before the time in an input."""
    time = model.time.letter if model.time is not None else ""
    formals = [slot_letters(formal) for formal in model.formals]
    return frozenset(letter for letters in formals if time in letters for letter in letters[: letters.index(time)])


def lengths_of(spec: Spec, letter: str) -> frozenset[str]:
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
    """What is the same in every layer of one model."""

    legend: Legend
    layers: Mapping[str, Layer]
    time: str
    lengths: frozenset[str]
    findings: list[Finding]
    batches: frozenset[str] = frozenset()

    def report(self, code: str, message: str, at: Node, fix: str, letter: str = "") -> None:
        self.findings.append(Finding(code, message, at.span, (self.legend.describe(letter or self.time),), fix))

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
    """One layer as it is called. `visible` has each letter of an axis that runs over time: at all visible positions or not."""

    text: _Text
    layer: Layer
    visible: Mapping[str, bool]
    rows: frozenset[str]
    caller: Caller | None = None
    defined: dict[str, Tensor] = field(default_factory=dict)
    bare: set[str] = field(default_factory=set)
    scope: Scope = field(init=False)

    def __post_init__(self) -> None:
        self.scope = Scope.of(self.layer, self.text.layers)

    def is_computed(self, letter: str) -> bool:
        """Does an index run over the positions being computed: without a prime, and bound to no prime by the call?"""
        return letter in self.visible and not self.visible[letter]

    def statements(self, body: tuple[Statement, ...]) -> None:
        for statement in body:
            if isinstance(statement, Loop):
                self.expression(statement.count)
                self.statements(statement.body)
            else:
                for at, letter in met(statement.right, self.rows, self.row_places, self.scope.layers):
                    self.text.findings.append(of_rows(whose(at, letter, self.layer, self.caller), self.text.legend))
                self.expression(statement.right)
                self.define(statement.left)

    def define(self, left: Tensor | Name) -> None:
        if isinstance(left, Tensor):
            self.defined[left.name] = left
        else:
            self.bare.add(left.name)

    def expression(self, e: Expression) -> None:
        """What one expression reads, and what is in it."""
        match e:
            case Name() if e.name not in self.bare:
                axis = self.text.legend.sized(e.name)
                self.text.length(e, axis is not None and axis.letter in self.visible)
            case Tensor() if e.name in self.defined:
                self.read(e, self.defined[e.name])
            case Tensor() if self.is_number(e):
                self.text.length(e, False)
            case Apply() if e.name in self.scope.layers:
                self.call(e)
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
                slip = whose(index if e.name != "sum" else e, index.letter, self.layer, self.caller)
                self.text.findings.append(over_positions(e.name, slip, self.text.legend))

    def call(self, e: Apply) -> None:
        """A layer as it is called here: its letters for time are those that the binding gives them."""
        layer, binding = self.scope.layers[e.name], self.scope.binding(e)
        assert binding is not None
        time = {formal: actual for formal, actual in binding.letters.items() if axis_of(actual) in self.visible}
        visible = {formal: not self.is_computed(actual) for formal, actual in time.items() if formal == axis_of(formal)}
        visible = dict.fromkeys(map(axis_of, time), True) | visible
        rows = frozenset(formal for formal, actual in binding.letters.items() if actual in self.rows)
        frame = _Frame(self.text, layer, visible, rows, Caller(self.layer, e, binding.letters, self.caller))
        for formal in layer.formals:
            frame.define(formal)
        frame.statements(layer.body)

    def row_places(self, name: str) -> Mapping[int, str]:
        """The slots of a tensor that are its rows, with their letters; a recurrence knows its own before it is defined."""
        left: Tensor | Name | None = self.defined.get(name)
        if left is None:
            left = next((q.left for q in equations(self.layer.body) if q.left.name == name), None)
        slots = left.slots if isinstance(left, Tensor) else ()
        return {k: slot.letter for k, slot in enumerate(slots) if isinstance(slot, Index) and slot.letter in self.rows}


# ------------------------------------------------------------------------------------------------------------- whose slip it is


@dataclass(frozen=True, slots=True)
class Caller:
    """The layer in whose body another one is called, by which call, and the caller's letters for those of the other."""

    layer: Layer
    call: Apply
    letters: Mapping[str, str]
    caller: Caller | None = None


@dataclass(frozen=True, slots=True)
class Slip:
    """Where to look, at which letter, and the layers that are called on the way to what it is about."""

    at: Expression
    letter: str
    called: tuple[Layer, ...] = ()

    def finding(self, code: str, message: str, fix: str, legend: Legend) -> Finding:
        """What is said of it; where it is a call that gives the letter, only the call can be another."""
        facts = (legend.describe(self.letter), *map(defined, self.called))
        return Finding(
            code, message, self.at.span, facts, f"`{self.called[0].name}` over another index" if self.called else fix
        )


def whose(at: Expression, letter: str, layer: Layer, caller: Caller | None) -> Slip:
    """A layer of the same text that has the letter itself can be mended; else it is the call that gives it this one."""
    if caller is None:
        return Slip(at, letter)
    given = caller.letters.get(letter) or caller.letters[axis_of(letter)]
    slip = whose(caller.call, given, caller.layer, caller.caller)
    if not slip.called and axis_of(given) == axis_of(letter) and layer.span.source == caller.layer.span.source:
        return Slip(at, letter)
    return Slip(slip.at, slip.letter, (*slip.called, layer))


def over_positions(operator: str, slip: Slip, legend: Legend) -> Finding:
    """E503: an operator runs over the positions being computed."""
    name = slip.called[0].name if slip.called else operator
    message = f"`{name}` runs over `{slip.letter}`, the positions being computed, those to come too"
    return slip.finding("E503", message, f"`{slip.letter}'`, or `cumsum_{slip.letter}`", legend)


def of_rows(slip: Slip, legend: Legend) -> Finding:
    """E506: rows of a batch meet."""
    row = axis_of(slip.letter)
    return slip.finding("E506", f"this mixes the rows of a batch, `{row}`", f"`{row}`, the same on both sides", legend)


# -------------------------------------------------------------------------------------------------------------- rows of a batch


def met(
    e: Expression, rows: frozenset[str], places: Callable[[str], Mapping[int, str]], layers: Collection[str]
) -> Iterator[tuple[Expression, str]]:
    """Where the letter of a row stands anywhere but in a slot of rows, as it is, and the letters.

    `places` are the slots of a tensor that are its rows, with their letters; what calls one of `layers` carries rows along.
    """
    bound = e.indices if isinstance(e, Apply) and e.name not in layers else ()
    for index in (e,) if isinstance(e, Index) else bound:
        if axis_of(index.letter) in rows:
            yield e if isinstance(e, Apply) and e.name == "sum" else index, index.letter
    own = places(e.name) if isinstance(e, Tensor) else {}
    for place, child in enumerate(children(e)):
        if place not in own:
            yield from met(child, rows, places, layers)
        elif not (isinstance(child, Index) and child.letter in rows):
            yield child, own[place]
