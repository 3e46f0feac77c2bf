"""Is a softmax over nothing zero (R12)? In both plans, with its gradients; and is one that has something as fast as before?"""

from __future__ import annotations

import re

import numpy as np
import pytest
import torch

import einformer
from einformer.objects import Model
from tests.small import PLANS, Array, built, error, inputs, weights

AXES = {"b": "B", "s": "S", "t": "T", "d": "D", "n": "N", "a": "A"}
SIZES = {"B": 2, "S": 5, "T": 7, "D": 3, "N": 4, "A": 2}


def layer_of(head: str, *lines: str, before: str = "") -> Model:
    """A layer with the legend of what it uses."""
    body = "".join(f"  {line}\n" for line in lines)
    subscripts = "".join(re.findall(r"_\{?([a-z']+)", head + before + body))
    used = [letter for letter in AXES if letter in subscripts]
    axes = "".join(f"  {letter}: {AXES[letter]}\n" for letter in used)
    return einformer.parse(f"axes\n{axes}{before}\n{head}:\n{body}").bind(
        **{AXES[x]: SIZES[AXES[x]] for x in used if x in "dna"}
    )


ATTEND = ("w_bst = Sm_t(q_bsd k_btd / 3 + where(t < s, 0, -inf))", "return w_bst k_btd")
EMPTY = {
    "no number is large": layer_of("layer M(z_bsd) -> y_bsd", "return Sm_d(where(z_bsd > 1, z_bsd, -inf))"),
    "several axes": layer_of("layer M(z_bsd) -> y_bsd", "return Sm_{sd}(where(z_bsd > 2, z_bsd, -inf))"),
    "a logarithm of nothing": layer_of(
        "layer M(z_bsd) -> y_bsn", "weights K_dn", "r_bsn = z_bsd K_dn - 1", "return Sm_n(log(max(r_bsn, 0)))"
    ),
    "on a line of its own": layer_of(
        "layer M(z_bsd) -> y_bsd", "m_bsd = where(z_bsd > 1, 0, -inf)", "m_bsd <- m_bsd + 1", "return Sm_d(z_bsd + m_bsd)"
    ),
    "the logarithm of a sum of nothing": layer_of(
        "layer M(z_bsd) -> y_bs", "return exp(lse_d(z_bsd + where(z_bsd > 1, 0, -inf)))"
    ),
    "a sum of nothing over two axes": layer_of(
        "layer M(z_bsd) -> y_b", "return tanh(exp(lse_{sd}(z_bsd + where(z_bsd > 2, 0, -inf))))"
    ),
    "positions that data hide from a sum": layer_of(
        "model M(z_bsd) -> y_bsd causal in s",
        "r_bss' = where(s' <= s, z_bsd z_bs'd - 2, -inf)",
        "n_bs = lse_s'(r_bss' + where(r_bss' > 0, 0, -inf))",
        "return exp(n_bs) z_bsd",
    ),
    "memories that come later": layer_of(
        "model M(z_bsd) -> y_bsd causal in s", "weights K_nd, V_nd", "p_bsn = Sm_n(z_bsd K_nd + where(n < s, 0, -inf))",
        "return p_bsn V_nd",
    ),
    "a mask that a layer is given": layer_of(
        "model M(z_bsd) -> y_bsd causal in s", "weights K_nd, V_nd", "m_sn = where(n < s, 0, -inf)",
        "x_bsn = z_bsd K_nd", "p_bsn = A(x_bsn, m_sn)", "return p_bsn V_nd",
        before="\nlayer A(x_sn, m_sn) -> y_sn:\n  return Sm_n(x_sn + m_sn)\n",
    ),
    "attention to what is before": layer_of("layer M(q_bsd, k_btd) -> y_bsd", *ATTEND),
    "attention with its scores apart": layer_of(
        "layer M(q_bsd, k_btd) -> y_bsd", *ATTEND[:1], "n_bst = w_bst / 2", "return n_bst k_btd + w_bst k_btd"
    ),
}  # fmt: skip


def given(bound: Model) -> list[Array]:
    """Inputs of these sizes."""
    return inputs(bound, {"B": 2, "S": 5, "T": 7})


def slopes(bound: Model, arrays: list[Array], along: Array) -> Array:
    """The gradient of `sum(along y)` for the first input by the reference: central differences."""
    step, slope = 1e-6, np.zeros_like(arrays[0])
    for place in np.ndindex(slope.shape):
        values = []
        for sign in (step, -step):
            moved = arrays[0].copy()
            moved[place] += sign
            values.append(float((bound.reference(moved, *arrays[1:], weights=weights(bound)) * along).sum()))
        slope[place] = (values[0] - values[1]) / (2 * step)
    return slope


@pytest.mark.parametrize("plan", PLANS)
@pytest.mark.parametrize("name", EMPTY)
def test_a_softmax_over_nothing_is_zero(name: str, plan: str) -> None:
    """Nothing of it has a slope."""
    bound, arrays = EMPTY[name], given(EMPTY[name])
    expected = bound.reference(*arrays, weights=weights(bound))
    tensors = [torch.from_numpy(array).requires_grad_() for array in arrays]
    module = built(bound, plan)
    outputs = module(*tensors)
    assert error(outputs, expected) < 1e-12
    along = np.random.default_rng(1).standard_normal(expected.shape)
    (outputs * torch.from_numpy(along)).sum().backward()
    assert tensors[0].grad is not None
    assert np.abs(tensors[0].grad.numpy() - slopes(bound, arrays, along)).max() < 1e-6
    assert all(p.grad is not None and not p.grad.isnan().any() for p in module.parameters())


FULL = {
    "all": layer_of("layer M(z_bsd) -> y_bsn", "weights K_dn", "return Sm_n(z_bsd K_dn)"),
    "the largest": layer_of(
        "layer M(z_bsd) -> y_bsn", "weights K_dn", "r_bsn = z_bsd K_dn", "return Sm_n(where(top_{2,n}(r_bsn), r_bsn, -inf))"
    ),
    "the first is always there": layer_of(
        "layer M(z_bsd) -> y_bsn", "weights K_dn", "return Sm_n(z_bsd K_dn + where(n <= s, 0, -inf))"
    ),
    "the position itself": layer_of(
        "layer M(z_bsd) -> y_bss'", "return Sm_s'(z_bsd z_bs'd + where(s - 2 < s' < s + 3, 0, -inf))"
    ),
    "the past": layer_of(
        "model M(z_bsd) -> y_bsd causal in s",
        "w_bss' = Sm_s'(z_bsd z_bs'd + where(s' <= s, 0, -inf))",
        "n_bss' = tanh(w_bss')", "return n_bss' z_bs'd + w_bss' z_bs'd",
    ),
}  # fmt: skip


@pytest.mark.parametrize("plan", PLANS)
@pytest.mark.parametrize("name", FULL)
def test_a_softmax_that_has_something_is_that_of_torch(name: str, plan: str) -> None:
    bound, arrays = FULL[name], given(FULL[name])
    expected = bound.reference(*arrays, weights=weights(bound))
    assert error(built(bound, plan)(*map(torch.from_numpy, arrays)), expected) < 1e-12
    assert "def softmax" not in bound.source(plan)
