"""Which parts has a formula, in the words in which people speak of it: masks, scales, norms, groups in another order?"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from einformer.language.calls import axis_of
from einformer.language.sizes import Legend
from einformer.language.tree import (
    Apply,
    Equation,
    Expression,
    Group,
    Index,
    Layer,
    Name,
    Number,
    Power,
    Product,
    Quotient,
    Sum,
    Tensor,
)
from einformer.language.walk import equations, rebuild, subexpressions
from einformer.program.norms import norms
from einformer.testing.rewrites import Around

MIRRORED = {"<=": ">=", "<": ">", ">=": "<=", ">": "<"}
_PLAIN = (Number, Name, Power, Quotient, Product, Sum, Apply)


def added(terms: Sequence[Expression]) -> Expression:
    """The sum of terms; of one, itself."""
    return terms[0] if len(terms) == 1 else Sum(tuple(terms))


def multiplied(factors: Sequence[Expression]) -> Expression:
    """The product of factors; of one, itself."""
    return factors[0] if len(factors) == 1 else Product(tuple(factors))


def others(parts: Sequence[Expression], part: Expression) -> tuple[Expression, ...]:
    """The parts but one."""
    return tuple(each for each in parts if each is not part)


def put(e: Expression, old: Expression, new: Expression) -> Expression:
    """e with one part of it replaced."""
    return new if e is old else rebuild(e, lambda child: put(child, old, new))


def is_plain(e: Expression) -> bool:
    """Is this a number made of numbers, sizes and scalars alone, as a scale is?"""
    return all(isinstance(x, _PLAIN) and not (isinstance(x, Apply) and x.indices) for x in subexpressions(e))


def hides(e: Expression) -> bool:
    """Is this `where(…, 0, -inf)`?"""
    return isinstance(e, Apply) and e.name == "where" and e.arguments[2] == Number(-math.inf)


def is_mask(e: Expression) -> bool:
    """Is this a tensor over two indices of one axis, as `m_ss'`, or `where(…, 0, -inf)`?"""
    letters = [slot.letter for slot in e.slots if isinstance(slot, Index)] if isinstance(e, Tensor) else []
    return hides(e) or len({axis_of(letter) for letter in letters}) < len(letters)


def masked(e: Expression) -> Iterator[tuple[Apply, Expression, Expression]]:
    """Of `Sm(t + m)` itself, the mask and the rest."""
    match e:
        case Apply(name="Sm", arguments=(Sum(terms),)):
            yield from ((e, term, added(others(terms, term))) for term in terms if is_mask(term))


def mirrored(condition: Expression) -> Expression:
    """`s' >= s` for `s' <= s`."""
    match condition:
        case Apply(name=name) if name in MIRRORED:
            return replace(condition, name=MIRRORED[name])
        case _:
            return rebuild(condition, mirrored)


def exchanged(e: Expression, letters: Mapping[str, str]) -> Expression:
    """e with indices renamed."""
    if isinstance(e, Index):
        return replace(e, letter=letters.get(e.letter, e.letter))
    return rebuild(e, lambda child: exchanged(child, letters))


def orders(slot: Expression) -> Iterator[Group]:
    """A group with its members in every other order."""
    if isinstance(slot, Group):
        for members in itertools.permutations(slot.members):
            if members != slot.members:
                yield replace(slot, members=members)


def in_reverse(e: Expression) -> Expression:
    """e with each group in reverse."""
    new = rebuild(e, in_reverse)
    return replace(new, members=new.members[::-1]) if isinstance(new, Group) else new


def counted_from(e: Expression, letter: str, start: Expression) -> Expression:
    """e with `start` for an index where it is a number of its own: not in subscripts."""
    if isinstance(e, Index) and e.letter == letter:
        return start
    return e if isinstance(e, Tensor) else rebuild(e, lambda child: counted_from(child, letter, start))


def calls(e: Expression, name: str) -> bool:
    """Does e call this layer?"""
    return any(isinstance(x, Apply) and x.name == name for x in subexpressions(e))


def is_norm(e: Expression, around: Around) -> bool:
    """Is this the call of a layer whose formula is a norm, whatever its name?"""
    layer = around.callee(e.name) if isinstance(e, Apply) else None
    return layer is not None and id(last(layer).right) in norms(layer, Legend.of(around.spec))[0]


def last(layer: Layer) -> Equation:
    """The last equation of a layer."""
    return list(equations(layer.body))[-1]
