"""Checks a formula that is a whole text of the language, as `einformer latex` prints it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from einformer.errors import Finding, Source
from einformer.notes.documents.pieces import Formula

_LEGEND = re.compile(r"\\textbf\s*\{\s*axes\s*\}")
_ARROW = re.compile(r"\\textbf\s*\{\s*(?:layer|model)\s*\}[^\n]*?(?:\\rightarrow|\\to\b|->)")  # a page in matrices has none


# A specification has a legend of its own, and says of a layer which axes its result has.
def is_specification(formula: Formula) -> bool:
    text = formula.latex.text
    return formula.display and _LEGEND.search(text) is not None and _ARROW.search(text) is not None


def check_specification(formula: Formula) -> Iterator[Finding]:
    from einformer.architectures.texts import elaborate  # the whole checker, for the few notes that hold such a text

    latex = formula.latex
    above = latex.span().line - 1  # empty lines, so that numbers of lines are those of the file
    source = Source(latex.source.name, "\n" * above + latex.text)
    _, _, findings = elaborate(source)
    for finding in findings:
        span = finding.span
        yield replace(finding, span=latex.span(span.start - above, span.end - above) if span.source == source else span)
