"""Reads a config.json as an architecture with sizes and scalars.

Every key is handled, ignored for a stated reason, or refused by name, by the table of its `model_type`.
"""

from __future__ import annotations

import difflib
import json
import math
import operator
import os
import pathlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from einformer.errors import EinformerError, Finding, Source, fail
from einformer.huggingface.documents import OPENED, JsonObject, name, open_objects, read, rename_keys, show_value
from einformer.huggingface.families import DEVIATION, Family, families, family
from einformer.huggingface.keys import WHOLE, Key
from einformer.huggingface.wrappers import ConfigPart, alike, find_text_part, refused
from einformer.interpreters.torch.plan import Initialisation

if TYPE_CHECKING:
    from einformer.language import binding
    from einformer.language.sizes import Legend
    from einformer.language.tree import Spec

_OF_WEIGHTS = {"dtype", "torch_dtype", "architectures", "quantization_config"}  # keys that speak of the weights beside a config
_ORDERS = {"<=": operator.le, "<": operator.lt, "==": operator.eq}


_MOST_UNKNOWN = 100  # keys that are named


@dataclass(frozen=True, slots=True)
class Imported:
    """A config as a model.

    `family` is the `model_type` and the variants of its table. `values` holds sizes and scalars by letter, and `origins`
    their places: `n_embd, config.json:9`. `scalars` are lines that replace those of the text. `absent` are optional weights
    that the model does not have, `Attention.α`, or `U` of the model. `ignored` are keys without effect, with the reason.
    `config` is the config of its own that it would have, and `part` describes it if it is the text part of another, whose
    `others` are not counted.
    """

    family: str
    architecture: str
    scalars: str
    values: Mapping[str, int | float | Sequence[float]]
    origins: Mapping[str, str]
    absent: tuple[str, ...]
    initialisation: Initialisation
    ignored: Mapping[str, str]
    config: Mapping[str, object]
    part: str = ""
    others: tuple[str, ...] = ()


def read_config(source: str | pathlib.Path | Mapping[str, object]) -> JsonObject:
    """Reads the keys of a config.json, of the config.json in a folder, or of a dict.

    >>> read_config({"model_type": "gpt2"}).values["model_type"]
    'gpt2'

    Raises EinformerError E610 if the text is not a JSON object, E801, E802.
    """
    if isinstance(source, Mapping):
        return JsonObject(source)
    path = pathlib.Path(source)
    return read(path / "config.json" if os.path.isdir(path) else path)


def import_config(source: str | pathlib.Path | Mapping[str, object]) -> Imported:
    """Reads the architecture, sizes and scalars of a config.

    >>> sizes = {"vocab_size": 11, "n_embd": 12, "n_head": 3, "n_layer": 2, "n_positions": 8}
    >>> import_config({"model_type": "gpt2", "bos_token_id": 0} | sizes).values["D"]
    12

    Raises EinformerError with every key that is wrong, E611 to E616, and E610, E801, E802 if the file cannot be read.
    """
    part = find_text_part(read_config(source))
    config = open_objects(part.config)
    plain = family(_read_model_type(config, part))
    config = rename_keys(config, plain.renamed)
    omitted = _find_omitted(config, plain, part.omitted)
    config = replace(config, values={**omitted, **config.values})
    path = _name_family(config, plain)
    table = family(path)
    readings = list(_read_keys(config, table))
    if unread := list(_find_wrong_values(config, [reading for reading in readings if reading.key.key in plain.choosing])):
        raise EinformerError(unread)  # what the other keys may be is not known
    if findings := [
        *_find_unknown_keys(config, table),
        *_find_wrong_values(config, readings),
        *_find_missing_letters(config, table, readings),
        *_find_contradictions(config, table, readings),
        *_find_broken_bounds(config, table, readings),
        *_find_refused_values(config, table),
        *_find_wrong_lists(config, table),
    ]:
        raise EinformerError(sorted(findings, key=lambda finding: finding.span.start))
    letters = _take_first(readings)
    start = Initialisation(table.scheme, letters.pop(DEVIATION).number)
    lists = dict(_read_lists(config, table, letters))
    return Imported(
        path,
        table.architecture,
        table.scalars,
        {**{letter: reading.number for letter, reading in letters.items()}, **lists},
        {letter: reading.origin for letter, reading in letters.items()} | dict.fromkeys(lists, "a list of the config"),
        table.absent,
        start,
        {key: table.ignored[key] for key in config.values if key in table.ignored},
        {**omitted, **part.config.values, "model_type": part.family},
        part.about,
        part.others,
    )


