"""Counts the bytes of a cache by kind of layer: those that the equations need, and those that engines allocate."""

from __future__ import annotations

import functools
import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction

from einformer.errors import fail
from einformer.interpreters.count import rules
from einformer.interpreters.count.conventions import Format, read_table
from einformer.interpreters.count.numbers import Numbers
from einformer.program.keeping import Entry


@dataclass(frozen=True, slots=True)
class KeptTensor:
    """A tensor that a layer keeps: of each row `positions` of so many numbers. *visible* ones are read `back` before the
    current position, all where that is None. Others are states.
    """

    kind: str
    back: int | None
    rows: int
    positions: int
    numbers: int

    @property
    def is_state(self) -> bool:
        return self.kind != "visible"


@dataclass(frozen=True, slots=True)
class KeptLayers:
    """Layers that keep the same: their path, their number, and what one of them keeps."""

    path: str
    layers: int
    held: tuple[KeptTensor, ...]

    @property
    def growing(self) -> tuple[KeptTensor, ...]:
        return tuple(held for held in self.held if not held.is_state)


# Returns the kinds of layers of a cache at these sizes. Raises EinformerError E601.
def list_kinds(kept: Iterable[Entry[int]], sizes: Numbers) -> tuple[KeptLayers, ...]:
    layers: dict[str, list[Entry[int]]] = {}
    for entry in kept:
        if not entry.source:
            layers.setdefault(entry.path, []).append(entry)
    alike = Counter(
        (re.sub(r"\d+", "{l}", path), tuple(_measure(entry, sizes) for entry in entries)) for path, entries in layers.items()
    )
    return tuple(KeptLayers(path, times, held) for (path, held), times in alike.items())


def _measure(entry: Entry[int], sizes: Numbers) -> KeptTensor:
    rows: int = rules.product(tuple(map(sizes.length, sorted(entry.rows))))
    positions = rules.count_positions(entry, sizes)
    numbers = rules.count_cache([entry], sizes, 1).total // max(rows * positions, 1)
    return KeptTensor(entry.kind, entry.back, rows, positions, numbers)


# The bytes of one layer of a kind; a number of a state takes `states` bytes.
def count_needed(kind: KeptLayers, cache: Format, states: int) -> int:
    return sum(
        held.rows * held.positions * (held.numbers * states if held.is_state else count_stored(held, cache))
        for held in kind.held
    )


# A block that does not divide a row of numbers is begun.
def count_stored(held: KeptTensor, cache: Format) -> int:
    return int(held.numbers * cache.element)


# Raises EinformerError E605 if blocks of a format do not divide the numbers of a position.
def check_blocks(kinds: Iterable[KeptLayers], cache: Format) -> None:
    for held in (held for kind in kinds for held in kind.growing if held.numbers % cache.block):
        message = f"a block of `{cache.name}` has {cache.block} numbers, and a position {held.numbers:,}"
        raise fail("E605", message, fix="a format with smaller blocks, or none")


