"""Do the shipped texts mean the published models? Their reference equals transformers, lifted, with the same weights."""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping
from typing import Any, get_args

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

import einformer
from tests.oracles import twins
from tests.oracles.encoders import KINDS
from tests.oracles.families import FAMILIES, LENGTH, VOCABULARY, Family, answer, weights
from tests.oracles.lifted import Regime
from tests.shipped import TEXTS, families

Array = NDArray[Any]

OWN = {"minimal", "linear_attention", "linear_attention_masked", "loss"}  # nothing in transformers is the same
TOLERANCE = 1e-12  # both sides are float64: 4e-15 was seen, and a literal of eight digits in theirs cost 1e-9


def error(ours: Array, theirs: Array) -> float:
    """The largest difference, relative to the largest number where that exceeds one."""
    assert ours.shape == theirs.shape
    return float(np.abs(ours - theirs).max() / max(1.0, np.abs(theirs).max()))


@functools.cache
def model(name: str) -> Any:
    """Our text with the sizes and scalars of a family bound."""
    family = FAMILIES[name]
    spec = einformer.load(family.text)
    return (spec.replace(family.replaced) if family.replaced else spec).bind(**family.bound)


def absent(family: Family) -> set[str]:
    return {path.replace("*", str(layer)) for path in family.absent for layer in range(family.bound["L"])}


def drawn(shapes: Mapping[str, tuple[int, ...]]) -> dict[str, Array]:
    """Random weights for a text of our own: matrices by their first axis, vectors around one."""
    draw = np.random.default_rng(1)
    return {
        path: draw.standard_normal(shape) / math.sqrt(shape[0]) if len(shape) > 1 else 1 + 0.3 * draw.standard_normal(shape)
        for path, shape in shapes.items()
    }


def tokens() -> Array:
    return np.random.default_rng(0).integers(VOCABULARY, size=(2, LENGTH))


def test_every_text_is_tested() -> None:
    imported = {text for chosen in families().values() for text in chosen}  # compared in tests/test_families.py
    others = {"dit", *KINDS}  # compared in tests/test_encoders.py
    assert set(TEXTS) == OWN | imported | others | {family.text for family in FAMILIES.values()}


@pytest.mark.parametrize("name", FAMILIES)
def test_weights_are_theirs(name: str) -> None:
    """Each weight of the text has its counterpart, of its shape, and there is no other."""
    shapes, found = model(name).weight_shapes(), weights(name, "fan_in")
    assert shapes.keys() - absent(FAMILIES[name]) == found.keys()
    assert {path: shapes[path] for path in found} == {path: weight.shape for path, weight in found.items()}


@pytest.mark.parametrize("regime", get_args(Regime))
@pytest.mark.parametrize("name", FAMILIES)
def test_reference_is_transformers(name: str, regime: Regime) -> None:
    ours = model(name).reference(FAMILIES[name].inputs, weights=weights(name, regime))
    assert error(ours, answer(name, regime)) < TOLERANCE


def test_minimal_is_the_source_documents_decoder() -> None:
    bound = einformer.load("minimal").bind(D=35, A=5, F=31, K=41, V=VOCABULARY, L=2)
    found = drawn(bound.weight_shapes())
    assert error(bound.reference(tokens(), weights=found), twins.minimal(tokens(), found, layers=2)) < TOLERANCE


@pytest.mark.parametrize("text", ["linear_attention", "linear_attention_masked"])
def test_linear_attention_is_its_recurrence(text: str) -> None:
    bound = einformer.load(text).bind(D=35, A=3, E=5, U=7, F=31, V=VOCABULARY, L=2)
    found = drawn(bound.weight_shapes())
    assert error(bound.reference(tokens(), weights=found), twins.linear_attention(tokens(), found, layers=2)) < TOLERANCE


def test_loss_is_cross_entropy() -> None:
    logits = 3 * np.random.default_rng(0).standard_normal((2, LENGTH, VOCABULARY))
    theirs = torch.nn.functional.cross_entropy(torch.from_numpy(logits).flatten(0, 1), torch.from_numpy(tokens()).flatten())
    ours = einformer.load("loss")["Loss"].bind().reference(logits, tokens(), weights={})
    assert error(np.asarray(ours), theirs.numpy()) < TOLERANCE
