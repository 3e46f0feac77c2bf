"""What is a formula of matrices? Nodes of a second, smaller tree: each has rows and columns, or is a vector, or a number.

A shape is the letter of the rows and that of the columns, "" where there is none: `("n", "d")` is a matrix, `("", "d")` a
row, `("n", "")` a column, `("", "")` a number. Other letters, those of heads say, are labels: one matrix for each.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import Any

from einformer.language.tree import Apply, Expression, Group, Index, Tensor

Shape = tuple[str, str]
NUMBER: Shape = ("", "")


@dataclass(frozen=True, slots=True)
class Scalar:
    """A number made of no tensor: `sqrt(H)`, `2 ε`."""

    value: Expression


@dataclass(frozen=True, slots=True)
class Letter:
    """A tensor; of its slots those of `rows` and `cols` are axes, all others labels. A group is one axis, `(ae)`."""

    of: Tensor
    rows: str = ""
    cols: str = ""

    @property
    def labels(self) -> tuple[Expression, ...]:
        """The slots that hold labels."""
        return tuple(slot for slot in self.of.slots if axis(slot) not in (self.rows, self.cols))


def axis(slot: Expression) -> str | None:
    """The letter of a slot, or those of a group in parentheses; None if a number is computed there."""
    match slot:
        case Index(letter):
            return letter
        case Group(members) if all(isinstance(each, Index) for each in members):
            return f"({''.join(each.letter for each in members if isinstance(each, Index))})"
        case _:
            return None


@dataclass(frozen=True, slots=True)
class Ones:
    """A column of ones."""

    rows: str


@dataclass(frozen=True, slots=True)
class Transposed:
    """Rows for columns."""

    of: Matrix


@dataclass(frozen=True, slots=True)
class Times:
    """A product of matrices: the columns of each factor are the rows of the next."""

    factors: tuple[Matrix, ...]


@dataclass(frozen=True, slots=True)
class Scaled:
    """Numbers times a matrix, or another number."""

    by: tuple[Matrix, ...]
    of: Matrix


@dataclass(frozen=True, slots=True)
class Over:
    """A matrix divided by a number."""

    of: Matrix
    under: Matrix


@dataclass(frozen=True, slots=True)
class Hadamard:
    """A product of each number with that at the same place."""

    factors: tuple[Matrix, ...]


@dataclass(frozen=True, slots=True)
class Inverse:
    """One over each number."""

    of: Matrix


@dataclass(frozen=True, slots=True)
class Diagonal:
    """The square matrix with a vector on its diagonal."""

    of: Matrix


@dataclass(frozen=True, slots=True)
class Plus:
    """A sum of matrices of one shape."""

    terms: tuple[Matrix, ...]


@dataclass(frozen=True, slots=True)
class Raised:
    """Each number to the same power."""

    of: Matrix
    exponent: Matrix


@dataclass(frozen=True, slots=True)
class Function:
    """A function of each number; its arguments have one shape, or are numbers."""

    name: str
    arguments: tuple[Matrix, ...]


@dataclass(frozen=True, slots=True)
class RowWise:
    """An operator that keeps the columns it works on, `Sm`, `cumsum`, `top`: on each row, or on a vector."""

    name: str
    of: Matrix
    first: tuple[Matrix, ...] = ()


@dataclass(frozen=True, slots=True)
class Reduced:
    """An operator that makes a number of each row, `mean`, `var`, `lse`; of a `whole` matrix or vector, one number."""

    name: str
    of: Matrix
    whole: bool


@dataclass(frozen=True, slots=True)
class Summed:
    """A sum over labels."""

    labels: tuple[str, ...]
    of: Matrix


@dataclass(frozen=True, slots=True)
class Concat:
    """The matrices of all labels side by side, the last label's the fastest."""

    labels: tuple[str, ...]
    of: Matrix
    cols: str


@dataclass(frozen=True, slots=True)
class Rows:
    """The rows of a matrix that a vector of whole numbers names; one row, if that is a number."""

    of: Letter  # its rows are those of `by`, its first slot is what looks them up
    by: Matrix


@dataclass(frozen=True, slots=True)
class Call:
    """A layer, or what else keeps a form of its own, applied."""

    call: Apply
    arguments: tuple[Matrix, ...]
    rows: str = ""
    cols: str = ""


Matrix = (
    Scalar | Letter | Ones | Transposed | Times | Scaled | Over | Hadamard | Inverse | Diagonal | Plus | Raised | Function
    | RowWise | Reduced | Summed | Concat | Rows | Call
)  # fmt: skip


def inside(m: Any) -> Iterator[Matrix]:
    """m and all matrices in it."""
    yield m
    for field in fields(m):
        value = getattr(m, field.name)
        for each in value if isinstance(value, tuple) else (value,):
            if isinstance(each, Matrix):
                yield from inside(each)
