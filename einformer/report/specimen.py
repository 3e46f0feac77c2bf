"""Prepares the model for examination: at full size on the meta device, and at small sizes where it can be computed."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from einformer.errors import EinformerError
from einformer.interpreters.count import table
from einformer.interpreters.count.inventory import derive
from einformer.interpreters.count.numbers import Numbers
from einformer.interpreters.count.table import Instance
from einformer.language.sizes import Legend
from einformer.language.tree import Apply, Expression, Index, Name, Quotient
from einformer.language.walk import equations, find_all, loops, subexpressions
from einformer.objects import Model

if TYPE_CHECKING:
    import numpy as np
    import sympy
    from numpy.typing import NDArray
    from torch import nn

    from einformer.interpreters.torch.measure import Read

    Array = NDArray[np.float64]

_SMALL = 100_000  # parameters
_PRIMES = (3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43, 47, 53, 59)


@dataclass
class Sized:
    """A model at the sizes of its inputs, with its counts."""

    model: Model
    inputs: Mapping[str, int]
    seed: int = 0

    @functools.cached_property
    def legend(self) -> Legend:
        return self.model.at(**self.inputs)

    @functools.cached_property
    def parts(self) -> tuple[Instance[int], ...]:
        return table.count_parts(self.model.spec.tree, self.model.spec.name, Numbers(self.legend))


@dataclass
class Specimen(Sized):
    """The model under examination, with values that several questions need, computed once."""

    @functools.cached_property
    def formulas(self) -> tuple[Instance[sympy.Expr], ...]:
        from einformer.interpreters.count.symbols import Symbols

        return table.count_parts(self.model.spec.tree, self.model.spec.name, Symbols(self.model.legend))

    @functools.cached_property
    def write(self) -> Callable[[sympy.Expr], str]:
        return table.choose_writer(self.model.spec.tree)

    @functools.cached_property
    def live(self) -> nn.Module:
        return self.model.build(device="meta").eval()

    # The sizes are those that `reference` can compute.
    @functools.cached_property
    def small(self) -> Small:
        model = shrink(self.model)
        return Small(model, choose_inputs(model), self.seed)


@dataclass
class Small(Sized):
    """A model at small sizes with weights and inputs, evaluated in three ways."""

    @functools.cached_property
    def weights(self) -> dict[str, Array]:
        from einformer.interpreters.torch import measure

        return measure.randomise(self.model.build().eval(), self.seed)

    @functools.cached_property
    def given(self) -> list[Array]:
        from einformer.interpreters.torch import measure

        return measure.draw_inputs(reads(self.model, self.legend), self.seed)

    @functools.cached_property
    def modules(self) -> Mapping[str, nn.Module]:
        from einformer.interpreters.torch import measure

        built = {plan: self.model.build(plan=plan).eval() for plan in ("notation", "fast")}
        for module in built.values():
            measure.load(module, self.weights)
        return built

    def value(self, plan: str, given: Sequence[Array]) -> Array:
        from einformer.interpreters.torch import measure

        return measure.compute(self.modules[plan], given)

    @functools.cached_property
    def meaning(self) -> tuple[Array, dict[str, Array]]:
        trace: dict[str, Array] = {}
        return self.model.reference(*self.given, weights=self.weights, trace=trace), trace


# An input of token ids has a number of tokens, whether it is read as it is or as a formula.
def reads(model: Model, legend: Legend) -> list[Read]:
    door: Any = model.build(device="meta").eval()
    rows = [e.selects[0] if e.selects else derive(model.spec.tree, model.spec.name).vocabulary for e in door.door]
    return [
        (tuple(legend.length(axis) for axis, _, _ in e.axes), legend.length(letter) if e.whole and letter else None)
        for e, letter in zip(door.door, rows, strict=True)
    ]


# --------------------------------------------------------------------------------------------------------- small sizes


def shrink(model: Model) -> Model:
    """Returns the same text with distinct small sizes: primes, times the sizes that must divide them. Loops turn twice, or
    as often as their layers differ.

    A model that is small already stays.

    >>> from einformer.targets import model
    >>> small = shrink(model("gpt2"))
    >>> [small.size(letter) for letter in "DAHLVK"]
    [15, 3, 5, 2, 11, 7]
    """
    if model.num_parameters <= _SMALL:
        return model
    for factor in (1, 2, 4):  # rotary features come in pairs
        with contextlib.suppress(EinformerError):
            return model.spec.bind(**_choose_small_sizes(model, factor))
    return model.spec.bind(**_choose_small_sizes(model, 8))


# Two rows with an even number of positions, different from every size of the model.
def choose_inputs(model: Model) -> Mapping[str, int]:
    longest = model.inputs().get("S", 1)
    return model.inputs(2, max(length for length in (8, 6, 4, 2) if length < max(longest, 3)))


def _choose_small_sizes(model: Model, factor: int) -> dict[str, int]:
    legend, sizes = model.legend, dict[str, int]()
    turns = {x.name for layer in model.spec.tree.layers for loop in loops(layer.body) for x in _list_names(loop.count)}
    quotients = [axis.default or axis.size for axis in legend.axes.values()]
    parted = {letter: divisors for e in quotients if isinstance(e, Quotient) for letter, divisors in _list_divided(e)}
    primes, most = iter(_PRIMES), _choose_turns(model)

    def depth(letter: str, *seen: str) -> int:
        others = (other for other in parted.get(letter, ()) if other not in (letter, *seen))
        return 1 + max((depth(other, letter, *seen) for other in others), default=0)

    for letter, value in sorted(legend.values.items(), key=lambda item: (item[1], depth(item[0]))):  # divisors first
        divisors = [
            small for other, small in sizes.items() if other in parted.get(letter, ()) and value % legend.values[other] == 0
        ]
        sizes[letter] = (
            most if letter in turns else next(primes) * max(divisors, default=1) * (factor if letter in parted else 1)
        )
    return sizes


# Two turns, as many as a list has values, or one more than the number that a turn is compared with.
def _choose_turns(model: Model) -> int:
    lists = [len(scalar.value) for scalar in model.spec.tree.scalars if isinstance(scalar.value, tuple)]
    numbers = {loop.index.letter for layer in model.spec.tree.layers for loop in loops(layer.body)}
    right_sides = (q.right for layer in model.spec.tree.layers for q in equations(layer.body))
    compared = [
        int(model.legend.number(e.arguments[1])) + 1
        for right in right_sides
        for e in subexpressions(right)
        if isinstance(e, Apply) and e.name == "<" and isinstance(e.arguments[0], Index) and e.arguments[0].letter in numbers
    ]
    return max([2, *lists, *compared])


def _list_divided(e: Quotient) -> list[tuple[str, set[str]]]:
    divisors = {x.name for x in _list_names(e.denominator)}
    return [(x.name, divisors) for x in _list_names(e.numerator)]


def _list_names(e: Expression) -> list[Name]:
    return [*find_all(Name, e)]
