"""Finds the parts of a formula that people name: masks, scales, norms, groups in another order."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from einformer.language.calls import axis_of
from einformer.language.sizes import Legend
from einformer.language.tree import (
    Apply,
    Expression,
    Group,
    Index,
    Name,
    Number,
    Power,
    Product,
    Quotient,
    Sum,
    Tensor,
)
from einformer.language.walk import find_all, rebuild, subexpressions
from einformer.program.lowering import list_bodies
from einformer.program.matching import find_norms
from einformer.testing.rewrites import Around

MIRRORED = {"<=": ">=", "<": ">", ">=": "<=", ">": "<"}
_PLAIN = (Number, Name, Power, Quotient, Product, Sum, Apply)


def add(terms: Sequence[Expression]) -> Expression:
    return terms[0] if len(terms) == 1 else Sum(tuple(terms))


def multiply(factors: Sequence[Expression]) -> Expression:
    return factors[0] if len(factors) == 1 else Product(tuple(factors))


def drop_part(parts: Sequence[Expression], part: Expression) -> tuple[Expression, ...]:
    return tuple(other for other in parts if other is not part)


def replace_part(e: Expression, old: Expression, new: Expression) -> Expression:
    return new if e is old else rebuild(e, lambda child: replace_part(child, old, new))


# A scale is made of numbers, sizes and scalars.
def is_plain(e: Expression) -> bool:
    return all(isinstance(x, _PLAIN) and not (isinstance(x, Apply) and x.indices) for x in subexpressions(e))


# `where(…, 0, -inf)`.
def hides(e: Expression) -> bool:
    return isinstance(e, Apply) and e.name == "where" and e.arguments[2] == Number(-math.inf)


# `m_ss'` over two indices of one axis, or `where(…, 0, -inf)`.
def is_mask(e: Expression) -> bool:
    letters = [slot.letter for slot in e.slots if isinstance(slot, Index)] if isinstance(e, Tensor) else []
    return hides(e) or len({axis_of(letter) for letter in letters}) < len(letters)


# `Sm(t + m)`: yields the mask and the rest.
def find_masked(e: Expression) -> Iterator[tuple[Apply, Expression, Expression]]:
    match e:
        case Apply(name="Sm", arguments=(Sum(terms),)):
            yield from ((e, term, add(drop_part(terms, term))) for term in terms if is_mask(term))


# `s' <= s` is `s' >= s`.
def mirror(condition: Expression) -> Expression:
    match condition:
        case Apply(name=name) if name in MIRRORED:
            return replace(condition, name=MIRRORED[name])
        case _:
            return rebuild(condition, mirror)


def exchange(e: Expression, letters: Mapping[str, str]) -> Expression:
    if isinstance(e, Index):
        return replace(e, letter=letters.get(e.letter, e.letter))
    return rebuild(e, lambda child: exchange(child, letters))


def reorder(slot: Expression) -> Iterator[Group]:
    if isinstance(slot, Group):
        for members in itertools.permutations(slot.members):
            if members != slot.members:
                yield replace(slot, members=members)


def reverse_groups(e: Expression) -> Expression:
    new = rebuild(e, reverse_groups)
    return replace(new, members=new.members[::-1]) if isinstance(new, Group) else new


# `start` replaces an index where it is a number by itself, not in subscripts.
def count_from(e: Expression, letter: str, start: Expression) -> Expression:
    if isinstance(e, Index) and e.letter == letter:
        return start
    return e if isinstance(e, Tensor) else rebuild(e, lambda child: count_from(child, letter, start))


def calls(e: Expression, name: str) -> bool:
    return any(x.name == name for x in find_all(Apply, e))


# The formula of the layer is a norm, whatever its name.
def is_norm(e: Expression, around: Around) -> bool:
    layer = around.callee(e.name) if isinstance(e, Apply) else None
    if layer is None:
        return False
    legend = Legend.of(around.spec)
    function = list_bodies(around.spec, legend)[layer.name].lower_layer()
    return function.output.value in find_norms(function, legend)
