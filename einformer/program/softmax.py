"""Says whether a softmax has something to weigh everywhere: where all of its argument is -inf it is zero (R12).

The check proves it for the positions of a causal model (E502). Elsewhere numbers, weights and sums of products are finite, and
all masks must hold at one place for certain: at the index of the query, or at zero; or one mask takes the largest.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from einformer.errors import EinformerError
from einformer.language.calls import axis_of
from einformer.language.primitives import primitive
from einformer.language.sizes import Legend
from einformer.language.tree import Apply, Expression, Index, Layer, Name, Number, Sum, Tensor
from einformer.language.walk import children, rebuild, subexpressions
from einformer.program.canonical import MINUS, Reach, Values

Mask = tuple[Expression, bool, Reach]  # a condition, whether it must hold, and what its names stand for


def weighs(e: Apply, layer: Layer, reach: Reach, legend: Legend, time: str) -> bool:
    """Is something of the argument of a softmax finite, whatever the numbers of the other indices?"""
    letters = {index.letter for index in e.indices}
    if any(axis_of(letter) == time != letter for letter in letters):
        return True
    masks = _Argument(legend, frozenset(formal.name for formal in layer.formals)).masks(e.arguments[0], reach)
    if not masks:
        return masks is not None
    return _takes_the_largest(masks, letters, legend) or any(_hold(masks, letters, place, legend) for place in _places(masks))


@dataclass(frozen=True, slots=True)
class _Argument:
    """What a softmax is of, in a layer that is given these names. In `arithmetic` what is given is finite."""

    legend: Legend
    given: frozenset[str]
    arithmetic: bool = False

    def masks(self, e: Expression, reach: Reach) -> list[Mask] | None:
        """The conditions under which e is finite; None where they are not known."""
        match e:
            case Number(value):
                return [] if math.isfinite(value) else None
            case Name() | Tensor():
                return self.named(e, reach)
            case Sum():
                return self.all_of(e.terms, reach)
            case Apply("Dr"):
                return self.masks(e.arguments[0], reach)
            case Apply("where", (), (condition, then, otherwise)) if MINUS in (then, otherwise):
                rest = self.masks(otherwise if then == MINUS else then, reach)
                return None if rest is None else [(condition, then != MINUS, reach), *rest]
            case Apply(name):
                row = primitive(name, bool(e.indices))
                inner = _Argument(self.legend, self.given, self.arithmetic or name == "sum")
                values = e.arguments[1:] if name == "where" else e.arguments
                known = self.arithmetic if row is None else row.at_zero != -math.inf
                return [] if known and inner.all_of(values, reach) == [] else None
            case _:
                return [] if self.all_of(children(e), reach) == [] else None

    def named(self, e: Name | Tensor, reach: Reach) -> list[Mask] | None:
        """Those of what defines a name; weights are finite."""
        right, there = reach.defined(e)
        if right is not e:
            return self.masks(right, there)
        if e.name in self.legend.scalars and e.name not in reach.known:
            return [] if isinstance(e, Name) and self.is_finite(e) else None
        return [] if self.arithmetic or (e.name not in reach.known and e.name not in self.given) else None

    def is_finite(self, e: Name) -> bool:
        """Is a scalar a finite number?"""
        try:
            return math.isfinite(self.legend.number(e))
        except EinformerError:  # not bound
            return False

    def all_of(self, some: Iterable[Expression], reach: Reach) -> list[Mask] | None:
        """The conditions under which all of these are finite."""
        masks = [self.masks(e, reach) for e in some]
        return None if None in masks else [mask for each in masks if each is not None for mask in each]


def _takes_the_largest(masks: list[Mask], letters: set[str], legend: Legend) -> bool:
    """Is there one mask, which holds for at least one number of these letters?"""
    condition, holds, _ = masks[0]
    if len(masks) > 1 or not holds or not isinstance(condition, Apply) or condition.name != "top":
        return False
    try:
        return {index.letter for index in condition.indices} <= letters and legend.number(condition.arguments[0]) >= 1
    except EinformerError:  # another number for each layer
        return False


def _places(masks: list[Mask]) -> set[Expression]:
    """Numbers at which masks may hold."""
    return {Number(0), *(x for condition, _, _ in masks for x in subexpressions(condition) if isinstance(x, Index))}


def _hold(masks: list[Mask], letters: set[str], place: Expression, legend: Legend) -> bool:
    """Do all masks hold where the index of a softmax is this number?"""
    if len(letters) > 1 or (isinstance(place, Index) and axis_of(place.letter) != axis_of(*letters)):
        return False

    def at(e: Expression) -> Expression:
        return place if isinstance(e, Index) and e.letter in letters else rebuild(e, at)

    return all(not Values(reach, legend, opens=True).facts(at(condition), holds) for condition, holds, reach in masks)
