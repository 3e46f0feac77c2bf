"""Rewrites a function: a rule gives other values for some, and all that is made of these is made anew."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

from einformer.program.operations import Carried, Function, Line, Turns, Value, operands, with_operands


@dataclass(slots=True)
class Rewriting:
    """A rewrite of one function. The rule sees each value once, after its operands were rewritten."""

    rule: Callable[[Value], Value]
    new: dict[Value, Value] = field(default_factory=dict)  # of each old value

    def value(self, old: Value) -> Value:
        """What stands in the place of a value."""
        if old not in self.new:
            operation = with_operands(old.operation, self.value)
            self.new[old] = self.rule(old if operation is old.operation else replace(old, operation=operation))
        return self.new[old]

    def line(self, line: Line | Turns) -> Line | Turns:
        """A line, or those of a loop."""
        if isinstance(line, Line):
            return self.plain(line)
        carried, lines = tuple(map(self.carried, line.carried)), tuple(map(self.line, line.lines))
        return replace(line, count=self.value(line.count), carried=carried, lines=lines)

    def plain(self, line: Line) -> Line:
        """A line of an equation."""
        return replace(line, value=self.value(line.value))

    def carried(self, carried: Carried) -> Carried:
        """A tensor that a loop changes."""
        before = None if carried.before is None else self.value(carried.before)
        within, last, after = map(self.value, (carried.within, carried.last, carried.after))
        return Carried(carried.name, before, within, last, after)

    def function(self, function: Function) -> Function:
        """A whole function."""
        inputs, weights, scalars = (
            tuple(map(self.plain, lines)) for lines in (function.inputs, function.weights, function.scalars)
        )
        lines = tuple(map(self.line, function.lines))
        return Function(function.name, inputs, weights, scalars, lines, self.plain(function.output))


def values(function: Function) -> Iterator[Value]:
    """The values of a function, each once, after its operands."""
    seen = set[Value]()

    def visit(value: Value) -> Iterator[Value]:
        if value not in seen:
            seen.add(value)
            for operand in operands(value.operation):
                yield from visit(operand)
            yield value

    for value in roots(function):
        yield from visit(value)


def reads(function: Function) -> Counter[Value]:
    """How often each value is read: as an operand, by a loop, as the output; not by the line that names it."""
    counted = Counter(operand for value in values(function) for operand in operands(value.operation))
    counted[function.output.value] += 1
    for turns in loops(function.lines):
        counted[turns.count] += 1
        counted.update(value for each in turns.carried for value in (each.before, each.last) if value is not None)
    return counted


def roots(function: Function) -> Iterator[Value]:
    """The values that lines name, in order, and those of loops."""
    for line in (*function.inputs, *function.weights, *function.scalars, *_flat(function.lines), function.output):
        yield line.value


def loops(lines: tuple[Line | Turns, ...]) -> Iterator[Turns]:
    """The loops among some lines, those outside first."""
    for line in lines:
        if isinstance(line, Turns):
            yield line
            yield from loops(line.lines)


def _flat(lines: tuple[Line | Turns, ...]) -> Iterator[Line]:
    for line in lines:
        if isinstance(line, Turns):
            yield from _flat(line.lines)
        else:
            yield line
