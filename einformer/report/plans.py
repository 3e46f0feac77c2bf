"""Prices the maps of letters over the meshes of a number of devices: memory, FLOPs and exchanged bytes of each device.

The time of a step is bounded from below, never estimated: the FLOPs of a device at its peak rate, the bytes that must move
in its memory at least once, and the bytes that it must send to others of its node and out of it, by collectives that send the
least (Patarasuk and Yuan 2009; between nodes what has been summed within them). All of it may overlap: the longest decides.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, get_args

from einformer.errors import EinformerError, fail
from einformer.interpreters.count import rules
from einformer.interpreters.count.conventions import Device, Precision, Work
from einformer.interpreters.count.exchanges import (
    Exchange,
    Pipeline,
    RankModel,
    find_rows,
    find_traffic,
    list_exchanges,
    list_state,
    list_step,
    split_batch,
)
from einformer.interpreters.count.inventory import find_placement
from einformer.interpreters.count.numbers import Numbers, count_kept, count_logits
from einformer.interpreters.count.roofline import EXACT, PREFILL
from einformer.interpreters.count.rules import Recompute, WeightCount
from einformer.interpreters.count.table import spell_bytes
from einformer.language.calls import slot_letters
from einformer.language.sizes import Legend
from einformer.language.specialise import specialise
from einformer.language.tree import Loop
from einformer.objects import Model, find_ties
from einformer.program import operations as op
from einformer.program.lowering import lower_functions
from einformer.program.operations import Function, Value, unite_axes
from einformer.program.rewrite import walk_loops, walk_values
from einformer.program.sharding import Sharding, refuse_remainders

# What the axes of a mesh with these names split, outermost first. An axis with another name splits any of these.
ROLES = {"pp": "stages", "dp": "rows", "cp": "positions", "ep": "experts", "tp": "weights"}
ZERO = {0: "", 1: "zero-1", 3: "fsdp"}  # the state that ranks of the batch share: none, of the optimiser, all
Counted = tuple[Mapping[str, int], int, int]  # the bytes that a device holds, its FLOPs, the bytes that move in its memory
Clashes = Mapping[str, frozenset[str]]  # the letters of weights, and those with which a tensor or a product carries each
REFUSED = {"E741", "E742", "E743", "E744", "E605"}  # of maps that cannot be


@dataclass(frozen=True, slots=True)
class PricedStep:
    """A step that is priced: at so many rows of so many positions, of all devices together.

    A training step recomputes in one of several ways.
    """

    work: Work
    batch: int
    length: int
    precision: Precision
    device: Device
    recompute: tuple[Recompute, ...] = get_args(Recompute)


@dataclass(frozen=True, slots=True)
class SentBytes:
    """The bytes that a device puts into a collective in a step, over an axis of the mesh."""

    axis: str
    collective: str
    phase: str
    put: int

    def data(self) -> dict[str, Any]:
        return {"axis": self.axis, "collective": self.collective, "phase": self.phase, "bytes": self.put}


@dataclass(frozen=True, slots=True)
class DeviceWork:
    """What a device holds, computes, moves and sends in a step; and the FLOPs of other stages for which it must wait."""

    held: Mapping[str, int]
    flops: int
    moved: int
    sent: tuple[SentBytes, ...]
    waited: int = 0

    @property
    def memory(self) -> int:
        return sum(self.held.values())

    @property
    def put(self) -> int:
        return sum(sent.put for sent in self.sent)

    def data(self) -> dict[str, Any]:
        return {
            "memory": dict(self.held) | {"total": self.memory},
            "flops": self.flops,
            "moved": self.moved,
            "waited": self.waited,
            "sent": [sent.data() for sent in self.sent],
        }


@dataclass(frozen=True, slots=True)
class ParallelPlan:
    """A map of letters over a mesh with the work of a device of each stage; without a pipeline there is one."""

    step: PricedStep
    mesh: tuple[tuple[str, int], ...]
    shard: str
    zero: int
    recompute: Recompute
    stages: tuple[DeviceWork, ...]

    @property
    def held(self) -> Mapping[str, int]:
        return max(self.stages, key=lambda stage: stage.memory).held

    @property
    def memory(self) -> int:
        return max(stage.memory for stage in self.stages)

    @property
    def flops(self) -> int:
        return max(stage.flops for stage in self.stages)

    @property
    def moved(self) -> int:
        return max(stage.moved for stage in self.stages)

    @property
    def sent(self) -> tuple[SentBytes, ...]:
        return max(self.stages, key=lambda stage: stage.put).sent

    @property
    def fits(self) -> bool:
        return self.memory <= self.step.device.memory

    # The least seconds of each kind of work, which may overlap.
    @property
    def times(self) -> dict[str, float]:
        device, traffic = self.step.device, [self._find_traffic(stage) for stage in self.stages]
        return {
            "compute": max(stage.flops + stage.waited for stage in self.stages) / device.rate(self.step.precision),
            "memory": self.moved / device.bandwidth,
            "link": max(within for within, _ in traffic) / device.link,
            "network": max(out for _, out in traffic) / device.network,
        }

    @property
    def seconds(self) -> float:
        return max(self.times.values())

    @property
    def limit(self) -> str:
        times = self.times
        return max(times, key=times.__getitem__)

    # What fits comes first, then the least time if all overlaps, then if nothing does; of what does not fit, the least.
    @property
    def order(self) -> tuple[bool, int, float, float]:
        return not self.fits, 0 if self.fits else self.memory, self.seconds, math.fsum(self.times.values())

    def _find_traffic(self, stage: DeviceWork) -> tuple[float, float]:
        both = [find_traffic(sent.collective, sent.put, *self._split(sent.axis)) for sent in stage.sent]
        return sum(within for within, _ in both), sum(out for _, out in both)

    # How many ranks of an axis stand in one node, and on how many nodes. The last axis of the mesh is the innermost.
    def _split(self, axis: str) -> tuple[int, int]:
        names, sizes = [name for name, _ in self.mesh], [size for _, size in self.mesh]
        place = names.index(axis)
        inner = math.prod(sizes[place + 1 :])
        within = math.gcd(sizes[place], max(1, self.step.device.node // inner))
        return within, sizes[place] // within

    def data(self) -> dict[str, Any]:
        return {
            "mesh": dict(self.mesh),
            "shard": self.shard,
            "zero": self.zero,
            "recompute": self.recompute,
            "fits": self.fits,
            "memory": dict(self.held) | {"total": self.memory},
            "flops": self.flops,
            "moved": self.moved,
            "sent": [sent.data() for sent in self.sent],
            **({"stages": [stage.data() for stage in self.stages]} if len(self.stages) > 1 else {}),
            "seconds_at_least": self.times,
            "bound": self.limit,
        }


LEGEND = """of each device: the bytes that it holds (! is more than it has), and the least milliseconds that its FLOPs take at
the peak rate, its memory, its links within a node, and the network out of it. All may overlap: the longest decides.
state: what ranks of the batch share, of the optimiser (zero-1) or all (fsdp). recomputed: activations in the backward pass."""
HEAD = ("mesh", "map of letters", "state", "recomputed", "bytes", "compute", "memory", "link", "network", "at least", "bound")


# Bytes of a device, and milliseconds.
def rows(plans: Iterable[ParallelPlan]) -> Iterator[tuple[str, ...]]:
    for plan in plans:
        mesh = ",".join(f"{axis}={size}" for axis, size in plan.mesh)
        times = [_spell(1000 * seconds) for seconds in (*plan.times.values(), plan.seconds)]
        size = spell_bytes(plan.memory) + ("" if plan.fits else " !")
        yield mesh, plan.shard, ZERO[plan.zero], plan.recompute, size, *times, plan.limit


def _spell(milliseconds: float) -> str:
    return f"{milliseconds:,.0f}" if milliseconds >= 100 else f"{milliseconds:.3g}"


# ------------------------------------------------------------------------------------------------------------- pricing


@dataclass(slots=True)
class Pricing:
    """Prices maps of letters of a model, for one step."""

    model: Model
    step: PricedStep
    sizes: Mapping[str, int]  # of the inputs
    ends: Model | None = None  # the model whose last stage this is, with its logits
    cached: dict[object, Any] = field(default_factory=dict)

    # A map that cannot be has no plan.
    def price(self, mesh: Mapping[str, int], shard: str) -> Iterator[ParallelPlan]:
        try:
            stages = self._list_stages(mesh, shard)
        except EinformerError as error:
            if error.findings[0].code not in REFUSED:
                raise
            return
        counted = (stage.list_training() if self.step.work == "training" else stage.list_generation() for stage in stages)
        for same in zip(*counted, strict=True):
            zero, recompute, _ = same[0]
            works = [work for _, _, work in same]
            before = itertools.accumulate((work.flops // stages[0].microbatches for work in works), initial=0)
            waiting = (replace(work, waited=waited) for work, waited in zip(works, before, strict=False))
            yield ParallelPlan(self.step, tuple(mesh.items()), shard, zero, recompute, tuple(waiting))

    def _list_stages(self, mesh: Mapping[str, int], shard: str) -> list[_Stage]:
        legend, sharding = self.model._at(dict(self.sizes), mesh, shard, stages=True)
        if place := self.model._find_pipeline(sharding):
            return self._list_piped(legend, sharding, place, shard)
        return [_Stage(self, self._size_rank(legend, sharding, shard), sharding, self._list_exchanges(sharding, shard))]

    # Of a pipeline each microbatch is one row of each rank: then stages wait and hold the least.
    def _list_piped(self, legend: Legend, sharding: Sharding, place: tuple[str, str], shard: str) -> list[_Stage]:
        rest, count = sharding.without(place), sharding.size(place[1])
        if self.step.work != "training":
            raise fail("E741", f"stages of a pipeline over `{place[1]}` are priced for training alone", fix="`--work training`")
        models = self._remember(("stages", place[0], count), self.model._list_stages, sharding)
        rows, layer = find_rows(self.model.spec.layer, legend), self.model.spec.layer
        microbatches, ranked, stages = legend.length(rows) // rest.times(rows), list[RankModel[int]](), list[_Stage]()
        for number, model in enumerate(models):
            ends = self.model if number + 1 == count else None
            alike = next(n for n, other in enumerate(models) if (other.spec, other.legend) == (model.spec, model.legend))
            alike = number if ends else alike
            pricing = self._remember(("stage", place[0], count, alike), Pricing, model, self.step, self.sizes, ends)
            numbers = pricing._size_rank(split_batch(layer, model.at(**self.sizes), microbatches), rest, shard)
            functions = pricing._remember(shard, model._lower_for_rank, rest)
            ranked.append(RankModel(model.spec.tree, model.spec.name, functions, Numbers(numbers.legend)))
            stages.append(_Stage(pricing, numbers, rest, [], microbatches, count_kept(microbatches, count, number)))
        pipeline = Pipeline(place[1], 1, self._remember(("ties", place[0], count), find_ties, models))
        for row in list_step(ranked, rest, dict(rest.mesh), None, pipeline):
            stages[row.stage].rows.append(row)
        return stages

    def _size_rank(self, legend: Legend, sharding: Sharding, shard: str) -> Numbers:
        tree, name = self.model.spec.tree, self.model.spec.name
        placement = self._remember((shard, sharding.mesh), find_placement, tree, name, self.model.legend, sharding)
        return Numbers(legend).on_mesh(placement, sharding)

    # Decoding computes one position of each row, which ranks cannot share.
    def _list_exchanges(self, sharding: Sharding, shard: str) -> list[Exchange[int]]:
        functions = self._remember(shard, self.model._lower_for_rank, sharding)
        legend = self.model.at(**dict(self.sizes) | ({"S": 1} if self.step.work == "decode" else {}))
        refuse_remainders(sharding, legend)
        rows = list_exchanges(functions, self.model.spec.name, Numbers(legend), sharding, dict(sharding.mesh))
        return [row for row in rows if self.step.work == "training" or row.phase == "forward"]

    def _weights(self, numbers: Numbers) -> tuple[WeightCount[int], ...]:
        counts = rules.count_weights(self.model.spec.tree, self.model.spec.name, numbers)
        return tuple(count for count in counts if count.trained)

    # What ranks of the batch send: gradients, and weights that they share.
    def _list_gradients(self, numbers: Numbers, sharding: Sharding, zero: int) -> Iterator[SentBytes]:
        precision, ranks = self.step.precision, dict(sharding.mesh)
        for row in list_state(self.model.spec.name, self._weights(numbers), numbers, sharding, ranks, zero):
            element = precision.gradients if row.phase == "gradients" else precision.parameters
            yield SentBytes(row.mesh, row.collective, row.phase, row.count_bytes(element))

    # The bytes that a device holds, its FLOPs, and the bytes that move in its memory, for each way to recompute.
    def _count_training(self, numbers: Numbers, sharding: Sharding, zero: int) -> Iterator[tuple[Recompute, Counted]]:
        tree, name, precision = self.model.spec.tree, self.model.spec.name, self.step.precision
        weights, logits = self._weights(numbers), count_logits((self.ends or self.model).spec.tree, name, numbers)
        counts = rules.count_flops(tree, name, numbers, EXACT)
        for recompute in self.step.recompute:
            kept = self._remember((numbers.shares, *numbers.windows, recompute), self._count_kept, numbers, recompute)
            memory = rules.count_training(weights, (), logits, numbers, precision, zero, sharding.replicas)
            held = {part: size for part in memory.__slots__ if (size := getattr(memory, part))} | {"activations": kept}
            held |= {"gathered": precision.parameters * _find_block(weights, numbers)} if zero == 3 else {}
            held |= {"travelling": travelling} if (travelling := precision.element * numbers.count_travelling()) else {}
            state = sum(held.get(part, 0) for part in ("parameters", "master", "momentum", "variance"))
            yield recompute, (held, sum(done.spent("training", recompute) for done in counts), 2 * state)

    def _count_kept(self, numbers: Numbers, recompute: Recompute) -> int:
        tree, name = self.model.spec.tree, self.model.spec.name
        return rules.sum_counts(rules.count_activations(tree, name, numbers, self.step.precision.element, recompute))

    def _count_generation(self, numbers: Numbers) -> Counted:
        tree, name, precision, weights = self.model.spec.tree, self.model.spec.name, self.step.precision, self._weights(numbers)
        kept = rules.count_cache(self.model.kept, replace(numbers, time=self.time), precision.element).total
        held = {"parameters": precision.parameters * rules.count_on_one_device(weights, numbers), "cache": kept}
        read = (count for count in weights if not count.rows)
        moved = kept + precision.parameters * sum(numbers.share(count.times * count.active, count.letters) for count in read)
        if self.step.work == "prefill":
            return held, rules.sum_counts(rules.count_flops(tree, name, numbers, PREFILL)), moved
        single = replace(numbers, legend=self.model.at(**{**self.sizes, "S": 1}), cached=self.step.length - 1)
        return held, rules.sum_counts(rules.count_flops(tree, name, single, EXACT)), moved

    def list_maps(self, mesh: Mapping[str, int]) -> Iterable[str]:
        clashes = self._remember("clashes", _find_clashes, self.model)
        experts = self._remember("experts", _find_experts, self.model)
        return dict.fromkeys(_Maps(self, clashes, experts, mesh).list_maps())

    def _remember(self, key: object, count: Callable[..., Any], *arguments: object) -> Any:
        if key not in self.cached:
            self.cached[key] = count(*arguments)
        return self.cached[key]

    @property
    def time(self) -> str:
        return self.model.spec.layer.time.letter if self.model.spec.layer.time else ""


@dataclass(slots=True)
class _Stage:
    """A stage of a pipeline, or a model, on one rank: what it exchanges for a microbatch, and how many it keeps at once.

    In the schedule 1F1B a stage keeps as many as there are stages from it on (Narayanan et al. 2021).
    """

    pricing: Pricing
    numbers: Numbers
    sharding: Sharding
    rows: list[Exchange[int]]
    microbatches: int = 1
    kept: int = 1

    # Ranks of the batch may share state in these ways.
    @property
    def states(self) -> tuple[int, ...]:
        if self.sharding.replicas == 1 or self.sharding.in_weights:
            return (0,)
        ties = any(row.phase == "gradients" for row in self.rows)
        return tuple(zero for zero in ZERO if not self.sharding.of_stage or (zero < 3 and not (zero and ties)))

    def list_training(self) -> Iterator[tuple[int, Recompute, DeviceWork]]:
        pricing, element, times = self.pricing, self.pricing.step.precision.element, self.microbatches
        again = [replace(row, times=row.repeated, phase="recomputed") for row in self.rows if row.phase == "forward"]
        for zero in self.states:
            more = (*_sum_sent(self.rows, element, times), *pricing._list_gradients(self.numbers, self.sharding, zero))
            for recompute, (held, flops, moved) in pricing._count_training(self.numbers, self.sharding, zero):
                sent = (*more, *(_sum_sent((row for row in again if row.times), element, times) if recompute == "full" else ()))
                held = {part: size * (self.kept if part == "activations" else 1) for part, size in held.items()}
                yield zero, recompute, DeviceWork(held, flops * times, moved, sent)

    def list_generation(self) -> Iterator[tuple[int, Recompute, DeviceWork]]:
        sent = (*_sum_sent(self.rows, self.pricing.step.precision.element),)
        yield 0, "none", DeviceWork(*self.pricing._count_generation(self.numbers), sent)


# The weights of a turn of the loops, or of a part outside of them: those that are gathered at once.
def _find_block(weights: Sequence[WeightCount[int]], numbers: Numbers) -> int:
    inside = sum(numbers.share(count.each, count.letters) for count in weights if "{" in count.path)
    return max(inside, *(numbers.share(count.each, count.letters) for count in weights if "{" not in count.path), 0)


# The same collective over one axis, in one phase, once; gradients once for all microbatches.
def _sum_sent(exchanges: Iterable[Exchange[int]], element: int, times: int = 1) -> Iterator[SentBytes]:
    total = dict[tuple[str, str, str], int]()
    for row in exchanges:
        key = row.mesh, row.collective, row.phase
        total[key] = total.get(key, 0) + row.count_bytes(element) * (1 if row.phase == "gradients" else times)
    yield from (SentBytes(*key, put) for key, put in total.items())


# ---------------------------------------------------------------------------------------------------------- enumeration


# Returns the plans over these meshes, the best first: of one map of letters, or of the sensible ones, by rule. Raises
# EinformerError E605, E741 to E744.
def list_plans(model: Model, step: PricedStep, meshes: Iterable[Mapping[str, int]], shard: str = "") -> list[ParallelPlan]:
    if not step.device.link:
        raise fail("E605", f"there is no published rate of the links of {step.device.title}", fix="`h100-sxm`")
    pricing = Pricing(model, step, model.inputs(step.batch, step.length))
    if shard:
        for mesh in meshes:
            pricing._list_stages(mesh, shard)  # says why it cannot be
    plans = (p for mesh in meshes for own in ([shard] if shard else pricing.list_maps(mesh)) for p in pricing.price(mesh, own))
    return sorted(plans, key=lambda plan: plan.order)


def _find_clashes(model: Model) -> Clashes:
    return find_clashes(_lower(model), model.legend)


def _find_experts(model: Model) -> frozenset[str]:
    return find_chosen(_lower(model))


def _lower(model: Model) -> dict[str, Function]:
    return lower_functions(specialise(model.spec.tree, model.spec.name), model.legend)


# Returns a plan over the fewest devices, a power of two, each of which holds at most this many bytes. Of several that with the
# least bytes to send; with stages of a pipeline, which wait, where no other fits. Raises EinformerError E609.
def find_smallest(model: Model, step: PricedStep, limit: int, most: int = 2**12) -> ParallelPlan:
    pricing = Pricing(model, step, model.inputs(step.batch, step.length))
    powers = itertools.takewhile(lambda count: count <= most, (2**power for power in itertools.count()))
    for devices, stages in itertools.product(powers, (False, True) if step.work == "training" else (False,)):
        meshes = list_meshes(devices, stages)
        plans = (p for mesh in meshes for own in pricing.list_maps(mesh) for p in pricing.price(mesh, own))
        if fitting := [plan for plan in plans if plan.memory <= limit]:
            return min(fitting, key=lambda plan: sum(sent.put for sent in plan.sent))
    raise fail("E609", f"no map of letters over {most:,} devices leaves each with {limit:,} bytes", fix="more memory")


# The axes are for the batch, for positions, for weights and for experts; or for stages, too.
def list_meshes(devices: int, stages: bool = False) -> Iterator[dict[str, int]]:
    axes = [axis for axis, role in ROLES.items() if stages or role != "stages"]
    for sizes in _list_factors(devices, len(axes)):
        if not stages or sizes[0] > 1:
            yield {axis: size for axis, size in zip(axes, sizes, strict=True) if size > 1}


def _list_factors(number: int, count: int) -> Iterator[tuple[int, ...]]:
    if count == 1:
        yield (number,)
        return
    for first in range(1, number + 1):
        if number % first == 0:
            yield from ((first, *rest) for rest in _list_factors(number // first, count - 1))


@dataclass(slots=True)
class _Maps:
    """The sensible maps of letters over one mesh: for each axis rows, positions, or a set of letters of weights."""

    pricing: Pricing
    clashes: Clashes
    experts: frozenset[str]
    mesh: Mapping[str, int]

    def list_maps(self) -> Iterator[str]:
        for roles in itertools.product(*([ROLES[axis]] if axis in ROLES else sorted({*ROLES.values()}) for axis in self.mesh)):
            if max(map(roles.count, ("stages", "rows", "positions"))) < 2:
                yield from self._fill(tuple(zip(self.mesh, roles, strict=True)), frozenset())

    def _fill(self, axes: Sequence[tuple[str, str]], taken: frozenset[str]) -> Iterator[str]:
        if not axes:
            yield ""
            return
        *before, (axis, role) = axes  # from the innermost axis on
        if role == "experts" and "rows" not in (r for _, r in before):
            yield from self._fill_sent(before, axis, taken)
        for letters in self._list_letters(self.mesh[axis], role, taken):
            for others in self._fill(before, taken | letters):
                yield "; ".join(filter(None, (f"{axis}: {' '.join(sorted(letters))}", others)))
                if role == "weights" and not taken and self.pricing.time and "positions" not in (r for _, r in before):
                    yield "; ".join(filter(None, (f"{axis}: {' '.join(sorted(letters))} ({self.pricing.time})", others)))

    # Each row goes to the ranks of its experts: these yield to the batch over an axis.
    def _fill_sent(self, before: Sequence[tuple[str, str]], axis: str, taken: frozenset[str]) -> Iterator[str]:
        sets = self._list_letters(self.mesh[axis], "experts", taken)
        for experts in dict.fromkeys(letters & self.experts for letters in sets):
            for rows, others in itertools.product(self._list_letters(1, "rows", taken), self._fill(before, taken | experts)):
                yield "; ".join(filter(None, (f"{axis}: {' '.join(rows)} ({') ('.join(sorted(experts))})", others)))

    def _list_letters(self, ranks: int, role: str, taken: frozenset[str]) -> Iterable[frozenset[str]]:
        model, time = self.pricing.model, self.pricing.time
        inputs = {letter for formal in model.spec.layer.formals for letter in slot_letters(formal)}
        if role == "stages":
            loops = {part.index.letter for part in model.spec.layer.body if isinstance(part, Loop)}
            return [frozenset(loops)] if len(loops) == 1 else []
        if role == "rows":
            return [frozenset({letter}) for letter in inputs if letter != time and not model.legend.is_bound(letter)]
        if role == "positions":
            return [frozenset({time})] if time in inputs else []
        without = taken | self.experts if role == "weights" and "ep" in self.mesh else taken
        without = without.intersection(self.clashes)
        letters: list[frozenset[str]] = self.pricing._remember((ranks, role, without), self._find_sets, ranks, role, without)
        return letters

    # The sets that an axis of so many ranks can split besides these letters, but for those that cost more than others.
    def _find_sets(self, ranks: int, role: str, without: frozenset[str]) -> list[frozenset[str]]:
        sets = list_sets(self.clashes, self.pricing.model.legend, ranks, without)
        sets = tuple(own for own in sets if role == "weights" or own & self.experts)
        return _find_best({own: self._price_set(ranks, own) for own in sets})

    # What a set of letters costs, if it is the only one that is split: bytes that are sent, held and computed with.
    def _price_set(self, ranks: int, letters: frozenset[str]) -> tuple[int, ...]:
        plan = next(self.pricing.price({"tp": ranks}, f"tp: {' '.join(sorted(letters))}"), None)
        return (sum(sent.put for sent in plan.sent), plan.memory, plan.flops) if plan else ()


# Sets that cost no more than another in all respects, of which others cost more; those that cannot be are left out.
def _find_best(costs: Mapping[frozenset[str], tuple[int, ...]]) -> list[frozenset[str]]:
    def is_worse(cost: tuple[int, ...]) -> bool:
        return any(other != cost and all(map(int.__le__, other, cost)) for other in costs.values() if other)

    return [letters for letters, cost in costs.items() if cost and not is_worse(cost)]


# --------------------------------------------------------------------------------------------------- sets of letters
# No tensor carries two indices of one axis of the mesh, and a product meets no two. So the sets of letters that an axis can
# split are the independent ones of a graph. They are taken as large as they can be: splitting one more letter divides more.


# Two letters clash if they cannot be split over the same axis of a mesh. Letters of loops are left out.
def find_clashes(functions: Mapping[str, Function], legend: Legend) -> Clashes:
    loops = {turns.letter for function in functions.values() for turns in walk_loops(function.lines)}
    carried = {letter for function in functions.values() for line in function.weights for letter in line.value.axes}
    clashes = {letter: set[str]() for letter in carried - loops if legend.is_bound(letter)}
    for function in functions.values():
        for value in walk_values(function):
            for together in _list_together(value):
                for letter in clashes.keys() & together:
                    clashes[letter] |= together - {letter}
    return {letter: frozenset(others) for letter, others in clashes.items()}


def _list_together(value: Value) -> Iterator[set[str]]:
    yield {*value.axes}
    if isinstance(value.operation, op.Einsum):
        yield {*unite_axes(value.operation.factors)}


# A token has only some numbers of these indices, which are experts.
def find_chosen(functions: Mapping[str, Function]) -> frozenset[str]:
    operations = (value.operation for function in functions.values() for value in walk_values(function))
    return frozenset(letter for o in operations if isinstance(o, op.Reduce) and o.operator == "top" for letter in o.letters)


# An axis of so many ranks can split these letters: the number of ranks divides their sizes.
def list_sets(clashes: Clashes, legend: Legend, ranks: int, without: Iterable[str] = ()) -> tuple[frozenset[str], ...]:
    some = {letter for letter in clashes if not legend.length(letter) % ranks} - {*without}
    return tuple(_extend(frozenset(), frozenset(some), frozenset(), clashes)) if some else ()


# Bron and Kerbosch 1973, algorithm 1: the largest independent sets that have what is chosen and nothing of `done`.
def _extend(chosen: frozenset[str], free: frozenset[str], done: frozenset[str], clashes: Clashes) -> Iterator[frozenset[str]]:
    if not free | done:
        yield chosen
    for letter in sorted(free):
        others = clashes[letter] | {letter}
        yield from _extend(chosen | {letter}, free - others, done - others, clashes)
        free, done = free - {letter}, done | {letter}
