"""Expands the macros of a file in a formula. Each piece has the place of the macro's name."""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping, Sequence

from einformer.language.latex_reader import Mark, marks
from einformer.notes.documents.pieces import Macro, Passage, join

_LONGEST, _DEEPEST = 4_000, 20  # characters of expanded macros; longer ones stay unexpanded
_COMMAND = re.compile(r"\\([A-Za-z]+)")
_PLACE = re.compile(r"#([1-9])")


def expand_macros(text: Passage, macros: Mapping[str, Macro]) -> Passage:
    used = any(command in macros for command in _COMMAND.findall(text.text))
    return _Expander(macros).expand(text, 0) if used else text


# Formulas have parts in common, such as `i` and `x_{ij}`.
@functools.lru_cache(4096)
def read_marks(text: str) -> tuple[Mark, ...]:
    return tuple(marks(text))


# A limit on the characters that are still made, so that a macro of itself ends.
class _Expander:
    def __init__(self, macros: Mapping[str, Macro]) -> None:
        self.macros, self.left = macros, _LONGEST

    # The text stands `depth` macros down.
    def expand(self, text: Passage, depth: int) -> Passage:
        marks_of_text, parts = read_marks(text.text), list[Passage]()
        position = number = 0
        while number < len(marks_of_text) and depth < _DEEPEST and self.left > 0:
            mark = marks_of_text[number]
            number += 1
            macro = self.macros.get(mark.command) if mark.kind == "command" else None
            if macro is not None and len(macro.body) < self.left:
                parts.append(text.cut(position, mark.start))
                arguments, number = _read_arguments(text, marks_of_text, number, macro.arguments)
                position = marks_of_text[number - 1].end
                self.left -= len(macro.body) + sum(len(argument.text) for argument in arguments)
                parts.append(self.expand(_fill(macro, arguments, text.put("", mark.start), mark, text), depth + 1))
        return join(text.source, [*parts, text.cut(position, len(text.text))]) if parts else text


def _fill(macro: Macro, arguments: list[Passage], missing: Passage, mark: Mark, text: Passage) -> Passage:
    arguments_by_number = dict(enumerate(arguments, 1))
    parts = enumerate(_PLACE.split(macro.body))
    return join(
        text.source,
        [arguments_by_number.get(int(p), missing) if position % 2 else text.put(p, mark.start) for position, p in parts],
    )


def _read_arguments(text: Passage, marks_of_text: Sequence[Mark], number: int, count: int) -> tuple[list[Passage], int]:
    arguments = list[Passage]()
    while len(arguments) < count and number < len(marks_of_text):
        if marks_of_text[number].is_space:
            number += 1
            continue
        end = find_closing(marks_of_text, number)
        braces = marks_of_text[number].text == "{"
        arguments.append(
            text.cut(marks_of_text[number].start + braces, marks_of_text[min(end, len(marks_of_text) - 1)].end - braces)
        )
        number = end + 1
    return arguments, min(number, len(marks_of_text))


# A mark that does not open a brace closes itself.
def find_closing(marks_of_text: Sequence[Mark], at: int) -> int:
    depth = 0
    for number in range(at, len(marks_of_text)):
        depth += {"{": 1, "}": -1}.get(marks_of_text[number].text, 0)
        if depth <= 0:
            return number
    return len(marks_of_text)
