"""Whose slip is it that a layer runs over positions or rows: its own, or that of the call that gave them to its letters?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from einformer.errors import Finding
from einformer.language.calls import axis_of, defined
from einformer.language.sizes import Legend
from einformer.language.tree import Apply, Expression, Layer


@dataclass(frozen=True, slots=True)
class Caller:
    """The layer in whose body another one is called, by which call, and the caller's letters for those of the other."""

    layer: Layer
    call: Apply
    letters: Mapping[str, str]
    caller: Caller | None = None


@dataclass(frozen=True, slots=True)
class Slip:
    """Where to look, at which letter, and the layers that are called on the way to what it is about."""

    at: Expression
    letter: str
    called: tuple[Layer, ...] = ()

    def finding(self, code: str, message: str, fix: str, legend: Legend) -> Finding:
        """What is said of it; where it is a call that gives the letter, only the call can be another."""
        facts = (legend.describe(self.letter), *map(defined, self.called))
        return Finding(
            code, message, self.at.span, facts, f"`{self.called[0].name}` over another index" if self.called else fix
        )


def whose(at: Expression, letter: str, layer: Layer, caller: Caller | None) -> Slip:
    """A layer of the same text that has the letter itself can be mended; else it is the call that gives it this one."""
    if caller is None:
        return Slip(at, letter)
    given = caller.letters.get(letter) or caller.letters[axis_of(letter)]
    slip = whose(caller.call, given, caller.layer, caller.caller)
    if not slip.called and axis_of(given) == axis_of(letter) and layer.span.source == caller.layer.span.source:
        return Slip(at, letter)
    return Slip(slip.at, slip.letter, (*slip.called, layer))


def over_positions(operator: str, slip: Slip, legend: Legend) -> Finding:
    """E503: an operator runs over the positions being computed."""
    name = slip.called[0].name if slip.called else operator
    message = f"`{name}` runs over `{slip.letter}`, the positions being computed, those to come too"
    return slip.finding("E503", message, f"`{slip.letter}'`, or `cumsum_{slip.letter}`", legend)


def of_rows(slip: Slip, legend: Legend) -> Finding:
    """E506: rows of a batch meet."""
    row = axis_of(slip.letter)
    return slip.finding("E506", f"this mixes the rows of a batch, `{row}`", f"`{row}`, the same on both sides", legend)
