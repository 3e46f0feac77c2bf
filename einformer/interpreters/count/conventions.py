"""The tables of counting: conventions of published counts, the bytes of a parameter for each way to train, accelerators,
and formats of numbers."""

from __future__ import annotations

import functools
import pathlib
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal

from einformer.errors import fail, find_row

Work = Literal["training", "prefill", "decode"]


@dataclass(frozen=True, slots=True)
class Convention:
    """How a forward pass is counted; products of matrices always count.

    `pairs` says how many pairs of positions a mask leaves: all S × S, half of them, or exactly those that it allows, of a
    causal one S (S + 1) / 2. A softmax costs `softmax` FLOPs for each of its elements. An embedding costs nothing, the
    product with a one-hot matrix, or 2 for each number `read`. Logits count at all positions, at the last, or not at all.
    """

    name: str
    source: str
    pairs: Literal["full", "half", "exact"] = "full"
    softmax: int = 0
    embedding: Literal["none", "one-hot", "read"] = "none"
    logits: Literal["all", "last", "none"] = "all"
    plan: Literal["", "fast", "notation"] = ""  # counted is what this plan executes
    kernels: bool = False  # as these execute it: a sink is one more key, a recurrence runs by chunks
    per_multiply: Literal[1, 2] = 2  # FLOPs of a multiply-accumulate

    def __str__(self) -> str:
        return "; ".join(
            (
                f"{self.name} ({self.source})",
                "1 for each multiply-accumulate" if self.per_multiply == 1 else "2 FLOPs for each multiply-accumulate",
                _PAIRS[self.pairs],
                _EXPERTS[self.plan],
                *["one key more where attention has a sink", "recurrences by chunks where they can"] * self.kernels,
                f"softmax {self.softmax} for each element" if self.softmax else "softmax 0",
                _EMBEDDING[self.embedding],
                _LOGITS[self.logits],
                "norms and other element-wise operations 0",
            )
        )


_PAIRS = {
    "full": "full attention, S x S, whatever the mask",
    "half": "half of the S x S pairs of attention",
    "exact": "only the pairs of positions that the mask allows",
}
_EMBEDDING = {
    "none": "embeddings 0",
    "one-hot": "embeddings as products with one-hot matrices",
    "read": "embeddings 2 for each number read",
}
_LOGITS = {"all": "logits at every position", "last": "logits at the last position only", "none": "no logits"}

_EXPERTS = {
    "": "chosen experts only",
    "fast": "chosen experts only, where the plan `fast` computes these alone",
    "notation": "every expert",
}

CONVENTIONS = {
    convention.name: convention
    for convention in (
        Convention("torch", "FlopCounterMode; also Narayanan et al. 2021, Korthikanti et al. 2022, nanoGPT", plan="fast"),
        Convention("fast", "FlopCounterMode of the plan `fast`", plan="fast", kernels=True),
        Convention("notation", "FlopCounterMode of the plan `notation`", plan="notation"),
        Convention("exact", "what must be computed: masked pairs and chosen experts", pairs="exact"),
        Convention("prefill", "the products of a prompt, of which only the last logits are read", logits="last"),
        Convention("macs", "multiply-accumulates, as fvcore and thop report them", per_multiply=1),
        Convention("megatron", "Megatron-LM's num_floating_point_operations", pairs="half"),
        Convention("kaplan", "Kaplan et al. 2020, table 1", pairs="half", embedding="read"),
        Convention("chinchilla", "Hoffmann et al. 2022, appendix F", softmax=3, embedding="one-hot"),
        Convention("chinchilla-a4", "Hoffmann et al. 2022, table A4", softmax=3, logits="none"),
        Convention("goon", "transformers_notes, section 2.2", logits="none"),
    )
}
DEFAULT = CONVENTIONS["torch"]


