"""Puts kernels in the place of values: a rewrite of a function, after which nothing reads the values inside a kernel.

What layers are given changes before that. The cosines of a rotation are the same in every layer and every turn: the model
computes `cos(s θ_h)` once, and passes it to the layers that read it. A causal mask goes the other way, so that the attention
that adds it is seen to be causal.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from einformer.errors import NOWHERE, Source, Span, fail
from einformer.language.calls import axis_of
from einformer.language.primitives import COMPARISONS, NUMERIC, OPPOSITE, PRIMITIVES
from einformer.language.printer import expression
from einformer.language.sizes import Legend
from einformer.language.tree import Equation, Index, Name, Spec, Tensor
from einformer.language.weights import TAKEN, key
from einformer.program import operations as op
from einformer.program.arithmetic import spell
from einformer.program.attending import Attending, pass_round
from einformer.program.chunks import Chunking
from einformer.program.collectives import Ring, Version, drop_gradients, shard
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
from einformer.program.operations import Function, Line, Turns, Value, map_values, multiply
from einformer.program.rewrite import (
    FunctionScope,
    Rewriting,
    count_reads,
    find_differentiated,
    list_lines,
    prune,
    walk,
    walk_calls,
    walk_lines,
    walk_loops,
    walk_values,
)
from einformer.program.sharding import Sharding
from einformer.program.terms import Values
from einformer.program.windows import Sides, find_sides

COSTLY = frozenset(row.name for row in PRIMITIVES.values() if row.costly)
Functions = Mapping[str, Function]
NO_SIDES: Mapping[tuple[str, str], Sides] = {}


# The functions of a specialised spec, with kernels; those of one rank of the model `name`, if it has a sharding.
def add_kernels(
    functions: Mapping[str, Function],
    spec: Spec,
    legend: Legend,
    steps: bool = False,
    sharding: Sharding | None = None,
    name: str = "",
    kept: frozenset[Version] = frozenset(),
    flex: bool = False,
) -> dict[str, Function]:
    lowered = {name: turn_conditions(function, legend) for name, function in functions.items()}
    time = find_time(spec)
    flows = Flows.of_spec(spec, lowered, legend)
    routings = {
        layer: routing.rewrite()
        for layer, routing in find_routings(flows).items()
        if sharding is None or sharding.over(routing.rows) <= sharding.rows  # each rank has all pairs of a row
    }
    model = next((layer.name for layer in spec.layers if layer.time), "")
    passed = sink_masks(raise_constants(lowered | routings, model, legend, time), legend, flex)
    local = passed if sharding is None else shard(passed, spec, name, sharding, legend, kept)
    sides = {} if sharding is None else find_sides(passed, spec, name, sharding, legend)
    return {layer: fuse(f, legend, flows.trained[layer], time, steps, sides, flex) for layer, f in local.items()}


# The functions of a model, or of one of its ranks, with kernels or without; `steps` of ranks have no gradients.
def lower_for_plan(
    lowered: Mapping[str, Function],
    spec: Spec,
    name: str,
    legend: Legend,
    sharding: Sharding | None,
    fast: bool,
    kept: frozenset[Version] = frozenset(),
    steps: bool = False,
    flex: bool = False,
) -> dict[str, Function]:
    if flex and sharding is not None:
        raise fail("E741", "the plan `flex` computes a whole model, and no part of it", NOWHERE, fix="the plan `fast`")
    if fast:
        local = add_kernels(lowered, spec, legend, steps, sharding, name, kept, flex)
    else:
        local = dict(lowered) if sharding is None else shard(lowered, spec, name, sharding, legend, kept)
    if sharding is not None:
        _refuse_rings(local, sharding)
    return {layer: drop_gradients(function) for layer, function in local.items()} if steps and sharding else local


# Another stage may have what goes round.
def _refuse_rings(functions: Functions, sharding: Sharding) -> None:
    values = (value for function in functions.values() for value in walk_values(function))
    rings = {value.operation.letter for value in values if isinstance(value.operation, Ring)}
    for letter in sorted(sharding.round - rings) if not sharding.of_stage else ():
        message = f"no attention reads keys and values that go round the ranks of `{letter}`"
        fix = f"`{letter}` without a ring, or the plan `fast`"
        raise fail("E741", message, NOWHERE, fix=fix)


# A function with kernels, where `trained` weights are matrices; several maps of one input are one product. With `steps` it
# computes a position at a time, and finds the keys of others in a cache. Keys of indices with `sides` go round the ranks.
def fuse(
    function: Function,
    legend: Legend,
    trained: frozenset[str],
    time: str,
    steps: bool = False,
    sides: Mapping[tuple[str, str], Sides] = NO_SIDES,
    flex: bool = False,
) -> Function:
    scope = FunctionScope.of(function, legend, trained)
    attending, chunking = Attending(scope, time, steps, flex=flex), Chunking.of(scope, function, steps)
    fusing = _Fusing(scope=scope, attending=attending, chunking=chunking)
    return merge_maps(prune(pass_round(fusing.rewrite_function(function), sides), Taken()), scope)


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


# A function in which the maps of one input are one product of which each is a part; what only chooses learns nothing.
def merge_maps(function: Function, scope: FunctionScope) -> Function:
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


# Read once only, a parameter may lie as that reading wants it.
def _is_single(value: Value, scope: FunctionScope, reads: Counter[Value]) -> bool:
    weight = find_weight(value, scope)
    if weight is None or not isinstance(weight.operation, op.StoredWeight):
        return False
    return reads[weight] == 1 and not is_part(value, scope.values.legend)


# Of a weight that is longer along an axis the first numbers are read.
def is_part(value: Value, legend: Legend) -> bool:
    match value.operation:
        case op.View(_, old, new):
            pairs = zip(old, new, strict=True)
            return any(len(a) == len(b) == 1 and legend.reads_part(b[0], a[0]) for a, b in pairs)
    return False


# The outermost map comes first. Maps in the step of a recurrence stay apart, as in decoding.
def walk_maps(value: Value, scope: FunctionScope, top: bool = True) -> Iterator[tuple[Value, LinearMap]]:
    if top or value not in scope.names:
        if isinstance(value.operation, LinearMap):
            yield value, value.operation
        for operand in value.operands[:1] if isinstance(value.operation, Chunked) else value.operands:
            yield from walk_maps(operand, scope, False)


# An input is its value, and the axes that are summed, whatever their primes.
def _identify_input(kernel: LinearMap, values: Values) -> object:
    places = {letter: f"{axis_of(letter)} {place}" for place, letter in enumerate(kernel.columns[0])}
    x = values.reletter(kernel.argument, places)
    meaning = values.meaning(x) if x is not None else kernel
    return meaning, tuple(map(axis_of, kernel.columns[0])), kernel.experts, not kernel.biases


# Maps stay apart where the name is not free: `QK` may be a weight beside `Q` and `K`.
def join(group: Sequence[Value], scope: FunctionScope, names_in_use: set[str]) -> dict[Value, Value]:
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


# `QKV` holds `Q`, `K` and `V`.
def name_joint(weights: Sequence[Value], scope: FunctionScope) -> str:
    return "".join(key(scope.names[weight]) for value in weights if (weight := find_weight(value, scope)) is not None)


# -------------------------------------------------------------------------------------------------------- conditions
# They choose the value that is not zero or -inf, `where(c, x, 0)`, without `not`: `where(s' > s, -inf, x)` is
# `where(s' <= s, x, -inf)`. Where `c_x = where(top_{T,x} r_x, 1, 0)`, `c_x == 1` is that `top`.

_OPPOSITE = OPPOSITE | {"and": "or", "or": "and"}
_NOTHING: dict[op.Operation, int] = {op.Constant(0): 1, op.Constant(-math.inf): 2}  # these stand last, the second rather


# Inner choices are turned first.
def turn_conditions(function: Function, legend: Legend) -> Function:
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


# `where(c, 1, 0) == 1` is c.
def _settle(value: Value, scope: FunctionScope) -> Value:
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


# ------------------------------------------------------------------------------------------------------------ constants


# The functions with constants computed by the model, each once, and without factors of one. Without a `model` each function
# computes its own.
def raise_constants(functions: Functions, model: str, legend: Legend, time: str) -> Functions:
    functions = {name: _drop_ones(function, legend) for name, function in functions.items()}
    worth = (value for name, f in functions.items() if name != model for value in walk_values(f))
    if not model or not any(map(_is_costly, worth)):
        return functions
    raising = _Raising(legend, time, _share_scalars(functions), Values(legend))
    new = {name: raising.rewrite(function) for name, function in raising.functions.items() if name != model}
    return {name: new[name] if name in new else raising.compute(raising.functions[name]) for name in functions}


# `μ x` is x where the scalar μ is 1; the formulas of the legend stay.
def _drop_ones(function: Function, legend: Legend) -> Function:
    def rule(value: Value) -> Value:
        match value.operation:
            case op.Map("*", factors) | op.Einsum(_, factors):
                rest = tuple(factor for factor in factors if not _is_one(factor, legend))
                if not rest or len(rest) == len(factors):
                    return value
                total = isinstance(value.operation, op.Einsum) and replace(value.operation, factors=rest)
                return replace(value, operation=total) if total else replace(multiply(rest), span=value.span)
            case _:
                return value

    return Rewriting(rule, {line.value: line.value for line in function.scalars}).rewrite_function(function)


def _is_one(value: Value, legend: Legend) -> bool:
    match value.operation:
        case op.Constant(str() as name) if name in legend.scalars and not legend.scalars[name].indices:
            return legend.number(Name(name)) == 1
        case _:
            return False


def _share_scalars(functions: Functions) -> Functions:
    first = {line.name: line.value for function in functions.values() for line in function.scalars}

    def rewrite(function: Function) -> Function:
        return Rewriting(new={line.value: first[line.name] for line in function.scalars}).rewrite_function(function)

    return {name: rewrite(function) for name, function in functions.items()}


@dataclass(frozen=True, slots=True, eq=False)
class _Constant:
    """A value that depends on positions alone, and the input of layers that it is."""

    value: Value
    line: Line
    scalars: tuple[Line, ...]  # that it reads


@dataclass(slots=True)
class _Raising:
    """The constants, by their meaning and axes, and those that each function is given."""

    legend: Legend
    time: str
    functions: Functions
    values: Values
    fixed: dict[Value, bool] = field(default_factory=dict)  # is a value constant?
    constants: dict[tuple[int, frozenset[str]], _Constant] = field(default_factory=dict)
    needs: dict[str, list[_Constant]] = field(default_factory=dict)

    def rewrite(self, function: Function) -> Function:
        def rule(value: Value) -> Value:
            if (constant := self.find(value, function)) is not None:
                return constant.line.value
            match value.operation:
                case op.Map("*", factors):
                    fixed = [factor for factor in factors if self.is_constant(factor)]
                    if any(map(self.is_costly, fixed)):
                        rest = (factor for factor in factors if factor not in fixed)
                        return replace(value, operation=op.Map("*", (*rest, multiply(fixed))))
            return _change_arguments(
                value, lambda name, arguments: (*arguments, *(constant.line.value for constant in self.needs[name]))
            )

        new = Rewriting(rule, descending=True).rewrite_function(function)
        reads = count_reads(new)
        self.needs[function.name] = [constant for constant in self.constants.values() if reads[constant.line.value]]
        return replace(new, inputs=(*new.inputs, *(constant.line for constant in self.needs[function.name])))

    def compute(self, model: Function) -> Function:
        constants = {constant: None for call in walk_calls(model) for constant in self.needs[call.function]}
        first = [_define(constant.line, constant.value, self.functions, self.legend) for constant in constants]
        declared = {line.name for line in model.scalars}
        more = {line.name: line for constant in constants for line in constant.scalars if line.name not in declared}
        give = lambda name, arguments: (*arguments, *(constant.value for constant in self.needs[name]))  # noqa: E731
        new = Rewriting(lambda value: _change_arguments(value, give)).rewrite_function(model)
        return replace(new, scalars=(*new.scalars, *more.values()), lines=(*first, *new.lines))

    def find(self, value: Value, function: Function) -> _Constant | None:
        if not (self.is_constant(value) and self.is_costly(value)):
            return None
        key = self.values.meaning(value), frozenset(value.axes)
        if key not in self.constants:
            axes = tuple(dict.fromkeys((self.time, *value.axes)))
            name = self.name(value)
            line = Line(name, Value(op.Input(name), axes), tuple((letter,) for letter in axes))
            inside = set(walk(value))
            self.constants[key] = _Constant(value, line, tuple(line for line in function.scalars if line.value in inside))
        return self.constants[key]

    def name(self, value: Value) -> str:
        inside = (inner.operation for inner in walk(value))
        costly = next(e.function for e in inside if isinstance(e, op.Map) and e.function in COSTLY)
        names = {name for function in self.functions.values() for name in _list_names(function)} | self.legend.scalars.keys()
        names |= {constant.line.name for constant in self.constants.values()}
        return next(name for k in itertools.count(1) if (name := f"{costly}{k if k > 1 else ''}") not in names)

    def is_constant(self, value: Value) -> bool:
        if value not in self.fixed:
            kinds = op.Iota | op.Constant | op.Table | op.Map | op.View | op.Spread | op.Gather
            drawn = isinstance(value.operation, op.Map) and value.operation.function == "Dr"
            plain = isinstance(value.operation, kinds) and not drawn and not any("'" in letter for letter in value.axes)
            self.fixed[value] = plain and all(map(self.is_constant, value.operands))
        return self.fixed[value]

    def is_costly(self, value: Value) -> bool:
        return self.time in value.axes and any(map(_is_costly, walk(value)))


def _is_costly(value: Value) -> bool:
    return isinstance(value.operation, op.Map) and value.operation.function in COSTLY


def _list_names(function: Function) -> Iterator[str]:
    yield from (line.name for line in list_lines(function))
    yield from (call.instance for call in walk_calls(function))


# ---------------------------------------------------------------------------------------------------------------- masks


# Causal masks are computed where they are added, instead of passed to every layer; with `flex` all that positions, turns of
# loops and inputs of whole numbers decide.
def sink_masks(functions: Functions, legend: Legend, flex: bool = False) -> Functions:
    functions, values = _share_scalars(functions) if flex else {**functions}, Values(legend)
    for name in [*functions][::-1]:
        calls = [call for function in functions.values() for call in walk_calls(function) if call.function == name]
        arguments = [*enumerate(zip(*(call.arguments for call in calls), strict=True))]
        masks = {place: some for place, some in arguments if all(_is_causal(mask, values) for mask in some)}
        if flex:
            masks |= {place: some for place, some in arguments if _is_arithmetic(some, functions, name, values)}
        functions = _move(functions, name, masks) if masks else functions
    return functions


def _is_causal(mask: Value, values: Values) -> bool:
    query = next((letter for letter in mask.axes if f"{letter}'" in mask.axes), "")
    return len(mask.axes) == 2 and bool(query) and values.is_causal(mask, query, f"{query}'")


# One value for all calls, which depends on pairs of positions, made of numbers, of turns whose letter is free in the function,
# and of inputs that stay as they are.
def _is_arithmetic(some: tuple[Value, ...], functions: Functions, name: str, values: Values) -> bool:
    mask, own = some[0], {turns.letter for turns in walk_loops(functions[name].lines)}
    own |= {letter for value in walk_values(functions[name]) for letter in value.axes}
    free = {turns.letter for function in functions.values() for turns in walk_loops(function.lines)} - own
    paired = any(f"{letter}'" in mask.axes for letter in mask.axes)
    if not paired or len({values.meaning(other) for other in some}) > 1:
        return False
    kinds, inputs = op.Iota | op.Constant | op.Table | op.Map | op.Spread | op.View | op.Gather, _list_inputs(functions)
    for value in walk(mask):
        turning = isinstance(value.operation, op.Turn) and value.operation.letter in free
        given = value in inputs and not any(f"{letter}'" in value.axes for letter in value.axes)
        if not (isinstance(value.operation, kinds) or turning or given):
            return False
        if isinstance(value.operation, op.Map) and value.operation.function == "Dr":
            return False
    return True


def _list_inputs(functions: Functions) -> dict[Value, Line]:
    changed = {name: {line.name for line in walk_lines(function.lines)} for name, function in functions.items()}
    inputs = ((name, line) for name, function in functions.items() for line in function.inputs)
    return {line.value: line for name, line in inputs if line.name not in changed[name]}


# The inputs that masks are made of become inputs of the function, and the scalars its own.
def _move(functions: Functions, name: str, masks: Mapping[int, tuple[Value, ...]]) -> dict[str, Function]:
    written = {line.value: line.equation for function in functions.values() for line in walk_lines(function.lines)}
    inputs, known = functions[name].inputs, _list_inputs(functions)
    rest = [place for place in range(len(inputs)) if place not in masks]
    inside_masks = dict.fromkeys(walk(*(some[0] for some in masks.values())))
    given = {value: _hand_down(known[value], functions[name]) for value in inside_masks if value in known}
    change = lambda callee, arguments: [*(arguments[k] for k in rest), *given] if callee == name else arguments  # noqa: E731
    passing = {n: Rewriting(lambda value: _change_arguments(value, change)).rewrite_function(f) for n, f in functions.items()}
    local = Rewriting(new={value: line.value for value, line in given.items()})
    own = {place: local.rewrite(some[0]) for place, some in masks.items()}
    inside = Rewriting(new={inputs[place].value: mask for place, mask in own.items()}).rewrite_function(passing[name])
    first = [replace(inputs[k], value=mask, equation=written.get(masks[k][0])) for k, mask in own.items()]
    declared = {line.value for line in inside.scalars}
    read = (line for function in functions.values() for line in function.scalars if line.value in inside_masks)
    scalars = (*inside.scalars, *{line.value: line for line in read if line.value not in declared}.values())
    passing[name] = replace(inside, inputs=(*(inside.inputs[k] for k in rest), *given.values()), scalars=scalars)
    unread = {mask for some in masks.values() for mask in some}
    new = {n: _drop_unread(function, unread) for n, function in passing.items()}
    return new | {name: replace(new[name], lines=(*first, *new[name].lines))}


def _hand_down(line: Line, function: Function) -> Line:
    taken = {*_list_names(function)}
    name = next(name for k in itertools.count(1) if (name := f"{line.name}{k if k > 1 else ''}") not in taken)
    return replace(line, name=name, value=replace(line.value, operation=op.Input(name)))


def _drop_unread(function: Function, masks: set[Value]) -> Function:
    unread = masks - count_reads(function).keys()

    def keep(lines: tuple[Line | Turns, ...]) -> tuple[Line | Turns, ...]:
        kept = (line for line in lines if isinstance(line, Turns) or line.value not in unread)
        return tuple(replace(line, lines=keep(line.lines)) if isinstance(line, Turns) else line for line in kept)

    return replace(function, lines=keep(function.lines))


# ---------------------------------------------------------------------------------------------------------------- calls


def _change_arguments(value: Value, change: Callable[[str, tuple[Value, ...]], Iterable[Value]]) -> Value:
    match value.operation:
        case op.Call(name, arguments=arguments) as call:
            return replace(value, operation=replace(call, arguments=(*change(name, arguments),)))
        case _:
            return value


def _define(line: Line, value: Value, functions: Functions, legend: Legend) -> Line:
    scalars = {scalar.value: scalar for function in functions.values() for scalar in function.scalars}
    right = spell(value, scalars, legend)
    left = Tensor(line.name, tuple(Index(letter) for (letter,) in line.labels))
    text = f"{expression(left)} = {expression(right)}"
    return replace(line, value=value, equation=Equation(left, "=", right, span=Span(Source("constants", text), 0, len(text))))
