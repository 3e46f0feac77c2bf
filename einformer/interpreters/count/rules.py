"""The rules of counting, over anything that adds and multiplies: `Numbers` put numbers for letters, `Symbols` symbols.

FLOPs are those of an equation in one turn of the loops around it, bytes those of the tensors that it keeps or moves.
"""

from __future__ import annotations

import itertools
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, ClassVar, Generic, Literal, Protocol, Self, TypeVar, cast

from einformer.errors import Span, fail, find_row
from einformer.interpreters.count.activations import Saved, SavedValue, find_saved
from einformer.interpreters.count.conventions import DEFAULT, Convention, Precision, find_dtype
from einformer.interpreters.count.gradients import ReachedFactor
from einformer.interpreters.count.inventory import Contraction, Derived, Done, Held, Lookup, Pair, Softmax, derive, list_pairs
from einformer.language.calls import axis_of
from einformer.language.sizes import Legend
from einformer.language.tree import Expression, Index, Spec
from einformer.language.walk import subexpressions
from einformer.language.weights import key
from einformer.program.inequalities import ALWAYS, Cases
from einformer.program.keeping import Entry
from einformer.program.kernels import CHUNK
from einformer.program.needs import Region, region_of
from einformer.program.operations import Axes, Value
from einformer.program.orders import Letters, estimate_size
from einformer.program.sharding import find_whole
from einformer.program.turns import TurnCount, turns_of

Phase = Literal["forward", "backward", "training"]
Recompute = Literal["none", "selective", "full"]


class Countable(Protocol):
    """A number that adds and multiplies: an int, a sympy expression."""

    def __add__(self, other: Any, /) -> Any: ...
    def __mul__(self, other: Any, /) -> Any: ...


N = TypeVar("N", bound=Countable)


def total(terms: Iterable[N | int]) -> N:
    return cast("N", sum(cast("Iterable[Any]", terms)))


def product(factors: Iterable[N | int]) -> N:
    return cast("N", math.prod(cast("Iterable[Any]", factors)))


# ------------------------------------------------------------------------------------------------------------- sizes


@dataclass(slots=True)
class Sizes(ABC, Generic[N]):
    """The numbers or symbols of the letters of a legend. Along `time`, so many positions are `cached` before those computed.

    On a mesh, a device holds a part of each tensor with one of some letters: `shares` are these, and how many devices share it.
    Indices that are split in some values only are `own` letters of each.
    """

    legend: Legend
    time: str = ""
    cached: N | int = 0
    shares: tuple[tuple[frozenset[str], N], ...] = ()
    own: Mapping[Value, Axes] = field(default_factory=dict)
    lengths: dict[str, N] = field(default_factory=dict, init=False)
    walks: ClassVar[bool]  # does it go through turns one by one?
    smallest: ClassVar[Any]  # of some numbers
    largest: ClassVar[Any]
    divide: ClassVar[Any]  # a number by one that divides it
    round_up: ClassVar[Any]  # a number divided by another

    @abstractmethod
    def size(self, axis: str) -> N:
        """Returns the size of an axis."""

    @abstractmethod
    def chosen(self, letter: str, count: Expression) -> N:
        """Returns how many numbers of an index a `top` chooses."""

    @abstractmethod
    def value(self, e: Expression) -> Any:
        """Returns a number that the text writes, perhaps an infinite one: how far one looks back."""

    @abstractmethod
    def turns(self, turns: TurnCount) -> N:
        """Returns how many different numbers the letters of loops take over all sites."""

    @abstractmethod
    def kinds(
        self, turns: tuple[TurnCount, ...], numbers: tuple[Expression, ...], each: bool = False
    ) -> Iterable[tuple[tuple[N, ...], Sizes[N]]]:
        """Yields the turns in which these numbers are the same, or `each`, how many they are, and the sizes of each kind."""

    # The gradient is the one in the turn at hand. Formulas have no turn, so no factor has one there.
    def moves(self, derived: Derived, factor: ReachedFactor) -> bool:
        raise AssertionError(factor)

    # Estimated sizes decide the order of contractions. One position follows a cache.
    def estimate(self, letter: str) -> int:
        return estimate_size(self.legend, letter, self.time if self.cached != 0 else "")

    # The letters of turns in these numbers tell how far a rank reads of some letters.
    def list_reaches(self, letters: Collection[str]) -> Iterable[Expression]:
        return ()

    # The numbers of a letter that a device has, before they are shared.
    def length(self, letter: str) -> N:
        return self.count_all(letter)

    # The number of positions that are computed, or of all that are visible.
    def count_all(self, letter: str) -> N:
        if letter not in self.lengths:
            axis = axis_of(letter)
            visible = axis == self.time and letter != axis
            self.lengths[letter] = total((self.size(axis), self.cached)) if visible else self.size(axis)
        return self.lengths[letter]

    # An axis of the mesh divides a tensor once.
    def share(self, whole: N, letters: Collection[str], *values: Value | None) -> N:
        own = (letter for one in filter(None, values) for letter in self.own.get(one, ()) if find_whole(letter) in letters)
        split = {*letters, *own}
        ranks: N = product(count for of, count in self.shares if not of.isdisjoint(split))
        return cast("N", self.divide(whole, ranks)) if self.shares else whole

    def chunk(self, pair: Pair) -> N:
        length: Any = self.length(pair.position)
        whole = (self.round_up(length, CHUNK) - 1) * CHUNK  # but the last
        last, first = length - whole, self.smallest((length, CHUNK))
        return cast(
            "N", length - first if pair.chunk == "read" else whole if pair.chunk == "left" else whole * CHUNK + last * last
        )

    @abstractmethod
    def walk(self, region: Region, at: Span) -> N:
        """Returns twice the size of a region that is not a band."""

    def count_twice(self, region: Region, at: Span) -> N:
        if not region.band:
            return self.walk(region, at) if region.cases else cast("N", 0)
        later, earlier = region.letters
        least = [self.value(bound.least) for bound in region.band if bound.later == later]
        most = [-self.value(bound.least) for bound in region.band if bound.earlier == later]
        lowest, highest = self.largest(least) if least else None, self.smallest(most) if most else None
        return self.count_band(later, earlier, lowest, highest)

    # Twice the number of pairs that are as far apart.
    def count_band(self, later: str, earlier: str, least: Any | None, most: Any | None) -> N:
        before: Any = cast("Any", self.count_all(earlier)) - self.count_all(later)
        return cast("N", count_pairs(self.count_all(later), before, least, most, lambda *two: self.smallest(two)))


