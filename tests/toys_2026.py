"""Which small configs have the families of 2026? Sizes that are as little alike as each family allows."""

from __future__ import annotations

from typing import Any

from tests.toy_keys import EXPERTS, LLAMA3, MULTIPLIERS, PARTIAL, ROPE, TOKENS, YARN, grouped

LATENT: dict[str, Any] = {
    **TOKENS,
    "num_hidden_layers": 3,
    "num_attention_heads": 5,
    "num_key_value_heads": 5,
    "hidden_size": 35,
    "intermediate_size": 31,
    "q_lora_rank": 11,
    "kv_lora_rank": 13,
    "qk_nope_head_dim": 6,
    "qk_rope_head_dim": 12,
    "v_head_dim": 7,
    "max_position_embeddings": 1024,
    "rope_parameters": ROPE,
    "rms_norm_eps": 1e-4,
}
LATENT_EXPERTS: dict[str, Any] = LATENT | {
    "moe_intermediate_size": 9,
    "n_shared_experts": 2,
    "n_routed_experts": 12,
    "n_group": 4,
    "topk_group": 2,
    "num_experts_per_tok": 5,
    "routed_scaling_factor": 1.7,
}
GROWTH: dict[str, Any] = {"llama_4_scaling_beta": 0.3, "original_max_position_embeddings": 7}
GROWING: dict[str, Any] = YARN | GROWTH
STATED: dict[str, Any] = {"linear_num_key_heads": 2, "linear_num_value_heads": 6, "linear_key_head_dim": 5}
STATED |= {"linear_value_head_dim": 7, "hidden_size": 60, "rope_parameters": ROPE | {"mrope_section": [1, 0, 0]}}
STATED_EXPERTS: dict[str, Any] = STATED | {"shared_expert_intermediate_size": 13, **EXPERTS}
GROUPS: dict[str, Any] = {"num_experts": 12, "num_experts_per_tok": 5, "num_shared_experts": 2, "moe_intermediate_size": 9}
LOCAL = ["sliding_attention", "full_attention", "sliding_attention"]
OTHERWISE = ("rope_parameters", "n_routed_experts", "n_group", "num_experts_per_tok", "n_shared_experts")
KIMI: dict[str, Any] = {k: v for k, v in LATENT_EXPERTS.items() if k not in OTHERWISE}
KIMI |= {"q_lora_rank": None, "num_experts": 12, "linear_num_heads": 3, "linear_head_dim": 5, "num_hidden_layers": 5}
KIMI |= {"num_expert_group": 4, "num_experts_per_token": 5, "num_shared_experts": 2}
BAMBA: dict[str, Any] = grouped(None, PARTIAL, hidden_size=60, num_hidden_layers=3, mamba_n_heads=6, mamba_n_groups=2)
BAMBA |= {"mamba_d_state": 7, "attn_layer_indices": [1]}
SWA: dict[str, Any] = grouped(None, hidden_size=60, num_hidden_layers=5, sliding_window=11, **MULTIPLIERS)
NEMOTRON: dict[str, Any] = grouped(8, hidden_size=60, norm="layer_norm_epsilon", mamba_num_heads=6, mamba_head_dim=10)
NEMOTRON |= {"ssm_state_size": 7, "n_groups": 2, "n_routed_experts": 7, "num_experts_per_tok": 3, "moe_intermediate_size": 9}
NEMOTRON |= {"moe_shared_expert_intermediate_size": 13, "routed_scaling_factor": 1.7}
NEMOTRON = {key: value for key, value in NEMOTRON.items() if key not in ("rope_parameters", "num_hidden_layers")}
MLPS = ["sparse", "dense", "sparse"]
SHARED: dict[str, Any] = grouped(None, hidden_size=60, num_local_experts=7, num_experts_per_tok=3, **MULTIPLIERS)

