"""Turns letters of axes into annotations: `T["bsd"]` is jaxtyping's `Shaped[Tensor, "b s d"]`, which other tools read."""

from __future__ import annotations

import re
from typing import Any

import jaxtyping
import torch

from einformer.contracts.dtypes import EXACT, KINDS
from einformer.contracts.reader import read
from einformer.contracts.tree import REST, Array, Axis
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
        """The type of tensors with these axes; a word before them says which dtype. Raises EinformerError."""
        word, _, axes = letters.partition(" ") if letters.partition(" ")[0] in _JAXTYPING else ("", "", letters)
        if long := [name for name in axes.split() if name != axes.strip() and name.isalpha() and len(name) > 1]:
            message = f"an axis is a letter, and `{long[0]}` has {len(long[0])}"
            fix = "`T['bsd']`, or jaxtyping's `Shaped[Tensor, 'batch seq dim']` where no contract reads it"
            raise fail("E724", message, facts=[f"the annotation is `T[{letters!r}]`"], fix=fix)
        (item,) = read(f"x_{{{axes}}}").arguments
        assert isinstance(item.value, Array)
        kind = getattr(jaxtyping, _JAXTYPING.get(word, "Shaped"))
        return kind[torch.Tensor, " ".join(map(_dimension, item.value.axes))]


T: Any = _Types()


def written_as(name: str, annotation: Any) -> str:
    """The tensor of a contract that a type of jaxtyping stands for, if it speaks of single letters: `int x_bs`."""
    if not (isinstance(annotation, type) and issubclass(annotation, jaxtyping.AbstractArray)):
        return ""
    word = _WORDS.get(annotation.dtype.__name__)
    slots = [_slot(dimension) for dimension in annotation.dim_str.split()]
    if word is None or annotation.array_type is not torch.Tensor or not all(slots):
        return ""
    plain = "".join(slots)
    return f"{word} {name}_{plain if plain.isalpha() else '{' + ' '.join(slots) + '}'}".strip()


def _slot(dimension: str) -> str:
    match = _DIMENSION.fullmatch(dimension)
    if match is None:
        return ""
    return match["axis"] or ("..." if match["rest"] else f"({match['group'].replace('*', '')})")


def _dimension(axis: Axis) -> str:
    """As jaxtyping writes it: `s'` has the size of `s`, and a group is a product."""
    return "*batch" if axis.size == REST else show(_lower(axis.size)).replace(" ", "*").replace("*+*", "+").replace("*-*", "-")


def _lower(size: Expression) -> Expression:
    return Name(size.name.lower()) if isinstance(size, Name) else rebuild(size, _lower)
