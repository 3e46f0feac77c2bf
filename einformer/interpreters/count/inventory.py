"""Derives what there is to count in a model, in letters: its weights, and what its equations do with their tensors.

The calls of a program are walked through once, line by line, with where each value is needed.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Literal, TypeVar, cast

from einformer.interpreters.count.gradients import Calls, Gradients, ReachedFactor
from einformer.language import tree
from einformer.language.calls import axis_of
from einformer.language.sizes import Legend
from einformer.language.specialise import specialise
from einformer.language.tree import Equation, Expression, Number, Spec
from einformer.program import operations as op
from einformer.program.attending import find_attended, find_attentions, find_round
from einformer.program.chunks import Chunk, find_chunks
from einformer.program.experts import Routing, find_routings
from einformer.program.inequalities import ALWAYS, Cases, Facts, Linear, both, written
from einformer.program.kernels import PAIR, Attention, Chunked, Norm
from einformer.program.lowering import lower_functions
from einformer.program.matching import find_norms
from einformer.program.needs import Flow, Flows, Need, Step, flat, made_of
from einformer.program.operations import Value
from einformer.program.orders import Letters, order_pairs
from einformer.program.rewrite import find_used, list_differentiated, walk, walk_values
from einformer.program.sharding import Sharding, Window, own
from einformer.program.terms import Term
from einformer.program.turns import Case, Site, TurnCount, below, turns_of, unite

T = TypeVar("T")
Norms = tuple[Mapping[Value, Norm], set[Value]]
Place = tuple[str, str]  # the path of a layer, the name of a weight
Early = tuple[str, Expression]  # the letter of a recurrence, and so many of its first steps

_MOST_TREES = 64
_RESULTS: dict[tuple[int, str], tuple[Spec, dict[object, object]]] = {}


# Caches the results of f for the last trees by identity: to hash a whole tree takes longer than to count it. All results of a
# tree are dropped together, since they name the same values.
def cache_by_tree(f: Callable[[Spec, str], T]) -> Callable[[Spec, str], T]:
    @functools.wraps(f)
    def cached(spec: Spec, name: str) -> T:
        key = id(spec), name
        if key not in _RESULTS:
            if len(_RESULTS) >= _MOST_TREES:
                del _RESULTS[next(iter(_RESULTS))]
            _RESULTS[key] = spec, {}  # as long as the tree is kept, its id is its own
        results = _RESULTS[key][1]
        if f not in results:
            results[f] = f(spec, name)
        return cast("T", results[f])

    return cached


# ------------------------------------------------------------------------------------------------------------- the walk


@dataclass(frozen=True, slots=True)
class Moving:
    """A factor that has a gradient, but in the first steps of a recurrence; or where it differs, in some turns."""

    early: frozenset[Early] = frozenset()
    differs: ReachedFactor | None = None


Gradient = frozenset[Moving]  # of a product of factors those that have one
EVERYWHERE: Gradient = frozenset([Moving()])


@dataclass(frozen=True, slots=True)
class Visit:
    """A line on a walk through the calls: where its values are needed, its path, and the turns of the calls on the way."""

    path: str
    flow: Flow
    step: Step
    needs: Mapping[Value, Need]
    turns: tuple[TurnCount, ...]
    calls: Calls
    work: Work
    idle: bool = False  # in a layer of which nothing is read

    # A factor that reads a recurrence alone has no gradient in its first steps.
    def gradient(self, value: Value, product: Value) -> Gradient:
        factor = ReachedFactor(self.calls, value, product)
        letters = [letter for turns in self.turns for letter in turns.letters]
        turn = tuple((letter, 0) for letter in (*letters, *(letter for letter, _ in self.step.loops)))
        sure, maybe = (own.find(factor, turn) for own in self.work.gradients)
        recur = self.step.line.value.operation
        own, inner = self.work.gradients[1].reach(self.calls, turn)
        moves = functools.partial(own.moves, turn=inner)
        early = self._find_early(value, recur, moves) if isinstance(recur, op.Recur) else frozenset[Early]()
        return frozenset([Moving(early, None if sure else factor)] if maybe else ())

    # In these steps all gradients of a value come of what there is of a recurrence before the first.
    def _find_early(self, value: Value, recur: op.Recur, moves: Callable[[Value], bool]) -> frozenset[Early]:
        match value.operation:
            case op.Gather(argument, slots) if argument is recur.so_far:
                (number,) = (slot.number for slot in slots if slot.label == (recur.letter,))
                return frozenset((recur.letter, steps) for steps in self._list_steps(number, recur.letter))
        trained = [operand for operand in list_differentiated(value) if moves(operand)]
        if value not in self.step.values or not trained:
            return frozenset()
        return frozenset.intersection(*(self._find_early(operand, recur, moves) for operand in trained))

    # Before a position so far back there is none; one for each number of other letters is read together with the last.
    def _list_steps(self, number: Value, letter: str) -> Iterator[Expression]:
        yield Number(1)
        numbers = self.flow.reader.numbers(number)
        if len(numbers) == 1 and not number.axes:
            back = Linear.index(letter) - numbers[0][1]
            yield from (written(back),) if back.value is None else map(Number, range(2, int(back.value) + 1))

    # The letters of all that is computed at once: a recurrence computes everything anew in each step.
    def letters(self, value: Value) -> Letters:
        return self.step.letters.union(value.axes)

    def within(self, cases: frozenset[Case]) -> tuple[TurnCount, ...]:
        return (*self.turns, turns_of(self.step.loops, cases))


@cache_by_tree
def build_work(spec: Spec, name: str) -> Work:
    specialised = specialise(spec, name)
    legend, layers = Legend.of(specialised), {layer.name: layer for layer in specialised.layers}
    names = {layer.span: layer.name for layer in spec.layers}
    flows = Flows.of_spec(specialised, lower_functions(specialised, legend), legend)
    return Work(specialised, name, layers, {layer.name: names[layer.span] for layer in specialised.layers}, flows)


@dataclass(frozen=True, slots=True)
class Placement:
    """What a rank has of values: the indices that are split in some values alone, those that are windows, and the devices
    that share each set of letters. The keys and values of some attentions go `round` so many ranks: where these read them,
    they have an index of their own."""

    own: Mapping[Value, op.Axes]
    windows: Mapping[str, Window]
    shares: tuple[tuple[frozenset[str], int], ...]
    round: tuple[tuple[int, tuple[Value, ...]], ...] = ()


# Raises EinformerError E741, E743, E744.
def find_placement(spec: Spec, name: str, legend: Legend, sharding: Sharding) -> Placement:
    if not sharding.places:
        return Placement({}, {}, sharding.shares)
    from einformer.program.collectives import find_own  # nobody waits for it who counts for one device
    from einformer.program.windows import find_windows

    work = build_work(spec, name)
    functions = work.flows.functions
    windows = find_windows(functions, work.spec, name, sharding, legend).letters
    indices = find_own(functions, work.spec, name, sharding, legend)
    shares = dict(zip((axis for axis, _ in sharding.mesh), sharding.shares, strict=True))
    attentions, rings = work.attentions.values() if sharding.round else (), list[tuple[int, tuple[Value, ...]]]()
    for sides in (sides for some in attentions for sides in find_round(some, sharding.round)):
        ((letter, over),) = {*sides.values()}
        if over not in windows:
            indices |= {value: (*indices.get(value, ()), own(over)) for value in sides}
            letters, ranks = shares[sharding.axis(letter)]
            shares[sharding.axis(letter)] = letters | {own(over)}, ranks
            rings.append((ranks, (*sides,)))
    return Placement(indices, windows, tuple(shares.values()), tuple(rings))


@dataclass(frozen=True)
class Work:
    """The functions of a specialised spec, and the names that its author gave their layers."""

    spec: Spec
    name: str
    layers: Mapping[str, tree.Layer]
    names: Mapping[str, str]
    flows: Flows

    @property
    def time(self) -> str:
        return next((layer.time.letter for layer in self.layers.values() if layer.time), "")

    @property
    def vocabulary(self) -> str:
        return next((rows.axis for name in self.layers for rows in self.tables(name) if rows.by_input), "")

    def tables(self, name: str) -> Iterator[Rows]:
        for step in flat(self.flows.steps(name)):
            yield from (rows for value in step.values if (rows := find_rows(value, self.flows.trained[name])))

    @functools.cached_property
    def norms(self) -> Mapping[str, Norms]:
        norms = {name: find_norms(function, self.flows.legend) for name, function in self.flows.functions.items()}
        inside = {name: {inner for pair in own.items() for inner in _take_in(*pair)} for name, own in norms.items()}
        return {name: (own, inside[name]) for name, own in norms.items()}

    @functools.cached_property
    def attentions(self) -> Mapping[str, list[tuple[Value, Attention, set[Value]]]]:
        legend, trained, functions = self.flows.legend, self.flows.trained, self.flows.functions.items()
        return {name: find_attentions(function, legend, trained[name], self.time) for name, function in functions}

    @functools.cached_property
    def attended(self) -> Mapping[str, Mapping[Value, tuple[Value, op.Axes]]]:
        return {name: find_attended(attentions) for name, attentions in self.attentions.items()}

    @functools.cached_property
    def sinks(self) -> set[str]:
        values = ((name, value.operation) for name, function in self.flows.functions.items() for value in walk_values(function))
        return {name for name, operation in values if isinstance(operation, op.Reduce) and operation.operator == "lse"}

    @functools.cached_property
    def used(self) -> Mapping[str, set[Value]]:
        return {name: find_used(function) for name, function in self.flows.functions.items()}

    @functools.cached_property
    def chunks(self) -> Mapping[str, Mapping[Value, tuple[Chunk, Chunked]]]:
        legend, trained, functions = self.flows.legend, self.flows.trained, self.flows.functions.items()
        return {name: find_chunks(function, legend, trained[name]) for name, function in functions}

    def whole(self, name: str) -> Flow:
        return self.flows.whole(name)

    @functools.cached_property
    def gradients(self) -> tuple[Gradients, Gradients]:
        return self.find_gradients(all), self.find_gradients(any)

    def find_gradients(self, join: Callable[[Iterable[bool]], bool] = any, legend: Legend | None = None) -> Gradients:
        flow = self.whole(self.name)
        inputs = (self.layers[self.name].kind != "model",) * len(flow.function.inputs)
        return Gradients(flow, inputs, True, legend, join)

    # Lines come after the lines of the calls in them; `output` holds the choices for which the result is needed.
    def walk(
        self,
        flow: Flow,
        output: Cases = ALWAYS,
        path: str = "",
        turns: tuple[TurnCount, ...] = (),
        calls: Calls = (),
        idle: bool = False,
    ) -> Iterator[Visit]:
        needs = flow.needs(output)
        for step in flat(flow.body):
            visit = Visit(path, flow, step, needs, turns, calls, self, idle)
            for value in step.values:
                if isinstance(value.operation, op.Call) and value in needs:
                    inner, need = self.path(path, value.operation, step), needs[value]
                    way = (*calls, (value, len(step.loops)))
                    unread = idle or value not in self.used[flow.function.name]
                    yield from self.walk(flow.called(value), need.where, inner, visit.within(need.cases), way, unread)
            yield visit

    # The path ends with the name of an instance, or else of the layer in the text.
    def path(self, path: str, call: op.Call, step: Step) -> str:
        loops = [letter for letter, _ in step.loops]
        letters = [letter for letter in call.turns if letter in loops] if call.instance else loops
        return below(path, letters, call.instance or self.names[call.function])


# All in a norm but what it is given.
def _take_in(value: Value, norm: Norm) -> Iterable[Value]:
    own = Value(norm).operands
    outside = set(own) | {inner for operand in own for inner in operand.operands}
    return made_of(value, outside)[1:]


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows read from a table of weights, along an axis whose numbers are those of another axis or of an input."""

    table: str
    axis: str
    by_input: bool


