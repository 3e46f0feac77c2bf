"""Are configs read in the form in which authors of models publish them, with all the keys that transformers never writes?

`tests/data/hub.json` has one of each family. How many numbers it makes is counted in transformers' model on the meta device.
"""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoConfig

import einformer
from einformer import EinformerError
from tests.few import few
from tests.oracles.of_toys import class_of
from tests.refusals import refuses
from tests.toys_2026 import OF_2026

HUB: dict[str, dict[str, Any]] = json.loads((Path(__file__).parent / "data" / "hub.json").read_text(encoding="utf-8"))


def theirs(config: dict[str, Any]) -> int:
    """The numbers in transformers' model."""
    models: Any = class_of(config["model_type"])
    with torch.device("meta"):
        model = models.from_config(AutoConfig.for_model(**copy.deepcopy(config)))
    return sum(parameter.numel() for parameter in model.parameters())


@pytest.mark.parametrize("name", few(HUB, {"openai-gpt", "dbrx-instruct", "MiniMax-M2", "mamba-130m-hf", "LFM2-1.2B"}))
def test_parameters_are_theirs(name: str) -> None:
    assert einformer.from_huggingface(HUB[name]).num_parameters == theirs(HUB[name])


KINDS = sorted({kind for kind, _ in OF_2026.values()})
UNSAID: dict[str, dict[str, Any]] = {  # what a model needs beside the sizes that transformers gives it
    "bamba": {"attn_layer_indices": [9, 18, 27]},
    "granitemoe_swa": {"shared_intermediate_size": 1024},
    "nemotron_h": {"layers_block_type": ["mamba", "mlp", "mamba", "attention", "moe"] * 8},
}


@pytest.mark.parametrize("kind", few(KINDS, {"ministral3"}))
def test_parameters_at_the_sizes_of_transformers(kind: str) -> None:
    """Real sizes: those of the checkpoint that the class of each config names."""
    keys = AutoConfig.for_model(kind, **UNSAID.get(kind, {})).to_json_string(use_diff=False)
    config = {key: value for key, value in json.loads(keys).items() if key != "time_step_limit"}
    assert einformer.from_huggingface(config).num_parameters == theirs(config)


@pytest.mark.parametrize(("last", "read"), [(-1, True), (27, True), (None, True), (26, False), (28, False)])
def test_a_mixture_goes_on_to_the_last_layer(last: int | None, read: bool) -> None:
    """ERNIE says where its mixtures end: at the end, or elsewhere, which is refused."""
    config = HUB["ERNIE-4.5-21B-A3B-PT"] | {"moe_layer_end_index": last}
    if read:
        assert einformer.from_huggingface(config).num_parameters == theirs(HUB["ERNIE-4.5-21B-A3B-PT"])
    else:
        with refuses("E615", "num_hidden_layers", "moe_layer_end_index"):
            einformer.from_huggingface(config)


@pytest.mark.parametrize("experts", [[8] * 31 + [7], [8] * 31, [], ["8"] * 32, [[8]] * 32, [1.5] * 32, [True] * 32])
def test_a_list_for_all_layers_says_one_number(experts: list[object]) -> None:
    """HunYuan says for each layer how many experts a token has: as many everywhere, and nothing else."""
    with pytest.raises(EinformerError) as error:
        einformer.from_huggingface(HUB["Hunyuan-A13B-Instruct"] | {"moe_topk": experts})
    assert [finding.code for finding in error.value.findings] == ["E614"]
