"""Lists the maps of letters that a mesh allows: the indices of weights that its axes can split together.

No tensor carries two indices of one axis of the mesh, and a product meets no two. So the sets of letters that an axis can split
are the independent ones of a graph. They are taken as large as they can be: splitting one more letter divides more tensors.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from einformer.language.sizes import Legend
from einformer.program import operations as op
from einformer.program.operations import Function, Value, unite_axes
from einformer.program.rewrite import walk_loops, walk_values

Clashes = Mapping[str, frozenset[str]]  # the letters of weights, and those with which a tensor or a product carries each


def find_clashes(functions: Mapping[str, Function], legend: Legend) -> Clashes:
    """The indices of weights, but for loops, with those that cannot be split over the same axis of a mesh."""
    loops = {turns.letter for function in functions.values() for turns in walk_loops(function.lines)}
    carried = {letter for function in functions.values() for line in function.weights for letter in line.value.axes}
    clashes = {letter: set[str]() for letter in carried - loops if legend.is_bound(letter)}
    for function in functions.values():
        for value in walk_values(function):
            for together in _list_together(value):
                for letter in clashes.keys() & together:
                    clashes[letter] |= together - {letter}
    return {letter: frozenset(others) for letter, others in clashes.items()}


def _list_together(value: Value) -> Iterator[set[str]]:
    yield {*value.axes}
    if isinstance(value.operation, op.Contract):
        yield {*unite_axes(value.operation.factors)}


def find_chosen(functions: Mapping[str, Function]) -> frozenset[str]:
    """The indices of which a token has but some: of experts."""
    operations = (value.operation for function in functions.values() for value in walk_values(function))
    return frozenset(letter for o in operations if isinstance(o, op.Reduce) and o.operator == "top" for letter in o.letters)


def list_sets(clashes: Clashes, legend: Legend, ranks: int, without: Iterable[str] = ()) -> tuple[frozenset[str], ...]:
    """The largest sets of letters that an axis of so many ranks can split, each number of ranks dividing their sizes."""
    some = {letter for letter in clashes if not legend.length(letter) % ranks} - {*without}
    return tuple(_extend(frozenset(), frozenset(some), frozenset(), clashes)) if some else ()


def _extend(chosen: frozenset[str], free: frozenset[str], done: frozenset[str], clashes: Clashes) -> Iterator[frozenset[str]]:
    """Bron and Kerbosch 1973, algorithm 1: the largest independent sets that have what is chosen and nothing of `done`."""
    if not free | done:
        yield chosen
    for letter in sorted(free):
        others = clashes[letter] | {letter}
        yield from _extend(chosen | {letter}, free - others, done - others, clashes)
        free, done = free - {letter}, done | {letter}