def find_rows(value: Value, trained: Collection[str]) -> Rows | None:
    match value.operation:
        case op.View(Value(op.StoredWeight(name)), old, new) if name in trained:
            single = ((one[0], other[0]) for one, other in zip(old, new, strict=True) if len(one) == len(other) == 1)
            return next((Rows(name, axis_of(one), False) for one, other in single if axis_of(one) != axis_of(other)), None)
        case op.Gather(Value(op.StoredWeight(name)), slots) if name in trained:
            read = (_find_numbered(name, axis_of(slot.label[0]), slot.number) for slot in slots)
            return next(filter(None, read), None)
        case _:
            return None


# A number that is made of an input, or of the index of another axis.
def _find_numbered(name: str, axis: str, number: Value) -> Rows | None:
    inside = made_of(number, set())
    by_input = any(isinstance(value.operation, op.Input) for value in inside)
    letters = {value.operation.letter for value in inside if isinstance(value.operation, op.Iota | op.Turn)}
    return Rows(name, axis, by_input) if by_input or {axis} < {axis, *map(axis_of, letters)} else None


# ------------------------------------------------------------------------------------------------------- operations


@dataclass(frozen=True, slots=True)
class Chosen:
    """How many numbers of a letter a `top` chooses (R10), others for each number of the letters `along`."""

    letter: str
    count: Expression
    along: Letters = frozenset()


