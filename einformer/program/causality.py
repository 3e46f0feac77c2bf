"""Checks a specification: that it is well formed, and what its models claim of positions.

A model which says `causal in s` is proved to read no later position, and each of its softmaxes to see some position (R6, R10).
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from einformer.errors import Finding, Span
from einformer.language import check as language
from einformer.language.calls import axis_of
from einformer.language.primitives import MIRRORED
from einformer.language.printer import show
from einformer.language.sizes import Legend, Value
from einformer.language.specialise import specialise
from einformer.language.times import check_times
from einformer.language.tree import Spec
from einformer.program.inequalities import (
    Cases,
    Conjunction,
    Facts,
    Inequality,
    Linear,
    both,
    cases_at,
    connected,
    evaluate,
    of_data,
    written,
)
from einformer.program.lowering import lower_functions
from einformer.program.positions import Analysis, Read

MOST_POSITIONS = 100  # of a counterexample, which is only looked for to explain a refusal
MOST_TRIALS = 20_000


def check_spec(
    spec: Spec, values: Mapping[str, Value] | None = None, origins: Mapping[str, str] | None = None
) -> tuple[Spec, tuple[Finding, ...]]:
    """The elaborated spec and every finding in the order of the text.

    With `values`, the sizes bound, groups and axes are compared as numbers; `origins` say where each came from.
    """
    return language.check(spec, values=values, origins=origins, claims=_check_claims)


def _check_claims(spec: Spec, legend: Legend) -> tuple[Finding, ...]:
    return check_times(spec, legend) or check_causality(spec, legend)


def check_causality(spec: Spec, legend: Legend) -> tuple[Finding, ...]:
    """Findings E501 and E502 of every model of a checked spec that says that it is causal."""
    findings: list[Finding] = []
    for model in spec.layers:
        if model.time is not None:
            time = axis_of(model.time.letter)
            proof = Proof(lower_functions(specialise(spec, model.name), legend, run=False), legend, time, Facts(legend, time))
            proof.model(model.name)
            findings += proof.findings
    return tuple(dict.fromkeys(findings))


@dataclass(slots=True)
class Proof(Analysis):
    """An analysis that demands a proof wherever a value stands at a position. The first refusal of each kind is reported."""

    findings: list[Finding] = field(default_factory=list)

    def needs(self, reads: Sequence[Read], own: str, at: Span) -> None:
        """E501: a value at the position `own` reads no later one."""
        here = Linear.index(own)
        for read in reads:
            if read.position == here or self.reported("E501"):
                continue
            later = Inequality(read.position - here, strict=True)
            if unproved := [case for case in read.cases if not self.facts.refutes(case, later)]:
                reasons = (self.reason(case, own, read, later) for case in unproved)
                self.report("E501", min(reasons, key=lambda text: (len(text), text)), at, self.mask(own))

    def sees(self, low: Cases, own: str, bound: Sequence[str], at: Span) -> None:
        """E502: at each position `own` an operator over the positions `bound` is given something other than -inf.

        It is where, at each position, the position itself or the first one is shown to be visible. Data are left to R12.
        """
        if not low or self.reported("E502"):
            return
        places = Linear.index(own), Linear.number(0)
        if not self.nowhere(both(*(cases_at(low, dict.fromkeys(bound, place)) for place in places))):
            self.report("E502", self.blind(low, own, bound), at, f"a mask that allows at least `{bound[0]} == {own}`")

    def nowhere(self, cases: Cases) -> bool:
        """Does none of these cases hold, but for those that data decide?"""
        return all(self.facts.refutes(case) or of_data(case) for case in cases)

    def reported(self, code: str) -> bool:
        """Is there a finding already? A read of the future behind another slip is a consequence of it."""
        return any(finding.code == code for finding in self.findings)

    def report(self, code: str, message: str, at: Span, fix: str) -> None:
        self.findings.append(Finding(code, message, at, (self.legend.describe(self.time),), fix))

    def mask(self, own: str) -> str:
        return f"a mask inside the softmax, `where({own}' <= {own}, 0, -inf)`, or an earlier position"

    # --------------------------------------------------------------------------------------------------- reasons

    def reason(self, case: Conjunction, own: str, read: Read, later: Inequality) -> str:
        """The first position at which a later one is read; or the term of which no bound is known."""
        numbered = [self.facts.numbered(inequality) for inequality in connected(case, later)]
        position = self.facts.numbered(Inequality(read.position)).linear
        letters = {letter for i in numbered for letter in i.linear.letters()} - position.letters()
        for numbers in self.tried(own, [x for x in (*sorted(position.letters()), *sorted(letters)) if x != own]):
            if all(holds(inequality, numbers) for inequality in numbered):
                reached = compute(position, numbers)
                which = "a position" if reached is None or reached != int(reached) else f"position {reached}"
                return f"at position {numbers[own]} this depends on {which}, which is later{self.where(case, later)}"
        unbounded = f"`{re.sub(r'~[0-9]+', '', show(written(read.position)))}` has no bound by `{own}`"
        if read.anchor is None:
            return f"this may depend on how many positions follow `{own}`: {unbounded}"
        return f"this may read `{read.at.text}` after position `{own}`: {unbounded}"

    def blind(self, low: Cases, own: str, bound: Sequence[str]) -> str:
        """The first position at which every key is masked."""
        about = Inequality(sum((Linear.index(letter) for letter in bound), start=Linear.index(own)))
        cases = {case: [self.facts.numbered(i) for i in connected(case, about) - {about}] for case in low}
        others = {letter for case in cases.values() for i in case for letter in i.linear.letters()} - {own, *bound}
        for trial in itertools.islice(self.tried(own, sorted(others)), MOST_POSITIONS):
            keys = ({**trial, **dict.fromkeys(bound, key)} for key in range(trial[own] + MOST_POSITIONS))
            if all(any(all(holds(i, numbers) for i in case) for case in cases.values()) for numbers in keys):
                here = {**trial, **dict.fromkeys(bound, trial[own])}
                held = [case for case, inside in cases.items() if all(holds(i, here) for i in inside)]
                return f"at position {trial[own]} every key is masked{min(self.where(case, about) for case in held)}"
        return f"every key may be masked: none is shown to be visible at each `{own}`"

    def where(self, case: Conjunction, about: Inequality) -> str:
        """What else a case says, of heads, turns, sizes or functions of them: there a quotient may be by zero."""
        others = [i for i in map(self.facts.numbered, case - connected(case, about)) if i.linear.atoms()]
        texts = [_compare(i.linear, "==") for i in others if Inequality(i.linear * -1) in others]
        texts = texts or [_compare(i.linear, ">" if i.strict else ">=") for i in others]
        return f", where `{min(texts, key=lambda text: (len(text), text))}`" if texts else ""

    def tried(self, own: str, letters: list[str]) -> Iterator[dict[str, int]]:
        ranges = (range(MOST_POSITIONS if self.is_time(letter) else self.most(letter)) for letter in letters)
        for here, *numbers in itertools.islice(itertools.product(range(MOST_POSITIONS), *ranges), MOST_TRIALS):
            yield {own: here, **dict(zip(letters, numbers, strict=True))}

    def most(self, letter: str) -> int:
        length = self.facts.length(letter)
        value = length.value if length is not None else None
        return min(int(value), MOST_POSITIONS) if value else 4


def _compare(linear: Linear, relation: str) -> str:
    """`a == 11` for a - 11 and `l <= 0` for -l: numbers stand on the right, whichever sign is shorter."""
    number = sum(factor for monomial, factor in linear.terms if not monomial)
    sides = (linear - Linear.number(number), -number, relation), (Linear.number(number) - linear, number, MIRRORED[relation])
    texts = (f"{show(written(left))} {sign} {show(written(Linear.number(right)))}" for left, right, sign in sides)
    return min((re.sub(r"~[0-9]+", "", text) for text in texts), key=len)


def holds(inequality: Inequality, numbers: Mapping[str, int]) -> bool:
    """Does an inequality hold of these index numbers? Not where something else decides."""
    value = compute(inequality.linear, numbers)
    return value is not None and (value > 0 or (value == 0 and not inequality.strict))


def compute(linear: Linear, numbers: Mapping[str, int]) -> float | None:
    """The number at these index numbers; None where something else decides, such as data or a size that is open."""
    try:
        value, whole = evaluate(linear, numbers)
    except (KeyError, ArithmeticError):
        return None
    quotient = value / whole
    return None if not math.isfinite(quotient) else int(quotient) if quotient == int(quotient) else quotient
