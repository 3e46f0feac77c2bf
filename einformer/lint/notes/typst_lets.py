"""Expands the `#let`s of a Typst file in its formulas: `#let ten(x, i) = $#x _(#i)$`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from einformer.lint.notes.pieces import Passage, join

_LET = re.compile(r"#let\s++([A-Za-z][\w-]*+)\s*+(?:\(([\w\s,-]*+)\))?\s*+=\s*+\$((?:[^$\\]|\\.)++)\$")
_USE = re.compile(r"#([A-Za-z][\w-]*)|(?<![\w.#\"\\])([A-Za-z][A-Za-z0-9]+)(?![\w.])")  # one letter alone is a letter
_DEPTH, _LONGEST = 8, 20_000


@dataclass(frozen=True, slots=True)
class Let:
    """The body of a name and the names of its arguments, or None if it takes none."""

    parameters: tuple[str, ...] | None
    body: str


def find_lets(text: str) -> dict[str, Let]:
    """Returns the bindings of a file by name."""
    return {match[1]: Let(_split_list(match[2]), match[3].strip()) for match in _LET.finditer(text)}


def _split_list(written: str | None) -> tuple[str, ...] | None:
    return None if written is None else tuple(part.strip() for part in written.split(",") if part.strip())


def expand_lets(formula: Passage, bindings: Mapping[str, Let]) -> Passage:
    """Replaces names by their bodies, and the names in those. A body has the place of its name."""
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
