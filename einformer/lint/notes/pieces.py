"""What is a file of notes made of? Headings, words and formulas; each character of a formula knows its place in the file."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from einformer.errors import Source, Span
from einformer.language.tokens import MAXIMUM_DEPTH


@dataclass(frozen=True, slots=True)
class Passage:
    """A text that was made from a file, and where each of its characters stands there."""

    source: Source
    text: str
    places: tuple[int, ...] | range

    @classmethod
    def of(cls, source: Source, start: int, end: int) -> Passage:
        """The characters of a file as they are."""
        return cls(source, source.text[start:end], range(start, end))

    def cut(self, start: int, end: int) -> Passage:
        """A part of it."""
        return Passage(self.source, self.text[start:end], self.places[start:end])

    def put(self, text: str, start: int) -> Passage:
        """Another text, all of which stands where the character `start` does."""
        return Passage(self.source, text, (self.places[start],) * len(text))

    def sub(self, pattern: re.Pattern[str], *parts: int | str) -> Passage:
        """Each match replaced: a number stands for a group, a text for itself, at the place where the match begins."""
        made, at = list[Passage](), 0
        for match in pattern.finditer(self.text):
            made.append(self.cut(at, match.start()))
            made += (self.cut(*match.span(p)) if isinstance(p, int) else self.put(p, match.start()) for p in parts)
            at = match.end()
        return joined(self.source, [*made, self.cut(at, len(self.text))]) if made else self

    def span(self, start: int = 0, end: int | None = None) -> Span:
        """Where in the file the characters `start … end` stand."""
        part = self.places[start : len(self.text) if end is None else max(end, start + 1)] or self.places[-1:]
        return Span(self.source, min(part), max(part) + 1) if part else Span(self.source, 0, 1)


def joined(source: Source, parts: Iterable[Passage]) -> Passage:
    """Passages one after the other."""
    whole = tuple(parts)
    return Passage(source, "".join(part.text for part in whole), tuple(place for part in whole for place in part.places))


def too_deep(text: str) -> bool:
    """Do brackets nest deeper than anybody reads? Readers go down a call for each."""
    depth = 0
    for character in text:
        depth += (character in "({[") - (character in ")}]")
        if depth > MAXIMUM_DEPTH // 2:
            return True
    return False


@dataclass(frozen=True, slots=True)
class Macro:
    r"""What `\newcommand` or `\def` defines: how many arguments it takes, and what it stands for."""

    arguments: int
    body: str


@dataclass(frozen=True, slots=True)
class Heading:
    """A section begins."""

    title: str


@dataclass(frozen=True, slots=True)
class Words:
    """What stands between formulas."""

    text: Passage


@dataclass(frozen=True, slots=True)
class Formula:
    """A formula in LaTeX, displayed or in a line of text; `unread` says why it is not read, if it stands where none is."""

    latex: Passage
    display: bool
    unread: str = ""


Piece = Heading | Words | Formula


@dataclass(frozen=True)
class Section:
    """What stands between two headings."""

    title: str
    pieces: tuple[Words | Formula, ...]

    @property
    def formulas(self) -> tuple[Formula, ...]:
        """Its formulas in the order of the text."""
        return tuple(piece for piece in self.pieces if isinstance(piece, Formula))

    @cached_property
    def prose(self) -> Passage | None:
        """Its text, whatever the format, with the formulas in LaTeX between dollars; None where there is none."""
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
        return joined(parts[0].source, parts) if parts else None


@dataclass(frozen=True, slots=True)
class Document:
    """A file of notes, and the macros that it defines."""

    sections: tuple[Section, ...]
    macros: Mapping[str, Macro] = field(default_factory=dict)


def sections(pieces: Iterable[Piece]) -> Iterator[Section]:
    """The pieces from one heading to the next."""
    title, held = "", list[Words | Formula]()
    for piece in pieces:
        if isinstance(piece, Heading):
            yield Section(title, tuple(held))
            title, held = piece.title, []
        else:
            held.append(piece)
    yield Section(title, tuple(held))
