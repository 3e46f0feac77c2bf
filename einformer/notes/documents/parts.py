"""Reads the marks of a formula that belong together: an argument, a script, the text between two brackets."""

from __future__ import annotations

from collections.abc import Iterator

from einformer.notes.documents.macros import find_closing, read_marks
from einformer.notes.documents.pieces import Passage
from einformer.notes.documents.signs import LETTERED, WORDS

OPENING = {"(": ")", "[": "]", "|": "|", "\\|": "\\|", "\\Vert": "\\Vert", "\\vert": "\\vert", "\\langle": "\\rangle"}
_SEPARATORS = frozenset((",", ";", "|", "\\mid", "\\vert"))
_DEEPER = {"(": 1, "[": 1, "{": 1, "\\langle": 1, ")": -1, "]": -1, "}": -1, "\\rangle": -1}


class Cursor:
    """A cursor over the marks of a formula."""

    def __init__(self, text: Passage) -> None:
        self.text, self.marks = text, [*read_marks(text.text)]
        self.at = 0

    def skip_spaces(self) -> None:
        self.at = self.skip(self.at)

    # Returns the first mark from `at` that is not a space.
    def skip(self, position: int) -> int:
        while position < len(self.marks) and self.marks[position].kind in ("space", "newline"):
            position += 1
        return position

    # The argument has no braces.
    def read_argument(self) -> Passage:
        self.skip_spaces()
        if self.at >= len(self.marks):
            return Passage(self.text.source, "", ())
        start, end = self.at, min(find_closing(self.marks, self.at), len(self.marks) - 1)
        if start == end and self.marks[start].kind == "command" and self.marks[start].command in WORDS | LETTERED:
            end = min(find_closing(self.marks, start + 1), len(self.marks) - 1) if start + 1 < len(self.marks) else start
        self.at = end + 1
        braces = self.marks[start].text == "{" and end > start
        return self.text.cut(self.marks[start].start + braces, self.marks[end].end - braces)

    # Reads `\hat{x_i}` as `\hat{x}_i`.
    def unbrace(self) -> None:
        start = self.skip(self.at)
        end = find_closing(self.marks, start) if start < len(self.marks) else start
        inside = self.marks[start + 1 : end]
        if end < len(self.marks) and len(inside) > 1 and inside[0].kind == "letter" and inside[1].text in ("_", "^", "'"):
            del self.marks[end], self.marks[start]

    # The sign may stand after spaces. There may be none: "".
    def script(self) -> str:
        position = self.skip(self.at)
        sign = self.marks[position].text if position < len(self.marks) else ""
        sign = "'" if sign in ("′", "’") else sign
        if sign in ("'", "^", "_"):
            self.at = position + 1
            return sign
        return ""

    def follows(self, sign: str) -> bool:
        position = self.skip(self.at)
        return position < len(self.marks) and self.marks[position].text == sign

    def accepts(self, sign: str) -> bool:
        return self.follows(sign) and bool(self.script())

    # A bracket may stand after spaces and commands of size. Returns -1 if there is none.
    def opens(self) -> int:
        position = self.at
        while position < len(self.marks) and (self.marks[position].is_space or self.marks[position].command == "left"):
            position += 1
        return position if position < len(self.marks) and self.marks[position].text in ("(", "[") else -1

    def fence(self) -> tuple[int, int] | None:
        opened = self.opens()
        closed = self.find_closing(opened) if opened >= 0 else -1
        return (opened, closed) if closed >= 0 else None

    def find_closing(self, at: int) -> int:
        close, depth = OPENING[self.marks[at].text], 0
        for number in range(at + 1, len(self.marks)):
            text = self.marks[number].text
            if not depth and text == close:
                return number
            depth += _DEEPER.get(text, 0)
            if depth < 0:
                return -1
        return -1

    def between(self, start: int, end: int) -> Passage:
        return self.text.cut(self.marks[start].end, self.marks[self.find_right(end)].start)

    # A `\right` before a bracket belongs to it.
    def find_right(self, at: int) -> int:
        before = at - 1
        while before > 0 and self.marks[before].is_space:
            before -= 1
        return before if self.marks[before].command in ("right", "middle") else at

    # Arguments are parted by `,`, and by the bars of `p(x | y)`.
    def split_arguments(self, start: int, end: int) -> Iterator[Passage]:
        first, depth = start, 0
        for position in range(start + 1, end):
            depth += _DEEPER.get(self.marks[position].text, 0)
            if not depth and self.marks[position].text in _SEPARATORS:
                yield self.between(first, position)
                first = position
        yield self.between(first, end)

    # The last row of cases has its condition after the last `&`.
    def last_condition(self) -> dict[int, int]:
        depth, sign = 0, -1
        for position in range(self.at, len(self.marks)):
            mark = self.marks[position]
            if mark.kind == "end" and not depth:
                return {sign: position}
            depth += (mark.kind == "begin") - (mark.kind == "end")
            sign = position if mark.text == "&" and not depth else sign
        return {}
