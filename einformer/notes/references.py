"""Which line says what an equation of a document says, or which test shows it? Equations as data; formulas are claims."""

from __future__ import annotations

import functools
import itertools
import pathlib
import re
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

from einformer.architectures import texts
from einformer.notation.printer import alone, show
from einformer.notation.tree import Axis, Equation, Spec
from einformer.notation.walk import equations
from einformer.notes import claims, quantities

Status = Literal["a line", "in other words", "a test", "nothing"]


@dataclass(frozen=True, slots=True)
class Reference:
    """An equation of a document: its place, what it `says` in our notation, and what says or shows it here.

    `layer` is one of a text, `minimal.Attention`, and `line` its line that says it; a `test` is told by its file and name.
    Where there is neither, `why`. `errata` are the numbers of what is wrong with the print.
    """

    document: str
    place: str
    says: str
    layer: str = ""
    line: str = ""
    test: str = ""
    why: str = ""
    errata: str = ""

    @property
    def status(self) -> Status:
        """What there is of it: a line with this right side, one that says it in other words, only a test, or nothing."""
        if self.layer:
            return "a line" if _right(self.says) == _right(self.line) else "in other words"
        return "a test" if self.test else "nothing"

    @property
    def where(self) -> str:
        """Where that is, or why nothing is.

        >>> references("S001")[11].where
        'minimal.ein:19'
        """
        return " ".join(filter(None, (self.layer and _place(self), self.test and _path(self.test)))) or self.why


@functools.cache
def references(document: str) -> tuple[Reference, ...]:
    """The equations of one of `documents`, in its order."""
    return tuple(Reference(document, **{"line": row["says"]} | row) for row in _data()[document]["equations"])


def documents() -> tuple[str, ...]:
    """The source documents, S000 to S004."""
    return tuple(name for name in _data() if name != "tests")


@functools.cache
def _data() -> dict[str, dict[str, Any]]:
    return tomllib.loads((pathlib.Path(__file__).parent / "references.toml").read_text(encoding="utf-8"))


def lines(reference: Reference) -> Iterator[Axis | Equation]:
    """The lines of its layer; of a text as a whole, the legend."""
    name, _, layer = reference.layer.partition(".")
    spec = _text(name)
    yield from (line for each in spec.layers if each.name == layer for line in equations(each.body)) if layer else spec.axes


@functools.cache
def _text(name: str) -> Spec:
    return texts.prelude() if name == "prelude" else texts.understood(quantities.source(name))[0]


def _place(reference: Reference) -> str:
    """`minimal.ein:19`."""
    span = next(line.span for line in lines(reference) if said(line) == reference.line)
    return f"{span.source.name}:{span.line}"


def said(line: Axis | Equation) -> str:
    """A line as its text says it, without what is remarked beside it."""
    return alone(line) if isinstance(line, Equation) else show(line)


def _right(text: str) -> str:
    return re.split(r" = | <- |return |: ", text, maxsplit=1)[-1]


def rows(document: str) -> Iterator[dict[str, str]]:
    """What there is of each equation of a document, then of each of its formulas, which are claims, with their verdicts."""
    for each in references(document):
        yield _row(document, each.place, each.says, each.status, each.where, each.errata)
    for claim in claims.claims():
        if claim.id.startswith(document):
            verdict = claims.judge(claim)
            yield _row(document, claim.place, f"{claim.says}: {claim.printed}", *_shown(verdict))


def _shown(verdict: claims.Verdict) -> tuple[str, str]:
    """The verdict on a claim; of one that no count decides the test that shows it, or why there is none."""
    if verdict.outcome != "not derived":
        return verdict.outcome, f"claim {verdict.claim.id}"
    test = _data()["tests"].get(verdict.claim.id, "")
    return ("a test", _path(test)) if test else ("nothing", verdict.derived)


def _path(test: str) -> str:
    file, _, name = test.partition("::")
    return f"tests/test_{file}.py::test_{name}"


def _row(*cells: str) -> dict[str, str]:
    return dict(itertools.zip_longest(("document", "place", "says", "status", "where", "errata"), cells, fillvalue=""))


def summary(rows: Iterable[dict[str, str]]) -> str:
    """`43 equations and formulas: 14 a line, 7 in other words`."""
    counts = Counter(row["status"] for row in rows)
    return f"{counts.total()} equations and formulas: {', '.join(f'{count} {status}' for status, count in counts.items())}"