def count_pairs(length: Any, before: Any, least: Any | None, most: Any | None, smaller: Callable[[Any, Any], Any]) -> Any:
    """Returns twice the number of pairs (s, s') with `least <= s - s' <= most`, for `length` positions s after `before`
    others, in closed form.

    Where nothing keeps s' from standing after s, these are all pairs: a mask that is not causal saves nothing here.

    >>> causal, window = (count_pairs(6, 0, 0, most, min) for most in (None, 2))
    >>> causal // 2, window // 2  # 1 + 2 + 3 + 4 + 5 + 6, and 1 + 2 + 3 + 3 + 3 + 3
    (21, 15)
    """

    # Twice the number of pairs with `0 <= s - s' <= most`.
    def count_between(most: Any | None) -> Any:
        near = _count_near(before + length, most, smaller)
        return near if before == 0 else near - _count_near(before, most, smaller)

    if least is None or (isinstance(least, int) and least < 0):
        return length * (before + length) * 2
    return count_between(most) if least == 0 else count_between(most) - count_between(least - 1)


# Twice the sum of `min(s + 1, most + 1)` over as many s: the pairs that are at most so far apart.
def _count_near(length: Any, most: Any | None, smaller: Callable[[Any, Any], Any]) -> Any:
    width = length if most is None else smaller(length, most + 1)
    return width * (2 * length - width + 1)


# ------------------------------------------------------------------------------------------------------------ counts


class Counted(Generic[N]):
    """A count of one turn, `each`, and so many `turns` of the loops around, the loop of each call on the way apart."""

    __slots__ = ()
    each: N
    turns: tuple[N, ...]

    @property
    def times(self) -> N:
        return product(self.turns)

    @property
    def total(self) -> N:
        return product((self.times, self.each))

    def in_one_turn(self) -> Self:
        return replace(self, turns=self.turns[1:])  # type: ignore[type-var]


@dataclass(frozen=True, slots=True)
class WeightCount(Counted[N]):
    """The numbers in a weight or buffer (not `trained`) of the layer at a path.

    `active` of each compute for a token, fewer where a `top` chooses (R10). Of one in `rows`, single rows are read alone.
    """

    path: str
    name: str
    letters: tuple[str, ...]
    each: N
    active: N
    turns: tuple[N, ...]
    trained: bool = True
    embedding: bool = False
    rows: bool = False

    # `blocks.{l}.MLP.W`.
    @property
    def full_path(self) -> str:
        return f"{self.path}.{self.name}".lstrip(".")


