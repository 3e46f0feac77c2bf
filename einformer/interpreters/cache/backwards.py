"""Where is each value needed, and how far back is it read? From the output to the inputs, over what is known."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from einformer.errors import fail
from einformer.interpreters.cache.entries import Entry, Kind
from einformer.interpreters.cache.forwards import Body, Definition, Step, slots_of
from einformer.notation.calls import axis_of, slot_letters
from einformer.notation.known import Known
from einformer.notation.positions import FIRST
from einformer.notation.tree import Apply, Expression, Index, Name, Tensor
from einformer.notation.walk import children, subexpressions

Array = NDArray[Any]
FAR = 2.0**40  # a position far beyond every constant: what is needed there at the first positions is needed always


@dataclass(frozen=True, slots=True)
class Live:
    """Where a value is needed: a condition over positions, its dims those of `Known`; `s` is the position being computed."""

    dims: tuple[str, ...]
    array: Array

    def over(self, dims: tuple[str, ...]) -> Array:
        """The condition with these axes, in this order: anywhere along others, of length 1 where it has none."""
        gone = tuple(k for k, dim in enumerate(self.dims) if dim not in dims)
        rest = tuple(dim for dim in self.dims if dim in dims)
        array = np.asarray(self.array.any(axis=gone)).transpose([rest.index(dim) for dim in dims if dim in rest])
        lengths = iter(array.shape)
        return np.asarray(array.reshape([next(lengths) if dim in rest else 1 for dim in dims]))

    def within(self, known: Known, f: Callable[[Array], Array]) -> Live:
        """The condition where f holds of the number that is known too."""
        dims = tuple(dict.fromkeys((*self.dims, *known.dims)))
        return Live(dims, self.over(dims) & f(known.over(dims)[0]))

    def either(self, other: Live | None) -> Live:
        """Where one of two holds."""
        if other is None:
            return self
        dims = tuple(dict.fromkeys((*self.dims, *other.dims)))
        return Live(dims, self.over(dims) | other.over(dims))

    def renamed(self, dims: tuple[str, ...], others: tuple[str, ...]) -> Live:
        """Anywhere along all but these dims, which get other names."""
        return Live(others, self.over(dims))

    def along(self, letters: Iterable[str]) -> Live:
        """Anywhere along these letters."""
        dims = tuple(dim for dim in self.dims if dim not in set(letters))
        return Live(dims, self.over(dims))


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


@dataclass(frozen=True, slots=True)
class Demand:
    """What a body wants of one of its inputs: where it is needed, and how far back it is read."""

    live: Live
    reach: Reach | None


EVERYWHERE = Live((), np.array(True))


@dataclass(slots=True)
class Needs:
    """What bodies keep and demand, each once for where its output is needed.

    What is passed on to a layer as it stands is `shared` by the two, or each keeps its own.
    """

    shared: bool = True
    known: dict[tuple[object, ...], tuple[tuple[Entry, ...], dict[str, Demand]]] = field(default_factory=dict)

    def of(self, body: Body, live: Live) -> tuple[tuple[Entry, ...], dict[str, Demand]]:
        """What is kept where the output is needed, and what is demanded of each input."""
        same = (id(body), live.dims, live.array.tobytes())
        if same not in self.known:
            self.known[same] = Backwards(self, body).entries(live)
        return self.known[same]


class Backwards:
    """One body followed from its output to its inputs."""

    def __init__(self, needs: Needs, body: Body) -> None:
        self.needs, self.body, self.time = needs, body, axis_of(body.model.time)
        self.step: Step
        self.live: dict[int, Live] = {}
        self.reach: dict[int, Reach] = {}
        self.below: dict[int, list[Entry]] = {}  # of each step, what its calls and running sums keep

    def entries(self, live: Live) -> tuple[tuple[Entry, ...], dict[str, Demand]]:
        """What is kept where the output is needed, and what is demanded of the inputs."""
        self.demand(self.body.defined[self.body.layer.output.name], live)
        for step in reversed(self.body.steps):
            self.step = step
            if id(step.defines) in self.live:
                self.need(step.equation.right, self.live[id(step.defines)])
        inputs = (self.body.inputs[formal.name] for formal in self.body.layer.formals)
        demands = {d.name: Demand(self.live[id(d)], self.reach.get(id(d))) for d in inputs if id(d) in self.live}
        return tuple(self.kept()), demands

    def kept(self) -> Iterator[Entry]:
        """The entries in the order of the text."""
        for step in self.body.steps:
            yield from self.below.get(id(step), ())
            if id(step.defines) in self.reach:
                yield entry(self.body, step.defines, step.path, self.reach[id(step.defines)])

    def demand(self, definition: Definition, live: Live) -> None:
        """A tensor is needed here too."""
        self.live[id(definition)] = live.either(self.live.get(id(definition)))

    # ------------------------------------------------------------------------------------------------ expressions

    def need(self, e: Expression, live: Live) -> None:
        """An expression is needed here, but not where its number is known."""
        if id(e) in self.step.seen:
            live = live.within(self.step.seen[id(e)], np.isnan)
        if not live.array.any():
            return
        match e:
            case Tensor() | Name():
                self.read(e, live)
            case Apply() if id(e) in self.step.called:
                self.call(e, live)
            case Apply(name="where", arguments=(condition, then, otherwise)):
                chosen = self.step.seen[id(condition)]
                self.need(condition, live)
                self.need(then, live.within(chosen, lambda number: number != 0))
                self.need(otherwise, live.within(chosen, lambda number: number != 1))
            case Apply() if e.indices:
                self.operator(e, live.along(index.letter for index in e.indices))
            case _:
                for child in children(e):
                    self.need(child, live)

    def operator(self, e: Apply, live: Live) -> None:
        """Every element along its letters; of a `cumsum` over the positions being computed the sum so far is kept."""
        if e.name == "cumsum" and self.time in (letters := [index.letter for index in e.indices]):
            if any(
                isinstance(x, Tensor) and self.definition(x) is self.step.defines
                for x in subexpressions(self.step.equation.right)
            ):
                message = (
                    f"this sum stands in the recurrence of `{self.step.defines.name}`, which is solved position by position"
                )
                raise fail("E508", message, e.span, fix="a line of its own for the sum")
            rest = tuple(i for i in self.body.scope.free(e) if i not in letters and i not in self.body.turn)
            found = self.below.setdefault(id(self.step), [])
            name = self.step.defines.name + "'" * len([each for each in found if each.kind == "sum"])
            rows = self.body.rows & set(rest)
            found.append(Entry(self.step.path, name, self.body.layer.name, rest, rows, 0, "sum", 1, loops_of(self.step.path)))
        for argument in e.arguments:
            self.need(argument, live)

    def call(self, e: Apply, live: Live) -> None:
        """What a layer keeps; an input that it reads elsewhere is kept where it is defined, else as the layer's own."""
        place, body = self.step.called[id(e)]
        entries, demands = self.needs.of(body, live)
        own = []
        for formal, argument in zip(body.layer.formals, e.arguments, strict=True):
            if formal.name in demands:
                demand = demands[formal.name]
                if demand.reach is not None and not self.passed(argument, demand.reach):
                    own.append(replace(own_input(body, formal.name, demand), source=self.source(argument)))
                self.need(argument, demand.live)
        self.one_range(e, body, entries, demands)
        found = [replace(each, path=place) for each in own]
        found += (replace(e, path=f"{place}.{e.path}".strip("."), source=e.source and f"{place}.{e.source}") for e in entries)
        self.below.setdefault(id(self.step), []).extend(found)

    def one_range(self, e: Apply, body: Body, entries: Iterable[Entry], demands: Mapping[str, Demand]) -> None:
        """In a layer that keeps a window, s' is that window; what it is given at s' may be needed farther back."""
        kept = [(entry.name, entry.kind, entry.back) for entry in entries if not entry.frame]
        kept += [(name, demand.reach.kind, demand.reach.back) for name, demand in demands.items() if demand.reach]
        windows = [name for name, kind, back in kept if kind == "visible" and back is not None]
        given = [
            d.name for d in body.inputs.values() if d.depends and any(letter != self.time for _, letter in d.times(self.time))
        ]
        if windows and given:
            message = (
                f"`{body.layer.name}` keeps a window of `{windows[0]}`, and is given `{given[0]}` at all visible positions"
            )
            raise fail("E508", message, e.span, fix="both defined in one layer")

    def passed(self, argument: Expression, reach: Reach) -> bool:
        """Is the input of a call a tensor as it stands, which then is kept itself?"""
        definition = self.as_it_stands(argument)
        if not self.needs.shared or definition is None:
            return False
        self.reach[id(definition)] = reach.both(self.reach.get(id(definition)))
        return True

    def as_it_stands(self, argument: Expression) -> Definition | None:
        """The tensor that the input of a call is, at its own position."""
        definition = self.definition(argument)
        if definition is None or not isinstance(argument, Tensor):
            return None
        plain = all(isinstance(slot, Index) for slot in (*argument.slots, *slots_of(definition.left)))
        times = definition.times(self.time)
        return definition if plain and len(times) == 1 and argument.slots[times[0][0]] == Index(times[0][1]) else None

    def source(self, argument: Expression) -> str:
        """The path in this body of the tensor that the input of a call is."""
        definition = self.as_it_stands(argument)
        if definition is None:
            return ""
        path = next((step.path for step in self.body.steps if step.defines is definition), "")
        return f"{path}.{definition.name}".lstrip(".")

    # ---------------------------------------------------------------------------------------------------- reading

    def definition(self, e: Expression) -> Definition | None:
        """The equation or input that a tensor comes from; a recurrence reads itself; a weight comes from none."""
        if not isinstance(e, Tensor | Name):
            return None
        equation = self.step.equation
        if equation.relation == "=" and e.name == equation.left.name:
            return self.step.defines
        found = self.step.reads.get(e.name)
        return found if found is not None and bool(slots_of(found.left)) == isinstance(e, Tensor) else None

    def read(self, e: Tensor | Name, live: Live) -> None:
        """A tensor at the positions in its slots."""
        for slot in slots_of(e):
            self.need(slot, live)
        definition = self.definition(e)
        if definition is None:
            return
        times = definition.times(self.time)
        slots = {letter: e.slots[place] for place, letter in times} if isinstance(e, Tensor) else {}
        read = [slot.letter for slot in slots.values() if isinstance(slot, Index)]
        if definition.depends and (self.time in slots) and (reach := self.reached(e, slots[self.time], live)):
            self.reach[id(definition)] = reach.both(self.reach.get(id(definition)))
            self.demand(definition, EVERYWHERE)
            return
        dims, others = (tuple(dict.fromkeys((self.time, *some))) for some in (read, slots))
        self.demand(definition, live.renamed(dims, others) if len(dims) == len(others) else EVERYWHERE)

    def reached(self, e: Tensor | Name, slot: Expression, live: Live) -> Reach | None:
        """How far back this reads; None where it is at its own position."""
        letters = {x.letter for x in subexpressions(slot) if isinstance(x, Index)}
        times = {letter for letter in letters if axis_of(letter) == self.time}
        if isinstance(slot, Index):
            return None if slot.letter == self.time else Reach("visible", self.support(slot.letter, live))
        if times != {self.time} or any(isinstance(x, Tensor | Apply) for x in subexpressions(slot)):
            return Reach("visible", None)
        legend, axes = self.body.model.legend, sorted(letters - times - self.body.turn.keys())
        corners = itertools.product(*((0, legend.length(letter) - 1) for letter in axes))
        at = {self.time: 0, **self.body.turn}
        return Reach("earlier", int(max(-legend.number(slot, {**at, **dict(zip(axes, c, strict=True))}) for c in corners)))

    def support(self, letter: str, live: Live) -> int | None:
        """The farthest distance from s back to s' at which a tensor is needed; between samples rather too far."""
        samples = self.body.model.samples
        distance = samples[:, None] - samples
        needed = np.broadcast_to(live.over((self.time, letter)), distance.shape) & (distance >= 0)
        if needed[-1, samples < FIRST].any():
            return None
        farthest = distance[needed].max(initial=0)
        return int(distance[~needed & (distance > farthest)].min()) - 1


def entry(body: Body, definition: Definition, path: str, reach: Reach) -> Entry:
    """A tensor that is kept. Raises EinformerError E508."""
    (place, letter), *more = definition.times(axis_of(body.model.time))
    if more:
        message = f"`{definition.name}` is over all visible positions too, and how many those were changes from step to step"
        raise fail("E508", message, definition.left.span, fix="what it is made of, at that position")
    letters = tuple(other for other in slot_letters(definition.left) if other != letter)
    rows = body.rows & set(letters)
    name, loops = body.layer.name, loops_of(path)
    return Entry(path, definition.name, name, letters, rows, place, reach.kind, reach.back, loops, definition.whole)


def loops_of(path: str) -> int:
    """How many loops there are around a place in a body: `blocks.0` is in one."""
    return path.count("blocks.")


def own_input(body: Body, name: str, demand: Demand) -> Entry:
    """An input that is kept as it is given."""
    assert demand.reach is not None
    return entry(body, body.inputs[name], "", demand.reach)
