"""Counts the bytes that decoding keeps, in letters (R10): what is read at another position, as far back as its mask says.

The cache plan follows loops turn by turn at bound sizes; here the bounds of masks are read, for which letters can stand. Where
they do not say how far back one looks, a formula is refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic

from einformer.errors import fail
from einformer.interpreters.count.rules import Arithmetic, N, product, total
from einformer.interpreters.count.turns import Loops, Turns, in_loops, inside, turns_of
from einformer.interpreters.count.visits import Work, work_of
from einformer.language.calls import axis_of, slot_letters
from einformer.language.primitives import COMPARISONS, row_of
from einformer.language.tree import Apply, Equation, Expression, Index, Name, Number, Product, Spec, Sum, Tensor
from einformer.language.walk import subexpressions
from einformer.program.choices import NO_CHOICE, Bound, Choices, bounds
from einformer.program.support import Flow, Need

TOKEN = 8  # bytes, whatever the weights are kept in


@dataclass(frozen=True, slots=True)
class Reading:
    """At s', where that stands at least so many after s, each of them; or at `s - c`, whose terms these are."""

    visible: bool
    least: tuple[Expression, ...] = ()


@dataclass(slots=True)
class Lasting:
    """A tensor that is kept, its letters without the time, and how it is read; of tokens it is `whole`."""

    path: str
    name: str
    letters: tuple[str, ...]
    turns: tuple[Turns, ...]
    whole: bool = False
    readings: list[Reading] = field(default_factory=list)  # none of a running sum, which is its last

    @property
    def visible(self) -> bool:
        """Is it read at s'? Then it grows."""
        return any(reading.visible for reading in self.readings)


@dataclass(frozen=True, slots=True)
class CacheBytes(Generic[N]):
    """The bytes of a cache: what a further position of one row adds until windows are full, and all that is held."""

    per_token: N
    total: N


def cache_bytes(spec: Spec, name: str, arithmetic: Arithmetic[N], element: Any) -> CacheBytes[N]:
    """What the causal model `name` keeps, a number in `element` bytes. Raises EinformerError E508, E607."""
    found = Walk(work_of(spec, name), name)
    model = found.work.layers[name]
    rows = slot_letters(model.formals[0])
    rows = rows[: rows.index(found.time)] if found.time in rows else ()
    each, whole = [], []
    for kept in found.lasting():
        for turns, inner in arithmetic.kinds(kept.turns, tuple(dict.fromkeys(e for r in kept.readings for e in r.least))):
            size = TOKEN if kept.whole else element
            row = product((size, *turns, *(inner.length(letter) for letter in kept.letters if letter not in rows)))
            held = (inner.length(letter) for letter in kept.letters if letter in rows)
            each += [row] * kept.visible
            whole.append(product((row, *held, positions(kept, found.time, inner))))
    return CacheBytes(total(each), total(whole))


def positions(kept: Lasting, time: str, arithmetic: Arithmetic[N]) -> Any:
    """How many positions are held at most: of what is read at s' the one at s too."""
    backs = [_back(reading, arithmetic) for reading in kept.readings]
    if not kept.visible:
        return arithmetic.largest(backs) if backs else 1
    length = arithmetic.length(time)
    return length if None in backs else arithmetic.smallest((length, arithmetic.largest(backs) + 1))


def _back(reading: Reading, arithmetic: Arithmetic[N]) -> Any | None:
    """How many positions before its own a tensor is read; None is all."""
    if reading.visible:
        return arithmetic.smallest([arithmetic.value(e) * -1 for e in reading.least]) if reading.least else None
    return total(_back_of(term, arithmetic) for term in reading.least)


def _back_of(term: Expression, arithmetic: Arithmetic[N]) -> Any:
    """What a term of `s - c` adds at most: of an index that is taken away its last number."""
    match term:
        case Index():
            return 0
        case Product((Number(value=times), *rest, Index(letter=letter))):
            most = product((*map(arithmetic.value, rest), arithmetic.length(letter) + -1))
            return most * -times if times < 0 else 0
        case _:
            return arithmetic.value(term) * -1


@dataclass(frozen=True, slots=True)
class Place:
    """Where a walk through the calls stands: a body, for which choices it is needed, and which of its inputs depend on ours."""

    flow: Flow
    output: Choices
    path: str
    calls: tuple[int, ...]
    turns: tuple[Turns, ...]
    depends: frozenset[str]


