"""Are gradients what they should be? Those of the code, by autograd, beside finite differences of the reference.

The reference knows no derivatives, so nothing is on both sides. Along a random direction the difference of two values of
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
TOLERANCE = 1e-5  # of the largest slope: a difference quotient knows no more; what is detached misses all of its own


@dataclass(frozen=True, slots=True)
class Slope:
    """How fast the output changes along the direction of one tensor: by the code, and as it should."""

    name: str
    here: float
    expected: float


def wrong(code: Code, question: Question, seed: int) -> Iterator[Slope]:
    """The inputs and weights whose gradients are wrong. All are compared as one sum, which cannot be right by chance."""
    random = np.random.default_rng(seed + 2)
    by = random.standard_normal(question.answer.shape)
    found = code.gradients(question.inputs, question.weights, question.moving, by)
    directions = {name: random.standard_normal(each.shape) for name, each in found.items()}
    here = {name: float((found[name] * directions[name]).sum()) for name in found}
    allowed = TOLERANCE * math.hypot(*here.values(), expected := _slope(question, directions, by))
    if abs(sum(here.values()) - expected) > allowed:
        slopes = (Slope(name, here[name], _slope(question, {name: directions[name]}, by)) for name in found)
        yield from (slope for slope in slopes if not abs(slope.here - slope.expected) <= allowed)


def _slope(question: Question, directions: Mapping[str, Array], by: Array) -> float:
    """The derivative of the sum of the output times `by` as inputs and weights move along these directions."""
    ahead, behind = (_total(question, directions, step, by) for step in (STEP, -STEP))
    return (ahead - behind) / (2 * STEP)


def _total(question: Question, directions: Mapping[str, Array], step: float, by: Array) -> float:
    def moved(arrays: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        return {name: x + step * directions[name] if name in directions else x for name, x in arrays.items()}

    value = question.subject.value(moved(question.inputs), moved(question.weights))
    return float((np.where(np.isfinite(value), value, 0) * by).sum())
