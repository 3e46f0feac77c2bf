"""Recognises attention by its value: a softmax over keys whose argument has products of queries and keys, applied to values."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from einformer.language.tree import Apply, Expression, Name, Number, Product, Quotient, Sum, Tensor
from einformer.language.walk import children, subexpressions
from einformer.program.canonical import MINUS, ONE, Definition, Definitions, Term, Values, spelled


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
    taken: Definitions  # that are put in


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
                return Attention(scores, masks, rest, dropout, over, frozenset(summed - {over}), frozenset(opening.taken))
    return None


@dataclass(slots=True)
class _Opening:
    """What names that are read once stand for, where an attention looks for it; and which were needed."""

    values: Values
    taken: set[Definition] = field(default_factory=set)

    def opened(self, e: Expression, operator: str) -> Expression:
        """The right side of a name in whose place it can stand, if that operator is in it."""
        right, taken = self.values.reach.opening(e)
        if not taken or not self.has(right, operator):
            return e
        self.taken |= taken
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
        product = self.unscaled(inside[0]).times(around)
        scale = replace(product.part(lambda factor: not factor.letters), number=product.number)
        factors = product.times(scale, -ONE)
        return Scores(scale, factors, frozenset(index.letter for index in total.indices), e)

    def unscaled(self, product: Term) -> Term:
        """A product with the scales of its factors beside them: `q / sqrt(H)` by a name of its own is q, and a scale."""
        for factor in product.powers:
            right, taken = self.values.reach.opening(factor.written)
            value = self.values.value(right) if taken and product.powers[factor] == 1 else ()
            inside = [each for each in value[0].powers if each.letters] if len(value) == 1 else []
            if len(inside) == 1 and isinstance(inside[0].written, Tensor) and value[0].powers[inside[0]] == 1:
                self.taken |= taken
                product = product.times(Term(ONE, {factor: ONE}), -ONE).times(value[0])
        return product


def _added(terms: list[Expression]) -> Expression:
    return terms[0] if len(terms) == 1 else Sum(tuple(terms)) if terms else Number(0)


def refusal(e: Expression, values: Values) -> tuple[str, str] | None:
    """The letter of the keys that a softmax weighs in e, and why that is no attention; None where there is no such softmax."""
    if not (isinstance(e, Apply) and e.name == "sum"):
        return None
    summed = {index.letter for index in e.indices}
    for factor in (each for term in values.value(e.arguments[0]) for each in term.powers):
        softmax, reason = _followed(factor.written, "Sm", values)
        over = {index.letter for index in softmax.indices} & summed if isinstance(softmax, Apply) else set()
        if over and isinstance(softmax, Apply):
            scores, around = _followed(softmax.arguments[0], "sum", values)
            if scores is not None:
                return over.pop(), reason or around or "its letters are not those of queries, keys and values"
    return None


def _followed(e: Expression, operator: str, values: Values) -> tuple[Expression | None, str]:
    """Where an operator stands in e or in what its names stand for, and what keeps it from being a factor or a term of e."""
    right, taken = replace(values.reach, wide=True).opening(e)
    if taken and isinstance(e, Tensor):
        several = f"`{e.name}` is read more than once" if any(values.reach.reads[each] > 1 for each in taken) else ""
        inner, reason = _followed(right, operator, values)
        return inner, several or reason
    if isinstance(e, Apply) and e.name == operator:
        return e, ""
    for child in children(e) if isinstance(e, Sum | Product | Quotient | Apply) else ():
        inner, reason = _followed(child, operator, values)
        if inner is not None:
            applies = isinstance(e, Apply) and e.name not in ("Dr", "where")
            return inner, reason or (f"`{e.name}` stands around the scores" if isinstance(e, Apply) and applies else "")
    return None, ""
