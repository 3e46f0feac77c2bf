"""Which axes of a layer are no rows and no columns of its matrices, but tell them apart: sequences, heads, experts?

As few as leave no tensor more than two axes; of several choices, those that are least summed over (heads are not, features
are), and that most weights have (of experts and features, experts).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, combinations, permutations

from einformer.language.calls import axis_of, slot_letters
from einformer.language.tree import Apply, Equation, Index, Layer, Tensor
from einformer.language.walk import equations, loops, subexpressions

MOST = 5  # labels of one layer
Axes = frozenset[str]


def labels(layer: Layer) -> Axes:
    """The axes of a layer whose sums are written out that are labels; those of loops are."""
    slots, weighted, summed = list(_slots(layer)), Counter(_weighted(layer)), Counter(_summed(layer))
    turns = frozenset(axis_of(loop.index.letter) for loop in loops(layer.body))
    order = list(dict.fromkeys(axis for slot in slots for axes in slot for axis in axes if axis not in turns))

    def uncovered(choice: Iterable[str]) -> int:
        return sum(sum(not axes <= turns.union(choice) for axes in each) > 2 for each in slots)

    def least(choice: Iterable[str]) -> tuple[int, ...]:
        return uncovered(choice), sum(summed[axis] for axis in choice), -sum(weighted[axis] for axis in choice)

    best = (min(combinations(order, n), key=least) for n in range(min(MOST, len(order)) + 1))
    tried = list(_until(best, lambda choice: not uncovered(choice)))
    return turns.union(min(tried, key=least))


def _until(choices: Iterator[tuple[str, ...]], good: Callable[[tuple[str, ...]], bool]) -> Iterator[tuple[str, ...]]:
    """The choices up to the first one that is good."""
    for choice in choices:
        yield choice
        if good(choice):
            return


def dropped(layer: Layer, chosen: Axes) -> Axes:
    """The labels that need not be said: no weight has them, and nothing but whole tensors of one of them is ever read."""
    said = set(_weighted(layer)) | set(_summed(layer)) | set(_primed(layer)) | set(_told(layer))
    return chosen - said - {axis_of(loop.index.letter) for loop in loops(layer.body)}


@dataclass(frozen=True, slots=True)
class Families:
    """Labels that need not be said; those that weights have; pairs of these of which one never stands without the other."""

    dropped: Axes
    said: Axes
    paired: tuple[Axes, ...]


def families(layer: Layer, chosen: Axes) -> Families:
    """What the labels of a layer are; a pair are groups of heads and the heads of a group."""
    said = chosen & set(_weighted(layer))
    defined = [frozenset[str]().union(*slots) for slots in _slots(layer)]
    pairs = (pair for pair in permutations(sorted(said), 2) if all(pair[0] in axes for axes in defined if pair[1] in axes))
    return Families(dropped(layer, chosen), said, tuple(map(frozenset, pairs)))


def passed(layer: Layer, callees: Mapping[str, Layer], known: dict[str, Axes]) -> Axes:
    """The axes of a layer's head of which no two places ever meet in it: rows of a batch. `known` is what was found before."""
    if layer.name not in known:
        known[layer.name] = dropped(layer, frozenset(axis_of(i) for formal in layer.formals for i in slot_letters(formal)))
        for callee in {e.name: callees[e.name] for e in _applied(layer) if e.name in callees}.values():
            heads = frozenset(axis_of(letter) for formal in callee.formals for letter in slot_letters(formal))
            known[layer.name] -= heads - passed(callee, callees, known)
    return known[layer.name]


def down(layer: Layer, of: Families) -> Axes:
    """The axes over the rows of what a layer is given, positions as a rule: a vector over one is a column."""
    given = [[axis_of(letter) for letter in slot_letters(formal)] for formal in layer.formals]
    plain = [[axis for axis in axes if axis not in of.dropped | of.said] for axes in given]
    return frozenset(axes[0] for axes in plain if len(axes) == 2)


def _slots(layer: Layer) -> Iterator[list[Axes]]:
    """The axes of each slot of every tensor where it is defined."""
    defined = [equation.left for equation in equations(layer.body)]
    for tensor in (*layer.formals, *defined):
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


def _primed(layer: Layer) -> Iterator[str]:
    """The axes of which a prime is read or written."""
    for e in _expressions(layer):
        if isinstance(e, Index) and e.letter.endswith("'"):
            yield axis_of(e.letter)


def _told(layer: Layer) -> Iterator[str]:
    """The axes whose indices stand elsewhere than alone in a slot: in arithmetic, in groups, below operators."""
    for e in _expressions(layer):
        match e:
            case Tensor():
                inner: Sequence[object] = [slot for slot in e.slots if not isinstance(slot, Index | Tensor)]
            case Apply():
                inner = [argument for argument in e.arguments if isinstance(argument, Index)] + list(e.indices)
            case Index():
                continue
            case _:
                inner = [child for child in getattr(e, "terms", getattr(e, "factors", ())) if isinstance(child, Index)]
        for each in inner:
            yield from (axis_of(x.letter) for x in subexpressions(each) if isinstance(x, Index))  # type: ignore[arg-type]


def _expressions(layer: Layer) -> Iterator[object]:
    sides: list[Equation] = list(equations(layer.body))
    for equation in sides:
        yield from chain(subexpressions(equation.left), subexpressions(equation.right))
