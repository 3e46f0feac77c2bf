"""How is the emitted source checked by others? The same file under jaxtyping and beartype, with sizes in its annotations.

A mode for tests: every function and every forward is decorated, and an axis whose size is bound has its number. Numbers, not
`{self.D}`: a function has no `self`, and a module may have a weight `D`.
"""

from __future__ import annotations

import re

from einformer.errors import EinformerError
from einformer.interpreters.torch.module import Recipe
from einformer.interpreters.torch.source import spellings

_ANNOTATION = re.compile(r'(?<=\[Tensor, ")[^"]*(?="\])')
_FUNCTION = re.compile(r"^( *)(?=def \w+\((?:\s*self,)?\s*\w+: \w+\[Tensor, )", re.MULTILINE)
_IMPORT = "from jaxtyping import "


def annotated(recipe: Recipe, cached: bool = False) -> str:
    """The file of PyTorch, or that whose forwards take a cache, in which jaxtyping and beartype check every call."""
    sizes = _sizes(recipe)

    def numbered(match: re.Match[str]) -> str:
        return " ".join(_numbered(axis, sizes) for axis in match[0].split())

    text = _ANNOTATION.sub(numbered, recipe.cached_source() if cached else recipe.source())
    text = text.replace(_IMPORT, f"from beartype import beartype\n{_IMPORT}jaxtyped, ", 1)
    return _FUNCTION.sub(r"\1@jaxtyped(typechecker=beartype)\n\1", text)


def _numbered(axis: str, sizes: dict[str, int]) -> str:
    """`d` as its size; a group `e*a` as the product where both are bound."""
    letters = axis.split("*")
    if not all(letter in sizes for letter in letters):
        return axis
    product = 1
    for letter in letters:
        product *= sizes[letter]
    return str(product)


def _sizes(recipe: Recipe) -> dict[str, int]:
    """The letters of Python whose axes have a size."""
    found: dict[str, int] = {}
    for letter, spelled in spellings(recipe.spec, recipe.name).items():
        try:
            found[spelled] = recipe.legend.length(letter)
        except EinformerError:  # an axis of the inputs
            continue
    return found
