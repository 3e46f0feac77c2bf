"""Which transformers model is which of our texts? One row a family, with as few equal sizes as it allows.

A row says what theirs is configured with, what is bound in ours, and which weight is which.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import nn
from transformers import AutoConfig, AutoModelForCausalLM
from transformers.models.mamba2.modeling_mamba2 import Mamba2Mixer
from transformers.models.qwen3_next.modeling_qwen3_next import Qwen3NextGatedDeltaNet

from tests.oracles import scaling, tables
from tests.oracles.lifted import Regime, build, run, state
from tests.oracles.names import translate

Array = NDArray[Any]

BATCH, LENGTH, VOCABULARY = 2, 37, 53


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """Ours: the file `text`, its sizes and scalars `bound`, the scalar lines `replaced`. Theirs: the rest."""

    text: str
    bound: Mapping[str, Any]
    replaced: str = ""
    absent: tuple[str, ...] = ()
    kind: str
    config: Mapping[str, Any]
    layer: Callable[[Any], nn.Module] | None = None
    table: str
    lengths: Mapping[str, int] = field(default_factory=dict)
    blocks: str = "model.layers"

    @property
    def modeling(self) -> str:
        return f"transformers.models.{self.kind}.modeling_{self.kind}"

    def make(self) -> nn.Module:
        """Theirs, with eager attention and eager experts: the equations as their authors wrote them."""
        config = AutoConfig.for_model(self.kind, **self.config)
        if self.layer:
            return self.layer(config)
        models: Any = AutoModelForCausalLM
        module: nn.Module = models.from_config(config, attn_implementation="eager", experts_implementation="eager")
        return module

    @property
    def inputs(self) -> Array:
        """Tokens for a language model, features for a layer."""
        draw = np.random.default_rng(0)
        if self.layer:
            return draw.standard_normal((BATCH, LENGTH, self.bound["D"]))
        return draw.integers(VOCABULARY, size=(BATCH, LENGTH))


@functools.cache
def theirs(name: str, regime: Regime) -> nn.Module:
    """The lifted module of a family."""
    family = FAMILIES[name]
    return build(family.modeling, family.make, regime)


@functools.cache
def answer(name: str, regime: Regime) -> Array:
    """What theirs computes from the family's inputs."""
    family = FAMILIES[name]
    return run(family.modeling, theirs(name, regime), family.inputs)


@functools.cache
def weights(name: str, regime: Regime) -> dict[str, Array]:
    """Their weights under our names."""
    family = FAMILIES[name]
    return translate(family.table, family.blocks, state(theirs(name, regime)), family.lengths)


# -------------------------------------------------------------------------------------------------------- rows

SIZES = {"V": VOCABULARY, "L": 2}
TOKENS = {"vocab_size": VOCABULARY, "num_hidden_layers": 2}
ROPE = {"rope_type": "default", "rope_theta": 500.0}
LAYERS = ["sliding_attention", "full_attention"]


def grouped(head: int = 4, rope: Mapping[str, Any] = ROPE, **more: Any) -> dict[str, Any]:
    """Theirs: fifteen query heads over three key heads, whose features do not add up to the hidden size."""
    heads = {"num_attention_heads": 15, "num_key_value_heads": 3, "head_dim": head}
    length = {"max_position_embeddings": int(256 * rope.get("factor", 1))}
    return {**TOKENS, **heads, **length, "hidden_size": 45, "intermediate_size": 31, "rope_parameters": dict(rope), **more}


def sizes(head: int = 4, **more: Any) -> dict[str, Any]:
    """Ours: the same."""
    return {**SIZES, "D": 45, "A": 15, "G": 3, "H": head, "F": 31, "Θ": 500.0, **more}


