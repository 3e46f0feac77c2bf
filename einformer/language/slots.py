"""Decides whether a slot holds a whole number inside its axis (R4): by its form, and by its numbers where they are known."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from einformer.errors import EinformerError
from einformer.language.calls import axis_of
from einformer.language.primitives import NAMES, NUMERIC
from einformer.language.sizes import Legend, index_of
from einformer.language.tree import (
    Apply,
    Expression,
    Group,
    Index,
    Layer,
    Name,
    Number,
    Power,
    Product,
    Quotient,
    Scalar,
    Sum,
    Tensor,
)
from einformer.language.walk import children, equations, loops, subexpressions

MOST = 4_000  # combinations of index numbers that are tried, and nodes of a number that is put together from lines of a body
SAMPLES = 12  # numbers of an index over an axis whose size is open

Guards = tuple[tuple[Expression, bool], ...]


@dataclass(frozen=True, slots=True)
class Read:
    """A tensor that is read where these conditions hold, or do not; `selects`: it is the slot of another."""

    tensor: Tensor
    guards: Guards
    selects: bool = False


def is_affine(slot: Expression) -> bool:
    """An index plus or minus indices, sizes and numbers: nothing that could come out broken."""
    match slot:
        case Index() | Name() | Number(value=int()):
            return True
        case Sum():
            return all(map(is_affine, slot.terms))
        case Product():
            return sum(map(_has_index, slot.factors)) <= 1 and all(map(is_affine, slot.factors))
        case Group():
            return all(map(is_affine, slot.members))
        case Quotient() | Power() | Apply():
            return not _has_index(slot)
        case _:
            return False


def _has_index(e: Expression) -> bool:
    return any(isinstance(x, Index | Tensor) for x in subexpressions(e))


def reads(e: Expression, guards: Guards = (), selects: bool = False) -> Iterator[Read]:
    """The tensors in e, each with the conditions of the `where` around it: a branch that is not taken is not read (R8).

    What a layer is given is computed whole, whichever branch the call stands in.
    """
    if isinstance(e, Tensor):
        yield Read(e, guards, selects)
        for slot in e.slots:
            yield from reads(slot, guards, selects=True)
        return
    if isinstance(e, Apply) and e.name == "where":
        condition, then, otherwise = e.arguments
        yield from reads(condition, guards)
        yield from reads(then, (*guards, *parts(condition, True)))
        yield from reads(otherwise, (*guards, *parts(condition, False)))
        return
    inside = () if isinstance(e, Apply) and e.name not in NAMES else guards
    for child in children(e):
        yield from reads(child, inside, selects and not isinstance(e, Apply))


def parts(condition: Expression, wanted: bool) -> Guards:
    """The conditions that all hold where `a and b` does, and that all fail where `a or b` does."""
    if isinstance(condition, Apply) and condition.name == ("and" if wanted else "or"):
        return tuple(part for each in condition.arguments for part in parts(each, wanted))
    return ((condition, wanted),)


# ------------------------------------------------------------------------------------------------------------- numbers


def with_numbers(legend: Legend, layer: Layer) -> Legend:
    """The legend, to which each line of a body that defines a tensor of numbers is what a scalar is."""
    lines = Counter(q.left.name for q in equations(layer.body))
    own = {*lines, *(formal.name for formal in layer.formals), *(weight.name for weight in layer.weights)}
    scalars, nodes = {name: s for name, s in legend.scalars.items() if name not in own}, dict[str, int]()
    for q in equations(layer.body):
        slots, name = q.left.slots if isinstance(q.left, Tensor) else (), q.left.name
        inside = [x.name for x in subexpressions(q.right) if isinstance(x, Tensor)]
        nodes[name] = sum(nodes.get(x, 1) for x in inside) + sum(1 for _ in subexpressions(q.right))
        indices = tuple(slot for slot in slots if isinstance(slot, Index))
        if indices == slots and q.relation == "=" and lines[name] == 1 and name not in inside and nodes[name] <= MOST:
            scalars[name] = Scalar(name, indices, q.right, span=q.span)
    return replace(legend, scalars=scalars)


@dataclass(frozen=True, slots=True)
class Numbers:
    """What is known of the numbers of indices: the legend, how often loops turn, and which axes run over time."""

    legend: Legend
    turns: Mapping[str, int] = field(default_factory=dict)
    times: frozenset[str] = frozenset()

    @classmethod
    def of(cls, layer: Layer, legend: Legend, times: frozenset[str]) -> Numbers:
        """Those of one layer. Of several loops over one letter the longest says how often they turn."""
        known = cls(with_numbers(legend, layer), times=times)
        turns: dict[str, int] = {}
        for loop in loops(layer.body):
            if (count := known.count(loop.count)) is not None:
                turns[loop.index.letter] = max(count, turns.get(loop.index.letter, 0))
        return replace(known, turns=turns)

    def strays(self, slot: Expression, size: int | None, guards: Guards, early: bool) -> tuple[dict[str, int] | None, bool]:
        """Index numbers at which a slot leaves an axis of `size` numbers, if any, and whether it is proved that it never does.

        `early`: a number below zero is a position before the start of time. What guards the slot beside conditions on numbers
        may hold anywhere. Without a guard an affine slot is at its extremes where its indices are.
        """
        known = [(c, wanted) for c, wanted in guards if self.is_number(c)]
        try:
            slot = self.opened(slot)
            letters = list(dict.fromkeys(x.letter for e in (slot, *(c for c, _ in known)) for x in _indices(e)))
            ranges = [self.numbers(letter, size) for letter in letters]
            tried, complete = _tried([numbers for numbers, _ in ranges], not known and is_affine(slot))
            for place in itertools.product(*tried):
                at = dict(zip(letters, place, strict=True))
                if all(bool(self.legend.number(c, at)) == wanted for c, wanted in known):
                    value = self.legend.number(slot, at)
                    if (value < 0 and not early) or (size is not None and value >= size):
                        return at, False
        except EinformerError:  # it is made of more than numbers, or of sizes that are not bound
            return None, False
        return None, complete and size is not None and all(whole for _, whole in ranges)

    def opened(self, slot: Expression) -> Expression:
        """A group as the number that it is, row-major."""
        if not isinstance(slot, Group):
            return slot
        total: Expression = Number(0)
        for member in slot.members:
            index = index_of(member)
            size = Number(self.legend.length(index.letter) if index is not None else 1)
            total = Sum((Product((total, size)), member), span=slot.span)
        return total

    def numbers(self, letter: str, size: int | None) -> tuple[Sequence[int], bool]:
        """The numbers of an index, and whether these are all; over an open size of positions the first, and those at `size`."""
        axis = self.legend.axis(letter)
        if letter in self.turns:
            return range(self.turns[letter]), True
        for length in (axis.size, axis.bound) if axis is not None else ():
            if length is not None and (count := self.count(length)) is not None:
                return range(count), True
        if axis_of(letter) not in self.times:
            return range(1), False
        return sorted({*range(SAMPLES), *(() if size is None else (max(0, size - 1), size, size + 1))}), False

    def count(self, e: Expression) -> int | None:
        """A size, if it is bound."""
        try:
            value = self.legend.number(e)
        except EinformerError:
            return None
        return int(value) if math.isfinite(value) else None

    def is_number(self, e: Expression) -> bool:
        """Is e made of numbers of indices and of the legend alone?"""
        scalars = self.legend.scalars
        for x in subexpressions(e):
            if isinstance(x, Apply) and x.name not in NUMERIC:
                return False
            value = scalars[x.name].value if isinstance(x, Tensor) and x.name in scalars else ()
            if isinstance(x, Tensor) and not (value if isinstance(value, tuple) else self.is_number(value)):
                return False
        return True


def _tried(ranges: Sequence[Sequence[int]], corners: bool) -> tuple[list[Sequence[int]], bool]:
    """The numbers that are tried, and whether they decide: all, where they are few, or the ends."""
    if corners:
        return [_ends(numbers, 1) for numbers in ranges], True
    if math.prod(map(len, ranges)) <= MOST:
        return list(ranges), True
    return [_ends(numbers, 3) for numbers in ranges], False


def _ends(numbers: Sequence[int], count: int) -> Sequence[int]:
    """The first and the last numbers."""
    return sorted({*numbers[:count], *numbers[-count:]})


def _indices(e: Expression) -> Iterator[Index]:
    return (x for x in subexpressions(e) if isinstance(x, Index))
