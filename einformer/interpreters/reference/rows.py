"""What do rows of unequal length mean? Each what it means alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


def each_alone(evaluate: Callable[..., Array], inputs: Sequence[Array], lengths: Sequence[int]) -> Array:
    """The values of a batch whose rows have these lengths, one below the other; NaN beyond its length."""
    rows = [evaluate(*(given[[row], :n] for given in inputs))[0] for row, n in enumerate(lengths)]
    return np.stack([_filled(row, max(lengths)) for row in rows])


def _filled(row: Array, length: int) -> Array:
    after = [(0, length - len(row)), *[(0, 0)] * (row.ndim - 1)]
    return np.pad(row, after, constant_values=np.nan)
