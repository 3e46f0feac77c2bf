"""Names what ships: the files of texts; and the model types and published models that `einformer list` prints."""

from __future__ import annotations

import functools
from importlib.resources import files
from typing import Any

from tests.commands import read_json

FOLDER = files("einformer") / "architectures"
TEXTS = sorted(
    file.name.removesuffix(".ein") for file in FOLDER.iterdir() if file.name.endswith(".ein") and file.name != "library.ein"
)


@functools.cache
def list_shipped() -> Any:
    """The lists of architectures and of models."""
    return read_json("list")


def families() -> dict[str, list[str]]:
    """The model types, with the architectures that their configs choose."""
    rows = list_shipped()["architectures"]
    return {family: [row["name"] for row in rows if family in row["families"]] for row in rows for family in row["families"]}
