"""Which line says what an equation of a document says, or which test shows it? Equations as data; formulas are claims.

A file of `references/` for each document. `says` is an equation in our notation and letters, as it is meant; `line` is that
line of the `layer` of a text which says it there, where it looks different. What no line says is `computed`, or shown by a
`test`, or there is a reason `why` not. `errata` are the numbers of what is wrong with the print. Formulas of shapes, sizes
and costs are claims, and stand in `claims/`.
"""

from __future__ import annotations

import functools
import pathlib
import re
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Literal, get_args

from einformer.language.printer import alone, show
from einformer.language.tree import Axis, Equation, Scalar
from einformer.language.walk import equations
from einformer.notes.emitted import Emitted, emitted, tested
from einformer.notes.shelf import understood

if TYPE_CHECKING:
    from einformer.notes import claims  # which needs sympy: a source that names its documents does not

_REFERENCES = pathlib.Path(__file__).parent / "references"
Status = Literal["a line", "in other words", "computed", "not equal", "a test", "nothing"]


@dataclass(frozen=True, slots=True)
class Reference:
    """An equation of a document: its place, what it `says` in our notation, and what says or shows it here.

    `layer` is one of a text, `minimal.Attention`, and `line` its line that says it; a `test` is told by its file and name.
    `computed` are a setting and lines under which both sides are computed. Where there is none of these, `why`. `errata`
    are the numbers of what is wrong with the print.
    """

    document: str
    place: str
    says: str
    layer: str = ""
    line: str = ""
    test: str = ""
    why: str = ""
    errata: str = ""
    computed: Mapping[str, Any] = field(default_factory=dict)

    @property
    def status(self) -> Status:
        """What there is of it: a line with this right side, one that says it in other words, numbers, a test, or nothing."""
        if self.layer:
            return "a line" if _right(self.says) == _right(self.line) else "in other words"
        if self.computed:
            return "computed" if self.found[0] else "not equal"
        return "a test" if self.test else "nothing"

    @property
    def found(self) -> tuple[bool, str]:
        """Do both sides have the same numbers, and what else?"""
        from einformer.notes import equality

        about = dict(self.computed)
        lines, claim = about.pop("lines"), about.pop("claim", self.says)
        return equality.holds(equality.Setting(**about), lines, claim)

    @property
    def where(self) -> str:
        """The place of its line.

        >>> references("S001")[11].where
        'minimal.ein:19'
        """
        return f"{self.written.span.source.name}:{self.written.span.line}" if self.layer else ""

    @property
    def written(self) -> Line:
        """Its line."""
        return next(line for line in lines(self) if said(line) == self.line)

    @property
    def emitted(self) -> Emitted | None:
        """Where the PyTorch of its line stands; nowhere if that is no equation.

        >>> references("S001")[11].emitted
        Emitted(file='minimal.py', line=79, name='Attention')
        """
        return emitted(self.layer, self.written.span) if self.layer and isinstance(self.written, Equation) else None


Line = Axis | Scalar | Equation


@functools.cache
def references(document: str) -> tuple[Reference, ...]:
    """The equations of one of `documents`, in its order."""
    return tuple(Reference(document, **{"line": row["says"]} | row) for row in _data(document)["equations"])


@functools.cache
def documents() -> tuple[str, ...]:
    """The source documents S000 to S004, and the full notes of which S001 is an excerpt, S005."""
    return tuple(sorted(path.name[:-5].upper() for path in _REFERENCES.iterdir() if path.name.endswith(".toml")))


@functools.cache
def _data(document: str) -> dict[str, Any]:
    return tomllib.loads((_REFERENCES / f"{document.lower()}.toml").read_text(encoding="utf-8"))


def lines(reference: Reference) -> Iterator[Line]:
    """The lines of its layer; of a text as a whole, the legend."""
    name, _, layer = reference.layer.partition(".")
    spec, _, _ = understood(name)
    if layer:
        yield from (line for each in spec.layers if each.name == layer for line in equations(each.body))
    else:
        yield from spec.axes
        yield from spec.scalars


