"""Which known mistake explains what some code computes? The text with that one mistake gives the same numbers."""

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
from einformer.testing.mapping import Entry, Piece
from einformer.testing.mistakes import MISTAKES
from einformer.testing.subject import Subject

Array = NDArray[np.float64]
Weights = Mapping[str, Array]


@dataclass(frozen=True, slots=True)
class Explanation:
    """A mistake, and what stands in the text and what the code computes instead."""

    says: str
    meant: str
    made: str
    equation: Equation | None


@dataclass(frozen=True, slots=True)
class Question:
    """What was asked of the code, and what it answered."""

    subject: Subject
    inputs: Mapping[str, NDArray[np.generic]]
    weights: Weights
    moving: frozenset[str]  # the names of inputs and weights that are ours to move
    answer: Array

    def is_answered(self, tree: Spec, weights: Weights, tolerance: float) -> bool:
        """Would this text, with these weights, give the answer? Where the code has NaN, nothing is known."""
        try:
            value = self.subject.value(self.inputs, weights, tree)
        except (EinformerError, AssertionError, ValueError, IndexError, KeyError):
            return False  # a change that is no formula
        return value.shape == self.answer.shape and error(self.answer, value) <= tolerance


def error(answer: Array, expected: Array) -> float:
    """The largest difference where the answer is a number, by the largest number expected; infinite where it is none at all."""
    known = np.isfinite(answer) & np.isfinite(expected)
    if 2 * known.sum() < known.size:
        return float("inf")
    scale = float(np.abs(expected[known]).max(initial=0)) or 1.0
    return float(np.abs(answer - expected)[known].max(initial=0)) / scale


def explanation(question: Question, entries: Sequence[Entry], tolerance: float, near: Span | None) -> Explanation | None:
    """The first mistake that gives the answer: in the equation `near`, which departs first, of layouts, then elsewhere."""
    there = _texts(question, tolerance, lambda equation: equation.span == near)
    elsewhere = _texts(question, tolerance, lambda equation: equation.span != near)
    return next(itertools.chain(there, _layouts(question, entries, tolerance), elsewhere), None)


def _texts(question: Question, tolerance: float, wanted: Callable[[Equation], bool]) -> Iterator[Explanation]:
    subject = question.subject
    for mistake in MISTAKES:
        for changed in filter(lambda changed: wanted(changed.before), mistake.rewrite(subject.written)):
            tree = subject.varied(changed.layer)
            if tree and question.is_answered(tree, question.weights, tolerance):
                yield Explanation(mistake.says, alone(changed.before), "; ".join(map(alone, changed.after)), changed.before)


def _layouts(question: Question, entries: Sequence[Entry], tolerance: float) -> Iterator[Explanation]:
    """Parameters read with the letters of a group in another order, or transposed: one, several, or all."""
    pieces = [piece for entry in entries for piece in entry.pieces if piece.path in question.weights and not piece.at]
    for others in _reorderings(pieces):
        for chosen in _together(question.subject, pieces, others):
            weights = {**question.weights, **{each.path: _misread(question, each, others[each.path]) for each in chosen}}
            if question.is_answered(question.subject.tree, weights, tolerance):
                made = ", ".join(str(others[each.path]) for each in chosen)
                meant = ", ".join(map(str, chosen))
                yield Explanation("weights are read with their axes in another order", meant, made, None)


def _reorderings(pieces: Sequence[Piece]) -> Iterator[dict[str, Piece]]:
    """Other layouts by path: groups in each other order of their letters, then square weights transposed."""
    groups = dict.fromkeys(slot for piece in pieces for slot in piece.slots if len(slot) > 1)
    for letters in dict.fromkeys(tuple(sorted(group)) for group in groups):
        for order in itertools.permutations(range(len(letters))):
            yield _changed(pieces, lambda slot, letters=letters, order=order: _ordered(slot, letters, order))
    yield {piece.path: replace(piece, slots=piece.slots[::-1]) for piece in pieces if len(piece.slots) == 2}


def _ordered(slot: tuple[str, ...], letters: tuple[str, ...], order: tuple[int, ...]) -> tuple[str, ...]:
    return tuple(slot[number] for number in order) if tuple(sorted(slot)) == letters else slot


def _changed(pieces: Sequence[Piece], f: object) -> dict[str, Piece]:
    assert callable(f)
    new = {piece.path: replace(piece, slots=tuple(map(f, piece.slots))) for piece in pieces}
    return {piece.path: new[piece.path] for piece in pieces if new[piece.path] != piece}


def _together(subject: Subject, pieces: Sequence[Piece], others: Mapping[str, Piece]) -> Iterator[list[Piece]]:
    """Which of them at once: those of one equation together, and every choice of equations, few first."""
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
    """What a weight is to code that takes the parameter for another layout."""
    array = torch.from_numpy(np.asarray(question.weights[piece.path]))
    held = piece.laid(array)
    if other.laid(array).shape != held.shape:
        return np.full(array.shape, np.nan)
    return other.read(held, tuple(array.shape)).numpy()
