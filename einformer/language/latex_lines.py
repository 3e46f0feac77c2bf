r"""Which lines does a LaTeX text hold? Rows of the same tokens as plain text, so that one parser serves both.

A text with a backslash is LaTeX. A row ends at `\\`, and outside environments where its line ends; there a line without
commands is plain, so that equations can be pasted from notes under a plain legend.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import partial
from typing import TypeVar

from einformer.errors import EinformerError, Finding, Source, Span
from einformer.language import latex_row, tokens
from einformer.language.latex_marks import CASES, MARK, ROWS, Mark, marks
from einformer.language.latex_row import Row
from einformer.language.tokens import CLOSE, OPEN, Line, is_latex

_Item = TypeVar("_Item")


def read_lines(source: Source) -> tuple[list[Line], list[Finding]]:
    """The lines of a LaTeX text that hold anything, and what was wrong with the others."""
    tokens.check_size(source)
    lines: list[Line] = []
    findings: list[Finding] = []
    for start, chunk in _chunks(source.text):
        text = "\n".join(_characters(source, start, chunk, findings))
        if is_latex(text):
            rows = _Rows(source, findings).split(marks(text, start))
            lines += _read(rows, partial(latex_row.read, source), findings)
        else:
            code, sign, rest = text.partition("#")
            plain = code.replace("%", "#", 1) + sign + rest
            lines += _read([plain], partial(tokens.plain_line, source, start), findings)
    return [_regrouped(line) for line in lines if line.tokens or line.note or line.comment], findings


def _characters(source: Source, start: int, chunk: str, findings: list[Finding]) -> Iterator[str]:
    """The lines of a chunk, blank where they hold what no text may hold; in an environment tabs do not indent."""
    for line in chunk.split("\n"):
        try:
            tokens.check_characters(source, start, line.replace("\t", " ") if "\n" in chunk else line)
            yield line
        except EinformerError as error:
            findings += error.findings
            yield " " * len(line)
        start += len(line) + 1


def _chunks(text: str) -> Iterator[tuple[int, str]]:
    """The lines with their starts; what an environment spans comes in one piece."""
    start = at = opened = 0
    for line in text.split("\n"):
        if "\\" in line or "$$" in line:
            for mark in (match.group() for match in MARK.finditer(line)):
                opened += (mark.startswith("\\begin{") or mark == "\\[") - (mark.startswith("\\end{") or mark == "\\]")
                opened = 1 - min(1, opened) if mark == "$$" else opened
        at += len(line) + 1
        if opened <= 0:
            yield start, text[start : at - 1]
            start, opened = at, 0
    if opened > 0:
        yield start, text[start:]


def _read(items: Iterable[_Item], read: Callable[[_Item], Line], findings: list[Finding]) -> Iterator[Line]:
    """A line for each item; an item that is wrong becomes a finding."""
    for item in items:
        try:
            yield read(item)
        except EinformerError as error:
            findings += error.findings


class _Rows:
    """The rows of a chunk. Environments of rows are transparent; those of a formula (cases) stay in their row."""

    def __init__(self, source: Source, findings: list[Finding]) -> None:
        self.source, self.findings = source, findings
        self.rows: list[Row] = []
        self.row = Row(0)
        self.ended: Row | None = None  # the row that ended on this line of the text
        self.opened: list[tuple[Mark, int]] = []
        self.cases = 0

    def split(self, found: Iterable[Mark]) -> list[Row]:
        """The rows; an environment that begins or ends alone is a finding."""
        for mark in found:
            self.take(mark)
        self.end_row()
        for mark, _ in self.opened:
            self.report(mark, "is never closed", "its `\\end`" if mark.kind == "begin" else "its partner")
        return self.rows

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
