"""Turns conditions round until they choose what is not zero, or not -inf: `where(c, x, 0)`, with no `not` around comparisons.

`where(s' > s, -inf, x)` is `where(s' <= s, x, -inf)`. Where `c_x = where(top_{T,x} r_x, 1, 0)`, `c_x == 1` is that `top`.
"""

from __future__ import annotations

import math
import operator
from dataclasses import replace

from einformer.language.tree import Apply, Expression, Layer, Number, Spec, Tensor
from einformer.language.walk import map_equations, rebuild, subexpressions
from einformer.program.canonical import Reach, reaching

_COMPARED = {
    "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge, "==": operator.eq, "!=": operator.ne
}  # fmt: skip
_OPPOSITE = {"<": ">=", "<=": ">", ">": "<=", ">=": "<", "==": "!=", "!=": "==", "and": "or", "or": "and"}
_NOTHING: dict[Expression, int] = {Number(0): 1, Number(-math.inf): 2}  # what stands last, the second rather


def turned(spec: Spec) -> Spec:
    """The specialised spec with its conditions turned round."""
    return replace(spec, layers=tuple(map(_turned, spec.layers)))


def _turned(layer: Layer) -> Layer:
    reach = reaching(layer)
    body = map_equations(layer.body, lambda q: replace(q, right=chosen(q.right, replace(reach[id(q)], wide=True))))
    return replace(layer, body=body)


def chosen(e: Expression, reach: Reach) -> Expression:
    """An expression with each choice in it turned round."""
    e = rebuild(e, lambda child: chosen(child, reach))
    match e:
        case Apply("where", (), (condition, then, otherwise)):
            condition = _settled(condition, reach)
            opposite = negated(condition)
            wrong = _NOTHING.get(then, 0) > _NOTHING.get(otherwise, 0) and not _is_top(opposite)
            if wrong or (isinstance(condition, Apply) and condition.name == "not"):
                condition, then, otherwise = opposite, otherwise, then
            match then:
                case Apply("where", (), (inner, value, nothing)) if nothing == otherwise in _NOTHING and _is_numeric(inner):
                    condition, then = Apply("and", (), (condition, inner)), value
            return replace(e, arguments=(condition, then, otherwise))
        case Apply("not", (), (inner,)):
            return negated(inner)
        case _:
            return e


def _is_numeric(e: Expression) -> bool:
    """Can a condition be asked everywhere, with no slot that might lie outside of its axis?"""
    return not any(isinstance(x, Tensor) for x in subexpressions(e))


def negated(e: Expression) -> Expression:
    """The condition that holds where e does not."""
    match e:
        case Apply("not", (), (inner,)):
            return inner
        case Apply("and" | "or" as name, ()):
            return replace(e, name=_OPPOSITE[name], arguments=tuple(map(negated, e.arguments)))
        case Apply(name, ()) if name in _OPPOSITE:
            return replace(e, name=_OPPOSITE[name])
        case _:
            return Apply("not", (), (e,), span=e.span)


def _is_top(e: Expression) -> bool:
    return isinstance(e, Apply) and e.name == "not"


def _settled(e: Expression, reach: Reach) -> Expression:
    """The condition that a comparison with a number repeats, of what is one number where it holds and another where not."""
    match e:
        case Apply("and" | "or", ()):
            return replace(e, arguments=tuple(_settled(argument, reach) for argument in e.arguments))
        case Apply(name, (), (left, Number(number))) if name in _COMPARED:
            match reach.opened(left):
                case Apply("where", (), (condition, Number(then), Number(otherwise))):
                    holds, fails = (_COMPARED[name](value, number) for value in (then, otherwise))
                    return e if holds == fails else condition if holds else negated(condition)
    return e
