"""Reads the formulas of a Typst file: the text between dollars, in LaTeX. With spaces inside them it is displayed."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from einformer.errors import Source
from einformer.notes.documents.pieces import (
    Document,
    Ends,
    Formula,
    Heading,
    Passage,
    Piece,
    Words,
    group_sections,
    is_inside,
    is_too_deep,
    join,
)
from einformer.notes.documents.typst_math import rewrite_typst

_TYPST = re.compile(
    r"""(?P<skipped> //[^\n]* | \\\$ | https?://\S+ ) | (?P<comment> /\* ) | (?P<ticks> `++ )
      | ^=+[ ] (?P<title>[^\n]+)
      | (?<!\\) \$ (?P<math> (?: [^$\\] | \\. )+? ) \$""",
    re.VERBOSE | re.DOTALL | re.MULTILINE,
)
_OPERATOR = re.compile(
    r"#let\s++([A-Za-z]\w*+)\s*+=\s*+(?:(?:math\.op\(\s*+)?[`\"]([A-Za-z ]+)[`\"]|(math\.[a-z.]+)\s*$)", re.MULTILINE
)
_ALGORITHM = re.compile(r"pseudocode[\w-]*+\(")


def read_typst(source: Source) -> Document:
    operators = {match[1]: match[2] or match[3] for match in _OPERATOR.finditer(source.text)}
    return Document(tuple(group_sections(_split(source, operators))))


def _split(source: Source, operators: dict[str, str]) -> Iterator[Piece]:
    position = start = 0
    ends, loops, bindings = Ends(source.text), list(_find_algorithms(source.text)), find_lets(source.text)
    while match := _TYPST.search(source.text, start):
        closing = r"\*/" if match["comment"] else match["ticks"]
        end = ends.find(f"(?P<end>{closing})", match.end()) if closing else match.span()
        if end is None:
            start = match.end()
            continue
        yield Words(Passage.of(source, position, match.start()))
        position = start = end[1]
        if match["title"]:
            yield Heading(match["title"].strip())
        elif match["math"] and not is_too_deep(match["math"]):
            formula = Passage.of(source, *match.span("math"))
            displayed = formula.text[0].isspace() and formula.text[-1].isspace()
            unread = "the loop of an algorithm" if is_inside(loops, position) else ""
            yield Formula(rewrite_typst(expand_lets(formula, bindings), operators), displayed, unread)
        elif match["ticks"] == "`":
            yield Words(Passage.of(source, match.start(), position))  # `(B, S, D)` in code
    yield Words(Passage.of(source, position, len(source.text)))


# The spans of algorithms, in which a letter counts a loop.
def _find_algorithms(text: str) -> Iterator[tuple[int, int]]:
    end = 0
    while match := _ALGORITHM.search(text, end):
        depth, end = 1, match.end()
        while end < len(text) and (depth or text[end] in "[("):
            depth += (text[end] in "[(") - (text[end] in "])")
            end += 1
        yield match.start(), end


_LET = re.compile(r"#let\s++([A-Za-z][\w-]*+)\s*+(?:\(([\w\s,-]*+)\))?\s*+=\s*+\$((?:[^$\\]|\\.)++)\$")
_USE = re.compile(r"#([A-Za-z][\w-]*)|(?<![\w.#\"\\])([A-Za-z][A-Za-z0-9]+)(?![\w.])")  # one letter alone is a letter
_DEPTH, _LONGEST = 8, 20_000


@dataclass(frozen=True, slots=True)
class Let:
    """The body of a name and the names of its arguments, or None if it takes none."""

    parameters: tuple[str, ...] | None
    body: str


def find_lets(text: str) -> dict[str, Let]:
    return {match[1]: Let(_split_list(match[2]), match[3].strip()) for match in _LET.finditer(text)}


def _split_list(written: str | None) -> tuple[str, ...] | None:
    return None if written is None else tuple(part.strip() for part in written.split(",") if part.strip())


# A body has the place of its name, and may hold names itself.
def expand_lets(formula: Passage, bindings: Mapping[str, Let]) -> Passage:
    for _ in range(_DEPTH if bindings else 0):
        expanded_once = _expand_once(formula, bindings)
        if expanded_once.text == formula.text or len(expanded_once.text) > _LONGEST:
            break
        formula = expanded_once
    return formula


def _expand_once(formula: Passage, bindings: Mapping[str, Let]) -> Passage:
    parts, position = list[Passage](), 0
    for match in _USE.finditer(formula.text):
        let, end = bindings.get(match[1] or match[2]), match.end()
        if let is None or match.start() < position:
            continue
        arguments = list[Passage]()
        if let.parameters is not None:
            arguments, end = _split_arguments(formula, end)
            if len(arguments) != len(let.parameters):
                continue
        body = formula.put(let.body, match.start())
        parts += [formula.cut(position, match.start()), _fill(body, dict(zip(let.parameters or (), arguments, strict=True)))]
        position = end
    return join(formula.source, [*parts, formula.cut(position, len(formula.text))])


# Splits the text between brackets that open at a place at its commas. Returns the end too.
def _split_arguments(formula: Passage, opening: int) -> tuple[list[Passage], int]:
    arguments, depth, start = list[Passage](), 0, opening + 1
    for place in range(opening, len(formula.text)):
        sign = formula.text[place]
        depth += (sign in "([") - (sign in ")]")
        if not depth or (depth == 1 and sign == ","):
            arguments.append(formula.cut(start, place))
            start = place + 1
        if not depth:
            return (arguments, place + 1) if place > opening else ([], opening)
    return [], opening


def _fill(body: Passage, arguments: Mapping[str, Passage]) -> Passage:
    parts, position = list[Passage](), 0
    for match in _USE.finditer(body.text):
        if (name := match[1] or match[2]) in arguments:
            parts += [body.cut(position, match.start()), arguments[name]]
            position = match.end()
    return join(body.source, [*parts, body.cut(position, len(body.text))])
