"""What does a specification mean? Its value in float64 NumPy: slow, obviously right."""

from einformer.interpreters.reference.frame import evaluate

__all__ = ["evaluate"]
