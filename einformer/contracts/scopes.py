"""Keeps the sizes that are known before a call: of a block, `with sizes(D=768):`, and of an object, `bind(self, D=768)`.

A block holds for its thread, and for the asyncio tasks that start in it (a `ContextVar`).
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from types import MappingProxyType
from typing import Any

from einformer.errors import fail

OWN = "_einformer_sizes"  # where an object keeps its sizes; they are pickled with it
USED: list[bool] = []  # was there ever a block? Before that, no call asks for one
_OURS = str(Path(__file__).parent)


@dataclass(frozen=True, slots=True)
class Bound:
    """A size, for `...` a tuple of them, and who said so."""

    size: Any
    where: str


_BLOCK: ContextVar[Mapping[str, Bound]] = ContextVar("einformer.sizes", default=MappingProxyType({}))
block = _BLOCK.get


def sizes(**given: int) -> AbstractContextManager[None]:
    """Every contract that is checked inside the block has these sizes: `with ein.contracts.sizes(D=768, A=12):`.

    Raises EinformerError (E604, E726) for what is no size, or not that of a block around.
    """
    return _opened(given_sizes(given, f"ein.contracts.sizes at {place()}"))


@contextmanager
def _opened(given: dict[str, Bound]) -> Iterator[None]:
    token = _BLOCK.set(joined(block(), given))
    USED[:] = [True]
    try:
        yield
    finally:
        _BLOCK.reset(token)


def bind(owner: object, /, **given: int) -> None:
    """The contracts of this object's methods have these sizes for as long as it lives: `ein.contracts.bind(self, D=D, A=A)`.

    Raises EinformerError (E604, E726) for what is no size, or not the one the object has.
    """
    keep(owner, given_sizes(given, f"{type(owner).__name__}, bound at {place()}"))


def keep(owner: object, given: dict[str, Bound]) -> None:
    """The same, for sizes of which it is known who bound them."""
    vars(owner)[OWN] = joined(vars(owner).get(OWN, {}), given)


def joined(known: Mapping[str, Bound], given: Mapping[str, Bound]) -> dict[str, Bound]:
    """Both, which must agree."""
    for name in known.keys() & given.keys():
        if known[name].size != given[name].size:
            facts = [f"`{name}` = {bound.size} by {bound.where}" for bound in (known[name], given[name])]
            raise fail("E726", f"the size `{name}` is bound twice, and not to one number", facts=facts, fix="one of the two")
    return {**known, **given}


def distinct(known: Mapping[str, Bound]) -> None:
    """Raise E728 where two letters have one size: a run with such sizes proves less than it seems to."""
    for (name, bound), (other, again) in combinations(known.items(), 2):
        if bound.size == again.size:
            facts = [f"`{letter}` = {each.size} by {each.where}" for letter, each in ((name, bound), (other, again))]
            raise fail(
                "E728", f"`{name}` and `{other}` are both {bound.size}", facts=facts, fix="sizes that differ, best primes"
            )


def clash(known: Mapping[str, Bound], found: Mapping[str, int]) -> bool:
    """Does a size of a call differ from what is known?"""
    for name, bound in known.items():  # noqa: SIM110  Dynamo follows a loop
        if found.get(name, bound.size) != bound.size:
            return True
    return False


def place() -> str:
    """The line of code that called us; what was typed, or read from no file, has none that one could open."""
    frame = sys._getframe(1)
    while frame.f_back is not None and (
        frame.f_code.co_filename.startswith(_OURS) or frame.f_code.co_filename.startswith("<contract ")
    ):
        frame = frame.f_back
    return written_at(frame.f_code.co_filename, frame.f_lineno)


def written_at(file: str, line: int) -> str:
    """`model.py:12`."""
    return "the prompt" if file.startswith("<") else f"{Path(file).name}:{line}"


def given_sizes(given: Mapping[str, int], where: str) -> dict[str, Bound]:
    """Sizes that somebody named, if they are any."""
    for name, size in given.items():
        if not isinstance(size, int) or isinstance(size, bool) or size < 0:
            raise fail("E604", f"`{name}` is {size!r}, and no size", fix="a whole number")
        if not name[0].isupper():
            raise fail("E726", f"`{name}` is no size", fix=f"`{name.upper()}`, the size of the axis `{name}`")
    return {name: Bound(size, where) for name, size in given.items()}
