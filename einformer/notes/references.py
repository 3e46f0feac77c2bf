"""Links the equations of documents with the lines that say them, or with the tests that show them. Formulas are claims.

Each document has a file in `references/`. `says` is an equation in our notation and letters, as it is meant. `line` is the
line of the `layer` of a text that says it, if it looks different. An equation without a line is `computed`, or shown by a
test, or has a reason `why` not. `errata` holds the numbers of errors in the print. Formulas of shapes, sizes and costs
are claims in `claims/`.
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

from einformer.errors import Span
from einformer.interpreters.torch import source
from einformer.interpreters.torch.plan import FAST, Style
from einformer.language import binding
from einformer.language.printer import alone, show
from einformer.language.tree import Axis, Equation, Scalar
from einformer.language.walk import equations
from einformer.notes import sources
from einformer.notes.shelf import elaborate
from einformer.program.causality import check_spec

if TYPE_CHECKING:
    from einformer.notes import claims  # which needs sympy: a source that names its documents does not

_FOLDER = pathlib.Path(__file__).parent
Status = Literal["a line", "in other words", "computed", "not equal", "a test", "nothing"]


@dataclass(frozen=True, slots=True)
class Emitted:
    """A line of an emitted file, and its class."""

    file: str
    line: int
    name: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line} {self.name}"


@dataclass(frozen=True, slots=True)
class Reference:
    """An equation of a document: its place, its meaning in our notation, and the line or test that says or shows it.

    `layer` is a layer of a text, `minimal.Attention`, and `line` its line; of `tested` ones a test shows it. `computed` holds
    a setting and lines under which both sides are computed. If none of these exists, `why` gives the reason. `errata` holds
    the numbers of errors in the print.
    """

    document: str
    place: str
    says: str
    layer: str = ""
    line: str = ""
    tested: bool = False
    why: str = ""
    errata: str = ""
    computed: Mapping[str, Any] = field(default_factory=dict)

    # A line with this right side, a line in other words, numbers, a test, or nothing.
    @property
    def status(self) -> Status:
        if self.layer:
            return "a line" if _right_side(self.says) == _right_side(self.line) else "in other words"
        if self.computed:
            return "computed" if self.found[0] else "not equal"
        return "a test" if self.tested else "nothing"

    @property
    def found(self) -> tuple[bool, str]:
        from einformer.notes import equality

        about = dict(self.computed)
        lines, claim = about.pop("lines"), about.pop("claim", self.says)
        return equality.holds(equality.Setting(**about), lines, claim)

    @property
    def where(self) -> str:
        """Returns the place of its line.

        >>> references("S001")[11].where
        'minimal.ein:19'
        """
        return f"{self.written.span.source.name}:{self.written.span.line}" if self.layer else ""

    @property
    def written(self) -> Line:
        return next(line for line in lines(self) if strip_remark(line) == self.line)

    @property
    def emitted(self) -> Emitted | None:
        """Returns the place of its line in the emitted PyTorch, or None if the line is not an equation.

        >>> references("S001")[11].emitted
        Emitted(file='minimal.py', line=101, name='Attention')
        """
        return find_emitted(self.layer, self.written.span) if self.layer and isinstance(self.written, Equation) else None


Line = Axis | Scalar | Equation


@functools.cache
def references(document: str) -> tuple[Reference, ...]:
    return tuple(Reference(document, **{"line": row["says"]} | row) for row in _read_data(document)["equations"])


# Returns the source documents S000 to S004, and S005, the full notes of which S001 is an excerpt.
@functools.cache
def documents() -> tuple[str, ...]:
    return tuple(sorted(path.name[:-5].upper() for path in (_FOLDER / "references").iterdir() if path.name.endswith(".toml")))


@functools.cache
def _read_data(document: str) -> dict[str, Any]:
    return tomllib.loads(((_FOLDER / "references") / f"{document.lower()}.toml").read_text(encoding="utf-8"))


# The legend of a text is its lines where it has no layer.
def lines(reference: Reference) -> Iterator[Line]:
    name, _, layer = reference.layer.partition(".")
    spec, _, _ = elaborate(name)
    if layer:
        yield from (line for candidate in spec.layers if candidate.name == layer for line in equations(candidate.body))
    else:
        yield from spec.axes
        yield from spec.scalars


def strip_remark(line: Line) -> str:
    return alone(line) if isinstance(line, Equation) else show(line)


def _right_side(text: str) -> str:
    return re.sub(r"^(\w: )?\S+ (=|<-) |^return ", "", text)


@dataclass(frozen=True, slots=True)
class ReferenceRow:
    """An equation or a formula of a document, with its line, its line of PyTorch and its result."""

    document: str
    place: str
    says: str
    status: str
    errata: str = ""
    line: str = ""
    source: str = ""
    claim: str = ""
    found: str = ""

    def data(self) -> dict[str, str]:
        return asdict(self)

    # `a line: minimal.ein:19 → minimal.py:79 Attention`; a `test` follows the places.
    def shown(self, test: str = "") -> str:
        places = " → ".join(filter(None, (self.line, self.source)))
        details = "; ".join(filter(None, (places, test, self.claim, self.found)))
        return f"{self.status}: {details}" if details else self.status


@functools.cache
def rows(document: str) -> tuple[ReferenceRow, ...]:
    return tuple(sorted((*_list_equations(document), *_list_formulas(document)), key=lambda row: _read_numbers(row.place)))


# `([1, 1, 3], [4])` for `1.1.3, eq 4`. Appendices have letters. Sections without a number are last.
def _read_numbers(place: str) -> tuple[list[int], list[int]]:
    section, _, rest = place.partition(",")
    numbered = re.fullmatch(r"([A-Z]|\d+)(\.\d+)*", section)
    numbers = [int(n) if n.isdecimal() else ord(n) for n in section.split(".")] if numbered else [1000]
    return numbers, [int(n) for n in re.findall(r"\d+", rest)] if numbered else []


def _list_equations(document: str) -> Iterator[ReferenceRow]:
    for reference in references(document):
        result = reference.why or (reference.found[1] if reference.computed else "")
        emitted_place = str(reference.emitted or "")
        yield ReferenceRow(
            document,
            reference.place,
            reference.says,
            reference.status,
            reference.errata,
            reference.where,
            emitted_place,
            found=result,
        )


def _list_formulas(document: str) -> Iterator[ReferenceRow]:
    from einformer.notes import claims

    for claim in claims.claims():
        if claim.id.startswith(_read_data(document).get("claims", f"{document}-")):
            yield _make_row(document, claims.judge(claim))


# If no count decides a claim, a test shows it, or a reason is given.
def _make_row(document: str, verdict: claims.Verdict) -> ReferenceRow:
    claim, tested = verdict.claim, verdict.claim.id in _read_data(document).get("tested", ())
    status = verdict.outcome if verdict.outcome != "not derived" else "a test" if tested else "nothing"
    result = verdict.derived if status in ("nothing", "does not hold", "contradicts itself") else ""
    return ReferenceRow(document, claim.place, f"{claim.says}: {claim.printed}", status, claim=claim.id, found=result)


# `43 equations and formulas: 14 a line, 7 in other words`.
def summary(rows: Iterable[ReferenceRow]) -> str:
    from einformer.notes import claims

    counts = Counter(row.status for row in rows)
    statuses = (*get_args(Status), *get_args(claims.Outcome))
    return f"{counts.total()} equations and formulas: {', '.join(f'{counts[s]} {s}' for s in statuses if counts[s])}"


# --------------------------------------------------------------------------------------------------------- emitted lines


# Returns the line of an equation in the file of its text, or else in the file of the layer alone. It is the comment with the
# equation. The code below it computes the equation.
def find_emitted(layer: str, written: Span) -> Emitted:
    text, _, name = layer.partition(".")
    last = elaborate(text)[0].layers[-1].name
    whole = _find_places(text, last)
    file, places = (text, whole) if written in whole else (layer, _find_places(text, name))
    return Emitted(f"{file}.py", *places[written])


# The lines do not depend on the sizes.
def read_sizes(text: str) -> dict[str, int]:
    return {letter: int(size) for letter, _, size in (part.partition("=") for part in _read_sizes()[text]["sizes"].split())}


@functools.cache
def _read_sizes() -> dict[str, dict[str, str]]:
    return tomllib.loads((_FOLDER / "emitted.toml").read_text(encoding="utf-8"))


@functools.cache
def _find_places(text: str, name: str) -> dict[Span, tuple[int, str]]:
    written, legend = binding.bind(elaborate(text)[0], read_sizes(text))
    tree, _ = check_spec(written, values=binding.find_sizes(legend), origins=legend.origins)
    return source.find_places(tree, name, legend, FAST, Style(cited=sources.read_note, sources=sources.list_sources))
