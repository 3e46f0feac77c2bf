"""Draws numbers that tell formulas apart: random in float64, with rows of several magnitudes, so that an ε shows."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import ArrayLike, NDArray

from einformer.language.calls import slot_letters
from einformer.language.tree import Name, Tensor
from einformer.testing.subject import Subject

Array = NDArray[np.float64]
SMALLEST, LARGEST = 0.01, 2.0  # magnitudes of a row of an input: at the smallest an ε of 1e-5 is a tenth of a variance


Given = ArrayLike | Callable[..., ArrayLike]


# An input is given, else whole numbers where it selects, else normal numbers.
def draw_inputs(subject: Subject, given: Mapping[str, Given], seed: int) -> dict[str, NDArray[np.generic]]:
    random, selecting = np.random.default_rng(seed), subject.find_selectors()
    arrays = dict[str, NDArray[np.generic]]()
    for formal in subject.head.formals:
        shape = shape_of(subject, formal)
        if formal.name in given:
            arrays[formal.name] = _read_given(subject, given[formal.name])
        elif formal.name in selecting:
            arrays[formal.name] = random.integers(subject.legend.length(selecting[formal.name]), size=shape)
        else:
            arrays[formal.name] = random.standard_normal(shape) * _grow_magnitudes(shape)
    return arrays


def _read_given(subject: Subject, given: Given) -> NDArray[np.generic]:
    if not callable(given):
        return np.asarray(given)
    sizes = {name: int(subject.legend.number(Name(name))) for name in inspect.signature(given).parameters}
    return np.asarray(given(**sizes))


# Vectors are around one, others of a scale that keeps magnitudes.
def draw_weights(subject: Subject, seed: int) -> dict[str, Array]:
    random, arrays = np.random.default_rng(seed + 1), dict[str, Array]()
    for path, weight in subject.weights().items():
        normal = random.standard_normal(weight.shape)
        scale = math.sqrt(max(weight.shape)) if len(weight.shape) > 1 else 1
        arrays[path] = np.asarray(normal / scale if len(weight.shape) > 1 else (0.3 * normal + (weight.weight.default is None)))
    return arrays


def shape_of(subject: Subject, formal: Tensor) -> tuple[int, ...]:
    return tuple(subject.legend.length(letter) for letter in slot_letters(formal))


# Rows along the last axis but one grow from one magnitude to the other.
def _grow_magnitudes(shape: tuple[int, ...]) -> Array:
    if len(shape) < 2:
        return np.ones(())
    return np.geomspace(SMALLEST, LARGEST, shape[-2])[:, None]
