"""A piece of PyTorch code: its text, and the index on each axis of what it computes."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

Dims = tuple[str, ...]
Kind = Literal["tensor", "integer", "number", "condition"]


_COMMENT = re.compile(r"(?:^|\s)# .*$", re.MULTILINE)
LOOSE, SUM, PRODUCT, POWER, ATOM = range(5)  # how tightly an operator binds


@dataclass(frozen=True, slots=True)
class Code:
    """An expression of Python.

    `kind` says what it is made of: a *tensor* depends on inputs or weights; an *integer*, a *number* or a *condition* on
    index numbers, tokens and scalars alone. Without dims the latter three are Python's own, not tensors. `level` says how
    tightly its text binds.
    """

    text: str
    dims: Dims = ()
    kind: Kind = "tensor"
    level: int = ATOM

    @property
    def plain(self) -> bool:
        """Is it a number of Python, not a tensor?"""
        return not self.dims and self.kind != "tensor"

    def at(self, level: int) -> str:
        """The text as an operand of what binds at `level`."""
        return self.text if self.level >= level else f"({self.text})"


def escape_prose(text: str) -> str:
    """Words of a text as they may stand in a docstring: they cannot end it (R13)."""
    return text.replace("\\", "\\\\").replace('"', '\\"')


def uses(code: str, name: str) -> bool:
    """Does a name stand in code, comments apart?"""
    return re.search(rf"(?<![\w.\"]){name}\b", _COMMENT.sub("", code)) is not None


def number_axis(axis: int, rank: int) -> int:
    """The number of an axis; the last is counted from the end, whatever stands before it."""
    return -1 if axis == rank - 1 else axis


def order_dims(dims: Sequence[Dims], wanted: Dims | None = None) -> Dims:
    """The dims of several codes together: as wanted, else as in the one that has most, the others' own in front."""
    together = dict.fromkeys(dim for some in dims for dim in some)
    if wanted is not None:
        return tuple(dim for dim in wanted if dim in together) + tuple(dim for dim in together if dim not in wanted)
    longest = max(dims, key=len, default=())
    return tuple(dim for dim in together if dim not in longest) + longest


def permute(code: Code, dims: Dims) -> Code:
    """The same values with their axes in the order of `dims`, which are exactly its own."""
    assert set(code.dims) == set(dims), (code, dims)
    if code.dims == dims:
        return code
    order = [code.dims.index(dim) for dim in dims]
    moved = [place for place, axis in enumerate(order) if place != axis]
    if len(order) == 2:
        how = "T"
    elif len(moved) == 2:
        how = f"transpose({moved[0]}, {moved[1]})"
    else:
        how = f"permute({', '.join(map(str, order))})"
    return replace(code, text=f"{code.at(ATOM)}.{how}", dims=dims, level=ATOM)


def align(code: Code, dims: Dims, level: int = LOOSE) -> str:
    """An operand that broadcasts against axes `dims`: permuted, with an axis of length 1 where it has none."""
    if not code.dims:
        return code.at(level)
    code = permute(code, tuple(dim for dim in dims if dim in code.dims))
    rest = dims[dims.index(code.dims[0]) :]
    if rest == code.dims:
        return code.at(level)
    signs = ", ".join(":" if dim in code.dims else "None" for dim in rest)
    return f"{code.at(ATOM)}[{re.sub('^:(, :)+(?=(, None)+$)', '...', signs)}]"


def combine_kinds(codes: Sequence[Code]) -> Kind:
    """What an arithmetic combination is made of."""
    kinds = [code.kind for code in codes]
    return "tensor" if "tensor" in kinds else "number" if "number" in kinds else "integer"


def multiply(codes: Sequence[Code], wanted: Dims | None = None) -> Code:
    """`a * b * c`, lined up by index."""
    dims, kind = order_dims([code.dims for code in codes], wanted), combine_kinds(codes)
    texts = [align(code, dims, POWER if k else PRODUCT) for k, code in enumerate(codes)]
    return Code(" * ".join(texts), dims, kind, PRODUCT if len(codes) > 1 else codes[0].level)


def cast(code: Code, kind: Kind) -> Code:
    """Index numbers and tokens are integers, or at least float32 (R12); beside a tensor they take its dtype."""
    if not code.dims or code.kind == kind or kind in ("integer", "condition"):
        return code
    return replace(code, text=f"{code.at(ATOM)}.to({'dtype' if kind == 'tensor' else 'number'})", kind=kind, level=ATOM)
