"""Which formulas does a Typst file hold? What stands between dollars, in LaTeX; with spaces inside them it is displayed."""

from __future__ import annotations

import re
from collections.abc import Iterator

from einformer.errors import Source
from einformer.lint.notes.pieces import Document, Formula, Heading, Passage, Piece, Words, sections, too_deep
from einformer.lint.notes.typst_lets import expanded, lets
from einformer.lint.notes.typst_math import in_latex

_TYPST = re.compile(
    r"""(?P<skipped> //[^\n]* | /\*.*?\*/ | (?P<ticks>`+)(?:(?!(?P=ticks)).)+(?P=ticks) | \\\$ | https?://\S+ )
      | ^=+[ ] (?P<title>[^\n]+)
      | (?<!\\) \$ (?P<math> (?: [^$\\] | \\. )+? ) \$""",
    re.VERBOSE | re.DOTALL | re.MULTILINE,
)
_OPERATOR = re.compile(
    r"#let\s+([A-Za-z]\w*)\s*=\s*(?:(?:math\.op\(\s*)?[`\"]([A-Za-z ]+)[`\"]|(math\.[a-z.]+)\s*$)", re.MULTILINE
)


def typst(source: Source) -> Document:
    """The sections of a Typst file."""
    operators = {match[1]: match[2] or match[3] for match in _OPERATOR.finditer(source.text)}
    return Document(tuple(sections(_pieces(source, operators))))


def _pieces(source: Source, operators: dict[str, str]) -> Iterator[Piece]:
    at, loops, known = 0, list(_pseudocode(source.text)), lets(source.text)
    for match in _TYPST.finditer(source.text):
        yield Words(Passage.of(source, at, match.start()))
        at = match.end()
        if match["title"]:
            yield Heading(match["title"].strip())
        elif match["math"] and not too_deep(match["math"]):
            formula = Passage.of(source, *match.span("math"))
            displayed = formula.text[0].isspace() and formula.text[-1].isspace()
            in_loop = any(start < at < end for start, end in loops)
            yield Formula(
                in_latex(expanded(formula, known), operators), displayed, "the loop of an algorithm" if in_loop else ""
            )
        elif match["ticks"] == "`":
            yield Words(Passage.of(source, *match.span("skipped")))  # `(B, S, D)` in code
    yield Words(Passage.of(source, at, len(source.text)))


def _pseudocode(text: str) -> Iterator[tuple[int, int]]:
    """From where to where algorithms stand, in which a letter counts a loop."""
    for match in re.finditer(r"pseudocode[\w-]*\(", text):
        depth, end = 1, match.end()
        while end < len(text) and (depth or text[end] in "[("):
            depth += (text[end] in "[(") - (text[end] in "])")
            end += 1
        yield match.start(), end