@dataclass(frozen=True, slots=True)
class Contraction:
    """A product of tensors under a sum: the letters of each factor, the letters summed, and the gradient of each.

    Of some letters only so many numbers are `chosen`, and of their numbers only those count that a mask lets be: `where`.
    For the letters `paired`, a row and an expert that is chosen for it, the plan `fast` computes these pairs alone; what is
    `fused` it leaves to a norm; of keys with a `sink` it has one more; and of a recurrence it computes `chunks` instead.
    """

    operands: tuple[Letters, ...]
    summed: Letters
    gradients: tuple[Gradient, ...]
    value: Value
    chosen: tuple[Chosen, ...] = ()
    where: Cases = ALWAYS
    paired: Letters = frozenset()
    fused: bool = False
    sink: op.Axes = ()  # the letters of keys and queries
    chunks: tuple[Pair, ...] | None = None
    weight: int | None = None  # which operand is the matrix of a linear map

    @property
    def letters(self) -> Letters:
        return frozenset[str]().union(*self.operands)

    # The plan `fast` computes a linear map of the factors that share its sum.
    def map_product(self) -> Contraction:
        if self.weight is None:
            return self
        inner = self.summed - self.paired
        others = [k for k, own in enumerate(self.operands) if k != self.weight and own & inner]
        letters = frozenset[str]().union(*(self.operands[k] for k in others))
        gradient = frozenset[Moving]().union(*(self.gradients[k] for k in others))
        return replace(self, operands=(letters, self.operands[self.weight]), gradients=(gradient, self.gradients[self.weight]))


