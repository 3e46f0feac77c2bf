"""Decides whether a slot holds a whole number inside its axis (R4): by its form, and by its numbers where they are known.

A number is whole as far as the inputs are of which it is made.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from einformer.errors import EinformerError
from einformer.language import tree
from einformer.language.calls import axis_of, callees
from einformer.language.primitives import COMPARISONS, NAMES, NUMERIC, PRIMITIVES, primitive
from einformer.language.sizes import Legend, index_of
from einformer.language.tree import Apply, Expression, Group, Index, Layer, Name, Number, Scalar, Tensor
from einformer.language.walk import children, equations, find_all, loops, slots_of, subexpressions

MOST = 4_000  # combinations of index numbers that are tried, and nodes of a number that is put together from lines of a body
SAMPLES = 12  # numbers of an index over an axis whose size is open

Guards = tuple[tuple[Expression, bool], ...]


@dataclass(frozen=True, slots=True)
class Access:
    """A tensor that is read where these conditions hold, or do not; `selects`: it is the slot of another."""

    tensor: Tensor
    guards: Guards
    selects: bool = False


# An affine slot is a sum of indices, sizes and numbers, so that it cannot come out broken.
def is_affine(slot: Expression) -> bool:
    match slot:
        case Index() | Name() | Number(value=int()):
            return True
        case tree.Sum():
            return all(map(is_affine, slot.terms))
        case tree.Product():
            return sum(map(_has_index, slot.factors)) <= 1 and all(map(is_affine, slot.factors))
        case Group():
            return all(map(is_affine, slot.members))
        case tree.Quotient() | tree.Power() | Apply():
            return not _has_index(slot)
        case _:
            return False


def _has_index(e: Expression) -> bool:
    return any(isinstance(x, Index | Tensor) for x in subexpressions(e))


# Yields the tensors in e, each with the conditions of the `where` around it: an unused branch is not read (R8). Inputs of a
# layer are computed whole, in any branch.
def reads(e: Expression, guards: Guards = (), selects: bool = False) -> Iterator[Access]:
    if isinstance(e, Tensor):
        yield Access(e, guards, selects)
        for slot in e.slots:
            yield from reads(slot, guards, selects=True)
        return
    if isinstance(e, Apply) and e.name == "where":
        condition, then, otherwise = e.arguments
        yield from reads(condition, guards)
        yield from reads(then, (*guards, *split_condition(condition, True)))
        yield from reads(otherwise, (*guards, *split_condition(condition, False)))
        return
    inside = () if isinstance(e, Apply) and e.name not in NAMES else guards
    if isinstance(e, Apply):
        inside = keep_guards(inside, [index.letter for index in e.indices])
    for child in children(e):
        yield from reads(child, inside, selects and not isinstance(e, Apply))


# Inside an operator its own letters take all their numbers.
def keep_guards(guards: Guards, letters: Collection[str]) -> Guards:
    return tuple(guard for guard in guards if not any(index.letter in letters for index in find_all(Index, guard[0])))


# All parts hold with `a and b`, or all fail with `a or b`.
def split_condition(condition: Expression, wanted: bool) -> Guards:
    if isinstance(condition, Apply) and condition.name == ("and" if wanted else "or"):
        return tuple(part for argument in condition.arguments for part in split_condition(argument, wanted))
    return ((condition, wanted),)


# ------------------------------------------------------------------------------------------------------------- numbers


def with_numbers(legend: Legend, layer: Layer) -> Legend:
    lines = Counter(q.left.name for q in equations(layer.body))
    own = {*lines, *(formal.name for formal in layer.formals), *(weight.name for weight in layer.weights)}
    scalars, nodes = {name: s for name, s in legend.scalars.items() if name not in own}, dict[str, int]()
    for q in equations(layer.body):
        slots, name = slots_of(q.left), q.left.name
        inside = [x.name for x in find_all(Tensor, q.right)]
        nodes[name] = sum(nodes.get(x, 1) for x in inside) + sum(1 for _ in subexpressions(q.right))
        indices = tuple(slot for slot in slots if isinstance(slot, Index))
        if indices == slots and q.relation == "=" and lines[name] == 1 and name not in inside and nodes[name] <= MOST:
            scalars[name] = Scalar(name, indices, q.right, span=q.span)
    return replace(legend, scalars=scalars)


@dataclass(frozen=True, slots=True)
class IndexNumbers:
    """The numbers of indices: the legend, the turns of loops, and the axes of time."""

    legend: Legend
    turns: Mapping[str, int] = field(default_factory=dict)
    times: frozenset[str] = frozenset()

    # The longest of several loops over one letter counts.
    @classmethod
    def of(cls, layer: Layer, legend: Legend, times: frozenset[str]) -> IndexNumbers:
        numbers = cls(with_numbers(legend, layer), times=times)
        turns: dict[str, int] = {}
        for loop in loops(layer.body):
            if (count := numbers.count(loop.count)) is not None:
                turns[loop.index.letter] = max(count, turns.get(loop.index.letter, 0))
        return replace(numbers, turns=turns)

    # Index numbers at which a slot leaves an axis of `size` numbers, if any, and whether it is proved that it never does.
    # `early`: a number below zero is a position before the start of time. What guards the slot beside conditions on numbers may
    # hold anywhere. Without a guard an affine slot is at its extremes where its indices are.
    def strays(self, slot: Expression, size: int | None, guards: Guards, early: bool) -> tuple[dict[str, int] | None, bool]:
        guards_on_numbers = [(c, wanted) for c, wanted in guards if self.is_number(c)]
        try:
            slot = self.opened(slot)
            letters = list(dict.fromkeys(x.letter for x in find_all(Index, slot, *(c for c, _ in guards_on_numbers))))
            ranges = [self.numbers(letter, size) for letter in letters]
            tried, complete = _choose_tried([numbers for numbers, _ in ranges], not guards_on_numbers and is_affine(slot))
            for place in itertools.product(*tried):
                position = dict(zip(letters, place, strict=True))
                if all(bool(self.legend.number(c, position)) == wanted for c, wanted in guards_on_numbers):
                    value = self.legend.number(slot, position)
                    if (value < 0 and not early) or (size is not None and value >= size):
                        return position, False
        except EinformerError:  # it is made of more than numbers, or of sizes that are not bound
            return None, False
        return None, complete and size is not None and all(whole for _, whole in ranges)

    def opened(self, slot: Expression) -> Expression:
        if not isinstance(slot, Group):
            return slot
        total: Expression = Number(0)
        for member in slot.members:
            index = index_of(member)
            size = Number(self.legend.length(index.letter) if index is not None else 1)
            total = tree.Sum((tree.Product((total, size)), member), span=slot.span)
        return total

    # Returns whether these are all, too. Of an open size of positions: the first, and those at `size`.
    def numbers(self, letter: str, size: int | None) -> tuple[Sequence[int], bool]:
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
        try:
            value = self.legend.number(e)
        except EinformerError:
            return None
        return int(value) if math.isfinite(value) else None

    def is_number(self, e: Expression) -> bool:
        scalars = self.legend.scalars
        for x in subexpressions(e):
            if isinstance(x, Apply) and x.name not in NUMERIC:
                return False
            value = scalars[x.name].value if isinstance(x, Tensor) and x.name in scalars else ()
            if isinstance(x, Tensor) and not (value if isinstance(value, tuple) else self.is_number(value)):
                return False
        return True


# All numbers if they are few, else the ends, which then do not decide.
def _choose_tried(ranges: Sequence[Sequence[int]], corners: bool) -> tuple[list[Sequence[int]], bool]:
    if corners:
        return [_ends(numbers, 1) for numbers in ranges], True
    if math.prod(map(len, ranges)) <= MOST:
        return list(ranges), True
    return [_ends(numbers, 3) for numbers in ranges], False


def _ends(numbers: Sequence[int], count: int) -> Sequence[int]:
    return sorted({*numbers[:count], *numbers[-count:]})


ROUNDING = frozenset(row.name for row in PRIMITIVES.values() if row.whole == "made")

Parts = tuple[Expression, ...]
Inputs = frozenset[str]


class Whole:
    """The whole numbers of one layer. `others` caches those of other layers."""

    def __init__(
        self, layer: Layer, layers: Mapping[str, Layer], legend: Legend, others: dict[str, Whole] | None = None
    ) -> None:
        self.layer, self.layers, self.legend, self.callees = layer, layers, legend, callees(layer, layers)
        self.others = {} if others is None else others
        self.formals = {formal.name for formal in layer.formals}
        self.lines: dict[str, Parts] = {}
        for q in equations(layer.body):
            self.lines[q.left.name] = (*self.lines.get(q.left.name, ()), q.right)

    # The inputs that must be whole for e to be; None where e need not be. A recurrence of whole numbers is whole.
    def needs(self, e: Expression) -> Inputs | None:
        waiting, seen = [e], set[str]()
        while waiting:
            e = waiting.pop()
            if isinstance(e, Tensor | Name) and e.name in seen:
                continue
            parts = self.parts(e)
            if parts is None:
                return None
            seen |= {e.name} if isinstance(e, Tensor | Name) else set()
            waiting += parts
        return frozenset(self.formals & seen)

    # Returns the parts that must be whole for e to be whole; None where it never is.
    def parts(self, e: Expression) -> Parts | None:
        match e:
            case Tensor() | Name() if e.name in self.formals or e.name in self.lines:
                return self.lines.get(e.name, ())
            case Tensor():
                value = self.legend.scalars[e.name].value if e.name in self.legend.scalars else None
                return value if isinstance(value, tuple) or value is None else (value,)
            case Number() | Name():
                return self.number(e)
            case tree.Quotient():
                return None if _has_index(e) else self.number(e)
            case tree.Power(exponent=Index() | Number(value=int())):
                return (e.base,)
            case tree.Power():
                return None
            case Index() | Group() | tree.Sum() | tree.Product():
                return children(e)
            case Apply():
                return self.parts_of_call(e)

    # A size that is not bound is asked about again when it is.
    def number(self, e: Expression) -> Parts | None:
        try:
            value = self.legend.number(e)
        except EinformerError:
            return ()
        return () if value == value // 1 else None

    def parts_of_call(self, e: Apply) -> Parts | None:
        if e.name in self.callees:
            inner = self.callee(e).output
            return None if inner is None else tuple(self.arguments(e, inner))
        if e.name == "where":
            return e.arguments[1:]
        row = primitive(e.name, bool(e.indices))
        whole = row.whole if row else ""
        return () if whole == "made" else e.arguments if whole == "kept" else None

    def callee(self, e: Apply) -> Whole:
        layer = self.callees[e.name]
        if layer.name not in self.others:
            self.others[layer.name] = Whole(layer, self.layers, self.legend, self.others)
        return self.others[layer.name]

    def arguments(self, e: Apply, formals: Inputs) -> Iterator[Expression]:
        pairs = zip(self.callees[e.name].formals, e.arguments, strict=False)
        return (argument for formal, argument in pairs if formal.name in formals)

    @cached_property
    def output(self) -> Inputs | None:
        return self.needs(Name(self.layer.output.name))

    # The slots of layers that it calls count too.
    @cached_property
    def selecting(self) -> Inputs:
        return frozenset().union(*(self.needs(slot) or () for q in equations(self.layer.body) for slot in self.slots(q.right)))

    @cached_property
    def either(self) -> Inputs:
        outside = {x.name for q in equations(self.layer.body) for x in self.list_unrounded(q.right) if isinstance(x, Tensor)}
        return frozenset(self.formals - outside - self.selecting)

    # A number that is compared or rounded need not be whole.
    def list_unrounded(self, e: Expression) -> Iterator[Expression]:
        if not (isinstance(e, Apply) and e.name in (*COMPARISONS, *ROUNDING)):
            yield e
            for child in children(e):
                yield from self.list_unrounded(child)

    # Tensors in slots must be whole, and inputs of a layer that reads them in slots.
    def slots(self, e: Expression) -> Iterator[Expression]:
        for x in subexpressions(e):
            if isinstance(x, Tensor):
                yield from (slot for slot in x.slots if isinstance(slot, Tensor))
            elif isinstance(x, Apply) and x.name in self.callees:
                yield from self.arguments(x, self.callee(x).selecting)


# The inputs of whole numbers, those that come to stand in a slot; each with the letter of the axis of which it selects. There
# is no letter where it is not read as it is, where a condition guards it, or where it selects of several axes.
def find_selecting(layer: Layer, layers: Mapping[str, Layer], legend: Legend) -> dict[str, str]:
    selected: dict[str, set[str]] = {name: set() for name in Whole(layer, layers, legend).selecting}
    axes = {weight.name: weight.indices for weight in layer.weights} | {formal.name: formal.slots for formal in layer.formals}
    for read in (read for q in equations(layer.body) for read in reads(q.right) if not read.guards):
        for slot, over in zip(read.tensor.slots, axes.get(read.tensor.name, ()), strict=False):
            if isinstance(slot, Tensor) and slot.name in selected and isinstance(over, Index):
                selected[slot.name].add(axis_of(over.letter))
    return {name: letters.pop() if len(letters) == 1 else "" for name, letters in selected.items()}
