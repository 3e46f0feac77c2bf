r"""Which letter stands for an index with a mark on it, `\bar{r}`, `j_0`, `c_{out}`?

The grammar has one letter for an index. Each mark has an alphabet of its own, of letters that nobody writes in formulas.
"""

from __future__ import annotations

import re
from collections import Counter
from string import ascii_lowercase

from einformer.lint.notes.pieces import Passage, joined

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


def decorated(subscript: Passage) -> Passage:
    """A subscript with one letter for each of its indices."""
    made, at = list[Passage](), 0
    for match in _DECORATED.finditer(subscript.text):
        mark = _ACCENTS.get(match["accent"], match["accent"]) or match["label"]
        letter = chr(ord(_ALPHABETS[mark]) + ord(match["under"] or match["letter"]) - ord("a"))
        made += [subscript.cut(at, match.start()), subscript.put(letter, match.start())]
        at = match.end()
    return joined(subscript.source, [*made, subscript.cut(at, len(subscript.text))]) if made else subscript


def base(letter: str) -> str:
    """The letter without its mark."""
    return _LETTERS.get(letter, letter)


def ambiguous(axes: set[str]) -> set[str]:
    """The axes whose letter stands among them in another form too."""
    forms = Counter(map(base, axes))
    return {axis for axis in axes if forms[base(axis)] > 1}


def printed(text: str) -> str:
    """A text of ours with the indices as their author wrote them."""
    return text.translate(_PRINTED)