@dataclass(frozen=True, slots=True)
class Precision:
    """The bytes of a parameter in each of its copies; `element` are those of a number in an activation."""

    name: str
    source: str
    parameters: int
    gradients: int
    main_gradients: int
    master: int
    momentum: int
    variance: int
    element: int

    # The bytes that ZeRO-1 shards: all but the parameters and gradients of the products.
    @property
    def optimizer(self) -> int:
        return self.main_gradients + self.master + self.momentum + self.variance

    @property
    def total(self) -> int:
        return self.parameters + self.gradients + self.optimizer

    # 2 bytes are float16 unless it is called bfloat16.
    @property
    def dtype(self) -> str:
        return "float32" if self.element == 4 else "bfloat16" if self.name == "bfloat16" else "float16"


PRECISIONS = {
    precision.name: precision
    for precision in (
        Precision("float32", "Adam, all in float32; transformers_notes 2.1", 4, 4, 0, 0, 4, 4, 4),
        Precision("bfloat16", "Adam, gradients in float32; Megatron-LM, transformers_notes 2.1", 2, 4, 0, 4, 4, 4, 2),
        Precision("float16", "Adam, float16 parameters and gradients; ZeRO, arXiv 1910.02054", 2, 2, 0, 4, 4, 4, 2),
        Precision("megatron-float16", "Adam, float16, and main gradients in float32; Megatron-LM", 2, 2, 4, 4, 4, 4, 2),
        Precision("adam8bit", "8-bit Adam; EleutherAI Transformer Math 101", 2, 2, 0, 4, 1, 1, 2),
        Precision("sgd", "SGD with momentum; EleutherAI Transformer Math 101", 2, 2, 0, 4, 4, 0, 2),
    )
}


def find_dtype(precision: object) -> str:
    """The dtype of numbers in a precision, which a dtype of torch is too.

    >>> find_dtype("adam8bit"), find_dtype("float64")
    ('float16', 'float64')
    """
    name = str(precision).removeprefix("torch.")
    return PRECISIONS[name].dtype if name in PRECISIONS else name


@dataclass(frozen=True, slots=True)
class Device:
    """An accelerator: FLOP/s of dense products by dtype, bytes/s and bytes of its memory.

    It sends `link` bytes/s to the others of its `node`, and `network` bytes/s out of it; 0 where that is not published.
    """

    title: str
    peak: Mapping[str, float]
    bandwidth: float
    memory: float
    source: str
    link: float = 0
    node: int = 1
    network: float = 0

    # FLOP/s of products in a precision. Raises EinformerError E605.
    def rate(self, precision: Precision) -> float:
        if (dtype := precision.dtype) not in self.peak:
            message = f"there is no published rate of products in {dtype} for {self.title}"
            raise fail("E605", message, fix=" or ".join(f"`{name}`" for name in self.peak))
        return self.peak[dtype]


@functools.cache
def read_devices() -> Mapping[str, Device]:
    """The known devices by name.

    >>> round(read_devices()["a100-40gb"].peak["bfloat16"] / 1.5e12)  # the ridge that kipply has
    208
    """
    return {name: Device(**row) for name, row in read_table("devices.toml").items()}


@dataclass(frozen=True, slots=True)
class Format:
    """How numbers are stored: `bytes` for each `block` of numbers in a row of a tensor."""

    name: str
    block: int
    bytes: int
    source: str = ""

    @property
    def element(self) -> Fraction:
        """Returns the bytes of a number, its part of the scales included.

        >>> read_formats()["q8_0"].element
        Fraction(17, 16)
        """
        return Fraction(self.bytes, self.block)


@functools.cache
def read_formats() -> dict[str, Format]:
    return {name: Format(name, **row) for name, row in read_table("formats.toml").items()}


# Returns the format of a cache by its name, or that of a dtype. Raises EinformerError E605.
def choose_cache(name: str, dtype: str) -> Format:
    return find_row({name: read_formats()[name] for name in list_caches()}, "format of the cache", name or dtype)


def list_caches() -> list[str]:
    names = {name for engine in read_table("engines.toml").values() for name in engine["caches"]}
    return [name for name in read_formats() if name in names]


def read_table(name: str) -> dict[str, dict[str, Any]]:
    return tomllib.loads((pathlib.Path(__file__).parent / name).read_text(encoding="utf-8"))
