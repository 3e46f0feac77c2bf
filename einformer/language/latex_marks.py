"""Splits LaTeX into marks, the tokens of TeX, and reads the scripts, arguments and remarks of a row."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple, NoReturn

from einformer.errors import EinformerError, Source, Span, fail
from einformer.language import tokens
from einformer.language.primitives import COMPARISONS, PRIMITIVES
from einformer.language.tokens import SYNONYMS

GREEK = {
    "α": "alpha", "β": "beta", "γ": "gamma", "δ": "delta", "ε": "varepsilon", "ζ": "zeta", "η": "eta", "θ": "theta",
    "ι": "iota", "κ": "kappa", "λ": "lambda", "μ": "mu", "ν": "nu", "ξ": "xi", "π": "pi", "ρ": "rho", "σ": "sigma",
    "ς": "varsigma", "τ": "tau", "υ": "upsilon", "φ": "varphi", "χ": "chi", "ψ": "psi", "ω": "omega",
    "Γ": "Gamma", "Δ": "Delta", "Θ": "Theta", "Λ": "Lambda", "Ξ": "Xi", "Π": "Pi", "Σ": "Sigma", "Υ": "Upsilon",
    "Φ": "Phi", "Ψ": "Psi", "Ω": "Omega",
}  # fmt: skip
LETTERS = {command: letter for letter, command in GREEK.items()} | {"epsilon": "ε", "phi": "φ", "vartheta": "θ", "varrho": "ρ"}
_ROWS = [
    (row, command) for row in PRIMITIVES.values() for command in (row.latex.removeprefix("\\"), *row.reads) if command.isalpha()
]
WORDS = {command: row.name for row, command in _ROWS if row.name in ("mod", "and", "or", "not")}
SIGNS = {command: row.name for row, command in _ROWS if row.name in COMPARISONS} | {
    "leftarrow": "<-", "gets": "<-", "rightarrow": "->", "to": "->", "mapsto": "->", "colon": ":",
}  # fmt: skip
NAMED = {command: row.name for row, command in _ROWS if command not in WORDS | SIGNS} | {"infty": "inf"}
FENCES = {side.removeprefix("\\"): row.name for row in PRIMITIVES.values() for side in row.fence if side}
TEXTS = frozenset(("text", "textrm", "textbf", "textit", "texttt", "textsf", "mbox"))  # a space in them parts words
FONTS = TEXTS | {"mathrm", "operatorname", "mathbf", "mathit", "mathsf", "mathtt", "mathcal", "mathbb", "boldsymbol", "bm"}
LENGTHS = frozenset(("label", "tag", "hspace", "phantom", "hphantom"))  # they set their argument apart, or nothing
_SIZES = (size + side for size in ("big", "Big", "bigg", "Bigg") for side in ("", "l", "r", "m"))
_SET = ("displaystyle", "textstyle", "limits", "nolimits", "nonumber", "notag")
SPACES = frozenset((*",;:!>() \n", "quad", "qquad", *_SET, *_SIZES))
CASES = frozenset(("cases", "dcases"))
_COLUMNS = frozenset(("array", "alignat", "alignedat"))
ROWS = _COLUMNS | {"aligned", "align", "gather", "gathered", "split", "equation", "multline", "eqnarray", "displaymath"}
MARK = re.compile(
    r"""(?P<row>     \\\\ \*? (?:\[ [^\]\n]{0,20} \])?)
      | (?P<begin>   \\begin \s* \{[A-Za-z]+ \*? \})
      | (?P<end>     \\end \s* \{[A-Za-z]+ \*? \})
      | (?P<command> \\(?:operatorname\* | [A-Za-z]+ | . | $))
      | (?P<comment> [%\#][^\n]*)
      | (?P<space>   [ \t\r~]+)
      | (?P<newline> \n)
      | (?P<letter>  [^\W\d_])
      | (?P<digit>   [0-9])
      | (?P<sign>    <- | -> | <= | >= | == | != | && | \$\$? | [-+/^=<>(){}\[\],:?_&'′’|@−≤≥≠←→·∞])
      | (?P<stray>   .)""",
    re.VERBOSE | re.DOTALL,
)
_OPTION, _COLUMN = re.compile(r"\[[a-z]\]"), re.compile(r"\s*\{[^{}\n]*\}")


class Mark(NamedTuple):
    """A command, a letter, a digit, a sign, where it starts; the beginning and the end of an environment are one mark."""

    kind: str
    text: str
    start: int

    @property
    def end(self) -> int:
        """Where it ends."""
        return self.start + len(self.text)

    @property
    def command(self) -> str:
        """The name of a command, or of the environment that begins or ends; empty for any other mark."""
        if self.kind in ("begin", "end"):
            return self.text[self.text.index("{") + 1 : -1].rstrip("* ")
        return self.text[1:].rstrip("*") or "\\" if self.kind == "command" else ""

    @property
    def is_space(self) -> bool:
        """Returns whether the mark only separates its neighbours."""
        return self.kind in ("space", "newline") or (self.kind == "command" and self.command in SPACES)


def marks(text: str, start: int = 0) -> Iterator[Mark]:
    """The marks of a text that begins at the character `start`. Arguments of `\\begin` are left out."""
    position = 0
    while match := MARK.match(text, position):
        mark = Mark(match.lastgroup or "", match.group(), start + position)
        position = match.end()
        if mark.kind == "begin":
            option = _OPTION.match(text, position) or match
            column = _COLUMN.match(text, option.end()) if mark.command in _COLUMNS else None
            position = (column or option).end()
        yield mark


# ----------------------------------------------------------------------------------------------------------- the marks of a row


_SAID = {"hat": "^", "backslash": "\\", "sim": "~"} | {sign: sign for sign in "_&%#${}"}
Part = tuple[int, int]  # marks from … to


class Marks:
    """The marks of a row, with a cursor."""

    def __init__(self, source: Source, marks: list[Mark]) -> None:
        self.source, self.marks = source, marks
        self.partners = _partners(source, marks)
        self.at = 0
        self.end = marks[-1].end if marks else 0  # of what is read now: `x^23` is x squared times 3

    def skip_to(self, end: int) -> None:
        """The cursor goes to the first mark that does not begin before this character."""
        while self.at < len(self.marks) and self.marks[self.at].start < end:
            self.at += 1

    def script(self) -> str:
        """The sign of a script that follows, past spaces; the cursor goes to it."""
        position = self.at
        while position < len(self.marks) and self.marks[position].kind in ("space", "newline"):
            position += 1
        inside = position < len(self.marks) and self.marks[position].start < self.end
        text = self.marks[position].text.translate(SYNONYMS) if inside else ""
        self.at = position if text in ("'", "^", "_") else self.at
        return text if text in ("'", "^", "_") else ""

    def once(self, script: Part | None, part: Part, mark: Mark) -> Part:
        """A script, which a name has once."""
        if script:
            fix = "braces around the name and its first script"
            raise fail("E101", f"a second `{mark.text}` on one name", self.between(mark.start, mark.end), fix=fix)
        return part

    def argument(self, mark: Mark) -> Part:
        """argument: "{" item* "}" | letter | digit | name; the cursor goes past it"""
        while self.at < len(self.marks) and self.marks[self.at].kind in ("space", "newline"):
            self.at += 1
        start, first = self.at, self.marks[self.at] if self.at < len(self.marks) else mark
        self.at += 1
        if first.text == "{":
            self.at = self.partners[start] + 1
            return start + 1, self.at - 1
        if first.command in FONTS and self.at in self.partners:
            self.at = self.partners[self.at] + 1
        elif first is mark or not (first.kind in ("letter", "digit") or first.command in {"prime", *LETTERS, *NAMED}):
            self.unexpected(first, "braces around the argument")
        return start, self.at

    def letters(self) -> Part:
        """In a head a bare subscript is a run of letters, `W_dd'`, as in plain text."""
        start = self.at
        while self.at < len(self.marks) and (self.marks[self.at].kind == "letter" or self.marks[self.at].text == "'"):
            self.at += 1
        return (start, self.at) if self.at > start else self.argument(self.marks[start - 1])

    def label(self, part: Part) -> str:
        """The letters and digits of a script that is part of a name, primes last; empty for any other."""
        text = ""
        for mark in self.marks[slice(*part)]:
            if mark.kind in ("letter", "digit") or mark.text == "'":
                text += mark.text
            elif mark.command in LETTERS or mark.command == "prime":
                text += LETTERS.get(mark.command, "'")
            elif mark.kind != "space" and mark.text not in ("{", "}") and mark.command not in FONTS:
                return ""
        return text.replace("'", "") + "'" * text.count("'")

    def primes(self, part: Part) -> int:
        """Returns the number of primes in a script."""
        label = self.label(part)
        return 0 if label.rstrip("'") else len(label)

    def split(self, part: Part, sign: str) -> list[Part]:
        """Splits a part at signs outside of inner braces and cases."""
        parts, position, first = list[Part](), part[0], part[0]
        while position < part[1]:
            if self.marks[position].text.startswith(sign):
                parts.append((first, position))
                first = position + 1
            position = self.partners.get(position, position) + 1
        return [*parts, (first, part[1])]

    def holds(self, part: Part) -> bool:
        """Returns whether a part is not empty."""
        return not all(mark.is_space for mark in self.marks[slice(*part)])

    def is_remark(self) -> bool:
        """Returns whether a remark begins here."""
        return self.marks[self.at].text in ("&&", "\\qquad", "\\textit", "@")

    def remark(self) -> tuple[str, str]:
        r"""remark: ["@" words] [words], parted by \quad or \qquad"""
        start, end = self.at, len(self.marks)
        while start < end and (self.marks[start].is_space or self.marks[start].text == "&&"):
            start += 1
        if start == end or self.marks[start].text != "@":
            return "", self.words((start, end))
        stop = next((position for position in range(start, end) if self.marks[position].text in ("\\quad", "\\qquad")), end)
        return self.words((start + 1, stop)), self.words((stop, end))

    def words(self, part: Part) -> str:
        r"""Returns the words of \text{…} and the signs between them, or plain words."""
        text = ""
        self.at = part[0]
        while self.at < part[1]:
            mark = self.marks[self.at]
            self.at += 1
            if mark.command in TEXTS:
                inside = self.marks[slice(*self.argument(mark))]
                text += self.source.text[inside[0].start : inside[-1].end] if inside else ""
            elif mark.command in _SAID:
                text += _SAID[mark.command]
                self.at += 3 * (mark.command == "hat")  # `\hat{\ }`
            elif mark.kind in ("letter", "digit", "stray"):
                self.at = part[1]
                return self.source.text[mark.start : self.marks[part[1] - 1].end].strip()
            elif not (mark.is_space or mark.text in ("{", "}", "&", "&&", "$")):
                self.unexpected(mark, "`\\text{…}` for what is said beside a formula")
        return text.strip()

    def between(self, start: int, end: int) -> Span:
        """A place in the source."""
        return Span(self.source, start, end)

    def span(self, at: int) -> Span:
        """The place of a mark."""
        mark = self.marks[min(at, len(self.marks) - 1)]
        return self.between(mark.start, mark.end)

    def stray(self, mark: Mark) -> EinformerError:
        """A mark that no text may hold."""
        return tokens.stray(self.source, mark.start, mark.text[0])

    def unexpected(self, mark: Mark, fix: str) -> NoReturn:
        """Refuse a mark."""
        raise fail("E101", f"`{mark.text}` is not expected here", self.between(mark.start, mark.end), fix=fix)


def _partners(source: Source, marks: list[Mark]) -> dict[int, int]:
    partners: dict[int, int] = {}
    opened: list[int] = []
    for position, mark in enumerate(marks):
        if mark.text == "{" or mark.kind == "begin":
            opened.append(position)
        elif mark.text == "}" or mark.kind == "end":
            if not opened or (marks[opened[-1]].kind == "begin") != (mark.kind == "end"):
                fix = "the bracket that it should close"
                raise fail("E102", f"`{mark.text}` closes nothing", Span(source, mark.start, mark.end), fix=fix)
            partners[opened.pop()] = position
    if opened:
        mark = marks[opened[-1]]
        fix = "`}`" if mark.text == "{" else f"`\\end{{{mark.command}}}`"
        raise fail("E102", f"`{mark.text}` is never closed", Span(source, mark.start, mark.end), fix=fix)
    return partners