class Walk:
    """A walk through the calls of a model, that finds what is read at another position than its own."""

    def __init__(self, work: Work, name: str) -> None:
        self.work, self.model = work, work.layers[name]
        if self.model.time is None:
            raise fail("E508", f"`{name}` does not say in which axis it is causal", self.model.span)
        self.time = self.model.time.letter
        self.found: dict[tuple[object, ...], Lasting] = {}

    def lasting(self) -> Iterable[Lasting]:
        """What the model keeps."""
        names = frozenset(formal.name for formal in self.model.formals)
        body = Body(self, Place(self.work.whole(self.model), NO_CHOICE, "", (), (), names))
        tokens = {x.name for q, _ in in_loops(self.model.body) for e in subexpressions(q.right) for x in _selecting(e)}
        for formal in self.model.formals:
            if formal.name in body.inputs:
                kept = Lasting("", formal.name, self.rest(formal), (), formal.name in tokens, body.inputs[formal.name])
                self.found["", formal.name] = kept
        return self.found.values()

    def rest(self, left: Tensor | Name) -> tuple[str, ...]:
        """The letters of a tensor but that of time."""
        return tuple(letter for letter in slot_letters(left) if letter != self.time)

    def positions(self, left: Tensor | Name) -> list[tuple[int, str]]:
        """The slots over time, and their letters."""
        slots = enumerate(left.slots if isinstance(left, Tensor) else ())
        return [(k, slot.letter) for k, slot in slots if isinstance(slot, Index) and axis_of(slot.letter) == self.time]


@dataclass(frozen=True, slots=True)
class Line:
    """An equation with the loops around it, and each tensor as it is before, with the number of the line that left it so."""

    equation: Equation
    loops: Loops
    lefts: Mapping[str, tuple[Tensor | Name, int]]


