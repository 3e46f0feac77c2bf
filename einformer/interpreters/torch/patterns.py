"""Which equations are a linear map, a norm, an attention? Recognised from their form, never from a name."""

from __future__ import annotations

from collections.abc import Container, Iterator
from dataclasses import dataclass, replace

from einformer.notation.scope import factors_of
from einformer.notation.sizes import Legend
from einformer.notation.tree import (
    Apply,
    Equation,
    Expression,
    Index,
    Layer,
    Loop,
    Name,
    Number,
    Product,
    Quotient,
    Sum,
    Tensor,
)
from einformer.notation.walk import children, equations, subexpressions
from einformer.program.canonical import Reach
from einformer.program.linear import Linear, heads_first, letters


def linear(e: Expression, layer: Layer) -> Linear | None:
    """The linear map that e is, if its matrix is a weight and all the letters of that are summed or put out."""
    if isinstance(e, Sum) and len(e.terms) == 2:
        return _biased(linear(e.terms[0], layer), e.terms[1], layer)
    if not (isinstance(e, Apply) and e.name == "sum" and isinstance(e.arguments[0], Product)):
        return None
    factors, summed = e.arguments[0].factors, {index.letter for index in e.indices}
    for weight in (f for f in factors if isinstance(f, Tensor) and is_weight(f, layer) and summed <= set(letters(f))):
        rest = tuple(f for f in factors if f is not weight)
        rows = heads_first(tuple(letter for letter in letters(weight) if letter not in summed))
        x = rest[0] if len(rest) == 1 else Product(rest, span=e.span)
        alike = all(summed <= _mentioned(f) or not summed & _mentioned(f) for f in rest)  # else another order may be better
        if rows and alike and not is_weight(x, layer) and not set(rows) & _mentioned(x) and summed <= _mentioned(x):
            return Linear(x, weight, rows, heads_first(tuple(letter for letter in letters(weight) if letter in summed)))
    return None


def _biased(found: Linear | None, bias: Expression, layer: Layer) -> Linear | None:
    if found is None or found.bias is not None or not (isinstance(bias, Tensor) and is_weight(bias, layer)):
        return None
    return replace(found, bias=bias) if set(letters(bias)) == set(found.rows) else None


def is_weight(e: Expression, layer: Layer) -> bool:
    """Is e a trained weight read at letters only, none of which is the number of a turn?"""
    turns = {s.index.letter for s in layer.body if isinstance(s, Loop)}
    return (
        isinstance(e, Tensor)
        and all(isinstance(slot, Index) and slot.letter not in turns for slot in e.slots)
        and any(w.name == e.name and w.kind == "trained" for w in layer.weights)
    )


def _mentioned(e: Expression) -> set[str]:
    return {x.letter for x in subexpressions(e) if isinstance(x, Index)}


@dataclass(frozen=True, slots=True)
class Attention:
    """`sum_s' Dr(Sm_s'(q k c + m)) v`: what scaled_dot_product_attention computes."""

    query: Expression
    key: Expression
    value: Expression
    scale: tuple[Expression, ...]  # factors, and a divisor last
    divisor: Expression | None
    mask: Expression | None
    dropout: Expression | None  # a probability; a name `p` where `Dr(e)` gives none
    feature: str
    over: str
    weights: str = ""  # the tensor of an equation that is put in


def attention(e: Expression, reach: Reach) -> Attention | None:
    """The attention that e is, with the weights of an equation before it that nothing else reads put in."""
    if not (isinstance(e, Apply) and e.name == "sum" and len(e.indices) == 1 and isinstance(e.arguments[0], Product)):
        return None
    over, factors = e.indices[0].letter, e.arguments[0].factors
    if len(factors) != 2:
        return None
    for probabilities, value in (factors, factors[::-1]):
        inner, dropout = _undropped(probabilities)
        softmax = reach.opened(inner)
        if isinstance(softmax, Apply) and softmax.name == "Sm" and [i.letter for i in softmax.indices] == [over]:
            found = _scores(softmax.arguments[0], value, dropout, over)
            put_in = inner.name if isinstance(inner, Tensor) else ""
            return replace(found, weights=put_in) if found else None
    return None


def _undropped(e: Expression) -> tuple[Expression, Expression | None]:
    if isinstance(e, Apply) and e.name == "Dr":
        return e.arguments[0], e.arguments[1] if len(e.arguments) > 1 else Name("p")
    return e, None


