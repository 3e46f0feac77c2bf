"""Maps the letters of documents to the letters of the shipped texts."""

from __future__ import annotations

import functools
import pathlib
import re
import tomllib
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from einformer.errors import fail

if TYPE_CHECKING:
    from einformer.interpreters.latex.formulas import MatrixStyle
    from einformer.language.tree import Expression

_HOW = ("same", "writes", "own", "indices", "attends", "matrices")  # keys of a row that are not letters
_LETTERS = re.compile(r"[^\W\d_]+(?:_\w+)?")  # d_model, Psi, D_K


@functools.cache
def conventions() -> Mapping[str, Mapping[str, str]]:
    """Returns the letters of each convention, and their meaning in ours.

    >>> conventions()["megatron"]["h"], conventions()["kaplan"]["d_attn"]
    ('D', 'A H')
    """
    return {name: _spell_out(row) for name, row in _read_data().items() if name != "letters"}


@functools.cache
def _read_data() -> dict[str, dict[str, Any]]:
    return tomllib.loads((pathlib.Path(__file__).parent / "notations.toml").read_text(encoding="utf-8"))


# The letters in `same` mean the same in both.
def _spell_out(row: dict[str, Any]) -> dict[str, str]:
    same = {letter: letter for letter in row.get("same", "").split()}
    return same | {letter: ours for letter, ours in row.items() if letter not in _HOW}


def translate(name: str) -> dict[str, str]:
    """Returns the letters of our texts in a convention. Raises EinformerError E605 if it does not exist.

    >>> translate("kaplan")["D"], translate("s000")["S"]
    ('d_model', 'N')
    """
    if name not in conventions():
        raise fail("E605", f"there is no convention `{name}`", fix=f"one of {', '.join(conventions())}")
    named = reversed([(ours, letter) for letter, ours in conventions()[name].items() if ours in _read_data()["letters"]])
    first: dict[str, str] = dict(named)
    first.update(_read_data()[name].get("writes", {}))
    return first


def own_letters(name: str) -> dict[str, str]:
    """Returns the letters of a document for sizes of its own text, where tokens are N.

    >>> own_letters("s003"), own_letters("s000")["Q"]
    ({'N': 'L'}, 'D_q')
    """
    return {conventions()[name][letter]: letter for letter in _read_data()[name].get("own", "").split()}


def indices(name: str) -> Mapping[str, str]:
    """Returns the letter of a document for the index of a size of ours.

    >>> indices("vaswani")
    {'A': 'i'}
    """
    letters: dict[str, str] = _read_data()[name].get("indices", {})
    return letters


def style(name: str) -> MatrixStyle | None:
    """Returns the names of a document's matrices, or None if it has none.

    >>> style("s000").softmax, style("kaplan")
    ('Softmax', None)
    """
    from einformer.interpreters.latex.formulas import MatrixStyle

    row = _read_data()[name].get("matrices")
    return MatrixStyle(**row) if row is not None else None


# `s003.Heads`.
def attends(name: str) -> str:
    return str(_read_data()[name].get("attends", "s003.Heads"))


# A row for each convention; the head and the meanings come first.
def rosetta() -> Iterator[tuple[str, ...]]:
    letters = _read_data()["letters"]
    yield "", *letters
    yield "means", *letters.values()
    for name in conventions():
        if name != "ours" and translate(name):
            yield name, *(translate(name).get(letter, "") for letter in letters)


def read(text: str, letters: Mapping[str, str]) -> Expression:
    """Reads a printed formula in our letters. Raises EinformerError E605 for an unknown letter.

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
