"""Reads the words of a contract as dtypes and devices."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from typing import Any

DEVICES = ("cpu", "cuda", "meta", "mps", "xpu")
KINDS = {"float": "Float", "int": "Integer", "bool": "Bool", "complex": "Complex"}
EXACT = {
    "bf16": "bfloat16",
    "f16": "float16",
    "f32": "float32",
    "f64": "float64",
    "i8": "int8",
    "i16": "int16",
    "i32": "int32",
    "i64": "int64",
    "u8": "uint8",
}
WORDS = frozenset((*DEVICES, *KINDS, *EXACT))


# Without a word for a dtype all dtypes are allowed.
@functools.cache
def dtypes(words: tuple[str, ...]) -> tuple[Any, ...]:
    import torch

    everything = {value for value in vars(torch).values() if isinstance(value, torch.dtype)}
    for word in words:
        if word in EXACT:
            return _add_arrays((getattr(torch, EXACT[word]),))
        if word in KINDS:
            return _add_arrays(sorted((dtype for dtype in everything if _find_word(dtype) == word), key=str))
    return ()


# NumPy has dtypes of the same names.
def _add_arrays(allowed: Iterable[Any]) -> tuple[Any, ...]:
    import numpy as np

    names = [str(dtype).removeprefix("torch.") for dtype in allowed]
    return (*allowed, *(np.dtype(name) for name in names if name in np.sctypeDict))


def device(words: tuple[str, ...]) -> str:
    return next((word for word in words if word in DEVICES), "")


# A quantised dtype has no word.
def _find_word(dtype: Any) -> str:
    name = str(dtype).removeprefix("torch.")
    if dtype.is_floating_point:
        return "float"
    if dtype.is_complex:
        return "complex"
    return "bool" if name == "bool" else "int" if name.startswith(("int", "uint")) else ""
