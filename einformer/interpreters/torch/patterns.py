"""Which equations are a linear map, a norm, an attention? Recognised from their form, never from a name."""

from __future__ import annotations

from collections.abc import Container, Iterator
from dataclasses import dataclass, field, replace

from einformer.language.tree import (
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
from einformer.language.walk import children, equations, subexpressions
from einformer.program.canonical import MINUS, ONE, Term, Values, spelled
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
class Scores:
    """`c sum_e (q k)`: what does not depend on positions, the factors, and the letters that are summed."""

    scale: Term
    factors: Term
    summed: frozenset[str]
    written: Expression


@dataclass(frozen=True, slots=True)
class Attention:
    """`sum_s' Dr(Sm_s'(q k c + m)) v`: what scaled_dot_product_attention computes; several products of scores are added."""

    scores: tuple[Scores, ...]
    masks: tuple[Expression, ...]
    factors: Term  # the value, and what the result is multiplied by
    dropout: Expression | None  # a probability; a name `p` where `Dr(e)` gives none
    over: str
    summed: frozenset[str]  # over the result and what it is multiplied by
    names: frozenset[str]  # of the equations that are put in


def attention(e: Expression, values: Values) -> Attention | None:
    """The attention that e is, with the equations before it that nothing else reads put in."""
    if not (isinstance(e, Apply) and e.name == "sum" and isinstance(e.arguments[0], Product | Quotient)):
        return None
    opening, summed = _Opening(values), {index.letter for index in e.indices}
    product = opening.product(e.arguments[0], "Sm") if opening.has(e, "Sm") else Term()
    for weights in product.powers:
        softmax, dropout = opening.undropped(weights.written)
        if isinstance(softmax, Apply) and softmax.name == "Sm" and len(softmax.indices) == 1 and product.powers[weights] == 1:
            over, rest = softmax.indices[0].letter, product.times(Term(ONE, {weights: ONE}), -ONE)
            parts = [opening.scores(term, over) or term for term in opening.terms(softmax.arguments[0])]
            scores = tuple(part for part in parts if isinstance(part, Scores))
            masks = tuple(part for part in parts if not isinstance(part, Scores))
            if scores and over in summed and any(over in factor.letters for factor in rest.powers):
                return Attention(scores, masks, rest, dropout, over, frozenset(summed - {over}), frozenset(opening.names))
    return None


@dataclass(slots=True)
class _Opening:
    """What names that are read once stand for, where an attention looks for it; and which were needed."""

    values: Values
    names: set[str] = field(default_factory=set)

    def opened(self, e: Expression, operator: str) -> Expression:
        """The right side of a name in whose place it can stand, if that operator is in it."""
        right = self.values.reach.opened(e)
        if not isinstance(e, Tensor) or right is e or not self.has(right, operator):
            return e
        self.names.add(e.name)
        return self.opened(right, operator)

    def has(self, e: Expression, operator: str) -> bool:
        """Does an operator stand in an expression, or in what its names stand for?"""
        rights = (right for x in subexpressions(e) if (right := self.values.reach.opened(x)) is not x)
        own = any(isinstance(x, Apply) and x.name == operator for x in subexpressions(e))
        return own or any(self.has(right, operator) for right in rights)

    def product(self, e: Expression, operator: str) -> Term:
        """The factors of an expression, those of names that have the operator too."""
        value = self.values.value(e)
        if len(value) != 1:
            return Term(ONE, {self.values.sealed(e, value): ONE})
        product = Term(value[0].number)
        for factor, power in value[0].powers.items():
            right = self.opened(factor.written, operator) if power == 1 else factor.written
            product = product.times(
                Term(ONE, {factor: power}) if right is factor.written else self.product(right, operator),
            )
        return product

    def undropped(self, e: Expression) -> tuple[Expression, Expression | None]:
        """What dropout drops of, and its probability."""
        if isinstance(e, Apply) and e.name == "Dr":
            return self.opened(e.arguments[0], "Sm"), e.arguments[1] if len(e.arguments) > 1 else Name("p")
        return e, None

    def terms(self, e: Expression) -> list[Expression]:
        """What is added, with the sums and the masks around products multiplied out."""
        e = self.opened(e, "sum")
        match e:
            case Sum():
                return [term for each in e.terms for term in self.terms(each)]
            case Apply("where", (), (condition, then, otherwise)) if MINUS in (then, otherwise) and self.has(e, "sum"):
                terms = self.terms(otherwise if then == MINUS else then)
                rest = _added([term for term in terms if not self.has(term, "sum")])
                masked = replace(e, arguments=(condition, *((MINUS, rest) if then == MINUS else (rest, MINUS))))
                return [*(term for term in terms if self.has(term, "sum")), masked]
            case Product() | Quotient() if self.has(e, "sum"):
                product = self.product(e, "sum")
                for factor, power in product.powers.items():
                    if power == 1 and isinstance(factor.written, Sum) and self.has(factor.written, "sum"):
                        rest = spelled(product.times(Term(ONE, {factor: ONE}), -ONE))
                        return [x for term in factor.written.terms for x in self.terms(Product((rest, term)))]
                return [e]
            case _:
                return [e]

    def scores(self, e: Expression, over: str) -> Scores | None:
        """The scores that a term is: one sum of a product, with or without factors around it."""
        product = self.product(e, "sum") if self.has(e, "sum") else Term()
        sums = [factor for factor, power in product.powers.items() if factor.meaning[0] == "sum" and power == 1]
        total = sums[0].written if len(sums) == 1 else e
        inside = self.values.value(total.arguments[0]) if sums and isinstance(total, Apply) and total.name == "sum" else ()
        if len(inside) != 1 or not isinstance(total, Apply):
            return None
        around = product.times(Term(ONE, {sums[0]: ONE}), -ONE)
        scale = replace(around.part(lambda factor: not factor.letters), number=around.number)
        factors = inside[0].times(around.times(scale, -ONE))
        return Scores(scale, factors, frozenset(index.letter for index in total.indices), e)


def _added(terms: list[Expression]) -> Expression:
    return terms[0] if len(terms) == 1 else Sum(tuple(terms)) if terms else Number(0)


def reads(name: str, layer: Layer) -> int:
    """How often the equations and the ties of a layer read a tensor."""
    read = [q.right for q in equations(layer.body)] + [w.default for w in layer.weights if w.default is not None]
    return sum(isinstance(x, Tensor | Name) and x.name == name for e in read for x in subexpressions(e))


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