# Returns the text of a config written out, its checked tree, and its legend. What is given replaces values of the config. The
# text is checked once, with its sizes. Raises EinformerError E602 to E606, E308.
def bind_text(imported: Imported, given: Mapping[str, binding.Given]) -> tuple[Spec, Spec, Legend]:
    from einformer.architectures import texts  # keys are read without them
    from einformer.language import binding
    from einformer.language.parser import parse_scalars
    from einformer.program.causality import check_spec

    written = texts.write_out(imported.architecture)
    absent = (path if "." in path else f"{written.layers[-1].name}.{path}" for path in imported.absent)
    written, findings = parse_scalars(Source("<scalars>", imported.scalars), binding.leave_out(written, absent))
    if findings:
        raise EinformerError(findings)
    written, legend = binding.bind(written, {**imported.values, **given}, imported.origins)
    tree, findings = check_spec(written, values=binding.find_sizes(legend), origins=legend.origins)
    if findings:
        raise EinformerError(findings)
    return written, tree, legend


def config_text(config: Mapping[str, object], name: str, legend: Legend, dtype: str) -> str:
    from einformer.language.tree import Name

    table = family(name)
    kept = {key: value for key, value in config.items() if key not in _OF_WEIGHTS}
    read = {key: legend.named(Name(letter)) for key, letter in table.saved.items()}
    fixed_lines = {"architectures": [table.made], "torch_dtype": dtype}
    return json.dumps({**kept, **read, **fixed_lines}, indent=2, ensure_ascii=False, default=str) + "\n"


def _name_family(config: JsonObject, table: Family) -> str:
    values = {key.key: config.values.get(key.key, key.default) for key in table.keys}
    values |= {key: config.values.get(key, fixed.absent) for key, fixed in table.fixed.items()}
    values |= {key: config.values.get(key) for key in table.lists}
    variants = (
        name for name, when in table.variants.items() if all(_matches(values, key, value) for key, value in when.items())
    )
    return " ".join([table.name, *variants])


# `not` names a key: the value must differ from it.
def _matches(values: Mapping[str, object], key: str, wanted: object) -> bool:
    if isinstance(wanted, str) and wanted.startswith("not "):
        return values[key] not in (None, values[wanted.removeprefix("not ")])
    return values[key] == wanted


# Letters that words stand for are used up.
def _read_lists(config: JsonObject, table: Family, letters: dict[str, _KeyReading]) -> Iterator[tuple[str, list[float]]]:
    numbers = {letter: reading.number for letter, reading in letters.items()}
    for key, listed in table.lists.items():
        if listed.letter and listed.says(value := config.values.get(key)):
            words: Any = value
            yield listed.letter, listed.numbers(words, numbers)
            for letter in listed.letters:
                letters.pop(letter, None)


# The value of a key, or the default if it is absent.
@dataclass(frozen=True, slots=True)
class _KeyReading:
    key: Key
    value: object
    origin: str

    @property
    def number(self) -> int | float:
        assert isinstance(self.value, int | float)
        return int(self.value) + self.key.less if self.key.whole else self.value


def _read_keys(config: JsonObject, table: Family) -> Iterator[_KeyReading]:
    first: dict[str, _KeyReading] = {}
    for reading in _read_stated_keys(config, table):
        first.setdefault(reading.key.letter, reading)
        yield reading
    for letter, default in table.defaults.items():
        if letter not in first:
            yield from _read_default(letter, default, first, table)


def _read_stated_keys(config: JsonObject, table: Family) -> Iterator[_KeyReading]:
    for key in table.keys:
        if key.key in config.values:
            if key.gives(config.values[key.key]):
                yield _KeyReading(key, key.once(config.values), config.origin(key.key))
        elif key.default is not None:
            yield _KeyReading(key, key.default, f"{key.key}, absent: its default")
    for word, listed in table.lists.items():
        if listed.counts and isinstance(value := config.values.get(word), list | str):
            yield _KeyReading(Key(word, listed.counts, WHOLE), len(value), config.origin(word))


def _read_default(letter: str, default: float | str, first: Mapping[str, _KeyReading], table: Family) -> Iterator[_KeyReading]:
    key = next(key for key in table.keys if key.letter == letter)
    if not isinstance(default, str):
        yield _KeyReading(key, default, f"{key.key}, absent: its default")
    elif default in first:
        yield replace(first[default], key=replace(first[default].key, letter=letter), origin=f"{key.key}, absent: as {default}")


def _take_first(readings: Iterable[_KeyReading]) -> dict[str, _KeyReading]:
    first: dict[str, _KeyReading] = {}
    for reading in readings:
        first.setdefault(reading.key.letter, reading)
    return first


# Keys that a file leaves out stand for the values of the type in transformers, unless another key gives their letter.
def _find_omitted(config: JsonObject, table: Family, values: Mapping[str, object]) -> dict[str, object]:
    letters = {key.key: key.letter for key in table.keys}
    stated = {letters.get(key, key) for key in config.values}
    return {key: value for key, value in values.items() if letters.get(key, key) not in stated}


