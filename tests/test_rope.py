"""Are positions stretched as transformers stretches them? Where the length of the sequence decides, and where it may not."""

from __future__ import annotations

import copy
import functools
from typing import Any

import numpy as np
import pytest
import torch
from transformers import AutoConfig, AutoModelForCausalLM

import einformer
from einformer import EinformerError
from einformer.huggingface.config import import_config
from tests.oracles.lifted import Array, build, run
from tests.oracles.of_toys import modeling
from tests.toy_keys import DYNAMIC, LLAMA3, LONG, VOCABULARY, YARN, grouped
from tests.toys import TOYS, config_of

TOLERANCE = 1e-9  # float64 on both sides
MODELING = "transformers.models.llama.modeling_llama"
SHORT, LONGER = 37, 83
LENGTH = "original_max_position_embeddings"
SCALED: dict[str, dict[str, Any]] = {
    "dynamic": grouped(12, DYNAMIC, max_position_embeddings=64),
    "longrope": grouped(12, LONG, max_position_embeddings=256),
    "longrope by a factor": grouped(12, LONG | {"factor": 5.0}, max_position_embeddings=256),
    "longrope of no factor": grouped(12, LONG | {"factor": 0.5}, max_position_embeddings=256),
}

LISTS = {"short_factor": LONG["short_factor"][:2], "long_factor": LONG["long_factor"][:2]}
UNSAID = {
    f"{rope['rope_type']} of no length": grouped(
        12, {key: value for key, value in rope.items() if key != LENGTH}, max_position_embeddings=64
    )
    for rope in (YARN, LLAMA3, LONG)
}


def tokens(length: int) -> Array:
    return np.random.default_rng(0).integers(VOCABULARY, size=(2, length))


@functools.cache
def theirs(name: str) -> Any:
    models: Any = AutoModelForCausalLM
    config = AutoConfig.for_model("llama", **copy.deepcopy((SCALED | UNSAID)[name]))  # theirs writes into what it is given
    return build(MODELING, lambda: models.from_config(config, attn_implementation="eager"), "fan_in")


def ours(name: str, length: int | None = None) -> Any:
    config = (SCALED | UNSAID)[name] | {"model_type": "llama"}
    module: Any = einformer.from_huggingface(config, length=length).build(dtype=torch.float64).eval()
    module.load_huggingface(theirs(name).state_dict())
    return module


def error(found: torch.Tensor, expected: Array) -> float:
    return float(np.abs(found.detach().numpy() - expected).max())


@pytest.mark.parametrize("length", [None, SHORT, LONGER])
@pytest.mark.parametrize("name", SCALED)
def test_angles_are_those_for_the_length(name: str, length: int | None) -> None:
    """Theirs look at each sequence; ours are told, and without a word they are those from before stretching."""
    sequence = tokens(length or SHORT)
    assert error(ours(name, length)(torch.from_numpy(sequence)), run(MODELING, theirs(name), sequence)) < TOLERANCE


@pytest.mark.parametrize("name", SCALED)
def test_the_length_matters(name: str) -> None:
    expected = run(MODELING, theirs(name), tokens(LONGER))
    assert error(ours(name)(torch.from_numpy(tokens(LONGER))), expected) > 1e-3


@pytest.mark.parametrize("name", SCALED)
def test_decoding_beyond_the_old_length_is_the_full_forward(name: str) -> None:
    """What was turned and kept stays right, as the angles do not change on the way."""
    module, sequence = ours(name, LONGER), torch.from_numpy(tokens(LONGER))
    cache = module.cache()
    outputs = [module.decode(part, cache=cache) for part in torch.split(sequence, [50, 20, *[1] * 13], 1)]
    assert error(torch.cat(outputs, 1), module(sequence).detach().numpy()) < TOLERANCE


def phimoe(**rope: Any) -> Any:
    """Theirs, with other entries of what stretches it."""
    models: Any = AutoModelForCausalLM
    keys = copy.deepcopy(TOYS["phimoe_longrope"][1])
    config = AutoConfig.for_model("phimoe", **keys | {"rope_parameters": keys["rope_parameters"] | rope})
    options = {"attn_implementation": "eager", "experts_implementation": "eager"}
    return build(modeling("phimoe"), lambda: models.from_config(config, **options), "fan_in")


def test_phimoe_beyond_its_first_length_has_the_long_factors() -> None:
    """As theirs if it is told so: else it keeps the short ones there, and changes the size of the rotation alone."""
    module: Any = einformer.from_huggingface(config_of("phimoe_longrope"), length=LONGER).build(dtype=torch.float64).eval()
    told = phimoe(short_factor=[2.0, 3.0])
    module.load_huggingface(told.state_dict())
    found = module(torch.from_numpy(tokens(LONGER)))
    assert error(found, run(modeling("phimoe"), told, tokens(LONGER))) < TOLERANCE
    assert error(found, run(modeling("phimoe"), phimoe(), tokens(LONGER))) > 1e-3


def test_a_length_has_no_say_where_angles_do_not_depend_on_it() -> None:
    config = grouped(12) | {"model_type": "llama"}
    assert einformer.from_huggingface(config, length=512).spec == einformer.from_huggingface(config).spec


