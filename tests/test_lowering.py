"""Is each rule of the lowering right on its own? Texts of one equation, attention however it is written, maps merged.

Quick, so that the mutants of the lowering die here.
"""

from __future__ import annotations

import re

import pytest
import torch

import einformer
from einformer.language.tree import Name
from tests.small import PLANS, built, error, inputs, weights
from tests.well_formed import CONDITIONS, FUNCTIONS, PAIRS, REDUCING

SIZES = {"B": 2, "S": 5, "D": 7, "H": 3, "A": 2, "G": 3}
AXES = {"b": "B", "s": "S", "d": "D", "e": "H", "a": "A", "g": "G"}


def framed(inputs: str, output: str, *lines: str) -> str:
    """A layer below the legend of what it uses."""
    layer = "\n  ".join([f"layer Main({inputs}) -> y_{output}:", *lines])
    used = set("".join(re.findall(r"_\{?([^ ,)]*)", layer)))
    axes = [f"  {letter}: {size}" for letter, size in AXES.items() if letter in used]
    scalars = ["  p = 0.5"] if re.search(r"Dr\([^,]*\)", layer) else ["  λ_a = 2^(-a)"] if "λ" in layer else []
    return "\n".join(["axes", *axes, *(["scalars", *scalars] if scalars else []), layer, ""])


def agree(text: str) -> str:
    """Both plans equal the reference at distinct sizes; the forward of `fast`."""
    spec = einformer.parse(text)
    bound = spec.bind(**{axis.size.name: SIZES[axis.size.name] for axis in spec.tree.axes if isinstance(axis.size, Name)})
    arrays = inputs(bound)
    expected = bound.reference(*arrays, weights=weights(bound))
    for plan in PLANS:
        assert error(built(bound, plan)(*map(torch.from_numpy, arrays)), expected) < 1e-12
    return bound.source().rpartition("def forward")[2]


ONE_EQUATION = {
    *(f.format("z_bsd") for f in FUNCTIONS),
    *(f.format("z_bsd", "o_bsd") for f in PAIRS),
    *(f"z_bsd - {name}_d z_bsd" for name in REDUCING if name != "sum"),
    *(f"z_bsd - {name}_{{sd}} z_bsd" for name in REDUCING),
    *(f"where({c.format('d')}, z_bsd, o_bsd)" for c in CONDITIONS),
    "Sm_d z_bsd", "Sm_{sd} z_bsd", "cumsum_d z_bsd", "cumsum_{sd} z_bsd", "z_bsd d / (s + 1)", "z_bsd 3^(-d / 7)",
    "where(top_{2,d} z_bsd, z_bsd, o_bsd)", "where(top_{3,ds} z_bsd, z_bsd, 0)", "z_bsd - (o_bsd - z_bsd)",
    "where(d < 3, 0.3, 0.7) z_bsd", "exp(-where(top_{2,d} z_bsd, 1, 0) o_bsd)",
    "sum_{s'} where(s' <= s, o_bs'd, 0)",
}  # fmt: skip


@pytest.mark.parametrize("right", sorted(ONE_EQUATION))
def test_one_equation(right: str) -> None:
    given = ", ".join(tensor for tensor in ("z_bsd", "o_bsd") if tensor in right or tensor.replace("s", "s'") in right)
    agree(framed(given, "bsd", f"return {right}"))


QKV = "q_bsea, k_bsea, v_bsea"
SCORED = {
    "causal": "q_bsea k_bs'ea / sqrt(H) + m_ss'",
    "mask first": "m_ss' + q_bsea k_bs'ea / sqrt(H)",
    "no mask": "q_bsea k_bs'ea / sqrt(H)",
    "no scale": "q_bsea k_bs'ea + m_ss'",
    "another scale": "q_bsea k_bs'ea / 7 + m_ss'",
    "the root of another size": "q_bsea k_bs'ea / sqrt(A) + m_ss'",
    "a factor": "(1 / 7) q_bsea k_bs'ea + m_ss'",
    "the keys first": "k_bs'ea q_bsea / sqrt(H) + m_ss'",
    "a window": "q_bsea k_bs'ea / sqrt(H) + n_ss'",
    "slopes": "q_bsea k_bs'ea / sqrt(H) + o_ss'a",
    "a cap": "3 tanh((q_bsea k_bs'ea / sqrt(H)) / 3) + m_ss'",
}
MASKS = {
    "m": "m_ss' = where(s' <= s, 0, -inf)",
    "n": "n_ss' = where(s' <= s and s - s' < 3, 0, -inf)",
    "o": "o_ss'a = where(s' <= s, λ_a (s' - s), -inf)",
}


