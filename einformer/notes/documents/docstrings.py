"""Finds the formulas in the docstrings of a Python file: roles and directives of reStructuredText, or Markdown.

The reader gets a text of the same length in which everything else is blank, so each formula keeps its place in the file.
"""

from __future__ import annotations

import ast
import itertools
import re
from collections.abc import Iterator
from dataclasses import replace

from einformer.errors import Source
from einformer.notes.documents.latex import MATH, read_document
from einformer.notes.documents.pieces import Document, Formula, Words
from einformer.notes.documents.restructured import LITERAL, ROLES

_PATTERN = re.compile(
    rf"""(?P<skipped> {LITERAL} | ^[ \t]*(?:>>>|\.\.\.[ ])[^\n]* | \\\$ ) | (?P<title> \f ) | {ROLES} | {MATH}""",
    re.VERBOSE | re.DOTALL | re.MULTILINE,
)
_OPENING = re.compile(r"""(?P<prefix>\w*)(?:'''|\"{3}|'|")""")
_DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


# Returns the docstrings of a file, each as a section. Raises SyntaxError.
def read_docstrings(source: Source) -> Document:
    read = read_document(Source(source.name, _blank_code(source.text, ast.parse(source.text, source.name))), _PATTERN)
    spoken = (section for section in read.sections if section.formulas)
    sections = (replace(section, pieces=tuple(_move_piece(source, piece) for piece in section.pieces)) for section in spoken)
    return replace(read, sections=tuple(sections))


def _move_piece(source: Source, piece: Words | Formula) -> Words | Formula:
    if isinstance(piece, Words):
        return Words(replace(piece.text, source=source))
    return replace(piece, latex=replace(piece.latex, source=source))


# Each docstring stands between form feeds, which separate sections.
def _blank_code(text: str, tree: ast.Module) -> str:
    parts, position = list[str](), 0
    for start, end in _find_docstrings(text, tree):
        parts += [_blank(text[position:start]), _read_literal(text[start:end])]
        position = end
    return "".join([*parts, _blank(text[position:])])


def _find_docstrings(text: str, tree: ast.Module) -> Iterator[tuple[int, int]]:
    starts = list(itertools.accumulate((len(line) + 1 for line in text.split("\n")), initial=0))
    heads = [node.body[0] for node in ast.walk(tree) if isinstance(node, _DOCUMENTED) and node.body]
    for head in sorted(heads, key=lambda head: head.lineno):
        if isinstance(head, ast.Expr) and isinstance(node := head.value, ast.Constant) and isinstance(node.value, str):
            last = starts[(node.end_lineno or node.lineno) - 1]
            line = text[last : text.find("\n", last) % (len(text) + 1)]
            yield starts[node.lineno - 1] + node.col_offset, last + len(line.encode()[: node.end_col_offset].decode())


# Without its quotes. A literal that is not raw writes `\\` for each backslash.
def _read_literal(literal: str) -> str:
    opening = _OPENING.match(literal)
    assert opening is not None
    body = literal[opening.end() :]
    if "r" not in opening["prefix"].lower():
        body = re.sub(r"\\+", _halve, body)
    return "\f" + " " * (opening.end() - 1) + body[:-1] + "\f"


def _halve(slashes: re.Match[str]) -> str:
    half = len(slashes[0]) // 2
    return " " * half + "\\" * (len(slashes[0]) - half)


def _blank(text: str) -> str:
    return re.sub(r"[^\n]", " ", text)
