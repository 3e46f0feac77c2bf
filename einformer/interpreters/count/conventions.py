"""Conventions of counting FLOPs: switches, and the combinations of them that published counts use."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


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
    per_multiply: Literal[1, 2] = 2  # FLOPs of a multiply-accumulate

    def __str__(self) -> str:
        """The convention in words: what the output of every count states."""
        return "; ".join(
            (
                f"{self.name} ({self.source})",
                "1 for each multiply-accumulate" if self.per_multiply == 1 else "2 FLOPs for each multiply-accumulate",
                _PAIRS[self.pairs],
                _EXPERTS[self.plan],
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
