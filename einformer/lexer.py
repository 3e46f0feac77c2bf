"""Colours the language: a lexer for Pygments, and the same rules as a grammar of TextMate for editors."""

from __future__ import annotations

from typing import Any

from pygments.lexer import RegexLexer, bygroups, words
from pygments.token import Comment, Keyword, Name, Number, Operator, Punctuation, Text

from einformer.language.primitives import NAMES

_FUNCTIONS = words(sorted(name for name in NAMES if name.isalnum()), prefix=r"\b", suffix=r"(?=\b|_)").get()
_RULES: list[tuple[str, Any, str]] = [  # a pattern, its token, and its scope in TextMate
    (r"# E\d{3}$", Name.Variable, "comment.line.number-sign"),
    (r"[#@].*$", Comment, "comment.line"),
    (r"^(?:axes|scalars|layer|model)\b", Keyword, "keyword.control"),
    (r"\b(?:weights|buffers|return|for|causal|in)\b", Keyword, "keyword.control"),
    (r"\b(?:and|or|not|mod)\b", Operator.Word, "keyword.operator.word"),
    (_FUNCTIONS, Name.Builtin, "support.function"),
    (r"\d+(?:\.\d+)?(?:e[+-]?\d+)?", Number, "constant.numeric"),
    (r"[^\W\d_][^\W_]*['′]*", Name, "variable.other"),
    (r"<-|->|[<>=!]=|[-+/^=<>?:]", Operator, "keyword.operator"),
    (r"[][(){},]", Punctuation, "punctuation"),
]
_SUBSCRIPT = r"(_)((?:[^\W\d_]['′]*|\d)+)"
_INDEX = "entity.name.tag"


class EinformerLexer(RegexLexer):
    """The language as it is read: names large, their subscripts apart."""

    name = "einformer"
    aliases = ("einformer", "ein")
    filenames = ("*.ein",)
    url = "https://pypi.org/project/einformer"
    tokens = {  # noqa: RUF012
        "root": [
            *((pattern, token) for pattern, token, _ in _RULES[:6]),
            (r"(_)(\{)", bygroups(Punctuation, Punctuation), "subscript"),
            (_SUBSCRIPT, bygroups(Punctuation, Name.Tag)),
            *((pattern, token) for pattern, token, _ in _RULES[6:]),
            (r"\s+|.", Text),
        ],
        "subscript": [(r"\{", Punctuation, "#push"), (r"\}", Punctuation, "#pop"), (r"[^{}]", Name.Tag)],
    }


def write_textmate() -> dict[str, Any]:
    """Returns the grammar of TextMate, which VS Code and GitHub read; `editors/einformer.tmLanguage.json` holds it."""
    plain = [{"match": pattern, "name": f"{scope}.einformer"} for pattern, _, scope in _RULES]
    index = {"2": {"name": f"{_INDEX}.einformer"}}
    braces = {"name": f"{_INDEX}.einformer", "end": r"\}", "patterns": [{"include": "#braces"}]}
    return {
        "name": "einformer",
        "scopeName": "source.einformer",
        "fileTypes": ["ein"],
        "patterns": [*plain[:6], {"begin": r"_\{", **braces}, {"match": _SUBSCRIPT, "captures": index}, *plain[6:]],
        "repository": {"braces": {"begin": r"\{", **braces}},
    }
