"""Does a contract that is not kept say where, what, since when, and why most likely? The whole texts are golden files."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

import einformer as ein
from einformer import EinformerError

contract: Any = ein.contract


def t(*shape: int) -> torch.Tensor:
    return torch.zeros(shape)


def qk(k: torch.Tensor) -> Any:
    return contract("q_bsea, k_bs'ea")(lambda q, k: None)(t(2, 5, 4, 3), k)


def within() -> Any:
    with ein.contracts.sizes(D=12):
        return contract("z_bsd")(lambda z: None)(t(2, 5, 16))


def model() -> Any:
    class Odd(nn.Module):
        def __init__(self, inner: int) -> None:
            super().__init__()
            self.up, self.down = nn.Linear(12, inner), nn.Linear(inner, 12)

        def forward(self, z: torch.Tensor) -> Any:
            return self.down(self.up(z))

    both = nn.Sequential(Odd(20), Odd(24))
    return ein.contracts.watch(both, {"*": "z_bsd -> z_bsd", "*.up": "z_bsd -> h_bsf"}).model(t(2, 5, 12))


# what happened: the call, and what its message must say of it
SLIPS: dict[str, tuple[Callable[[], Any], str]] = {
    "transposed": (lambda: qk(t(2, 5, 3, 4)), "`e` and `a` are swapped"),
    "merged": (lambda: qk(t(2, 5, 12)), "`e` and `a` are one axis, `(ea)`"),
    "split": (lambda: contract("W_d, z_bsd")(lambda W, z: None)(t(12), t(2, 5, 3, 4)), "`d` is still two axes"),
    "no batch": (lambda: qk(t(5, 4, 3)), "the axis `b` is missing"),
    "one axis too many": (lambda: qk(t(2, 5, 1, 4, 3)), "an axis of size 1 too many"),
    "broadcast": (lambda: qk(t(2, 5, 4, 1)), "an axis of size 1 where `a` is meant: it broadcasts"),
    "shifted": (lambda: qk(t(2, 4, 4, 3)), "`s'` is shifted, or cut, by one"),
    "another length": (lambda: qk(t(2, 9, 4, 3)), "`s'` and `s` are indices over one axis"),
    "another letter": (
        lambda: contract("h_bsf, z_bsd, y_bsd")(lambda h, z, y: None)(t(2, 5, 20), t(2, 5, 12), t(2, 5, 20)),
        "20 is F: the axis of `f`, where `d` is meant",
    ),
    "not divisible": (
        lambda: contract("W_a, y_{b(ae)}")(lambda W, y: None)(t(3), t(2, 13)),
        "which the sizes that are known do not divide",
    ),
    "in a block": (within, "D = 12 by ein.contracts.sizes at test_contract_messages.py:"),
    "in a model": (model, "F = 20 by `0.up(…).shape[2]`"),
    "a list": (lambda: contract("z_bsd")(lambda z: None)([1.0]), "z is a list"),
    "a scalar": (lambda: contract("z_d, D")(lambda z, D: None)(t(3), 4), "`D` is 4, not 3"),
    "a part": (lambda: contract("{logits: y_bv}")(lambda o: None)({"loss": 0}), "o is a dict"),
}


@pytest.mark.parametrize("slip", SLIPS)
def test_what_is_said(slip: str, golden: Callable[[str, str], None]) -> None:
    call, why = SLIPS[slip]
    with pytest.raises(EinformerError) as caught:
        call()
    assert caught.value.__cause__ is caught.value.__context__ is None
    message = str(caught.value)
    assert why in message
    golden(f"contracts/{slip.replace(' ', '_')}.txt", _numbered(message))


def _numbered(message: str) -> str:
    """Without the numbers of lines of this file."""
    return re.sub(r"(test_contract_messages\.py):\d+", r"\1", message) + "\n"
