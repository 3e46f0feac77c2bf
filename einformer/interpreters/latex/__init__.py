"""How does a tree look in print?"""

from einformer.interpreters.latex.texts import latex

__all__ = ["latex"]
