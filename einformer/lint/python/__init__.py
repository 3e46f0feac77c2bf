"""Do the suffixes of Python names say what their tensors have? Found without running the file."""

from __future__ import annotations

import ast

from einformer.errors import Finding, Source
from einformer.lint.python import suffixes
from einformer.lint.python.functions import imported, signatures
from einformer.lint.python.modules import modules
from einformer.lint.python.reading import Reading

__all__ = ["checked", "findings"]


def checked(source: Source) -> Reading:
    """A file of Python, read: its findings, and how many names with a suffix they are about. Raises SyntaxError."""
    tree = ast.parse(source.text, source.name)
    known = suffixes.letters(tree, source.text)
    imports = imported(tree)
    reading = Reading(source, known, signatures(tree, known), imports, modules(tree, imports))
    reading.body(tree.body, {})
    reading.findings.sort(key=lambda finding: finding.span.start)
    return reading


def findings(source: Source) -> tuple[Finding, ...]:
    """Where the suffixes of a file disagree with what is computed."""
    return tuple(checked(source).findings)
