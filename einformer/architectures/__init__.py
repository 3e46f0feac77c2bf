"""The models that ship: the texts of this folder, and the published sizes of `models.toml`."""

from __future__ import annotations

import functools
import pathlib
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Published:
    """A published model: the shipped text it follows, its sizes and scalars by letter, and where they stand."""

    architecture: str
    sizes: Mapping[str, int | float]
    source: str


@functools.cache
def models() -> Mapping[str, Published]:
    """The published models by name.

    >>> models()["gpt2-xl"].sizes["D"]
    1600
    """
    text = (pathlib.Path(__file__).parent / "models.toml").read_text(encoding="utf-8")
    return {name: Published(**row) for name, row in tomllib.loads(text).items()}
