"""Explains wrong code by a known mistake: the text with that mistake gives the same numbers."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray

from einformer.errors import EinformerError, Span
from einformer.language.printer import alone
from einformer.language.tree import Equation, Spec, Tensor
from einformer.language.walk import equations, subexpressions
from einformer.testing.mapping import MappedParameter, Piece
from einformer.testing.mistakes import MISTAKES
from einformer.testing.subject import Subject

Array = NDArray[np.float64]
Weights = Mapping[str, Array]


@dataclass(frozen=True, slots=True)
class Explanation:
    """A mistake, with the text as it is and as the code computes it."""

    says: str
    meant: str
    made: str
    equation: Equation | None


@dataclass(frozen=True, slots=True)
class Question:
    """The inputs of a comparison, and the answer of the code."""

    subject: Subject
    inputs: Mapping[str, NDArray[np.generic]]
    weights: Weights
    moving: frozenset[str]  # the names of inputs and weights that are ours to move
    answer: Array

    def is_answered(self, tree: Spec, weights: Weights, tolerance: float) -> bool:
        """Returns whether this text with these weights gives the answer. NaN in the answer matches anything."""
        try:
            value = self.subject.value(self.inputs, weights, tree)
        except (EinformerError, AssertionError, ValueError, IndexError, KeyError):
            return False  # the changed text is not well formed
        return value.shape == self.answer.shape and measure_error(self.answer, value) <= tolerance


def measure_error(answer: Array, expected: Array) -> float:
    """Returns the largest difference between finite numbers, relative to the largest expected number, or infinity if none
    is finite.
    """
    finite = np.isfinite(answer) & np.isfinite(expected)
    if 2 * finite.sum() < finite.size:
        return float("inf")
    scale = float(np.abs(expected[finite]).max(initial=0)) or 1.0
    return float(np.abs(answer - expected)[finite].max(initial=0)) / scale


def explain(question: Question, entries: Sequence[MappedParameter], tolerance: float, near: Span | None) -> Explanation | None:
    """Returns the first mistake that gives the answer: in the equation `near`, in layouts, then elsewhere."""
    there = _try_texts(question, tolerance, lambda equation: equation.span == near)
    elsewhere = _try_texts(question, tolerance, lambda equation: equation.span != near)
    return next(itertools.chain(there, _try_layouts(question, entries, tolerance), elsewhere), None)


def _try_texts(question: Question, tolerance: float, wanted: Callable[[Equation], bool]) -> Iterator[Explanation]:
    subject = question.subject
    for mistake in MISTAKES:
        for changed in filter(lambda changed: wanted(changed.before), mistake.rewrite(subject.written)):
            tree = subject.vary(changed.layer)
            if tree and question.is_answered(tree, question.weights, tolerance):
                yield Explanation(mistake.says, alone(changed.before), "; ".join(map(alone, changed.after)), changed.before)


# Parameters read with the letters of a group in another order, or transposed: one, several, or all.
def _try_layouts(question: Question, entries: Sequence[MappedParameter], tolerance: float) -> Iterator[Explanation]:
    pieces = [piece for entry in entries for piece in entry.pieces if piece.path in question.weights and not piece.at]
    for others in _reorder(pieces):
        for chosen in _combine(question.subject, pieces, others):
            weights = {
                **question.weights,
                **{chosen_piece.path: _misread(question, chosen_piece, others[chosen_piece.path]) for chosen_piece in chosen},
            }
            if question.is_answered(question.subject.tree, weights, tolerance):
                layouts = ", ".join(str(others[chosen_piece.path]) for chosen_piece in chosen)
                meant = ", ".join(map(str, chosen))
                yield Explanation("weights are read with their axes in another order", meant, layouts, None)


# Groups in each other order of their letters, then square weights transposed.
def _reorder(pieces: Sequence[Piece]) -> Iterator[dict[str, Piece]]:
    groups = dict.fromkeys(slot for piece in pieces for slot in piece.slots if len(slot) > 1)
    for letters in dict.fromkeys(tuple(sorted(group)) for group in groups):
        for order in itertools.permutations(range(len(letters))):
            yield _change_layouts(pieces, lambda slot, letters=letters, order=order: _order_slot(slot, letters, order))
    yield {piece.path: replace(piece, slots=piece.slots[::-1]) for piece in pieces if len(piece.slots) == 2}


def _order_slot(slot: tuple[str, ...], letters: tuple[str, ...], order: tuple[int, ...]) -> tuple[str, ...]:
    return tuple(slot[number] for number in order) if tuple(sorted(slot)) == letters else slot


def _change_layouts(pieces: Sequence[Piece], f: object) -> dict[str, Piece]:
    assert callable(f)
    new = {piece.path: replace(piece, slots=tuple(map(f, piece.slots))) for piece in pieces}
    return {piece.path: new[piece.path] for piece in pieces if new[piece.path] != piece}


# The weights of one equation together, then every choice of equations, few first.
def _combine(subject: Subject, pieces: Sequence[Piece], others: Mapping[str, Piece]) -> Iterator[list[Piece]]:
    units = list[list[Piece]]()
    for layer in subject.written.layers:
        for equation in equations(layer.body):
            names = {e.name for e in subexpressions(equation.right) if isinstance(e, Tensor)}
            units.append([piece for piece in pieces if piece.path in others and piece.path.rpartition(".")[2] in names])
    units = [unit for unit in units if unit]
    for number in range(1, min(len(units), 5) + 1):
        for chosen in itertools.combinations(units, number):
            yield [piece for unit in chosen for piece in unit]


def _misread(question: Question, piece: Piece, other: Piece) -> Array:
    array = torch.from_numpy(np.asarray(question.weights[piece.path]))
    held = piece.lay_out(array)
    if other.lay_out(array).shape != held.shape:
        return np.full(array.shape, np.nan)
    return other.read(held, tuple(array.shape)).numpy()
