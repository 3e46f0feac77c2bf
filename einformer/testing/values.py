"""Which numbers tell formulas apart? Random ones in float64, in rows of several magnitudes, so that an ε shows."""

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


def inputs(subject: Subject, given: Mapping[str, Given], seed: int) -> dict[str, NDArray[np.generic]]:
    """An array for each input: as it is given, whole numbers where it selects, else normal ones."""
    random, selecting = np.random.default_rng(seed), subject.selecting()
    found = dict[str, NDArray[np.generic]]()
    for formal in subject.head.formals:
        shape = shape_of(subject, formal)
        if formal.name in given:
            found[formal.name] = _given(subject, given[formal.name])
        elif formal.name in selecting:
            found[formal.name] = random.integers(subject.legend.length(selecting[formal.name]), size=shape)
        else:
            found[formal.name] = random.standard_normal(shape) * _magnitudes(shape)
    return found


def _given(subject: Subject, given: Given) -> NDArray[np.generic]:
    if not callable(given):
        return np.asarray(given)
    sizes = {name: int(subject.legend.number(Name(name))) for name in inspect.signature(given).parameters}
    return np.asarray(given(**sizes))


def weights(subject: Subject, seed: int) -> dict[str, Array]:
    """An array for each weight: vectors around one, others of a size that neither grows nor shrinks what they meet."""
    random, found = np.random.default_rng(seed + 1), dict[str, Array]()
    for path, each in subject.weights().items():
        normal = random.standard_normal(each.shape)
        scale = math.sqrt(max(each.shape)) if len(each.shape) > 1 else 1
        found[path] = np.asarray(normal / scale if len(each.shape) > 1 else (0.3 * normal + (each.weight.default is None)))
    return found


def shape_of(subject: Subject, formal: Tensor) -> tuple[int, ...]:
    """The shape of an input."""
    return tuple(subject.legend.length(letter) for letter in slot_letters(formal))


def _magnitudes(shape: tuple[int, ...]) -> Array:
    """Rows, those of the last axis but one, grow from one magnitude to the other."""
    if len(shape) < 2:
        return np.ones(())
    return np.geomspace(SMALLEST, LARGEST, shape[-2])[:, None]
