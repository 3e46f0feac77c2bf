"""At which positions must one look, to know it of all of them?"""

from __future__ import annotations

import numpy as np

from einformer.errors import EinformerError
from einformer.notation.known import Array
from einformer.notation.sizes import Legend
from einformer.notation.tree import (
    Expression,
    Name,
    Spec,
    Tensor,
)
from einformer.notation.walk import equations, subexpressions

FIRST = 12  # the first positions are all sampled
MANY = 120  # positions around constants
UNKNOWN_SIZE = 5.0  # a size that is not bound is some positive number
FEW = (0.0, 1.0, 2.0, 3.0)  # the first numbers of a tap, a layer


def sampled_positions(spec: Spec, legend: Legend) -> Array:
    """The first positions and those around every whole constant of the text, numbers made of constants too, in order."""
    formulas = [equation.right for layer in spec.layers for equation in equations(layer.body)]
    formulas += [scalar.value for scalar in spec.scalars if not isinstance(scalar.value, tuple)]
    sizes = {name: number_of(Name(name), legend) or UNKNOWN_SIZE for name in legend.letters()}
    numbered = Legend(legend.axes, legend.scalars, sizes | dict(legend.values))
    constants = {number_of(e, numbered) for formula in formulas for e in subexpressions(formula)}
    constants |= {number.value for scalar in spec.scalars if isinstance(scalar.value, tuple) for number in scalar.value}
    near = {int(c) + step for c in constants if c and FIRST < c < 2**40 and c == int(c) for step in (-1, 0, 1)}
    return np.array(sorted({*range(FIRST), *sorted(near)[:MANY]}), dtype=np.float64)


def sampled_numbers(letter: str, legend: Legend) -> Array:
    """The first numbers of an index that is no position, and the last ones: a tap that is not there reads nothing."""
    axis = legend.axis(letter)
    size = (number_of(axis.size, legend) if axis else None) or UNKNOWN_SIZE
    return np.array([min(max(number, 0.0), size - 1) for number in (*FEW, size - 2, size - 1)])


def number_of(e: Expression, legend: Legend) -> float | None:
    """The number that e is, if it is one whatever the indices."""
    try:
        return float(legend.number(e))
    except (EinformerError, ValueError, OverflowError):
        return None


def lengths_of(spec: Spec, time: str) -> frozenset[str]:
    """The names of sizes and scalars that are made of the length of the time axis, and that length itself."""
    made = {a.size.name: a.default for a in spec.axes if isinstance(a.size, Name) and a.default is not None}
    made |= {scalar.name: scalar.value for scalar in spec.scalars if not isinstance(scalar.value, tuple)}
    used = {name: {x.name for x in subexpressions(e) if isinstance(x, Name | Tensor)} for name, e in made.items()}
    found = {axis.size.name for axis in spec.axes if axis.letter == time and isinstance(axis.size, Name)}
    while more := {name for name in used.keys() - found if used[name] & found}:
        found |= more
    return frozenset(found)
