"""Derives what decoding keeps from step to step, and how far back, from what each tensor reads at which positions (R10).

A tensor that is read at another position than its own is kept. At `s - j` the last j of it are, at s' as many as the masks
around bound; a running sum keeps its last value. Lines that read inputs without positions alone are the same at every step:
those of them that others read are kept. At bound sizes loops are followed turn by turn, since a mask may differ from
turn to turn. In letters all turns are followed at once; what differs between turns, or has no such bound, has no formula.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Generic, Literal, TypeVar, cast

from einformer.errors import EinformerError, Span, fail
from einformer.language.calls import axis_of
from einformer.language.sizes import Legend
from einformer.language.specialise import specialise
from einformer.language.times import find_rows
from einformer.language.tree import Apply, Expression, Index, Layer, Number, Spec
from einformer.language.walk import subexpressions
from einformer.language.weights import key
from einformer.program import operations as op
from einformer.program.inequalities import Atom, Cases, Facts, Inequality, Linear, negated, plain, written
from einformer.program.lowering import lower_functions
from einformer.program.operations import Function, Line, Turns, Value
from einformer.program.positions import Analysis, Anchor, Body, Call, Read, Step, Support
from einformer.program.rewrite import find_read, name_values, walk, walk_loops
from einformer.program.turns import Loops, Site

Kind = Literal["visible", "earlier", "sum", "same"]
Limit = TypeVar("Limit")  # a number, or an expression for it


@dataclass(frozen=True, slots=True)
class Entry(Generic[Limit]):
    """A tensor that decoding keeps, of the specialised layer `layer` at a path, `blocks.0.CausalAttention`.

    *visible* is read at s', `back` positions beside the current one, all where that is None; *earlier* at `s - j` alone, the
    last `back`; *sum* is the running sum of a `cumsum`; *same* is made of inputs without positions, at the first step.
    `letters` are its indices but that of time, which was its slot `axis`; `rows` are those of the batch, `sites` its loops and
    those of each call on the way, `loops` how many are of its own layer. An input of a layer that is passed on
    unchanged has a `source`, the path of the tensor that it is.
    """

    path: str
    name: str
    layer: str
    letters: tuple[str, ...]
    rows: frozenset[str]
    axis: int
    kind: Kind
    back: Limit | None
    sites: tuple[Site, ...]
    loops: int
    whole: bool = False
    source: str = ""

    @property
    def full_path(self) -> str:
        """`blocks.0.CausalAttention.k`, unlike any other."""
        return f"{self.path}.{key(self.name)}".lstrip(".") + (".sum" if self.kind == "sum" else "")

    @property
    def tensor(self) -> str:
        """`z`, of which `z_2` is another version."""
        return self.name.partition("_")[0]

    @property
    def frame(self) -> str:
        """The path of the layer as it is called, without the turns of its own loops."""
        parts = self.path.split(".")
        return ".".join(parts[: len(parts) - 2 * self.loops])

    def inside(self, path: str, site: Site) -> Entry[Limit]:
        """The entry of a layer that is called at a path; an unchanged input is there already."""
        source = self.source and f"{path}.{self.source}"
        return replace(self, path=f"{path}.{self.path}".strip("."), source=source, sites=(site, *self.sites))


def kept(spec: Spec, name: str, legend: Legend) -> tuple[Entry[int], ...]:
    """The tensors that the causal model `name` of a checked spec keeps at these sizes, in the order of the text.

    Each layer keeps its own, and all that it sees equally far. Raises EinformerError E508, E601.
    """
    return together(_plan(spec, name, legend, _in_numbers, 1).entries())


def kept_in_letters(spec: Spec, name: str, legend: Legend) -> tuple[Entry[Expression], ...]:
    """The same for all sizes: how far back is a number of the legend. Raises EinformerError E508, E607."""
    one: Expression = Number(1)
    entries = together(_plan(spec, name, legend, _in_letters, one).entries())
    for entry in entries:
        around = entry.sites[:-1] if entry.loops and entry.kind == "visible" else entry.sites
        letters = {letter for site in around for letter, _ in site.loops}
        for x in subexpressions(entry.back) if entry.back is not None else ():
            if isinstance(x, Index) and x.letter not in letters:
                raise _unclear(x.span)
    return entries


def _plan(spec: Spec, name: str, legend: Legend, limits: Callable[..., list[Limit | None]], one: Limit) -> _Keeping[Limit]:
    """What the body of a model keeps, and the layers that it calls; in letters where numbers are expressions."""
    letters = not isinstance(one, int)
    special = specialise(spec, name)
    layers = {layer.name: layer for layer in special.layers}
    model = layers[name]
    if model.time is None:
        message = f"`{name}` does not say in which axis it is causal, so what comes later may change what was computed"
        raise fail("E508", message, model.span, fix=f"`model {name}(…) -> … causal in s:`")
    time = axis_of(model.time.letter)
    functions = lower_functions(special, legend, run=False)
    followed = _Followed(functions, legend, time, Facts(legend, time, letters), unroll=not letters)
    return _Keeping(followed.model(name), layers, find_rows(model), limits, one, _find_steady(functions, name, time))


class _Followed(Analysis):
    """An analysis that keeps values that cannot be computed again, and refuses those that it cannot read again."""

    def tells(self, support: Support, formula: bool) -> bool:
        """A number that is not a formula of positions is kept like one that inputs decide."""
        return super().tells(support, formula) or not formula

    def crossed(self, name: str, at: Span) -> None:
        """A tensor over all visible positions changes from step to step, and is not kept."""
        message = f"`{name}` is over all visible positions too, and how many those were changes from step to step"
        raise fail("E508", message, at, fix="what it is made of, at that position")

    def unclear(self, at: Span) -> None:
        """A tensor that is kept in some turns, by numbers that a layer is given."""
        if self.facts.letters:
            raise _unclear(at)


@dataclass(frozen=True, slots=True)
class Reach(Generic[Limit]):
    """How far back a tensor is read."""

    kind: Kind
    back: Limit | None

    def both(self, other: Reach[Limit] | None) -> Reach[Limit]:
        """As far as either of two readings."""
        if other is None:
            return self
        kind: Kind = "visible" if "visible" in (self.kind, other.kind) else "earlier"
        return Reach(kind, farthest((self.back, other.back)))


@dataclass(slots=True)
class _Keeping(Generic[Limit]):
    """The entries of a model. `reach` has each anchor that is kept, `followed` the bodies whose reads are in it.

    `limits` are the numbers that bound how far back a read is in each case.
    """

    model: Body
    layers: Mapping[str, Layer]
    rows: frozenset[str]
    limits: Callable[[Body, Read, Linear, Cases], list[Limit | None]]
    one: Limit
    steady: Mapping[str, Sequence[Line]]
    used: set[Anchor] = field(default_factory=set)
    reach: dict[Anchor, Reach[Limit]] = field(default_factory=dict)
    followed: set[Body] = field(default_factory=set)
    kept: dict[Body, tuple[Entry[Limit], ...]] = field(default_factory=dict)

    def entries(self) -> tuple[Entry[Limit], ...]:
        self.follow(self.model)
        entries = self.of(self.model)
        return (*self.inputs(self.model), *entries)

    def follow(self, body: Body) -> None:
        """What a body and its callees read. What a layer gives over s and s' is read by those who call it."""
        if body in self.followed:
            return
        self.followed.add(body)
        for step in body.steps:
            self.reads(body, step.reads if step.anchor is not None else ())
            for call in step.calls:
                self.follow(call.body)
                for support, _ in call.given.values():
                    if self.reads(body, support.reads) and call.cases:
                        raise _unclear(call.span)

    def inputs(self, body: Body) -> Iterator[Entry[Limit]]:
        """The inputs that a body keeps."""
        return (self.entry(body, anchor, name) for name, anchor in body.inputs.items() if anchor in self.reach)

    def of(self, body: Body) -> tuple[Entry[Limit], ...]:
        """The tensors that a body and its callees keep, by paths in it."""
        if body not in self.kept:
            below = [[*self.called(body, step), *self.sums(body, step)] for step in body.steps]
            self.widen(body)
            passed = [(anchor, anchor.loops) for anchor in body.anchors.values() if anchor.loops is not None]
            entries = [self.entry(body, a, a.line.name, _path(loops), loops) for a, loops in passed if a in self.reach]
            for step, inner in zip(body.steps, below, strict=True):
                entries += inner
                if step.anchor in self.reach:
                    entries.append(self.entry(body, step.anchor, self.version(body, step), step.path, step.loops))
            entries += (self.same(body, line) for line in self.steady.get(body.function.name, ()))
            self.kept[body] = tuple(entries)
            self.one_version(body)
        return self.kept[body]

    def widen(self, body: Body) -> None:
        """What a body gives at s' runs over as many positions as the layers see that it calls: it sees as many itself."""
        calls = [call.body for step in body.steps for call in step.calls if _takes_visible(call.body)]
        entries = [entry for inner in calls for entry in (*self.inputs(inner), *self.of(inner)) if entry.kind == "visible"]
        own = {*body.anchors.values(), *body.inputs.values(), *(step.anchor for step in body.steps if step.anchor is not None)}
        for anchor in own & self.reach.keys() if entries else ():
            if self.reach[anchor].kind == "visible":
                self.reach[anchor] = Reach("visible", farthest((self.reach[anchor].back, *(entry.back for entry in entries))))

    def version(self, body: Body, step: Step) -> str:
        assert step.line.version is not None
        return step.line.version[0]

    def one_version(self, body: Body) -> None:
        """In letters, of a tensor that turns change either the first or the last version is kept."""
        used = [anchor for anchor in {*body.anchors.values()} if anchor in self.used]
        for name in {anchor.line.name for anchor in used if anchor.loops is not None}:
            if sum(anchor.line.name == name for anchor in used) > 1:
                message = f"of how many values of `{name}` something is kept has no formula"
                raise fail("E607", message, self.layers[body.function.name].span, fix="a name of its own for each")

    def called(self, body: Body, step: Step) -> Iterator[Entry[Limit]]:
        """The tensors of the layers that an equation calls; an unchanged input is there already."""
        for call in step.calls:
            inner, own = self.of(call.body), list(self.inputs(call.body))
            self.one_range(call, (*own, *inner))
            path, site = f"{step.path}.{call.path}".lstrip("."), Site(step.loops, call.cases)
            if call.cases and call.seen:
                raise _unclear(call.span)
            for entry in own:
                given = call.given[entry.name][1]
                inside = entry.inside(path, site)
                yield inside if given is None else self.shared(inside, body, given, call)
            yield from (entry.inside(path, site) for entry in inner)

    def shared(self, entry: Entry[Limit], body: Body, given: Anchor, call: Call) -> Entry[Limit]:
        """An unchanged input: it has as many positions as its source."""
        self.used.add(given)
        paths = {s.anchor: (f"{s.path}.{self.version(body, s)}".lstrip("."), s.loops) for s in body.steps}
        path, loops = paths.get(given, (given.line.name, given.loops or ()))
        if call.cases and loops != entry.sites[0].loops:
            raise _unclear(call.span)
        return replace(entry, source=path, sites=(Site(loops, call.cases),))

    def one_range(self, call: Call, entries: Iterable[Entry[Limit]]) -> None:
        """In a layer that keeps a window, s' is that window; what it is given at s' may be needed farther back."""
        windows = [e.name for e in entries if not e.frame and e.kind == "visible" and e.back is not None]
        if windows and call.seen:
            name = call.body.function.name
            message = f"`{name}` keeps a window of `{windows[0]}`, and is given `{call.seen[0]}` at all visible positions"
            raise fail("E508", message, call.span, fix="both defined in one layer")

    def sums(self, body: Body, step: Step) -> Iterator[Entry[Limit]]:
        for number, value in enumerate(step.sums):
            name = self.version(body, step)
            if isinstance(step.line.value.operation, op.Recur):
                message = f"this sum stands in the recurrence of `{name}`, which is solved position by position"
                raise fail("E508", message, value.span, fix="a line of its own for the sum")
            rest = tuple(letter for letter in value.axes if letter != body.time)
            path, kept, rows = step.path, name + "'" * number, self.rows & set(rest)
            sites, depth = (Site(step.loops),), _depth(path)
            yield Entry(path, kept, body.function.name, rest, rows, 0, "sum", self.one, sites, depth)

    def same(self, body: Body, line: Line) -> Entry[Limit]:
        assert line.version is not None
        rows, (name, loops) = self.rows & set(line.value.axes), line.version
        whole = line.value.kind == "integer"
        return Entry("", name, body.function.name, line.value.axes, rows, 0, "same", self.one, (Site(()),), loops, whole)

    def entry(self, body: Body, anchor: Anchor, name: str, path: str = "", loops: Loops = ()) -> Entry[Limit]:
        labels, value = anchor.line.labels, anchor.line.value
        letters = tuple(letter for label in labels for letter in label if letter != body.time)
        reach, rows = self.reach[anchor], self.rows & set(letters)
        axis, sites, depth = labels.index((body.time,)), (Site(loops),), _depth(path)
        whole = (value.operation.so_far if isinstance(value.operation, op.Recur) else value).kind == "integer"
        return Entry(path, name, body.function.name, letters, rows, axis, reach.kind, reach.back, sites, depth, whole)

    # ---------------------------------------------------------------------------------------------------- reading

    def reads(self, body: Body, reads: Iterable[Read]) -> bool:
        """Tensors that are read at another position than their own, if there are some."""
        some = False
        for read in reads:
            if read.anchor is not None and (reach := self.reached(body, read)) is not None:
                self.reach[read.anchor], some = reach.both(self.reach.get(read.anchor)), True
                self.used.add(read.anchor)
        return some

    def reached(self, body: Body, read: Read) -> Reach[Limit] | None:
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
        limits = self.limits(body, read, distance, cases)
        return Reach("visible" if visible else "earlier", farthest(limits)) if limits else None


