"""Rotary positions on neighbouring pairs, with complex numbers, as in the first LLaMA."""

import torch


def precompute_freqs_cis(dim, end, theta=500000.0):
    freqs = 1.0 / (theta ** (torch.arange(0, dim, 2, dtype=torch.float64)[: dim // 2] / dim))
    t = torch.arange(end, dtype=torch.float64)
    return torch.polar(torch.ones(end, dim // 2, dtype=torch.float64), torch.outer(t, freqs))


def apply_rotary_emb(x):
    """x: (batch, seq, dim)"""
    freqs_cis = precompute_freqs_cis(x.shape[-1], x.shape[1])
    x_ = torch.view_as_complex(x.reshape(*x.shape[:-1], -1, 2))
    return torch.view_as_real(x_ * freqs_cis).flatten(-2)
