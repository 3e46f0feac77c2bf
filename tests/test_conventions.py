"""Are FLOPs and bytes right under every convention? Against torch's counter, enumeration, and the tables of papers."""

from __future__ import annotations

import itertools
import operator
from functools import cache
from typing import Any, Literal

import pytest
import sympy
import torch
from torch.utils.flop_counter import FlopCounterMode
from transformers import AutoConfig, AutoModelForCausalLM

import einformer
from einformer import EinformerError
from einformer.interpreters.count import rules
from einformer.interpreters.count.symbols import Symbols
from einformer.objects import Model, Specification
from tests.oracles.flops import counted
from tests.small import BATCH, LENGTH, PLANS, SMALL, inputs
from tests.texts import spec as texts_spec

GPT2 = {"D": 12, "A": 3, "L": 2, "V": 11, "K": 32}


@cache
def published(name: str) -> Model:
    return einformer.model(name)


def flops(model: Model, convention: str = "exact", **sizes: Any) -> list[Any]:
    """The counts of the equations of a model."""
    return [count for part in model.summary(convention=convention, **sizes).parts for count in part.equations]


# ------------------------------------------------------------------------------------------------- pairs of positions


@pytest.mark.parametrize(("least", "most"), [(None, None), (0, None), (0, 0), (0, 4), (1, None), (2, 5), (0, 100)])
def test_pairs_are_those_of_an_enumeration(least: int | None, most: int | None) -> None:
    for length, before in itertools.product(range(1, 9), range(9)):
        apart = [s - seen for s in range(before, before + length) for seen in range(before + length)]
        expected = sum((least is None or least <= gap) and (most is None or gap <= most) for gap in apart)
        assert rules.count_pairs(length, before, least, most, min) == 2 * expected


def test_exact_flops_of_gpt2() -> None:
    """S (S + 1) / 2 pairs in twelve layers (counting the last logits too): computed by hand from nanoGPT's parts."""
    full, exact = (published("gpt2").flops(convention=name, B=1, S=1024) for name in ("torch", "exact"))
    core = 12 * 2 * 1_610_612_736  # scores and weighted sums, S x S
    assert full == 291_648_307_200
    assert exact == full - core + core * 1025 // 2048 == 272_339_828_736


LLAMA3 = {"D": 4096, "A": 32, "G": 8, "H": 128, "F": 14336, "L": 32, "V": 128256}
MIXTRAL = {"D": 4096, "A": 32, "G": 8, "H": 128, "F": 14336, "X": 8, "L": 32, "V": 32000}


@pytest.mark.parametrize(
    ("name", "sizes", "length", "full", "exact"),
    [
        ("llama", LLAMA3, 8192, 158_140_695_838_720, 140_550_657_277_952),
        ("mixtral", MIXTRAL, 4096, 113_232_517_791_744, 108_835_545_022_464),
    ],
)
def test_published_forward_passes(name: str, sizes: dict[str, int], length: int, full: int, exact: int) -> None:
    model = einformer.load(name).bind(**sizes)
    assert model.flops(convention="torch", B=1, S=length) == full
    assert model.flops(convention="exact", B=1, S=length) == exact


@pytest.mark.parametrize("name", ["gpt2", "mistral", "gemma2", "gpt_oss", "bloom"])
def test_a_decode_step_is_what_a_longer_text_costs_more(name: str) -> None:
    """With masks counted exactly the last position costs what the difference says, windows included."""
    model = small(name)
    for length in (1, 2, 5, 6, 7, 20):
        longer, shorter = (model.flops(convention="exact", B=2, S=size) for size in (length + 1, length))
        assert model.flops(convention="exact", cached=length, B=2, S=1) == longer - shorter


def small(name: str) -> Model:
    from tests.small import model

    found = model(name)
    return found.spec.replace("W_l = where(l mod 2 == 0, 5, inf)").bind(**sizes(found)) if "W_l" in str(found.spec) else found


def sizes(model: Model) -> dict[str, int]:
    return {name: int(value) for name, value in model.legend.values.items() if name in model.legend.letters}


