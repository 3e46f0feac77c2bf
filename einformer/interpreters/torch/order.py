"""Which two tensors of a product are contracted first, where there are more?"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence

from einformer.interpreters.torch.code import Dims

Letters = frozenset[str]
Pair = tuple[int, int]


def first(operands: Sequence[Dims], summed: set[str], size: Callable[[str], int]) -> Pair:
    """The places of the two with which the order of fewest products begins; of equal orders that of the text.

    >>> first(["sn", "rn", "tr"], {"n", "r"}, {"s": 9, "t": 9, "n": 2, "r": 3}.__getitem__)
    (1, 2)
    """
    best = min(_orders(tuple(map(frozenset, operands)), frozenset(summed), size), key=lambda order: order[0])
    return best[1]


def _orders(operands: tuple[Letters, ...], summed: Letters, size: Callable[[str], int]) -> Iterator[tuple[int, Pair]]:
    """Each pair that may be first, with the cost of the best that follows."""
    for one, other in itertools.combinations(range(len(operands)), 2):
        rest = tuple(letters for place, letters in enumerate(operands) if place not in (one, other))
        both = operands[one] | operands[other]
        left = frozenset(letter for letter in both if letter not in summed or any(letter in letters for letters in rest))
        after = min((cost for cost, _ in _orders((left, *rest), summed, size)), default=0)
        yield math.prod(map(size, both)) + after, (one, other)
