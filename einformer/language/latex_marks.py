r"""Which commands, letters and signs does LaTeX hold? What TeX would call its tokens; here they are marks."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from einformer.language.primitives import COMPARISONS, PRIMITIVES

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
        """Does it only part what stands beside it?"""
        return self.kind in ("space", "newline") or (self.kind == "command" and self.command in SPACES)


def marks(text: str, start: int = 0) -> Iterator[Mark]:
    """The marks of a text that begins at the character `start`. Arguments of `\\begin` are left out."""
    at = 0
    while match := MARK.match(text, at):
        mark = Mark(match.lastgroup or "", match.group(), start + at)
        at = match.end()
        if mark.kind == "begin":
            option = _OPTION.match(text, at) or match
            column = _COLUMN.match(text, option.end()) if mark.command in _COLUMNS else None
            at = (column or option).end()
        yield mark
