"""How are the equations computed: which fusions, which layout, which dtype and device, how weights start?"""

from __future__ import annotations

from dataclasses import dataclass

INITIALISATIONS = ("gpt2", "fan_in")


@dataclass(frozen=True, slots=True)
class Initialisation:
    """How weights start: the scheme of a plan, and its standard deviation."""

    scheme: str
    deviation: float


@dataclass(frozen=True, slots=True)
class Plan:
    """What the equations never mention.

    `fast` fuses and picks layouts; without it there is one `torch.einsum` or primitive for each equation, in order.
    `initialisation`: `gpt2` starts matrices and tables at `deviation`, those that write to the residual stream at that over
    sqrt(2 L) (two parts in each of L blocks); `fan_in` starts matrices at 1 / sqrt(inputs). Gains start at 1, biases at 0.
    """

    fast: bool = True
    initialisation: str = "gpt2"
    deviation: float = 0.02

    @property
    def name(self) -> str:
        """`fast` or `notation`."""
        return "fast" if self.fast else "notation"


NOTATION, FAST = Plan(fast=False), Plan(fast=True)
PLANS = {plan.name: plan for plan in (NOTATION, FAST)}
