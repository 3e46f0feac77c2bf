"""A program: values with named axes, each given by one of fourteen operations, in one function for each layer.

The tree is the text as people wrote it; the program lists the operations that it means. `lowering.py` settles once which layer
a call means, which letters a layer carries along, where a name is redefined and which numbers a slot reads. A value is defined
once, and two values are one if they are one object. Sizes stay letters: a program is the same at all sizes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from operator import is_
from typing import Any, Literal, NamedTuple

from einformer.errors import NOWHERE, Span
from einformer.language.calls import axis_of
from einformer.language.primitives import PRIMITIVES, Primitive, row_of
from einformer.language.tree import Equation, Loop

Axes = tuple[str, ...]  # letters of indices, with their primes; no letter twice
Label = tuple[str, ...]  # the letters that share one axis of a stored tensor, row-major: `(ae)` has two
Kind = Literal["tensor", "integer", "number", "condition"]


@dataclass(frozen=True, slots=True, eq=False)
class Value:
    """The result of an operation, with an axis for each letter, in any order.

    A `tensor` is made of inputs or weights; an `integer`, a `number` and a `condition` of index numbers, tokens, sizes and
    scalars alone. Without axes the latter three are numbers of Python.
    """

    operation: Operation
    axes: Axes = ()
    kind: Kind = "tensor"
    span: Span = field(default=NOWHERE, repr=False)
    operands: tuple[Value, ...] = field(init=False, repr=False)  # listed once: every walk reads them

    def __post_init__(self) -> None:
        object.__setattr__(self, "operands", tuple(_find(self.operation)))

    @property
    def plain(self) -> bool:
        return not self.axes and self.kind != "tensor"


# -------------------------------------------------------------------------------------------------- operations without operands


@dataclass(frozen=True, slots=True)
class Input:
    """An input of a function; a tensor as a turn or a loop before left it; the steps of a recurrence so far."""

    name: str


@dataclass(frozen=True, slots=True)
class StoredWeight:
    """A weight that is stored under its name in this layer; ties and defaults are values like others."""

    name: str


@dataclass(frozen=True, slots=True)
class Constant:
    """A number, or the name of a size, of a scalar, of π."""

    value: int | float | str


@dataclass(frozen=True, slots=True)
class Table:
    """The numbers that the legend lists for a letter: `W_l = [128, inf]`."""

    name: str
    letter: str


@dataclass(frozen=True, slots=True)
class Iota:
    """An index as a number: 0, 1, … along its own axis."""

    letter: str


@dataclass(frozen=True, slots=True)
class Turn:
    """The number of the turn of a loop, or of the step of a recurrence, in which this is computed."""

    letter: str


# -------------------------------------------------------------------------------------------------- operations on values


@dataclass(frozen=True, slots=True)
class Map:
    """A function of one number or more, where all are lined up by letter: `+ - * / ^`, `where`, and those of the table."""

    function: str
    arguments: tuple[Value, ...]


@dataclass(frozen=True, slots=True)
class Reduce:
    """An operator over letters, which are gone afterwards (`mean`, `lse`) or stay (`Sm`, `cumsum`, `top`): the table says."""

    operator: str
    letters: Axes
    argument: Value
    counts: tuple[Value, ...] = ()  # the k of `top_{k,x}`
    weighs: bool = True  # of one that weighs: is something of its argument surely finite (R12)?


@dataclass(frozen=True, slots=True)
class Einsum:
    """The sum over letters of a product."""

    letters: Axes
    factors: tuple[Value, ...]


@dataclass(frozen=True, slots=True)
class View:
    """The same numbers under other letters: each label of `old` becomes one of `new`, with as many numbers or fewer.

    One letter becomes another; a group is merged, or one letter split; of a longer axis the first numbers are read.
    """

    argument: Value
    old: tuple[Label, ...]
    new: tuple[Label, ...]


@dataclass(frozen=True, slots=True)
class Spread:
    """The same numbers for every number of the letters that are new."""

    argument: Value


class Slot(NamedTuple):
    """The number at which one axis of a tensor is read, and the letters of that axis.

    Along an axis that is `timed` there are zeros before the first number. A number that is not `proved` to lie inside is
    checked while it runs.
    """

    label: Label
    number: Value
    timed: bool = False
    proved: bool = True

    @property
    def is_whole(self) -> bool:
        return len(self.label) == 1 and self.number.operation == Iota(self.label[0])


@dataclass(frozen=True, slots=True)
class Gather:
    """A tensor read at numbers that are computed: one for each of its axes.

    A number is looked at only where all `conditions` are as said: elsewhere its element is not used.
    """

    argument: Value
    slots: tuple[Slot, ...]
    conditions: tuple[tuple[Value, bool], ...] = ()

    @property
    def labels(self) -> tuple[Label, ...]:
        return tuple(slot.label for slot in self.slots)

    @property
    def numbers(self) -> tuple[Value, ...]:
        return tuple(slot.number for slot in self.slots)


@dataclass(frozen=True, slots=True)
class Call:
    """Another function. Its weights lie under `instance`, in the turns of some loops, or it has none.

    Its entries in a cache lie at a `path`.
    """

    function: str
    instance: str
    turns: Axes
    arguments: tuple[Value, ...]
    path: str = ""


@dataclass(frozen=True, slots=True)
class Recur:
    """A tensor made position by position: `step` is computed for each number of `letter`, and reads the steps `so_far`.

    It reads as many positions `back` as that, at most.
    """

    letter: str
    step: Value
    so_far: Value
    back: int


@dataclass(frozen=True, slots=True)
class Rewritten:
    """An operation that a rewrite puts in the place of others, for one interpreter: kernels, caches."""


Operation = (
    Input
    | StoredWeight
    | Constant
    | Table
    | Iota
    | Turn
    | Map
    | Reduce
    | Einsum
    | View
    | Spread
    | Gather
    | Call
    | Recur
    | Rewritten
)

# ------------------------------------------------------------------------------------------------------------ functions


@dataclass(frozen=True, slots=True)
class Line:
    """An equation and its value; `labels` say how it lies: a letter for each axis, or several for a group."""

    name: str
    value: Value
    labels: tuple[Label, ...]
    equation: Equation | None = None  # none where the legend or a weight defines it
    notes: tuple[str, ...] = ()  # why it is not the kernel that a reader may expect
    version: tuple[str, int] | None = None  # which of the values of its name it is, `z_2`, and in how many loops it stands


@dataclass(frozen=True, slots=True)
class Carried:
    """A tensor that a loop defines: each turn finds it `within` as the one before left it, its `last` value is there `after`.

    The first turn finds the value from `before`, if there is one.
    """

    name: str
    before: Value | None
    within: Value
    last: Value
    after: Value

    @property
    def sources(self) -> tuple[Value, ...]:
        return (self.last,) if self.before is None else (self.before, self.last)

    @property
    def values(self) -> tuple[Value, Value]:
        return self.within, self.after


@dataclass(frozen=True, slots=True)
class Turns:
    """A loop: its lines, once for each number of its letter."""

    letter: str
    count: Value
    carried: tuple[Carried, ...]
    lines: tuple[Line | Turns, ...]
    loop: Loop = field(repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class Function:
    """A layer as it is called: its inputs, its lines in the order of the text, and its output.

    `weights` are those that are stored, then those that are tied to others; `scalars` those of the legend that have indices.
    """

    name: str
    inputs: tuple[Line, ...]
    weights: tuple[Line, ...]
    scalars: tuple[Line, ...]
    lines: tuple[Line | Turns, ...]
    output: Line


@dataclass(frozen=True, slots=True)
class Program:
    """The functions of a model, each after those that it calls."""

    functions: dict[str, Function]
    name: str
    time: str  # the letter of positions, or ""


def find_row(operation: Operation) -> Primitive | None:
    match operation:
        case Map(name) | Reduce(name):
            return PRIMITIVES.get((name, isinstance(operation, Reduce)))
        case _:
            return None


# The operation stays itself where no operand is another.
def replace_operands(operation: Operation, new: Callable[[Value], Value]) -> Operation:
    old = [getattr(operation, name) for name in operation.__match_args__]
    parts = [_replace(part, new) for part in old]
    kind: Any = type(operation)
    return operation if all(map(is_, parts, old)) else kind(*parts)


def _find(operation: Operation) -> list[Value]:
    values, todo = list[Value](), [getattr(operation, name) for name in reversed(operation.__match_args__)]
    while todo:
        part = todo.pop()
        if isinstance(part, Value):
            values.append(part)
        elif isinstance(part, tuple):
            todo += reversed(part)
    return values


def _replace(part: Any, new: Callable[[Value], Value]) -> Any:
    if isinstance(part, Value):
        return new(part)
    if not isinstance(part, tuple):
        return part
    parts = tuple([_replace(inner, new) for inner in part])
    if all(map(is_, parts, part)):
        return part
    return Slot(*parts) if isinstance(part, Slot) else parts


# ----------------------------------------------------------------------------------------------------------- new values


def join_labels(labels: Iterable[Label]) -> Axes:
    return tuple(letter for label in labels for letter in label)


# A group of other axes, or in another order, splits an axis elsewhere.
def renames(old: Label, new: Label) -> bool:
    return len(old) == len(new) and (len(old) == 1 or [*map(axis_of, old)] == [*map(axis_of, new)])


def index(letter: str) -> Value:
    return Value(Iota(letter), (letter,), "integer")


def read_along(letter: str) -> Slot:
    return Slot((letter,), index(letter))


def gather(argument: Value, slots: Sequence[Slot], span: Span, conditions: tuple[tuple[Value, bool], ...] = ()) -> Value:
    operation = Gather(argument, tuple(slots), conditions)
    return Value(operation, unite_axes(operation.numbers), argument.kind, span)


def map_values(function: str, arguments: Sequence[Value], span: Span | None = None) -> Value:
    kind = _kind_of(function, arguments)
    return Value(Map(function, tuple(arguments)), unite_axes(arguments), kind, span or arguments[0].span)


def multiply(factors: Sequence[Value]) -> Value:
    return factors[0] if len(factors) == 1 else map_values("*", factors)


# The sum of no terms is zero.
def add(terms: Sequence[Value]) -> Value:
    return terms[0] if len(terms) == 1 else map_values("+", terms) if terms else Value(Constant(0), (), "integer")


def contract(letters: Axes, factors: tuple[Value, ...], span: Span | None = None) -> Value:
    axes = tuple(letter for letter in unite_axes(factors) if letter not in letters)
    kind = combine_kinds(factors) if axes else "tensor"
    return Value(Einsum(letters, factors), axes, kind, span or factors[0].span)


def unite_axes(values: Iterable[Value]) -> Axes:
    return tuple(dict.fromkeys(letter for value in values for letter in value.axes))


def combine_kinds(values: Sequence[Value]) -> Kind:
    kinds = {value.kind for value in values}
    return next((kind for kind in ("tensor", "number", "integer") if kind in kinds), "condition")


# Quotients and powers are not whole numbers; a condition on tensors is a tensor.
def _kind_of(function: str, arguments: Sequence[Value]) -> Kind:
    kind = combine_kinds(arguments[1:] if function == "where" else arguments)
    if kind == "tensor" or function in ("+", "*", "where"):
        return kind
    if function in ("/", "^"):
        return "number"
    row = row_of(function, False)
    return "condition" if row.condition else kind if row.whole else "number"
