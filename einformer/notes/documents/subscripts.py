r"""Rewrites a subscript in the LaTeX of the language: `i,j` is `ij`, `t-1` is `(t-1)`, `\bar{r}` is one letter.

The grammar has one letter for an index. Each mark has an alphabet of its own, of letters that nobody writes in formulas.
"""

from __future__ import annotations

import re
from collections import Counter
from string import ascii_lowercase

from einformer.notes.documents.pieces import Passage, join
from einformer.notes.documents.scripts import PRIME
from einformer.notes.documents.signs import DOTS

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


# Each index becomes one letter.
def replace_marks(subscript: Passage) -> Passage:
    parts, position = list[Passage](), 0
    for match in _DECORATED.finditer(subscript.text):
        mark = _ACCENTS.get(match["accent"], match["accent"]) or match["label"]
        letter = chr(ord(_ALPHABETS[mark]) + ord(match["under"] or match["letter"]) - ord("a"))
        parts += [subscript.cut(position, match.start()), subscript.put(letter, match.start())]
        position = match.end()
    return join(subscript.source, [*parts, subscript.cut(position, len(subscript.text))]) if parts else subscript


def strip_mark(letter: str) -> str:
    return _LETTERS.get(letter, letter)


# These axes have a letter that also stands among them with a mark.
def find_ambiguous(axes: set[str]) -> set[str]:
    forms = Counter(map(strip_mark, axes))
    return {axis for axis in axes if forms[strip_mark(axis)] > 1}


# Our letters become the indices as their author wrote them.
def restore_marks(text: str) -> str:
    return text.translate(_PRINTED)


ELLIPSIS = re.compile(rf"\\(?:{'|'.join(DOTS)})(?![A-Za-z])")
_BRACES, _COMMA = re.compile(r"\\[{}]"), re.compile(r"\s*(?:,|;|\\[,;:!]|~)\s*")
_NEGATIVE = re.compile(r"^\s*(-\s*[0-9]+)(?=[\s,a-z])\s*,?")
_MAPPED = re.compile(r"(\\[A-Za-z]+)\s*\(\s*([a-z]'*)\s*\)")
_COMPUTED = re.compile(r"\\[A-Za-z]+\s*[-+]")
_STEP = re.compile(r"(?<![\w(+\-'])((?:[0-9] ?)?[a-z]'*) *([+-]) *([0-9]+|[a-z]'*)(?![\w(])")
_LAST_STEP = re.compile(r"(?<=[\w'])([a-z]'*) *([+-]) *([0-9]+|[a-z]'*)\s*$")
_APART = re.compile(r"'|\s")


# `bs+1` is `b(s+1)`, `-1, d` is `(-1)d`, `\pi(h)` is `\pi_h`, `\{ij\}` is `ij`.
def rewrite_slots(part: Passage) -> Passage:
    part = replace_marks(part.sub(_BRACES, "").sub(PRIME, "'")).sub(_NEGATIVE, "(", 1, ") ")
    part = part.sub(_MAPPED, 1, "_{", 2, "}")
    runs = [run for run in (_APART.sub("", piece) for piece in _COMMA.split(part.text)) if run.isalpha()]
    if len(runs) < 2 or all(len(run) < 2 for run in runs):  # `T_{ij,k}` is a derivative
        part = part.sub(_COMMA, " ")
    if _COMPUTED.search(part.text):
        return part
    return part.sub(_STEP, "(", 1, " ", 2, " ", 3, ")").sub(_LAST_STEP, "(", 1, " ", 2, " ", 3, ")")
