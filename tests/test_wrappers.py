"""Is the text part of a config of several parts read exactly, and is what is left out named?"""

from __future__ import annotations

import contextlib
import copy
import functools
import importlib
import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from transformers import AutoConfig, AutoModel, AutoModelForCausalLM, AutoModelForImageTextToText
from transformers.models.auto.configuration_auto import CONFIG_MAPPING
from transformers.models.auto.modeling_auto import (
    MODEL_FOR_CAUSAL_LM_MAPPING_NAMES,
    MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES,
)

import einformer
from einformer import EinformerError
from einformer.cli import main
from einformer.huggingface.families import families
from einformer.huggingface.wrappers import alike, flat, refused, wrappers
from tests.examples import make_page
from tests.few import few
from tests.oracles.lifted import build, run
from tests.oracles.of_toys import TOLERANCE, tokens
from tests.toy_keys import EXPERTS, MULTIPLIERS, ROPE, grouped

Config = Mapping[str, Any]
CAUSAL: Any = MODEL_FOR_CAUSAL_LM_MAPPING_NAMES
OF_IMAGES: Any = MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES
CONFIGS: Any = CONFIG_MAPPING


def test_every_type_of_transformers_is_read_or_refused_by_name() -> None:
    known = [*families(), *wrappers(), *alike(), *flat(), *refused()]
    assert {*CAUSAL, *OF_IMAGES} - set(known) == set()
    assert {kind for kind in known if known.count(kind) > 1} == flat().keys() & wrappers().keys()
    assert set(known) - {*CONFIG_MAPPING} <= {"kimi_k2", *alike()}


@pytest.mark.parametrize("kind", sorted(refused()))
def test_a_refused_type_names_the_missing_form(kind: str) -> None:
    with refuses("E611", f'"{kind}"', refused()[kind]):
        einformer.from_huggingface({"model_type": kind, "text_config": {"model_type": "llama"}})


@contextlib.contextmanager
def refuses(code: str, *words: str) -> Iterator[None]:
    with pytest.raises(EinformerError) as error:
        yield
    (finding,) = error.value.findings
    assert finding.code == code
    assert [word for word in words if word not in str(finding)] == []


# ------------------------------------------------------------------------------------------------------ real wrappers

# Theirs needs another package, or more than its defaults; of the last, ours needs the sizes.
UNMADE = {"aya_vision", "fast_vlm", "gemma3n", "granite4_vision", "hunyuan_vl", "perception_lm", "nemotron_h_omni"}
PARTS = ("model.language_model.", "language_model.", "model.text_model.", "lm_head.")


def bare(kind: str, **keys: object) -> dict[str, Any]:
    """A config that leaves out all that transformers has a default for."""
    head = {"head_dim": 128} if kind in ("glm4v_moe", "qwen3_omni_moe_thinker") else {}  # theirs is not whole
    return {"model_type": kind, "text_config": {"model_type": wrappers()[kind], "num_hidden_layers": 5, **head}, **keys}


def theirs(config: Config) -> nn.Module:
    """Their whole model on the meta device."""
    kind, keys = config["model_type"], copy.deepcopy(dict(config))
    models: Any = AutoModelForImageTextToText if kind in OF_IMAGES else AutoModelForCausalLM
    with torch.device("meta"):
        module: nn.Module = models.from_config(CONFIGS[kind](**{k: v for k, v in keys.items() if k != "model_type"}))
    module.tie_weights()  # type: ignore[operator]
    return module


@pytest.mark.parametrize("kind", few(sorted(wrappers().keys() - UNMADE), {"gemma3", "llava", "qwen3_vl"}))
def test_parameters_of_the_text_part_are_theirs(kind: str) -> None:
    config = bare(kind)
    numbers = [p.numel() for name, p in theirs(config).named_parameters() if name.startswith(PARTS)]
    assert einformer.from_huggingface(config).num_parameters == sum(numbers)


