r"""What does a formula look like once the macros of its file are expanded? Each piece stands where its name stood."""

from __future__ import annotations

import re
from collections.abc import Mapping

from einformer.language.latex_marks import Mark, marks
from einformer.lint.notes.pieces import Macro, Passage, joined

_LONGEST, _DEEPEST = 20_000, 20  # of what the macros of a formula expand to; what is beyond stays as it is
_PLACE = re.compile(r"#([1-9])")


def expanded(text: Passage, macros: Mapping[str, Macro]) -> Passage:
    """The text in which each macro is what it stands for."""
    return _Expander(macros).expanded(text, 0) if macros else text


class _Expander:
    """How many characters may still be made, so that a macro of itself ends."""

    def __init__(self, macros: Mapping[str, Macro]) -> None:
        self.macros, self.left = macros, _LONGEST

    def expanded(self, text: Passage, depth: int) -> Passage:
        """A text, `depth` macros down."""
        found, made = list(marks(text.text)), list[Passage]()
        at = number = 0
        while number < len(found) and depth < _DEEPEST and self.left > 0:
            mark = found[number]
            number += 1
            if mark.kind == "command" and mark.command in self.macros:
                made.append(text.cut(at, mark.start))
                macro = self.macros[mark.command]
                arguments, number = _arguments(text, found, number, macro.arguments)
                at = found[number - 1].end
                self.left -= len(macro.body) + sum(len(argument.text) for argument in arguments)
                made.append(self.expanded(_filled(macro, arguments, text.put("", mark.start), mark, text), depth + 1))
        return joined(text.source, [*made, text.cut(at, len(text.text))]) if made else text


def _filled(macro: Macro, arguments: list[Passage], missing: Passage, mark: Mark, text: Passage) -> Passage:
    """The body of a macro with its arguments in it."""
    given = dict(enumerate(arguments, 1))
    parts = enumerate(_PLACE.split(macro.body))
    return joined(text.source, [given.get(int(p), missing) if at % 2 else text.put(p, mark.start) for at, p in parts])


def _arguments(text: Passage, found: list[Mark], number: int, count: int) -> tuple[list[Passage], int]:
    """The next arguments, and the mark after them."""
    taken = list[Passage]()
    while len(taken) < count and number < len(found):
        if found[number].is_space:
            number += 1
            continue
        end = partner(found, number)
        braces = found[number].text == "{"
        taken.append(text.cut(found[number].start + braces, found[min(end, len(found) - 1)].end - braces))
        number = end + 1
    return taken, min(number, len(found))


def partner(found: list[Mark], at: int) -> int:
    """Where the brace that opens at a mark is closed; the mark itself where it opens none."""
    depth = 0
    for number in range(at, len(found)):
        depth += {"{": 1, "}": -1}.get(found[number].text, 0)
        if depth <= 0:
            return number
    return len(found)
