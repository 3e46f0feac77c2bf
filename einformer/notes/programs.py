r"""Which specification is a note? Its blocks of `einformer` and its displayed equations, in the order of the text.

A block (```` ```einformer note ````) holds what prose does not: the legend, scalars, the head of a layer and its weights. The
equations below it are its body.
"""

from __future__ import annotations

import pathlib
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from einformer.errors import Source, fail
from einformer.lint.notes.latex import latex, markdown
from einformer.lint.notes.pieces import Document
from einformer.lint.reading import NO_INDICES, Equation, equations

_BLOCK = re.compile(
    r"^(?:```einformer\b[^\S\n]*(?:note)?|\\begin\{lstlisting\}\[language=einformer\])[^\S\n]*\n(.*?)^(?:```|\\end\{lstlisting\})",
    re.DOTALL | re.MULTILINE,
)
_ENDS = " \n,;.&"  # what may follow an equation in a sentence
READERS: dict[str, Callable[[Source], Document]] = {".md": markdown, ".markdown": markdown, ".txt": markdown, ".tex": latex}


@dataclass(frozen=True, slots=True)
class Program:
    """The text of the language that a note holds, each line where the note has it, as far as there is room.

    `equations` are the lines of it that are displayed, `others` displayed equations without indices: they are words.
    """

    source: Source
    equations: int
    others: int


def program(note: Source) -> Program:
    """The program that a note is. Raises EinformerError E801 for a format that is not read.

    >>> note = "```einformer\\naxes\\n  d: D\\nlayer Twice(x_d) -> y_d:\\n```\\n\\nIt doubles:\\n\\n$$y_d = 2 x_d.$$\\n"
    >>> print(program(Source("twice.md", note)).source.text.strip())
    axes
      d: D
    layer Twice(x_d) -> y_d:
    <BLANKLINE>
    <BLANKLINE>
    <BLANKLINE>
    <BLANKLINE>
      $$ y_{d} = 2 x_{d} $$
    """
    reader = READERS.get(pathlib.PurePath(note.name).suffix.lower())
    if reader is None:
        raise fail("E801", f"`{note.name}` is no note that is run", fix=f"a file that ends with {', '.join(READERS)}")
    found = list(_displayed(reader(note)))
    lines = [_line(equation) for equation in found if equation.skipped != NO_INDICES]
    blocks = [(match.start(1), match[1]) for match in _BLOCK.finditer(note.text)]
    text = ""
    for at, piece in sorted([*blocks, *lines], key=lambda placed: placed[0]):
        text += "\n" * (note.text.count("\n", 0, at) - text.count("\n")) + piece.rstrip() + "\n"
    return Program(Source(note.name, text), len(lines), len(found) - len(lines))


def _displayed(document: Document) -> Iterator[Equation]:
    """Every equation that stands by itself."""
    for section in document.sections:
        for formula in section.formulas:
            if formula.display:
                yield from (each for each in equations(formula, document.macros, {}) if each.right is not None)


def _line(equation: Equation) -> tuple[int, str]:
    """Where an equation stands, and it as a line of a body."""
    left, right = (" ".join(side.text.text.strip(_ENDS).split()) for side in equation.sides)
    whole = equation.left.text
    begin = len(whole.text) - len(whole.text.lstrip(_ENDS))
    sign = "\\leftarrow" if equation.rebinds else "="
    return whole.span(begin).start, f"  $$ {left} {sign} {right} $$"
