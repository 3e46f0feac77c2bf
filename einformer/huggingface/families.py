"""Which families of models can be read, and how? One table for each `model_type`, beside the architectures."""

from __future__ import annotations

import functools
import importlib.resources
import math
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

_PACKAGE = importlib.resources.files("einformer")
_TABLES = _PACKAGE / "architectures"
_NO_FAMILY = {"models"}  # the table of published sizes by name
WHOLE, DEVIATION = "whole", "deviation"
MOST, MOST_LAYERS = 10**9, 10_000  # layers are written out one by one, so that more would never end


@dataclass(frozen=True, slots=True)
class Key:
    """A key of a config and the letter that its number gives.

    `range` is `whole` or an interval, `(0, 1)` or `[0, 1)`. An optional key may be null or absent; another that is absent
    stands for its default, where it has one.
    """

    key: str
    letter: str
    range: str
    optional: bool = False
    default: float | None = None

    def holds(self, value: object) -> bool:
        """Is this value one that the key may have?"""
        if isinstance(value, bool) or not isinstance(value, int | float) or not _finite(value):
            return False
        if self.range == WHOLE:
            return value == int(value) and 1 <= value <= self.most
        low, high = map(float, self.range[1:-1].split(", "))
        return low < value < high or (value == low and self.range[0] == "[")

    @property
    def most(self) -> int:
        """The largest size."""
        return MOST_LAYERS if self.letter == "L" else MOST

    @property
    def wanted(self) -> str:
        """What to write instead."""
        return f"a whole number from 1 to {self.most:,}" if self.range == WHOLE else f"a number in {self.range}"


@dataclass(frozen=True, slots=True)
class Fixed:
    """The values of a key that the equations take for granted, and what in them does."""

    values: tuple[object, ...]
    why: str

    def holds(self, value: object) -> bool:
        """Is it one of the values? True is not 1."""
        return any(type(value) is type(fixed) and value == fixed for fixed in self.values)


@dataclass(frozen=True, slots=True)
class Tensors:
    """Which tensor holds which weights: rows (weights, name, axes), names tied to others, names with no say and why."""

    prefix: str
    rows: tuple[tuple[str, str, str], ...]
    tied: Mapping[str, str]
    ignored: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Family:
    """How the configs and tensors of a `model_type` are read."""

    name: str
    architecture: str
    keys: tuple[Key, ...]
    scheme: str
    fixed: Mapping[str, Fixed]
    ignored: Mapping[str, str]
    absent: tuple[str, ...]
    tensors: Tensors

    @property
    def known(self) -> list[str]:
        """Every key that this family has an answer to."""
        return ["model_type", *(key.key for key in self.keys), *self.fixed, *self.ignored]


def families() -> list[str]:
    """Every `model_type` that can be read."""
    names = {path.name.removesuffix(".toml") for path in _TABLES.iterdir() if path.name.endswith(".toml")}
    return sorted(names - _NO_FAMILY)


@functools.cache
def family(name: str) -> Family:
    """The table of one of the families."""
    table, every = _table(_TABLES / f"{name}.toml"), _table(_PACKAGE / "huggingface" / "every_family.toml")
    config, start = table["config"], table["config"]["initialisation"]
    sizes = [Key(key, letter.rstrip("?"), WHOLE, letter.endswith("?")) for key, letter in config["sizes"].items()]
    scalars = [Key(key, **row) for key, row in config["scalars"].items()]
    return Family(
        name,
        table["architecture"],
        (*sizes, *scalars, Key(letter=DEVIATION, **start["deviation"])),
        start["scheme"],
        {key: Fixed(tuple(row["values"]), row["why"]) for key, row in (every["fixed"] | config["fixed"]).items()},
        {key: why for why, keys in every["ignored"].items() for key in keys} | config["ignored"],
        tuple(table.get("absent", ())),
        _tensors(**table["weights"]),
    )


def _tensors(prefix: str, rows: Sequence[Sequence[str]], tied: Mapping[str, str], ignored: Mapping[str, str]) -> Tensors:
    return Tensors(prefix, tuple((ours, theirs, axes) for ours, theirs, axes in rows), tied, ignored)


def _table(path: Any) -> dict[str, Any]:
    return tomllib.loads(path.read_text(encoding="utf-8"))


def _finite(value: float) -> bool:
    return isinstance(value, int) or math.isfinite(value)
