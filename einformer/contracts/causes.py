"""Names the most likely cause of a wrong shape: the first of a few slips that explains it, if it does so in one way only."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import combinations
from typing import Any

from einformer.contracts.scopes import BoundSize
from einformer.contracts.syntax import Array, Dimension
from einformer.language.tree import Name

Shape = tuple[Any, ...]


# Both are "" if no slip explains the shape.
def find_cause(array: Array, wanted: Shape, shape: Shape, sizes: Mapping[str, BoundSize], place: str) -> tuple[str, str]:
    if array.open:
        return "", ""
    for slip in _SLIPS:
        explanations = list(slip(array.axes, wanted, shape, place))
        if len(explanations) == 1:
            return explanations[0]
    return next(_explain_swapped_sizes(array.axes, wanted, shape, sizes), ("", ""))


def _explain_transposed(axes: tuple[Dimension, ...], wanted: Shape, shape: Shape, place: str) -> Iterator[tuple[str, str]]:
    for i, j in combinations(range(len(shape)), 2):
        swapped = list(shape)
        swapped[i], swapped[j] = shape[j], shape[i]
        if _fits(tuple(swapped), wanted):
            yield f"`{axes[i].written}` and `{axes[j].written}` are swapped", f"`{place}.transpose({i}, {j})`"


def _explain_merged(axes: tuple[Dimension, ...], wanted: Shape, shape: Shape, place: str) -> Iterator[tuple[str, str]]:
    for i in range(len(wanted) - 1):
        left, right = wanted[i : i + 2]
        if isinstance(left, int) and isinstance(right, int) and _fits(shape, (*wanted[:i], left * right, *wanted[i + 2 :])):
            pair = f"({axes[i].written}{axes[i + 1].written})"
            yield (
                f"`{axes[i].written}` and `{axes[i + 1].written}` are one axis, `{pair}`",
                f"`{place}.unflatten({i}, ({left}, {right}))`",
            )


def _explain_split(axes: tuple[Dimension, ...], wanted: Shape, shape: Shape, place: str) -> Iterator[tuple[str, str]]:
    for i in range(len(shape) - 1):
        if shape[i] > 1 < shape[i + 1] and _fits((*shape[:i], shape[i] * shape[i + 1], *shape[i + 2 :]), wanted):
            yield f"`{axes[i].written}` is still two axes", f"`{place}.flatten({i}, {i + 1})`"


def _explain_missing(axes: tuple[Dimension, ...], wanted: Shape, shape: Shape, place: str) -> Iterator[tuple[str, str]]:
    for i in range(len(wanted)):
        if _fits(shape, wanted[:i] + wanted[i + 1 :]):
            yield f"the axis `{axes[i].written}` is missing", f"`{place}.unsqueeze({i})`, if its size is 1"


def _explain_extra(axes: tuple[Dimension, ...], wanted: Shape, shape: Shape, place: str) -> Iterator[tuple[str, str]]:
    for i in range(len(shape)):
        if shape[i] == 1 and _fits(shape[:i] + shape[i + 1 :], wanted):
            yield "an axis of size 1 too many", f"`{place}.squeeze({i})`"


# An axis of size 1 would broadcast. A size that is off by one is shifted.
def _explain_single(axes: tuple[Dimension, ...], wanted: Shape, shape: Shape, place: str) -> Iterator[tuple[str, str]]:
    for axis, want, length in _find_different_axis(axes, wanted, shape):
        if length == 1:
            yield (
                f"an axis of size 1 where `{axis.written}` is meant: it broadcasts",
                f"`{axis.written}` itself, or `1` in the contract",
            )
        elif abs(length - want) == 1:
            yield f"`{axis.written}` is shifted, or cut, by one", ""


_SLIPS: tuple[Callable[[tuple[Dimension, ...], Shape, Shape, str], Iterator[tuple[str, str]]], ...] = (
    _explain_transposed,
    _explain_merged,
    _explain_split,
    _explain_missing,
    _explain_extra,
    _explain_single,
)


# One axis has the size of another letter, or of another index over the same axis.
def _explain_swapped_sizes(
    axes: tuple[Dimension, ...], wanted: Shape, shape: Shape, sizes: Mapping[str, BoundSize]
) -> Iterator[tuple[str, str]]:
    for axis, _, length in _find_different_axis(axes, wanted, shape):
        if "'" in axis.written:
            letter = axis.written.rstrip("'")
            fix = f"`where {axis.written}: T` lets it have a size of its own"
            yield f"`{axis.written}` and `{letter}` are indices over one axis", fix
        for name, bound in sizes.items():
            if bound.size == length and Name(name) != axis.size:
                yield f"{length} is {name}: the axis of `{name.lower()}`, where `{axis.written}` is meant", ""


def _find_different_axis(axes: tuple[Dimension, ...], wanted: Shape, shape: Shape) -> list[tuple[Dimension, int, int]]:
    if len(shape) != len(wanted):
        return []
    differ = [row for row in zip(axes, wanted, shape, strict=True) if isinstance(row[1], int) and row[1] != row[2]]
    return differ if len(differ) == 1 else []


def _fits(shape: Shape, wanted: Shape) -> bool:
    return len(shape) == len(wanted) and all(want is None or want == length for want, length in zip(wanted, shape, strict=True))
