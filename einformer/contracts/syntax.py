"""Defines a contract: the values that go in and come out, and the size of each axis of the tensors among them.

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
class Dimension(Written):
    """An axis of a tensor, or the axes of `...`: its text, `s'`, `(ae)` or `64`, and its size."""

    written: str
    size: Expression


@dataclass(frozen=True, slots=True)
class Array(Written):
    """A tensor, `bf16 z_bsd`. The words before it name dtypes and a device."""

    name: str
    axes: tuple[Dimension, ...]
    words: tuple[str, ...]

    # The axes of `...` do not count.
    @property
    def rank(self) -> int:
        return len(self.axes) - self.open

    @property
    def open(self) -> bool:
        return any(axis.size == REST for axis in self.axes)


@dataclass(frozen=True, slots=True)
class ScalarValue(Written):
    """A number, or a tensor without axes: `int n`."""

    name: str
    words: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Size(Written):
    """A whole number that is a size: `D`."""

    name: str


@dataclass(frozen=True, slots=True)
class Several(Written):
    """A tuple or a list of these values, `(q_bsea, k_btea)`. With `...` at the end, more may follow."""

    members: tuple[Item, ...]
    more: bool


@dataclass(frozen=True, slots=True)
class Each(Written):
    """Any number of values that each fit: `[z_bsd]`."""

    member: Item


@dataclass(frozen=True, slots=True)
class Fields(Written):
    """Keys of a mapping, or attributes of an object: `{logits: y_bsv}`."""

    members: tuple[Item, ...]


@dataclass(frozen=True, slots=True)
class Anything(Written):
    """A value that is not checked: `?`."""


Value = Array | ScalarValue | Size | Several | Each | Fields | Anything


@dataclass(frozen=True, slots=True)
class Item:
    """A value with its name, if it has one (`mask = m_bs`). An optional value may be None."""

    key: str
    value: Value
    optional: bool = False


@dataclass(frozen=True, slots=True)
class Contract(Written):
    """The values that go in and come out. None: anything may come out."""

    arguments: tuple[Item, ...]
    result: Item | None
