"""Is what documents say true? Published formulas as data, and for each the verdict of the derivation."""

from __future__ import annotations

import functools
import itertools
import pathlib
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, get_args

from einformer.errors import EinformerError
from einformer.interpreters.count import comparison, printer
from einformer.language import binding
from einformer.notes import quantities
from einformer.notes.conventions import conventions
from einformer.notes.quantities import NOT_DERIVED, QUANTITIES, About
from einformer.notes.sources import sources

if TYPE_CHECKING:
    import sympy

_CLAIMS = pathlib.Path(__file__).parent / "claims"
NOT_WHOLE = "E602"  # a size that other sizes make a fraction
Outcome = Literal["holds", "holds to leading order", "does not hold", "contradicts itself", "not derived"]


@dataclass(frozen=True, slots=True)
class Claim:
    """A formula as it is printed, in the letters of its document, what it is `about`, and the relation that it asserts.

    `where` are letters that are quantities themselves, the N of `6 N`. `assume` replaces our letters by formulas, `at` by
    numbers that the text must be able to have. With `solve` the formula is that of a letter for which what it is about
    `equals` another formula.
    """

    id: str
    source: str
    place: str
    says: str
    printed: str
    about: About
    relation: str = "equal"  # or "leading in L D", "growth in S D": our letters; or "rounded", to the digits printed
    letters: Mapping[str, str] = field(default_factory=dict)
    where: Mapping[str, About] = field(default_factory=dict)
    assume: Mapping[str, str] = field(default_factory=dict)
    at: Mapping[str, int] = field(default_factory=dict)
    solve: str = ""
    equals: str = ""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the derivation says of a claim, and the formula that it found, or why there is none."""

    claim: Claim
    outcome: Outcome
    derived: str

    @property
    def found(self) -> bool:
        """Is there a formula?"""
        return self.outcome not in ("contradicts itself", "not derived")

    def data(self) -> dict[str, Any]:
        """For `--json`."""
        claim = self.claim
        said = {name: getattr(claim, name) for name in ("id", "source", "place", "says", "printed", "relation")}
        return said | {"verdict": self.outcome, "derived": self.derived}


@functools.cache
def claims() -> tuple[Claim, ...]:
    """Every claim, a file of `claims/` for each source.

    >>> next(claim for claim in claims() if claim.id == "S001-C7").printed
    '2 D'
    """
    files = sorted((path for path in _CLAIMS.iterdir() if path.name.endswith(".toml")), key=lambda path: path.name)
    return tuple(claim for path in files for claim in _read(tomllib.loads(path.read_text(encoding="utf-8"))))


def _read(table: dict[str, Any]) -> Iterator[Claim]:
    """The claims of one source, in its letters; a claim may add letters of its own."""
    letters = conventions()[table["letters"]]
    for row in table["claim"]:
        row |= {"letters": letters | row.get("letters", {}), "about": _about(row["about"])}
        row["where"] = {letter: _about(about) for letter, about in row.get("where", {}).items()}
        yield Claim(source=str(sources()[table["source"]]), **row)


def _about(row: dict[str, Any]) -> About:
    """`{ parameters = "gpt2.MLP", only = ["W"] }`."""
    (what,) = row.keys() & (QUANTITIES.keys() | NOT_DERIVED.keys())
    options: dict[str, Any] = {name: _frozen(value) for name, value in row.items() if name != what}
    return About(what, row[what], **options)


def _frozen(value: Any) -> Any:
    """A list or a table as a tuple."""
    return tuple(value.items() if isinstance(value, dict) else value) if isinstance(value, dict | list) else value


def judge(claim: Claim) -> Verdict:
    """The verdict on a claim."""
    if claim.about.what in NOT_DERIVED:
        return Verdict(claim, "not derived", NOT_DERIVED[claim.about.what])
    try:
        _bound(claim)
    except EinformerError as error:
        if error.findings[0].code != NOT_WHOLE:
            raise
        return Verdict(claim, "contradicts itself", error.findings[0].message)
    derived = _derived(claim)
    return Verdict(claim, _outcome(claim, derived), _shown(claim, derived))


def _bound(claim: Claim) -> None:
    """Raises EinformerError where a model cannot have these sizes."""
    if claim.at and claim.about.text:
        binding.bind(quantities.spec(claim.about.text, claim.about.without), claim.at)


def _derived(claim: Claim) -> tuple[sympy.Expr, ...]:
    """What is true of what the claim is about."""
    found = tuple(_settled(claim, each) for each in quantities.derived(claim.about))
    if not claim.solve:
        return found
    other = quantities.ours(claim.equals)
    return (comparison.solution(found[0] - _settled(claim, other), _letter(claim.solve)),)


def _outcome(claim: Claim, derived: tuple[sympy.Expr, ...]) -> Outcome:
    relation, _, letters = claim.relation.partition(" in ")
    if relation == "rounded":
        return "holds" if comparison.rounded(claim.printed, derived[0]) else "does not hold"
    printed = tuple(_settled(claim, each) for each in _printed(claim))
    if len(printed) != len(derived):
        return "does not hold"
    pairs, symbols = list(zip(printed, derived, strict=True)), tuple(map(_letter, letters.split()))
    if all(itertools.starmap(comparison.equal, pairs)):
        return "holds"
    if not all(comparison.RELATIONS[relation](*pair, symbols) for pair in pairs):
        return "does not hold"
    return "holds to leading order" if relation == "leading" else "holds"


def _printed(claim: Claim) -> Iterator[sympy.Expr]:
    """The printed formula in our letters; of a shape, `(N, D_q)`, one for each axis."""
    parts = claim.printed[1:-1].split(",") if claim.about.what == "shape" else [claim.printed]
    return (quantities.number(part, claim.letters, claim.about) for part in parts)


def _settled(claim: Claim, formula: sympy.Expr) -> sympy.Expr:
    """A formula with its letters replaced by what they are, what is assumed of them, and their numbers."""
    for values in (
        {letter: quantities.derived(about)[0] for letter, about in claim.where.items()},
        {letter: quantities.ours(text) for letter, text in claim.assume.items()},
        {letter: quantities.ours(str(size)) for letter, size in claim.at.items()},
    ):
        formula = formula.xreplace({_letter(letter): value for letter, value in values.items()})
    return formula


@functools.cache
def _letter(name: str) -> sympy.Expr:
    return quantities.number(name, {name: name})


def _shown(claim: Claim, derived: tuple[sympy.Expr, ...]) -> str:
    """The derived formula as people write it."""
    order = printer.letters(quantities.spec(claim.about.text)) if claim.about.text else ()
    shown = [_number(each) if each.is_Number else printer.show(each, order) for each in derived]
    return f"({', '.join(shown)})" if claim.about.what == "shape" else shown[0]


def _number(value: sympy.Expr) -> str:
    return f"{int(value):,}" if value.is_Integer else f"{float(value):.6g}"


def rows(verdicts: Iterable[Verdict]) -> Iterator[tuple[str, str, str]]:
    """The cells of a table: claim, verdict, what is printed; and under it what is derived, where that differs."""
    for verdict in verdicts:
        yield verdict.claim.id, verdict.outcome, f"{verdict.claim.says}: {verdict.claim.printed}"
        if verdict.outcome != "holds" or verdict.claim.relation != "equal":
            yield "", "", f"derived: {verdict.derived}" if verdict.found else verdict.derived


def summary(verdicts: Iterable[Verdict]) -> str:
    """`253 claims: 180 holds, 30 does not hold`."""
    counts = Counter(verdict.outcome for verdict in verdicts)
    return f"{counts.total()} claims: {', '.join(f'{counts[o]} {o}' for o in get_args(Outcome) if counts[o])}"
