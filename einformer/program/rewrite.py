"""Walks the values of a function, and rewrites them: a rule gives other values for some, and all that read these are made anew.

A scope says which named values may be computed where they are read: those that nothing else reads, in the same turn of a loop.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from einformer.language.sizes import Legend
from einformer.program import operations as op
from einformer.program.operations import Carried, Function, Line, Operation, Turns, Value, replace_operands
from einformer.program.terms import Terms, Values

Conditions = tuple[tuple[Value, bool], ...]  # of `where`, and whether they hold

# ---------------------------------------------------------------------------------------------------------------- walks


# Values and all that they are made of, each once, after its operands; the operands of closed values are passed over. Those
# `seen` before are left out, and the others are among them afterwards.
def walk(*values: Value, closed: Collection[Value] = (), seen: set[Value] | None = None) -> Iterator[Value]:
    seen, todo = set() if seen is None else seen, [(value, False) for value in reversed(values)]
    while todo:
        value, done = todo.pop()
        if done:
            yield value
        elif value not in seen:
            seen.add(value)
            inside = () if value in closed else value.operands
            todo += [(value, True), *((operand, False) for operand in reversed(inside))]


# Operands come first.
def walk_values(function: Function) -> Iterator[Value]:
    return walk(*(line.value for line in list_lines(function)), function.output.value)


# Calls in arguments come first.
def walk_calls(function: Function) -> Iterator[op.Call]:
    return (value.operation for value in walk_values(function) if isinstance(value.operation, op.Call))


# The conditions that hold wherever a value is read, by the branches of `where` that read it: elsewhere it is not used.
def find_conditions(function: Function, values: Values) -> dict[Value, Conditions]:
    inner = list(walk_values(function))
    carried = [tensor for tensor in walk_carried(function.lines) if {*tensor.values} & {*inner}]
    outside = [function.output.value, *(value for tensor in carried for value in tensor.sources)]
    outside += [line.value for line in walk_lines(function.lines) if line.equation and line.equation.relation == "return"]
    held: dict[Value, dict[tuple[int, bool], Value]] = {value: {} for value in outside}
    for value in reversed(inner):
        for operand, conditions in _pass_down(value, held.setdefault(value, {}), values):
            around = held.get(operand, conditions)
            held[operand] = {key: around[key] for key in around if key in conditions}
    return {
        value: tuple((condition, holds) for (_, holds), condition in conditions.items()) for value, conditions in held.items()
    }


# Nothing holds where the operands have letters of their own.
def _pass_down(
    value: Value, held: dict[tuple[int, bool], Value], values: Values
) -> Iterator[tuple[Value, dict[tuple[int, bool], Value]]]:
    match value.operation:
        case op.Map("where", (condition, then, otherwise)):
            yield condition, held
            for arm, holds in ((then, True), (otherwise, False)):
                yield arm, held | {(values.meaning(condition), holds): condition}
        case op.Map() | op.Spread():
            yield from ((operand, held) for operand in value.operands)
        case op.Reduce(letters=letters) | op.Einsum(letters=letters):
            outside = {key: condition for key, condition in held.items() if set(letters).isdisjoint(condition.axes)}
            yield from ((operand, outside) for operand in value.operands)
        case _:
            yield from ((operand, {}) for operand in value.operands)


# Lines are inputs, weights, scalars and equations, also those of loops.
def list_lines(function: Function) -> list[Line]:
    return [*function.inputs, *function.weights, *function.scalars, *walk_lines(function.lines)]


def walk_lines(lines: Iterable[Line | Turns]) -> Iterator[Line]:
    for line in lines:
        yield from walk_lines(line.lines) if isinstance(line, Turns) else (line,)


# Outer loops come first.
def walk_loops(lines: Iterable[Line | Turns]) -> Iterator[Turns]:
    for line in lines:
        if isinstance(line, Turns):
            yield line
            yield from walk_loops(line.lines)


def walk_carried(lines: Iterable[Line | Turns]) -> Iterator[Carried]:
    return (carried for turns in walk_loops(lines) for carried in turns.carried)


# Loops may name values too. The first of several names counts.
def name_values(lines: Sequence[Line | Turns]) -> dict[Value, Line]:
    own = [*walk_lines(lines)]
    first, last = ({line.value: line for line in some} for some in (reversed(own), own))
    for turns in reversed([*walk_loops(lines)]):
        last |= {part.after: replace(last[part.last], value=part.after) for part in turns.carried if part.last in last}
    return last | first


def find_read(lines: Sequence[Line | Turns], named: Collection[Value] = ()) -> set[Value]:
    first = {carried.before for carried in walk_carried(lines) if carried.before is not None}
    return first | {*walk(*(line.value for line in walk_lines(lines)), closed=named)}


# Comparisons, choices and numbers of slots pass no gradient on.
def list_differentiated(value: Value) -> tuple[Value, ...]:
    match value.operation:
        case op.Gather(argument):
            return (argument,)
        case op.Map("where", (_, *arms)):
            return tuple(arms)
        case operation:
            row = op.find_row(operation)
            return () if row and row.condition else value.operands


def find_differentiated(function: Function) -> set[Value]:
    carried = [*walk_carried(function.lines)]
    changed = {tensor.after: (tensor.last,) for tensor in carried} | {tensor.within: tensor.sources for tensor in carried}
    return reach(function.output.value, lambda value: (*changed.get(value, ()), *list_differentiated(value)))


def reach(start: Value, list_next: Callable[[Value], Iterable[Value]]) -> set[Value]:
    reached, todo = set[Value](), [start]
    while todo:
        value = todo.pop()
        if value not in reached:
            reached.add(value)
            todo += list_next(value)
    return reached


def count_operands(values: Iterable[Value]) -> Counter[Value]:
    return Counter(operand for value in values for operand in value.operands)


# Operands, loops and the output read a value; the line that names it does not.
def count_reads(function: Function) -> Counter[Value]:
    counted = count_operands(walk_values(function))
    counted[function.output.value] += 1
    for turns in reversed([*walk_loops(function.lines)]):
        counted[turns.count] += 1
        for carried in turns.carried:  # a name of one turn is not read by the next
            counted.update(carried.sources if carried.before is not None or counted[carried.after] else [])
    return counted


def name_stored(function: Function) -> dict[Value, str]:
    """The weights that are stored, under their own names and not those of their ties."""
    return {line.value: line.name for line in function.weights if line.value.operation == op.StoredWeight(line.name)}


# A tie is trained if what it is tied to is.
def is_trained(value: Value, trained: frozenset[str]) -> bool:
    stored = [e.operation.name for e in walk(value) if isinstance(e.operation, op.StoredWeight)]
    return bool(stored) and trained.issuperset(stored)


# ---------------------------------------------------------------------------------------------------------------- scope


@dataclass(slots=True)
class FunctionScope:
    """The values of one function: which have names, how often each is read, in which loops it is computed."""

    values: Values
    names: dict[Value, str] = field(default_factory=dict)
    loops: dict[Value, tuple[str, ...]] = field(default_factory=dict)  # around the line of a value, a recurrence apart
    reads: Counter[Value] = field(default_factory=Counter)
    here: tuple[str, ...] = ()  # the loops around the value at hand
    standing: dict[str, Value] = field(default_factory=dict)  # the value of each name there
    plain: set[Value] = field(default_factory=set)  # values that a kernel reads as they are written
    fixed: frozenset[Value] = frozenset()  # weights and scalars
    learned: frozenset[Value] = frozenset()  # weights that are trained
    operators: frozenset[str] = frozenset()  # that stand in the function

    @classmethod
    def of(cls, function: Function, legend: Legend, trained: frozenset[str] = frozenset()) -> FunctionScope:
        learned = frozenset(line.value for line in function.weights if is_trained(line.value, trained))
        fixed = frozenset(line.value for line in (*function.weights, *function.scalars))
        reads = count_reads(function)
        operators = frozenset(value.operation.operator for value in reads if isinstance(value.operation, op.Reduce))
        scope = cls(Values(legend), reads=reads, fixed=fixed, learned=learned, operators=operators)
        for line in (*function.inputs, *function.weights, *function.scalars):
            scope.names[line.value] = line.name
        scope.names |= name_stored(function)
        scope.name_lines(function.lines, ())
        return scope

    def name_lines(self, lines: tuple[Line | Turns, ...], loops: tuple[str, ...]) -> None:
        for line in lines:
            if isinstance(line, Turns):
                self.names |= {value: carried.name for carried in line.carried for value in carried.values}
                self.name_lines(line.lines, (*loops, line.letter))
            else:
                self.names.setdefault(line.value, line.name)
                if not isinstance(line.value.operation, op.Recur | op.Input | op.StoredWeight):
                    self.loops.setdefault(line.value, loops)

    def enter(self, turns: Turns) -> None:
        self.here = (*self.here, turns.letter)
        self.standing |= {carried.name: carried.within for carried in turns.carried}

    def leave(self, turns: Turns) -> None:
        self.here = self.here[:-1]
        self.standing |= {carried.name: carried.after for carried in turns.carried}

    def stands(self, value: Value) -> bool:
        return value in self.fixed or self.standing.get(self.names[value]) is value

    # A kernel may stand here if all the values that it reads still have their names.
    def allows(self, kernel: Value) -> bool:
        return all(map(self.stands, self.walk_leaves(kernel)))

    # Operands that are `there` have not changed.
    def find_changed(self, value: Value, there: set[Value] | None = None) -> str:
        there = set() if there is None else there
        for leaf in self.walk_leaves(value):
            if leaf not in there and not self.stands(leaf):
                if self.loops.get(leaf) != self.here or self.find_changed(leaf, there):
                    return self.names[leaf]
                there.add(leaf)
        return ""

    def is_computed(self, value: Value) -> bool:
        return self.loops.get(value) == self.here and not self.find_changed(value)

    def is_open(self, value: Value) -> bool:
        return value not in self.names or (self.reads[value] == 1 and self.is_computed(value))

    def read(self, value: Value, opens: Callable[[Value], bool] = lambda _: False) -> Terms:
        closed = lambda inner: inner in self.names and not opens(inner)  # noqa: E731
        return self.values.apart(value, lambda inner: self.values.terms(inner, closed))

    # Nothing else reads the values that a kernel replaces.
    def covers(self, value: Value, kernel: Value) -> bool:
        leaves = set(self.walk_leaves(kernel))
        inside, todo = {value}, [*value.operands]
        while todo:
            inner = todo.pop()
            if inner not in inside and inner not in leaves:
                inside.add(inner)
                todo += inner.operands if inner not in self.names or self.is_computed(inner) else ()
        counted = count_operands(inside)
        return all(counted[inner] == self.reads[inner] for inner in inside - {value} if self.is_computed(inner))

    def walk_leaves(self, value: Value) -> Iterator[Value]:
        for operand in value.operands:
            yield from (operand,) if operand in self.names else self.walk_leaves(operand)


# ------------------------------------------------------------------------------------------------------------- rewrites


@dataclass(slots=True)
class Rewriting:
    """A rewrite of one function.

    The rule sees each value once, after its operands were rewritten; where it is `descending`, before them. A scope follows
    the names at each line.
    """

    rule: Callable[[Value], Value] = lambda value: value
    new: dict[Value, Value] = field(default_factory=dict)  # of each old value
    descending: bool = False
    scope: FunctionScope | None = None

    def rewrite(self, old: Value) -> Value:
        if old not in self.new:
            value = self.rule(old) if self.descending else old
            operation = replace_operands(value.operation, self.rewrite)
            value = value if operation is value.operation else Value(operation, value.axes, value.kind, value.span)
            self.new[old] = value if self.descending else self.rule(value)
        return self.new[old]

    def rewrite_line(self, line: Line | Turns) -> Line | Turns:
        return self.rewrite_loop(line) if isinstance(line, Turns) else self.rewrite_equation(line)

    def rewrite_equation(self, line: Line) -> Line:
        value = self.rewrite(line.value)
        if self.scope is not None:
            self.scope.standing[line.name] = line.value
        return replace(line, value=value)

    def rewrite_loop(self, turns: Turns) -> Turns:
        count = self.rewrite(turns.count)
        if self.scope is not None:
            self.scope.enter(turns)
        lines, carried = tuple(map(self.rewrite_line, turns.lines)), tuple(map(self.rewrite_carried, turns.carried))
        if self.scope is not None:
            self.scope.leave(turns)
        return replace(turns, count=count, carried=carried, lines=lines)

    def rewrite_carried(self, carried: Carried) -> Carried:
        before = None if carried.before is None else self.rewrite(carried.before)
        return Carried(carried.name, before, *map(self.rewrite, (carried.within, carried.last, carried.after)))

    def rewrite_function(self, function: Function) -> Function:
        lists = function.inputs, function.weights, function.scalars
        inputs, weights, scalars = (tuple(map(self.rewrite_equation, lines)) for lines in lists)
        lines = tuple(map(self.rewrite_line, function.lines))
        return Function(function.name, inputs, weights, scalars, lines, self.rewrite_equation(function.output))


# `nothing` stands where the output does not depend on what lines compute.
def prune(function: Function, nothing: Operation) -> Function:
    used = find_used(function)

    def keep(line: Line | Turns) -> Line | Turns:
        if isinstance(line, Line):
            return line if line.value in used else replace(line, value=Value(nothing, line.value.axes), notes=())
        carried = tuple(part for part in line.carried if {*part.values} & used)
        return replace(line, carried=carried, lines=tuple(map(keep, line.lines)))

    return replace(function, lines=tuple(map(keep, function.lines)))


# Values on which the output depends, in some turn.
def find_used(function: Function) -> set[Value]:
    parts = [(part, turns) for turns in walk_loops(function.lines) for part in turns.carried]
    sources = {value: (turns.count, *part.sources) for part, turns in parts for value in part.values}
    return reach(function.output.value, lambda value: (*value.operands, *sources.get(value, ())))
