"""Which keys have the small configs of several families? Sizes that are as little alike as each family allows."""

from __future__ import annotations

from typing import Any

VOCABULARY = 53

TOKENS: dict[str, Any] = {
    "vocab_size": VOCABULARY,
    "num_hidden_layers": 2,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "pad_token_id": None,
}
ROPE: dict[str, Any] = {"rope_type": "default", "rope_theta": 500.0}
LINEAR: dict[str, Any] = ROPE | {"rope_type": "linear", "factor": 3.0}
LLAMA3: dict[str, Any] = ROPE | {
    "rope_type": "llama3",
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 64,
}
YARN: dict[str, Any] = ROPE | {
    "rope_type": "yarn",
    "factor": 4.0,
    "beta_fast": 4.0,
    "beta_slow": 1.0,
    "original_max_position_embeddings": 256,
}

DYNAMIC: dict[str, Any] = ROPE | {"rope_type": "dynamic", "factor": 2.5}
LONG: dict[str, Any] = ROPE | {
    "rope_type": "longrope",
    "short_factor": [1.0, 1.1, 1.3, 1.6, 2.0, 2.5],
    "long_factor": [1.2, 2.4, 3.1, 4.7, 6.0, 7.3],
    "original_max_position_embeddings": 64,
}


def grouped(head: int | None = 4, rope: dict[str, Any] = ROPE, norm: str = "rms_norm_eps", **more: Any) -> dict[str, Any]:
    """Fifteen query heads over three key heads, whose features do not add up to the hidden size."""
    heads = {"num_attention_heads": 15, "num_key_value_heads": 3, **({"head_dim": head} if head else {})}
    length = {"max_position_embeddings": int(256 * rope.get("factor", 1)), norm: 1e-5}
    sizes = {"hidden_size": 45, "intermediate_size": 31}
    return {**TOKENS, **heads, **length, **sizes, "rope_parameters": dict(rope), **more}


LAYERS = ["sliding_attention", "full_attention"]
CAPS: dict[str, Any] = {"query_pre_attn_scalar": 7, "attn_logit_softcapping": 1.5, "final_logit_softcapping": 2.5}
MULTIPLIERS: dict[str, Any] = {
    "attention_dropout": 0.1,
    "embedding_multiplier": 1.7,
    "attention_multiplier": 0.3,
    "residual_multiplier": 0.6,
    "logits_scaling": 2.3,
}
EXPERTS: dict[str, Any] = {"num_experts": 7, "num_experts_per_tok": 3, "moe_intermediate_size": 9}
PARTIAL: dict[str, Any] = ROPE | {"partial_rotary_factor": 0.5}
