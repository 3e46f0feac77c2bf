"""Which products of a layer run over the chosen experts alone? Recognised from the equations, whatever they are called.

In `p_x silu(g_xf) u_xf O_xfd` the weight p is zero but for T numbers of x (R10). So the sum over x is one over pairs of a row,
a number of the other letters of p, and an expert chosen for it; and what is read in such sums only, g and u, is computed for
these pairs only.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import reduce

from einformer.language.calls import calls
from einformer.language.primitives import CONDITIONS
from einformer.language.scope import Scope, factors_of
from einformer.language.sizes import Legend
from einformer.language.tree import Apply, Equation, Expression, Index, Layer, Product, Quotient, Spec, Statement, Tensor
from einformer.language.walk import children, equations, subexpressions
from einformer.program.choices import DENSE, Choice, Support, chosen, made_by
from einformer.program.linear import Letters, Linear, heads_first, letters, reads
from einformer.program.recurrences import recurrent
from einformer.program.support import Flow, Flows

PAIR = "a pair of a row and one of its experts"  # the index of what is computed for those chosen


@dataclass(frozen=True, slots=True)
class Routing:
    """The experts of a layer: their letter, how many of them are chosen, by which weight, for which rows.

    `sums`: of each node over pairs, by id, what it adds up; `tensors`: the names of what is computed for pairs only.
    """

    letter: str
    count: Expression
    weight: Expression
    rows: Letters
    sums: Mapping[int, Expression]
    tensors: frozenset[str]
    scope: Scope

    def mentions(self, e: Expression) -> bool:
        """Is e another for each expert?"""
        return self.letter in self.scope.free(e)

    def paired(self, equation: Equation) -> bool:
        """Is an equation computed for pairs only?"""
        return equation.left.name in self.tensors

    def reached(self, equation: Equation) -> bool:
        """Does an equation need the pairs?"""
        return self.paired(equation) or any(id(e) in self.sums for e in subexpressions(equation.right))

    def apart(self, equation: Equation) -> set[int]:
        """The nodes of an equation that are computed for pairs, by id."""
        return {*self.sums, *([id(equation.right)] if self.paired(equation) else ())}

    def inside(self, equation: Equation) -> set[int]:
        """The same, with all that is inside of them."""
        apart = self.apart(equation)
        return {id(inner) for e in subexpressions(equation.right) if id(e) in apart for inner in subexpressions(e)}

    def nodes(self, equation: Equation) -> Iterator[Expression]:
        """All of a right side, and what is added up there."""
        for e in subexpressions(equation.right):
            yield e
            if id(e) in self.sums:
                yield self.sums[id(e)]


def grouped(e: Expression, routing: Routing) -> Linear | None:
    """The product by expert that e is: one factor is a matrix for each expert, the same for all rows."""
    if not (isinstance(e, Apply) and e.name == "sum" and isinstance(e.arguments[0], Product)):
        return None
    summed, free = {index.letter for index in e.indices}, routing.scope.free
    having = [f for f in e.arguments[0].factors if summed & set(free(f))]
    around = tuple(f for f in e.arguments[0].factors if f not in having)
    for weight in (f for f in having if isinstance(f, Tensor) and _is_matrix(f, routing) and summed <= set(letters(f))):
        rest = tuple(f for f in having if f is not weight)
        apart = tuple(letter for letter in letters(weight) if letter not in (*summed, routing.letter))
        rows, columns = heads_first(apart), heads_first(tuple(letter for letter in letters(weight) if letter in summed))
        x = rest[0] if len(rest) == 1 else Product(rest, span=e.span)
        own = set(free(x)) - summed
        alike = all(summed <= set(free(f)) for f in rest)  # else another order may be better
        if rest and rows and own and own <= {*routing.rows, routing.letter} and alike:
            return Linear(x, weight, rows, columns, experts=(routing.letter,), around=around)
    return None


def _is_matrix(e: Tensor, routing: Routing) -> bool:
    """Is a tensor another for each expert, and the same for each row?"""
    plain = all(isinstance(slot, Index) for slot in e.slots) and e.name not in routing.tensors
    return plain and routing.letter in letters(e) and not set(letters(e)) & set(routing.rows)


def routings(spec: Spec) -> dict[str, Routing]:
    """How the experts of each layer are routed, of those that have some."""
    if not any(call.name == "top" for layer in spec.layers for call in calls(layer)):
        return {}
    flows = Flows({layer.name: layer for layer in spec.layers}, Legend.of(spec))
    for layer in reversed(spec.layers):  # callers stand last
        if all(name != layer.name for name, _ in flows.known):
            flows.of(layer, (DENSE,) * len(layer.formals))
    known = tuple(flows.known)
    found = {layer.name: routing(flows.of(layer, _given(layer, known))) for layer in spec.layers}
    return {name: routed for name, routed in found.items() if routed is not None}


def _given(layer: Layer, known: Iterable[tuple[str, tuple[Support, ...]]]) -> tuple[Support, ...]:
    """What is known of the inputs of a layer in all its calls, whatever each of them chooses by."""
    inputs = zip(*(supports for name, supports in known if name == layer.name), strict=True)
    return tuple(_common(some, id(formal)) for formal, some in zip(layer.formals, inputs, strict=True))


def _common(supports: Iterable[Support], maker: int) -> Support:
    return reduce(Support.meet, (support.each(lambda choices: made_by(choices, maker)) for support in supports))


def routing(flow: Flow) -> Routing | None:
    """How the experts of a layer are routed; None where it has none, or where something wants all of them."""
    if any(not isinstance(statement, Equation) or recurrent(statement) for statement in flow.layer.body):
        return None
    for weight, choice in _weights(flow):
        rows = tuple(letter for letter in flow.scope.free(weight) if letter != choice.place)
        found = _found(flow, choice, Routing(choice.place, choice.count, weight, rows, {}, frozenset(), flow.scope))
        if rows and found.sums and _is_sound(flow.layer, found):
            return found
    return None


def _weights(flow: Flow) -> Iterator[tuple[Expression, Choice]]:
    """What makes the sums of a layer over chosen numbers sparse."""
    for equation in equations(flow.layer.body):
        for e in _sums(equation):
            for choice in reversed(chosen(flow.zero_in(equation, e.arguments[0]), _bound(e))):
                weight = _weight(e.arguments[0], choice, flow, equation)
                if weight is not None:
                    yield weight, choice


def _sums(equation: Equation) -> Iterator[Apply]:
    return (e for e in subexpressions(equation.right) if isinstance(e, Apply) and e.name == "sum")


def _weight(e: Expression, choice: Choice, flow: Flow, equation: Equation) -> Expression | None:
    """The part of e that is zero by a choice, and has one number for each row and expert."""
    if choice not in flow.zero_in(equation, e) or (isinstance(e, Apply) and e.name in CONDITIONS):
        return None
    if set(flow.scope.free(e)) == choice.places:
        return e
    inside: tuple[Expression, ...] = children(e) if isinstance(e, Product | Quotient | Apply) else ()
    if isinstance(e, Tensor):
        defined = [q for q in equations(flow.layer.body) if q.left.name == e.name]
        inside, equation = ((defined[0].right,), defined[0]) if len(defined) == 1 and defined[0].left == e else ((), equation)
    return next((found for each in inside if (found := _weight(each, choice, flow, equation)) is not None), None)


def _found(flow: Flow, choice: Choice, start: Routing) -> Routing:
    """The sums over pairs after the weight is known, and what nothing else reads."""
    layer, sums, own = flow.layer, dict[int, Expression](), {id(e) for e in subexpressions(start.weight)}
    for equation in list(equations(layer.body))[ready(layer, start) + 1 :]:
        for e in _sums(equation):
            if id(e) not in own and start.letter in _bound(e):
                wide = not set(start.scope.free(e.arguments[0])) <= {start.letter, *start.rows}
                if wide and _by_row(e.arguments[0], start) and choice in flow.zero_in(equation, e.arguments[0]):
                    sums[id(e)] = _inner(e, start.letter)
    found = replace(start, sums=sums)
    defined = {q.left.name for q in equations(layer.body) if _may_be_paired(q, layer, start)}
    while wanted := {
        name for name in defined if not _is_read_for_pairs(name, layer, replace(found, tensors=frozenset(defined)))
    }:
        defined -= wanted
    return replace(found, tensors=frozenset(defined))


def _by_row(e: Expression, routing: Routing) -> bool:
    """Is each factor that is another for each expert one for each row, or the same for all rows? Keys are neither."""
    rows, free = set(routing.rows), routing.scope.free
    differing = (f for f in (factors_of(e) if isinstance(e, Product | Quotient) else (e,)) if routing.letter in free(f))
    return all(rows <= set(free(f)) or not rows & set(free(f)) for f in differing)


def _inner(e: Apply, letter: str) -> Expression:
    """What a sum over pairs adds up: the sum over its other letters."""
    rest = tuple(index for index in e.indices if index.letter != letter)
    return replace(e, indices=rest) if rest else e.arguments[0]


def _may_be_paired(equation: Equation, layer: Layer, routing: Routing) -> bool:
    """Is a tensor defined once, for each row and each expert?"""
    some, name = letters(equation.left), equation.left.name
    once = sum(q.left.name == name for q in equations(layer.body)) == 1 and reads(name, layer) and name != layer.output.name
    return (
        bool(once) and equation.relation == "=" and {routing.letter, *routing.rows} <= set(some) and len(some) == len(set(some))
    )


def _is_read_for_pairs(name: str, layer: Layer, routing: Routing) -> bool:
    """Is a tensor read as it is defined, and inside sums over pairs or by what is computed for pairs only?"""
    for equation in equations(layer.body):
        inside = {id(x) for e in subexpressions(equation.right) if id(e) in routing.sums for x in subexpressions(e)}
        weighed = {id(x) for x in subexpressions(routing.weight)}
        for e in subexpressions(equation.right):
            if isinstance(e, Tensor) and e.name == name:
                apart = id(e) not in inside and not routing.paired(equation)
                if apart or id(e) in weighed or e != _left(name, layer):
                    return False
    return True


def _left(name: str, layer: Layer) -> Expression:
    return next(q.left for q in equations(layer.body) if q.left.name == name)


def ready(layer: Layer, routing: Routing) -> int:
    """The number of the equation after which the weight of the experts is known; -1 where it is from the start."""
    read = {e.name for e in subexpressions(routing.weight) if isinstance(e, Tensor)}
    places = [at for at, q in enumerate(equations(layer.body)) if q.left.name in read and q.relation != "return"]
    return max(places, default=-1)


def ordered(layer: Layer, routing: Routing) -> tuple[Statement, ...]:
    """The body of a layer with what is computed for pairs after the weight that says which they are."""
    known = ready(layer, routing)
    late = [q for q in layer.body[: known + 1] if isinstance(q, Equation) and routing.paired(q)]
    return (*(q for q in layer.body[: known + 1] if q not in late), *late, *layer.body[known + 1 :])


def _is_sound(layer: Layer, routing: Routing) -> bool:
    """Can all that is wanted for pairs be computed for pairs, and after the weight is known?"""
    known, body = ready(layer, routing), list(equations(layer.body))
    for at, equation in enumerate(body):
        if routing.paired(equation) and not _fits(equation.right, routing):
            return False
        read = {e.name for e in subexpressions(equation.right) if isinstance(e, Tensor)}
        changed = {q.left.name for q in body[at + 1 : known + 1] if q.relation == "<-"}
        if routing.paired(equation) and read & changed:
            return False
    return all(_fits(e, routing) for e in routing.sums.values())


def _fits(e: Expression, routing: Routing) -> bool:
    """Can e be computed for pairs, without a matrix for each of them?"""
    if e == routing.weight or not routing.mentions(e):
        return True
    if isinstance(e, Tensor):
        return True
    if isinstance(e, Apply) and (e.name in routing.scope.layers or {routing.letter, *routing.rows} & _bound(e)):
        return False
    if (found := grouped(e, routing)) is not None:
        return all(_fits(each, routing) for each in (found.x, *found.around))
    factors = e.arguments[0].factors if isinstance(e, Apply) and isinstance(e.arguments[0], Product) else ()
    heavy = (f for f in factors if isinstance(f, Tensor) and _is_matrix(f, routing))
    if isinstance(e, Apply) and e.indices and any(set(letters(f)) - _bound(e) - {routing.letter} for f in heavy):
        return False
    return all(_fits(child, routing) for child in children(e))


def _bound(e: Apply) -> set[str]:
    return {index.letter for index in e.indices}


def products(equation: Equation, routing: Routing) -> Iterator[tuple[Expression, Linear]]:
    """The products by expert in an equation, the outermost first."""

    def visit(e: Expression) -> Iterator[tuple[Expression, Linear]]:
        if (found := grouped(e, routing)) is not None:
            yield e, found
        for child in (found.x, *found.around) if found else children(e):
            yield from visit(child)

    if routing.paired(equation):
        yield from visit(equation.right)
    for e in subexpressions(equation.right):
        if id(e) in routing.sums:
            yield from visit(routing.sums[id(e)])
