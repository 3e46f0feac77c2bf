"""Reads the tables of model families, and prints them merged, as TOML. Each `model_type` has one, beside the architectures.

A table extends other tables of this folder, which extend none, or is like the table of another family, and overrides them.
Its variants override it if a config asks for them. The last table that speaks of a key, a weight or a tensor counts. `absent`
holds sizes of transformers that a missing key stands for.
"""

from __future__ import annotations

import functools
import json
import pathlib
import re
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from einformer.huggingface.keys import WHOLE, Fixed, Key, NumberList, WordList

_PACKAGE = pathlib.Path(__file__).parent.parent
_TABLES, _SHARED = _PACKAGE / "architectures", _PACKAGE / "huggingface"
_ANSWERS = ("sizes", "scalars", "fixed", "lists")  # the kinds of keys of a config
_NO_FAMILY = {"models"}  # the table of published sizes by name
DEVIATION = "deviation"
_SECTIONS = ("config", "weights", "variant")  # of a table that is printed
_WIDTH = 120


@dataclass(frozen=True, slots=True)
class Tensors:
    """The tensors of a family: rows (weights, name, axes), names tied to others, and names without effect, with the
    reason.

    Weights of different layers, `blocks.{l}.Local.Q | blocks.{l}.Global.Q`, have the tensor of their layer. `files` are
    rows for weights that files hold otherwise than a state dict: `experts.{x}.up_proj` is one place on the axis x. In files
    `prefix` is `filed`, and parts of names that are `renamed` stand for others.
    """

    prefix: str
    filed: str
    renamed: Mapping[str, str]
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
    lists: Mapping[str, WordList | NumberList]
    ignored: Mapping[str, str]
    renamed: Mapping[str, str]
    absent: tuple[str, ...]
    scalars: str
    variants: Mapping[str, Mapping[str, object]]
    saved: Mapping[str, str]
    tensors: Tensors

    # These keys select variants.
    @property
    def choosing(self) -> set[str]:
        return {key for when in self.variants.values() for key in when}

    @property
    def known(self) -> list[str]:
        return ["model_type", *(key.key for key in self.keys), *self.fixed, *self.lists, *self.ignored]


@functools.cache
def families() -> tuple[str, ...]:
    names = {path.name.removesuffix(".toml") for path in _TABLES.iterdir() if path.name.endswith(".toml")}
    return tuple(sorted(names - _NO_FAMILY))


# The models of a family may follow several texts.
def architectures(name: str) -> set[str]:
    return {family(f"{name} {variant}").architecture for variant in ("", *family(name).variants)}


# `llama tied` is a family with a variant.
@functools.cache
def family(name: str) -> Family:
    name, *chosen = name.split()
    table = merge_tables(name)
    variants = table.pop("variant", {})
    for variant in chosen:
        lines = table.get("scalars", "") + variants[variant].get("scalars", "")  # those of one follow those of another
        table = {**lay_over(table, variants[variant]), "scalars": lines}
    config, start = table["config"], table["config"]["initialisation"]
    absent = config.get("absent", {})
    sizes = [
        Key(key, letter.rstrip("?="), WHOLE, "?" in letter, absent.get(key), agrees="=" in letter)
        for key, letter in config["sizes"].items()
    ]
    scalars = [Key(key, **row) for key, row in config.get("scalars", {}).items()]
    keys = (*sizes, *scalars, Key(letter=DEVIATION, **start["deviation"]))
    stated = {key for kind in ("fixed", "lists") for key in config.get(kind, {})}
    return Family(
        name,
        table["architecture"],
        table["class"],
        keys,
        config.get("defaults", {}),
        config.get("bounds", {}),
        start["scheme"],
        {key: _read_fixed(**row) for key, row in config["fixed"].items()},
        {key: _read_list(**row) for key, row in config.get("lists", {}).items()},
        _list_reasons(config["ignored"], {key.key for key in keys} | stated),
        config.get("renamed", {}),
        tuple(table.get("absent", ())),
        table.get("scalars", "").replace("{H}", table.get("rotary", "H")),
        {name: {key: read_null(value) for key, value in row["when"].items()} for name, row in variants.items()},
        config.get("saved", {}),
        _read_tensors(**table["weights"]),
    )