@dataclass(frozen=True, slots=True)
class EquationCount(Counted[N]):
    """The FLOPs of an equation, `text` as it is written, in a forward pass.

    `gradients` are those of its gradients in all turns together, since some turns may have fewer. `core` are those of
    products over two positions, what selective recomputation does again; `repeated` says that the equation is part of a
    block, which full recomputation does again.
    """

    path: str
    layer: str
    text: str
    line: int
    each: N
    turns: tuple[N, ...]
    gradients: N | None
    core: N
    repeated: bool = False

    # The FLOPs of its gradients, in all turns together. Raises EinformerError E607.
    @property
    def backward(self) -> N:
        if self.gradients is None:
            message = "what has a gradient differs from turn to turn, so that its FLOPs have no formula"
            raise fail("E607", message, fix="bind the sizes, whose turns are gone through one by one")
        return self.gradients

    def in_one_turn(self) -> EquationCount[N]:
        first, *rest = self.turns
        return replace(self, turns=tuple(rest), gradients=self.gradients and cast("Any", self.gradients) / first)

    # The FLOPs of a whole phase, in all turns together: a training step runs forward, backward and the recomputation.
    def spent(self, phase: Phase, recompute: Recompute = "none") -> N:
        again = self.core if recompute == "selective" else self.each if recompute == "full" and self.repeated else 0
        forward: N = product((self.times, total((self.each, again)) if phase == "training" else self.each))
        return forward if phase == "forward" else self.backward if phase == "backward" else total((forward, self.backward))


@dataclass(frozen=True, slots=True)
class Traffic(Counted[N]):
    """The FLOPs of the products of an equation, and the bytes that they read and write.

    A product of two tensors reads both and writes its result: of letters that a `top` chooses, as many numbers as one token
    chooses, and of two positions the pairs that the convention counts. That is what an implementation moves that fuses
    nothing. `pairs` says that one of the products runs over two positions, as the core of attention does.
    """

    path: str
    layer: str
    text: str
    line: int
    each: N
    read: N
    written: N
    turns: tuple[N, ...]
    pairs: bool = False

    @property
    def moved(self) -> N:
        return total((self.read, self.written))


@dataclass(frozen=True, slots=True)
class Activation(Counted[N]):
    """The bytes that an equation keeps for the backward pass."""

    path: str
    layer: str
    text: str
    letters: str
    what: str
    each: N
    turns: tuple[N, ...]


@dataclass(frozen=True, slots=True)
class Memory(Generic[N]):
    """Bytes on one device, by component."""

    parameters: N
    gradients: N
    main_gradients: N
    master: N
    momentum: N
    variance: N
    activations: N
    logits: N
    travelling: N | int = 0  # blocks of keys and values that go round, while one attention computes with them

    # All together: the peak of a training step, if nothing is freed before its end.
    @property
    def total(self) -> N:
        parts: list[N] = [getattr(self, component.name) for component in fields(self)]
        return total(parts)


@dataclass(frozen=True, slots=True)
class CacheBytes(Generic[N]):
    """The bytes of a cache: those that a further position of one row adds until windows are full, and all that it holds."""

    per_token: N
    total: N


# ----------------------------------------------------------------------------------------------------------- weights


# Counts the parameters of each weight of the layer or model `name`, and the numbers in its buffers. Optional weights are there
# unless the spec is without them. Raises EinformerError E601, E607.
def count_weights(spec: Spec, name: str, sizes: Sizes[N]) -> tuple[WeightCount[N], ...]:
    return tuple(_count_weight(held, sizes) for held in derive(spec, name).held)


def _count_weight(held: Held, sizes: Sizes[N]) -> WeightCount[N]:
    letters = tuple(index.letter for index in held.weight.indices)
    active: list[N] = _list_lengths(sizes, letters, held.chosen)
    return WeightCount(
        held.path,
        key(held.weight.name),
        letters,
        product(map(sizes.length, letters)),
        product(active),
        tuple(map(sizes.turns, held.turns)),
        held.weight.kind == "trained",
        held.embedding,
        held.rows,
    )


