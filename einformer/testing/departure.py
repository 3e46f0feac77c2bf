"""Where does code leave its equations? The first tensor of the text that the code holds with other numbers."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from einformer.language.calls import slot_letters
from einformer.language.tree import Equation
from einformer.language.walk import equations
from einformer.testing.exposed import Shown
from einformer.testing.subject import Subject

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Departure:
    """Which tensors of the text the code holds, and the first that it holds with other numbers, if it shows it."""

    agreeing: tuple[str, ...]
    tensor: str
    shown: Shown | None
    equation: Equation | None


def departure(subject: Subject, trace: Mapping[str, Array], shown: Sequence[Shown], tolerance: float) -> Departure:
    """Each tensor of the text in turn, looked for among what the code shows: by its numbers, its axes in any order.

    The first that is not there departs, if the code shows something of its shape after all that agrees, and that is
    nothing else of the text.
    """
    agreeing, after = list[str](), 0
    for path, array in trace.items():
        if places := [place for place, each in enumerate(shown) if _is_same(array, each.array, tolerance)]:
            after = max(after, places[0] + 1)
            agreeing.append(f"{_written(subject, path)} (`{shown[places[0]].name}`, {shown[places[0]].place})")
        elif other := _other(array, shown[after:], trace.values(), tolerance):
            return Departure(tuple(agreeing), _written(subject, path), other, _equation(subject, path))
    return Departure(tuple(agreeing), "", None, None)


def _other(array: Array, shown: Sequence[Shown], text: Iterable[Array], tolerance: float) -> Shown | None:
    """What stands in for a tensor: of what has its shape and is nothing of the text the first name, with its last value."""
    alike = [each for each in shown if _is_alike(array, each.array)]
    alike = [each for each in alike if not any(_is_same(other, each.array, tolerance) for other in text)]
    return next((each for each in reversed(alike) if each.name == alike[0].name), None)


def _written(subject: Subject, path: str) -> str:
    """`blocks.0.MLP.h_bsf`: a path of the trace with the letters that the tensor has."""
    equation = _equation(subject, path)
    letters = "".join(slot_letters(equation.left)) if equation else ""
    return f"{path.removeprefix(subject.prefix)}_{letters}" if letters else path


def _equation(subject: Subject, path: str) -> Equation | None:
    """The equation that defines the tensor at a path."""
    folder, _, name = path.rpartition(".")
    return next((q for q in equations(subject.called(folder).body) if q.left.name == name), None)


def _is_alike(ours: Array, theirs: Array) -> bool:
    """The same axes in some order; those of size one do not count."""
    return ours.size > 1 and sorted(np.squeeze(ours).shape) == sorted(np.squeeze(theirs).shape)


def _is_same(ours: Array, theirs: Array, tolerance: float) -> bool:
    """The same numbers, the axes in some order."""
    if not _is_alike(ours, theirs):
        return False
    one, other = np.squeeze(ours), np.squeeze(theirs)
    orders = (other.transpose(order) for order in itertools.permutations(range(other.ndim)))
    scale = float(np.abs(one[np.isfinite(one)]).max(initial=0))
    return any(x.shape == one.shape and np.allclose(x, one, 0, tolerance * scale, equal_nan=True) for x in orders)
