r"""Which formulas do the docstrings of a Python file hold? Roles and directives as in reStructuredText, or as in Markdown.

They are read from a text of the same length in which all else is blank, so that each formula knows its place in the file.
"""

from __future__ import annotations

import ast
import itertools
import re
from collections.abc import Iterator
from dataclasses import replace

from einformer.errors import Source
from einformer.lint.notes.latex import MATH, document
from einformer.lint.notes.pieces import Document, Formula, Words
from einformer.lint.notes.restructured import LITERAL, ROLES

_PATTERN = re.compile(
    rf"""(?P<skipped> {LITERAL} | ^[ \t]*(?:>>>|\.\.\.[ ])[^\n]* | \\\$ ) | (?P<title> \f ) | {ROLES} | {MATH}""",
    re.VERBOSE | re.DOTALL | re.MULTILINE,
)
_OPENING = re.compile(r"""(?P<prefix>\w*)(?:'''|\"{3}|'|")""")
_DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def docstrings(source: Source) -> Document:
    """The docstrings of a file, each a section. Raises SyntaxError."""
    found = document(Source(source.name, _alone(source.text, ast.parse(source.text, source.name))), _PATTERN)
    spoken = (section for section in found.sections if section.formulas)
    sections = (replace(section, pieces=tuple(_in(source, piece) for piece in section.pieces)) for section in spoken)
    return replace(found, sections=tuple(sections))


def _in(source: Source, piece: Words | Formula) -> Words | Formula:
    """A piece at its place in the file itself."""
    if isinstance(piece, Words):
        return Words(replace(piece.text, source=source))
    return replace(piece, latex=replace(piece.latex, source=source))


def _alone(text: str, tree: ast.Module) -> str:
    """The docstrings, each between form feeds, which part sections; all else is blank."""
    made, at = list[str](), 0
    for start, end in _places(text, tree):
        made += [_blank(text[at:start]), _spoken(text[start:end])]
        at = end
    return "".join([*made, _blank(text[at:])])


def _places(text: str, tree: ast.Module) -> Iterator[tuple[int, int]]:
    """Where each docstring begins and ends, in the order of the file."""
    starts = list(itertools.accumulate((len(line) + 1 for line in text.split("\n")), initial=0))
    heads = [node.body[0] for node in ast.walk(tree) if isinstance(node, _DOCUMENTED) and node.body]
    for head in sorted(heads, key=lambda head: head.lineno):
        if isinstance(head, ast.Expr) and isinstance(node := head.value, ast.Constant) and isinstance(node.value, str):
            last = starts[(node.end_lineno or node.lineno) - 1]
            line = text[last : text.find("\n", last) % (len(text) + 1)]
            yield starts[node.lineno - 1] + node.col_offset, last + len(line.encode()[: node.end_col_offset].decode())


def _spoken(literal: str) -> str:
    r"""A literal without its quotes; what is not raw writes `\\` for each backslash."""
    opening = _OPENING.match(literal)
    assert opening is not None
    body = literal[opening.end() :]
    if "r" not in opening["prefix"].lower():
        body = re.sub(r"\\+", _halved, body)
    return "\f" + " " * (opening.end() - 1) + body[:-1] + "\f"


def _halved(slashes: re.Match[str]) -> str:
    half = len(slashes[0]) // 2
    return " " * half + "\\" * (len(slashes[0]) - half)


def _blank(text: str) -> str:
    return re.sub(r"[^\n]", " ", text)
