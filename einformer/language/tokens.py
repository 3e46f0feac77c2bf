"""Splits lines of plain text into tokens. A subscript comes out in braces, one token for each of its letters.

`q_bsea` and `E_{x_bs d}` give the same kinds of token, and so does the reader of LaTeX: one parser serves both.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Generator, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from einformer.errors import EinformerError, Finding, Source, Span, fail

MAXIMUM_TEXT = 100_000  # characters: a specification is a page or two, and what is read is read within a second
MAXIMUM_LINE = 4_000
MAXIMUM_DEPTH = 100  # of brackets, of loops, of a formula: Python's stack holds 1,000 calls, a level costs no pass more than 6
MAXIMUM_HEIGHT = 150  # of formulas in loops, and with the layers that they call
OPEN, CLOSE = "_{", "_}"  # of a subscript; `{` and `}` group in LaTeX
FRACTION, OVER = "{/", "/{"  # where a fraction of LaTeX begins, and its denominator; it ends with `}`
BRANCHES, BRANCH = "{&", "\\\\"  # where cases of LaTeX begin, and the next row of them; they end with `}`
BRACKETS = {"(": ")", "[": "]", "{": "}", FRACTION: "}", BRANCHES: "}", OPEN: CLOSE}
DIGITS = "0123456789"
WORDS = ("mod", "and", "or", "not")  # they stand between or before formulas, and are never called
PRIME = "ʹ"  # a letter to Unicode, and a prime to the eye
SYNONYMS = str.maketrans(
    {"′": "'", "’": "'", "−": "-", "≤": "<=", "≥": ">=", "≠": "!=", "←": "<-", "→": "->", "·": " ", "∞": "inf"}
)
_TOKEN = re.compile(
    r"""(?P<number> [0-9]+ (?:\.[0-9]+)? (?:[eE][+-]?[0-9]+)?)
      | (?P<name> [^\W\d_] [^\W_]* ['′’]*)
      | (?P<symbol> <- | -> | <= | >= | == | != | \.\.\. | [-+/^=<>(){}\[\],:?_−≤≥≠←→])
      | (?P<space> [ \t·]+ | ∞)""",
    re.VERBOSE,
)
_LATEX = re.compile(r"^[^%#@\\\n]*?(?:\\|\}_|\$\$)", re.MULTILINE)  # a command or `W^{0}_{d}`, not beside the code
_LETTER = re.compile(r"[^\W\d_]['′’]*|[0-9]+|\.\.\.")
REST = "..."  # any axes: of contracts, and nowhere else


# Plain text has neither a backslash nor a subscript after a brace.
def is_latex(text: str) -> bool:
    return _LATEX.search(text) is not None


class Token(NamedTuple):
    """`kind` is `name`, `number`, or the symbol itself."""

    kind: str
    text: str
    span: Span


@dataclass(frozen=True, slots=True)
class LogicalLine:
    """A statement: its depth of indentation, its tokens, its note (`@ …`), its comment (`# …`) and those above it."""

    indent: int
    tokens: tuple[Token, ...]
    note: str
    comment: str
    span: Span
    above: tuple[str, ...] = ()


def read_lines(source: Source) -> tuple[list[LogicalLine], list[Finding]]:
    check_size(source)
    lines: list[LogicalLine] = []
    findings: list[Finding] = []
    start = 0
    for text in source.text.split("\n"):
        try:
            if text.strip():
                lines.append(plain_line(source, start, text))
        except EinformerError as error:
            findings += error.findings
        start += len(text) + 1
    return [line for line in lines if line.tokens or line.note or line.comment], findings


# R13 bounds the size of a text before anything is read.
def check_size(source: Source) -> None:
    if len(source.text) > MAXIMUM_TEXT:
        raise fail("E001", f"the text has {len(source.text):,} characters", Span(source, 0, 1), fix="a shorter text")


def plain_line(source: Source, start: int, text: str) -> LogicalLine:
    if len(text) > MAXIMUM_LINE:
        raise fail("E001", f"the line has {len(text):,} characters", Span(source, start, start + 1), fix="several lines")
    check_characters(source, start, text)
    code, _, comment = text.partition("#")
    code, _, note = code.partition("@")
    stripped = code.strip()
    tokens = tuple(_tokens(source, start, code)) if stripped else ()
    check_brackets(tokens)
    begin = start + len(code) - len(code.lstrip())
    return LogicalLine(begin - start, tokens, note.strip(), comment.strip(), Span(source, begin, begin + max(1, len(stripped))))


# Refuses characters that steer a terminal or hide, also in comments; a tab is a space, but not indentation.
def check_characters(source: Source, start: int, text: str) -> None:
    if text.isprintable():
        return
    for column, letter in enumerate(text):
        if not (letter.isprintable() or letter == "\t" or unicodedata.category(letter) == "Zs"):
            raise stray(source, start + column, letter)
    if "\t" in text[: len(text) - len(text.lstrip())]:
        raise fail("E105", "the line is indented with a tab", Span(source, start, start + 1), fix="spaces")


# Inside a subscript each letter is a token, and letters after a bare `_` are a subscript.
def _tokens(source: Source, start: int, code: str) -> Iterator[Token]:
    position, closing = 0, list[str]()  # what closes each brace that is open in a subscript
    while position < len(code):
        match = (_LETTER.match(code, position) if closing else None) or _TOKEN.match(code, position)
        if match is None:
            raise stray(source, start + position, code[position])
        kind, text = match.lastgroup or "letter", match.group()
        span, position = Span(source, start + position, start + match.end()), match.end()
        if kind == "symbol" and text == "_":
            closing += [CLOSE] * (code[position : position + 1] == "{")
            position = yield from _subscript(source, start, code, position)
        elif kind == "symbol" and closing and text == "}":
            yield Token(closing.pop(), text, span)
        elif kind == "number" or text[0] in DIGITS:
            yield number_token(text, span, code[position : position + 1])
        elif kind == "symbol":
            closing += ["}"] * (text == "{" and bool(closing))
            symbol = text.translate(SYNONYMS)
            yield Token(symbol, symbol, span)
        elif kind != "space":
            yield name_token(text, span)
        elif text == "∞":
            if closing:
                raise stray(source, span.start, text)
            yield Token("name", "inf", span)


# An opening brace alone, or a run of letters with both braces. Returns the end.
def _subscript(source: Source, start: int, code: str, position: int) -> Generator[Token, None, int]:
    yield Token(OPEN, "{", Span(source, start + position - 1, start + position + 1))
    if code[position : position + 1] == "{":
        return position + 1
    first = position
    while match := _LETTER.match(code, position):
        position, span = match.end(), Span(source, start + match.start(), start + match.end())
        text = match.group()
        yield Token("number", text, span) if text[0] in DIGITS else name_token(text, span)
    if position == first:
        place = Span(source, start + position - 1, start + position)
        raise fail("E101", "a subscript must follow `_`", place, fix="letters of axes, as in `q_bsea`")
    yield Token(CLOSE, "}", Span(source, start + position - 1, start + position))
    return position


# A letter must not follow at once.
def number_token(text: str, span: Span, following: str) -> Token:
    if following.isalpha():
        raise fail("E103", f"the digits `{text}` touch the letter `{following}`", span, fix=f"`{text} {following}`")
    if len(text) > 30:
        raise fail("E101", f"a number of {len(text)} characters", span, fix="at most 30 characters")
    return Token("number", text, span)


# Names are in NFKC (R11), and hold only letters before that too: `x²` is not the name `x2`.
def name_token(text: str, span: Span) -> Token:
    if text.isascii():
        return Token(REST if text == REST else "name", text, span)
    name = unicodedata.normalize("NFKC", text.translate(SYNONYMS))
    for letter in text.rstrip("'′’") + name.rstrip("'"):
        if not (letter.isalpha() or letter in DIGITS) or letter == PRIME:
            raise stray(span.source, span.start + max(0, text.find(letter)), letter)
    return Token("name", name, span)


# A raised digit has a likely meaning.
def stray(source: Source, position: int, letter: str) -> EinformerError:
    plain = unicodedata.normalize("NFKC", letter)
    fix = f"`^{plain}` for a power" if plain.isdigit() else "letters, digits, + - / ^ ( ) { } _ ' , : = < >"
    name = unicodedata.name(letter, f"U+{ord(letter):04X}")
    return fail("E003", f"the character {name} has no meaning here", Span(source, position, position + 1), fix=fix)


# R13 bounds the depth of brackets.
def check_brackets(tokens: tuple[Token, ...]) -> None:
    opened: list[Token] = []
    for token in tokens:
        if token.kind in BRACKETS:
            opened.append(token)
            if len(opened) > MAXIMUM_DEPTH + (token.kind == OPEN):  # the letters of the innermost name are no level
                raise fail("E002", f"brackets nest {len(opened)} deep", token.span, fix="names for the parts")
        elif token.kind in BRACKETS.values() and (not opened or BRACKETS[opened.pop().kind] != token.kind):
            raise fail("E102", f"`{token.text}` closes nothing", token.span, fix="the bracket that it should close")
    if opened:
        fix = f"the closing `{BRACKETS[opened[-1].kind][-1]}`"
        raise fail("E102", f"`{opened[-1].text}` is never closed", opened[-1].span, fix=fix)
