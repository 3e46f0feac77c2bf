"""Puts kernels in the place of values: a rewrite of a function, after which nothing reads the values inside a kernel."""

from __future__ import annotations

import functools
import math
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from einformer.language.calls import axis_of
from einformer.language.primitives import COMPARISONS, NUMERIC, OPPOSITE
from einformer.language.sizes import Legend
from einformer.language.tree import Spec
from einformer.language.weights import TAKEN, key
from einformer.program import operations as op
from einformer.program.attending import Attending
from einformer.program.chunks import Chunking
from einformer.program.collectives import Version, drop_gradients, shard
from einformer.program.experts import find_routings
from einformer.program.kernels import JOINT, Chunked, LinearMap, Part, Taken
from einformer.program.lowering import find_time
from einformer.program.matching import (
    explain_linear,
    explain_norm,
    find_weight,
    read_linear,
    read_loss,
    read_norm,
    read_reversed,
)
from einformer.program.needs import Flows
from einformer.program.operations import Function, Line, Value, map_values
from einformer.program.passing import raise_constants, sink_masks
from einformer.program.rewrite import FunctionScope, Rewriting, count_reads, find_differentiated, prune
from einformer.program.sharding import Sharding
from einformer.program.terms import Values


def add_kernels(
    functions: Mapping[str, Function],
    spec: Spec,
    legend: Legend,
    steps: bool = False,
    sharding: Sharding | None = None,
    name: str = "",
    kept: frozenset[Version] = frozenset(),
) -> dict[str, Function]:
    """The functions of a specialised spec, with kernels; those of one rank of the model `name`, if it has a sharding."""
    lowered = {name: turn_conditions(function, legend) for name, function in functions.items()}
    time = find_time(spec)
    flows = Flows.of_spec(spec, lowered, legend)
    routings = {
        layer: routing.rewrite()
        for layer, routing in find_routings(flows).items()
        if sharding is None or sharding.over(routing.rows) <= sharding.rows  # each rank has all pairs of a row
    }
    model = next((layer.name for layer in spec.layers if layer.time), "")
    passed = sink_masks(raise_constants(lowered | routings, model, legend, time), legend)
    local = passed if sharding is None else shard(passed, spec, name, sharding, legend, kept)
    return {layer: fuse(function, legend, flows.trained[layer], time, steps) for layer, function in local.items()}


def lower_for_plan(
    lowered: Mapping[str, Function],
    spec: Spec,
    name: str,
    legend: Legend,
    sharding: Sharding | None,
    fast: bool,
    kept: frozenset[Version] = frozenset(),
    steps: bool = False,
) -> dict[str, Function]:
    """The functions of a model, or of one of its ranks, with kernels or without; `steps` of ranks have no gradients."""
    if fast:
        local = add_kernels(lowered, spec, legend, steps, sharding, name, kept)
    else:
        local = dict(lowered) if sharding is None else shard(lowered, spec, name, sharding, legend, kept)
    return {layer: drop_gradients(function) for layer, function in local.items()} if steps and sharding else local


def fuse(function: Function, legend: Legend, trained: frozenset[str], time: str, steps: bool = False) -> Function:
    """A function with kernels, where `trained` weights are matrices; several maps of one input are one product.

    With `steps` it computes a position at a time, and finds the keys of others in a cache.
    """
    scope = FunctionScope.of(function, legend, trained)
    fusing = _Fusing(scope=scope, attending=Attending(scope, time, steps), chunking=Chunking.of(scope, function, steps))
    return merge_maps(prune(fusing.rewrite_function(function), Taken()), scope)