@dataclass(frozen=True, slots=True)
class Softmax:
    """The letters over which a softmax runs, and the cases outside of which it is zero."""

    letters: Letters
    value: Value
    where: Cases = ALWAYS


@dataclass(frozen=True, slots=True)
class Lookup:
    """Rows read from a table of weights: the letters of the rows, and the axis whose numbers select."""

    letters: Letters
    axis: str
    value: Value
    where: Cases = ALWAYS


Operation = Contraction | Softmax | Lookup


@dataclass(frozen=True, slots=True)
class Pair:
    """A contraction of two tensors: the letters over which it runs, which of their numbers, and the gradient of each."""

    left: Letters
    right: Letters
    output: Letters
    value: Value
    chosen: tuple[Chosen, ...] = ()
    where: Cases = ALWAYS
    gradients: tuple[Gradient, Gradient] = (EVERYWHERE, EVERYWHERE)
    sink: str = ""
    paired: Letters = frozenset()
    chunk: Literal["", "pairs", "solved", "read", "left"] = ""  # which positions: pairs in a chunk, all but the first, the last
    position: str = ""  # in chunks

    @property
    def letters(self) -> Letters:
        return _pair(self.left | self.right, self.paired)


# Lists the contractions of two tensors each, in the order of `orders.order_pairs`, in which a pair is one letter. One that sums
# nothing, or chosen letters only (combining experts, R12), is element-wise and not among them.
def list_pairs(contraction: Contraction, size: Callable[[str], int]) -> tuple[Pair, ...]:
    one, paired = frozenset({PAIR}), contraction.paired
    operands = [letters - paired | one if letters & paired else letters for letters in contraction.operands]
    steps = _take_steps(contraction, order_pairs(operands, contraction.summed - paired, size))
    return tuple(pair for pair in steps if not pair.letters - pair.output <= {chosen.letter for chosen in pair.chosen})


