"""Which small configs have layers with a state or a convolution: what is known of the past in a few numbers?"""

from __future__ import annotations

from typing import Any

from tests.toy_keys import EXPERTS, MULTIPLIERS, TOKENS, grouped

MAMBA: dict[str, Any] = TOKENS | {"hidden_size": 30, "state_size": 7, "time_step_rank": 3}
MAMBA2: dict[str, Any] = TOKENS | {"hidden_size": 30, "num_heads": 6, "head_dim": 10, "n_groups": 2, "state_size": 7}
JAMBA: dict[str, Any] = grouped(
    None, hidden_size=60, num_hidden_layers=4, num_experts=7, num_experts_per_tok=3, mamba_d_state=7
)
JAMBA |= {"mamba_dt_rank": 3, "attn_layer_period": 3, "attn_layer_offset": 1}
JAMBA = {key: value for key, value in JAMBA.items() if key != "rope_parameters"}  # its positions are those of the states
LFM2: dict[str, Any] = grouped(None, hidden_size=60, num_hidden_layers=3, norm="norm_eps", block_multiple_of=16)
QWEN3_NEXT: dict[str, Any] = grouped(8, hidden_size=60, shared_expert_intermediate_size=13, **EXPERTS)
QWEN3_NEXT |= {"linear_num_key_heads": 2, "linear_num_value_heads": 6, "linear_key_head_dim": 5, "linear_value_head_dim": 7}
LFM2_MOE: dict[str, Any] = grouped(None, hidden_size=60, num_hidden_layers=3, norm="norm_eps", **EXPERTS)
LFM2_MOE |= {"layer_types": ["conv", "full_attention", "conv"], "num_dense_layers": 1, "routed_scaling_factor": 1.7}
HYBRID: dict[str, Any] = grouped(None, hidden_size=60, num_hidden_layers=3, shared_intermediate_size=13, **MULTIPLIERS)
HYBRID |= {"mamba_n_heads": 6, "mamba_n_groups": 2, "mamba_d_state": 7, "num_local_experts": 7, "num_experts_per_tok": 3}
HYBRID |= {"layer_types": ["linear_attention", "full_attention", "linear_attention"]}

STATES: dict[str, tuple[str, dict[str, Any]]] = {
    "mamba": ("mamba", MAMBA | {"use_bias": True, "tie_word_embeddings": False, "expand": 3, "conv_kernel": 5}),
    "mamba_plain": ("mamba", MAMBA | {"use_conv_bias": False, "layer_norm_epsilon": 1e-4}),
    "falcon_mamba": ("falcon_mamba", MAMBA | {"use_bias": True, "mixer_rms_eps": 1e-3}),
    "mamba2": ("mamba2", MAMBA2 | {"use_bias": True, "tie_word_embeddings": True, "conv_kernel": 5, "chunk_size": 8}),
    "mamba2_plain": ("mamba2", MAMBA2 | {"use_conv_bias": False}),
    "jamba": ("jamba", JAMBA | {"mamba_proj_bias": True}),
    "jamba_plain": ("jamba", JAMBA | {"mamba_conv_bias": False, "mamba_d_conv": 3, "mamba_expand": 1}),
    "lfm2": ("lfm2", LFM2 | {"layer_types": ["conv", "full_attention", "conv"], "block_ffn_dim_multiplier": 1.3}),
    "lfm2_biased": ("lfm2", LFM2 | {"full_attn_idxs": [0, 2], "conv_bias": True, "conv_L_cache": 5}),
    "lfm2_exact": (
        "lfm2",
        LFM2
        | {"layer_types": ["conv"] * 2 + ["full_attention"], "block_auto_adjust_ff_dim": False, "tie_word_embeddings": False},
    ),
    "qwen3_next": ("qwen3_next", QWEN3_NEXT | {"num_hidden_layers": 4, "linear_conv_kernel_dim": 3}),
    "qwen3_next_listed": (
        "qwen3_next",
        QWEN3_NEXT | {"layer_types": ["full_attention", "linear_attention"], "attention_bias": True},
    ),
    "lfm2_moe": ("lfm2_moe", LFM2_MOE),
    "lfm2_moe_biased": ("lfm2_moe", LFM2_MOE | {"conv_bias": True, "tie_word_embeddings": False}),
    "granitemoehybrid": ("granitemoehybrid", HYBRID | {"position_embedding_type": "rope", "attention_bias": True}),
    "granitemoehybrid_biased": ("granitemoehybrid", HYBRID | {"mamba_proj_bias": True, "mamba_conv_bias": False}),
    "granitemoehybrid_dense": ("granitemoehybrid", HYBRID | {"num_local_experts": 0, "position_embedding_type": "nope"}),
}