def _read_model_type(config: JsonObject, part: ConfigPart) -> str:
    names, where = families(), f" in `{part.place}`" * bool(part.place)
    if config.values.get("model_type", part) is part:
        raise fail(
            "E613", f"the config has no `model_type`{where}", config.span(), fix=f'`"model_type": "{names[0]}"`, or another'
        )
    if part.family in names:
        return part.family
    model_type = config.values["model_type"]
    message = f"models of the type {show_value(model_type)}{where} cannot be read"
    if isinstance(model_type, str) and model_type in refused():
        raise fail("E611", f"{message}: {refused()[model_type]}", config.span("model_type"))
    close = difflib.get_close_matches(model_type[:60], [*names, *alike()], n=1) if isinstance(model_type, str) else []
    fix = "; ".join([*(f'`"{name}"`' for name in close), "`einformer list` names all that are read"])
    raise fail("E611", message, config.span("model_type"), fix=fix)


# ----------------------------------------------------------------------------------------------- what a key may be


def _find_unknown_keys(config: JsonObject, table: Family) -> Iterator[Finding]:
    unknown = [key for key in config.values if key not in table.known]
    objects = [key for key, inner in OPENED.items() if any(handled.startswith(f"{inner}.") for handled in table.known)]
    for key in unknown[:_MOST_UNKNOWN]:
        close = difflib.get_close_matches(str(key)[:60], [*table.known, *objects], n=1)
        fix = f"`{close[0]}`" if close else "the config without it, if it has no say in what the model computes"
        yield Finding("E612", f"{name(key)} is not a known key of a {table.name} config", config.span(key), fix=fix)
    if more := unknown[_MOST_UNKNOWN:]:
        yield Finding("E612", f"{len(more)} more keys are not known keys of a {table.name} config", config.span(more[0]))


def _find_wrong_values(config: JsonObject, readings: Sequence[_KeyReading]) -> Iterator[Finding]:
    for reading in readings:
        if not reading.key.holds(reading.value):
            message = f"`{reading.key.key}` cannot be {show_value(reading.value)}"
            yield Finding("E614", message, config.span(reading.key.key), fix=reading.key.wanted)


def _find_missing_letters(config: JsonObject, table: Family, readings: Sequence[_KeyReading]) -> Iterator[Finding]:
    letters, names = {reading.key.letter for reading in readings if not reading.key.agrees}, set[str]()
    letters |= {letter for letter, default in table.defaults.items() if not isinstance(default, str) or default in letters}
    for key in table.keys:
        if key.letter not in letters | names and not key.optional:
            names.add(key.letter)
            yield Finding("E613", f"the config has no `{key.key}`", config.span(), fix=f'`"{key.key}": …`, {key.wanted}')


def _find_contradictions(config: JsonObject, table: Family, readings: Sequence[_KeyReading]) -> Iterator[Finding]:
    numbers = [reading for reading in readings if reading.key.holds(reading.value)]
    first = _take_first(numbers)
    for reading in numbers:
        other = first[reading.key.letter]
        if other.number != reading.number:
            facts = tuple(f"{reading.key.letter} = {show_value(one.number)} ({one.origin})" for one in (other, reading))
            message = (
                f"`{other.key.key}` and `{reading.key.key}` differ, and {table.architecture}.ein has one {reading.key.letter}"
            )
            yield Finding("E615", message, config.span(reading.key.key), facts, "the same number for both")


# A bound is another letter, or a quotient: `<= X`, `<= D / A`.
def _find_broken_bounds(config: JsonObject, table: Family, readings: Sequence[_KeyReading]) -> Iterator[Finding]:
    numbers = _take_first(reading for reading in readings if reading.key.holds(reading.value))
    for letter, bound in table.bounds.items():
        order, by, *per = bound.replace("/", "").split()
        if not {letter, by, *per} <= numbers.keys():
            continue
        bounded = [numbers[reading] for reading in (letter, by, *per)]
        one, other, *divisors = bounded
        if not _ORDERS[order](one.number * math.prod(reading.number for reading in divisors), other.number):
            facts = tuple(f"{reading.key.letter} = {show_value(reading.number)} ({reading.origin})" for reading in bounded)
            names = " and ".join(f"`{reading.key.key}`" for reading in bounded)
            message = f"{names} do not fit: of {table.architecture}.ein {letter} {bound}"
            yield Finding("E615", message, config.span(one.key.key), facts, f"a number {bound}")


def _find_wrong_lists(config: JsonObject, table: Family) -> Iterator[Finding]:
    for key, listed in table.lists.items():
        if config.values.get(key) is not None and not listed.holds(config.values[key]):
            yield Finding("E614", f"`{key}` cannot be {show_value(config.values[key])}", config.span(key), fix=listed.wanted)
        if listed.required and config.values.get(key) is None:
            yield Finding("E613", f"the config has no `{key}`", config.span(), fix=f'`"{key}": …`, {listed.wanted}')


def _find_refused_values(config: JsonObject, table: Family) -> Iterator[Finding]:
    for key, fixed in table.fixed.items():
        if not fixed.holds(value := config.values.get(key, fixed.absent)):
            message = f"`{key}` cannot be {show_value(value)}: in {table.architecture}.ein {fixed.why}"
            yield Finding("E616", message, config.span(key), fix=" or ".join(map(json.dumps, fixed.values)))
