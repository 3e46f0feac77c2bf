"""Rewrites a function: a rule gives other values for some, and all that is made of these is made anew."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field, replace

from einformer.program.operations import Carried, Function, Line, Operation, Turns, Value, replace_operands


@dataclass(slots=True)
class Rewriting:
    """A rewrite of one function. The rule sees each value once, after its operands were rewritten."""

    rule: Callable[[Value], Value] = lambda value: value
    new: dict[Value, Value] = field(default_factory=dict)  # of each old value

    def value(self, old: Value) -> Value:
        """What stands in the place of a value."""
        if old not in self.new:
            operation = replace_operands(old.operation, self.value)
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


class Descending(Rewriting):
    """A rewrite whose rule sees each value before what it is made of."""

    __slots__ = ()

    def value(self, old: Value) -> Value:
        """What stands in the place of a value."""
        if old not in self.new:
            value = self.rule(old)
            operation = replace_operands(value.operation, self.value)
            self.new[old] = value if operation is value.operation else replace(value, operation=operation)
        return self.new[old]


def walk_values(function: Function) -> Iterator[Value]:
    """The values of a function, each once, after its operands."""
    return walk(*walk_roots(function))


def walk(*values: Value, closed: Collection[Value] = ()) -> Iterator[Value]:
    """Values and all that they are made of, each once, after its operands; what is closed is not looked into."""
    seen, todo = set[Value](), [(value, False) for value in reversed(values)]
    while todo:
        value, done = todo.pop()
        if done:
            yield value
        elif value not in seen:
            seen.add(value)
            inside = () if value in closed else value.operands
            todo += [(value, True), *((operand, False) for operand in reversed(inside))]


def count_reads(function: Function) -> Counter[Value]:
    """How often each value is read: as an operand, by a loop, as the output; not by the line that names it."""
    counted = Counter(operand for value in walk_values(function) for operand in value.operands)
    counted[function.output.value] += 1
    for turns in reversed([*walk_loops(function.lines)]):
        counted[turns.count] += 1
        for each in turns.carried:  # a name of one turn is not read by the next
            counted.update([each.last] if each.before is None and counted[each.after] else [])
            counted.update([each.before, each.last] if each.before is not None else [])
    return counted


def prune(function: Function, nothing: Operation) -> Function:
    """A function in whose lines `nothing` stands where its output does not depend on what they compute."""
    used = _find_used(function)

    def kept(line: Line | Turns) -> Line | Turns:
        if isinstance(line, Line):
            return line if line.value in used else replace(line, value=Value(nothing, line.value.axes), notes=())
        carried = tuple(each for each in line.carried if {each.within, each.after} & used)
        return replace(line, carried=carried, lines=tuple(map(kept, line.lines)))

    return replace(function, lines=tuple(map(kept, function.lines)))


def _find_used(function: Function) -> set[Value]:
    """The values that the output of a function depends on."""
    used, todo = set[Value](), [function.output.value]
    carried = {
        value: (each, turns)
        for turns in walk_loops(function.lines)
        for each in turns.carried
        for value in (each.within, each.after)
    }
    while todo:
        value = todo.pop()
        if value not in used:
            used.add(value)
            todo += value.operands
            if value in carried:
                each, turns = carried[value]
                todo += [turns.count, each.last, *([] if each.before is None else [each.before])]
    return used


def walk_roots(function: Function) -> Iterator[Value]:
    """The values that lines name, in order, and those of loops."""
    for line in (*function.inputs, *function.weights, *function.scalars, *walk_lines(function.lines), function.output):
        yield line.value


def walk_loops(lines: tuple[Line | Turns, ...]) -> Iterator[Turns]:
    """The loops among some lines, those outside first."""
    for line in lines:
        if isinstance(line, Turns):
            yield line
            yield from walk_loops(line.lines)


def walk_lines(lines: Iterable[Line | Turns]) -> Iterator[Line]:
    """The lines of equations among some lines, those of loops too."""
    for line in lines:
        if isinstance(line, Turns):
            yield from walk_lines(line.lines)
        else:
            yield line
