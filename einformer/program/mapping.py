"""Recognises linear maps by their terms: the product of a vector and a matrix, a bias, and how the axes of both lie."""

from __future__ import annotations

from dataclasses import replace

from einformer.program import operations as op
from einformer.program.kernels import Linear
from einformer.program.operations import Axes, Value, contract, map_values
from einformer.program.orders import estimate_size, order_pairs
from einformer.program.scopes import Scope
from einformer.program.terms import ONE, Factor, Term, spell


def put_heads_first(some: Axes) -> Axes:
    """The notes write features before heads, `q_bsea`; memory is faster the other way round."""
    return some[1:] + some[:1]


def read_linear(value: Value, scope: Scope) -> Value | None:
    """What a value is as a linear map, times what stands around it, or plus what stands beside it and its bias."""
    match value.operation:
        case op.Map("+", terms):
            return _read_biased(terms, scope)
        case op.Contract():
            found = _read_scaled(value, scope)
            return found and _put_around(*found)
        case _:
            return None


def _put_around(whole: Value, around: Value | None) -> Value:
    """A map times what stands around it, or divided by it."""
    match around.operation if around is not None else None:
        case None:
            return whole
        case op.Map("/", (one, below)) if one.operation == op.Constant(1):
            return map_values("/", [whole, below])
        case _:
            assert around is not None
            return map_values("*", [whole, around])


def find_weight(value: Value, scope: Scope) -> Value | None:
    """The trained weight that a value is, under whatever letters."""
    match value.operation:
        case op.View(argument, old, new) if all(len(label) == 1 for label in (*old, *new)):
            value = argument
    return value if value in scope.learned else None


def _read_scaled(value: Value, scope: Scope) -> tuple[Value, Value | None] | None:
    """The linear map that a sum is, and what multiplies it."""
    terms = scope.read_named(value)
    totals = (
        [f for f, power in terms[0].powers.items() if isinstance(f.value.operation, op.Contract) and power == 1]
        if terms
        else []
    )
    if len(terms) != 1 or len(totals) != 1:
        return None
    around, total = terms[0].without(totals[0]), totals[0].value
    assert isinstance(total.operation, op.Contract)
    inside = scope.read_named(map_values("*", list(total.operation.factors)))
    plain = len(inside) == 1 and inside[0].number == 1 and (total is value or total not in scope.names)
    kernel = _read_map(inside[0], frozenset(total.operation.letters), scope) if plain else None
    if kernel is None:
        return None
    kept = tuple(letter for letter in (*total.axes,) if letter not in kernel.rows[0])
    new = Value(kernel, kept + kernel.rows[0], "tensor", value.span)
    return new, spell(around) if around.powers or around.number != 1 else None


def _read_map(product: Term, summed: frozenset[str], scope: Scope) -> Linear | None:
    """The map of a sum of a product: by one of its factors, of all others."""
    for weight in (f for f, power in product.powers.items() if power == 1 and find_weight(f.value, scope) is not None):
        rest, own = product.without(weight), weight.value.axes
        rows, columns = (tuple(letter for letter in own if (letter in summed) == inside) for inside in (False, True))
        read = {letter for factor in rest.powers for letter in factor.letters}
        learned = all(find_weight(factor.value, scope) is not None for factor in rest.powers)
        plain = rows and columns and not learned and not set(rows) & read and summed <= read
        if plain and _is_last(weight, product, summed, scope):
            before = tuple(sorted(summed - set(columns)))
            x = contract(before, tuple(_list_factors(rest))) if before else spell(rest)
            return Linear(x, (weight.value,), (), (put_heads_first(columns),), (put_heads_first(rows),))
    return None


def _list_factors(term: Term) -> list[Value]:
    """The factors of a product as values."""
    return [spell(Term(ONE, {factor: power})) for factor, power in term.powers.items()]


def _is_last(weight: Factor, product: Term, summed: frozenset[str], scope: Scope) -> bool:
    """Is a weight multiplied after all other factors? Where these have the same of the summed letters, no order is better."""
    factors = list(product.powers)
    if summed <= weight.letters and all(summed <= factor.letters or not summed & factor.letters for factor in factors):
        return True
    order = order_pairs(
        [factor.letters for factor in factors], summed, lambda letter: estimate_size(scope.values.legend, letter)
    )
    return factors.index(weight) in order[-1]


def _read_biased(terms: tuple[Value, ...], scope: Scope) -> Value | None:
    """The first linear map among the terms of a sum that has its bias among them too, plus the others."""
    for term in terms:
        found = _read_scaled(term, scope) if isinstance(term.operation, op.Contract) and scope.is_open(term) else None
        if found is None or found[1] is not None:
            continue
        kernel = found[0].operation
        assert isinstance(kernel, Linear)
        for bias in terms:
            if find_weight(bias, scope) is not None and set(bias.axes) == set(kernel.rows[0]):
                whole = replace(found[0], operation=replace(kernel, biases=(bias,)))
                rest = [each for each in terms if each not in (term, bias)]
                return map_values("+", [rest[0] if len(rest) == 1 else map_values("+", rest), whole]) if rest else whole
    return None
