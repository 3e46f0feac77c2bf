"""R1: is a bare name a size, a scalar or a tensor without a subscript, whatever tensors have the same name with one?"""

from __future__ import annotations

import numpy as np
import pytest
import torch

import einformer
from einformer import EinformerError
from einformer.language.weights import TAKEN
from einformer.objects import Model
from tests import arrays
from tests.few import few
from tests.refusals import refuses

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
    found = model.build(plan=plan, dtype=torch.float64).eval()(torch.from_numpy(z))
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


# --------------------------------------------------------------------------------------------- names of the emitted file

AXES = "axes\n  b: B\n  s: S\n  d: D\n"
MODEL = "model Main(z_bsd) -> y_bsd causal in s:\n"
MIXES = """  m_ss' = where(s' <= s, {0} (s' - s) / sqrt(D), -inf)
  w_bss' = Sm_s'(z_bsd z_bs'd + m_ss')
  S_bsd = {0} S_{{b(s - 1)d}} + w_bss' z_bs'd
  return S_bsd {0} + 0 floor(s / 2)
"""
LINEAR = "layer Linear(z_d) -> z_d:\n  weights W_d'd\n  return z_d' W_d'd\n"
NAMES = (  # letters of indices, modules, locals, helpers, builtins and keywords of emitted files
    *("t", "torch", "math", "fn", "nn", "Tensor", "device", "dtype", "number", "step", "seen", "row", "block", "self", "cache"),
    *("path", "KEPT", "Cache", "inside", "range", "super", "int", "in", "lambda"),
)


def agrees(text: str, **sizes: int) -> None:
    """Both plans, at once and in parts, compute what the reference computes."""
    bound = einformer.parse(text).bind(**sizes)
    random = np.random.default_rng(0)
    z = random.standard_normal((2, 6, 4))
    found = {path: random.standard_normal(shape) for path, shape in bound.weight_shapes().items()}
    expected = bound.reference(z, weights=found)
    for plan in ("notation", "fast"):
        module = bound.build(dtype=torch.float64, plan=plan).eval()
        module.load_state_dict({path: torch.from_numpy(array) for path, array in found.items()})
        assert module(torch.from_numpy(z)).detach().numpy() == pytest.approx(expected, abs=1e-12)
        held = module.cache()
        parts = [module.decode(torch.from_numpy(part), cache=held) for part in (z[:, :3], z[:, 3:4], z[:, 4:])]
        assert torch.cat(parts, 1).detach().numpy() == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("name", few(NAMES, {"t", "torch", "Tensor", "number", "self", "path", "KEPT", "range", "lambda"}))
def test_a_scalar_may_have_any_name(name: str) -> None:
    agrees(f"{AXES}scalars\n  {name} = 0.5\n{MODEL}{MIXES.format(name)}", D=4)


@pytest.mark.parametrize(
    "name",
    few(
        ["Top", "Torch", "Tensor", "Float", "T", "Stored", "MainBlock", "Range", "Cache", "Max", "for", "None"],
        {"Tensor", "MainBlock", "Cache", "for"},
    ),
)
def test_a_layer_may_have_any_name(name: str) -> None:
    """With weights, a class; without, a function."""
    lines = MIXES.replace("{0}", "0.5").replace("  S_bsd =", "  for l < L:\n    z_bsd <- {call}(z_bsd)\n  S_bsd =")
    agrees(f"{AXES}  l: L\n{LINEAR.replace('Linear', name)}{MODEL}{lines.format(call=name + '_l')}", D=4, L=2)
    twice = f"layer {name}(z_d) -> z_d:\n  return z_d / 2\n"
    agrees(f"{AXES}  l: L\n{twice}{MODEL}{lines.format(call=name)}", D=4, L=2)


def test_two_layers_are_two_functions() -> None:
    layers = "layer Norm(z_d) -> z_d:\n  return z_d / 3\nlayer norm(z_d) -> z_d:\n  return 2 z_d\n"
    agrees(f"{AXES}{layers}{MODEL}  return Norm(z_bsd) + norm(z_bsd)\n", D=4)


def test_a_layer_that_is_called_in_two_ways_is_not_another_layer() -> None:
    layers = "layer Norm(z_d) -> z_d:\n  return z_d / 3\nlayer Norm2(z_d) -> z_d:\n  return 2 z_d\n"
    agrees(f"{AXES}{layers}{MODEL}  n_sd = s + d\n  return Norm(z_bsd) + Norm(n_sd) + Norm2(z_bsd)\n", D=4)


@pytest.mark.parametrize(
    "name",
    few(
        ["in", "type", "to", "train", "float", "cache", "generate", "layout", "training", "blocks", "config"],
        {"in", "train", "cache", "training", "blocks", "config"},
    ),
)
def test_weights_and_instances_may_have_any_name(name: str) -> None:
    agrees(
        f"{AXES}{LINEAR}{MODEL}  weights {name}_d'd, up: Linear\n  v_bsd = z_bsd' {name}_d'd / sqrt(D)\n  return up(v_bsd)\n",
        D=4,
    )
    agrees(
        f"{AXES}  l: L\n{LINEAR}{MODEL}  weights {name}: Linear\n  for l < L:\n    z_bsd <- {name}_l(z_bsd)\n  return z_bsd\n",
        D=4,
        L=2,
    )


def test_a_module_has_no_attributes_that_a_weight_could_replace() -> None:
    """Names of the notation have no underscores."""
    bound = einformer.parse(f"{AXES}{LINEAR}{MODEL}  return Linear(z_bsd)\n").bind(D=4)
    attributes = {name for plan in ("notation", "fast") for name in dir(bound.build(plan=plan).eval()) if name.isalnum()}
    assert attributes - {"Linear"} <= TAKEN


def test_a_weight_may_be_called_as_several_together() -> None:
    lines = "  weights Q_de, K_de, QK_d\n  q_bse = z_bsd Q_de\n  k_bse = z_bsd K_de\n  v_bsd = QK_d z_bsd\n"
    attention = "  w_bss' = Sm_s'(q_bse k_bs'e + where(s' <= s, 0, -inf))\n  return w_bss' v_bs'd\n"
    agrees(f"{AXES}  e: E\n{MODEL}{lines}{attention}", D=4, E=3)


def test_a_block_is_not_a_layer_of_that_name() -> None:
    layer = LINEAR.replace("Linear", "MainBlock")
    agrees(f"{AXES}  l: L\n{layer}{MODEL}  for l < L:\n    z_bsd <- MainBlock_l(z_bsd)\n  return z_bsd\n", D=4, L=2)


def test_what_looks_like_a_prime_is_none() -> None:
    with refuses("E003", "ʹ"):
        einformer.parse(f"{AXES}{MODEL}  weights z'_d, zʹ_d\n  return z_bsd z'_d zʹ_d\n")


@pytest.mark.parametrize(
    "name",
    few(
        ["Tensor", "Float", "Cache", "Stored", "Module", "nn", "torch", "forward", "self", "len", "class"],
        {"Tensor", "Cache", "Module", "forward", "class"},
    ),
)
def test_a_model_has_any_name(name: str) -> None:
    lines = "  weights Q_dd', K_dd'\n  q_bsd' = z_bsd Q_dd'\n  return q_bsd + z_{b(s - 1)d'} K_d'd\n"
    agrees(f"{AXES}{MODEL.replace('Main', name)}{lines}", D=4)
