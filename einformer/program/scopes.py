"""Says which named values may be computed where they are read: those that nothing else reads, in the same turn of a loop."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from einformer.language.sizes import Legend
from einformer.program import operations as op
from einformer.program.operations import Function, Line, Turns, Value
from einformer.program.rewrite import Descending, count_reads
from einformer.program.terms import Terms, Values


@dataclass(slots=True)
class Scope:
    """The values of one function: which have names, how often each is read, in which loops it is computed."""

    values: Values
    names: dict[Value, str] = field(default_factory=dict)
    loops: dict[Value, tuple[str, ...]] = field(default_factory=dict)  # around the line of a value, a recurrence apart
    reads: Counter[Value] = field(default_factory=Counter)
    here: tuple[str, ...] = ()  # the loops around what is looked at
    standing: dict[str, Value] = field(default_factory=dict)  # what each name stands for there
    plain: set[Value] = field(default_factory=set)  # what a kernel wants as it is written
    fixed: frozenset[Value] = frozenset()  # weights and scalars
    learned: frozenset[Value] = frozenset()  # weights that are trained

    @classmethod
    def of(cls, function: Function, legend: Legend, trained: frozenset[str] = frozenset()) -> Scope:
        """The scope of a function, of whose weights these are trained."""
        learned = frozenset(line.value for line in function.weights if line.name in trained)
        fixed = frozenset(line.value for line in (*function.weights, *function.scalars))
        scope = cls(Values(legend), reads=count_reads(function), fixed=fixed, learned=learned)
        for line in (*function.inputs, *function.weights, *function.scalars):
            scope.names[line.value] = line.name
        scope.enter(function.lines, ())
        return scope

    def enter(self, lines: tuple[Line | Turns, ...], loops: tuple[str, ...]) -> None:
        """Take the names of some lines."""
        for line in lines:
            if isinstance(line, Turns):
                inside = (*loops, line.letter)
                self.names |= {value: each.name for each in line.carried for value in (each.within, each.after)}
                self.enter(line.lines, inside)
            else:
                self.names.setdefault(line.value, line.name)
                if not isinstance(line.value.operation, op.Recur | op.Input | op.Weight):
                    self.loops.setdefault(line.value, loops)

    def stands(self, value: Value) -> bool:
        """Has a value its name still, or the name of a weight?"""
        return value in self.fixed or self.standing.get(self.names[value]) is value

    def find_changed(self, value: Value, there: set[Value] | None = None) -> str:
        """The name of something that a value is made of and that has changed since; not of what is known to be `there`."""
        there = set() if there is None else there
        for each in self.walk_leaves(value):
            if each not in there and not self.stands(each):
                if self.loops.get(each) != self.here or self.find_changed(each, there):
                    return self.names[each]
                there.add(each)
        return ""

    def is_computed(self, value: Value) -> bool:
        """Has a value a name, under which it is computed in the loops around here, and could be computed again?"""
        return self.loops.get(value) == self.here and not self.find_changed(value)

    def is_open(self, value: Value) -> bool:
        """May a value be computed where it is read: has it no name, or a reader alone?"""
        return value not in self.names or (self.reads[value] == 1 and self.is_computed(value))

    def read_named(self, value: Value) -> Terms:
        """The terms of a value, which has a name or not; other names are closed."""
        return self.values.apart(value, lambda inner: self.values.terms(inner, self.names.__contains__))

    def read_opened(self, value: Value) -> Terms:
        """Its terms; names that nothing else reads are opened."""
        return self.values.apart(value, lambda inner: self.values.terms(inner, lambda each: not self.is_open(each)))

    def read_wide(self, value: Value) -> Terms:
        """Its terms; all names that are computed here are opened."""
        closed = lambda each: each in self.names and not self.is_computed(each)  # noqa: E731
        return self.values.apart(value, lambda inner: self.values.terms(inner, closed))

    def covers(self, value: Value, kernel: Value) -> bool:
        """Is what a kernel takes in of a value read by nothing else?"""
        kept, inside, todo = set(self.walk_leaves(kernel)), set[Value](), [value]
        while todo:
            each = todo.pop()
            if each not in inside and (each is value or each not in kept):
                inside.add(each)
                todo += each.operands if each is value or each not in self.names or self.is_computed(each) else ()
        counted = Counter(operand for each in inside for operand in each.operands)
        taken = (each for each in inside if each is not value and self.is_computed(each))
        return all(counted[each] == self.reads[each] for each in taken)

    def walk_leaves(self, value: Value) -> Iterator[Value]:
        """The named values that a value is made of."""
        for operand in value.operands:
            if operand in self.names:
                yield operand
            else:
                yield from self.walk_leaves(operand)


@dataclass(slots=True)
class Following(Descending):
    """A rewrite that knows at each line what names stand for."""

    scope: Scope = field(kw_only=True)

    def plain(self, line: Line) -> Line:
        """A line of an equation."""
        value = self.value(line.value)
        self.scope.standing[line.name] = line.value
        return replace(line, value=value)

    def line(self, line: Line | Turns) -> Line | Turns:
        """A line, or those of a loop."""
        if isinstance(line, Line):
            return self.plain(line)
        around, count = self.scope.here, self.value(line.count)
        self.scope.here = (*around, line.letter)
        self.scope.standing |= {each.name: each.within for each in line.carried}
        lines = tuple(map(self.line, line.lines))
        carried = tuple(map(self.carried, line.carried))
        self.scope.standing |= {each.name: each.after for each in line.carried}
        self.scope.here = around
        return replace(line, count=count, carried=carried, lines=lines)
