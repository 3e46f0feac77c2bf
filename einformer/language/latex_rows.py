r"""Reads LaTeX as rows of the same tokens as plain text, so that one parser serves both.

A text with a backslash is LaTeX. A row ends at `\\`, and outside environments where its line ends; there a line without
commands is plain, so that equations can be pasted from notes under a plain legend. Braces are invisible groups of the parser,
`\sqrt{a}` is `sqrt(a)`, a superscript before a subscript belongs to the name, after it is a power.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial

from einformer.errors import EinformerError, Finding, Source, Span, fail
from einformer.language import tokens
from einformer.language.latex_marks import (
    CASES,
    FENCES,
    FONTS,
    LENGTHS,
    LETTERS,
    NAMED,
    ROWS,
    SIGNS,
    TEXTS,
    WORDS,
    Mark,
    Marks,
    Part,
    marks,
)
from einformer.language.primitives import NAMES
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
    Line,
    Token,
    is_latex,
)

MAXIMUM_ROW = 4 * MAXIMUM_LINE  # the same formula is longer in LaTeX
_KEYWORD = re.compile(r"(axes|scalars|layer|model|weights|buffers|for|return)(?![^\W_])")
_HEADS = frozenset(("layer", "model", "weights", "buffers"))
_RUN = re.compile(r"[^\W\d_][^\W_]*")
_NUMBER = re.compile(r"[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_DIGITS = re.compile(r"[0-9]+")
_POWER_OF_TEN = re.compile(r"\s*\\times\s*10\s*\^\s*(?:\{\s*(-?)\s*([0-9]+)\s*\}|([0-9]))")


@dataclass(slots=True)
class Row:
    r"""The marks of a statement, and how deep it is indented: two for each `\quad`, one for each space of a line."""

    indent: int
    marks: list[Mark] = field(default_factory=list)
    comment: str = ""


def read_row(source: Source, row: Row) -> Line:
    """Returns the tokens of a row, its note and its comment."""
    start, end = (row.marks[0].start, row.marks[-1].end) if row.marks else (0, 1)
    if end - start > MAXIMUM_ROW:
        raise fail("E001", f"the row has {end - start:,} characters", Span(source, start, start + 1), fix="several rows")
    reader = _Reader(source, row.marks)
    note, comment = (words.replace("\n", " ") for words in reader.row())  # a row may have several lines, plain text one
    signs = tuple(equalities(reader.tokens))
    tokens.check_brackets(signs)
    span = Span(source, start, signs[-1].span.end if signs else end)
    return Line(row.indent, signs, note, " ".join(filter(None, (comment, row.comment))), span)


class _Reader(Marks):
    """A cursor over the marks of a row, which writes tokens."""

    def __init__(self, source: Source, marks: list[Mark]) -> None:
        super().__init__(source, marks)
        self.tokens: list[Token] = []
        self.depth = 0  # of all that nests
        self.slots = 0  # of subscripts, where names have one letter
        self.heads = False  # in a head nothing multiplies, and a run of letters is a name
        self.times: Mark | None = None  # the `\cdot` that still lacks its right factor

    def row(self) -> tuple[str, str]:
        """row: [keyword] item* [remark]. Returns the note and the comment."""
        self.keyword()
        while self.at < len(self.marks) and not self.is_remark():
            self.item()
        self.check_product("end")
        return self.remark()

    def keyword(self) -> None:
        r"""`return`, `weights`, `layer` … need no \textbf at the start of a row."""
        match = _KEYWORD.match(self.source.text, self.marks[0].start) if self.marks else None
        if match:
            self.emit("name", match.group(), match.start(), match.end())
            self.skip_to(match.end())
            self.heads = match.group() in _HEADS

    # ------------------------------------------------------------------------------------------------------ items

    def items(self, part: Part) -> None:
        """item*, one level down; R13 bounds the levels."""
        after, end = self.at, self.end
        self.at, self.end = part[0], self.marks[part[1] - 1].end
        self.depth += 1
        if self.depth > MAXIMUM_DEPTH + bool(self.slots):  # the letters of the innermost name are no level
            fix = "names for its parts"
            raise fail("E002", f"the formula nests more than {MAXIMUM_DEPTH} deep", self.span(part[0]), fix=fix)
        while self.at < part[1]:
            self.item()
        self.at, self.end = after, end
        self.depth -= 1

    def item(self) -> None:
        """item: number | letter | command | cases | sign"""
        mark = self.marks[self.at]
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
                self.at += 1
            case _:
                raise self.stray(mark)

    def number(self, mark: Mark) -> None:
        r"""`12`, `0.1`, `1e-5`, and `2 \times 10^{-5}` is one number too; in a subscript, digits only."""
        match = (_DIGITS if self.slots else _NUMBER).match(self.source.text, mark.start, self.end)
        text, end = (match.group(), match.end()) if match else (mark.text, mark.end)
        power = _POWER_OF_TEN.match(self.source.text, end, self.end)
        if power and not self.slots and "e" not in text.lower():
            text, end = f"{text}e{power[1] or ''}{power[2] or power[3]}", power.end()
        self.tokens.append(self.check_token(tokens.number_token(text, self.between(mark.start, end), "")))
        self.skip_to(end)

    def letter(self, mark: Mark) -> None:
        r"""A letter is a name of its own: `ED` is E D. Longer names stand in \mathrm."""
        match = _RUN.match(self.source.text, mark.start)
        run = match.group() if match and not self.slots else mark.text
        whole = self.between(mark.start, mark.start + len(run))
        first = not self.at or self.marks[self.at - 1].kind != "letter"
        if run in NAMES and first and not self.heads:
            raise fail("E101", f"`{run}` is a product of letters", whole, fix=f"`\\mathrm{{{run}}}`")
        name = run if self.heads else mark.text
        self.skip_to(mark.start + len(name))
        self.name(name, mark.start, mark.start + len(name))

    def command(self, mark: Mark) -> None:
        """A letter, a function, a word, a sign, a font, a fraction, a root, a fence, a space."""
        name = mark.command
        self.at += 1
        if name in LETTERS or name in NAMED:
            self.name(LETTERS.get(name) or NAMED[name], mark.start, mark.end)
        elif name in WORDS:
            self.word(WORDS[name], mark.start, mark.end)
        elif name in SIGNS:
            self.emit(SIGNS[name], mark.text, mark.start, mark.end)
        elif name in FONTS:
            self.font(mark)
        elif name in ("frac", "dfrac", "tfrac"):
            self.fraction(mark)
        elif name == "sqrt":
            self.root(mark)
        elif name in ("left", "right"):
            self.stretched(mark)
        elif name in FENCES:
            self.fence(FENCES[name], mark, opens=name.startswith("l"))
        elif name in ("cdot", "times"):
            self.product(mark)
        elif name in LENGTHS:
            self.argument(mark)
        elif not mark.is_space:
            fix = "`\\mathrm{name}` for a name of several letters"
            raise fail("E101", f"`{mark.text}` is not a command of the language", self.between(mark.start, mark.end), fix=fix)

    def sign(self, mark: Mark) -> None:
        """A sign of the grammar. `&` aligns and `$` sets off, and neither means anything."""
        self.at += 1
        match mark.text:
            case "{":
                self.group(mark)
            case "^":
                self.power(self.argument(mark))
            case "_" | "'" | "′" | "’":
                self.unexpected(mark, "a name before it")
            case "|":
                self.unexpected(mark, "`\\left|` and `\\right|`")
            case "@":
                self.unexpected(mark, "a note after the formula")
            case "&" | "&&" | "$":
                pass
            case "·":
                self.product(mark)
            case "∞":
                self.name("inf", mark.start, mark.end)
            case _:
                self.emit(mark.text.translate(SYNONYMS), mark.text, mark.start, mark.end)

    def group(self, mark: Mark) -> None:
        """`{…}` is invisible; `{x}_d` is `x_d`."""
        part = (self.at, self.partners[self.at - 1])
        self.at = part[1] + 1
        label = self.label(part) if self.script() == "_" else ""
        if len(label.rstrip("'")) == 1:
            self.name(label, mark.start, self.marks[part[1]].end)
        else:
            self.braces(part, mark)

    def braces(self, part: Part, mark: Mark) -> None:
        self.emit("{", "{", mark.start, mark.end)
        self.items(part)
        self.close("}", "}", part)

    # ------------------------------------------------------------------------------------------------------ names

    def name(self, name: str, start: int, end: int) -> None:
        """name: letters script*. A superscript before the subscript belongs to the name, after it is a power (R11)."""
        primes, before, subscript, after = self.scripts()
        above = after or (None if subscript else before)
        if before and subscript:
            label = self.label(before)
            if not label:
                fix = "letters and digits before the subscript, for a name; a power after it"
                raise fail("E101", "this superscript is neither part of a name nor a power", self.span(before[0]), fix=fix)
            name += label
        if name == "log" and subscript and self.label(subscript) == "2":
            name, subscript = "log2", None
        self.word(name.replace("'", "") + "'" * (primes + name.count("'")), start, end)
        if subscript:
            self.subscript(subscript)
        if above:
            self.power(above)

    def word(self, name: str, start: int, end: int) -> None:
        if self.slots and len(name.rstrip("'")) > 1:
            fix = "one letter for each axis; anything else gets a name in an equation of its own"
            raise fail("E101", f"`{name}` in a subscript is not one letter", self.between(start, end), fix=fix)
        self.tokens.append(self.check_token(tokens.name_token(name, self.between(start, end))))

    def scripts(self) -> tuple[int, Part | None, Part | None, Part | None]:
        """Primes, the superscript before the subscript, the subscript, the superscript after it."""
        primes = 0
        before = subscript = after = None
        while sign := self.script():
            mark = self.marks[self.at]
            self.at += 1
            part = (0, 0) if sign == "'" else self.letters() if sign == "_" and self.heads else self.argument(mark)
            more = 1 if sign == "'" else self.primes(part)
            primes += more
            if sign == "_":
                subscript = self.once(subscript, part, mark)
            elif not more and subscript:
                after = self.once(after, part, mark)
            elif not more:
                before = self.once(before, part, mark)
        return primes, before, subscript, after

    def subscript(self, part: Part) -> None:
        first = self.marks[part[0] - 1]
        self.emit(OPEN, "{", first.start, first.end)
        self.slots += 1
        self.items(part)
        self.slots -= 1
        self.close(CLOSE, "}", part)

    def power(self, part: Part) -> None:
        first = self.marks[part[0] - 1]
        self.emit("^", "^", first.start, first.end)
        self.braces(part, first)

    def font(self, mark: Mark) -> None:
        r"""`\mathrm{Sm}` is a name of several letters; `\textbf{causal in}` is two."""
        part = self.argument(mark)
        end = self.marks[self.at - 1].end
        spaces = (position for position in range(*part) if mark.command in TEXTS and self.marks[position].kind == "space")
        words = [(first + 1, last) for first, last in itertools.pairwise([part[0] - 1, *spaces, part[1]]) if last > first + 1]
        for word in words:
            label = self.label(word)
            if not label:
                raise self.stray(self.marks[word[0]])
            if label[0] in DIGITS:
                self.tokens.append(self.check_token(tokens.number_token(label, self.between(mark.start, end), "")))
            elif word is words[-1]:
                self.name(label, mark.start, end)
            else:
                self.word(label, self.marks[word[0]].start, self.marks[word[1]].start)

    # --------------------------------------------------------------------------------------------------- formulas

    def fraction(self, mark: Mark) -> None:
        r"""`\frac{a}{b}`."""
        over, under = self.argument(mark), self.argument(mark)
        self.emit(FRACTION, mark.text, mark.start, mark.end)
        self.items(over)
        self.close(OVER, "}", over)
        self.items(under)
        self.close("}", "}", under)

    def root(self, mark: Mark) -> None:
        r"""`\sqrt{a}` is `sqrt(a)`."""
        part = self.argument(mark)
        self.call("sqrt", mark)
        self.items(part)
        self.close(")", "}", part)

    def stretched(self, mark: Mark) -> None:
        r"""`\left` and `\right` stretch the bracket that follows; between `\left|` and `\right|` is `abs(…)`."""
        following = self.marks[self.at] if self.at < len(self.marks) else mark
        if following.text == "|":
            self.at += 1
            self.fence("abs", following, opens=mark.command == "left")
        elif following.text not in ("(", ")", "[", "]") and following.command not in FENCES:
            self.unexpected(following, "`\\left(` and `\\right)`")

    def fence(self, name: str, mark: Mark, opens: bool) -> None:
        r"""`\lfloor a \rfloor` is `floor(a)`."""
        if opens:
            self.call(name, mark)
        else:
            self.emit(")", mark.text, mark.start, mark.end)

    def call(self, name: str, mark: Mark) -> None:
        self.word(name, mark.start, mark.end)
        self.emit("(", mark.text, mark.start, mark.end)

    def product(self, mark: Mark) -> None:
        r"""`\cdot` stands between two factors, which multiply without it too."""
        if not self.tokens or self.tokens[-1].kind not in ("name", "number", ")", "}", CLOSE):
            self.unexpected(mark, "a factor on either side")
        self.times = mark

    def check_product(self, following: str) -> None:
        if self.times and following not in ("name", "number", "(", "{", FRACTION, BRANCHES):
            self.unexpected(self.times, "a factor on either side")
        self.times = None

    # ------------------------------------------------------------------------------------------------------ cases

    def cases(self, begin: Mark) -> None:
        r"""`\begin{cases} a & c \\ b & \text{otherwise} \end{cases}`."""
        start, stop = self.at + 1, self.partners[self.at]
        self.at = stop + 1
        rows = [self.split(row, "&") for row in self.split((start, stop), "\\\\") if self.holds(row)]
        if len(rows) < 2 or any(len(row) != 2 for row in rows):
            fix = "`a & c \\\\ b & \\text{otherwise}`"
            raise fail("E101", "cases are two rows or more, each a value and its condition", self.span(start - 1), fix=fix)
        self.emit(BRANCHES, begin.text, begin.start, begin.end)
        for value, condition in rows:
            self.items(value)
            self.close("&", "&", value)
            self.items(condition)
            self.close("}" if condition is rows[-1][1] else BRANCH, "\\\\", condition)

    # ----------------------------------------------------------------------------------------------------- cursor

    def emit(self, kind: str, text: str, start: int, end: int) -> None:
        self.tokens.append(self.check_token(Token(kind, text, self.between(start, end))))

    def check_token(self, token: Token) -> Token:
        if self.times:
            self.check_product(token.kind)
        return token

    def close(self, kind: str, text: str, part: Part) -> None:
        """A token that stands for what ends a part: its brace, `&`, `\\\\`; for a part without braces its last mark."""
        mark = self.marks[min(part[1], len(self.marks) - 1)]
        mark = mark if mark.kind in ("sign", "row", "end") else self.marks[part[1] - 1]
        self.emit(kind, text, mark.start, mark.end)


# ------------------------------------------------------------------------------- brackets and equal signs, once they are tokens


def equalities(found: list[Token]) -> Iterator[Token]:
    """`=` in brackets compares, and so does a second one; in `weights` each gives a default."""
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


def read_lines(source: Source) -> tuple[list[Line], list[Finding]]:
    """Returns the lines of a LaTeX text that are not empty, and the errors of the others."""
    tokens.check_size(source)
    rows = _Rows(source)
    start = 0
    for text in source.text.split("\n"):
        rows.line(start, text)
        start += len(text) + 1
    rows.end_text()
    return [_regroup(line) for line in rows.lines if line.tokens or line.note or line.comment], rows.findings


class _Rows:
    """The rows of a text, line by line. Environments of rows are transparent; those of a formula (cases) stay in their row."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.lines: list[Line] = []
        self.findings: list[Finding] = []
        self.rows: list[Row] = []  # of this line, or of an environment that is open
        self.row = Row(0)
        self.ended: Row | None = None  # the row that ended on this line of the text
        self.opened: list[tuple[Mark, int]] = []
        self.cases = 0

    @property
    def is_open(self) -> bool:
        """Returns whether an environment continues at the end of the line."""
        return bool(self.opened) or self.cases > 0

    def line(self, start: int, text: str) -> None:
        """Outside environments, a line without commands is plain; in one, and where one begins, tabs do not indent."""
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

    def read(self, line: Callable[[], Line]) -> None:
        """Another line; one that is wrong becomes a finding."""
        try:
            self.lines.append(line())
        except EinformerError as error:
            self.findings += error.findings

    def read_rows(self) -> None:
        for row in self.rows:
            self.read(partial(read_row, self.source, row))
        self.rows = []

    def end_text(self) -> None:
        """An environment that is still open is a finding."""
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
        self.row, self.cases = Row(self.opened[-1][1] if self.opened else 0), 0

    def begin(self, mark: Mark) -> None:
        """What an indented environment holds is indented too."""
        if self.row.marks or (mark.kind == "begin" and mark.command not in ROWS):
            self.report(mark, "cannot stand here", "a row of its own; inside of a row, `cases`")
        self.opened.append((mark, self.row.indent))

    def end(self, mark: Mark) -> None:
        if not self.closes(mark):
            self.report(mark, "closes nothing", "the `\\begin` that it should close")
        del self.opened[-1:]
        self.end_row()

    def closes(self, mark: Mark) -> bool:
        """Returns whether the mark ends the innermost environment."""
        if not self.opened:
            return False
        opening = self.opened[-1][0]
        if mark.kind == "end":
            return opening.kind == "begin" and opening.command == mark.command
        return opening.text == ("\\[" if mark.text == "\\]" else "$$")

    def comment(self, text: str) -> None:
        """A comment belongs to the row before it on its line; alone on a line it is a row of its own."""
        if self.opened and not self.row.marks and not self.ended:
            self.rows.append(Row(self.row.indent, comment=text))
        else:
            row = self.ended or self.row
            row.comment = " ".join(filter(None, (row.comment, text)))

    def indents(self, mark: Mark) -> bool:
        """Returns whether the mark is indentation: a space outside environments."""
        if mark.kind == "space":
            self.row.indent += 0 if self.opened else len(mark.text)
        elif mark.text in ("\\quad", "\\qquad"):
            self.row.indent += 2 * mark.text.count("q")
        return mark.is_space or mark.text in ("&", "&&")

    def report(self, mark: Mark, message: str, fix: str) -> None:
        self.findings.append(Finding("E102", f"`{mark.text}` {message}", Span(self.source, mark.start, mark.end), fix=fix))


