"""What does a config mean that does not say it? A key that is absent stands for what it is in transformers."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from itertools import product
from typing import Any

import pytest
from huggingface_hub.errors import StrictDataclassError
from transformers import AutoConfig

import einformer
from einformer import EinformerError
from einformer.huggingface.config import import_config
from tests.few import FEW_FAMILIES, few
from tests.toys import TOYS

KINDS = {kind: name for name, (kind, _) in reversed(TOYS.items())}


def written(kind: str, keys: Mapping[str, Any]) -> dict[str, Any]:
    """The config.json of transformers; the kinds of layers only where they are given, as older files do."""
    config: dict[str, Any] = json.loads(AutoConfig.for_model(kind, **keys).to_json_string(use_diff=False))
    return {key: value for key, value in config.items() if key != "layer_types" or key in keys}


def silent(kind: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Each key, with the config in which transformers chose it."""
    given = TOYS[KINDS[kind]][1]
    for key in written(kind, given):
        try:
            yield key, written(kind, json.loads(json.dumps({each: given[each] for each in given if each != key})))
        except (StrictDataclassError, ValueError):  # what it would choose does not fit the other sizes
            continue


def said(config: Mapping[str, Any]) -> object:
    """What a config says, as it says it; or the codes of what is wrong."""
    try:
        found = import_config(config)
    except EinformerError as error:
        return [finding.code for finding in error.findings]
    return found.architecture, found.values, found.scalars, found.absent, found.initialisation


def meant(config: Mapping[str, Any]) -> object:
    """Every size and scalar but Π, from which ρ follows; or the codes of what is wrong."""
    try:
        legend = einformer.from_huggingface(config).legend
    except EinformerError as error:
        return [finding.code for finding in error.findings]
    lengths = {letter: legend.length(letter) for letter in legend.axes if letter not in "bs"}
    return lengths, {
        name: [legend.element(scalar, list(places)) for places in product(*(range(lengths[i.letter]) for i in scalar.indices))]
        for name, scalar in legend.scalars.items()
        if name != "Π"
    }


@pytest.mark.parametrize("kind", few(KINDS, FEW_FAMILIES - {"llama4_text"}))
def test_an_absent_key_is_what_it_is_in_transformers(kind: str) -> None:
    """Where a key may be left out: sizes have to be said."""
    for key, config in silent(kind):
        without = {each: value for each, value in config.items() if each != key}
        if said(config) != said(without) and said(without) != ["E613"] and said(config) != ["E615"]:
            assert meant(config) == meant(without), key
