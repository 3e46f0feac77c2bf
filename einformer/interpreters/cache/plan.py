"""Derives what decoding keeps from step to step, and how far back, from what each tensor reads at which positions (R10).

A tensor that is read at another position than its own is kept. At `s - j` the last j of it are, at s' as many as the masks
around bound; a running sum keeps its last value. Loops are followed turn by turn, since a mask may differ from turn to turn.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

from einformer.errors import fail
from einformer.interpreters.cache.entries import Entry, Kind, together
from einformer.language.calls import axis_of, slot_letters
from einformer.language.sizes import Legend
from einformer.language.specialise import specialise
from einformer.language.times import rows_of
from einformer.language.tree import Index, Spec, Tensor
from einformer.language.walk import equations, subexpressions
from einformer.language.weights import place, versions
from einformer.program.inequalities import Facts, Linear
from einformer.program.positions import Analysis, Anchor, Body, Call, Definition, Read, Step, Value


def plan(spec: Spec, name: str, legend: Legend, shared: bool = True) -> tuple[Entry, ...]:
    """What the causal model `name` of a checked spec keeps, in the order of the text. Raises EinformerError E508, E601.

    What is passed on to a layer as it stands is kept once, or, where it is not `shared`, by each layer that reads it.
    """
    layers = {layer.name: layer for layer in specialise(spec, name).layers}
    model = layers[name]
    if model.time is None:
        message = f"`{name}` does not say in which axis it is causal, so what comes later may change what was computed"
        raise fail("E508", message, model.span, fix=f"`model {name}(…) -> … causal in s:`")
    time = axis_of(model.time.letter)
    body = _Followed(layers, legend, time, Facts(legend, time), unroll=True).model(model)
    return _Plan(body, legend, rows_of(model), shared).entries()


def held(spec: Spec, name: str, legend: Legend) -> tuple[Entry, ...]:
    """What a module of it keeps: each layer its own, and all it sees equally far."""
    return together(plan(spec, name, legend, shared=False))


class _Followed(Analysis):
    """An analysis that keeps what cannot be computed again, and refuses what decoding cannot read again."""

    def tells(self, value: Value, formula: bool) -> bool:
        """What is no formula of positions is kept like what inputs decide."""
        return super().tells(value, formula) or not formula

    def crossed(self, read: Tensor, definition: Definition) -> None:
        """What is over all visible positions changes from step to step, and is not kept."""
        message = f"`{read.name}` is over all visible positions too, and how many those were changes from step to step"
        raise fail("E508", message, read.span, fix="what it is made of, at that position")


@dataclass(frozen=True, slots=True)
class Reach:
    """How far back a tensor is read."""

    kind: Kind
    back: int | None

    def both(self, other: Reach | None) -> Reach:
        """As far as either of two readings."""
        if other is None:
            return self
        back = None if self.back is None or other.back is None else max(self.back, other.back)
        return Reach("visible" if "visible" in (self.kind, other.kind) else "earlier", back)


@dataclass(slots=True)
class _Plan:
    """The entries of a model. `reach` has each anchor that is kept, `read` the bodies whose reads are in it."""

    model: Body
    legend: Legend
    rows: frozenset[str]
    shared: bool
    reach: dict[Anchor, Reach] = field(default_factory=dict)
    read: dict[int, tuple[Entry, ...]] = field(default_factory=dict)

    def entries(self) -> tuple[Entry, ...]:
        """What the model keeps, its inputs first."""
        entries = self.of(self.model)
        read = [e for q in equations(self.model.layer.body) for e in subexpressions(q.right) if isinstance(e, Tensor)]
        tokens = {slot.name for e in read for slot in e.slots if isinstance(slot, Tensor)}
        inputs = ((name, anchor) for name, anchor in self.model.inputs.items() if anchor in self.reach)
        return (*(self.entry(self.model, anchor, "", name, name in tokens) for name, anchor in inputs), *entries)

    def of(self, body: Body) -> tuple[Entry, ...]:
        """What a body keeps, by paths in it. What it calls comes first, since that may read what the body defines."""
        if id(body) not in self.read:
            below = [[*self.called(body, step), *self.sums(body, step)] for step in body.steps]
            for step in body.steps:
                self.reads(body, step.reads if step.anchor is not None else ())
                for call in step.calls:
                    for value, _ in call.given.values():
                        self.reads(body, value.reads)
            names = versions(body.layer)
            entries: list[Entry] = []
            for step, inner in zip(body.steps, below, strict=True):
                entries += inner
                if step.anchor in self.reach:
                    assert step.anchor is not None
                    entries.append(self.entry(body, step.anchor, step.path, names[id(step.equation)][0]))
            self.read[id(body)] = tuple(entries)
        return self.read[id(body)]

    def called(self, body: Body, step: Step) -> Iterator[Entry]:
        """What layers keep that an equation calls; an input that is given as it stands is kept where it is defined."""
        for call in step.calls:
            path, inner = f"{step.path}.{place(call.apply, body.layer)}".lstrip("."), self.of(call.body)
            own = []
            for name, anchor in call.body.inputs.items():
                given = call.given[name][1]
                if anchor in self.reach and self.shared and given is not None:
                    self.reach[given] = self.reach[anchor].both(self.reach.get(given))
                elif anchor in self.reach:
                    source = self.source(body, given) if given is not None else ""
                    own.append(replace(self.entry(call.body, anchor, "", name), source=source))
            self.one_range(call, (*own, *inner))
            yield from (replace(entry, path=path) for entry in own)
            for entry in inner:
                source = entry.source and f"{path}.{entry.source}"
                yield replace(entry, path=f"{path}.{entry.path}".strip("."), source=source)

    def source(self, body: Body, given: Anchor) -> str:
        """The path in a body of a tensor that it gives on."""
        names = versions(body.layer)
        for step in body.steps:
            if step.anchor is given:
                return f"{step.path}.{names[id(step.equation)][0]}".lstrip(".")
        return given.name

    def one_range(self, call: Call, entries: Iterable[Entry]) -> None:
        """In a layer that keeps a window, s' is that window; what it is given at s' may be needed farther back."""
        kept = [(entry.name, entry.kind, entry.back) for entry in entries if not entry.frame]
        windows = [name for name, kind, back in kept if kind == "visible" and back is not None]
        if windows and call.seen:
            name = call.body.layer.name
            message = f"`{name}` keeps a window of `{windows[0]}`, and is given `{call.seen[0]}` at all visible positions"
            raise fail("E508", message, call.apply.span, fix="both defined in one layer")

    def sums(self, body: Body, step: Step) -> Iterator[Entry]:
        """The running sums in an equation."""
        name = versions(body.layer)[id(step.equation)][0]
        for number, e in enumerate(step.sums):
            if step.recurrent:
                message = f"this sum stands in the recurrence of `{name}`, which is solved position by position"
                raise fail("E508", message, e.span, fix="a line of its own for the sum")
            turning = {index.letter for index in e.indices} | body.scope.loops
            rest = tuple(letter for letter in body.scope.free(e) if letter not in turning)
            rows = self.rows & set(rest)
            path, kept = step.path, name + "'" * number
            yield Entry(path, kept, body.layer.name, rest, rows, 0, "sum", 1, _loops(path))

    def entry(self, body: Body, anchor: Anchor, path: str, name: str, whole: bool = False) -> Entry:
        """A tensor that is kept."""
        reach, time = self.reach[anchor], body.time
        slots = anchor.left.slots if isinstance(anchor.left, Tensor) else ()
        letters = tuple(letter for letter in slot_letters(anchor.left) if letter != time)
        rows, axis = self.rows & set(letters), slots.index(Index(time))
        return Entry(path, name, body.layer.name, letters, rows, axis, reach.kind, reach.back, _loops(path), whole)

    # ---------------------------------------------------------------------------------------------------- reading

    def reads(self, body: Body, reads: Iterable[Read]) -> None:
        """Tensors that are read at another position than their own."""
        for read in reads:
            if read.anchor is not None and (reach := self.reached(body, read)) is not None:
                self.reach[read.anchor] = reach.both(self.reach.get(read.anchor))

    def reached(self, body: Body, read: Read) -> Reach | None:
        """How far back this reads; None where it is at its own position, or in no case."""
        facts, here = body.facts, Linear.index(body.time)
        cases = facts.holding(read.cases)
        if read.position == here or not cases:
            return None
        distance = here - read.position
        visible = [x for x in read.position.letters() if body.analysis.is_time(x) and x != body.time]
        shifted = body.time not in distance.letters() and not any(
            atom.kind in ("data", "function") for atom in distance.atoms()
        )
        if read.computed or (read.position not in map(Linear.index, visible) and (visible or not shifted)):
            return Reach("visible", None)
        bounds = [bound for case in cases for bound in facts.upper(distance, case)]
        backs = [min((int(value) for limit in bound if (value := limit.value) is not None), default=None) for bound in bounds]
        kind: Kind = "visible" if visible else "earlier"
        return Reach(kind, None if None in backs else max((back for back in backs if back is not None), default=0))


def _loops(path: str) -> int:
    """How many loops there are around a place in a body: `blocks.0` is in one."""
    return path.count("blocks.")
