"""Does a computed slot, `(e + R/2)`, hold a whole number inside its axis (R4)? By its form, and by its numbers once bound."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass

from einformer.errors import EinformerError
from einformer.notation.primitives import CONDITIONS
from einformer.notation.sizes import Legend
from einformer.notation.tree import Apply, Expression, Group, Index, Name, Number, Power, Product, Quotient, Sum, Tensor
from einformer.notation.walk import children, subexpressions

MOST = 20_000  # combinations of index numbers that are tried where a condition guards a slot


@dataclass(frozen=True, slots=True)
class Read:
    """A tensor read where these conditions on index numbers hold, or do not."""

    tensor: Tensor
    guards: tuple[tuple[Expression, bool], ...]


def is_affine(slot: Expression) -> bool:
    """An index plus or minus indices, sizes and numbers: nothing that could come out broken."""
    match slot:
        case Index() | Name() | Number(value=int()):
            return True
        case Sum():
            return all(map(is_affine, slot.terms))
        case Product():
            return sum(map(_has_index, slot.factors)) <= 1 and all(map(is_affine, slot.factors))
        case Group():
            return all(map(is_affine, slot.members))
        case Quotient() | Power() | Apply():
            return not _has_index(slot)
        case _:
            return False


def _has_index(e: Expression) -> bool:
    return any(isinstance(x, Index | Tensor) for x in subexpressions(e))


def reads(e: Expression, guards: tuple[tuple[Expression, bool], ...] = ()) -> Iterator[Read]:
    """The tensors in e, each with the conditions of the `where` around it: a branch that is not taken is not read (R8)."""
    if isinstance(e, Tensor):
        yield Read(e, guards)
    if isinstance(e, Apply) and e.name == "where":
        condition, then, otherwise = e.arguments
        yield from reads(condition, guards)
        yield from reads(then, (*guards, (condition, True)))
        yield from reads(otherwise, (*guards, (condition, False)))
        return
    for child in children(e):
        yield from reads(child, guards)


def leaves(slot: Expression, size: int, guards: tuple[tuple[Expression, bool], ...], legend: Legend) -> dict[str, int] | None:
    """Index numbers at which a slot leaves an axis of `size` numbers; None where it stays inside, or where that is not known.

    Without a guard the extremes of the indices decide, because the slot is affine in them.
    """
    conditions = [(c, wanted) for c, wanted in guards if _on_numbers(c)]
    letters = list(dict.fromkeys(x.letter for e in (slot, *(c for c, _ in conditions)) for x in _indices(e)))
    try:
        ranges = [range(legend.length(letter)) for letter in letters]
        for at in _places(letters, ranges, whole=bool(conditions)):
            if (
                all(bool(legend.number(c, at)) == wanted for c, wanted in conditions)
                and not 0 <= legend.number(slot, at) < size
            ):
                return at
    except EinformerError:  # a size that is not bound
        return None
    return None


def _on_numbers(condition: Expression) -> bool:
    inside = list(subexpressions(condition))
    return not any(isinstance(x, Tensor) for x in inside) and all(
        not isinstance(x, Apply) or x.name in CONDITIONS for x in inside
    )


def _indices(e: Expression) -> Iterator[Index]:
    return (x for x in subexpressions(e) if isinstance(x, Index))


def _places(letters: list[str], ranges: list[range], whole: bool) -> Iterator[dict[str, int]]:
    """Every combination of index numbers where a guard must be asked, as many as may be; else the corners."""
    numbers = ranges if whole else [sorted({r[0], r[-1]}) for r in ranges]
    for found in itertools.islice(itertools.product(*numbers), MOST):
        yield dict(zip(letters, found, strict=True))
