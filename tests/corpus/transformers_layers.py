"""transformers' own modules at toy sizes, as somebody configures them for a checkpoint."""

from transformers import GPT2Config, LlamaConfig
from transformers.models.gpt2.modeling_gpt2 import GPT2MLP, GPT2Attention, GPT2Block
from transformers.models.llama.modeling_llama import LlamaMLP, LlamaRMSNorm


def gpt2_config(D, A, F):
    return GPT2Config(
        n_embd=D, n_head=A, n_inner=F, activation_function="gelu_new", layer_norm_epsilon=1e-5,
        scale_attn_weights=True, attn_implementation="sdpa",
    )  # fmt: skip


def gpt2_attention(D, A):
    return GPT2Attention(gpt2_config(D, A, 4 * D), layer_idx=0)


def gpt2_mlp(D, F):
    return GPT2MLP(F, gpt2_config(D, 1, F))


def gpt2_block(D, A, F):
    return GPT2Block(gpt2_config(D, A, F), layer_idx=0)


def llama_norm(D):
    return LlamaRMSNorm(D, eps=1e-5)


def llama_mlp(D, F):
    return LlamaMLP(LlamaConfig(hidden_size=D, intermediate_size=F, num_attention_heads=1, hidden_act="silu"))