@dataclass(frozen=True, slots=True)
class Engine:
    """The positions for which a version of an engine allocates a cache, its dtypes, and the source of the rule."""

    title: str
    page: int
    source: str
    caches: tuple[str, ...]
    windows: Mapping[str, int] | None = None
    uniform: bool = False
    together: bool = False
    share: float = 1
    groups: float = 0
    states: int = 0
    windowed: tuple[str, ...] = ()
    whole: tuple[str, ...] = ()

    def positions(self, length: int, back: int | None, rows: int = 1) -> int:
        """Returns the positions of all rows at a length, where a layer reads `back` positions before the current one.

        >>> read_engines()["vllm"].positions(1000, None), read_engines()["vllm"].positions(1000, 99, rows=2)
        (1008, 256)
        """
        if self.together:
            return self._count_row(rows * length, back if back is None else rows * (back + 1) - 1)
        if back is not None and self.share < 1:
            return int(rows * length * Fraction(str(self.share)))
        return rows * self._count_row(length, back)

    def _count_row(self, length: int, back: int | None) -> int:
        if back is None or self.windows is None:
            return round_up(length, self.page)
        page = self.windows["page"]
        needed = round_up(min(length, back + self.windows["ahead"]), page) + page * self.windows["spare"]
        return min(needed, round_up(length, self.page))

    # Returns the bytes that it allocates for all layers of each kind, or what its sources do not say.
    def count_bytes(
        self, kinds: tuple[KeptLayers, ...], length: int, cache: Format, model_type: str = ""
    ) -> tuple[int, ...] | str:
        if silence := self._find_silence(kinds, cache, model_type):
            return silence
        mixed, length = _is_mixed(kinds), self._stretch(kinds, length)
        layers = _count_groups(kinds, self.groups) if self.groups and mixed else [kind.layers for kind in kinds]
        return tuple(
            number * self._count_layer(kind, length, cache, (self.uniform and mixed) or model_type in self.whole)
            for kind, number in zip(kinds, layers, strict=True)
        )

    # The positions of a row in the pool of layers without a window, of which those of windows have a share.
    def _stretch(self, kinds: tuple[KeptLayers, ...], length: int) -> int:
        backs = [held.back for kind in kinds for held in kind.growing if held.back is not None]
        widest = min(length, max(backs, default=-1) + 1)
        return max(length, math.ceil(widest / Fraction(str(self.share))))

    def _count_layer(self, kind: KeptLayers, length: int, cache: Format, uniform: bool) -> int:
        return sum(
            held.rows * held.positions * held.numbers * self.states
            if held.is_state
            else self.positions(length, None if uniform else held.back, held.rows) * count_stored(held, cache)
            for held in kind.held
        )

    def _find_silence(self, kinds: tuple[KeptLayers, ...], cache: Format, model_type: str) -> str:
        growing = [held for kind in kinds for held in kind.growing]
        if any(held.kind == "same" for kind in kinds for held in kind.held):
            return "not stated for an encoder"
        if cache.name not in self.caches:
            return f"it has no cache in {cache.name}"
        if not self.states and any(held.is_state for kind in kinds for held in kind.held):
            return "not stated for recurrent states, whose dtype it leaves to each model"
        if self.groups and _is_mixed(kinds) and len({sum(held.numbers for held in kind.growing) for kind in kinds}) > 1:
            return "not stated for layers with positions of different sizes"
        if self.windowed and model_type not in (*self.windowed, *self.whole) and any(held.back is not None for held in growing):
            return f"not stated for windows of {model_type or 'a text'}"
        if self.share < 1 and growing and all(held.back is not None for held in growing):
            return "not stated for windows alone"
        return ""


@functools.cache
def read_engines() -> dict[str, Engine]:
    lists = ("caches", "windowed", "whole")
    tuples = {name: {key: tuple(row.get(key, ())) for key in lists} for name, row in read_table("engines.toml").items()}
    return {name: Engine(**row | tuples[name]) for name, row in read_table("engines.toml").items()}


# Whether some layers see all positions, and others a window.
def _is_mixed(kinds: Iterable[KeptLayers]) -> bool:
    return len({held.back is None for kind in kinds for held in kind.growing}) > 1


# The layers of each kind, filled up to groups of the same number.
def _count_groups(kinds: tuple[KeptLayers, ...], most: float) -> list[int]:
    backs = [tuple(held.back for held in kind.growing) for kind in kinds]
    layers = Counter[tuple[int | None, ...]]()
    for kind, back in zip(kinds, backs, strict=True):
        layers[back] += kind.layers
    group = max(layers.values()) if max(layers.values()) < most * min(layers.values()) else min(layers.values())
    filled = {back: round_up(number, group) - number for back, number in layers.items()}
    return [kind.layers + filled.pop(back, 0) for kind, back in zip(kinds, backs, strict=True)]


def round_up(number: int, multiple: int) -> int:
    return -(-number // multiple) * multiple
