"""Marks what `make test` runs over a few of, and `make test-all` over all: families, texts, seeds."""

from __future__ import annotations

from collections.abc import Container, Iterable
from typing import Any

import pytest

# One toy of each kind of block: positions, grouped and merged heads, norms, windows, experts, states, latent attention.
FEW_FAMILIES = frozenset(
    [
        "llama",
        "mistral",
        "qwen3",
        "gemma2",
        "phi3",
        "glm",
        "gpt_neo",
        "opt",
        "bloom",
        "gptj",
        "mixtral",
        "deepseek_v3",
        "llama4_text",
        "gpt_oss",
        "mamba2",
        "minimax_text",
    ]
)
# The same of texts and of small models.
FEW_TEXTS = frozenset(
    [
        "gpt2",
        "llama",
        "mistral",
        "gemma2",
        "gpt_oss",
        "mixtral",
        "deepseek_v3",
        "bloom",
        "glm",
        "linear_attention_masked",
        "delta_net",
        "mamba2",
        "loss",
    ]
)


def few(values: Iterable[Any], quick: Container[Any]) -> list[Any]:
    """The values of a parameter; those that are not among the quick ones are slow."""
    return [value if value in quick else pytest.param(value, marks=pytest.mark.slow) for value in values]
