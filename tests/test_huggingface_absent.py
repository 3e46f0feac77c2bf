"""How large is a model whose config leaves out a size? As large as that of transformers."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from huggingface_hub.errors import StrictDataclassError
from transformers import AutoConfig, AutoModelForCausalLM

import einformer
from einformer import EinformerError
from einformer.huggingface.families import family
from tests.test_huggingface_keys import Config
from tests.toys import FIRST, config_of

pytestmark = pytest.mark.slow


def wrong(config: Config) -> list[str]:
    """What is wrong with a config, but for where its numbers come from."""
    try:
        einformer.from_huggingface(config)
    except EinformerError as error:
        return [f"{finding.code} {finding.message}" for finding in error.findings]
    return []


# Theirs then has a map out of the attention that does not fit the heads, or heads that are not what they say they are.
BROKEN = {("helium", "head_dim"), ("longcat_flash", "qk_nope_head_dim")}


@pytest.mark.parametrize("kind", FIRST)
def test_without_a_size_there_are_as_many_parameters(kind: str) -> None:
    """As transformers has on the meta device, whatever its code takes an absent size to be; or the config is refused."""
    models: Any = AutoModelForCausalLM
    config = config_of(FIRST[kind])
    for key in [key.key for key in family(kind).keys if key.whole and key.key in config and not key.agrees]:
        without = {name: value for name, value in config.items() if name != key}
        if (kind, key) in BROKEN:
            continue
        if not (found := wrong(without)):
            try:
                with torch.device("meta"):
                    model = models.from_config(AutoConfig.for_model(**without))
            except (StrictDataclassError, TypeError, ValueError):
                continue  # transformers has no default that fits the other sizes
            expected = sum(parameter.numel() for parameter in model.parameters())
            assert einformer.from_huggingface(without).num_parameters == expected, key
        else:
            assert {finding[:4] for finding in found} <= {"E602", "E613", "E615"}
