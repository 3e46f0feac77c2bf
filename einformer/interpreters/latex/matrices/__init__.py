"""Prints a text in matrices."""

from einformer.interpreters.latex.matrices.names import Style
from einformer.interpreters.latex.matrices.page import matrices

__all__ = ["Style", "matrices"]
