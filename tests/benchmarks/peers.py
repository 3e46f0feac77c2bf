"""Models as people write them by hand: a GPT-2 in the style of nanoGPT, and a Llama in the style of gpt-fast."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as fn


class HandGPTBlock(nn.Module):
    def __init__(self, width: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.heads, self.p = heads, dropout
        self.norm_1, self.norm_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, z: Tensor) -> Tensor:
        q, k, v = (x.unflatten(-1, (self.heads, -1)).transpose(1, 2) for x in self.qkv(self.norm_1(z)).chunk(3, -1))
        p = self.p if self.training else 0.0
        y = fn.scaled_dot_product_attention(q, k, v, dropout_p=p, is_causal=True).transpose(1, 2).flatten(2)
        z = z + fn.dropout(self.out(y), self.p, self.training)
        hidden = fn.gelu(self.up(self.norm_2(z)), approximate="tanh")
        return z + fn.dropout(self.down(hidden), self.p, self.training)


class HandGPT(nn.Module):
    """GPT-2: fused projections, learned positions, tokens that are tied to the head."""

    def __init__(self, config: Any) -> None:
        super().__init__()
        self.tokens = nn.Embedding(config.vocab_size, config.n_embd)
        self.places = nn.Embedding(config.n_positions, config.n_embd)
        blocks = (HandGPTBlock(config.n_embd, config.n_head, config.resid_pdrop) for _ in range(config.n_layer))
        self.blocks, self.norm, self.p = nn.ModuleList(blocks), nn.LayerNorm(config.n_embd), config.embd_pdrop
        for weight in self.parameters():
            nn.init.normal_(weight, std=0.02)

    def forward(self, x: Tensor) -> Tensor:
        places = self.places(torch.arange(x.shape[1], device=x.device))
        z = fn.dropout(self.tokens(x) + places, self.p, self.training)
        for block in self.blocks:
            z = block(z)
        return fn.linear(self.norm(z), self.tokens.weight)


class HandLlamaBlock(nn.Module):
    """Keys and values lie in buffers once `allocate` made them."""

    def __init__(self, config: Any) -> None:
        super().__init__()
        width, self.heads, self.shared = config.hidden_size, config.num_attention_heads, config.num_key_value_heads
        self.size = width // self.heads
        self.norm_1, self.norm_2 = (nn.RMSNorm(width, eps=config.rms_norm_eps) for _ in range(2))
        self.qkv = nn.Linear(width, (self.heads + 2 * self.shared) * self.size, bias=False)
        self.out = nn.Linear(self.heads * self.size, width, bias=False)
        self.gate, self.up = (nn.Linear(width, config.intermediate_size, bias=False) for _ in range(2))
        self.down = nn.Linear(config.intermediate_size, width, bias=False)
        self.kept: Tensor | None = None

    def forward(self, z: Tensor, turn: Tensor, places: Tensor | None, mask: Tensor | None) -> Tensor:
        every = self.qkv(self.norm_1(z)).unflatten(-1, (-1, self.size)).transpose(1, 2)
        q, k, v = every.split((self.heads, self.shared, self.shared), 1)
        q, k = rotate(q, turn), rotate(k, turn)
        if self.kept is not None:
            k, v = (kept.index_copy_(2, places, new) for kept, new in zip(self.kept, (k, v), strict=True))
        y = fn.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=mask is None, enable_gqa=True)
        z = z + self.out(y.transpose(1, 2).flatten(2))
        x = self.norm_2(z)
        hidden: Tensor = self.down(fn.silu(self.gate(x)) * self.up(x))
        return z + hidden


def rotate(x: Tensor, turn: Tensor) -> Tensor:
    """Neighbouring features are pairs."""
    first, second = x.reshape(*x.shape[:-1], -1, 2).unbind(-1)
    cos, sin = turn.unbind(0)
    return torch.stack((first * cos - second * sin, second * cos + first * sin), -1).flatten(-2)


class HandLlama(nn.Module):
    """Llama: fused queries, keys and values, rotations from a table, static caches."""

    turns: Tensor
    blocks: Any

    def __init__(self, config: Any) -> None:
        super().__init__()
        self.tokens = nn.Embedding(config.vocab_size, config.hidden_size)
        self.blocks = nn.ModuleList(HandLlamaBlock(config) for _ in range(config.num_hidden_layers))
        self.norm = nn.RMSNorm(config.hidden_size, eps=config.rms_norm_eps)
        self.head = nn.Linear(config.hidden_size, config.vocab_size, bias=False)
        size = config.hidden_size // config.num_attention_heads
        speeds = 10000.0 ** (-torch.arange(0, size, 2) / size)
        angles = torch.arange(config.max_position_embeddings)[:, None] * speeds
        self.register_buffer("turns", torch.stack((angles.cos(), angles.sin())), persistent=False)
        for weight in self.parameters():
            nn.init.normal_(weight, std=0.02)

    def allocate(self, batch: int, length: int) -> None:
        like = self.head.weight
        for block in self.blocks:
            block.kept = torch.zeros(2, batch, block.shared, length, block.size, device=like.device, dtype=like.dtype)

    def forward(self, x: Tensor, places: Tensor | None = None) -> Tensor:
        z, mask = self.tokens(x), None
        if places is not None:
            mask = torch.arange(self.blocks[0].kept.shape[-2], device=x.device) <= places[:, None]
        turn = self.turns[:, : x.shape[1]] if places is None else self.turns[:, places]
        for block in self.blocks:
            z = block(z, turn, places, mask)
        logits: Tensor = self.head(self.norm(z))
        return logits
