"""What must a forward pass keep for the backward pass? Values of the text, each once, by a rule for each operation.

The convention of Korthikanti et al. 2022 (section 4.1): a product of two tensors keeps what the gradient of the other needs,
a softmax its output, a GELU its input, a norm its input, a dropout its mask of one byte; sums and reshapes keep nothing.
Weights are no activations. What PyTorch really saves is another convention, and larger.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Literal, assert_never

from einformer.interpreters.count.contraction import Chosen, Contraction, chosen_of, steps
from einformer.interpreters.count.visits import Work, per_tree, work_of
from einformer.language.primitives import row_of
from einformer.language.scope import factors_of
from einformer.language.tree import (
    Apply,
    Equation,
    Expression,
    Group,
    Index,
    Loop,
    Name,
    Number,
    Power,
    Product,
    Quotient,
    Spec,
    Statement,
    Sum,
    Tensor,
)
from einformer.language.walk import equations
from einformer.program import canonical
from einformer.program.canonical import Place, Values, identity, reaching
from einformer.program.choices import NO_CHOICE, Choices
from einformer.program.orders import Letters
from einformer.program.support import Flow, Need
from einformer.program.turns import Loops, Turns, inside, turns_of


@dataclass(frozen=True, slots=True)
class Value:
    """What an expression computes: the letters over which it was computed, where, and how often.

    A product is no value of its own that is kept: its `parts` are, from which it is computed again.
    """

    key: tuple[object, ...]
    letters: Letters
    turns: tuple[Turns, ...]
    chosen: tuple[Chosen, ...] = ()
    trained: bool = False  # a weight is not
    parts: tuple[Value, ...] = ()


@dataclass(frozen=True, slots=True)
class Kept:
    """A value, or the mask of a dropout, that the equation of a layer keeps."""

    value: Value
    what: Literal["value", "mask"]
    path: str
    layer: str
    equation: Equation
    contraction: Contraction | None = None  # the values are those between its steps

    def values(self, size: Callable[[str], int]) -> Iterator[Value]:
        """What is kept, where `size` decides the order of contractions."""
        if self.contraction is None:
            yield self.value
            return
        for step, _ in pairwise(steps(self.contraction, size)):
            yield replace(self.value, letters=step.output)


@dataclass(frozen=True, slots=True)
class Carried:
    """A value that enters a turn of a loop from the one before: all that full recomputation keeps of a block."""

    value: Value
    path: str


CONSTANT = Value((), frozenset(), ())


@per_tree
def keeps(spec: Spec, name: str) -> tuple[tuple[Kept, ...], tuple[Carried, ...]]:
    """What the layer or model `name` keeps, in the order of the text, and what its outer loops carry."""
    work = work_of(spec, name)
    layer = work.layers[name]
    flow, found, given = work.whole(layer), _Found(work), layer.kind == "layer"
    inputs = (Value((formal.name,), frozenset(flow.scope.free(formal)), (), (), given) for formal in layer.formals)
    _Body(found, flow, NO_CHOICE, inputs, "", ()).run()
    return tuple(found.kept.values()), tuple(found.carried)


@dataclass(slots=True)
class _Found:
    """All that is kept, each value once."""

    work: Work
    kept: dict[tuple[object, ...], Kept] = field(default_factory=dict)
    carried: list[Carried] = field(default_factory=list)


class _Body:
    """One body: the values of its names, and what each equation keeps of them."""

    def __init__(
        self, found: _Found, flow: Flow, output: Choices, given: Iterable[Value], path: str, turns: tuple[Turns, ...]
    ) -> None:
        self.found, self.flow, self.path, self.turns = found, flow, path, turns
        self.values = {formal.name: value for formal, value in zip(flow.layer.formals, given, strict=True)}
        self.weights = {weight.name for weight in flow.layer.weights}
        self.needs = flow.needs(output)
        self.loops: Loops = ()
        self.norms, self.within = found.work.norms(flow.layer)
        self.reaching = reaching(flow.layer)
        self.deep: dict[Place, canonical.Value] = {}

    def run(self) -> Value:
        """The value of the output."""
        self.statements(self.flow.layer.body)
        return self.values[self.flow.layer.output.name]

    def statements(self, body: tuple[Statement, ...]) -> None:
        for statement in body:
            if isinstance(statement, Loop):
                self.loop(statement)
            else:
                self.equation(statement)

    def loop(self, loop: Loop) -> None:
        """What a turn changes enters the next one as another value, and is another one after the last."""
        around, before = self.loops, dict(self.values)
        self.loops = (*self.loops, (loop.index.letter, loop.count))
        changed = list(dict.fromkeys(equation.left.name for equation in equations(loop.body)))
        for name in changed:
            if name in before:
                self.values[name] = self.renewed(before[name], loop, name)
                if not around:
                    self.found.carried.append(Carried(self.values[name], self.path))
        self.statements(loop.body)
        self.loops = around
        for name in changed:
            self.values[name] = self.renewed(self.values[name], loop, name)

    def renewed(self, value: Value, loop: Loop, name: str) -> Value:
        """What a name stands for where a turn begins, or after the last."""
        key = (self.path, loop.span.start, name, len(self.loops))
        return Value(key, value.letters, (*self.turns, turns_of(self.loops, frozenset())), value.chosen, trained=True)

    def equation(self, equation: Equation) -> None:
        if id(equation) in self.within:
            return
        self.now = equation
        self.meanings = Values(self.reaching[id(equation)], self.flow.flows.legend, deep=True, known=self.deep)
        self.known = self.flow.known_at[id(equation)]
        self.need = {id(e): need for e, need in self.flow.expressions(equation, self.needs[id(equation)])}
        self.values[equation.left.name] = self.value(equation.right)

    # --------------------------------------------------------------------------------------------------- what is kept

    def keep(self, value: Value, what: Literal["value", "mask"] = "value", contraction: Contraction | None = None) -> None:
        """Weights and constants are not activations; a value that several operations keep is there once."""
        for part in value.parts:
            self.keep(part, what, contraction)
        if value.parts:
            return
        key = (*value.key, what)
        if value.trained and key not in self.found.kept:
            layer = self.found.work.names[self.flow.layer.span]
            self.found.kept[key] = Kept(value, what, self.path, layer, self.now, contraction)

    def new(self, e: Expression, letters: Letters | None = None) -> Value:
        """What e itself computes."""
        need = self.need.get(id(e), Need())
        letters = self.letters(e) if letters is None else letters
        turns = (*self.turns, turns_of(self.loops, need.cases))
        taken = chosen_of(need.choices, letters)
        key = (self.path, self.loops, turns, taken, letters, identity(self.meanings.value(e)))
        return Value(key, letters, turns, taken, self.flow.trained(e, self.known))

    def letters(self, e: Expression) -> Letters:
        """Those of what e computes in one turn of the loops around."""
        return frozenset(self.flow.scope.free(e)) - {letter for letter, _ in self.loops}

    # --------------------------------------------------------------------------------------------------- operations

    def value(self, e: Expression) -> Value:
        """What e computes; what its operations keep is kept on the way."""
        if found := self.norms.get(id(e)):
            self.keep(self.value(found.x))
            return self.new(e)
        match e:
            case Tensor() | Name():
                return self.named(e)
            case Number() | Index() | Group():
                return CONSTANT
            case Sum():
                for term in e.terms:
                    self.value(term)
                return self.new(e)
            case Product() | Quotient():
                return self.multiplied(e)
            case Power():
                self.keep(self.value(e.base))
                return self.new(e)
            case Apply(name="sum", arguments=(Product() | Quotient() as product,)):
                return self.contracted(e, product)
            case Apply() if e.name in self.flow.callees:
                return self.called(e)
            case Apply():
                return self.applied(e)
            case _:
                assert_never(e)

    def named(self, e: Tensor | Name) -> Value:
        """A name is what it was defined as, whatever the order of its letters; reading rows by number makes a new value."""
        if e.name in self.weights or e.name not in self.values:
            gathers = isinstance(e, Tensor) and e.name in self.weights and any(not isinstance(slot, Index) for slot in e.slots)
            return self.new(e) if gathers else CONSTANT
        return self.values[e.name]

    def multiplied(self, e: Product | Quotient) -> Value:
        """Element by element: each factor is kept for the gradients of the others."""
        factors = list(factors_of(e))
        values = [self.value(factor) for factor in factors]
        trained = [self.flow.trained(factor, self.known) for factor in factors]
        for k, value in enumerate(values):
            divisor = isinstance(e, Quotient) and k == len(values) - 1 and trained[k]
            if divisor or any(other for i, other in enumerate(trained) if i != k):
                self.keep(value)
        return replace(self.new(e), parts=tuple(values))

    def contracted(self, e: Apply, product: Product | Quotient) -> Value:
        """Two tensors at a time, in the best order; what lies between is kept too."""
        self.value(product)
        summed = frozenset(index.letter for index in e.indices)
        operands = tuple(letters for factor in factors_of(product) if (letters := self.letters(factor)))
        if len(operands) > 2:
            between = self.new(e, frozenset[str]().union(*operands))
            self.keep(between, contraction=Contraction(operands, summed, (True,) * len(operands)))
        return self.new(e)

    def applied(self, e: Apply) -> Value:
        arguments = [self.value(argument) for argument in e.arguments]
        own = self.new(e)
        if not own.trained:
            return own
        match row_of(e.name, bool(e.indices)).keeps:
            case "input":
                for argument in arguments:
                    self.keep(argument)
            case "output":
                self.keep(own)
            case "both":
                self.keep(arguments[0])
                self.keep(own)
            case "mask":
                self.keep(own, "mask")
            case "nothing":
                pass
            case _ as never:
                assert_never(never)
        return own

    def called(self, e: Apply) -> Value:
        """A layer is given values, and keeps them as its own body says."""
        need = self.need.get(id(e))
        given = [self.value(argument) for argument in e.arguments]
        if need is None:
            return self.new(e)
        callee, choices = self.flow.call(e, need, self.now)
        path = inside(self.path, e, self.loops, self.found.work.written(e, self.flow))
        turns = (*self.turns, turns_of(self.loops, need.cases))
        return _Body(self.found, callee, choices, given, path, turns).run()
