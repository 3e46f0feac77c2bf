"""Which small configs have the families of 2026? Sizes that are as little alike as each family allows."""

from __future__ import annotations

from typing import Any

from tests.toy_keys import EXPERTS, LINEAR, LLAMA3, MULTIPLIERS, PARTIAL, ROPE, TOKENS, VOCABULARY, YARN, grouped

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
KINDS: dict[str, Any] = {"full_attention": ROPE, "sliding_attention": ROPE | {"rope_theta": 90.0}}
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
MINICPM3: dict[str, Any] = LATENT | {"scale_emb": 1.7, "scale_depth": 0.6, "dim_model_base": 17}
OLMO_HYBRID: dict[str, Any] = grouped(None, hidden_size=60, num_hidden_layers=4, linear_num_key_heads=2)
OLMO_HYBRID |= {"linear_num_value_heads": 6, "linear_key_head_dim": 21, "linear_value_head_dim": 7}  # theirs writes equal parts
FALCON_H1: dict[str, Any] = grouped(None, hidden_size=60, mamba_n_heads=6, mamba_d_ssm=42, mamba_n_groups=2, mamba_d_state=7)
FALCON_H1 |= {"mlp_multipliers": [0.7, 1.3], "ssm_multipliers": [0.6, 1.2, 0.8, 1.1, 0.9], "key_multiplier": 1.4}
FALCON_H1 |= {"attention_in_multiplier": 0.9, "attention_out_multiplier": 1.2, "ssm_in_multiplier": 1.3}
FALCON_H1 |= {"ssm_out_multiplier": 0.7, "embedding_multiplier": 1.7, "lm_head_multiplier": 0.4}
MELLUM: dict[str, Any] = grouped(6, KINDS, num_hidden_layers=3, sliding_window=11, norm_topk_prob=True, **EXPERTS)
GRIFFIN: dict[str, Any] = {"hidden_size": 64, "num_attention_heads": 4, "num_key_value_heads": 2, "lru_width": 28}
GRIFFIN = TOKENS | GRIFFIN | {"num_hidden_layers": 4, "intermediate_size": 34, "attention_window_size": 11}
FLINT: dict[str, Any] = grouped(6, num_hidden_layers=5, sliding_window=11, shared_expert_intermediate_size=13, **EXPERTS)
KOLIBRI: dict[str, Any] = {key: value for key, value in FLINT.items() if key != "intermediate_size"}
LING: dict[str, Any] = {k: v for k, v in LATENT_EXPERTS.items() if k not in (*OTHERWISE, "q_lora_rank")}
LING |= {"rope_parameters": ROPE, "rope_theta": 500.0, "num_hidden_layers": 4, "layer_group_size": 2, "head_dim": 12}
LING |= {"num_experts": 12, "num_expert_group": 4, "num_experts_per_token": 5, "num_shared_experts": 2}
LING |= {"first_k_dense_replace": 1, "short_conv_kernel_size": 3}
ARIA: dict[str, Any] = {"moe_num_experts": 7, "moe_topk": 3, "moe_num_shared_experts": 2}
HALVES: dict[str, Any] = {"full_attention": PARTIAL | {"rope_type": "proportional"}, "sliding_attention": ROPE}
LFM3: dict[str, Any] = grouped(8, HALVES, num_hidden_layers=5, norm="norm_eps", sliding_window=11)
KINDS_IN_PART: dict[str, Any] = {kind: rope | {"partial_rotary_factor": 0.5} for kind, rope in KINDS.items()}
MIMO: dict[str, Any] = grouped(8, KINDS_IN_PART, num_attention_heads=12, num_hidden_layers=3, v_head_dim=7, sliding_window=11)
MIMO |= {"n_routed_experts": 12, "num_experts_per_tok": 5, "moe_intermediate_size": 9, "n_group": 4, "topk_group": 2}
LAGUNA: dict[str, Any] = grouped(8, KINDS_IN_PART, num_hidden_layers=3, layer_types=LOCAL, sliding_window=11, **EXPERTS)
LAGUNA |= {
    "num_attention_heads_per_layer": [12, 15, 12],
    "shared_expert_intermediate_size": 13,
    "moe_routed_scaling_factor": 1.7,
}
LAGUNA |= {"moe_router_logit_softcapping": 0.8}
INDEXED: dict[str, Any] = LATENT_EXPERTS | {"index_n_heads": 8, "index_head_dim": 17, "index_topk": 9}
UNGROUPED: dict[str, Any] = {k: v for k, v in INDEXED.items() if k not in ("n_group", "topk_group")} | {"gated_norm_rank": 5}
GEMMA4: dict[str, Any] = grouped(8, {"full_attention": PARTIAL | {"rope_type": "proportional"}, "sliding_attention": ROPE})
GEMMA4 |= {"num_hidden_layers": 6, "sliding_window": 11, "vocab_size_per_layer_input": VOCABULARY}
GEMMA4 |= {"hidden_size_per_layer_input": 6, "num_kv_shared_layers": 3, "tie_word_embeddings": True}
GEMMA4 |= {"layer_types": ["sliding_attention", "full_attention"] * 3}
GEMMA4 |= {"per_layer_config": {layer: {"head_dim": 16} for layer in (1, 3, 5)}}
GEMMA4_LARGE: dict[str, Any] = GEMMA4 | {"hidden_size_per_layer_input": 0, "num_kv_shared_layers": 0, "attention_k_eq_v": True}
GEMMA4_LARGE |= {
    "per_layer_config": {layer: {"head_dim": 16, "num_key_value_heads": 3} for layer in (1, 3)},
    "num_hidden_layers": 4,
    "layer_types": ["sliding_attention", "full_attention"] * 2,
}
OF_GEMMA4: dict[str, Any] = {"enable_moe_block": True, "num_experts": 7, "top_k_experts": 3, "moe_intermediate_size": 9}
GEMMA3N: dict[str, Any] = grouped(8, KINDS, num_hidden_layers=6, num_kv_shared_layers=3, sliding_window=11, hidden_size=60)
GEMMA3N |= {"vocab_size_per_layer_input": VOCABULARY - 4, "hidden_size_per_layer_input": 6, "laurel_rank": 7}
GEMMA3N |= {"activation_sparsity_pattern": [0.95, 0.0, 0.3, 0.0, 0.7, 0.0], "final_logit_softcapping": 0.7}
GEMMA3N |= {"layer_types": ["sliding_attention", "full_attention"] * 3, "tie_word_embeddings": True}
JETMOE: dict[str, Any] = {k: v for k, v in grouped().items() if k not in ("num_attention_heads", "head_dim")}
JETMOE |= {"kv_channels": 6, "num_local_experts": 7, "num_experts_per_tok": 3, "rms_norm_eps": 1e-3}
UNIFIED: dict[str, Any] = {k: v for k, v in GEMMA4_LARGE.items() if "per_layer_input" not in k}
JAPANESE: dict[str, Any] = TOKENS | {"hidden_size": 40, "num_attention_heads": 5, "intermediate_multiple_size": 3}
JAPANESE |= {"rope_parameters": PARTIAL, "num_hidden_layers": 3, "layer_norm_eps": 1e-3}
LONGCAT: dict[str, Any] = {k: v for k, v in LATENT.items() if k not in ("intermediate_size", "num_hidden_layers")}
LONGCAT |= {"num_layers": 2, "ffn_hidden_size": 31, "expert_ffn_hidden_size": 9, "n_routed_experts": 7, "zero_expert_num": 4}
LONGCAT |= {"moe_topk": 5, "head_dim": 12, "routed_scaling_factor": 1.7}
RWKV: dict[str, Any] = {k: v for k, v in TOKENS.items() if k != "num_hidden_layers"} | {"num_hidden_layers": 5}
RWKV |= {"hidden_size": 20, "intermediate_size": 31, "rescale_every": 2}
XLSTM: dict[str, Any] = {k: v for k, v in TOKENS.items() if k != "num_hidden_layers"} | {"num_hidden_layers": 2}
XLSTM |= {"hidden_size": 36, "num_heads": 3, "qk_dim_factor": 0.75, "v_dim_factor": 1.25, "ffn_proj_factor": 1.1}
XLSTM |= {
    "ffn_round_up_to_multiple_of": 7,
    "gate_soft_cap": 1.5,
    "output_logit_soft_cap": 2.5,
    "norm_eps": 1e-3,
    "use_cache": False,
}
CTRL: dict[str, Any] = {"vocab_size": VOCABULARY, "n_embd": 30, "n_head": 5, "n_layer": 2, "dff": 31, "n_positions": 41}
CTRL |= {"layer_norm_epsilon": 1e-3, "embd_pdrop": 0.2}
BEAM: dict[str, Any] = grouped(8, {"sliding_attention": ROPE, "full_attention": None}, num_hidden_layers=5, sliding_window=11)
BEAM |= {"num_experts": 12, "num_experts_per_tok": 5, "moe_intermediate_size": 9, "n_group": 4, "topk_group": 2}
BEAM |= {"mlp_layer_types": ["dense", "sparse"] * 2 + ["sparse"], "final_logit_softcapping": 2.5, "routed_scaling_factor": 1.7}
UNCAPPED: dict[str, Any] = {"final_logit_softcapping": None, "mlp_layer_types": None}
DIFFERENCES: dict[str, Any] = grouped(6, num_attention_heads=12, num_key_value_heads=4, num_hidden_layers=3)

