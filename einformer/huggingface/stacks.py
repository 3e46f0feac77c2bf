"""Which tensors are one of ours, each a number of its first axis? Those whose name has an `{n}`, `norms.{n}.weight`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch import Tensor

_NUMBER = "{n}"


def stacked(stored: Mapping[str, Any], shapes: Mapping[str, tuple[int, ...]]) -> dict[str, Any]:
    """What is stored, with one tensor for all of a name with an `{n}` that are there, in the shape of its row."""
    whole = dict(stored)
    for name, (count, *rest) in [(name, shape) for name, shape in shapes.items() if _NUMBER in name]:
        parts = [whole[part] for part in _numbered(name, count) if part in whole]
        alike = len(parts) == count and all((part.shape, part.dtype) == (tuple(rest), parts[0].dtype) for part in parts)
        if alike:
            for part in _numbered(name, count):
                del whole[part]
            whole[name] = replace(parts[0], name=name, shape=(count, *rest), read=partial(_read, parts))
    return whole


def unstacked(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The tensors by name, those of a name with an `{n}` one for each number."""
    return {
        part: each
        for name, tensor in tensors.items()
        for part, each in (zip(_numbered(name, len(tensor)), tensor, strict=True) if _NUMBER in name else [(name, tensor)])
    }


def _numbered(name: str, count: int) -> Iterable[str]:
    return (name.replace(_NUMBER, str(number)) for number in range(count))


def _read(parts: Iterable[Any]) -> Tensor:
    return torch.stack([part.read() for part in parts])
