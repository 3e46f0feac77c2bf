"""Where is a value zero, and where is it needed at all (R10)? Choices and masks, followed through the equations.

`p_x = where(top_{T,x}(r_x), r_x, 0)` is zero but for T numbers of x. In `p_x silu(g_xf) u_xf O_xfd` the other factors are
needed for those T only, and so is every tensor that is read nowhere else: the experts that compute. In the same way the
scores `q_bse k_bs'e` are needed only where a mask allows them. Supports are followed from the inputs to the output, and with
them what depends on trained weights; needs from the output back; a loop is repeated until nothing changes.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from einformer.language.calls import callees
from einformer.language.primitives import CONDITIONS, primitive
from einformer.language.scope import Scope, factors_of
from einformer.language.sizes import Legend
from einformer.language.tree import (
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
from einformer.language.walk import children, equations, subexpressions
from einformer.program.choices import (
    DENSE,
    NO_CHOICE,
    Choice,
    Choices,
    Support,
    bounds,
    by_letter,
    by_slot,
    in_call,
    shared,
    slots,
    union,
    without,
)
from einformer.program.inequalities import Facts
from einformer.program.positions import Analysis, Body
from einformer.program.turns import Case

_CONSTANT = CONDITIONS | {"floor", "ceil"}  # what has no gradient
_DEAF = frozenset(("Sm", "exp", "lse", "max"))  # what does not hear -inf: its result there is known


@dataclass(frozen=True, slots=True)
class Need:
    """Where an expression is needed: for these choices, in the turns of the loop in which these cases hold."""

    choices: Choices = NO_CHOICE
    cases: frozenset[Case] = frozenset()

    def chosen(self, choices: Choices) -> Need:
        """The need of what is used for these choices only."""
        return replace(self, choices=self.choices | choices)

    def case(self, condition: Expression, holds: bool) -> Need:
        """The need of a branch of `where` on layer numbers."""
        return replace(self, cases=self.cases | {Case(condition, holds)})


Known = Mapping[str, Support]  # of each defined tensor, by slot
Demand = Mapping[str, Choices]  # of each tensor that is needed later, for which choices, by slot


@dataclass(slots=True)
class Flows:
    """The flow of each layer of a specialised spec, by what is known of its inputs."""

    layers: Mapping[str, Layer]
    legend: Legend
    known: dict[tuple[str, tuple[Support, ...]], Flow] = field(default_factory=dict)

    def of(self, layer: Layer, inputs: tuple[Support, ...]) -> Flow:
        """The flow through a layer whose inputs have these supports."""
        key = (layer.name, inputs)
        if key not in self.known:
            self.known[key] = Flow(self, layer, inputs)
        return self.known[key]


class Flow:
    """One body: what is known before each equation, and for which choices each is needed. Equations go by their ids."""

    def __init__(self, flows: Flows, layer: Layer, inputs: tuple[Support, ...]) -> None:
        self.flows, self.layer = flows, layer
        self.callees = callees(layer, flows.layers)
        self.loops = frozenset(_loop_letters(layer.body))
        self.scope = Scope(self.callees, self.loops)
        tensors = (*layer.formals, *(equation.left for equation in equations(layer.body)))
        self.own = {(tensor.name, bool(slots(tensor))) for tensor in tensors}
        self.own |= {(weight.name, bool(weight.indices)) for weight in layer.weights}
        self.weights = {(weight.name, bool(weight.indices)) for weight in layer.weights if weight.kind == "trained"}
        facts = Facts(flows.legend, "", letters=True)
        arithmetic = Analysis(flows.layers, flows.legend, "", facts)
        self.numbers = Body(arithmetic, replace(layer, formals=(), body=()), (), ())
        self.bounded: dict[Apply, Choices] = {}
        self.known_at: dict[int, Known] = {}
        self.needed: dict[Choices, tuple[dict[int, Choices], Demand]] = {}
        formals = zip(layer.formals, inputs, strict=True)
        known = self.forward(layer.body, {formal.name: _by_slot(given, formal) for formal, given in formals})
        self.output = _by_letter(known[layer.output.name], layer.output)

    # --------------------------------------------------------------------------------------------------- supports

    def forward(self, body: tuple[Statement, ...], known: Known) -> Known:
        """What is known after some statements."""
        for statement in body:
            if isinstance(statement, Loop):
                known = self.repeated(statement, known)
            else:
                support = _by_slot(self.support(statement.right, known), statement.left)
                own = {statement.left.name: Support(trained=support.trained)}  # a recurrence reads itself
                self.known_at[id(statement)] = {**own, **known}
                known = {**known, statement.left.name: support}
        return known

    def repeated(self, loop: Loop, start: Known) -> Known:
        """What holds before each turn of a loop and after the last."""
        while True:
            after = self.forward(loop.body, start)
            met = {name: _kept(known.meet(start.get(name, known)), loop) for name, known in after.items()}
            if all(met[name] == start[name] for name in start):
                return met
            start = {name: met[name] for name in start}

    def zero_in(self, equation: Equation, e: Expression) -> Choices:
        """Outside which choices e is zero, in an equation."""
        return self.zeros(e, self.known_at[id(equation)]).zero

    def support(self, e: Expression, known: Known) -> Support:
        """What e is outside some choices, and whether it depends on trained weights."""
        return replace(self.zeros(e, known), trained=self.trained(e, known))

    def trained(self, e: Expression, known: Known) -> bool:
        """Has e a gradient with respect to some weight, or to an input that has one?"""
        match e:
            case Tensor() | Name():
                own = (e.name, bool(slots(e)))
                return own in self.weights or (own in self.own and e.name in known and known[e.name].trained)
            case Apply() if e.name in self.callees:
                return self.flows.of(self.callees[e.name], self.inputs(e, known)).output.trained
            case Apply() if e.name in _CONSTANT:
                return False
            case Apply(name="where"):
                return any(self.trained(branch, known) for branch in e.arguments[1:])
            case _:
                return any(self.trained(child, known) for child in children(e))

    def zeros(self, e: Expression, known: Known) -> Support:
        """What e is outside some choices."""
        match e:
            case Tensor() if e.name in known:
                return _by_letter(known[e.name], e)
            case Product():
                return Support(union(self.zeros(factor, known).zero for factor in e.factors))
            case Quotient():
                return Support(self.zeros(e.numerator, known).zero)
            case Sum():
                terms = [self.zeros(term, known) for term in e.terms]
                return Support(shared(term.zero for term in terms), union(term.infinite for term in terms))
            case Power(exponent=Number(value=value)) if value > 0:
                return Support(self.zeros(e.base, known).zero)
            case Apply() if e.name in self.callees:
                return self.called(e, known)
            case Apply():
                return self.applied(e, [self.zeros(argument, known) for argument in e.arguments])
            case _:
                return DENSE

    def applied(self, e: Apply, arguments: list[Support]) -> Support:
        """A primitive of values with these supports; a condition counts as zero where it does not hold."""
        match e.name:
            case "where":
                return _branches(e, *arguments)
            case "top" if len(e.indices) == 1 and not self.scope.free(e.arguments[0]):
                letter, along = e.indices[0].letter, frozenset(self.scope.free(e.arguments[1]))
                return Support(frozenset({Choice(letter, e.arguments[0], along - {letter}, (id(e),))}))
            case "and":
                return Support(union((self.bounds(e), arguments[0].zero, arguments[1].zero)))
            case "or":
                return Support(union((self.bounds(e), arguments[0].zero & arguments[1].zero)))
            case name if name in CONDITIONS and not e.indices:
                return Support(self.bounds(e))
            case "Sm" | "exp":
                return Support(arguments[0].infinite)
        row = primitive(e.name, bool(e.indices))
        if row is None or not row.zero:
            return DENSE
        return Support(without(arguments[0].zero, e))

    def bounds(self, e: Apply) -> Choices:
        """What a condition says of two positions."""
        if e not in self.bounded:
            found = bounds(self.numbers.condition(e), self.numbers.facts)
            self.bounded[e] = frozenset(bound for bound in found if not bound.places & self.loops)
        return self.bounded[e]

    def on_layers(self, e: Apply) -> bool:
        """Is e a `where` on nothing but the numbers of layers and the legend (R8)?"""
        return e.name == "where" and all(map(self.constant, subexpressions(e.arguments[0])))

    def constant(self, e: Expression) -> bool:
        """Is this node of an expression the same for every position, feature and input?"""
        match e:
            case Index():
                return e.letter in self.loops
            case Tensor():
                return e.name in self.flows.legend.scalars and (e.name, True) not in self.own
            case Name():
                return (e.name, False) not in self.own
            case Apply():
                return not e.indices and e.name not in self.callees
            case _:
                return True

    def called(self, e: Apply, known: Known) -> Support:
        """The output of a call."""
        inputs = self.inputs(e, known)
        output = self.flows.of(self.callees[e.name], inputs).output
        outside = union(given.zero | given.infinite for given in inputs)
        return output.each(lambda choices: in_call(choices, e, outside))

    def call(self, e: Apply, need: Need, equation: Equation) -> tuple[Flow, Choices]:
        """The flow through the layer that an equation calls, and the choices for which its output is needed."""
        return self.flows.of(self.callees[e.name], self.inputs(e, self.known_at[id(equation)])), need.choices

    def inputs(self, e: Apply, known: Known) -> tuple[Support, ...]:
        """The supports of what a call is given."""
        return tuple(self.support(argument, known) for argument in e.arguments)

    # ------------------------------------------------------------------------------------------------------ needs

    def needs(self, output: Choices) -> Mapping[int, Choices]:
        """For which choices, by letter, each equation is needed, where the output is needed for `output`."""
        return self.backwards(output)[0]

    def demand(self, output: Choices) -> tuple[Choices, ...]:
        """For which choices, by letter, each input is needed."""
        demand = self.backwards(output)[1]
        return tuple(by_letter(demand.get(formal.name, NO_CHOICE), formal) for formal in self.layer.formals)

    def backwards(self, output: Choices) -> tuple[dict[int, Choices], Demand]:
        """The needs of all equations, and the demand that is left at the start."""
        if output not in self.needed:
            found: dict[int, Choices] = {}
            start = {self.layer.output.name: by_slot(output, self.layer.output)}
            self.needed[output] = found, self.backward(self.layer.body, start, found)
        return self.needed[output]

    def backward(self, body: tuple[Statement, ...], demand: Demand, found: dict[int, Choices]) -> Demand:
        """What is needed before some statements, of what is needed after them."""
        for statement in reversed(body):
            if isinstance(statement, Loop):
                after = demand
                while (start := _either(after, self.turn(statement, demand, found))) != demand:
                    demand = start
            else:
                demand = self.before(statement, demand, found)
        return demand

    def turn(self, loop: Loop, demand: Demand, found: dict[int, Choices]) -> Demand:
        """What is needed before a turn of a loop. Its choices are others in each turn, together perhaps all."""
        made = {id(e) for equation in equations(loop.body) for e in subexpressions(equation.right)}
        before = self.backward(loop.body, demand, found)
        return {
            name: frozenset(c for c in _lasting(choices, loop) if not (isinstance(c, Choice) and c.of[0] in made))
            for name, choices in before.items()
        }

    def before(self, equation: Equation, demand: Demand, found: dict[int, Choices]) -> Demand:
        """The same for one equation: a tensor that is not needed asks for nothing."""
        name = equation.left.name
        if name not in demand:
            found[id(equation)] = NO_CHOICE
            return demand
        own = demand[name]
        while True:
            need = by_letter(own, equation.left)
            read = self.reads(equation, need)
            if equation.relation == "<-" or own & read.get(name, own) == own:
                break
            own = own & read[name]  # a recurrence reads itself
        found[id(equation)] = need
        return _either({other: choices for other, choices in demand.items() if other != name}, read)

    def reads(self, equation: Equation, need: Choices) -> Demand:
        """The tensors of a right side that is needed for these choices."""
        found: dict[str, Choices] = {}
        for e, inner in self.expressions(equation, need):
            if isinstance(e, Tensor | Name):
                choices = by_slot(inner.choices, e)
                found[e.name] = found.get(e.name, choices) & choices
        return found

    def expressions(self, equation: Equation, need: Choices) -> Iterator[tuple[Expression, Need]]:
        """Everything in a right side that is needed for these choices, each with where it is needed, outside first."""
        known = self.known_at[id(equation)]
        below = [(equation.right, Need(need))]
        while below:
            e, inner = below.pop()
            yield e, inner
            below += reversed(list(self.inside(e, inner, known)))

    def inside(self, e: Expression, need: Need, known: Known) -> Iterable[tuple[Expression, Need]]:
        """The children of e, each with where it is needed."""
        match e:
            case Product() | Quotient():  # each factor only where none is zero
                inner = need.chosen(self.support(e, known).zero)
                return [(factor, inner) for factor in factors_of(e)]
            case Apply(name="where"):
                return self.where(e, need, known)
            case Apply() if e.name in self.callees:
                return self.arguments(e, need, known)
            case Apply():
                inner = replace(need, choices=without(need.choices, e))
                deaf = self.support(e.arguments[0], known).infinite if e.name in _DEAF and len(e.arguments) == 1 else NO_CHOICE
                return [(argument, inner.chosen(deaf)) for argument in e.arguments]
            case _:
                return [(child, need) for child in children(e)]

    def where(self, e: Apply, need: Need, known: Known) -> Iterator[tuple[Expression, Need]]:
        """The branch that is not taken is not evaluated (R8)."""
        condition, then, otherwise = e.arguments
        on_layers = self.on_layers(e)
        yield condition, need
        yield then, need.case(condition, True) if on_layers else need.chosen(self.support(condition, known).zero)
        yield otherwise, need.case(condition, False) if on_layers else need

    def arguments(self, e: Apply, need: Need, known: Known) -> Iterator[tuple[Expression, Need]]:
        """What a call is given is needed where its body needs it."""
        inputs = self.inputs(e, known)
        demand = self.flows.of(self.callees[e.name], inputs).demand(need.choices)
        outside = need.choices | union(given.zero | given.infinite for given in inputs)
        for argument, choices in zip(e.arguments, demand, strict=True):
            yield argument, replace(need, choices=in_call(choices, e, outside))


def _loop_letters(body: tuple[Statement, ...]) -> Iterator[str]:
    for statement in body:
        if isinstance(statement, Loop):
            yield statement.index.letter
            yield from _loop_letters(statement.body)


def _either(left: Demand, right: Demand) -> Demand:
    """What is needed for the one or for the other."""
    return {**left, **right, **{name: left[name] & right[name] for name in left.keys() & right.keys()}}


def _branches(e: Apply, condition: Support, then: Support, otherwise: Support) -> Support:
    """`where(c, y, 0)` is zero outside c, `where(c, y, -inf)` is -inf there; a c on layers chooses nothing."""
    zero, infinite = condition.zero | then.zero, condition.zero | then.infinite
    return Support(
        zero if e.arguments[2] == Number(0) else zero & otherwise.zero,
        infinite if e.arguments[2] == Number(-math.inf) else infinite & otherwise.infinite,
    )


def _by_slot(support: Support, tensor: Tensor | Name) -> Support:
    """Where a tensor that is defined so is zero."""
    return support.each(lambda choices: by_slot(choices, tensor))


def _by_letter(support: Support, tensor: Tensor | Name) -> Support:
    """Where a tensor that is read so is zero."""
    return support.each(lambda choices: by_letter(choices, tensor))


def _kept(support: Support, loop: Loop) -> Support:
    return support.each(lambda choices: _lasting(choices, loop))


def _lasting(choices: Choices, loop: Loop) -> Choices:
    """Those that are the same in each turn: a window `W_l` is not."""
    turning = loop.index
    return frozenset(c for c in choices if isinstance(c, Choice) or turning not in subexpressions(c.least))
