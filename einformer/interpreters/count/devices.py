"""The accelerators that are known, with their peak rates: the rows of `devices.toml`."""

from __future__ import annotations

import functools
import pathlib
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass

from einformer.errors import fail
from einformer.interpreters.count.precisions import Precision


@dataclass(frozen=True, slots=True)
class Device:
    """An accelerator: FLOP/s of dense products by dtype, bytes/s and bytes of its memory."""

    title: str
    peak: Mapping[str, float]
    bandwidth: float
    memory: float
    source: str

    def rate(self, precision: Precision) -> float:
        """FLOP/s of products in a precision. Raises EinformerError E605."""
        if (dtype := precision.dtype) not in self.peak:
            message = f"there is no published rate of products in {dtype} for {self.title}"
            raise fail("E605", message, fix=" or ".join(f"`{known}`" for known in self.peak))
        return self.peak[dtype]


@functools.cache
def read_devices() -> Mapping[str, Device]:
    """The known devices by name.

    >>> round(read_devices()["a100-40gb"].peak["bfloat16"] / 1.5e12)  # the ridge that kipply has
    208
    """
    text = (pathlib.Path(__file__).parent / "devices.toml").read_text(encoding="utf-8")
    return {name: Device(**row) for name, row in tomllib.loads(text).items()}