OF_2026: dict[str, tuple[str, dict[str, Any]]] = {
    "granitemoeshared": ("granitemoeshared", SHARED | {"shared_intermediate_size": 13}),
    "granitemoeshared_none": ("granitemoeshared", SHARED | {"shared_intermediate_size": 0}),
    "ministral3": ("ministral3", grouped(12, GROWING, sliding_window=11)),
    "ministral3_whole": ("ministral3", grouped(12, ROPE | GROWTH, tie_word_embeddings=True)),
    "glm4_moe_lite": ("glm4_moe_lite", LATENT_EXPERTS),
    "glm4_moe_lite_listed": ("glm4_moe_lite", LATENT_EXPERTS | {"mlp_layer_types": MLPS, "rope_parameters": YARN}),
    "axk1": ("axk1", LATENT_EXPERTS | {"rope_parameters": YARN}),
    "axk1_listed": ("axk1", LATENT_EXPERTS | {"mlp_layer_types": MLPS}),
    "youtu": ("youtu", LATENT),
    "youtu_untied": ("youtu", LATENT | {"rope_parameters": YARN, "tie_word_embeddings": False}),
    "mistral4": ("mistral4", LATENT_EXPERTS | {"rope_parameters": GROWING}),
    "mistral4_dense": ("mistral4", LATENT_EXPERTS | {"rope_parameters": GROWING, "first_k_dense_replace": 2}),
    "qwen3_5": ("qwen3_5_text", grouped(8, **STATED, num_hidden_layers=4, linear_conv_kernel_dim=3)),
    "qwen3_5_listed": (
        "qwen3_5_text",
        grouped(8, **STATED, layer_types=["full_attention", "linear_attention"], attention_bias=True),
    ),
    "qwen3_5_moe": ("qwen3_5_moe_text", grouped(8, **STATED_EXPERTS, num_hidden_layers=4)),
    "exaone_moe": (
        "exaone_moe",
        grouped(None, hidden_size=60, num_hidden_layers=5, sliding_window=11, n_group=4, topk_group=2, **GROUPS),
    ),
    "exaone_moe_listed": (
        "exaone_moe",
        grouped(None, YARN, hidden_size=180, num_hidden_layers=3, layer_types=LOCAL, mlp_layer_types=MLPS, sliding_window=11)
        | GROUPS,
    ),
    "hy_v3": ("hy_v3", grouped(12, attention_bias=True, num_hidden_layers=3, **GROUPS)),
    "hy_v3_listed": ("hy_v3", grouped(12, LLAMA3, num_hidden_layers=3, mlp_layer_types=MLPS, **GROUPS)),
    "afmoe": ("afmoe", grouped(6, num_hidden_layers=5, sliding_window=11, mup_enabled=True, num_dense_layers=2, **GROUPS)),
    "afmoe_listed": ("afmoe", grouped(6, num_hidden_layers=3, sliding_window=11, layer_types=LOCAL, route_scale=1.3, **GROUPS)),
    "granite_swa": ("granite_swa", SWA),
    "granite_swa_listed": (
        "granite_swa",
        grouped(None, hidden_size=60, num_hidden_layers=3, sliding_window=11, layer_types=LOCAL, tie_word_embeddings=False)
        | {"layer_rope_theta": [0, 500.0, 90.0]},
    ),
    "granitemoe_swa": (
        "granitemoe_swa",
        SWA | {"num_local_experts": 7, "num_experts_per_tok": 3, "shared_intermediate_size": 13},
    ),
    "kimi_linear": ("kimi_linear", KIMI | {"linear_conv_kernel_dim": 3}),
    "kimi_linear_listed": (
        "kimi_linear",
        KIMI
        | {"num_hidden_layers": 3, "layer_types": ["full_attention", "linear_attention", "full_attention"]}
        | {"mlp_layer_types": MLPS},
    ),
    "bamba": ("bamba", BAMBA),
    "bamba_biased": ("bamba", BAMBA | {"mamba_proj_bias": True, "mamba_conv_bias": False, "attention_bias": True}),
    "nemotron_h": ("nemotron_h", NEMOTRON | {"layers_block_type": ["linear_attention", "moe", "full_attention", "mlp"]}),
    "nemotron_h_biased": (
        "nemotron_h",
        NEMOTRON | {"layers_block_type": ["full_attention", "linear_attention"], "use_bias": True, "use_conv_bias": False},
    ),
}
