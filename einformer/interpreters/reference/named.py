"""Defines arrays with named axes, and their broadcasting."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


@dataclass(frozen=True, slots=True)
class Named:
    """An array with the name of an index on each axis."""

    dims: tuple[str, ...]
    array: Array

    def over(self, dims: Sequence[str]) -> Array:
        """Returns the array with its axes in the order of `dims`, with length 1 for axes that it lacks."""
        own = [dim for dim in dims if dim in self.dims]
        assert len(own) == len(self.dims), (dims, self.dims)
        shape = [self.array.shape[self.dims.index(dim)] if dim in self.dims else 1 for dim in dims]
        return self.array.transpose([self.dims.index(dim) for dim in own]).reshape(shape)


@dataclass(frozen=True, slots=True)
class Stored:
    """A tensor as its definition stored it: an axis for each slot, then one for each carried index."""

    axes: tuple[str, ...]  # the letter of the axis that each slot runs over, "" for a group
    carried: tuple[str, ...]
    array: Array


def union(*dims: Sequence[str]) -> tuple[str, ...]:
    """Returns the names of several arrays, each once, in order."""
    return tuple(dict.fromkeys(dim for some in dims for dim in some))


def binary(f: Callable[[Array, Array], Array]) -> Callable[[Named, Named], Named]:
    """Applies f to two named arrays, lined up by name."""

    def apply(left: Named, right: Named) -> Named:
        dims = union(left.dims, right.dims)
        return Named(dims, f(left.over(dims), right.over(dims)))

    return apply


def lift(f: Callable[..., Array]) -> Callable[..., Named]:
    """Applies f to named arrays, lined up by name."""

    def apply(*values: Named) -> Named:
        dims = union(*(value.dims for value in values))
        return Named(dims, f(*(value.over(dims) for value in values)))

    return apply


def choose(condition: Named, then: Named, otherwise: Named) -> Named:
    """Selects by a condition."""
    dims = union(condition.dims, then.dims, otherwise.dims)
    return Named(dims, np.where(condition.over(dims), then.over(dims), otherwise.over(dims)))
