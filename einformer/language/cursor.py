"""Which token comes next, and is it the one that must?"""

from __future__ import annotations

from typing import NoReturn

from einformer.errors import Source, Span, fail
from einformer.language.tokens import CLOSE, MAXIMUM_DEPTH, MAXIMUM_HEIGHT, Line, Token
from einformer.language.tree import Expression
from einformer.language.walk import height

WORDS = ("mod", "and", "or", "not")  # they stand between or before formulas, and are never called


class Cursor:
    """The tokens of one line at a time."""

    def __init__(self, source: Source, line: Line) -> None:
        self.source, self.loops = source, 0
        self.take(line)

    def take(self, line: Line) -> None:
        """Start at the first token of a line."""
        self.line, self.at, self.depth = line, 0, 0
        end = line.tokens[-1].span.end if line.tokens else line.span.start
        self.tokens = (*line.tokens, Token("end", "the end of the line", Span(self.source, end, end + 1)))

    def peek(self) -> Token:
        """The token that comes next; behind the last one, the end of the line."""
        return self.tokens[self.at]

    def next(self) -> Token:
        """The next token, which is taken."""
        token = self.peek()
        self.at += token.kind != "end"
        return token

    def accept(self, kind: str) -> bool:
        """Take the next token if it is of this kind."""
        accepted = self.peek().kind == kind
        self.at += accepted
        return accepted

    def word(self, word: str) -> bool:
        """Is the next token this word?"""
        token = self.peek()
        return token.text == word and token.kind == "name"

    def accept_word(self, word: str) -> bool:
        """Take the next token if it is this word."""
        accepted = self.word(word)
        self.at += accepted
        return accepted

    def expect(self, kind: str, what: str = "") -> Token:
        """The next token, which must be of this kind; `what` says so in other words."""
        if self.peek().kind != kind:
            self.expected(what or f"`{kind}`")
        return self.next()

    def expect_word(self, word: str) -> Token:
        """The next token, which must be this word."""
        if not self.word(word):
            self.expected(f"`{word}`")
        return self.next()

    def expected(self, what: str) -> NoReturn:
        """Refuse the next token, by what the text has at its place: tokens of LaTeX and of a subscript may look otherwise."""
        token, there = self.peek(), self.peek().span.text
        if token.kind == CLOSE and there != "}":
            found = "the end of the subscript"
        else:
            found = token.text if token.kind == "end" else f"`{token.text if token.text in there else there}`"
        raise fail("E101", f"{found} where {what} is expected", token.span, fix=what)

    def end(self) -> None:
        """Nothing may follow."""
        if self.peek().kind != "end":
            self.expected("the end of the line")

    def starts_factor(self) -> bool:
        """Can a factor begin here?"""
        token = self.peek()
        if token.kind == "name":
            return token.text not in WORDS
        return token.kind in ("number", "(", "{")

    def deepen(self) -> None:
        """One level down; R13 bounds the levels, those of loops too, so that no text exhausts the stack."""
        self.depth += 1
        if self.depth - 1 > min(MAXIMUM_DEPTH, MAXIMUM_HEIGHT - self.loops):
            raise fail("E002", f"the formula nests more than {MAXIMUM_DEPTH} deep", self.peek().span, fix="names for its parts")

    def measured(self, e: Expression) -> Expression:
        """R13 bounds the height of a whole formula too: `a or b or …` nests without a bracket."""
        if not self.depth and len(self.tokens) > MAXIMUM_DEPTH and height(e) > MAXIMUM_DEPTH:  # a level costs a token
            raise fail("E002", f"the formula nests more than {MAXIMUM_DEPTH} deep", e.span, fix="names for its parts")
        return e

    def before(self) -> Span:
        """Where the token stands that was taken last."""
        return self.line.tokens[self.at - 1].span

    def since(self, start: Token) -> Span:
        """From a token to the one that was taken last."""
        return joined(start.span, self.before())


def joined(first: Span, last: Span) -> Span:
    """From the start of one place to the end of another."""
    return Span(first.source, first.start, last.end)
