"""Which line of one text stands for which of another, and where do their letters differ?"""

from __future__ import annotations

import difflib
import itertools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

# The indentation; a subscript; a number; a name; any other sign.
_TOKEN = re.compile(r"^ *|_\{[^{}]*\}|_[\w'°]+|\d+(?:\.\d+)?(?:e-?\d+)?|[^\W\d_]\w*'*|\S")
_ALIKE = 0.4  # the least score of two lines of which one became the other
_MOST_PAIRS = 10_000  # of lines that are compared with each other
Marks = tuple[tuple[int, int], ...]  # from a letter to another


@dataclass(frozen=True, slots=True)
class TextLine:
    """A line: its text, what it reads in the letters of the other text, and the name that it defines."""

    text: str
    reading: str
    defines: str = ""

    @property
    def key(self) -> tuple[str, ...]:
        """Lines of the same key say the same."""
        return tuple(_TOKEN.findall(self.reading))


@dataclass(frozen=True, slots=True)
class Change:
    """A line of one text and the line of the other that stands for it, empty where there is none; what of each differs."""

    one: str
    other: str
    marks: tuple[Marks, Marks] = ((), ())


def changes(one: Sequence[TextLine], other: Sequence[TextLine]) -> Iterator[Change]:
    """What became of the lines of one text in the other, in their order, but for those that stayed."""
    for x, y in _aligned(one, other):
        if x and y and x.key != y.key:
            yield Change(x.text, y.text, _marks(x, y))
        elif not (x and y):
            yield Change(x.text if x else "", y.text if y else "")


def likeness(one: Sequence[str], other: Sequence[str]) -> float:
    """How much two sequences of words have in common, from 0 to 1."""
    return difflib.SequenceMatcher(None, one, other, autojunk=False).ratio()


Pairs = list[tuple[TextLine | None, TextLine | None]]


def _aligned(one: Sequence[TextLine], other: Sequence[TextLine]) -> Pairs:
    """Lines side by side: those that say the same, and between them those that are alike."""
    pairs: Pairs = []
    for kind, a, b, c, d in _opcodes([line.key for line in one], [line.key for line in other]):
        pairs += zip(one[a:b], other[c:d], strict=True) if kind == "equal" else _alike(one[a:b], other[c:d])
    return pairs


def _opcodes(one: Sequence[object], other: Sequence[object]) -> Sequence[tuple[str, int, int, int, int]]:
    return difflib.SequenceMatcher(None, one, other, autojunk=False).get_opcodes()


def _alike(one: Sequence[TextLine], other: Sequence[TextLine]) -> Pairs:
    """The pairs in order whose scores add up to the most, and between them the lines that have none."""
    if len(one) * len(other) > _MOST_PAIRS:
        return list(itertools.zip_longest(one, other))
    best: dict[tuple[int, int], tuple[float, int, int]] = {}  # from these lines on: the sum, and which lines come next
    for i, j in itertools.product(reversed(range(len(one) + 1)), reversed(range(len(other) + 1))):
        steps = [(best[a, b][0], a, b) for a, b in ((i + 1, j), (i, j + 1)) if (a, b) in best]
        if i < len(one) and j < len(other) and (score := _score(one[i], other[j])) >= _ALIKE:
            steps.append((best[i + 1, j + 1][0] + score, i + 1, j + 1))
        best[i, j] = max(steps, default=(0.0, i, j), key=lambda step: step[0])
    pairs, at = Pairs(), (0, 0)
    while at != (len(one), len(other)):
        _, *after = best[at]
        pairs.append((one[at[0]] if after[0] > at[0] else None, other[at[1]] if after[1] > at[1] else None))
        at = (after[0], after[1])
    return pairs


def _score(x: TextLine, y: TextLine) -> float:
    """Half for what they define, half for how they say it."""
    return (likeness(x.key, y.key) + (x.defines == y.defines)) / 2


def _marks(x: TextLine, y: TextLine) -> tuple[Marks, Marks]:
    """The letters of each that the other has not; none where the lines have little in common."""
    places = [[found.span() for found in _TOKEN.finditer(line.text)] for line in (x, y)]
    if [len(x.key), len(y.key)] != [*map(len, places)] or likeness(x.key, y.key) < _ALIKE:
        return (), ()
    opcodes = [code for code in _opcodes(x.key, y.key) if code[0] != "equal"]
    return (
        tuple((places[0][a][0], places[0][b - 1][1]) for _, a, b, _, _ in opcodes if a < b),
        tuple((places[1][c][0], places[1][d - 1][1]) for _, _, _, c, d in opcodes if c < d),
    )
