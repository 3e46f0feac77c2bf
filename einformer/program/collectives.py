"""Rewrites a program for one rank of a mesh, where each tensor is split along the indices that it carries.

Over each axis of the mesh a value is whole (the same on every rank), split (by an index that it carries), or in parts, whose
sum over the ranks it is. A sum over a split index is in parts; what is linear passes parts on; before anything else they are
summed, by one all-reduce. Whole tensors that meet what differs between ranks are varied: the same numbers, whose gradient is
summed over the ranks.

An index that yields (`tp: g f v (s)`) is split in what nothing else of its axis splits, from the first sum of parts on: that is
a reduce-scatter, and what is wanted whole again is gathered. Both are the general rules: a rank's own numbers of an all-reduce,
and an all-gather that is varied.

An index of weights that yields to the batch (`ep: b (x)`) is split in weights, which are gathered where they are read. Values
for pairs of a row and an expert travel instead: products with split experts are computed by the ranks that have these.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from einformer.errors import Span, fail
from einformer.language.calls import axis_of
from einformer.language.sizes import Legend
from einformer.language.tree import Expression, Spec
from einformer.program import operations as op
from einformer.program.kernels import PAIR, Gathered, LinearMap, Picked, Routed
from einformer.program.operations import Axes, Carried, Function, Line, Turns, Value, map_values, replace_operands, unite_axes
from einformer.program.rewrite import Rewriting, walk_calls, walk_carried, walk_lines, walk_values
from einformer.program.sharding import Sharding, Window, clash, is_own, is_size, own, refuse_unused
from einformer.program.windows import find_windows

Version = tuple[str, str, int]  # a tensor of a layer, and in how many loops it is defined
Parts = Mapping[str, Axes]  # the axes of the mesh over which a value is in parts, with the indices that were summed
NO_PARTS: Parts = {}


@dataclass(frozen=True, slots=True)
class Rank(op.Rewritten):
    """The number of this rank along an axis of the mesh."""

    mesh: str


@dataclass(frozen=True, slots=True)
class Placed(op.Rewritten):
    """The numbers of a split index that this rank has, in its order."""

    letter: str
    mesh: str


@dataclass(frozen=True, slots=True)
class Shifted(op.Rewritten):
    """Numbers of a slot, less the first that this rank has of an axis whose letters these are."""

    argument: Value
    mesh: str
    label: Axes


@dataclass(frozen=True, slots=True)
class Inside(op.Rewritten):
    """Numbers of a slot, which are looked at when it runs: each lies below the size."""

    argument: Value
    size: int


@dataclass(frozen=True, slots=True)
class Collective(op.Rewritten):
    """A value that ranks exchange along an axis of the mesh, forward or backward."""

    argument: Value
    mesh: str


@dataclass(frozen=True, slots=True)
class AllReduce(Collective):
    """The sum of parts, which come of a sum over `letters`. The gradient of each part is the gradient of the sum."""

    letters: Axes


@dataclass(frozen=True, slots=True)
class Vary(Collective):
    """A whole value where it meets values that differ between ranks. Its gradient is the sum of theirs."""


@dataclass(frozen=True, slots=True)
class AllGather(Collective):
    """All numbers of a split index, under `whole`. The gradient of a rank's numbers is its part of the whole gradient."""

    letter: str
    whole: str


@dataclass(frozen=True, slots=True)
class AllGatherVary(AllGather):
    """An all-gather of which each rank makes something else: its gradient is a reduce-scatter."""


@dataclass(frozen=True, slots=True)
class Neighbours(AllGather):
    """A rank's own numbers of a split index and those that its neighbours have near them, of which it makes something else."""

    window: Window
    moves: bool

    @property
    def near(self) -> tuple[str, Window]:
        return self.whole, self.window


@dataclass(frozen=True, slots=True)
class Ring(AllGather):
    """All numbers of a split index, block by block: those of a rank go round the others. Only attention reads them so."""

    before: Expression | None  # how far before and after its own positions a rank reads; none without a bound
    after: Expression | None
    moves: bool


@dataclass(frozen=True, slots=True)
class Near(op.Rewritten):
    """An index that is a window, as a number: without axes the first of its numbers."""

    near: tuple[str, Window]


@dataclass(frozen=True, slots=True)
class Own(Collective):
    """A rank's own numbers of a whole index, under `letter`. The gradient, if there is one, is gathered from all ranks."""

    whole: str
    letter: str
    moves: bool


@dataclass(frozen=True, slots=True)
class ReduceScatter(Collective):
    """A rank's own numbers of the sum of parts, which come of a sum over `letters`. The gradient is gathered."""

    letters: Axes
    whole: str
    letter: str
    moves: bool


@dataclass(frozen=True, slots=True)
class Sent(Collective):
    """The pairs at the ranks of their experts. Ranks exchange how many each expert has."""


@dataclass(frozen=True, slots=True)
class Dispatch(Collective):
    """A value for pairs, at the ranks of their experts. The gradient, if there is one, comes back."""

    sent: Value
    moves: bool


@dataclass(frozen=True, slots=True)
class Combine(Dispatch):
    """A value for pairs, back at the ranks of their rows. The gradient, if there is one, is dispatched."""


@dataclass(frozen=True, slots=True)
class Largest(Collective):
    """The largest numbers along some letters, on all ranks; without a gradient."""

    letters: Axes


_NAMES = {
    AllReduce: "sum",
    ReduceScatter: "sum",
    Vary: "x",
    AllGather: "all",
    AllGatherVary: "all",
    Neighbours: "near",
    Own: "own",
    Largest: "max",
    Shifted: "place",
    Sent: "pairs",
    Dispatch: "rows",
    Combine: "rows",
}  # of what has none


# The functions of one rank, each after those that it calls. Raises EinformerError E741, E743, E744. Parts of a tensor of which
# a version is `kept` are summed before they are kept.
def shard(
    functions: Mapping[str, Function],
    spec: Spec,
    name: str,
    sharding: Sharding,
    legend: Legend,
    kept: frozenset[Version] = frozenset(),
) -> dict[str, Function]:
    return {layer: function for layer, function, _ in _shard_functions(functions, spec, name, sharding, legend, kept)}