def _find_steady(functions: Mapping[str, Function], name: str, time: str) -> dict[str, list[Line]]:
    """The lines of each function that are the same at every step, are made of inputs, and are read by others.

    A function keeps only what it makes of arguments that are the same in every call, none of which is in such a line itself.
    """
    steady, same = dict[str, list[Line]](), {name: [time not in line.value.axes for line in functions[name].inputs]}
    for function in reversed([*functions.values()]):  # those that call others first
        if any(same.get(function.name, ())):
            lines = _Steps(function, time, same[function.name])
            steady[function.name] = lines.list_kept()
            for call, moves in lines.calls:
                before = same.get(call.function, [True] * len(call.arguments))
                same[call.function] = [
                    one and moves and lines.is_same(x) for one, x in zip(before, call.arguments, strict=True)
                ]
    return steady


class _Steps:
    """The lines of a function: values that are `moving` differ from step to step, others are `entered` by inputs."""

    def __init__(self, function: Function, time: str, same: Sequence[bool]) -> None:
        self.time, self.function, values = time, function, [line.value for line in function.inputs]
        self.entered = {value for value, is_same in zip(values, same, strict=True) if is_same}
        self.moving, self.named = {*values} - self.entered, dict[Value, Line]()
        moving = [line for line in function.lines if self.follow(line)]
        self.read = find_read(moving, self.named.keys() - self.moving) | {function.output.value}
        here = self.read - (self.named.keys() - self.moving)
        self.calls = [(x.operation, x in here) for x in find_read(function.lines) if isinstance(x.operation, op.Call)]

    def follow(self, line: Line | Turns) -> bool:
        """Does a line move? Then all do that read it, or that give its name another value."""
        read, names = find_read([line], self.named), name_values([line])
        changed = {other.name for value, other in self.named.items() if value in self.moving} & {x.name for x in names.values()}
        returns = isinstance(line, Line) and line.equation is not None and line.equation.relation == "return"
        moves = returns or bool(changed) or self.moves(read)
        inner = names.keys() | {part.within for turns in walk_loops([line]) for part in turns.carried}
        if moves or read & self.entered:
            (self.moving if moves else self.entered).update(inner)
        self.named |= names
        return moves

    def moves(self, values: Collection[Value]) -> bool:
        return any(value in self.moving or any(axis_of(x) == self.time for x in value.axes) for value in values)

    def is_same(self, argument: Value) -> bool:
        read = {*walk(argument, closed=self.named)}
        return bool(read & self.entered) and not self.moves(read)

    def list_kept(self) -> list[Line]:
        """The lines whose values moving ones read; inputs, which are given, are none of them under any name."""
        kept = (self.entered & self.read) - {line.value for line in self.function.inputs}
        return [line for value, line in name_values(self.function.lines).items() if value in kept]


