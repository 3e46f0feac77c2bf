"""Explains wrong code by a known mistake: the text with that mistake gives the same numbers."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray

from einformer.errors import EinformerError, Span
from einformer.language.calls import slot_letters
from einformer.language.printer import alone
from einformer.language.tree import Apply, Equation, Expression, Layer, Spec, Tensor
from einformer.language.walk import equations, find_all, rebuild
from einformer.testing.departure import Departure
from einformer.testing.mapping import MappedParameter, Piece, list_letters
from einformer.testing.mistakes import ALONE, MISTAKES, PLAIN, TILED, VIEWED, Mistake
from einformer.testing.rewrites import Changed
from einformer.testing.subject import Subject

Array = NDArray[np.float64]
Weights = Mapping[str, Array]
MOST = 20_000  # lines that a search evaluates, some seconds of a processor; so many numbers take as long as a line:
NUMBERS = 5_000


@dataclass(frozen=True, slots=True)
class Explanation:
    """A mistake, with the text as it is and as the code computes it. Of the last positions some may be `missed`."""

    says: str
    meant: str
    made: str
    equation: Equation | None
    call: str = ""  # the one call that makes the mistake, where others of its layer do not
    missed: int = 0


@dataclass(frozen=True, slots=True)
class Question:
    """The inputs of a comparison, what is expected, and the answer of the code."""

    subject: Subject
    inputs: Mapping[str, NDArray[np.generic]]
    weights: Weights
    moving: frozenset[str]  # the names of inputs and weights that are ours to move
    expected: Array
    answer: Array

    # Returns at how many of the last positions this text with these weights does not give the answer, or None. More than half
    # of the positions are right, and more than without the change. NaN in the answer matches anything.
    def compare(self, subject: Subject, tree: Spec, weights: Weights, tolerance: float) -> int | None:
        try:
            value = subject.value(self.inputs, weights, tree)
        except (EinformerError, AssertionError, ValueError, IndexError, KeyError):
            return None  # the changed text is not well formed
        if value.shape != self.answer.shape:
            return None
        if measure_error(self.answer, value) <= tolerance:
            return 0
        start, count = self.find_start(tolerance), self.count_positions()
        right = _find_first_wrong(self.answer, value, self.time_axis, tolerance) if count else 0
        return count - right if right > max(start + 1, count / 2) else None

    @property
    def time_axis(self) -> int:
        time = self.subject.time
        letters = slot_letters(self.subject.head.output)
        return letters.index(time.letter) if time and time.letter in letters else -1

    def count_positions(self) -> int:
        return self.answer.shape[self.time_axis] if self.time_axis >= 0 else 0

    def find_start(self, tolerance: float) -> int:
        return _find_first_wrong(self.answer, self.expected, self.time_axis, tolerance) if self.count_positions() else 0


def _find_first_wrong(answer: Array, value: Array, axis: int, tolerance: float) -> int:
    scale = float(np.abs(value[np.isfinite(value)]).max(initial=0)) or 1.0
    wrong = ~(np.abs(answer - value) <= tolerance * scale)
    positions = np.flatnonzero(wrong.any(tuple(k for k in range(wrong.ndim) if k != axis)))
    return int(positions[0]) if positions.size else 0


# The error is relative to the largest expected number, or infinite if no number is finite.
def measure_error(answer: Array, expected: Array) -> float:
    finite = np.isfinite(answer) & np.isfinite(expected)
    if 2 * finite.sum() < finite.size:
        return float("inf")
    scale = float(np.abs(expected[finite]).max(initial=0)) or 1.0
    return float(np.abs(answer - expected)[finite].max(initial=0)) / scale


def explain(
    question: Question,
    entries: Sequence[MappedParameter],
    tolerance: float,
    apart: Subject,
    where: Departure,
    trace: Mapping[str, Array],
) -> Explanation | None:
    """Returns the first mistake that gives the answer: in the equation that departs, near it, in layouts, then elsewhere.

    A mistake is made wherever its layer is called, then in one call alone. Equations that the code is seen to compute are
    tried last, and not again for one call. The longer the text, of which `trace` has the tensors, the fewer changes are tried.
    """
    lines = len(trace) + sum(array.size for array in trace.values()) // NUMBERS
    near = where.equation.span if where.equation else None
    written, search = question.subject, _Search(question, tolerance, iter(range(MOST // (lines + 1))))
    names = written.list_originals(apart)
    around = {names[name] for name in where.around}
    unsure = [entry for entry in entries if not _is_right(written, entry, where.right)]
    passes = (
        search.try_texts(written, lambda layer, span: span == near, PLAIN),
        search.try_texts(apart, lambda layer, span: (layer, span) == (where.layer, near), ALONE),
        search.try_texts(written, lambda layer, span: True, [TILED]),
        search.try_texts(written, lambda layer, span: span not in {near, *where.right} and layer in around, PLAIN),
        search.try_layouts(unsure),
        search.try_texts(written, lambda layer, span: span not in where.right, [VIEWED]),
        search.try_texts(apart, lambda layer, span: span not in {near, *where.right} and layer in where.around),
        search.try_texts(written, lambda layer, span: span not in {near, *where.right} and layer not in around, PLAIN),
        search.try_texts(written, lambda layer, span: span != near and span in where.right),
        search.try_texts(apart, lambda layer, span: (layer, span) not in where.right_calls and layer not in where.around),
    )
    return next(filter(None, map(_choose_best, passes)), None)


# One that gives all positions, or else the most.
def _choose_best(explanations: Iterator[Explanation]) -> Explanation | None:
    best: Explanation | None = None
    for explanation in explanations:
        best = explanation if best is None or explanation.missed < best.missed else best
        if not best.missed:
            break
    return best


# Whether the code is seen to compute all equations that read the weights of a parameter.
def _is_right(subject: Subject, entry: MappedParameter, right: Container[Span]) -> bool:
    names = {path.rpartition(".")[2] for path in entry.paths}
    readers = [
        equation
        for layer in subject.written.layers
        if names & {weight.name for weight in layer.weights}
        for equation in equations(layer.body)
        if names & {e.name for e in find_all(Tensor, equation.right)}
    ]
    return all(equation.span in right for equation in readers)


@dataclass(frozen=True, slots=True)
class _Search:
    """A search for a change of the text that gives the answer."""

    question: Question
    tolerance: float
    tries: Iterator[int]

    def try_texts(
        self, subject: Subject, wanted: Callable[[str, Span], bool], mistakes: Sequence[Mistake] = MISTAKES
    ) -> Iterator[Explanation]:
        start = self.question.find_start(self.tolerance)
        for mistake in mistakes:
            for changed in mistake.rewrite(subject.written, start):
                if any(wanted(changed.layer.name, equation.span) for equation in changed.before):
                    if next(self.tries, None) is None:
                        return
                    tree = subject.vary(changed.layer)
                    missed = self.question.compare(subject, tree, self.question.weights, self.tolerance) if tree else None
                    if missed is not None:
                        yield self.describe(mistake.says.format(*changed.names), subject, changed, missed)

    # Parameters are read in another order, transposed, or in other parts.
    def try_layouts(self, entries: Sequence[MappedParameter]) -> Iterator[Explanation]:
        for changed, explanation in (*_reread(self.question, entries), *_split_otherwise(self.question, entries)):
            if next(self.tries, None) is None:
                return
            weights = {**self.question.weights, **changed()}
            if self.question.compare(self.question.subject, self.question.subject.tree, weights, self.tolerance) == 0:
                yield explanation

    def describe(self, says: str, subject: Subject, changed: Changed, missed: int) -> Explanation:
        names = self.question.subject.list_originals(subject)
        meant, written = (
            "; ".join(alone(_rename_calls(equation, names)) for equation in side) for side in (changed.before, changed.after)
        )
        call = _find_call(self.question.subject, subject, changed.layer, names)
        return Explanation(says, meant, written, changed.before[0], call, missed)


# The equation with the call of this copy, if the layer has other copies.
def _find_call(written: Subject, apart: Subject, layer: Layer, names: Mapping[str, str]) -> str:
    if list(names.values()).count(names[layer.name]) < 2:
        return ""
    for caller in apart.written.layers:
        aliases = {weight.name for weight in caller.weights if weight.layer == layer.name} | {layer.name}
        for equation in equations(caller.body):
            if any(e.name in aliases for e in find_all(Apply, equation.right)):
                return alone(_rename_calls(equation, names))
    return ""


def _rename_calls(equation: Equation, names: Mapping[str, str]) -> Equation:
    def rename(e: Expression) -> Expression:
        new = rebuild(e, rename)
        return replace(new, name=names.get(new.name, new.name)) if isinstance(new, Apply) else new

    return replace(equation, right=rename(equation.right))


Reading = tuple[Callable[[], Weights], Explanation]  # the weights that it reads, and what to say of it


# One weight, several, or all.
def _reread(question: Question, entries: Sequence[MappedParameter]) -> Iterator[Reading]:
    pieces = [piece for entry in entries for piece in entry.pieces if piece.path in question.weights and not piece.at]
    says = "weights are read with their axes in another order"
    for others in _reorder(pieces):
        for chosen in _combine(question.subject, pieces, others):
            meant, written = (", ".join(map(str, side)) for side in (chosen, [others[piece.path] for piece in chosen]))

            def change(chosen: list[Piece] = chosen, others: Mapping[str, Piece] = others) -> Weights:
                return {piece.path: _misread(question, piece, others[piece.path]) for piece in chosen}

            yield change, Explanation(says, meant, written, None)


# Fused weights that follow each other head by head, `(a (q k v))`, where they follow each other whole, `((q k v) a)`.
def _split_otherwise(question: Question, entries: Sequence[MappedParameter]) -> Iterator[Reading]:
    fused = [entry for entry in entries if len(entry.pieces) > 1 and entry.paths <= question.weights.keys()]
    for number in (1, 2):
        splits = [entry for entry in fused if _can_alternate(entry, number)]
        if splits:
            slots = [piece.slots[splits[0].axis] for piece in splits[0].pieces]
            parts = ", ".join(
                f"{piece.path}: ({''.join(slot[number:])})" for piece, slot in zip(splits[0].pieces, slots, strict=True)
            )
            written = f"{splits[0].parameter}, for each ({''.join(slots[0][:number])}) {parts}"

            def change(splits: list[MappedParameter] = splits, number: int = number) -> Weights:
                return {path: x for entry in splits for path, x in _interleave(question, entry, number).items()}

            says = "fused weights are split in each head, not as a whole"
            yield change, Explanation(says, ", ".join(map(str, splits[0].pieces)), written, None)


def _can_alternate(entry: MappedParameter, number: int) -> bool:
    slots = [piece.slots[entry.axis] for piece in entry.pieces]
    return all(slot[:number] == slots[0][:number] and len(slot) >= number for slot in slots)


# The weights that are read of a parameter if its pieces alternate along their first letters.
def _interleave(question: Question, entry: MappedParameter, number: int) -> dict[str, Array]:
    slots = [piece.slots[entry.axis] for piece in entry.pieces]
    first = entry.pieces[0].path
    sizes = dict(zip(list_letters(question.subject)[first], question.weights[first].shape, strict=True))
    heads = math.prod(sizes[letter] for letter in slots[0][:number])
    held = (piece.lay_out(_to_tensor(question.weights[piece.path])).numpy() for piece in entry.pieces)
    laid = [np.moveaxis(array, entry.axis, 0) for array in held]
    whole = np.concatenate(laid).reshape(heads, -1, *laid[0].shape[1:])
    ends = np.cumsum([len(part) // heads for part in laid])[:-1]
    parts = [part.reshape(-1, *part.shape[2:]) for part in np.split(whole, ends, 1)]
    return {
        piece.path: piece.read(_to_tensor(np.moveaxis(part, 0, entry.axis)), question.weights[piece.path].shape).numpy()
        for piece, part in zip(entry.pieces, parts, strict=True)
    }


def _to_tensor(array: Array) -> torch.Tensor:
    return torch.from_numpy(np.ascontiguousarray(array))


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
            names = {e.name for e in find_all(Tensor, equation.right)}
            units.append([piece for piece in pieces if piece.path in others and piece.path.rpartition(".")[2] in names])
    units = [unit for unit in units if unit]
    for number in dict.fromkeys((*range(1, min(len(units), 3) + 1), len(units))):
        for chosen in itertools.combinations(units, number):
            yield [piece for unit in chosen for piece in unit]


def _misread(question: Question, piece: Piece, other: Piece) -> Array:
    array = torch.from_numpy(np.asarray(question.weights[piece.path]))
    held = piece.lay_out(array)
    if other.lay_out(array).shape != held.shape:
        return np.full(array.shape, np.nan)
    return other.read(held, tuple(array.shape)).numpy()
