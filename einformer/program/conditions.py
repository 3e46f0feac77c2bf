"""Turns conditions round until they choose what is not zero, or not -inf: `where(c, x, 0)`, with no `not` around comparisons.

`where(s' > s, -inf, x)` is `where(s' <= s, x, -inf)`. Where `c_x = where(top_{T,x} r_x, 1, 0)`, `c_x == 1` is that `top`.
"""

from __future__ import annotations

import math
import operator
from dataclasses import dataclass, replace

from einformer.language.sizes import Legend
from einformer.program import operations as op
from einformer.program.operations import Function, Value
from einformer.program.rewrite import Rewriting
from einformer.program.scopes import Following, Scope

_COMPARED = {
    "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge, "==": operator.eq, "!=": operator.ne
}  # fmt: skip
_OPPOSITE = {"<": ">=", "<=": ">", ">": "<=", ">=": "<", "==": "!=", "!=": "==", "and": "or", "or": "and"}
_NOTHING: dict[op.Operation, int] = {op.Constant(0): 1, op.Constant(-math.inf): 2}  # what stands last, the second rather


def turn_conditions(function: Function, legend: Legend) -> Function:
    """A function with its conditions turned round."""
    return _Turning(scope=Scope.of(function, legend)).function(function)


@dataclass(slots=True)
class _Turning(Following):
    """The rewrite of one function, inner choices first."""

    def __post_init__(self) -> None:
        self.rule = self.turn

    def value(self, old: Value) -> Value:
        """What stands in the place of a value."""
        return Rewriting.value(self, old)

    def turn(self, value: Value) -> Value:
        """A choice turned round, or a condition without `not`."""
        match value.operation:
            case op.Map("where", (condition, then, otherwise)):
                condition = self.settle(condition)
                opposite = negate(condition)
                wrong = _NOTHING.get(then.operation, 0) > _NOTHING.get(otherwise.operation, 0) and not _is_not(opposite)
                if wrong or _is_not(condition):
                    condition, then, otherwise = opposite, otherwise, then
                match then.operation:
                    case op.Map("where", (inner, some, last)) if last.operation == otherwise.operation in _NOTHING:
                        if _is_numeric(inner) and then not in self.scope.names:
                            condition, then = _join(condition, inner), some
                return _renew(value, op.Map("where", (condition, then, otherwise)))
            case op.Map("not", (inner,)):
                return negate(inner)
            case _:
                return value

    def settle(self, value: Value) -> Value:
        """The condition that a comparison with a number repeats, of what is one number where it holds and another where not."""
        match value.operation:
            case op.Map("and" | "or" as name, arguments):
                return _renew(value, op.Map(name, tuple(map(self.settle, arguments))))
            case op.Map(name, (Value(operation=op.Map("where", (condition, then, rest))) as left, other)) if name in _COMPARED:
                numbers = [number for each in (then, rest, other) for number in _read_number(each)]
                if len(numbers) == 3 and not self.scope.find_changed(left):
                    holds, fails = (_COMPARED[name](number, numbers[2]) for number in numbers[:2])
                    return value if holds == fails else condition if holds else negate(condition)
        return value


def negate(value: Value) -> Value:
    """The condition that holds where another does not."""
    match value.operation:
        case op.Map("not", (inner,)):
            return inner
        case op.Map("and" | "or" as name, arguments):
            return replace(value, operation=op.Map(_OPPOSITE[name], tuple(map(negate, arguments))))
        case op.Map(name, arguments) if name in _OPPOSITE:
            return replace(value, operation=op.Map(_OPPOSITE[name], arguments))
        case _:
            return replace(value, operation=op.Map("not", (value,)))


def _renew(value: Value, operation: op.Operation) -> Value:
    """A value of another operation; itself where that is its own."""
    return value if operation == value.operation else replace(value, operation=operation)


def _read_number(value: Value) -> list[float]:
    """A number, if it is one."""
    match value.operation:
        case op.Constant(int() | float() as number):
            return [number]
        case _:
            return []


def _is_not(value: Value) -> bool:
    return isinstance(value.operation, op.Map) and value.operation.function == "not"


def _is_numeric(value: Value) -> bool:
    """Can a condition be asked everywhere, with no slot that might lie outside of its axis?"""
    tensors = (op.Gather, op.View, op.Input, op.Weight, op.Call)
    return not isinstance(value.operation, tensors) and all(map(_is_numeric, value.operands))


def _join(one: Value, other: Value) -> Value:
    axes = tuple(dict.fromkeys((*one.axes, *other.axes)))
    kind = "tensor" if "tensor" in (one.kind, other.kind) else one.kind
    return Value(op.Map("and", (one, other)), axes, kind, one.span)