# The keys of every config, the tables that a family extends, and its own rows.
def merge_tables(name: str) -> dict[str, Any]:
    return lay_over(_read_whole(_SHARED / "every_family.toml"), _read_whole(_TABLES / f"{name}.toml"))


# Cached, since variants and families share tables.
@functools.cache
def _read_whole(path: Any) -> dict[str, Any]:
    table = _read_table(path)
    whole = _read_whole(_TABLES / f"{table.pop('like')}.toml") if "like" in table else {}
    for name in table.pop("extends", ()):
        whole = lay_over(whole, _read_whole(_SHARED / f"{name}.toml"))
    return lay_over(whole, table)


# Lays one table over another: tables are merged, lists are concatenated, anything else is replaced. A key of a config has one
# answer, a weight and a tensor have one row each: those of the upper table.
def lay_over(under: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    parts = {key: _PARTS.get(key, _join)(under[key], value) for key, value in over.items() if key in under}
    return {**under, **over, **parts}


def _lay_variants(under: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    return {**under, **{name: lay_over(under.get(name, {}), variant) for name, variant in over.items()}}


# The default of a letter goes with the key that gave it, unless another key gives that letter.
def _lay_config(under: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    keys = {key for kind in _ANSWERS for key in over.get(kind, {})} | _list_reasons(over.get("ignored", {}), set()).keys()
    left = {kind: {key: row for key, row in under.get(kind, {}).items() if key not in keys} for kind in _ANSWERS}
    gone = _list_letters(under) - _list_letters(left)
    left["defaults"] = {letter: value for letter, value in under.get("defaults", {}).items() if not {letter, value} & gone}
    both: dict[str, Any] = _join({**under, **left}, over)
    return both


def _list_letters(config: Mapping[str, Any]) -> set[str]:
    rows = [*config.get("scalars", {}).values(), *config.get("lists", {}).values()]
    return {letter.rstrip("?=") for letter in config.get("sizes", {}).values()} | {
        row["letter"] for row in rows if "letter" in row
    }


def _lay_weights(under: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    rows = {kind: _replace_rows(under.get(kind, []), over.get(kind, [])) for kind in ("rows", "files")}
    return {**_join(under, over), **rows}


def _replace_rows(under: Sequence[Sequence[str]], over: Sequence[Sequence[str]]) -> list[Sequence[str]]:
    tensors = {theirs for _, theirs, _ in over}
    weights = {path for ours, _, _ in over for path in _list_paths(ours)}
    return [*(row for row in under if row[1] not in tensors and not weights & _list_paths(row[0])), *over]


# `Attention.Q, K` are two weights, and so are `Local.Q | Global.Q`.
def _list_paths(ours: str) -> set[str]:
    parts = [path.rpartition(".") for path in ours.split(" | ")]
    return {f"{prefix}{dot}{name}" for prefix, dot, names in parts for name in names.split(", ")}


def _join(under: Any, over: Any) -> Any:
    if isinstance(under, dict) and isinstance(over, dict):
        return {**under, **{key: _join(under[key], value) if key in under else value for key, value in over.items()}}
    return [*under, *over] if isinstance(under, list) and isinstance(over, list) else over


_PARTS: dict[str, Callable[[Any, Any], Any]] = {"config": _lay_config, "weights": _lay_weights, "variant": _lay_variants}


# A reason stands beside a key, or before several.
def _list_reasons(ignored: Mapping[str, str | Sequence[str]], used: set[str]) -> dict[str, str]:
    reasons = [(row, key) if isinstance(key, str) else (own, row) for row, key in ignored.items() for own in _as_list(key)]
    return {key: why for key, why in reasons if key not in used}


# The first value is that of an absent key by default.
def _read_fixed(values: Sequence[object], why: str, **absent: object) -> Fixed:
    allowed = tuple(map(read_null, values))
    return Fixed(allowed, why, absent.get("absent", allowed[0]))


def _read_list(**row: Any) -> WordList | NumberList:
    return NumberList(**row) if "range" in row else WordList(**row)


# TOML does not have null.
def read_null(value: object) -> object:
    return None if value == "null" else value


def _as_list(keys: str | Sequence[str]) -> Sequence[str]:
    return [keys] if isinstance(keys, str) else keys


def _read_tensors(
    rows: Sequence[Sequence[str]],
    files: Sequence[Sequence[str]] = (),
    prefix: str = "",
    filed: str = "",
    renamed: Mapping[str, str] | None = None,
    tied: Mapping[str, str] | None = None,
    ignored: Mapping[str, str] | None = None,
) -> Tensors:
    return Tensors(prefix, filed or prefix, renamed or {}, _read_rows(rows), _read_rows(files), tied or {}, ignored or {})


def _read_rows(rows: Sequence[Sequence[str]]) -> tuple[tuple[str, str, str], ...]:
    return tuple((ours, theirs, axes) for ours, theirs, axes in rows)


def _read_table(path: Any) -> dict[str, Any]:
    return tomllib.loads(path.read_text(encoding="utf-8"))


@functools.cache
def match_form(name: str) -> re.Pattern[str]:
    """Returns the pattern of a name with numbers left open.

    >>> match_form("h.{l}.ln_1.bias").fullmatch("h.3.ln_1.bias").groupdict()
    {'l': '3'}
    """
    return re.compile(re.sub(r"\\\{(\w)\\\}", r"(?P<\1>\\d+)", re.escape(name)))


# The name and the axes of a row, the numbers of its layers, and the paths of its weights.
def match_rows(
    rows: Iterable[tuple[str, str, str]], weights: Iterable[str]
) -> Iterator[tuple[str, str, dict[str, str], list[str]]]:
    for ours, name, axes in ((pattern, *rest) for every, *rest in rows for pattern in every.split(" | ")):
        prefix, dot, names = ours.rpartition(".")
        paths = [f"{prefix}{dot}{pattern}" for pattern in names.split(", ")]
        for match in filter(None, map(match_form(paths[0]).fullmatch, weights)):
            yield name, axes, match.groupdict(), [path.format(**match.groupdict()) for path in paths]


# -------------------------------------------------------------------------------------------------------------- printing


def print_table(table: Mapping[str, Any]) -> str:
    """The table as TOML, which reads back as the same table.

    >>> print(print_table({"class": "Llama", "config": {"sizes": {"hidden_size": "D"}}}), end="")
    class = "Llama"
    <BLANKLINE>
    [config.sizes]
    hidden_size = "D"
    """
    return "\n".join("\n".join(lines) + "\n" for lines in _print_sections(table, ()))


def _print_sections(table: Mapping[str, Any], path: tuple[str, ...]) -> Iterator[list[str]]:
    inner = {name: value for name, value in table.items() if _is_section(name, value, path)}
    entries = [f"{_spell_key(name)} = {_spell_value(value)}" for name, value in table.items() if name not in inner]
    if entries or not inner:
        yield [f"[{'.'.join(map(_spell_key, path))}]"] * bool(path) + entries
    for name, section in inner.items():
        yield from _print_sections(section, (*path, name))


def _is_section(name: str, value: object, path: tuple[str, ...]) -> bool:
    return isinstance(value, dict) and (name in _SECTIONS or path[-1:] in [(section,) for section in _SECTIONS])


def _spell_key(name: str) -> str:
    return name if name.isascii() and name.replace("_", "").replace("-", "").isalnum() else _spell_value(name)


def _spell_value(value: object) -> str:
    match value:
        case str():
            return f'"""\n{value}"""' if "\n" in value else json.dumps(value, ensure_ascii=False)
        case bool():
            return str(value).lower()
        case dict():
            return (
                f"{{ {', '.join(f'{_spell_key(name)} = {_spell_value(item)}' for name, item in value.items())} }}"
                if value
                else "{}"
            )
        case list():
            line = f"[{', '.join(map(_spell_value, value))}]"
            return line if len(line) < _WIDTH else "[\n" + "".join(f"  {_spell_value(item)},\n" for item in value) + "]"
        case _:
            return repr(value)
