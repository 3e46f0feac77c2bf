"""Random numbers for a model all of whose sizes are bound: its inputs, and its weights."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from einformer.language import weights as placed
from einformer.language.calls import slot_letters
from einformer.language.tree import Index, Layer, Tensor
from einformer.language.walk import equations, subexpressions
from einformer.objects import Model

Array = NDArray[Any]


def inputs(model: Model, seed: int = 0) -> list[Array]:
    """One array for each input: normal numbers, or whole ones where the input selects."""
    random, layer = np.random.default_rng(seed), model.spec.layer
    arrays = []
    for formal in layer.formals:
        shape = tuple(model.legend.length(letter) for letter in slot_letters(formal))
        selected = _selected(layer, formal.name)
        arrays.append(random.integers(model.legend.length(selected), size=shape) if selected else random.standard_normal(shape))
    return arrays


def weights(model: Model, seed: int = 0, absent: float = 0.0) -> dict[str, Array]:
    """Every weight, of a size that neither grows nor shrinks what it meets; a share of the optional ones is left out."""
    random = np.random.default_rng(seed)
    found = placed.weights(model.spec.tree, model.spec.layer, model.legend)
    drawn = {}
    for path, each in found.items():
        array = random.standard_normal(each.shape) / math.sqrt(max(1, math.prod(each.shape) ** 0.5))
        if not (each.weight.optional and random.random() < absent):
            drawn[path] = array
    return drawn


def _selected(layer: Layer, name: str) -> str:
    """The letter of the axis in which an input selects, if it stands in a slot."""
    axes = {w.name: w.indices for w in layer.weights}
    for e in (x for equation in equations(layer.body) for x in subexpressions(equation.right)):
        if isinstance(e, Tensor):
            for slot, axis in zip(e.slots, axes.get(e.name, ()), strict=False):
                if isinstance(slot, Tensor) and slot.name == name and isinstance(axis, Index):
                    return axis.letter
    return ""
