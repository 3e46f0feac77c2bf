r"""Reads the tokens of a row of LaTeX: commands, scripts, roots as `sqrt(a)`, cases as `where(c, a, b)`.

Braces are invisible groups of the parser. A superscript before a subscript belongs to the name, after it is a power.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from einformer.errors import Source, Span, fail
from einformer.language import tokens
from einformer.language.latex_marks import FENCES, FONTS, LENGTHS, LETTERS, NAMED, SIGNS, TEXTS, WORDS, Mark, Marks, Part
from einformer.language.primitives import COMPARISONS, NAMES
from einformer.language.tokens import (
    BRACKETS,
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


def read(source: Source, row: Row) -> Line:
    """The tokens of a row, its note and its comment."""
    start, end = (row.marks[0].start, row.marks[-1].end) if row.marks else (0, 1)
    if end - start > MAXIMUM_ROW:
        raise fail("E001", f"the row has {end - start:,} characters", Span(source, start, start + 1), fix="several rows")
    reader = _Reader(source, row.marks)
    note, comment = (words.replace("\n", " ") for words in reader.row())  # a row may have several lines, plain text one
    found = tuple(equalities(reader.tokens))
    tokens.check_brackets(found)
    span = Span(source, start, found[-1].span.end if found else end)
    return Line(row.indent, found, note, " ".join(filter(None, (comment, row.comment))), span)


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
        self.tokens.append(self.checked(tokens.number_token(text, self.between(mark.start, end), "")))
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
            raise fail("E101", f"`{mark.text}` is no command of the language", self.between(mark.start, mark.end), fix=fix)

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
        self.tokens.append(self.checked(tokens.name_token(name, self.between(start, end))))

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
        spaces = (at for at in range(*part) if mark.command in TEXTS and self.marks[at].kind == "space")
        words = [(first + 1, last) for first, last in itertools.pairwise([part[0] - 1, *spaces, part[1]]) if last > first + 1]
        for word in words:
            label = self.label(word)
            if not label:
                raise self.stray(self.marks[word[0]])
            if label[0] in DIGITS:
                self.tokens.append(self.checked(tokens.number_token(label, self.between(mark.start, end), "")))
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
        if self.times and following not in ("name", "number", "(", "{", FRACTION):
            self.unexpected(self.times, "a factor on either side")
        self.times = None

    # ------------------------------------------------------------------------------------------------------ cases

    def cases(self, begin: Mark) -> None:
        r"""`\begin{cases} a & c \\ b & \text{otherwise} \end{cases}` is `where(c, a, b)`; more rows nest."""
        start, stop = self.at + 1, self.partners[self.at]
        self.at = stop + 1
        rows = [self.split(row, "&") for row in self.split((start, stop), "\\\\") if self.holds(row)]
        if len(rows) < 2 or any(len(row) != 2 for row in rows):
            fix = "`a & c \\\\ b & \\text{otherwise}`"
            raise fail("E101", "cases are two rows or more, each a value and its condition", self.span(start - 1), fix=fix)
        self.check_otherwise(rows)
        for value, condition in rows[:-1]:
            self.call("where", begin)
            self.tokens += self.condition(condition)
            self.close(",", "&", value)
            self.value(value)
            self.close(",", "\\\\", condition)
        self.value(rows[-1][0])
        for _ in rows[1:]:
            self.close(")", self.marks[stop].text, (start, stop))

    def value(self, part: Part) -> None:
        """A value; a comma at its end is punctuation."""
        first = len(self.tokens)
        self.items(part)
        if len(self.tokens) > first and self.tokens[-1].kind == ",":
            self.tokens.pop()

    def condition(self, part: Part) -> list[Token]:
        r"""The tokens of a condition, after an optional \text{if}."""
        first = len(self.tokens)
        self.items(part)
        found = self.tokens[first:]
        del self.tokens[first:]
        return found[1:] if found and found[0].text == "if" else found

    def check_otherwise(self, rows: list[list[Part]]) -> None:
        """Is the last condition `otherwise`, or of two rows the opposite of the first?"""
        last = self.condition(rows[-1][1])
        if [token.text for token in last] in (["otherwise"], ["else"]):
            return
        if len(rows) > 2 or not are_opposite(last, self.condition(rows[0][1])):
            where = last[0].span if last else self.span(rows[-1][1][0])
            raise fail("E101", "the last row of cases holds where no other does", where, fix="`\\text{otherwise}`")

    # ----------------------------------------------------------------------------------------------------- cursor

    def emit(self, kind: str, text: str, start: int, end: int) -> None:
        self.tokens.append(self.checked(Token(kind, text, self.between(start, end))))

    def checked(self, token: Token) -> Token:
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


def are_opposite(left: list[Token], right: list[Token]) -> bool:
    """`s' <= s` and `s' > s`, or `s < s'`: two comparisons of the same."""
    opposite = {"<": ">=", ">=": "<", ">": "<=", "<=": ">", "=": "!=", "!=": "="}
    mirrored = {"<": ">", ">": "<", "<=": ">=", ">=": "<="}
    one, other = _sides(left), _sides(right)
    if not (one and other):
        return False
    (a, sign, b), (c, against, d) = one, (other[0], opposite[other[1]], other[2])
    return (a, sign, b) == (c, against, d) or (a, sign, b) == (d, mirrored.get(against, against), c)


def _sides(found: list[Token]) -> tuple[list[str], str, list[str]] | None:
    """Of a single comparison: what is compared, and how."""
    signs = [at for at, token in enumerate(found) if token.kind in (*COMPARISONS, "=")]
    if len(signs) != 1 or any(token.text in ("and", "or", "not") for token in found):
        return None
    texts = [token.text for token in found]
    return texts[: signs[0]], found[signs[0]].kind.replace("==", "="), texts[signs[0] + 1 :]