def reads(name: str, layer: Layer) -> int:
    """How often the equations and the ties of a layer read a tensor."""
    read = [q.right for q in equations(layer.body)] + [w.default for w in layer.weights if w.default is not None]
    return sum(isinstance(x, Tensor | Name) and x.name == name for e in read for x in subexpressions(e))


def _scores(e: Expression, value: Expression, dropout: Expression | None, over: str) -> Attention | None:
    """The product of the scores and the mask that is added to it."""
    parts = _masked(e)
    scaled = _scaled(parts[0]) if parts is not None else None
    if parts is None or scaled is None or any(_mentioned(f) for f in (*scaled.around, *scaled.divisors)):
        return None
    (left, right), mask = scaled.vectors, parts[1]
    query, key = (left, right) if over in letters(right) else (right, left)
    if over in letters(query) or over not in letters(key) or not (mask is None or isinstance(mask, Tensor)):
        return None
    divisor = scaled.divisors[0] if scaled.divisors else None
    return Attention(query, key, value, scaled.around, divisor, mask, dropout, scaled.feature, over)


def _masked(e: Expression) -> tuple[Expression, Expression | None] | None:
    """Scores, and what is added to them."""
    if not isinstance(e, Sum):
        return e, None
    if len(e.terms) != 2:
        return None
    first, second = e.terms
    return (first, second) if isinstance(first, Apply | Quotient | Product) else (second, first)


@dataclass(frozen=True, slots=True)
class _Scaled:
    """`c sum_e (q k) / d`, the factors and divisors inside and outside the sum together."""

    vectors: tuple[Tensor, Tensor]
    feature: str
    around: tuple[Expression, ...]
    divisors: tuple[Expression, ...]


def _scaled(e: Expression) -> _Scaled | None:
    around, divisors = _factors(e)
    sums = [f for f in around if isinstance(f, Apply) and f.name == "sum" and len(f.indices) == 1]
    if len(sums) != 1:
        return None
    inside, inner = _factors(sums[0].arguments[0])
    vectors = [f for f in inside if isinstance(f, Tensor) and all(isinstance(slot, Index) for slot in f.slots)]
    if len(vectors) != 2 or len(divisors + inner) > 1:
        return None
    rest = tuple(f for f in (*around, *inside) if f is not sums[0] and f not in vectors)
    return _Scaled((vectors[0], vectors[1]), sums[0].indices[0].letter, rest, divisors + inner)


def _factors(e: Expression) -> tuple[tuple[Expression, ...], tuple[Expression, ...]]:
    """What is multiplied, and what divides."""
    if isinstance(e, Quotient):
        *top, bottom = factors_of(e)
        return tuple(top), (bottom,)
    return (e.factors if isinstance(e, Product) else (e,)), ()


def is_causal_mask(e: Expression, time: str, legend: Legend) -> bool:
    """Is e `where(s' <= s, 0, -inf)`, perhaps with a window that never ends?"""
    match e:
        case Apply("where", (), (condition, Number(0), Number(value))) if value == -float("inf"):
            return _is_causal(condition, time, legend)
        case _:
            return False


def _is_causal(condition: Expression, time: str, legend: Legend) -> bool:
    match condition:
        case Apply("<=", (), (Index(key), Index(query))) | Apply(">=", (), (Index(query), Index(key))):
            return query == time and key == f"{time}'"
        case Apply("and", (), (left, right)):
            return any(_is_causal(a, time, legend) and _is_always(b, legend) for a, b in ((left, right), (right, left)))
        case _:
            return False


def _is_always(condition: Expression, legend: Legend) -> bool:
    """`s - W < s'` with W = inf."""
    match condition:
        case Apply("<" | "<=", (), (Sum((Index(), Product((Number(-1), Name(name))))), Index())):
            return name in legend.scalars and legend.number(Name(name)) == float("inf")
        case _:
            return False


def linears(equation: Equation, layer: Layer, apart: Container[int] = ()) -> Iterator[tuple[Expression, Linear]]:
    """The linear maps in an equation, the outermost first; what is inside one is not looked at, nor nodes kept `apart`."""

    def visit(e: Expression) -> Iterator[tuple[Expression, Linear]]:
        if id(e) in apart:
            return
        found = linear(e, layer)
        if found:
            yield e, found
            return
        for child in children(e):
            yield from visit(child)

    yield from visit(equation.right)
