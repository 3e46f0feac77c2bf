"""Makes a program of a checked tree: names become values, slots become views and gathers, calls name functions."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import assert_never

from einformer.errors import EinformerError, Span
from einformer.language import tree
from einformer.language.calls import axis_of, callees, slot_letters
from einformer.language.primitives import CONSTANTS, row_of
from einformer.language.scope import factors_of
from einformer.language.sizes import Legend
from einformer.language.slots import Guards, IndexNumbers, Whole, keep_guards, split_condition
from einformer.language.specialise import specialise
from einformer.language.tree import Apply, Equation, Expression, Group, Index, Layer, Loop, Name, Spec, Statement, Tensor
from einformer.language.walk import equations, find_all, subexpressions
from einformer.language.weights import place
from einformer.program import operations as op
from einformer.program.operations import (
    Function,
    Kind,
    Label,
    Line,
    Turns,
    Value,
    combine_kinds,
    contract,
    gather,
    map_values,
    unite_axes,
)
from einformer.program.softmax import find_blind, is_weighed


# The program of a layer or model of a checked spec, and of all that it calls.
def lower(spec: Spec, name: str, legend: Legend) -> op.Program:
    special = specialise(spec, name)
    return op.Program(lower_functions(special, legend), name, find_time(special))


# The functions of a specialised spec, each after those that it calls. Without `run`, facts of slots and softmaxes that decide
# only how it runs are not proved.
def lower_functions(spec: Spec, legend: Legend, run: bool = True) -> dict[str, Function]:
    functions = {name: body.lower_layer() for name, body in list_bodies(spec, legend, run).items()}
    blind = find_blind(functions, legend, find_time(spec)) if run else frozenset[Span]()
    if not blind:
        return functions
    return {name: body.lower_layer() for name, body in list_bodies(spec, legend, run, blind).items()}


# Softmaxes over positions are `blind` where data may hide everything.
def list_bodies(spec: Spec, legend: Legend, run: bool = True, blind: frozenset[Span] = frozenset()) -> dict[str, Lowering]:
    layers, time, wholes = {layer.name: layer for layer in spec.layers}, find_time(spec), dict[str, Whole]()
    wholes |= {layer.name: Whole(layer, layers, legend, wholes) for layer in spec.layers}
    return {layer.name: Lowering(layer, layers, legend, time, wholes, run, blind) for layer in spec.layers}


def find_time(spec: Spec) -> str:
    return next((axis_of(layer.time.letter) for layer in spec.layers if layer.time), "")


@dataclass(slots=True)
class Lowering:
    """One layer being lowered: the value of each name at this line, which letters stand still, which branches are around.

    Inside an expression another body with the same names has other letters that stand still, or other branches around.
    """

    layer: Layer
    layers: Mapping[str, Layer]
    legend: Legend
    time: str
    wholes: Mapping[str, Whole] = field(default_factory=dict)
    run: bool = True
    blind: frozenset[Span] = frozenset()
    names: dict[str, Line] = field(default_factory=dict)
    weights: dict[str, Line] = field(default_factory=dict)
    scalars: dict[str, Line] = field(default_factory=dict)
    versions: Counter[tuple[str, int]] = field(default_factory=Counter)  # of each name, in as many loops
    depth: int = 0  # how many loops are around
    still: frozenset[str] = frozenset()
    branches: tuple[tuple[Value, bool], ...] = ()
    guards: Guards = ()  # the conditions of the branches as they are written
    bare: frozenset[str] = frozenset()  # the names of tensors without a subscript: others are sizes and scalars
    known: list[IndexNumbers] = field(default_factory=list)  # of the numbers of indices, once that is asked

    def lower_layer(self) -> Function:
        whole = self.wholes[self.layer.name].selecting
        lefts = [*self.layer.formals, *(q.left for q in equations(self.layer.body) if q.relation != "return")]
        stored = [weight for weight in self.layer.weights if weight.kind != "instance"]
        self.bare = frozenset(left.name for left in lefts if not slot_letters(left))
        self.bare |= {weight.name for weight in stored if not weight.indices}
        for formal in self.layer.formals:
            value = Value(
                op.Input(formal.name), slot_letters(formal), "integer" if formal.name in whole else "tensor", formal.span
            )
            self.names[formal.name] = Line(formal.name, value, find_labels(formal))
            self.versions[formal.name, 0] += 1
        inputs = tuple(self.names.values())
        for weight in stored:
            if weight.default is None or weight.optional:
                value = Value(op.StoredWeight(weight.name), tuple(i.letter for i in weight.indices), "tensor", weight.span)
                self.weights[weight.name] = Line(weight.name, value, tuple((letter,) for letter in value.axes))
        lines = self.lower_statements(self.layer.body)
        left, line = self.layer.output, self.names[self.layer.output.name]
        output = Line(left.name, relabel(line, find_labels(left), left.span), find_labels(left))
        weights, scalars = tuple(self.weights.values()), tuple(self.scalars.values())
        return Function(self.layer.name, inputs, weights, scalars, lines, output)

    # -------------------------------------------------------------------------------------------------- statements

    def lower_statements(self, body: tuple[Statement, ...]) -> tuple[Line | Turns, ...]:
        return tuple(self.lower_loop(s) if isinstance(s, Loop) else self.lower_equation(s) for s in body)

    def lower_equation(self, equation: Equation) -> Line:
        letter = find_recurrence(equation)
        value = self.value(equation.right) if letter is None else self.lower_recurrence(equation, letter)
        if self.renames(equation, value):
            value = replace(value, operation=op.Spread(value))
        line = self.keep_letters(equation, self.define(equation.left, value))
        self.names[line.name] = line = replace(line, equation=equation, version=self.count_version(line.name))
        return line

    # A tensor that `<-` changes keeps the letters under which it was defined.
    def keep_letters(self, equation: Equation, line: Line) -> Line:
        if equation.relation != "<-":
            return line
        labels = self.names[line.name].labels
        return replace(line, value=relabel(line, labels, equation.span), labels=labels)

    # `z`, then `z_2` in as many loops.
    def count_version(self, name: str) -> tuple[str, int]:
        self.versions[name, self.depth] += 1
        number = self.versions[name, self.depth]
        return name + (f"_{number}" if number > 1 else ""), self.depth

    # Another name is another value; so is a group of axes if it is changed.
    def renames(self, equation: Equation, value: Value) -> bool:
        grouped = any(len(label) > 1 for label in find_labels(equation.left))
        if equation.relation == "return" or (grouped and not self.is_changed(equation.left.name)):
            return False
        return any(value is line.value for line in self.names.values())

    def is_changed(self, name: str) -> bool:
        return any(q.relation == "<-" and q.left.name == name for q in equations(self.layer.body))

    def define(self, left: Tensor | Name, value: Value) -> Line:
        return Line(left.name, spread(value, slot_letters(left)), find_labels(left))

    # A tensor that the loop changes is another value in each turn, of one kind in all of them.
    def lower_loop(self, loop: Loop) -> Turns:
        changed = tuple(dict.fromkeys(q.left.name for q in equations(loop.body)))
        before = {name: self.names[name] for name in changed if name in self.names}
        kinds = {name: line.value.kind for name, line in before.items()}
        count, inner = self.value(loop.count), replace(self, still=self.still | {loop.index.letter}, depth=self.depth + 1)
        while True:
            inner.versions = Counter(self.versions)
            within = {name: stand_in(line, kinds[name]) for name, line in before.items()}
            self.names |= within
            lines = inner.lower_statements(loop.body)
            new = {name: combine_kinds([line.value, self.names[name].value]) for name, line in within.items()}
            if new == kinds:
                break
            kinds = new
        self.versions = inner.versions
        carried = tuple(self.carry(name, before.get(name), within.get(name)) for name in changed)
        return Turns(loop.index.letter, count, carried, lines, loop)

    # After the last turn the name stands for what that has left.
    def carry(self, name: str, before: Line | None, within: Line | None) -> op.Carried:
        last = self.names[name]
        self.names[name] = after = stand_in(last, within.value.kind if within else last.value.kind)
        start = within or stand_in(last, last.value.kind)
        return op.Carried(name, before.value if before else None, start.value, last.value, after.value)

    # A recurrence reads its own left side at earlier positions (R4).
    def lower_recurrence(self, equation: Equation, letter: str) -> Value:
        left = equation.left
        whole = self.wholes[self.layer.name].needs(Name(left.name)) == frozenset()
        so_far = Value(op.Input(left.name), slot_letters(left), "integer" if whole else "tensor", left.span)
        self.names[left.name] = Line(left.name, so_far, find_labels(left))
        step = replace(self, still=self.still | {letter}).value(equation.right)
        rest = tuple(other for other in so_far.axes if other != letter)
        recur = op.Recur(letter, spread(step, rest), so_far, self.measure_back(equation, letter))
        return Value(recur, so_far.axes, "tensor", equation.span)

    def measure_back(self, equation: Equation, letter: str) -> int:
        axis = find_labels(equation.left).index((letter,))
        own = (e for e in find_all(Tensor, equation.right) if e.name == equation.left.name)
        backs = [_measure_back(self.numbers, e.slots[axis], letter) for e in own]
        return max(backs) if all(backs) else 0

    # ------------------------------------------------------------------------------------------------- expressions

    def value(self, e: Expression) -> Value:
        match e:
            case tree.Number():
                return Value(op.Constant(e.value), (), "number" if isinstance(e.value, float) else "integer", e.span)
            case Name():
                return self.name(e)
            case Index() if e.letter in self.still:
                return Value(op.Turn(e.letter), (), "integer", e.span)
            case Index():
                return Value(op.Iota(e.letter), (e.letter,), "integer", e.span)
            case Tensor():
                return self.read(self.look_up(e.name), e)
            case Group():
                return self.number_group(e)
            case tree.Sum():
                return self.map("+", e.terms, e.span)
            case tree.Product():
                return self.map("*", e.factors, e.span)
            case tree.Quotient():
                return self.map("/", (e.numerator, e.denominator), e.span)
            case tree.Power():
                return self.map("^", (e.base, e.exponent), e.span)
            case Apply():
                return self.apply(e)
            case _:
                assert_never(e)

    def map(self, function: str, arguments: Iterable[Expression], span: Span) -> Value:
        return map_values(function, [self.value(argument) for argument in arguments], span)

    # `K` is a size where `K_dea` is a weight (R1).
    def name(self, e: Name) -> Value:
        if e.name in self.bare:
            return self.look_up(e.name).value
        whole = e.name not in CONSTANTS and self.legend.axis_of_size(e.name) is not None
        return Value(op.Constant(e.name), (), "integer" if whole else "number", e.span)

    # Row-major: `(ae)` is the number a H + e.
    def number_group(self, e: Group) -> Value:
        total: Value | None = None
        for member in e.members:
            number = self.value(member)
            if total is not None:
                letter = next(x.letter for x in find_all(Index, member))
                total = map_values("*", [total, self.size(letter)], e.span)
            total = number if total is None else map_values("+", [total, number], e.span)
        assert total is not None
        return total

    def size(self, letter: str) -> Value:
        return Value(op.Constant(f"|{axis_of(letter)}|"), (), "integer")

    def look_up(self, name: str) -> Line:
        if name in self.names:
            return self.names[name]
        weight = next((w for w in self.layer.weights if w.name == name), None)
        lines = self.scalars if weight is None else self.weights
        if name not in lines:
            lines[name] = self.scalar(name) if weight is None else self.tie(weight)
        return lines[name]

    def tie(self, weight: tree.Weight) -> Line:
        assert weight.default is not None
        return self.define(Tensor(weight.name, weight.indices), self.lower_apart(weight.default))

    # A formula of a scalar is lowered where no letter stands still.
    def scalar(self, name: str) -> Line:
        scalar = self.legend.scalars[name]
        if isinstance(scalar.value, tuple):
            letter = scalar.indices[0].letter
            value = Value(op.Table(name, letter), (letter,), "number", scalar.span)
        else:
            value = replace(self.lower_apart(scalar.value), kind="number")
        return self.define(Tensor(name, scalar.indices), value)

    def lower_apart(self, e: Expression) -> Value:
        return replace(self, still=frozenset(), branches=(), guards=()).value(e)

    # ------------------------------------------------------------------------------------------------------- slots

    # Slots that are letters rename axes; others are numbers at which the tensor is read (R4).
    def read(self, line: Line, e: Tensor, selects: bool = False) -> Value:
        if not e.slots:
            return line.value
        labels = tuple(map(list_letters, e.slots))
        letters = [letter for label in labels for letter in label]
        if all(labels) and self.still.isdisjoint(letters) and len(set(letters)) == len(letters):
            return relabel(line, labels, e.span)
        numbers = tuple(self.lower_slot(slot) for slot in e.slots)
        timed = tuple(not selects and axis_of(label[0]) == self.time and len(label) == 1 for label in line.labels)
        proved = map(self.stays, e.slots, line.labels, timed)
        return gather(line.value, [*map(op.Slot, line.labels, numbers, timed, proved)], e.span, self.branches)

    # The proof uses the conditions around the slot.
    def stays(self, slot: Expression, label: Label, timed: bool) -> bool:
        if list_letters(slot) or not self.run:
            return bool(list_letters(slot))
        try:
            length = math.prod(map(self.legend.length, label))
        except EinformerError:  # not bound
            return self.numbers.strays(slot, None, self.guards, timed)[1]
        return self.numbers.strays(slot, length, self.guards, timed)[1]

    @property
    def numbers(self) -> IndexNumbers:
        if not self.known:
            self.known.append(IndexNumbers.of(self.layer, self.legend, frozenset([self.time])))
        return self.known[0]

    # A tensor in a slot selects, so that it must not lie before the start of time.
    def lower_slot(self, slot: Expression) -> Value:
        return self.read(self.look_up(slot.name), slot, True) if isinstance(slot, Tensor) else self.value(slot)

    # --------------------------------------------------------------------------------------------------- operators

    def apply(self, e: Apply) -> Value:
        callee = callees(self.layer, self.layers).get(e.name)
        if callee is not None:
            own = {letter for tensor in (*callee.formals, callee.output) for letter in slot_letters(tensor)}
            return self.run_over(own, lambda inner: inner.call(e, callee))
        if e.name == "where":
            return self.choose(e)
        if e.indices:
            return self.run_over({index.letter for index in e.indices}, lambda inner: inner.operate(e))
        return self.map(e.name, self.complete_arguments(e), e.span)

    # Dropout has its probability from the legend where none is said.
    def complete_arguments(self, e: Apply) -> tuple[Expression, ...]:
        return (*e.arguments, Name("p")) if e.name == "Dr" and len(e.arguments) == 1 else e.arguments

    # Letters that stand still here run too: what is left of these is read where they stand.
    def run_over(self, letters: Iterable[str], f: Callable[[Lowering], Value]) -> Value:
        letters = set(letters)
        branches = tuple(branch for branch in self.branches if letters.isdisjoint(branch[0].axes))
        inside = replace(self, still=self.still - letters, branches=branches, guards=keep_guards(self.guards, letters))
        value = f(inside)
        if self.still.isdisjoint(value.axes):
            return value
        return gather(value, [op.Slot((letter,), self.value(Index(letter))) for letter in value.axes], value.span)

    # In each branch the condition holds or does not.
    def choose(self, e: Apply) -> Value:
        condition = self.value(e.arguments[0])
        arms = [self.lower_branch(e, condition, holds) for holds in (True, False)]
        axes, kind = unite_axes([condition, *arms]), combine_kinds(arms)
        return Value(op.Map("where", (condition, *arms)), axes, kind, e.span)

    def lower_branch(self, e: Apply, condition: Value, holds: bool) -> Value:
        branches, guards = (*self.branches, (condition, holds)), self.guards + split_condition(e.arguments[0], holds)
        return replace(self, branches=branches, guards=guards).value(e.arguments[1 if holds else 2])

    # A sum of a product is a contraction.
    def operate(self, e: Apply) -> Value:
        letters = tuple(index.letter for index in e.indices)
        *counts, argument = e.arguments
        if e.name == "sum":
            return contract(letters, tuple(self.list_factors(argument)), e.span)
        row, value, numbers = row_of(e.name, True), self.value(argument), tuple(map(self.value, counts))
        value = spread(value, (*value.axes, *(letter for letter in letters if letter not in value.axes)))
        axes = value.axes if row.kind == "keeping" else tuple(letter for letter in value.axes if letter not in letters)
        kind: Kind = "tensor" if row.condition or not set(axes) - set(letters) else value.kind
        weighs = not row.weighs or not self.run or self.is_weighed(e, value)
        return Value(op.Reduce(e.name, letters, value, numbers, weighs), axes, kind if kind != "integer" else "number", e.span)

    def is_weighed(self, e: Apply, value: Value) -> bool:
        letters = tuple(index.letter for index in e.indices)
        if any(axis_of(letter) == self.time != letter for letter in letters):
            return e.span not in self.blind
        return is_weighed(value, letters, self.legend)

    # A denominator is the factor one over it.
    def list_factors(self, e: Expression) -> Iterable[Value]:
        factors = factors_of(e) if isinstance(e, tree.Product | tree.Quotient) else (e,)
        for factor in factors[:-1] if isinstance(e, tree.Quotient) else factors:
            yield self.value(factor)
        if isinstance(e, tree.Quotient):
            yield map_values("/", [Value(op.Constant(1), (), "integer", e.span), self.value(e.denominator)], e.span)

    # Each argument has exactly the axes of its formal.
    def call(self, e: Apply, callee: Layer) -> Value:
        instance = any(weight.name == e.name for weight in self.layer.weights)
        whole = replace(self, branches=(), guards=())  # it is computed whole, whichever branch it stands in
        pairs = zip(callee.formals, e.arguments, strict=True)
        arguments = tuple(spread(whole.value(argument), slot_letters(formal)) for formal, argument in pairs)
        turns = tuple(index.letter for index in e.indices) if instance else ()
        call = op.Call(callee.name, e.name if instance else "", turns, arguments, place(e, self.layer))
        return Value(call, slot_letters(callee.output), "tensor", e.span)


# ---------------------------------------------------------------------------------------------------------------- values


# The index in whose order an equation must be solved: it reads its own left side at an earlier position (R4).
def find_recurrence(equation: Equation) -> str | None:
    if equation.relation != "=" or not isinstance(equation.left, Tensor):
        return None
    for e in subexpressions(equation.right):
        if isinstance(e, Tensor) and e.name == equation.left.name:
            for own, slot in zip(equation.left.slots, e.slots, strict=True):
                if isinstance(own, Index) and isinstance(slot, tree.Sum) and own in slot.terms:
                    return own.letter
    return None


# `(s - 1)` is 1 position back; a slot without a fixed number counts 0.
def _measure_back(numbers: IndexNumbers, slot: Expression, letter: str) -> int:
    letters = list(dict.fromkeys(x.letter for x in find_all(Index, slot) if x.letter != letter))
    ranges = [numbers.numbers(x, None) for x in letters]
    ends = itertools.product(*({*some[:1], *some[-1:]} for some, _ in ranges))
    try:
        values = [numbers.legend.number(slot, dict(zip(letters, place, strict=True)) | {letter: 0}) for place in ends] or [-1]
    except EinformerError:  # a size is open
        return 0
    fixed = all(whole for _, whole in ranges) and max(values) < 0 and all(value == int(value) for value in values)
    return -int(min(values)) if fixed else 0


def find_labels(left: Tensor | Name) -> tuple[Label, ...]:
    return tuple(map(list_letters, left.slots)) if isinstance(left, Tensor) else ()


# Only an index or a group of indices has letters.
def list_letters(slot: Expression) -> Label:
    if isinstance(slot, Index):
        return (slot.letter,)
    members = slot.members if isinstance(slot, Group) else (slot,)
    return tuple(m.letter for m in members if isinstance(m, Index)) if all(isinstance(m, Index) for m in members) else ()


def stand_in(line: Line, kind: Kind) -> Line:
    return replace(line, value=Value(op.Input(line.name), line.value.axes, kind, line.value.span), equation=None)


def relabel(line: Line, new: tuple[Label, ...], span: Span) -> Value:
    if new == line.labels:
        return line.value
    return Value(op.View(line.value, line.labels, new), op.join_labels(new), line.value.kind, span)


# The order holds where the value had not all of the letters.
def spread(value: Value, letters: op.Axes) -> Value:
    if value.axes == letters or (set(value.axes) == set(letters) and letters):
        return value
    kind: Kind = value.kind if letters else "tensor"
    return Value(op.Spread(value), letters, kind, value.span)