@pytest.mark.slow
@pytest.mark.parametrize("kind", sorted(wrappers().keys() - UNMADE))
def test_the_whole_or_the_part_ties_the_head(kind: str) -> None:
    """As in transformers, whoever says it, or nobody."""
    for whole, part in [(a, b) for a in (None, True, False) for b in (None, True, False)]:
        config = bare(kind, **{} if whole is None else {"tie_word_embeddings": whole})
        config["text_config"] |= {"num_hidden_layers": 1} | ({} if part is None else {"tie_word_embeddings": part})
        heads = [name for name, _ in theirs(config).named_parameters() if "lm_head" in name]
        assert has_head(config) == bool(heads), (whole, part)


def has_head(config: Config) -> bool:
    """Whether logits read a table of their own; the texts of some families have none, and refuse it."""
    try:
        return "U" in einformer.from_huggingface(config).weight_shapes()
    except EinformerError as error:
        return error.findings[0].code == "E616"


@pytest.mark.parametrize("kind", sorted(flat()))
def test_a_flat_config_is_its_text_part(kind: str) -> None:
    config = json.loads(CONFIGS[kind]().to_json_string(use_diff=False))
    config |= {k: v for k, v in config.pop("text_config", {}).items() if k != "layer_types"}
    config |= {"model_type": kind, "num_hidden_layers": 2}
    with torch.device("meta"):
        models: Any = AutoModelForImageTextToText if kind in OF_IMAGES else AutoModelForCausalLM
        module = models.from_config(CONFIGS[kind](**{k: v for k, v in config.items() if k != "model_type"}))
    others = ("model.visual", "model.projector", "model.embed_tokens_extend")
    numbers = [p.numel() for name, p in module.named_parameters() if not name.startswith(others)]
    assert einformer.from_huggingface(config).num_parameters == sum(numbers)


# -------------------------------------------------------------------------------------- types that compute as a family

IMAGES: dict[str, Any] = ROPE | {"mrope_section": [2, 2, 2]}
PARTIAL_IMAGES: dict[str, Any] = IMAGES | {"partial_rotary_factor": 0.5}
GLM_EXPERTS: dict[str, Any] = {"moe_intermediate_size": 9, "n_shared_experts": 2, "n_routed_experts": 12}
GLM_EXPERTS |= {"num_experts_per_tok": 5, "routed_scaling_factor": 1.7, "first_k_dense_replace": 1}
TOYS: dict[str, dict[str, Any]] = {
    "qwen2_vl_text": grouped(None, IMAGES, hidden_size=180),
    "qwen2_5_vl_text": grouped(None, IMAGES, hidden_size=180),
    "qwen2_5_omni_text": grouped(None, IMAGES, hidden_size=180),
    "qwen3_vl_text": grouped(12, IMAGES),
    "qwen3_vl_moe_text": grouped(12, IMAGES, **EXPERTS),
    "qwen3_omni_moe_text": grouped(12, IMAGES, norm_topk_prob=True, **EXPERTS),
    "glm4v_text": grouped(None, PARTIAL_IMAGES, hidden_size=360),
    "glm4v_moe_text": grouped(24, PARTIAL_IMAGES, num_hidden_layers=3, **GLM_EXPERTS),
    "hunyuan_vl_text": grouped(12, ROPE | {"xdrope_section": [2, 2, 2, 0]}),
    "granite_docling_text": grouped(None, hidden_size=60, **MULTIPLIERS),
    "granite4_vision_text": grouped(None, hidden_size=60, **MULTIPLIERS),
    "paddleocr_vl_text": grouped(12, IMAGES),
    "glm_ocr_text": grouped(None, PARTIAL_IMAGES, hidden_size=360),
}
CLASSES = {
    "paddleocr_vl_text": ("paddleocr_vl", "PaddleOCRTextModel"),  # of text models that `AutoModel` does not know
    "qwen2_5_omni_text": ("qwen2_5_omni", "Qwen2_5OmniThinkerTextModel"),
    "qwen3_omni_moe_text": ("qwen3_omni_moe", "Qwen3OmniMoeThinkerTextModel"),
    "granite4_vision_text": ("granite4_vision", "Granite4VisionTextModel"),
}
EAGER: dict[str, Any] = {"attn_implementation": "eager", "experts_implementation": "eager"}


