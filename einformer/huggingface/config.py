"""Which model is a config.json: which architecture, of which sizes and scalars, and which of its keys have no say?

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

from einformer.errors import EinformerError, Finding, fail
from einformer.huggingface.documents import Document, name, opened, read, renamed, shown
from einformer.huggingface.families import DEVIATION, Family, families, family
from einformer.huggingface.keys import Key
from einformer.interpreters.torch.plan import Initialisation
from einformer.language.sizes import Legend
from einformer.language.tree import Name

_OF_WEIGHTS = {"dtype", "torch_dtype", "architectures"}  # keys that speak of the weights beside a config
_ORDERS = {"<=": operator.le, "<": operator.lt}


@dataclass(frozen=True, slots=True)
class Imported:
    """What a config says in our terms.

    `family` is the `model_type` and the variants of its table. `values` are sizes and scalars by letter and `origins` where
    each stands: `n_embd, config.json:9`; `scalars` are lines that replace those of the text. `absent` are the optional
    weights that are not there, `Attention.α`, or `U` of the model; `ignored` the keys that have no say, with the reason.
    `config` is what was read, as it was.
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


def read_config(source: str | pathlib.Path | Mapping[str, object]) -> Document:
    """The keys of a config: of a config.json, of the one in a folder, or of a dict.

    >>> read_config({"model_type": "gpt2"}).values["model_type"]
    'gpt2'

    Raises EinformerError E610 for what is no JSON object, E801, E802.
    """
    if isinstance(source, Mapping):
        return Document(source)
    path = pathlib.Path(source)
    return read(path / "config.json" if os.path.isdir(path) else path)


def import_config(source: str | pathlib.Path | Mapping[str, object]) -> Imported:
    """The architecture, sizes and scalars that a config stands for.

    >>> sizes = {"vocab_size": 11, "n_embd": 12, "n_head": 3, "n_layer": 2, "n_positions": 8}
    >>> import_config({"model_type": "gpt2", "bos_token_id": 0} | sizes).values["D"]
    12

    Raises EinformerError with every key that is wrong, E611 to E616; E610, E801, E802 for what cannot be read.
    """
    document = read_config(source)
    config = opened(document)
    plain = family(_model_type(config))
    config = renamed(config, plain.renamed)
    path = _chosen(config, plain)
    table = family(path)
    given = list(_given(config, table))
    if findings := [
        *_unknown(config, table),
        *_wrong(config, given),
        *_missing(config, table, given),
        *_contradictions(config, table, given),
        *_beyond(config, table, given),
        *_refused(config, table),
        *_no_lists(config, table),
    ]:
        raise EinformerError(sorted(findings, key=lambda finding: finding.span.start))
    letters = _by_letter(given)
    start = Initialisation(table.scheme, letters.pop(DEVIATION).number)
    lists = dict(_lists(config, table, letters))
    return Imported(
        path,
        table.architecture,
        table.scalars,
        {**{letter: each.number for letter, each in letters.items()}, **lists},
        {letter: each.origin for letter, each in letters.items()} | dict.fromkeys(lists, "a list of the config"),
        table.absent,
        start,
        {key: table.ignored[key] for key in config.values if key in table.ignored},
        dict(document.values),
    )


def config_text(config: Mapping[str, object], name: str, legend: Legend, dtype: str) -> str:
    """The config.json by which transformers makes the same model of a family, to hold weights of a dtype."""
    table = family(name)
    kept = {key: value for key, value in config.items() if key not in _OF_WEIGHTS}
    read = {key: legend.named(Name(letter)) for key, letter in table.saved.items()}
    said = {"architectures": [table.made], "torch_dtype": dtype}
    return json.dumps({**kept, **read, **said}, indent=2, ensure_ascii=False, default=str) + "\n"


def _chosen(config: Document, table: Family) -> str:
    """The name of a family and of each of its variants that the config is."""
    said = {key.key: config.values.get(key.key, key.default) for key in table.keys}
    said |= {key: config.values.get(key, fixed.absent) for key, fixed in table.fixed.items()}
    said |= {key: config.values.get(key) for key in table.lists}
    variants = (name for name, when in table.variants.items() if all(_is(said, key, value) for key, value in when.items()))
    return " ".join([table.name, *variants])


def _is(said: Mapping[str, object], key: str, wanted: object) -> bool:
    """Has the key this value, or another one than the key of which it says `not`?"""
    if isinstance(wanted, str) and wanted.startswith("not "):
        return said[key] not in (None, said[wanted.removeprefix("not ")])
    return said[key] == wanted


def _lists(config: Document, table: Family, letters: dict[str, _Given]) -> Iterator[tuple[str, list[float]]]:
    """The numbers that lists give; the letters that words stand for are used up."""
    numbers = {letter: each.number for letter, each in letters.items()}
    for key, listed in table.lists.items():
        if listed.letter and listed.says(value := config.values.get(key)):
            assert isinstance(value, list)
            yield listed.letter, listed.numbers(value, numbers)
            for letter in listed.letters:
                letters.pop(letter, None)


@dataclass(frozen=True, slots=True)
class _Given:
    """What a key says: its value, or the default that it stands for where it is absent."""

    key: Key
    value: object
    origin: str

    @property
    def number(self) -> int | float:
        """The value as a number of its range."""
        assert isinstance(self.value, int | float)
        return int(self.value) + self.key.less if self.key.whole else self.value


def _given(config: Document, table: Family) -> Iterator[_Given]:
    """What each key says that gives a letter, in the order of the table; then what letters are that no key gives."""
    found: dict[str, _Given] = {}
    for each in _said(config, table):
        found.setdefault(each.key.letter, each)
        yield each
    for letter, default in table.defaults.items():
        if letter not in found:
            yield from _by_default(letter, default, found, table)


