"""Are the bytes of quantized files those of the tensors that each method writes? By hand, and by transformers where it runs."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoConfig, AutoModelForCausalLM, FineGrainedFP8Config
from transformers.integrations.finegrained_fp8 import replace_with_fp8_linear

import einformer
from einformer.cli import main
from einformer.huggingface.config import read_config
from einformer.huggingface.quantized import read_quantization
from einformer.interpreters.count.conventions import PRECISIONS
from einformer.interpreters.count.numbers import Numbers
from einformer.notes.quantities import configs
from einformer.report.fit import count_weights, in_memory, name_stored
from tests.refusals import refuses

Tensor = tuple[tuple[int, ...], int]  # its shape, and the bytes of a number
Layout = Callable[[int, int], Mapping[str, Tensor]]

D, F, V, LAYERS = 256, 384, 512, 2
KEYS: dict[str, Any] = {
    "model_type": "llama",
    "vocab_size": V,
    "hidden_size": D,
    "intermediate_size": F,
    "num_hidden_layers": LAYERS,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "rms_norm_eps": 1e-5,
    "torch_dtype": "float16",
    "tie_word_embeddings": False,
}
MATRICES = {"q": (D, D), "k": (D // 2, D), "v": (D // 2, D), "o": (D, D), "gate": (F, D), "up": (F, D), "down": (D, F)}


def count(config: Mapping[str, Any], precision: str = "bfloat16") -> int:
    return count_weights(einformer.from_huggingface(config), PRECISIONS[precision])


def quantized(**keys: Any) -> dict[str, Any]:
    return KEYS | {"quantization_config": keys}


def by_hand(layout: Layout, left: tuple[str, ...] = (), head: bool = False, element: int = 2) -> int:
    """Two tables, two norms for each layer and one more, and the tensors of each matrix."""
    plain = element * (V * D + (2 * LAYERS + 1) * D + V * D * (not head))
    stored = [*(MATRICES[name] for name in MATRICES if name not in left), *[(V, D)] * head]
    whole = element * sum(math.prod(MATRICES[name]) for name in left)
    rows = [tensor for shape in stored[: len(stored) - head] for tensor in layout(*shape).values()]
    return plain + LAYERS * (whole + _size(rows)) + head * _size(layout(V, D).values())


def _size(rows: Any) -> int:
    return sum(math.prod(shape) * element for shape, element in rows)


def gptq(bits: int, group: int) -> Layout:
    """Words of 32 bits hold the numbers of a column, and the zeros of a row."""
    return lambda outputs, inputs: {
        "qweight": ((inputs * bits // 32, outputs), 4),
        "qzeros": ((inputs // (group or inputs), outputs * bits // 32), 4),
        "scales": ((inputs // (group or inputs), outputs), 2),
        "g_idx": ((inputs,), 4),
    }


def awq(group: int) -> Layout:
    return lambda outputs, inputs: {
        "qweight": ((inputs, outputs // 8), 4),
        "qzeros": ((inputs // group, outputs // 8), 4),
        "scales": ((inputs // group, outputs), 2),
    }


def nested(outputs: int, inputs: int) -> Mapping[str, Tensor]:
    scales = outputs * inputs // 64
    return {
        "weight": ((outputs * inputs // 2, 1), 1),
        "absmax": ((scales,), 1),
        "quant_map": ((16,), 4),
        "nested_absmax": ((scales // 256,), 4),
        "nested_quant_map": ((256,), 4),
    }


def fp4(outputs: int, inputs: int) -> Mapping[str, Tensor]:
    return {
        "weight": ((outputs * inputs // 2, 1), 1),
        "absmax": ((outputs * inputs // 64,), 4),
        "quant_map": ((16,), 4),
    }


def int8(outputs: int, inputs: int) -> Mapping[str, Tensor]:
    return {"weight": ((outputs, inputs), 1), "SCB": ((outputs,), 4), "weight_format": ((), 1)}


def packed(bits: int, group: int, placed: bool = False) -> Layout:
    return lambda outputs, inputs: {
        "weight_packed": ((outputs, inputs * bits // 32), 4),
        "weight_scale": ((outputs, inputs // group), 2),
        "weight_shape": ((2,), 8),
        "weight_g_idx": ((inputs * placed,), 4),
    }


def by_channel(scale_of_inputs: bool) -> Layout:
    return lambda outputs, inputs: {
        "weight": ((outputs, inputs), 1),
        "weight_scale": ((outputs, 1), 2),
        "input_scale": ((int(scale_of_inputs),), 2),
    }


def nvfp4(outputs: int, inputs: int) -> Mapping[str, Tensor]:
    return {
        "weight_packed": ((outputs, inputs // 2), 1),
        "weight_scale": ((outputs, inputs // 16), 1),
        "weight_global_scale": ((1,), 4),
        "input_global_scale": ((1,), 4),
    }


def scheme(form: str, weights: Mapping[str, Any], inputs: Any = None, **more: Any) -> dict[str, Any]:
    group = {"targets": ["Linear"], "weights": {"symmetric": True, "dynamic": False, **weights}, "input_activations": inputs}
    return {"quant_method": "compressed-tensors", "format": form, "config_groups": {"group_0": group}, **more}


INT4 = {"num_bits": 4, "type": "int", "strategy": "group", "group_size": 128}
FLOAT8 = {"num_bits": 8, "type": "float", "strategy": "channel"}
FLOAT4 = {"num_bits": 4, "type": "float", "strategy": "tensor_group", "group_size": 16}
STATIC = {"num_bits": 8, "type": "float", "strategy": "tensor", "dynamic": False, "symmetric": True}
HEAD: dict[str, Any] = {"ignore": ["lm_head"]}

FILES: dict[str, tuple[dict[str, Any], int]] = {
    "gptq": ({"quant_method": "gptq", "bits": 4, "group_size": 128, "desc_act": False}, by_hand(gptq(4, 128))),
    "gptq of 8 bits": ({"quant_method": "gptq", "bits": 8, "group_size": 32, "sym": True}, by_hand(gptq(8, 32))),
    "gptq of 2 bits": ({"quant_method": "gptq", "bits": 2, "group_size": 64}, by_hand(gptq(2, 64))),
    "gptq by rows": ({"quant_method": "gptq", "bits": 4, "group_size": -1}, by_hand(gptq(4, 0))),
    "gptq of the head": ({"quant_method": "gptq", "bits": 4, "lm_head": True}, by_hand(gptq(4, 128), head=True)),
    "gptq of some": (
        {"quant_method": "gptq", "bits": 4, "modules_in_block_to_quantize": [["self_attn.k_proj", "self_attn.q_proj"]]},
        by_hand(gptq(4, 128), ("v", "o", "gate", "up", "down")),
    ),
    "gptq but some": (
        {"quant_method": "gptq", "bits": 4, "dynamic": {"-:.*mlp\\.": {}}},
        by_hand(gptq(4, 128), ("gate", "up", "down")),
    ),
    "awq": ({"quant_method": "awq", "bits": 4, "group_size": 128, "version": "gemm"}, by_hand(awq(128))),
    "awq of 64": ({"quant_method": "awq", "bits": 4, "group_size": 64, "version": "GEMM"}, by_hand(awq(64))),
    "awq but some": (
        {"quant_method": "awq", "bits": 4, "modules_to_not_convert": ["self_attn"]},
        by_hand(awq(128), ("q", "k", "v", "o")),
    ),
    "nf4": (
        {"quant_method": "bitsandbytes", "load_in_4bit": True, "bnb_4bit_quant_type": "nf4", "bnb_4bit_use_double_quant": True},
        by_hand(nested),
    ),
    "fp4": ({"load_in_4bit": True, "_load_in_4bit": True, "llm_int8_threshold": 6.0}, by_hand(fp4)),
    "int8": ({"quant_method": "bitsandbytes", "load_in_8bit": True}, by_hand(int8)),
    "int8 but some": (
        {"quant_method": "bitsandbytes", "load_in_8bit": True, "llm_int8_skip_modules": ["mlp.down_proj", "lm_head"]},
        by_hand(int8, ("down",)),
    ),
    "int8 of all": (
        {"quant_method": "bitsandbytes", "load_in_8bit": True, "llm_int8_skip_modules": []},
        by_hand(int8, head=True),
    ),
    "packed": (scheme("pack-quantized", INT4, **HEAD), by_hand(packed(4, 128))),
    "packed by places": (scheme("pack-quantized", INT4 | {"actorder": "group"}, **HEAD), by_hand(packed(4, 128, True))),
    "packed of 8 bits": (
        scheme("pack-quantized", INT4 | {"num_bits": 8, "group_size": 64}, ignore=["lm_head", "re:.*self_attn.*"]),
        by_hand(packed(8, 64), ("q", "k", "v", "o")),
    ),
    "float8": (scheme("float-quantized", FLOAT8, {"dynamic": True}, **HEAD), by_hand(by_channel(False))),
    "float8 of given scales": (scheme("float-quantized", FLOAT8, STATIC), by_hand(by_channel(True), head=True)),
    "int8 by channel": (scheme("int-quantized", FLOAT8 | {"type": "int"}, **HEAD), by_hand(by_channel(False))),
    "nvfp4": (scheme("nvfp4-pack-quantized", FLOAT4, FLOAT4 | {"dynamic": "local"}, **HEAD), by_hand(nvfp4)),
}


@pytest.mark.parametrize("name", FILES)
def test_bytes_are_those_of_the_tensors(name: str) -> None:
    keys, expected = FILES[name]
    assert count(quantized(**keys)) == expected


def test_what_is_left_has_the_dtype_of_the_config() -> None:
    keys = {"quant_method": "awq", "bits": 4}
    assert count(quantized(**keys) | {"torch_dtype": "float32"}) == by_hand(awq(128), element=4)
    assert count({key: value for key, value in quantized(**keys).items() if key != "torch_dtype"}) == by_hand(awq(128))


# ------------------------------------------------------------------------------------------------------ by transformers


def of(name: str, **changes: Any) -> dict[str, Any]:
    return configs()[name] | changes


LISTS: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    "whole squares": ("llama-3.1-8b", {}, {}),
    "squares that are begun": ("llama-3.1-8b", {"hidden_size": 2080, "intermediate_size": 4000, "head_dim": 72}, {}),
    "a list": (
        "llama-3.1-8b",
        {},
        {"modules_to_not_convert": ["lm_head", "model.layers.0.mlp", "down_proj", "model.layers.1"]},
    ),
    "all": ("llama-3.1-8b", {}, {"modules_to_not_convert": []}),
    "a tied head": ("qwen3-0.6b", {}, {"weight_block_size": [64, 256], "activation_scheme": "static"}),
    "a scale of each matrix": ("qwen3-0.6b", {}, {"weight_block_size": None}),
    "scales of a byte": ("llama-3.1-8b", {}, {"scale_fmt": "ue8m0"}),
    "experts": (
        "qwen3-30b-a3b",
        {"num_hidden_layers": 2},
        {"modules_to_not_convert": ["lm_head", "model.layers.1.mlp.experts"]},
    ),
}


def sizes(module: torch.nn.Module) -> Iterator[int]:
    for name, parameter in module.named_parameters():
        stored = parameter.dtype in (torch.float8_e4m3fn, torch.float8_e8m0fnu) or name.endswith(
            ("scale_inv", "activation_scale")
        )
        yield parameter.numel() * (parameter.element_size() if stored else 2)


@pytest.mark.parametrize("name", LISTS)
def test_float8_is_theirs(name: str) -> None:
    """By the module that transformers makes on meta."""
    model, changes, keys = LISTS[name]
    config, theirs = of(model, **changes), FineGrainedFP8Config(**keys)
    with torch.device("meta"):
        models: Any = AutoModelForCausalLM
        module = models.from_config(AutoConfig.for_model(**config))
    left = theirs.modules_to_not_convert
    replace_with_fp8_linear(module, ["lm_head"] if left is None else left, theirs)
    assert count(config | {"quantization_config": {"quant_method": "fp8", **keys}}) == sum(sizes(module))


# ----------------------------------------------------------------------------------------------------- by published files


def test_bytes_of_gpt_oss_are_those_of_its_files() -> None:
    """65,248,815,744 are the bytes of the tensors of openai/gpt-oss-120b (alvarobartt/hf-mem, issue 60)."""
    left = ["model.layers.*.self_attn", "model.layers.*.mlp.router", "model.embed_tokens", "lm_head"]
    keys = {"quant_method": "mxfp4", "modules_to_not_convert": left}
    assert count(of("gpt-oss-120b", quantization_config=keys)) == 65_248_815_744


@pytest.mark.parametrize(
    ("name", "kind", "keys"),
    [
        ("deepseek-v3", "fp8_block", {"quant_method": "fp8", "fmt": "e4m3", "weight_block_size": [128, 128]}),
        ("llama-3.1-8b", "gptq", {"quant_method": "gptq", "bits": 4}),
        ("llama-3.1-8b", "awq", {"quant_method": "awq", "bits": 4}),
    ],
)
def test_usual_configs_are_kinds_of_files(name: str, kind: str, keys: Mapping[str, Any]) -> None:
    model = einformer.from_huggingface(of(name, quantization_config=keys))
    bfloat16 = PRECISIONS["bfloat16"]
    assert count_weights(model, bfloat16) == count_weights(model, bfloat16, kind)


# --------------------------------------------------------------------------------------------------------- what is refused


@pytest.mark.parametrize(
    ("keys", "code", "key"),
    [
        ({"quant_method": "aqlm"}, "E614", "quant_method"),
        ({"quant_method": ["awq"]}, "E614", "quant_method"),
        ({"bits": 4}, "E614", "quant_method"),
        ({"quant_method": "gptq", "bits": 3}, "E614", "bits"),
        ({"quant_method": "gptq", "bits": True}, "E614", "bits"),
        ({"quant_method": "gptq", "bits": 4, "group_size": 0}, "E614", "group_size"),
        ({"quant_method": "gptq", "bits": 4, "group_size": "128"}, "E614", "group_size"),
        ({"quant_method": "gptq", "bits": 4, "checkpoint_format": "marlin"}, "E614", "checkpoint_format"),
        ({"quant_method": "gptq", "bits": 4, "dynamic": {"+:.*": {"bits": 8}}}, "E614", "dynamic"),
        ({"quant_method": "gptq", "bits": 4, "bit": 4}, "E612", "bit"),
        ({"quant_method": "gptq", "bits": 4, "modules_in_block_to_quantize": 3}, "E614", "modules_in_block_to_quantize"),
        ({"quant_method": "awq", "bits": 4, "version": "gemv"}, "E614", "version"),
        ({"quant_method": "awq", "bits": 4, "zero_point": False}, "E614", "zero_point"),
        ({"quant_method": "awq", "bits": 4, "modules_to_not_convert": ["("]}, "E614", "modules_to_not_convert"),
        ({"quant_method": "fp8", "weight_block_size": [128]}, "E614", "weight_block_size"),
        ({"quant_method": "fp8", "expert_dtype": "fp4"}, "E614", "expert_dtype"),
        ({"quant_method": "fp8", "modules_to_not_convert": ["model.layers.3.mlp.experts.7"]}, "E614", "modules_to_not_convert"),
        ({"quant_method": "bitsandbytes"}, "E614", "load_in_4bit"),
        ({"quant_method": "bitsandbytes", "load_in_4bit": True, "load_in_8bit": True}, "E614", "load_in_4bit"),
        (scheme("pack-quantized", INT4 | {"symmetric": False}), "E614", "config_groups.group_0.weights.symmetric"),
        (scheme("pack-quantized", FLOAT8), "E614", "config_groups.group_0.format"),
        (scheme("marlin-24", INT4), "E614", "config_groups.group_0.format"),
        (scheme("pack-quantized", INT4, sparsity_config={"format": "sparse-24-bitmask"}), "E614", "sparsity_config"),
        (scheme("pack-quantized", INT4 | {"spread": 2}), "E612", "config_groups.group_0.weights.spread"),
        ({"quant_method": "compressed-tensors", "config_groups": {}}, "E614", "config_groups"),
    ],
)
def test_what_is_not_known_is_refused_by_name(keys: dict[str, Any], code: str, key: str) -> None:
    with refuses(code, f"quantization_config.{key}"):
        count(quantized(**keys))


def test_what_is_no_object_is_refused() -> None:
    with refuses("E614", "quantization_config"):
        count(KEYS | {"quantization_config": "awq"})


def test_tensors_that_a_method_does_not_know_are_refused() -> None:
    keys = {"quant_method": "bitsandbytes", "load_in_8bit": True}
    mixture = of("qwen3-30b-a3b", quantization_config=keys)
    with refuses("E605", "model.layers.{l}.mlp.gate.weight"):  # a map in some versions of transformers only
        count(mixture)
    keys |= {"llm_int8_skip_modules": ["mlp.gate", "lm_head"]}
    assert count(mixture | {"quantization_config": keys}) > 0
    with refuses("E614", "100", "256"):
        count(quantized(quant_method="awq", bits=4, group_size=100))
    with refuses("E605", "model.layers.{l}.mlp.experts.gate_up_proj"):
        count(of("gpt-oss-120b", quantization_config={"quant_method": "awq", "bits": 4, "group_size": 64}))


# ------------------------------------------------------------------------------------------------------------ where it is read


def test_a_text_part_is_stored_as_its_whole() -> None:
    """The object stands beside the parts, and names modules of the whole."""
    text = {key: value for key, value in KEYS.items() if key != "torch_dtype"}
    left = ["model.language_model.layers.0.mlp", "lm_head", "model.vision_tower"]
    keys = {"quant_method": "fp8", "weight_block_size": [128, 128], "modules_to_not_convert": left}
    whole = {"model_type": "llava", "text_config": text, "vision_config": {}, "tie_word_embeddings": False}
    inner = text | {"quantization_config": keys | {"modules_to_not_convert": ["model.layers.0.mlp", "lm_head"]}}
    assert count(whole | {"quantization_config": keys}) == count(inner) < count(text)


def test_the_command_counts_what_the_config_says(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    config = tmp_path / "config.json"
    config.write_text(json.dumps(quantized(quant_method="awq", bits=4, group_size=64)))
    assert main(["count", str(config), "--generation", "--context", "64"]) == 0
    assert f"{by_hand(awq(64)):,} bytes" in (out := capsys.readouterr().out)
    assert "awq: 4 bits, groups of 64" in out
    assert main(["fit", str(config), "--generation", "--memory", "8GB", "--solve", "S"]) == 0
    assert "weights in awq: 4 bits, groups of 64, cache in bfloat16" in capsys.readouterr().out
    assert main(["count", str(config), "--generation", "--context", "64", "--weights", "gptq"]) == 0
    assert "as gptq" in capsys.readouterr().out


def test_a_rank_of_a_mesh_stores_its_part_of_each_tensor() -> None:
    """Two ranks share heads, the features of the MLP and the vocabulary: each has tensors of its part, with their scales."""
    model = einformer.from_huggingface(quantized(quant_method="awq", bits=4, group_size=64))
    assert name_stored(model) == "awq: 4 bits, groups of 64"
    assert name_stored(einformer.from_huggingface(KEYS)) == ""
    sharding: Any = model._shard("tp=2", "tp: g f v")
    rank = Numbers.of_rank(model.spec.tree, model.spec.name, model.legend, sharding)
    rows = {name: (outputs // 2, inputs) for name, (outputs, inputs) in MATRICES.items() if name not in ("o", "down")}
    columns = {name: (MATRICES[name][0], MATRICES[name][1] // 2) for name in ("o", "down")}
    stored = sum(_size(awq(64)(*shape).values()) for shape in (rows | columns).values())
    expected = 2 * (V * D + (2 * LAYERS + 1) * D) + LAYERS * stored  # half of two tables
    assert count_weights(model, PRECISIONS["bfloat16"], sizes=rank) == expected < count_weights(model, PRECISIONS["bfloat16"])
    fitted = in_memory(model, 10**8, "S", use="generation", mesh="tp=2", shard="tp: g f v", B=1)
    cache = 2 * 2 * D // 2 // 2 * LAYERS  # keys and values of one of two heads, in bfloat16
    assert fitted.found.count == expected + fitted.found.size * cache
    assert "weights in awq: 4 bits, groups of 64" in fitted.counted


def test_weights_that_are_written_are_not_quantized(tmp_path: Path) -> None:
    module: Any = einformer.from_huggingface(quantized(quant_method="awq", bits=4)).build()
    module.save_huggingface(tmp_path)
    assert read_quantization(read_config(tmp_path).values) is None