def lengths(head: int = 4) -> dict[str, int]:
    """The letters of the patterns, for the same."""
    return {"g": 3, "j": 5, "e": head, "i": 2, "h": head // 2}


def llama(text: str = "llama", **changed: Any) -> Family:
    """Llama, but for what is changed."""
    row: dict[str, Any] = {"text": text, "kind": "llama", "table": tables.LLAMA}
    row |= {"bound": sizes(ε=1e-5), "config": grouped(rms_norm_eps=1e-5), "lengths": lengths()}
    return Family(**{**row, **changed})


def stretched(kind: str, lines: str) -> Family:
    """Llama with stretched positions; twelve features a head, so that some angles stay, some shrink, some lie between."""
    rope = ROPE | scaling.PARAMETERS[kind]
    return llama(bound=sizes(12, ε=1e-6), config=grouped(12, rope), lengths=lengths(12), replaced=lines)


def bloom(heads: int) -> Family:
    """BLOOM; the slopes are others where the number of heads is no power of two."""
    return Family(
        text="bloom",
        bound=SIZES | {"D": 5 * heads, "A": heads},
        kind="bloom",
        config={"vocab_size": VOCABULARY, "hidden_size": 5 * heads, "n_layer": 2, "n_head": heads},
        table=tables.BLOOM,
        lengths={"a": heads, "e": 5},
        blocks="transformer.h",
    )


def mpt(heads: int) -> Family:
    """MPT; likewise, and otherwise."""
    return Family(
        text="mpt",
        bound=SIZES | {"D": 5 * heads, "A": heads},
        absent=("blocks.*.LayerNorm.β", "blocks.*.LayerNorm_2.β", "LayerNorm_3.β"),
        kind="mpt",
        config={"vocab_size": VOCABULARY, "d_model": 5 * heads, "n_heads": heads, "n_layers": 2, "max_seq_len": 41},
        table=tables.MPT,
        lengths={"a": heads, "e": 5},
        blocks="transformer.blocks",
    )


def deepseek(rope: Mapping[str, Any] = ROPE, lines: str = "") -> Family:
    """DeepSeek-V3: one dense layer, two with experts."""
    hidden = {"hidden_size": 35, "intermediate_size": 31, "moe_intermediate_size": 9, "n_shared_experts": 2}
    latent = {"q_lora_rank": 11, "kv_lora_rank": 13, "qk_nope_head_dim": 6, "qk_rope_head_dim": 12, "v_head_dim": 7}
    router = {"n_routed_experts": 12, "n_group": 4, "topk_group": 2, "num_experts_per_tok": 5, "routed_scaling_factor": 1.7}
    counts = {"num_attention_heads": 5, "num_key_value_heads": 5, "num_hidden_layers": 3, "first_k_dense_replace": 1}
    length = {"max_position_embeddings": int(256 * rope.get("factor", 1))}
    attention = {"A": 5, "N": 6, "E": 12, "U": 7, "C": 11, "R": 13, "Θ": 500.0}
    experts = {"X": 12, "G": 4, "Y": 2, "T": 5, "ζ": 1.7, "M": 9, "Z": 2}
    return Family(
        text="deepseek_v3",
        bound={"V": VOCABULARY, "L": 3, "P": 1, "D": 35, "F": 31, "ε": 1e-6, **attention, **experts},
        replaced=lines,
        kind="deepseek_v3",
        config={"vocab_size": VOCABULARY, "rope_parameters": dict(rope), **length, **hidden, **latent, **router, **counts},
        table=tables.DEEPSEEK_V3,
        lengths={"a": 5, "n": 6, "e": 12, "u": 7, "c": 11, "r": 13, "m": 9},
    )


FAMILIES = {
    "gpt2": Family(
        text="gpt2",
        bound=SIZES | {"D": 35, "A": 5, "F": 31, "K": 41},
        kind="gpt2",
        config={"vocab_size": VOCABULARY, "n_embd": 35, "n_head": 5, "n_layer": 2, "n_inner": 31, "n_positions": 41}
        | {"bos_token_id": None, "eos_token_id": None},
        table=tables.GPT2,
        lengths={"a": 5, "e": 7},
        blocks="transformer.h",
    ),
    "llama": llama(),
    "llama_tied": llama(bound=sizes(ε=1e-5), config=grouped(rms_norm_eps=1e-5, tie_word_embeddings=True), absent=("U",)),
    "llama_llama3": stretched("llama3", scaling.LLAMA3),
    "llama_yarn": stretched("yarn", scaling.YARN),
    "llama_interleaved": llama("llama_interleaved", table=tables.LLAMA_INTERLEAVED),
    "mistral": llama(
        "mistral", kind="mistral", bound=sizes(W=11, ε=1e-6), config=grouped(sliding_window=11, rms_norm_eps=1e-6)
    ),
    "qwen3": llama("qwen3", kind="qwen3", bound=sizes(), config=grouped(), table=tables.QWEN3),
    "bloom": bloom(6),
    "bloom_power_of_two": bloom(4),
    "mpt": mpt(6),
    "mpt_power_of_two": mpt(4),
    "gemma2": Family(
        text="gemma2",
        bound=sizes(C=7.0, κ=1.5, λ=2.5, W=[11, math.inf]),
        kind="gemma2",
        config=grouped(query_pre_attn_scalar=7, attn_logit_softcapping=1.5, final_logit_softcapping=2.5, sliding_window=11),
        table=tables.GEMMA2,
        lengths=lengths(),
    ),
    "gpt_oss": Family(
        text="gpt_oss",
        bound=sizes(12, X=7, T=3, C=0.7, α=1.3, W=[11, math.inf]),
        replaced=scaling.GPT_OSS_YARN,
        kind="gpt_oss",
        config=grouped(
            12,
            ROPE | scaling.PARAMETERS["gpt_oss"],
            num_local_experts=7,
            num_experts_per_tok=3,
            swiglu_limit=0.7,
            swiglu_alpha=1.3,
            sliding_window=11,
            layer_types=LAYERS,
        ),
        table=tables.GPT_OSS,
        lengths=lengths(12),
    ),
    "mixtral": Family(
        text="mixtral",
        bound=sizes(X=7, T=3, W=11, ε=1e-5),
        kind="mixtral",
        config=grouped(num_local_experts=7, num_experts_per_tok=3, sliding_window=11, rms_norm_eps=1e-5),
        table=tables.MIXTRAL,
        lengths=lengths() | {"f": 31},
    ),
    "deepseek_v3": deepseek(),
    "deepseek_v3_yarn": deepseek(ROPE | scaling.PARAMETERS["deepseek"], scaling.DEEPSEEK_YARN),
    "gptj": Family(
        text="gptj",
        bound=SIZES | {"D": 40, "A": 5, "R": 6, "F": 31},
        kind="gptj",
        config={"vocab_size": VOCABULARY, "n_embd": 40, "n_head": 5, "n_layer": 2, "n_inner": 31, "rotary_dim": 6}
        | {"bos_token_id": None, "eos_token_id": None},
        table=tables.GPTJ,
        lengths={"a": 5, "e": 8},
        blocks="transformer.h",
    ),
    "gpt_neox": Family(
        text="gpt_neox",
        bound=SIZES | {"D": 40, "A": 5, "R": 6, "F": 31, "Θ": 500.0},
        kind="gpt_neox",
        config=TOKENS
        | {"hidden_size": 40, "num_attention_heads": 5, "intermediate_size": 31}
        | {"rope_parameters": ROPE | {"partial_rotary_factor": 0.75}},
        table=tables.GPT_NEOX,
        lengths={"a": 5, "e": 8},
        blocks="gpt_neox.layers",
    ),
    "delta_net": Family(
        text="delta_net",
        bound={"D": 35, "G": 2, "J": 3, "E": 5, "U": 7, "C": 4, "ε": 1e-6},
        kind="qwen3_next",
        config={
            "hidden_size": 35,
            "linear_num_key_heads": 2,
            "linear_num_value_heads": 6,
            "linear_key_head_dim": 5,
            "linear_value_head_dim": 7,
            "linear_conv_kernel_dim": 4,
        },
        layer=functools.partial(Qwen3NextGatedDeltaNet, layer_idx=0),
        table=tables.DELTA_NET,
        lengths={"g": 2, "j": 3, "e": 5, "u": 7},
    ),
    "mamba2": Family(
        text="mamba2",
        bound={"D": 35, "G": 2, "J": 5, "H": 7, "N": 11, "C": 4, "ε": 1e-5},
        kind="mamba2",
        config={
            "hidden_size": 35,
            "num_heads": 10,
            "head_dim": 7,
            "state_size": 11,
            "n_groups": 2,
            "expand": 2,
            "conv_kernel": 4,
            "chunk_size": 16,
        },
        layer=functools.partial(Mamba2Mixer, layer_idx=0),
        table=tables.MAMBA2,
        lengths={"g": 2, "j": 5, "h": 7, "n": 11},
    ),
}
