"""Evaluates rows of unequal length, each by itself."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


def evaluate_rows(evaluate: Callable[..., Array], inputs: Sequence[Array], lengths: Sequence[int]) -> Array:
    """Returns the values of a batch whose rows have these lengths, with NaN beyond the length of a row."""
    rows = [evaluate(*(array[[row], :n] for array in inputs))[0] for row, n in enumerate(lengths)]
    return np.stack([_fill(row, max(lengths)) for row in rows])


def _fill(row: Array, length: int) -> Array:
    after = [(0, length - len(row)), *[(0, 0)] * (row.ndim - 1)]
    return np.pad(row, after, constant_values=np.nan)
