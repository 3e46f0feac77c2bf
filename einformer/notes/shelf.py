"""Reads the texts of documents."""

from __future__ import annotations

import functools
import pathlib

from einformer.architectures import texts
from einformer.errors import Finding, Source
from einformer.language.tree import Spec

_TEXTS = pathlib.Path(__file__).parent / "texts"


@functools.cache
def documents() -> tuple[str, ...]:
    """Returns the documents with a text of their own.

    >>> documents()
    ('s000', 's002', 's003', 's005', 's005_flash', 's005_rope')
    """
    return tuple(sorted(path.stem for path in _TEXTS.iterdir()))


def source(text: str) -> Source:
    return texts.text(text) if text in texts.shipped() else Source(f"{text}.ein", (_TEXTS / f"{text}.ein").read_text("utf-8"))


def read(target: str | pathlib.Path) -> Source:
    """Returns the text of a target: a shipped name, a document, or a file. Raises EinformerError E801, E802.

    >>> read("s005_flash").name
    's005_flash.ein'
    """
    return source(str(target)) if str(target) in documents() else texts.read(target)


# Each text is read once.
@functools.cache
def elaborate(text: str) -> tuple[Spec, Spec, tuple[Finding, ...]]:
    return texts.elaborate(source(text))
