"""Rewrites a program so that it continues: it computes the new positions, and reads the others among what a cache keeps.

A tensor that is read at other positions is kept in a line below its own. Every row of a batch has numbers of positions of its
own, so a value over positions is over rows too. `cache.py` derives which tensors are kept, and how far back.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from einformer.language.calls import axis_of
from einformer.language.primitives import row_of
from einformer.language.sizes import Legend
from einformer.language.weights import key
from einformer.program import operations as op
from einformer.program.collectives import Collective
from einformer.program.keeping import Entry
from einformer.program.kernels import Taken
from einformer.program.operations import (
    Axes,
    Carried,
    Function,
    Label,
    Line,
    Slot,
    Turns,
    Value,
    gather,
    index,
    join_labels,
    map_values,
    read_along,
    replace_operands,
    unite_axes,
)
from einformer.program.rewrite import Rewriting, find_read, name_values, walk, walk_lines, walk_loops, walk_values
from einformer.program.terms import Values

Kind = Literal["visible", "earlier", "sum", "same"]
KEPT = " kept"  # the end of the name of a line that keeps another

# ------------------------------------------------------------------------------------------------------------- operations


@dataclass(frozen=True, slots=True)
class Positions(op.Rewritten):
    """The numbers of the new positions, or of all visible ones where the letter has a prime; the number of a step."""

    letter: str
    step: bool = False


@dataclass(frozen=True, slots=True)
class Among(op.Rewritten):
    """The new positions, or the position of a step, counted from their end: -1 is the last."""

    letter: str
    step: bool = False


@dataclass(frozen=True, slots=True)
class Ago(op.Rewritten):
    """A number of a position, counted from the end of the new ones."""

    number: Value


@dataclass(frozen=True, slots=True)
class Places(op.Rewritten):
    """Where positions lie among the visible ones, given their numbers."""

    number: Value
    letter: str


@dataclass(frozen=True, slots=True)
class Keep(op.Rewritten):
    """A tensor at all its visible positions, or at some earlier ones and the new; these are kept at this path."""

    argument: Value
    letters: tuple[str, str]  # of the new positions, and of these
    path: str
    always: bool  # in each turn of the loops around


@dataclass(frozen=True, slots=True)
class Run(op.Rewritten):
    """A running sum or product that goes on from the last."""

    operator: str
    letter: str
    argument: Value
    path: str


@dataclass(frozen=True, slots=True)
class Resume(op.Recur):
    """A recurrence that goes on from its last steps."""

    path: str


@dataclass(frozen=True, slots=True)
class Asked(op.Rewritten):
    """A tensor at the positions whose outputs are asked for."""

    argument: Value
    letter: str


@dataclass(frozen=True, slots=True)
class Steady(op.Rewritten):
    """A tensor that is the same at every step: the first step computes it, and it is kept at this path."""

    argument: Value
    path: str


KEEPING = (Keep, Run, Resume, Steady)
CONTINUING = (*KEEPING, Positions, Ago, Places, Asked)

# ------------------------------------------------------------------------------------------------------------ the rewrite


# The functions of a causal model, each of which takes a cache if it reads one.
def continue_functions(
    functions: Mapping[str, Function], kept: Sequence[Entry[int]], legend: Legend, name: str, time: str, rows: Axes
) -> dict[str, Function]:
    continued, meanings = dict[str, Function](), Values(legend)
    for function in functions.values():
        own = {(entry.name, entry.loops): entry.kind for entry in kept if entry.layer == function.name and entry.kind != "sum"}
        entries = [entry for entry in kept if entry.layer == function.name]
        counts = Counter(_number(entry.full_path.removeprefix(entry.frame).lstrip(".")) for entry in entries)
        steady = {version for version, kind in own.items() if kind == "same"}
        positions = {version: kind for version, kind in own.items() if kind != "same"}
        turns = len({entry.frame for entry in entries})
        new = _Continuing(time, rows, positions, counts, turns, function.name == name, meanings).rewrite_function(function)
        new = _compute_once(new, steady, "{path}" * (function.name != name))
        continued[function.name] = _narrow(new, continued, time) if function.name == name else new
    return continued


def _number(path: str) -> str:
    return re.sub(r"blocks\.(\d+|\{\w+\})", "blocks.{}", path.removeprefix("{path}"))


def reads_cache(function: Function, functions: Mapping[str, Function]) -> bool:
    return any(_continues(value.operation, functions) for value in walk_values(function))


def keeps_anything(function: Function, functions: Mapping[str, Function]) -> bool:
    inside = [value.operation for value in walk_values(function)]
    calls = {e.function for e in inside if isinstance(e, op.Call)}
    return any(isinstance(e, KEEPING) for e in inside) or any(keeps_anything(functions[name], functions) for name in calls)


@dataclass(slots=True)
class _Continuing:
    """The rewrite of one function. `here` is the number of the position at which values are computed: those of the new ones."""

    time: str
    rows: Axes
    kept: Mapping[tuple[str, int], Kind]  # by version, and in how many loops that is
    counts: Mapping[str, int]  # how many tensors are kept at a path, whatever the turns
    turns: int  # in how many turns of the loops around and calls of the function that may be
    is_model: bool
    meanings: Values
    new: dict[Value, Value] = field(default_factory=dict)  # of each old value
    keeping: dict[Value, Value] = field(default_factory=dict)  # of a kept value: the same with its other positions
    lying: dict[Value, tuple[Line, str]] = field(default_factory=dict)  # of a named value: its line, and its path in a cache
    around: tuple[str, ...] = ()  # the letters of the loops around
    path: str = ""  # where the running sums of this line are kept
    so_far: set[Value] = field(default_factory=set)  # the earlier steps of recurrences
    position: Value | None = None

    @property
    def here(self) -> Value:
        return self.position or self.numbers(self.time)

    def rewrite_function(self, function: Function) -> Function:
        inputs = tuple(map(self.renew, function.inputs))
        kept = [line for new in inputs for line in self.define(new, (new.name, 0))]
        lines = (*kept, *self.rewrite_lines(function.lines))
        scalars = tuple(line for line in function.scalars if not self.is_timed(line.labels))
        weights = tuple(replace(line, value=self.value(line.value)) for line in function.weights)
        return replace(
            function, inputs=inputs, weights=weights, scalars=scalars, lines=lines, output=self.renew(function.output)
        )

    # ----------------------------------------------------------------------------------------------------------- lines

    def rewrite_lines(self, lines: Sequence[Line | Turns]) -> Iterator[Line | Turns]:
        for line in lines:
            yield from self.rewrite_loop(line) if isinstance(line, Turns) else self.rewrite_line(line)

    def rewrite_line(self, line: Line) -> Iterator[Line]:
        version = line.version or (line.name, -1)
        self.path = self.inside + key(version[0])
        line = self.renew(line)
        yield line
        if line.equation is None or line.equation.relation != "return":
            yield from self.define(line, version)

    def renew(self, line: Line) -> Line:
        return replace(line, value=self.value(line.value), labels=self.labels(line.labels))

    # A tensor is kept if it is read at other positions, by something that is computed.
    def define(self, line: Line, version: tuple[str, int]) -> Iterator[Line]:
        self.lying[line.value] = line, self.inside + key(version[0])
        kind = self.kept.get(version)
        if kind is not None and line.value.operation != Taken():
            yield self.keep(line.value, kind)

    def keep(self, value: Value, kind: Kind) -> Line:
        line, path = self.lying[value]
        labels, letter = tuple(self.move_label(label, kind) for label in line.labels), self.other(kind)
        operation = Keep(value, (self.time, letter), path, self.counts[_number(path)] == self.turns)
        self.keeping[value] = kept = Value(operation, join_labels(labels), value.kind, value.span)
        return Line(line.name + KEPT, kept, labels)

    def move_label(self, label: Label, kind: Kind) -> Label:
        return (self.other(kind),) if label == (self.time,) else label

    def other(self, kind: Kind) -> str:
        return self.visible if kind == "visible" else f"-{self.time}"

    # The kept positions of a tensor that the loop changes are another value in each turn, too.
    def rewrite_loop(self, turns: Turns) -> Iterator[Line | Turns]:
        count, first = self.value(turns.count), [line for part in turns.carried for line in self.enter(part, turns)]
        self.around += (turns.letter,)
        around = self.turns
        self.turns *= self.count_turns(turns)
        lines = tuple(self.rewrite_lines(turns.lines))
        read = find_read(lines)
        lines += tuple(line for part in turns.carried for line in self.leave(part, read))
        self.around, self.turns = self.around[:-1], around
        named = {line.name for line in walk_lines(lines)}
        carried = [new for part in turns.carried for new in self.rewrite_carried(part, turns)]
        carried = [part for part in carried if part.before or part.name in named]
        unread = {part for part in carried if part.name.endswith(KEPT) and part.within not in read}
        carried = [replace(part, before=None) if part in unread else part for part in carried]
        yield from (line for line in first if any(part.before is line.value for part in carried))
        yield replace(turns, count=count, carried=tuple(carried), lines=lines)

    def count_turns(self, turns: Turns) -> int:
        return int(self.meanings.legend.number(turns.loop.count))

    # A tensor as the first turn finds it; it is kept where the turns keep theirs.
    def enter(self, carried: Carried, turns: Turns) -> Iterator[Line]:
        if carried.before is not None:
            before, within = self.value(carried.before), self.value(carried.within)
            self.lying[within] = self.lying[before]
            versions = (line.version for line in walk_lines(turns.lines) if line.name == carried.name)
            kind = next((self.kept[version] for version in versions if version is not None and version in self.kept), None)
            if before not in self.keeping and kind is not None:
                yield self.keep(before, kind)
            if before in self.keeping:
                self.keeping[within] = self.stand_in(carried.name, before) if self.count_turns(turns) else self.keeping[before]

    # What a turn ends with is kept where the next one reads it at other positions and nothing else does.
    def leave(self, carried: Carried, read: Collection[Value]) -> Iterator[Line]:
        last, within = self.value(carried.last), self.keeping.get(self.value(carried.within))
        if last not in self.keeping and within is not None and within in read and isinstance(within.operation, op.Input):
            yield self.keep(last, "visible" if self.visible in within.axes else "earlier")

    # The kept positions of a tensor that a loop changes stand for each turn, since the turn is not known.
    def stand_in(self, name: str, value: Value) -> Value:
        return replace(self.keeping[value], operation=op.Input(name + KEPT))

    # A loop that never turns changes nothing; what another leaves is kept only where its last turn keeps it.
    def rewrite_carried(self, carried: Carried, turns: Turns) -> Iterator[Carried]:
        before = None if carried.before is None else self.value(carried.before)
        within, last, after = map(self.value, (carried.within, carried.last, carried.after))
        yield Carried(carried.name, before, within, last, after)
        line, path = self.lying[last if before is None else before]
        if not self.count_turns(turns):
            self.lying[after] = line, path
            if before in self.keeping:
                self.keeping[after] = self.keeping[before]
            return
        self.lying[after] = line, f"{path}.{turns.letter}"
        if last in self.keeping:
            self.keeping[after] = self.stand_in(carried.name, last)
            first = None if before is None else self.keeping[before]
            kept = self.keeping[last]
            yield Carried(carried.name + KEPT, first, self.keeping.get(within, kept), kept, self.keeping[after])

    # The path holds the layer, and the turns of the loops around.
    @property
    def inside(self) -> str:
        return "{path}" * (not self.is_model) + "".join(f"blocks.{{{letter}}}." for letter in self.around)

    # ---------------------------------------------------------------------------------------------------------- values

    def value(self, old: Value) -> Value:
        if old not in self.new:
            self.new[old] = self.rewrite(old)
        return self.new[old]

    def rewrite(self, old: Value) -> Value:
        match old.operation:
            case op.Iota(letter) if letter == self.time:
                return self.here
            case op.Iota(letter) if self.is_time(letter):
                return self.numbers(letter)
            case op.Turn(letter) if letter == self.time:
                return Value(Positions(letter, True), self.rows, "integer", old.span)
            case op.View() as view:
                return self.view(old, view)
            case op.Gather() as gather:
                return self.gather(old, gather)
            case op.Reduce(operator, (letter,), argument) if letter == self.time and row_of(operator, True).looks_back:
                new, path = self.value(argument), self.path
                self.path += "_prime"
                return Value(Run(operator, letter, new, f"{path}.sum"), new.axes, new.kind, old.span)
            case op.Recur(letter, step, so_far, back) if letter == self.time:
                self.so_far.add(so_far)
                return self.make(old, Resume(letter, self.value(step), self.value(so_far), back, self.path))
            case Collective():
                return self.exchange(old)
            case op.Call(path=path):
                call = replace_operands(old.operation, self.value)
                assert isinstance(call, op.Call)
                return self.make(old, replace(call, path=f"{self.inside}{path}."))
            case _:
                return self.make(old, replace_operands(old.operation, self.value))

    # It is over rows where it is over positions, or where its operands are.
    def make(self, old: Value, operation: op.Operation) -> Value:
        axes = self.axes(old.axes)
        pairs = [*zip(old.operands, Value(operation).operands, strict=True)]
        gained = {row for row in self.rows for one, new in pairs if row in new.axes and row not in one.axes}
        rows = tuple(row for row in self.rows if row in gained and row not in axes)
        same = operation is old.operation and (*rows, *axes) == old.axes
        return old if same else replace(old, operation=operation, axes=(*rows, *axes))

    def numbers(self, letter: str) -> Value:
        return Value(Positions(letter), (*self.rows, letter), "integer")

    def axes(self, axes: Axes) -> Axes:
        return join_labels(self.labels(tuple((letter,) for letter in axes)))

    # Axes of positions stand behind the axes of rows.
    def labels(self, labels: tuple[Label, ...]) -> tuple[Label, ...]:
        own = {letter for label in labels for letter in label} - {self.time}
        here = tuple((letter,) for letter in self.here.axes if letter not in own)
        new = [part for label in labels for part in (here if label == (self.time,) else (label,))]
        rows = [(row,) for row in self.rows if row not in own and ((row,) in new or self.is_timed(new))]
        return (*rows, *(label for label in new if label not in rows))

    def is_timed(self, labels: Sequence[Label]) -> bool:
        return any(self.is_time(letter) for label in labels for letter in label)

    def is_time(self, letter: str) -> bool:
        return axis_of(letter) == self.time

    @property
    def visible(self) -> str:
        return f"{self.time}'"

    # --------------------------------------------------------------------------------------------------------- reading

    # A letter that becomes that of positions is read at their numbers.
    def view(self, old: Value, view: op.View) -> Value:
        axis = next((k for k, pair in enumerate(zip(view.old, view.new, strict=True)) if self.moves(*pair)), None)
        if axis is None:
            return self.relabel(old, self.value(view.argument), self.labels(view.old), self.labels(view.new))
        before, after = view.old[axis], view.new[axis]
        number = self.value(index(after[0]))
        if before != (self.time,):
            return self.look_up(old, view, axis, number)
        if self.is_formula(view.argument):
            there = replace(self, new={}, position=number)
            return self.relabel(old, there.value(view.argument), there.labels(view.old), self.labels(view.new))
        kept = self.see_all(self.value(view.argument))
        labels = tuple(self.move_label(label, "visible") for label in self.labels(view.old))
        return self.relabel(old, kept, labels, self.labels(view.new))

    # An axis moves if it is not read as it lies.
    def moves(self, before: Label, after: Label) -> bool:
        if len(after) > 1 or not self.is_time(after[0]) or before == after:
            return False
        return before == (self.time,) or not self.is_time(before[0])

    def relabel(self, old: Value, value: Value, before: tuple[Label, ...], after: tuple[Label, ...]) -> Value:
        return value if before == after else Value(op.View(value, before, after), join_labels(after), old.kind, old.span)

    def look_up(self, old: Value, view: op.View, axis: int, number: Value) -> Value:
        inner = tuple(view.old[axis] if k == axis else label for k, label in enumerate(view.new))
        table = self.relabel(old, self.value(view.argument), view.old, inner)
        slots = [Slot((x,), number if x == inner[axis][0] else index(x)) for x in join_labels(inner)]
        return self.build_gather(old, table, slots)

    # A tensor that is not kept is not read at other positions.
    def see_all(self, value: Value) -> Value:
        if value not in self.keeping:
            self.keep(value, "visible")
        return self.keeping[value]

    # At other positions it is exchanged of what is kept.
    def exchange(self, old: Value) -> Value:
        assert isinstance(old.operation, Collective)
        kept, new = (
            self.keeping.get(self.value(old.operation.argument)),
            self.make(old, replace_operands(old.operation, self.value)),
        )
        if kept is not None:
            axes = tuple(
                dict(zip(old.operation.argument.axes, old.axes, strict=True)).get(letter, letter) for letter in kept.axes
            )
            self.keeping[new] = replace(new, operation=replace(old.operation, argument=kept), axes=axes)
        return new

    # Its positions are its own, or lie among those that are kept.
    def gather(self, old: Value, e: op.Gather) -> Value:
        conditions = tuple((self.value(condition), holds) for condition, holds in e.conditions)
        argument, slots, own = self.value(e.argument), list[Slot](), (op.Iota(self.time), op.Turn(self.time))
        for slot in e.slots:
            argument, slot = self.read(argument, slot, e.argument)
            slots.append(slot)
        away = [slot for slot in slots if slot.label == (self.time,) and slot.number.operation not in own]
        if away and self.is_formula(e.argument):
            return self.formula(old, e.argument, slots, away[0].number)
        value = self.build_gather(old, argument, self.open_row(slots), conditions)
        if argument is self.value(e.argument) and e.argument not in self.so_far:
            for number in (slot.number for slot in e.slots if slot.label == (self.time,) and not self.is_own(slot.number)):
                value = self.zero_elsewhere(value, number)
        return value

    # A tensor that is not kept is read at its own position: at another it is zero, or not needed.
    def zero_elsewhere(self, value: Value, number: Value) -> Value:
        here = map_values("==", [self.value(number), self.value(self.find_own(number))], value.span)
        chosen = here, value, Value(op.Constant(0), (), "integer", value.span)
        return Value(op.Map("where", chosen), unite_axes(chosen), value.kind, value.span)

    def read(self, argument: Value, slot: Slot, old: Value) -> tuple[Value, Slot]:
        label, number = slot.label, self.value(slot.number)
        if len(label) != 1 or not self.is_time(label[0]):
            return argument, slot._replace(number=number)
        if isinstance(slot.number.operation, op.Iota | op.Turn) and label == (slot.number.operation.letter,):
            return argument, slot
        if label != (self.time,):
            return argument, slot._replace(number=self.place(number, label[0]))
        if old in self.so_far:
            return argument, slot._replace(number=self.step(slot.number))
        kept = self.keeping.get(argument)
        if kept is not None and not self.is_own(slot.number):
            if self.visible in kept.axes:
                return kept, Slot((self.visible,), self.place(number, self.visible), True)
            return kept, Slot(self.move_label(label, "earlier"), self.ago(slot.number))
        return argument, slot._replace(number=number if self.is_formula(old) else self.find_own(slot.number))

    # `2 s - s` is the position s.
    def is_own(self, number: Value) -> bool:
        return self.meanings.meaning(number) == self.meanings.meaning(self.find_own(number))

    # A step whose number is counted from one has its own place.
    def find_own(self, number: Value) -> Value:
        steps = any(inner.operation == op.Turn(self.time) for inner in walk(number))
        return Value(op.Turn(self.time), (), "integer") if steps else index(self.time)

    # A row is read at a position of several axes or of none.
    def open_row(self, slots: list[Slot]) -> list[Slot]:
        letters = {letter for slot in slots for letter in slot.label} | {*self.rows}
        here = [letter for letter in self.here.axes if letter == self.time or letter not in letters]
        axis = next((k for k, slot in enumerate(slots) if slot.number.operation == op.Iota(self.time)), None)
        if axis is None or here == [self.time]:
            return slots
        return [*slots[:axis], *map(read_along, here), *slots[axis + 1 :]]

    # The gather runs along the rows too that its tensor has here.
    def build_gather(
        self, old: Value, argument: Value, slots: Sequence[Slot], conditions: tuple[tuple[Value, bool], ...] = ()
    ) -> Value:
        rows = (row for row in self.rows if row in argument.axes and not any(slot.label == (row,) for slot in slots))
        return replace(gather(argument, [*map(read_along, rows), *slots], old.span, conditions), kind=old.kind)

    def place(self, number: Value, letter: str) -> Value:
        return Value(Places(number, letter), tuple(dict.fromkeys((*self.rows, *number.axes))), "integer", number.span)

    def ago(self, number: Value) -> Value:
        def count_back(value: Value) -> Value:
            match value.operation:
                case op.Iota(letter) | op.Turn(letter) if letter == self.time:
                    return replace(value, operation=Among(letter, not value.axes))
                case _:
                    return value

        return Value(Ago(Rewriting(count_back).rewrite(number)), number.axes, "integer", number.span)

    def step(self, number: Value) -> Value:
        assert isinstance(number.operation, op.Map)
        terms = (
            argument if argument.operation == op.Turn(self.time) else self.value(argument)
            for argument in number.operation.arguments
        )
        return map_values("+", list(terms), number.span)

    # A formula is made of numbers of positions and of weights alone, so it is computed wherever it is read.
    def is_formula(self, value: Value) -> bool:
        others = (op.Input, op.Call, op.Recur)
        return self.new.get(value) not in self.keeping and not any(isinstance(x.operation, others) for x in walk(value))

    # A formula of positions, at another position; before the start of time it is zero (R4).
    def formula(self, old: Value, argument: Value, slots: Sequence[Slot], number: Value) -> Value:
        there, places = (
            replace(self, new={}, position=number),
            {slot.label: slot.number for slot in slots if slot.label != (self.time,)},
        )
        labels = there.labels(tuple(slot.label for slot in slots))
        moved = [Slot(label, places.get(label) or index(label[0])) for label in labels]
        value = there.value(argument)
        if any(slot.number.operation != op.Iota(slot.label[0]) for slot in moved):
            value = self.build_gather(old, value, moved)
        zero = Value(op.Constant(0), (), "integer", old.span)
        chosen = map_values(">=", [number, zero], old.span), value, zero
        return value if is_natural(number) else Value(op.Map("where", chosen), unite_axes(chosen), value.kind, old.span)


# --------------------------------------------------------------------------------- what is the same at every step


# The first lines make what is the same at every step, and the next ones keep it.
def _compute_once(function: Function, versions: Collection[tuple[str, int]], inside: str) -> Function:
    turned = {line.value for turns in walk_loops(function.lines) for line in walk_lines(turns.lines)}
    named = {value: line for value, line in name_values(function.lines).items() if value not in turned}
    kept = {value: line for value, line in named.items() if line.version in versions}
    if not kept:
        return function
    once = _select(function.lines, {*kept})
    computed, others = find_read(once), [line for line in function.lines if line not in once]
    renaming = [line for line in others if isinstance(line, Line) and line.value in computed]
    read = find_read([line for line in others if line not in renaming], kept) | {function.output.value}
    others = [line for line in others if line not in renaming or line.value in read]
    again = _select(once, set(read), kept)
    paths = {value: inside + key((line.version or "")[0]) for value, line in kept.items()}
    new = {value: replace(value, operation=Steady(value, path)) for value, path in paths.items()}
    rewriting = Rewriting(new=dict(new))
    first = (replace(line, value=new[value], equation=None) for value, line in kept.items())
    rest = (rewriting.rewrite_line(line) for line in function.lines if line in others or line in again)
    return replace(function, lines=(*once, *first, *rest), output=rewriting.rewrite_equation(function.output))


# Values `without` lines are there already.
def _select(lines: Sequence[Line | Turns], values: set[Value], without: Collection[Value] = ()) -> list[Line | Turns]:
    chosen, before, defined = list[Line | Turns](), {*without}, list[set[Value]]()
    for line in lines:  # a value that has a name already is made there
        defined.append(name_values([line]).keys() - before)
        before |= defined[-1]
    for line, new in reversed([*zip(lines, defined, strict=True)]):
        if values & new:
            values |= find_read([line])
            chosen.insert(0, line)
    return chosen


# ------------------------------------------------------------------------------------------------------ outputs


# The last lines, which look at no other position, are computed where outputs are asked for.
def _narrow(function: Function, functions: Mapping[str, Function], time: str) -> Function:
    done, lines = len(function.lines), function.lines
    while done and _stays(lines[done - 1], name_values((*function.inputs, *lines[: done - 1])), functions, time):
        done -= 1
    while any(_find_shared(lines[done:], lines[:done])):
        done += 1
    names = name_values((*function.inputs, *lines[:done]))
    reads = find_read(lines[done:], names)
    narrowed = sorted((line for value, line in names.items() if value in reads and time in value.axes), key=lambda x: x.name)
    new = {line.value: replace(line.value, operation=Asked(line.value, time)) for line in narrowed}
    first = (replace(line, value=new[line.value], equation=None) for line in narrowed)
    rewriting = Rewriting(new=dict(new))
    last = map(rewriting.rewrite_line, lines[done:])
    return replace(function, lines=(*lines[:done], *first, *last), output=rewriting.rewrite_equation(function.output))


# A product of several weights is computed for several lines together.
def _find_shared(some: Sequence[Line | Turns], others: Sequence[Line | Turns]) -> Iterator[Value]:
    named = name_values(others)
    computed = find_read(others) - named.keys()
    yield from (x for x in find_read(some, named) & computed if isinstance(x.operation, op.Rewritten) and x.operands)


# A line stays if it looks neither at another position nor at the number of one.
def _stays(line: Line | Turns, named: Collection[Value], functions: Mapping[str, Function], time: str) -> bool:
    return not any(
        any(axis_of(letter) == time != letter for letter in value.axes)
        or (value not in named and _looks(value.operation, functions, time))
        for value in find_read([line], named)
    )


def _looks(e: op.Operation, functions: Mapping[str, Function], time: str) -> bool:
    over = isinstance(e, op.Reduce | op.Einsum) and time in e.letters
    return over or (isinstance(e, op.Recur) and e.letter == time) or _continues(e, functions)


def _continues(e: op.Operation, functions: Mapping[str, Function]) -> bool:
    return reads_cache(functions[e.function], functions) if isinstance(e, op.Call) else isinstance(e, CONTINUING)


def is_natural(number: Value) -> bool:
    e = number.operation
    return isinstance(e, Positions) or (isinstance(e, op.Constant) and not isinstance(e.value, str) and e.value >= 0)
