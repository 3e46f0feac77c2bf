"""Marks what `make test` runs over a few of, and `make test-all` over all: families, texts, seeds."""

from __future__ import annotations

from collections.abc import Container, Iterable
from typing import Any

import pytest


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


# One of each kind: positions, grouped and merged heads, norms, windows, experts, states, latent attention.
FEW_FAMILIES = _names(
    """
    llama mistral qwen3 gemma2 phi3 glm gpt_neo opt bloom gptj mixtral deepseek_v3 llama4_text gpt_oss mamba2
    minimax_text
    """
)
FEW_TEXTS = _names(
    """
    gpt2 llama mistral gemma2 gpt_oss mixtral deepseek_v3 bloom glm linear_attention_masked delta_net mamba2 loss
    """
)
FEW_CONFIGS = _names(
    """
    bloom-560m command-r-plus-104b deepseek-v3 falcon-180b gemma-2-2b glm-4-9b-0414 gpt-oss-20b llama-3-8b
    llama-4-scout-text mixtral-8x7b opt-125m phi-4 qwen3-30b-a3b starcoder2-3b
    """
)


def few(values: Iterable[Any], quick: Container[Any]) -> list[Any]:
    """The values of a parameter; those that are not among the quick ones are slow."""
    return [value if value in quick else pytest.param(value, marks=pytest.mark.slow) for value in values]
