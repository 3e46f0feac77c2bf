r"""Rewrites a subscript in the LaTeX of the language: `i,j` is `ij`, `t-1` is `(t-1)`, `\bar{r}` is one letter."""

from __future__ import annotations

import re

from einformer.lint.notes.decorated import replace_marks
from einformer.lint.notes.pieces import Passage
from einformer.lint.notes.scripts import PRIME
from einformer.lint.notes.signs import DOTS

ELLIPSIS = re.compile(rf"\\(?:{'|'.join(DOTS)})(?![A-Za-z])")
_BETWEEN = re.compile(rf",?\s*{ELLIPSIS.pattern}\s*,?(?=\s*[A-Za-z0-9\\{{])")
_BRACES, _COMMA = re.compile(r"\\[{}]"), re.compile(r"\s*(?:,|;|\\[,;:!]|~)\s*")
_NEGATIVE = re.compile(r"^\s*(-\s*[0-9]+)(?=[\s,a-z])\s*,?")
_MAPPED = re.compile(r"(\\[A-Za-z]+)\s*\(\s*([a-z]'*)\s*\)")
_COMPUTED = re.compile(r"\\[A-Za-z]+\s*[-+]")
_STEP = re.compile(r"(?<![\w(+\-'])((?:[0-9] ?)?[a-z]'*) *([+-]) *([0-9]+|[a-z]'*)(?![\w(])")
_LAST_STEP = re.compile(r"(?<=[\w'])([a-z]'*) *([+-]) *([0-9]+|[a-z]'*)\s*$")
_APART = re.compile(r"'|\s")


def rewrite_slots(part: Passage) -> Passage:
    r"""Rewrites `bs+1` as `b(s+1)`, `a \ldots c` as `ac`, `-1, d` as `(-1)d`, `\pi(h)` as `\pi_h`, `\{ij\}` as `ij`."""
    part = replace_marks(part.sub(_BRACES, "").sub(PRIME, "'").sub(_BETWEEN, " ")).sub(_NEGATIVE, "(", 1, ") ")
    part = part.sub(_MAPPED, 1, "_{", 2, "}")
    runs = [run for run in (_APART.sub("", piece) for piece in _COMMA.split(part.text)) if run.isalpha()]
    if len(runs) < 2 or all(len(run) < 2 for run in runs):  # `T_{ij,k}` is a derivative
        part = part.sub(_COMMA, " ")
    if _COMPUTED.search(part.text):
        return part
    return part.sub(_STEP, "(", 1, " ", 2, " ", 3, ")").sub(_LAST_STEP, "(", 1, " ", 2, " ", 3, ")")