# The indices of each value of some functions that yield and are split there. Raises EinformerError E741, E743, E744.
def find_own(functions: Mapping[str, Function], spec: Spec, name: str, sharding: Sharding, legend: Legend) -> dict[Value, Axes]:
    sharded = _shard_functions(functions, spec, name, sharding, legend)
    pairs = (pair for _, _, rewriting in sharded for pair in rewriting.new.items())
    return {old: tuple(filter(is_own, new.axes)) for old, new in pairs}


def _shard_functions(
    functions: Mapping[str, Function],
    spec: Spec,
    name: str,
    sharding: Sharding,
    legend: Legend,
    kept: frozenset[Version] = frozenset(),
) -> Iterator[tuple[str, Function, ForRank]]:
    if not sharding.of_stage:
        refuse_unused(sharding, functions)
    buffers = {layer.name: {weight.name for weight in layer.weights if weight.kind == "buffer"} for layer in spec.layers}
    fixed, partial, new = _find_fixed(functions, buffers), dict[str, Parts](), dict[str, Function]()
    windows = find_windows(functions, spec, name, sharding, legend)
    sharding = replace(sharding, windows=tuple(windows.letters.items()))
    for callee, function in functions.items():
        own_kept = frozenset((tensor, loops) for layer, tensor, loops in kept if layer == callee)
        rewriting = ForRank(
            sharding=split_pairs(function, sharding),
            legend=legend,
            partial=partial,
            callees=new,
            fixed=fixed[callee],
            is_model=callee == name,
            kept=own_kept,
            slots=windows.slots,
        )
        new[callee] = write_lines(rewriting.rewrite_function(function))
        partial[callee] = rewriting.parts.get(new[callee].output.value, {})
        yield callee, new[callee], rewriting


# Pairs of a row and an expert are split as experts are: always, or where these yield.
def split_pairs(function: Function, sharding: Sharding) -> Sharding:
    letters = {value.operation.letter for value in walk_values(function) if isinstance(value.operation, Routed)}
    places = dict.fromkeys((PAIR, mesh) for letter, mesh in sharding.places if letter in letters)
    yielding = dict.fromkeys((PAIR, mesh) for letter, mesh in sharding.in_weights if letter in letters)
    return replace(sharding, places=(*sharding.places, *places), yielding=(*sharding.yielding, *yielding))


# The buffers of each function, and the inputs that no call gives anything with a gradient.
def _find_fixed(functions: Mapping[str, Function], buffers: Mapping[str, set[str]]) -> dict[str, set[str]]:
    fixed = {name: {line.name for line in function.inputs} | buffers[name] for name, function in functions.items()}
    for name, function in reversed([*functions.items()]):
        if not any(e.function == name for other in functions.values() for e in walk_calls(other)):
            fixed[name] = {*buffers[name]}  # the model
        moving = _find_moving(function, fixed[name])
        for call in walk_calls(function):
            formals = functions[call.function].inputs
            fixed[call.function] -= {line.name for line, value in zip(formals, call.arguments, strict=True) if value in moving}
    return fixed


def _find_moving(function: Function, fixed: set[str]) -> set[Value]:
    still = {line.value for line in (*function.inputs, *function.weights) if line.name in fixed}
    moving = set[Value]()
    for value in walk_values(function):
        source = isinstance(value.operation, op.Input | op.StoredWeight | op.Call) and value not in still
        if value.kind == "tensor" and is_smooth(value.operation) and (source or moving.intersection(value.operands)):
            moving.add(value)
    return moving


# A smooth operation hands a gradient on.
def is_smooth(operation: op.Operation) -> bool:
    row = op.find_row(operation)
    return not (isinstance(operation, Routed | Sent | Largest) or (row and row.flat))


