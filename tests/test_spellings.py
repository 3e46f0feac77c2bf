"""Does phrasing change nothing? All spellings of one thing call the same kernels in the plan `fast`, and count the same."""

from __future__ import annotations

import functools
import re
from collections import Counter
from pathlib import Path

import pytest
import torch

import einformer
from einformer.interpreters.count import numbers
from einformer.interpreters.count.conventions import CONVENTIONS
from einformer.interpreters.count.rules import Phase
from einformer.objects import Model
from tests.small import built, error, inputs, weights
from tests.spellings import BOUND, EXAMPLE, GROUPS, Lines

PAGE = Path(__file__).parent.parent / "docs" / "spellings.md"
KERNELS = r"fn\.\w+|is_causal|attn_mask|torch\.(?:einsum|softmax|tanh|logsumexp)|grouped(?=\()"
PHASES: tuple[Phase, ...] = ("forward", "backward")
Row = tuple[tuple[tuple[str, int], ...], int, tuple[int, ...]]  # kernels and how often, bytes, FLOPs


@functools.cache
def model(group: str, lines: Lines) -> Model:
    text = GROUPS[group].text(lines)
    return einformer.parse(text).bind(**{name: size for name, size in BOUND.items() if f": {name}\n" in text})


@functools.cache
def row(group: str, lines: Lines) -> Row:
    """What a spelling costs."""
    bound = model(group, lines)
    forward = bound.source().rpartition("def forward")[2]
    spec, at = bound.spec, bound.at(**EXAMPLE)
    kept = sum(each.total for each in numbers.activations(spec.tree, spec.name, at, 2))
    flops = tuple(
        sum(each.spent(phase) for each in numbers.flops(spec.tree, spec.name, at, CONVENTIONS[name]))
        for name in ("torch", "exact")
        for phase in PHASES
    )
    return tuple(sorted(Counter(re.findall(KERNELS, forward)).items())), kept, flops


@pytest.mark.parametrize("group", GROUPS)
def test_spellings_of_one_thing_cost_the_same(group: str) -> None:
    first, *others = GROUPS[group].spellings
    assert {lines: row(group, lines) for lines in others} == dict.fromkeys(others, row(group, first))


@pytest.mark.parametrize("group", GROUPS)
def test_spellings_of_one_thing_are_its_value(group: str) -> None:
    """The first by the reference; the others equal it in the plan `fast`."""
    first, *others = GROUPS[group].spellings
    bound = model(group, first)
    arrays = inputs(bound, {"B": 2, "S": 6})
    expected = bound.reference(*arrays, weights=weights(bound))
    for lines in (first, *others):
        module = built(bound, "fast") if lines == first else model(group, lines).build(dtype=torch.float64)
        module.load_state_dict({name: torch.from_numpy(array) for name, array in weights(bound).items()})
        assert error(module(*map(torch.from_numpy, arrays)), expected) < 1e-12
