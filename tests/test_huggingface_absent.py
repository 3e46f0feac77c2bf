"""What does a key stand for that a config leaves out? What transformers takes it to be."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from huggingface_hub.errors import StrictDataclassError
from transformers import AutoConfig, AutoModelForCausalLM

import einformer
from einformer.errors import EinformerError
from einformer.huggingface.families import family
from einformer.model import Model
from einformer.notation.binding import known
from tests.test_huggingface_keys import Config, verdict
from tests.toys import TOYS, config_of

pytestmark = pytest.mark.slow

NO_KEY = object()


def theirs(config: Config, key: str) -> object:
    """What transformers takes a key of a config to be, if it takes the config at all."""
    try:
        found: Any = AutoConfig.for_model(**config)
    except StrictDataclassError:
        return NO_KEY
    rope = getattr(found, "rope_parameters", None) or {}
    return rope.get("rope_theta", NO_KEY) if key == "rope_theta" else getattr(found, key, NO_KEY)


def wrong(config: Config) -> list[str]:
    """What is wrong with a config, but for where its numbers come from."""
    try:
        einformer.from_huggingface(config)
    except EinformerError as error:
        return [f"{finding.code} {finding.message}" for finding in error.findings]
    return []


def meaning(config: Config) -> tuple[object, ...]:
    """Sizes, layers, and the values of scalars at every place, of those that both ways of saying it have."""
    model: Model = einformer.from_huggingface(config)
    return known(model.legend), model.spec.written.layers, {name: _values(model, name) for name in model.legend.scalars}


def _values(model: Model, name: str) -> list[float]:
    scalar = model.legend.scalars[name]
    (index,) = scalar.indices or (None,)
    places = [[turn] for turn in range(model.legend.length(index.letter))] if index else [[]]
    return [float(model.legend.element(scalar, place)) for place in places]


def same(one: Config, other: Config) -> bool:
    if wrong(one) or wrong(other):
        return wrong(one) == wrong(other)
    (sizes, layers, scalars), (others, their_layers, theirs) = meaning(one), meaning(other)
    assert isinstance(scalars, dict)
    assert isinstance(theirs, dict)
    common = scalars.keys() & theirs.keys() - {"Π"}  # ρ follows from it, where none is said
    return sizes == others and layers == their_layers and all(scalars[name] == theirs[name] for name in common)


TOY_OF = {kind: name for name, (kind, _) in reversed(TOYS.items())}


@pytest.mark.parametrize("kind", TOY_OF)
def test_an_absent_key_is_what_transformers_takes_it_to_be(kind: str) -> None:
    """A config without a key is one with the default of transformers, or is refused."""
    config, table = config_of(TOY_OF[kind]), family(kind)
    agreeing = {key.key for key in table.keys if key.agrees}  # they have no say of their own
    for key in {key for key in table.known if "." not in key} - {*table.ignored, *agreeing, "model_type", "rope"}:
        without = {name: value for name, value in config.items() if name != key}
        if isinstance(verdict(without), tuple) and (default := theirs(without, key)) is not NO_KEY:
            explicit = {**without, key: default}
            assert verdict(explicit) == verdict(without) or same(explicit, without), key


@pytest.mark.parametrize("kind", TOY_OF)
def test_without_a_size_there_are_as_many_parameters(kind: str) -> None:
    """As transformers has on the meta device, whatever its code takes an absent size to be; or the config is refused."""
    models: Any = AutoModelForCausalLM
    config = config_of(TOY_OF[kind])
    for key in [key.key for key in family(kind).keys if key.whole and key.key in config and not key.agrees]:
        without = {name: value for name, value in config.items() if name != key}
        if not (found := wrong(without)):
            with torch.device("meta"):
                model = models.from_config(AutoConfig.for_model(**without))
            expected = sum(parameter.numel() for parameter in model.parameters())
            assert einformer.from_huggingface(without).num_parameters == expected, key
        else:
            assert {finding[:4] for finding in found} <= {"E602", "E613", "E615"}
