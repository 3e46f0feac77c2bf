"""Chooses the axes of a layer that are neither rows nor columns of its matrices: sequences, heads, experts.

The labels are as few as leave no tensor more than two axes. Of several choices, the labels are axes that are rarely summed
over (heads rather than features), and that most weights have (experts rather than features).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations, permutations

from einformer.language.calls import axis_of, calls, slot_letters
from einformer.language.tree import Expression, Index, Layer, Tensor
from einformer.language.walk import children, equations, loops, subexpressions

MOST = 5  # labels of one layer
Axes = frozenset[str]


@dataclass(frozen=True, slots=True)
class Labels:
    """The labels of a layer: all, those without a printed sign, those that weights have, and pairs of which one never
    stands without the other, as groups of heads and the heads of a group. `down` are the axes of rows, positions as a rule.
    """

    chosen: Axes
    dropped: Axes
    said: Axes
    paired: tuple[Axes, ...]
    down: Axes


def find_labels(layer: Layer) -> Labels:
    """Returns the labels of a layer whose sums are written out."""
    chosen = _choose(layer)
    printed_labels, dropped = chosen & set(_list_weight_axes(layer)), find_unprinted(layer, chosen)
    defined = [frozenset[str]().union(*slots) for slots in _list_slots(layer)]
    pairs = (
        pair for pair in permutations(sorted(printed_labels), 2) if all(pair[0] in axes for axes in defined if pair[1] in axes)
    )
    plain = (
        [axis for axis in map(axis_of, slot_letters(formal)) if axis not in dropped | printed_labels]
        for formal in layer.formals
    )
    down = frozenset(axes[0] for axes in plain if len(axes) == 2)
    return Labels(chosen, dropped, printed_labels, tuple(map(frozenset, pairs)), down)


def _choose(layer: Layer) -> Axes:
    slots, weighted, summed = list(_list_slots(layer)), Counter(_list_weight_axes(layer)), Counter(_list_summed(layer))
    turns = _find_turns(layer)
    order = list(dict.fromkeys(axis for slot in slots for axes in slot for axis in axes if axis not in turns))

    def count_uncovered(choice: Iterable[str]) -> int:
        return sum(sum(not axes <= turns.union(choice) for axes in axes_of_slot) > 2 for axes_of_slot in slots)

    def rate(choice: Iterable[str]) -> tuple[int, ...]:
        return count_uncovered(choice), sum(summed[axis] for axis in choice), -sum(weighted[axis] for axis in choice)

    best: tuple[str, ...] = ()
    for n in range(min(MOST, len(order)) + 1):
        best = min(best, *combinations(order, n), key=rate)
        if not count_uncovered(best):
            break
    return turns.union(best)


def find_unprinted(layer: Layer, axes: Axes) -> Axes:
    """Returns the axes without a printed sign: no weight has them, and only whole tensors are read along them."""
    return axes.difference(_list_weight_axes(layer), _list_summed(layer), _list_separate(layer), _find_turns(layer))


def find_passed(layer: Layer, callees: Mapping[str, Layer], known: dict[str, Axes]) -> Axes:
    """Returns the axes of a layer's head of which no two places meet in it: rows of a batch. `known` caches the answers."""
    if layer.name not in known:
        known[layer.name] = find_unprinted(layer, _find_heads(layer))
        for callee in {e.name: callees[e.name] for e in calls(layer) if e.name in callees}.values():
            known[layer.name] -= _find_heads(callee) - find_passed(callee, callees, known)
    return known[layer.name]


def _find_heads(layer: Layer) -> Axes:
    return frozenset(axis_of(letter) for formal in layer.formals for letter in slot_letters(formal))


def _find_turns(layer: Layer) -> Axes:
    return frozenset(axis_of(loop.index.letter) for loop in loops(layer.body))


def _list_slots(layer: Layer) -> Iterator[list[Axes]]:
    for tensor in (*layer.formals, *(equation.left for equation in equations(layer.body))):
        if isinstance(tensor, Tensor):
            yield [frozenset(map(axis_of, slot_letters(Tensor("", (slot,))))) for slot in tensor.slots]
    for weight in layer.weights:
        yield [frozenset({axis_of(index.letter)}) for index in weight.indices]


def _list_weight_axes(layer: Layer) -> Iterator[str]:
    return (axis_of(index.letter) for weight in layer.weights if weight.kind != "instance" for index in weight.indices)


def _list_summed(layer: Layer) -> Iterator[str]:
    return (axis_of(index.letter) for e in calls(layer) if e.name == "sum" for index in e.indices)


# In arithmetic, in groups and below operators, an index stands elsewhere than alone in a slot.
def _list_separate(layer: Layer) -> Iterator[str]:
    for equation in equations(layer.body):
        for e in (*subexpressions(equation.left), *subexpressions(equation.right)):
            yield from (axis_of(x.letter) for part in _list_parts(e) for x in subexpressions(part) if isinstance(x, Index))


def _list_parts(e: Expression) -> Iterable[Expression]:
    match e:
        case Index() if e.letter.endswith("'"):
            return (e,)
        case Tensor():
            return (slot for slot in e.slots if not isinstance(slot, Index | Tensor))
        case _:
            return (*getattr(e, "indices", ()), *(child for child in children(e) if isinstance(child, Index)))
