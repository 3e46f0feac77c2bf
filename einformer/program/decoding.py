"""Rewrites a program so that it continues: it computes the new positions, and reads the others among what a cache keeps.

A tensor that is read at other positions is kept in a line below its own. Every row of a batch has numbers of positions of its
own, so that whatever runs over positions runs over rows too. What keeps what, and how far back, `cache.py` derives.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import Literal, TypeVar

from einformer.language.calls import axis_of
from einformer.language.primitives import row_of
from einformer.language.tree import Layer
from einformer.language.weights import key, versions
from einformer.program import operations as op
from einformer.program.cache import Entry
from einformer.program.inequalities import Atom, Linear
from einformer.program.operations import Axes, Carried, Function, Label, Line, Turns, Value, map_values, replace_operands
from einformer.program.rewrite import Rewriting, walk_lines, walk_loops, walk_values

Kind = Literal["visible", "earlier", "sum"]
Some = TypeVar("Some")
KEPT = " kept"  # what the name of a line ends in that keeps another

# ------------------------------------------------------------------------------------------------------------- operations


@dataclass(frozen=True, slots=True)
class Positions(op.Rewritten):
    """The numbers of the new positions, or of all visible ones where the letter has a prime; in a recurrence that of a step."""

    letter: str
    step: bool = False


@dataclass(frozen=True, slots=True)
class Among(op.Rewritten):
    """The new positions, or that of a step, counted from their end: -1 is the last."""

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


KEEPING = (Keep, Run, Resume)
CONTINUING = (*KEEPING, Positions, Ago, Places, Asked)

# ------------------------------------------------------------------------------------------------------------ the rewrite


def continue_functions(
    functions: Mapping[str, Function], layers: Mapping[str, Layer], kept: Sequence[Entry[int]], name: str, rows: Axes
) -> dict[str, Function]:
    """The functions of a causal model, each of which takes a cache if it reads one."""
    time = layers[name].time
    assert time is not None
    decoded = dict[str, Function]()
    for each in functions.values():
        own = {(entry.name, entry.loops): entry.kind for entry in kept if entry.layer == each.name and entry.kind != "sum"}
        whole = Decoding(time.letter, rows, own, versions(layers[each.name]), each.name == name).function(each)
        decoded[each.name] = narrow_to_asked(whole, decoded, time.letter) if each.name == name else whole
    return decoded


def reads_cache(function: Function, functions: Mapping[str, Function]) -> bool:
    """Does a function read a cache, or call one that does?"""
    return any(_continues(value.operation, functions) for value in walk_values(function))


def keeps_anything(function: Function, functions: Mapping[str, Function]) -> bool:
    """Does a function keep something, or call one that does?"""
    made = (value.operation for value in walk_values(function))
    return any(
        keeps_anything(functions[e.function], functions) if isinstance(e, op.Call) else isinstance(e, KEEPING) for e in made
    )


@dataclass(slots=True)
class Decoding:
    """The rewrite of one function. `here` is the number of the position at which values are computed: those of the new ones."""

    time: str
    rows: Axes
    kept: Mapping[tuple[str, int], Kind]  # by version, and in how many loops that is
    names: Mapping[int, tuple[str, int]]  # the version of what each equation defines
    is_model: bool
    new: dict[Value, Value] = field(default_factory=dict)  # of each old value
    keeping: dict[Value, Value] = field(default_factory=dict)  # of what is kept: the same with its other positions
    lying: dict[Value, tuple[Line, str]] = field(default_factory=dict)  # of what has a name: its line, and its path in a cache
    around: tuple[str, ...] = ()  # the letters of the loops around
    path: str = ""  # where what this line runs through is kept
    so_far: set[Value] = field(default_factory=set)  # what recurrences read of themselves
    at: Value | None = None

    @property
    def here(self) -> Value:
        """The number of the position at which values are computed."""
        return self.at or self.numbers(self.time)

    def function(self, function: Function) -> Function:
        """A whole function."""
        inputs = tuple(map(self.renew, function.inputs))
        kept = [each for line in inputs for each in self.define(line, line.name, 0)]
        lines = (*kept, *self.lines(function.lines))
        scalars = tuple(line for line in function.scalars if not self.is_timed(line.labels))
        return replace(function, inputs=inputs, scalars=scalars, lines=lines, output=self.renew(function.output))

    # ----------------------------------------------------------------------------------------------------------- lines

    def lines(self, lines: Sequence[Line | Turns]) -> Iterator[Line | Turns]:
        """Lines, and those that keep what they define."""
        for line in lines:
            yield from self.turns(line) if isinstance(line, Turns) else self.line(line)

    def line(self, line: Line) -> Iterator[Line]:
        """A line, and the one that keeps what it defines."""
        version, depth = self.names.get(id(line.equation), (line.name, -1))
        self.path = self.inside + key(version)
        line = self.renew(line)
        yield line
        if line.equation is None or line.equation.relation != "return":
            yield from self.define(line, version, depth)

    def renew(self, line: Line) -> Line:
        """A line with what stands in the place of its value."""
        return replace(line, value=self.value(line.value), labels=self.labels(line.labels))

    def define(self, line: Line, version: str, depth: int) -> Iterator[Line]:
        """The line that keeps a version of a tensor, if it is read at other positions."""
        self.lying[line.value] = line, self.inside + key(version)
        if kind := self.kept.get((version, depth)):
            yield self.keep(line.value, kind)

    def keep(self, value: Value, kind: Kind) -> Line:
        """The line that keeps what another defines."""
        line, path = self.lying[value]
        labels, letter = tuple(self.move_label(label, kind) for label in line.labels), self.other(kind)
        operation = Keep(value, (self.time, letter), path)
        self.keeping[value] = kept = Value(operation, tuple(x for label in labels for x in label), value.kind, value.span)
        return Line(line.name + KEPT, kept, labels)

    def move_label(self, label: Label, kind: Kind) -> Label:
        """An axis of new positions as that of the others."""
        return (self.other(kind),) if label == (self.time,) else label

    def other(self, kind: Kind) -> str:
        """The letter of the other positions."""
        return self.visible if kind == "visible" else f"-{self.time}"

    def turns(self, turns: Turns) -> Iterator[Line | Turns]:
        """A loop; what is kept of a tensor that it changes is another value in each turn, too."""
        count, first = self.value(turns.count), [line for each in turns.carried for line in self.enter(each, turns)]
        self.around += (turns.letter,)
        lines = tuple(self.lines(turns.lines))
        self.around = self.around[:-1]
        carried, read = [part for each in turns.carried for part in self.carried(each)], _find_read(lines, ())
        unread = {each for each in carried if each.name.endswith(KEPT) and each.within not in read}
        carried = [replace(each, before=None) if each in unread else each for each in carried]
        yield from (line for line in first if any(each.before is line.value for each in carried))
        yield replace(turns, count=count, carried=tuple(carried), lines=lines)

    def enter(self, each: Carried, turns: Turns) -> Iterator[Line]:
        """What the first turn finds of a tensor, and the line that keeps it where the turns keep theirs."""
        if each.before is not None:
            before, within = self.value(each.before), self.value(each.within)
            self.lying[within] = self.lying[before]
            versions = (
                self.names.get(id(line.equation), ("", 0)) for line in walk_lines(turns.lines) if line.name == each.name
            )
            kind = next((kind for version in versions if (kind := self.kept.get(version))), None)
            if before not in self.keeping and kind is not None:
                yield self.keep(before, kind)
            if before in self.keeping:
                self.keeping[within] = self.stand_in(each.name, before) if kind is not None else self.keeping[before]

    def stand_in(self, name: str, value: Value) -> Value:
        """What is kept of a tensor that a loop changes, where the turn is not known."""
        return replace(self.keeping[value], operation=op.Input(name + KEPT))

    def carried(self, each: Carried) -> Iterator[Carried]:
        """A tensor that a loop changes, and what is kept of it."""
        before = None if each.before is None else self.value(each.before)
        within, last, after = map(self.value, (each.within, each.last, each.after))
        yield Carried(each.name, before, within, last, after)
        self.lying[after] = self.lying[last if before is None else before]
        if before in self.keeping and self.keeping[before] is self.keeping[within]:
            self.keeping[after] = self.keeping[before]
        elif last in self.keeping:
            self.keeping[after] = self.stand_in(each.name, last)
            first = None if before is None else self.keeping[before]
            kept = self.keeping[last]
            yield Carried(each.name + KEPT, first, self.keeping.get(within, kept), kept, self.keeping[after])

    @property
    def inside(self) -> str:
        """The path of what stands here: its layer's, and the turns of the loops around."""
        return "{path}" * (not self.is_model) + "".join(f"blocks.{{{letter}}}." for letter in self.around)

    # ---------------------------------------------------------------------------------------------------------- values

    def value(self, old: Value) -> Value:
        """What stands in the place of a value."""
        if old not in self.new:
            self.new[old] = self.rewrite(old)
        return self.new[old]

    def rewrite(self, old: Value) -> Value:
        """A value as it is computed here."""
        match old.operation:
            case op.Iota(letter) if letter == self.time:
                return self.here
            case op.Iota(letter) if self.is_time(letter):
                return self.numbers(letter)
            case op.Turn(letter) if letter == self.time:
                return Value(Positions(letter, True), self.rows, "integer", old.span)
            case op.View():
                return self.view(old, old.operation)
            case op.Gather():
                return self.gather(old, old.operation)
            case op.Reduce(operator, (letter,), argument) if letter == self.time and row_of(operator, True).looks_back:
                new, path = self.value(argument), self.path
                self.path += "_prime"
                return Value(Run(operator, letter, new, f"{path}.sum"), new.axes, new.kind, old.span)
            case op.Recur(letter, step, so_far, back) if letter == self.time:
                self.so_far.add(so_far)
                return self.make(old, Resume(letter, self.value(step), self.value(so_far), back, self.path))
            case op.Call(path=path):
                call = replace_operands(old.operation, self.value)
                assert isinstance(call, op.Call)
                return self.make(old, replace(call, path=f"{self.inside}{path}."))
            case _:
                return self.make(old, replace_operands(old.operation, self.value))

    def make(self, old: Value, operation: op.Operation) -> Value:
        """A value of an operation on others; what is over positions, or over rows in these, is over rows."""
        axes = self.axes(old.axes)
        pairs = [*zip(old.operands, Value(operation).operands, strict=True)]
        gained = {row for row in self.rows for one, new in pairs if row in new.axes and row not in one.axes}
        rows = tuple(row for row in self.rows if row in gained and row not in axes)
        same = operation is old.operation and (*rows, *axes) == old.axes
        return old if same else replace(old, operation=operation, axes=(*rows, *axes))

    def numbers(self, letter: str) -> Value:
        """The numbers of positions, each row's own."""
        return Value(Positions(letter), (*self.rows, letter), "integer")

    def axes(self, axes: Axes) -> Axes:
        """The axes of a value here."""
        return tuple(letter for label in self.labels(tuple((letter,) for letter in axes)) for letter in label)

    def labels(self, labels: tuple[Label, ...]) -> tuple[Label, ...]:
        """How a value lies here: with the axes of its position, behind those of the rows."""
        own = {letter for label in labels for letter in label} - {self.time}
        here = tuple((letter,) for letter in self.here.axes if letter not in own)
        new = [each for label in labels for each in (here if label == (self.time,) else (label,))]
        rows = [(row,) for row in self.rows if row not in own and ((row,) in new or self.is_timed(new))]
        return (*rows, *(label for label in new if label not in rows))

    def is_timed(self, labels: Sequence[Label]) -> bool:
        """Is one of some axes over positions?"""
        return any(self.is_time(letter) for label in labels for letter in label)

    def is_time(self, letter: str) -> bool:
        """Is an index over positions, new or visible?"""
        return axis_of(letter) == self.time

    @property
    def visible(self) -> str:
        """The letter of all visible positions."""
        return f"{self.time}'"

    # --------------------------------------------------------------------------------------------------------- reading

    def view(self, old: Value, view: op.View) -> Value:
        """Other letters for some axes; where one becomes that of positions, it is read at their numbers."""
        axis = next((k for k, pair in enumerate(zip(view.old, view.new, strict=True)) if self.moves(*pair)), None)
        if axis is None:
            return self.relabel(old, self.value(view.argument), self.labels(view.old), self.labels(view.new))
        before, after = view.old[axis], view.new[axis]
        number = self.value(_index(after[0]))
        if before != (self.time,):
            return self.look_up(old, view, axis, number)
        if self.is_formula(view.argument):
            there = replace(self, new={}, at=number)
            return self.relabel(old, there.value(view.argument), there.labels(view.old), self.labels(view.new))
        kept = self.see_all(self.value(view.argument))
        labels = tuple(self.move_label(label, "visible") for label in self.labels(view.old))
        return self.relabel(old, kept, labels, self.labels(view.new))

    def moves(self, before: Label, after: Label) -> bool:
        """Are the letters of an axis such that it is not read as it lies?"""
        if len(after) > 1 or not self.is_time(after[0]) or before == after:
            return False
        return before == (self.time,) or not self.is_time(before[0])

    def relabel(self, old: Value, value: Value, before: tuple[Label, ...], after: tuple[Label, ...]) -> Value:
        """A view, if it is another."""
        axes = tuple(letter for label in after for letter in label)
        return value if before == after else Value(op.View(value, before, after), axes, old.kind, old.span)

    def look_up(self, old: Value, view: op.View, axis: int, number: Value) -> Value:
        """A table that is read at the numbers of positions."""
        inner = tuple(view.old[axis] if k == axis else label for k, label in enumerate(view.new))
        table, letters = self.relabel(old, self.value(view.argument), view.old, inner), [x for label in inner for x in label]
        places = tuple(number if letter == inner[axis][0] else _index(letter) for letter in letters)
        sure = (True,) * len(letters)
        return self.build_gather(old, op.Gather(table, tuple((x,) for x in letters), places, (False,) * len(letters), sure))

    def see_all(self, value: Value) -> Value:
        """A tensor at all visible positions; what is not kept nobody wants there."""
        if value not in self.keeping:
            self.keep(value, "visible")
        return self.keeping[value]

    def gather(self, old: Value, e: op.Gather) -> Value:
        """A tensor at computed numbers; its positions are its own, or lie among those that are kept."""
        conditions = tuple((self.value(condition), holds) for condition, holds in e.conditions)
        new = replace(e, argument=self.value(e.argument), conditions=conditions)
        for axis, number in enumerate(e.numbers):
            new = self.read(new, axis, number, e.argument)
        own = (op.Iota(self.time), op.Turn(self.time))
        away = [k for k, n in enumerate(new.numbers) if new.labels[k] == (self.time,) and n.operation not in own]
        if away and self.is_formula(e.argument):
            return self.formula(old, e.argument, new, away[0])
        return self.build_gather(old, self.open_row(new))

    def read(self, e: op.Gather, axis: int, old: Value, argument: Value) -> op.Gather:
        """A tensor at the number of one of its axes."""
        label, number = e.labels[axis], self.value(old)
        if len(label) != 1 or not self.is_time(label[0]):
            return _read_axis(e, axis, number)
        if isinstance(old.operation, op.Iota | op.Turn) and label == (old.operation.letter,):
            return _read_axis(e, axis, old)
        if label != (self.time,):
            return _read_axis(e, axis, self.place(number, label[0]))
        if argument in self.so_far:
            return _read_axis(e, axis, self.step(old))
        kept = self.keeping.get(e.argument)
        if kept is not None and _read_linear(old) != Linear.index(self.time):  # `2 s - s` is s
            earlier = self.visible not in kept.axes
            e = replace(e, argument=kept, timed=_put(e.timed, axis, not earlier), proved=_put(e.proved, axis, True))
            place = self.ago(old) if earlier else self.place(number, self.visible)
            return _read_axis(e, axis, place, self.move_label(label, "earlier" if earlier else "visible"))
        return _read_axis(e, axis, number if self.is_formula(argument) else _read_own(old, self.time))

    def open_row(self, e: op.Gather) -> op.Gather:
        """A gather along its own positions, at a position of several axes or of none."""
        letters = {letter for label in e.labels for letter in label} | {*self.rows}
        here = tuple(letter for letter in self.here.axes if letter == self.time or letter not in letters)
        axis = next((k for k, n in enumerate(e.numbers) if n.operation == op.Iota(self.time)), None)
        if axis is None or here == (self.time,):
            return e
        before, after = slice(axis), slice(axis + 1, None)
        labels = (*e.labels[before], *((x,) for x in here), *e.labels[after])
        numbers = (*e.numbers[before], *map(_index, here), *e.numbers[after])
        timed = (*e.timed[before], *(False for _ in here), *e.timed[after])
        proved = (*e.proved[before], *(True for _ in here), *e.proved[after])
        return replace(e, labels=labels, numbers=numbers, timed=timed, proved=proved)

    def build_gather(self, old: Value, e: op.Gather) -> Value:
        """A gather, along the rows too that its tensor has here."""
        rows = tuple(row for row in self.rows if row in e.argument.axes and (row,) not in e.labels)
        labels, numbers = (*((row,) for row in rows), *e.labels), (*map(_index, rows), *e.numbers)
        timed, proved = (False,) * len(rows) + e.timed, (True,) * len(rows) + e.proved
        axes = tuple(dict.fromkeys(letter for number in numbers for letter in number.axes))
        return replace(old, operation=op.Gather(e.argument, labels, numbers, timed, proved, e.conditions), axes=axes)

    def place(self, number: Value, letter: str) -> Value:
        """Where a position lies among the visible ones, in each row."""
        axes = tuple(dict.fromkeys((*self.rows, *number.axes)))
        return Value(Places(number, letter), axes, "integer", number.span)

    def ago(self, number: Value) -> Value:
        """A number of a position, counted from the end of the new ones."""

        def counted(value: Value) -> Value:
            match value.operation:
                case op.Iota(letter) | op.Turn(letter) if letter == self.time:
                    return replace(value, operation=Among(letter, not value.axes))
                case _:
                    return value

        return Value(Ago(Rewriting(counted).rewrite(number)), number.axes, "integer", number.span)

    def step(self, number: Value) -> Value:
        """A number of a step of a recurrence, counted as its steps are."""
        assert isinstance(number.operation, op.Map)
        terms = (
            argument if argument.operation == op.Turn(self.time) else self.value(argument)
            for argument in number.operation.arguments
        )
        return map_values("+", list(terms), number.span)

    def is_formula(self, value: Value) -> bool:
        """Is something made of numbers of positions and of weights alone, and so computed wherever it is read?"""
        made = (op.Input, op.Call, op.Recur)
        return self.new.get(value) not in self.keeping and not any(isinstance(x.operation, made) for x in _find_within(value))

    def formula(self, old: Value, argument: Value, e: op.Gather, axis: int) -> Value:
        """What is made of numbers of positions alone, at another; before the start of time it is zero (R4)."""
        number = e.numbers[axis]
        there = replace(self, new={}, at=number)
        labels, places = there.labels(e.labels), dict(zip(e.labels, e.numbers, strict=True))
        numbers = tuple(places[label] if label in places and label != (self.time,) else _index(label[0]) for label in labels)
        value, sure = there.value(argument), (True,) * len(labels)
        if any(n.operation != op.Iota(label[0]) for n, label in zip(numbers, labels, strict=True)):
            value = self.build_gather(old, op.Gather(value, labels, numbers, (False,) * len(labels), sure))
        zero = Value(op.Constant(0), (), "integer", old.span)
        chosen = map_values(">=", [number, zero], old.span), value, zero
        axes = tuple(dict.fromkeys(letter for each in chosen for letter in each.axes))
        return value if is_natural(number) else Value(op.Map("where", chosen), axes, value.kind, old.span)