def test_each_layer_has_its_own_window() -> None:
    """Gemma 2 and gpt-oss: half of the layers see W positions, the other half all."""
    model = small("gemma2")
    found = [count for count in flops(model, B=1, S=20) if count.core]
    assert {count.times for count in found} == {model.size("L") // 2}
    near = sum(min(s + 1, 5) for s in range(20))
    (windowed, whole, *_) = sorted({count.core for count in found})
    assert windowed * 210 == whole * near


MASKED = """axes
  s: S
  d: D
  c: C
model Text(z_sd) -> y_sd causal in s:
  weights K_c
  w_ss' = Sm_s'(z_sd z_s'd + where({}, 0, -inf))
  return w_ss' z_s'd + 0 sum_c K_c
"""


@pytest.mark.parametrize(
    ("mask", "farthest"),
    [
        ("not s' > s", 11),
        ("2 s' <= 2 s", 11),
        ("s' < s or s' == s", 11),
        ("s - C < s' <= s", 3),
        ("not (s' > s or s' <= s - C)", 3),
        ("s' <= s and 3 s' / 2 + 1 > 3 (s - C) / 2 + 1", 3),
        ("s' == s", 0),
    ],
)
def test_pairs_do_not_depend_on_how_a_mask_is_written(mask: str, farthest: int) -> None:
    model = einformer.parse(MASKED.format(mask)).bind(D=3, C=4)
    allowed = sum(0 <= s - t <= farthest for s in range(12) for t in range(12))
    assert model.flops(convention="exact", S=12) == 2 * 2 * 3 * allowed


@pytest.mark.parametrize(
    "lines",
    [
        ["m_ss' = where(s - C < s' <= s, 0, -inf)", "m_ss' <- m_ss' / 2 + s' / 5", "w_ss' = Sm_s'(z_sd z_s'd + m_ss')"],
        ["m_ss' = where(s - C < s' <= s, 0, inf)", "w_ss' = Sm_s'(z_sd z_s'd - 3 m_ss')"],
        ["m_ss' = min(where(s' <= s, 0, -inf), where(s - C < s', s', -inf))", "w_ss' = exp(2 (z_sd z_s'd + m_ss'))"],
        ["q_ss' = z_sd z_s'd + where(s - C < s' <= s, 0, -inf)", "w_ss' = Sm_s'(q_ss') sigmoid(lse_s' q_ss')"],
    ],
    ids=["scaled and biased", "of the other sign", "the least of two", "beside its sum"],
)
def test_pairs_are_those_of_a_mask_that_is_changed(lines: list[str]) -> None:
    head, last = "model M(z_sd) -> y_sd causal in s:", "return w_ss' z_s'd + 0 sum_c K_c"
    text = texts_spec("s, d, c", head, "weights K_c", *lines, last)
    allowed = sum(0 <= s - t <= 3 for s in range(12) for t in range(12))
    assert text["M"].bind(D=3, C=4).flops(convention="exact", S=12) == 2 * 2 * 3 * allowed


def test_angles_that_a_power_divides_hide_what_a_mask_hides() -> None:
    """GPT-J turns some features: of the others, and where a divisor vanishes, a mask tells as much."""
    full, exact = (
        sum(count.core * count.times for count in flops(small("gptj"), name, B=1, S=20)) for name in ("torch", "exact")
    )
    assert exact * 2 * 20 == full * 21


def test_pairs_of_heads_that_are_summed_are_those_of_the_widest() -> None:
    """What a mask says of each head is known of their sum: some head allows it."""
    lines = [
        "model M(z_sd) -> y_sd causal in s:",
        "w_ss'a = Sm_s'(z_sd z_s'd + where(s - W_a < s' <= s, 0, -inf))",
        "return (sum_a w_ss'a) z_s'd",
    ]
    allowed = sum(0 <= s - t <= 3 for s in range(12) for t in range(12))
    model = texts_spec("s, d, a: 3", *lines, scalars="W_a = [2, 4, 1]")["M"].bind(D=3)
    assert model.flops(convention="exact", S=12) == 2 * 2 * 3 * allowed


def test_a_layer_that_is_never_called_computes_nothing() -> None:
    lines = ["model M(z_bsd) -> z_bsd:", "return where(s < 0, Map(z_bsd), z_bsd)"]
    layer = ["layer Map(z_d) -> z_d:", "weights W_d'd", "return z_d' W_d'd"]
    model = texts_spec("b, s, d", *layer, *lines)["M"].bind(D=3)
    assert [model.flops(convention=name, B=1, S=4) for name in ("exact", "torch")] == [0, 72]


@pytest.mark.parametrize(
    ("mask", "allowed"),
    [
        ("s' <= s and (s' < 2 or s - C < s')", [t <= s and (t < 2 or s - 4 < t) for s in range(12) for t in range(12)]),
        ("s' <= s and floor(s / C) == floor(s' / C)", [t <= s and s // 4 == t // 4 for s in range(12) for t in range(12)]),
        ("s' <= s and floor(s / D) == floor(s' / D)", [t <= s and s // 3 == t // 3 for s in range(12) for t in range(12)]),
        ("s' <= s and (s - s') mod 3 == 0", [t <= s and (s - t) % 3 == 0 for s in range(12) for t in range(12)]),
    ],
)
def test_pairs_of_any_mask_are_those_that_it_allows(mask: str, allowed: list[bool]) -> None:
    """At sizes that are known; a formula is that of a band around the diagonal."""
    text = einformer.parse(MASKED.format(mask))
    assert text.bind(D=3, C=4).flops(convention="exact", S=12) == 2 * 2 * 3 * sum(allowed)
    longer, shorter = (text.bind(D=3, C=4).flops(convention="exact", S=size) for size in (12, 11))
    assert text.bind(D=3, C=4).flops(convention="exact", S=1, cached=11) == longer - shorter
    with pytest.raises(EinformerError, match="E607"):
        text.flops("exact")


CHOSEN = ("layer Pick(r_x) -> p_x:", "return where(top_{2,x}(r_x), r_x, 0)", "layer N(z_bsd) -> z_bsd:")
ROUTED = ("weights R_dx, V_dx, G_xdf, O_xfd", "r_bsx = z_bsd R_dx", "t_bsx = z_bsd V_dx", "g_bsxf = z_bsd G_xdf")


@pytest.mark.parametrize(
    ("right", "experts"),
    [
        ("Pick(r_bsx) g_bsxf O_xfd + t_bsx R_dx", 2),
        ("Pick(r_bsx) g_bsxf O_xfd + Pick(t_bsx) g_bsxf O_xfd", 5),  # two for the one and two for the other
        ("(Pick(r_bsx) + t_bsx) g_bsxf O_xfd", 5),
        ("Pick(r_bsx) t_bsx g_bsxf O_xfd", 2),
        ("(1 - Pick(r_bsx)) t_bsx g_bsxf O_xfd", 5),
    ],
)
def test_experts_compute_where_their_weight_is_not_zero(right: str, experts: int) -> None:
    model = texts_spec("b, s, d, f, x", *CHOSEN, *ROUTED, f"return {right}")["N"].bind(D=3, F=7, X=5)
    (count,) = (count.each for count in flops(model, B=2, S=11) if "g_bsxf =" in count.text)
    assert count == 2 * 2 * 11 * 3 * 7 * experts


SQUARE = ("weights A_xdd'", "q_x = where(top_{2,x}(p_x), p_x, 0)")
TWO = ("weights U_xde, V_xed", "q_x = where(top_{2,x}(p_x), p_x, 0)")


@pytest.mark.parametrize("plan", PLANS)
@pytest.mark.parametrize("argument", ["z_bsd", "n_bsd"])
@pytest.mark.parametrize(
    "lines",
    [
        (*SQUARE, "return q_x z_d' A_xd'd / (sum_x q_x)"),
        (*SQUARE, "weights κ_xd", "return q_x (z_d' A_xd'd + κ_xd)"),
        (*SQUARE, "weights κ_xd'", "return q_x κ_xd' z_d' A_xd'd"),
        (*SQUARE, "weights κ_xd'", "return q_x κ_xd' A_xd'd z_d"),
        (*TWO, "weights c_e", "h_xe = tanh(z_d U_xde) c_e", "return q_x h_xe V_xed"),
        (*TWO, "h_d = z_d' U_xd'e V_xed q_x", "return h_d"),
    ],
)
def test_a_row_is_multiplied_by_the_matrices_of_its_experts(lines: tuple[str, ...], argument: str, plan: str) -> None:
    """Not by their mixture: as torch counts, forward and backward, of an input and of what has a gradient."""
    head = ("layer Mix(z_d, p_x) -> z_d:", *lines, "model M(z_bsd) -> y_bsd causal in s:", "weights R_dx")
    axes = "b, s, d, x" + ", e" * ("U_xde" in str(lines))
    routed = ("n_bsd = tanh(z_bsd' R_d'x R_dx)", "r_bsx = n_bsd R_dx", f"return Mix({argument}, r_bsx)")
    text = texts_spec(axes, *head, *routed)["M"]
    model = text.bind(**{"D": 4, "X": 7} | ({"E": 3} if "e" in axes else {}))
    module, z = model.build(plan=plan, dtype=torch.float64).eval(), torch.randn(2, 5, 4, dtype=torch.float64)
    with FlopCounterMode(display=False) as counter:
        module(z).sum().backward()  # type: ignore[no-untyped-call]
    assert model.flops(convention=plan, phase="training", B=2, S=5) == counter.get_total_flops()


# ------------------------------------------------------------------------------------------------------ backward


def test_backward_of_gpt2_is_the_published_one() -> None:
    """nanoGPT: twice the forward pass, of which every product has two operands with a gradient."""
    counts = flops(published("gpt2"), "torch", B=1, S=1024)
    assert sum(count.backward for count in counts) == 583_296_614_400


@pytest.mark.parametrize("name", SMALL)
def test_backward_is_what_torch_counts(name: str) -> None:
    """On the meta device, of the emitted module by the plan of the text."""
    model = small(name)
    module = model.build(device="meta", plan="notation").eval()
    arrays = [torch.as_tensor(array, device="meta") for array in inputs(model)]
    moving = [x.float().requires_grad_(model.spec.layer.kind == "layer") if x.is_floating_point() else x for x in arrays]
    with FlopCounterMode(display=False) as counter:
        module(*moving).sum().backward()  # type: ignore[no-untyped-call]
    counts = flops(
        model, "notation", **{size: n for size, n in {"B": BATCH, "S": LENGTH, "V": 11}.items() if size in model.open}
    )
    assert sum(count.total + count.backward for count in counts) == counter.get_total_flops()


@pytest.mark.parametrize(
    "lines",
    [
        pytest.param(["w_bsx = where(top_{2,x}(h_bsx), 1, 0)", "return w_bsx U_xd z_bsd"], id="what only chooses"),
        pytest.param(["n_bsx = floor(h_bsx)", "return n_bsx U_xd z_bsd"], id="what is rounded"),
        pytest.param(["u_bsx = U_xd z_bsd", "return where(h_bsx > 0, u_bsx, 0) U_xd"], id="a condition"),
        pytest.param(["c_bsx = tanh(c_{b(s - 1)x'} R_x'x) + h_bsx", "return c_bsx U_xd z_bsd"], id="the first step"),
        pytest.param(
            ["c_bsx = tanh((c_{b(s - 1)x'} + P_x') R_x'x) + h_bsx", "return c_bsx U_xd z_bsd"], id="not the first step"
        ),
        pytest.param(["c_bsx = tanh(c_{b(s - 2)x'} R_x'x) + h_bsx", "return c_bsx U_xd z_bsd"], id="the first two steps"),
        pytest.param(
            ["c_bsx = tanh((c_{b(s - 3)x'} + c_{b(s - 2)x'}) R_x'x) + h_bsx", "return c_bsx U_xd z_bsd"],
            id="the earlier of two",
        ),
        pytest.param(["c_bsx = tanh(c_{b(s - 9)x'} R_x'x) + h_bsx", "return c_bsx U_xd z_bsd"], id="all steps"),
        pytest.param(["c_bsx = tanh(c_{b(s - D)x'} R_x'x) + h_bsx", "return c_bsx U_xd z_bsd"], id="as many as a size says"),
    ],
)
def test_what_no_gradient_reaches_costs_nothing_backward(lines: list[str]) -> None:
    """As torch counts, product by product."""
    extra = "".join(f", {weight}" for weight in ("R_x'x", "P_x") if any(weight[:2] in line for line in lines))
    head = ("model M(z_bsd) -> y_bsd causal in s:", f"weights I_dx, U_xd{extra}", "h_bsx = z_bsd I_dx")
    model = texts_spec("b, s, d, x", *head, *lines).bind(D=5, X=3)
    module = model.build(device="meta", plan="notation").eval()
    with FlopCounterMode(display=False) as counter:
        module(torch.zeros(2, 7, 5, device="meta")).sum().backward()  # type: ignore[no-untyped-call]
    counts = flops(model, "notation", B=2, S=7)
    assert sum(count.total + count.backward for count in counts) == counter.get_total_flops()


@pytest.mark.parametrize(
    "lines",
    [
        pytest.param(["for l < L:", "  z_bsd <- z_bsd + tanh(z_bsd' I_d'x) U_xd", "return z_bsd"], id="a loop"),
        pytest.param(["for l < L:", "  z_bsd <- z_bsd + Map_l(z_bsd)", "return z_bsd"], id="a layer in a loop"),
        pytest.param(
            [
                "k_bsd = z_bsd",
                "for l < L:",
                "  k_bsd <- where(l mod 2 == 0, tanh(z_bsd), k_bsd)",
                "  z_bsd <- k_bsd' I_d'x U_xd + z_bsd",
                "return z_bsd",
            ],
            id="a choice by the turn",
        ),
        pytest.param(
            ["y_bsd = z_bsd", "for l < L:", "  z_bsd <- tanh(z_bsd)", "  y_bsd <- z_bsd' I_d'x U_xd", "return y_bsd"],
            id="what the next turn overwrites",
        ),
        pytest.param(
            ["for l < L:", "  for c < C:", "    z_bsd <- tanh(z_bsd)", "  z_bsd <- z_bsd' I_d'x U_xd", "return z_bsd"],
            id="what an inner loop leaves",
        ),
        pytest.param(
            ["for l < L:", "  h_bsx = Down_l(z_bsd)", "  z_bsd <- z_bsd + h_bsx U_xd", "return z_bsd"], id="its input as it is"
        ),
        pytest.param(["for l < L:", "  z_bsd <- z_bsd + Turn_l(z_bsd)", "return z_bsd"], id="a loop in a layer in a loop"),
        pytest.param(
            ["for l < L:", "  for c < C:", "    z_bsd <- z_bsd + tanh(z_bsd' I_d'x) U_xd", "return z_bsd"], id="loops"
        ),
        pytest.param(
            ["y_bsd = z_bsd", "for l < L:", "  y_bsd <- z_bsd + y_bsd / 2", "  z_bsd <- y_bsd' I_d'x U_xd", "return z_bsd"],
            id="the first two turns",
        ),
        pytest.param(
            [
                "y_bsd = tanh(z_bsd' I_d'x U_xd)",
                "for l < L:",
                "  n_bsd = y_bsd",
                "  y_bsd <- z_bsd' I_d'x U_xd",
                "  z_bsd <- n_bsd",
                "return y_bsd",
            ],
            id="two tensors that change places",
        ),
        pytest.param(
            [
                "for l < L:",
                "  for c < C:",
                "    z_bsd <- where(c == 1, z_bsd' I_d'x U_xd, z_bsd) + z_bsd' U_xd' I_dx",
                "return z_bsd",
            ],
            id="a choice by the turn of an inner loop",
        ),
        pytest.param(
            [
                "y_bsd = 0 z_bsd",
                "for l < L:",
                "  y_bsd <- where(l == 1, Map_l(z_bsd), y_bsd + Map_l(tanh(z_bsd)))",
                "  z_bsd <- Map_l(y_bsd)",
                "return y_bsd",
            ],
            id="a layer whose last result nobody reads",
        ),
        pytest.param(
            ["for l < L:", "  z_bsd <- z_bsd / 2", "for l < L:", "  z_bsd <- z_bsd' I_d'x U_xd", "return z_bsd"], id="two loops"
        ),
    ],
)
def test_a_turn_that_begins_with_an_input_has_fewer_gradients(lines: list[str]) -> None:
    """As torch counts, product by product."""
    layer = ["layer Map(z_d) -> z_d:", "weights I_dx, U_xd", "return z_d' I_d'x U_xd"] if "Map" in str(lines) else []
    if "Down" in str(lines):
        layer = ["layer Down(z_d) -> h_x:", "weights I_dx", "return z_d I_dx"]
    if "Turn" in str(lines):
        layer = [
            "layer Turn(z_d) -> z_d:",
            "weights I_dx, U_xd",
            "for c < C:",
            "  z_d <- z_d + tanh(z_d' I_d'x) U_xd",
            "return z_d",
        ]
    head = [
        "model M(z_bsd) -> z_bsd causal in s:",
        *(["weights U_xd"] if "Down" in str(lines) else [] if layer else ["weights I_dx, U_xd"]),
    ]
    sizes = {"D": 5, "X": 3, "L": 3} | ({"C": 2} if "C" in str((layer, lines)) else {})
    text = texts_spec("b, s, d, x, l: L" + ", c: C" * ("C" in sizes), *layer, *head, *lines)["M"]
    model = text.bind(**sizes)
    module = model.build(device="meta", plan="notation").eval()
    with FlopCounterMode(display=False) as counter:
        module(torch.zeros(2, 7, 5, device="meta")).sum().backward()  # type: ignore[no-untyped-call]
    counts = flops(model, "notation", B=2, S=7)
    assert sum(count.total + count.backward for count in counts) == counter.get_total_flops()
    assert text.flops("notation").subs({"B": 2, "S": 7, **sizes}) == sum(c.each * c.times for c in counts)


def test_what_differs_from_turn_to_turn_has_no_formula() -> None:
    """Forward all turns are alike."""
    lines = ("y_bsd = z_bsd", "for l < L:", "  z_bsd <- tanh(z_bsd)", "  y_bsd <- z_bsd' W_d'd", "return y_bsd")
    text = texts_spec("b, s, d, l: L", "model M(z_bsd) -> z_bsd causal in s:", "weights W_d'd", *lines)["M"]
    counts = rules.count_flops(text.tree, text.name, Symbols.of(text.tree))
    assert str(sum(count.spent("forward") for count in counts)) == "2*B*D**2*L*S"
    with pytest.raises(EinformerError, match=r"E607 .* differs from turn to turn"):
        sum(count.spent("training") for count in counts)


@pytest.mark.parametrize("plan", ["notation", "fast"])
def test_a_scaled_input_has_a_gradient_where_a_plan_scales_it(plan: Literal["notation", "fast"]) -> None:
    """`fast` scales the input of a linear map; einsum multiplies the gain and the matrix first, which takes less."""
    lines = ["model M(z_bsd) -> y_bsx causal in s:", "weights I_dx, γ_d", "return z_bsd γ_d I_dx"]
    model = texts_spec("b, s, d, x", *lines).bind(D=5, X=3)
    module = model.build(device="meta", plan=plan).eval()
    with FlopCounterMode(display=False) as counter:
        module(torch.zeros(2, 7, 5, device="meta")).sum().backward()  # type: ignore[no-untyped-call]
    assert model.flops(convention=plan, phase="training", B=2, S=7) == counter.get_total_flops()


def test_a_map_that_only_chooses_is_not_packed_with_one_that_learns() -> None:
    """It would get a gradient with it."""
    lines = ["p_x = z_d N_xd", "y_x = where(top_{1,x} p_x, 1, 0)", "w_x = z_d J_dx", "return y_x silu(w_x) s_xd"]
    model = texts_spec("d, x", "model M(z_d) -> y_d:", "weights J_dx, N_xd, s_xd", *lines).bind(D=6, X=2)
    module = model.build(device="meta", plan="fast").eval()
    with FlopCounterMode(display=False) as counter:
        module(torch.zeros(6, device="meta")).sum().backward()  # type: ignore[no-untyped-call]
    assert model.flops(convention="fast", phase="training") == counter.get_total_flops()


# What the gradients of operators that multiply no matrices are made of.
GRADIENTS = (
    "new_empty_strided", "embedding_dense_backward", "native_layer_norm_backward", "_softmax_backward_data", "gelu_backward",
    "tanh_backward", "sgn", "index_put_", "select_backward", "slice_backward", "native_dropout_backward", "silu_backward",
    "index_put", "sigmoid_backward", "_index_put_impl_", "value_selecting_reduction_backward", "threshold_backward",
)  # fmt: skip


def test_what_needs_no_gradient_costs_nothing() -> None:
    """A constant matrix, and what depends on nothing that is trained."""
    model = texts_spec(
        "b, s, d, e",
        "model M(x_bs) -> y_bse causal in s:",
        "weights P_de",
        "t_sd = where(s < d + 3, cos(s d), 0)",
        "y_se = t_sd P_de",
        "return x_bs y_se",
    ).bind(D=3, E=5)
    (count,) = (count for count in flops(model, "torch", B=2, S=7) if count.each)
    assert (count.each, count.backward) == (2 * 7 * 3 * 5, 2 * 7 * 3 * 5)


@pytest.mark.parametrize(
    ("weights", "gradients"), [(("weights P_de", "buffers Q_de = P_de"), 2), (("buffers P_de", "weights Q_de = P_de"), 1)]
)
def test_a_weight_that_is_tied_has_the_gradient_of_the_other(weights: tuple[str, str], gradients: int) -> None:
    """Whether a product costs two products backward or one says the weight that is stored: as torch counts."""
    lines = (*weights, "weights E_d", "y_bse = tanh(z_bsd E_d) Q_de", "return y_bse P_de")
    model = texts_spec("b, s, d, e", "model M(z_bsd) -> z_bsd causal in s:", *lines).bind(D=3, E=5)
    module, z = model.build(device="meta", plan="notation").eval(), torch.zeros(2, 7, 3, device="meta")
    total = counted(lambda: module(z).sum().backward(), *GRADIENTS, gradients=True).total()  # type: ignore[no-untyped-call]
    counts = [count for count in flops(model, "notation", B=2, S=7) if count.each]
    assert sum(count.total + count.backward for count in counts) == total
    assert {count.backward // count.each for count in counts} == {gradients}


WINDOWS = """axes
  b: B
  s: S
  d: D
  l: L
scalars
  W_l = [2, 5, 3]
model M(z_bsd) -> z_bsd causal in s:
  for l < L:
    {}
    z_bsd <- w_bss' z_bs'd
  return z_bsd
"""


@pytest.mark.parametrize("convention", ["chinchilla", "exact", "torch"])
def test_a_softmax_has_no_axis_for_the_letter_of_a_loop(convention: str) -> None:
    """A mask counts the same on a line of its own and inside the softmax."""
    mask, softmax = "where(s - W_l < s' <= s, 0, -inf)", "w_bss' = Sm_s'(z_bsd z_bs'd + {})"
    named = softmax.format("m_ss'")
    spellings = f"m_ss' = {mask}\n    {named}", softmax.format(mask)
    apart, inside = (einformer.parse(WINDOWS.format(lines)).bind(D=3, L=3) for lines in spellings)
    first, second = (model.flops(convention=convention, B=2, S=7) for model in (apart, inside))
    assert first == second > 0


def test_a_table_is_an_embedding_whatever_number_it_is_read_at() -> None:
    """There is a row for each position; OPT reads the third for the first. A matrix over the same axis is not read by rows."""
    head, table = "model M(x_bs) -> y_bsd causal in s:", "weights E_vd, P_kd, R_kd"
    spellings = ("K", "P_{s d}"), ("K + 2", "P_{(s + 2) d}"), ("K + 2", "n_s = s + 2 | P_{n_s d}")
    for size, spelling in spellings:
        *lines, row = spelling.split(" | ")
        axes = f"b: B, s: S <= K, d, v, k: {size}"
        model = texts_spec(axes, head, table, *lines, f"return (E_{{x_bs d}} + {row}) mean_k R_kd").bind(D=3, V=5, K=9)
        held = [count for part in model.summary(B=2, S=7).parts for count in part.weights]
        assert {count.name for count in held if count.embedding} == {"E", "P"}


# --------------------------------------------------------------------------------------------------- activations

B, S, D, A, L, t, p, a, h, s, b = sympy.symbols("B S D A L t p a h s b")


def letters_kept(
    spec: Specification,
    element: sympy.Expr | int,
    recompute: Any = "none",
    shards: dict[str, sympy.Expr] | None = None,
) -> tuple[Any, ...]:
    shares = tuple((frozenset(letters.split()), ranks) for letters, ranks in (shards or {}).items())
    sizes = Symbols(Symbols.of(spec.tree).legend, shares=shares)
    return rules.count_activations(spec.tree, spec.name, sizes, element, recompute)


def block(element: sympy.Expr | int = 2, recompute: Any = "none", shards: dict[str, sympy.Expr] | None = None) -> sympy.Expr:
    """The bytes of one layer of GPT-2, E = 4, in letters."""
    found = letters_kept(einformer.load("gpt2"), element, recompute, shards)
    inside = rules.total(each.total for each in found if any(turn != 1 for turn in each.turns))
    return sympy.expand(inside.subs("E", 4) / L)


TENSOR, SEQUENCE = {"a d' f": t}, {"a d' f s": t}


@pytest.mark.parametrize(
    ("recompute", "shards", "expected"),
    [
        ("none", None, S * B * D * (34 + 5 * A * S / D)),
        ("none", TENSOR, S * B * D * (10 + 24 / t + 5 * A * S / (D * t))),
        ("none", SEQUENCE, S * B * D / t * (34 + 5 * A * S / D)),
        ("selective", TENSOR, S * B * D * (10 + 24 / t)),
        ("selective", SEQUENCE, 34 * S * B * D / t),
        ("full", None, 2 * S * B * D),
    ],
)
def test_activations_are_those_of_korthikanti(
    recompute: Any, shards: dict[str, sympy.Expr] | None, expected: sympy.Expr
) -> None:
    """arXiv 2205.05198, table 2."""
    assert sympy.expand(block(2, recompute, shards) - expected) == 0


def test_activations_at_any_precision_are_those_of_the_notes() -> None:
    """transformers_notes 2.1: 2 (p (E + 4) + 1) B D L S + (2 p + 1) A B L S²; at p = 4 66 D + 9 A S, where they print 15."""
    assert sympy.expand(block(p) - (2 * B * D * S * (8 * p + 1) + (2 * p + 1) * A * B * S**2)) == 0
    assert sympy.expand(block(4) - B * S * (66 * D + 9 * A * S)) == 0


LOOPED = """axes
  b: B
  s: S
  d: D
  l: L

layer Looped(z_bsd) -> z_bsd:
  weights W_ldd', V_ldd', U_ldd'
  for l < L:
    z_bsd <- relu(z_bsd' W_ld'd)
    z_bsd <- z_bsd' V_ld'd'' U_ld''d
  return z_bsd
"""


def test_a_weight_with_the_letter_of_a_loop_keeps_one_turn() -> None:
    """The input of the turn, what relu puts out, and V U, which lies between two products."""
    looped = einformer.parse(LOOPED)
    kept = sum(each.total for each in letters_kept(looped, 1))
    b, s, d, turns = sympy.symbols("B S D L")
    assert sympy.expand(kept - turns * (2 * b * s * d + d * d)) == 0


@pytest.mark.parametrize(("second", "tensors"), [("k_bsd", 2), ("q_bsd", 1)])
def test_each_call_of_a_layer_keeps_its_own(second: str, tensors: int) -> None:
    """What a layer without weights makes of two tensors are two, and of one tensor one (queries and keys that are turned)."""
    half = ("layer Half(z_d) -> z_d:", "  return tanh(z_d)")
    lines = ("weights P_d, Q_d", "q_bsd = z_bsd P_d", "k_bsd = z_bsd Q_d", f"return Half(q_bsd) Half({second}) + k_bsd")
    spec = texts_spec("b, s, d", *half, "layer N(z_bsd) -> z_bsd:", *lines)
    kept = letters_kept(spec, 1)
    assert sum(each.layer == "Half" for each in kept) == tensors


def test_activations_outside_of_the_blocks() -> None:
    """Korthikanti et al., section 4.3: a dropout mask, the last norm's input, the input of the output layer."""
    found = letters_kept(einformer.load("gpt2"), 2)
    assert sympy.expand(rules.total(each.total for each in found if all(turn == 1 for turn in each.turns)) - 5 * B * D * S) == 0


@pytest.mark.parametrize("name", ["gpt2", "llama", "mixtral", "gpt_oss", "deepseek_v3", "mamba2"])
def test_activations_in_numbers_are_those_in_letters(name: str) -> None:
    model = small(name)
    legend = model.at(B=2, S=7)
    inside = [row for part in model.summary(B=2, S=7).parts for row in part.activations]
    letters = rules.count_activations(model.spec.tree, model.spec.name, Symbols(model.legend), 2)
    same_row = operator.attrgetter("path", "text", "what")
    for ours, formula in zip(sorted(inside, key=same_row), sorted(letters, key=same_row), strict=True):
        values = {symbol: legend.number(einformer.language.tree.Name(symbol.name)) for symbol in formula.total.free_symbols}
        assert formula.total.subs(values) == ours.total


# ------------------------------------------------------------------------------------------------ bytes of training


@pytest.mark.parametrize(
    ("precision", "bytes_each"), [("float32", 16), ("bfloat16", 18), ("float16", 16), ("megatron-float16", 20)]
)
def test_bytes_per_parameter_are_the_published_ones(precision: str, bytes_each: int) -> None:
    """ZeRO, Megatron-LM and the notes: 16 has two decompositions."""
    memory = published("gpt2").memory(precision=precision, B=1, S=8)
    assert memory.total - memory.activations - memory.logits == bytes_each * 124_439_808


def test_shared_parameters_and_states() -> None:
    """ZeRO, figure 1: 7.5 billion parameters, 64 ranks, 16 bytes each: 120, 31.4, 16.6 and 1.9 GB."""
    model = published("gpt2")
    whole = 16 * model.num_parameters
    over: dict[str, Any] = {"precision": "float16", "mesh": "dp=64", "shard": "dp: b"}
    held = [model.memory(B=64, S=64, zero=zero, **over) for zero in range(4)]
    state = [each.total - each.activations - each.logits for each in held]
    assert state == [whole, whole * (4 * 64 + 12) // (16 * 64), whole * (2 * 64 + 14) // (16 * 64), whole // 64]
    assert [round(7.5 * each / model.num_parameters, 1) for each in state] == [120.0, 31.4, 16.6, 1.9]


def test_tensor_parallel_parameters() -> None:
    """A third of the heads and of the MLP; embeddings, norms and the biases behind a sum are whole on each device."""
    model = published("gpt2")
    shared = 12 * (4 * 768**2 + 3 * 768 + 2 * 4 * 768**2 + 4 * 768)
    assert model.memory(B=1, S=8, mesh="tp=3", shard="tp: a d' f").parameters == 2 * (
        model.num_parameters - shared + shared // 3
    )


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"mesh": "tp=2", "shard": "tp: x"}, "E741 no index `x` is declared"),
        ({"mesh": "tp=5", "shard": "tp: a"}, "E742 `a` has 12 numbers, which 5 ranks of `tp` cannot share"),
        ({"mesh": "dp=2", "shard": "dp: b"}, "E742 `b` has 1 numbers, which 2 ranks of `dp` cannot share"),
        ({"mesh": "tp=0", "shard": "tp: a"}, "E741 `tp=0` is not an axis of a mesh"),
        ({"zero": 4}, "E605 there is no stage 4 of ZeRO"),
    ],
)
def test_what_cannot_be_shared_is_said(wrong: dict[str, Any], said: str) -> None:
    with pytest.raises(EinformerError) as refused:
        published("gpt2").memory(B=1, S=8, **wrong)
    assert said in str(refused.value)


def test_a_training_step_of_transformers_is_counted_to_the_unit() -> None:
    """GPT2LMHeadModel on the meta device with eager attention: forward and backward, B = 1, S = 1024."""
    with torch.device("meta"):
        config = AutoConfig.for_model("gpt2")
        models: Any = AutoModelForCausalLM
        theirs = models.from_config(config, attn_implementation="eager").eval()
        tokens = torch.zeros(1, 1024, dtype=torch.long)
        mask = torch.zeros(1, 1, 1024, 1024)
    found = counted(lambda: theirs(tokens, attention_mask=mask).logits.sum().backward(), *GRADIENTS, gradients=True).total()
    assert published("gpt2").flops(B=1, S=1024, phase="training") == found == 874_944_921_600


def test_a_part_that_no_turn_calls_costs_nothing() -> None:
    """With one turn, the layer of odd turns is never called."""
    lines = ["layer Odd(z_d) -> z_d:", "weights W_dd'", "return z_d' W_d'd", "model M(z_bsd) -> z_bsd causal in s:"]
    lines += ["for l < L:", "  z_bsd <- z_bsd + where(l mod 2 == 0, tanh(z_bsd), Odd_l(z_bsd))", "return z_bsd"]
    model = texts_spec("b, s, d, l: L", *lines)["M"].bind(D=5, L=1)
    assert model.flops(B=2, S=7) == model.flops(B=2, S=7, phase="training") == 0
