"""Rewrites the inputs of layers: constants are computed once and passed down, causal masks are computed where they are added.

The cosines of a rotation are the same in every layer and every turn: the model computes `cos(s θ_h)`, and passes it to the
layers that read it. A causal mask goes the other way, so that the attention that adds it is seen to be causal.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from einformer.errors import Source, Span
from einformer.language.primitives import PRIMITIVES
from einformer.language.printer import expression
from einformer.language.sizes import Legend
from einformer.language.tree import Equation, Index, Name, Tensor
from einformer.program import operations as op
from einformer.program.arithmetic import spell
from einformer.program.operations import Function, Line, Turns, Value, multiply
from einformer.program.rewrite import Rewriting, count_reads, list_lines, walk, walk_calls, walk_lines, walk_values
from einformer.program.terms import Values

COSTLY = frozenset(row.name for row in PRIMITIVES.values() if row.costly)
Functions = Mapping[str, Function]


# ------------------------------------------------------------------------------------------------------------ constants


def raise_constants(functions: Functions, model: str, legend: Legend, time: str) -> Functions:
    """The functions with constants computed by the model, each once, and without factors of one.

    Without a `model` each function computes its own.
    """
    functions = {name: _drop_ones(function, legend) for name, function in functions.items()}
    worth = (value for name, f in functions.items() if name != model for value in walk_values(f))
    if not model or not any(map(_is_costly, worth)):
        return functions
    raising = _Raising(legend, time, _share_scalars(functions), Values(legend))
    new = {name: raising.rewrite(function) for name, function in raising.functions.items() if name != model}
    return {name: new[name] if name in new else raising.compute(raising.functions[name]) for name in functions}


def _drop_ones(function: Function, legend: Legend) -> Function:
    """`μ x` is x where the scalar μ is 1; the formulas of the legend stay."""

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


def sink_masks(functions: Functions, legend: Legend) -> Functions:
    """The functions with causal masks computed where they are added, instead of passed to every layer."""
    functions, values = dict(functions), Values(legend)
    for name in reversed(functions):
        calls = [call for function in functions.values() for call in walk_calls(function) if call.function == name]
        arguments = enumerate(zip(*(call.arguments for call in calls), strict=True))
        masks = {place: some for place, some in arguments if all(_is_causal(mask, values) for mask in some)}
        functions = _move(functions, name, masks) if masks else functions
    return functions


def _is_causal(mask: Value, values: Values) -> bool:
    query = next((letter for letter in mask.axes if f"{letter}'" in mask.axes), "")
    return len(mask.axes) == 2 and bool(query) and values.is_causal(mask, query, f"{query}'")


def _move(functions: Functions, name: str, masks: Mapping[int, tuple[Value, ...]]) -> dict[str, Function]:
    written = {line.value: line.equation for function in functions.values() for line in walk_lines(function.lines)}
    inputs = functions[name].inputs
    rest = [place for place in range(len(inputs)) if place not in masks]
    change = lambda callee, arguments: [arguments[k] for k in rest] if callee == name else arguments  # noqa: E731
    passing = {n: Rewriting(lambda value: _change_arguments(value, change)).rewrite_function(f) for n, f in functions.items()}
    inside = Rewriting(new={inputs[place].value: some[0] for place, some in masks.items()}).rewrite_function(passing[name])
    first = [replace(inputs[k], value=some[0], equation=written.get(some[0])) for k, some in masks.items()]
    passing[name] = replace(inside, inputs=tuple(inside.inputs[k] for k in rest))
    unread = {mask for some in masks.values() for mask in some}
    new = {n: _drop_unread(function, unread) for n, function in passing.items()}
    return new | {name: replace(new[name], lines=(*first, *new[name].lines))}


def _drop_unread(function: Function, masks: set[Value]) -> Function:
    unread = masks - count_reads(function).keys()
    return replace(
        function, lines=tuple(line for line in function.lines if isinstance(line, Turns) or line.value not in unread)
    )


# ---------------------------------------------------------------------------------------------------------------- calls


def _change_arguments(value: Value, change: Callable[[str, tuple[Value, ...]], Iterable[Value]]) -> Value:
    """A value; where it is a call, one with other arguments."""
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
