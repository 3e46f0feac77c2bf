"""Which formulas does a Jupyter notebook hold? Its cells of Markdown are one text; a place is told by its cell."""

from __future__ import annotations

import json
from collections.abc import Iterator

from einformer.errors import Source, Span, fail
from einformer.lint.notes.latex import markdown
from einformer.lint.notes.pieces import Document, Heading, Macro, Piece, sections


def notebook(source: Source) -> Document:
    """The sections of a notebook, which go on from one cell to the next. Raises EinformerError E801."""
    macros: dict[str, Macro] = {}
    return Document(tuple(sections(_pieces(source, macros))), macros)


def _pieces(source: Source, macros: dict[str, Macro]) -> Iterator[Piece]:
    for cell in cells(source, "markdown"):
        document = markdown(cell)
        macros |= document.macros
        for number, section in enumerate(document.sections):
            if number:  # what stands before the first heading of a cell goes on with the section before
                yield Heading(section.title)
            yield from section.pieces


def cells(source: Source, kind: str) -> Iterator[Source]:
    """The cells of a kind, named by their number in the notebook."""
    try:
        found = json.loads(source.text)["cells"]
        for number, cell in enumerate(found, 1):
            if cell["cell_type"] == kind:
                yield Source(f"{source.name}:cell {number}", "".join(cell["source"]))
    except (ValueError, KeyError, TypeError) as error:
        raise fail(
            "E801", f"`{source.name}` is no notebook: {error}", Span(source, 0, 1), fix="a notebook of Jupyter"
        ) from error
