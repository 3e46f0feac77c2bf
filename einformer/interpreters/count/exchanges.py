"""Counts what ranks and stages of pipelines exchange in a training step: which collective, how often, over how many numbers.

Counts are numbers or formulas, as their sizes are.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Generic, cast

from einformer.errors import NOWHERE, fail
from einformer.interpreters.count.rules import N, Sizes, WeightCount, count_on_one_device, count_weights, product, total
from einformer.language import tree
from einformer.language.calls import slot_letters
from einformer.language.sizes import Legend
from einformer.language.tree import Layer, Spec
from einformer.language.weights import key
from einformer.program import operations as op
from einformer.program.arithmetic import spell
from einformer.program.collectives import (
    AllGather,
    AllGatherVary,
    AllReduce,
    Collective,
    Combine,
    Dispatch,
    Largest,
    Neighbours,
    Own,
    ReduceScatter,
    Ring,
    Sent,
    Vary,
    is_smooth,
)
from einformer.program.kernels import PAIR, Chunked, Routed
from einformer.program.operations import Function, Line, Value
from einformer.program.rewrite import reach, walk, walk_carried
from einformer.program.sharding import WHOLE, Sharding, Window, find_whole
from einformer.program.turns import Case, Loops, Site, TurnCount, unite

NAMES: dict[type[Collective], tuple[tuple[str, str], ...]] = {
    AllReduce: (("all-reduce", "forward"),),
    Largest: (("all-reduce", "forward"),),
    AllGather: (("all-gather", "forward"),),
    Vary: (("all-reduce", "backward"),),
    Own: (("all-gather", "backward"),),
    AllGatherVary: (("all-gather", "forward"), ("reduce-scatter", "backward")),
    Neighbours: (("neighbours", "forward"), ("neighbours", "backward")),
    Ring: (("ring", "forward"), ("ring", "backward")),
    ReduceScatter: (("reduce-scatter", "forward"), ("all-gather", "backward")),
    Sent: (("all-to-all", "forward"),),
    Dispatch: (("all-to-all", "forward"), ("all-to-all", "backward")),
    Combine: (("all-to-all", "forward"), ("all-to-all", "backward")),
}

_SHARED = (("reduce-scatter", "gradients"), ("all-gather", "weights"))
STATE = {  # what ranks of the batch exchange once in a step, by the stage of ZeRO: gradients, and weights that they share
    0: (("all-reduce", "gradients"),),
    1: _SHARED,
    2: _SHARED,
    3: (("reduce-scatter", "gradients"), ("all-gather", "forward"), ("all-gather", "backward")),
}


@dataclass(frozen=True, slots=True)
class Exchange(Generic[N]):
    """A collective of a layer over an axis of the mesh: how often a step has it, and how many numbers a rank puts in each time.

    `letters` are the indices of these numbers. Of its times some are `repeated`: in a loop of the model. Where experts are
    split, numbers are those of rows that are spread evenly over them; else from none up to `uneven` times as many. It is
    exchanged by the ranks of one `stage` of a pipeline, counted from 0.
    """

    layer: str
    mesh: str
    collective: str
    phase: str
    letters: tuple[str, ...]
    element: int  # the bytes of a number that is a condition or whole; 0 of those of the model
    times: N
    numbers: N
    repeated: N
    uneven: N | int = 1
    stage: int = 0

    # The bytes that a rank puts in, all times together, where a number of the model has so many.
    def count_bytes(self, element: N | int) -> N:
        return product((self.times, self.numbers, self.element or element))

    # The least and the most of these bytes, however rows are spread over experts.
    def bound_bytes(self, element: N | int) -> tuple[N | int, N]:
        even = self.count_bytes(element)
        return (even, even) if self.uneven == 1 else (0, product((even, self.uneven)))


# What a rank exchanges in a step: the collectives of its functions. `ranks` are those of each axis of the mesh.
def list_exchanges(
    functions: Mapping[str, Function], name: str, sizes: Sizes[N], sharding: Sharding, ranks: Mapping[str, N]
) -> tuple[Exchange[N], ...]:
    numbers, times = _Numbers(sizes, sharding, ranks), dict[tuple[_Key, N], list[tuple[N, bool]]]()
    for exchanged in _Places(functions, sizes.legend, sharding).walk(name):
        for turns, put in numbers.list_kinds(exchanged):
            times.setdefault((exchanged.key, put), []).append((turns, any(own.letters for own in exchanged.turns)))
    return tuple(
        Exchange(*key.facts, total(n for n, _ in all_), put, total(n for n, inside in all_ if inside), numbers.uneven(key))
        for (key, put), all_ in times.items()
    )


# Ranks of the batch exchange gradients, and weights that they share by a stage of ZeRO.
def list_state(
    name: str, weights: Iterable[WeightCount[N]], sizes: Sizes[N], sharding: Sharding, ranks: Mapping[str, N], zero: int
) -> Iterator[Exchange[N]]:
    trained = [count for count in weights if count.trained]
    for axis in sorted(sharding.rows):
        split = {letter for letter, over in sharding.in_weights if over == axis}
        held = count_on_one_device([count for count in trained if split.isdisjoint(count.letters)], sizes)
        for collective, phase in STATE[zero]:
            numbers = cast("N", sizes.divide(held, ranks[axis])) if collective == "all-gather" else held
            yield Exchange(name, axis, collective, phase, (), 0, product(()), numbers, total(()))


def find_traffic(collective: str, put: Any, within: Any, nodes: Any = 1) -> tuple[Any, Any]:
    """The least bytes that a rank sends within its node and out of it, where each of `within * nodes` ranks puts in so many.

    >>> find_traffic("all-reduce", 800, 8, 1), find_traffic("all-gather", 100, 8, 1), find_traffic("all-reduce", 800, 8, 2)
    ((1400.0, 0.0), (700.0, 0.0), (1400.0, 100.0))
    """
    ranks = within * nodes
    whole = put * ranks if collective == "all-gather" else put
    if collective in ("neighbours", "send", "ring"):
        return put, put * (nodes > 1)
    if collective == "all-to-all":
        return put * (within - 1) / ranks, put * (nodes - 1) / nodes
    inside, outside = whole * (within - 1) / within, whole * (nodes - 1) / ranks
    return (2 * inside, 2 * outside) if collective == "all-reduce" else (inside, outside)


def count_own(letters: Iterable[str], sizes: Sizes[N], sharding: Sharding, ranks: Mapping[str, N]) -> N:
    return product(map(_Numbers(sizes, sharding, ranks).length, letters))


@dataclass(frozen=True, slots=True)
class _Key:
    """A collective by what it is: its layer, axis of the mesh, name, phase, indices and element; the experts of its pairs."""

    facts: tuple[str, str, str, str, tuple[str, ...], int]
    routed: tuple[tree.Expression, str, tuple[str, ...]] | None = None  # how many are chosen, of which letter, for which rows
    window: Window | None = None  # near the numbers of a rank
    back: int = 1  # how many steps of a recurrence
    rounds: int = 0  # how often the numbers of all ranks go round


@dataclass(frozen=True, slots=True)
class _Exchanged:
    """A collective, and the turns of the calls on the way, then its own."""

    key: _Key
    turns: tuple[TurnCount, ...]


@dataclass(slots=True)
class _Numbers(Generic[N]):
    """The numbers of what ranks have."""

    sizes: Sizes[N]
    sharding: Sharding
    ranks: Mapping[str, N]
    known: dict[TurnCount, N] = field(default_factory=dict)

    def turns(self, turns: TurnCount) -> N:
        if turns not in self.known:
            self.known[turns] = self.sizes.turns(turns)
        return self.known[turns]

    # How often it is exchanged, and how many numbers: of a window others in some turns.
    def list_kinds(self, exchanged: _Exchanged) -> Iterator[tuple[N, N]]:
        if (window := exchanged.key.window) is None:
            yield product((*map(self.turns, exchanged.turns), self.passes(exchanged.key))), self.numbers(exchanged.key)
            return
        for counts, sizes in self.sizes.kinds(exchanged.turns, (window.before, window.after)):
            yield product(counts), replace(self, sizes=sizes).numbers(exchanged.key)

    # Keys and values are passed on to all other ranks; backward their gradients too, which come home at last.
    def passes(self, key: _Key) -> N | int:
        ranks: Any = self.ranks[key.facts[1]]
        return (ranks - 1, 2 * ranks - 1)[key.rounds - 1] if key.rounds else 1

    def numbers(self, key: _Key) -> N:
        numbers: N = product(self.number(key, letter) for letter in key.facts[4])
        return product((key.back, numbers))

    def number(self, key: _Key, letter: str) -> N:
        if find_whole(letter) == PAIR:
            return self.chosen(key)
        return self.near(key.window) if key.window and key.window.letter == letter else self.length(letter)

    # Of the numbers of a rank those that others read: no more than these have.
    def near(self, window: Window) -> N:
        others: Any = cast("Any", self.sizes.length(window.letter)) - self.length(window.letter)
        sides = [
            self.sizes.smallest((self.sizes.value(e), others)) for e in (window.before, window.after) if e != tree.Number(0)
        ]
        return cast("N", sum(max(math.ceil(side), 0) if self.sizes.walks else side for side in sides))

    # How many times as many pairs a rank has at most, where its experts have all: of its own rows it has as many always.
    def uneven(self, key: _Key) -> N:
        pair = next((letter for letter in key.facts[4] if find_whole(letter) == PAIR), "")
        split = self.sharding.over((key.routed[1] + pair.removeprefix(PAIR),)) if key.routed and pair else ()
        return product(self.ranks[axis] for axis in split)

    def length(self, letter: str) -> N:
        ranks: N = product(self.ranks[axis] for axis in self.sharding.over((letter,)))
        return cast("N", self.sizes.divide(self.sizes.length(letter), ranks))

    # The pairs of a row and an expert that is chosen for it; of a rank's own experts as many as if each had as many rows.
    def chosen(self, key: _Key) -> N:
        assert key.routed
        count, letter, rows = key.routed
        pairs: N = product((self.sizes.chosen(letter, count), *map(self.length, rows)))
        ranks: N = product(self.ranks[axis] for axis in self.sharding.over((letter,)))
        return cast("N", self.sizes.divide(pairs, ranks))


@dataclass(slots=True)
class _Places:
    """The collectives of each function, once for one call, with the places where they stand."""

    functions: Mapping[str, Function]
    legend: Legend
    sharding: Sharding
    places: dict[str, dict[Value, list[Site]]] = field(default_factory=dict)
    felt: dict[str, set[Value]] = field(default_factory=dict)
    first: set[Value] = field(default_factory=set)  # what the first step of a recurrence does not exchange

    def walk(self, name: str, turns: tuple[TurnCount, ...] = ()) -> Iterator[_Exchanged]:
        for value, sites in self.find_places(name).items():
            for own in _list_turns(sites):
                match value.operation:
                    case op.Call(function):
                        yield from self.walk(function, (*turns, own))
                    case Collective() as operation:
                        yield from (_Exchanged(key, (*turns, own)) for key in self.list_keys(value, operation, name))
                    case op.Recur() | Chunked() as operation:
                        yield from (_Exchanged(key, (*turns, own)) for key in self.list_states(value, operation, name))

    def find_places(self, name: str) -> Mapping[Value, list[Site]]:
        if name not in self.places:
            function, self.places[name] = self.functions[name], {}
            there = {line.value for line in (*function.inputs, *function.scalars)}
            visit = _Visit(self, function, self.places[name])
            visit.lines((*function.weights, *function.lines), there, ())  # a tied weight may be gathered
            visit.value(function.output.value, there, Site())
        return {
            value: sites
            for value, sites in self.places[name].items()
            if isinstance(value.operation, op.Call | Collective | op.Recur | Chunked)
        }

    # A value is exchanged forward, and backward where a gradient comes and goes on.
    def list_keys(self, value: Value, operation: Collective, name: str) -> Iterator[_Key]:
        moves = getattr(operation, "moves", True) and value in self.find_felt(name)
        for collective, phase in NAMES[type(operation)]:
            if phase == "forward" or moves:
                whole = phase == "backward" or isinstance(operation, Largest)
                letters = value.axes if whole else operation.argument.axes
                routed = self.find_routed(value, name) if PAIR in map(find_whole, letters) else None
                counts = isinstance(operation, Sent) and routed  # of each expert
                letters, element = ((routed[1],), 8) if counts and routed else (letters, find_element(operation.argument))
                window = operation.window if isinstance(operation, Neighbours) else None
                round_ = isinstance(operation, Ring)
                letters = operation.argument.axes if window or round_ else letters
                rounds = round_ * (1 + (phase == "backward"))
                yield _Key((name, operation.mesh, collective, phase, letters, element), routed, window, rounds=rounds)

    # The last steps of a recurrence along a split index, which the next rank receives.
    def list_states(self, value: Value, operation: op.Recur | Chunked, name: str) -> Iterator[_Key]:
        letters, back, element = tuple[str, ...](), 1, 0
        if isinstance(operation, op.Recur):
            letters, back = tuple(x for x in operation.so_far.axes if x != operation.letter), operation.back
            element = 8 * (operation.so_far.kind == "integer")
        else:
            letters = (*operation.shared, *operation.summed, *operation.put)
        mesh = self.sharding.axis(operation.letter)
        for phase in ("forward", *["backward"] * (not element and value in self.find_felt(name))):
            yield _Key((name, mesh, "send", phase, letters, element), back=back)

    def find_routed(self, value: Value, name: str) -> tuple[tree.Expression, str, tuple[str, ...]]:
        routed = next(inner.operation for inner in walk(value) if isinstance(inner.operation, Routed))
        return self.spell(routed.count, name), routed.letter, routed.rows

    def spell(self, value: Value, name: str) -> tree.Expression:
        return spell(value, {line.value: line for line in self.functions[name].scalars}, self.legend)

    def find_felt(self, name: str) -> set[Value]:
        if name not in self.felt:
            function = self.functions[name]
            sources = {value: tensor.sources for tensor in walk_carried(function.lines) for value in tensor.values}
            self.felt[name] = reach(function.output.value, lambda value: (*sources.get(value, ()), *self.list_felt(value)))
        return self.felt[name]

    def list_felt(self, value: Value) -> Iterable[Value]:
        match value.operation:
            case op.Call(function, arguments=arguments):
                felt, formals = self.find_felt(function), self.functions[function].inputs
                return [argument for argument, line in zip(arguments, formals, strict=True) if line.value in felt]
            case op.Map("where", (_, *arms)):
                return arms
            case operation:
                return value.operands if is_smooth(operation) else ()


@dataclass(slots=True)
class _Visit:
    """A walk through one function: where each value is computed first, in which loops and branches."""

    of: _Places
    function: Function
    places: dict[Value, list[Site]]
    seen: set[tuple[Value, Site]] = field(default_factory=set)

    def lines(self, lines: Iterable[Line | op.Turns], there: set[Value], loops: Loops) -> None:
        for line in lines:
            if isinstance(line, Line):
                self.value(line.value, there, Site(loops))
                continue
            carried = {value for tensor in line.carried for value in tensor.values}
            inner, inside = {*there, *carried}, (*loops, (line.letter, line.loop.count))
            self.lines(line.lines, inner, inside)
            for tensor in line.carried:
                self.value(tensor.last, inner, Site(inside))
            there |= carried

    # A value that a branch computes is there in that branch alone.
    def value(self, value: Value, there: set[Value], site: Site) -> None:
        if value in there or (value, site) in self.seen:
            return
        there |= set() if site.cases else {value}
        self.seen.add((value, site))
        match value.operation:
            case op.Map("where", (condition, *arms)) if condition.plain:
                decided = self.of.spell(condition, self.function.name)
                for holds, arm in zip((True, False), arms, strict=True):
                    self.value(arm, there, replace(site, cases=site.cases | {Case(decided, holds)}))
            case op.Recur(letter, step, so_far):
                for inner in walk(step, closed={*there, so_far}):  # no gradient comes to what there was before the first step
                    if isinstance(inner.operation, Vary | Own) and _reads_only(inner, so_far):
                        self.of.first.add(inner)
                self.value(step, {*there, so_far}, replace(site, loops=(*site.loops, (letter, self.count(letter)))))
                self.place_state(value, letter, site)
            case operation:
                for operand in value.operands:
                    self.value(operand, there, site)
                if value in self.of.first:
                    *loops, (letter, steps) = site.loops
                    site = replace(site, loops=(*loops, (letter, tree.Sum((steps, tree.Number(-1))))))
                if isinstance(operation, op.Call | Collective):
                    self.places.setdefault(value, []).append(site)
                if isinstance(operation, Chunked):
                    self.place_state(value, operation.letter, site)

    def place_state(self, value: Value, letter: str, site: Site) -> None:
        if self.of.sharding.axis(letter):
            self.places.setdefault(value, []).append(site)

    def count(self, letter: str) -> tree.Expression:
        axis = self.of.legend.axis(letter)
        assert axis is not None
        return axis.size


def _list_turns(sites: Iterable[Site]) -> Iterator[TurnCount]:
    by_loops = dict[Loops, list[Site]]()
    for site in sites:
        by_loops.setdefault(site.loops, []).append(site)
    for loops, own in by_loops.items():
        yield TurnCount(tuple(letter for letter, _ in loops), unite(own))


# The bytes of a number that is a condition or whole; 0 of those of the model.
def find_element(value: Value) -> int:
    row = op.find_row(value.operation)
    return 1 if value.kind == "condition" or (row and row.condition) else 8 if value.kind == "integer" else 0


def _reads_only(value: Value, so_far: Value) -> bool:
    sources = {source for source in walk(value) if isinstance(source.operation, op.Input | op.StoredWeight | op.Call)}
    return {source for source in sources if source.kind == "tensor"} == {so_far}


# -------------------------------------------------------------------------------------------------------------------- pipelines


@dataclass(frozen=True, slots=True)
class RankModel(Generic[N]):
    """What a rank computes of a model or of a stage: its functions, and the sizes of a microbatch of all ranks together."""

    spec: Spec
    name: str
    functions: Mapping[str, Function]
    sizes: Sizes[N]

    @property
    def output(self) -> Value:
        return self.functions[self.name].output.value

    def count_weights(self, sharding: Sharding, ranks: Mapping[str, N]) -> tuple[WeightCount[N], ...]:
        return count_weights(self.spec, self.name, self.share(sharding, ranks))

    # Sizes that know what a rank has of each tensor.
    def share(self, sharding: Sharding, ranks: Mapping[str, N]) -> Sizes[N]:
        shares = zip(sharding.mesh, sharding.shares, strict=True)
        return replace(self.sizes, shares=tuple((letters, ranks[axis]) for (axis, _), (letters, _) in shares))


@dataclass(frozen=True, slots=True)
class Pipeline:
    """The axis of the mesh whose ranks have the stages, how many microbatches pass, and the weights of several stages."""

    axis: str
    microbatches: int
    ties: Collection[str]


# Yields what the ranks of each stage exchange in a step. Without a pipeline the model is the only stage.
def list_step(
    stages: Sequence[RankModel[N]], sharding: Sharding, ranks: Mapping[str, N], zero: int | None, pipeline: Pipeline | None
) -> Iterator[Exchange[N]]:
    for number, stage in enumerate(stages):
        rows = list_exchanges(stage.functions, stage.name, stage.sizes, sharding, ranks)
        if pipeline:
            rows = (*rows, *list_sends(stages[0], number, len(stages), sharding, ranks, pipeline.axis))
            rows = tuple(repeat(row, pipeline.microbatches) for row in rows)
            rows = (*rows, *list_ties(stages, sharding, ranks, pipeline))
        if zero is not None:
            weights = stage.count_weights(sharding, ranks)
            rows = (*rows, *list_state(stage.name, weights, stage.share(sharding, ranks), sharding, ranks, zero))
        yield from (replace(row, stage=number) for row in rows)


def repeat(row: Exchange[N], times: int) -> Exchange[N]:
    return replace(row, times=product((row.times, times)), repeated=product((row.repeated, times)))


# Yields what each rank of a stage sends of one microbatch: the tensor that stages pass on, and its gradient back. It is the
# output of the first stage, of which each rank has, and sends, its part.
def list_sends(
    first: RankModel[N], number: int, count: int, sharding: Sharding, ranks: Mapping[str, N], axis: str
) -> Iterator[Exchange[N]]:
    passed = first.output
    numbers = count_own(passed.axes, first.sizes, sharding, ranks)
    for phase in ("forward",) * (number + 1 < count) + ("backward",) * (number > 0):
        yield Exchange(first.name, axis, "send", phase, passed.axes, find_element(passed), product(()), numbers, total(()))


# Yields the gradients of weights that several stages have, which all stages sum once in a step.
def list_ties(
    stages: Sequence[RankModel[N]], sharding: Sharding, ranks: Mapping[str, N], pipeline: Pipeline
) -> Iterator[Exchange[N]]:
    weights = {key(count.full_path): count for stage in stages for count in stage.count_weights(sharding, ranks)}
    for path in sorted(pipeline.ties):
        count, sizes = weights[path], stages[0].share(sharding, ranks)
        numbers = sizes.share(count.total, count.letters)
        yield Exchange(stages[0].name, pipeline.axis, "all-reduce", "gradients", (), 0, product(()), numbers, total(()))


# Raises EinformerError E605 for what has no count in a pipeline, and for microbatches without one.
def refuse_microbatches(count: int, zero: int | None, has_stages: bool) -> None:
    if count < 1 or (count > 1 and not has_stages):
        raise fail("E605", f"{count} microbatches pass through no pipeline", fix="a map with stages, `pp: l`, or 1")
    if zero == 3 and has_stages:
        message = "how often the ranks of a stage gather weights by stage 3 of ZeRO, its schedule decides"
        raise fail("E605", message, fix="`zero=2`")


# The index of the rows that microbatches share. Raises EinformerError E741.
def find_rows(layer: Layer, legend: Legend) -> str:
    letter = next(iter(slot_letters(layer.formals[0])), "")
    axis = legend.axes.get(letter)
    if axis is None or not isinstance(axis.size, tree.Name) or layer.time == tree.Index(letter):
        message = f"microbatches are rows of the first axis of the input, and `{layer.formals[0].name}` has no rows"
        raise fail("E741", message, NOWHERE, fix="one microbatch")
    return letter


# The legend of one of so many microbatches, whose rows ranks share. Raises EinformerError E741, E742.
def split_batch(layer: Layer, legend: Legend, microbatches: int, sharding: Sharding = WHOLE) -> Legend:
    if microbatches == 1:
        return legend
    letter = find_rows(layer, legend)
    axis = legend.axes[letter]
    ranks = sharding.times(letter)
    if legend.is_bound(letter) and legend.length(letter) % (microbatches * ranks):
        shared = f"{microbatches} microbatches" + f" on {ranks} ranks each" * (ranks > 1)
        message = f"`{letter}` has {legend.length(letter)} numbers, which {shared} cannot share"
        raise fail("E742", message, NOWHERE, [legend.describe(letter)], "another number of microbatches")
    size = tree.Quotient(axis.size, tree.Number(microbatches))
    return replace(legend, axes={**legend.axes, letter: replace(axis, size=size)})
