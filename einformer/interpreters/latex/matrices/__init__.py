"""How does a text look in matrices?"""

from einformer.interpreters.latex.matrices.style import Style
from einformer.interpreters.latex.matrices.texts import matrices

__all__ = ["Style", "matrices"]
