"""Prints a text in matrices."""

from einformer.interpreters.latex.matrices.lines import matrices
from einformer.interpreters.latex.matrices.naming import Style

__all__ = ["Style", "matrices"]
