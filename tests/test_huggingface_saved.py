"""Does transformers make the same model of what we save: of our config.json, and of nothing else but our weights?"""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoConfig, AutoModelForCausalLM
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES, MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES

import einformer
from tests.commands import read_json
from tests.oracles.of_toys import class_of, ours, tokens
from tests.shipped import families
from tests.toys import TOYS, config_of, toy

KINDS = {"llama", "mixtral", "deepseek_v3", "gemma2", "bloom", "gpt_neox", "mamba2", "jamba", "minimax_text"}  # one of each
EACH = [name if name in KINDS else pytest.param(name, marks=pytest.mark.slow) for name in TOYS]
EAGER = {"experts_implementation": "eager"}  # theirs groups experts of no odd size


@pytest.fixture(autouse=True)
def offline(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever asks for a file from elsewhere fails."""
    monkeypatch.setattr("socket.socket.connect", None)


def drawn(name: str) -> Any:
    """Their model of a toy, with random gains and biases too."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        made = class_of(TOYS[name][0]).from_config(toy(name), dtype=torch.float32, **EAGER).eval()
        for parameter in made.parameters():
            parameter.data += 0.1 * torch.randn_like(parameter)
    return made


def logits(model: Any) -> torch.Tensor:
    with torch.no_grad():
        found: torch.Tensor = model(torch.from_numpy(tokens()), use_cache=False).logits
    return found


@pytest.mark.parametrize("name", EACH)
def test_transformers_makes_the_same_model_of_what_is_saved(name: str, tmp_path: Path) -> None:
    """To the bit: the same class, from the same numbers."""
    theirs = drawn(name)
    module: Any = ours(name).build().eval()
    module.load_huggingface(theirs.state_dict())
    module.save_huggingface(tmp_path)
    found = copy.deepcopy(
        class_of(TOYS[name][0]).from_pretrained(tmp_path, **EAGER)
    )  # numbers of a file lie so that some round otherwise
    assert type(found) is type(theirs)
    assert torch.equal(logits(found), logits(theirs))


def test_the_class_of_a_family_is_theirs() -> None:
    tables = read_json("explain", *families())
    names: Any = {**MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES, **MODEL_FOR_CAUSAL_LM_MAPPING_NAMES}
    assert {kind: table["class"] for kind, table in tables.items()} == {kind: names[kind] for kind in tables}


@pytest.mark.parametrize("said", ["dtype", "torch_dtype"])
def test_a_config_is_as_it_was_but_for_what_it_says_of_the_weights(said: str, tmp_path: Path) -> None:
    config = {"model_type": "llama", "hidden_size": 12, "num_attention_heads": 3, "num_hidden_layers": 1, "vocab_size": 11}
    config |= {"intermediate_size": 7, "rope_scaling": {"type": "linear", "factor": 2.0}, "rms_norm_eps": 1e-5}
    given = config | {"architectures": ["LlamaModel"], said: "float32"}
    module: Any = einformer.from_huggingface(given).build(dtype=torch.bfloat16).eval()
    module.save_huggingface(tmp_path)
    written = json.loads((tmp_path / "config.json").read_text(encoding="utf-8"))
    assert written == config | {"architectures": ["LlamaForCausalLM"], "torch_dtype": "bfloat16"}
    assert einformer.from_huggingface(tmp_path).num_parameters == einformer.from_huggingface(given).num_parameters
    assert AutoModelForCausalLM.from_pretrained(tmp_path).dtype == torch.bfloat16


def test_the_base_of_dbrx_is_where_transformers_reads_it(tmp_path: Path) -> None:
    """The authors' file has it in `attn_config` alone, where theirs does not look: it would turn by another angle."""
    theirs, config = drawn("dbrx"), config_of("dbrx")
    base = config.pop("rope_parameters")["rope_theta"]
    module: Any = einformer.from_huggingface(config).build().eval()
    module.load_huggingface(theirs.state_dict())
    module.save_huggingface(tmp_path)
    assert base == config["attn_config"]["rope_theta"] == 500
    assert AutoConfig.for_model("dbrx", attn_config=config["attn_config"]).rope_parameters["rope_theta"] == 10000
    assert torch.equal(logits(copy.deepcopy(AutoModelForCausalLM.from_pretrained(tmp_path, **EAGER))), logits(theirs))
