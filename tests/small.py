"""Which small sizes, inputs and weights has every shipped architecture in the tests? Distinct primes where its text allows."""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

import einformer
from einformer import EinformerError
from einformer.language.calls import slot_letters
from einformer.objects import Model
from tests.oracles import scaling

Array = NDArray[Any]
Letters = tuple[str, ...]

torch.set_num_threads(1)  # what is small is done before a second thread wakes

PLANS = ("notation", "fast")
BATCH, LENGTH = 3, 11


@dataclass(frozen=True, slots=True)
class Small:
    """A text, what is bound in it, the scalar lines replaced, the optional weights left out."""

    text: str
    bound: Mapping[str, Any]
    replaced: str = ""
    without: tuple[str, ...] = ()


PLAIN = {"V": 53, "L": 2, "D": 35, "A": 5}
GROUPED = {"V": 53, "L": 2, "D": 90, "A": 15, "G": 3, "F": 31, "Θ": 500.0}
OWN_HEADS = GROUPED | {"D": 41, "H": 14}
LATENT = {"D": 35, "F": 31, "A": 5, "N": 6, "E": 14, "U": 7, "C": 11, "R": 13, "P": 1, "M": 9, "Z": 2, "Θ": 500.0}
ROUTED = {"X": 12, "G": 4, "Y": 2, "T": 5, "ζ": 1.7, "V": 53, "L": 3}
LINEAR = {"D": 35, "A": 3, "E": 5, "U": 7, "F": 31, "V": 53, "L": 2}

SMALL = {
    "gpt2": Small("gpt2", PLAIN | {"F": 31, "K": 41}),
    "gpt2_without_biases": Small(
        "gpt2",
        PLAIN | {"F": 31, "K": 11},
        without=("CausalAttention.α", "CausalAttention.κ", "CausalAttention.ν", "CausalAttention.ω", "MLP.ω", "MLP.υ"),
    ),
    "minimal": Small("minimal", PLAIN | {"F": 31, "K": 41}),
    "llama": Small("llama", GROUPED),
    "llama_tied": Small("llama", GROUPED, without=("Llama.U",)),
    "llama_llama3": Small("llama", GROUPED, replaced=scaling.LLAMA3),
    "llama_yarn": Small("llama", GROUPED, replaced=scaling.YARN),
    "llama_interleaved": Small("llama_interleaved", GROUPED),
    "mistral": Small("mistral", GROUPED | {"W": 4}),
    "mistral_without_window": Small("mistral", GROUPED),
    "qwen3": Small("qwen3", OWN_HEADS),
    "bloom": Small("bloom", PLAIN),
    "mpt": Small("mpt", PLAIN),
    "gemma2": Small("gemma2", OWN_HEADS | {"C": 7.0, "κ": 1.5, "λ": 2.5, "W": [4, math.inf]}),
    "gpt_oss": Small("gpt_oss", OWN_HEADS | {"X": 7, "T": 3, "C": 0.7, "α": 1.3, "W": [4, math.inf]}),
    "gpt_oss_yarn": Small("gpt_oss", OWN_HEADS | {"X": 7, "T": 3, "W": [4, math.inf]}, replaced=scaling.GPT_OSS_YARN),
    "mixtral": Small("mixtral", GROUPED | {"X": 7, "T": 3, "W": 4}),
    "deepseek_v3": Small("deepseek_v3", LATENT | ROUTED),
    "deepseek_v3_yarn": Small("deepseek_v3", LATENT | ROUTED, replaced=scaling.DEEPSEEK_YARN),
    "gptj": Small("gptj", PLAIN | {"D": 50, "R": 6}),
    "gpt_neox": Small("gpt_neox", PLAIN | {"D": 50, "R": 6, "Θ": 500.0}),
    "linear_attention": Small("linear_attention", LINEAR),
    "linear_attention_masked": Small("linear_attention_masked", LINEAR),
    "delta_net": Small("delta_net", {"D": 35, "G": 2, "J": 3, "E": 5, "U": 7, "C": 4}),
    "mamba2": Small("mamba2", {"D": 35, "G": 2, "J": 5, "H": 7, "N": 11, "C": 4}),
    "loss": Small("loss", {}),
}


@functools.cache
def model(name: str) -> Model:
    """A shipped architecture with small sizes."""
    small = SMALL[name]
    spec = einformer.load(small.text).without(*small.without)
    return (spec.replace(small.replaced) if small.replaced else spec).bind(**small.bound)


def inputs(model: Model, sizes: Mapping[str, int] | None = None, seed: int = 0) -> list[Array]:
    """Random inputs: `x_bs` and `t_bs` are tokens, all else features. `sizes` are those of axes that are not bound."""
    draw = np.random.default_rng(seed)
    unbound = {"b": BATCH, "s": LENGTH, "v": 53} | {letter.lower(): size for letter, size in (sizes or {}).items()}

    def length(letter: str) -> int:
        try:
            return model.legend.length(letter)
        except EinformerError:
            return unbound[letter]

    def drawn(name: str, letters: Letters) -> Array:
        shape = tuple(map(length, letters))
        if name in "xt" and letters == ("b", "s"):  # distinct where they can be: equal tokens tie in `top`
            return draw.choice(length("v"), shape, replace=math.prod(shape) > length("v"))
        return draw.standard_normal(shape)

    return [drawn(formal.name, tuple(slot_letters(formal))) for formal in model.spec.layer.formals]


def weights(model: Model, seed: int = 1) -> dict[str, Array]:
    """Random weights: matrices by their first axis, vectors around one."""
    draw = np.random.default_rng(seed)

    def drawn(shape: tuple[int, ...]) -> Array:
        normal = draw.standard_normal(shape)
        return np.asarray(normal / math.sqrt(shape[0]) if len(shape) > 1 else 1 + 0.3 * normal)

    return {path: drawn(shape) for path, shape in model.weight_shapes().items()}


def tensors(arrays: Mapping[str, Array]) -> dict[str, Tensor]:
    """Arrays as tensors, by the same names."""
    return {name: torch.from_numpy(array) for name, array in arrays.items()}


def built(model: Model, plan: str, dtype: torch.dtype = torch.float64) -> nn.Module:
    """The module of a plan with the random weights."""
    module = model.build(dtype=dtype, plan=plan).eval()
    module.load_state_dict(tensors(weights(model)))
    return module


def error(ours: Array | Tensor, theirs: Array | Tensor) -> float:
    """The largest difference, relative to the largest number where that exceeds one."""
    ours, theirs = (x.detach().numpy() if isinstance(x, Tensor) else np.asarray(x) for x in (ours, theirs))
    assert ours.shape == theirs.shape
    return float(np.abs(ours - theirs).max() / max(1.0, np.abs(theirs).max()))


def decided(model: Model, given: list[Array], expected: Array) -> bool:
    """Does the answer hang on no tie, that rounding alone decides? The reference with weights moved by 1e-12 tells."""
    draw = np.random.default_rng(4)
    moved = {path: x * (1 + 1e-12 * draw.standard_normal(x.shape)) for path, x in weights(model).items()}
    return error(model.reference(*given, weights=moved), expected) < 1e-9
