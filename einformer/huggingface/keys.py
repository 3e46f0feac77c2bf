"""Defines the kinds of keys of a config, a class for each."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

WHOLE = "whole"
LEAST = {WHOLE: 1, "whole from 0": 0, "0 or 1": 0}
MOST, MOST_LAYERS = 10**9, 10_000  # layers are written out one by one, so that more would never end


@dataclass(frozen=True, slots=True)
class Key:
    """A key of a config, and the letter of its number.

    `range` is `whole`, `whole from 0` or an interval, `(0, 1)` or `[0, 1)`. An optional key may be null or absent. An
    absent key stands for its default, if it has one, or for the default of the family. A key may be `less` than its letter:
    the last layer is L - 1. `unsaid` is a value like null. The value may be a list with one value for all layers, as many
    as the key `repeated`. A key that only `agrees` does not give a letter, but must equal it.
    """

    key: str
    letter: str
    range: str
    optional: bool = False
    default: float | None = None
    less: int = 0
    unsaid: float | None = None
    repeated: str = ""
    agrees: bool = False

    def once(self, values: Mapping[str, object]) -> object:
        value, count = values[self.key], values.get(self.repeated)
        if not isinstance(value, list) or not self.repeated:
            return value
        if len(value) != count and Key("", "L", WHOLE).holds(count):  # a wrong number has an error of its own
            return value
        return value[0] if value and all(element == value[0] for element in value) else value

    def gives(self, value: object) -> bool:
        return not self.optional or value not in (None, self.unsaid)

    def holds(self, value: object) -> bool:
        if isinstance(value, bool) or not isinstance(value, int | float) or not _finite(value):
            return False
        if self.whole:
            return value == int(value) and LEAST[self.range] <= value <= self.most
        low, high = map(float, self.range[1:-1].split(", "))
        return low < value < high or (value == low and self.range[0] == "[")

    @property
    def whole(self) -> bool:
        return self.range in LEAST

    @property
    def most(self) -> int:
        return 1 if self.range == "0 or 1" else MOST_LAYERS if self.letter == "L" else MOST

    @property
    def wanted(self) -> str:
        return f"a whole number from {LEAST[self.range]} to {self.most:,}" if self.whole else f"a number in {self.range}"


@dataclass(frozen=True, slots=True)
class Fixed:
    """The values of a key that the equations assume, their effect, and the value of an absent key."""

    values: tuple[object, ...]
    why: str
    absent: object

    # True is not 1.
    def holds(self, value: object) -> bool:
        return any(type(value) is type(fixed) and value == fixed for fixed in self.values)


@dataclass(frozen=True, slots=True)
class WordList:
    """A list with a word for each layer. A word stands for a number, or for a letter that has one.

    Without a letter the words are the only ones that the equations allow. `repeated` words stand beside their counts,
    `[["global", "local"], 12]`. Words of one letter may stand in a string. The letter `counts` is the length of the list.
    """

    values: Mapping[str, float | str]
    letter: str = ""
    repeated: bool = False
    required: bool = False
    counts: str = ""

    def says(self, value: object) -> bool:
        return value is not None

    def holds(self, value: object) -> bool:
        value = list(value) if isinstance(value, str) else value
        if not isinstance(value, list) or (self.repeated and not _is_repeated(value)):
            return False
        words = [word for some, _ in value for word in some] if self.repeated else value
        return all(isinstance(word, str) and word in self.values for word in words)

    def numbers(self, value: Sequence[Any], given: Mapping[str, float]) -> list[float]:
        words = [word for some, times in value for word in some * times] if self.repeated else value
        values = [self.values[word] for word in words]
        return [given[number] if isinstance(number, str) else number for number in values]

    @property
    def letters(self) -> set[str]:
        return {value for value in self.values.values() if isinstance(value, str)}

    @property
    def wanted(self) -> str:
        words = " or ".join(map(json.dumps, self.values))
        return f"{words}, in lists beside how often they come" if self.repeated else f"{words} for each layer"


@dataclass(frozen=True, slots=True)
class NumberList:
    """A list of numbers in the range of a key. With `layers`, the numbers name layers, which are 1 where the others are 0.

    The `first` layer has this number. An `empty` list may stand for no list. A part of normal numbers stands for the `quantile`
    below which they are, 0 for 0; that of one half is 0 too, and not said.
    """

    letter: str
    range: str
    layers: bool = False
    quantile: bool = False
    empty: bool = False
    required: bool = False
    first: int = 0
    counts: str = ""

    def says(self, value: object) -> bool:
        return value is not None and not (self.empty and value == [])

    def holds(self, value: object) -> bool:
        return isinstance(value, list) and all(map(self._key.holds, value)) and not (self.quantile and 0.5 in value)

    def numbers(self, value: Sequence[float], given: Mapping[str, float]) -> list[float]:
        if self.quantile:
            return [_find_quantile(part) if part else 0 for part in value]
        return [int(self.first + layer in value) for layer in range(int(given["L"]))] if self.layers else list(value)

    @property
    def letters(self) -> set[str]:
        return set()

    @property
    def wanted(self) -> str:
        return f"a list, each of it {self._key.wanted}"

    @property
    def _key(self) -> Key:
        return Key("", self.letter, self.range)


def _find_quantile(part: float) -> float:
    from statistics import NormalDist

    return NormalDist().inv_cdf(part)


# Pairs of words and counts, no more in sum than there may be layers.
def _is_repeated(value: Sequence[object]) -> bool:
    times = Key("", "L", WHOLE)
    pairs = [item for item in value if isinstance(item, list) and len(item) == 2 and isinstance(item[0], list)]
    return (
        len(pairs) == len(value)
        and all(times.holds(often) for _, often in pairs)
        and sum(len(words) * int(often) for words, often in pairs) <= MOST_LAYERS
    )


def _finite(value: float) -> bool:
    return isinstance(value, int) or math.isfinite(value)
