"""Are kernels found in programs by what values mean, however a text writes them? The emitted file calls them."""

from __future__ import annotations

import re
from typing import Any

import pytest
import torch

import einformer
from tests.small import built, error, inputs, model, weights
from tests.test_canonical import CAUSAL, ENDS, LAYER_NORMS, NORMS, QKV, attending, normed


@pytest.mark.parametrize(("right", "lines"), (NORMS | LAYER_NORMS).items(), ids=str)
def test_a_norm_is_one_value_of_the_program(right: str, lines: tuple[str, ...]) -> None:
    kernel = "layer_norm(z_bsd, (D,), self.γ, self.β, ε)" if "β" in right else "rms_norm(z_bsd, (D,), self.γ, ε)"
    assert normed(right, lines).source().endswith(f"\n        return fn.{kernel}\n")


@pytest.mark.parametrize("spelling", CAUSAL)
def test_an_attention_is_one_value_of_the_program(spelling: str) -> None:
    source = attending(*QKV, *CAUSAL[spelling], *ENDS["two lines"]).source()
    assert re.findall(r"product_attention\((.*)\)", source) == ["q_base, k_base, v_base, is_causal=True"]
    assert re.findall(r"fn\.linear\(.*, self\.(\w+)\.T\)", source) == ["QKV", "O"]


def test_experts_that_are_chosen_compute_alone() -> None:
    """Those of mixtral: a product by expert for gates and for what goes up together, one for what comes down."""
    body = model("mixtral").source().partition("class Experts(")[2].partition("\nclass ")[0]
    assert len(re.findall(r" = routed\(", body)) == len(re.findall(r"\[place\]", body)) == 1
    assert re.findall(r"grouped\(.*, self\.(\w+)\.mT, ends\)", body) == ["GU", "O"]


def test_maps_under_other_letters_are_one_product_also_in_decoding() -> None:
    """Queries, keys, and a gate of the last line, whose letters stand the other way round."""
    text = """axes
  b: B
  s: S
  d: D
  e: E

model M(z_bsd) -> z_bsd causal in s:
  weights Q_de, K_de, O_ed, G_dd'
  q_bse = z_bsd Q_de
  k_bse = z_bsd K_de
  w_bss' = Sm_s'(q_bse k_bs'e / sqrt(E) + where(s' <= s, 0, -inf))
  y_bse = w_bss' k_bs'e
  return y_bse O_ed + z_bsd' G_d'd
"""
    bound = einformer.parse(text).bind(D=6, E=4)
    module: Any = built(bound, "fast")
    (array,) = inputs(bound)
    assert "self.QKG" in bound.source()
    expected, cache = bound.reference(array, weights=weights(bound)), module.cache()
    steps = [module.decode(part, cache=cache) for part in torch.split(torch.from_numpy(array), 1, 1)]
    assert error(module(torch.from_numpy(array)), expected) < 1e-12
    assert error(torch.cat(steps, 1), expected) < 1e-12


def test_a_product_has_no_name_that_a_module_has() -> None:
    """`module` and `s` side by side would be `modules`, which every module has."""
    text = """axes b, s, d, a
model M(z_bsd) -> y_bsa causal in s:
  weights module_da, s_da
  p_bsa = z_bsd module_da
  q_bsa = z_bsd s_da
  return tanh(p_bsa) + q_bsa / 2
"""
    bound = einformer.parse(text).bind(D=4, A=3)
    (array,) = inputs(bound)
    assert error(built(bound, "fast")(torch.from_numpy(array)), bound.reference(array, weights=weights(bound))) < 1e-12


LOSSES = {  # of scores y and targets t; is it one kernel?
    "mean_{bs}(lse_v y_bsv - y_{b s t_bs})": True,
    "mean_{bs}(-y_{b s t_bs} + lse_v y_bsv)": True,
    "sum_{bs}(lse_v y_bsv - y_{b s t_bs})": True,
    "mean_s(lse_v y_1sv - y_{1 s t_1s})": False,
    "mean_{bs}(lse_v y_bsv - y_{b s t_bs} / 2)": False,
    "mean_{bs}(lse_v(2 y_bsv) - y_{b s t_bs})": False,
    "mean_{bs}(lse_v y_bsv + y_{b s t_bs})": False,
    "mean_{bs}(lse_v y_bsv - y_{b (S - 1 - s) t_bs})": False,
}