@functools.lru_cache(maxsize=1024)
def _take_steps(contraction: Contraction, order: tuple[tuple[int, int], ...]) -> tuple[Pair, ...]:
    left, steps = dict(enumerate(zip(contraction.operands, contraction.gradients, strict=True))), list[Pair]()
    for number, places in enumerate(order, len(contraction.operands)):
        (one, first), (other, second) = map(left.pop, places)
        summed = contraction.summed.difference(*(letters for letters, _ in left.values()))
        one, other = one - (summed - other), other - (summed - one)
        own = _pair(one | other, contraction.paired)
        chosen = tuple(choice for choice in contraction.chosen if {choice.letter, *choice.along} <= own)
        left[number] = own - summed, first | second
        gradients, paired = (first, second), contraction.paired
        over, position = contraction.sink or ("", "")
        sink = over if position in own else ""  # the keys themselves are no more
        output, where = own - summed, contraction.where
        steps.append(Pair(one, other, output, contraction.value, chosen, where, gradients, sink, paired))
    return tuple(steps)


# What is computed for pairs has all of their letters.
def _pair(letters: Letters, paired: Letters) -> Letters:
    return letters | paired if letters & paired else letters


def list_chosen(flows: Flows, where: Cases, letters: Letters) -> tuple[Chosen, ...]:
    some = sorted((choice for choice in flows.choices(where) if choice.letter in letters), key=repr)
    by_letter = {choice.letter: Chosen(choice.letter, choice.count, choice.along) for choice in some}
    return tuple(by_letter[letter] for letter in sorted(by_letter))


def _read_operation(
    value: Value, visit: Visit, routing: Routing | None, fused: bool, sink: op.Axes, chunks: tuple[Pair, ...] | None
) -> Operation | None:
    letters, where = visit.letters(value), visit.needs[value].where
    match value.operation:
        case op.Einsum(summed, factors):
            contraction = _read_contraction(value, frozenset(summed), factors, visit, routing)
            return contraction and replace(contraction, fused=fused, sink=sink, chunks=chunks)
        case op.Reduce("Sm"):
            return Softmax(letters, value, both(where, visit.flow.support(value).nonzero))
        case _:
            rows = find_rows(value, visit.flow.weights)
            return Lookup(letters, rows.axis, value) if rows else None


def _read_contraction(
    value: Value, summed: Letters, factors: tuple[Value, ...], visit: Visit, routing: Routing | None
) -> Contraction | None:
    read = [(f, letters) for f in factors if (letters := visit.letters(f)) and not _divides(f, summed)]
    if len(read) < 2:
        return None
    operands_of, letters = tuple(own for _, own in read), frozenset[str]().union(*(own for _, own in read))
    gradients = tuple(visit.gradient(factor, value) for factor, _ in read)
    where = both(visit.flow.before(visit.needs[value], value, summed).where, visit.flow.nonzero_of(factors))
    chosen = list_chosen(visit.flow.flows, where, letters)
    paired = routing.paired if routing else frozenset[str]()
    weight = _find_expert(read, value, routing) if routing else _find_matrix(read, summed, visit)
    return Contraction(operands_of, summed, gradients, value, chosen, where, paired, weight=weight)