def said(line: Line) -> str:
    """A line as its text says it, without what is remarked beside it."""
    return alone(line) if isinstance(line, Equation) else show(line)


def _right(text: str) -> str:
    return re.sub(r"^(\w: )?\S+ (=|<-) |^return ", "", text)


@dataclass(frozen=True, slots=True)
class Row:
    """What there is of an equation or a formula of a document: its line, the line of the PyTorch, its test, what was found."""

    document: str
    place: str
    says: str
    status: str
    errata: str = ""
    line: str = ""
    source: str = ""
    test: str = ""
    claim: str = ""
    found: str = ""

    def data(self) -> dict[str, str]:
        """For `--json`."""
        return asdict(self)

    def shown(self) -> str:
        """What there is of it in a line: `a line: minimal.ein:19 → minimal.py:79 Attention; cache::what_is_kept_suffices`."""
        places = " → ".join(filter(None, (self.line, self.source)))
        test = self.test.replace("tests/test_", "").replace(".py::test_", "::")
        return f"{self.status}: {'; '.join(filter(None, (places, test, self.claim, self.found)))}"


@functools.cache
def rows(document: str) -> tuple[Row, ...]:
    """Each equation of a document and each of its formulas, which are claims, with their verdicts; by numbered sections."""
    return tuple(sorted((*_equations(document), *_formulas(document)), key=lambda row: _numbers(row.place)))


def _numbers(place: str) -> tuple[list[int], list[int]]:
    """`([1, 1, 3], [4])`, of `1.1.3, eq 4`; appendices have letters, and sections without a number are last."""
    section, _, rest = place.partition(",")
    numbered = re.fullmatch(r"([A-Z]|\d+)(\.\d+)*", section)
    numbers = [int(n) if n.isdecimal() else ord(n) for n in section.split(".")] if numbered else [1000]
    return numbers, [int(n) for n in re.findall(r"\d+", rest)] if numbered else []


def _equations(document: str) -> Iterator[Row]:
    for each in references(document):
        test = _path(each.test) or (tested(each.layer) if each.layer else "")
        found = each.why or (each.found[1] if each.computed else "")
        at = str(each.emitted or "")
        yield Row(document, each.place, each.says, each.status, each.errata, each.where, at, test, found=found)


def _formulas(document: str) -> Iterator[Row]:
    from einformer.notes import claims

    for claim in claims.claims():
        if claim.id.startswith(_data(document).get("claims", f"{document}-")):
            yield _formula(document, claims.judge(claim))


def _formula(document: str, verdict: claims.Verdict) -> Row:
    """The verdict on a claim; of one that no count decides the test that shows it, or why there is none."""
    claim, test = verdict.claim, _path(_data(document).get("tests", {}).get(verdict.claim.id, ""))
    status = verdict.outcome if verdict.outcome != "not derived" else "a test" if test else "nothing"
    found = verdict.derived if status in ("nothing", "does not hold", "contradicts itself") else ""
    return Row(document, claim.place, f"{claim.says}: {claim.printed}", status, test=test, claim=claim.id, found=found)


def _path(test: str) -> str:
    """`tests/test_cache.py::test_what_is_kept_suffices`, of `cache::what_is_kept_suffices`."""
    file, _, name = test.partition("::")
    return test and f"tests/test_{file}.py::test_{name}"


def summary(rows: Iterable[Row]) -> str:
    """`43 equations and formulas: 14 a line, 7 in other words`."""
    from einformer.notes import claims

    counts = Counter(row.status for row in rows)
    statuses = (*get_args(Status), *get_args(claims.Outcome))
    return f"{counts.total()} equations and formulas: {', '.join(f'{counts[s]} {s}' for s in statuses if counts[s])}"
