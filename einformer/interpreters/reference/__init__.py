"""Evaluates a specification in float64 NumPy: slowly, and obviously right."""

from einformer.interpreters.reference.frame import evaluate

__all__ = ["evaluate"]
