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
class BoundSize:
    """A size, for `...` a tuple of sizes, with its origin."""

    size: Any
    where: str


_BLOCK: ContextVar[Mapping[str, BoundSize]] = ContextVar("einformer.sizes", default=MappingProxyType({}))
block = _BLOCK.get


def sizes(**given: int) -> AbstractContextManager[None]:
    """Binds sizes for every contract that is checked inside the block: `with ein.contracts.sizes(D=768, A=12):`.

    Raises EinformerError (E604, E726) if a value is not a size, or differs from a block around.
    """
    return _open_scope(check_sizes(given, f"ein.contracts.sizes at {find_caller()}"))


@contextmanager
def _open_scope(given: dict[str, BoundSize]) -> Iterator[None]:
    token = _BLOCK.set(merge(block(), given))
    USED[:] = [True]
    try:
        yield
    finally:
        _BLOCK.reset(token)


def bind(owner: object, /, **given: int) -> None:
    """Binds sizes for the contracts of this object's methods, as long as it lives: `ein.contracts.bind(self, D=D, A=A)`.

    Raises EinformerError (E604, E726) if a value is not a size, or differs from the object's.
    """
    keep(owner, check_sizes(given, f"{type(owner).__name__}, bound at {find_caller()}"))


# The object is not asked: it may answer anything.
def find_sizes(owner: object) -> Mapping[str, BoundSize]:
    try:
        sizes: Mapping[str, BoundSize] = object.__getattribute__(owner, "__dict__").get(OWN, {})
    except AttributeError:
        return {}
    return sizes


def keep(owner: object, given: dict[str, BoundSize]) -> None:
    vars(owner)[OWN] = merge(vars(owner).get(OWN, {}), given)


def merge(known: Mapping[str, BoundSize], given: Mapping[str, BoundSize]) -> dict[str, BoundSize]:
    for name in known.keys() & given.keys():
        if known[name].size != given[name].size:
            facts = [f"`{name}` = {bound.size} by {bound.where}" for bound in (known[name], given[name])]
            raise fail("E726", f"the size `{name}` is bound twice, and not to one number", facts=facts, fix="one of the two")
    return {**known, **given}


# Raises E728 if two letters have one size: a run with equal sizes proves less.
def check_distinct(known: Mapping[str, BoundSize]) -> None:
    for (name, bound), (other, again) in combinations(known.items(), 2):
        if bound.size == again.size:
            facts = [f"`{letter}` = {binding.size} by {binding.where}" for letter, binding in ((name, bound), (other, again))]
            raise fail(
                "E728", f"`{name}` and `{other}` are both {bound.size}", facts=facts, fix="sizes that differ, best primes"
            )


def clashes(known: Mapping[str, BoundSize], actual: Mapping[str, int]) -> bool:
    for name, bound in known.items():  # noqa: SIM110  Dynamo follows a loop
        if actual.get(name, bound.size) != bound.size:
            return True
    return False


# Code that was typed has no file to open.
def find_caller() -> str:
    frame = sys._getframe(1)
    while frame.f_back is not None and (
        frame.f_code.co_filename.startswith(_OURS) or frame.f_code.co_filename.startswith("<contract ")
    ):
        frame = frame.f_back
    return spell_place(frame.f_code.co_filename, frame.f_lineno)


# `model.py:12`.
def spell_place(file: str, line: int) -> str:
    return "the prompt" if file.startswith("<") else f"{Path(file).name}:{line}"


def check_sizes(given: Mapping[str, int], where: str) -> dict[str, BoundSize]:
    for name, size in given.items():
        if not isinstance(size, int) or isinstance(size, bool) or size < 0:
            raise fail("E604", f"`{name}` is {size!r}, and no size", fix="a whole number")
        if not name[0].isupper():
            raise fail("E726", f"`{name}` is not a size", fix=f"`{name.upper()}`, the size of the axis `{name}`")
    return {name: BoundSize(size, where) for name, size in given.items()}
