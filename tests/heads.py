"""Reads the letters of a model's inputs and output from the head of its text."""

from __future__ import annotations

import functools
import re

from einformer.objects import Model, Specification


def input_letters(model: Model) -> list[list[str]]:
    """The letters of each input, in order."""
    return [_read_letters(formal) for formal in _read_head(model.spec)[0].split(", ")]


def output_letters(model: Model) -> list[str]:
    """The letters of the output, in order."""
    return _read_letters(_read_head(model.spec)[1])


@functools.lru_cache(64)
def _read_head(spec: Specification) -> tuple[str, str]:
    head = re.search(rf"^(?:layer|model) {spec.name}(?:_\w+)?\((.*)\) -> ([^\s:]+)", str(spec), re.MULTILINE)
    assert head, spec
    return head[1], head[2]


def _read_letters(tensor: str) -> list[str]:
    return re.findall(r"\w'*", tensor.partition("_")[2])