# Of a chosen letter, as many as are chosen.
def _list_lengths(sizes: Sizes[N], letters: Iterable[str], chosen: Iterable[Any]) -> list[N]:
    counts = {choice.letter: choice.count for choice in chosen}
    return [sizes.chosen(letter, counts[letter]) if letter in counts else sizes.length(letter) for letter in letters]


def sum_counts(counts: Iterable[Counted[N]]) -> N:
    return total(count.total for count in counts)


# Returns the number of trained parameters. A tie counts once, buffers do not.
def sum_trained(counts: Iterable[WeightCount[N]]) -> N:
    return sum_counts(count for count in counts if count.trained)


# Returns the number of parameters: in all, of embeddings and of the rest, and of those that compute for one token. An embedding
# has a row for each token or position; a head that is not tied is one (Kaplan et al. 2020 leave out both).
def break_down(counts: Iterable[WeightCount[int]]) -> dict[str, int]:
    trained = [count for count in counts if count.trained]
    whole, embedding = sum_counts(trained), sum_counts(count for count in trained if count.embedding)
    active = sum(count.times * count.active for count in trained)
    return {"total": whole, "embedding": embedding, "non_embedding": whole - embedding, "active": active}


# -------------------------------------------------------------------------------------------------------------- FLOPs


# Counts the FLOPs of each equation of the layer or model `name`, by a convention. A contraction of two tensors takes twice the
# product of the sizes of all indices; the order of more is that of `orders.order_pairs`. An equation under a window that
# differs between layers counts once for each kind. Raises EinformerError E601, E607.
def count_flops(spec: Spec, name: str, sizes: Sizes[N], convention: Convention = DEFAULT) -> tuple[EquationCount[N], ...]:
    derived = derive(spec, name)
    return tuple(
        count for done in derived.list_done(convention.plan) for count in _count_equation(derived, done, sizes, convention)
    )


# Counts the bytes that each equation with a product moves, a number having `element` bytes. A `fused` one keeps on the chip the
# tensors with two positions, the scores and weights of attention (FlashAttention).
def count_traffic(
    spec: Spec, name: str, sizes: Sizes[N], convention: Convention, element: N | int, fused: bool = False
) -> tuple[Traffic[N], ...]:
    derived = derive(spec, name)
    some = [
        done
        for done in derived.list_done(convention.plan)
        if any(isinstance(operation, Contraction) for operation in done.operations)
    ]
    kinds = (kind for done in some for kind in _list_kinds(derived, done, sizes, convention))
    return tuple(rules.traffic(turns, element, fused) for _, rules, turns in kinds)


def find_intensity(moves: Iterable[Traffic[N]]) -> Any:
    """Returns the FLOPs of some equations for each byte that they move: arithmetic intensity, a float or a formula.

    >>> from einformer.interpreters.count.numbers import Numbers
    >>> import einformer
    >>> model = einformer.model("gpt2")
    >>> moves = count_traffic(model.spec.tree, model.spec.name, Numbers(model.at(B=1, S=1024)), DEFAULT, 2)
    >>> find_intensity([move for move in moves if "Q_dea" in move.text])  # 2 B S D / (p (2 B S + D))
    279.27272727272725
    """
    moves = tuple(moves)
    return cast("Any", sum_counts(moves)) / total(product((move.times, move.moved)) for move in moves)


def _count_equation(derived: Derived, done: Done, sizes: Sizes[N], convention: Convention) -> Iterator[EquationCount[N]]:
    gradients = [moving for o in done.operations if isinstance(o, Contraction) for own in o.gradients for moving in own]
    numbers, differ = dict.fromkeys(e for own in gradients for _, e in own.early), any(own.differs for own in gradients)
    backward: dict[Any, list[N]] = {}
    if not sizes.walks and (differ or any(isinstance(x, Index) for e in numbers for x in subexpressions(e))):
        yield from (rules.equation(turns, None) for _, rules, turns in _list_kinds(derived, done, sizes, convention))
        return
    for kind, rules, turns in _list_kinds(derived, done, sizes, convention, numbers, differ):
        backward.setdefault(kind, []).append(product((*turns, rules.backward())))
    for kind, rules, turns in _list_kinds(derived, done, sizes, convention):
        yield rules.equation(turns, total(backward.get(kind, ())))  # of no turn, nothing


