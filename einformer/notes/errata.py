"""Checks printed equations that are wrong: the printed form must fail, and the corrected form must pass.

The verdicts are computed. A row gives the reason if nothing can be computed.
"""

from __future__ import annotations

import functools
import pathlib
import tomllib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, get_args

from einformer.errors import Source
from einformer.notes import claims, equality, legend
from einformer.notes.documents.latex import read_markdown
from einformer.notes.files import lint_text
from einformer.notes.settings import Settings
from einformer.notes.sources import sources

_ERRATA = pathlib.Path(__file__).parent / "errata"
Kind = Literal["index", "shape", "value", "property", "cost", "prose"]
Outcome = Literal["demonstrated", "not demonstrated", "no check"]
Form = Literal["printed", "corrected"]
Found = tuple[bool, str]  # whether a form is right, and the reason


@dataclass(frozen=True, slots=True)
class Erratum:
    """The print of a document at a place, in Markdown with formulas, its correction, and the error in one line, `says`.

    `check` names a row of `CHECKS`, and `about` holds its arguments. Without a check, `why` gives the reason.
    """

    id: str
    source: str
    place: str
    kind: Kind
    says: str
    printed: str
    corrected: str
    check: str = ""
    about: Mapping[str, Any] = field(default_factory=dict)
    why: str = ""

    def form(self, form: Form) -> str:
        return self.printed if form == "printed" else self.corrected


@dataclass(frozen=True, slots=True)
class ErratumVerdict:
    """The results of the check for both forms."""

    erratum: Erratum
    outcome: Outcome
    printed: str = ""
    corrected: str = ""

    def data(self) -> dict[str, Any]:
        row = self.erratum
        record = {name: getattr(row, name) for name in ("id", "source", "place", "kind", "says", "printed", "corrected")}
        forms = {"printed": self.printed, "corrected": self.corrected} if row.check else {"why": row.why}
        return record | {"verdict": self.outcome, "check": row.check, "found": forms}


@functools.cache
def errata() -> tuple[Erratum, ...]:
    """Returns every erratum. Each document has a file in `errata/`.

    >>> next(erratum for erratum in errata() if erratum.id == "S001-E5").kind
    'cost'
    """
    return tuple(row for path in sorted(_ERRATA.glob("*.toml")) for row in _read_errata(tomllib.loads(path.read_text("utf-8"))))


# The key of the check names its arguments.
def _read_errata(table: dict[str, Any]) -> Iterator[Erratum]:
    for row in table["erratum"]:
        checks = row.keys() & CHECKS.keys()
        yield Erratum(
            source=str(sources()[table["source"]]),
            check="".join(checks),
            about=row[next(iter(checks))] if checks else {},
            **{name: value for name, value in row.items() if name not in checks},
        )


# Runs the check of an erratum. It is `not demonstrated` if the printed form passes or the corrected form fails.
def judge(erratum: Erratum) -> ErratumVerdict:
    if not erratum.check:
        return ErratumVerdict(erratum, "no check")
    check = CHECKS[erratum.check]
    (before, printed), (after, corrected) = check(erratum, "printed"), check(erratum, "corrected")
    return ErratumVerdict(erratum, "demonstrated" if after and not before else "not demonstrated", printed, corrected)


# The form follows other equations of its document, under a legend. Only equations that are read count.
def _lint_form(erratum: Erratum, form: Form) -> Found:
    text = f"{erratum.about['after']}\n\n{erratum.form(form)}\n"
    checked = lint_text(Source(f"{erratum.id}.md", text), Settings().with_legend(erratum.about["axes"]))
    messages = [f"{finding.code}: {finding.message}" for finding in checked.findings]
    unread = [f"not read: {verdict.skipped}" for verdict in checked.verdicts if verdict.skipped]
    return not messages and (form == "printed" or not unread), "; ".join(messages or unread) or "nothing found"


# An equation, or lines that must be well formed. A list has one for each form.
def _compute_form(erratum: Erratum, form: Form) -> Found:
    about = dict(erratum.about)
    lines, claim = (_choose_form(about.pop(name, ""), form) for name in ("lines", "claim"))
    return equality.holds(equality.Setting(**about), lines, claim)


def _choose_form(given: str | list[str], form: Form) -> str:
    return given if isinstance(given, str) else given[form == "corrected"]


# A row of the claims, with changes in `printed` or `corrected`.
def _judge_claim(erratum: Erratum, form: Form) -> Found:
    claim = next(claim for claim in claims.claims() if claim.id == erratum.about["of"])
    verdict = claims.judge(replace(claim, **erratum.about.get(form, {})))
    right = verdict.outcome.startswith("holds")
    return right, verdict.outcome if right else f"{verdict.outcome}: {verdict.derived}"


# Words that must state the sizes of some letters.
def _read_statement(erratum: Erratum, form: Form) -> Found:
    document = read_markdown(Source(f"{erratum.id}.md", erratum.form(form)))
    sizes = {size.letter: size.size for section in document.sections for size in legend.read_sizes(section)}
    return sizes.keys() >= set(erratum.about["letters"]), ", ".join(map(": ".join, sizes.items())) or "no size is said"


# Python of the document, which must run to its end.
def _run_code(erratum: Erratum, form: Form) -> Found:
    try:
        exec(_choose_form(erratum.about["code"], form), {})  # the errata are our own
    except Exception as error:  # the code of a document may raise anything
        return False, f"{type(error).__name__}: {error}"
    return True, "runs"


CHECKS: dict[str, Callable[[Erratum, Form], Found]] = {
    "lint": _lint_form,
    "equation": _compute_form,
    "claim": _judge_claim,
    "stated": _read_statement,
    "python": _run_code,
}


# Erratum, verdict and error, and below it both forms with their results, or the reason.
def rows(verdicts: Iterable[ErratumVerdict]) -> Iterator[tuple[str, str, str]]:
    for verdict in verdicts:
        row = verdict.erratum
        yield row.id, verdict.outcome, row.says
        results = {"printed": f"{row.printed} → {verdict.printed}", "corrected": f"{row.corrected} → {verdict.corrected}"}
        shown = results if row.check else {"printed": row.printed, "corrected": row.corrected, "why": row.why}
        yield from (("", form, result.replace("$", "")) for form, result in shown.items())


# `86 errata: 60 demonstrated, 26 no check`.
def summary(verdicts: Iterable[ErratumVerdict]) -> str:
    counts = Counter(verdict.outcome for verdict in verdicts)
    return f"{counts.total()} errata: {', '.join(f'{counts[o]} {o}' for o in get_args(Outcome) if counts[o])}"