OF_2026: dict[str, tuple[str, dict[str, Any]]] = {
    "gpt_neox_japanese": ("gpt_neox_japanese", JAPANESE),
    "gpt_neox_japanese_untied": (
        "gpt_neox_japanese",
        JAPANESE | {"tie_word_embeddings": False, "rope_parameters": YARN | {"partial_rotary_factor": 0.5}},
    ),
    "longcat_flash": ("longcat_flash", LONGCAT),
    "longcat_flash_yarn": ("longcat_flash", LONGCAT | {"rope_parameters": YARN, "tie_word_embeddings": True}),
    "diffllama": ("diffllama", DIFFERENCES),
    "diffllama_tied": ("diffllama", DIFFERENCES | {"rope_parameters": YARN, "tie_word_embeddings": True}),
    "beam": ("beam", BEAM),
    "beam_uncapped": (
        "beam",
        BEAM | {"final_logit_softcapping": None, "layer_types": LOCAL + LOCAL[:2], "mlp_layer_types": None},
    ),
    "ctrl": ("ctrl", CTRL),
    "ctrl_untied": ("ctrl", CTRL | {"tie_word_embeddings": False}),
    "xlstm": ("xlstm", XLSTM),
    "rwkv": ("rwkv", RWKV),
    "rwkv_unscaled": ("rwkv", RWKV | {"rescale_every": 0, "tie_word_embeddings": True}),
    "granitemoeshared": ("granitemoeshared", SHARED | {"shared_intermediate_size": 13}),
    "granitemoeshared_none": ("granitemoeshared", SHARED | {"shared_intermediate_size": 0}),
    "ministral3": ("ministral3", grouped(12, GROWING, sliding_window=11)),
    "ministral3_whole": ("ministral3", grouped(12, ROPE | GROWTH, tie_word_embeddings=True)),
    "glm4_moe_lite": ("glm4_moe_lite", LATENT_EXPERTS),
    "glm4_moe_lite_listed": ("glm4_moe_lite", LATENT_EXPERTS | {"mlp_layer_types": MLPS, "rope_parameters": YARN}),
    "axk1": ("axk1", LATENT_EXPERTS | {"rope_parameters": YARN}),
    "axk1_listed": ("axk1", LATENT_EXPERTS | {"mlp_layer_types": MLPS}),
    "deepseek_v32": ("deepseek_v32", INDEXED | {"first_k_dense_replace": 1}),
    "deepseek_v32_listed": ("deepseek_v32", INDEXED | {"mlp_layer_types": MLPS, "rope_parameters": YARN}),
    "axk2": ("axk2", UNGROUPED),
    "axk2_listed": ("axk2", UNGROUPED | {"mlp_layer_types": MLPS, "rope_parameters": YARN}),
    "glm_moe_dsa": ("glm_moe_dsa", INDEXED | {"first_k_dense_replace": 1, "index_topk_freq": 2, "num_hidden_layers": 4}),
    "glm_moe_dsa_listed": (
        "glm_moe_dsa",
        INDEXED | {"mlp_layer_types": MLPS, "indexer_types": ["full", "shared", "full"], "rope_parameters": YARN},
    ),
    "gemma4": ("gemma4_text", GEMMA4 | {"final_logit_softcapping": 0.7}),
    "gemma4_wide": ("gemma4_text", GEMMA4 | {"use_double_wide_mlp": True, "num_kv_shared_layers": 2}),
    "gemma4_large": ("gemma4_text", GEMMA4_LARGE),
    "gemma4_experts": ("gemma4_text", GEMMA4_LARGE | OF_GEMMA4),
    "gemma4_unified": ("gemma4_unified_text", UNIFIED),
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
    "minicpm3": ("minicpm3", MINICPM3),
    "minicpm3_plain": (
        "minicpm3",
        LATENT
        | {"scale_depth": None, "dim_model_base": None, "v_head_dim": None, "tie_word_embeddings": False}
        | {"rope_parameters": YARN | {"mscale": 0.7, "mscale_all_dim": 1.3}},
    ),
    "olmo_hybrid": ("olmo_hybrid", OLMO_HYBRID),
    "olmo_hybrid_listed": (
        "olmo_hybrid",
        OLMO_HYBRID
        | {"layer_types": ["full_attention", "linear_attention"], "num_hidden_layers": 2, "linear_allow_neg_eigval": False}
        | {"linear_key_head_dim": 5},
    ),
    "falcon_h1": ("falcon_h1", FALCON_H1),
    "falcon_h1_normed": ("falcon_h1", FALCON_H1 | {"mamba_rms_norm": True, "mamba_norm_before_gate": False}),
    "falcon_h1_normed_first": ("falcon_h1", FALCON_H1 | {"mamba_rms_norm": True}),
    "falcon_h1_plain": (
        "falcon_h1",
        grouped(None, LLAMA3, hidden_size=180, mamba_n_heads=6, mamba_d_ssm=42, mamba_conv_bias=False)
        | {"tie_word_embeddings": True, "mamba_proj_bias": True, "projectors_bias": True},
    ),
    "mellum": ("mellum", MELLUM),
    "mellum_listed": (
        "mellum",
        MELLUM | {"layer_types": LOCAL, "mlp_layer_types": MLPS, "rope_parameters": KINDS | {"full_attention": LLAMA3}},
    ),
    "laguna": ("laguna", LAGUNA | {"num_attention_heads_per_layer": None}),
    "laguna_listed": ("laguna", LAGUNA),
    "laguna_plain": (
        "laguna",
        LAGUNA
        | {"layer_types": None, "num_attention_heads_per_layer": None, "gating": "per-head", "rope_parameters": None}
        | {"moe_router_logit_softcapping": 0.0},
    ),
    "laguna_yarn": (
        "laguna",
        LAGUNA
        | {
            "mlp_layer_types": MLPS,
            "rope_parameters": KINDS_IN_PART | {"full_attention": YARN | {"partial_rotary_factor": 0.5}},
        },
    ),
    "gemma3n": ("gemma3n_text", GEMMA3N),
    "gemma3n_plain": (
        "gemma3n_text",
        GEMMA3N
        | {"layer_types": None, "activation_sparsity_pattern": None, "num_kv_shared_layers": 0, "rope_parameters": None},
    ),
    "jetmoe": ("jetmoe", JETMOE),
    "jetmoe_untied": (
        "jetmoe",
        JETMOE | {"tie_word_embeddings": False, "rope_parameters": LLAMA3, "attention_dropout": 0.1, "kv_channels": 12},
    ),
    "recurrent_gemma": ("recurrent_gemma", GRIFFIN),
    "recurrent_gemma_biased": ("recurrent_gemma", GRIFFIN | {"attention_bias": True, "num_key_value_heads": 1}),
    "flint": ("flint", FLINT),
    "flint_listed": ("flint", FLINT | {"num_hidden_layers": 3, "layer_types": LOCAL, "mlp_only_layers": [1]}),
    "kolibri1": ("kolibri1", KOLIBRI),
    "kolibri1_listed": (
        "kolibri1",
        KOLIBRI | {"num_hidden_layers": 3, "layer_types": LOCAL, "tie_word_embeddings": True, "rope_parameters": LINEAR},
    ),
    "bailing_hybrid": ("bailing_hybrid", LING),
    "bailing_hybrid_listed": (
        "bailing_hybrid",
        LING
        | {"num_hidden_layers": 3, "layer_types": ["full_attention", "linear_attention", "full_attention"]}
        | {"mlp_layer_types": MLPS, "kda_lower_bound": -2.5, "rope_parameters": YARN, "head_dim": 5},
    ),
    "aria_text": ("aria_text", grouped(None, hidden_size=60, **ARIA)),
    "lfm3": ("lfm3", LFM3),
    "lfm3_listed": (
        "lfm3",
        LFM3
        | {"num_hidden_layers": 3, "layer_types": ["sliding_attention", "conv", "full_attention"], "conv_bias": True}
        | {"tie_word_embeddings": False, "conv_L_cache": 3},
    ),
    "mimo_v2_flash": ("mimo_v2_flash", MIMO),
    "mimo_v2_flash_listed": (
        "mimo_v2_flash",
        MIMO | {"layer_types": LOCAL, "mlp_layer_types": MLPS, "attention_value_scale": None, "routed_scaling_factor": 1.7},
    ),
}
