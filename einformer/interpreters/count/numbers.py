"""How many parameters and FLOPs are there once the sizes are bound? Whole numbers of Python, exact at any size."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import product

from einformer.interpreters.count import rules
from einformer.interpreters.count.rules import EquationCount, Site, Turns, WeightCount
from einformer.notation.calls import axis_of
from einformer.notation.sizes import Legend
from einformer.notation.tree import Expression, Spec


def weights(spec: Spec, name: str, legend: Legend) -> tuple[WeightCount[int], ...]:
    """The parameters of each weight of the layer or model `name`, and the numbers in its buffers. Raises EinformerError E601.

    Optional weights are there unless the spec is without them.
    """
    return rules.weights(rules.derive(spec, name), Numbers(legend))


def flops(spec: Spec, name: str, legend: Legend) -> tuple[EquationCount[int], ...]:
    """The forward FLOPs of the products of each equation of the layer or model `name`.

    All sizes are bound, those of the inputs too. Every position reads every other (full S × S), logits are computed at
    every position. Raises EinformerError E601.
    """
    return rules.equations(rules.derive(spec, name), Numbers(legend))


def parameters(counts: Iterable[WeightCount[int]]) -> int:
    """The trained parameters in all: a tie counts once, buffers do not."""
    return total(count for count in counts if count.trained)


def total(counts: Iterable[WeightCount[int] | EquationCount[int]]) -> int:
    """The sum of all counts."""
    return sum(count.total for count in counts)


@dataclass(slots=True)
class Numbers:
    """Sizes as numbers."""

    legend: Legend
    lengths: dict[str, int] = field(default_factory=dict)

    @property
    def deciding(self) -> Numbers:
        """These numbers decide themselves."""
        return self

    def length(self, letter: str) -> int:
        """The size of the axis that an index runs over."""
        axis = axis_of(letter)
        if axis not in self.lengths:
            self.lengths[axis] = self.legend.length(axis)
        return self.lengths[axis]

    def number(self, e: Expression) -> int:
        """A whole number that the text writes."""
        return int(self.legend.number(e))

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
            at = dict(zip(names, numbers, strict=True))
            if all(bool(self.legend.number(case.condition, at)) == case.holds for case in site.cases):
                yield tuple(at[letter] for letter in letters)

    def count(self, e: Expression) -> int:
        """How often a loop turns."""
        return int(self.legend.number(e))
