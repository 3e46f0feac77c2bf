"""What may a key of a config say? One class for each kind of key."""

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
    """A key of a config and the letter that its number gives.

    `range` is `whole`, `whole from 0` or an interval, `(0, 1)` or `[0, 1)`. An optional key may be null or absent, and
    then gives nothing; one that is absent stands for its default, where it has one. What a letter is that no key gives is
    said by the family. A key may stand for a number `less` than its letter: the last layer is L - 1; `unsaid` is as null.
    It may be a list that says the same of each layer, of which there are as many as the key `repeated` says. One that only
    `agrees` gives no letter that another key lacks.
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
        """What a config says here, once where a list says the same of each layer."""
        value = values[self.key]
        if not isinstance(value, list) or len(value) != values.get(self.repeated):
            return value
        return value[0] if value and all(each == value[0] for each in value) else value

    def gives(self, value: object) -> bool:
        """Does it say something?"""
        return not self.optional or value not in (None, self.unsaid)

    def holds(self, value: object) -> bool:
        """Is this value one that the key may have?"""
        if isinstance(value, bool) or not isinstance(value, int | float) or not _finite(value):
            return False
        if self.whole:
            return value == int(value) and LEAST[self.range] <= value <= self.most
        low, high = map(float, self.range[1:-1].split(", "))
        return low < value < high or (value == low and self.range[0] == "[")

    @property
    def whole(self) -> bool:
        """Is it a whole number?"""
        return self.range in LEAST

    @property
    def most(self) -> int:
        """The largest size."""
        return 1 if self.range == "0 or 1" else MOST_LAYERS if self.letter == "L" else MOST

    @property
    def wanted(self) -> str:
        """What to write instead."""
        return f"a whole number from {LEAST[self.range]} to {self.most:,}" if self.whole else f"a number in {self.range}"


@dataclass(frozen=True, slots=True)
class Fixed:
    """The values of a key that the equations take for granted, what in them does, and what an absent key stands for."""

    values: tuple[object, ...]
    why: str
    absent: object

    def holds(self, value: object) -> bool:
        """Is it one of the values? True is not 1."""
        return any(type(value) is type(fixed) and value == fixed for fixed in self.values)


@dataclass(frozen=True, slots=True)
class Words:
    """A list with a word for each layer, and what the words stand for: a number, or a letter that has one.

    Without a letter the words are the only ones that the equations allow. `repeated` ones stand beside how often they come,
    `[["global", "local"], 12]`.
    """

    values: Mapping[str, float | str]
    letter: str = ""
    repeated: bool = False
    required: bool = False

    def says(self, value: object) -> bool:
        """Is there a list?"""
        return value is not None

    def holds(self, value: object) -> bool:
        """Is it a list of such words?"""
        if not isinstance(value, list) or (self.repeated and not _is_repeated(value)):
            return False
        words = [word for some, _ in value for word in some] if self.repeated else value
        return all(isinstance(word, str) and word in self.values for word in words)

    def numbers(self, value: Sequence[Any], given: Mapping[str, float]) -> list[float]:
        """The number of each layer; `given` are those of letters."""
        words = [word for some, times in value for word in some * times] if self.repeated else value
        found = [self.values[word] for word in words]
        return [given[each] if isinstance(each, str) else each for each in found]

    @property
    def letters(self) -> set[str]:
        """What words stand for that are no numbers."""
        return {each for each in self.values.values() if isinstance(each, str)}

    @property
    def wanted(self) -> str:
        """What to write instead."""
        words = " or ".join(map(json.dumps, self.values))
        return f"{words}, in lists beside how often they come" if self.repeated else f"{words} for each layer"


@dataclass(frozen=True, slots=True)
class Numbers:
    """A list of numbers of a range, as that of a key; those of `layers` name layers, which are 1 where the others are 0.

    One that is `empty` may stand for none.
    """

    letter: str
    range: str
    layers: bool = False
    empty: bool = False
    required: bool = False

    def says(self, value: object) -> bool:
        """Is there a list, and is it none that stands for nothing?"""
        return value is not None and not (self.empty and value == [])

    def holds(self, value: object) -> bool:
        """Is it a list of such numbers?"""
        return isinstance(value, list) and all(map(self._key.holds, value))

    def numbers(self, value: Sequence[float], given: Mapping[str, float]) -> list[float]:
        """The numbers, or those of the layers; `given` are those of letters."""
        return [int(layer in value) for layer in range(int(given["L"]))] if self.layers else list(value)

    @property
    def letters(self) -> set[str]:
        """None: its numbers are its own."""
        return set()

    @property
    def wanted(self) -> str:
        """What to write instead."""
        return f"a list, each of it {self._key.wanted}"

    @property
    def _key(self) -> Key:
        return Key("", self.letter, self.range)


def _is_repeated(value: Sequence[object]) -> bool:
    """Is it a list of pairs, of words and how often they come, no more than there may be layers?"""
    times = Key("", "L", WHOLE)
    pairs = [item for item in value if isinstance(item, list) and len(item) == 2 and isinstance(item[0], list)]
    return (
        len(pairs) == len(value)
        and all(times.holds(often) for _, often in pairs)
        and sum(len(words) * int(often) for words, often in pairs) <= MOST_LAYERS
    )


def _finite(value: float) -> bool:
    return isinstance(value, int) or math.isfinite(value)
