"""Prints a program for a reader: each equation as it is written, and below it the operations that it comes to."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import assert_never

from einformer.language.printer import show
from einformer.program import operations as op
from einformer.program.operations import Function, Line, Program, Turns, Value

INDENT = "  "
_INFIX = ("+", "*", "/", "^", "<", "<=", ">", ">=", "==", "!=", "and", "or", "mod")


# The functions of a program, each after those that it calls.
def list_program(program: Program) -> str:
    return "\n\n".join("\n".join(_Listing().list_function(function)) for function in program.functions.values())


@dataclass(slots=True)
class _Listing:
    """The lines of one function, and the names of its values."""

    names: dict[Value, str] = field(default_factory=dict)
    count: int = 0

    def list_function(self, function: Function) -> Iterator[str]:
        declared = [*function.inputs, *(w for w in function.weights if w.value.operation == op.StoredWeight(w.name))]
        self.names |= {line.value: spell_line(line) for line in declared}
        inputs = ", ".join(map(spell_line, function.inputs))
        yield f"{function.name}({inputs}) -> {spell_line(function.output)}"
        weights = ", ".join(spell_line(line) for line in declared[len(function.inputs) :])
        yield from [f"{INDENT}weights {weights}"] * bool(weights)
        tied = (weight for weight in function.weights if weight not in declared)
        yield from self.list_lines((*tied, *function.scalars, *function.lines), INDENT)
        output = list(self.list_below(function.output.value, INDENT))
        yield from [*output, f"{INDENT}return {self.spell(function.output.value)}"]

    def list_lines(self, lines: Iterable[Line | Turns], indent: str) -> Iterator[str]:
        for line in lines:
            yield from self.list_turns(line, indent) if isinstance(line, Turns) else self.list_line(line, indent)

    def list_line(self, line: Line, indent: str) -> Iterator[str]:
        if line.equation is not None:
            yield f"{indent}# {show(line.equation)}"
        yield from self.assign(line.value, spell_line(line), indent)

    def assign(self, value: Value, name: str, indent: str) -> Iterator[str]:
        if value in self.names:
            yield f"{indent}{name} = {self.names[value]}"
            return
        if isinstance(value.operation, op.Recur):
            self.names[value.operation.so_far] = f"{name} so far"
            yield from self.list_below(value.operation.step, indent + INDENT)
        else:
            yield from self.list_steps(value.operands, indent)
        yield f"{indent}{name} = {self.spell_operation(value.operation)}"
        self.names[value] = name

    def list_turns(self, turns: Turns, indent: str) -> Iterator[str]:
        yield from self.list_below(turns.count, indent)
        yield f"{indent}for {turns.letter} < {self.spell(turns.count)}:"
        self.names |= {carried.within: _spell_name(carried.name, carried.within.axes) for carried in turns.carried}
        yield from self.list_lines(turns.lines, indent + INDENT)
        self.names |= {carried.after: _spell_name(carried.name, carried.after.axes) for carried in turns.carried}

    # A value below has a number; one made of numbers alone stands where it is read.
    def list_below(self, value: Value, indent: str) -> Iterator[str]:
        if value not in self.names and not _is_number(value):
            self.count += 1
            yield from self.assign(value, _spell_name(str(self.count), value.axes), indent)

    def list_steps(self, values: Sequence[Value], indent: str) -> Iterator[str]:
        for value in values:
            yield from self.list_below(value, indent)

    # ------------------------------------------------------------------------------------------------- operations

    # The value is in parentheses where it does not stand alone.
    def spell(self, value: Value, alone: bool = True) -> str:
        if value in self.names:
            return self.names[value]
        text = self.spell_operation(value.operation)
        return text if alone or not _is_infix(value) else f"({text})"

    def spell_operation(self, operation: op.Operation) -> str:
        match operation:
            case op.Input(name) | op.StoredWeight(name) | op.Table(name):
                return name
            case op.Constant(value):
                return str(value)
            case op.Iota(letter):
                return letter
            case op.Turn(letter):
                return f"turn {letter}"
            case op.Map(function, arguments) if function in _INFIX:
                return f" {function} ".join(self.spell(argument, False) for argument in arguments)
            case op.Map(function, arguments):
                return f"{function}({self.spell_all(arguments)})"
            case op.Reduce(operator, letters, argument, counts):
                return f"{operator} over {' '.join(letters)}: {self.spell_all([*counts, argument])}"
            case op.Einsum(letters, factors):
                return f"contract {' '.join(letters)}: {self.spell_all(factors)}"
            case op.View(argument, old, new):
                return f"view {self.spell(argument)}: {spell_labels(old)} as {spell_labels(new)}"
            case op.Spread(argument):
                return f"spread {self.spell(argument)}"
            case op.Gather(argument, slots):
                places = [f"{spell_labels([slot.label])} = {self.spell(slot.number)}" for slot in slots]
                return f"gather {self.spell(argument)} at {', '.join(place for place in places if not _is_itself(place))}"
            case op.Call(function, instance, turns, arguments):
                where = f" of {'_'.join(filter(None, [instance, ''.join(turns)]))}" if instance else ""
                return f"call {function}{where}: {self.spell_all(arguments)}"
            case op.Recur(letter, step):
                return f"recur over {letter}: {self.spell(step)}"
            case op.Rewritten():
                return f"{type(operation).__name__.lower()} {self.spell_all(Value(operation).operands)}"
            case _:
                assert_never(operation)

    def spell_all(self, values: Sequence[Value]) -> str:
        return ", ".join(map(self.spell, values))


# `u_bs(ae)`.
def spell_line(line: Line) -> str:
    return f"{line.name}_{spell_labels(line.labels)}" if line.labels else line.name


def spell_labels(labels: Sequence[op.Label]) -> str:
    return "".join(label[0] if len(label) == 1 else f"({''.join(label)})" for label in labels)


def _spell_name(name: str, axes: op.Axes) -> str:
    return f"{name}_{''.join(axes)}" if axes else name


def _is_itself(place: str) -> bool:
    letter, _, number = place.partition(" = ")
    return letter == number


def _is_number(value: Value) -> bool:
    pure = isinstance(value.operation, op.Constant | op.Iota | op.Turn | op.Map)
    return pure and value.kind != "tensor" and all(map(_is_number, value.operands))


def _is_infix(value: Value) -> bool:
    return isinstance(value.operation, op.Map) and value.operation.function in _INFIX