# ------------------------------------------------------------------------------------------------------ what is asked for


def narrow_to_asked(function: Function, functions: Mapping[str, Function], time: str) -> Function:
    """A model whose last lines, which look at no other position, are computed where their outputs are asked for."""
    done, lines = len(function.lines), function.lines
    while done and _stays(lines[done - 1], _name_values((*function.inputs, *lines[: done - 1])), functions, time):
        done -= 1
    while any(_find_shared(lines[done:], lines[:done])):
        done += 1
    names = _name_values((*function.inputs, *lines[:done]))
    reads = _find_read(lines[done:], names)
    narrowed = [names[value] for value in names if value in reads and time in value.axes]
    new = {line.value: replace(line.value, operation=Asked(line.value, time)) for line in narrowed}
    first = [replace(line, value=new[line.value], equation=None) for line in sorted(narrowed, key=lambda line: line.name)]
    rewriting = Rewriting(new=dict(new))
    last = tuple(map(rewriting.rewrite_line, lines[done:]))
    return replace(function, lines=(*lines[:done], *first, *last), output=rewriting.rewrite_equation(function.output))


def _find_shared(some: Sequence[Line | Turns], others: Sequence[Line | Turns]) -> Iterator[Value]:
    """What other lines compute at once with what they are made of: a product of several."""
    named = _name_values(others)
    computed = _find_read(others, ()) - named.keys()
    yield from (x for x in _find_read(some, named) & computed if isinstance(x.operation, op.Rewritten) and x.operands)


