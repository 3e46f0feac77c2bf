r"""Splits a LaTeX text into rows of the same tokens as plain text, so that one parser serves both.

A text with a backslash is LaTeX. A row ends at `\\`, and outside environments where its line ends; there a line without
commands is plain, so that equations can be pasted from notes under a plain legend.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TypeVar

from einformer.errors import EinformerError, Finding, Source, Span
from einformer.language import latex_row, tokens
from einformer.language.latex_marks import CASES, ROWS, Mark, marks
from einformer.language.latex_row import Row
from einformer.language.tokens import CLOSE, OPEN, Line, is_latex

_Item = TypeVar("_Item")
_BEGINS = re.compile(r"\s*(?:\\begin|\\\[|\$\$)")


def read_lines(source: Source) -> tuple[list[Line], list[Finding]]:
    """The lines of a LaTeX text that hold anything, and what was wrong with the others."""
    tokens.check_size(source)
    rows = _Rows(source)
    start = 0
    for text in source.text.split("\n"):
        rows.line(start, text)
        start += len(text) + 1
    rows.end_text()
    return [_regrouped(line) for line in rows.lines if line.tokens or line.note or line.comment], rows.findings


class _Rows:
    """The rows of a text, line by line. Environments of rows are transparent; those of a formula (cases) stay in their row."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.lines: list[Line] = []
        self.findings: list[Finding] = []
        self.rows: list[Row] = []  # of this line, or of an environment that is open
        self.row = Row(0)
        self.ended: Row | None = None  # the row that ended on this line of the text
        self.opened: list[tuple[Mark, int]] = []
        self.cases = 0

    @property
    def is_open(self) -> bool:
        """Does an environment go on at the end of the line?"""
        return bool(self.opened) or self.cases > 0

    def line(self, start: int, text: str) -> None:
        """Outside environments, a line without commands is plain; in one, and where one begins, tabs do not indent."""
        if not self.is_open and not is_latex(text):
            code, sign, rest = text.partition("#")
            self.read(partial(tokens.plain_line, self.source, start), code.replace("%", "#", 1) + sign + rest)
            return
        try:
            tabs = "\t" if not self.is_open and not _BEGINS.match(text) else " "
            tokens.check_characters(self.source, start, text.replace("\t", tabs))
        except EinformerError as error:
            self.findings += error.findings
            text = " " * len(text)
        for mark in marks(text + "\n", start):
            self.take(mark)
        if not self.is_open:
            self.read_rows()

    def read(self, reader: Callable[[_Item], Line], item: _Item) -> None:
        """Another line; an item that is wrong becomes a finding."""
        try:
            self.lines.append(reader(item))
        except EinformerError as error:
            self.findings += error.findings

    def read_rows(self) -> None:
        for row in self.rows:
            self.read(partial(latex_row.read, self.source), row)
        self.rows = []

    def end_text(self) -> None:
        """An environment that is still open is a finding."""
        self.end_row()
        for mark, _ in self.opened:
            self.report(mark, "is never closed", "its `\\end`" if mark.kind == "begin" else "its partner")
        self.read_rows()

    def take(self, mark: Mark) -> None:
        if mark.kind in ("begin", "end") and mark.command in CASES:
            self.cases += 1 if mark.kind == "begin" else -1
            self.row.marks.append(mark)
        elif mark.kind == "comment":
            self.comment(mark.text[1:].strip())
        elif mark.kind == "newline" and not self.opened and self.cases <= 0:
            self.end_row()
            self.ended = None
        elif mark.kind == "row" and self.cases <= 0:
            self.ended = self.row if self.row.marks else self.ended
            self.end_row()
        elif mark.kind == "begin" or mark.text == "\\[" or (mark.text == "$$" and not self.closes(mark)):
            self.begin(mark)
        elif mark.kind == "end" or mark.text in ("\\]", "$$"):
            self.end(mark)
        elif self.row.marks or not self.indents(mark):
            self.row.marks.append(mark)
            self.ended = None

    def end_row(self) -> None:
        if self.row.marks or self.row.comment:
            self.rows.append(self.row)
        self.row, self.cases = Row(self.opened[-1][1] if self.opened else 0), 0

    def begin(self, mark: Mark) -> None:
        """What an indented environment holds is indented too."""
        if self.row.marks or (mark.kind == "begin" and mark.command not in ROWS):
            self.report(mark, "cannot stand here", "a row of its own; inside of a row, `cases`")
        self.opened.append((mark, self.row.indent))

    def end(self, mark: Mark) -> None:
        if not self.closes(mark):
            self.report(mark, "closes nothing", "the `\\begin` that it should close")
        del self.opened[-1:]
        self.end_row()

    def closes(self, mark: Mark) -> bool:
        """Does the mark end the innermost environment?"""
        if not self.opened:
            return False
        opening = self.opened[-1][0]
        if mark.kind == "end":
            return opening.kind == "begin" and opening.command == mark.command
        return opening.text == ("\\[" if mark.text == "\\]" else "$$")

    def comment(self, text: str) -> None:
        """A comment belongs to the row before it on its line; alone on a line it is a row of its own."""
        if self.opened and not self.row.marks and not self.ended:
            self.rows.append(Row(self.row.indent, comment=text))
        else:
            row = self.ended or self.row
            row.comment = " ".join(filter(None, (row.comment, text)))

    def indents(self, mark: Mark) -> bool:
        """Is the mark indentation? Spaces are, outside environments."""
        if mark.kind == "space":
            self.row.indent += 0 if self.opened else len(mark.text)
        elif mark.text in ("\\quad", "\\qquad"):
            self.row.indent += 2 * mark.text.count("q")
        return mark.is_space or mark.text in ("&", "&&")

    def report(self, mark: Mark, message: str, fix: str) -> None:
        self.findings.append(Finding("E102", f"`{mark.text}` {message}", Span(self.source, mark.start, mark.end), fix=fix))


def _regrouped(line: Line) -> Line:
    """The notes' `u_{bsd} = y_{bs(ea)}` is `u_{bs(ea)} = y_{bsea}` (R4)."""
    kinds = [token.kind for token in line.tokens]
    if kinds.count(OPEN) != 2 or kinds.count("(") != 1 or kinds[:2] != ["name", OPEN] or kinds[-1] != CLOSE:
        return line
    end = kinds.index(CLOSE)  # of the left subscript; then a sign, a name and the opening of the right one
    left, right = line.tokens[2:end], line.tokens[end + 4 : -1]
    first, last = (kinds.index(bracket) - end - 4 for bracket in "()")
    group, others = right[first + 1 : last], (*right[:first], *right[last + 1 :])
    merged = [token for token in left if token.text not in {other.text for other in others}]
    apart = len(merged) == 1 and len(left) == len(others) + 1 and merged[0].text not in {token.text for token in group}
    letters = all(token.kind == "name" for token in (*left, *group, *others))
    if not (apart and letters and kinds[end + 1] in ("=", "<-") and kinds[end + 2 : end + 4] == ["name", OPEN]):
        return line
    at = left.index(merged[0])
    grouped = (token._replace(span=merged[0].span) for token in right[first : last + 1])
    left = (*left[:at], *grouped, *left[at + 1 :])
    right = (*right[:first], *group, *right[last + 1 :])
    return replace(line, tokens=(*line.tokens[:2], *left, *line.tokens[end : end + 4], *right, line.tokens[-1]))
