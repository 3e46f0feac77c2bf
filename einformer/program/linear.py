"""Recognises linear maps by their value: the product of a vector and a matrix, a bias, and how the axes of both lie."""

from __future__ import annotations

from collections.abc import Container, Iterator
from dataclasses import dataclass, replace

from einformer.language.tree import Apply, Expression, Index, Layer, Loop, Name, Product, Sum, Tensor
from einformer.language.walk import children, equations, subexpressions
from einformer.program.canonical import ONE, Definitions, Factor, Term, Values, spelled
from einformer.program.orders import pairs, typical

Letters = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Linear:
    """`sum_I (x W) + bias`: the rows of W are its outputs, its columns the letters I.

    With `experts` there is a matrix for each of them, and `around` multiplies what comes out. `taken` are the definitions whose
    right sides stand in it.
    """

    x: Expression
    weight: Tensor
    rows: Letters
    columns: Letters
    bias: Tensor | None = None
    experts: Letters = ()
    around: tuple[Expression, ...] = ()
    taken: Definitions = frozenset()


def heads_first(some: Letters) -> Letters:
    """The notes write features before heads, `q_bsea`; memory is faster the other way round."""
    return some[1:] + some[:1]


def letters(e: Expression) -> Letters:
    """The letters in the slots of a tensor."""
    return tuple(slot.letter for slot in e.slots if isinstance(slot, Index)) if isinstance(e, Tensor) else ()


def linear(e: Expression, values: Values, layer: Layer) -> Linear | None:
    """The linear map that e is, if its matrix is a weight and all the letters of that are summed or put out."""
    if isinstance(e, Sum):
        return biased[0] if len(e.terms) == 2 and (biased := with_bias(e, values, layer)) is not None else None
    value = values.value(e) if isinstance(e, Apply) and e.name == "sum" else ()
    totals = [factor for factor, power in value[0].powers.items() if factor.meaning[0] == "sum" and power == 1] if value else []
    if len(value) != 1 or len(totals) != 1 or not isinstance(total := totals[0].written, Apply):
        return None
    around = value[0].times(Term(ONE, {totals[0]: ONE}), -ONE)
    inside, summed = values.value(total.arguments[0]), {index.letter for index in total.indices}
    map_ = _map(inside[0], summed, values, layer) if len(inside) == 1 and inside[0].number == 1 else None
    plain = around.number == 1 and not around.powers
    return map_ if map_ is None or plain else replace(map_, around=(spelled(around),))


def _map(product: Term, summed: set[str], values: Values, layer: Layer) -> Linear | None:
    """The map of a sum of a product: by one of its factors, of all others."""
    for weight in (factor for factor, power in product.powers.items() if power == 1 and is_weight(factor.written, layer)):
        rest, own = product.times(Term(ONE, {weight: ONE}), -ONE), letters(weight.written)
        rows, columns = (tuple(letter for letter in own if (letter in summed) == inside) for inside in (False, True))
        read = {letter for factor in rest.powers for letter in factor.letters}
        learned = all(is_weight(factor.written, layer) for factor in rest.powers)
        if (
            rows
            and columns
            and not learned
            and not set(rows) & read
            and summed <= read
            and _is_last(weight, product, summed, values)
        ):
            before = tuple(Index(letter) for letter in sorted(summed - set(columns)))
            x = Apply("sum", before, (spelled(rest),)) if before else spelled(rest)
            assert isinstance(weight.written, Tensor)
            return Linear(x, weight.written, heads_first(rows), heads_first(columns))
    return None


def _is_last(weight: Factor, product: Term, summed: set[str], values: Values) -> bool:
    """Is a weight multiplied after all other factors? Where these have the same of the summed letters, no order is better."""
    factors, own = list(product.powers), set(letters(weight.written))
    if summed <= own and all(summed <= factor.letters or not summed & factor.letters for factor in factors):
        return True
    order = pairs(
        [frozenset(factor.letters) for factor in factors], frozenset(summed), lambda letter: typical(values.legend, letter)
    )
    return factors.index(weight) in order[-1]


def with_bias(e: Sum, values: Values, layer: Layer) -> tuple[Linear, int, int] | None:
    """The first linear map among the terms of a sum that has its bias among them too, and the places of both."""
    for place, term in enumerate(e.terms):
        right, taken = values.reach.opening(term)
        map_ = linear(right, values, layer) if not taken or right is values.reach.defined(term)[0] else None
        if map_ is None or map_.bias is not None or map_.around:
            continue
        for at, bias in enumerate(e.terms):
            if is_weight(bias, layer) and set(letters(bias)) == set(map_.rows):
                assert isinstance(bias, Tensor)
                return replace(map_, bias=bias, taken=taken), place, at
    return None


def linears(e: Expression, values: Values, layer: Layer, apart: Container[int] = ()) -> Iterator[tuple[Expression, Linear]]:
    """The linear maps in an expression, the outermost first, then those in what it maps; not those in nodes kept `apart`."""
    if id(e) in apart:
        return
    biased = with_bias(e, values, layer) if isinstance(e, Sum) and len(e.terms) > 2 else None
    if (map_ := linear(e, values, layer)) is not None:
        yield e, map_
        own = {id(x) for x in subexpressions(e)}
        for x in map_.x.factors if isinstance(map_.x, Product) else (map_.x,):
            yield from linears(x, values, layer, apart) if id(x) in own else ()
    elif biased is not None and isinstance(e, Sum):
        map_, *places = biased
        yield e.terms[places[0]], map_
        for term in (term for place, term in enumerate(e.terms) if place not in places):
            yield from linears(term, values, layer, apart)
    else:
        for child in children(e):
            yield from linears(child, values, layer, apart)


def is_weight(e: Expression, layer: Layer) -> bool:
    """Is e a trained weight read at letters only, none of which is the number of a turn?"""
    turns = {s.index.letter for s in layer.body if isinstance(s, Loop)}
    return (
        isinstance(e, Tensor)
        and all(isinstance(slot, Index) and slot.letter not in turns for slot in e.slots)
        and any(w.name == e.name and w.kind == "trained" for w in layer.weights)
    )


def reads(name: str, layer: Layer) -> int:
    """How often the equations and the ties of a layer read a tensor."""
    read = [q.right for q in equations(layer.body)] + [w.default for w in layer.weights if w.default is not None]
    return sum(isinstance(x, Tensor | Name) and x.name == name for e in read for x in subexpressions(e))
