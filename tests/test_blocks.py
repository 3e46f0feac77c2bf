"""Does every turn of every loop have its own weights in the emitted module, at the paths of the reference, and no others?"""

from __future__ import annotations

import numpy as np
import pytest
import torch

import einformer
from einformer.objects import Model
from tests.small import PLANS, built, error, inputs, weights

HEAD = """
axes
  s: S
  d: D
  l: L
  m: M

layer Mix(z_sd) -> z_sd:
  weights W_dd'
  return tanh(z_sd' W_d'd)

layer Up(z_sd) -> z_sd:
  weights U_dd'
  return tanh(z_sd' U_d'd) - z_sd

layer Plain(z_sd) -> z_sd:
  return z_sd / 2 + 1

model Turns(z_sd) -> y_sd:
"""

# A body, and how many sets of weights it has where L = 2 and M = 3.
BODIES = {
    "one loop": ("for l < L:|  z_sd <- Mix_l(Up_l(z_sd))", 4),
    "a short loop and a long one": ("for l < L:|  z_sd <- Mix_l(z_sd)|for m < M:|  z_sd <- Up_m(z_sd)", 5),
    "a long loop and a short one": ("for m < M:|  z_sd <- Mix_m(z_sd)|for l < L:|  z_sd <- Up_l(z_sd)", 5),
    "two loops over one letter": ("for l < L:|  z_sd <- Mix_l(z_sd)|for l < M:|  z_sd <- Up_l(z_sd)", 5),
    "a loop without weights is longer": ("for l < L:|  z_sd <- Mix_l(z_sd)|for l < M:|  z_sd <- l + 2 z_sd", 2),
    "rounds of the same layers": ("for m < M:|  for l < L:|    z_sd <- Mix_l(z_sd) + m Up_l(z_sd)", 4),
    "loops in each other": ("for m < M:|  for l < L:|    z_sd <- Mix_ml(z_sd)|  z_sd <- Up_m(z_sd)", 9),
    "inner, outer and both": ("for m < M:|  for l < L:|    z_sd <- Mix_l(z_sd) + Up_ml(z_sd)|  z_sd <- Up_m(z_sd)", 11),
    "crossed": (
        "for m < M:|  for l < L:|    z_sd <- Mix_ml(z_sd)|for l < L:|  for m < M:|    z_sd <- Up_lm(z_sd)",
        12,
    ),
    "crossed in one call": ("for m < M:|  for l < L:|    z_sd <- Mix_lm(z_sd)", 6),
    "a branch in each": (
        "for l < L:|  z_sd <- where(l < 1, Mix_l(z_sd), Up_l(z_sd))|for m < M:|  z_sd <- where(m < 2, z_sd, Mix_m(z_sd))",
        3,
    ),
    "an instance without weights": ("weights own: Plain|for l < L:|  z_sd <- Mix_l(own_l(z_sd)) + Plain_l(z_sd)", 2),
    "a turn that is zero": ("for l < L:|  z_sd <- where(not l == 1, Mix_l(z_sd), 0)", 1),
    "a branch with fewer axes": ("o_d = d + 1|for l < L:|  z_sd <- where(l == 0, Mix_l(z_sd), o_d) z_sd", 1),
}


def turns(body: str) -> Model:
    """The model with this body; an axis that it does not use may not be declared."""
    head, sizes = (HEAD, {"M": 3}) if "< M" in body else (HEAD.replace("  m: M\n", ""), {})
    lines = "\n".join(f"  {line}" for line in body.split("|"))
    return einformer.parse(f"{head}{lines}\n  return z_sd").bind(D=5, L=2, **sizes)


@pytest.mark.parametrize("plan", PLANS)
@pytest.mark.parametrize("name", BODIES)
def test_every_turn_has_its_own_weights(name: str, plan: str) -> None:
    body, sets = BODIES[name]
    model = turns(body)
    assert model.num_parameters == sets * 25
    module, given = built(model, plan), inputs(model)
    assert sum(parameter.numel() for parameter in module.parameters()) == sets * 25
    value = module(*map(torch.from_numpy, given))
    assert error(value, model.reference(*given, weights=weights(model))) < 1e-12


@pytest.mark.parametrize("plan", PLANS)
def test_a_branch_that_is_a_number_is_a_tensor_of_it(plan: str) -> None:
    value = turns("for l < L:|  z_sd <- where(not l == 1, z_sd, 0.5)").build(plan=plan).eval()(torch.ones(4, 5))
    assert torch.equal(value, torch.full((4, 5), 0.5))


@pytest.mark.parametrize("plan", PLANS)
def test_layers_in_rounds_are_applied_in_their_order(plan: str) -> None:
    """Three rounds of two matrices, by hand."""
    module = turns("for m < M:|  for l < L:|    z_sd <- Mix_l(z_sd)").build(plan=plan, dtype=torch.float64).eval()
    first, second = (module.state_dict()[f"blocks.{turn}.Mix.W"].numpy() for turn in range(2))
    z_sd = x = np.random.default_rng(0).standard_normal((4, 5))
    for _ in range(3):
        x = np.tanh(np.tanh(x @ first) @ second)
    assert error(module(torch.from_numpy(z_sd)), x) < 1e-12
