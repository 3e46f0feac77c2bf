"""Reads the roles of weights off the values: which are tables, matrices, gains or biases, and which write into a residual."""

from __future__ import annotations

import enum
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from einformer.language.calls import axis_of
from einformer.language.tree import Expression
from einformer.program import operations as op
from einformer.program.operations import Axes, Function, Line, Turns, Value
from einformer.program.rewrite import walk_lines


class Kind(enum.Enum):
    """A *table* is read at a token or a position, a *matrix* contracted, a *gain* multiplies, a *bias* is added."""

    TABLE = enum.auto()
    MATRIX = enum.auto()
    GAIN = enum.auto()
    BIAS = enum.auto()


@dataclass(frozen=True, slots=True)
class Role:
    """The role of a weight: its kind, the letters over which a matrix sums, and into how many residual sums it writes."""

    kind: Kind
    summed: Axes = ()
    residual: tuple[int, Expression] | None = None  # terms in a turn, turns of the loop


# The first use of a weight decides its role.
def read_roles(functions: Mapping[str, Function], name: str) -> dict[str, Role]:
    roles, residual, seen = dict[str, Role](), _find_residual(functions, name), set[Value]()
    for line in walk_lines(functions[name].lines):
        returned = line.equation is not None and line.equation.relation == "return"
        for weight, role in _walk_uses(line.value, Kind.BIAS, (), seen):
            writes = residual if returned and role.kind is Kind.MATRIX else None
            roles.setdefault(weight, replace(role, residual=writes))
    return {line.name: roles.get(line.name, Role(Kind.MATRIX)) for line in functions[name].weights}


# A use multiplies or adds a weight, and sums over these letters.
def _walk_uses(value: Value, around: Kind, summed: Axes, seen: set[Value]) -> Iterator[tuple[str, Role]]:
    if value in seen:
        return
    match value.operation:
        case op.StoredWeight(name):
            yield name, _read_role([(letter, letter) for letter in value.axes], around, summed)
        case op.View(Value(operation=op.StoredWeight(name)), old, new):
            pairs = zip(old, new, strict=True)
            yield name, _read_role([(own, other) for (own,), (other, *more) in pairs if not more], around, summed)
        case op.Gather(Value(operation=op.StoredWeight(name)), slots):
            read = [(own, _read_slot(number)) for (own,), number, *_ in slots]
            yield name, _read_role([(own, slot) for own, slot in read if slot], around, summed)
            for slot in slots:
                yield from _walk_uses(slot.number, around, summed, seen)
        case operation:
            seen.add(value)
            inside, summed = around, summed + (operation.letters if isinstance(operation, op.Einsum) else ())
            match operation:
                case op.Map("*" | "/") | op.Einsum(_, (_, _, *_)):
                    inside = Kind.GAIN
                case op.Map("+"):
                    inside = Kind.BIAS
            for operand in value.operands:
                yield from _walk_uses(operand, inside, summed, seen)


# Data in a slot has a letter that no axis has.
def _read_slot(number: Value) -> str:
    match number.operation:
        case op.Iota(letter) | op.Turn(letter):
            return letter
        case op.Map() | op.Constant():
            return ""
        case _:
            return "?"


# Some of the weight's own letters are read at others.
def _read_role(letters: Sequence[tuple[str, str]], around: Kind, summed: Axes) -> Role:
    if any(axis_of(own) != axis_of(slot) for own, slot in letters):
        return Role(Kind.TABLE)
    over = tuple(slot for _, slot in letters if slot in summed)
    return Role(Kind.MATRIX, over) if over else Role(around)


# `z <- z + Layer(…)` in a loop: returns the number of these terms in a turn, and of turns.
def _find_residual(functions: Mapping[str, Function], name: str) -> tuple[int, Expression] | None:
    for caller in functions.values():
        for turns in (line for line in caller.lines if isinstance(line, Turns)):
            added = list(_walk_added(turns))
            if name in added:
                return len(added), turns.loop.count
    return None


def _walk_added(turns: Turns) -> Iterator[str]:
    names = {carried.name: carried.within for carried in turns.carried}
    for line in (line for line in turns.lines if isinstance(line, Line)):
        match line.value.operation:
            case op.Map("+", terms) if names.get(line.name) in terms:
                calls = (term.operation for term in terms if isinstance(term.operation, op.Call))
                yield from (call.function for call in calls if call.instance)
        names[line.name] = line.value
