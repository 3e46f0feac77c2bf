"""Products of tensors under a sum, and the contractions of two tensors at a time that they take."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass, replace

from einformer.language.tree import Expression
from einformer.program.needs import Bound, Choice, Choices
from einformer.program.orders import Letters, Pair, order_pairs


@dataclass(frozen=True, slots=True)
class Chosen:
    """How many numbers of a letter a `top` chooses (R10), others for each number of the letters `along`."""

    letter: str
    count: Expression
    along: Letters = frozenset()


@dataclass(frozen=True, slots=True)
class Contraction:
    """A product of tensors under a sum: the letters of each factor, the letters summed, and which factors have a gradient.

    Of some letters only so many numbers are `chosen`, and of two positions only those pairs count that keep to the `bounds`.
    Of the letters `paired` the plan `fast` computes what is chosen alone; what is `fused` it leaves to a norm.
    """

    operands: tuple[Letters, ...]
    summed: Letters
    trained: tuple[bool, ...]
    chosen: tuple[Chosen, ...] = ()
    bounds: tuple[Bound, ...] = ()
    paired: Letters = frozenset()
    fused: bool = False


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


def steps(contraction: Contraction, size: Callable[[str], int]) -> tuple[Step, ...]:
    """The contractions of two tensors each, in the order of `orders.pairs`.

    A step that sums nothing, or chosen letters only (combining experts, R12), is element-wise and not among them.
    """
    return tuple(filter(_contracts, _steps(contraction, order_pairs(contraction.operands, contraction.summed, size))))


def _contracts(step: Step) -> bool:
    return not step.letters - step.output <= {each.letter for each in step.chosen}


@functools.lru_cache(maxsize=1024)
def _steps(contraction: Contraction, order: tuple[Pair, ...]) -> tuple[Step, ...]:
    """Every step of an order."""
    left = {k: (letters, has) for k, (letters, has) in enumerate(zip(contraction.operands, contraction.trained, strict=True))}
    found = []
    for number, taken in enumerate(order, len(contraction.operands)):
        (one, first), (other, second) = (left.pop(place) for place in taken)
        outside = frozenset[str]().union(*(letters for letters, _ in left.values()))
        step = _step(contraction, one - (contraction.summed - other - outside), other - (contraction.summed - one - outside))
        left[number] = (one | other) - (contraction.summed - outside), first or second
        found.append(replace(step, output=left[number][0], gradients=first + second))
    return tuple(found)


def _step(contraction: Contraction, one: Letters, other: Letters) -> Step:
    both = one | other
    chosen = tuple(each for each in contraction.chosen if {each.letter, *each.along} <= both)
    return Step(one, other, both, chosen, tuple(bound for bound in contraction.bounds if bound.letters <= both))


def chosen_of(choices: Choices, letters: Letters) -> tuple[Chosen, ...]:
    """The choices of these letters, for each letter one."""
    some = sorted((choice for choice in choices if isinstance(choice, Choice) and choice.letter in letters), key=repr)
    found = {each.letter: Chosen(each.letter, each.count, each.along) for each in some}
    return tuple(found[letter] for letter in sorted(found))


def bounds_of(choices: Choices, letters: Letters) -> tuple[Bound, ...]:
    """The bounds between these letters."""
    found = {bound for bound in choices if isinstance(bound, Bound) and bound.letters <= letters}
    return tuple(sorted(found, key=repr))