def _name_values(lines: Sequence[Line | Turns]) -> dict[Value, Line]:
    """The line of each value that has a name after these lines, also of what loops leave."""
    names = {line.value: line for line in walk_lines(lines)}
    for turns in reversed([*walk_loops(tuple(lines))]):
        names |= {each.after: replace(names[each.last], value=each.after) for each in turns.carried if each.last in names}
    return names


def _find_read(lines: Sequence[Line | Turns], named: Collection[Value]) -> set[Value]:
    """What lines are made of, down to what has a name."""
    first = {each.before for turns in walk_loops(tuple(lines)) for each in turns.carried if each.before is not None}
    return first.union(*(_find_within(line.value, named) for line in walk_lines(lines)))


def _stays(line: Line | Turns, named: Collection[Value], functions: Mapping[str, Function], time: str) -> bool:
    """Does a line look at no other position, nor at the number of one?"""
    return not any(
        any(axis_of(letter) == time != letter for letter in value.axes)
        or (value not in named and _looks(value.operation, functions, time))
        for value in _find_read([line], named)
    )


def _looks(e: op.Operation, functions: Mapping[str, Function], time: str) -> bool:
    """Does an operation run over positions, or read a cache?"""
    over = isinstance(e, op.Reduce | op.Contract) and time in e.letters
    return over or (isinstance(e, op.Recur) and e.letter == time) or _continues(e, functions)