class Headed(nn.Module):
    """Their text model under the name that wrappers give it, with a head."""

    def __init__(self, config: Any) -> None:
        super().__init__()
        folder, name = CLASSES.get(config.model_type, ("", ""))
        models: Any = AutoModel
        make = getattr(importlib.import_module(_modeling(folder)), name)._from_config if folder else models.from_config
        text: Any = make(config, **EAGER)
        self.model = nn.ModuleDict({"language_model": text})
        self.lm_head = nn.Linear(config.hidden_size, config.vocab_size, bias=False)
        self.scale = getattr(config, "logits_scaling", 1)
        if config.tie_word_embeddings:
            self.lm_head.weight = text.embed_tokens.weight

    def forward(self, numbers: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = self.lm_head(self.model["language_model"](numbers, use_cache=False).last_hidden_state)
        return found / self.scale


def _modeling(folder: str) -> str:
    return f"transformers.models.{folder}.modeling_{folder}"


@functools.cache
def headed(kind: str) -> Any:
    config = AutoConfig.for_model(kind, **TOYS[kind])
    if not hasattr(config, "tie_word_embeddings"):
        config.tie_word_embeddings = False
    return config, build(_folder_of(kind), lambda: Headed(copy.deepcopy(config)), "fan_in")


def _folder_of(kind: str) -> str:
    folder = CLASSES.get(kind, (kind.removesuffix("_text"), ""))[0]
    importlib.import_module(_modeling(folder))
    return _modeling(folder)


def wrapped(kind: str) -> dict[str, Any]:
    """What a file of a wrapper nobody knows holds."""
    text = json.loads(headed(kind)[0].to_json_string(use_diff=False))
    return {"model_type": "unknown_vl", "llm_config": text, "vision_config": {"model_type": "some_tower"}}


def test_every_type_alike_has_a_toy() -> None:
    assert TOYS.keys() == {kind for kind in alike() if kind not in CAUSAL and kind in CONFIGS}


@pytest.mark.parametrize("kind", few(TOYS, {"qwen3_vl_text", "glm_ocr_text"}))
def test_logits_of_a_text_part_are_theirs(kind: str) -> None:
    """Tensors are found under the prefix of the wrapper; those of other parts are returned with the reason."""
    _, module = headed(kind)
    expected = run(_folder_of(kind), module, tokens())
    model = einformer.from_huggingface(wrapped(kind))
    ours: Any = model.build(dtype=torch.float64).eval()
    state = module.state_dict()
    ignored = ours.load_huggingface({**state, "vision_tower.patch.weight": torch.zeros(3)})
    assert ignored == {"vision_tower.patch.weight": "of another part than the text part"}
    with torch.no_grad():
        found = ours(torch.from_numpy(tokens())).numpy()
    assert np.abs(found - expected).max() < TOLERANCE * max(1.0, np.abs(expected).max())
    assert model.num_parameters == sum(p.numel() for p in module.parameters())
    back = ours.to_huggingface()
    assert {name.replace("model.", "model.language_model.", 1): 0 for name in back}.keys() == state.keys()
    assert all(torch.equal(back[name.replace("language_model.", "")], state[name]) for name in state)


def test_older_files_name_the_head_otherwise() -> None:
    _, module = headed("qwen3_vl_text")
    state = {name: tensor for name, tensor in module.state_dict().items() if name != "lm_head.weight"}
    older = {name.replace("model.language_model.", "language_model.model."): tensor for name, tensor in state.items()}
    older["language_model.lm_head.weight"] = module.state_dict()["lm_head.weight"]
    ours: Any = einformer.from_huggingface(wrapped("qwen3_vl_text")).build(dtype=torch.float64)
    assert ours.load_huggingface(older) == {}
    with refuses("E704", "`vision.embed_tokens.weight`", "cannot be told"):
        ours.load_huggingface({**older, "vision.embed_tokens.weight": torch.zeros(3)})
    with refuses("E704", "`language_model.model.layers.7.mlp.gate_proj.weight`"):
        ours.load_huggingface({**older, "language_model.model.layers.7.mlp.gate_proj.weight": torch.zeros(3)})


@pytest.mark.parametrize("kind", few(TOYS, {"glm4v_text"}))
def test_the_text_part_is_saved_as_a_model_of_its_own(kind: str, tmp_path: Path) -> None:
    _, module = headed(kind)
    ours: Any = einformer.from_huggingface(wrapped(kind)).build(dtype=torch.float64).eval()
    ours.load_huggingface(module.state_dict())
    ours.save_huggingface(tmp_path)
    models: Any = AutoModelForCausalLM
    alone = models.from_pretrained(tmp_path, dtype=torch.float32, **EAGER).eval()
    with torch.no_grad():
        found, expected = alone(torch.from_numpy(tokens())).logits, ours(torch.from_numpy(tokens()))
    assert (found - expected).abs().max() < 1e-4
    assert einformer.from_huggingface(tmp_path).num_parameters == einformer.from_huggingface(wrapped(kind)).num_parameters


# ---------------------------------------------------------------------------------------------------------- outputs

LLAVA: dict[str, Any] = {
    "model_type": "llava",
    "text_config": {"model_type": "llama", "vocab_size": 32064},
    "vision_config": {"model_type": "clip_vision_model"},
    "image_token_index": 32000,
}


@pytest.mark.parametrize("command", [["count"], ["source"], ["fit", "--memory", "80GB", "--generation"], ["report", "--json"]])
def test_every_output_says_that_it_is_a_part(command: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    small = {"hidden_size": 64, "num_attention_heads": 4, "intermediate_size": 32, "num_hidden_layers": 2}
    (tmp_path / "config.json").write_text(json.dumps(LLAVA | {"text_config": {"model_type": "llama", **small}}))
    assert main([command[0], str(tmp_path), *command[1:]]) in (0, 1)  # a check of the report may fail
    said = " ".join(capsys.readouterr().out.split())
    assert "text part `text_config` of llava; not counted: `vision_config` (clip_vision_model), what joins the parts" in said


def test_parameters_are_those_of_the_text_part(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "config.json").write_text(json.dumps(LLAVA))
    assert main(["count", str(tmp_path)]) == 0
    assert "parameters of the text part  6,738,939,904" in capsys.readouterr().out
    assert main(["count", str(tmp_path), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["not_counted"] == ["`vision_config` (clip_vision_model)", "what joins the parts"]


@pytest.mark.parametrize(
    ("config", "code", "named"),
    [
        ({"model_type": "gemma3"}, "E613", ["gemma3", "`text_config`"]),
        ({"model_type": "gemma3", "text_config": []}, "E613", ["gemma3", "`text_config`"]),
        ({"model_type": "x", "text_config": {}}, "E613", ["`model_type`", "`text_config`"]),
        ({"model_type": "x", "llm_config": {"model_type": "internlm2"}}, "E611", ['"internlm2"', "`llm_config`"]),
        ({"model_type": "x", "thinker_config": {"text_config": {"model_type": "y"}}}, "E611", ["`thinker_config.text_config`"]),
        ({"model_type": "x", "text_config": {"model_type": "mllama"}}, "E611", ["`text_config`", "encoder"]),
        ({"text_config": {"model_type": "llama", "hidden_size": -1}}, "E614", ["`hidden_size`", "-1"]),
        ({"text_config": {"model_type": "llama", "unknown": 1}}, "E612", ["`unknown`"]),
    ],
)
def test_one_clear_error(config: Config, code: str, named: list[str]) -> None:
    with refuses(code, *named):
        einformer.from_huggingface(config)


def test_an_error_stands_at_its_place_in_the_file(tmp_path: Path) -> None:
    text = '{\n  "model_type": "llava",\n  "text_config": {\n    "model_type": "llama",\n    "hidden_size": 0\n  }\n}\n'
    (tmp_path / "config.json").write_text(text)
    with refuses("E614", "config.json:5"):
        einformer.from_huggingface(tmp_path)


def test_the_page_of_model_types_is_the_tables() -> None:
    rows = re.findall(r"^\| `([\w.-]+)` \| (read|text part|refused) \| \S", make_page("models"), re.M)
    assert {kind for kind, state in rows if state == "read"} == {*families(), *alike()}
    assert {kind for kind, state in rows if state == "refused"} == {*refused()}