@dataclass(slots=True)
class _Fusing(Rewriting):
    """The rewrite of one function."""

    scope: FunctionScope = field(kw_only=True)
    attending: Attending = field(kw_only=True)
    chunking: Chunking = field(kw_only=True)
    notes: list[str] = field(default_factory=list)  # why the values of this line are no kernels

    def __post_init__(self) -> None:
        self.rule, self.descending = self.fuse, True

    def fuse(self, value: Value) -> Value:
        if value in self.scope.plain:
            return value
        for kernel in self.read_kernels(value):
            if kernel is not None and self.scope.allows(kernel):
                return kernel
        if reason := explain_norm(value, self.scope):
            self.notes.append(f"not one norm: {reason}")
        elif reason := explain_linear(value, self.scope):
            self.notes.append(f"not one linear map: {reason}")
        if reason := self.chunking.explain(value):
            self.notes.append(f"a step for each position: {reason}")
        refusal = self.attending.find_refusal(value)
        if refusal is not None and self.attending.runs(refusal[0], self.attending.time):
            self.notes.append(f"not one attention kernel: {refusal[1]}")
        return value

    def read_kernels(self, value: Value) -> Iterator[Value | None]:
        if (norm := read_norm(value, self.scope)) is not None:
            rest = tuple(letter for letter in norm.argument.axes if letter != norm.letter)
            yield Value(norm, (*rest, norm.letter), "tensor", value.span)
        yield read_linear(value, self.scope)
        yield read_reversed(value, self.scope.values.legend)
        yield read_loss(value, self.scope)
        yield self.attending.read_attention(value)
        yield self.chunking.read(value)

    def rewrite_equation(self, line: Line) -> Line:
        self.notes.clear()
        new = Rewriting.rewrite_equation(self, line)
        return replace(new, notes=tuple(dict.fromkeys(self.notes)))


# ------------------------------------------------------------------------------------------------------ several maps


def merge_maps(function: Function, scope: FunctionScope) -> Function:
    """A function in which the maps of one input are one product of which each is a part; what only chooses learns nothing."""
    reads, values, parts = count_reads(function), Values(scope.values.legend), dict[Value, Value]()
    differentiated = find_differentiated(function)
    names_in_use, groups = {*TAKEN, *(key(line.name) for line in function.weights)}, defaultdict[object, list[Value]](list)
    lines = (line for line in function.lines if isinstance(line, Line) and not isinstance(line.value.operation, op.Recur))
    for value, linear in {value: linear for line in lines for value, linear in walk_maps(line.value, scope)}.items():
        if all(_is_single(weight, scope, reads) for weight in (*linear.weights, *linear.biases)):
            groups[value in differentiated, _identify_input(linear, values)].append(value)
    for group in groups.values():
        parts |= join(group, scope, names_in_use)
    return Rewriting(lambda value: parts.get(value, value), descending=True).rewrite_function(function)


def _is_single(value: Value, scope: FunctionScope, reads: Counter[Value]) -> bool:
    """Is a weight a parameter of its own that is read once only, so that it may lie as that reading wants it?"""
    weight = find_weight(value, scope)
    return weight is not None and isinstance(weight.operation, op.StoredWeight) and reads[weight] == 1


def walk_maps(value: Value, scope: FunctionScope, top: bool = True) -> Iterator[tuple[Value, LinearMap]]:
    """The linear maps in a line, the outermost first; those in the step of a recurrence stay apart, as in decoding."""
    if top or value not in scope.names:
        if isinstance(value.operation, LinearMap):
            yield value, value.operation
        for operand in value.operands[:1] if isinstance(value.operation, Chunked) else value.operands:
            yield from walk_maps(operand, scope, False)


def _identify_input(kernel: LinearMap, values: Values) -> object:
    """The identity of the input of a map: its value, and the axes that are summed, whatever their primes."""
    places = {letter: f"{axis_of(letter)} {place}" for place, letter in enumerate(kernel.columns[0])}
    x = values.relettered(kernel.argument, places)
    meaning = values.meaning(x) if x is not None else kernel
    return meaning, tuple(map(axis_of, kernel.columns[0])), kernel.experts, not kernel.biases


def join(group: Sequence[Value], scope: FunctionScope, names_in_use: set[str]) -> dict[Value, Value]:
    """Each of several maps as a part of one; alone where the name is not free: `QK` may be a weight beside `Q` and `K`."""
    kernels = [value.operation for value in group if isinstance(value.operation, LinearMap)]
    weights, biases = tuple(k.weights[0] for k in kernels), tuple(bias for k in kernels for bias in k.biases)
    names = [name_joint(some, scope) for some in (weights, biases) if some]
    if len(kernels) < 2 or {*names} & names_in_use or len({*names}) < len(names):
        return {}
    names_in_use |= {*names}
    rest = tuple(letter for letter in group[0].axes if letter not in kernels[0].rows[0])
    columns, rows = tuple(k.columns[0] for k in kernels), tuple(k.rows[0] for k in kernels)
    kernel = replace(kernels[0], weights=weights, biases=biases, columns=columns, rows=rows)
    whole = Value(kernel, (*rest, JOINT), "tensor", group[0].span)
    return {old: Value(Part(whole, k), rest + kernels[k].rows[0], "tensor", old.span) for k, old in enumerate(group)}


