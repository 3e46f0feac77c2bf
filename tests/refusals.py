"""Asserts which mistake is refused: its code, and what the message is about. The wording has one golden file for each code."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator

import pytest

import einformer
from einformer import EinformerError
from einformer.errors import Finding
from tests.commands import Found


@contextlib.contextmanager
def refuses(code: str, *about: str) -> Iterator[None]:
    """The first finding of the error that is raised inside has this code, and its message or its place names these."""
    with pytest.raises(EinformerError) as raised:
        yield
    first = raised.value.findings[0]
    assert (first.code, set(about) - names(first)) == (code, set()), first


def names(finding: Finding | Found) -> set[str]:
    """The text at the place of a finding, and the names and numbers in its message and its facts."""
    place = finding.text if isinstance(finding, Found) else finding.span.text
    said = " ".join((finding.message, *finding.facts))
    return {place, *re.findall(r"`([^`]+)`", said), *re.findall(r"(?<![\w.])-?\d+(?:\.\d+)?(?![\w.]*\d)", said)}


def findings_of(text: str, name: str = "<text>") -> tuple[Finding, ...]:
    """What `einformer.parse` refuses a text for."""
    try:
        einformer.parse(text, name)
    except EinformerError as error:
        return error.findings
    return ()
