"""Which printed equations are wrong? Errata as data, with checks that the printed form fails and the corrected one passes.

No verdict is written down. A row says why where nothing can be computed.
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
from einformer.lint import legend
from einformer.lint.files import lint_text
from einformer.lint.notes.latex import read_markdown
from einformer.lint.settings import Settings
from einformer.notes import claims, equality
from einformer.notes.sources import sources

_ERRATA = pathlib.Path(__file__).parent / "errata"
Kind = Literal["index", "shape", "value", "property", "cost", "prose"]
Outcome = Literal["demonstrated", "not demonstrated", "no check"]
Form = Literal["printed", "corrected"]
Found = tuple[bool, str]  # is a form right, and what was found of it?


@dataclass(frozen=True, slots=True)
class Erratum:
    """What a document prints at a place, Markdown with formulas, what it should, and `says` in one line what is wrong.

    `check` is the name of a row of `CHECKS`, and `about` what that takes; or there is none, and `why` says why.
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
        """One of the two forms."""
        return self.printed if form == "printed" else self.corrected


@dataclass(frozen=True, slots=True)
class Verdict:
    """What was found of the printed form and of the corrected one."""

    erratum: Erratum
    outcome: Outcome
    printed: str = ""
    corrected: str = ""

    def data(self) -> dict[str, Any]:
        """For `--json`."""
        row = self.erratum
        said = {name: getattr(row, name) for name in ("id", "source", "place", "kind", "says", "printed", "corrected")}
        found = {"printed": self.printed, "corrected": self.corrected} if row.check else {"why": row.why}
        return said | {"verdict": self.outcome, "check": row.check, "found": found}


@functools.cache
def errata() -> tuple[Erratum, ...]:
    """Every erratum, a file of `errata/` for each document.

    >>> next(erratum for erratum in errata() if erratum.id == "S001-E5").kind
    'cost'
    """
    return tuple(row for path in sorted(_ERRATA.glob("*.toml")) for row in _read(tomllib.loads(path.read_text("utf-8"))))


def _read(table: dict[str, Any]) -> Iterator[Erratum]:
    """The rows of one document; of a row, the key of its check names what that takes."""
    for row in table["erratum"]:
        checks = row.keys() & CHECKS.keys()
        yield Erratum(
            source=str(sources()[table["source"]]),
            check="".join(checks),
            about=row[next(iter(checks))] if checks else {},
            **{name: value for name, value in row.items() if name not in checks},
        )


def judge(erratum: Erratum) -> Verdict:
    """What the check of an erratum finds; `not demonstrated` where the printed form passes, or the corrected one fails."""
    if not erratum.check:
        return Verdict(erratum, "no check")
    check = CHECKS[erratum.check]
    (before, printed), (after, corrected) = check(erratum, "printed"), check(erratum, "corrected")
    return Verdict(erratum, "demonstrated" if after and not before else "not demonstrated", printed, corrected)


def _linted(erratum: Erratum, form: Form) -> Found:
    """The form, after equations of its document. A printed form must be read to be wrong, a corrected one to be right."""
    text = f"{erratum.about['after']}\n\n{erratum.form(form)}\n"
    checked = lint_text(Source(f"{erratum.id}.md", text), Settings())
    found = [f"{finding.code}: {finding.message}" for finding in checked.findings]
    unread = [f"not read: {verdict.skipped}" for verdict in checked.verdicts if verdict.skipped]
    return not found and (form == "printed" or not unread), "; ".join(found or unread) or "nothing found"


def _computed(erratum: Erratum, form: Form) -> Found:
    """An equation, or lines that must be well formed; a list has one for each form."""
    about = dict(erratum.about)
    lines, claim = (_of(about.pop(name, ""), form) for name in ("lines", "claim"))
    return equality.holds(equality.Setting(**about), lines, claim)


def _of(given: str | list[str], form: Form) -> str:
    return given if isinstance(given, str) else given[form == "corrected"]


def _claimed(erratum: Erratum, form: Form) -> Found:
    """A row of the claims, with what `printed` or `corrected` says else."""
    claim = next(claim for claim in claims.claims() if claim.id == erratum.about["of"])
    verdict = claims.judge(replace(claim, **erratum.about.get(form, {})))
    right = verdict.outcome.startswith("holds")
    return right, verdict.outcome if right else f"{verdict.outcome}: {verdict.derived}"


def _stated(erratum: Erratum, form: Form) -> Found:
    """Words that must say the sizes of some letters."""
    document = read_markdown(Source(f"{erratum.id}.md", erratum.form(form)))
    said = {known.letter: known.size for section in document.sections for known in legend.read_sizes(section)}
    return said.keys() >= set(erratum.about["letters"]), ", ".join(map(": ".join, said.items())) or "no size is said"


def _run(erratum: Erratum, form: Form) -> Found:
    """Python as the document has it, which must come to its end."""
    try:
        exec(_of(erratum.about["code"], form), {})  # the errata are our own
    except Exception as error:  # whatever a document's code raises is what is found
        return False, f"{type(error).__name__}: {error}"
    return True, "runs"


CHECKS: dict[str, Callable[[Erratum, Form], Found]] = {
    "lint": _linted,
    "equation": _computed,
    "claim": _claimed,
    "stated": _stated,
    "python": _run,
}


def rows(verdicts: Iterable[Verdict]) -> Iterator[tuple[str, str, str]]:
    """The cells of a table: erratum, verdict, what is wrong; under it both forms and what was found, or why nothing was."""
    for verdict in verdicts:
        row = verdict.erratum
        yield row.id, verdict.outcome, row.says
        found = {"printed": f"{row.printed} → {verdict.printed}", "corrected": f"{row.corrected} → {verdict.corrected}"}
        shown = found if row.check else {"printed": row.printed, "corrected": row.corrected, "why": row.why}
        yield from (("", form, said.replace("$", "")) for form, said in shown.items())


def summary(verdicts: Iterable[Verdict]) -> str:
    """`86 errata: 60 demonstrated, 26 no check`."""
    counts = Counter(verdict.outcome for verdict in verdicts)
    return f"{counts.total()} errata: {', '.join(f'{counts[o]} {o}' for o in get_args(Outcome) if counts[o])}"