@dataclass(slots=True)
class ForRank(Rewriting):
    """The rewrite of one function: a rule for each operation."""

    sharding: Sharding = field(kw_only=True)
    legend: Legend = field(kw_only=True)
    partial: Mapping[str, Parts] = field(kw_only=True)  # of the outputs of other functions
    callees: Mapping[str, Function] = field(kw_only=True)
    fixed: set[str] = field(kw_only=True)
    is_model: bool = field(kw_only=True)
    kept: frozenset[tuple[str, int]] = field(kw_only=True)
    slots: Mapping[tuple[Value, str], str] = field(kw_only=True)  # the window through which a value reads an axis
    parts: dict[Value, Parts] = field(default_factory=dict)
    moving: set[Value] = field(default_factory=set)  # what has a gradient
    steps: dict[Value, str] = field(default_factory=dict)  # what there is so far of recurrences, and their letters
    stepping: frozenset[str] = frozenset()  # the axes of the mesh whose ranks have other steps than the one at hand
    apart: dict[Value, frozenset[str]] = field(default_factory=dict)  # values of a step: other ones on other ranks
    handed: dict[Value, Value] = field(default_factory=dict)  # from turn to turn of a loop: to a value within
    between: Axes = ()  # the indices that yield and are split in the value at hand
    exchanged: dict[Collective, Value] = field(default_factory=dict)
    sent: dict[str, Value] = field(default_factory=dict)  # the pairs over an axis of the mesh
    varied: dict[tuple[Value | str, ...], Value] = field(default_factory=dict)

    # ------------------------------------------------------------------------------------------------------- lines

    # Inputs and weights are what they were, with fewer numbers.
    def rewrite_function(self, function: Function) -> Function:
        moving = [line.value for line in function.inputs if line.name not in self.fixed and line.value.kind == "tensor"]
        carried = [*walk_carried(function.lines)]
        self.handed |= {value: tensor.within for tensor in carried for value in tensor.sources}
        streams = () if self.is_model else moving
        self.new |= {line.value: line.value for line in function.inputs}
        self.new |= {value: self.split_between(value) for value in streams}
        for tensor in carried:  # what is there before a loop, and is whole, stays whole in it
            whole = tensor.before is not None and (
                isinstance(tensor.before.operation, op.StoredWeight) or self.is_whole(tensor.before)
            )
            self.new |= {value: self.split_between(value, not whole) for value in tensor.values}
        self.moving |= {self.new[value] for value in moving}
        for line in (*function.inputs, *function.weights):
            self.refuse_clash(line.value.axes, line.value.span)
        return Rewriting.rewrite_function(self, function)

    # The model returns no parts, and no turn of a loop hands parts to the next.
    def rewrite_equation(self, line: Line) -> Line:
        stored = line.value.operation == op.StoredWeight(line.name)
        returns = self.is_model and not stored and (line.equation is None or line.equation.relation == "return")
        standing, value = line.value in self.new, self.rewrite_canonical(line.value)
        if line.version in self.kept:
            self.new[line.value] = value = self.settle(value)
        if returns or (line.value in self.handed and not standing):
            value = self.settle_as(line.value, self.handed.get(line.value))
        return replace(line, value=value, labels=tuple(self.relabel(label, value.axes) for label in line.labels))

    def rewrite_carried(self, carried: Carried) -> Carried:
        before = None if carried.before is None else self.settle_as(carried.before, carried.within)
        last = self.settle_as(carried.last, carried.within)
        return Carried(carried.name, before, self.new[carried.within], last, self.new[carried.after])

    # ------------------------------------------------------------------------------------------- what yields between sublayers

    # A value that is handed from layer to layer, split along what yields if nothing else of it is split there.
    def split_between(self, value: Value, yields: bool = True) -> Value:
        if value.kind == "tensor":
            over = self.sharding.over(value.axes)
            split = [letter for letter, mesh in self.sharding.yielding if yields and mesh not in over]
            value = replace(value, axes=tuple(own(letter) if letter in split else letter for letter in value.axes))
            self.moving.add(value)
        return value

    # The value is split between sublayers as a `formal` is, or whole.
    def settle_as(self, old: Value, formal: Value | None, known: Value | None = None) -> Value:
        axes = () if formal is None else (known or self.new[formal]).axes
        around, self.between = self.between, tuple(letter for letter, _ in self.sharding.yielding if own(letter) in axes)
        value = self.settle(self.rewrite(old))
        self.between = around
        return value

    # A whole value is known by now, and nothing that yields is split in it.
    def is_whole(self, value: Value) -> bool:
        return value in self.new and not any(map(is_own, self.new[value].axes))

    # What yields is split where the value has it so.
    def relabel(self, label: Axes, axes: Axes) -> Axes:
        return tuple(own(letter) if own(letter) in axes else letter for letter in label)

    # The value is computed at each number of these indices, from what is split or in parts.
    def find_between(self, old: Value, new: Value) -> Axes:
        if old.kind != "tensor" or not self.sharding.yielding:
            return ()
        over = self.sharding.over((*old.axes, *unite_axes(old.operands)))
        operands = [self.new[operand] for operand in old.operands if operand in self.new]
        return tuple(
            letter
            for letter, mesh in self.sharding.yielding
            if letter in old.axes and mesh not in over | self.find_parts(new).keys() and is_along(old.operation, letter)
            if any(own(letter) in value.axes or mesh in self.find_parts(value) for value in operands)
        )

    # The value arrives split along what yields, or whole.
    def bring(self, value: Value) -> Value:
        for letter, mesh in (*self.sharding.yielding, *self.sharding.in_weights):
            here, moves = letter in self.between, value in self.moving
            one, other = (letter, own(letter)) if here else (own(letter), letter)
            if one in value.axes and mesh not in self.find_parts(value):
                axes = tuple(other if axis == one else axis for axis in value.axes)
                if letter == PAIR:
                    value = self.exchange(Dispatch if here else Combine, value, mesh, self.sent[mesh], moves, axes=axes)
                elif here:
                    value = self.exchange(Own, value, mesh, one, other, moves, axes=axes)
                else:  # a weight is gathered for other rows on each rank
                    value = self.exchange(self.choose_gather(value, mesh), value, mesh, one, other, axes=axes)
        return value

    # Pairs go to the ranks of their experts, where the value at hand is computed.
    def send(self, pairs: Value, letter: str) -> Value:
        mesh, self.between = self.sharding.axis(own(letter)), (*self.between, PAIR)
        self.sent[mesh] = self.exchange(Sent, pairs, mesh, axes=(own(PAIR),))
        return self.sent[mesh]

    # ------------------------------------------------------------------------------------------------ what is exchanged

    # A value may also be of another step on each rank.
    def over(self, value: Value) -> frozenset[str]:
        return self.sharding.over(value.axes) | self.apart.get(value, frozenset())

    # The axes of the mesh over which a value is in parts.
    def find_parts(self, value: Value) -> Parts:
        return self.parts.get(value, {})

    # A value is exchanged once for all its readers.
    def exchange(self, kind: type[Collective], value: Value, mesh: str, *more: object, axes: Axes | None = None) -> Value:
        if value in self.steps:
            raise self.refuse_reading(next(letter for letter, axis in self.sharding.places if axis == mesh), value.span)
        axes = value.axes if axes is None else axes
        operation = kind(value, mesh, *more)
        match operation, value.operation:
            case Own(_, _, whole, letter, moves), AllReduce(argument, same, letters) if same == mesh:
                operation, value = ReduceScatter(argument, mesh, letters, whole, letter, moves), argument
            case Vary(), AllGather(argument, same, letter, whole) if same == mesh:
                operation, value = AllGatherVary(argument, mesh, letter, whole), argument
        if operation not in self.exchanged:
            new = Value(operation, axes, value.kind, value.span)
            self.parts[new] = {axis: letters for axis, letters in self.find_parts(value).items() if axis != mesh}
            self.moving |= {new} if value in self.moving else set()
            self.exchanged[operation] = new
        return self.exchanged[operation]

    # Parts are summed, except over the axes to keep.
    def settle(self, value: Value, keep: Iterable[str] = ()) -> Value:
        for mesh, letters in self.find_parts(value).items():
            if mesh not in keep:
                value = self.bring(self.exchange(AllReduce, value, mesh, letters))
        return value

    # A value that repeats numbers is varied before they are repeated.
    def vary(self, value: Value, over: Iterable[str]) -> Value:
        meshes = sorted({*over} - self.over(value) - self.sharding.rows - {*self.find_parts(value), *_list_varied(value)})
        if value not in self.moving or not meshes:
            return value
        if isinstance(value.operation, op.Spread | op.View | Picked | Dispatch):
            if (value, *meshes) not in self.varied:
                operation = replace_operands(value.operation, lambda each: self.vary(each, meshes))
                self.varied[value, *meshes] = self.make(value, operation, parts=self.find_parts(value))
            return self.varied[value, *meshes]
        for mesh in meshes:
            value = self.exchange(Vary, value, mesh)
        return value

    # Returns the letter of all numbers, too.
    def gather_whole(self, value: Value, letter: str) -> tuple[Value, str]:
        fresh = self.choose_letter(letter, value.axes)
        axes, mesh = tuple(fresh if axis == letter else axis for axis in value.axes), self.sharding.axis(letter)
        return self.exchange(self.choose_gather(value, mesh), value, mesh, letter, fresh, axes=axes), fresh

    # Ranks of other rows each make something else of what is gathered.
    def choose_gather(self, value: Value, mesh: str) -> type[AllGather]:
        return AllGatherVary if value in self.moving and mesh in self.sharding.rows else AllGather

    def find_window(self, letter: str) -> Window | None:
        return dict(self.sharding.windows).get(letter)

    # A rank has other numbers of an index than those by which it reads an axis of its own.
    def differs(self, letter: str, label: Axes) -> bool:
        return bool(self.sharding.axis(letter)) or (label != (letter,) and self.find_window(letter) is not None)

    # The result has the numbers that stand near a rank's own, under the letter of a window.
    def gather_near(self, value: Value, letter: str, near: str) -> Value:
        axes, window = tuple(near if axis == letter else axis for axis in value.axes), dict(self.sharding.windows)[near]
        return self.exchange(Neighbours, value, window.mesh, letter, near, window, value in self.moving, axes=axes)

    def take_own(self, value: Value, whole: str, letter: str) -> Value:
        mesh = self.sharding.axis(letter)
        value = self.settle(value, {*self.find_parts(value)} - {mesh})
        axes = tuple(letter if axis == whole else axis for axis in value.axes)
        self.refuse_clash(axes, value.span)
        return self.exchange(Own, value, mesh, whole, letter, value in self.moving, axes=axes)

    def choose_letter(self, letter: str, axes: Iterable[str]) -> str:
        used = {*axes, *dict(self.sharding.places)}
        while letter in used:
            letter += "'"
        return letter

    # Whole operands that meet values that differ between ranks are varied.
    def make(self, old: Value, operation: op.Operation, axes: Axes | None = None, parts: Parts | None = None) -> Value:
        axes, parts = old.axes if axes is None else axes, parts or {}
        axes = tuple(own(letter) if letter in self.between else letter for letter in axes)
        self.refuse_clash(axes, old.span)
        over = self.sharding.over(axes) | parts.keys() | self.stepping if is_smooth(operation) else ()
        new = Value(replace_operands(operation, lambda value: self.vary(value, over)), axes, old.kind, old.span)
        self.apart |= {new: self.stepping} if self.stepping else {}
        if parts:
            self.parts[new] = parts
        source = (
            isinstance(operation, op.StoredWeight | op.Call | op.Input) and getattr(operation, "name", "") not in self.fixed
        )
        if new.kind == "tensor" and is_smooth(operation) and (source or self.moving.intersection(new.operands)):
            self.moving.add(new)
        return new

    def refuse_clash(self, letters: Axes, span: Span) -> None:
        if error := clash(self.sharding, letters, span):
            raise error

    # ------------------------------------------------------------------------------------------------------- values

    # The result is as the value at hand is computed from it.
    def rewrite(self, old: Value) -> Value:
        return self.bring(self.rewrite_canonical(old))

    # The value is split along what yields where it can be.
    def rewrite_canonical(self, old: Value) -> Value:
        if old not in self.new:
            around, self.between = self.between, ()
            new = self.apply_rule(old)
            if letters := self.find_between(old, new):
                self.between = letters
                new = self.apply_rule(old)
            self.new[old], self.between = new, around
        return self.new[old]

    def canonical_axes(self, old: Value) -> Axes:
        return self.rewrite_canonical(old).axes

    def apply_rule(self, old: Value) -> Value:
        rule = RULES.get(type(old.operation), ForRank.rewrite_operands)
        return rule(self, old, old.operation)

    def rewrite_operands(self, old: Value, e: op.Operation) -> Value:
        assert not isinstance(e, op.Rewritten) or isinstance(e, Routed), e
        return self.make(old, replace_operands(e, lambda value: self.settle(self.rewrite(value))))

    def read_constant(self, old: Value, e: op.Constant) -> Value:
        return self.size(old, e.value) if isinstance(e.value, str) else self.rewrite_operands(old, e)

    def place_index(self, old: Value, e: op.Iota | op.Turn) -> Value:
        mesh, window = self.sharding.axis(e.letter), self.find_window(e.letter)
        if isinstance(e, op.Iota) and e.letter in self.sharding.zigzag:
            return Value(Placed(e.letter, mesh), old.axes, old.kind, old.span)
        if mesh:
            return map_values("+", [self.offset(mesh, (e.letter,), old.span), old], old.span)
        if isinstance(e, op.Iota) and window:
            return replace(old, operation=Near((e.letter, window)))
        return self.rewrite_operands(old, e)

    def read_table(self, old: Value, e: op.Table) -> Value:
        if self.sharding.axis(e.letter):
            raise self.refuse_reading(e.letter, old.span)
        return self.rewrite_operands(old, e)

    def apply_function(self, old: Value, e: op.Map) -> Value:
        match e:
            case op.Map("+", terms):
                return self.sum(old, [*map(self.rewrite, terms)])
            case op.Map("*", factors):
                return self.product(old, map(self.rewrite, factors), lambda *new: op.Map("*", new))
            case op.Map("/", (top, bottom)):
                return self.quotient(old, self.rewrite(top), self.settle(self.rewrite(bottom)))
            case op.Map("where", arms):
                return self.where(old, *map(self.rewrite, arms))
            case op.Map("Dr") if self.stepping:
                message = f"the ranks of {', '.join(sorted(self.stepping))} would drop the same numbers in a step of theirs"
                raise fail("E744", message, old.span, fix="dropout on a line of its own")
            case _:
                return self.rewrite_operands(old, e)

    def contract_factors(self, old: Value, e: op.Einsum) -> Value:
        return self.contract(old, map(self.rewrite, e.factors), e.letters)

    def place_stored(self, old: Value, e: op.StoredWeight) -> Value:
        return self.make(old, e, self.sharding.place_weight(old.axes))

    # A matrix of each expert, whose pairs are sent to it where it is split.
    def multiply_pairs(self, old: Value, e: LinearMap) -> Value:
        (weight,), (columns,), (letter,) = e.weights, e.columns, e.experts
        assert e.pairs is not None
        assert not e.biases
        matrix, pairs = self.rewrite_canonical(weight), self.rewrite(e.pairs)
        if own(letter) in matrix.axes:
            pairs, letter = self.send(pairs, letter), own(letter)
        else:
            matrix = self.bring(matrix)
        kernel = replace(e, pairs=pairs, experts=(letter,))
        factors = self.rewrite(e.argument), matrix
        return self.product(
            old, factors, lambda x, matrix: replace(kernel, argument=x, weights=(matrix,)), columns, kernel.experts
        )

    def route(self, old: Value, e: Routed) -> Value:
        if not (mesh := self.sharding.axis(e.letter)):
            return self.rewrite_operands(old, e)
        whole, _ = self.gather_whole(self.settle(self.rewrite(e.weight)), e.letter)
        return self.make(old, replace(e, weight=whole, count=self.settle(self.rewrite(e.count)), mesh=mesh))

    def sum_pairs(self, old: Value, e: Gathered) -> Value:
        routed, product = e.pairs.operation, e.argument
        if isinstance(routed, Routed) and (mesh := self.sharding.axis(routed.letter)):
            return self.pass_on(old, e, {mesh: (routed.letter,)})
        if isinstance(product.operation, op.Map) and product.operation.function == "*" and product not in self.new:
            factors = product.operation.arguments
            if sum(own(PAIR) in self.canonical_axes(factor) for factor in factors) == 1:  # the others meet it at home
                self.new[product] = self.apply_rule(product)
        return self.pass_on(old, e)

    def pick_pairs(self, old: Value, e: Picked) -> Value:
        letter = e.pairs.operation.letter if isinstance(e.pairs.operation, Routed) else ""
        if letter and own(letter) in self.canonical_axes(e.argument):
            return self.make(old, Picked(self.new[e.argument], self.send(self.rewrite(e.pairs), letter)))
        return self.pass_on(old, e)

    def call(self, old: Value, e: op.Call) -> Value:
        callee = self.callees[e.function]
        arguments = zip(e.arguments, (line.value for line in callee.inputs), strict=True)
        called = replace(e, arguments=tuple(self.settle_as(one, formal, formal) for one, formal in arguments))
        new = Value(called, self.relabel(old.axes, callee.output.value.axes), old.kind, old.span)
        self.parts[new], self.moving = self.partial[e.function], self.moving | {new}
        return new

    def recur(self, old: Value, e: op.Recur) -> Value:
        if e.letter in self.sharding.zigzag:
            message = f"the steps along `{e.letter}` follow one another, and ranks have them in zigzag"
            raise fail("E744", message, old.span, fix=f"`{e.letter}` without a zigzag")
        so_far = e.so_far
        self.new[so_far], self.moving, self.steps = so_far, self.moving | {so_far}, self.steps | {so_far: e.letter}
        around, self.stepping = self.stepping, self.stepping | self.sharding.split(e.letter)
        new = self.settle(self.rewrite(e.step))
        self.stepping = around
        return self.make(old, replace(e, step=new))

    # An operation that is linear in its argument passes its parts on, where it is not split itself.
    def pass_on(self, old: Value, e: op.Operation, more: Parts = NO_PARTS) -> Value:
        first, *_ = old.operands
        argument = self.settle(self.rewrite(first), {*self.find_parts(self.rewrite(first))} - self.over(old))
        operation = replace_operands(e, lambda value: argument if value is first else self.settle(self.rewrite(value)))
        return self.make(old, operation, parts={**self.find_parts(argument), **more})

    # -------------------------------------------------------------------------------------------------------- numbers

    # A size as a number is that of the model.
    def size(self, old: Value, name: str) -> Value:
        letters = (
            letter for letter, _ in self.sharding.places if letter == axis_of(letter) and is_size(name, letter, self.legend)
        )
        if (letter := next(letters, None)) is None:
            return old
        if self.legend.is_bound(letter):
            return replace(old, operation=op.Constant(self.legend.length(letter)))
        return map_values("*", [_whole(self.sharding.times(letter), old.span), old], old.span)

    def offset(self, mesh: str, label: Axes, span: Span) -> Value:
        rank, first = Value(Rank(mesh), (), "integer", span), label[0]
        if not all(map(self.legend.is_bound, label)):
            return map_values("*", [rank, Value(op.Constant(f"|{first}|"), (), "integer", span)], span)
        size = math.prod(map(self.legend.length, label)) // self.sharding.times(first)
        return map_values("*", [rank, _whole(size, span)], span)

    def refuse_reading(self, letter: str, span: Span) -> Exception:
        message = f"`{letter}` is split over `{self.sharding.axis(letter)}`, and no rank has what this reads of it"
        return fail("E744", message, span, [self.legend.describe(letter)], f"a map without `{letter}`")

    # ------------------------------------------------------------------------------------------------------ arithmetic

    # Parts are added to parts, and summed before they meet anything else: a bias is added once.
    def sum(self, old: Value, terms: Sequence[Value]) -> Value:
        common = {
            mesh: letters
            for mesh, letters in self.find_parts(terms[0]).items()
            if all(mesh in self.find_parts(t) for t in terms)
        }
        more = [term for term in terms if self.find_parts(term).keys() - common.keys()]
        if not more:
            return self.make(old, op.Map("+", tuple(terms)), parts=common)
        if len(more) == len(terms):
            return self.sum(old, [self.settle(term, common) for term in terms])
        around, self.between = self.between, ()  # parts are split when they are summed
        group = more[0] if len(more) == 1 else self.sum(replace(old, axes=unite_axes(more)), more)
        self.between = around
        rest = [
            self.settle(group, common) if term is more[0] else term for term in terms if term is more[0] or term not in more
        ]
        return self.make(old, op.Map("+", tuple(rest)), parts=common)

    def contract(self, old: Value, factors: Iterable[Value], letters: Axes) -> Value:
        return self.product(old, factors, lambda *new: op.Einsum(letters, new), letters)

    # One factor may be in parts if the others are whole; a sum over a split index is in parts. Of `experts` each pair has its
    # own matrix.
    def product(
        self, old: Value, values: Iterable[Value], build: Callable[..., op.Operation], summed: Axes = (), experts: Axes = ()
    ) -> Value:
        factors, parts = [*values], dict[str, Axes]()
        axes = tuple(letter for letter in unite_axes(factors) if letter not in experts)
        self.refuse_clash(axes, old.span)
        split = self.sharding.over(axes)
        for mesh in sorted({mesh for factor in factors for mesh in self.find_parts(factor)}):
            holders = [factor for factor in factors if mesh in self.find_parts(factor)]
            if len(holders) == 1 and mesh not in split:
                parts[mesh] = self.find_parts(holders[0])[mesh]
        factors = [self.settle(factor, parts) for factor in factors]
        for letter in filter(self.sharding.axis, summed):
            if self.sharding.axis(letter) in self.sharding.rows:
                raise self.refuse_reading(letter, old.span)
            parts[self.sharding.axis(letter)] = (letter,)
        return self.make(old, build(*factors), parts=parts)

    # A numerator may be in parts over what is whole.
    def quotient(self, old: Value, top: Value, bottom: Value) -> Value:
        top = self.settle(top, {*self.find_parts(top)} - self.over(bottom))
        return self.make(old, op.Map("/", (top, bottom)), parts=self.find_parts(top))

    # Both branches are in parts, or one is zero.
    def where(self, old: Value, condition: Value, *arms: Value) -> Value:
        zeros, condition = [arm.operation == op.Constant(0) for arm in arms], self.settle(condition)
        parts = {mesh: letters for arm in arms for mesh, letters in self.find_parts(arm).items()}
        kept = {
            mesh: letters
            for mesh, letters in parts.items()
            if all(zero or mesh in self.find_parts(arm) for arm, zero in zip(arms, zeros, strict=True))
            and mesh not in self.sharding.over(old.axes)
        }
        return self.make(old, op.Map("where", (condition, *(self.settle(arm, kept) for arm in arms))), parts=kept)

    # ------------------------------------------------------------------------------------------------------- operators

    # An operator over whole indices stays; over split ones it is taken apart, or all numbers are gathered.
    def reduce(self, old: Value, e: op.Reduce) -> Value:
        argument, letters = self.rewrite(e.argument), e.letters
        split = [letter for letter in letters if self.sharding.axis(letter)]
        if e.operator == "mean":
            return self.mean(old, argument, letters) if split else self.pass_on(old, e)
        argument = self.settle(argument)
        counts = tuple(self.settle(self.rewrite(count)) for count in e.counts)
        if not split:
            return self.make(old, replace(e, argument=argument, counts=counts))
        match e.operator:
            case "var":
                difference = self.subtract(argument, self.mean(old, argument, letters))
                return self.mean(old, self.map("*", old, difference, difference), letters)
            case "Sm":
                powers, sums, _ = self.exponentiate(old, argument, letters)
                return self.quotient(old, powers, sums if e.weighs else self.unless_zero(old, sums))
            case "lse":
                _, sums, largest = self.exponentiate(old, argument, letters)
                logs = self.map("log", old, sums if e.weighs else self.unless_zero(old, sums))
                if not e.weighs:
                    nothing = self.map("==", old, sums, _whole(0, old.span))
                    logs = self.map("where", old, nothing, Value(op.Constant(-math.inf), (), "number", old.span), logs)
                return self.map("+", old, largest, logs)
            case _:
                return self.reduce_whole(old, e, argument, counts)

    def map(self, function: str, old: Value, *arguments: Value) -> Value:
        new = map_values(function, arguments, old.span)
        return self.make(new, new.operation)

    def unless_zero(self, old: Value, value: Value) -> Value:
        zero = self.map("==", old, value, _whole(0, old.span))
        return self.map("where", old, zero, _whole(1, old.span), value)

    def subtract(self, one: Value, other: Value) -> Value:
        minus = self.map("*", one, Value(op.Constant(-1), (), "integer", one.span), other)
        return self.map("+", one, one, minus)

    # A mean is a sum over letters, divided by their number on all ranks.
    def mean(self, old: Value, argument: Value, letters: Axes) -> Value:
        axes = tuple(letter for letter in argument.axes if letter not in letters)
        total = self.settle(self.contract(replace(old, axes=axes, kind=argument.kind), [argument], letters))
        sizes = [self.size(_size(letter, old.span), f"|{axis_of(letter)}|") for letter in letters]
        count = sizes[0] if len(sizes) == 1 else map_values("*", sizes, old.span)
        return self.quotient(replace(old, axes=axes), total, count)

    # Returns the exponentials below the largest, their sum, and the largest, which is zero where all are -inf.
    def exponentiate(self, old: Value, argument: Value, letters: Axes) -> tuple[Value, Value, Value]:
        axes = tuple(letter for letter in argument.axes if letter not in letters)
        meshes = sorted({mesh for letter in letters if (mesh := self.sharding.axis(letter))})
        largest = Value(Largest(argument, meshes[0], letters), axes, "tensor", old.span)
        for mesh in meshes[1:]:
            largest = Value(Largest(largest, mesh, ()), axes, "tensor", old.span)
        infinite = self.map("==", old, largest, Value(op.Constant(-math.inf), (), "number", old.span))
        finite = self.map("where", old, infinite, _whole(0, old.span), largest)
        powers = self.map("exp", old, self.subtract(argument, finite))
        sums = self.settle(self.contract(replace(old, axes=axes, kind="tensor"), [powers], letters))
        return powers, sums, finite

    # The operator works on all numbers, and a rank keeps its own of the result.
    def reduce_whole(self, old: Value, e: op.Reduce, argument: Value, counts: tuple[Value, ...]) -> Value:
        letters = dict[str, str]()
        for letter in e.letters:
            if self.sharding.axis(letter):
                argument, letters[letter] = self.gather_whole(argument, letter)
        renamed = tuple(letters.get(letter, letter) for letter in e.letters)
        axes = tuple(letters.get(letter, letter) for letter in old.axes)
        new = self.make(old, replace(e, letters=renamed, argument=argument, counts=counts), axes)
        for letter in letters.keys() & set(old.axes):
            new = self.take_own(new, letters[letter], letter)
        return new

    # --------------------------------------------------------------------------------------------------- views, gathers

    # A split axis stays split where its other letter is split alike; else it is gathered, or a rank takes its own part.
    def view(self, old: Value, e: op.View) -> Value:
        argument, owned = self.rewrite(e.argument), dict[str, str]()
        before, after = ([self.relabel(label, argument.axes) for label in labels] for labels in (e.old, e.new))
        for place, (one, other) in enumerate([*zip(before, after, strict=True)]):
            for letter in (*one[1:], *other[1:]):
                if self.sharding.axis(letter):
                    raise self.refuse_reading(letter, old.span)
            if one and other and not self.is_alike(one[0], other[0]):
                if self.sharding.axis(one[0]) and self.find_window(other[0]):
                    argument, before[place] = self.gather_near(argument, one[0], other[0]), other
                elif self.sharding.axis(one[0]):
                    argument, whole = self.gather_whole(argument, one[0])
                    before[place] = (whole, *one[1:])
                if self.sharding.axis(other[0]):
                    owned[other[0]] = self.choose_letter(other[0], (*old.axes, *argument.axes))
                    after[place] = (owned[other[0]], *other[1:])
        axes = tuple(owned.get(letter, letter) for letter in old.axes)
        argument = self.settle(argument, {*self.find_parts(argument)} - self.sharding.over(axes))
        new = self.make(old, op.View(argument, tuple(before), tuple(after)), axes, self.find_parts(argument))
        for letter, whole in owned.items():
            new = self.take_own(new, whole, letter)
        return new

    def is_alike(self, one: str, other: str) -> bool:
        mesh, axis = self.sharding.axis(one), self.legend.axis(other)
        bounded = axis_of(one) != axis_of(other) and axis is not None and axis.bound is not None
        return mesh == self.sharding.axis(other) and not (mesh and bounded)

    # Each rank finds what it has, zero elsewhere, and the sum is what is looked up. Where a rank's own numbers say where it
    # looks, or a slot may leave the axis, all numbers are gathered before.
    def gather(self, old: Value, e: op.Gather) -> Value:
        return self.gather_step(old, e) if e.argument in self.steps else self.look_up(old, e)

    def look_up(self, old: Value, e: op.Gather) -> Value:
        argument, numbers, proved = self.rewrite(e.argument), list(e.numbers), [slot.proved for slot in e.slots]
        labels = [self.relabel(label, argument.axes) for label in e.labels]
        conditions, owned = tuple((self.rewrite(c), holds) for c, holds in e.conditions), dict[str, tuple[Value, Axes]]()
        for place, (label, number) in enumerate([*zip(labels, e.numbers, strict=True)]):
            if label and is_own(label[0]):  # at each of its numbers
                numbers[place] = op.index(label[0])
                continue
            mesh = self.sharding.axis(label[0]) if label else ""
            if any(map(self.sharding.axis, label[1:])):
                raise self.refuse_reading(label[0], old.span)
            if mesh and len(label) == 1 and self.steps.get(e.argument) == label[0]:  # the steps so far are those of this rank
                continue
            own = isinstance(number.operation, op.Iota | op.Turn) and number.operation.letter
            if mesh and own and len(label) == 1 and self.is_alike(label[0], own):
                continue
            numbers[place] = new = self.settle(self.rewrite(number))
            if not mesh and isinstance(number.operation, op.Iota) and not self.differs(number.operation.letter, label):
                numbers[place] = number
            elif near := self.slots.get((old, label[0])) if mesh else None:
                argument, labels[place] = self.gather_near(argument, label[0], near), (near,)
                first = Value(Near((near, dict(self.sharding.windows)[near])), (), "integer", new.span)
                numbers[place] = self.subtract(new, first)
            elif mesh and (number.plain or e.slots[place].timed or mesh in self.over(new) or label[0] in self.sharding.zigzag):
                argument, whole = self.gather_whole(argument, label[0])
                labels[place] = (whole, *label[1:])
            elif mesh:
                size = math.prod(map(self.legend.length, label))
                new = new if proved[place] else Value(Inside(new, size), new.axes, "integer", new.span)
                numbers[place] = Value(Shifted(new, mesh, label), new.axes, "integer", new.span)
                owned[mesh] = self.is_here(numbers[place], size // self.sharding.times(label[0])), label
                proved[place] = True
        argument = self.settle(argument, {*self.find_parts(argument)} - self.over(old) - owned.keys())
        parts = {**self.find_parts(argument), **{mesh: label for mesh, (_, label) in owned.items()}}
        conditions += tuple((here, True) for here, _ in owned.values())
        slots = tuple(op.Slot(*some) for some in zip(labels, numbers, (slot.timed for slot in e.slots), proved, strict=True))
        value = self.make(old, op.Gather(argument, slots, conditions), parts=parts)
        for here, _ in owned.values():
            value = self.make(old, op.Map("where", (here, value, _whole(0, old.span))), parts=parts)
        return value

    # An earlier step is read as it is on this rank, then its numbers: no rank keeps the steps of another.
    def gather_step(self, old: Value, e: op.Gather) -> Value:
        letter = self.steps[e.argument]
        if any(len(label) > 1 for label in e.labels):
            raise self.refuse_reading(letter, old.span)
        rest = [slot for slot in e.slots if slot.label[0] != letter]
        number = next(slot.number for slot in e.slots if slot.label[0] == letter)
        here = tuple(slot if slot.label[0] == letter else op.read_along(slot.label[0]) for slot in e.slots)
        shifted = replace(e, slots=here)
        step = replace(old, operation=shifted, axes=unite_axes(shifted.numbers))
        if all(slot.is_whole or self.renames_whole(slot) for slot in rest):
            return self.look_up(old, e)
        if {slot.label[0] for slot in rest} & set(number.axes):
            raise self.refuse_reading(letter, old.span)
        self.new[step] = self.look_up(step, shifted)
        return self.look_up(old, op.Gather(step, (*rest, *map(op.read_along, number.axes)), e.conditions))

    # A whole axis is renamed if it is read at all numbers of another whole index over it.
    def renames_whole(self, slot: op.Slot) -> bool:
        number = slot.number.operation
        alike = isinstance(number, op.Iota) and self.is_alike(slot.label[0], number.letter)
        return alike and not self.sharding.over((slot.label[0],))

    def is_here(self, number: Value, size: int) -> Value:
        first = map_values(">=", [number, _whole(0, number.span)], number.span)
        return map_values("and", [first, map_values("<", [number, _whole(size, number.span)], number.span)], number.span)


RULES: Mapping[type[op.Operation], Callable[[ForRank, Value, Any], Value]] = {
    op.Constant: ForRank.read_constant,
    op.Iota: ForRank.place_index,
    op.Turn: ForRank.place_index,
    op.Table: ForRank.read_table,
    op.Map: ForRank.apply_function,
    op.Einsum: ForRank.contract_factors,
    op.StoredWeight: ForRank.place_stored,
    op.Reduce: ForRank.reduce,
    op.View: ForRank.view,
    op.Gather: ForRank.gather,
    op.Spread: ForRank.pass_on,
    op.Call: ForRank.call,
    op.Recur: ForRank.recur,
    LinearMap: ForRank.multiply_pairs,
    Routed: ForRank.route,
    Picked: ForRank.pick_pairs,
    Gathered: ForRank.sum_pairs,
}  # any other operation has its operands whole, or split as its result


def _list_varied(value: Value) -> Iterator[str]:
    while isinstance(value.operation, Vary):
        yield value.operation.mesh
        value = value.operation.argument


# Each number along an index is made of those at the same number alone.
def is_along(operation: op.Operation, letter: str) -> bool:
    match operation:
        case op.Map() | op.Spread():
            return True
        case op.Reduce(_, letters) | op.Einsum(letters):
            return letter not in letters
        case op.View(_, old, new):
            return all(one == other == (letter,) for one, other in zip(old, new, strict=True) if letter in (*one, *other))
        case op.Gather(_, slots):
            return all(slot.is_whole for slot in slots if letter in slot.label)
        case _:
            return False


def _whole(number: int, span: Span) -> Value:
    return Value(op.Constant(number), (), "integer", span)


def _size(letter: str, span: Span) -> Value:
    return Value(op.Constant(f"|{axis_of(letter)}|"), (), "integer", span)


# --------------------------------------------------------------------------------------------------------------- lines


# Exchanges that happen backward alone are dropped.
def drop_gradients(function: Function) -> Function:
    def drop(lines: Iterable[Line | Turns]) -> Iterator[Line | Turns]:
        for line in lines:
            if isinstance(line, Turns):
                yield replace(line, lines=tuple(drop(line.lines)))
            elif not isinstance(line.value.operation, Vary):
                yield line

    rewriting = Rewriting(lambda value: value.operation.argument if isinstance(value.operation, Vary) else value)
    return rewriting.rewrite_function(replace(function, lines=tuple(drop(function.lines))))


def write_lines(function: Function) -> Function:
    """A function in which each exchanged value has a line of its own, before the first line that reads it.

    So has a value of which the largest numbers are exchanged: it is read again.

    What is computed in a branch stays there: it is exchanged where it is wanted. So does what a step of a recurrence makes; but
    what its steps read is exchanged before, since not all ranks have the same steps.
    """
    there = {line.value for line in (*function.inputs, *function.weights, *function.scalars)}
    lines = (*function.inputs, *function.weights, *function.scalars, *walk_lines(function.lines))
    names = {line.value: line.name for line in lines}
    names |= {value: tensor.name for tensor in walk_carried(function.lines) for value in tensor.values}
    return replace(function, lines=tuple(_write_lines(function.lines, there, names)))


def _write_lines(lines: Iterable[Line | Turns], there: set[Value], names: dict[Value, str]) -> Iterator[Line | Turns]:
    for line in lines:
        if isinstance(line, Turns):
            before = [tensor.before for tensor in line.carried if tensor.before is not None]
            yield from (new for value in before for new in _write_exchanges(value, there, names))
            inside = {*there, *(tensor.within for tensor in line.carried)}
            yield replace(line, lines=tuple(_write_lines(line.lines, inside, names)))
            there |= {tensor.after for tensor in line.carried}
        else:
            inner = line.value.operands if isinstance(line.value.operation, Collective) else (line.value,)
            yield from (new for value in inner for new in _write_exchanges(value, there, names))
            there.add(line.value)
            yield line


# `within` is the recurrence in whose step the value stands. On the way through a `branch`, `there` are the values that are
# there whichever branch is taken.
def _write_exchanges(
    value: Value, there: set[Value], names: dict[Value, str], within: Value | None = None, branch: bool = False
) -> Iterator[Line]:
    if value in there:
        return
    inner = value.operands
    if isinstance(value.operation, op.Recur):
        inner, within = (value.operation.step,), value
    chooses = (
        value.operation.arguments[1:] if isinstance(value.operation, op.Map) and value.operation.function == "where" else ()
    )
    for operand in inner:
        yield from _write_exchanges(operand, there, names, within, branch or operand in chooses)
    exchanged = isinstance(value.operation, Collective | Shifted) and not value.plain
    stays = branch and within is None and not there.issuperset(value.operands)
    if exchanged and not stays and not (within and _is_step(value, within)):
        assert isinstance(value.operation, Collective | Shifted)
        argument, mesh = value.operation.argument, value.operation.mesh
        name = f"{names.get(argument) or _NAMES[type(value.operation)]}_{mesh}"
        if isinstance(value.operation, Largest) and argument not in there:  # it is read again
            yield _write_line(argument, "x", there, names)
        yield _write_line(value, name, there, names)


def _write_line(value: Value, wanted: str, there: set[Value], names: dict[Value, str]) -> Line:
    longer = (wanted + str(number) * (number > 1) for number in itertools.count(1))
    names[value] = next(candidate for candidate in longer if candidate not in names.values())
    there.add(value)
    return Line(names[value], value, tuple((letter,) for letter in value.axes))


# A step is another value in each step of the recurrence.
def _is_step(value: Value, recurrence: Value) -> bool:
    assert isinstance(recurrence.operation, op.Recur)
    own = value is recurrence.operation.so_far or value.operation == op.Turn(recurrence.operation.letter)
    return own or any(_is_step(operand, recurrence) for operand in value.operands)
