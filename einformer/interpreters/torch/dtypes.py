"""Which kinds of numbers has PyTorch, how long is each, and which of two prevails?"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Dtype:
    """A kind of number: its bytes, and its rank, by which one of two prevails."""

    name: str
    bytes: int
    rank: int

    @property
    def is_floating_point(self) -> bool:
        """No whole number and no truth?"""
        return self.rank > 1


BOOL, INT64 = Dtype("bool", 1, 0), Dtype("int64", 8, 1)
BFLOAT16, FLOAT16 = Dtype("bfloat16", 2, 2), Dtype("float16", 2, 2)
FLOAT32, FLOAT64 = Dtype("float32", 4, 3), Dtype("float64", 8, 4)
DTYPES = {dtype.name: dtype for dtype in (BOOL, INT64, BFLOAT16, FLOAT16, FLOAT32, FLOAT64)}


def promoted(one: Dtype, other: Dtype) -> Dtype:
    """The dtype in which the two meet."""
    return FLOAT32 if {one, other} == {BFLOAT16, FLOAT16} else max(one, other, key=lambda dtype: dtype.rank)
