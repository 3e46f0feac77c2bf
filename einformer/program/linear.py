"""Linear maps: the product of a vector and a matrix, and the order in which the axes of both lie."""

from __future__ import annotations

from dataclasses import dataclass

from einformer.language.tree import Expression, Index, Tensor

Letters = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Linear:
    """`sum_I (x W) + bias`: the rows of W are its outputs, its columns the letters I.

    With `experts` there is a matrix for each of them, and `around` multiplies what comes out.
    """

    x: Expression
    weight: Tensor
    rows: Letters
    columns: Letters
    bias: Tensor | None = None
    experts: Letters = ()
    around: tuple[Expression, ...] = ()


def heads_first(some: Letters) -> Letters:
    """The notes write features before heads, `q_bsea`; memory is faster the other way round."""
    return some[1:] + some[:1]


def letters(e: Expression) -> Letters:
    """The letters in the slots of a tensor."""
    return tuple(slot.letter for slot in e.slots if isinstance(slot, Index)) if isinstance(e, Tensor) else ()