def _regroup(line: Line) -> Line:
    kinds = [token.kind for token in line.tokens]
    if kinds.count(OPEN) != 2 or kinds.count("(") != 1 or kinds[:2] != ["name", OPEN] or kinds[-1] != CLOSE:
        return line
    end = kinds.index(CLOSE)  # of the left subscript; then a sign, a name and the opening of the right one
    left, right = line.tokens[2:end], line.tokens[end + 4 : -1]
    first, last = (kinds.index(bracket) - end - 4 for bracket in "()")
    group, others = right[first + 1 : last], (*right[:first], *right[last + 1 :])
    merged = [token for token in left if token.text not in {other.text for other in others}]
    apart = len(merged) == 1 and len(left) == len(others) + 1 and merged[0].text not in {token.text for token in group}
    letters = all(token.kind == "name" for token in (*left, *group, *others))
    if not (apart and letters and kinds[end + 1] in ("=", "<-") and kinds[end + 2 : end + 4] == ["name", OPEN]):
        return line
    place = left.index(merged[0])
    grouped = (token._replace(span=merged[0].span) for token in right[first : last + 1])
    left = (*left[:place], *grouped, *left[place + 1 :])
    right = (*right[:first], *group, *right[last + 1 :])
    return replace(line, tokens=(*line.tokens[:2], *left, *line.tokens[end : end + 4], *right, line.tokens[-1]))
