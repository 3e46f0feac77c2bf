"""Which families of models can be read, and how? One table for each `model_type`, beside the architectures.

A table may extend tables of this folder, and is laid over them (`""` takes a row back); its variants are
laid over it where a config says so.
"""

from __future__ import annotations

import functools
import math
import pathlib
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

_PACKAGE = pathlib.Path(__file__).parent.parent
_TABLES, _SHARED = _PACKAGE / "architectures", _PACKAGE / "huggingface"
_NO_FAMILY = {"models"}  # the table of published sizes by name
WHOLE, DEVIATION = "whole", "deviation"
LEAST = {WHOLE: 1, "whole from 0": 0}
MOST, MOST_LAYERS = 10**9, 10_000  # layers are written out one by one, so that more would never end


@dataclass(frozen=True, slots=True)
class Key:
    """A key of a config and the letter that its number gives.

    `range` is `whole`, `whole from 0` or an interval, `(0, 1)` or `[0, 1)`. An optional key may be null or absent, and
    then gives nothing; one that is absent stands for its default, where it has one. What a letter is that no key gives is
    said by the family.
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
        return MOST_LAYERS if self.letter == "L" else MOST

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
class Listed:
    """A key with a word for each layer, and what the words stand for: a number, or a letter that has one.

    Without a letter the words are the only ones that the equations allow.
    """

    values: Mapping[str, float | str]
    letter: str = ""

    def holds(self, value: object) -> bool:
        """Is it a list of such words?"""
        return isinstance(value, list) and all(isinstance(word, str) and word in self.values for word in value)


@dataclass(frozen=True, slots=True)
class Tensors:
    """Which tensor holds which weights: rows (weights, name, axes), names tied to others, names with no say and why."""

    prefix: str
    rows: tuple[tuple[str, str, str], ...]
    tied: Mapping[str, str]
    ignored: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Family:
    """How the configs and tensors of a `model_type` are read.

    `defaults` are numbers of letters that no key gives, or other letters that they equal; `scalars` lines that replace those
    of the architecture; `variants` the values of keys for which another table is laid over this one.
    """

    name: str
    architecture: str
    keys: tuple[Key, ...]
    defaults: Mapping[str, float | str]
    scheme: str
    fixed: Mapping[str, Fixed]
    lists: Mapping[str, Listed]
    ignored: Mapping[str, str]
    absent: tuple[str, ...]
    scalars: str
    variants: Mapping[str, Mapping[str, object]]
    tensors: Tensors

    @property
    def known(self) -> list[str]:
        """Every key that this family has an answer to."""
        return ["model_type", *(key.key for key in self.keys), *self.fixed, *self.lists, *self.ignored]


def families() -> list[str]:
    """Every `model_type` that can be read."""
    names = {path.name.removesuffix(".toml") for path in _TABLES.iterdir() if path.name.endswith(".toml")}
    return sorted(names - _NO_FAMILY)


def architectures(name: str) -> set[str]:
    """Every text that the models of a family may follow."""
    return {family(f"{name} {variant}").architecture for variant in ("", *family(name).variants)}


@functools.cache
def family(name: str) -> Family:
    """The table of one of the families, with the variants that follow its name: `llama tied`."""
    name, *chosen = name.split()
    table = _laid(_table(_SHARED / "every_family.toml"), _whole(_TABLES / f"{name}.toml"))
    variants = table.pop("variant", {})
    for variant in chosen:
        lines = table.get("scalars", "") + variants[variant].get("scalars", "")  # those of one follow those of another
        table = {**_laid(table, variants[variant]), "scalars": lines}
    config, start = table["config"], table["config"]["initialisation"]
    sizes = [Key(key, letter.rstrip("?"), WHOLE, letter.endswith("?")) for key, letter in config["sizes"].items() if letter]
    scalars = [Key(key, **row) for key, row in config["scalars"].items() if row]
    keys = (*sizes, *scalars, Key(letter=DEVIATION, **start["deviation"]))
    return Family(
        name,
        table["architecture"],
        keys,
        {letter: default for letter, default in config.get("defaults", {}).items() if default != ""},
        start["scheme"],
        {key: _fixed(**row) for key, row in config["fixed"].items() if row},
        {key: Listed(**row) for key, row in config.get("lists", {}).items()},
        _reasons(config["ignored"], {key.key for key in keys}),
        tuple(table.get("absent", ())),
        table.get("scalars", "").replace("{H}", table.get("rotary", "H")),
        {name: {key: _null(value) for key, value in row["when"].items()} for name, row in variants.items()},
        _tensors(**table["weights"]),
    )


def _whole(path: Any) -> dict[str, Any]:
    """A table laid over those that it extends."""
    table, whole = _table(path), dict[str, Any]()
    for name in table.pop("extends", ()):
        whole = _laid(whole, _whole(_SHARED / f"{name}.toml"))
    return _laid(whole, table)


def _laid(under: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """One table over another: tables are laid over tables, lists follow lists, anything else takes the place."""
    both = {key: _joined(under[key], value) if key in under else value for key, value in over.items()}
    return {**under, **both}


def _joined(under: Any, over: Any) -> Any:
    if isinstance(under, dict) and isinstance(over, dict) and "values" not in over:
        return _laid(under, over)
    return [*under, *over] if isinstance(under, list) and isinstance(over, list) else over


def _reasons(ignored: Mapping[str, str | Sequence[str]], used: set[str]) -> dict[str, str]:
    """Why keys have no say, whether the reason stands beside the key or before several; those that are used have one."""
    reasons = [(row, key) if isinstance(key, str) else (each, row) for row, key in ignored.items() for each in _several(key)]
    return {key: why for key, why in reasons if key not in used}


def _fixed(values: Sequence[object], why: str, **absent: object) -> Fixed:
    """A row of values; the first is that of an absent key, unless another is said."""
    allowed = tuple(map(_null, values))
    return Fixed(allowed, why, absent.get("absent", allowed[0]))


def _null(value: object) -> object:
    """A value of a table; TOML has none for nothing."""
    return None if value == "null" else value


def _several(keys: str | Sequence[str]) -> Sequence[str]:
    return [keys] if isinstance(keys, str) else keys


def _tensors(
    rows: Sequence[Sequence[str]],
    prefix: str = "",
    tied: Mapping[str, str] | None = None,
    ignored: Mapping[str, str] | None = None,
) -> Tensors:
    """Rows by the name of the tensor, the last of each."""
    last = {theirs: (ours, theirs, axes) for ours, theirs, axes in rows}
    return Tensors(prefix, tuple(row for row in last.values() if row[0]), tied or {}, ignored or {})


def _table(path: Any) -> dict[str, Any]:
    return tomllib.loads(path.read_text(encoding="utf-8"))


def _finite(value: float) -> bool:
    return isinstance(value, int) or math.isfinite(value)