def name_joint(weights: Sequence[Value], scope: FunctionScope) -> str:
    """`QKV` holds `Q`, `K` and `V`."""
    return "".join(key(scope.names[weight]) for value in weights if (weight := find_weight(value, scope)) is not None)


# -------------------------------------------------------------------------------------------------------- conditions
# They choose the value that is not zero or -inf, `where(c, x, 0)`, without `not`: `where(s' > s, -inf, x)` is
# `where(s' <= s, x, -inf)`. Where `c_x = where(top_{T,x} r_x, 1, 0)`, `c_x == 1` is that `top`.

_OPPOSITE = OPPOSITE | {"and": "or", "or": "and"}
_NOTHING: dict[op.Operation, int] = {op.Constant(0): 1, op.Constant(-math.inf): 2}  # these stand last, the second rather


def turn_conditions(function: Function, legend: Legend) -> Function:
    """A function with its conditions turned round, inner choices first."""
    scope = FunctionScope.of(function, legend)
    return Rewriting(functools.partial(_turn, scope), scope=scope).rewrite_function(function)


def _turn(scope: FunctionScope, value: Value) -> Value:
    match value.operation:
        case op.Map("where", (condition, then, otherwise)):
            condition = _settle(condition, scope)
            opposite = negate(condition)
            wrong = _NOTHING.get(then.operation, 0) > _NOTHING.get(otherwise.operation, 0) and not _is_not(opposite)
            if wrong or _is_not(condition):
                condition, then, otherwise = opposite, otherwise, then
            match then.operation:
                case op.Map("where", (inner, some, last)) if last.operation == otherwise.operation in _NOTHING:
                    if _is_numeric(inner) and then not in scope.names:
                        condition, then = map_values("and", [condition, inner]), some
            return _renew(value, op.Map("where", (condition, then, otherwise)))
        case op.Map("not", (inner,)):
            return negate(inner)
        case _:
            return value


def _settle(value: Value, scope: FunctionScope) -> Value:
    """The condition c that a comparison repeats: `where(c, 1, 0) == 1` is c."""
    match value.operation:
        case op.Map("and" | "or" as name, arguments):
            return _renew(value, op.Map(name, tuple(_settle(argument, scope) for argument in arguments)))
        case op.Map(name, (Value(operation=op.Map("where", (condition, *arms))) as left, other)) if name in COMPARISONS:
            numbers = [x.operation.value for x in (*arms, other) if isinstance(x.operation, op.Constant)]
            if len(numbers) == 3 and not any(isinstance(x, str) for x in numbers) and not scope.find_changed(left):
                holds, fails = (NUMERIC[name](number, numbers[2]) for number in numbers[:2])
                return value if holds == fails else condition if holds else negate(condition)
    return value


def negate(value: Value) -> Value:
    """The condition that holds where another does not."""
    match value.operation:
        case op.Map("not", (inner,)):
            return inner
        case op.Map("and" | "or" as name, arguments):
            return replace(value, operation=op.Map(_OPPOSITE[name], tuple(map(negate, arguments))))
        case op.Map(name, arguments) if name in _OPPOSITE:
            return replace(value, operation=op.Map(_OPPOSITE[name], arguments))
        case _:
            return replace(value, operation=op.Map("not", (value,)))


def _renew(value: Value, operation: op.Operation) -> Value:
    return value if operation == value.operation else replace(value, operation=operation)


def _is_not(value: Value) -> bool:
    return isinstance(value.operation, op.Map) and value.operation.function == "not"


def _is_numeric(value: Value) -> bool:
    tensors = (op.Gather, op.View, op.Input, op.StoredWeight, op.Call)
    return not isinstance(value.operation, tensors) and all(map(_is_numeric, value.operands))
