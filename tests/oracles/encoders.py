"""Which transformers model is BERT, T5, ViT and CLIP? One row a text that is not a decoder of one sequence."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from transformers import AutoConfig

import einformer
from einformer.objects import Model
from tests.oracles.lifted import build, lifted, state
from tests.oracles.names import translate
from tests.small import tensors

Array = NDArray[Any]

VOCABULARY = 53


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """Ours: the text is the name, and `bound` its sizes. Theirs: the rest. `tables` say which weight is which, by blocks."""

    bound: Mapping[str, Any]
    config: Mapping[str, Any]
    made: str
    given: Mapping[str, tuple[int, ...]]  # the shapes of the inputs in our order, by their names
    answer: str = "logits"
    tables: Mapping[str, str]
    lengths: Mapping[str, int]


def attention(ours: str, theirs: str, hidden: str = "d", heads: str = "a", head: str = "e", bias: bool = True) -> str:
    """Rows of the four maps of an attention; `theirs` has their names for q, k, v and o."""
    named = dict(zip("QKVO", theirs.split(), strict=True))
    rows = [f"*.{ours}.{x}  *.{named[x]}.weight  ({heads} {head}) {hidden} -> {hidden} {head} {heads}" for x in "QKV"]
    rows.append(f"*.{ours}.O  *.{named['O']}.weight  {hidden} ({heads} {head}) -> {head} {heads} {hidden}")
    if bias:
        rows += [
            f"*.{ours}.{y}  *.{named[x]}.bias  ({heads} {head}) -> {head} {heads}" for x, y in zip("QKV", "ακν", strict=True)
        ]
        rows.append(f"*.{ours}.ω  *.{named['O']}.bias  {hidden}")
    return "\n".join(rows)


def norm(ours: str, theirs: str) -> str:
    return f"{ours}.γ  {theirs}.weight  d\n{ours}.β  {theirs}.bias  d"


def feed(ours: str, theirs: str) -> str:
    """Rows of the two maps of a feed-forward network."""
    into, out = theirs.split()
    weights = f"*.{ours}.W  *.{into}.weight  f d -> d f\n*.{ours}.U  *.{out}.weight  d f -> f d"
    return f"{weights}\n*.{ours}.φ  *.{into}.bias  f\n*.{ours}.υ  *.{out}.bias  d"


BERT = f"""
E  bert.embeddings.word_embeddings.weight  v d
P  bert.embeddings.position_embeddings.weight  k d
T  bert.embeddings.token_type_embeddings.weight  c d
W  cls.predictions.transform.dense.weight  d n -> n d
ω  cls.predictions.transform.dense.bias  d
υ  cls.predictions.bias  v
{norm("LayerNorm", "bert.embeddings.LayerNorm")}
{norm("*.LayerNorm_2", "*.attention.output.LayerNorm")}
{norm("*.LayerNorm_3", "*.output.LayerNorm")}
{norm("LayerNorm_4", "cls.predictions.transform.LayerNorm")}
{attention("Attention", "attention.self.query attention.self.key attention.self.value attention.output.dense")}
{feed("MLP", "intermediate.dense output.dense")}
"""

_PARTS = "layer.0.SelfAttention.q layer.0.SelfAttention.k layer.0.SelfAttention.v layer.0.SelfAttention.o"
T5_ENCODER = f"""
E  shared.weight  v d
B  encoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight  k a
RMSNorm_3.γ  encoder.final_layer_norm.weight  d
*.RMSNorm.γ  *.layer.0.layer_norm.weight  d
*.RMSNorm_2.γ  *.layer.1.layer_norm.weight  d
*.MLP.W  *.layer.1.DenseReluDense.wi.weight  f d -> d f
*.MLP.U  *.layer.1.DenseReluDense.wo.weight  d f -> f d
{attention("Attention", _PARTS, bias=False)}
"""
T5_DECODER = f"""
C  decoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight  k a
RMSNorm_7.γ  decoder.final_layer_norm.weight  d
*.RMSNorm_4.γ  *.layer.0.layer_norm.weight  d
*.RMSNorm_5.γ  *.layer.1.layer_norm.weight  d
*.RMSNorm_6.γ  *.layer.2.layer_norm.weight  d
*.MLP_2.W  *.layer.2.DenseReluDense.wi.weight  f d -> d f
*.MLP_2.U  *.layer.2.DenseReluDense.wo.weight  d f -> f d
{attention("Attention_2", _PARTS, bias=False)}
{attention("CrossAttention", _PARTS.replace("0.Self", "1.EncDec"), bias=False)}
"""

VIT = f"""
W  vit.embeddings.patch_embeddings.projection.weight  d c i j
ω  vit.embeddings.patch_embeddings.projection.bias  d
κ  vit.embeddings.cls_token  1 1 d -> d
P  vit.embeddings.position_embeddings  1 s d -> s d
U  classifier.weight  v d
υ  classifier.bias  v
{norm("*.LayerNorm", "*.layernorm_before")}
{norm("*.LayerNorm_2", "*.layernorm_after")}
{norm("LayerNorm_3", "vit.layernorm")}
{attention("Attention", "attention.q_proj attention.k_proj attention.v_proj attention.o_proj")}
{feed("MLP", "mlp.fc1 mlp.fc2")}
"""

_PARTS = "self_attn.q_proj self_attn.k_proj self_attn.v_proj self_attn.out_proj"
CLIP_TEXT = f"""
E  text_model.embeddings.token_embedding.weight  v d
P  text_model.embeddings.position_embedding.weight  k d
A  text_projection.weight  z d -> d z
{norm("*.LayerNorm", "*.layer_norm1")}
{norm("*.LayerNorm_2", "*.layer_norm2")}
{norm("LayerNorm_3", "text_model.final_layer_norm")}
{attention("Attention", _PARTS)}
{feed("MLP", "mlp.fc1 mlp.fc2")}
"""
CLIP_IMAGE = f"""
W  vision_model.embeddings.patch_embedding.weight  g c i j
κ  vision_model.embeddings.class_embedding  g
I  vision_model.embeddings.position_embedding.weight  u g
B  visual_projection.weight  z g -> g z
τ  logit_scale  ...
{norm("LayerNorm_4", "vision_model.pre_layrnorm")}
{norm("*.LayerNorm_5", "*.layer_norm1")}
{norm("*.LayerNorm_6", "*.layer_norm2")}
{norm("LayerNorm_7", "vision_model.post_layernorm")}
{attention("ImageAttention", _PARTS, "g", "h", "o")}
{feed("ImageMLP", "mlp.fc1 mlp.fc2")}
"""

TEXT = {"vocab_size": VOCABULARY, "hidden_size": 30, "num_hidden_layers": 2, "num_attention_heads": 5, "intermediate_size": 31}
TEXT |= {"max_position_embeddings": 41}
SIZES = {"V": VOCABULARY, "D": 30, "A": 5, "F": 31, "L": 2}
HEADS = {"a": 5, "e": 6}
KINDS = {
    "bert": Kind(
        bound=SIZES | {"K": 41},
        config=TEXT,
        made="BertForMaskedLM",
        given={"input_ids": (2, 37), "token_type_ids": (2, 37)},
        tables={"bert.encoder.layer": BERT},
        lengths=HEADS,
    ),
    "t5": Kind(
        bound=SIZES | {"H": 4, "N": 3},
        config={"vocab_size": VOCABULARY, "d_model": 30, "d_kv": 4, "d_ff": 31, "num_heads": 5, "num_layers": 2}
        | {"num_decoder_layers": 3},
        made="T5ForConditionalGeneration",
        given={"input_ids": (2, 201), "decoder_input_ids": (2, 163)},  # beyond the distance of the last bucket
        tables={"encoder.block": T5_ENCODER, "decoder.block": T5_DECODER},
        lengths=HEADS | {"e": 4},
    ),
    "vit": Kind(
        bound=SIZES | {"N": 3, "M": 5, "P": 4, "V": 7},
        config={key: value for key, value in TEXT.items() if key not in ("vocab_size", "max_position_embeddings")}
        | {"image_size": (12, 20), "patch_size": 4, "num_labels": 7},
        made="ViTForImageClassification",
        given={"pixel_values": (2, 3, 12, 20)},
        tables={"vit.layers": VIT},
        lengths=HEADS,
    ),
    "clip": Kind(
        bound=SIZES | {"K": 41, "T": 11, "R": 3, "P": 4, "G": 20, "M": 5, "Z": 23, "W": 3},
        config={
            "projection_dim": 11,
            "text_config": TEXT | {"eos_token_id": VOCABULARY - 1},
            "vision_config": {"hidden_size": 20, "num_hidden_layers": 3, "num_attention_heads": 5, "intermediate_size": 23}
            | {"image_size": 12, "patch_size": 4},
        },
        made="CLIPModel",
        given={"input_ids": (3, 37), "pixel_values": (2, 3, 12, 12)},
        answer="logits_per_text",
        tables={"text_model.encoder.layers": CLIP_TEXT, "vision_model.encoder.layers": CLIP_IMAGE},
        lengths=HEADS | {"o": 4, "h": 5},
    ),
}


SIZES_OF_INPUTS: dict[str, dict[str, Any]] = {
    "bert": {"B": 2, "S": 37},
    "t5": {"B": 2, "S": 201, "T": 163},
    "vit": {"B": 2},
    "clip": {"B": 3, "S": 37, "N": 2},
}


def model(name: str) -> Model:
    return einformer.load(name).bind(**KINDS[name].bound)


def modeling(name: str) -> str:
    return f"transformers.models.{name}.modeling_{name}"


@functools.cache
def inputs(name: str) -> dict[str, Array]:
    """By their names, in our order: images, tokens of which one ends each text, or segments."""
    draw, result = np.random.default_rng(0), dict[str, Array]()
    for key, shape in KINDS[name].given.items():
        low, high = (0, 2) if "type" in key else (1, VOCABULARY - 1)  # BERT has no gradient at its padding, 0
        result[key] = draw.standard_normal(shape) if key == "pixel_values" else draw.integers(low, high, size=shape)
    if name == "clip":
        result["input_ids"][range(3), [36, 0, 20]] = VOCABULARY - 1
    return result


@functools.cache
def theirs(name: str) -> nn.Module:
    config = AutoConfig.for_model(name, **KINDS[name].config)
    config._attn_implementation = "eager"
    made = getattr(importlib.import_module(modeling(name)), KINDS[name].made)
    return build(modeling(name), lambda: made(config), "fan_in")


@functools.cache
def answer(name: str) -> Array:
    with lifted(modeling(name)), torch.no_grad():
        result: Array = theirs(name)(**tensors(inputs(name)))[KINDS[name].answer].numpy()
    return result


def weights(name: str) -> dict[str, Array]:
    return translated(name, state(theirs(name)))


def translated(name: str, rest: dict[str, Array]) -> dict[str, Array]:
    """Arrays by their names under ours, one table for each stack of blocks."""
    kind, ours = KINDS[name], dict[str, Array]()
    for blocks, table in kind.tables.items():
        named = [line.split("  ")[1] for line in table.splitlines() if line]
        part = {key: rest.pop(key) for key in list(rest) if key in named or key.startswith(f"{blocks}.")}
        ours |= translate(table, blocks, part, kind.lengths)
    assert not rest
    return ours