def _continues(e: op.Operation, functions: Mapping[str, Function]) -> bool:
    """Does an operation read a cache?"""
    return reads_cache(functions[e.function], functions) if isinstance(e, op.Call) else isinstance(e, CONTINUING)


def _find_within(value: Value, named: Collection[Value] = ()) -> set[Value]:
    """A value, and what it is made of, down to what has a name."""
    seen, todo = {value}, [value] * (value not in named)
    while todo:
        more = {*todo.pop().operands} - seen
        seen |= more
        todo += (each for each in more if each not in named)
    return seen


def _index(letter: str) -> Value:
    """An index along its own axis."""
    return Value(op.Iota(letter), (letter,), "integer")


def _read_linear(number: Value) -> Linear:
    """A number in indices and sizes; what is neither a sum nor a product is an element of data."""
    match number.operation:
        case op.Constant(int() | float() as constant):
            return Linear.number(constant)
        case op.Constant(str() as name):
            return Linear.atom(Atom("size", name))
        case op.Iota(letter) | op.Turn(letter):
            return Linear.index(letter)
        case op.Map("+", arguments):
            return reduce(Linear.__add__, map(_read_linear, arguments))
        case op.Map("*", arguments):
            return reduce(Linear.__mul__, map(_read_linear, arguments))
        case _:
            return Linear.atom(Atom("data", str(id(number))))


def _read_own(number: Value, time: str) -> Value:
    """A position's own place, of that of a step where its number is counted from one."""
    steps = any(each.operation == op.Turn(time) for each in _find_within(number))
    return Value(op.Turn(time), (), "integer") if steps else _index(time)


def is_natural(number: Value) -> bool:
    """Is a number surely not below zero?"""
    e = number.operation
    return isinstance(e, Positions) or (isinstance(e, op.Constant) and not isinstance(e.value, str) and e.value >= 0)


def _read_axis(e: op.Gather, axis: int, number: Value, label: Label | None = None) -> op.Gather:
    """A gather with another number for one of its axes, and another label."""
    labels = e.labels if label is None else _put(e.labels, axis, label)
    return replace(e, numbers=_put(e.numbers, axis, number), labels=labels)


def _put(some: tuple[Some, ...], axis: int, other: Some) -> tuple[Some, ...]:
    return (*some[:axis], other, *some[axis + 1 :])
