"""R1: is a bare name a size, a scalar or a tensor without a subscript, whatever tensors have the same name with one?"""

from __future__ import annotations

import numpy as np
import pytest
import torch

import einformer
from einformer import EinformerError, Model
from tests import arrays

HEAD = """
axes
  s: S
  d: D
  e: H

scalars
  N = 2
"""


def codes(body: str) -> list[str]:
    """What the checker finds in a layer, or in a model over s."""
    try:
        einformer.parse(HEAD + body)
    except EinformerError as error:
        return [finding.code for finding in error.findings]
    return []


SAME_NAMES = """
model Same(z_sd) -> z_sd causal in s:
  weights H_de, S_ed, N_d
  y_se = z_sd H_de / sqrt(H)
  x_sd = y_se S_ed / H
  return N_d x_sd / N
"""


def test_a_weight_may_have_the_name_of_a_size_or_a_scalar() -> None:
    """`K_dea` is a weight and `K` a size; in a causal model not even `S_ed` is the length of the sequence."""
    model = einformer.parse(HEAD + SAME_NAMES).bind(S=3, D=5, H=4)
    (z,), found = arrays.inputs(model), arrays.weights(model)
    expected = found["N"] * (z @ found["H"] / 2 @ found["S"] / 4) / 2
    assert model.reference(z, weights=found) == pytest.approx(expected)


def test_a_size_may_be_read_before_a_tensor_of_its_name_is_defined() -> None:
    """`H` is the size, whatever `H_se` is and wherever it is defined."""
    body = "  weights W_de\n  y_se = z_sd W_de / H\n  H_se = N y_se / H\n  return H_se / H\n"
    assert codes(f"model Same(z_sd) -> y_se causal in s:\n{body}") == []


IN_A_LAYER = """
layer Twice(z_d) -> z_d:
  N_d = N z_d
  return max(N_d, N) + N

model Same(z_sd) -> z_sd causal in s:
  return Twice(z_sd)
"""


@pytest.mark.parametrize("plan", ["notation", "fast"])
def test_a_tensor_of_a_layer_may_have_the_name_of_a_scalar(plan: str) -> None:
    """The layer carries `s` along: `N_sd` then, and `N` is 2 all the same."""
    model = einformer.parse(HEAD.replace("  e: H\n", "") + IN_A_LAYER).bind(S=3, D=5)
    (z,) = arrays.inputs(model)
    assert model.reference(z, weights={}) == pytest.approx(np.maximum(2 * z, 2) + 2)
    found = model.build(plan=plan, dtype=torch.float64)(torch.from_numpy(z))
    assert found.numpy() == pytest.approx(np.maximum(2 * z, 2) + 2)


def test_a_weight_is_not_used_because_a_size_of_its_name_is() -> None:
    layer = "layer L(z_sde) -> z_sde:\n  weights H_de{}\n  return {}z_sde N / sqrt(H)\n"
    assert codes(layer.format("", "H_de ")) == []
    assert codes(layer.format(", D_de", "H_de ")) == ["E206"]
    assert codes(layer.format("", "")) == ["E206"]


@pytest.mark.parametrize(
    ("body", "found"),
    [
        ("layer L(z_sde) -> z_sde:\n  weights γ_d\n  return γ z_sde N\n", ["E304"]),
        ("layer L(z_sde) -> z_sde:\n  y_sde = y + N z_sde\n  return y_sde\n", ["E304"]),
        ("layer L(z_sde) -> z_sde:\n  y = mean_{sde} z_sde\n  return y_d z_sde N\n", ["E304"]),
        ("layer L(z_sde) -> z_sde:\n  y = y + mean_{sde} z_sde\n  return y z_sde N\n", ["E507"]),
        ("layer L(z_sde) -> z_sde:\n  y = mean_{sde} z_sde\n  y <- y + 1\n  return y z_sde N\n", []),
        ("layer L(z_sde) -> z_sde:\n  weights D\n  return D z_sde N\n", ["E202"]),
        ("layer L(z_sde) -> z_sde:\n  N = mean_{sde} z_sde\n  return N z_sde\n", ["E202"]),
        ("layer L(z_sde, e) -> z_sde:\n  return N z_sde e\n", ["E202"]),
        ("layer L(z_sde, t) -> z_sde:\n  weights α, β?\n  return N z_sde t α + β\n", []),
    ],
)
def test_a_name_without_a_subscript_is_a_tensor_without_slots(body: str, found: list[str]) -> None:
    assert codes(body) == found


def test_tensors_without_a_subscript_are_read() -> None:
    text = HEAD + "layer L(z_sde, t) -> z_sde:\n  weights α, β?, γ_d? = 1\n  return γ_d z_sde t α / N + β\n"
    model = einformer.parse(text).bind(S=3, D=5, H=4)
    z = np.random.default_rng(0).standard_normal((3, 5, 4))
    assert model.reference(z, 7.0, weights={"α": 3.0, "β": 1.0}) == pytest.approx(z * 7 * 3 / 2 + 1)
    assert model.reference(z, 7.0, weights={"α": 3.0, "γ": np.full(5, 2.0)}) == pytest.approx(z * 7 * 3)


NESTED = """
axes
  s: S
  d: D
  l: L
  m: M

layer Part(z_d) -> z_d:
  weights W_d'd
  return tanh(z_d' W_d'd)

layer Grid(z_d) -> z_d:
  weights A_lm, B_m
  for l < L:
    for m < M:
      z_d <- where(l < 1, z_d, A_lm z_d) + Part_lm(z_d)
  return z_d + mean_m(B_m)

model Nested(z_sd) -> z_sd causal in s:
  return Grid(z_sd)
"""


def nested() -> Model:
    return einformer.parse(NESTED).bind(S=3, D=5, L=2, M=3)


def test_a_loop_in_a_loop_has_an_instance_for_each_turn_of_both() -> None:
    paths = [f"Grid.blocks.{turn}.blocks.{inner}.Part.W" for turn in range(2) for inner in range(3)]
    assert list(nested().weight_shapes()) == ["Grid.A", "Grid.B", *paths]


def test_a_loop_in_a_loop_in_a_layer_that_is_called() -> None:
    """Its letters stand still inside, run free outside, and mean nothing to the caller."""
    model = nested()
    (z,), found = arrays.inputs(model), arrays.weights(model)
    expected = z
    for turn in range(2):
        for inner in range(3):
            part = np.tanh(expected @ found[f"Grid.blocks.{turn}.blocks.{inner}.Part.W"])
            expected = (expected if turn < 1 else found["Grid.A"][turn, inner] * expected) + part
    assert model.reference(z, weights=found) == pytest.approx(expected + found["Grid.B"].mean())
