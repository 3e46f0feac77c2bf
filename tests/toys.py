"""Which small configs switch on every feature of each family? Sizes that are as little alike as each family allows."""

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
LINEAR = ROPE | {"rope_type": "linear", "factor": 3.0}
LLAMA3 = ROPE | {
    "rope_type": "llama3",
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 64,
}
YARN = ROPE | {
    "rope_type": "yarn",
    "factor": 4.0,
    "beta_fast": 4.0,
    "beta_slow": 1.0,
    "original_max_position_embeddings": 256,
}


def grouped(head: int | None = 4, rope: dict[str, Any] = ROPE, **more: Any) -> dict[str, Any]:
    """Fifteen query heads over three key heads, whose features do not add up to the hidden size."""
    heads = {"num_attention_heads": 15, "num_key_value_heads": 3, **({"head_dim": head} if head else {})}
    length = {"max_position_embeddings": int(256 * rope.get("factor", 1)), "rms_norm_eps": 1e-5}
    sizes = {"hidden_size": 45, "intermediate_size": 31}
    return {**TOKENS, **heads, **length, **sizes, "rope_parameters": dict(rope), **more}


LAYERS = ["sliding_attention", "full_attention"]
QWEN2 = grouped(None, hidden_size=60, use_sliding_window=True, sliding_window=11)
CAPS = {"query_pre_attn_scalar": 7, "attn_logit_softcapping": 1.5, "final_logit_softcapping": 2.5}

TOYS: dict[str, tuple[str, dict[str, Any]]] = {
    "llama": ("llama", grouped()),
    "llama_tied": ("llama", grouped(tie_word_embeddings=True)),
    "llama_linear": ("llama", grouped(12, LINEAR)),
    "llama_llama3": ("llama", grouped(12, LLAMA3)),
    "llama_yarn": ("llama", grouped(12, YARN)),
    "llama_yarn_scaled": ("llama", grouped(12, YARN | {"attention_factor": 1.3})),
    "mistral": ("mistral", grouped(sliding_window=11)),
    "mistral_whole": ("mistral", grouped(sliding_window=None)),
    "qwen2": ("qwen2", grouped(None, hidden_size=60)),
    "qwen2_windows": ("qwen2", QWEN2 | {"max_window_layers": 1}),
    "qwen2_listed": ("qwen2", QWEN2 | {"layer_types": LAYERS, "tie_word_embeddings": True}),
    "qwen3": ("qwen3", grouped(6)),
    "mixtral": ("mixtral", grouped(num_local_experts=7, num_experts_per_tok=3, sliding_window=11)),
    "gemma": ("gemma", grouped(6)),
    "gemma2": ("gemma2", grouped(6, sliding_window=11, **CAPS)),
    "gemma2_listed": ("gemma2", grouped(6, sliding_window=11, layer_types=LAYERS[::-1], **CAPS)),
}
