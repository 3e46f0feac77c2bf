"""Holds a file of notes: headings, words and formulas. Each character of a formula has its place in the file."""

from __future__ import annotations

import bisect
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from einformer.errors import Source, Span
from einformer.language.tokens import MAXIMUM_DEPTH


@dataclass(frozen=True, slots=True)
class Passage:
    """A text made from a file, with the place in the file of each character."""

    source: Source
    text: str
    places: tuple[int, ...] | range

    @classmethod
    def of(cls, source: Source, start: int, end: int) -> Passage:
        return cls(source, source.text[start:end], range(start, end))

    def cut(self, start: int, end: int) -> Passage:
        return Passage(self.source, self.text[start:end], self.places[start:end])

    def put(self, text: str, start: int) -> Passage:
        return Passage(self.source, text, (self.places[start],) * len(text))

    # A number stands for a group, a string for itself, placed where the match begins.
    def sub(self, pattern: re.Pattern[str], *parts: int | str) -> Passage:
        parts_of_text, position = list[Passage](), 0
        for match in pattern.finditer(self.text):
            parts_of_text.append(self.cut(position, match.start()))
            parts_of_text += (self.cut(*match.span(p)) if isinstance(p, int) else self.put(p, match.start()) for p in parts)
            position = match.end()
        return join(self.source, [*parts_of_text, self.cut(position, len(self.text))]) if parts_of_text else self

    def span(self, start: int = 0, end: int | None = None) -> Span:
        part = self.places[start : len(self.text) if end is None else max(end, start + 1)] or self.places[-1:]
        return Span(self.source, min(part), max(part) + 1) if part else Span(self.source, 0, 1)


def join(source: Source, parts: Iterable[Passage]) -> Passage:
    whole = tuple(parts)
    return Passage(source, "".join(part.text for part in whole), tuple(place for part in whole for place in part.places))


class Ends:
    """Finds closing marks. A mark that is missing once is not looked for again further on, so a text is read once."""

    def __init__(self, text: str) -> None:
        self.text, self.missing = text, set[str]()

    # Returns the span of the group `end` of the first match, or None if another alternative matches first.
    def find(self, pattern: str, start: int) -> tuple[int, int] | None:
        match = None if pattern in self.missing else re.compile(pattern, re.MULTILINE).search(self.text, start)
        if match is None:
            self.missing.add(pattern)
        return match.span("end") if match and match["end"] else None

    @cached_property
    def braces(self) -> dict[int, int]:
        opened, partners = list[int](), dict[int, int]()
        for brace in _BRACE.finditer(self.text):
            if brace[0] == "{":
                opened.append(brace.start())
            elif brace[0] == "}" and opened:
                partners[opened.pop()] = brace.start()
        return partners


_BRACE = re.compile(r"\\.|[{}]", re.DOTALL)
_BLANKS = re.compile(r"([ \t]{4})[ \t]++|(\\q?quad\b\s*+)(?:\\q?quad\b\s*+)++")


# Patterns that leave out blanks would try each way to share a run of them.
def shorten_blanks(text: Passage) -> Passage:
    return text.sub(_BLANKS, 1, 2)


# The spans do not overlap and stand in the order of the text.
def is_inside(spans: Sequence[tuple[int, int]], position: int) -> bool:
    number = bisect.bisect_left(spans, (position, 0)) - 1
    return number >= 0 and position < spans[number][1]


# Readers recurse once for each bracket.
def is_too_deep(text: str) -> bool:
    depth = 0
    if sum(map(text.count, "({[")) <= MAXIMUM_DEPTH // 2:
        return False
    for character in text:
        depth += (character in "({[") - (character in ")}]")
        if depth > MAXIMUM_DEPTH // 2:
            return True
    return False


@dataclass(frozen=True, slots=True)
class Macro:
    r"""A command of `\newcommand` or `\def`: its number of arguments and its body."""

    arguments: int
    body: str


@dataclass(frozen=True, slots=True)
class Heading:
    """The beginning of a section."""

    title: str


@dataclass(frozen=True, slots=True)
class Words:
    """The text between formulas."""

    text: Passage


@dataclass(frozen=True, slots=True)
class Formula:
    """A formula in LaTeX, displayed or in a line of text. `unread` says why it is not read."""

    latex: Passage
    display: bool
    unread: str = ""


Piece = Heading | Words | Formula


@dataclass(frozen=True)
class Section:
    """The formulas and words between two headings."""

    title: str
    pieces: tuple[Words | Formula, ...]

    @property
    def formulas(self) -> tuple[Formula, ...]:
        return tuple(piece for piece in self.pieces if isinstance(piece, Formula))

    # In any format the formulas are LaTeX between dollars, and blanks are short.
    @cached_property
    def prose(self) -> Passage | None:
        parts = list[Passage]()
        for piece in self.pieces:
            dollar = piece.latex.put("$", 0) if isinstance(piece, Formula) and piece.latex.text else None
            parts += (
                [dollar, piece.latex, dollar]
                if isinstance(piece, Formula) and dollar
                else [piece.text]
                if isinstance(piece, Words)
                else []
            )
        return shorten_blanks(join(parts[0].source, parts)) if parts else None


@dataclass(frozen=True, slots=True)
class Document:
    """A file of notes, and the macros that it defines."""

    sections: tuple[Section, ...]
    macros: Mapping[str, Macro] = field(default_factory=dict)


# A section goes from one heading to the next.
def group_sections(pieces: Iterable[Piece]) -> Iterator[Section]:
    title, held = "", list[Words | Formula]()
    for piece in pieces:
        if isinstance(piece, Heading):
            yield Section(title, tuple(held))
            title, held = piece.title, []
        else:
            held.append(piece)
    yield Section(title, tuple(held))
