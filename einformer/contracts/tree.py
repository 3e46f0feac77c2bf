"""What is a contract? Which values go in and come out, and the size of each axis of those that are tensors.

A size is an expression of the notation in the letters of sizes: `s` and `s'` are two indices, and the axis of both has S.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from einformer.errors import Span
from einformer.language.tree import Expression, Name

REST = Name("...")  # the size of `...`, which is a tuple


@dataclass(frozen=True, slots=True)
class Written:
    """A part of the text of a contract."""

    span: Span = field(compare=False, kw_only=True)


@dataclass(frozen=True, slots=True)
class Axis(Written):
    """One axis of a tensor, or those of `...`: as it is written, `s'`, `(ae)` or `64`, and its size."""

    written: str
    size: Expression


@dataclass(frozen=True, slots=True)
class Array(Written):
    """`bf16 z_bsd`: a tensor; the words before it say which dtypes, and which device."""

    name: str
    axes: tuple[Axis, ...]
    words: tuple[str, ...]

    @property
    def rank(self) -> int:
        """How many axes it has, `...` apart."""
        return len(self.axes) - self.open

    @property
    def open(self) -> bool:
        """Does it have any axes besides those with a letter?"""
        return any(axis.size == REST for axis in self.axes)


@dataclass(frozen=True, slots=True)
class Scalar(Written):
    """`int n`: a number, or a tensor without axes."""

    name: str
    words: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Size(Written):
    """`D`: a whole number that is a size."""

    name: str


@dataclass(frozen=True, slots=True)
class Several(Written):
    """`(q_bsea, k_btea)`: a tuple or a list of just these; with `...` at the end, these and any others."""

    members: tuple[Item, ...]
    more: bool


@dataclass(frozen=True, slots=True)
class Each(Written):
    """`[z_bsd]`: any number of values, each of them this."""

    member: Item


@dataclass(frozen=True, slots=True)
class Fields(Written):
    """`{logits: y_bsv}`: keys of a mapping, or attributes of an object."""

    members: tuple[Item, ...]


@dataclass(frozen=True, slots=True)
class Anything(Written):
    """`?`: not looked at."""


Value = Array | Scalar | Size | Several | Each | Fields | Anything


@dataclass(frozen=True, slots=True)
class Item:
    """A value with the name it is given by, if it has one (`mask = m_bs`); an optional one may be None."""

    key: str
    value: Value
    optional: bool = False


@dataclass(frozen=True, slots=True)
class Contract(Written):
    """What goes in, and what comes out (None: anything)."""

    arguments: tuple[Item, ...]
    result: Item | None
