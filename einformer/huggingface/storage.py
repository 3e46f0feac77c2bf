"""Counts the bytes of a file of weights: each tensor stands in a format by its role, which the end of its name tells."""

from __future__ import annotations

import functools
import math
import pathlib
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from einformer.errors import fail, find_row
from einformer.huggingface.families import Family, family, match_rows
from einformer.interpreters.count.conventions import read_formats
from einformer.language.weights import Placed, key

_FALLBACKS = {"q4_k": "q5_0", "q5_k": "q5_1", "q6_k": "q8_0"}  # where blocks do not divide a row: llama-quant.cpp
_EIGHT, _SEVENTY = 8, 80  # experts, and layers, that llama-quant.cpp treats on their own
_ALWAYS, _SHARED = "always", "where heads of keys are shared"  # which models of 80 layers are the type 70B of llama.cpp
_SEVENTIES = {"qwen2": _ALWAYS, "olmo": _ALWAYS, "llama": _SHARED, "mistral": _SHARED, "mixtral": _SHARED}


@dataclass(frozen=True, slots=True)
class Storage:
    """The formats of a kind of file by role, those of the layers that get `more` bits, scales of squares or groups of numbers,
    and the source."""

    formats: Mapping[str, str]
    source: str
    more: Mapping[str, str] = field(default_factory=dict)
    first: Mapping[str, int | str] = field(default_factory=dict)
    eight: Mapping[str, str] = field(default_factory=dict)
    seventy: Mapping[str, str] = field(default_factory=dict)
    square: int = 0
    group: int = 0
    index: int = 0


@functools.cache
def read_storage() -> dict[str, Storage]:
    """Returns the kinds of files by name.

    >>> read_storage()["q4_k_m"].more["down"]
    'q6_k'
    """
    return {name: Storage(**row) for name, row in _read_tables().items() if name != "roles"}


@functools.cache
def _read_tables() -> dict[str, dict[str, Any]]:
    return tomllib.loads((pathlib.Path(__file__).parent / "storage.toml").read_text(encoding="utf-8"))


@dataclass(frozen=True, slots=True)
class FileTensor:
    """A tensor of a file: its name, its role, its layer, its shape, and how many there are of it, one for each expert."""

    name: str
    role: str
    layer: int
    shape: tuple[int, ...]
    times: int


# Returns the bytes of the tensors of a file of this kind, for weights by path. Raises EinformerError E605 if there is no such
# kind, or its source does not say how a tensor of the family stands.
def count_file(model_type: str, weights: Mapping[str, Placed], kind: str) -> int:
    storage, tensors = find_row(read_storage(), "kind of file", kind), list(list_tensors(family(model_type), weights))
    for tensor in tensors:
        if tensor.role not in storage.formats:
            message = f"the source of `{kind}` does not say how `{tensor.name}` is stored"
            raise fail("E605", message, facts=[storage.source], fix="another kind of file, or a precision")
    return sum(
        tensor.times * _count_tensor(tensor, _choose_format(model_type, tensor, tensors, storage), storage)
        for tensor in tensors
    )


# Tensors of experts are one, with its times.
def list_tensors(table: Family, weights: Mapping[str, Placed]) -> Iterator[FileTensor]:
    filed = {path for *_, paths in match_rows(table.tensors.files, weights) for path in paths}
    yield from (_make_tensor(*row, weights) for row in match_rows(table.tensors.files, weights))
    yield from (_make_tensor(*row, weights) for row in match_rows(table.tensors.rows, weights) if not filed & {*row[-1]})


def _make_tensor(name: str, axes: str, at: dict[str, str], paths: list[str], weights: Mapping[str, Placed]) -> FileTensor:
    indices = (zip(weights[path].weight.indices, weights[path].shape, strict=True) for path in paths)
    sizes = {key(index.letter): size for some in indices for index, size in some}
    numbered = [letter for letters in re.findall(r"\{(\w+)\}", name) if letters not in at for letter in letters]
    shape = tuple(_read_terms(iter(re.findall(r"\w+|[()+]", key(axes))), sizes)[0])
    times = math.prod(sizes[letter] for letter in numbered)
    return FileTensor(name, _find_role(name, shape), int(at.get("l", 0)), shape, times)


# The lengths of each term of a sum of axes, up to its parenthesis: `a e + a e`.
def _read_terms(words: Iterator[str], sizes: Mapping[str, int]) -> list[list[int]]:
    terms: list[list[int]] = [[]]
    for word in words:
        if word == ")":
            break
        if word == "+":
            terms.append([])
        elif word == "(":
            terms[-1].append(sum(map(math.prod, _read_terms(words, sizes))))
        else:
            terms[-1].append(int(word) if word.isdecimal() else sizes[word])
    return terms


def _find_role(name: str, shape: tuple[int, ...]) -> str:
    ends = [(end, role) for role, ends in _read_tables()["roles"].items() for end in ends if name.endswith(end)]
    return max(ends, key=lambda row: len(row[0]))[1] if ends else "small" if len(shape) < 2 else ""


def _choose_format(model_type: str, tensor: FileTensor, tensors: Sequence[FileTensor], storage: Storage) -> str:
    role = tensor.role
    if role == "tokens" and all(other.role != "output" for other in tensors):
        role = "output"  # the same table
    chosen = storage.formats[role]
    if role in storage.more and _gets_more(tensor, [other for other in tensors if other.role == role], storage):
        chosen = storage.more[role]
    if role in storage.seventy and chosen == "q4_k" and _is_seventy(model_type, tensor, tensors):
        chosen = storage.seventy[role]
    if max(other.times for other in tensors) == _EIGHT:
        chosen = storage.eight.get(role, chosen)
    return _fit_rows(chosen, tensor.shape[-1])


# llama.cpp's type 70B: 80 layers, of llama those that share heads of keys.
def _is_seventy(model_type: str, value: FileTensor, tensors: Sequence[FileTensor]) -> bool:
    if 1 + max(other.layer for other in tensors) != _SEVENTY:
        return False
    when = _SEVENTIES.get(model_type.partition(" ")[0])
    return when == _ALWAYS or (when == _SHARED and value.shape[0] < value.shape[1])


# Of dense models matrices are counted, of mixtures the layers, and those of shared experts count too.
def _gets_more(tensor: FileTensor, same: Sequence[FileTensor], storage: Storage) -> bool:
    number, count = [other.layer for other in same].index(tensor.layer), len(same)
    if any(other.times > 1 for other in same):
        number = tensor.layer
    if first := storage.first.get(tensor.role):
        return number < (count // 8 if first == "1/8" else int(first))
    return number < count // 8 or number >= 7 * count // 8 or (number - count // 8) % 3 == 2


def _fit_rows(name: str, row: int) -> str:
    for other in (name, _FALLBACKS.get(name, "float16")):
        if row % read_formats()[other].block == 0:
            return other
    return "float16"


def _count_tensor(tensor: FileTensor, name: str, storage: Storage) -> int:
    numbers, row = math.prod(tensor.shape), tensor.shape[-1]
    size = numbers * read_formats()[name].element
    if storage.square and name == "fp8":
        size += 4 * math.prod(-(-length // storage.square) for length in tensor.shape)
    if storage.group and name == "int4":
        groups = -(-row // storage.group) * (numbers // row)
        size += groups * Fraction(5, 2) + storage.index * row
    return int(size)
