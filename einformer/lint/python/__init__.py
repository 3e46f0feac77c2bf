"""Checks that the suffixes of Python names agree with the tensors that they name, without running the file."""

from __future__ import annotations

import ast

from einformer.errors import Finding, Source
from einformer.lint.python import suffixes
from einformer.lint.python.functions import read_imports, read_signatures
from einformer.lint.python.modules import find_modules
from einformer.lint.python.reading import Reading

__all__ = ["check_names", "find_errors"]


def check_names(source: Source) -> Reading:
    """Reads a file of Python. Returns its findings and the number of names with a suffix. Raises SyntaxError."""
    tree = ast.parse(source.text, source.name)
    axis_letters = suffixes.find_axis_letters(tree, source.text)
    imports = read_imports(tree)
    reading = Reading(source, axis_letters, read_signatures(tree, axis_letters), imports, find_modules(tree, imports))
    reading.body(tree.body, {})
    reading.findings.sort(key=lambda finding: finding.span.start)
    return reading


def find_errors(source: Source) -> tuple[Finding, ...]:
    """Returns the places where the suffixes of a file disagree with its computations."""
    return tuple(check_names(source).findings)
