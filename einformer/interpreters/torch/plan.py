"""The plans: how equations are computed, how weights start, and how the file is written."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from einformer.program.sharding import Sharding

INITIALISATIONS = ("gpt2", "fan_in")


@dataclass(frozen=True, slots=True)
class Initialisation:
    """How weights start: the scheme of a plan, and its standard deviation."""

    scheme: str
    deviation: float


@dataclass(frozen=True, slots=True)
class Plan:
    """The choices that the equations never mention.

    `fast` fuses and picks layouts; without it there is one `torch.einsum` or primitive for each equation, in order. With
    `flex` attention whose masks or scores are more than causal calls FlexAttention. With `recompute` the turns of loops keep
    their inputs alone, and are computed again in the backward pass.
    `initialisation`: `gpt2` starts matrices and tables at `deviation`, those that write to the residual stream at that over
    sqrt(2 L) (two parts in each of L blocks); `fan_in` starts matrices at 1 / sqrt(inputs). Gains start at 1, biases at 0.
    With a `sharding` the file computes what one rank of its mesh does.
    """

    fast: bool = True
    initialisation: str = "gpt2"
    deviation: float = 0.02
    sharding: Sharding | None = None
    flex: bool = False
    recompute: bool = False

    # `fast`, `notation` or `flex`.
    @property
    def name(self) -> str:
        return "flex" if self.flex else "fast" if self.fast else "notation"


# A note whose sources are not known: nothing in words, and itself.
def leave_unread(note: str) -> tuple[str, str]:
    return "", note


# The sources of notes, where none are known.
def list_nothing(notes: Iterable[str]) -> Iterable[str]:
    return ()


@dataclass(frozen=True, slots=True)
class Style:
    """How the file is written, which computes the same in any style.

    `annotations`: tensors are annotated for jaxtyping, `Float[Tensor, "b s d"]`; else they are a `Tensor`. `check`: jaxtyping
    and beartype check every call of each class and function, with the sizes of the config. `ascii`: names are in ASCII, also
    those of weights. `cited` says what stands in a source
    that a note names, and where that is, in words; `sources` lists the sources of notes.
    """

    annotations: bool = False
    check: bool = False
    ascii: bool = False
    cited: Callable[[str], tuple[str, str]] = leave_unread
    sources: Callable[[Iterable[str]], Iterable[str]] = list_nothing


PLAIN = Style()
NOTATION, FAST, FLEX = Plan(fast=False), Plan(fast=True), Plan(fast=True, flex=True)
PLANS = {plan.name: plan for plan in (NOTATION, FAST, FLEX)}
