"""Draws sizes that tell the axes of a specification apart: small, prime as far as its relations allow, and all different."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

from einformer.errors import EinformerError, fail
from einformer.language.sizes import Legend, Value
from einformer.language.tree import Name, Number

PRIMES = (2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43, 47)
TURNS = 2  # of a loop


# Returns a size for each of the letters, the first ones the smallest. `turns` are letters that only count loops. With `h: H /
# 2` and `H = D / A`, D becomes a multiple of 2 A: a prime times its divisors. Bound sizes may be equal, drawn sizes are not.
# Raises EinformerError E601 if there are none.
def draw(legend: Legend, letters: Sequence[str], turns: frozenset[str] = frozenset()) -> dict[str, int]:
    counted = {letter: TURNS for letter in letters if letter in turns}
    start = replace(legend, values={**legend.values, **counted})
    rest = [letter for letter in letters if letter not in counted]
    legend_with_sizes = next(_complete(start, _order_letters(start, rest), turns, _count_repeats(start, turns)), None)
    if legend_with_sizes is None:
        raise fail("E601", f"no small sizes were found for {', '.join(rest)}", fix="`bind={…}` with sizes of your own")
    return {letter: int(legend_with_sizes.values[letter]) for letter in letters}


# Legends in which the letters have sizes, without more equal axes.
def _complete(legend: Legend, letters: Sequence[str], turns: frozenset[str], repeated: int | None) -> Iterator[Legend]:
    if not letters:
        yield legend
        return
    factor = _find_factor(legend, letters[0])
    for prime in PRIMES:
        trial = replace(legend, values={**legend.values, letters[0]: prime * factor})
        if _count_repeats(trial, turns) == repeated:
            yield from _complete(trial, letters[1:], turns, repeated)


# The number of sizes that other axes have too. None if one is not whole, or beyond its bound.
def _count_repeats(legend: Legend, turns: frozenset[str]) -> int | None:
    sizes = list[int]()
    for axis in legend.axes.values():
        if isinstance(axis.size, Number) or (isinstance(axis.size, Name) and axis.size.name in turns):
            continue  # the members of a pair, the turns of a loop: no size of a model
        try:
            size = legend.length(axis.letter)
            bounded = axis.bound is None or size <= legend.number(axis.bound)
        except EinformerError as error:
            if error.findings[0].code == "E601":  # not bound yet
                continue
            return None
        if not bounded:
            return None
        sizes.append(size)
    return len(sizes) - len(set(sizes))


# The letters and the number below each line, in the sizes written out.
def _find_divisors(legend: Legend) -> Iterator[tuple[str, set[str], int]]:
    for axis in legend.axes.values():
        terms = legend.polynomial(axis.size)
        if len(terms) == 1:
            ((monomial, factor),) = terms.items()
            below = {letter for letter, power in monomial if power < 0}
            for letter in [letter for letter, power in monomial if power > 0][:1]:
                yield letter, below, factor.denominator


# Each letter comes after its divisors. Divisors come first, since their multiples are large.
def _order_letters(legend: Legend, letters: Sequence[str]) -> list[str]:
    needs: dict[str, set[str]] = {letter: set() for letter in letters}
    for letter, below, _ in _find_divisors(replace(legend, values={})):
        if letter in needs:
            needs[letter].update(below & needs.keys())
    related = set().union(*needs.values(), _find_factors(replace(legend, values={}))) | {x for x in letters if needs[x]}
    ordered, rest = list[str](), sorted(letters, key=lambda letter: letter not in related)
    while rest:
        ordered.append(next((letter for letter in rest if needs[letter] <= set(ordered)), rest[0]))
        rest.remove(ordered[-1])
    return ordered


# The letters of sizes that are products: `S = N M + 1` is small if they are.
def _find_factors(legend: Legend) -> set[str]:
    monomials = [monomial for axis in legend.axes.values() for monomial in legend.polynomial(axis.size)]
    return {letter for monomial in monomials if len(monomial) > 1 for letter, _ in monomial}


# The divisor of a letter, once the letters before it have numbers.
def _find_factor(legend: Legend, letter: str) -> int:
    plain = replace(legend, values={})
    return math.lcm(
        *(
            number * math.prod(_to_whole(legend.values.get(name, 1)) for name in below)
            for other, below, number in _find_divisors(plain)
            if other == letter
        )
    )


def _to_whole(value: Value) -> int:
    return max(1, int(value))
