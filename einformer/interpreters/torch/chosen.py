"""Which values are zero but for what a `top` chooses (R10)? Followed through the equations of a layer, and through calls."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from einformer.notation.instances import callees
from einformer.notation.primitives import primitive
from einformer.notation.scope import Scope
from einformer.notation.tree import (
    Apply,
    Equation,
    Expression,
    Index,
    Layer,
    Loop,
    Name,
    Number,
    Power,
    Product,
    Quotient,
    Statement,
    Sum,
    Tensor,
)
from einformer.notation.walk import equations, subexpressions


@dataclass(frozen=True, slots=True)
class Choice:
    """`top_{T,x}(r_sx)`: of the numbers of x only T, others for each number of `along`; `by` which `top`, in which calls."""

    letter: str
    count: Expression
    along: frozenset[str]
    by: tuple[int, ...]

    def renamed(self, letters: Mapping[str, str]) -> Choice:
        """The same choice of other letters."""
        along = frozenset(letters.get(letter, letter) for letter in self.along)
        return replace(self, letter=letters.get(self.letter, self.letter), along=along)


Choices = frozenset[Choice]
NONE: Choices = frozenset()


@dataclass(frozen=True, slots=True)
class Support:
    """Outside which choices a value is zero, and outside which it is -inf."""

    zero: Choices = NONE
    infinite: Choices = NONE

    def renamed(self, letters: Mapping[str, str]) -> Support:
        """The same of a tensor that is read at other letters."""
        return Support(frozenset(c.renamed(letters) for c in self.zero), frozenset(c.renamed(letters) for c in self.infinite))


DENSE = Support()


class Supports:
    """What is known of the tensors of a layer, statement after statement; of its inputs at the start."""

    def __init__(self, layer: Layer, layers: Mapping[str, Layer], inputs: Sequence[Support] = ()) -> None:
        self.layer, self.layers, self.callees = layer, layers, callees(layer, layers)
        self.scope = Scope(self.callees)
        self.known: dict[str, tuple[Tensor | Name, Support]] = {
            formal.name: (formal, support) for formal, support in zip(layer.formals, inputs, strict=False)
        }

    def follow(self, body: Sequence[Statement]) -> Supports:
        """What is known after these statements; of what a loop changes nothing is."""
        for statement in body:
            if isinstance(statement, Loop):
                self.forget(statement)
            else:
                self.define(statement)
        return self

    def forget(self, loop: Loop) -> None:
        """In its next turn, and after it, what a loop defines may be something else."""
        for equation in equations((loop,)):
            self.known.pop(equation.left.name, None)

    def define(self, equation: Equation) -> None:
        """What is known after an equation."""
        self.known[equation.left.name] = equation.left, self.of(equation.right)

    def of(self, e: Expression) -> Support:
        """Where e is zero, by its letters; a condition counts as zero where it does not hold."""
        match e:
            case Tensor() if e.name in self.known:
                left, support = self.known[e.name]
                pairs = zip(left.slots, e.slots, strict=True) if isinstance(left, Tensor) else ()
                return support.renamed({a.letter: b.letter for a, b in pairs if isinstance(a, Index) and isinstance(b, Index)})
            case Product():
                return Support(NONE.union(*(self.of(factor).zero for factor in e.factors)))
            case Quotient():
                return Support(self.of(e.numerator).zero)
            case Sum():
                terms = [self.of(term) for term in e.terms]
                return Support(
                    terms[0].zero.intersection(*(term.zero for term in terms[1:])), NONE.union(*(t.infinite for t in terms))
                )
            case Power(exponent=Number(value=value)) if value > 0:
                return Support(self.of(e.base).zero)
            case Apply() if e.name in self.callees:
                layer, inputs = self.callees[e.name], [self.of(argument) for argument in e.arguments]
                return Supports(layer, self.layers, inputs).follow(layer.body).output(e)
            case Apply():
                return self.applied(e, [self.of(argument) for argument in e.arguments])
            case _:
                return DENSE

    def output(self, call: Apply) -> Support:
        """What is known of the result of a call: what is chosen in it is that call's."""
        support = self.known.get(self.layer.output.name, (self.layer.output, DENSE))[1]
        zero, infinite = (
            frozenset(replace(c, by=(id(call), *c.by)) for c in some) for some in (support.zero, support.infinite)
        )
        return Support(zero, infinite)

    def applied(self, e: Apply, arguments: list[Support]) -> Support:
        """A primitive of values with these supports."""
        match e.name:
            case "where":
                return _branches(e, *arguments)
            case "top" if len(e.indices) == 1:
                letter = e.indices[0].letter
                along = frozenset(self.scope.free(e.arguments[1])) - {letter}
                return Support(frozenset({Choice(letter, e.arguments[0], along, (id(e),))}))
            case "and":
                return Support(arguments[0].zero | arguments[1].zero)
            case "Sm" | "exp":
                return Support(arguments[0].infinite)
        row, bound = primitive(e.name, bool(e.indices)), {index.letter for index in e.indices}
        kept = (c for c in arguments[0].zero if not bound & {c.letter, *c.along}) if row is not None and row.zero else ()
        return Support(frozenset(kept))


def _branches(e: Apply, condition: Support, then: Support, otherwise: Support) -> Support:
    """`where(c, y, 0)` is zero outside c, `where(c, y, -inf)` is -inf there."""
    zero, infinite = condition.zero | then.zero, condition.zero | then.infinite
    return Support(
        zero if e.arguments[2] == Number(0) else zero & otherwise.zero,
        infinite if e.arguments[2] == Number(-math.inf) else infinite & otherwise.infinite,
    )


def given(layer: Layer, layers: Mapping[str, Layer]) -> list[Support]:
    """What is known of the inputs of a layer, whoever calls it."""
    found = [actuals for caller in layers.values() for actuals in _actuals(caller.body, layer, Supports(caller, layers))]
    return [_common([actuals[place] for actuals in found], formal) for place, formal in enumerate(layer.formals)]


def _actuals(body: Sequence[Statement], layer: Layer, supports: Supports) -> Iterator[list[Support]]:
    """What each call of a layer in a body gives it."""
    for statement in body:
        if isinstance(statement, Loop):
            supports.forget(statement)
            yield from _actuals(statement.body, layer, supports)
            continue
        for e in subexpressions(statement.right):
            if isinstance(e, Apply) and e.name in supports.callees and supports.callees[e.name].name == layer.name:
                yield [supports.of(argument) for argument in e.arguments]
        supports.define(statement)


def _common(actuals: list[Support], formal: Tensor) -> Support:
    """What all say, of whatever they choose by."""
    own = [frozenset(replace(choice, by=(id(formal),)) for choice in actual.zero) for actual in actuals]
    return Support(own[0].intersection(*own[1:])) if own else DENSE
