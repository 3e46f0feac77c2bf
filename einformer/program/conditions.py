"""Turns conditions round until they choose the value that is not zero or -inf: `where(c, x, 0)`, without `not`.

`where(s' > s, -inf, x)` is `where(s' <= s, x, -inf)`. Where `c_x = where(top_{T,x} r_x, 1, 0)`, `c_x == 1` is that `top`.
"""

from __future__ import annotations

import functools
import math
import operator
from dataclasses import replace

from einformer.language.sizes import Legend
from einformer.program import operations as op
from einformer.program.inequalities import OPPOSITE
from einformer.program.operations import Function, Value, map_values
from einformer.program.rewrite import Rewriting, Scope

_COMPARED = {
    "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge, "==": operator.eq, "!=": operator.ne
}  # fmt: skip
_OPPOSITE = OPPOSITE | {"and": "or", "or": "and"}
_NOTHING: dict[op.Operation, int] = {op.Constant(0): 1, op.Constant(-math.inf): 2}  # these stand last, the second rather


def turn_conditions(function: Function, legend: Legend) -> Function:
    """A function with its conditions turned round, inner choices first."""
    scope = Scope.of(function, legend)
    return Rewriting(functools.partial(_turn, scope), scope=scope).rewrite_function(function)


def _turn(scope: Scope, value: Value) -> Value:
    match value.operation:
        case op.Map("where", (condition, then, otherwise)):
            condition = _settle(condition, scope)
            opposite = negate(condition)
            wrong = _NOTHING.get(then.operation, 0) > _NOTHING.get(otherwise.operation, 0) and not _is_not(opposite)
            if wrong or _is_not(condition):
                condition, then, otherwise = opposite, otherwise, then
            match then.operation:
                case op.Map("where", (inner, some, last)) if last.operation == otherwise.operation in _NOTHING:
                    if _is_numeric(inner) and then not in scope.names:
                        condition, then = map_values("and", [condition, inner]), some
            return _renew(value, op.Map("where", (condition, then, otherwise)))
        case op.Map("not", (inner,)):
            return negate(inner)
        case _:
            return value


def _settle(value: Value, scope: Scope) -> Value:
    """The condition c that a comparison repeats: `where(c, 1, 0) == 1` is c."""
    match value.operation:
        case op.Map("and" | "or" as name, arguments):
            return _renew(value, op.Map(name, tuple(_settle(argument, scope) for argument in arguments)))
        case op.Map(name, (Value(operation=op.Map("where", (condition, *arms))) as left, other)) if name in _COMPARED:
            numbers = [x.operation.value for x in (*arms, other) if isinstance(x.operation, op.Constant)]
            if len(numbers) == 3 and not any(isinstance(x, str) for x in numbers) and not scope.find_changed(left):
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
    return value if operation == value.operation else replace(value, operation=operation)


def _is_not(value: Value) -> bool:
    return isinstance(value.operation, op.Map) and value.operation.function == "not"


def _is_numeric(value: Value) -> bool:
    """Can a condition be asked everywhere, with no slot that might lie outside of its axis?"""
    tensors = (op.Gather, op.View, op.Input, op.Weight, op.Call)
    return not isinstance(value.operation, tensors) and all(map(_is_numeric, value.operands))
