"""Counts the bytes of generation by kind of layer: those that the equations need, and those that engines allocate."""

from __future__ import annotations

import functools
import pathlib
import re
import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from einformer.errors import EinformerError
from einformer.interpreters import count
from einformer.interpreters.count import rules
from einformer.interpreters.count.conventions import Precision
from einformer.interpreters.count.numbers import Numbers
from einformer.interpreters.count.table import spell_bytes
from einformer.language.sizes import MAXIMUM_SIZE
from einformer.objects import Model, choose_rows
from einformer.program.cache import Entry
from einformer.report import fit

HEAD = ("kind of layer", "layers", "keeps of a row", "bytes of a position", "bytes")


@dataclass(frozen=True, slots=True)
class Engine:
    """The positions for which an engine allocates a cache, and the source of the rule."""

    title: str
    page: int
    source: str
    windows: Mapping[str, int] | None = None
    uniform: bool = False

    def positions(self, length: int, back: int | None) -> int:
        """Returns the positions that a row has at a length, where a layer reads `back` positions before the current one.

        >>> read_engines()["vllm"].positions(1000, None), read_engines()["vllm"].positions(1000, 99)
        (1008, 128)
        """
        if back is None or self.windows is None:
            return _round_up(length, self.page)
        page = self.windows["page"]
        needed = _round_up(min(length, back + self.windows["ahead"]), page) + page * self.windows["spare"]
        return min(needed, _round_up(length, page))


@functools.cache
def read_engines() -> dict[str, Engine]:
    """Returns the known engines by name."""
    path = pathlib.Path(count.__file__).parent / "engines.toml"
    return {name: Engine(**row) for name, row in tomllib.loads(path.read_text(encoding="utf-8")).items()}


@dataclass(frozen=True, slots=True)
class Kind:
    """Layers that keep the same: their name and number, what one of them keeps, and its bytes, of all rows but `position`."""

    path: str
    layers: int
    keeps: str
    position: int
    needed: int
    allocated: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Generation:
    """What generation takes at a batch and a length, and the length up to which it fits into a memory."""

    inputs: Mapping[str, int]
    precision: Precision
    parameters: int
    kinds: tuple[Kind, ...]
    memory: int
    longest: int | None

    @property
    def weights(self) -> int:
        """Returns the bytes of the weights."""
        return self.parameters * self.precision.parameters

    @property
    def needed(self) -> int:
        """Returns the bytes of the cache that the equations need."""
        return sum(kind.layers * kind.needed for kind in self.kinds)

    def allocated(self, engine: str) -> int:
        """Returns the bytes of the cache that an engine allocates."""
        return sum(kind.layers * kind.allocated[engine] for kind in self.kinds)

    @property
    def advice(self) -> str:
        """Returns one line to act on."""
        rows = self.inputs.get("B", 1)
        where = f"{spell_bytes(self.memory)} hold the weights and the cache of {rows:,} row{'s' * (rows > 1)}"
        if self.longest is None:
            return f"{spell_bytes(self.memory)} do not hold the weights and one position"
        return f"{where} up to {self.longest:,} positions" if self.longest < MAXIMUM_SIZE else f"{where} of any length"

    def table(self) -> Iterator[tuple[str, ...]]:
        """Yields the cells of a table under `HEAD`."""
        for kind in self.kinds:
            position = f"{kind.position:,}" if kind.position else ""
            yield kind.path, f"{kind.layers:,}", kind.keeps, position, f"{kind.layers * kind.needed:,}"

    def rows(self) -> Iterator[tuple[str, str]]:
        """Yields the totals: needed, allocated by each engine, and advice."""
        yield "weights", f"{spell_bytes(self.weights)} as {self.precision.name}"
        yield "cache", f"{self.needed:,} bytes, {spell_bytes(self.needed)}: what the equations read again"
        for name, engine in read_engines().items():
            size = self.allocated(name)
            more = f", {size / self.needed:.2f} of that" if self.needed else ""
            yield "", f"{size:,} bytes, {spell_bytes(size)}{more}: {engine.title}"
        yield "fits", self.advice
        for name, engine in read_engines().items():
            yield "sources" * (name == "vllm"), f"{engine.title}: {engine.source}"

    def data(self) -> dict[str, Any]:
        """Returns the object for `--json`."""
        kinds = [{name: getattr(kind, name) for name in Kind.__slots__} for kind in self.kinds]
        engines = {name: {"bytes": self.allocated(name), "source": engine.source} for name, engine in read_engines().items()}
        sizes = {"weights": self.weights, "cache": self.needed, "memory": self.memory, "longest": self.longest}
        return {"inputs": dict(self.inputs), "precision": self.precision.name, "kinds": kinds, "engines": engines} | sizes


