"""Which families of models can be read, and how? One table for each `model_type`, beside the architectures.

A table may extend tables of this folder, and is laid over them (`""` takes a row back); its variants are
laid over it where a config says so. In it `absent` are sizes of transformers that a key stands for where it is left out.
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
    """Which tensor holds which weights: rows (weights, name, axes), names tied to others, names with no say and why.

    Weights of different layers stand apart, `blocks.{l}.Local.Q | blocks.{l}.Global.Q`: each has the tensor of its layer.
    `files` are rows for weights that files hold otherwise than a state dict: `experts.{x}.up_proj` is one place on the axis x.
    """

    prefix: str
    rows: tuple[tuple[str, str, str], ...]
    files: tuple[tuple[str, str, str], ...]
    tied: Mapping[str, str]
    ignored: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Family:
    """How the configs and tensors of a `model_type` are read.

    `made` is the class of such a model in transformers. `defaults` are numbers of letters that no key gives, or other letters
    that they equal; `bounds` of letters by others, `<= X`; `renamed` keys that have the meaning of others; `scalars` lines that
    replace those of the architecture; `variants` the values of keys for which another table is laid over this one. `saved` are
    keys that a config of ours has too, and their letters: transformers reads them where the model's authors wrote others.
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
    table = _laid(_whole(_SHARED / "every_family.toml"), _whole(_TABLES / f"{name}.toml"))
    variants = table.pop("variant", {})
    for variant in chosen:
        lines = table.get("scalars", "") + variants[variant].get("scalars", "")  # those of one follow those of another
        table = {**_laid(table, variants[variant]), "scalars": lines}
    config, start = table["config"], table["config"]["initialisation"]
    absent = config.get("absent", {})
    sizes = [
        Key(key, letter.rstrip("?="), WHOLE, "?" in letter, absent.get(key), agrees="=" in letter)
        for key, letter in config["sizes"].items()
        if letter
    ]
    scalars = [Key(key, **row) for key, row in config["scalars"].items() if row]
    keys = (*sizes, *scalars, Key(letter=DEVIATION, **start["deviation"]))
    said = {key for kind in ("fixed", "lists") for key, row in config.get(kind, {}).items() if row}
    return Family(
        name,
        table["architecture"],
        table["class"],
        keys,
        {letter: default for letter, default in config.get("defaults", {}).items() if default != ""},
        config.get("bounds", {}),
        start["scheme"],
        {key: _fixed(**row) for key, row in config["fixed"].items() if row},
        {key: _list(**row) for key, row in config.get("lists", {}).items() if row},
        _reasons(config["ignored"], {key.key for key in keys} | said),
        config.get("renamed", {}),
        tuple(table.get("absent", ())),
        table.get("scalars", "").replace("{H}", table.get("rotary", "H")),
        {name: {key: _null(value) for key, value in row["when"].items()} for name, row in variants.items()},
        config.get("saved", {}),
        _tensors(**table["weights"]),
    )


@functools.cache
def _whole(path: Any) -> dict[str, Any]:
    """A table laid over those that it extends; read once, since variants and families share it."""
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


def _list(**row: Any) -> Words | Numbers:
    """A row of a list: of numbers where it says of which."""
    return Numbers(**row) if "range" in row else Words(**row)


def _null(value: object) -> object:
    """A value of a table; TOML has none for nothing."""
    return None if value == "null" else value


def _several(keys: str | Sequence[str]) -> Sequence[str]:
    return [keys] if isinstance(keys, str) else keys


def _tensors(
    rows: Sequence[Sequence[str]],
    files: Sequence[Sequence[str]] = (),
    prefix: str = "",
    tied: Mapping[str, str] | None = None,
    ignored: Mapping[str, str] | None = None,
) -> Tensors:
    return Tensors(prefix, _last(rows), _last(files), tied or {}, ignored or {})


def _last(rows: Sequence[Sequence[str]]) -> tuple[tuple[str, str, str], ...]:
    """Rows by the name of the tensor, the last of each."""
    last = {theirs: (ours, theirs, axes) for ours, theirs, axes in rows}
    return tuple(row for row in last.values() if row[0])


def _table(path: Any) -> dict[str, Any]:
    return tomllib.loads(path.read_text(encoding="utf-8"))
