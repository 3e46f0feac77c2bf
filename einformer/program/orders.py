"""The order in which the factors of a product are contracted, two at a time: one choice, for counts and for emitted code."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from einformer.errors import EinformerError
from einformer.language.sizes import Legend

Letters = frozenset[str]
Pair = tuple[int, int]

MOST = 8  # factors whose orders are all compared; more are taken in the order of the text
MANY = 4096  # stands for a size that each call brings along


# Axes that inputs bring along count as large, and the `single` letter as 1: code is emitted before their sizes are known, so
# they do not decide its order.
def estimate_size(legend: Legend, letter: str, single: str = "") -> int:
    if letter == single:
        return 1
    axis = legend.axis(letter)
    try:
        return MANY if axis is None or legend.is_brought(axis.size) else legend.length(letter)
    except EinformerError:
        return MANY


def order_pairs(operands: Sequence[Letters], summed: Letters, size: Callable[[str], int]) -> tuple[Pair, ...]:
    """The two factors of each step, by number, in the order with the fewest multiplications; results are numbered on.

    Each letter is summed as soon as no other factor has it. Letters decide between equal orders, so that factors commute.

    >>> order_pairs([frozenset("sn"), frozenset("rn"), frozenset("tr")], frozenset("nr"), {"s": 9, "t": 9, "n": 2, "r": 3}.get)
    ((1, 2), (0, 3))
    """
    sizes = {letter: size(letter) for letter in frozenset[str]().union(*operands)} if len(operands) > 2 else {}
    return _order_pairs(tuple(operands), summed, tuple(sizes.items()))


@functools.lru_cache(maxsize=4096)
def _order_pairs(operands: tuple[Letters, ...], summed: Letters, sizes: tuple[tuple[str, int], ...]) -> tuple[Pair, ...]:
    if len(operands) < 3:
        return ((0, 1),)[: len(operands) - 1]
    if len(operands) > MOST:
        return ((0, 1), *((len(operands) + k, k + 2) for k in range(len(operands) - 2)))
    places = sorted(range(len(operands)), key=lambda place: sorted(operands[place]))
    plan = _Plans([operands[place] for place in places], summed, dict(sizes)).find_best((1 << len(operands)) - 1)
    numbers = {1 << k: place for k, place in enumerate(places)}
    for left, right in plan.steps:
        numbers[left | right] = len(numbers)
    return tuple((min(pair), max(pair)) for pair in ((numbers[left], numbers[right]) for left, right in plan.steps))


@dataclass(frozen=True, slots=True)
class _Plan:
    """The best way to multiply a set of factors: its cost, and the two sets that each step joins."""

    cost: int = 0
    steps: tuple[tuple[int, int], ...] = ()


class _Plans:
    """Sets of factors are bit masks; the best plan of a set is made of the best plans of its parts."""

    def __init__(self, operands: Sequence[Letters], summed: Letters, sizes: dict[str, int]) -> None:
        self.operands, self.summed, self.sizes = operands, summed, sizes
        self.plans: dict[int, _Plan] = {}

    def find_best(self, mask: int) -> _Plan:
        if mask & (mask - 1) == 0:
            return _Plan()
        if mask not in self.plans:
            self.plans[mask] = min((self.join(part, mask ^ part) for part in _walk_halves(mask)), key=lambda plan: plan.cost)
        return self.plans[mask]

    def join(self, left: int, right: int) -> _Plan:
        one, other = self.find_best(left), self.find_best(right)
        products = math.prod(self.sizes[letter] for letter in self.find_letters(left) | self.find_letters(right))
        return _Plan(one.cost + other.cost + products, (*one.steps, *other.steps, (left, right)))

    def find_letters(self, mask: int) -> Letters:
        inside, outside = self.unite(mask), self.unite(~mask)
        return frozenset(letter for letter in inside if letter not in self.summed or letter in outside)

    def unite(self, mask: int) -> Letters:
        return frozenset[str]().union(*(letters for k, letters in enumerate(self.operands) if mask >> k & 1))


# Each split comes once, as the part with the first member; splits of late members come first.
def _walk_halves(mask: int) -> Iterator[int]:
    rest = other = mask & (mask - 1)
    parts = []
    while other:
        parts.append((-(other & -other), other.bit_count(), mask ^ other))
        other = (other - 1) & rest
    yield from (part for _, _, part in sorted(parts))
