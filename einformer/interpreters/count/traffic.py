"""Counts the bytes that each product moves, and its FLOPs for each of them.

A contraction of two tensors reads both and writes its result: of letters that a `top` chooses, as many numbers as one token
chooses, and of two positions the pairs that the convention counts. That is what an implementation moves that fuses nothing.
A `fused` one keeps on the chip what has two positions, the scores and weights of attention (FlashAttention).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Generic

from einformer.interpreters.count.contraction import Step
from einformer.interpreters.count.conventions import Convention
from einformer.interpreters.count.derived import Derived, Done
from einformer.interpreters.count.rules import Arithmetic, N, Rules, has_two_positions, list_windows, product, total
from einformer.program.orders import Letters


@dataclass(frozen=True, slots=True)
class Traffic(Generic[N]):
    """The FLOPs of the products of an equation in one turn of the loops around, and the bytes that they read and write.

    `pairs` says that one of them runs over two positions, as the core of attention does.
    """

    path: str
    layer: str
    text: str
    line: int
    flops: N
    read: N
    written: N
    turns: tuple[N, ...]
    pairs: bool = False

    @property
    def times(self) -> N:
        """How often it is evaluated."""
        return product(self.turns)

    @property
    def moved(self) -> N:
        """Read and written, in one turn."""
        return total((self.read, self.written))


def count_traffic(
    derived: Derived, arithmetic: Arithmetic[N], convention: Convention, element: N | int, fused: bool = False
) -> tuple[Traffic[N], ...]:
    """What each equation with a product moves, a number having `element` bytes."""
    return tuple(
        _Moving(Rules(inner, convention, derived), element, fused).equation(done, turns)
        for done in derived.done
        if done.contractions
        for turns, inner in arithmetic.kinds(done.turns, list_windows(done, convention))
    )


def find_intensity(moves: Iterable[Traffic[N]]) -> Any:
    """The FLOPs of some equations for each byte that they move: arithmetic intensity, a float or a formula.

    >>> from einformer.interpreters.count.conventions import DEFAULT
    >>> from einformer.interpreters.count.derived import derive
    >>> from einformer.interpreters.count.numbers import Numbers
    >>> import einformer
    >>> model = einformer.model("gpt2")
    >>> derived = derive(model.spec.tree, model.spec.name)
    >>> everything = count_traffic(derived, Numbers(model.at(B=1, S=1024), "s"), DEFAULT, 2)
    >>> projections = [each for each in everything if "Q_dea" in each.text]
    >>> find_intensity(projections)  # 2 B S D / (p (2 B S + D))
    279.27272727272725
    """
    moves = tuple(moves)
    flops: Any = total(product((move.times, move.flops)) for move in moves)
    return flops / total(product((move.times, move.moved)) for move in moves)


@dataclass(frozen=True, slots=True)
class _Moving(Generic[N]):
    """The rules of FLOPs, and of what the products move."""

    rules: Rules[N]
    element: N | int
    fused: bool

    def equation(self, done: Done, turns: tuple[N, ...]) -> Traffic[N]:
        steps = [step for contraction in done.contractions for step in self.rules.steps(contraction)]
        return Traffic(
            done.path,
            done.layer,
            done.equation.span.text,
            done.equation.span.line,
            total(map(self.rules.flops, steps)),
            total(self.bytes(step, letters) for step in steps for letters in (step.left, step.right)),
            total(self.bytes(step, step.output) for step in steps),
            turns,
            any(has_two_positions(step.letters, self.rules.derived.time) for step in steps),
        )

    def bytes(self, step: Step, letters: Letters) -> N:
        """Of one tensor of a contraction."""
        if self.fused and has_two_positions(letters, self.rules.derived.time):
            return total(())
        return product((self.rules.numbers(step, letters), self.element))
