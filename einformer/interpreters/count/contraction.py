"""In which order are the tensors of a product best contracted, two at a time?"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Set
from dataclasses import dataclass

from einformer.notation.tree import Expression
from einformer.program.choices import Bound, Choices, chosen

Letters = frozenset[str]

MOST = 8  # operands whose orders are all compared; more are taken in the order of the text


@dataclass(frozen=True, slots=True)
class Chosen:
    """How many numbers of a letter a `top` chooses (R10), others for each number of the letters `along`."""

    letter: str
    count: Expression
    along: Letters = frozenset()


@dataclass(frozen=True, slots=True)
class Contraction:
    """A product of tensors under a sum: the letters of each factor that is summed, and the letters summed.

    Of some letters only so many numbers are `chosen`, and of two positions only those pairs count that keep to the `bounds`.
    `trained` says which factors have a gradient.
    """

    operands: tuple[Letters, ...]
    summed: Letters
    chosen: tuple[Chosen, ...] = ()
    bounds: tuple[Bound, ...] = ()
    trained: tuple[bool, ...] = ()


@dataclass(frozen=True, slots=True)
class Step:
    """A contraction of two tensors: the letters over which it runs, which of their numbers, and how many have a gradient."""

    left: Letters
    right: Letters
    output: Letters
    chosen: tuple[Chosen, ...] = ()
    bounds: tuple[Bound, ...] = ()
    gradients: int = 2

    @property
    def letters(self) -> Letters:
        """All over which it runs."""
        return self.left | self.right


@dataclass(frozen=True, slots=True)
class _Plan:
    """The best way to multiply some of the operands: its cost, and the contractions in it."""

    cost: int = 0
    steps: tuple[Step, ...] = ()


def best_order(contraction: Contraction, size: Callable[[Step], int]) -> tuple[Step, ...]:
    """The contractions of two tensors each, in the order with the fewest products; `size` is their number in one.

    Ties go to the order of the text. A step that sums nothing, or chosen letters only (combining experts, R12), is
    element-wise: it costs nothing and is not among them.

    >>> import math
    >>> scores = Contraction((frozenset("sn"), frozenset("rn"), frozenset("tr")), summed=frozenset("nr"))
    >>> sizes = {"s": 1, "t": 9, "n": 2, "r": 3}
    >>> [sorted(step.letters) for step in best_order(scores, lambda step: math.prod(map(sizes.get, step.letters)))]
    [['n', 'r', 's'], ['r', 's', 't']]
    """
    if len(contraction.operands) == 2:
        return _only(contraction)
    orders = _Orders(contraction, size)
    everything = (1 << len(contraction.operands)) - 1
    if len(contraction.operands) <= MOST:
        return orders.best(everything).steps
    plan = _Plan()
    for k in range(1, len(contraction.operands)):
        plan = orders.joined(plan, (1 << k) - 1, _Plan(), 1 << k)
    return plan.steps


@functools.lru_cache(maxsize=1024)
def _only(contraction: Contraction) -> tuple[Step, ...]:
    """The contraction of two tensors, where sizes decide nothing."""
    return _Orders(contraction, lambda step: 0).best(0b11).steps


class _Orders:
    """Sets of operands are bit masks: the best plan of each is found from those of its parts."""

    def __init__(self, contraction: Contraction, size: Callable[[Step], int]) -> None:
        self.operands, self.summed, self.contraction = contraction.operands, contraction.summed, contraction
        self.trained = sum(1 << k for k, has in enumerate(contraction.trained) if has)
        self.size = size
        self.everything = (1 << len(self.operands)) - 1
        self.plans: dict[int, _Plan] = {}

    def best(self, mask: int) -> _Plan:
        if mask & (mask - 1) == 0:
            return _Plan()
        if mask not in self.plans:
            plans = [self.joined(self.best(part), part, self.best(mask ^ part), mask ^ part) for part in _halves(mask)]
            self.plans[mask] = min(plans, key=lambda plan: plan.cost)
        return self.plans[mask]

    def joined(self, left: _Plan, left_mask: int, right: _Plan, right_mask: int) -> _Plan:
        """Two parts multiplied: every letter is summed as soon as nothing outside has it."""
        step = self.step(left_mask, right_mask)
        contracts = not step.letters - step.output <= {each.letter for each in step.chosen}
        steps = (*left.steps, *right.steps)
        if not contracts:
            return _Plan(left.cost + right.cost, steps)
        return _Plan(left.cost + right.cost + self.size(step), (*steps, step))

    def step(self, left_mask: int, right_mask: int) -> Step:
        """What it takes to multiply two parts."""
        left, right = self.left_over(left_mask), self.left_over(right_mask)
        return Step(
            left,
            right,
            self.left_over(left_mask | right_mask),
            tuple(each for each in self.contraction.chosen if {each.letter, *each.along} <= left | right),
            tuple(bound for bound in self.contraction.bounds if bound.places <= left | right),
            sum(bool(self.trained & mask) for mask in (left_mask, right_mask)),
        )

    def left_over(self, mask: int) -> Letters:
        """The letters of the product of some operands: those wanted in the end, or that an operand outside has."""
        outside = self.union(self.everything ^ mask)
        return frozenset(letter for letter in self.union(mask) if letter not in self.summed or letter in outside)

    def union(self, mask: int) -> Set[str]:
        return {letter for k, letters in enumerate(self.operands) if mask >> k & 1 for letter in letters}


def _halves(mask: int) -> Iterator[int]:
    """Each way to part a set in two, once, as the part with its first member; those that split off late members first."""
    rest = other = mask & (mask - 1)
    parts = []
    while other:
        parts.append((-(other & -other), other.bit_count(), mask ^ other))
        other = (other - 1) & rest
    yield from (part for _, _, part in sorted(parts))


def chosen_of(choices: Choices, letters: Letters) -> tuple[Chosen, ...]:
    """The choices of these letters, for each letter one."""
    found = {each.place: Chosen(each.place, each.count, each.along) for each in chosen(choices, letters)}
    return tuple(found[letter] for letter in sorted(found))


def bounds_of(choices: Choices, letters: Letters) -> tuple[Bound, ...]:
    """The bounds between these letters."""
    found = {bound for bound in choices if isinstance(bound, Bound) and bound.places <= letters}
    return tuple(sorted(found, key=repr))
