"""Why does a shape not fit, most likely? The first of a few slips that would explain it, and in one way only."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import combinations
from typing import Any

from einformer.contracts.scopes import Bound
from einformer.contracts.tree import Array, Axis
from einformer.language.tree import Name

Shape = tuple[Any, ...]


def cause(array: Array, wanted: Shape, shape: Shape, sizes: Mapping[str, Bound], place: str) -> tuple[str, str]:
    """What probably happened, and what to write instead; nothing if no slip explains it."""
    if array.open:
        return "", ""
    for slip in _SLIPS:
        found = list(slip(array.axes, wanted, shape, place))
        if len(found) == 1:
            return found[0]
    return next(_another(array.axes, wanted, shape, sizes), ("", ""))


def _transposed(axes: tuple[Axis, ...], wanted: Shape, shape: Shape, place: str) -> Iterator[tuple[str, str]]:
    for i, j in combinations(range(len(shape)), 2):
        swapped = list(shape)
        swapped[i], swapped[j] = shape[j], shape[i]
        if _fits(tuple(swapped), wanted):
            yield f"`{axes[i].written}` and `{axes[j].written}` are swapped", f"`{place}.transpose({i}, {j})`"


def _merged(axes: tuple[Axis, ...], wanted: Shape, shape: Shape, place: str) -> Iterator[tuple[str, str]]:
    for i in range(len(wanted) - 1):
        left, right = wanted[i : i + 2]
        if isinstance(left, int) and isinstance(right, int) and _fits(shape, (*wanted[:i], left * right, *wanted[i + 2 :])):
            pair = f"({axes[i].written}{axes[i + 1].written})"
            yield (
                f"`{axes[i].written}` and `{axes[i + 1].written}` are one axis, `{pair}`",
                f"`{place}.unflatten({i}, ({left}, {right}))`",
            )


def _split(axes: tuple[Axis, ...], wanted: Shape, shape: Shape, place: str) -> Iterator[tuple[str, str]]:
    for i in range(len(shape) - 1):
        if shape[i] > 1 < shape[i + 1] and _fits((*shape[:i], shape[i] * shape[i + 1], *shape[i + 2 :]), wanted):
            yield f"`{axes[i].written}` is still two axes", f"`{place}.flatten({i}, {i + 1})`"


def _missing(axes: tuple[Axis, ...], wanted: Shape, shape: Shape, place: str) -> Iterator[tuple[str, str]]:
    for i in range(len(wanted)):
        if _fits(shape, wanted[:i] + wanted[i + 1 :]):
            yield f"the axis `{axes[i].written}` is missing", f"`{place}.unsqueeze({i})`, if its size is 1"


def _extra(axes: tuple[Axis, ...], wanted: Shape, shape: Shape, place: str) -> Iterator[tuple[str, str]]:
    for i in range(len(shape)):
        if shape[i] == 1 and _fits(shape[:i] + shape[i + 1 :], wanted):
            yield "an axis of size 1 too many", f"`{place}.squeeze({i})`"


def _single(axes: tuple[Axis, ...], wanted: Shape, shape: Shape, place: str) -> Iterator[tuple[str, str]]:
    """One axis of size 1 would broadcast; one off by one is shifted."""
    for axis, want, found in _differing(axes, wanted, shape):
        if found == 1:
            yield (
                f"an axis of size 1 where `{axis.written}` is meant: it broadcasts",
                f"`{axis.written}` itself, or `1` in the contract",
            )
        elif abs(found - want) == 1:
            yield f"`{axis.written}` is shifted, or cut, by one", ""


_SLIPS: tuple[Callable[[tuple[Axis, ...], Shape, Shape, str], Iterator[tuple[str, str]]], ...] = (
    _transposed,
    _merged,
    _split,
    _missing,
    _extra,
    _single,
)


def _another(axes: tuple[Axis, ...], wanted: Shape, shape: Shape, sizes: Mapping[str, Bound]) -> Iterator[tuple[str, str]]:
    """One axis has the size of another letter, or another index over the same axis was allowed to differ."""
    for axis, _, found in _differing(axes, wanted, shape):
        if "'" in axis.written:
            letter = axis.written.rstrip("'")
            fix = f"`where {axis.written}: T` lets it have a size of its own"
            yield f"`{axis.written}` and `{letter}` are indices over one axis", fix
        for name, bound in sizes.items():
            if bound.size == found and Name(name) != axis.size:
                yield f"{found} is {name}: the axis of `{name.lower()}`, where `{axis.written}` is meant", ""


def _differing(axes: tuple[Axis, ...], wanted: Shape, shape: Shape) -> list[tuple[Axis, int, int]]:
    """The axis that differs, if it is one and its size is known."""
    if len(shape) != len(wanted):
        return []
    differ = [row for row in zip(axes, wanted, shape, strict=True) if isinstance(row[1], int) and row[1] != row[2]]
    return differ if len(differ) == 1 else []


def _fits(shape: Shape, wanted: Shape) -> bool:
    return len(shape) == len(wanted) and all(want is None or want == found for want, found in zip(wanted, shape, strict=True))