# The kinds of turns in which a mask differs, by what it has of them; or, within a kind, one of the numbers `within`, or any.
def _list_kinds(
    derived: Derived, done: Done, sizes: Sizes[N], convention: Convention, within: Iterable[Expression] = (), each: bool = False
) -> Iterator[tuple[Any, _Rules[N], tuple[N, ...]]]:
    masked = (operation for operation in done.operations if convention.pairs == "exact")
    regions = [region for o in masked if (region := region_of(o.where, o.letters, done.turning, derived.facts)) is not None]
    numbers = dict.fromkeys(e for region in regions for e in region.parameters(done.turning))
    numbers |= dict.fromkeys(e for operation in done.operations for e in sizes.list_reaches(operation.letters))
    for turns, inner in replace(sizes, time=derived.time).kinds(done.turns, (*numbers, *within), each):
        yield tuple(map(inner.value, numbers)), _Rules(inner, convention, derived, done), turns


@dataclass(frozen=True, slots=True)
class _Rules(Generic[N]):
    """The rules of one convention, for what an equation does."""

    sizes: Sizes[N]
    convention: Convention
    derived: Derived
    done: Done

    def equation(self, turns: tuple[N, ...], backward: N | None) -> EquationCount[N]:
        done, span = self.done, self.done.equation.span
        products = self.products()
        forward: N = total((*(flops for flops, pair in products if pair.chunk != "solved"), *self.elementwise()))
        core: N = total(flops for flops, pair in products if has_two_positions(pair.letters, self.derived.time))
        return EquationCount(done.path, done.layer, span.text, span.line, forward, turns, backward, core, done.repeated)

    def backward(self) -> N:
        others, products = total(self.elementwise()), self.products()
        count: N = total((*(own for flops, pair in products for own in self.gradients(flops, pair)), others * 2))
        return count

    def products(self) -> list[tuple[N, Pair]]:
        return [(self.numbers(pair, pair.letters, self.convention.per_multiply), pair) for pair in self.pairs()]

    # A product for each factor that has a gradient; in the first steps of a recurrence what came before has none.
    def gradients(self, flops: N, pair: Pair) -> Iterator[N]:
        for gradient in pair.gradients:
            if moving := [own for own in gradient if own.differs is None or self.sizes.moves(self.derived, own.differs)]:
                none = dict[str, list[Expression]]()
                for letter, steps in frozenset.intersection(*(own.early for own in moving)):
                    none.setdefault(letter, []).append(steps)
                first: N = self.numbers(
                    pair,
                    pair.letters - none.keys(),
                    self.convention.per_multiply,
                    -1,
                    *itertools.starmap(self.count_first, none.items()),
                )
                yield total((flops, first)) if none else flops

    # So many steps of a recurrence, if there are as many.
    def count_first(self, letter: str, steps: list[Expression]) -> N:
        return cast("N", self.sizes.smallest((self.sizes.largest(map(self.sizes.value, steps)), self.sizes.length(letter))))

    def traffic(self, turns: tuple[N, ...], element: N | int, fused: bool) -> Traffic[N]:
        done, pairs, span = self.done, list(self.pairs()), self.done.equation.span

        def count_bytes(pair: Pair, *tensors: Letters) -> N:
            moved = (letters for letters in tensors if not (fused and has_two_positions(letters, self.derived.time)))
            return total(self.numbers(pair, letters, element) for letters in moved)

        flops: N = total(self.numbers(pair, pair.letters, self.convention.per_multiply) for pair in pairs)
        read: N = total(count_bytes(pair, pair.left, pair.right) for pair in pairs)
        written: N = total(count_bytes(pair, pair.output) for pair in pairs)
        two = any(has_two_positions(pair.letters, self.derived.time) for pair in pairs)
        return Traffic(done.path, done.layer, span.text, span.line, flops, read, written, turns, two)

    # The plan `fast` computes chosen numbers alone where it can.
    def pairs(self) -> Iterator[Pair]:
        plan = self.convention.plan
        for contraction in self.done.operations:
            if isinstance(contraction, Contraction) and self.runs_by_chunks(contraction):
                yield from contraction.chunks or ()
            elif isinstance(contraction, Contraction) and not (contraction.fused and plan == "fast"):
                paired = frozenset[str]() if plan == "notation" else contraction.paired
                chosen = tuple(c for c in contraction.chosen if not plan or paired == {c.letter, *c.along})
                product = contraction.map_product() if paired or plan == "fast" else contraction
                for pair in list_pairs(replace(product, chosen=chosen, paired=paired), self.sizes.estimate):
                    apart = bool(plan) and self.sums_nothing(pair) and (plan == "notation" or self.is_einsum(product))
                    if not apart and not (self.convention.logits == "none" and self.is_logits(pair)):
                        yield pair

    # Over axes of one number einsum multiplies element by element.
    def sums_nothing(self, pair: Pair) -> bool:
        return all(self.sizes.length(letter) == 1 for letter in pair.letters - pair.output)

    # In the plan `fast` other products are linear maps, or kernels compute them.
    def is_einsum(self, contraction: Contraction) -> bool:
        linear = contraction.weight is not None or contraction.paired
        return not linear and contraction.value not in self.derived.attended()

    # Decoding keeps the state, and takes each step.
    def runs_by_chunks(self, contraction: Contraction) -> bool:
        return contraction.chunks is not None and self.convention.kernels and self.sizes.cached == 0

    def is_logits(self, pair: Pair) -> bool:
        return self.derived.vocabulary in map(axis_of, pair.output)

    # So many times the numbers of these letters, those of logits only where they count.
    def numbers(self, pair: Pair, letters: Letters, *factors: N | int) -> N:
        if self.convention.logits == "last" and self.is_logits(pair):
            letters -= {self.derived.time}
        chosen = {choice.letter for choice in pair.chosen}
        sizes: list[N] = _list_lengths(self.sizes, sorted(letters & chosen), pair.chosen)
        if self.convention.kernels and pair.sink in letters:
            sizes.append(total((self.sizes.length(pair.sink), 1)))
            letters -= {pair.sink}
        if pair.chunk and letters == pair.letters:
            sizes.append(self.sizes.chunk(pair))
            letters -= {pair.position}
        return self.sizes.share(self.count(letters - chosen, pair.where, (*sizes, *factors)), letters, pair.value)

    # A softmax costs so many FLOPs for each element. Rows read from an embedding cost something only as one-hot matrices.
    def elementwise(self) -> Iterator[N]:
        for operation in self.done.operations:
            match operation:
                case Softmax(letters, value, where):
                    yield self.sizes.share(self.count(letters, where, (self.convention.softmax,)), letters, value)
                case Lookup(letters, _, value) if self.convention.embedding == "read":
                    yield self.sizes.share(self.count(letters, ALWAYS, (2,)), letters, value)
                case Lookup(letters, axis, value) if self.convention.embedding == "one-hot" and axis == self.derived.vocabulary:
                    yield self.sizes.share(self.count(letters | {axis}, ALWAYS, (2,)), letters | {axis}, value)

    # The product of some sizes and factors; under a mask only so many numbers of the letters that it compares.
    def count(self, letters: Letters, where: Cases, factors: Iterable[N | int]) -> N:
        masked = self.convention.pairs != "full"
        region = region_of(where, letters, self.done.turning, self.derived.facts) if masked else None
        if region is None or self.convention.pairs != "exact":
            whole: N = product((*map(self.sizes.length, sorted(letters)), *factors))
            return cast("N", self.sizes.divide(whole, 2)) if region is not None else whole
        rest = map(self.sizes.length, sorted(letters.difference(region.letters)))
        return cast(
            "N", self.sizes.divide(product((*rest, *factors, self.sizes.count_twice(region, self.done.equation.span))), 2)
        )


