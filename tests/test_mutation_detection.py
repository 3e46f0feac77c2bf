"""Does the checker see a slip of one index? Of those that change the meaning at least 95 % are reported.

A slip is one index changed (to one over another axis, or to its prime), dropped, added, or two swapped, in one subscript of
one equation: of a left side, a tensor, an operator, a call, or a bare index in a formula. Half of the texts ship, half are
drawn; text, kind and place are drawn in turn, each kind equally often.

A slip changes the meaning if the checker takes the text and it does not need the same weights, or gives other numbers with
them; if the checker refuses it, unless only bound indices have other names; and if it is found when sizes or numbers are bound
(E309: a slot leaves its axis). The latter two are reported.
"""

from __future__ import annotations

import functools
from collections import Counter
from dataclasses import dataclass
from random import Random
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import einformer
from einformer import EinformerError
from einformer.language import printer
from einformer.language.tree import Spec
from einformer.objects import Model
from tests import arrays, slips
from tests.commands import run
from tests.slips import Slip
from tests.test_well_formed import SHIPPED
from tests.well_formed import written

Array = NDArray[Any]

SLIPS, DRAWN = 2000, 100
REPORTED, FOUND_LATER, MISSED, SAME = "reported", "reported when bound or run", "missed", "the same meaning"


@dataclass(frozen=True)
class Target:
    """A text, as parsed and as bound, and what it gives."""

    name: str
    spec: Spec
    sizes: dict[str, Any]
    model: Model
    output: Array


def target(name: str, text: str, sizes: dict[str, Any]) -> Target:
    spec = einformer.parse(text, name)
    model = spec.bind(**sizes)
    return Target(name, spec.written, sizes, model, model.reference(*arrays.inputs(model), weights=arrays.weights(model)))


@functools.cache
def targets() -> tuple[list[Target], list[Target]]:
    """Those that ship, and those that are drawn."""
    ship = [target(name, run("source", "--text", name).out, {**sizes, "B": 2, "S": 4}) for name, sizes in SHIPPED.items()]
    texts = [written(Random(seed)) for seed in range(DRAWN)]
    return ship, [target(f"drawn {seed}", text.text, text.sizes(2, 5, 3, 4, 7)) for seed, text in enumerate(texts)]


def verdict(target: Target, slip: Slip) -> str:
    """What becomes of a slip."""
    try:
        spec = einformer.parse(printer.show(slip.spec))
    except EinformerError:
        return SAME if slips.is_renaming(slip) else REPORTED
    try:
        model = spec.bind(**target.sizes)
        if model.weight_shapes() != target.model.weight_shapes():
            return MISSED
        output = model.reference(*arrays.inputs(target.model), weights=arrays.weights(target.model))
    except EinformerError:
        return FOUND_LATER
    same = output.shape == target.output.shape and np.allclose(output, target.output, rtol=1e-9, atol=1e-9, equal_nan=True)
    return SAME if same else MISSED


@functools.cache
def verdicts(seed: int = 0, count: int = SLIPS) -> list[tuple[Target, Slip, str]]:
    """That many slips and what becomes of them."""
    random, drawn = Random(seed), []
    for _ in range(count):
        where = random.choice(random.choice(targets()))
        slip = slips.slip(where.spec, random)
        drawn.append((where, slip, verdict(where, slip)))
    return drawn


def rate(found: list[str]) -> float:
    """The share of the slips that change the meaning which is reported."""
    count = Counter(found)
    reported = count[REPORTED] + count[FOUND_LATER]
    return reported / (reported + count[MISSED])


@pytest.mark.slow
def test_slips_that_change_the_meaning_are_reported() -> None:
    found = verdicts()
    print(f"\n{rate([each for _, _, each in found]):.1%} of {len(found)} slips:", dict(Counter(each for _, _, each in found)))
    for where, slip, each in found:
        if each == MISSED:
            before, after = (printer.show(equation).split(" @ ")[0].strip() for equation in (slip.before, slip.after))
            print(f"  {slip.kind:7}{slip.place:12}{where.name:24}{before}\n{'':43}{after}")
    assert rate([each for _, _, each in found]) >= 0.95


@pytest.mark.slow
@pytest.mark.parametrize("kind", slips.KINDS)
def test_each_kind_of_slip_is_reported(kind: str) -> None:
    """No kind hides behind the others: a prime too many or too few is the hardest to see."""
    assert rate([each for _, slip, each in verdicts() if slip.kind == kind]) >= 0.95


@pytest.mark.slow
def test_a_slip_of_each_kind_stands_at_each_place() -> None:
    seen = {(slip.kind, slip.place) for _, slip, _ in verdicts()}
    assert {place for _, place in seen} == {"left side", "tensor", "operator", "call", "bare index"}
    assert {kind for kind, place in seen if place == "tensor"} == set(slips.KINDS)
