"""Counts the pairs of positions that a mask allows, in closed form, over anything that adds and multiplies."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def count_pairs(length: Any, before: Any, least: Any | None, most: Any | None, smaller: Callable[[Any, Any], Any]) -> Any:
    """Twice the number of pairs (s, s') with `least <= s - s' <= most`, for `length` positions s after `before` others.

    Where nothing keeps s' from standing after s, these are all pairs: a mask that is not causal saves nothing here.

    >>> causal, window = (count_pairs(6, 0, 0, most, min) for most in (None, 2))
    >>> causal // 2, window // 2  # 1 + 2 + 3 + 4 + 5 + 6, and 1 + 2 + 3 + 3 + 3 + 3
    (21, 15)
    """
    everything = length * (before + length) * 2
    if least is None or (isinstance(least, int) and least < 0):
        return everything
    near = _count_between(length, before, most, smaller)
    return near if least == 0 else near - _count_between(length, before, least - 1, smaller)


def _count_between(length: Any, before: Any, most: Any | None, smaller: Callable[[Any, Any], Any]) -> Any:
    """Twice the number of pairs with `0 <= s - s' <= most`."""
    near = _count_near(before + length, most, smaller)
    return near if before == 0 else near - _count_near(before, most, smaller)


def _count_near(length: Any, most: Any | None, smaller: Callable[[Any, Any], Any]) -> Any:
    """Twice the sum of `min(s + 1, most + 1)` over as many s: the pairs that are at most so far apart."""
    width = length if most is None else smaller(length, most + 1)
    return width * (2 * length - width + 1)