def _takes_visible(body: Body) -> bool:
    """Is a body given something at s'?"""
    letters = {letter for line in body.function.inputs for letter in line.value.axes}
    return any(body.analysis.is_time(letter) for letter in letters - {body.time})


def _path(around: Loops) -> str:
    """The path of a place in some loops, whatever their turns."""
    return ".".join(f"blocks.{{{letter}}}" for letter, _ in around)


def _depth(path: str) -> int:
    """How many loops there are around a place in a body: `blocks.0` is in one."""
    return path.count("blocks.")


def _in_numbers(body: Body, read: Read, distance: Linear, cases: Cases) -> list[int | None]:
    """How far back a read is at most, in each of some cases."""
    bounds = (bounds for case in cases for bounds, _ in body.facts.upper(distance, case))
    return [min((int(value) for bound in some if (value := bound.value) is not None), default=None) for some in bounds]


def _in_letters(body: Body, read: Read, distance: Linear, cases: Cases) -> list[Expression | None]:
    """The same in letters: exact where each case is one of sums of positions, whatever the sizes and the turn."""
    turning = {turns.letter for function in body.analysis.functions.values() for turns in walk_loops(function.lines)}
    lacking: dict[Expression | None, list[list[Inequality]]] = {}
    for case in cases:
        if not all(_is_plain(inequality, turning) for inequality in (Inequality(distance), *case)):
            raise _no_bound(read.at)
        for bounds, needed in body.facts.upper(distance, case):
            seen = frozenset(map(Inequality, bounds))
            without = [absent for i in needed if not body.facts.refutes(seen | {absent := negated(i)})]
            lacking.setdefault(find_least(bounds), []).append(without)
    sure = {back for back, cases in lacking.items() if all(body.facts.refutes(frozenset(c)) for c in itertools.product(*cases))}
    if lacking.keys() - sure and None not in sure:
        raise _no_bound(read.at)
    return sorted(sure, key=repr)


