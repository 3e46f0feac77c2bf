"""Defines the errors of the package: what is wrong, where, by which rule, and what to write instead.

Every message is a `Finding`: a code of the catalogue `errors.toml`, a place in a text, and the facts.
"""

from __future__ import annotations

import functools
import pathlib
import tomllib
import unicodedata
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, TypeVar

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Source:
    """A text, and its name in messages. A text made from a file has the places of its characters there."""

    name: str
    text: str = field(repr=False)
    place: Callable[[int, int], Span] | None = field(default=None, repr=False, compare=False)


class Span(NamedTuple):
    """The characters `start … end` (half-open) of a source."""

    source: Source
    start: int
    end: int

    # `gpt2.ein:8`.
    def __str__(self) -> str:
        return f"{self.written.source.name}:{self.line}"

    # The file is the one that the author wrote.
    @property
    def written(self) -> Span:
        return self.source.place(self.start, self.end) if self.source.place else self

    # Lines count from 1.
    @property
    def line(self) -> int:
        written = self.written
        return written.source.text.count("\n", 0, written.start) + 1

    # Columns count from 1.
    @property
    def column(self) -> int:
        written = self.written
        return written.start - written.source.text.rfind("\n", 0, written.start)

    # At least one character after the first.
    @property
    def after(self) -> Span:
        return Span(self.source, max(self.end, self.start + 1), self.end)

    @property
    def text(self) -> str:
        return self.source.text[self.start : self.end]


NOWHERE = Span(Source("<built>", ""), 0, 0)


@dataclass(frozen=True, slots=True)
class Rule:
    """A row of the catalogue: the meaning of a code, with a text that breaks the rule and a text that keeps it."""

    code: str
    title: str
    rule: str
    why: str
    bad: str
    good: str


# Codes come in the order of `errors.toml`.
@functools.cache
def catalogue() -> dict[str, Rule]:
    text = (pathlib.Path(__file__).parent / "errors.toml").read_text(encoding="utf-8")
    return {code: Rule(code, **row) for code, row in tomllib.loads(text).items()}


@dataclass(frozen=True, slots=True)
class Finding:
    """An error: `message` describes it, `facts` are the reasons, and `fix` is what to write instead."""

    code: str
    message: str
    span: Span = NOWHERE
    facts: tuple[str, ...] = ()
    fix: str = ""

    # A text cannot steer a terminal or a log of GitHub by control characters.
    def __post_init__(self) -> None:
        object.__setattr__(self, "message", printable(self.message))
        object.__setattr__(self, "facts", tuple(map(printable, self.facts)))
        object.__setattr__(self, "fix", "\n".join(map(printable, self.fix.split("\n"))))  # of which some have several lines

    @property
    def rule(self) -> Rule:
        return catalogue()[self.code]

    def as_data(self) -> dict[str, object]:
        span, after = self.span, self.span.after
        return {
            "code": self.code,
            "message": self.message,
            "file": span.written.source.name,
            "line": span.line,
            "column": span.column,
            "end_line": after.line,
            "end_column": after.column,
            "rule": self.rule.rule,
            "facts": self.facts,
            "fix": self.fix,
        }

    def __str__(self) -> str:
        return "\n".join([f"{self.code} {self.message}", *_show_excerpt(self.span), *self._list_remarks()])

    def _list_remarks(self) -> list[str]:
        rows = [f"  {fact}" for fact in self.facts]
        rows.append(f"  rule: {self.rule.rule}")
        return rows + ([f"  write: {self.fix}"] if self.fix else [])


class EinformerError(Exception):
    """An input that cannot be accepted. `findings` gives the reasons, in the order of the text."""

    def __init__(self, findings: Iterable[Finding]) -> None:
        self.findings = tuple(findings)
        super().__init__(self.findings)

    def __str__(self) -> str:
        return "\n\n".join(map(str, self.findings))

    def __reduce__(self) -> tuple[type[EinformerError], tuple[tuple[Finding, ...]]]:
        return type(self), (self.findings,)


# `\x1b`, `\u202e`: such characters move a cursor, turn the direction of writing or end a line.
def printable(text: str) -> str:
    return text if text.isprintable() else "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


# Makes an error of a single finding: `raise fail("E601", …)`.
def fail(code: str, message: str, span: Span = NOWHERE, facts: Iterable[str] = (), fix: str = "") -> EinformerError:
    return EinformerError([Finding(code, message, span, tuple(facts), fix)])


# Raises EinformerError E605 if the name is not among the names.
def check_name(names: Iterable[str], what: str, name: str) -> None:
    if name not in (names := list(names)):
        raise fail("E605", f"there is no {what} `{name}`", fix=" or ".join(f"`{option}`" for option in names))


# Returns a row of a table by its name. Raises EinformerError E605.
def find_row(table: Mapping[str, T], what: str, name: str) -> T:
    check_name(table, what, name)
    return table[name]


# File, line and column, then the line with a caret. A long line is cut around the place.
def _show_excerpt(span: Span, width: int = 120) -> list[str]:
    if span.source == NOWHERE.source:
        return []
    span = span.written
    lines = span.source.text.split("\n")
    text, column = (lines[span.line - 1], span.column - 1) if span.line <= len(lines) else ("", 0)
    left = max(0, column - width // 2) if len(text) > width else 0
    shown = "".join(c if c.isprintable() else " " if c == "\t" else "�" for c in text[left : left + width])
    before, marked = shown[: column - left], shown[column - left : column - left + max(1, span.end - span.start)]
    gutter, cells = " " * len(str(span.line)), _count_cells(marked)
    indent = _count_cells(before) - (marked != "" and not cells)  # a combining mark stands over the letter before it
    return [
        f"  {printable(span.source.name)}:{span.line}:{span.column}",
        f"  {span.line} | {shown}",
        f"  {gutter} | {' ' * indent}{'^' * max(1, cells)}",
    ]


# Combining marks take no columns, wide characters two.
def _count_cells(text: str) -> int:
    return sum(0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)
