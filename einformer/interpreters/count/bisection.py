"""Finds the largest size whose count stays within a limit, by bisection: counts grow with every size."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction

from einformer.errors import fail
from einformer.language.sizes import MAXIMUM_SIZE

_SHORT = ("K", "M", "G", "T", "P")
BYTES = {
    "B": 1,
    **{f"{prefix}B": 1000**power for power, prefix in enumerate(_SHORT, 1)},
    **{f"{prefix}iB": 1024**power for power, prefix in enumerate(_SHORT, 1)},
}
NUMBERS = {"": 1, "K": 10**3, "M": 10**6, "B": 10**9, "T": 10**12}
_QUANTITY = re.compile(r"\s*(?P<number>[0-9]+(?:\.[0-9]+)?)\s*(?P<unit>[A-Za-z]*)\s*")


def parse_quantity(text: str, units: Mapping[str, int]) -> int:
    """A number with a unit, rounded down; `k` and `K` are a thousand, `Ki` is 1024. Raises EinformerError E608.

    >>> parse_quantity("80GB", BYTES), parse_quantity("1.5 KiB", BYTES), parse_quantity("1.3B", NUMBERS)
    (80000000000, 1536, 1300000000)
    """
    match = _QUANTITY.fullmatch(text)
    unit = match["unit"].replace("k", "K") if match else ""
    if not match or unit not in units:
        names = ", ".join(unit for unit in units if unit)
        raise fail("E608", f"`{text}` is not a number with one of the units {names}", fix=f"`80{[*units][3]}`")
    if not 0 < (size := int(Fraction(match["number"]) * units[unit])) <= MAXIMUM_SIZE:
        raise fail("E608", f"`{text}` is nothing, or beyond {MAXIMUM_SIZE:.0e}", fix=f"`80{[*units][3]}`")
    return size


@dataclass(frozen=True, slots=True)
class Largest:
    """The largest size within a limit and its count, and the next size with its own, if there is one."""

    size: int
    count: int
    above: tuple[int, int] | None


def find_largest(count: Callable[[int], int], limit: int, step: int = 1, most: int = MAXIMUM_SIZE) -> Largest | None:
    """The largest multiple of `step`, up to `most`, whose count is at most `limit`; None where already the first exceeds it.

    `count` does not shrink as the size grows.

    >>> find_largest(lambda size: 3 * size + 1, limit=50, step=5)
    Largest(size=15, count=46, above=(20, 61))
    """
    within, beyond, last = 0, 1, most // step
    while beyond <= last and count(beyond * step) <= limit:
        within, beyond = beyond, 2 * beyond
    beyond = min(beyond, last + 1)
    while beyond - within > 1:
        middle = (within + beyond) // 2
        within, beyond = (middle, beyond) if count(middle * step) <= limit else (within, middle)
    if not within:
        return None
    above = (beyond * step, count(beyond * step)) if beyond <= last else None
    return Largest(within * step, count(within * step), above)
