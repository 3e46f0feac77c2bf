"""On which line of the PyTorch of a text does an equation stand, and which test compares that with the reference?"""

from __future__ import annotations

import functools
import pathlib
import tomllib
from dataclasses import dataclass

from einformer.errors import Span
from einformer.interpreters.torch import source
from einformer.interpreters.torch.plan import FAST, Style
from einformer.language import binding
from einformer.notes import shelf
from einformer.notes import sources as documents
from einformer.program import check

_TEXTS = pathlib.Path(__file__).parent / "emitted.toml"


@dataclass(frozen=True, slots=True)
class Emitted:
    """A line of an emitted file, and the class that it is in."""

    file: str
    line: int
    name: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line} {self.name}"


def emitted(layer: str, written: Span) -> Emitted:
    """Where the equation of a layer stands: in the file of its text, else in that of the layer alone.

    The line of the comment that is the equation; below it is what computes that.
    """
    text, _, name = layer.partition(".")
    last = shelf.understood(text)[0].layers[-1].name
    whole = _places(text, last)
    file, places = (text, whole) if written in whole else (layer, _places(text, name))
    return Emitted(f"{file}.py", *places[written])


def tested(layer: str) -> str:
    """The test that compares the PyTorch of a text with the reference."""
    row = _table()[layer.partition(".")[0]]
    return f"tests/test_{row['test']}"


def sizes(text: str) -> dict[str, int]:
    """The sizes with which a text is emitted; no line hangs on them."""
    return {letter: int(size) for letter, _, size in (each.partition("=") for each in _table()[text]["sizes"].split())}


@functools.cache
def _table() -> dict[str, dict[str, str]]:
    return tomllib.loads(_TEXTS.read_text(encoding="utf-8"))


@functools.cache
def _places(text: str, name: str) -> dict[Span, tuple[int, str]]:
    """The places of all equations in the file of a layer."""
    written, legend = binding.bind(shelf.understood(text)[0], sizes(text))
    tree, _ = check.check(written, values=binding.known(legend), origins=legend.origins)
    return source.places(tree, name, legend, FAST, Style(cited=documents.cited, sources=documents.listed))