# Tensors with two positions are the core of attention.
def has_two_positions(letters: Letters, time: str) -> bool:
    return bool(time) and sum(axis_of(letter) == time for letter in letters) > 1


# ------------------------------------------------------------------------------------------------------------- memory


# Counts the bytes of each value that is kept for the backward pass, `element` for a number and 1 for that of a mask.
# `selective` recomputation drops tensors with two positions, the core of attention; `full` keeps of a block only its input.
# Raises EinformerError E601, E607.
def count_activations(
    spec: Spec,
    name: str,
    sizes: Sizes[N],
    element: N | int,
    recompute: Recompute = "none",
) -> tuple[Activation[N], ...]:
    time = derive(spec, name).time
    sizes = replace(sizes, time=time)
    return tuple(
        _count_activation(saved, value, inner, turns, element)
        for saved in find_saved(spec, name)
        for value in saved.values(sizes.estimate)
        if _is_saved(saved, value, recompute, time)
        for turns, inner in sizes.kinds(value.turns, tuple(sizes.list_reaches(value.letters)))
    )


def _is_saved(saved: Saved, value: SavedValue, recompute: Recompute, time: str) -> bool:
    if saved.what == "input of a block" or recompute == "full":
        return recompute == "full" and (saved.what == "input of a block" or not any(turns.letters for turns in value.turns))
    return recompute == "none" or not has_two_positions(value.letters, time)


