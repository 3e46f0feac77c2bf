r"""Replaces an index with a mark, `\bar{r}`, `j_0`, `c_{out}`, by a single letter.

The grammar has one letter for an index. Each mark has an alphabet of its own, of letters that nobody writes in formulas.
"""

from __future__ import annotations

import re
from collections import Counter
from string import ascii_lowercase

from einformer.lint.notes.pieces import Passage, join

_ALPHABETS = {
    "bar": "ա", "hat": "а", "tilde": "ა", "dot": "ⰰ", "0": "𐐨", "1": "ꭰ", "2": "𐳀", "3": "𑣀", "in": "𞤢", "out": "𐓘", "max": "𖹠",
}  # fmt: skip
_ACCENTS = {"overline": "bar", "underline": "bar", "widehat": "hat", "widetilde": "tilde"}
_SIGNS = sorted((*_ACCENTS, "bar", "hat", "tilde", "dot"), key=len, reverse=True)
_DECORATED = re.compile(
    rf"""\\(?P<accent>{"|".join(_SIGNS)})(?![A-Za-z])\s*\{{?\s*(?P<under>[a-z])\s*\}}?
      | (?<![A-Za-z\\])(?P<letter>[a-z])\s*_\s*(?P<brace>\{{\s*)?(?P<font>\\(?:text|textrm|mathrm)\s*\{{\s*)?
        (?P<label>0|1|2|3|in|out|max)(?![A-Za-z0-9])(?(font)\s*\}})(?(brace)\s*\}})""",
    re.VERBOSE,
)
_LETTERS = {chr(ord(start) + number): letter for start in _ALPHABETS.values() for number, letter in enumerate(ascii_lowercase)}
_PRINTED = {
    ord(start) + number: f"\\{mark}{{{letter}}}" if mark in _SIGNS else f"{letter}_{mark}"
    for mark, start in _ALPHABETS.items()
    for number, letter in enumerate(ascii_lowercase)
}


def replace_marks(subscript: Passage) -> Passage:
    """Returns a subscript with one letter for each of its indices."""
    parts, position = list[Passage](), 0
    for match in _DECORATED.finditer(subscript.text):
        mark = _ACCENTS.get(match["accent"], match["accent"]) or match["label"]
        letter = chr(ord(_ALPHABETS[mark]) + ord(match["under"] or match["letter"]) - ord("a"))
        parts += [subscript.cut(position, match.start()), subscript.put(letter, match.start())]
        position = match.end()
    return join(subscript.source, [*parts, subscript.cut(position, len(subscript.text))]) if parts else subscript


def strip_mark(letter: str) -> str:
    """Returns the letter without its mark."""
    return _LETTERS.get(letter, letter)


def find_ambiguous(axes: set[str]) -> set[str]:
    """Returns the axes whose letter also stands among them with a mark."""
    forms = Counter(map(strip_mark, axes))
    return {axis for axis in axes if forms[strip_mark(axis)] > 1}


def restore_marks(text: str) -> str:
    """Replaces our letters by the indices as their author wrote them."""
    return text.translate(_PRINTED)
