"""Finds the decoder of text in a config of several parts, `text_config` beside `vision_config`."""

from __future__ import annotations

import functools
import pathlib
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from einformer.errors import fail
from einformer.huggingface.documents import JsonObject, name
from einformer.huggingface.families import families, read_null

_STORED = "quantization_config"  # stands beside the parts
_JOINTS, _TIE, _TABLES = "what joins the parts", "tie_word_embeddings", pathlib.Path(__file__).parent


@dataclass(frozen=True, slots=True)
class ConfigPart:
    """The part of a config that is read, and the names of the others.

    `place` is the object in which it stands, `text_config`, of a config of the type `whole`, which is empty if the config has
    no parts. `family` is the name of its table, and `others` are parts that are not counted.
    """

    config: JsonObject
    family: str
    place: str = ""
    whole: str = ""
    others: tuple[str, ...] = ()

    @property
    def omitted(self) -> Mapping[str, Any]:
        return _read_table()["omitted"].get(self.config.values.get("model_type"), {}) if self.whole else {}

    # ``text part `text_config` of llava``, and "" for a whole config.
    @property
    def about(self) -> str:
        place = f" `{self.place}`" if self.place else ""
        return f"text part{place} of {self.whole}" if self.whole else ""


# A config without parts is its own text part.
def find_text_part(document: JsonObject) -> ConfigPart:
    own, table = document.values.get("model_type"), _read_table()
    own = own if isinstance(own, str) else ""
    place = next((place for place in table["parts"] if isinstance(document.values.get(place), dict)), None)
    if own in families() or own in refused() or place is None:
        return _find_whole(document, own)
    inner = find_text_part(_open_part(document, place, table["text"].get(own, {})))
    path = f"{place}.{inner.place}" if inner.place else place
    return replace(
        inner, place=path, whole=own or "a config", others=(*_list_parts(document, place), *(inner.others or [_JOINTS]))
    )


def _find_whole(document: JsonObject, own: str) -> ConfigPart:
    table = _read_table()
    if kind := table["flat"].get(own):
        values = {key: value for key, value in document.values.items() if not key.endswith(("_config", "_token_id"))}
        part = replace(document, values={**values, "model_type": kind})
        return ConfigPart(part, table["alike"].get(kind, kind), whole=own, others=(*_list_parts(document, ""), _JOINTS))
    if own in table["text"]:
        raise fail("E613", f"the config of a {own} model has no `text_config`", document.span(), fix='`"text_config": {…}`')
    return ConfigPart(document, table["alike"].get(own, own))


def _open_part(document: JsonObject, place: str, wrapper: Mapping[str, Any]) -> JsonObject:
    values, prefix = document.values[place], f"{place}."
    assert isinstance(values, dict)
    places = {key.removeprefix(prefix): span for key, span in document.places.items() if key.startswith(prefix)}
    tied = _read_tie(document.values.get(_TIE), str(wrapper.get("tied", "whole")).lower())
    own = {} if tied is None else {_TIE: tied}
    own |= {_STORED: document.values[_STORED]} if document.values.get(_STORED) and not values.get(_STORED) else {}
    kind = {"model_type": wrapper["type"]} if wrapper else {}
    return JsonObject({**kind, **values, **own}, document.source, places)


# Returns None if the part says whether it is tied.
def _read_tie(whole: object, rule: str) -> object:
    stated = rule.startswith("true") if whole is None and rule != "whole" else whole
    return None if rule == "part" or (rule.endswith("part") and not stated) else stated


def _list_parts(document: JsonObject, place: str) -> list[str]:
    parts = {key: value for key, value in document.values.items() if key.endswith("_config") and isinstance(value, dict)}
    return [
        f"{name(key)} ({value['model_type']})" if isinstance(value.get("model_type"), str) else name(key)
        for key, value in parts.items()
        if key not in (place, "quantization_config", "generation_config")
    ]


# Each wrapping type comes with the type of the text part that is read.
def wrappers() -> dict[str, str]:
    return {name: row["type"] for name, row in _read_table()["text"].items()}


# These types compute the same as a family.
def alike() -> dict[str, str]:
    return dict(_read_table()["alike"])


# Files of these types hold the keys of the text part themselves.
def flat() -> dict[str, str]:
    return dict(_read_table()["flat"])


# Each type that cannot be read comes with the form that is missing.
@functools.cache
def refused() -> dict[str, str]:
    rows = tomllib.loads((_TABLES / "refused.toml").read_text(encoding="utf-8"))
    return {name: why for why, names in rows.items() for name in names}


@functools.cache
def _read_table() -> dict[str, Any]:
    table = tomllib.loads((_TABLES / "wrappers.toml").read_text(encoding="utf-8"))
    table["omitted"] = {name: {key: read_null(value) for key, value in row.items()} for name, row in table["omitted"].items()}
    return table
