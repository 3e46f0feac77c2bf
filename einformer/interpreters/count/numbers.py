"""Counts parameters and FLOPs once the sizes are bound: whole numbers of Python, exact at any size."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import product

from einformer.errors import fail, find_row
from einformer.interpreters.count import cached as cached_
from einformer.interpreters.count import memory, rules
from einformer.interpreters.count.bands import count_pairs
from einformer.interpreters.count.conventions import DEFAULT, Convention
from einformer.interpreters.count.derived import derive
from einformer.interpreters.count.kept import keeps
from einformer.interpreters.count.memory import Activation, Memory
from einformer.interpreters.count.precisions import Precision
from einformer.interpreters.count.rules import EquationCount, Recompute, WeightCount
from einformer.language.calls import axis_of
from einformer.language.sizes import Legend, Value
from einformer.language.tree import Expression, Index, Layer, Spec
from einformer.language.walk import subexpressions
from einformer.program.cache import Entry
from einformer.program.needs import Bound
from einformer.program.orders import estimate_size
from einformer.program.turns import Site, Turns


def count_weights(spec: Spec, name: str, legend: Legend) -> tuple[WeightCount[int], ...]:
    """The parameters of each weight of the layer or model `name`, and the numbers in its buffers. Raises EinformerError E601.

    Optional weights are there unless the spec is without them.
    """
    return rules.count_weights(derive(spec, name), Numbers(legend))


def count_flops(
    spec: Spec, name: str, legend: Legend, convention: Convention = DEFAULT, cached: int = 0
) -> tuple[EquationCount[int], ...]:
    """The FLOPs of each equation of the layer or model `name`, by a convention.

    All sizes are bound, those of the inputs too; so many positions stand before them in a cache. Raises EinformerError E601.
    """
    derived = derive(spec, name)
    return rules.count_equations(derived, Numbers(legend, derived.time, cached), convention)


def count_parameters(counts: Iterable[WeightCount[int]]) -> int:
    """The trained parameters in all: a tie counts once, buffers do not."""
    return sum_counts(count for count in counts if count.trained)


def break_down(counts: Iterable[WeightCount[int]]) -> dict[str, int]:
    """The parameters: in all, of embeddings and of the rest, and those that compute for one token.

    An embedding has a row for each token or position; a head that is not tied is one (Kaplan et al. 2020 leave out both).
    """
    trained = [count for count in counts if count.trained]
    embedding = sum(count.total for count in trained if count.embedding)
    active = sum(count.times * count.active for count in trained)
    whole = sum_counts(trained)
    return {"total": whole, "embedding": embedding, "non_embedding": whole - embedding, "active": active}


def count_activations(
    spec: Spec,
    name: str,
    legend: Legend,
    element: int,
    recompute: Recompute = "none",
    shards: Mapping[str, int] | None = None,
) -> tuple[Activation[int], ...]:
    """The bytes of what each equation keeps for the backward pass, `element` for a number. Raises EinformerError E601."""
    derived = derive(spec, name)
    return memory.count_activations(*keeps(spec, name), derived, Numbers(legend, derived.time), element, recompute, shards)


def count_cache(entries: Iterable[Entry[int]], legend: Legend, model: Layer, dtype: str) -> cached_.CacheBytes[int]:
    """The bytes of what decoding keeps of a causal model. Raises EinformerError E605."""
    assert model.time is not None
    return cached_.count_cache(entries, model.time.letter, Numbers(legend), find_row(cached_.BYTES, "dtype", dtype))


def count_training(
    spec: Spec,
    name: str,
    legend: Legend,
    precision: Precision,
    recompute: Recompute = "none",
    shards: Mapping[str, int] | None = None,
    zero: int = 0,
    ranks: int = 1,
) -> Memory[int]:
    """The bytes of a training step on one device; logits are kept in float32 for the loss. Raises EinformerError E601."""
    derived = derive(spec, name)
    sizes = Numbers(legend, derived.time)
    _check_shares(sizes, shards or {}, zero, ranks)
    kept = count_activations(spec, name, legend, precision.element, recompute, shards)
    logits = 4 * math.prod(map(sizes.length, derived.logits)) if derived.logits else 0
    return memory.count_training(count_weights(spec, name, legend), kept, logits, sizes, precision, shards, zero, ranks)


def _check_shares(sizes: Numbers, shards: Mapping[str, int], zero: int, ranks: int) -> None:
    """Axes are shared in equal parts. Raises EinformerError E605."""
    if zero not in range(4):
        raise fail("E605", f"there is no stage {zero} of ZeRO", fix="0, 1, 2 or 3")
    for what, count in (*shards.items(), ("ranks", ranks)):
        if not isinstance(count, int) or count < 1:
            raise fail("E605", f"`{what}` cannot be shared between {count} devices", fix="a whole number, 1 or more")
    for shared, devices in shards.items():
        for letter in shared:
            if letter not in sizes.legend.axes:
                names = ", ".join(f"`{axis}`" for axis in sizes.legend.axes)
                raise fail("E605", f"`{letter}` in `{shared}` is no axis", fix=f"letters among {names}")
            if sizes.length(letter) % devices:
                message = f"{devices} devices cannot share the axis `{letter}` of {sizes.length(letter)} in equal parts"
                raise fail(
                    "E605", message, sizes.legend.axes[letter].span, [sizes.legend.describe(letter)], "a number that divides it"
                )


def sum_counts(counts: Iterable[WeightCount[int] | EquationCount[int]]) -> int:
    """The sum of all counts."""
    return sum(count.total for count in counts)


@dataclass(slots=True)
class Numbers:
    """Sizes as numbers; of the axis `time` so many positions are `cached`. `at` are numbers of turns."""

    legend: Legend
    time: str = ""
    cached: int = 0
    at: Mapping[str, int] = field(default_factory=dict)
    lengths: dict[str, int] = field(default_factory=dict)

    def typical(self, letter: str) -> int:
        """The size of an axis as it decides in which order tensors are contracted; after a cache comes one position."""
        return estimate_size(self.legend, letter, self.time if self.cached else "")

    def length(self, letter: str) -> int:
        """The size of the axis that an index runs over: of the positions that are computed, or of all that are visible."""
        if letter not in self.lengths:
            axis = axis_of(letter)
            self.lengths[letter] = self.legend.length(axis) + (self.cached if axis == self.time and letter != axis else 0)
        return self.lengths[letter]

    def chosen(self, letter: str, count: Expression) -> int:
        """As many as there are, where more are asked for."""
        return min(int(self.value(count)), self.length(letter))

    def value(self, e: Expression) -> Value:
        """A number that the text writes."""
        return self.legend.number(e, self.at)

    def smallest(self, numbers: Iterable[Value]) -> Value:
        """Of some numbers."""
        return min(numbers)

    def largest(self, numbers: Iterable[Value]) -> Value:
        """Of some numbers."""
        return max(numbers)

    def divided(self, number: int, by: int) -> int:
        """A part of a number that it divides."""
        return number // by

    def pairs(self, later: str, earlier: str, bounds: tuple[Bound, ...]) -> int:
        """Twice the number of pairs of two positions that keep to some bounds."""
        before = self.length(earlier) - self.length(later)
        least = [self.value(bound.least) for bound in bounds if bound.later == later]
        most = [-self.value(bound.least) for bound in bounds if bound.earlier == later]
        return int(count_pairs(self.length(later), before, max(least, default=None), min(most, default=None), min))

    def kinds(self, turns: tuple[Turns, ...], numbers: tuple[Expression, ...]) -> Iterator[tuple[tuple[int, ...], Numbers]]:
        """The turns in which these numbers are the same; one by one only where a number depends on them."""
        letters = {x.letter for e in numbers for x in subexpressions(e) if isinstance(x, Index)}
        deciding = [k for k, own in enumerate(turns) if letters & set(own.letters)]
        if not deciding:
            yield tuple(map(self.turns, turns)), self
            return
        (place,) = deciding
        kinds: dict[tuple[Value, ...], list[Numbers]] = {}
        for taken in sorted({taken for site in turns[place].sites for taken in self.taken(turns[place].letters, site)}):
            inner = replace(self, at=dict(zip(turns[place].letters, taken, strict=True)))
            kinds.setdefault(tuple(map(inner.value, numbers)), []).append(inner)
        for same in kinds.values():
            yield tuple(len(same) if k == place else self.turns(own) for k, own in enumerate(turns)), same[0]

    def turns(self, turns: Turns) -> int:
        """How many different numbers the letters of loops take over all sites; one by one only where a `where` asks."""
        if any(site.cases for site in turns.sites) or (len(turns.sites) > 1 and len(turns.letters) > 1):
            return len({taken for site in turns.sites for taken in self.taken(turns.letters, site)})
        return max(self.whole(turns.letters, site) for site in turns.sites)

    def whole(self, letters: tuple[str, ...], site: Site) -> int:
        """The same for a site that exists in every turn."""
        counts = {letter: self.count(count) for letter, count in site.loops}
        return math.prod(counts[letter] for letter in letters) if all(counts.values()) else 0

    def taken(self, letters: tuple[str, ...], site: Site) -> Iterator[tuple[int, ...]]:
        """The numbers of these letters in each turn in which a site exists."""
        names = [letter for letter, _ in site.loops]
        for numbers in product(*(range(self.count(count)) for _, count in site.loops)):
            position = dict(zip(names, numbers, strict=True))
            if all(bool(self.legend.number(case.condition, position)) == case.holds for case in site.cases):
                yield tuple(position[letter] for letter in letters)

    def count(self, e: Expression) -> int:
        """How often a loop turns."""
        return int(self.legend.number(e))