# The matrix by expert of a product for pairs.
def _find_expert(factors: list[tuple[Value, Letters]], value: Value, routing: Routing) -> int | None:
    map_ = routing.group(routing.sum_inside(value) if value in routing.sums else value)
    return map_ and next(k for k, (factor, _) in enumerate(factors) if factor is map_[0].weights[0])


# Its columns are summed, and the other factors of the sum have all of them and none of its rows: then no order is better.
# No factor is another sum.
def _find_matrix(factors: list[tuple[Value, Letters]], summed: Letters, visit: Visit) -> int | None:
    inside = {k: letters for k, (_, letters) in enumerate(factors) if letters & summed}
    learned = {k for k in inside if _is_weight(factors[k][0], visit.flow.weights)}
    sums = any(isinstance(factor.operation, op.Einsum) and factor in visit.step.values for factor, _ in factors)
    for k in learned if len(learned) < len(inside) and not sums else ():
        if summed < inside[k] and all(letters & inside[k] == summed for j, letters in inside.items() if j != k):
            return k
    return None


def _is_weight(value: Value, weights: Collection[str]) -> bool:
    match value.operation:
        case op.View(argument, old, new) if all(len(label) == 1 for label in (*old, *new)):
            return _is_weight(argument, weights)
        case op.StoredWeight(name):
            return name in weights
        case _:
            return False


# The products of a recurrence by chunks, where a sum reads it; none in its step, which reads the state alone.
def _read_chunks(value: Value, visit: Visit, chunks: Mapping[Value, tuple[Chunk, Chunked]]) -> tuple[Pair, ...] | None:
    if value in chunks:
        return tuple(_list_chunked(value, *chunks[value], visit))
    recur = visit.step.line.value
    if isinstance(recur.operation, op.Recur) and any(chunk.recurrence is recur for chunk, _ in chunks.values()):
        return () if recur.operation.so_far in walk(value) else None
    return None


def _list_chunked(value: Value, chunk: Chunk, kernel: Chunked, visit: Visit) -> Iterator[Pair]:
    def find_gradient(*terms: Term) -> Gradient:
        factors = (factor.value for term in terms for factor in term.powers)
        return frozenset[Moving]().union(*(visit.gradient(factor, value) for factor in factors))

    def find_rows(*sides: Value | None) -> Letters:
        return frozenset(x for side in sides if side is not None for x in side.axes if x in kernel.shared) | {kernel.letter}

    make = functools.partial(Pair, value=value, position=kernel.letter)
    n, put, decays = frozenset(kernel.summed), frozenset(kernel.put), chunk.decay
    query, key, decay = find_gradient(chunk.query), find_gradient(chunk.key), find_gradient(*decays)
    slope, new = find_gradient(*chunk.value), find_rows(kernel.value)
    weights = find_rows(kernel.query, kernel.key, kernel.decay), query | key | decay
    state, grown = find_rows(kernel.key, kernel.decay), find_gradient(chunk.key, *decays, *chunk.value)
    queries = [(find_rows(kernel.query) | n, query)]
    if chunk.probe is not None:
        queries.append((find_rows(kernel.probe) | n, find_gradient(chunk.probe)))
        inside = find_gradient(chunk.probe, chunk.key, *decays, *chunk.gain)
        new, slope = new | find_rows(kernel.probe, kernel.key, kernel.decay, kernel.gain), slope | inside | grown
        grown, w = grown | inside, new | put
        yield make(w, w, new, chunk="solved", gradients=(inside, frozenset()))  # forward no product
    state |= new
    for letters, gradient in queries:
        keys = find_rows(kernel.key) | n
        yield make(letters, keys, (letters | keys) - n, chunk="pairs", gradients=(gradient, key))
        yield make(
            letters,
            state | n | put,
            (letters | state | put) - n,
            chunk="read",
            gradients=(gradient, grown),
        )
    yield make(weights[0], new | put, weights[0] | new | put, chunk="pairs", gradients=(weights[1], slope))
    left = find_rows(kernel.key, kernel.decay) | n
    yield make(left, new | put, state | n | put, chunk="left", gradients=(key | decay, slope))
    before = query | key | slope | grown
    for linear in chunk.maps:
        one, other = frozenset(linear.argument.axes), frozenset(linear.weights[0].axes)
        after = (one | other) - {*linear.columns[0]}
        learned = visit.gradient(linear.weights[0], value)
        yield Pair(one, other, after, value, gradients=(before, learned))
        before |= learned


