"""Reads the formulas of a Jupyter notebook. Its Markdown cells are one text, and a place is named by its cell."""

from __future__ import annotations

import json
from collections.abc import Iterator

from einformer.errors import Source, Span, fail
from einformer.notes.documents.latex import read_markdown
from einformer.notes.documents.pieces import Document, Heading, Macro, Piece, group_sections


# Returns the sections of a notebook, which continue from cell to cell. Raises EinformerError E801.
def read_notebook(source: Source) -> Document:
    macros: dict[str, Macro] = {}
    return Document(tuple(group_sections(_split(source, macros))), macros)


def _split(source: Source, macros: dict[str, Macro]) -> Iterator[Piece]:
    for cell in cells(source, "markdown"):
        document = read_markdown(cell)
        macros |= document.macros
        for number, section in enumerate(document.sections):
            if number:  # text before the first heading of a cell belongs to the section before
                yield Heading(section.title)
            yield from section.pieces


# A cell is named by its number in the notebook.
def cells(source: Source, kind: str) -> Iterator[Source]:
    try:
        entries = json.loads(source.text)["cells"]
        for number, cell in enumerate(entries, 1):
            if cell["cell_type"] == kind:
                yield Source(f"{source.name}:cell {number}", "".join(cell["source"]))
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise fail(
            "E801", f"`{source.name}` is no notebook: {error}", Span(source, 0, 1), fix="a notebook of Jupyter"
        ) from error
