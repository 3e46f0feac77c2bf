"""Reads the formulas of reStructuredText: in roles, and in directives, where each paragraph is one."""

from __future__ import annotations

import re

from einformer.errors import Source
from einformer.notes.documents.latex import read_document
from einformer.notes.documents.pieces import Document

_BODY = r"(?: [ \t]*\n | (?P={0})[ \t]+[^\n]*(?:\n|\Z) )*"
ROLES = rf"""
    ^(?P<indent>[ \t]*) \.\.[ ]math::[ \t]* (?: \n (?: [ \t]+:\w[^\n]*\n )* )?
      (?P<directive> (?:[^\n]+\n)? {_BODY.format("indent")} )
  | :math:` (?P<role> [^`]+ ) `
"""
LITERAL = r"``(?:(?!``|\n\s*\n).)+``"
_FILE = re.compile(
    rf"""(?P<skipped> {LITERAL} | ^(?P<outdent>[ \t]*)\.\.[ ](?:code|code-block|sourcecode|parsed-literal)::[^\n]*\n
                      {_BODY.format("outdent")} )
      | ^ (?P<title> \S[^\n]* ) (?= \n (?: =+ | -+ | ~+ | \^+ | "+ | \*+ | \++ | \#+ ) [ ]*$ )
      | {ROLES}""",
    re.VERBOSE | re.DOTALL | re.MULTILINE,
)


# Returns the sections of a file of reStructuredText.
def read_restructured(source: Source) -> Document:
    return read_document(source, _FILE)
