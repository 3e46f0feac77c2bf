"""Does the linter see a slip of one index in a text that is printed as LaTeX, and one that is written as prose?

Printed, `einformer latex` and all, a text has its legend, and at least 98 % of the slips that change the meaning are
reported at their equation, or at the first line that contradicts it, which names the equation's line. As prose it has
shapes in words, and what an author leaves unsaid is not reported; how much is seen then is printed, not promised.
"""

from __future__ import annotations

import re
from collections import Counter
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import einformer
from einformer.interpreters.latex import latex
from einformer.language import printer
from einformer.language.tree import Spec
from tests import slips, test_mutation_detection
from tests.commands import Found, lint
from tests.prose import prose
from tests.refusals import findings_of
from tests.slips import Slip
from tests.test_mutation_detection import FOUND_LATER, MISSED, REPORTED
from tests.test_well_formed import SHIPPED
from tests.well_formed import Text, texts, written


def note(spec: Spec) -> str:
    return f"# A note\n\nAll of it:\n\n\\[\n{latex(spec)}\n\\]\n"


def linted(text: str) -> tuple[Found, ...]:
    return lint(text).findings


def parsed(text: str) -> Spec:
    return einformer.parse(text).written


def is_at(slip: Slip, spec: Spec, found: tuple[Found, ...]) -> bool:
    """Is a finding in the row that changed, or does one name its line?"""
    before, after = note(spec).split("\n"), note(slip.spec).split("\n")
    changed = {number for number, rows in enumerate(zip(before, after, strict=True), 1) if rows[0] != rows[1]}
    named = {int(line) for finding in found for fact in finding.facts for line in re.findall(r"note\.md:(\d+)", fact)}
    return bool(changed & (named | {finding.line for finding in found}))


# ---------------------------------------------------------------------------------------------------------- printed


@settings(max_examples=25, deadline=None)
@given(texts())
def test_a_well_formed_text_is_clean(text: Text) -> None:
    assert linted(note(parsed(text.text))) == ()


@pytest.mark.parametrize("name", SHIPPED)
def test_a_shipped_text_is_clean(name: str) -> None:
    spec = einformer.load(name).written
    assert linted(note(spec)) == ()
    assert linted(prose(spec)) == ()


@settings(max_examples=25, deadline=None)
@given(texts(), st.randoms(use_true_random=False))
def test_a_slip_is_reported_as_in_plain_text(text: Text, random: Random) -> None:
    """The checker of plain texts and the linter of notes give the same codes."""
    spec = parsed(text.text)
    slip = slips.slip(spec, random)
    plain = [finding.code for finding in findings_of(printer.show(slip.spec))]
    assert sorted(finding.code for finding in linted(note(slip.spec))) == sorted(plain)


@pytest.mark.slow
def test_slips_that_change_the_meaning_are_reported_at_their_equation() -> None:
    found = Counter[str]()
    for target, slip, verdict in test_mutation_detection.verdicts(0, 500):
        if verdict in (REPORTED, FOUND_LATER, MISSED):
            at = is_at(slip, target.spec, linted(note(slip.spec)))
            found["at its equation" if at else "not"] += 1
            if not at:
                before, after = (printer.show(each).split(" @ ")[0].strip() for each in (slip.before, slip.after))
                print(f"  {slip.kind:7}{slip.place:12}{target.name:24}{before}\n{'':43}{after}")
    print(dict(found))
    assert found["at its equation"] / found.total() >= 0.98


# ------------------------------------------------------------------------------------------------------------ prose


@settings(max_examples=25, deadline=None)
@given(texts())
def test_a_well_formed_text_is_clean_as_prose(text: Text) -> None:
    assert linted(prose(parsed(text.text))) == ()


def test_most_slips_are_seen_in_prose_too() -> None:
    random, found = Random(0), Counter[str]()
    specs = [parsed(written(Random(seed)).text) for seed in range(15)]
    while found.total() < 60:
        slip = slips.slip(random.choice(specs), random)
        if not slips.is_renaming(slip):
            seen = bool(linted(prose(slip.spec)))
            found["seen" if seen else "not seen"] += 1
            if not seen:
                before, after = (printer.show(each).strip() for each in (slip.before, slip.after))
                print(f"  {slip.kind:7}{slip.place:12}{before}\n{'':21}{after}")
    print(dict(found))
    assert found["seen"] > 0.6 * found.total()
