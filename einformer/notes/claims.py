"""Checks the formulas that documents print. They are data, and each gets the verdict of the derivation."""

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
from einformer.interpreters.count import algebra
from einformer.language import binding
from einformer.notes import quantities
from einformer.notes.notations import conventions
from einformer.notes.quantities import NOT_DERIVED, QUANTITIES, About
from einformer.notes.sources import sources

if TYPE_CHECKING:
    import sympy

_CLAIMS = pathlib.Path(__file__).parent / "claims"
NOT_WHOLE = "E602"  # a size that other sizes make a fraction
Outcome = Literal["holds", "holds to leading order", "does not hold", "contradicts itself", "not derived"]


@dataclass(frozen=True, slots=True)
class Claim:
    """A formula in the letters of its document, the quantity that it is `about`, and the relation that it asserts.

    `where` holds letters that are quantities themselves, the N of `6 N`. `assume` replaces our letters by formulas, `at` by
    numbers that the text must be able to have. With `solve` the formula is the solution for a letter, with the quantity
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
    """The verdict on a claim, with the derived formula, or the reason why there is none."""

    claim: Claim
    outcome: Outcome
    derived: str

    @property
    def found(self) -> bool:
        return self.outcome not in ("contradicts itself", "not derived")

    def data(self) -> dict[str, Any]:
        claim = self.claim
        record = {name: getattr(claim, name) for name in ("id", "source", "place", "says", "printed", "relation")}
        return record | {"verdict": self.outcome, "derived": self.derived}


@functools.cache
def claims() -> tuple[Claim, ...]:
    """Returns every claim. Each source has a file in `claims/`.

    >>> next(claim for claim in claims() if claim.id == "S001-C7").printed
    '2 D'
    """
    files = sorted((path for path in _CLAIMS.iterdir() if path.name.endswith(".toml")), key=lambda path: path.name)
    return tuple(claim for path in files for claim in _read_claims(tomllib.loads(path.read_text(encoding="utf-8"))))


def _read_claims(table: dict[str, Any]) -> Iterator[Claim]:
    letters = conventions()[table["letters"]]
    for row in table["claim"]:
        row |= {"letters": letters | row.get("letters", {}), "about": _read_about(row["about"])}
        row["where"] = {letter: _read_about(about) for letter, about in row.get("where", {}).items()}
        yield Claim(source=str(sources()[table["source"]]), **row)


# `{ parameters = "gpt2.MLP", only = ["W"] }`
def _read_about(row: dict[str, Any]) -> About:
    (what,) = row.keys() & (QUANTITIES.keys() | NOT_DERIVED.keys())
    options: dict[str, Any] = {name: _freeze(value) for name, value in row.items() if name != what}
    return About(what, row[what], **options)


def _freeze(value: Any) -> Any:
    return tuple(value.items() if isinstance(value, dict) else value) if isinstance(value, dict | list) else value


def judge(claim: Claim) -> Verdict:
    if claim.about.what in NOT_DERIVED:
        return Verdict(claim, "not derived", NOT_DERIVED[claim.about.what])
    try:
        _check_sizes(claim)
    except EinformerError as error:
        if error.findings[0].code != NOT_WHOLE:
            raise
        return Verdict(claim, "contradicts itself", error.findings[0].message)
    derived = _derive(claim)
    return Verdict(claim, _find_outcome(claim, derived), _show_derived(claim, derived))


# Raises EinformerError if a model cannot have these sizes.
def _check_sizes(claim: Claim) -> None:
    if claim.at and claim.about.text:
        binding.bind(quantities.spec(claim.about.text, claim.about.without), claim.at)


def _derive(claim: Claim) -> tuple[sympy.Expr, ...]:
    formulas = tuple(_substitute(claim, formula) for formula in quantities.find_quantity(claim.about))
    if not claim.solve:
        return formulas
    other = quantities.parse_ours(claim.equals)
    return (algebra.solve(formulas[0] - _substitute(claim, other), _make_letter(claim.solve)),)


def _find_outcome(claim: Claim, derived: tuple[sympy.Expr, ...]) -> Outcome:
    relation, _, letters = claim.relation.partition(" in ")
    if relation == "rounded":
        return "holds" if algebra.is_rounded(claim.printed, derived[0]) else "does not hold"
    printed = tuple(_substitute(claim, formula) for formula in _read_printed(claim))
    if len(printed) != len(derived):
        return "does not hold"
    pairs, symbols = list(zip(printed, derived, strict=True)), tuple(map(_make_letter, letters.split()))
    if all(itertools.starmap(algebra.are_equal, pairs)):
        return "holds"
    if not all(algebra.RELATIONS[relation](*pair, symbols) for pair in pairs):
        return "does not hold"
    return "holds to leading order" if relation == "leading" else "holds"


# A shape, `(N, D_q)`, has a formula for each axis.
def _read_printed(claim: Claim) -> Iterator[sympy.Expr]:
    parts = claim.printed[1:-1].split(",") if claim.about.what == "shape" else [claim.printed]
    return (quantities.read_number(part, claim.letters, claim.about) for part in parts)


def _substitute(claim: Claim, formula: sympy.Expr) -> sympy.Expr:
    for values in (
        {letter: quantities.find_quantity(about)[0] for letter, about in claim.where.items()},
        {letter: quantities.parse_ours(text) for letter, text in claim.assume.items()},
        {letter: quantities.parse_ours(str(size)) for letter, size in claim.at.items()},
    ):
        formula = formula.xreplace({_make_letter(letter): value for letter, value in values.items()})
    return formula


@functools.cache
def _make_letter(name: str) -> sympy.Expr:
    return quantities.read_number(name, {name: name})


def _show_derived(claim: Claim, derived: tuple[sympy.Expr, ...]) -> str:
    order = algebra.list_letters(quantities.spec(claim.about.text)) if claim.about.text else ()
    shown = [_show_number(formula) if formula.is_Number else algebra.show(formula, order) for formula in derived]
    return f"({', '.join(shown)})" if claim.about.what == "shape" else shown[0]


def _show_number(value: sympy.Expr) -> str:
    return f"{int(value):,}" if value.is_Integer else f"{float(value):.6g}"


# Claim, verdict and print, and below it the derived formula if it differs.
def rows(verdicts: Iterable[Verdict]) -> Iterator[tuple[str, str, str]]:
    for verdict in verdicts:
        yield verdict.claim.id, verdict.outcome, f"{verdict.claim.says}: {verdict.claim.printed}"
        if verdict.outcome != "holds" or verdict.claim.relation != "equal":
            yield "", "", f"derived: {verdict.derived}" if verdict.found else verdict.derived


# `253 claims: 180 holds, 30 does not hold`.
def summary(verdicts: Iterable[Verdict]) -> str:
    counts = Counter(verdict.outcome for verdict in verdicts)
    return f"{counts.total()} claims: {', '.join(f'{counts[o]} {o}' for o in get_args(Outcome) if counts[o])}"
