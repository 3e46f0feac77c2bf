"""Counts the bytes of what decoding keeps, in numbers or letters."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Generic

from einformer.interpreters.count.rules import Arithmetic, N, product, total
from einformer.program.cache import Entry
from einformer.program.turns import Turns, turns_of

BYTES = {"float64": 8, "float32": 4, "bfloat16": 2, "float16": 2}
TOKEN = 8  # bytes, whatever the weights are kept in


@dataclass(frozen=True, slots=True)
class CacheBytes(Generic[N]):
    """The bytes of a cache: what a further position of one row adds until windows are full, and all that is held."""

    per_token: N
    total: N


def count_cache(entries: Iterable[Entry[Any]], time: str, arithmetic: Arithmetic[N], element: Any) -> CacheBytes[N]:
    """The bytes of these entries, a number in `element` bytes: what layers share is there once. Raises EinformerError E607."""
    entries, held = tuple(entries), []
    for entry in (entry for entry in entries if not entry.source):
        numbers = () if entry.back is None or isinstance(entry.back, int) else (entry.back,)
        for turns, inner in arithmetic.kinds(_turns(entry), numbers):
            rows = map(inner.length, sorted(entry.rows))
            held.append(product((*turns, _of_one(entry, inner, element), *rows, count_positions(entry, time, inner))))
    return CacheBytes(count_per_token(entries, arithmetic, element), total(held))


def count_per_token(entries: Iterable[Entry[Any]], arithmetic: Arithmetic[N], element: Any) -> N:
    """The bytes of a further position of one row, until windows are full. Raises EinformerError E607."""
    growing = (entry for entry in entries if entry.kind == "visible" and not entry.source)
    return total(product((*map(arithmetic.turns, _turns(e)), _of_one(e, arithmetic, element))) for e in growing)


def _turns(entry: Entry[Any]) -> tuple[Turns, ...]:
    return tuple(turns_of(site.loops, site.cases) for site in entry.sites)


def _of_one(entry: Entry[Any], arithmetic: Arithmetic[N], element: Any) -> N:
    """The bytes of one position of one row."""
    lengths = (arithmetic.length(letter) for letter in entry.letters if letter not in entry.rows)
    one: N = product((TOKEN if entry.whole else element, *lengths))
    return one


def count_positions(entry: Entry[Any], time: str, arithmetic: Arithmetic[N]) -> Any:
    """How many positions are held: of what is read at s' the one at s too."""
    length, back = arithmetic.length(time), entry.back
    if back is None:
        return length
    back = back if isinstance(back, int) else arithmetic.value(back)
    return arithmetic.smallest((length, back + 1)) if entry.kind == "visible" else back
