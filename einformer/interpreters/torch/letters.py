"""Which letter of Python stands for an index? One in a whole file, and one in an einsum, which knows no others."""

from __future__ import annotations

import itertools
import string
from collections.abc import Mapping

from einformer.language.calls import axis_of
from einformer.language.tree import Apply, Expression, Index, Spec, Tensor
from einformer.language.walk import equations, subexpressions


def spelled(spec: Spec) -> dict[str, str]:
    """A letter for each index: its own, and for one with primes the next that stands for no other."""
    found: dict[str, str] = {axis.letter: axis.letter for axis in spec.axes}
    for layer in spec.layers:
        roots: list[Expression] = [*layer.formals, *(i for w in layer.weights for i in w.indices)]
        for equation in equations(layer.body):
            roots += [equation.right, *(equation.left.slots if isinstance(equation.left, Tensor) else ())]
        for e in (x for root in roots for x in subexpressions(root)):
            for index in e.indices if isinstance(e, Apply) else (e,) if isinstance(e, Index) else ():
                if index.letter not in found:
                    axis = axis_of(index.letter)
                    found[index.letter] = unused(found, string.ascii_lowercase.partition(axis)[2], axis)
    return found


def unused(letters: Mapping[str, str], some: str, axis: str) -> str:
    """The first of some that stands for no index yet; where all do, the axis with a number, `s2`."""
    numbered = (f"{axis}{k}" for k in itertools.count(2))
    return next(each for each in itertools.chain(some, numbered) if each not in letters.values())


def single(letters: Mapping[str, str]) -> dict[str, str]:
    """The indices of one einsum, each as one letter: its own, and `s2` as one that no other of them has."""
    free = (letter for letter in string.ascii_letters if letter not in letters.values())
    return {index: letter if letter in string.ascii_letters else next(free) for index, letter in letters.items()}
