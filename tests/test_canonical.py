"""Is a name what reaches it, and a meaning one kernel? Texts in which `<-` changes what attention reads, and spellings."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import einformer
from einformer.model import Model
from tests.small import PLANS, Array, built, error

LENGTH = 6
MASK = "m_ss' = where(s' <= s, 0, -inf)"


def model_of(*lines: str, layers: str = "") -> Model:
    """A causal model of features with these lines, whose loops turn three times."""
    loop = any(line.startswith("for l") for line in lines)
    axes = "".join(f"  {letter}: {letter.upper()}\n" for letter in ("bsdl" if loop else "bsd"))
    body = "".join(f"  {line}\n" for line in lines)
    text = f"# t: t\naxes\n{axes}{layers}\nmodel M(z_bsd) -> y_bsd causal in s:\n{body}"
    return einformer.parse(text).bind(D=3, **({"L": 3} if loop else {}))


CHANGED = {
    "the mask before attention": (MASK, "m_ss' <- m_ss' - (s - s') / 3", "w_bss' = Sm_s'(z_bsd z_bs'd / 9 + m_ss')"),
    "the mask to a window": (
        MASK, "m_ss' <- where(s - 2 < s' <= s, m_ss', -inf)", "w_bss' = Sm_s'(z_bsd z_bs'd / 9 + m_ss')",
    ),
    "the mask to another causal one": (
        MASK, "w_bss' = Sm_s'(z_bsd z_bs'd + m_ss')", "m_ss' <- where(s' <= s, (s' - s) / 3, -inf)",
        "u_bss' = Sm_s'(z_bsd z_bs'd / 2 + m_ss')", "z_bsd <- z_bsd + u_bss' z_bs'd",
    ),
    "the query after the scores": (
        MASK, "q_bsd = 2 z_bsd", "w_bss' = Sm_s'(q_bsd z_bs'd + m_ss')", "q_bsd <- 3 q_bsd", "z_bsd <- z_bsd + q_bsd",
    ),
    "the keys after the scores": (
        MASK, "k_bsd = 2 z_bsd", "w_bss' = Sm_s'(z_bsd k_bs'd + m_ss')", "k_bsd <- 3 k_bsd", "z_bsd <- z_bsd + k_bsd",
    ),
    "the mask after the scores": (MASK, "w_bss' = Sm_s'(z_bsd z_bs'd + m_ss')", "m_ss' <- where(s' < s, 0, -inf)"),
    "the mask in each turn": (
        MASK, "for l < L:", "  w_bss' = Sm_s'(z_bsd z_bs'd / 9 + m_ss')", "  z_bsd <- z_bsd + w_bss' z_bs'd",
        "  m_ss' <- m_ss' - (s - s') / 3", "w_bss' = Sm_s'(z_bsd z_bs'd / 9 + m_ss')",
    ),
    "the stream within a turn": (
        MASK, "for l < L:", "  w_bss' = Sm_s'(z_bsd z_bs'd + m_ss')", "  z_bsd <- tanh(z_bsd)",
        "  z_bsd <- z_bsd + w_bss' z_bs'd", "w_bss' = Sm_s'(z_bsd z_bs'd + m_ss')",
    ),
    "what the weights are applied to, in a loop": (
        MASK, "w_bss' = Sm_s'(z_bsd z_bs'd + m_ss')", "for l < L:", "  z_bsd <- z_bsd / 2 + w_bss' z_bs'd",
    ),
}  # fmt: skip
LAYERS = {
    "a mask that a layer changes": """
layer A(z_sd, m_ss') -> z_sd:
  m_ss' <- m_ss' - (s - s') / 3
  w_ss' = Sm_s'(z_sd z_s'd / 9 + m_ss')
  return w_ss' z_s'd
""",
    "a function of positions that a layer changes": """
layer A(z_sd, m_ss') -> z_sd:
  w_ss' = Sm_s'(z_sd z_s'd / 9 + m_ss')
  n_s = cos(s)
  n_s <- n_s + 1
  return n_s w_ss' z_s'd
""",
    "a function of positions with one name in two loops": """
layer A(z_sd, m_ss') -> z_sd:
  for l < L:
    n_s = cos(s)
    z_sd <- n_s z_sd
  for l < L:
    n_s = sin(s)
    z_sd <- n_s z_sd
  w_ss' = Sm_s'(z_sd z_s'd / 9 + m_ss')
  return w_ss' z_s'd
""",
}
DOUBLED = ("for l < L:", "  z_bsd <- 2 z_bsd")
TEXTS = {
    name: model_of(*lines, *(() if "loop" in name else ("z_bsd <- w_bss' z_bs'd",)), "return z_bsd")
    for name, lines in CHANGED.items()
} | {
    name: model_of(MASK, *(DOUBLED if "for l" in layer else ()), "return A(z_bsd, m_ss')", layers=layer)
    for name, layer in LAYERS.items()
}


def slopes(bound: Model, z: Array, along: Array) -> Array:
    """The gradient of `sum(along y)` by the reference: central differences."""
    step, found = 1e-6, np.zeros_like(z)
    for place in np.ndindex(z.shape):
        near = [z.copy(), z.copy()]
        near[0][place] += step
        near[1][place] -= step
        above, below = (bound.reference(each, weights={}) for each in near)
        found[place] = ((above - below) * along).sum() / (2 * step)
    return found


def stepped(module: Any, z: Array) -> Tensor:
    """The outputs, a position at a time."""
    cache = module.cache()
    return torch.cat([module.decode(part, cache=cache) for part in torch.split(torch.from_numpy(z), 1, 1)], 1)


@pytest.mark.parametrize("plan", PLANS)
@pytest.mark.parametrize("name", TEXTS)
def test_what_is_changed_is_another_value(name: str, plan: str) -> None:
    """Forward, step by step, and gradients."""
    bound, random = TEXTS[name], np.random.default_rng(0)
    z, along = random.standard_normal((2, LENGTH, 3)), random.standard_normal((2, LENGTH, 3))
    module, expected = built(bound, plan), bound.reference(z, weights={})
    x = torch.from_numpy(z).requires_grad_()
    whole = module(x)
    assert error(whole, expected) < 1e-12
    (whole * torch.from_numpy(along)).sum().backward()
    assert x.grad is not None
    assert np.abs(x.grad.numpy() - slopes(bound, z, along)).max() < 1e-6
    assert error(stepped(module, z), expected) < 1e-12
