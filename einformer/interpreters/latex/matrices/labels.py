"""Chooses the axes of a layer that are neither rows nor columns of its matrices: sequences, heads, experts.

As few as leave no tensor more than two axes; of several choices, those that are least summed over (heads are not, features
are), and that most weights have (of experts and features, experts).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations, permutations

from einformer.language.calls import axis_of, slot_letters
from einformer.language.tree import Apply, Expression, Index, Layer, Tensor
from einformer.language.walk import children, equations, loops, subexpressions

MOST = 5  # labels of one layer
Axes = frozenset[str]


@dataclass(frozen=True, slots=True)
class Labels:
    """The labels of a layer: all, those that need not be said, those that weights have, and pairs of these of which one never
    stands without the other, as groups of heads and the heads of a group. `down` are the axes of rows, positions as a rule.
    """

    chosen: Axes
    dropped: Axes
    said: Axes
    paired: tuple[Axes, ...]
    down: Axes


def labels(layer: Layer) -> Labels:
    """The labels of a layer whose sums are written out."""
    chosen = _chosen(layer)
    said, dropped = chosen & set(_weighted(layer)), unsaid(layer, chosen)
    defined = [frozenset[str]().union(*slots) for slots in _slots(layer)]
    pairs = (pair for pair in permutations(sorted(said), 2) if all(pair[0] in axes for axes in defined if pair[1] in axes))
    plain = ([axis for axis in map(axis_of, slot_letters(each)) if axis not in dropped | said] for each in layer.formals)
    down = frozenset(axes[0] for axes in plain if len(axes) == 2)
    return Labels(chosen, dropped, said, tuple(map(frozenset, pairs)), down)


def _chosen(layer: Layer) -> Axes:
    """The best choice of labels; the axes of loops are among them."""
    slots, weighted, summed = list(_slots(layer)), Counter(_weighted(layer)), Counter(_summed(layer))
    turns = _turns(layer)
    order = list(dict.fromkeys(axis for slot in slots for axes in slot for axis in axes if axis not in turns))

    def uncovered(choice: Iterable[str]) -> int:
        return sum(sum(not axes <= turns.union(choice) for axes in each) > 2 for each in slots)

    def least(choice: Iterable[str]) -> tuple[int, ...]:
        return uncovered(choice), sum(summed[axis] for axis in choice), -sum(weighted[axis] for axis in choice)

    best: tuple[str, ...] = ()
    for n in range(min(MOST, len(order)) + 1):
        best = min(best, *combinations(order, n), key=least)
        if not uncovered(best):
            break
    return turns.union(best)


def unsaid(layer: Layer, axes: Axes) -> Axes:
    """The axes that need not be said: no weight has them, and nothing but whole tensors of one of them is ever read."""
    return axes.difference(_weighted(layer), _summed(layer), _apart(layer), _turns(layer))


def passed(layer: Layer, callees: Mapping[str, Layer], known: dict[str, Axes]) -> Axes:
    """The axes of a layer's head of which no two places ever meet in it: rows of a batch. `known` keeps the answers."""
    if layer.name not in known:
        known[layer.name] = unsaid(layer, _heads(layer))
        for callee in {e.name: callees[e.name] for e in _applied(layer) if e.name in callees}.values():
            known[layer.name] -= _heads(callee) - passed(callee, callees, known)
    return known[layer.name]


def _heads(layer: Layer) -> Axes:
    return frozenset(axis_of(letter) for formal in layer.formals for letter in slot_letters(formal))


def _turns(layer: Layer) -> Axes:
    return frozenset(axis_of(loop.index.letter) for loop in loops(layer.body))


def _slots(layer: Layer) -> Iterator[list[Axes]]:
    """The axes of each slot of every tensor where it is defined."""
    for tensor in (*layer.formals, *(equation.left for equation in equations(layer.body))):
        if isinstance(tensor, Tensor):
            yield [frozenset(map(axis_of, slot_letters(Tensor("", (slot,))))) for slot in tensor.slots]
    for weight in layer.weights:
        yield [frozenset({axis_of(index.letter)}) for index in weight.indices]


def _weighted(layer: Layer) -> Iterator[str]:
    return (axis_of(index.letter) for weight in layer.weights if weight.kind != "instance" for index in weight.indices)


def _applied(layer: Layer) -> Iterator[Apply]:
    return (e for each in equations(layer.body) for e in subexpressions(each.right) if isinstance(e, Apply))


def _summed(layer: Layer) -> Iterator[str]:
    return (axis_of(index.letter) for e in _applied(layer) if e.name == "sum" for index in e.indices)


def _apart(layer: Layer) -> Iterator[str]:
    """The axes with a prime, or whose index stands elsewhere than alone in a slot: in arithmetic, groups, below operators."""
    for equation in equations(layer.body):
        for e in (*subexpressions(equation.left), *subexpressions(equation.right)):
            yield from (axis_of(x.letter) for each in _told(e) for x in subexpressions(each) if isinstance(x, Index))


def _told(e: Expression) -> Iterable[Expression]:
    match e:
        case Index() if e.letter.endswith("'"):
            return (e,)
        case Tensor():
            return (slot for slot in e.slots if not isinstance(slot, Index | Tensor))
        case _:
            return (*getattr(e, "indices", ()), *(child for child in children(e) if isinstance(child, Index)))