class Body:
    """One body on the walk, its lines from the last to the first: what is at s' is needed as far back as its readers look.

    `inputs` is how its inputs are read elsewhere, for whoever gives them; `ahead` how far back what is at s' is needed.
    """

    def __init__(self, walk: Walk, place: Place) -> None:
        self.walk, self.place, self.time = walk, place, walk.time
        self.inputs: dict[str, list[Reading]] = {}
        self.ahead: dict[str, list[Reading]] = {}
        self.inside: dict[int, tuple[Choices, list[Reading]]] = {}  # of what stands in a call: how the call is needed
        self.depends, self.changed = set(place.depends), dict[str, set[str]]()
        self.versions: dict[str, set[int]] = {}
        needs = place.flow.needs(place.output)
        for line in reversed(list(self.lines())):
            self.line = line
            for e, need in place.flow.expressions(line.equation, needs[id(line.equation)]):
                self.expression(e, need)

    def lines(self) -> Iterator[Line]:
        """The equations in the order of the text; a recurrence reads itself."""
        layer = self.place.flow.layer
        lefts: dict[str, tuple[Tensor | Name, int]] = {formal.name: (formal, 0) for formal in layer.formals}
        for number, (equation, loops) in enumerate(in_loops(layer.body), 1):
            after = {**lefts, equation.left.name: (equation.left, number)}
            self.changed.setdefault(equation.left.name, set()).update(letter for letter, _ in loops)
            self.depends |= {equation.left.name} if self.dependent(equation.right) else set()
            yield Line(equation, loops, after if equation.relation == "=" else lefts)
            lefts = after

    def dependent(self, e: Expression) -> bool:
        """Does a value depend on the inputs of the model?"""
        return any(isinstance(x, Tensor | Name) and x.name in self.depends for x in subexpressions(e))

    def expression(self, e: Expression, need: Need) -> None:
        """What one expression reads."""
        match e:
            case Apply() if e.name in self.place.flow.callees:
                self.call(e, need)
            case Apply() if self.time in {i.letter for i in e.indices} and row_of(e.name, True).looks_back:
                letters = tuple(letter for letter in self.place.flow.scope.free(e) if letter != self.time)
                name, turns = self.line.equation.left.name, self.turns(self.line.loops, need)
                self.keep(id(e), Lasting(self.place.path, name, letters, turns))
            case Apply() if e.name in (*COMPARISONS, "or", "not"):
                self.clear(e)
            case Tensor() if e.name in self.depends and e.name in self.line.lefts:
                self.tensor(e, need)

    def clear(self, e: Apply) -> None:
        """Does a condition on two positions say how far apart they are?"""
        positions = {x.letter for x in subexpressions(e) if isinstance(x, Index) and axis_of(x.letter) == self.time}
        if len(positions) > 1 and (e.name in ("or", "not") or not list(bounds(e))):
            message = "how far back this lets one look has no formula"
            raise fail("E607", message, e.span, fix="bound sizes, at whose positions one sees it")

    # --------------------------------------------------------------------------------------------------- readings

    def tensor(self, e: Tensor, need: Need) -> None:
        """A tensor at its own position, or at another."""
        for place, letter in self.walk.positions(self.line.lefts[e.name][0])[:1]:
            slot = e.slots[place]
            if letter != self.time:
                same = slot == Index(letter)
                self.ahead.setdefault(e.name, []).extend(self.back(e, letter, need) if same else [Reading(True)])
            elif slot != Index(letter):
                self.read(e.name, self.readings(e, slot, need), need)

    def readings(self, e: Tensor, slot: Expression, need: Need) -> list[Reading]:
        """How far back a slot looks."""
        if isinstance(slot, Index):
            return self.back(e, slot.letter, need)
        times = {x.letter for x in subexpressions(slot) if isinstance(x, Index) and axis_of(x.letter) == self.time}
        return [Reading(False, slot.terms) if isinstance(slot, Sum) and times == {self.time} else Reading(True)]

    def back(self, e: Expression, letter: str, need: Need) -> list[Reading]:
        """How far back s' is: as the masks around say, or as what is made of it is needed."""
        outside, readings = self.inside.get(id(e), (NO_CHOICE, []))
        known = (bound for bound in need.choices | outside if isinstance(bound, Bound))
        if least := tuple(bound.least for bound in known if (bound.later, bound.earlier) == (letter, self.time)):
            return [Reading(True, least)]
        return readings or self.ahead.get(self.line.equation.left.name, [Reading(True)])

    def read(self, name: str, readings: list[Reading], need: Need) -> None:
        """A tensor is read elsewhere: in each turn another, if it is defined in the loop."""
        left, number = self.line.lefts[name]
        if name not in self.changed:
            self.inputs.setdefault(name, []).extend(readings)
            return
        self.versions.setdefault(name, set()).add(number)
        if len(self.versions[name]) > 1 and self.changed[name]:
            message = f"of how many values of `{name}` something is kept has no formula"
            raise fail("E607", message, left.span, fix="a name of its own for each")
        around = tuple(loop for loop in self.line.loops if loop[0] in self.changed[name])
        kept = Lasting(self.place.path, name, self.walk.rest(left), self.turns(around, need))
        self.keep((name, number), kept).readings.extend(readings)

    def keep(self, key: object, kept: Lasting) -> Lasting:
        """Each once, however often it is read."""
        return self.walk.found.setdefault((*self.place.calls, key), kept)

    def turns(self, around: Loops, need: Need) -> tuple[Turns, ...]:
        """Those of the calls on the way, then those of the loops around in which it is another."""
        return (*self.place.turns, turns_of(around, need.cases if around == self.line.loops else frozenset()))

    # ------------------------------------------------------------------------------------------------------ calls

    def call(self, e: Apply, need: Need) -> None:
        """What a layer keeps; an input that is given as it stands is kept where it is defined."""
        flow, loops = self.place.flow, self.line.loops
        callee, wanted = flow.call(e, need, self.line.equation)
        path = inside(self.place.path, e, loops, self.walk.work.written(e, flow))
        given = dict(zip((formal.name for formal in callee.layer.formals), e.arguments, strict=True))
        depends = frozenset(name for name, actual in given.items() if self.dependent(actual))
        turns = (*self.place.turns, turns_of(loops, need.cases))
        body = Body(self.walk, Place(callee, wanted, path, (*self.place.calls, id(e)), turns, depends))
        for name, actual in given.items():
            self.inside |= {id(x): (need.choices, body.ahead.get(name, [])) for x in subexpressions(actual)}
        for formal in callee.layer.formals:
            actual, readings = given[formal.name], body.inputs.get(formal.name)
            if readings and isinstance(actual, Tensor) and self.as_it_stands(actual):
                self.read(actual.name, readings, need)
            elif readings:
                body.keep(formal.name, Lasting(path, formal.name, self.walk.rest(formal), turns, readings=readings))

    def as_it_stands(self, e: Tensor) -> bool:
        """Is an actual a tensor of this body, at its own position?"""
        left = self.line.lefts[e.name][0] if e.name in self.line.lefts else None
        return (
            isinstance(left, Tensor)
            and all(isinstance(x, Index) for x in (*e.slots, *left.slots))
            and Index(self.time) in e.slots
        )


def _selecting(e: Expression) -> Iterator[Tensor]:
    """The tensors that stand in a slot of another: tokens."""
    return (slot for slot in (e.slots if isinstance(e, Tensor) else ()) if isinstance(slot, Tensor))
