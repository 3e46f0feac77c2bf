"""Which sizes tell the axes of a specification apart? Small, prime as far as its relations allow, and no two equal."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

from einformer.errors import EinformerError, fail
from einformer.language.sizes import Legend, Value
from einformer.language.tree import Name, Number

PRIMES = (2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43, 47)
TURNS = 2  # of a loop


def drawn(legend: Legend, letters: Sequence[str], turns: frozenset[str] = frozenset()) -> dict[str, int]:
    """A size for each of the letters, the first ones the smallest; `turns` are those that only count turns of loops.

    Where `h: H / 2` and `H = D / A`, D becomes a multiple of 2 A: a prime times what must divide it. Sizes that are bound may
    be equal, those that are drawn are not. Raises EinformerError E601 where there are none.
    """
    counted = {letter: TURNS for letter in letters if letter in turns}
    start = replace(legend, values={**legend.values, **counted})
    rest = [letter for letter in letters if letter not in counted]
    found = next(_completed(start, _ordered(start, rest), turns, _repeated(start, turns)), None)
    if found is None:
        raise fail("E601", f"no small sizes were found for {', '.join(rest)}", fix="`bind={…}` with sizes of your own")
    return {letter: int(found.values[letter]) for letter in letters}


def _completed(legend: Legend, letters: Sequence[str], turns: frozenset[str], repeated: int | None) -> Iterator[Legend]:
    """The legends in which the letters have sizes, and no more axes are equal."""
    if not letters:
        yield legend
        return
    factor = _factor(legend, letters[0])
    for prime in PRIMES:
        trial = replace(legend, values={**legend.values, letters[0]: prime * factor})
        if _repeated(trial, turns) == repeated:
            yield from _completed(trial, letters[1:], turns, repeated)


def _repeated(legend: Legend, turns: frozenset[str]) -> int | None:
    """How many sizes are also those of other axes; None where one is not whole, or beyond its bound."""
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


def _divisors(legend: Legend) -> Iterator[tuple[str, set[str], int]]:
    """What must divide each letter: the letters and the number below the line, in the sizes written out."""
    for axis in legend.axes.values():
        terms = legend.polynomial(axis.size)
        if len(terms) == 1:
            ((monomial, factor),) = terms.items()
            below = {letter for letter, power in monomial if power < 0}
            for letter in [letter for letter, power in monomial if power > 0][:1]:
                yield letter, below, factor.denominator


def _ordered(legend: Legend, letters: Sequence[str]) -> list[str]:
    """The letters, each after those that must divide it; these first, for what they divide is large."""
    needs: dict[str, set[str]] = {letter: set() for letter in letters}
    for letter, below, _ in _divisors(replace(legend, values={})):
        if letter in needs:
            needs[letter].update(below & needs.keys())
    dividing = set().union(*needs.values()) | {letter for letter in letters if needs[letter]}
    ordered, rest = list[str](), sorted(letters, key=lambda letter: letter not in dividing)
    while rest:
        ordered.append(next((letter for letter in rest if needs[letter] <= set(ordered)), rest[0]))
        rest.remove(ordered[-1])
    return ordered


def _factor(legend: Legend, letter: str) -> int:
    """What must divide a letter, now that those before it have numbers."""
    plain = replace(legend, values={})
    return math.lcm(
        *(
            number * math.prod(_whole(legend.values.get(each, 1)) for each in below)
            for other, below, number in _divisors(plain)
            if other == letter
        )
    )


def _whole(value: Value) -> int:
    return max(1, int(value))
