"""Finds the line of emitted PyTorch for an equation, and the test that compares it with the reference."""

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
from einformer.program.causality import check_spec

_TEXTS = pathlib.Path(__file__).parent / "emitted.toml"


@dataclass(frozen=True, slots=True)
class Emitted:
    """A line of an emitted file, and its class."""

    file: str
    line: int
    name: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line} {self.name}"


def find_emitted(layer: str, written: Span) -> Emitted:
    """Returns the line of an equation in the file of its text, or else in the file of the layer alone.

    It is the comment with the equation. The code below it computes the equation.
    """
    text, _, name = layer.partition(".")
    last = shelf.elaborate(text)[0].layers[-1].name
    whole = _find_places(text, last)
    file, places = (text, whole) if written in whole else (layer, _find_places(text, name))
    return Emitted(f"{file}.py", *places[written])


# The lines do not depend on the sizes.
def sizes(text: str) -> dict[str, int]:
    return {letter: int(size) for letter, _, size in (part.partition("=") for part in _read_table()[text]["sizes"].split())}


@functools.cache
def _read_table() -> dict[str, dict[str, str]]:
    return tomllib.loads(_TEXTS.read_text(encoding="utf-8"))


@functools.cache
def _find_places(text: str, name: str) -> dict[Span, tuple[int, str]]:
    written, legend = binding.bind(shelf.elaborate(text)[0], sizes(text))
    tree, _ = check_spec(written, values=binding.find_sizes(legend), origins=legend.origins)
    return source.find_places(tree, name, legend, FAST, Style(cited=documents.read_note, sources=documents.list_sources))
