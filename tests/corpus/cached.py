"""Attention that decodes with a cache of keys and values, with rotary positions and a window of the last W positions."""

import math

import torch
from torch import nn


def rotate(x, start):
    """x: (batch, heads, seq, dim); positions from start"""
    dim = x.shape[-1]
    inv_freq = 10000.0 ** (-torch.arange(0, dim, 2, dtype=x.dtype) / dim)
    angle = torch.outer(torch.arange(start, start + x.shape[2], dtype=x.dtype), inv_freq).repeat(1, 2)
    x1, x2 = x.chunk(2, dim=-1)
    return x * angle.cos() + torch.cat((-x2, x1), -1) * angle.sin()


class CachedAttention(nn.Module):
    def __init__(self, dim, heads, window):
        super().__init__()
        self.heads, self.window = heads, window
        self.qkv = nn.Linear(dim, 3 * dim, bias=False)
        self.out = nn.Linear(dim, dim, bias=False)

    def forward(self, x, cache=None):
        b, t, d = x.shape
        q, k, v = (y.view(b, t, self.heads, -1).transpose(1, 2) for y in self.qkv(x).chunk(3, -1))
        past, seen = (None, 0) if cache is None else cache
        q, k = rotate(q, seen), rotate(k, seen)
        if past is not None:
            k = torch.cat([past[0], k], dim=2)
            v = torch.cat([past[1], v], dim=2)
        first = seen + t - k.shape[2]
        query = torch.arange(seen, seen + t)[:, None]
        key = torch.arange(first, seen + t)[None, :]
        visible = (key <= query) & (key > query - self.window)
        att = (q @ k.mT / math.sqrt(q.shape[-1])).masked_fill(~visible, -math.inf).softmax(-1)
        y = (att @ v).transpose(1, 2).reshape(b, t, d)
        kept = k[:, :, -self.window :], v[:, :, -self.window :]
        return self.out(y), (kept, seen + t)
