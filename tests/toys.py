"""Which small configs switch on every feature of each family? Sizes that are as little alike as each family allows."""

from __future__ import annotations

import copy
import functools
import json
from typing import Any

from transformers import AutoConfig

from einformer.huggingface.config import import_config
from tests.few import FEW_FAMILIES, few
from tests.toy_keys import (
    CAPS,
    DYNAMIC,
    EXPERTS,
    LAYERS,
    LINEAR,
    LLAMA3,
    LONG,
    MULTIPLIERS,
    PARTIAL,
    ROPE,
    TOKENS,
    VOCABULARY,
    YARN,
    grouped,
)
from tests.toys_2026 import OF_2026
from tests.toys_with_states import STATES

QWEN2: dict[str, Any] = grouped(None, hidden_size=60, use_sliding_window=True, sliding_window=11)
NEOX: dict[str, Any] = TOKENS | {"hidden_size": 40, "num_attention_heads": 5, "intermediate_size": 31}
NEOX |= {"rope_parameters": ROPE | {"partial_rotary_factor": 0.75}}
NAMED: dict[str, Any] = {
    "vocab_size": VOCABULARY,
    "n_head": 5,
    "n_layer": 2,
    "n_inner": 31,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
OSS: dict[str, Any] = grouped(
    12, sliding_window=11, swiglu_limit=0.7, swiglu_alpha=1.3, num_local_experts=7, num_experts_per_tok=3
)
DEEPSEEK: dict[str, Any] = {
    **TOKENS,
    "num_hidden_layers": 3,
    "first_k_dense_replace": 1,
    "num_attention_heads": 5,
    "num_key_value_heads": 5,
    "hidden_size": 35,
    "intermediate_size": 31,
    "moe_intermediate_size": 9,
    "n_shared_experts": 2,
    "n_routed_experts": 12,
    "n_group": 4,
    "topk_group": 2,
    "num_experts_per_tok": 5,
    "routed_scaling_factor": 1.7,
    "q_lora_rank": 11,
    "kv_lora_rank": 13,
    "qk_nope_head_dim": 6,
    "qk_rope_head_dim": 12,
    "v_head_dim": 7,
    "max_position_embeddings": 1024,
    "rope_parameters": ROPE,
}
LITE: dict[str, Any] = {key: value for key, value in DEEPSEEK.items() if key not in ("n_group", "topk_group")}
LITE |= {"q_lora_rank": None, "hidden_size": 60, "kv_lora_rank": 14}  # a complex view wants even strides
V2: dict[str, Any] = DEEPSEEK | {"hidden_size": 60, "kv_lora_rank": 14}
OPT: dict[str, Any] = TOKENS | {
    "hidden_size": 40,
    "ffn_dim": 31,
    "num_attention_heads": 5,
    "max_position_embeddings": 41,
    "dropout": 0.2,
}
FALCON: dict[str, Any] = TOKENS | {"hidden_size": 40, "num_attention_heads": 5, "ffn_hidden_size": 31, "rope_parameters": ROPE}
HEADS: dict[str, Any] = {"num_attention_heads": 15, "num_kv_heads": 3}
KINDS: dict[str, Any] = {"full_attention": ROPE, "sliding_attention": ROPE | {"rope_theta": 90.0}}
COHERE2: dict[str, Any] = grouped(None, YARN, hidden_size=180, sliding_window=11, logit_scale=0.3, norm="layer_norm_eps")
NEO: dict[str, Any] = {"vocab_size": VOCABULARY, "hidden_size": 40, "num_heads": 5, "num_layers": 3, "window_size": 11}
NEO |= {"max_position_embeddings": 41, "bos_token_id": 1, "eos_token_id": 2}
STABLE: dict[str, Any] = grouped(None, PARTIAL, hidden_size=120, norm="layer_norm_eps")
MOE: dict[str, Any] = grouped(8, YARN | {"partial_rotary_factor": 0.5}, num_hidden_layers=3)
MOE |= {"moe_intermediate_size": 9, "n_shared_experts": 2, "n_routed_experts": 12, "num_experts_per_tok": 5}
MOE |= {"routed_scaling_factor": 1.7, "first_k_dense_replace": 1}
LLAMA4: dict[str, Any] = grouped(12, LLAMA3, num_hidden_layers=5, attention_chunk_size=11, attn_scale=0.3, floor_scale=7)
LLAMA4 |= {"num_local_experts": 7, "num_experts_per_tok": 3, "interleave_moe_layer_step": 2, "intermediate_size_mlp": 17}
SEED: dict[str, Any] = grouped(attention_out_bias=True, mlp_bias=True, residual_dropout=0.2, attention_dropout=0.3)
PLAIN: dict[str, Any] = {"attention_bias": False, "attention_out_bias": False, "mlp_bias": False}
BIASED: dict[str, Any] = {"attention_bias": True, "mlp_bias": True}
GPT: dict[str, Any] = {"vocab_size": VOCABULARY, "n_embd": 40, "n_head": 5, "n_layer": 2, "n_positions": 41}
CODEGEN: dict[str, Any] = NAMED | {"n_embd": 80, "n_head": 8, "rotary_dim": 6}
XGLM: dict[str, Any] = {"d_model": 30, "ffn_dim": 31, "attention_heads": 5, "num_layers": 2, "dropout": 0.2, "pad_token_id": 1}
XGLM |= {"vocab_size": VOCABULARY}
BIOGPT: dict[str, Any] = TOKENS | {"hidden_size": 40, "num_attention_heads": 5, "intermediate_size": 31}
BIOGPT |= {"max_position_embeddings": 41, "activation_dropout": 0.2, "pad_token_id": 1, "layer_norm_eps": 1e-3}
PERSIMMON: dict[str, Any] = TOKENS | {"hidden_size": 40, "num_attention_heads": 5, "intermediate_size": 31}
PHIMOE: dict[str, Any] = grouped(None, hidden_size=60, num_local_experts=7, router_jitter_noise=0.2, lm_head_bias=True)
MSCALES: dict[str, Any] = ROPE | {
    "rope_type": "longrope",
    "short_factor": [1.0, 1.5],
    "long_factor": [2.0, 3.0],
    "short_mscale": 1.3,
    "long_mscale": 1.7,
    "original_max_position_embeddings": 64,
}
DBRX: dict[str, Any] = {
    "vocab_size": VOCABULARY,
    "d_model": 60,
    "n_heads": 15,
    "n_layers": 2,
    "attn_config": {"kv_n_heads": 3, "clip_qkv": 0.8, "rope_theta": 500.0},
    "ffn_config": {"ffn_hidden_size": 31, "moe_num_experts": 7, "moe_top_k": 3, "moe_jitter_eps": 0.1},
    "rope_parameters": ROPE,
}
ERNIE: dict[str, Any] = {"moe_intermediate_size": 9, "moe_num_experts": 7, "moe_k": 3, "moe_layer_start_index": 1}
DOTS: dict[str, Any] = {
    "moe_intermediate_size": 9,
    "n_routed_experts": 12,
    "n_group": 4,
    "topk_group": 2,
    "num_experts_per_tok": 5,
    "n_shared_experts": 2,
    "first_k_dense_replace": 1,
    "norm_topk_prob": True,
    "routed_scaling_factor": 1.7,
    "sliding_window": 11,
}
ALPHA: dict[str, Any] = ROPE | {"rope_type": "dynamic", "factor": 1.0, "alpha": 5.0}
SOLAR: dict[str, Any] = {key: value for key, value in DOTS.items() if key not in ("first_k_dense_replace", "sliding_window")}
CLOVA: dict[str, Any] = grouped(None, hidden_size=60, **MULTIPLIERS)
NANO: dict[str, Any] = grouped(None, hidden_size=60, final_logit_softcapping=2.5)

TOYS: dict[str, tuple[str, dict[str, Any]]] = {
    "llama": ("llama", grouped()),
    "llama_tied": ("llama", grouped(tie_word_embeddings=True)),
    "llama_linear": ("llama", grouped(12, LINEAR)),
    "llama_llama3": ("llama", grouped(12, LLAMA3)),
    "llama_yarn": ("llama", grouped(12, YARN)),
    "llama_dynamic": ("llama", grouped(12, DYNAMIC)),
    "llama_longrope": ("llama", grouped(12, LONG)),
    "llama_longrope_factor": ("llama", grouped(12, LONG | {"factor": 3.0})),
    "llama_yarn_exact": ("llama", grouped(12, YARN | {"truncate": False, "mscale": 0.7, "mscale_all_dim": 1.3})),
    "llama_yarn_steep": ("llama", grouped(12, YARN | {"beta_fast": 100.0, "beta_slow": 58.2})),
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
    "gemma2_uncapped": ("gemma2", grouped(6, sliding_window=11, **CAPS | {"attn_logit_softcapping": None})),
    "gemma2_listed": ("gemma2", grouped(6, sliding_window=11, layer_types=LAYERS[::-1], **CAPS)),
    "gpt_neox": ("gpt_neox", NEOX),
    "gpt_neox_serial": ("gpt_neox", NEOX | {"use_parallel_residual": False, "tie_word_embeddings": True}),
    "gpt_neox_unbiased": ("gpt_neox", NEOX | {"attention_bias": False}),
    "gpt_neox_dynamic": ("gpt_neox", NEOX | {"rope_parameters": DYNAMIC | {"partial_rotary_factor": 0.75}}),
    "gptj": ("gptj", NAMED | {"n_embd": 40, "rotary_dim": 6}),
    "gptj_tied": ("gptj", NAMED | {"n_embd": 40, "rotary_dim": 8, "tie_word_embeddings": True}),
    "bloom": ("bloom", {"vocab_size": VOCABULARY, "hidden_size": 30, "n_layer": 2, "n_head": 6}),
    "granite": ("granite", grouped(None, hidden_size=60, **MULTIPLIERS)),
    "granite_yarn": ("granite", grouped(None, YARN, hidden_size=180, tie_word_embeddings=True, **MULTIPLIERS)),
    "olmo": ("olmo", grouped(None, hidden_size=60, clip_qkv=0.8)),
    "olmo2": ("olmo2", grouped(None, hidden_size=60)),
    "qwen3_moe": ("qwen3_moe", grouped(6, num_experts=7, num_experts_per_tok=3, moe_intermediate_size=9, norm_topk_prob=True)),
    "gemma2_linear": ("gemma2", grouped(6, LINEAR, sliding_window=11, **CAPS)),
    "phi_linear": ("phi", grouped(None, LINEAR | {"partial_rotary_factor": 0.5}, hidden_size=120, norm="layer_norm_eps")),
    "phi_yarn": ("phi", grouped(None, YARN | {"partial_rotary_factor": 0.5}, hidden_size=240, norm="layer_norm_eps")),
    "phi": ("phi", grouped(None, PARTIAL, hidden_size=120, resid_pdrop=0.1, norm="layer_norm_eps")),
    "phi3": ("phi3", grouped(None, PARTIAL, hidden_size=120, sliding_window=11)),
    "phi3_longrope": (
        "phi3",
        grouped(None, LONG | {"partial_rotary_factor": 0.75}, hidden_size=240, original_max_position_embeddings=64),
    ),
    "starcoder2": (
        "starcoder2",
        grouped(None, hidden_size=60, sliding_window=11, tie_word_embeddings=False, norm="norm_epsilon")
        | {"attention_dropout": 0.1, "residual_dropout": 0.2, "embedding_dropout": 0.3},
    ),
    "starcoder2_unbiased": ("starcoder2", grouped(None, YARN, hidden_size=60, use_bias=False, norm="norm_epsilon")),
    "cohere": ("cohere", grouped(None, hidden_size=60, logit_scale=0.3, norm="layer_norm_eps")),
    "cohere_yarn": ("cohere", grouped(None, YARN, hidden_size=180, norm="layer_norm_eps")),
    "cohere_qk": ("cohere", grouped(None, hidden_size=60, use_qk_norm=True, tie_word_embeddings=False, norm="layer_norm_eps")),
    "qwen2_moe": ("qwen2_moe", grouped(None, hidden_size=60, shared_expert_intermediate_size=13, **EXPERTS)),
    "gpt_oss": ("gpt_oss", OSS | {"rope_parameters": YARN | {"truncate": False, "factor": 32.0}}),
    "gpt_oss_listed": ("gpt_oss", OSS | {"layer_types": LAYERS[::-1], "rope_parameters": ROPE}),
    "deepseek_v3": ("deepseek_v3", DEEPSEEK),
    "deepseek_v3_lite": ("deepseek_v3", DEEPSEEK | {"q_lora_rank": None, "rms_norm_eps": 1e-3}),
    "deepseek_v3_yarn": ("deepseek_v3", DEEPSEEK | {"rope_parameters": YARN | {"mscale": 0.7, "mscale_all_dim": 1.3}}),
    "mpt": ("mpt", {"vocab_size": VOCABULARY, "d_model": 30, "n_heads": 6, "n_layers": 2, "max_seq_len": 41}),
    "gpt_bigcode": ("gpt_bigcode", NAMED | {"n_embd": 40, "n_positions": 41}),
    "gpt_bigcode_heads": ("gpt_bigcode", NAMED | {"n_embd": 40, "n_positions": 41, "multi_query": False}),
    "opt": ("opt", OPT),
    "opt_narrow": ("opt", OPT | {"word_embed_proj_dim": 14}),
    "opt_post": ("opt", OPT | {"do_layer_norm_before": False}),
    "opt_post_narrow": ("opt", OPT | {"do_layer_norm_before": False, "word_embed_proj_dim": 14}),
    "deepseek_v2": ("deepseek_v2", V2),
    "deepseek_v2_groups": ("deepseek_v2", V2 | {"topk_method": "group_limited_greedy", "rope_parameters": YARN}),
    "deepseek_v2_lite": ("deepseek_v2", LITE),
    "deepseek_v2_yarn": ("deepseek_v2", LITE | {"rope_parameters": YARN | {"mscale": 0.7, "mscale_all_dim": 1.3}}),
    "falcon": ("falcon", FALCON),
    "falcon_llama3": ("falcon", FALCON | {"rope_parameters": LLAMA3}),
    "falcon_biases": ("falcon", FALCON | {"bias": True, "tie_word_embeddings": False}),
    "falcon_grouped": ("falcon", FALCON | {"hidden_size": 60, "new_decoder_architecture": True, "bias": True} | HEADS),
    "falcon_alibi": ("falcon", FALCON | {"alibi": True, "multi_query": False, "parallel_attn": False, "bias": True}),
    "gemma3_text": ("gemma3_text", grouped(6, KINDS, num_hidden_layers=7, sliding_window=11, query_pre_attn_scalar=7)),
    "gemma3_linear": (
        "gemma3_text",
        grouped(6, KINDS | {"full_attention": LINEAR}, num_hidden_layers=7, sliding_window=11, query_pre_attn_scalar=7),
    ),
    "olmo3": ("olmo3", grouped(None, KINDS, hidden_size=60, num_hidden_layers=5, sliding_window=11)),
    "olmo3_yarn": (
        "olmo3",
        grouped(None, KINDS | {"full_attention": YARN}, hidden_size=180, sliding_window=11, layer_types=LAYERS),
    ),
    "gemma3_listed": ("gemma3_text", grouped(6, KINDS, sliding_window=11, layer_types=LAYERS[::-1])),
    "stablelm": ("stablelm", STABLE | {"use_qkv_bias": True}),
    "stablelm_qk": ("stablelm", STABLE | {"qk_layernorm": True, "use_qkv_bias": True}),
    "stablelm_parallel": ("stablelm", STABLE | {"use_parallel_residual": True}),
    "stablelm_parallel_qk": ("stablelm", STABLE | {"use_parallel_residual": True, "qk_layernorm": True}),
    "stablelm_unbiased": ("stablelm", STABLE),
    "stablelm_llama3": (
        "stablelm",
        grouped(None, LLAMA3 | {"partial_rotary_factor": 0.5}, hidden_size=120, norm="layer_norm_eps"),
    ),
    "glm4_yarn": ("glm4", grouped(8, YARN | {"partial_rotary_factor": 0.5}, attention_bias=True)),
    "llama4_text": ("llama4_text", LLAMA4),
    "llama4_even": (
        "llama4_text",
        LLAMA4 | {"attn_temperature_tuning": False, "moe_layers": [0], "no_rope_layers": [0, 1, 1, 0, 1]},
    ),
    "llama4_plain": ("llama4_text", LLAMA4 | {"use_qk_norm": False, "rope_parameters": YARN, "tie_word_embeddings": True}),
    "glm4_moe": ("glm4_moe", MOE),
    "glm4_moe_qk": ("glm4_moe", MOE | {"use_qk_norm": True, "attention_bias": True, "n_group": 4, "topk_group": 2}),
    "glm": ("glm", grouped(8, PARTIAL)),
    "glm_unbiased": ("glm", grouped(8, PARTIAL, attention_bias=False)),
    "smollm3": ("smollm3", grouped(12, YARN, num_hidden_layers=5)),
    "smollm3_windows": (
        "smollm3",
        grouped(None, hidden_size=60, use_sliding_window=True, sliding_window=11, no_rope_layer_interval=2),
    ),
    "smollm3_listed": (
        "smollm3",
        grouped(None, hidden_size=60, use_sliding_window=True, sliding_window=11, layer_types=LAYERS, no_rope_layers=[0, 1])
        | {"tie_word_embeddings": False},
    ),
    "exaone4": ("exaone4", grouped(12, LLAMA3, num_hidden_layers=5, sliding_window=11)),
    "exaone4_listed": ("exaone4", grouped(12, YARN, sliding_window=11, layer_types=LAYERS[::-1], tie_word_embeddings=True)),
    "exaone4_whole": ("exaone4", grouped(12, sliding_window=None, layer_types=LAYERS[1:] * 2)),
    "cohere2": ("cohere2", COHERE2 | {"num_hidden_layers": 5}),
    "cohere2_listed": ("cohere2", COHERE2 | {"layer_types": LAYERS[::-1], "tie_word_embeddings": False}),
    "granitemoe": ("granitemoe", grouped(None, hidden_size=60, num_local_experts=7, num_experts_per_tok=3, **MULTIPLIERS)),
    "nemotron": ("nemotron", grouped(8, PARTIAL, norm="norm_eps")),
    "gpt_neo": ("gpt_neo", NEO | {"intermediate_size": 31, "attention_types": [[["global", "local"], 1], [["local"], 1]]}),
    "gpt_neo_plain": ("gpt_neo", NEO | {"attention_types": [[["local"], 3]]}),
    "glm4": ("glm4", grouped(8, PARTIAL, attention_bias=True)),
    "glm4_unbiased": ("glm4", grouped(8, PARTIAL, attention_bias=False)),
    "internlm3": ("internlm3", grouped(hidden_size=45)),
    "internlm3_biased": ("internlm3", grouped(hidden_size=45, **BIASED)),
    "seed_oss": ("seed_oss", SEED),
    "seed_oss_plain": ("seed_oss", grouped(**PLAIN)),
    "arcee": ("arcee", grouped(hidden_size=45, **BIASED)),
    "arcee_yarn": ("arcee", grouped(12, YARN | {"mscale": 1.0})),
    "ernie4_5": ("ernie4_5", grouped(8)),
    "ernie4_5_biased": ("ernie4_5", grouped(8, use_bias=True, tie_word_embeddings=False)),
    "helium": ("helium", grouped(8, hidden_size=120)),
    "helium_biased": ("helium", grouped(8, YARN, hidden_size=120, **BIASED)),
    "hunyuan_v1_dense": ("hunyuan_v1_dense", grouped(12, attention_bias=True)),
    "hunyuan_v1_dense_alpha": ("hunyuan_v1_dense", grouped(12, ALPHA, tie_word_embeddings=True)),
    "hunyuan_v1_moe": ("hunyuan_v1_moe", grouped(12, num_experts=7, moe_topk=3, attention_dropout=0.2)),
    "hunyuan_v1_moe_alpha": ("hunyuan_v1_moe", grouped(12, ALPHA, num_experts=7, moe_topk=[3, 3], attention_bias=True)),
    "apertus": ("apertus", grouped(None, LLAMA3, hidden_size=180, attention_bias=True)),
    "apertus_plain": ("apertus", grouped(None, hidden_size=60)),
    "olmoe": ("olmoe", grouped(None, hidden_size=60, num_experts=7, num_experts_per_tok=3, clip_qkv=0.8)),
    "olmoe_biased": ("olmoe", grouped(None, hidden_size=60, num_experts=7, num_experts_per_tok=3, attention_bias=True)),
    "phimoe": ("phimoe", PHIMOE | {"attention_bias": True}),
    "phimoe_window": ("phimoe", PHIMOE | {"sliding_window": 11, "lm_head_bias": False}),
    "phimoe_longrope": ("phimoe", PHIMOE | {"attention_bias": True, "rope_parameters": MSCALES}),
    "dbrx": ("dbrx", DBRX),
    "ernie4_5_moe": ("ernie4_5_moe", grouped(8, num_hidden_layers=3, **ERNIE)),
    "ernie4_5_moe_biased": ("ernie4_5_moe", grouped(8, use_bias=True, tie_word_embeddings=False, **ERNIE)),
    "dots1": ("dots1", grouped(6, num_hidden_layers=3, max_window_layers=1, **DOTS)),
    "dots1_listed": ("dots1", grouped(6, layer_types=LAYERS, attention_bias=True, **DOTS)),
    "minimax_m2": ("minimax_m2", grouped(8, PARTIAL, num_local_experts=7, num_experts_per_tok=3)),
    "minimax_m2_dim": ("minimax_m2", grouped(8, rotary_dim=6, num_local_experts=7, num_experts_per_tok=3)),
    "openai-gpt": ("openai-gpt", GPT),
    "codegen": ("codegen", CODEGEN),
    "codegen_tied": ("codegen", CODEGEN | {"tie_word_embeddings": True}),
    "xglm": ("xglm", XGLM),
    "xglm_unscaled": ("xglm", XGLM | {"scale_embedding": False, "tie_word_embeddings": False}),
    "biogpt": ("biogpt", BIOGPT),
    "biogpt_unscaled": ("biogpt", BIOGPT | {"scale_embedding": False, "tie_word_embeddings": False}),
    "persimmon": ("persimmon", PERSIMMON | {"rope_parameters": PARTIAL}),
    "ministral_listed": ("ministral", grouped(sliding_window=11, layer_types=LAYERS)),
    "ministral": ("ministral", grouped(sliding_window=11)),
    "cwm_listed": ("cwm", grouped(12, LLAMA3, hidden_size=45, sliding_window=11, layer_types=LAYERS)),
    "cwm": ("cwm", grouped(12, hidden_size=45, sliding_window=11)),
    "bitnet": ("bitnet", grouped(None, hidden_size=60, attention_bias=True)),
    "bitnet_plain": ("bitnet", grouped(None, hidden_size=60, tie_word_embeddings=True)),
    "nanochat": ("nanochat", NANO | {"attention_bias": True}),
    "nanochat_plain": ("nanochat", NANO),
    "jais2": ("jais2", grouped(hidden_size=45, norm="layer_norm_eps")),
    "jais2_plain": ("jais2", grouped(hidden_size=45, norm="layer_norm_eps", attention_bias=False, mlp_bias=False)),
    "flex_olmo": ("flex_olmo", grouped(None, hidden_size=60, num_experts=7, num_experts_per_tok=3, attention_bias=True)),
    "flex_olmo_plain": ("flex_olmo", grouped(None, hidden_size=60, num_experts=7, num_experts_per_tok=3)),
    "solar_open": ("solar_open", grouped(**SOLAR)),
    "solar_open_biased": ("solar_open", grouped(attention_bias=True, **SOLAR)),
    "hyperclovax": ("hyperclovax", CLOVA | {"attention_bias": True}),
    "hyperclovax_plain": ("hyperclovax", CLOVA | {"attention_multiplier": None}),
    "vaultgemma_listed": ("vaultgemma", grouped(6, hidden_size=45, sliding_window=11, layer_types=LAYERS[::-1], **CAPS)),
    "vaultgemma_uncapped": (
        "vaultgemma",
        grouped(6, sliding_window=11, **CAPS | {"attn_logit_softcapping": None, "final_logit_softcapping": None}),
    ),
    "vaultgemma": ("vaultgemma", grouped(6, hidden_size=45, sliding_window=11, **CAPS)),
    **STATES,
    **OF_2026,
}
MINIMAX: dict[str, Any] = grouped(6, hidden_size=45, num_hidden_layers=4, num_local_experts=7, num_experts_per_tok=3)
MINIMAX |= {"block_size": 16, "full_attn_alpha_factor": 1.7, "full_attn_beta_factor": 0.6, "linear_attn_alpha_factor": 1.3}
MINIMAX |= {"linear_attn_beta_factor": 0.8, "mlp_alpha_factor": 1.1, "mlp_beta_factor": 0.7}
TOYS |= {
    "minimax_text": ("minimax", MINIMAX | {"layer_types": ["linear_attention"] * 3 + ["full_attention"]}),
    "minimax_text_window": ("minimax", MINIMAX | {"sliding_window": 11, "tie_word_embeddings": True}),
    "minimax_text_yarn": ("minimax", MINIMAX | {"rope_parameters": YARN, "head_dim": 12, "max_position_embeddings": 1024}),
}

FIRST = {kind: name for name, (kind, _) in reversed(TOYS.items())}  # of each family one toy, the first
EACH = few(TOYS, FEW_FAMILIES)  # for parametrize

LISTS = {"layer_types", "no_rope_layers", "moe_layers", "mlp_layer_types"}


@functools.cache
def _config(name: str) -> Any:
    kind, keys = TOYS[name]
    return AutoConfig.for_model(kind, **keys)


def toy(name: str) -> Any:
    """The config of transformers, with every key that it writes; a new one each time: a model writes its dtype into it."""
    return copy.deepcopy(_config(name))


def config_of(name: str) -> dict[str, Any]:
    """What theirs writes into a config.json; lists of layers only if the toy gives them, as older files do."""
    keys: dict[str, Any] = json.loads(toy(name).to_json_string(use_diff=False))
    return {key: value for key, value in keys.items() if key not in LISTS or key in TOYS[name][1]}


@functools.cache
def architecture_of(name: str) -> str:
    """The text that a toy's config chooses, which is not read for it."""
    return import_config(config_of(name)).architecture