@pytest.mark.parametrize("plan", ["notation", "fast"])
@pytest.mark.parametrize("right", LOSSES)
def test_a_cross_entropy_is_one_kernel_of_the_same_value_and_slope(right: str, plan: str) -> None:
    """Targets may have any dtype of whole numbers; slopes are compared with those of the reference by differences."""
    bound = einformer.parse(f"axes b: B, s: S, v: V\n\nmodel Loss(y_bsv, t_bs) -> λ:\n  return {right}\n").bind()
    assert ("fn.cross_entropy(" in bound.source()) == LOSSES[right]
    y, t = inputs(bound)
    leaf = torch.from_numpy(y).requires_grad_()
    for whole in (torch.int64, torch.int32):
        value = bound.build(dtype=torch.float64, plan=plan)(leaf, torch.from_numpy(t).to(whole))
        assert error(value, bound.reference(y, t, weights={})) < 1e-14
    (slope,) = torch.autograd.grad(value, leaf)
    for place in ((0, 0, 0), (1, 2, int(t[1, 2])), (2, 3, 5)):
        ahead, behind = y.copy(), y.copy()
        ahead[place] += 1e-5
        behind[place] -= 1e-5
        above, below = (float(bound.reference(some, t, weights={})) for some in (ahead, behind))
        assert abs(float(slope[place]) - (above - below) / 2e-5) < 1e-9


# --------------------------------------------------------------------------------------------------- tied embeddings

TIED = """axes b: B, s: S, d: D, v: V

model Tied(x_bs) -> y_bsv:
  weights E_vd
  z_bsd = E_{x_bs d}
  return tanh(z_bsd) E_vd
"""
COMPARED = """axes b: B, s: S, d: D, v: V

model Compared(x_bs) -> z_bsd:
  weights E_vd
  z_bsd = E_{x_bs d}
  h_bsv = z_bsd E_vd
  return where(max_v(h_bsv) > 0, z_bsd, 2 z_bsd)
"""


def tied() -> tuple[Any, torch.Tensor, torch.Tensor]:
    """A module whose rows are multiplied with too, tokens of which some are alike, and the gradient by torch alone."""
    torch.manual_seed(0)
    module: Any = einformer.parse(TIED).bind(D=5, V=11).build().double()
    weight = module.E.detach().clone().requires_grad_()
    x_bs = torch.tensor([[1, 1, 4], [9, 1, 0]])
    (right,) = torch.autograd.grad((torch.tanh(weight[x_bs]) @ weight.T).square().sum(), weight)
    return module, x_bs, right


def test_rows_of_a_matrix_that_is_multiplied_have_their_gradient_in_its_own() -> None:
    module, x_bs, right = tied()
    for times in (1, 2):  # the second adds to the first
        module(x_bs).square().sum().backward()
        assert module.E.grad.layout == torch.strided
        torch.testing.assert_close(module.E.grad, times * right, rtol=1e-12, atol=1e-12)


def test_no_second_matrix_is_filled_for_the_gradient_of_rows() -> None:
    module, x_bs, _ = tied()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        module(x_bs).square().sum().backward()
    names = {event.name for event in profile.events()}
    assert "aten::embedding_sparse_backward" in names
    assert "aten::embedding_dense_backward" not in names


def test_gradients_of_several_tied_embeddings_at_once() -> None:
    """`vmap` knows no sparse tensors; weights that a function is given are no parameters."""
    module, x_bs, right = tied()

    def loss(E: torch.Tensor) -> torch.Tensor:
        value: torch.Tensor = torch.func.functional_call(module, {"E": E}, (x_bs,)).square().sum()
        return value

    both = torch.func.vmap(torch.func.grad(loss))(torch.stack([module.E.detach(), -module.E.detach()]))
    torch.testing.assert_close(both, torch.stack([right, -right]), rtol=1e-12, atol=1e-12)


def test_a_tied_embedding_without_numbers_has_a_gradient() -> None:
    module, x_bs, right = tied()
    module.to("meta")(x_bs.to("meta")).square().sum().backward()
    assert module.E.grad.shape == right.shape


def test_rows_of_a_matrix_whose_product_is_compared_alone_have_a_gradient_that_optimisers_know() -> None:
    module: Any = einformer.parse(COMPARED).bind(D=5, V=11).build()
    module(torch.tensor([[1, 1, 4]])).sum().backward()
    assert module.E.grad.layout == torch.strided


PART = """axes
  b: B
  s: S
  d: D
  a: A
  u: U
  e: E <= U

model Part(z_bsd) -> y_bsea causal in s:
  weights Q_dua, K_dua
  return tanh(z_bsd Q_dea) + sigmoid(z_bsd K_dea)
"""


@pytest.mark.parametrize("lines", [PART, PART.replace(", K_dua", "").replace(" + sigmoid(z_bsd K_dea)", "")])
def test_a_weight_that_is_read_in_part_is_stored_whole(lines: str) -> None:
    """Beside another that is read of the same input, and alone."""
    module: Any = einformer.parse(lines).bind(D=5, A=3, U=7, E=4).build(dtype=torch.float64)
    torch.manual_seed(0)
    state = {name: torch.randn(5, 7, 3, dtype=torch.float64) for name in module.state_dict()}
    z = torch.randn(2, 6, 5, dtype=torch.float64)
    module.load_state_dict(state)
    maps = {name: torch.einsum("bsd,dea->bsea", z, weight[:, :4]) for name, weight in state.items()}
    expected = torch.tanh(maps["Q"]) + (torch.sigmoid(maps["K"]) if "K" in maps else 0)
    assert (module(z) - expected).abs().max() < 1e-12
