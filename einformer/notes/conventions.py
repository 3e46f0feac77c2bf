"""Which letters does a document use for what? A printed formula, in the letters of the shipped texts."""

from __future__ import annotations

import functools
import pathlib
import re
import tomllib
from collections.abc import Mapping

from einformer.errors import fail
from einformer.notation.parser import parse_expression
from einformer.notation.primitives import NAMES
from einformer.notation.tree import Expression, Spec

_NOTHING = Spec("", (), (), ())
_LETTERS = re.compile(r"[^\W\d_]+(?:_\w+)?")  # d_model, Psi, D_K


@functools.cache
def conventions() -> Mapping[str, Mapping[str, str]]:
    """The letters of each convention, and what they are in ours.

    >>> conventions()["megatron"]["h"], conventions()["kaplan"]["d_attn"]
    ('D', 'A H')
    """
    text = (pathlib.Path(__file__).parent / "conventions.toml").read_text(encoding="utf-8")
    return {name: _spelled_out(row) for name, row in tomllib.loads(text).items()}


def _spelled_out(row: dict[str, str]) -> dict[str, str]:
    """`same` are letters that mean what they mean here."""
    return {letter: letter for letter in row.get("same", "").split()} | {k: row[k] for k in row.keys() - {"same"}}


def read(text: str, letters: Mapping[str, str]) -> Expression:
    """A printed formula in our letters. Raises EinformerError E605 for a letter of which nothing is said.

    >>> from einformer.notation.printer import show
    >>> show(read("12 l h^2", conventions()["megatron"]))
    '12 L D^2'
    """

    def ours(match: re.Match[str]) -> str:
        name = match[0]
        if name in NAMES:
            return name
        if name not in letters:
            raise fail("E605", f"`{text}` has a letter `{name}` of which nothing is said", fix=f"one of {', '.join(letters)}")
        return letters[name] if letters[name].isalpha() else f"({letters[name]})"

    return parse_expression(_LETTERS.sub(ours, text), _NOTHING, text)
