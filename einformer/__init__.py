"""Tensor-notation specifications of decoder-only transformers: written once as equations, checked, run, printed."""

from einformer.errors import EinformerError
from einformer.model import Model, Specification, load, parse

__all__ = ["EinformerError", "Model", "Specification", "load", "parse"]