def _said(config: Document, table: Family) -> Iterator[_Given]:
    for key in table.keys:
        if key.key in config.values:
            if key.gives(config.values[key.key]):
                yield _Given(key, key.once(config.values), config.origin(key.key))
        elif key.default is not None:
            yield _Given(key, key.default, f"{key.key}, absent: its default")


def _by_default(letter: str, default: float | str, found: Mapping[str, _Given], table: Family) -> Iterator[_Given]:
    """A letter that no key gives: a number, or the letter that it equals."""
    key = next(key for key in table.keys if key.letter == letter)
    if not isinstance(default, str):
        yield _Given(key, default, f"{key.key}, absent: its default")
    elif default in found:
        yield replace(found[default], key=replace(found[default].key, letter=letter), origin=f"{key.key}, absent: as {default}")


def _by_letter(given: Iterable[_Given]) -> dict[str, _Given]:
    """The first key that gives each letter."""
    first: dict[str, _Given] = {}
    for each in given:
        first.setdefault(each.key.letter, each)
    return first


def _model_type(config: Document) -> str:
    known = families()
    if "model_type" not in config.values:
        raise fail("E613", "the config has no `model_type`", config.span(), fix=f'`"model_type": "{known[0]}"`, or another')
    if (found := config.values["model_type"]) in known:
        return str(found)
    close = difflib.get_close_matches(found[:60], known, n=1) if isinstance(found, str) else []
    fact = f"einformer reads {', '.join(known)}"
    message = f"models of the type {shown(found)} cannot be read"
    raise fail("E611", message, config.span("model_type"), [fact], f'`"{close[0]}"`' if close else "")


# ----------------------------------------------------------------------------------------------- what a key may be


def _unknown(config: Document, table: Family) -> Iterator[Finding]:
    """Keys that the table has no answer to: each could change the model."""
    for key in config.values:
        if key not in table.known:
            close = difflib.get_close_matches(str(key)[:60], table.known, n=1)
            fix = f"`{close[0]}`" if close else "the config without it, if it has no say in what the model computes"
            yield Finding("E612", f"{name(key)} is not a known key of a {table.name} config", config.span(key), fix=fix)


def _wrong(config: Document, given: Sequence[_Given]) -> Iterator[Finding]:
    """Values that their key cannot have."""
    for each in given:
        if not each.key.holds(each.value):
            message = f"`{each.key.key}` cannot be {shown(each.value)}"
            yield Finding("E614", message, config.span(each.key.key), fix=each.key.wanted)


def _missing(config: Document, table: Family, given: Sequence[_Given]) -> Iterator[Finding]:
    """Letters that no key gives."""
    letters, names = {each.key.letter for each in given if not each.key.agrees}, set[str]()
    letters |= {letter for letter, default in table.defaults.items() if not isinstance(default, str) or default in letters}
    for key in table.keys:
        if key.letter not in letters | names and not key.optional:
            names.add(key.letter)
            yield Finding("E613", f"the config has no `{key.key}`", config.span(), fix=f'`"{key.key}": …`, {key.wanted}')


def _contradictions(config: Document, table: Family, given: Sequence[_Given]) -> Iterator[Finding]:
    """Keys that give one letter two numbers."""
    numbers = [each for each in given if each.key.holds(each.value)]
    first = _by_letter(numbers)
    for each in numbers:
        other = first[each.key.letter]
        if other.number != each.number:
            facts = tuple(f"{each.key.letter} = {shown(one.number)} ({one.origin})" for one in (other, each))
            message = f"`{other.key.key}` and `{each.key.key}` differ, and {table.architecture}.ein has one {each.key.letter}"
            yield Finding("E615", message, config.span(each.key.key), facts, "the same number for both")


def _beyond(config: Document, table: Family, given: Sequence[_Given]) -> Iterator[Finding]:
    """Letters beyond a bound that another letter is, or a quotient: `<= X`, `<= D / A`."""
    numbers = _by_letter(each for each in given if each.key.holds(each.value))
    for letter, bound in table.bounds.items():
        order, by, *per = bound.replace("/", "").split()
        if not {letter, by, *per} <= numbers.keys():
            continue
        bounded = [numbers[each] for each in (letter, by, *per)]
        one, other, *divisors = bounded
        if not _ORDERS[order](one.number * math.prod(each.number for each in divisors), other.number):
            facts = tuple(f"{each.key.letter} = {shown(each.number)} ({each.origin})" for each in bounded)
            names = " and ".join(f"`{each.key.key}`" for each in bounded)
            message = f"{names} do not fit: of {table.architecture}.ein {letter} {bound}"
            yield Finding("E615", message, config.span(one.key.key), facts, f"a number {bound}")


def _no_lists(config: Document, table: Family) -> Iterator[Finding]:
    """Lists of something else than their key wants, and those that are missing."""
    for key, listed in table.lists.items():
        if config.values.get(key) is not None and not listed.holds(config.values[key]):
            yield Finding("E614", f"`{key}` cannot be {shown(config.values[key])}", config.span(key), fix=listed.wanted)
        if listed.required and config.values.get(key) is None:
            yield Finding("E613", f"the config has no `{key}`", config.span(), fix=f'`"{key}": …`, {listed.wanted}')


def _refused(config: Document, table: Family) -> Iterator[Finding]:
    """Models that the equations are not."""
    for key, fixed in table.fixed.items():
        if not fixed.holds(value := config.values.get(key, fixed.absent)):
            message = f"`{key}` cannot be {shown(value)}: in {table.architecture}.ein {fixed.why}"
            yield Finding("E616", message, config.span(key), fix=" or ".join(map(json.dumps, fixed.values)))
