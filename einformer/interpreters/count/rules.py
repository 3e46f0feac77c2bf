"""The rules of counting, over anything that adds and multiplies: `numbers` puts sizes for letters, `formulas` symbols."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Generic, Literal, Protocol, TypeVar, cast

from einformer.interpreters.count.contraction import Chosen, Contraction, Step, steps
from einformer.interpreters.count.conventions import Convention
from einformer.interpreters.count.derived import Derived, Done, Gather, Softmax
from einformer.interpreters.count.held import Held
from einformer.language.calls import axis_of
from einformer.language.tree import Expression
from einformer.language.weights import key
from einformer.program.needs import Bound
from einformer.program.orders import Letters
from einformer.program.turns import Turns


class Countable(Protocol):
    """What adds and multiplies: an int, a sympy expression."""

    def __add__(self, other: Any, /) -> Any: ...
    def __mul__(self, other: Any, /) -> Any: ...


Phase = Literal["forward", "backward", "training"]
Recompute = Literal["none", "selective", "full"]

N = TypeVar("N", bound=Countable)
N_co = TypeVar("N_co", bound=Countable, covariant=True)


class Arithmetic(Protocol[N_co]):
    """What stands for the letters."""

    def length(self, letter: str) -> N_co:
        """The size of the axis that an index runs over."""

    def chosen(self, letter: str, count: Expression) -> N_co:
        """How many numbers of an index a `top` chooses."""

    def value(self, e: Expression) -> Any:
        """A number that the text writes, perhaps an infinite one: how far one looks back."""

    def smallest(self, numbers: Iterable[Any]) -> Any:
        """Of some numbers."""

    def largest(self, numbers: Iterable[Any]) -> Any:
        """Of some numbers."""

    def divided(self, number: Any, by: Any) -> N_co:
        """A part of a number that it divides."""

    def pairs(self, later: str, earlier: str, bounds: tuple[Bound, ...]) -> N_co:
        """Twice the number of pairs of two positions that keep to some bounds."""

    def turns(self, turns: Turns) -> N_co:
        """How many turns these are."""

    def kinds(
        self, turns: tuple[Turns, ...], numbers: tuple[Expression, ...]
    ) -> Iterable[tuple[tuple[N_co, ...], Arithmetic[N_co]]]:
        """The turns in which these numbers are the same, how many they are, and the arithmetic of each kind."""

    def typical(self, letter: str) -> int:
        """The size of an axis as it decides in which order tensors are contracted."""


@dataclass(frozen=True, slots=True)
class WeightCount(Generic[N]):
    """The numbers in a weight or buffer (not `trained`) of the layer at a path: `each`, so often in the loops around.

    `active` of each compute for a token, fewer where a `top` chooses (R10).
    """

    path: str
    name: str
    letters: tuple[str, ...]
    each: N
    active: N
    turns: tuple[N, ...]
    trained: bool = True
    embedding: bool = False
    merged: Letters = frozenset()  # for which one of its letters stands

    @property
    def full_path(self) -> str:
        """`blocks.{l}.MLP.W`."""
        return f"{self.path}.{self.name}".lstrip(".")

    @property
    def times(self) -> N:
        """How many there are."""
        return product(self.turns)

    @property
    def total(self) -> N:
        """In all of them together."""
        return product((self.times, self.each))


@dataclass(frozen=True, slots=True)
class EquationCount(Generic[N]):
    """The FLOPs of an equation, `text` as it is written, in a forward pass: `each`, so often in the loops around.

    `backward` are those of its gradients. `core` are those of products over two positions, what selective recomputation
    does again; `repeated` says that the equation is part of a block, what full recomputation does again.
    """

    path: str
    layer: str
    text: str
    line: int
    each: N
    turns: tuple[N, ...]
    backward: N
    core: N
    repeated: bool = False

    @property
    def times(self) -> N:
        """How often it is evaluated."""
        return product(self.turns)

    @property
    def total(self) -> N:
        """In all turns together."""
        return product((self.times, self.each))

    def spent(self, phase: Phase, recompute: Recompute = "none") -> N:
        """The FLOPs of a whole phase, in all turns together: a training step runs forward, backward and what is recomputed."""
        again = self.core if recompute == "selective" else self.each if recompute == "full" and self.repeated else 0
        phases = {"forward": (self.each,), "backward": (self.backward,), "training": (self.each, self.backward, again)}
        return product((self.times, total(phases[phase])))


def count_weights(derived: Derived, arithmetic: Arithmetic[N]) -> tuple[WeightCount[N], ...]:
    """The numbers in each weight: the product of the sizes of its indices."""
    return tuple(_weight(held, arithmetic) for held in derived.held)


def _weight(held: Held, arithmetic: Arithmetic[N]) -> WeightCount[N]:
    letters = tuple(index.letter for index in held.weight.indices)
    chosen = {each.letter: each.count for each in held.chosen}
    active = (
        arithmetic.chosen(letter, chosen[letter]) if letter in chosen else arithmetic.length(letter) for letter in letters
    )
    return WeightCount(
        held.path,
        key(held.weight.name),
        letters,
        product(map(arithmetic.length, letters)),
        product(active),
        tuple(map(arithmetic.turns, held.turns)),
        held.weight.kind == "trained",
        held.embedding,
        held.merged,
    )


def count_equations(derived: Derived, arithmetic: Arithmetic[N], convention: Convention) -> tuple[EquationCount[N], ...]:
    """The FLOPs of each equation: of each contraction of two tensors twice the product of the sizes of all indices.

    An equation under a window that differs between layers counts once for each kind.
    """
    return tuple(
        Rules(inner, convention, derived).equation(done, turns)
        for done in derived.done
        for turns, inner in arithmetic.kinds(done.turns, list_windows(done, convention))
    )


def list_windows(done: Done, convention: Convention) -> tuple[Expression, ...]:
    """The numbers on which the count depends and that may differ between turns."""
    if convention.pairs != "exact":
        return ()
    masked: tuple[Contraction | Softmax, ...] = (*done.contractions, *done.softmaxes)
    return tuple(dict.fromkeys(bound.least for each in masked for bound in each.bounds))


@dataclass(frozen=True, slots=True)
class Rules(Generic[N]):
    """The rules of one convention."""

    arithmetic: Arithmetic[N]
    convention: Convention
    derived: Derived

    def equation(self, done: Done, turns: tuple[N, ...]) -> EquationCount[N]:
        """The counts of an equation."""
        products = [(self.flops(step), step) for contraction in done.contractions for step in self.steps(contraction)]
        others = [*map(self.softmax, done.softmaxes), *map(self.gather, done.gathers)]
        return EquationCount(
            done.path,
            done.layer,
            done.equation.span.text,
            done.equation.span.line,
            total((*(flops for flops, _ in products), *others)),
            turns,
            total((*(flops * step.gradients for flops, step in products), *(other * 2 for other in others))),
            total(flops for flops, step in products if has_two_positions(step.letters, self.derived.time)),
            done.repeated,
        )

    def steps(self, contraction: Contraction) -> Iterator[Step]:
        """The contractions of two tensors, those of logits only where they count."""
        if contraction.fused and self.convention.plan == "fast":
            return iter(())
        counted = replace(contraction, chosen=tuple(each for each in contraction.chosen if self.runs(each, contraction)))
        order = steps(counted, self.arithmetic.typical)
        return (step for step in order if not (self.convention.logits == "none" and self.is_logits(step)))

    def runs(self, chosen: Chosen, contraction: Contraction) -> bool:
        """Do only the numbers count that are chosen?"""
        plan = self.convention.plan
        return not plan or (plan == "fast" and chosen.letter in contraction.paired)

    def is_logits(self, step: Step) -> bool:
        """Does the step put out a number for each token of the vocabulary?"""
        return self.derived.vocabulary in map(axis_of, step.output)

    def flops(self, step: Step) -> N:
        """Of one contraction."""
        return self.numbers(step, step.letters, self.convention.per_multiply)

    def numbers(self, step: Step, letters: Letters, *factors: N | int) -> N:
        """So many times the numbers of these letters of a contraction, those of logits only where they count."""
        chosen = {each.letter: each.count for each in step.chosen}
        if self.convention.logits == "last" and self.is_logits(step):
            letters -= {self.derived.time}
        sizes = [self.arithmetic.chosen(letter, chosen[letter]) for letter in sorted(letters & chosen.keys())]
        bounds = tuple(bound for bound in step.bounds if bound.letters <= letters)
        return self.counted(letters - chosen.keys(), bounds, (*sizes, *factors))

    def softmax(self, softmax: Softmax) -> N:
        """So many for each element."""
        return self.counted(softmax.letters, softmax.bounds, (self.convention.softmax,))

    def gather(self, gather: Gather) -> N:
        """Of what is read of an embedding, only those of the tokens as one-hot matrices."""
        match self.convention.embedding:
            case "read":
                return self.counted(gather.letters, (), (2,))
            case "one-hot" if gather.axis == self.derived.vocabulary:
                return self.counted(gather.letters | {gather.axis}, (), (2,))
            case _:
                return total(())

    def counted(self, letters: Letters, bounds: tuple[Bound, ...], factors: Iterable[N | int]) -> N:
        """The product of some sizes and factors; of two positions under a mask only so many pairs."""
        found = [self.arithmetic.length(letter) for letter in sorted(letters)]
        pair = next(iter(_pairs(bounds)), None)
        if pair is None or self.convention.pairs == "full":
            return product((*found, *factors))
        rest = [self.arithmetic.length(letter) for letter in sorted(letters - set(pair))]
        if self.convention.pairs == "half":
            return self.arithmetic.divided(product((*found, *factors)), 2)
        return self.arithmetic.divided(product((*rest, *factors, self.arithmetic.pairs(*pair, bounds))), 2)


def _pairs(bounds: Iterable[Bound]) -> Iterator[tuple[str, str]]:
    """The two letters of each mask: the position that attends, and the one attended to."""
    for bound in bounds:
        first, second = sorted((bound.later, bound.earlier), key=len)
        yield first, second


def has_two_positions(letters: Letters, time: str) -> bool:
    """Is it part of the core of attention, for each pair of positions?"""
    return bool(time) and sum(axis_of(letter) == time for letter in letters) > 1


def total(terms: Iterable[N | int]) -> N:
    """Their sum."""
    return cast("N", sum(cast("Iterable[Any]", terms)))


def product(factors: Iterable[N | int]) -> N:
    """Their product."""
    return cast("N", math.prod(cast("Iterable[Any]", factors)))
