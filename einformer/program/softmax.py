"""Says whether a softmax has something to weigh everywhere: where all of its argument is -inf it is zero (R12).

The check proves it for the positions of a causal model (E502). Elsewhere numbers, weights and sums of products are finite, and
all masks must hold at one place for certain: at the index of the query, or at zero; or one mask takes the largest.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator

from einformer.errors import EinformerError
from einformer.language.calls import axis_of
from einformer.language.primitives import CONSTANTS, primitive
from einformer.language.sizes import Legend
from einformer.language.tree import Name
from einformer.program import operations as op
from einformer.program.operations import Value, replace_operands
from einformer.program.terms import MINUS, Values
from einformer.records import dataclass, replace

Mask = tuple[Value, bool]  # a condition, and whether it must hold


def is_weighed(argument: Value, letters: Collection[str], legend: Legend, time: str) -> bool:
    """Is something of the argument of a softmax over these letters finite, whatever the numbers of the other indices?"""
    if any(axis_of(letter) == time != letter for letter in letters):
        return True
    values = Values(legend)
    masks = _Argument(values).masks(argument)
    if not masks:
        return masks is not None
    held = (_do_hold(masks, letters, place, values) for place in _walk_places(masks, values))
    return _takes_the_largest(masks, letters, legend) or any(held)


@dataclass(frozen=True, slots=True)
class _Argument:
    """The argument of a softmax. In `arithmetic` the inputs of functions are finite."""

    values: Values
    arithmetic: bool = False

    def masks(self, value: Value) -> list[Mask] | None:
        """The conditions under which a value is finite; None where they are not known."""
        value = self.values.plain(value)
        match value.operation:
            case op.Constant(number):
                return [] if self.is_finite(number) else None
            case op.Input() | op.Recur() | op.Call():
                return [] if self.arithmetic else None
            case op.Map("+", terms):
                return self.all_of(terms)
            case op.Map("Dr", (dropped, _)) | op.Spread(dropped):
                return self.masks(dropped)
            case op.Map("where", (condition, then, otherwise)) if MINUS in (then.operation, otherwise.operation):
                hidden = then.operation == MINUS
                rest = self.masks(otherwise if hidden else then)
                return None if rest is None else [_straighten(condition, not hidden), *rest]
            case op.Map("where", (_, *arms)):
                return self.finite(arms)
            case op.Einsum(_, factors):
                return replace(self, arithmetic=True).finite(factors)
            case op.Map(name) if (row := primitive(name, False)) is not None and row.at_zero == -math.inf:
                return None
            case op.Reduce(name) if (row := primitive(name, True)) is not None and row.at_zero == -math.inf:
                return None
            case op.Table():
                return None
            case _:
                return self.finite(value.operands)

    def is_finite(self, number: float | str) -> bool:
        if not isinstance(number, str):
            return math.isfinite(number)
        legend = self.values.legend
        if number in CONSTANTS or number not in legend.scalars:
            return True
        try:
            return math.isfinite(legend.number(Name(number)))
        except EinformerError:  # not bound
            return False

    def finite(self, some: Iterable[Value]) -> list[Mask] | None:
        return [] if self.all_of(some) == [] else None

    def all_of(self, some: Iterable[Value]) -> list[Mask] | None:
        masks = [self.masks(value) for value in some]
        return None if None in masks else [mask for some in masks if some is not None for mask in some]


def _straighten(condition: Value, holds: bool) -> Mask:
    match condition.operation:
        case op.Map("not", (inner,)):
            return _straighten(inner, not holds)
        case _:
            return condition, holds


def _takes_the_largest(masks: list[Mask], letters: Collection[str], legend: Legend) -> bool:
    """Is there one mask, which holds for at least one number of these letters?"""
    match masks:
        case [(Value(operation=op.Reduce("top", chosen, _, (Value(operation=op.Constant(count)),))), True)]:
            try:
                return {*chosen} <= {*letters} and (legend.number(Name(count)) if isinstance(count, str) else count) >= 1
            except EinformerError:  # another number for each layer
                return False
        case _:
            return False


def _walk_places(masks: list[Mask], values: Values) -> Iterator[Value]:
    yield Value(op.Constant(0), (), "integer")
    seen, todo = set[str](), [condition for condition, _ in masks]
    while todo:
        value = values.plain(todo.pop())
        todo += value.operands
        if isinstance(value.operation, op.Iota) and value.operation.letter not in seen:
            seen.add(value.operation.letter)
            yield value


def _do_hold(masks: list[Mask], letters: Collection[str], place: Value, values: Values) -> bool:
    """Do all masks hold where the index of a softmax is this number?"""
    if len(letters) > 1 or any(axis_of(letter) != axis_of(*letters) for letter in place.axes):
        return False
    (letter,) = letters

    def at(value: Value) -> Value:
        value = values.plain(value)
        if letter not in value.axes or value.operation == op.Iota(letter):
            return place if letter in value.axes else value
        axes = tuple(dict.fromkeys(new for old in value.axes for new in ((old,) if old != letter else place.axes)))
        inside = isinstance(value.operation, op.Map | op.Spread)
        return replace(value, operation=replace_operands(value.operation, at), axes=axes) if inside else value

    return all(not values.facts(at(condition), holds) for condition, holds in masks)