def _count_activation(
    saved: Saved, value: SavedValue, sizes: Sizes[N], turns: tuple[N, ...], element: N | int
) -> Activation[N]:
    lengths: list[N] = _list_lengths(sizes, sorted(value.letters), value.chosen)
    whole: N = product((*lengths, 1 if saved.what == "mask" else element))
    text = saved.equation.span.text if saved.equation else ""
    size = sizes.share(whole, value.letters, value.value, value.read)
    return Activation(saved.path, saved.layer, text, "".join(sorted(value.letters)), saved.what, size, turns)


def count_on_one_device(counts: Iterable[WeightCount[N]], sizes: Sizes[N]) -> N:
    return total(sizes.share(count.total, count.letters) for count in counts if count.trained)


_STAGES = {"parameters": 3, "gradients": 2}  # of ZeRO; what belongs to the optimiser is shared from the first on


# Counts the bytes of a training step on one device; ZeRO of stage `zero` shares between so many data-parallel `ranks`.
def count_training(
    counts: Iterable[WeightCount[N]],
    kept: Iterable[Activation[N]],
    logits: N | int,
    sizes: Sizes[N],
    precision: Precision,
    zero: int = 0,
    ranks: N | int = 1,
) -> Memory[N]:
    held, state = count_on_one_device(counts, sizes), {}
    for component in fields(Precision)[2:8]:
        whole = product((held, getattr(precision, component.name)))
        state[component.name] = sizes.divide(whole, ranks) if zero >= _STAGES.get(component.name, 1) else whole
    return Memory(**state, activations=sum_counts(kept), logits=product((logits,)))


# -------------------------------------------------------------------------------------------------------------- caches

BYTES = {"float64": 8, "float32": 4, "bfloat16": 2, "float16": 2}
_TOKEN = 8  # bytes, whatever the weights are kept in


# The bytes of a number in a precision. Raises EinformerError E605.
def count_element(precision: object) -> int:
    return find_row(BYTES, "precision", find_dtype(precision))


# Counts the bytes that decoding keeps along the axis `time` of the sizes, a number in `element` bytes. What layers share is
# there once. Raises EinformerError E607.
def count_cache(entries: Iterable[Entry[Any]], sizes: Sizes[N], element: Any) -> CacheBytes[N]:
    own = [entry for entry in entries if not entry.source]
    held = list[N]()
    for entry in own:
        numbers = () if entry.back is None or isinstance(entry.back, int) else (entry.back,)
        for turns, inner in sizes.kinds(_list_turns(entry), numbers):
            rows = map(inner.length, sorted(entry.rows))
            whole: N = product((*turns, _count_position(entry, inner, element), *rows, count_positions(entry, inner)))
            held.append(inner.share(whole, {*entry.letters, sizes.time}))
    return CacheBytes(count_per_token(own, sizes, element), total(held))


# Counts the bytes of a further position of one row, until windows are full. Raises EinformerError E607.
def count_per_token(entries: Iterable[Entry[Any]], sizes: Sizes[N], element: Any) -> N:
    growing = (entry for entry in entries if entry.kind == "visible" and not entry.source)
    return total(product((*map(sizes.turns, _list_turns(e)), _count_position(e, sizes, element))) for e in growing)


def _list_turns(entry: Entry[Any]) -> tuple[TurnCount, ...]:
    return tuple(turns_of(site.loops, site.cases) for site in entry.sites)


# The bytes of one position of one row.
def _count_position(entry: Entry[Any], sizes: Sizes[N], element: Any) -> N:
    lengths = (sizes.length(letter) for letter in entry.letters if letter not in entry.rows)
    return cast("N", product((_TOKEN if entry.whole else element, *lengths)))


# A tensor that is read at s' keeps the position s too.
def count_positions(entry: Entry[Any], sizes: Sizes[N]) -> Any:
    length, back = sizes.length(sizes.time), entry.back
    if back is None:
        return length
    back = back if isinstance(back, int) else sizes.value(back)
    return sizes.smallest((length, back + 1)) if entry.kind == "visible" else back
