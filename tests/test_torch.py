"""Is the emitted PyTorch what the notation means? Both plans equal the reference, in values and gradients, everywhere."""

from __future__ import annotations

import functools
import math
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file
from torch import Tensor

import einformer
from einformer.errors import EinformerError
from einformer.objects import Model
from tests.few import FEW_TEXTS, few
from tests.oracles.encoders import KINDS
from tests.oracles.interpreters import named_gradients
from tests.shipped import TEXTS
from tests.small import PLANS, SMALL, Array, built, decided, error, inputs, model, tensors, weights
from tests.toys import TOYS, architecture_of
from tests.well_formed import Text, texts

VALUES, SLOPES = 1e-12, 1e-6


def test_every_text_is_tested() -> None:
    """Here, as the toy of a family in test_families, or in test_encoders."""
    toys = {architecture_of(name) for name in TOYS}
    assert set(TEXTS) == {small.text for small in SMALL.values()} | toys | {"dit", *KINDS}


@functools.cache
def answer(name: str) -> Array:
    """What the reference computes."""
    return model(name).reference(*inputs(model(name)), weights=weights(model(name)))


# -------------------------------------------------------------------------------------------------------------- values


@pytest.mark.parametrize("plan", PLANS)
@pytest.mark.parametrize("name", SMALL)
def test_values_are_the_references(name: str, plan: str) -> None:
    ours = built(model(name), plan)(*map(torch.from_numpy, inputs(model(name))))
    assert error(ours, answer(name)) < VALUES


@pytest.mark.parametrize("plan", PLANS)
@pytest.mark.parametrize("name", ["gpt2", "llama", "mistral", "gpt_oss", "bloom", "deepseek_v3", "mamba2", "delta_net"])
def test_values_at_the_edges(name: str, plan: str) -> None:
    """One row, one position, fewer positions than a window or the taps have."""
    module = built(model(name), plan)
    for sizes in ({"B": 1, "S": 1}, {"B": 1, "S": 2}, {"B": 5, "S": 3}, {"B": 5, "S": 5}):
        given = inputs(model(name), sizes)
        expected = model(name).reference(*given, weights=weights(model(name)))
        assert error(module(*map(torch.from_numpy, given)), expected) < VALUES, sizes


@pytest.mark.parametrize("plan", PLANS)
@pytest.mark.parametrize("name", few(SMALL, FEW_TEXTS))
def test_single_precision_differs_by_rounding(name: str, plan: str) -> None:
    module = built(model(name), plan, torch.float32)
    given = [torch.from_numpy(x.astype(np.float32) if x.dtype.kind == "f" else x) for x in inputs(model(name))]
    ours = module(*given)
    assert ours.dtype == torch.float32
    assert error(ours, answer(name)) < 1e-4


# ----------------------------------------------------------------------------------------------------------- gradients


def slopes(name: str, plan: str) -> tuple[dict[str, Tensor], list[Tensor]]:
    """The gradient of `sum(along y)` for each trained weight, under its own name, and for each input of features."""
    module, given = built(model(name), plan), list(map(torch.from_numpy, inputs(model(name))))
    features = [x.requires_grad_() for x in given if x.is_floating_point()]
    (torch.from_numpy(along(name)) * module(*given)).sum().backward()
    assert all(parameter.grad is not None for parameter in module.parameters())
    found = {path: slope for path, slope in named_gradients(module).items() if path in trained(name)}
    return found, [x.grad for x in features if x.grad is not None]


@functools.cache
def trained(name: str) -> frozenset[str]:
    """The weights that are parameters: in the plan `notation` each is one."""
    return frozenset(path for path, _ in model(name).build(device="meta", plan="notation").named_parameters())


def along(name: str) -> Array:
    """The direction in which the output is weighed."""
    return np.random.default_rng(2).standard_normal(answer(name).shape)


@pytest.mark.parametrize("name", few(SMALL, FEW_TEXTS))
def test_gradients_of_both_plans_are_equal(name: str) -> None:
    (first, inner), (second, outer) = (slopes(name, plan) for plan in PLANS)
    assert first.keys() == second.keys()
    assert {path: error(second[path], first[path]) < VALUES for path in first} == dict.fromkeys(first, True)
    assert all(error(a, b) < VALUES for a, b in zip(outer, inner, strict=True))


