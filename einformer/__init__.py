"""Tensor-notation specifications of decoder-only transformers: written once as equations, checked, run, printed."""

from einformer.errors import EinformerError
from einformer.model import Model, Specification, from_huggingface, load, parse

__all__ = ["EinformerError", "Model", "Specification", "from_huggingface", "load", "parse"]
