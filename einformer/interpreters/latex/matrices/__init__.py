"""Prints a text in matrices."""

from einformer.interpreters.latex.matrices.lines import print_matrices
from einformer.interpreters.latex.matrices.naming import Style

__all__ = ["Style", "print_matrices"]
