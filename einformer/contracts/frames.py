"""Checks the local variables of a call against their names. Rewritten functions call this module at each assignment."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any, TypeVar

import torch

from einformer.contracts import switch
from einformer.contracts.decorator import wrap
from einformer.contracts.reader import read
from einformer.contracts.scopes import block, find_sizes, merge
from einformer.contracts.syntax import Array
from einformer.contracts.violations import Checker
from einformer.errors import EinformerError
from einformer.language.tree import Name
from einformer.language.walk import find_all

_F = TypeVar("_F", bound=Callable[..., Any])
counts = {"functions": 0, "values": 0}


@dataclass(slots=True)
class Frame:
    """The binding of one call. `held` lists the names that have each size."""

    where: str
    checker: Checker
    given: frozenset[str]  # the sizes that were known before
    held: dict[str, set[str]] = field(default_factory=dict)


_FRAMES: dict[int, Frame] = {}  # by the call of Python that each belongs to, whose variables stay its own


# A call has a new binding, with the sizes of the object and of the block around.
def frame(where: str, owner: object) -> AbstractContextManager[object]:
    if torch.compiler.is_compiling() or not switch.active():
        return nullcontext()
    counts["functions"] += 1
    bound_sizes = merge(block(), find_sizes(owner))
    return _Binding(Frame(where, Checker(bound_sizes), frozenset(bound_sizes)))


class _Binding:
    def __init__(self, frame: Frame) -> None:
        self.frame, self.call = frame, 0

    def __enter__(self) -> None:
        self.call = id(sys._getframe(1))
        _FRAMES[self.call] = self.frame

    def __exit__(self, *_: object) -> None:
        del _FRAMES[self.call]


# Checks a tensor against the letters of its name. Other values have no axes. A new value may change a size that only this name
# has, or in a loop a size that only names of the loop have: after `x_bs = cat(x_bs, y_b1)` there are more positions than
# before. Raises EinformerError.
def see(name: str, value: object, loop: tuple[str, ...]) -> None:
    if torch.compiler.is_compiling() or not isinstance(value, torch.Tensor):
        return
    frame = _FRAMES.get(id(sys._getframe(1)))
    if frame is None:
        return
    counts["values"] += 1
    item = read(name, frame.where).arguments[0]
    assert isinstance(item.value, Array)
    sizes = {e.name for axis in item.value.axes for e in find_all(Name, axis.size)}
    for size in sizes:
        if name in frame.held.get(size, ()) and frame.held[size] <= {name, *loop}:
            del frame.checker.sizes[size], frame.held[size]
    try:
        frame.checker.see(item, value, name)
    except EinformerError as error:
        raise error.with_traceback(None) from None
    for size in sizes - frame.given:
        frame.held.setdefault(size, set()).add(name)


# A function without such annotations stays as it is.
def wrap_annotated(function: _F) -> _F:
    try:
        return wrap("", function) if switch.active() else function  # type: ignore[return-value]
    except EinformerError:
        return function
