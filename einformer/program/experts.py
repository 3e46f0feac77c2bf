"""Rewrites the products of a function that run over chosen experts, so that these alone compute; whatever they are called.

In `p_x silu(g_xf) u_xf O_xfd` the weight p is zero but for T numbers of x (R10). So the sum over x is one over pairs of a row,
a number of the other letters of p, and an expert chosen for it; and g and u, which only such sums read, are computed for
these pairs only.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from einformer.language.primitives import CONDITIONS
from einformer.program import operations as op
from einformer.program.kernels import PAIR, Gathered, LinearMap, Picked, Routed
from einformer.program.matching import put_heads_first
from einformer.program.needs import Choice, Flow, Flows
from einformer.program.operations import Axes, Function, Line, Turns, Value, multiply, replace_operands, unite_axes
from einformer.program.rewrite import Rewriting, count_operands, count_reads, list_lines, walk, walk_lines


def find_routings(flows: Flows) -> dict[str, Routing]:
    settled = flows.settled() if flows.choose() else {}
    routings = {name: find_routing(flow.function, flow) for name, flow in settled.items()}
    return {name: routing for name, routing in routings.items() if routing is not None}


@dataclass(frozen=True, slots=True)
class Routing:
    """The experts of a function: their letter, how many of them are chosen, by which weight, for which rows.

    `sums` are the contractions over pairs, `tensors` the named values that are computed for pairs only.
    """

    function: Function
    letter: str
    weight: Value
    rows: Axes
    pairs: Value
    names: frozenset[Value]
    sums: frozenset[Value] = frozenset()
    tensors: frozenset[Value] = frozenset()
    computed: dict[Value, Value] = field(default_factory=dict, compare=False)  # for pairs

    @property
    def paired(self) -> frozenset[str]:
        return frozenset((*self.rows, self.letter))

    # ---------------------------------------------------------------------------------------------------- for pairs

    # A picked value is computed whole, and its numbers for the pairs are picked.
    def is_picked(self, value: Value) -> bool:
        whole = value in self.names and value not in self.tensors
        stands = not isinstance(value.operation, op.Map | op.Einsum | op.Reduce | op.Spread | op.Call)
        return value is self.weight or self.letter not in value.axes or whole or stands

    # Paired values are the sums over pairs, and the operands that are not there before.
    def find_paired(self) -> set[Value]:
        apart, todo = set(self.sums), [operand for value in self.sums for operand in value.operands]
        while todo:
            if (value := todo.pop()) not in apart and not self.is_picked(value):
                apart.add(value)
                todo += value.operands
        return apart

    def is_matrix(self, value: Value) -> bool:
        plain = value in self.names - self.tensors or isinstance(value.operation, op.View)
        return plain and self.letter in value.axes and not set(value.axes) & set(self.rows)

    def pair(self, value: Value) -> Value:
        if value not in self.computed:
            self.computed[value] = self.compute(value)
        return self.computed[value]

    # A value without an axis of experts is computed for each row, and picked.
    def compute(self, value: Value) -> Value:
        rest = tuple(letter for letter in value.axes if letter not in (*self.rows, self.letter))
        if self.is_picked(value):
            apart = {self.letter, *self.rows}.isdisjoint(value.axes)
            return value if apart else Value(Picked(value, self.pairs), (PAIR, *rest), value.kind, value.span)
        if (map_ := self.group(value)) is not None:
            kernel, around = map_
            whole = Value(replace(kernel, argument=self.pair(kernel.argument)), (PAIR, *kernel.rows[0]), "tensor", value.span)
            return multiply([whole, *map(self.pair, around)])
        operation = replace_operands(value.operation, self.pair)
        return replace(value, operation=operation, axes=(PAIR, *rest))

    # The product by expert that a value is, and the factors around it: one factor is a matrix for each expert.
    def group(self, value: Value) -> tuple[LinearMap, list[Value]] | None:
        if not isinstance(value.operation, op.Einsum) or len(value.operation.factors) < 2:
            return None
        summed, factors = set(value.operation.letters), value.operation.factors
        having, around = [f for f in factors if summed & set(f.axes)], [f for f in factors if not summed & set(f.axes)]
        for weight in (f for f in having if self.is_matrix(f) and summed <= set(f.axes)):
            rest = [f for f in having if f is not weight]
            apart = tuple(letter for letter in weight.axes if letter not in (*summed, self.letter))
            own = set(unite_axes(rest)) - summed
            alike = all(summed <= set(f.axes) for f in rest)  # else another order may be better
            if rest and apart and own and own <= {*self.rows, self.letter} and alike:
                columns = put_heads_first(tuple(letter for letter in weight.axes if letter in summed))
                x = multiply(rest)
                return LinearMap(x, (weight,), (), (columns,), (put_heads_first(apart),), (self.letter,), self.pairs), around
        return None

    # Values fit if no pair needs a matrix of its own.
    def fits(self, value: Value) -> bool:
        if self.is_picked(value):
            return True
        operation = value.operation
        bound = set(operation.letters) if isinstance(operation, op.Einsum | op.Reduce) else set[str]()
        if isinstance(operation, op.Call) or {self.letter, *self.rows} & bound:
            return False
        if (map_ := self.group(value)) is not None:
            return all(map(self.fits, (map_[0].argument, *map_[1])))
        heavy = (f for f in value.operands if bound and self.is_matrix(f))
        if any(set(f.axes) - bound - {self.letter} for f in heavy):
            return False
        return all(map(self.fits, value.operands))

    # ------------------------------------------------------------------------------------------------------ rewrite

    # A sum over pairs is the sum over its other letters.
    def sum_inside(self, value: Value) -> Value:
        assert isinstance(value.operation, op.Einsum)
        rest = tuple(letter for letter in value.operation.letters if letter != self.letter)
        axes = tuple(letter for letter in unite_axes(value.operation.factors) if letter not in rest)
        if rest:
            return replace(value, operation=replace(value.operation, letters=rest), axes=axes)
        return multiply(value.operation.factors)

    # Values for pairs are computed after the weight that chooses the pairs.
    def rewrite(self) -> Function:
        def rule(value: Value) -> Value:
            if value not in self.sums:
                return value
            paired = self.pair(self.sum_inside(value))
            return Value(Gathered(paired, self.pairs), value.axes, "tensor", value.span)

        rewriting, late, lines = Rewriting(rule, descending=True), list[Line](), list[Line]()
        for place, line in enumerate(walk_lines(self.function.lines)):
            if line.value in self.tensors:
                labels = ((PAIR,), *(label for label in line.labels if label[0] not in (*self.rows, self.letter)))
                line = replace(line, value=rewriting.rewrite(self.pair(line.value)), labels=labels)
                (late if place <= self.ready else lines).append(line)
            else:
                lines.append(rewriting.rewrite_equation(line))
            if place == self.ready:
                lines += late
        return replace(rewriting.rewrite_function(replace(self.function, lines=())), lines=tuple(lines))

    @property
    def ready(self) -> int:
        inside = set(walk(self.weight))
        lines = enumerate(walk_lines(self.function.lines))
        return max((place for place, line in lines if line.value in inside), default=-1)


# ------------------------------------------------------------------------------------------------------- recognition


# How the experts of a function are routed; None where it has none, or where something wants all of them.
def find_routing(function: Function, flow: Flow) -> Routing | None:
    if any(isinstance(line, Turns) or isinstance(line.value.operation, op.Recur) for line in function.lines):
        return None
    names = frozenset(line.value for line in list_lines(function))
    for weight, choice in _find_weights(function, flow):
        rows = tuple(letter for letter in weight.axes if letter != choice.letter)
        pairs = Value(Routed(weight, choice.number, rows, choice.letter), (PAIR,))
        routing = _find_sums(Routing(function, choice.letter, weight, rows, pairs, names), flow, choice)
        if rows and routing.sums and _is_sound(routing):
            return routing
    return None


def _walk_sums(function: Function) -> Iterator[tuple[int, Value, op.Einsum]]:
    seen = set[Value]()
    for place, line in enumerate(walk_lines(function.lines)):
        new = [*walk(line.value, seen=seen)][::-1]
        yield from ((place, value, value.operation) for value in new if isinstance(value.operation, op.Einsum))


def _find_weights(function: Function, flow: Flow) -> Iterator[tuple[Value, Choice]]:
    for _, _, total in _walk_sums(function):
        choices = flow.flows.choices(flow.nonzero_of(total.factors))
        sparse = [c for c in choices if c.letter in total.letters and not set(unite_axes(total.factors)) <= c.letters]
        for choice in sorted(sparse, key=lambda choice: (choice.letter, choice.of), reverse=True):  # the last that chooses
            weights = (_find_weight(factor, choice, flow) for factor in total.factors)
            yield from ((weight, choice) for weight in weights if weight is not None)


def _find_weight(value: Value, choice: Choice, flow: Flow) -> Value | None:
    match value.operation:
        case op.Map(name) | op.Reduce(name) if name in CONDITIONS or name == "top":
            return None
    if choice not in flow.flows.choices(flow.support(value).nonzero):
        return None
    if set(value.axes) == choice.letters:
        return value
    inside = value.operands if isinstance(value.operation, op.Map | op.Reduce | op.Einsum) else ()
    return next((weight for operand in inside if (weight := _find_weight(operand, choice, flow)) is not None), None)


# Sums come after the weight is known; the tensors are those that nothing else reads.
def _find_sums(start: Routing, flow: Flow, choice: Choice) -> Routing:
    own, sums, reads = set(walk(start.weight)), set[Value](), count_reads(start.function)
    for place, value, total in _walk_sums(start.function):
        wide = not set(unite_axes(total.factors)) <= {start.letter, *start.rows}
        over = start.letter in total.letters and wide and place > start.ready and value not in own
        if over and _by_row(total.factors, start) and choice in flow.flows.choices(flow.nonzero_of(total.factors)):
            sums.add(value)
    lines = walk_lines(start.function.lines)
    tensors = frozenset(line.value for line in lines if _may_be_paired(line, start) and line.value not in own)
    while True:
        routing = replace(start, sums=frozenset(sums), tensors=tensors, computed={})
        inside = count_operands(routing.find_paired())
        fewer = frozenset(value for value in tensors if inside[value] == reads[value] > 0)
        if fewer == tensors:
            return routing
        tensors = fewer


def _by_row(factors: tuple[Value, ...], routing: Routing) -> bool:
    rows, differing = set(routing.rows), [set(factor.axes) for factor in factors if routing.letter in factor.axes]
    return all(rows <= axes or not rows & axes for axes in differing)


def _may_be_paired(line: Line, routing: Routing) -> bool:
    letters = [letter for label in line.labels for letter in label]
    plain = len(letters) == len(line.labels) and line.equation is not None and line.equation.relation == "="
    return plain and {routing.letter, *routing.rows} <= set(letters)


# All that is wanted for pairs can be computed for pairs, and after the weight is known.
def _is_sound(routing: Routing) -> bool:
    lines = [*walk_lines(routing.function.lines)]
    for place, line in enumerate(lines):
        if line.value in routing.tensors:
            inside, later = set(walk(line.value)), lines[place + 1 : routing.ready + 1]
            changed = {other.name for other in later if other.equation is not None and other.equation.relation == "<-"}
            read = {other.name for other in (*routing.function.inputs, *lines) if other.value in inside}
            if not routing.fits(line.value) or changed & read:
                return False
    return all(routing.fits(routing.sum_inside(value)) for value in routing.sums)
