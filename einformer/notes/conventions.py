"""Which letters does a document use for what? A printed formula, in the letters of the shipped texts."""

from __future__ import annotations

import functools
import pathlib
import re
import tomllib
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from einformer.errors import fail

if TYPE_CHECKING:
    from einformer.interpreters.latex.matrices.naming import Style
    from einformer.language.tree import Expression

_HOW = ("same", "writes", "own", "indices", "attends", "matrices")  # what a row says besides what its letters are
_LETTERS = re.compile(r"[^\W\d_]+(?:_\w+)?")  # d_model, Psi, D_K


@functools.cache
def conventions() -> Mapping[str, Mapping[str, str]]:
    """The letters of each convention, and what they are in ours.

    >>> conventions()["megatron"]["h"], conventions()["kaplan"]["d_attn"]
    ('D', 'A H')
    """
    return {name: _spelled_out(row) for name, row in _data().items() if name != "letters"}


@functools.cache
def _data() -> dict[str, dict[str, Any]]:
    return tomllib.loads((pathlib.Path(__file__).parent / "conventions.toml").read_text(encoding="utf-8"))


def _spelled_out(row: dict[str, Any]) -> dict[str, str]:
    """`same` are letters that mean what they mean here."""
    same = {letter: letter for letter in row.get("same", "").split()}
    return same | {letter: ours for letter, ours in row.items() if letter not in _HOW}


def written(name: str) -> dict[str, str]:
    """How the letters of our texts are written in a convention. Raises EinformerError E605 where there is no such one.

    >>> written("kaplan")["D"], written("s000")["S"]
    ('d_model', 'N')
    """
    if name not in conventions():
        raise fail("E605", f"there is no convention `{name}`", fix=f"one of {', '.join(conventions())}")
    named = reversed([(ours, letter) for letter, ours in conventions()[name].items() if ours in _data()["letters"]])
    first: dict[str, str] = dict(named)
    first.update(_data()[name].get("writes", {}))
    return first


def own(name: str) -> dict[str, str]:
    """The letters that a document has for sizes of its own text, where tokens are N.

    >>> own("s003"), own("s000")["Q"]
    ({'N': 'L'}, 'D_q')
    """
    return {conventions()[name][letter]: letter for letter in _data()[name].get("own", "").split()}


def indices(name: str) -> Mapping[str, str]:
    """The letter that a document has for the index of a size of ours.

    >>> indices("vaswani")
    {'A': 'i'}
    """
    found: dict[str, str] = _data()[name].get("indices", {})
    return found


def style(name: str) -> Style | None:
    """How a document names its matrices; None if it writes none.

    >>> style("s000").softmax, style("kaplan")
    ('Softmax', None)
    """
    from einformer.interpreters.latex.matrices.naming import Style

    row = _data()[name].get("matrices")
    return Style(**row) if row is not None else None


def attends(name: str) -> str:
    """The layer of a document's text, or of another's, whose attention is that of the document: `s003.Heads`."""
    return str(_data()[name].get("attends", "s003.Heads"))


def rosetta() -> Iterator[tuple[str, ...]]:
    """A row for each convention: how it writes each letter of our texts; the head, and what they mean, first."""
    letters = _data()["letters"]
    yield "", *letters
    yield "means", *letters.values()
    for name in conventions():
        if name != "ours" and written(name):
            yield name, *(written(name).get(letter, "") for letter in letters)


def read(text: str, letters: Mapping[str, str]) -> Expression:
    """A printed formula in our letters. Raises EinformerError E605 for a letter of which nothing is said.

    >>> from einformer.language.printer import show
    >>> show(read("12 l h^2", conventions()["megatron"]))
    '12 L D^2'
    """
    from einformer.language.parser import parse_expression
    from einformer.language.primitives import NAMES
    from einformer.language.tree import Spec

    def ours(match: re.Match[str]) -> str:
        name = match[0]
        if name in NAMES:
            return name
        if name not in letters:
            raise fail("E605", f"`{text}` has a letter `{name}` of which nothing is said", fix=f"one of {', '.join(letters)}")
        return letters[name] if letters[name].isalpha() else f"({letters[name]})"

    return parse_expression(_LETTERS.sub(ours, text), Spec("", (), (), ()), text)
