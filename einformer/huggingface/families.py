"""Reads the tables of model families. Each `model_type` has one, beside the architectures.

A table may extend other tables of this folder, and overrides their rows (`""` removes a row). Its variants override it if a
config asks for them. `absent` holds sizes of transformers that a missing key stands for.
"""

from __future__ import annotations

import functools
import pathlib
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from einformer.huggingface.keys import WHOLE, Fixed, Key, Numbers, Words

_PACKAGE = pathlib.Path(__file__).parent.parent
_TABLES, _SHARED = _PACKAGE / "architectures", _PACKAGE / "huggingface"
_NO_FAMILY = {"models"}  # the table of published sizes by name
DEVIATION = "deviation"


@dataclass(frozen=True, slots=True)
class Tensors:
    """The tensors of a family: rows (weights, name, axes), names tied to others, and names without effect, with the
    reason.

    Weights of different layers, `blocks.{l}.Local.Q | blocks.{l}.Global.Q`, have the tensor of their layer. `files` are
    rows for weights that files hold otherwise than a state dict: `experts.{x}.up_proj` is one place on the axis x.
    """

    prefix: str
    rows: tuple[tuple[str, str, str], ...]
    files: tuple[tuple[str, str, str], ...]
    tied: Mapping[str, str]
    ignored: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Family:
    """The rules for the configs and tensors of a `model_type`.

    `made` is the class of the model in transformers. `defaults` are numbers, or letters, for letters without a key.
    `bounds` limit letters by others, `<= X`. `renamed` lists keys that mean the same as others. `scalars` are lines that
    replace those of the architecture. `variants` are values of keys that select another table on top. `saved` are keys that
    our configs have too, with their letters: transformers reads them where the authors of the model wrote others.
    """

    name: str
    architecture: str
    made: str
    keys: tuple[Key, ...]
    defaults: Mapping[str, float | str]
    bounds: Mapping[str, str]
    scheme: str
    fixed: Mapping[str, Fixed]
    lists: Mapping[str, Words | Numbers]
    ignored: Mapping[str, str]
    renamed: Mapping[str, str]
    absent: tuple[str, ...]
    scalars: str
    variants: Mapping[str, Mapping[str, object]]
    saved: Mapping[str, str]
    tensors: Tensors

    @property
    def known(self) -> list[str]:
        """Returns every key that this family handles."""
        return ["model_type", *(key.key for key in self.keys), *self.fixed, *self.lists, *self.ignored]


def families() -> list[str]:
    """Returns every `model_type` that can be read."""
    names = {path.name.removesuffix(".toml") for path in _TABLES.iterdir() if path.name.endswith(".toml")}
    return sorted(names - _NO_FAMILY)


def architectures(name: str) -> set[str]:
    """Returns every text that the models of a family may follow."""
    return {family(f"{name} {variant}").architecture for variant in ("", *family(name).variants)}


@functools.cache
def family(name: str) -> Family:
    """Returns the table of a family, with the variants that follow its name: `llama tied`."""
    name, *chosen = name.split()
    table = _lay_over(_read_whole(_SHARED / "every_family.toml"), _read_whole(_TABLES / f"{name}.toml"))
    variants = table.pop("variant", {})
    for variant in chosen:
        lines = table.get("scalars", "") + variants[variant].get("scalars", "")  # those of one follow those of another
        table = {**_lay_over(table, variants[variant]), "scalars": lines}
    config, start = table["config"], table["config"]["initialisation"]
    absent = config.get("absent", {})
    sizes = [
        Key(key, letter.rstrip("?="), WHOLE, "?" in letter, absent.get(key), agrees="=" in letter)
        for key, letter in config["sizes"].items()
        if letter
    ]
    scalars = [Key(key, **row) for key, row in config["scalars"].items() if row]
    keys = (*sizes, *scalars, Key(letter=DEVIATION, **start["deviation"]))
    stated = {key for kind in ("fixed", "lists") for key, row in config.get(kind, {}).items() if row}
    return Family(
        name,
        table["architecture"],
        table["class"],
        keys,
        {letter: default for letter, default in config.get("defaults", {}).items() if default != ""},
        config.get("bounds", {}),
        start["scheme"],
        {key: _read_fixed(**row) for key, row in config["fixed"].items() if row},
        {key: _read_list(**row) for key, row in config.get("lists", {}).items() if row},
        _list_reasons(config["ignored"], {key.key for key in keys} | stated),
        config.get("renamed", {}),
        tuple(table.get("absent", ())),
        table.get("scalars", "").replace("{H}", table.get("rotary", "H")),
        {name: {key: _read_null(value) for key, value in row["when"].items()} for name, row in variants.items()},
        config.get("saved", {}),
        _read_tensors(**table["weights"]),
    )


# Cached, since variants and families share tables.
@functools.cache
def _read_whole(path: Any) -> dict[str, Any]:
    table, whole = _read_table(path), dict[str, Any]()
    for name in table.pop("extends", ()):
        whole = _lay_over(whole, _read_whole(_SHARED / f"{name}.toml"))
    return _lay_over(whole, table)


# Tables are merged, lists are concatenated, anything else is replaced.
def _lay_over(under: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    both = {key: _join(under[key], value) if key in under else value for key, value in over.items()}
    return {**under, **both}


def _join(under: Any, over: Any) -> Any:
    if isinstance(under, dict) and isinstance(over, dict) and "values" not in over:
        return _lay_over(under, over)
    return [*under, *over] if isinstance(under, list) and isinstance(over, list) else over


# A reason stands beside a key, or before several.
def _list_reasons(ignored: Mapping[str, str | Sequence[str]], used: set[str]) -> dict[str, str]:
    reasons = [(row, key) if isinstance(key, str) else (own, row) for row, key in ignored.items() for own in _as_list(key)]
    return {key: why for key, why in reasons if key not in used}


# The first value is that of an absent key by default.
def _read_fixed(values: Sequence[object], why: str, **absent: object) -> Fixed:
    allowed = tuple(map(_read_null, values))
    return Fixed(allowed, why, absent.get("absent", allowed[0]))


def _read_list(**row: Any) -> Words | Numbers:
    return Numbers(**row) if "range" in row else Words(**row)


# TOML has no null.
def _read_null(value: object) -> object:
    return None if value == "null" else value


def _as_list(keys: str | Sequence[str]) -> Sequence[str]:
    return [keys] if isinstance(keys, str) else keys


def _read_tensors(
    rows: Sequence[Sequence[str]],
    files: Sequence[Sequence[str]] = (),
    prefix: str = "",
    tied: Mapping[str, str] | None = None,
    ignored: Mapping[str, str] | None = None,
) -> Tensors:
    return Tensors(prefix, _keep_last(rows), _keep_last(files), tied or {}, ignored or {})


def _keep_last(rows: Sequence[Sequence[str]]) -> tuple[tuple[str, str, str], ...]:
    last = {theirs: (ours, theirs, axes) for ours, theirs, axes in rows}
    return tuple(row for row in last.values() if row[0])


def _read_table(path: Any) -> dict[str, Any]:
    return tomllib.loads(path.read_text(encoding="utf-8"))
