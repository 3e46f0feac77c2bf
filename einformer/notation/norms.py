"""Which expressions are norms? Recognised from their form, never from a name."""

from __future__ import annotations

from dataclasses import dataclass

from einformer.notation.tree import Apply, Expression, Index, Name, Number, Power, Product, Quotient, Sum, Tensor
from einformer.notation.walk import subexpressions


@dataclass(frozen=True, slots=True)
class Norm:
    """Root mean square or layer norm of x over one letter, times a gain, plus a bias."""

    kind: str
    x: Expression
    letter: str
    epsilon: Expression
    gain: Expression | None
    bias: Expression | None


def norm(e: Expression) -> Norm | None:
    """The norm that e is: `γ x / sqrt(mean_d x^2 + ε)`, or `γ (x - mean_d x) / sqrt(var_d x + ε) + β`."""
    if isinstance(e, Sum) and len(e.terms) == 2:
        inner = norm(e.terms[0])
        over = inner is not None and inner.kind == "layer" and inner.bias is None and _letters(e.terms[1]) == (inner.letter,)
        return Norm(inner.kind, inner.x, inner.letter, inner.epsilon, inner.gain, e.terms[1]) if inner and over else None
    match e:
        case Quotient(numerator, Apply("sqrt", (), (Sum((Apply(spread, (index,), (argument,)), epsilon)),))):
            factors = numerator.factors if isinstance(numerator, Product) else (numerator,)
        case _:
            return None
    if len(factors) > 2 or not isinstance(epsilon, Name | Number):
        return None
    gain, x = factors if len(factors) == 2 else (None, factors[0])
    if gain is not None and _mentioned(gain) != {index.letter}:
        return None
    if spread == "mean" and isinstance(argument, Power) and argument == Power(x, Number(2)):
        return Norm("rms", x, index.letter, epsilon, gain, None)
    centred = Sum((argument, Product((Number(-1), Apply("mean", (index,), (argument,))))))
    return Norm("layer", argument, index.letter, epsilon, gain, None) if spread == "var" and x == centred else None


def _letters(e: Expression) -> tuple[str, ...]:
    return tuple(slot.letter for slot in e.slots if isinstance(slot, Index)) if isinstance(e, Tensor) else ()


def _mentioned(e: Expression) -> set[str]:
    return {x.letter for x in subexpressions(e) if isinstance(x, Index)}
