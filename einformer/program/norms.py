"""Says which expressions are norms: by their value, however they are written."""

from __future__ import annotations

from collections.abc import Iterator, Set
from dataclasses import dataclass, replace
from fractions import Fraction

from einformer.language.calls import axis_of
from einformer.language.sizes import Legend
from einformer.language.tree import Apply, Expression, Index, Layer, Name, Number, Power, Product, Quotient, Sum, Tensor
from einformer.language.walk import equations, subexpressions
from einformer.program.canonical import ONE, Definition, Definitions, Factor, Term, Value, Values, reaching, relettered, spelled

HALF = Fraction(1, 2)


@dataclass(frozen=True, slots=True)
class Norm:
    """Root mean square or layer norm of x over one letter, times a gain, plus a bias.

    `taken` are the definitions whose right sides stand in it.
    """

    kind: str
    x: Expression
    letter: str
    epsilon: Expression
    gain: Expression | None = None
    bias: Expression | None = None
    taken: Definitions = frozenset()


def norms(layer: Layer, legend: Legend) -> tuple[dict[int, Norm], set[int]]:
    """The norms of a layer by the id of what they are, and the ids of the equations that they take in."""
    reach, found = reaching(layer), dict[int, Norm]()
    for equation in equations(layer.body):
        values = Values(reach[id(equation)], legend, opens=True)
        found |= {id(e): each for e in subexpressions(equation.right) if (each := norm(e, values)) is not None}
    return found, {id(definition.equation) for each in found.values() for definition in each.taken}


def norm(e: Expression, values: Values) -> Norm | None:
    """The norm that e is: `γ x / sqrt(mean_d x^2 + ε)`, or `γ (x - mean_d x) / sqrt(mean_d (x - mean_d x)^2 + ε) + β`."""
    match e:
        case Sum((first, second)):
            pairs = ((_named(first, values), second), (_named(second, values), first))
            return next((replace(n, bias=bias) for n, bias in pairs if n is not None and _may_have(n, bias)), None)
        case Product() | Quotient() if any(_is_root(x) for x in _factors(e, values)):
            return _whole(e, replace(values, reach=replace(values.reach, wide=True))) or _whole(e, values)
        case _:
            return None


def _named(e: Expression, values: Values) -> Norm | None:
    """The norm that e is, or that a name stands for which nothing else reads."""
    right, taken = values.reach.opening(e)
    found = norm(right, values)
    return replace(found, taken=found.taken | taken) if found is not None else None


def _whole(e: Expression, values: Values) -> Norm | None:
    """The norm that a product is, if nothing else reads what its names stand for."""
    value = values.value(e)
    roots = [factor for factor, power in value[0].powers.items() if power == -HALF] if len(value) == 1 else []
    found = _norm(value[0], roots[0], values) if len(roots) == 1 else None
    if found is None:
        return None
    pieces = (x for piece in (found.x, found.gain) if piece is not None for x in subexpressions(piece))
    taken = frozenset(
        _opened(e, values, {definition for x in pieces if (definition := values.reach.definition(x)) is not None})
    )
    return replace(found, taken=taken) if values.reach.covers(e, taken) else None


def _factors(e: Expression, values: Values) -> list[Expression]:
    """What is multiplied or divides."""
    e = values.reach.opened(e)
    match e:
        case Product():
            return [x for factor in e.factors for x in _factors(factor, values)]
        case Quotient():
            return _factors(e.numerator, values) + _factors(e.denominator, values)
        case _:
            return [e]


def _is_root(e: Expression) -> bool:
    return isinstance(e, Power) or (isinstance(e, Apply) and e.name == "sqrt")


def _opened(e: Expression, values: Values, closed: Set[Definition]) -> Iterator[Definition]:
    """The definitions that stand for names in e, and in what they stand for; not those of names that are read."""
    for x in subexpressions(e):
        right, taken = values.reach.opening(x)
        if taken and not taken & closed:
            yield from taken
            yield from _opened(right, values, closed)


def _may_have(norm: Norm, bias: Expression) -> bool:
    """Is e a bias of a norm that has none?"""
    return norm.kind == "layer" and norm.bias is None and isinstance(bias, Tensor) and bias.slots == (Index(norm.letter),)


def _norm(term: Term, root: Factor, values: Values) -> Norm | None:
    """The norm that divides by this root, if what it divides is what the root measures."""
    measured = _measured(values.value(root.written), values)
    if measured is None:
        return None
    x, letter, epsilon = measured
    letters = {each for factor in term.powers if factor != root for each in factor.letters}
    others = {each for each in letters if axis_of(each) == axis_of(letter)}
    if len(others) == 1 and letter not in others:
        renamed = values.value(relettered(spelled(x), {letter: (other := others.pop())}))
        x, letter = (renamed[0], other) if len(renamed) == 1 else (x, letter)
    gain = term.times(Term(ONE, {root: ONE}), HALF).times(x, -ONE)
    if gain.number != 1 or any(power != 1 or factor.letters != {letter} for factor, power in gain.powers.items()):
        return None
    gains, plain = spelled(gain) if gain.powers else None, _uncentred(x, letter, values)
    return Norm("layer" if plain else "rms", plain or spelled(x), letter, epsilon, gains)


def _measured(value: Value, values: Values) -> tuple[Term, str, Expression] | None:
    """What a root is the mean square of, over which letter, and the number that is added to it."""
    for mean, epsilon in (value, value[::-1]) if len(value) == 2 else ():
        totals = [factor.written for factor in mean.powers if factor.meaning[0] == "sum"]
        if len(totals) == 1 and isinstance(e := totals[0], Apply) and len(e.indices) == 1 and _is_plain(epsilon):
            squares, same = values.value(e.arguments[0]), values.value(replace(e, name="mean"))
            if len(squares) == 1 and same == (mean,) and all(power == 2 for power in squares[0].powers.values()):
                return Term(ONE, dict.fromkeys(squares[0].powers, ONE)), e.indices[0].letter, spelled(epsilon)
    return None


def _is_plain(term: Term) -> bool:
    """Is a term made of numbers alone?"""
    return all(isinstance(x, Name | Number) for factor in term.powers for x in subexpressions(factor.written))


def _uncentred(x: Term, letter: str, values: Values) -> Expression | None:
    """Of `x - mean_d x` the x."""
    for factor in x.powers if len(x.powers) == 1 else ():
        terms = values.value(factor.written)
        for mean in terms if len(terms) > 1 else ():
            rest = tuple(spelled(term) for term in terms if term is not mean)
            plain = rest[0] if len(rest) == 1 else Sum(rest)
            if values.value(Product((Number(-1), Apply("mean", (Index(letter),), (plain,))))) == (mean,):
                return plain
    return None