def find_least(bounds: list[Linear]) -> Expression | None:
    """The least of some bounds as an expression; none without a bound."""
    some = sorted(map(written, bounds), key=repr)
    return functools.reduce(lambda one, other: Apply("min", (), (one, other)), some) if some else None


def _is_plain(inequality: Inequality, turning: set[str]) -> bool:
    """Does it compare sums of indices, none of them the number of a turn? Comparisons of data do not matter."""
    atoms = [(atom, power * len(monomial)) for monomial, _ in inequality.linear.terms for atom, power in monomial]
    return all(atom.kind in ("size", "table") or (power == 1 and _is_known(atom, turning)) for atom, power in atoms)


def _is_known(atom: Atom, turning: set[str]) -> bool:
    turns = plain(atom.name) in turning if atom.kind == "index" else atom.name.startswith("?") and atom.name != "?"
    return atom.kind in ("index", "data") and not turns


def farthest(backs: Iterable[Limit | None]) -> Limit | None:
    """The largest of some numbers, or the expression of it; None is without a bound."""
    distinct: list[Any] = list(dict.fromkeys(backs))
    if None in distinct:
        return None
    if all(isinstance(back, int) for back in distinct):
        return cast("Limit", max(distinct))
    return cast("Limit", functools.reduce(lambda one, other: Apply("max", (), (one, other)), sorted(distinct, key=repr)))


