r"""Rewrites a formula of Typst in LaTeX: `a_(i j) / D` is `\frac{a_{i j}}{D}`. Each character keeps its place."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

from einformer.language.latex_reader import LETTERS
from einformer.language.tokens import MAXIMUM_DEPTH
from einformer.notes.documents.pieces import Passage, join

_TOKEN = re.compile(
    r"""(?P<string> "[^"]*" ) | (?P<escaped> \\[^\s] ) | (?P<row> \\(?=\s|$) ) | (?P<code> \#[A-Za-z.]+(?:\([^()]*\))? )
      | (?P<name> [A-Za-z][A-Za-z0-9]+ (?:\.[A-Za-z]+)* | [A-Za-z] ) | (?P<number> [0-9]+(?:\.[0-9]+)? )
      | (?P<sign> <= | >= | != | -> | <- | := | \.\.\. | => | . | \n )""",
    re.VERBOSE,
)
_SYMBOLS = {
    "dot": "\\cdot", "dot.op": "\\cdot", "dot.c": "\\cdot", "times": "\\times", "arrow": "\\to", "arrow.r": "\\to",
    "arrow.l": "\\leftarrow", "arrow.r.long": "\\to", "arrow.r.double": "\\Rightarrow", "lt.eq": "\\leq", "gt.eq": "\\geq",
    "lt": "<", "gt": ">", "equiv": "\\equiv", "eq.triple": "\\equiv", "eq.not": "\\neq", "eq": "=", "eq.def": "=",
    "approx": "\\approx", "prop": "\\propto", "infinity": "\\infty", "oo": "\\infty", "dots": "\\dots", "dots.h": "\\dots",
    "dots.c": "\\dots", "sum": "\\sum", "product": "\\prod", "integral": "\\int", "in": "\\in", "times.o": "\\otimes",
    "times.circle": "\\otimes", "dot.o": "\\odot", "dot.circle": "\\odot", "star": "\\star", "quad": "\\quad", "wide": "\\quad",
    "med": "\\,",
    "thin": "\\,", "thick": "\\,", "space": "\\,", "diff": "\\partial", "partial": "\\partial", "nabla": "\\nabla",
    "ell": "\\ell", "log": "\\log", "exp": "\\exp", "ln": "\\ln", "sin": "\\sin", "cos": "\\cos", "tanh": "\\tanh",
    "max": "\\max", "min": "\\min", "prime": "'", "tilde.op": "\\sim", "tilde": "\\sim", "lim": "\\lim", "dagger": "\\dagger",
    "top": "\\top", "plus.minus": "\\pm", "plus": "+", "minus": "-", "approx.eq": "\\approx", "lt.tilde": "\\lesssim",
    "comma": ",", "colon": ":", "bar.v": "|", "bar.v.double": "\\Vert", "divides": "|", "forall": "\\forall",
    "chevron.l": "\\langle", "chevron.r": "\\rangle", "angle.l": "\\langle", "angle.r": "\\rangle", "succ": "\\succ",
    "arrow.r.double.long": "\\Longrightarrow", "arrow.l.r.double": "\\Leftrightarrow",
    "plus.o": "\\oplus", "plus.circle": "\\oplus",
}  # fmt: skip
_CALLED = {
    "bold": "\\mathbf", "cal": "\\mathcal", "hat": "\\hat", "tilde": "\\tilde", "overline": "\\overline", "macron": "\\bar",
    "dot": "\\dot", "sqrt": "\\sqrt", "upright": "\\mathrm", "mono": "\\texttt", "text": "\\text", "op": "\\operatorname",
    "sans": "\\mathsf", "vec": "\\vec", "underbrace": "\\underbrace", "bb": "\\mathbb", "arrow": "\\vec",
    "frak": "\\mathfrak", "bar": "\\bar", "floor": "\\operatorname{floor}", "ceil": "\\operatorname{ceil}",
    "abs": "\\operatorname{abs}",
}  # fmt: skip
_SIGNS = {
    "<=": "\\leq ", ">=": "\\geq ", "!=": "\\neq ", "->": "\\to ", "<-": "\\leftarrow ", ":=": "=", "...": "\\dots ",
    "=>": "\\Rightarrow ", "⟨": "\\langle ", "⟩": "\\rangle ", "%": "\\%",
}  # fmt: skip
_CLOSING = {"(": ")", "[": "]", "{": "}"}


class _Token(NamedTuple):
    kind: str
    text: str
    start: int


# `operators` holds words that the file names.
def rewrite_typst(formula: Passage, operators: Mapping[str, str]) -> Passage:
    return _Writer(formula, operators).sequence(frozenset())


class _Writer:
    """A cursor over the tokens of a formula, which writes LaTeX."""

    def __init__(self, text: Passage, operators: Mapping[str, str]) -> None:
        self.text, self.operators = text, operators
        self.tokens = [_Token(m.lastgroup or "", m.group(), m.start()) for m in _TOKEN.finditer(text.text)]
        self.at = 0

    # item*, up to a token of `stop`, which stays
    def sequence(self, stop: frozenset[str]) -> Passage:
        parts, divided = list[Passage](), 0
        while self.at < len(self.tokens) and self.tokens[self.at].text not in stop:
            token = self.tokens[self.at]
            if token.text == "/" and divided < MAXIMUM_DEPTH and any(part.text.strip() for part in parts):
                self.at += 1
                divided += 1
                while not parts[-1].text.strip():
                    parts.pop()
                self.skip_spaces()
                parts.append(self.fraction(parts.pop(), self.item(), token))
            elif token.text.isspace():
                parts.append(self.put(" ", token))
                self.at += 1
            else:
                parts.append(self.item())
        return join(self.text.source, parts)

    def skip_spaces(self) -> None:
        while self.at < len(self.tokens) and self.tokens[self.at].text.isspace():
            self.at += 1

    def item(self) -> Passage:
        parts = [self.atom()]
        while token := self.script():
            parts.append(self.put(token.text, token) if token.text == "'" else self.brace(token.text, self.plain(), token))
        return join(self.text.source, parts)

    # The sign may stand after spaces.
    def script(self) -> _Token | None:
        start = self.at
        while start < len(self.tokens) and self.tokens[start].text.isspace():
            start += 1
        signs = ("_", "^", "'") if start == self.at else ("_", "^")
        if start < len(self.tokens) and self.tokens[start].text in signs:
            self.at = start + 1
            return self.tokens[start]
        return None

    def plain(self) -> Passage:
        self.skip_spaces()
        return _unwrap(self.atom())

    # string | symbol | call | letter | number | group | sign
    def atom(self) -> Passage:
        if self.at >= len(self.tokens):
            return Passage(self.text.source, "", ())
        token = self.tokens[self.at]
        self.at += 1
        match token.kind:
            case "string":
                return self.put(f"\\text{{{token.text[1:-1]}}}", token)
            case "escaped":
                return self.put(
                    {"'": "'", "/": "/", ",": ",", "|": "|", ">": ">", "<": "<"}.get(token.text[1], token.text), token
                )
            case "row":
                return self.put("\\\\", token)
            case "code":
                return self.put(" " if token.text.startswith("#h(") else "\\text{code}", token)
            case "name" if len(token.text) > 1:
                return self.write_name(token)
            case "sign" if token.text in _CLOSING:
                return self.group(token)
            case _:
                return self.put(_SIGNS.get(token.text, token.text), token)

    def group(self, token: _Token) -> Passage:
        inside = self.sequence(frozenset(_CLOSING[token.text]))
        parts = [self.put(token.text, token), inside]
        if self.at < len(self.tokens):
            parts.append(self.put(_CLOSING[token.text], self.tokens[self.at]))
            self.at += 1
        return join(self.text.source, parts)

    def write_name(self, token: _Token) -> Passage:
        name, calls = token.text, self.at < len(self.tokens) and self.tokens[self.at].text == "("
        if calls and (name in _CALLED or name in ("frac", "cases", "mat", "norm", "binom", "attach")):
            return self.call(token)
        if name in self.operators:
            word = self.operators[name].removeprefix("math.")
            return self.put(_SYMBOLS[word] + " " if word in _SYMBOLS else f"\\operatorname{{{word}}}", token)
        if name in _SYMBOLS:
            return self.put(_SYMBOLS[name] + " ", token)
        greek = name.partition(".")[0]
        if greek in LETTERS or greek.lower() in LETTERS:
            return self.put(f"\\{greek} ", token)
        if len(name) == 2 and name[0] == name[1] and name.isupper():
            return self.put(f"\\mathbb{{{name[0]}}}", token)
        return self.put(f"\\operatorname{{{name}}}", token)

    def call(self, token: _Token) -> Passage:
        self.at += 1
        arguments = [self.sequence(frozenset(",;)"))]
        while self.at < len(self.tokens) and self.tokens[self.at].text != ")":
            self.at += 1
            arguments.append(self.sequence(frozenset(",;)")))
        self.at += 1
        match token.text:
            case "frac" if len(arguments) == 2:
                return self.fraction(arguments[0], arguments[1], token)
            case "cases":
                return self.cases(arguments, token)
            case name if name in _CALLED:
                plain = join(self.text.source, arguments)
                if plain.text.strip().startswith("\\text{"):
                    return self.put(_CALLED[name] + plain.text.strip().removeprefix("\\text"), token)
                opening, closing = ("(", ")") if _CALLED[name].endswith("}") else ("{", "}")
                return join(self.text.source, [self.put(_CALLED[name] + opening, token), plain, self.put(closing, token)])
            case name:
                return self.put(f"\\operatorname{{{name}}}", token)

    # `cases(0 & s <= s', …)`: a comma at the end of a row is punctuation.
    def cases(self, rows: list[Passage], token: _Token) -> Passage:
        parts = [self.put("\\begin{cases}", token)]
        for number, row in enumerate(row for row in rows if row.text.strip()):
            parts += [self.put("\\\\", token)] * bool(number) + [row]
        return join(self.text.source, [*parts, self.put("\\end{cases}", token)])

    def fraction(self, over: Passage, under: Passage, token: _Token) -> Passage:
        parts = [self.put("\\frac{", token), _unwrap(over), self.put("}{", token), _unwrap(under), self.put("}", token)]
        return join(self.text.source, parts)

    def brace(self, sign: str, inside: Passage, token: _Token) -> Passage:
        return join(self.text.source, [self.put(sign + "{", token), inside, self.put("}", token)])

    def put(self, text: str, token: _Token) -> Passage:
        return self.text.put(text, token.start)


# One pair of brackets around all of it only groups.
def _unwrap(text: Passage) -> Passage:
    first, last = len(text.text) - len(text.text.lstrip()), len(text.text.rstrip())
    inside = text.text[first:last]
    if not inside or inside[0] not in "({" or inside[-1] != _CLOSING[inside[0]]:
        return text
    depth = 0
    for position, character in enumerate(inside):
        depth += (character in "({") - (character in ")}")
        if not depth and position < len(inside) - 1:
            return text
    return text.cut(first + 1, last - 1)