def count_generation(model: Model, memory: int, precision: str = "bfloat16", **sizes: int) -> Generation:
    """Returns what generation takes at these sizes of the inputs.

    Raises EinformerError E508 if the model cannot be decoded step by step, E601, E603 to E605.
    """
    _, chosen = choose_rows("torch", precision)
    layers: dict[str, list[Entry[int]]] = {}
    for entry in model.kept:
        if not entry.source:
            layers.setdefault(entry.path, []).append(entry)
    assert model.spec.layer.time is not None
    numbers = Numbers(model.at(**sizes), model.spec.layer.time.letter)
    alike = Counter(
        (re.sub(r"\d+", "{l}", path), tuple(_measure(entry, numbers, rules.BYTES[chosen.dtype]) for entry in entries))
        for path, entries in layers.items()
    )
    mixed = any(held.kind == "visible" and held.back is None for _, entries in alike for held in entries)
    kinds = tuple(_make_kind(path, times, entries, numbers, mixed) for (path, entries), times in alike.items())
    return Generation(sizes, chosen, model.num_parameters, kinds, memory, _find_longest(model, memory, precision, sizes))


# A tensor that a layer keeps: the position of each row that it reaches back to, the bytes of all, and of one position of a row.
@dataclass(frozen=True, slots=True)
class _Held:
    kind: str
    back: int | None
    rows: int
    position: int
    needed: int


def _measure(entry: Entry[int], sizes: Numbers, element: int) -> _Held:
    rows: int = rules.product(tuple(map(sizes.length, sorted(entry.rows))))
    own = rules.count_cache([entry], sizes, element).total
    positions = rules.count_positions(entry, sizes)
    return _Held(entry.kind, entry.back, rows, own // max(rows * positions, 1), own)


def _make_kind(path: str, times: int, entries: tuple[_Held, ...], sizes: Numbers, mixed: bool) -> Kind:
    length = sizes.length(sizes.time)
    allocated = {
        name: sum(
            held.position * held.rows * engine.positions(length, None if engine.uniform and mixed else held.back)
            if held.kind == "visible"
            else held.needed
            for held in entries
        )
        for name, engine in read_engines().items()
    }
    keeps = dict.fromkeys(_describe(held) for held in entries)
    growing = sum(held.position for held in entries if held.kind == "visible")
    return Kind(path, times, ", ".join(keeps), growing, sum(held.needed for held in entries), allocated)


def _describe(held: _Held) -> str:
    if held.kind == "sum":
        return "a sum"
    if held.kind == "earlier":
        return "a state" if held.back == 1 else f"the last {held.back} positions"
    return "all positions" if held.back is None else f"a window of {held.back + 1:,} positions"


def _find_longest(model: Model, memory: int, precision: str, sizes: Mapping[str, int]) -> int | None:
    rest: dict[str, Any] = {letter: size for letter, size in sizes.items() if letter != "S"}
    try:
        return fit.in_memory(model, memory, "S", use="generation", precision=precision, **rest).found.size
    except EinformerError as error:
        if error.findings[0].code != "E609":
            raise
        return None


def _round_up(number: int, multiple: int) -> int:
    return -(-number // multiple) * multiple
