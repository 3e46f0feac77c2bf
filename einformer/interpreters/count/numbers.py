"""Puts numbers for sizes: whole numbers of Python, exact at any size."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Any

from einformer.errors import Span, fail
from einformer.interpreters.count import rules
from einformer.interpreters.count.conventions import Precision
from einformer.interpreters.count.gradients import Gradients, ReachedFactor, Turn
from einformer.interpreters.count.inventory import Derived, Placement, derive, find_placement
from einformer.interpreters.count.rules import Memory, Recompute, Sizes
from einformer.language.calls import axis_of
from einformer.language.sizes import Legend, Value
from einformer.language.tree import Expression, Spec
from einformer.language.walk import letters_in
from einformer.program import operations as op
from einformer.program.inequalities import Facts, Inequality, Linear, connected, evaluate, plain
from einformer.program.needs import Region
from einformer.program.sharding import WHOLE, Sharding, Window
from einformer.program.turns import Site, TurnCount


# Counts the bytes of a training step on one device; logits are kept in float32 for the loss. ZeRO of stage `zero` shares state
# between the devices that share the batch. Activations are `kept` of so many microbatches. The last stage of a pipeline has the
# logits of the `whole` model. Raises EinformerError E601, E605.
def count_training(
    spec: Spec,
    name: str,
    legend: Legend,
    precision: Precision,
    recompute: Recompute = "none",
    sharding: Sharding = WHOLE,
    zero: int = 0,
    kept: int = 1,
    whole: Spec | None = None,
) -> Memory[int]:
    if zero not in range(4):
        raise fail("E605", f"there is no stage {zero} of ZeRO", fix="0, 1, 2 or 3")
    sizes = Numbers.of_rank(spec, name, legend, sharding)
    activations = rules.count_activations(spec, name, sizes, precision.element, recompute)
    weights, logits = rules.count_weights(spec, name, sizes), count_logits(whole or spec, name, sizes)
    memory = rules.count_training(weights, activations, logits, sizes, precision, zero, sharding.replicas)
    travelling = precision.element * sizes.count_travelling()
    return replace(memory, activations=kept * memory.activations, travelling=travelling)


# Returns of how many microbatches a stage of a pipeline keeps activations at once, in the schedule 1F1B: at most as many as
# there are stages from it on (Narayanan et al. 2021).
def count_kept(microbatches: int, stages: int, number: int) -> int:
    return min(microbatches, stages - number)


# Counts the bytes of the logits of a model in float32; 0 for one without. Raises EinformerError E601.
def count_logits(spec: Spec, name: str, sizes: Numbers) -> int:
    letters = derive(spec, name).logits
    return sizes.share(4 * math.prod(map(sizes.length, letters)), letters) if letters else 0


@dataclass(slots=True)
class Numbers(Sizes[int]):
    """Sizes as numbers. `numbers` are those of turns. Windows are those of the rank at a place, or of that which reads most."""

    numbers: Mapping[str, int] = field(default_factory=dict)
    windows: Mapping[str, Window] = field(default_factory=dict)
    ranks: Mapping[str, int] = field(default_factory=dict)  # of each axis of the mesh
    place: Mapping[str, int] | None = None
    pieces: Mapping[str, tuple[int, int]] = field(default_factory=dict)  # of a split letter: of how many ranks, how many in all
    round: tuple[tuple[int, tuple[op.Value, ...]], ...] = ()  # what attentions pass on, to so many ranks
    turn: Turn = ()  # the same, loop by loop
    gradients: dict[object, Gradients] = field(default_factory=dict)
    walks = True
    smallest = staticmethod(min)
    largest = staticmethod(max)
    divide = staticmethod(lambda number, by: int(number // by))
    round_up = staticmethod(lambda number, by: -(-number // by))

    # Returns the sizes of what one rank of a mesh has. Raises EinformerError E741, E743, E744.
    @classmethod
    def of_rank(cls, spec: Spec, name: str, legend: Legend, sharding: Sharding) -> Numbers:
        return cls(legend).on_mesh(find_placement(spec, name, legend, sharding), sharding)

    def on_mesh(self, placement: Placement, sharding: Sharding) -> Numbers:
        own, windows, shares, round_ = placement.own, placement.windows, placement.shares, placement.round
        ranks = {letter: sharding.size(axis) for letter, axis in sharding.places}
        pieces = {letter: (count, sharding.count_parts(letter, sharding.axis(letter))) for letter, count in ranks.items()}
        mesh = dict(sharding.mesh)
        return replace(self, own=own, windows=windows, shares=shares, round=round_, ranks=mesh, pieces=pieces)

    def size(self, axis: str) -> int:
        return self.legend.length(axis)

    def length(self, letter: str) -> int:
        return self.count_near(self.windows[letter]) if letter in self.windows else Sizes.length(self, letter)

    # The numbers of a rank, and those before and after them that there are.
    def count_near(self, window: Window) -> int:
        count = self.ranks[window.mesh]
        size = Sizes.length(self, window.letter) // count
        before, after = (max(self.value(e), 0) for e in (window.before, window.after))
        ranks = range(count) if self.place is None else [self.place[window.mesh]]
        sides = ((min(before, rank * size), min(after, (count - 1 - rank) * size)) for rank in ranks)
        return max(size + sum(map(math.ceil, some)) for some in sides)

    # Backward a rank holds at once, beside its own keys and values, those at hand and those that come, and as many gradients
    # that go and come: four blocks, three of two ranks.
    def count_travelling(self) -> int:
        blocks = (
            (min(count + 1, 4) if count > 1 else 0)
            * sum(self.share(math.prod(map(self.length, side.axes)), side.axes, side) for side in sides)
            for count, sides in self.round
        )
        return max(blocks, default=0)

    # Of ranks that compute with others as far before them the one that has most: as often as all of these together.
    def count_band(self, later: str, earlier: str, least: int | None, most: int | None) -> int:
        if later not in self.pieces or least is None or least < 0:
            return Sizes.count_band(self, later, earlier, least, most)
        ranks, pieces = self.pieces[later]
        size, before = self.count_all(later) // pieces, self.count_all(earlier) - self.count_all(later)
        starts = (before + place * size for place in range(pieces))
        by_piece: list[int] = [rules.count_pairs(size, start, least, most, min) for start in starts]
        return ranks * max(by_piece[rank] + (by_piece[-1 - rank] if pieces > ranks else 0) for rank in range(ranks))

    def list_reaches(self, letters: Collection[str]) -> Iterator[Expression]:
        for window in (self.windows[letter] for letter in self.windows if letter in letters):
            yield from (window.before, window.after)

    def chosen(self, letter: str, count: Expression) -> int:
        return min(int(self.value(count)), self.length(letter))

    def value(self, e: Expression) -> Value:
        number = self.legend.number(e, self.numbers)
        return int(number) if math.isfinite(number) and number == int(number) else number

    # Yields the kinds of turns, which are gone through one by one only where a number depends on them, or for `each`.
    def kinds(
        self, turns: tuple[TurnCount, ...], numbers: tuple[Expression, ...], each: bool = False
    ) -> Iterator[tuple[tuple[int, ...], Numbers]]:
        letters = letters_in(*numbers)
        deciding = [own for own in turns if each or letters & set(own.letters)]
        kinds: dict[tuple[object, ...], list[Numbers]] = {}
        for chosen in product(*map(self._list_kinds, deciding)):
            turn = tuple(one for some in chosen for one in some)
            inner = replace(self, numbers=dict(turn), turn=turn)
            kinds.setdefault((turn if each else (), *map(inner.value, numbers)), []).append(inner)
        rest = tuple(self.turns(own) for own in turns if own not in deciding)
        for same in kinds.values():
            yield ((len(same), *rest) if deciding else rest), same[0]

    def moves(self, derived: Derived, factor: ReachedFactor) -> bool:
        if derived.gradients not in self.gradients:
            self.gradients[derived.gradients] = derived.gradients(self.legend)
        return self.gradients[derived.gradients].find(factor, self.turn)

    # The numbers of letters in each of some turns.
    def _list_kinds(self, turns: TurnCount) -> list[tuple[tuple[str, int], ...]]:
        some = sorted({some for site in turns.sites for some in self._list_numbers(turns.letters, site)})
        return [tuple(zip(turns.letters, numbers, strict=True)) for numbers in some]

    def walk(self, region: Region, at: Span) -> int:
        turn, facts = {x: Linear.number(number) for x, number in self.numbers.items()}, Facts(self.legend, "")
        cases = [[facts.numbered(inequality.at(turn)) for inequality in case] for case in region.cases]
        others = {x for case in cases for i in case for x in i.linear.letters()}.difference(region.letters)
        ranges = {x: self._list_numbers_of(x) for x in (*region.letters, *sorted(others))}
        return 2 * _walk(cases, ranges, len(others), self.legend)

    # Of positions those that are computed, or all that are visible.
    def _list_numbers_of(self, letter: str) -> range:
        own = letter if letter == self.time else plain(letter).removesuffix("'") + "'" * (axis_of(letter) == self.time)
        length = self.count_all(own)
        return range(self.cached, self.cached + length) if letter == self.time else range(length)

    # Turns are counted one by one only where a `where` asks.
    def turns(self, turns: TurnCount) -> int:
        if any(site.cases for site in turns.sites) or (len(turns.sites) > 1 and len(turns.letters) > 1):
            return len({some for site in turns.sites for some in self._list_numbers(turns.letters, site)})
        return max(self._count_always(turns.letters, site) for site in turns.sites)

    # The same for a site that exists in every turn.
    def _count_always(self, letters: tuple[str, ...], site: Site) -> int:
        counts = {letter: self._count(count) for letter, count in site.loops}
        return math.prod(counts[letter] for letter in letters) if all(counts.values()) else 0

    # The numbers of these letters in each turn in which a site exists.
    def _list_numbers(self, letters: tuple[str, ...], site: Site) -> Iterator[tuple[int, ...]]:
        names = [letter for letter, _ in site.loops]
        for numbers in product(*(range(self._count(count)) for _, count in site.loops)):
            by_letter = dict(zip(names, numbers, strict=True))
            if all(bool(self.legend.number(case.condition, by_letter)) == case.holds for case in site.cases):
                yield tuple(by_letter[letter] for letter in letters)

    def _count(self, e: Expression) -> int:
        return int(self.legend.number(e))


# ------------------------------------------------------------------------------------------------------------ walking


# Counts the numbers of letters for which one of the cases holds, with some numbers of the last `others` letters.
def _walk(cases: list[list[Inequality]], ranges: Mapping[str, range], others: int, legend: Legend) -> int:
    import numpy as np

    (first, numbers), *rest = ranges.items()
    grid = dict(zip([letter for letter, _ in rest], np.ix_(*(own for _, own in rest)), strict=True))
    last = tuple(range(len(rest) - others, len(rest)))
    apart = [{connected(frozenset(case), inequality) for inequality in case} for case in cases]
    allowed = 0
    for number in numbers:
        place, holding = (
            {**grid, first: number},
            np.zeros([len(own) for _, own in rest[: len(rest) - others]] + [1] * others, bool),
        )
        for parts in apart:  # each for some numbers of its own
            together = (
                math.prod((_holds(i, place, legend) for i in part), start=np.ones((1,) * len(rest), bool)) for part in parts
            )
            holding |= math.prod((part.any(last, keepdims=True) for part in together), start=np.True_)
        allowed += int(holding.sum())
    return allowed


def _holds(inequality: Inequality, numbers: Mapping[str, Any], legend: Legend) -> Any:
    value, _ = evaluate(inequality.linear, numbers, legend)
    return value > 0 if inequality.strict else value >= 0
