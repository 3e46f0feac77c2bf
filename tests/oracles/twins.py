"""What do our own texts mean, written once more by hand? NumPy twins of the texts that transformers does not have.

Loops over positions and heads, as a reader of the notes would compute with pencil and paper; no code of the package.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Weights = Mapping[str, Array]


def softmax(x: Array) -> Array:
    """Along the last axis."""
    x = np.exp(x - x.max(-1, keepdims=True))
    weights: Array = x / x.sum(-1, keepdims=True)
    return weights


def sigmoid(x: Array) -> Array:
    gate: Array = 1 / (1 + np.exp(-x))
    return gate


def layer_norm(x: Array, γ: Array, β: Array, ε: float = 1e-5) -> Array:
    centred = x - x.mean(-1, keepdims=True)
    normed: Array = γ * centred / np.sqrt((centred**2).mean(-1, keepdims=True) + ε) + β
    return normed


def rms_norm(x: Array, γ: Array, ε: float = 1e-5) -> Array:
    normed: Array = γ * x / np.sqrt((x**2).mean(-1, keepdims=True) + ε)
    return normed


def causal_attention(q: Array, k: Array, v: Array) -> Array:
    """One head of one sequence, (position, feature): each position looks at itself and at those before it."""
    rows = [softmax(k[: s + 1] @ q[s] / np.sqrt(q.shape[1])) @ v[: s + 1] for s in range(len(q))]
    return np.stack(rows)


def heads(n: Array, q: Array, k: Array, v: Array) -> Array:
    """All heads of one sequence, side by side: (position, heads times features)."""
    return np.hstack([causal_attention(n @ q[..., a], n @ k[..., a], n @ v[..., a]) for a in range(q.shape[2])])


def minimal(tokens: Array, w: Weights, layers: int) -> Array:
    """S004's decoder: heads side by side, then a projection; pre-norm; a head of its own."""
    z = w["E"][tokens] + w["P"][: tokens.shape[1]]
    for block in (f"blocks.{layer}." for layer in range(layers)):
        n = layer_norm(z, w[block + "LayerNorm.γ"], w[block + "LayerNorm.β"])
        y = np.stack([heads(row, *(w[f"{block}Attention.{name}"] for name in "QKV")) for row in n])
        z = z + y @ w[block + "Attention.O"] + w[block + "Attention.ω"]
        n = layer_norm(z, w[block + "LayerNorm_2.γ"], w[block + "LayerNorm_2.β"])
        hidden = np.maximum(n @ w[block + "MLP.W"] + w[block + "MLP.φ"], 0)
        z = z + hidden @ w[block + "MLP.U"] + w[block + "MLP.υ"]
    return layer_norm(z, w["LayerNorm_3.γ"], w["LayerNorm_3.β"]) @ w["U"].T + w["υ"]


def remember(q: Array, k: Array, v: Array, α: Array) -> Array:
    """One head of one sequence: a state of keys times values, forgotten by α and read with q."""
    state, read = np.zeros((k.shape[1], v.shape[1])), []
    for s in range(len(q)):
        state = α[s] * state + np.outer(k[s], v[s])
        read.append(q[s] @ state)
    return np.stack(read)


def linear_attention(tokens: Array, w: Weights, layers: int) -> Array:
    """A decoder whose attention is that recurrence."""
    z = w["E"][tokens]
    for block in (f"blocks.{layer}." for layer in range(layers)):
        n = rms_norm(z, w[block + "RMSNorm.γ"])
        q, k, v = (np.einsum("bsd,dea->base", n, w[f"{block}LinearAttention.{name}"]) for name in "QKV")
        α = sigmoid(np.einsum("bsd,da->bas", n, w[block + "LinearAttention.A"]))
        y = np.stack([[remember(*head) for head in zip(*row, strict=True)] for row in zip(q, k, v, α, strict=True)])
        z = z + np.einsum("basu,uad->bsd", y, w[block + "LinearAttention.O"])
        n = rms_norm(z, w[block + "RMSNorm_2.γ"])
        gate = n @ w[block + "GatedMLP.G"]
        z = z + (gate * sigmoid(gate) * (n @ w[block + "GatedMLP.U"])) @ w[block + "GatedMLP.O"]
    return rms_norm(z, w["RMSNorm_3.γ"]) @ w["U"].T


def alibi_slopes(heads: int) -> Array:
    """Press et al. 2022: powers of 2^(-8 / n); past the largest power of two n, every second slope of 2 n heads."""
    power = 2 ** int(np.floor(np.log2(heads)))
    first = [2 ** (-8 * (a + 1) / power) for a in range(power)]
    between = [2 ** (-8 * (a + 1) / (2 * power)) for a in range(0, 2 * (heads - power), 2)]
    return np.array(first + between)
