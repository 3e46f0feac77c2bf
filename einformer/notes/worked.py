"""Computes the worked example of S004, with its scale, and without it as printed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from einformer.architectures import texts
from einformer.errors import Source
from einformer.interpreters import reference
from einformer.language import binding
from einformer.notes.errata import errata

# One head, and the last position alone: only its query is printed, and it sees all the others.
_HEAD = """
axes
  s: S = 6
  e: H = 2
  u: U = 2
layer Head(q_e, k_se, v_su) -> y_u:
  t_s = q_e k_se{scale}
  w_s = Sm_s(t_s)
  y_u = w_s v_su
"""
_QUANTITIES = {"S004-E3": ("scores", "t"), "S004-E1": ("weights", "w"), "S004-E2": ("output", "y")}  # by their errata


@dataclass(frozen=True, slots=True)
class Quantity:
    """A quantity of the example: the printed value, and the computed values without the scale and with it."""

    erratum: str
    name: str
    printed: str
    unscaled: str
    scaled: str


def list_steps() -> Iterator[Quantity]:
    """Yields the quantities of the example in order.

    >>> for step in list_steps():
    ...     print(step.name, step.printed == step.unscaled == step.scaled)
    scores False
    weights False
    output False
    """
    rows = {row.id: row for row in errata()}
    unscaled, scaled = _compute(""), _compute(" / sqrt(H)")
    for name, (quantity, tensor) in _QUANTITIES.items():
        yield Quantity(name, quantity, rows[name].printed, unscaled[tensor], scaled[tensor])


# Every tensor of the head, rounded as it is printed.
def _compute(scale: str) -> dict[str, str]:
    numbers = next(row.about["numbers"] for row in errata() if row.id == "S004-E2")
    written, tree, _ = texts.elaborate(Source("head.ein", _HEAD.format(scale=scale)))
    trace: dict[str, NDArray[np.float64]] = {}
    inputs = [np.asarray(numbers[name]) for name in "qkv"]
    reference.evaluate(tree, "Head", inputs, {}, binding.bind(written, {})[1], trace)
    return {name: " ".join(f"{number:.4f}" for number in tensor) for name, tensor in trace.items()}
