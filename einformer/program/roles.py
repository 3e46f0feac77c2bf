"""Reads the roles of weights and inputs off the equations: which are parameters, how they start, which inputs select."""

from __future__ import annotations

import enum
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from einformer.language.calls import axis_of
from einformer.language.sizes import Legend
from einformer.language.slots import Whole, reads
from einformer.language.tree import (
    Apply,
    Equation,
    Expression,
    Index,
    Layer,
    Loop,
    Product,
    Quotient,
    Spec,
    Sum,
    Tensor,
    Weight,
)
from einformer.language.walk import children, equations


class Kind(enum.Enum):
    """A *table* is read at a token or a position, a *matrix* contracted, a *gain* multiplies, a *bias* is added."""

    TABLE = enum.auto()
    MATRIX = enum.auto()
    GAIN = enum.auto()
    BIAS = enum.auto()


@dataclass(frozen=True, slots=True)
class Role:
    """What a weight does: its kind, the letters over which a matrix sums, and into how many residual sums it writes."""

    kind: Kind
    summed: tuple[str, ...] = ()
    residual: tuple[int, Expression] | None = None  # terms in a turn, turns of the loop


def read_roles(spec: Spec, layer: Layer) -> dict[str, Role]:
    """The role of each weight of a layer, by its first use."""
    found: dict[str, Role] = {}
    residual = _find_residual(spec, layer)
    indices = {w.name: [i.letter for i in w.indices] for w in layer.weights if w.kind != "instance"}
    for equation in equations(layer.body):
        for tensor, around, summed in _walk_uses(equation.right, Kind.BIAS, ()):
            if tensor.name in indices:
                role = _read_role(tensor, indices[tensor.name], around, summed)
                writes = residual if equation.relation == "return" and role.kind is Kind.MATRIX else None
                found.setdefault(tensor.name, Role(role.kind, role.summed, writes))
    return {name: found.get(name, Role(Kind.MATRIX)) for name in indices}


def _read_role(tensor: Tensor, letters: list[str], around: Kind, summed: tuple[str, ...]) -> Role:
    slots = list(zip(tensor.slots, letters, strict=True))
    if any(
        isinstance(slot, Tensor) or (isinstance(slot, Index) and axis_of(slot.letter) != axis_of(own)) for slot, own in slots
    ):
        return Role(Kind.TABLE)
    over = tuple(slot.letter for slot, _ in slots if isinstance(slot, Index) and slot.letter in summed)
    return Role(Kind.MATRIX, over) if over else Role(around)


def _walk_uses(e: Expression, around: Kind, summed: tuple[str, ...]) -> Iterator[tuple[Tensor, Kind, tuple[str, ...]]]:
    """Each tensor in e, whether it multiplies or is added, and the letters summed around it."""
    if isinstance(e, Tensor):
        yield e, around, summed
    if isinstance(e, Apply) and e.name == "sum":
        summed += tuple(index.letter for index in e.indices)
    inside = Kind.GAIN if isinstance(e, Product | Quotient) else Kind.BIAS if isinstance(e, Sum) else around
    for child in children(e):
        yield from _walk_uses(child, inside, summed)


def _find_residual(spec: Spec, layer: Layer) -> tuple[int, Expression] | None:
    """`z <- z + Layer(…)` in a loop: how many such terms a turn has, and how many turns there are."""
    for caller in spec.layers:
        instances = {w.name: w.layer for w in caller.weights if w.kind == "instance"}
        for loop in (s for s in caller.body if isinstance(s, Loop)):
            added = [
                name for s in loop.body if isinstance(s, Equation) and s.relation == "<-" for name in _walk_added(s, instances)
            ]
            if layer.name in added:
                return len(added), loop.count
    return None


def _walk_added(equation: Equation, instances: Mapping[str, str]) -> Iterator[str]:
    """The layers whose results an equation adds to what it changes."""
    terms = equation.right.terms if isinstance(equation.right, Sum) else ()
    if equation.left in terms:
        yield from (instances[term.name] for term in terms if isinstance(term, Apply) and term.name in instances)


def list_stored(layer: Layer) -> list[Weight]:
    """Weights that are parameters of their own: ties are read from what they are tied to."""
    return [w for w in layer.weights if w.kind != "instance" and (w.default is None or w.optional)]


def find_selecting(layer: Layer, layers: Mapping[str, Layer], legend: Legend) -> dict[str, str]:
    """Inputs of whole numbers, those that come to stand in a slot; each with the letter of the axis of which it selects.

    There is no letter where it is not read as it is, where a condition guards it, or where it selects of several axes.
    """
    found: dict[str, set[str]] = {name: set() for name in Whole(layer, layers, legend).selecting}
    axes = {weight.name: weight.indices for weight in layer.weights} | {formal.name: formal.slots for formal in layer.formals}
    for read in (read for q in equations(layer.body) for read in reads(q.right) if not read.guards):
        for slot, over in zip(read.tensor.slots, axes.get(read.tensor.name, ()), strict=False):
            if isinstance(slot, Tensor) and slot.name in found and isinstance(over, Index):
                found[slot.name].add(axis_of(over.letter))
    return {name: letters.pop() if len(letters) == 1 else "" for name, letters in found.items()}
