"""Says whether a softmax has something to weigh everywhere: where all of its argument is -inf it is zero (R12). So for `lse`.

For the positions of a causal model the check proves it of masks that positions decide (E502); what data decide is followed
through the program. Elsewhere numbers, weights and sums of products are finite, and all masks must hold at one place for
certain: at the index of the query, or at zero; or one mask takes the largest.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from einformer.errors import EinformerError, Span
from einformer.language.calls import axis_of
from einformer.language.primitives import CONSTANTS, primitive, row_of
from einformer.language.sizes import Legend
from einformer.language.tree import Name
from einformer.program import operations as op
from einformer.program.operations import Function, Value, replace_operands
from einformer.program.rewrite import walk_calls, walk_carried, walk_values
from einformer.program.terms import MINUS, Values

Mask = tuple[Value, bool]  # a condition, and whether it must hold


def is_weighed(argument: Value, letters: Collection[str], legend: Legend) -> bool:
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

    # Returns None where the conditions are not known.
    def masks(self, value: Value) -> list[Mask] | None:
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


# There must be one mask, which holds for at least one number of these letters.
def _takes_the_largest(masks: list[Mask], letters: Collection[str], legend: Legend) -> bool:
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


# The index of the softmax is this number.
def _do_hold(masks: list[Mask], letters: Collection[str], place: Value, values: Values) -> bool:
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


# ------------------------------------------------------------------------------------------------ positions that data hide

Facts = frozenset[str]
NOTHING: Facts = frozenset()
GIVEN = frozenset({"data", "given"})  # of what is given from outside: of no formula, so that it may be infinite anywhere


# The softmaxes over positions of which data may hide all. Of a value is known whether it may be `infinite`, whether it hangs on
# `data`, and whether these decide where (`hidden`).
def find_blind(functions: Mapping[str, Function], legend: Legend, time: str) -> frozenset[Span]:
    if not time:
        return frozenset()
    called = {call.function for function in functions.values() for call in walk_calls(function)}
    facts = {line.value: GIVEN for f in functions.values() if f.name not in called for line in f.inputs}
    finite, before = _Argument(Values(legend)).is_finite, -1
    while before != (before := sum(map(len, facts.values()))):
        for function in functions.values():
            _follow(function, functions, facts, finite)
    over = (value for function in functions.values() for value in walk_values(function))
    return frozenset(value.span for value in over if _is_blind(value.operation, facts, time))


def _is_blind(operation: op.Operation, facts: Mapping[Value, Facts], time: str) -> bool:
    match operation:
        case op.Reduce(name, letters, argument) if row_of(name, True).weighs:
            over = any(axis_of(letter) == time != letter for letter in letters)
            return over and not facts.get(argument, NOTHING).isdisjoint({"hidden", "given"})
        case _:
            return False


# Turns of loops and inputs of calls are followed too.
def _follow(
    function: Function,
    functions: Mapping[str, Function],
    facts: dict[Value, Facts],
    finite: Callable[[float | str], bool],
) -> None:
    def add(value: Value, *others: Value) -> None:
        facts[value] = facts.get(value, NOTHING).union(*(facts.get(other, NOTHING) for other in others))

    for value in walk_values(function):
        operation = value.operation
        if isinstance(operation, op.Call):
            callee = functions[operation.function]
            for line, argument in zip(callee.inputs, operation.arguments, strict=True):
                add(line.value, argument)
            add(value, callee.output.value)
        elif isinstance(operation, op.Recur):
            add(operation.so_far, operation.step)
            add(value, operation.step)
        else:
            facts[value] = facts.get(value, NOTHING) | _facts_of(value, facts, finite)
    for carried in walk_carried(function.lines):
        add(carried.within, *carried.sources)
        add(carried.after, *carried.sources)


def _facts_of(value: Value, facts: Mapping[Value, Facts], finite: Callable[[float | str], bool]) -> Facts:
    def of(*values: Value) -> Facts:
        return NOTHING.union(*(facts.get(value, NOTHING) for value in values))

    def chosen(choice: Facts, among: Facts) -> Facts:
        hides = "data" in choice and "infinite" in among
        return among | (choice & {"data"}) | ({"hidden"} if hides else NOTHING)

    row = op.find_row(value.operation)
    match value.operation:
        case op.StoredWeight():
            return frozenset({"data"})
        case op.Constant(number):
            return NOTHING if finite(number) else frozenset({"infinite"})
        case op.Table():
            return frozenset({"infinite"})
        case op.Map("where", (condition, *arms)):
            return chosen(of(condition), of(*arms))
        case op.Gather(argument, slots):
            return chosen(of(*(slot.number for slot in slots)), of(argument))
        case op.Map("+" | "Dr", inner):
            return of(*inner)
        case op.View(argument) | op.Spread(argument):
            return of(argument)
        case op.Map() | op.Reduce() | op.Einsum():
            inherited = of(*value.operands) - {"given"}
            if row is not None and (row.condition or row.name == "Sm"):
                return inherited & {"data"}
            return inherited | {"hidden"} if row is not None and row.at_zero == -math.inf and "data" in inherited else inherited
        case _:
            return NOTHING
