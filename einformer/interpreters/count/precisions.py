"""The bytes of a parameter in each of its copies: a row for each way to train."""

from __future__ import annotations

from dataclasses import dataclass


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

    @property
    def optimizer(self) -> int:
        """What ZeRO-1 shards: all but the parameters and gradients of the products."""
        return self.main_gradients + self.master + self.momentum + self.variance

    @property
    def total(self) -> int:
        """Bytes per parameter in all."""
        return self.parameters + self.gradients + self.optimizer

    @property
    def dtype(self) -> str:
        """What products are computed in; 2 bytes are float16 unless it is called bfloat16."""
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
