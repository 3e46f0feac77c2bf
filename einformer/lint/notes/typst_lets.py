r"""What does a formula of Typst look like once the `#let`s of its file are expanded: `#let ten(x, i) = $#x _(#i)$`?"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from einformer.lint.notes.pieces import Passage, joined

_LET = re.compile(r"#let\s+([A-Za-z][\w-]*)\s*(?:\(([\w\s,-]*)\))?\s*=\s*\$((?:[^$\\]|\\.)+)\$")
_USE = re.compile(r"#([A-Za-z][\w-]*)|(?<![\w.#\"\\])([A-Za-z][A-Za-z0-9]+)(?![\w.])")  # one letter alone is a letter
_DEPTH, _LONGEST = 8, 20_000


@dataclass(frozen=True, slots=True)
class Let:
    """What a name stands for, with the names of its arguments; None where it takes none."""

    parameters: tuple[str, ...] | None
    body: str


def lets(text: str) -> dict[str, Let]:
    """What the formulas of a file are called."""
    return {match[1]: Let(_list(match[2]), match[3].strip()) for match in _LET.finditer(text)}


def _list(written: str | None) -> tuple[str, ...] | None:
    return None if written is None else tuple(part.strip() for part in written.split(",") if part.strip())


def expanded(formula: Passage, known: Mapping[str, Let]) -> Passage:
    """The formula with names replaced, and those in what they stand for. What is replaced stands where the name does."""
    for _ in range(_DEPTH if known else 0):
        made = _once(formula, known)
        if made.text == formula.text or len(made.text) > _LONGEST:
            break
        formula = made
    return formula


def _once(formula: Passage, known: Mapping[str, Let]) -> Passage:
    parts, at = list[Passage](), 0
    for match in _USE.finditer(formula.text):
        let, end = known.get(match[1] or match[2]), match.end()
        if let is None or match.start() < at:
            continue
        arguments = list[Passage]()
        if let.parameters is not None:
            arguments, end = _arguments(formula, end)
            if len(arguments) != len(let.parameters):
                continue
        body = formula.put(let.body, match.start())
        parts += [formula.cut(at, match.start()), _filled(body, dict(zip(let.parameters or (), arguments, strict=True)))]
        at = end
    return joined(formula.source, [*parts, formula.cut(at, len(formula.text))])


def _arguments(formula: Passage, at: int) -> tuple[list[Passage], int]:
    """What stands between brackets that open at a place, parted at commas; and where they close."""
    found, depth, start = list[Passage](), 0, at + 1
    for place in range(at, len(formula.text)):
        sign = formula.text[place]
        depth += (sign in "([") - (sign in ")]")
        if not depth or (depth == 1 and sign == ","):
            found.append(formula.cut(start, place))
            start = place + 1
        if not depth:
            return (found, place + 1) if place > at else ([], at)
    return [], at


def _filled(body: Passage, arguments: Mapping[str, Passage]) -> Passage:
    """A body with its arguments, `#x`, in place."""
    parts, at = list[Passage](), 0
    for match in _USE.finditer(body.text):
        if (name := match[1] or match[2]) in arguments:
            parts += [body.cut(at, match.start()), arguments[name]]
            at = match.end()
    return joined(body.source, [*parts, body.cut(at, len(body.text))])
