"""Reads a JSON object whose keys stand once, each with its place in the text for messages."""

from __future__ import annotations

import json
import os
import pathlib
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from einformer.errors import NOWHERE, Source, Span, fail

MOST_BYTES = 10_000_000
# The objects whose keys are read, by the name that is theirs here; one in them has an older name.
OPENED = {"rope_scaling": "rope", "rope_parameters": "rope", "rope.type": "rope.rope_type"}
OPENED |= {name: name for name in ("attn_config", "ffn_config", "linear_attn_config")}
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\]:]', re.DOTALL)


@dataclass(frozen=True, slots=True)
class JsonObject:
    """The keys and values of a JSON object, with the place of each key. A dict has no places."""

    values: Mapping[str, object]
    source: Source = NOWHERE.source
    places: Mapping[str, Span] = field(default_factory=dict)

    def span(self, key: str = "") -> Span:
        return self.places.get(key, Span(self.source, 0, 1))

    # `n_embd, config.json:9`.
    def origin(self, key: str) -> str:
        return f"{key}, {self.source.name}:{self.places[key].line}" if key in self.places else key


def read(path: pathlib.Path) -> JsonObject:
    if not os.path.isfile(path):
        raise fail("E802", f"there is no file {name(str(path), 300)}")
    try:
        with path.open("rb") as file:
            text = file.read(MOST_BYTES + 1)
        source = Source(str(path), text.decode("utf-8-sig"))
    except (OSError, UnicodeDecodeError) as error:
        raise fail("E801", f"`{path}` cannot be read: {error}", fix="a text in UTF-8") from error
    if len(text) > MOST_BYTES:
        raise fail("E610", f"`{path}` is larger than {MOST_BYTES:,} bytes")
    return parse(source)


def parse(source: Source) -> JsonObject:
    start = Span(source, 0, 1)
    try:
        values = json.loads(source.text)
    except json.JSONDecodeError as error:
        raise fail("E610", f"this is not JSON: {error.msg}", Span(source, error.pos, error.pos + 1)) from error
    except RecursionError as error:
        raise fail("E610", "the lists and objects of this JSON nest too deep", start) from error
    except ValueError as error:  # a number of thousands of digits
        raise fail("E610", f"this JSON cannot be read: {error}", start) from error
    if not isinstance(values, dict):
        raise fail("E610", f"this JSON is {show_value(values)}, not an object", start, fix='`{"key": value, …}`')
    return JsonObject(values, source, _find_keys(source))


# Returns the document with the keys inside some objects as its own keys: `rope.factor` in `rope_scaling`. Raises EinformerError
# E615 if two keys of one name differ.
def open_objects(document: JsonObject) -> JsonObject:
    items = document.values.items()
    inner = (item for key, value in items if key in OPENED for item in _walk(key, OPENED[key], value, 2))
    kinds = [*_find_kinds(document), *_find_heads(document)]
    named = {key for key, _, _ in kinds}
    plain = ((key, key, value) for key, value in items if key not in OPENED and key not in named)
    return _collect(document, [*plain, *inner, *kinds])


# Layers of one kind are alike: what `per_layer_config` says of each is said of its kind, or it stays as it is.
def _find_kinds(document: JsonObject) -> list[tuple[str, str, object]]:
    match document.values:
        case {"per_layer_config": dict(layers), "layer_types": [*words]}:
            own: dict[str, object] = {str(layer).lstrip("0") or "0": value for layer, value in layers.items()}
            by_layer = [own.get(str(layer), {}) for layer in range(len(words))]
            kinds = {word: one for word, one in zip(map(str, words), by_layer, strict=True) if isinstance(one, dict)}
            if by_layer == [kinds.get(str(word)) for word in words] and len(layers) == sum(map(bool, by_layer)):
                inner = "per_layer_config"
                return [(inner, f"{inner}.{word}.{key}", value) for word, one in kinds.items() for key, value in one.items()]
    return []


# A list with a number of heads for each layer says one for each kind of layers, or it stays as it is.
def _find_heads(document: JsonObject) -> list[tuple[str, str, object]]:
    key = "num_attention_heads_per_layer"
    heads, words = document.values.get(key), document.values.get("layer_types")
    if not (isinstance(heads, list) and isinstance(words, list)):
        return []
    kinds = dict(zip(map(str, words), heads, strict=False))
    alike = heads == [kinds.get(str(word)) for word in words]
    return [(key, f"{key}.{word}", number) for word, number in kinds.items()] * alike


def rename_keys(document: JsonObject, names: Mapping[str, str]) -> JsonObject:
    return _collect(document, [(key, _rename_key(key, names), value) for key, value in document.values.items()])


def _collect(document: JsonObject, items: Iterable[tuple[str, str, object]]) -> JsonObject:
    values, places = dict[str, object](), dict(document.places)
    for written, inner, value in items:
        place = document.span(written if written in places else str(written).partition(".")[0])
        if inner in values and values[inner] != value:
            facts = [f"{show_value(values[inner])} and {show_value(value)}"]
            raise fail("E615", f"`{inner}` is given twice, and differs", place, facts, "it once")
        values[inner] = value
        places.setdefault(inner, place)
    return JsonObject(values, document.source, places if document.places else {})


def _rename_key(key: str, names: Mapping[str, str]) -> str:
    old = next((old for old in names if f"{key}.".startswith(f"{old}.")), None)
    return names[old] + key.removeprefix(old) if old else key


# Objects inside are opened too. Other values stay.
def _walk(written: str, path: str, value: object, depth: int) -> Iterator[tuple[str, str, object]]:
    if not (isinstance(value, dict) and depth):
        yield written, path, value
        return
    for key, part in value.items():
        inner = f"{path}.{key}"
        yield from _walk(f"{written}.{key}", OPENED.get(inner, inner), part, depth - 1)


# Keys are strings before a colon. Raises EinformerError E610 for a key that its object has already.
def _find_keys(source: Source) -> dict[str, Span]:
    places: dict[str, Span] = {}
    within: list[tuple[str, set[str]]] = []  # the path of each object or list that is open, and its keys so far
    path, string = "", None
    for token in _TOKEN.finditer(source.text):
        match token[0]:
            case "{" | "[":
                within.append((path, set()))
            case "}" | "]":
                path, _ = within.pop()
            case ":" if string:
                outer, keys = within[-1]
                key, place = json.loads(string[0]), Span(source, string.start(), string.end())
                if key in keys:
                    raise fail("E610", f"the key {name(key)} stands twice", place, fix="it once")
                keys.add(key)
                path = f"{outer}.{key}" if within[1:] else key
                places.setdefault(path, place)
            case _:
                string = token
    return places


# Values are printed as short JSON.
def show_value(value: object) -> str:
    match value:
        case dict() | list() | tuple():
            return f"{'an object' if isinstance(value, dict) else 'a list'} of {len(value)}"
        case int() if abs(value) >= 10**18:
            return "a number of 19 digits or more"
        case str() | int() | float() | None:
            return _shorten(json.dumps(value))
        case _:
            return f"a {type(value).__name__}"


# Names are printed without control characters, and short.
def name(key: object, most: int = 60) -> str:
    return f"`{_shorten(json.dumps(key)[1:-1], most)}`" if isinstance(key, str) else show_value(key)


def _shorten(text: str, most: int = 60) -> str:
    return text if len(text) <= most else f"{text[:most]}…"
