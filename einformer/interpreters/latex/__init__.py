"""Prints a tree as LaTeX."""

from einformer.interpreters.latex.pages import latex

__all__ = ["latex"]
