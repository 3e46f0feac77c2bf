"""Turns letters of axes into annotations: `T["bsd"]` is jaxtyping's `Shaped[Tensor, "b s d"]`, which other tools read."""

from __future__ import annotations

import re
from typing import Any

import jaxtyping
import torch

from einformer.contracts.dtypes import EXACT, KINDS
from einformer.contracts.reader import read
from einformer.contracts.syntax import REST, Array, Dimension
from einformer.errors import fail
from einformer.language.printer import show
from einformer.language.tree import Expression, Name
from einformer.language.walk import rebuild

_JAXTYPING = KINDS | {
    word: name.replace("bfloat", "BFloat").replace("float", "Float").replace("uint", "UInt").replace("int", "Int")
    for word, name in EXACT.items()
}
_WORDS = {name: word for word, name in _JAXTYPING.items()} | {"Shaped": ""}
_DIMENSION = re.compile(r"(?P<axis>[^\W\d_]|[0-9]+)|(?P<group>[^\W\d_](?:\*[^\W\d_])+)|(?P<rest>\.\.\.|\*\w+)")


class _Types:
    """`T["bsd"]`, `T["int bs"]`, `T["bs(ae)"]`."""

    def __getitem__(self, letters: str) -> Any:
        """Returns the type of tensors with these axes. A word before the letters names a dtype. Raises EinformerError."""
        word, _, axes = letters.partition(" ") if letters.partition(" ")[0] in _JAXTYPING else ("", "", letters)
        if long := [name for name in axes.split() if name != axes.strip() and name.isalpha() and len(name) > 1]:
            message = f"an axis is a letter, and `{long[0]}` has {len(long[0])}"
            fix = "`T['bsd']`, or jaxtyping's `Shaped[Tensor, 'batch seq dim']` where no contract reads it"
            raise fail("E724", message, facts=[f"the annotation is `T[{letters!r}]`"], fix=fix)
        (item,) = read(f"x_{{{axes}}}").arguments
        assert isinstance(item.value, Array)
        kind = getattr(jaxtyping, _JAXTYPING.get(word, "Shaped"))
        return kind[torch.Tensor, " ".join(map(_spell_dimension, item.value.axes))]


T: Any = _Types()


def read_annotation(name: str, annotation: Any) -> str:
    """Returns the tensor of a contract for an annotation of jaxtyping with single letters: `int x_bs`."""
    if not (isinstance(annotation, type) and issubclass(annotation, jaxtyping.AbstractArray)):
        return ""
    word = _WORDS.get(annotation.dtype.__name__)
    slots = [_spell_slot(dimension) for dimension in annotation.dim_str.split()]
    if word is None or annotation.array_type is not torch.Tensor or not all(slots):
        return ""
    plain = "".join(slots)
    return f"{word} {name}_{plain if plain.isalpha() else '{' + ' '.join(slots) + '}'}".strip()


def _spell_slot(dimension: str) -> str:
    match = _DIMENSION.fullmatch(dimension)
    if match is None:
        return ""
    return match["axis"] or ("..." if match["rest"] else f"({match['group'].replace('*', '')})")


# jaxtyping has no primes and no groups: `s'` has the size of `s`, and a group is a product.
def _spell_dimension(axis: Dimension) -> str:
    return (
        "*batch"
        if axis.size == REST
        else show(_lower_case(axis.size)).replace(" ", "*").replace("*+*", "+").replace("*-*", "-")
    )


def _lower_case(size: Expression) -> Expression:
    return Name(size.name.lower()) if isinstance(size, Name) else rebuild(size, _lower_case)
