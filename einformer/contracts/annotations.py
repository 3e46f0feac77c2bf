"""Turns letters of axes into annotations: `T["bsd"]` is jaxtyping's `Shaped[Tensor, "b s d"]`, which other tools read."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from types import UnionType
from typing import Any, Union, get_args, get_origin

import jaxtyping
import numpy as np
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
_WORDS = {name: word for word, name in _JAXTYPING.items()} | {"Int": "int", "UInt": "int"}  # others say nothing of the dtype
_NAME = r"[^\W\d_]\w*"
_DIMENSION = re.compile(rf"(?P<axis>{_NAME}|[0-9]+)|(?P<group>{_NAME}(?:\*{_NAME})+)|(?P<rest>\.\.\.|\*\w+)")


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


# Are the unnamed axes of all annotations the same ones? Those of `...` may differ from one to the next.
def share_rest(annotations: Iterable[Any]) -> bool:
    slots = [slot for annotation in annotations for array in _list_arrays(annotation) for slot in array.dim_str.split()]
    rests = [slot for slot in slots if slot == "..." or slot.startswith("*")]
    return len(set(rests)) < 2 and rests.count("...") < 2


def list_names(annotation: Any) -> list[str]:
    arrays = _list_arrays(annotation)
    return [name for array in arrays for slot in array.dim_str.split() if _spell_slot(slot, {}) for name in _find_names(slot)]


# Returns the tensor of a contract for an annotation of jaxtyping: `int x_bs`. `letters` are those of longer names.
def read_annotation(name: str, annotation: Any, letters: Mapping[str, str]) -> str:
    for array in _list_arrays(annotation):
        word = _WORDS.get(getattr(array.dtype, "__name__", ""), "")
        slots = [_spell_slot(dimension, letters) for dimension in array.dim_str.split()]
        if all(slots):
            plain = "".join(slots)
            return f"{word} {name}_{plain if plain.isalpha() else '{' + ' '.join(slots) + '}'}".strip()
    return ""


# Types of tensors of torch or of arrays of NumPy, alone or beside None.
def _list_arrays(annotation: Any) -> list[Any]:
    hints = get_args(annotation) if get_origin(annotation) in (Union, UnionType) else (annotation,)
    arrays = [hint for hint in hints if isinstance(hint, type) and issubclass(hint, jaxtyping.AbstractArray)]
    return [array for array in arrays if array.array_type in (torch.Tensor, np.ndarray)]


def _find_names(dimension: str) -> list[str]:
    match = _DIMENSION.fullmatch(dimension)
    return [] if match is None or match["rest"] else re.findall(_NAME, dimension)


def _spell_slot(dimension: str, letters: Mapping[str, str]) -> str:
    match = _DIMENSION.fullmatch(dimension)
    if match is None:
        return ""
    if match["rest"]:
        return letters.get("...", "")
    short = re.sub(_NAME, lambda name: letters.get(name[0], name[0]), dimension)
    return f"({short.replace('*', '')})" if match["group"] else short


# jaxtyping has no primes and no groups: `s'` has the size of `s`, and a group is a product.
def _spell_dimension(axis: Dimension) -> str:
    return (
        "*batch"
        if axis.size == REST
        else show(_lower_case(axis.size)).replace(" ", "*").replace("*+*", "+").replace("*-*", "-")
    )


def _lower_case(size: Expression) -> Expression:
    return Name(size.name.lower()) if isinstance(size, Name) else rebuild(size, _lower_case)