@pytest.mark.parametrize("plan", few(PLANS, {"notation"}))
@pytest.mark.parametrize("name", few(SMALL, FEW_TEXTS))
def test_gradients_are_differences_of_the_reference(name: str, plan: str) -> None:
    """Along a random direction of all weights and features together, by central differences. Both plans have the same."""
    draw, step = np.random.default_rng(3), 1e-7
    found, outer = slopes(name, plan)
    before, given = weights(model(name)), inputs(model(name))
    turn = {path: draw.standard_normal(array.shape) for path, array in before.items() if path in found}
    lean = [draw.standard_normal(x.shape) if x.dtype.kind == "f" else np.zeros_like(x) for x in given]
    ours = sum(float((slope.numpy() * turn[path]).sum()) for path, slope in found.items())
    ours += sum(
        float((slope.numpy() * by).sum()) for slope, by in zip(outer, (x for x in lean if x.dtype.kind == "f"), strict=True)
    )

    def at(distance: float) -> float:
        there = before | {path: before[path] + distance * turn[path] for path in turn}
        moved = [x + distance * by if x.dtype.kind == "f" else x for x, by in zip(given, lean, strict=True)]
        return float((along(name) * model(name).reference(*moved, weights=there)).sum())

    assert ours == pytest.approx((at(step) - at(-step)) / (2 * step), rel=SLOPES)


# ------------------------------------------------------------------------------------------------------------- weights


@pytest.mark.parametrize("name", few(SMALL, FEW_TEXTS))
def test_plans_load_each_others_weights(name: str) -> None:
    """The keys and shapes are the notes'; to save and to load changes nothing."""
    first, second = (model(name).build(plan=plan, dtype=torch.float64).eval() for plan in PLANS)
    for source, target in ((first, second), (second, first)):
        source.load_state_dict(tensors(weights(model(name))))
        saved = source.state_dict()
        assert {path: tuple(tensor.shape) for path, tensor in saved.items()} == model(name).weight_shapes()
        assert all(np.array_equal(saved[path].numpy(), array) for path, array in weights(model(name)).items())
        target.load_state_dict(saved)
        assert all(torch.equal(tensor, saved[path]) for path, tensor in target.state_dict().items())


@pytest.mark.parametrize("plan", PLANS)
@pytest.mark.parametrize("name", few(SMALL, FEW_TEXTS))
def test_a_state_dict_is_a_file_of_safetensors(name: str, plan: str, tmp_path: Path) -> None:
    """Which takes contiguous tensors only, no two of which share memory."""
    save_file(built(model(name), plan).state_dict(), tmp_path / "weights.safetensors")
    saved = load_file(tmp_path / "weights.safetensors")
    assert {path: array.tobytes() for path, array in weights(model(name)).items()} == {
        path: tensor.numpy().tobytes() for path, tensor in saved.items()
    }


@pytest.mark.parametrize("plan", PLANS)
def test_a_missing_an_unknown_and_a_misshapen_weight_are_named(plan: str) -> None:
    module, given = model("llama").build(plan=plan, dtype=torch.float64).eval(), tensors(weights(model("llama")))
    path = "blocks.1.Attention.Q"
    with pytest.raises(RuntimeError, match=path):
        module.load_state_dict({name: x for name, x in given.items() if name != path})
    with pytest.raises(RuntimeError, match=r"blocks\.1\.Attention\.Z"):
        module.load_state_dict(given | {"blocks.1.Attention.Z": given[path]})
    with pytest.raises(RuntimeError, match=path):
        module.load_state_dict(given | {path: given[path].transpose(0, 1)})


def test_parameters_are_counted_once() -> None:
    """GPT-2's, tied embeddings once, in both plans."""
    gpt2 = einformer.load("gpt2").bind(D=768, A=12, L=12, V=50257, K=1024)
    for plan in PLANS:
        assert sum(p.numel() for p in gpt2.build("meta", plan=plan).eval().parameters()) == 124_439_808


