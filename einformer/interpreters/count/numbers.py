"""Puts numbers for sizes: whole numbers of Python, exact at any size."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import product

from einformer.errors import fail
from einformer.interpreters.count import rules
from einformer.interpreters.count.conventions import Precision
from einformer.interpreters.count.derived import derive
from einformer.interpreters.count.rules import Memory, Recompute, Sizes
from einformer.language.sizes import Legend, Value
from einformer.language.tree import Expression, Index, Spec
from einformer.language.walk import subexpressions
from einformer.program.sharding import WHOLE, Sharding
from einformer.program.turns import Site, Turns


def count_training(
    spec: Spec,
    name: str,
    legend: Legend,
    precision: Precision,
    recompute: Recompute = "none",
    sharding: Sharding = WHOLE,
    zero: int = 0,
) -> Memory[int]:
    """Counts the bytes of a training step on one device; logits are kept in float32 for the loss.

    ZeRO of stage `zero` shares state between the devices that share the batch. Raises EinformerError E601, E605.
    """
    if zero not in range(4):
        raise fail("E605", f"there is no stage {zero} of ZeRO", fix="0, 1, 2 or 3")
    sizes = Numbers(legend, shares=sharding.shares)
    kept = rules.count_activations(spec, name, sizes, precision.element, recompute)
    weights, logits = rules.count_weights(spec, name, sizes), count_logits(spec, name, sizes)
    return rules.count_training(weights, kept, logits, sizes, precision, zero, sharding.replicas)


def count_logits(spec: Spec, name: str, sizes: Numbers) -> int:
    """Counts the bytes of the logits of a model in float32; 0 for one without. Raises EinformerError E601."""
    letters = derive(spec, name).logits
    return sizes.share(4 * math.prod(map(sizes.length, letters)), letters) if letters else 0


@dataclass(slots=True)
class Numbers(Sizes[int]):
    """Sizes as numbers. `numbers` are those of turns."""

    numbers: Mapping[str, int] = field(default_factory=dict)
    smallest = staticmethod(min)
    largest = staticmethod(max)
    divide = staticmethod(lambda number, by: int(number // by))

    def size(self, axis: str) -> int:
        """Returns the size of an axis. Raises EinformerError E601."""
        return self.legend.length(axis)

    def chosen(self, letter: str, count: Expression) -> int:
        """Returns how many are chosen: as many as there are, where more are asked for."""
        return min(int(self.value(count)), self.length(letter))

    def value(self, e: Expression) -> Value:
        """Returns a number that the text writes."""
        number = self.legend.number(e, self.numbers)
        return int(number) if math.isfinite(number) and number == int(number) else number

    def kinds(self, turns: tuple[Turns, ...], numbers: tuple[Expression, ...]) -> Iterator[tuple[tuple[int, ...], Numbers]]:
        """Yields the kinds of turns, which are gone through one by one only where a number depends on them."""
        letters = {x.letter for e in numbers for x in subexpressions(e) if isinstance(x, Index)}
        deciding = [k for k, own in enumerate(turns) if letters & set(own.letters)]
        if not deciding:
            yield tuple(map(self.turns, turns)), self
            return
        (place,) = deciding
        kinds: dict[tuple[Value, ...], list[Numbers]] = {}
        for some in sorted({some for site in turns[place].sites for some in self._list_numbers(turns[place].letters, site)}):
            inner = replace(self, numbers=dict(zip(turns[place].letters, some, strict=True)))
            kinds.setdefault(tuple(map(inner.value, numbers)), []).append(inner)
        for same in kinds.values():
            yield tuple(len(same) if k == place else self.turns(own) for k, own in enumerate(turns)), same[0]

    def turns(self, turns: Turns) -> int:
        """Returns how many turns these are, counted one by one only where a `where` asks."""
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
