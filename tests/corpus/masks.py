"""Attention as plain functions: with a sliding window, with linear biases, with one key for all heads."""

import math

import torch


def window_attention(q, k, v, window=3):
    """q, k, v: (batch, seq, dim)"""
    pos = torch.arange(q.shape[1])
    dist = pos[:, None] - pos[None, :]
    hidden = (dist < 0) | (dist >= window)
    scores = q @ k.transpose(1, 2) / math.sqrt(q.shape[-1])
    return scores.masked_fill(hidden, -math.inf).softmax(-1) @ v


def alibi_attention(q, k, v):
    """q, k, v: (batch, heads, seq, dim)"""
    heads, seq = q.shape[1:3]
    slopes = 2.0 ** (-8.0 * torch.arange(1, heads + 1, dtype=q.dtype) / heads)
    pos = torch.arange(seq)
    bias = slopes[:, None, None] * (pos[None, :] - pos[:, None])
    bias = bias.masked_fill(pos[None, :] > pos[:, None], -math.inf)
    return (q @ k.mT / math.sqrt(q.shape[-1]) + bias).softmax(dim=-1) @ v


def multi_query_attention(q, k, v):
    """q: (batch, heads, seq, dim); k, v: (batch, seq, dim), shared by all heads"""
    weights = torch.einsum("bhid,bjd->bhij", q, k) / math.sqrt(q.shape[-1])
    weights = torch.softmax(weights, dim=-1)
    return torch.einsum("bhij,bjd->bhid", weights, v)


def linear_attention(q, k, v):
    """Causal attention without a softmax, as a recurrence; q, k, v: (batch, seq, dim)"""
    state = torch.zeros(q.shape[0], k.shape[2], v.shape[2], dtype=q.dtype)
    out = []
    for t in range(q.shape[1]):
        state = state + k[:, t, :, None] * v[:, t, None, :]
        out.append(torch.einsum("bd,bde->be", q[:, t], state))
    return torch.stack(out, dim=1)
