"""Do the local variables of one call keep what their names say? What rewritten functions call, at each value of such a name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

import torch

from einformer.contracts import switch
from einformer.contracts.check import Checker
from einformer.contracts.decorator import wrapped
from einformer.contracts.reader import read
from einformer.contracts.scopes import OWN, block, joined
from einformer.contracts.tree import Array
from einformer.errors import EinformerError
from einformer.language.tree import Name
from einformer.language.walk import subexpressions

_F = TypeVar("_F", bound=Callable[..., Any])
counts = {"functions": 0, "values": 0}


@dataclass(slots=True)
class Frame:
    """The binding of one call; `held` are the names that have each size."""

    where: str
    checker: Checker
    given: frozenset[str]  # the sizes that were known before
    held: dict[str, set[str]] = field(default_factory=dict)


def frame(where: str, owner: object) -> Frame | None:
    """A new binding, which knows the sizes of the object and of the block around."""
    if torch.compiler.is_compiling() or not switch.active():
        return None
    counts["functions"] += 1
    known = joined(block(), getattr(owner, "__dict__", {}).get(OWN, {}))
    return Frame(where, Checker(known), frozenset(known))


def see(frame: Frame | None, name: str, value: object, loop: tuple[str, ...]) -> None:
    """Check a tensor against the letters of its name; what is no tensor has no axes.

    A name that gets another value may change a size that it alone has, or in a loop one that only names of the loop have: with
    `x_bs = cat(x_bs, y_b1)` there are more positions than before. Raises EinformerError.
    """
    if frame is None or not isinstance(value, torch.Tensor):
        return
    counts["values"] += 1
    item = read(name, frame.where).arguments[0]
    assert isinstance(item.value, Array)
    sizes = {e.name for axis in item.value.axes for e in subexpressions(axis.size) if isinstance(e, Name)}
    for size in sizes:
        if name in frame.held.get(size, ()) and frame.held[size] <= {name, *loop}:
            del frame.checker.sizes[size], frame.held[size]
    try:
        frame.checker.see(item, value, name)
    except EinformerError as error:
        raise error.with_traceback(None) from None
    for size in sizes - frame.given:
        frame.held.setdefault(size, set()).add(name)


def annotated(function: _F) -> _F:
    """The function with the contract of its annotations, if they are one."""
    try:
        return wrapped("", function) if switch.active() else function  # type: ignore[return-value]
    except EinformerError:
        return function
