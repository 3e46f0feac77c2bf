r"""Which marks of a formula belong together: an argument, a script, what stands between two brackets?"""

from __future__ import annotations

from collections.abc import Iterator

from einformer.language.latex_marks import marks
from einformer.lint.notes.macros import partner
from einformer.lint.notes.pieces import Passage
from einformer.lint.notes.signs import LETTERED, WORDS

OPENING = {"(": ")", "[": "]", "|": "|", "\\|": "\\|", "\\Vert": "\\Vert", "\\vert": "\\vert", "\\langle": "\\rangle"}
_SEPARATORS = frozenset((",", ";", "|", "\\mid", "\\vert"))
_DEEPER = {"(": 1, "[": 1, "{": 1, "\\langle": 1, ")": -1, "]": -1, "}": -1, "\\rangle": -1}


class Parts:
    """A cursor over the marks of a formula."""

    def __init__(self, text: Passage) -> None:
        self.text, self.marks = text, list(marks(text.text))
        self.at = 0

    def spaces(self) -> None:
        """The cursor goes past spaces."""
        self.at = self.past(self.at)

    def past(self, at: int) -> int:
        """The first mark from `at` that is no space."""
        while at < len(self.marks) and self.marks[at].kind in ("space", "newline"):
            at += 1
        return at

    def argument(self) -> Passage:
        """The next argument, without its braces."""
        self.spaces()
        if self.at >= len(self.marks):
            return Passage(self.text.source, "", ())
        start, end = self.at, min(partner(self.marks, self.at), len(self.marks) - 1)
        if start == end and self.marks[start].kind == "command" and self.marks[start].command in WORDS | LETTERED:
            end = min(partner(self.marks, start + 1), len(self.marks) - 1) if start + 1 < len(self.marks) else start
        self.at = end + 1
        braces = self.marks[start].text == "{" and end > start
        return self.text.cut(self.marks[start].start + braces, self.marks[end].end - braces)

    def unbrace(self) -> None:
        r"""`\hat{x_i}` is `\hat{x}_i`."""
        start = self.past(self.at)
        end = partner(self.marks, start) if start < len(self.marks) else start
        inside = self.marks[start + 1 : end]
        if end < len(self.marks) and len(inside) > 1 and inside[0].kind == "letter" and inside[1].text in ("_", "^", "'"):
            del self.marks[end], self.marks[start]

    def script(self) -> str:
        """The sign of a script that follows, past spaces; the cursor goes past it."""
        at = self.past(self.at)
        sign = self.marks[at].text if at < len(self.marks) else ""
        sign = "'" if sign in ("′", "’") else sign
        if sign in ("'", "^", "_"):
            self.at = at + 1
            return sign
        return ""

    def follows(self, sign: str) -> bool:
        """Is this the next mark, past spaces?"""
        at = self.past(self.at)
        return at < len(self.marks) and self.marks[at].text == sign

    def accepts(self, sign: str) -> bool:
        """Is this the next script? The cursor goes past its sign."""
        return self.follows(sign) and bool(self.script())

    def opens(self) -> int:
        r"""The bracket that comes next, past spaces and what sets its size; -1 where none does."""
        at = self.at
        while at < len(self.marks) and (self.marks[at].is_space or self.marks[at].command == "left"):
            at += 1
        return at if at < len(self.marks) and self.marks[at].text in ("(", "[") else -1

    def fence(self) -> tuple[int, int] | None:
        """The brackets that open next, and where they are closed."""
        opened = self.opens()
        closed = self.closing(opened) if opened >= 0 else -1
        return (opened, closed) if closed >= 0 else None

    def closing(self, at: int) -> int:
        """Where the bracket that opens at a mark is closed; -1 where it is not."""
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
        """What stands between two marks."""
        return self.text.cut(self.marks[start].end, self.marks[self.stretched(end)].start)

    def stretched(self, at: int) -> int:
        r"""The `\right` before a bracket, or else the bracket."""
        before = at - 1
        while before > 0 and self.marks[before].is_space:
            before -= 1
        return before if self.marks[before].command in ("right", "middle") else at

    def separated(self, start: int, end: int) -> Iterator[Passage]:
        r"""What stands between two brackets, cut at `,` and at the bars of `p(x | y)`."""
        first, depth = start, 0
        for at in range(start + 1, end):
            depth += _DEEPER.get(self.marks[at].text, 0)
            if not depth and self.marks[at].text in _SEPARATORS:
                yield self.between(first, at)
                first = at
        yield self.between(first, end)

    def last_condition(self) -> dict[int, int]:
        """Where the last `&` of the cases that begin here stands, and where they end."""
        depth, sign = 0, -1
        for at in range(self.at, len(self.marks)):
            mark = self.marks[at]
            if mark.kind == "end" and not depth:
                return {sign: at}
            depth += (mark.kind == "begin") - (mark.kind == "end")
            sign = at if mark.text == "&" and not depth else sign
        return {}
