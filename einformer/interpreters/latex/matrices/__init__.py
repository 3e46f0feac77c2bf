"""Prints a text in matrices."""

from einformer.interpreters.latex.matrices.layers import matrices
from einformer.interpreters.latex.matrices.naming import Style

__all__ = ["Style", "matrices"]
