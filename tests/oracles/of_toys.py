"""What does transformers make of a toy, and what do we? The same tokens, the same weights."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import torch
from transformers import AutoModelForCausalLM, AutoModelForImageTextToText
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

import einformer
from einformer.objects import Model
from tests.oracles.lifted import Array, Regime, build
from tests.toy_keys import VOCABULARY
from tests.toys import TOYS, config_of, toy

BATCH, LENGTH = 2, 37
TOLERANCE = 1e-9  # float64 on both sides
TWICE = {"falcon_alibi"}  # theirs adds the slopes twice where its attention is eager, and once by default
MODELING = {"openai-gpt": "openai", "internlm3": "llama"}  # where theirs lies elsewhere than its name says


def modeling(name: str) -> str:
    """The module of transformers that has the model of a toy."""
    kind = TOYS[name][0].removesuffix("_text")
    kind = MODELING.get(kind, kind)
    return f"transformers.models.{kind}.modeling_{kind}"


def class_of(kind: str) -> Any:
    """The class that makes the language model of a type: transformers lists some beside models of images."""
    return AutoModelForCausalLM if kind in MODEL_FOR_CAUSAL_LM_MAPPING_NAMES else AutoModelForImageTextToText


def made(name: str, experts: str) -> torch.nn.Module:
    """Their model, with eager attention: the equations as their authors wrote them."""
    models: Any = class_of(TOYS[name][0])
    attention = "sdpa" if name in TWICE else "eager"
    module: torch.nn.Module = models.from_config(toy(name), attn_implementation=attention, experts_implementation=experts)
    return module


@functools.cache
def theirs(name: str, regime: Regime) -> Any:
    """Their model in float64, with its weights."""
    return build(modeling(name), lambda: made(name, "eager"), regime)


@functools.cache
def ours(name: str) -> Model:
    """Our model of the config that theirs writes."""
    return einformer.from_huggingface(config_of(name))


def filled(name: str, regime: Regime, plan: str = "fast") -> Any:
    """Our module with their weights."""
    module: Any = ours(name).build(dtype=torch.float64, plan=plan).eval()
    module.load_huggingface(theirs(name, regime).state_dict())
    return module


def tokens() -> Array:
    """A batch of sequences that are longer than every window."""
    return np.random.default_rng(0).integers(VOCABULARY, size=(BATCH, LENGTH))