@pytest.mark.parametrize("scores", SCORED)
def test_attention_however_it_is_written(scores: str) -> None:
    """Fused in all forms but the capped one, whose scores are no product."""
    lines = [line for name, line in MASKS.items() if f"{name}_ss'" in SCORED[scores]]
    source = agree(framed(QKV, "bsea", *lines, f"w_bss'a = Sm_s'({SCORED[scores]})", "return w_bss'a v_bs'ea"))
    assert ("scaled_dot_product_attention" in source) == (scores != "a cap")
    assert ("is_causal=True" in source) == (scores not in ("no mask", "a window", "slopes", "a cap"))


def test_a_mask_that_looks_ahead_is_not_causal() -> None:
    lines = ("m_ss' = where(s <= s', 0, -inf)", "w_bss'a = Sm_s'(q_bsea k_bs'ea / sqrt(H) + m_ss')", "return w_bss'a v_bs'ea")
    assert "is_causal" not in agree(framed(QKV, "bsea", *lines))


@pytest.mark.parametrize("values", ["v_bs'ed", "v_bs'da"])
def test_attention_with_heads_that_share_keys(values: str) -> None:
    """Grouped: keys have the heads `a`, queries `a` and `g`; or no heads of their own at all."""
    keys = "k_bsea, v_bsda" if values == "v_bs'da" else "k_bse, v_bsed"
    if values == "v_bs'da":
        agree(framed(f"q_bseag, {keys}", "bsdag", "w_bss'ag = Sm_s'(q_bseag k_bs'ea / sqrt(H))", f"return w_bss'ag {values}"))
    else:
        agree(framed("q_bsea, k_bse, v_bsd", "bsda", "w_bss'a = Sm_s'(q_bsea k_bs'e / sqrt(H))", "return w_bss'a v_bs'd"))


def test_a_map_after_a_change_is_another() -> None:
    """Maps of one input are one product, unless the input has changed between them."""
    first, last = ("weights Q_de, K_de", "q_bse = tanh(z_bsd Q_de)"), "return q_bse + z_bsd K_de"
    assert "self.QK.T)" in agree(framed("z_bsd", "bse", *first, last))
    assert "self.QK.T)" not in agree(framed("z_bsd", "bse", *first, "z_bsd <- tanh(z_bsd)", last))


@pytest.mark.parametrize("plan", PLANS)
def test_of_equal_numbers_the_first_is_top(plan: str) -> None:
    module = (
        einformer.parse(framed("z_bsd", "bsd", "return where(top_{2,d} z_bsd, 1, 0) + 0 z_bsd"))
        .bind(D=7)
        .build(plan=plan)
        .eval()
    )
    assert module(torch.ones(1, 1, 7)).tolist() == [[[1, 1, 0, 0, 0, 0, 0]]]


@pytest.mark.parametrize("plan", PLANS)
def test_angles_are_at_least_single_precision(plan: str) -> None:
    """Position 300 is no bfloat16 number; its cosine must be right to bfloat16 nevertheless (R12)."""
    module = (
        einformer.parse(framed("z_bsd", "bsd", "return z_bsd cos(s + d / 7)"))
        .bind(D=7)
        .build(dtype=torch.bfloat16, plan=plan)
        .eval()
    )
    expected = torch.cos(torch.arange(300)[:, None] + torch.arange(7) / 7)
    assert error(module(torch.ones(1, 300, 7).bfloat16()).float()[0], expected) < 1e-2