@pytest.mark.parametrize(
    ("changes", "code", "key"),
    [
        ({"rope_parameters": LONG | {"short_factor": None}}, "E613", "rope.short_factor"),
        ({"rope_parameters": LONG | {"long_factor": "many"}}, "E614", "rope.long_factor"),
        ({"rope_parameters": LONG | {"long_factor": [1.0, 0.0]}}, "E614", "rope.long_factor"),
        ({"rope_parameters": LONG | {"short_factor": [1.0, 2.0]}}, "E606", "Γ"),
        ({"rope_parameters": YARN | {"low_freq_factor": 1.0}}, "E612", "rope.low_freq_factor"),
        ({"rope_parameters": YARN | {LENGTH: 0}}, "E614", LENGTH),
        ({"rope_parameters": {"rope_type": "spiral"}}, "E616", "rope.rope_type"),
        ({"rope_parameters": {"rope_type": "dynamic"}}, "E613", "rope.factor"),
    ],
)
def test_what_cannot_be_read_is_named(changes: dict[str, Any], code: str, key: str) -> None:
    with pytest.raises(EinformerError) as refused:
        einformer.from_huggingface(grouped(12) | {"model_type": "llama"} | changes)
    assert [finding.code for finding in refused.value.findings] == [code]
    assert f"`{key}" in str(refused.value) or f".{key}`" in str(refused.value)


@pytest.mark.parametrize("name", UNSAID)
def test_the_length_before_stretching_is_the_whole_where_none_is_said(name: str) -> None:
    """As theirs; and with neither there is an error."""
    assert error(ours(name)(torch.from_numpy(tokens(SHORT))), run(MODELING, theirs(name), tokens(SHORT))) < TOLERANCE
    config = {key: value for key, value in UNSAID[name].items() if key != "max_position_embeddings"}
    with pytest.raises(EinformerError) as refused:
        einformer.from_huggingface(config | {"model_type": "llama"})
    assert {finding.code for finding in refused.value.findings} == {"E613"}


OLD: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    "llama": (
        "llama",
        {"rope_theta": 500.0, "rope_scaling": {"type": "linear", "factor": 3.0}},
        {"rope_parameters": {"rope_type": "linear", "factor": 3.0, "rope_theta": 500.0}},
    ),
    "gemma3": (
        "gemma3_text",
        {"rope_theta": 500.0, "rope_local_base_freq": 90.0, "rope_scaling": {"rope_type": "linear", "factor": 8.0}},
        {
            "rope_parameters": {
                "full_attention": {"rope_type": "linear", "factor": 8.0, "rope_theta": 500.0},
                "sliding_attention": {"rope_type": "default", "rope_theta": 90.0},
            }
        },
    ),
    "olmo3": (
        "olmo3",
        {"rope_theta": 500.0, "rope_scaling": {"rope_type": "linear", "factor": 8.0}},
        {
            "rope_parameters": {
                "full_attention": {"rope_type": "linear", "factor": 8.0, "rope_theta": 500.0},
                "sliding_attention": {"rope_type": "default", "rope_theta": 500000.0},
            }
        },
    ),
    "phi3": (
        "phi3",
        {"partial_rotary_factor": 0.5, "rope_theta": 500.0, "rope_scaling": {"type": "longrope", **LISTS}, LENGTH: 64},
        {
            "rope_parameters": {
                "rope_type": "longrope",
                "partial_rotary_factor": 0.5,
                "rope_theta": 500.0,
                **LISTS,
                LENGTH: 64,
            },
            LENGTH: 64,
        },
    ),
    "gpt_neox": (
        "gpt_neox",
        {"rotary_pct": 0.5, "rotary_emb_base": 500, "rope_scaling": {"type": "dynamic", "factor": 2.0}},
        {"rope_parameters": {"rope_type": "dynamic", "factor": 2.0, "partial_rotary_factor": 0.5, "rope_theta": 500}},
    ),
}


def plain(parameters: dict[str, Any]) -> dict[str, Any]:
    """Without the old name of the type, which theirs keeps beside the new one."""
    inner = {key: plain(value) if isinstance(value, dict) else value for key, value in parameters.items()}
    return {key: value for key, value in inner.items() if key != "type"}


@pytest.mark.parametrize(("kind", "old", "new"), OLD.values(), ids=OLD)
def test_old_names_mean_what_the_new_ones_mean(kind: str, old: dict[str, Any], new: dict[str, Any]) -> None:
    """To theirs, and to us."""
    left_out = {"rope_parameters", "num_key_value_heads", "rms_norm_eps"}
    sizes = {key: value for key, value in grouped(None, hidden_size=120).items() if key not in left_out}
    theirs_old, theirs_new = (AutoConfig.for_model(kind, **copy.deepcopy(sizes | keys)) for keys in (old, new))
    assert plain(theirs_old.rope_parameters) == plain(theirs_new.rope_parameters)
    ours_old, ours_new = (import_config(sizes | keys | {"model_type": kind}) for keys in (old, new))
    assert (ours_old.values, ours_old.scalars) == (ours_new.values, ours_new.scalars)