# A denominator without a summed letter divides the whole.
def _divides(factor: Value, summed: Letters) -> bool:
    return isinstance(factor.operation, op.Map) and factor.operation.function == "/" and summed.isdisjoint(factor.axes)


# ----------------------------------------------------------------------------------------------------------- weights


@dataclass(frozen=True, slots=True)
class Held:
    """A weight or buffer of the layer at a path, `blocks.{l}.MLP`, and for each call on the way the turns with one more.

    An embedding has a row for each token or position; of one in `rows` nothing else is read. Of a letter that is `chosen`
    only so many numbers compute for a token.
    """

    path: str
    weight: tree.Weight
    turns: tuple[TurnCount, ...]
    embedding: bool = False
    chosen: tuple[Chosen, ...] = ()
    rows: bool = False


@dataclass(slots=True)
class _Reading:
    chosen: tuple[Chosen, ...] | None = None
    whole: bool = False


def _hold(work: Work, name: str, visits: Iterable[Visit]) -> Iterator[Held]:
    readings: dict[Place, _Reading] = {}
    for visit in visits:
        for value in visit.step.values:
            _read_weights(value, visit, readings)
    for held in _list_weights(work, name, "", (), work.vocabulary):
        reading = readings.get((held.path, held.weight.name), _Reading())
        rows = held.embedding and not reading.whole
        yield replace(held, chosen=reading.chosen or (), rows=rows)


# An instance called at several sites is one.
def _list_weights(work: Work, name: str, path: str, turns: tuple[TurnCount, ...], vocabulary: str) -> Iterator[Held]:
    numbered = {rows.table for rows in work.tables(name)}
    for weight in work.layers[name].weights:
        if weight.kind != "instance" and (weight.default is None or weight.optional):
            axes = {axis_of(index.letter) for index in weight.indices}
            yield Held(path, weight, turns, weight.name in numbered or vocabulary in axes)
    for call, sites in _find_instances(work.whole(name)).items():
        inner = (*turns, TurnCount(call.turns, unite(sites)))
        yield from _list_weights(work, call.function, below(path, call.turns, call.instance), inner, vocabulary)


# By name and the loops whose numbers they carry, with the sites of the calls.
def _find_instances(flow: Flow) -> dict[op.Call, list[Site]]:
    needs, sites = flow.needs(), dict[op.Call, list[Site]]()
    for step in flat(flow.body):
        loops = {letter for letter, _ in step.loops}
        for value in step.values:
            match value.operation:
                case op.Call(function, instance, turns) if instance and value in needs:
                    call = op.Call(function, instance, tuple(letter for letter in turns if letter in loops), ())
                    sites.setdefault(call, []).append(Site(step.loops, needs[value].cases))
    return sites


# Chosen letters are those of which only some numbers are read, wherever a weight is read.
def _read_weights(value: Value, visit: Visit, readings: dict[Place, _Reading]) -> None:
    for read in value.operands:
        if read in visit.needs and isinstance(read.operation, op.StoredWeight) and read.operation.name in visit.flow.weights:
            reading = readings.setdefault((visit.path, read.operation.name), _Reading())
            here = list_chosen(visit.flow.flows, visit.needs[read].where, frozenset(read.axes))
            reading.chosen = tuple(choice for choice in here if reading.chosen is None or choice in reading.chosen)
            reading.whole |= not isinstance(value.operation, op.Gather) and find_rows(value, visit.flow.weights) is None


