"""Puts kernels in the place of values: a rewrite of a function, after which what a kernel takes in is read by nothing."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from einformer.errors import EinformerError
from einformer.language.calls import axis_of
from einformer.language.sizes import Legend
from einformer.language.tree import Spec
from einformer.language.weights import key
from einformer.program import operations as op
from einformer.program.attending import Attending
from einformer.program.conditions import turn_conditions
from einformer.program.experts import find_routings
from einformer.program.kernels import JOINT, Linear, Part, Reversed, Taken
from einformer.program.lowering import find_time
from einformer.program.mapping import find_weight, read_linear
from einformer.program.needs import Flows
from einformer.program.norming import read_norm
from einformer.program.operations import Function, Line, Value
from einformer.program.passing import raise_constants, sink_masks
from einformer.program.rewrite import Descending, count_reads, prune
from einformer.program.scopes import Following, Scope
from einformer.program.terms import Values


def add_kernels(functions: Mapping[str, Function], spec: Spec, legend: Legend, steps: bool = False) -> dict[str, Function]:
    """The functions of a specialised spec, with kernels."""
    lowered = {name: turn_conditions(function, legend) for name, function in functions.items()}
    time = find_time(spec)
    flows = Flows.of_spec(spec, lowered, legend)
    chosen = lowered | {name: routing.rewrite() for name, routing in find_routings(flows).items()}
    model = next((layer.name for layer in spec.layers if layer.time), "")
    passed = sink_masks(raise_constants(chosen, model, legend, time), legend)
    return {name: fuse(function, legend, flows.trained[name], time, steps) for name, function in passed.items()}


def fuse(function: Function, legend: Legend, trained: frozenset[str], time: str, steps: bool = False) -> Function:
    """A function with kernels, where `trained` weights are matrices; several maps of one input are one product.

    With `steps` it computes a position at a time, and finds the keys of others in a cache.
    """
    scope = Scope.of(function, legend, trained)
    function = Fusing(scope=scope, attending=Attending(scope, time, steps)).function(function)
    return merge_maps(prune(function, Taken()), scope)


@dataclass(slots=True)
class Fusing(Following):
    """The rewrite of one function."""

    attending: Attending = field(kw_only=True)
    notes: list[str] = field(default_factory=list)  # why the values of this line are no kernels

    def __post_init__(self) -> None:
        self.rule = self.kernel

    def kernel(self, value: Value) -> Value:
        """A value by a kernel, or itself."""
        if value in self.scope.plain:
            return value
        for found in self.kernels(value):
            if found is not None and all(map(self.scope.stands, self.scope.walk_leaves(found))):
                return found
        attends = self.attending.find_refusal(value)
        if attends is not None and self.attending.runs(attends[0], self.attending.time):
            self.notes.append(f"not one attention kernel: {attends[1]}")
        return value

    def kernels(self, value: Value) -> Iterator[Value | None]:
        """The kernels that a value may be."""
        yield self.read_norm(value)
        yield read_linear(value, self.scope)
        yield read_reversed(value, self.scope.values.legend)
        yield self.attending.read_attention(value)

    def read_norm(self, value: Value) -> Value | None:
        """A value as a norm, whose letter is the last."""
        kernel = read_norm(value, self.scope)
        if kernel is None:
            return None
        rest = tuple(letter for letter in kernel.argument.axes if letter != kernel.letter)
        return Value(kernel, (*rest, kernel.letter), "tensor", value.span)

    def plain(self, line: Line) -> Line:
        """A line of an equation, with the reasons why it is no kernel."""
        self.notes.clear()
        new = Following.plain(self, line)
        return replace(new, notes=tuple(dict.fromkeys(self.notes)))


def read_reversed(value: Value, legend: Legend) -> Value | None:
    """`x_{s((1 - i)h)}` of two i: the tensor under the letters s, i, h, along i backwards."""
    if not isinstance(value.operation, op.Gather):
        return None
    argument, labels = value.operation.argument, value.operation.labels
    members = [_list_members(number) for number in value.operation.numbers]
    turned = [letter for some in members for each in some if len(some) > 1 and (letter := _read_turned(each, legend))]
    new = tuple(tuple(_read_letter(each) or _read_turned(each, legend) or "" for each in some) for some in members)
    axes = tuple(letter for label in new for letter in label)
    if len(turned) != 1 or "" in axes or len(set(axes)) < len(axes):
        return None
    view = Value(op.View(argument, labels, new), axes, argument.kind, value.span)
    return Value(Reversed(view, turned[0]), axes, argument.kind, value.span)


def _list_members(number: Value) -> list[Value]:
    """The numbers of a group: a and e of `a H + e`."""
    match number.operation:
        case op.Map("+", (Value(operation=op.Map("*", (first, Value(operation=op.Constant(str()))))), last)):
            return [*_list_members(first), last]
        case _:
            return [number]


def _read_letter(number: Value) -> str | None:
    return number.operation.letter if isinstance(number.operation, op.Iota) else None


def _read_turned(number: Value, legend: Legend) -> str | None:
    """The i of `1 - i`, of which there are two."""
    match number.operation:
        case op.Map("+", (Value(operation=op.Constant(int() as last)), Value(operation=op.Map("*", (minus, index))))):
            letter = _read_letter(index)
            try:
                whole = letter is not None and minus.operation == op.Constant(-1) and last == legend.length(letter) - 1
            except EinformerError:  # not bound
                return None
            return letter if whole else None
        case _:
            return None


# ------------------------------------------------------------------------------------------------------ several maps


def merge_maps(function: Function, scope: Scope) -> Function:
    """A function in which the maps of one input are one product of which each is a part."""
    read, values = count_reads(function), Values(scope.values.legend)
    taken = {key(line.name) for line in function.weights}
    groups, seen = defaultdict[object, list[Value]](list), set[Value]()
    for line in function.lines:
        if isinstance(line, Line) and not isinstance(line.value.operation, op.Recur):
            for value in (each for each in walk_maps(line.value, scope) if each not in seen):
                seen.add(value)
                kernel = value.operation
                assert isinstance(kernel, Linear)
                weights = [find_weight(each, scope) for each in (*kernel.weights, *kernel.biases)]
                if all(
                    weight is not None and isinstance(weight.operation, op.Weight) and read[weight] == 1 for weight in weights
                ):
                    groups[_identify_input(kernel, values)].append(value)
    parts = dict[Value, Value]()
    for group in groups.values():
        parts |= join(group, scope, taken)
    return Descending(lambda value: parts.get(value, value)).function(function)


def _is_single(value: Value, scope: Scope, read: Counter[Value]) -> bool:
    """Is a weight a parameter of its own that is read once only, so that it may lie as that reading wants it?"""
    weight = find_weight(value, scope)
    return weight is not None and isinstance(weight.operation, op.Weight) and read[weight] == 1


def walk_maps(value: Value, scope: Scope, top: bool = True) -> Iterator[Value]:
    """The linear maps in a line, the outermost first."""
    if top or value not in scope.names:
        if isinstance(value.operation, Linear):
            yield value
        for operand in value.operands:
            yield from walk_maps(operand, scope, False)


def _identify_input(kernel: Linear, values: Values) -> object:
    """What is the same for two maps of one input: its value, and the axes that are summed, whatever their primes."""
    places = {letter: f"{axis_of(letter)} {place}" for place, letter in enumerate(kernel.columns[0])}
    x = values.relettered(kernel.argument, places)
    meaning = values.meaning(x) if x is not None else kernel
    return meaning, tuple(map(axis_of, kernel.columns[0])), kernel.experts, not kernel.biases


def join(group: Sequence[Value], scope: Scope, taken: set[str]) -> dict[Value, Value]:
    """Each of several maps as a part of one; alone where that has no name: `QK` may be a weight beside `Q` and `K`."""
    kernels = [value.operation for value in group if isinstance(value.operation, Linear)]
    weights, biases = tuple(k.weights[0] for k in kernels), tuple(bias for k in kernels for bias in k.biases)
    names = [name_joint(some, scope) for some in (weights, biases) if some]
    if len(kernels) < 2 or {*names} & taken or len({*names}) < len(names):
        return {}
    taken |= {*names}
    rest = tuple(letter for letter in group[0].axes if letter not in kernels[0].rows[0])
    columns, rows = tuple(k.columns[0] for k in kernels), tuple(k.rows[0] for k in kernels)
    kernel = replace(kernels[0], weights=weights, biases=biases, columns=columns, rows=rows)
    whole = Value(kernel, (*rest, JOINT), "tensor", group[0].span)
    return {old: Value(Part(whole, k), rest + kernels[k].rows[0], "tensor", old.span) for k, old in enumerate(group)}


def name_joint(weights: Sequence[Value], scope: Scope) -> str:
    """`QKV` holds `Q`, `K` and `V`."""
    return "".join(key(scope.names[weight]) for each in weights if (weight := find_weight(each, scope)) is not None)
