"""Reads the formulas of a Typst file: the text between dollars, in LaTeX. With spaces inside them it is displayed."""

from __future__ import annotations

import re
from collections.abc import Iterator

from einformer.errors import Source
from einformer.lint.notes.pieces import (
    Document,
    Ends,
    Formula,
    Heading,
    Passage,
    Piece,
    Words,
    group_sections,
    is_inside,
    is_too_deep,
)
from einformer.lint.notes.typst_lets import expand_lets, find_lets
from einformer.lint.notes.typst_math import rewrite_typst

_TYPST = re.compile(
    r"""(?P<skipped> //[^\n]* | \\\$ | https?://\S+ ) | (?P<comment> /\* ) | (?P<ticks> `++ )
      | ^=+[ ] (?P<title>[^\n]+)
      | (?<!\\) \$ (?P<math> (?: [^$\\] | \\. )+? ) \$""",
    re.VERBOSE | re.DOTALL | re.MULTILINE,
)
_OPERATOR = re.compile(
    r"#let\s++([A-Za-z]\w*+)\s*+=\s*+(?:(?:math\.op\(\s*+)?[`\"]([A-Za-z ]+)[`\"]|(math\.[a-z.]+)\s*$)", re.MULTILINE
)
_ALGORITHM = re.compile(r"pseudocode[\w-]*+\(")


def read_typst(source: Source) -> Document:
    """Returns the sections of a Typst file."""
    operators = {match[1]: match[2] or match[3] for match in _OPERATOR.finditer(source.text)}
    return Document(tuple(group_sections(_split(source, operators))))


def _split(source: Source, operators: dict[str, str]) -> Iterator[Piece]:
    position = start = 0
    ends, loops, bindings = Ends(source.text), list(_find_algorithms(source.text)), find_lets(source.text)
    while match := _TYPST.search(source.text, start):
        closing = r"\*/" if match["comment"] else match["ticks"]
        end = ends.find(f"(?P<end>{closing})", match.end()) if closing else match.span()
        if end is None:
            start = match.end()
            continue
        yield Words(Passage.of(source, position, match.start()))
        position = start = end[1]
        if match["title"]:
            yield Heading(match["title"].strip())
        elif match["math"] and not is_too_deep(match["math"]):
            formula = Passage.of(source, *match.span("math"))
            displayed = formula.text[0].isspace() and formula.text[-1].isspace()
            unread = "the loop of an algorithm" if is_inside(loops, position) else ""
            yield Formula(rewrite_typst(expand_lets(formula, bindings), operators), displayed, unread)
        elif match["ticks"] == "`":
            yield Words(Passage.of(source, match.start(), position))  # `(B, S, D)` in code
    yield Words(Passage.of(source, position, len(source.text)))


# The spans of algorithms, in which a letter counts a loop.
def _find_algorithms(text: str) -> Iterator[tuple[int, int]]:
    end = 0
    while match := _ALGORITHM.search(text, end):
        depth, end = 1, match.end()
        while end < len(text) and (depth or text[end] in "[("):
            depth += (text[end] in "[(") - (text[end] in "])")
            end += 1
        yield match.start(), end
