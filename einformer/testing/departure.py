"""Finds the first tensor of the text that the code holds with other numbers."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from einformer.errors import Span
from einformer.language.calls import slot_letters
from einformer.language.tree import Equation, Layer, Loop
from einformer.language.walk import equations
from einformer.testing.exposed import Shown
from einformer.testing.subject import Subject

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Departure:
    """The tensors of the text that the code holds, and the first that it holds with other numbers, if it shows one.

    `right` are the places of equations whose tensors it holds, and `right_calls` those with the layer of one call. The
    layers `around` the departure call each other up to it, or compute what lies before it.
    """

    agreeing: tuple[str, ...]
    tensor: str
    shown: Shown | None
    equation: Equation | None
    layer: str = ""
    right: frozenset[Span] = frozenset()
    right_calls: frozenset[tuple[str, Span]] = frozenset()
    around: frozenset[str] = frozenset()


# Looks for each tensor of the text in turn among the values of the code: by its numbers, with axes in any order. The first
# missing tensor departs if the code later shows a value of the same shape that is not another tensor of the text, nor one of
# those `given`: inputs, weights, arguments of functions and operators.
def find_departure(
    subject: Subject, trace: Mapping[str, Array], given: Iterable[Array], shown: Sequence[Shown], tolerance: float
) -> Departure:
    agreeing, after, right, hidden = list[str](), 0, set[tuple[str, Span]](), list[str]()
    tensors, departing, substitute, layer, equation = [*trace.values(), *given], "", None, subject.head, None
    for path, array in trace.items():
        layer, equation = _find_equation(subject, path)
        if places := [place for place, value in enumerate(shown) if _is_same(array, value.array, tolerance)]:
            after, hidden = max(after, places[0] + 1), []
            agreeing.append(f"{_spell_path(subject, path)} (`{shown[places[0]].name}`, {shown[places[0]].place})")
            right |= {(layer.name, equation.span)} if equation else set()
            continue
        hidden.append(path)
        if substitute := _find_substitute(array, shown[after:], tensors, tolerance):
            departing = _spell_path(subject, path)
            break
    around = frozenset(name for path in hidden for name in _list_layers(subject, path))
    spans = frozenset(span for _, span in right)
    if not substitute:
        return Departure(tuple(agreeing), "", None, None, "", spans, frozenset(right), around)
    return Departure(tuple(agreeing), departing, substitute, equation, layer.name, spans, frozenset(right), around)


# The layers that call each other up to a tensor.
def _list_layers(subject: Subject, path: str) -> Iterator[str]:
    parts = path.split(".")
    yield from (subject.find_layer(".".join(parts[:end])).name for end in range(len(parts)))


# Of the values with the same shape that are not other tensors of the text: the first name, with its last value.
def _find_substitute(array: Array, shown: Sequence[Shown], text: Iterable[Array], tolerance: float) -> Shown | None:
    alike = [value for value in shown if _is_alike(array, value.array)]
    alike = [value for value in alike if not any(_is_same(other, value.array, tolerance) for other in text)]
    return next((value for value in reversed(alike) if value.name == alike[0].name), None)


# `blocks.0.MLP.h_bsf`: a path of the trace with the letters of the tensor.
def _spell_path(subject: Subject, path: str) -> str:
    _, equation = _find_equation(subject, path)
    letters = "".join(slot_letters(equation.left)) if equation else ""
    return f"{path.removeprefix(subject.prefix)}_{letters}" if letters else path


# A name may get several values, of which the last is traced. `blocks.0.z` is a value of a loop.
def _find_equation(subject: Subject, path: str) -> tuple[Layer, Equation | None]:
    folder, _, name = path.rpartition(".")
    layer = subject.find_layer(folder)
    turning = {id(q) for s in layer.body if isinstance(s, Loop) for q in equations(s.body)}
    in_turn = folder.rpartition(".")[2].isdigit()
    named = (q for q in reversed(list(equations(layer.body))) if q.left.name == name)
    return layer, next((q for q in named if (id(q) in turning) == in_turn), None)


# The same axes in some order. Axes of size one do not count.
def _is_alike(ours: Array, theirs: Array) -> bool:
    return ours.size > 1 and sorted(np.squeeze(ours).shape) == sorted(np.squeeze(theirs).shape)


def _is_same(ours: Array, theirs: Array, tolerance: float) -> bool:
    if not _is_alike(ours, theirs):
        return False
    one, other = np.squeeze(ours), np.squeeze(theirs)
    orders = (other.transpose(order) for order in itertools.permutations(range(other.ndim)))
    if _is_mask(one):
        return any(_hides_the_same(one, x) for x in orders)
    allowed = tolerance * float(np.abs(one[np.isfinite(one)]).max(initial=0))
    if not np.allclose(np.sort(one, None), np.sort(other, None), 0, allowed, equal_nan=True):
        return False  # other numbers, in any order
    return any(x.shape == one.shape and np.allclose(x, one, 0, allowed, equal_nan=True) for x in orders)


def _is_mask(array: Array) -> bool:
    return set(np.unique(array)) == {-np.inf, 0}


# In any two numbers: true and false, zero and the smallest number.
def _hides_the_same(mask: Array, x: Array) -> bool:
    return x.shape == mask.shape and np.unique(x).size == 2 and np.array_equal(x == x.flat[0], mask == mask.flat[0])
