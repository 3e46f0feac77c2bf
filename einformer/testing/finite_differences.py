"""Compares the gradients of the code, by autograd, with finite differences of the reference.

The reference has no derivatives, so the two sides share nothing. Along a random direction the difference of two values of
the reference is one number, which the gradients of the code must give too.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from einformer.testing.code import Code
from einformer.testing.explain import Question

Array = NDArray[np.float64]
STEP = 1e-5
TOLERANCE = 1e-5  # of the largest slope: the precision of a difference quotient; a detached tensor misses its whole slope


@dataclass(frozen=True, slots=True)
class Slope:
    """The change of the output along the direction of one tensor: by the code, and by the reference."""

    name: str
    here: float
    expected: float


# The sum of all gradients is compared first, which cannot be right by chance.
def find_wrong(code: Code, question: Question, seed: int) -> Iterator[Slope]:
    random = np.random.default_rng(seed + 2)
    by = random.standard_normal(question.answer.shape)
    gradients = code.gradients(question.inputs, question.weights, question.moving, by)
    directions = {name: random.standard_normal(gradient.shape) for name, gradient in gradients.items()}
    here = {name: float((gradients[name] * directions[name]).sum()) for name in gradients}
    allowed = TOLERANCE * math.hypot(*here.values(), expected := _measure_slope(question, directions, by))
    if abs(sum(here.values()) - expected) > allowed:
        slopes = (Slope(name, here[name], _measure_slope(question, {name: directions[name]}, by)) for name in gradients)
        yield from (slope for slope in slopes if not abs(slope.here - slope.expected) <= allowed)


def _measure_slope(question: Question, directions: Mapping[str, Array], by: Array) -> float:
    ahead, behind = (_sum_output(question, directions, step, by) for step in (STEP, -STEP))
    return (ahead - behind) / (2 * STEP)


def _sum_output(question: Question, directions: Mapping[str, Array], step: float, by: Array) -> float:
    def move(arrays: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        return {name: x + step * directions[name] if name in directions else x for name, x in arrays.items()}

    value = question.subject.value(move(question.inputs), move(question.weights))
    return float((np.where(np.isfinite(value), value, 0) * by).sum())
