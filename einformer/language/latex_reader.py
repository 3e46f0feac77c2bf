r"""Reads LaTeX as rows of the same tokens as plain text, so that one parser serves both.

A text with a backslash is LaTeX. A row ends at `\\`, and outside environments where its line ends; there a line without
commands is plain, so that equations can be pasted from notes under a plain legend. Braces are invisible groups of the parser,
`\sqrt{a}` is `sqrt(a)`, a superscript before a subscript belongs to the name, after it is a power.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple, NoReturn

from einformer.errors import EinformerError, Finding, Source, Span, fail
from einformer.language import tokens
from einformer.language.primitives import COMPARISONS, NAMES, PRIMITIVES
from einformer.language.tokens import (
    BRACKETS,
    BRANCH,
    BRANCHES,
    CLOSE,
    DIGITS,
    FRACTION,
    MAXIMUM_DEPTH,
    MAXIMUM_LINE,
    OPEN,
    OVER,
    SYNONYMS,
    LogicalLine,
    Token,
    is_latex,
)

# ----------------------------------------------------------------------------------------------------------- the marks of TeX

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
    """A command, a letter, a digit, a sign, where it starts; the beginning and the end of an environment are one mark.

    In a row a brace, and the beginning of cases, hold what stands `inside`, up to the mark that is their `close`.
    """

    kind: str
    text: str
    start: int
    inside: tuple[Mark, ...] = ()
    close: Mark | None = None

    @property
    def end(self) -> int:
        return self.start + len(self.text) if self.close is None else self.close.end

    @property
    def command(self) -> str:
        if self.kind in ("begin", "end"):
            return self.text[self.text.index("{") + 1 : -1].rstrip("* ")
        return self.text[1:].rstrip("*") or "\\" if self.kind == "command" else ""

    @property
    def is_space(self) -> bool:
        return self.kind in ("space", "newline") or (self.kind == "command" and self.command in SPACES)


# The arguments of `\begin` are left out.
def marks(text: str, start: int = 0) -> Iterator[Mark]:
    position = 0
    while match := MARK.match(text, position):
        mark = Mark(match.lastgroup or "", match.group(), start + position)
        position = match.end()
        if mark.kind == "begin":
            option = _OPTION.match(text, position) or match
            column = _COLUMN.match(text, option.end()) if mark.command in _COLUMNS else None
            position = (column or option).end()
        yield mark


# What stands in braces and in cases goes inside the mark that opens them.
def nest(source: Source, marks: Sequence[Mark]) -> tuple[Mark, ...]:
    opened: list[Mark] = []
    levels: list[list[Mark]] = [[]]
    for mark in marks:
        if mark.text == "{" or mark.kind == "begin":
            opened.append(mark)
            levels.append([])
        elif mark.text == "}" or mark.kind == "end":
            if not opened or (opened[-1].kind == "begin") != (mark.kind == "end"):
                fix = "the bracket that it should close"
                raise fail("E102", f"`{mark.text}` closes nothing", Span(source, mark.start, mark.end), fix=fix)
            whole = opened.pop()._replace(inside=tuple(levels.pop()), close=mark)
            levels[-1].append(whole)
        else:
            levels[-1].append(mark)
    for mark in opened[-1:]:
        fix = "`}`" if mark.text == "{" else f"`\\end{{{mark.command}}}`"
        raise fail("E102", f"`{mark.text}` is never closed", Span(source, mark.start, mark.end), fix=fix)
    return tuple(levels[0])


# Returns the letters and digits of a script that is part of a name, primes last, or "" for any other script.
def label(marks: Sequence[Mark]) -> str:
    text, waiting = "", [*reversed(marks)]
    while waiting:
        mark = waiting.pop()
        waiting += reversed(mark.inside)
        if mark.kind in ("letter", "digit") or mark.text == "'":
            text += mark.text
        elif mark.command in LETTERS or mark.command == "prime":
            text += LETTERS.get(mark.command, "'")
        elif mark.kind != "space" and mark.text != "{" and mark.command not in FONTS:
            return ""
    return text.replace("'", "") + "'" * text.count("'")


# ------------------------------------------------------------------------------------------------------ the tokens of a row

MAXIMUM_ROW = 4 * MAXIMUM_LINE  # the same formula is longer in LaTeX
_KEYWORD = re.compile(r"(axes|scalars|layer|model|weights|buffers|for|return)(?![^\W_])")
_HEADS = frozenset(("layer", "model", "weights", "buffers"))
_RUN = re.compile(r"[^\W\d_][^\W_]*")
_NUMBER = re.compile(r"[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_DIGITS = re.compile(r"[0-9]+")
_POWER_OF_TEN = re.compile(r"\s*\\times\s*10\s*\^\s*(?:\{\s*(-?)\s*([0-9]+)\s*\}|([0-9]))")
_REMARKS = frozenset(("&&", "\\qquad", "\\textit", "@"))  # with which what is said beside a formula begins
_SAID = {"hat": "^", "backslash": "\\", "sim": "~"} | {sign: sign for sign in "_&%#${}"}
_MISPLACED = {
    "_": "a name before it",
    "'": "a name before it",
    "|": "`\\left|` and `\\right|`",
    "@": "a note after the formula",
}


@dataclass(slots=True)
class MarkedLine:
    r"""The marks of a statement, and how deep it is indented: two for each `\quad`, one for each space of a line."""

    indent: int
    marks: list[Mark] = field(default_factory=list)
    comment: str = ""


def read_row(source: Source, row: MarkedLine) -> LogicalLine:
    start, end = (row.marks[0].start, row.marks[-1].end) if row.marks else (0, 1)
    if end - start > MAXIMUM_ROW:
        raise fail("E001", f"the row has {end - start:,} characters", Span(source, start, start + 1), fix="several rows")
    reader = _RowReader(source, nest(source, row.marks))
    note, comment = (words.replace("\n", " ") for words in reader.row())  # a row may have several lines, plain text one
    signs = tuple(equalities(reader.tokens))
    tokens.check_brackets(signs)
    span = Span(source, start, signs[-1].span.end if signs else end)
    return LogicalLine(row.indent, signs, note, " ".join(filter(None, (comment, row.comment))), span)


class Argument(NamedTuple):
    """The marks of an argument, of a script or of a cell, and the mark that ends it: its own last one without braces."""

    marks: tuple[Mark, ...]
    close: Mark

    def split(self, sign: str) -> list[Argument]:
        ends = [k for k, mark in enumerate(self.marks) if mark.text.startswith(sign)]
        pairs = itertools.pairwise([-1, *ends, len(self.marks)])
        return [Argument(self.marks[before + 1 : end], (*self.marks, self.close)[end]) for before, end in pairs]


class _RowReader:
    """A cursor over the marks of a row, which writes tokens."""

    def __init__(self, source: Source, marks: tuple[Mark, ...]) -> None:
        self.source, self.marks, self.at = source, marks, 0
        self.tokens: list[Token] = []
        self.depth = 0  # of all that nests
        self.slots = 0  # of subscripts, where names have one letter
        self.heads = False  # in a head nothing multiplies, and a run of letters is a name
        self.times: Mark | None = None  # the `\cdot` that still lacks its right factor

    # row: [keyword] item* [remark]. Returns the note and the comment.
    def row(self) -> tuple[str, str]:
        self.keyword()
        while self.at < len(self.marks) and self.marks[self.at].text not in _REMARKS:
            self.item()
        self.check_product("end")
        return self.remark()

    # `return`, `weights`, `layer` … need no \textbf at the start of a row.
    def keyword(self) -> None:
        match = _KEYWORD.match(self.source.text, self.marks[0].start) if self.marks else None
        if match:
            self.emit("name", match.group(), match.start(), match.end())
            self.skip_to(match.end())
            self.heads = match.group() in _HEADS

    # ----------------------------------------------------------------------------------------------------- cursor

    # `x^23` is x squared times 3, so only one digit may be read.
    @property
    def end(self) -> int:
        return self.marks[-1].end

    def skip_to(self, end: int) -> None:
        while self.at < len(self.marks) and self.marks[self.at].start < end:
            self.at += 1

    def next(self) -> Mark | None:
        while self.at < len(self.marks) and self.marks[self.at].kind in ("space", "newline"):
            self.at += 1
        self.at += 1
        return self.marks[self.at - 1] if self.at <= len(self.marks) else None

    def script(self) -> Mark | None:
        before, mark = self.at, self.next()
        if mark is not None and mark.text.translate(SYNONYMS) in ("'", "^", "_"):
            return mark
        self.at = before
        return None

    # argument: "{" item* "}" | letter | digit | name; the cursor goes past it
    def argument(self, mark: Mark) -> Argument:
        first = self.next()
        if first is None:
            self.refuse(mark, "braces around the argument")
        if first.text == "{" and first.close:
            return Argument(first.inside, first.close)
        if first.command in FONTS and self.at < len(self.marks) and self.marks[self.at].text == "{":
            self.at += 1
            group = self.marks[self.at - 1]
            return Argument((first, group), group.close or group)
        if not (first.kind in ("letter", "digit") or first.command in {"prime", *LETTERS, *NAMED}):
            self.refuse(first, "braces around the argument")
        return Argument((first,), first)

    def emit(self, kind: str, text: str, start: int, end: int) -> None:
        self.add(Token(kind, text, Span(self.source, start, end)))

    def add(self, token: Token) -> None:
        self.check_product(token.kind)
        self.tokens.append(token)

    def put(self, kind: str, mark: Mark, text: str = "") -> None:
        self.emit(kind, text or mark.text, mark.start, mark.start + len(mark.text))

    def refuse(self, mark: Mark, fix: str) -> NoReturn:
        raise fail("E101", f"`{mark.text}` is not expected here", self.place(mark), fix=fix)

    def place(self, mark: Mark) -> Span:
        return Span(self.source, mark.start, mark.start + len(mark.text))

    # ------------------------------------------------------------------------------------------------------ items

    # item*, one level down, and the token that ends them; R13 bounds the levels.
    def items(self, part: Argument, kind: str, text: str = "}") -> None:
        around = self.marks, self.at
        self.marks, self.at = part.marks, 0
        self.depth += 1
        if self.depth > MAXIMUM_DEPTH + bool(self.slots):  # the letters of the innermost name are no level
            first = (*part.marks, part.close)[0]
            raise fail(
                "E002", f"the formula nests more than {MAXIMUM_DEPTH} deep", self.place(first), fix="names for its parts"
            )
        while self.at < len(self.marks):
            self.item()
        self.depth -= 1
        self.marks, self.at = around
        self.put(kind, part.close, text)

    # item: number | letter | command | cases | sign
    def item(self) -> None:
        mark = self.marks[self.at]
        self.at += 1
        match mark.kind:
            case "digit":
                self.number(mark)
            case "letter":
                self.letter(mark)
            case "command":
                self.command(mark)
            case "begin":
                self.cases(mark)
            case "sign":
                self.sign(mark)
            case "space" | "newline":
                pass
            case _:
                raise tokens.stray(self.source, mark.start, mark.text[0])

    # `12`, `0.1`, `1e-5`, and `2 \times 10^{-5}` is one number too; in a subscript, digits only.
    def number(self, mark: Mark) -> None:
        match = (_DIGITS if self.slots else _NUMBER).match(self.source.text, mark.start, self.end)
        text, end = (match.group(), match.end()) if match else (mark.text, mark.end)
        power = _POWER_OF_TEN.match(self.source.text, end, self.end)
        if power and not self.slots and "e" not in text.lower():
            text, end = f"{text}e{power[1] or ''}{power[2] or power[3]}", power.end()
        self.add(tokens.number_token(text, Span(self.source, mark.start, end), ""))
        self.skip_to(end)

    # A letter is a name of its own: `ED` is E D. Longer names stand in \mathrm.
    def letter(self, mark: Mark) -> None:
        match = _RUN.match(self.source.text, mark.start)
        run = match.group() if match and not self.slots else mark.text
        first = self.at == 1 or self.marks[self.at - 2].kind != "letter"
        if run in NAMES and first and not self.heads:
            whole = Span(self.source, mark.start, mark.start + len(run))
            raise fail("E101", f"`{run}` is a product of letters", whole, fix=f"`\\mathrm{{{run}}}`")
        end = mark.start + len(run if self.heads else mark.text)
        self.skip_to(end)
        self.name(self.source.text[mark.start : end], mark.start, end)

    def command(self, mark: Mark) -> None:
        name = mark.command
        if name in LETTERS or name in NAMED:
            self.name(LETTERS.get(name) or NAMED[name], mark.start, mark.end)
        elif name in WORDS:
            self.word(WORDS[name], mark.start, mark.end)
        elif name in SIGNS:
            self.put(SIGNS[name], mark)
        elif name in FONTS:
            self.font(mark)
        elif name in ("frac", "dfrac", "tfrac"):
            self.fraction(mark)
        elif name == "sqrt":
            part = self.argument(mark)
            self.call("sqrt", mark)
            self.items(part, ")")
        elif name in ("left", "right"):
            self.stretch(mark)
        elif name in FENCES:
            self.fence(FENCES[name], mark, opens=name.startswith("l"))
        elif name in ("cdot", "times"):
            self.product(mark)
        elif name in LENGTHS:
            self.argument(mark)
        elif not mark.is_space:
            fix = "`\\mathrm{name}` for a name of several letters"
            raise fail("E101", f"`{mark.text}` is not a command of the language", self.place(mark), fix=fix)

    # `&` aligns and `$` sets off; neither means anything.
    def sign(self, mark: Mark) -> None:
        match mark.text:
            case "{":
                self.group(mark)
            case "^":
                self.power(mark, self.argument(mark))
            case "&" | "&&" | "$":
                pass
            case "·":
                self.product(mark)
            case "∞":
                self.name("inf", mark.start, mark.end)
            case text if fix := _MISPLACED.get(text.translate(SYNONYMS)):
                self.refuse(mark, fix)
            case text:
                self.put(text.translate(SYNONYMS), mark)

    # `{…}` is invisible; `{x}_d` is `x_d`.
    def group(self, mark: Mark) -> None:
        assert mark.close is not None
        before, script = self.at, self.script()
        self.at = before
        name = label(mark.inside) if script and script.text == "_" else ""
        if len(name.rstrip("'")) == 1:
            self.name(name, mark.start, mark.end)
        else:
            self.put("{", mark)
            self.items(Argument(mark.inside, mark.close), "}")

    # ------------------------------------------------------------------------------------------------------ names

    # name: letters script*. A superscript before the subscript belongs to the name, after it is a power (R11).
    def name(self, name: str, start: int, end: int) -> None:
        primes, (before, below, after) = self.scripts()
        if before and below:
            raised = label(before[1].marks)
            if not raised:
                fix = "letters and digits before the subscript, for a name; a power after it"
                place = self.place((*before[1].marks, before[1].close)[0])
                raise fail("E101", "this superscript is neither part of a name nor a power", place, fix=fix)
            name += raised
        if name == "log" and below and label(below[1].marks) == "2":
            name, below = "log2", None
        self.word(name.replace("'", "") + "'" * (primes + name.count("'")), start, end)
        if below:
            self.put(OPEN, below[0], "{")
            self.slots += 1
            self.items(below[1], CLOSE)
            self.slots -= 1
        if above := after or (None if below else before):
            self.power(*above)

    def word(self, name: str, start: int, end: int) -> None:
        span = Span(self.source, start, end)
        if self.slots and len(name.rstrip("'")) > 1:
            fix = "one letter for each axis; anything else gets a name in an equation of its own"
            raise fail("E101", f"`{name}` in a subscript is not one letter", span, fix=fix)
        self.add(tokens.name_token(name, span))

    # Returns the number of primes; the superscript before the subscript, the subscript, the superscript after it.
    def scripts(self) -> tuple[int, list[tuple[Mark, Argument] | None]]:
        primes, scripts = 0, list[tuple[Mark, Argument] | None]([None, None, None])
        while mark := self.script():
            sign = mark.text.translate(SYNONYMS)
            part = (
                Argument((), mark) if sign == "'" else self.letters(mark) if sign == "_" and self.heads else self.argument(mark)
            )
            raised = "'" if sign == "'" else label(part.marks)
            if not raised.strip("'"):
                primes += len(raised)
            if sign == "_" or raised.strip("'") or not raised:
                place = 1 if sign == "_" else 2 if scripts[1] else 0
                if scripts[place]:
                    fix = "braces around the name and its first script"
                    raise fail("E101", f"a second `{mark.text}` on one name", self.place(mark), fix=fix)
                scripts[place] = mark, part
        return primes, scripts

    # In a head a bare subscript is a run of letters, `W_dd'`, as in plain text.
    def letters(self, mark: Mark) -> Argument:
        start = self.at
        while self.at < len(self.marks) and (self.marks[self.at].kind == "letter" or self.marks[self.at].text == "'"):
            self.at += 1
        run = self.marks[start : self.at]
        return Argument(run, run[-1]) if run else self.argument(mark)

    def power(self, mark: Mark, part: Argument) -> None:
        self.put("^", mark)
        self.put("{", mark)
        self.items(part, "}")

    # `\mathrm{Sm}` is a name of several letters; `\textbf{causal in}` is two.
    def font(self, mark: Mark) -> None:
        part = self.argument(mark)
        end = self.marks[self.at - 1].end
        runs = itertools.groupby(part.marks, lambda inner: mark.command in TEXTS and inner.kind == "space")
        words = [tuple(run) for is_space, run in runs if not is_space]
        for word in words:
            name = label(word)
            if not name:
                raise tokens.stray(self.source, word[0].start, word[0].text[0])
            if name[0] in DIGITS:
                self.add(tokens.number_token(name, Span(self.source, mark.start, end), ""))
            elif word is words[-1]:
                self.name(name, mark.start, end)
            else:
                self.word(name, word[0].start, word[-1].end)

    # --------------------------------------------------------------------------------------------------- formulas

    def fraction(self, mark: Mark) -> None:
        over, under = self.argument(mark), self.argument(mark)
        self.put(FRACTION, mark)
        self.items(over, OVER)
        self.items(under, "}")

    # `\left` and `\right` stretch the bracket that follows; between `\left|` and `\right|` is `abs(…)`.
    def stretch(self, mark: Mark) -> None:
        following = self.marks[self.at] if self.at < len(self.marks) else mark
        if following.text == "|":
            self.at += 1
            self.fence("abs", following, opens=mark.command == "left")
        elif following.text not in ("(", ")", "[", "]") and following.command not in FENCES:
            self.refuse(following, "`\\left(` and `\\right)`")

    # `\lfloor a \rfloor` is `floor(a)`.
    def fence(self, name: str, mark: Mark, opens: bool) -> None:
        if opens:
            self.call(name, mark)
        else:
            self.put(")", mark)

    def call(self, name: str, mark: Mark) -> None:
        self.word(name, mark.start, mark.end)
        self.put("(", mark)

    # `\cdot` stands between two factors, which multiply without it too.
    def product(self, mark: Mark) -> None:
        if not self.tokens or self.tokens[-1].kind not in ("name", "number", ")", "}", CLOSE):
            self.refuse(mark, "a factor on either side")
        self.times = mark

    def check_product(self, following: str) -> None:
        if self.times and following not in ("name", "number", "(", "{", FRACTION, BRANCHES):
            self.refuse(self.times, "a factor on either side")
        self.times = None

    def cases(self, begin: Mark) -> None:
        assert begin.close is not None
        cells = [
            row.split("&")
            for row in Argument(begin.inside, begin.close).split("\\\\")
            if not all(m.is_space for m in row.marks)
        ]
        if len(cells) < 2 or any(len(row) != 2 for row in cells):
            fix = "`a & c \\\\ b & \\text{otherwise}`"
            message = "cases are two rows or more, each a value and its condition"
            raise fail("E101", message, self.place(begin), fix=fix)
        self.put(BRANCHES, begin)
        for value, condition in cells:
            self.items(value, "&", "&")
            self.items(condition, "}" if condition is cells[-1][1] else BRANCH, "\\\\")

    # ------------------------------------------------------------------------------------------------------ remarks

    # remark: ["@" words] [words], parted by \quad or \qquad
    def remark(self) -> tuple[str, str]:
        rest = tuple(itertools.dropwhile(lambda mark: mark.is_space or mark.text == "&&", self.marks[self.at :]))
        if not rest or rest[0].text != "@":
            return "", self.words(rest)
        stop = next((k for k, mark in enumerate(rest) if mark.text in ("\\quad", "\\qquad")), len(rest))
        return self.words(rest[1:stop]), self.words(rest[stop:])

    def words(self, marks: tuple[Mark, ...]) -> str:
        text, end = "", marks[-1].end if marks else 0
        self.marks, self.at = marks, 0
        while self.at < len(self.marks):
            mark = self.marks[self.at]
            self.at += 1
            if mark.command in TEXTS:
                inside = self.argument(mark).marks
                text += self.source.text[inside[0].start : inside[-1].end] if inside else ""
            elif mark.command in _SAID:
                text += _SAID[mark.command]
                self.at += mark.command == "hat"  # `\hat{\ }`
            elif mark.kind in ("letter", "digit", "stray"):
                return self.source.text[mark.start : end].strip()
            elif mark.text == "{":
                self.marks, self.at = (*mark.inside, *self.marks[self.at :]), 0
            elif not (mark.is_space or mark.text in ("&", "&&", "$")):
                self.refuse(mark, "`\text{…}` for what is said beside a formula")
        return text.strip()


# ------------------------------------------------------------------------------- brackets and equal signs, once they are tokens


# `=` in brackets compares, and so does a second one; in `weights` each gives a default.
def equalities(found: list[Token]) -> Iterator[Token]:
    keyword = found[0].text if found else ""
    defined = keyword == "return"
    depth = 0
    for token in found:
        depth += (token.kind in BRACKETS) - (token.kind in BRACKETS.values())
        compares = token.kind == "=" and (depth or defined) and not (keyword in ("weights", "buffers") and not depth)
        defined = defined or (not depth and token.kind in ("=", "<-"))
        yield token._replace(kind="==") if compares else token


# ---------------------------------------------------------------------------------------------------------- the rows of a text

_BEGINS = re.compile(r"\s*(?:\\begin|\\\[|\$\$)")


def read_lines(source: Source) -> tuple[list[LogicalLine], list[Finding]]:
    tokens.check_size(source)
    rows = _Rows(source)
    start = 0
    for text in source.text.split("\n"):
        rows.line(start, text)
        start += len(text) + 1
    rows.end_text()
    return [line for line in rows.lines if line.tokens or line.note or line.comment], rows.findings


class _Rows:
    """The rows of a text, line by line. Environments of rows are transparent; those of a formula (cases) stay in their row."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.lines: list[LogicalLine] = []
        self.findings: list[Finding] = []
        self.rows: list[MarkedLine] = []  # of this line, or of an environment that is open
        self.row = MarkedLine(0)
        self.ended: MarkedLine | None = None  # the row that ended on this line of the text
        self.opened: list[tuple[Mark, int]] = []
        self.cases = 0

    @property
    def is_open(self) -> bool:
        return bool(self.opened) or self.cases > 0

    # Outside environments, a line without commands is plain; in one, and where one begins, tabs do not indent.
    def line(self, start: int, text: str) -> None:
        if not self.is_open and not is_latex(text):
            code, sign, rest = text.partition("#")
            plain = code.replace("%", "#", 1) + sign + rest
            self.read(partial(tokens.plain_line, self.source, start, plain))
            return
        try:
            tabs = "\t" if not self.is_open and not _BEGINS.match(text) else " "
            tokens.check_characters(self.source, start, text.replace("\t", tabs))
        except EinformerError as error:
            self.findings += error.findings
            text = " " * len(text)
        for mark in marks(text + "\n", start):
            self.take(mark)
        if not self.is_open:
            self.read_rows()

    def read(self, line: Callable[[], LogicalLine]) -> None:
        try:
            self.lines.append(line())
        except EinformerError as error:
            self.findings += error.findings

    def read_rows(self) -> None:
        for row in self.rows:
            self.read(partial(read_row, self.source, row))
        self.rows = []

    def end_text(self) -> None:
        self.end_row()
        for mark, _ in self.opened:
            self.report(mark, "is never closed", "its `\\end`" if mark.kind == "begin" else "its partner")
        self.read_rows()

    def take(self, mark: Mark) -> None:
        if mark.kind in ("begin", "end") and mark.command in CASES:
            self.cases += 1 if mark.kind == "begin" else -1
            self.row.marks.append(mark)
        elif mark.kind == "comment":
            self.comment(mark.text[1:].strip())
        elif mark.kind == "newline" and not self.opened and self.cases <= 0:
            self.end_row()
            self.ended = None
        elif mark.kind == "row" and self.cases <= 0:
            self.ended = self.row if self.row.marks else self.ended
            self.end_row()
        elif mark.kind == "begin" or mark.text == "\\[" or (mark.text == "$$" and not self.closes(mark)):
            self.begin(mark)
        elif mark.kind == "end" or mark.text in ("\\]", "$$"):
            self.end(mark)
        elif self.row.marks or not self.indents(mark):
            self.row.marks.append(mark)
            self.ended = None

    def end_row(self) -> None:
        if self.row.marks or self.row.comment:
            self.rows.append(self.row)
        self.row, self.cases = MarkedLine(self.opened[-1][1] if self.opened else 0), 0

    def begin(self, mark: Mark) -> None:
        if self.row.marks or (mark.kind == "begin" and mark.command not in ROWS):
            self.report(mark, "cannot stand here", "a row of its own; inside of a row, `cases`")
        self.opened.append((mark, self.row.indent))

    def end(self, mark: Mark) -> None:
        if not self.closes(mark):
            self.report(mark, "closes nothing", "the `\\begin` that it should close")
        del self.opened[-1:]
        self.end_row()

    def closes(self, mark: Mark) -> bool:
        if not self.opened:
            return False
        opening = self.opened[-1][0]
        if mark.kind == "end":
            return opening.kind == "begin" and opening.command == mark.command
        return opening.text == ("\\[" if mark.text == "\\]" else "$$")

    # A comment belongs to the row before it on its line; alone on a line it is a row of its own.
    def comment(self, text: str) -> None:
        if self.opened and not self.row.marks and not self.ended:
            self.rows.append(MarkedLine(self.row.indent, comment=text))
        else:
            row = self.ended or self.row
            row.comment = " ".join(filter(None, (row.comment, text)))

    def indents(self, mark: Mark) -> bool:
        if mark.kind == "space":
            self.row.indent += 0 if self.opened else len(mark.text)
        elif mark.text in ("\\quad", "\\qquad"):
            self.row.indent += 2 * mark.text.count("q")
        return mark.is_space or mark.text in ("&", "&&")

    def report(self, mark: Mark, message: str, fix: str) -> None:
        self.findings.append(Finding("E102", f"`{mark.text}` {message}", Span(self.source, mark.start, mark.end), fix=fix))