def together(entries: Iterable[Entry[Limit]]) -> tuple[Entry[Limit], ...]:
    """The entries with as many positions for all that one layer sees: where it runs over s', it runs over the same.

    A tensor that is visible at some place of a layer is so wherever it is changed: the next turn of a loop reads it there.
    """
    entries = tuple(entries)
    visible = {(e.layer, e.tensor) for e in entries if e.kind == "visible"}
    entries = tuple(
        replace(e, kind="visible") if (e.layer, e.tensor) in visible and e.kind == "earlier" else e for e in entries
    )
    seen: dict[str, list[Limit | None]] = {}
    for entry in entries:
        if entry.kind == "visible":
            seen.setdefault(entry.frame, []).append(entry.back)
    return tuple(alike(replace(e, back=farthest(seen[e.frame])) if e.kind == "visible" else e for e in entries))


def alike(entries: Iterable[Entry[Limit]]) -> Iterator[Entry[Limit]]:
    """When several instances of a layer keep the same input, the first one stores it; the others point to it by `source`."""
    first: dict[tuple[object, ...], str] = {}
    for entry in entries:
        kept = first.setdefault((entry.source, entry.layer, entry.name, entry.kind, entry.back), entry.full_path)
        yield replace(entry, source=kept if entry.source and kept != entry.full_path else "")


def _unclear(at: Span) -> EinformerError:
    return fail(
        "E607", "in how many turns this holds has no formula", at, fix="bound sizes, whose turns are followed one by one"
    )


def _no_bound(at: Span) -> EinformerError:
    message = "how far back this lets one look has no formula"
    return fail("E607", message, at, fix="bound sizes, at whose positions one sees it")