# ------------------------------------------------------------------------------------------------------------- dropout


DELAYED = """
axes
  s: S
  e: E

model Delayed(x_se) -> y_se causal in s:
  y_se = y_{(s - 1)e} + x_{(s - 1)e}
  return y_se
"""


@pytest.mark.parametrize("plan", PLANS)
def test_a_recurrence_reads_another_tensor_at_the_step_before(plan: str) -> None:
    """Before the first step stands zero, not the last step."""
    x = torch.randn(5, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    found = einformer.parse(DELAYED).bind(E=3).build(dtype=torch.float64, plan=plan).eval()(x)
    assert torch.allclose(found, torch.cat([torch.zeros(1, 3), x.cumsum(0)[:-1]]))


@pytest.mark.parametrize("plan", PLANS)
def test_dropout_is_in_training_only(plan: str) -> None:
    module = built(model("gpt2"), plan)
    x = torch.from_numpy(inputs(model("gpt2"))[0])
    assert not module.training
    assert torch.equal(module(x), module(x))
    module.train()
    assert not torch.equal(module(x), module(x))
    module.eval()
    assert error(module(x), answer("gpt2")) < VALUES


@pytest.mark.parametrize(("call", "probability"), [("Dr(γ_d z_bsd)", 0.3), ("Dr(γ_d z_bsd, 0.6)", 0.6)], ids=["p", "given"])
@pytest.mark.parametrize("plan", PLANS)
def test_dropout_keeps_the_mean(plan: str, call: str, probability: float) -> None:
    """What stays is divided by the probability to stay, here of one equation on its own."""
    text = f"axes\n  b: B\n  s: S\n  d: D\nscalars\n  p = 0.3\nlayer Main(z_bsd) -> z_bsd:\n  weights γ_d\n  return {call}"
    module = (
        einformer.parse(text if "0.6" not in call else text.replace("scalars\n  p = 0.3\n", ""))
        .bind(D=7)
        .build(plan=plan)
        .eval()
    )
    torch.manual_seed(0)
    y = module.train()(torch.ones(50, 40, 7))
    assert sorted(y.unique().tolist()) == pytest.approx([0, 1 / (1 - probability)])  # type: ignore[no-untyped-call]
    assert y.mean().item() == pytest.approx(1, abs=0.05)


THROUGH = """
axes
  b: B
  d: D
scalars
  p = 0.3
layer Dropped(z_d) -> z_d:
  return Dr(z_d)
layer Twice(z_d) -> z_d:
  return Dropped(Dropped(z_d))
layer Main(z_bd) -> z_bd:
  weights γ_d
  return γ_d Twice(z_bd)
"""


@pytest.mark.parametrize("plan", PLANS)
def test_a_layer_without_weights_knows_whether_it_is_trained(plan: str) -> None:
    """It is a function, which another function may call."""
    module = einformer.parse(THROUGH)["Main"].bind(D=7).build(plan=plan).eval()
    x = torch.ones(50, 7)
    assert torch.equal(module(x), x)
    torch.manual_seed(0)
    assert sorted(module.train()(x).unique().tolist()) == pytest.approx([0, 1 / 0.7**2])  # type: ignore[no-untyped-call]


MULTIPLIED = """
axes
  b: B
  d: D
  p: 3
scalars
  σ_p = 1 + p
layer Main(z_bd) -> z_bd:
  weights γ_d
  return σ_{2} γ_d z_bd
"""


@pytest.mark.parametrize("plan", PLANS)
@pytest.mark.parametrize("listed", [{}, {"σ": [5, 6, 7]}], ids=["formula", "list"])
def test_a_scalar_of_an_axis_is_read_at_a_number(plan: str, listed: dict[str, list[float]]) -> None:
    """Nothing else reads the axis, whose length is that of the list."""
    bound = einformer.parse(MULTIPLIED)["Main"].bind(D=2, **listed)
    assert torch.equal(bound.build(plan=plan)(torch.ones(1, 2)), torch.full((1, 2), 7.0 if listed else 3.0))
    if listed:
        with pytest.raises(EinformerError):
            bound.spec.bind(D=2, σ=[5, 6])


ATTENDING = """
axes
  b: B
  s: S
  a: A
  e: H

scalars
  p = 0.5

model Main(v_bsea) -> y_bsea causal in s:
  weights γ_ea
  k_bsea = γ_ea v_bsea
  m_ss' = where(s' <= s, 0, -inf)
  w_bss'a = Sm_s'(v_bsea k_bs'ea / sqrt(H) + m_ss')
  return Dr(w_bss'a) v_bs'ea
"""


@pytest.mark.parametrize("plan", PLANS)
def test_dropout_of_attention_drops_weights(plan: str) -> None:
    """The first position sees itself alone: its value is doubled or gone. Over many rows the mean stays."""
    module = einformer.parse(ATTENDING).bind(A=2, H=3).build(plan=plan).eval()
    torch.manual_seed(0)
    y = module.train()(torch.ones(200, 5, 3, 2))
    assert set(y[:, 0].unique().tolist()) == {0.0, 2.0}  # type: ignore[no-untyped-call]
    assert y.mean().item() == pytest.approx(1, abs=0.05)


# ------------------------------------------------------------------------------------------------------ initialisation


def deviation(tensor: Tensor) -> float:
    return float(tensor.std(correction=0))


def starts(model: Model, plan: str, kind: str) -> dict[str, Tensor]:
    torch.manual_seed(0)
    return model.build(plan=plan, initialisation=kind).eval().state_dict()


@pytest.mark.parametrize("plan", PLANS)
def test_gpt2_starts_as_its_authors_say(plan: str) -> None:
    """0.02; 0.02 / sqrt(2 L) where a layer writes to the residual stream; gains 1, biases 0."""
    layers = 3
    found = starts(einformer.load("gpt2").bind(D=120, A=4, L=layers, V=300, K=100), plan, "gpt2")
    for path, tensor in found.items():
        name = path.rpartition(".")[2]
        if path.endswith((".O", ".U")):
            assert deviation(tensor) == pytest.approx(0.02 / math.sqrt(2 * layers), rel=0.05), path
        elif tensor.ndim > 1 and name.isascii():
            assert deviation(tensor) == pytest.approx(0.02, rel=0.05), path
        else:
            assert torch.equal(tensor, torch.full_like(tensor, float(name == "γ"))), path


@pytest.mark.parametrize("plan", PLANS)
def test_fan_in_keeps_the_size_of_features(plan: str) -> None:
    """A matrix starts at one over the root of how many numbers its product sums, with heads and features together."""
    found = starts(einformer.load("gpt2").bind(D=120, A=4, L=1, V=300, K=100), plan, "fan_in")
    for name, summed in {"Q": 120, "K": 120, "V": 120, "O": 120}.items():
        assert deviation(found[f"blocks.0.CausalAttention.{name}"]) == pytest.approx(summed**-0.5, rel=0.05), name
    for name, summed in {"W": 120, "U": 480}.items():
        assert deviation(found[f"blocks.0.MLP.{name}"]) == pytest.approx(summed**-0.5, rel=0.05), name


# ------------------------------------------------------------------------------------------------------- random texts


@pytest.mark.slow
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(texts(), st.permutations([2, 3, 5, 7, 4]))
def test_random_texts(text: Text, sizes: list[int]) -> None:
    """Both plans, at distinct sizes."""
    bound = einformer.parse(text.text).bind(**text.sizes(*sizes) | ({"V": 53} if text.tokens else {}))
    arrays = inputs(bound, seed=len(text.text))
    try:
        expected = bound.reference(*arrays, weights=weights(bound))
    except EinformerError as refused:  # a slot that leaves its axis, which only the numbers tell
        assume(refused.findings[0].code != "E309")
        raise
    assume(np.isfinite(expected).all() and decided(bound, arrays, expected))
    for plan in PLANS:
        assert error(built(bound, plan)(*map(torch.from_numpy, arrays)), expected) < 1e-10
