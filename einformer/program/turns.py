"""Counts how often a place in a body exists: once for each turn of the loops around it in which its cases hold (R8)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from einformer.language.tree import Expression
from einformer.language.weights import key

Loops = tuple[tuple[str, Expression], ...]  # the letter and the count of each loop around, outside first


@dataclass(frozen=True, slots=True)
class Case:
    """A condition on layer numbers that holds, or does not, where an expression exists (R8)."""

    condition: Expression
    holds: bool


@dataclass(frozen=True, slots=True)
class Site:
    """A place in a body: the loops around it, and in which of their turns it exists (R8)."""

    loops: Loops = ()
    cases: frozenset[Case] = frozenset()


@dataclass(frozen=True, slots=True)
class TurnCount:
    """How many different numbers the letters of loops take over all of these sites of one body."""

    letters: tuple[str, ...]
    sites: tuple[Site, ...]


def turns_of(loops: Loops, cases: frozenset[Case]) -> TurnCount:
    return TurnCount(tuple(letter for letter, _ in loops), (Site(loops, cases),))


# Both branches of a `where` together are the whole.
def unite(sites: Iterable[Site]) -> tuple[Site, ...]:
    distinct = list(dict.fromkeys(sites))
    for site in distinct:
        for case in site.cases:
            other = replace(site, cases=site.cases - {case} | {replace(case, holds=not case.holds)})
            if other in distinct:
                joined = replace(site, cases=site.cases - {case})
                return unite(joined if place == site else place for place in distinct if place != other)
    always = {site.loops for site in distinct if not site.cases}
    return tuple(site for site in distinct if not site.cases or site.loops not in always)


def below(path: str, letters: Iterable[str], name: str) -> str:
    blocks = "".join(f"blocks.{{{letter}}}." for letter in letters)
    return f"{path}.{blocks}{key(name)}".lstrip(".")