# ----------------------------------------------------------------------------------------------------------- the whole


@dataclass(frozen=True, slots=True)
class Done:
    """An equation of the layer `layer` at a path, its work, and the turns: of each call on the way, then its own."""

    path: str
    layer: str
    equation: Equation
    turns: tuple[TurnCount, ...]
    operations: tuple[Operation, ...] = ()
    fast: bool | None = None  # in the plan `fast` alone, or not in it

    @property
    def turning(self) -> Letters:
        return frozenset(letter for turns in self.turns for letter in turns.letters)

    @property
    def repeated(self) -> bool:
        return any(turns.letters for turns in self.turns)


@dataclass(frozen=True, slots=True)
class Derived:
    """All that is counted, in the order of the text; `time` and `vocabulary` are axes, "" where there is none.

    `logits` are the letters of the output, if it has a number for each token of the vocabulary.
    """

    held: tuple[Held, ...]
    done: Callable[[], tuple[Done, ...]]
    facts: Facts
    gradients: Callable[[Legend], Gradients]  # turn by turn
    attended: Callable[[], frozenset[Value]]  # what kernels of attention compute, in the plan `fast`
    time: str = ""
    vocabulary: str = ""
    logits: tuple[str, ...] = ()

    def list_done(self, plan: str) -> Iterator[Done]:
        return (done for done in self.done() if done.fast in (None, plan == "fast"))


@cache_by_tree
def derive(spec: Spec, name: str) -> Derived:
    work = build_work(spec, name)
    visits = tuple(work.walk(work.whole(name)))
    letters, vocabulary = work.flows.functions[name].output.value.axes, work.vocabulary
    logits = letters if vocabulary in map(axis_of, letters) else ()
    held, gradients = tuple(_hold(work, name, visits)), functools.partial(work.find_gradients, any)
    done = functools.cache(lambda: _list_all_done(visits, work))
    attended = functools.cache(lambda: frozenset(value for sums in work.attended.values() for value in sums))
    return Derived(held, done, work.flows.facts, gradients, attended, work.time, vocabulary, logits)


def _list_all_done(visits: Iterable[Visit], work: Work) -> tuple[Done, ...]:
    routings = {name: dict.fromkeys(of.find_paired(), of) for name, of in find_routings(work.flows).items()}
    return tuple(done for visit in visits for done in _list_done(visit, work, routings.get(visit.flow.function.name, {})))


# A line, once for each of the branches on layer numbers in it.
def _list_done(visit: Visit, work: Work, routings: Mapping[Value, Routing]) -> Iterator[Done]:
    if visit.step.line.equation is None:
        return
    operations, function = dict[tuple[frozenset[Case], bool | None], list[Operation]](), visit.flow.function
    fused, chunks = work.norms[function.name][1], work.chunks[function.name]
    chooses = any(need.cases for need in visit.needs.values())
    attended = work.attended[function.name] if chooses or function.name in work.sinks else {}
    for value in visit.step.values:
        if need := visit.needs.get(value):
            kernel, sink = attended.get(value, (value, ()))
            how = routings.get(value), value in fused, sink, _read_chunks(value, visit, chunks)
            operation, cases = _read_operation(value, visit, *how), visit.needs.get(kernel, need).cases
            places = [(need.cases, None)] if cases == need.cases else [(need.cases, False), (cases, True)]
            if visit.idle or value not in work.used[function.name]:  # the plan `fast` does not compute what nothing reads
                places = [(need.cases, False)]
            for place in places:
                operations.setdefault(place, []).extend([operation] if operation else ())
    layer, some = work.names[visit.flow.function.name], {place: own for place, own in operations.items() if own}
    for (cases, fast), part in (some or {(frozenset[Case](), None): []}).items():
        yield Done(visit.path, layer, visit.step.line.equation, visit.within(cases), tuple(part), fast)
