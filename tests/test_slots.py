"""A slot means the same in the reference, both plans and decoding, however it is written; what leaves its axis is refused."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import einformer
from einformer import EinformerError
from einformer.objects import Model
from tests.refusals import refuses
from tests.small import PLANS, Array, built, error, inputs, weights
from tests.test_decode import decoded
from tests.texts import text

POSITIONS = 7


def main(axes: str, *body: str, head: str = "z_bsd) -> y_bsd") -> str:
    """A text with one causal model."""
    return text(f"b, {axes}", f"model Main({head} causal in s:", *body)


def model(axes: str, *body: str, head: str = "z_bsd) -> y_bsd", **sizes: int) -> Model:
    """The model of such a text."""
    return einformer.parse(main(axes, *body, head=head)).bind(**sizes)


def agrees(bound: Model, plan: str, given: list[Array] | None = None) -> None:
    """A plan computes what the reference computes, at once and in parts."""
    arrays = given or inputs(bound, {"S": POSITIONS})
    expected = bound.reference(*arrays, weights=weights(bound))
    module = built(bound, plan)
    assert error(module(*map(torch.from_numpy, arrays)), expected) < 1e-12
    assert error(decoded(module, arrays, [3, 1, POSITIONS - 4])[0], expected) < 1e-12


# ----------------------------------------------------------------------------------------------------- before the start

BEFORE = {
    "a name": ("n_s = s - 1", "return z_bsd + z_{b n_s d}"),
    "a name of two indices": ("n_sd = s - d", "return z_bsd + z_{b n_sd d}"),
    "a name, and a group": ("n_s = s - 2", "v_bsih = z_{b n_s (ih)}", "return z_bsd + (sum_i (sum_h v_bsih))"),
    "a name, and a turned group": ("n_s = s - 2", "v_bsih = z_{b n_s ((1 - i)h)}", "return z_bsd + (sum_i (sum_h i v_bsih))"),
    "a sum": ("return z_bsd + z_{b(2 s - s - 1)d}",),
    "a sum that is guarded": ("return z_bsd + where(s > 1, z_{b(s - 1)d}, 1)",),
    "a name that is guarded": ("n_s = s - 3", "return z_bsd + where(s > 1, z_{b n_s d}, 1)"),
    "a recurrence of numbers": ("n_s = where(s == 0, 0, n_{(s - 1)} + 1)", "return z_bsd + n_s"),
    "a number": ("return z_bsd + z_{b(-1)d}",),
    "a product": ("return z_bsd + z_{b(-s)d}",),
}


@pytest.mark.parametrize("plan", PLANS)
@pytest.mark.parametrize("case", BEFORE)
def test_before_the_start_of_time_is_zero_however_it_is_computed(case: str, plan: str) -> None:
    grouped = ", i: 2, h: D / 2" * ("group" in case)
    agrees(model(f"s, d{grouped}", *BEFORE[case], D=6), plan)


# ------------------------------------------------------------------------------------------------- computed look-ups

LOOKED_UP = {
    "halves": ("weights R_nd", "n_s = min(floor(s / 2), N - 1)", "return z_bsd + R_{n_s d}"),
    "the second slot": ("weights R_dn", "n_s = min(floor(s / 2), N - 1)", "return z_bsd + R_{d n_s}"),
    "logarithms": (
        "weights r_n",
        "c_ss' = s - s'",
        "n_ss' = where(c_ss' < 2, c_ss', min(2 + floor(log(max(c_ss', 1) / 2) / log(2)), N - 1))",
        "w_bss' = Sm_s'(z_bsd z_bs'd + where(s' <= s, r_{n_ss'}, -inf))",
        "return w_bss' z_bs'd",
    ),
    "a recurrence": ("weights R_nd", "n_s = where(s == 0, 0, (n_{(s - 1)} + 1) mod N)", "return z_bsd + R_{n_s d}"),
    "weights": ("weights R_nd, W_d", "r_bs = z_bsd W_d", "n_bs = floor(N sigmoid(r_bs))", "return R_{n_bs d}"),
    "a number that changes": ("weights R_nd", "n_s = s", "n_s <- n_s mod N", "return z_bsd + R_{n_s d}"),
    "a number that is halved": ("weights R_nd", "n_s = s", "n_s <- min(floor(n_s / 2), N - 1)", "return z_bsd + R_{n_s d}"),
    "every second feature": ("return z_bsd + where(2 d < D, z_{bs(2 d)}, 0)",),
    "of a table what is before": ("weights r_n", "return z_bsd + where(s > 0 and s < N, r_{(s - 1)}, 0)"),
}


@pytest.mark.parametrize("plan", PLANS)
@pytest.mark.parametrize("case", LOOKED_UP)
def test_a_table_is_read_at_computed_numbers(case: str, plan: str) -> None:
    used = "s, d, n" if any("N" in line for line in LOOKED_UP[case]) else "s, d"
    agrees(einformer.parse(main(used, *LOOKED_UP[case])).bind(**{"D": 6} | ({"N": 4} if "n" in used else {})), plan)


TOKENS = {
    "arithmetic": ("n_bs = (3 x_bs + 1) mod V", "return E_{n_bs d}"),
    "arithmetic, and as they are": ("n_bs = (3 x_bs + 1) mod V", "return E_{n_bs d} + E_{x_bs d}"),
    "halves": ("n_bs = floor(x_bs / 2)", "return E_{n_bs d}"),
    "the one before": ("c_bs = where(s > 0, x_{b(s - 1)}, 0)", "return E_{c_bs d}"),
    "the one before, guarded": ("return where(s > 0 and d > 0, E_{x_{b(s - 1)} d}, 0)",),
    "compared": ("return where(x_bs == 1, 2, 3) E_{x_bs d}",),
    "changed": ("x_bs <- (x_bs + 1) mod V", "return E_{x_bs d}"),
    "positions too": ("n_bs = (x_bs + s) mod V", "return E_{n_bs d} + x_bs / 7"),
}


@pytest.mark.parametrize("plan", PLANS)
@pytest.mark.parametrize("case", TOKENS)
def test_tokens_are_read_through_arithmetic(case: str, plan: str) -> None:
    bound = model("s, d, v", "weights E_vd", *TOKENS[case], head="x_bs) -> y_bsd", D=6, V=5)
    given = np.random.default_rng(0).integers(5, size=(2, POSITIONS))
    agrees(bound, plan, [given])


@pytest.mark.parametrize("plan", PLANS)
def test_tokens_that_are_compared_alone_have_any_dtype(plan: str) -> None:
    """They stand in no slot."""
    bound = model("s, d", "weights P_d", "return where(x_bs == 1, 0.1, 3) P_d", head="x_bs) -> y_bsd", D=6)
    given = np.random.default_rng(0).integers(3, size=(2, POSITIONS))
    for tokens in given, given.astype(np.int32), given.astype(np.float32), given.astype(float):
        agrees(bound, plan, [tokens])


@pytest.mark.parametrize("plan", PLANS)
def test_a_layer_reads_the_tokens_that_it_is_given(plan: str) -> None:
    lines = ["layer Look(x_s) -> z_sd:", "weights E_vd", "return E_{x_s d}"]
    whole = text("b, s, d, v", *lines, "model Main(x_bs) -> y_bsd causal in s:", "return Look(x_bs)")
    agrees(einformer.parse(whole).bind(D=6, V=5), plan, [np.random.default_rng(0).integers(5, size=(2, POSITIONS))])


# ----------------------------------------------------------------------------------------------- what leaves its axis

OUTSIDE = {
    "a sign": ("s: S <= K, d, k", ["weights r_k", "return z_bsd + where(s > 2, r_{(2 - s)}, 0)"], {}),
    "a token before the start": ("s, d, v", ["weights E_vd", "return E_{x_{b(s - 1)} d}"], {"head": "x_bs) -> y_bsd"}),
    "a name": ("s, d, k", ["weights R_kd", "n_s = s - 1", "return z_bsd + R_{n_s d}"], {}),
    "a feature before the first": ("s, d", ["n_d = d - 1", "return z_bsd + z_{b s n_d}"], {}),
    "a scalar": ("s, d", ["return z_bsd + θ_{(d - 1)}"], {"scalars": "θ_d = 1"}),
    "what data guard": ("s, d, k", ["weights R_kd", "return z_bsd + where(z_bsd > 0, R_{(s - 1)d}, 0)"], {}),
    "a layer in a branch": ("s, d", ["return where(d > 0, Twice(z_{bs(d - 1)}), 0)"], {}),
}


@pytest.mark.parametrize("case", OUTSIDE)
def test_what_leaves_its_axis_whatever_its_size_is_refused_by_the_check(case: str) -> None:
    axes, body, more = OUTSIDE[case]
    twice = ["layer Twice(z_d) -> z_d:", "return 2 z_d"] if "Twice" in body[-1] else []
    head = more.get("head", "z_bsd) -> y_bsd")
    written = text(f"b, {axes}", *twice, f"model Main({head} causal in s:", *body, scalars=more.get("scalars", ""))
    with refuses("E309"):
        einformer.parse(written)


FAR = ["weights r_k", "w_bss' = Sm_s'(z_bsd z_bs'd + where(s' <= s, r_{(s - s')}, -inf))", "return w_bss' z_bs'd"]


def test_a_distance_is_inside_a_table_as_long_as_the_positions() -> None:
    for plan in PLANS:
        agrees(model("s: S <= K, d, k", *FAR, D=4, K=POSITIONS), plan)


def test_a_distance_beyond_a_table_is_refused_once_its_size_is_bound() -> None:
    with refuses("E309", "r", "5", "0"):
        model("s, d, k", *FAR, D=4, K=5)


def test_a_number_that_is_not_whole_is_refused_in_a_slot() -> None:
    for number in ("z_bsd W_d", "s / 2", "where(s > 0, 0.5, 1)", "sqrt(s)", "Half(s)"):
        half = ["layer Half(n) -> m:", "return n / 2"] if "Half" in number else []
        lines = [*half, "model Main(z_bsd) -> y_bsd causal in s:", "weights R_kd, W_d", f"n_bs = {number} + 0 (z_bsd W_d)"]
        with pytest.raises(EinformerError, match="E310"):
            einformer.parse(text("b, s, d, k", *lines, "return R_{n_bs d}"))


@pytest.mark.parametrize("plan", PLANS)
def test_what_data_decide_is_checked_when_it_runs(plan: str) -> None:
    """Nothing is clamped; where the number is not read it may be any."""
    bound = model("s, d, v", "weights E_vd", "n_bs = x_bs + 1", "return E_{n_bs d}", head="x_bs) -> y_bsd", D=4, V=5)
    agrees(bound, plan, [np.array([[0, 1, 3, 2, 0, 1, 3]])])
    with pytest.raises(RuntimeError, match="a slot leaves its axis, which has 5 numbers"):
        built(bound, plan)(torch.tensor([[0, 4]]))
    body = ("weights E_vd", "n_bs = x_bs - 3", "return where(x_bs > 2, E_{n_bs d}, 0)")
    guarded = model("s, d, v", *body, head="x_bs) -> y_bsd", D=4, V=5)
    agrees(guarded, plan, [np.array([[0, 1, 3, 2, 0, 1, 7]])])
    with pytest.raises(RuntimeError, match="a slot leaves its axis"):
        built(guarded, plan)(torch.tensor([[8, 1]]))


def test_what_is_proved_to_lie_inside_is_not_checked_when_it_runs() -> None:
    assert "inside(" not in einformer.load("glm4").bind(V=11, D=8, A=2, G=1, L=1, F=5, R=2).source()


# ------------------------------------------------------------------------------------------- numbers, as they are whole

NUMBERS = {
    "the sum of numbers": ("n = sum_i(i)", "return z_bsd + 0.1 n"),
    "numbers that change": ("n_s = s", "n_s <- n_s + 1", "return z_bsd + 0.1 n_s"),
    "numbers that change, in a function": ("n_s = s", "n_s <- 2 n_s", "return z_bsd log(n_s + 1)"),
    "a number that changes": ("n = 3", "n <- n + 1", "return z_bsd sqrt(n / 7)"),
    "a bound that is broken": ("n_s = max(s, 0.1)", "return z_bsd + n_s"),
}


@pytest.mark.parametrize("plan", PLANS)
@pytest.mark.parametrize("case", NUMBERS)
def test_whole_numbers_are_computed_with_as_finely_as_all(case: str, plan: str) -> None:
    axes = "s, d, i: 3" if "_i" in NUMBERS[case][0] else "s, d"
    agrees(model(axes, *NUMBERS[case], D=4), plan)


@pytest.mark.parametrize("plan", PLANS)
@pytest.mark.parametrize("first", ["0", "floor(s / 2)"])
def test_a_recurrence_of_whole_numbers_is_exact_in_any_dtype(first: str, plan: str) -> None:
    """At once and in parts; half a dtype knows no number between 256 and 258. What is kept is counted."""
    bound = model("s, d", f"n_s = where(s == 0, {first}, n_{{(s - 1)}} + 1)", "return where(n_s == s, z_bsd, 0)", D=1)
    module, ones = bound.build(plan=plan, dtype=torch.bfloat16), torch.ones(1, 600, 1, dtype=torch.bfloat16)
    assert (module(ones) == 1).all()
    cache = module.cache()
    assert all((module.decode(part, cache=cache) == 1).all() for part in torch.split(ones, [400, 1, 199], 1))
    assert cache.bytes == bound.cache_bytes(S=600, precision=torch.bfloat16).total


# ---------------------------------------------------------------------------------------- branches that are not taken

LAZY = {
    "a root": "where(z_bsd > 0, sqrt(z_bsd), 0)",
    "a root of a product": "where(z_bsd > 0, sqrt(2 z_bsd) W_d, 0)",
    "a quotient": "where(z_bsd > 0, 1 / z_bsd, 0)",
    "a sum over a divisor": "where(z_bsd == 0, 0, z_bsd' W_d' / z_bsd)",
    "the other branch": "where(z_bsd <= 0, 0, log(z_bsd))",
    "branches in branches": "where(z_bsd > 0, where(z_bsd < 1, sqrt(1 - z_bsd), 2), 0)",
    "a power": "where(z_bsd > 0, z_bsd^1.5, 0)",
    "a negative power": "where(z_bsd == 0, 0, z_bsd^(-2))",
    "what overflows": "where(z_bsd > 0, exp(-1000 z_bsd), 0)",
    "a condition on positions": "where(s > 2, sqrt(abs(z_bsd)), 0)",
    "a root with a name": ("r_bsd = sqrt(z_bsd)", "where(z_bsd > 0, r_bsd, 0)"),
    "a root in a value with a name": ("r_bsd = sqrt(z_bsd)", "u_bsd = 2 r_bsd + 1", "where(z_bsd > 0, u_bsd W_d, 0)"),
    "a condition with a name": ("r_bsd = log(z_bsd)", "p_bsd = where(z_bsd > 0, 1, 0)", "where(p_bsd == 1, r_bsd, 0)"),
    "two branches that read a name": ("r_bsd = sqrt(z_bsd)", "where(z_bsd > 0, r_bsd, 0) + where(z_bsd > 0, 2 r_bsd, 1)"),
    "a condition on the root": ("r_bsd = 1 / z_bsd", "where(z_bsd != 0, r_bsd, 0)"),
    "a root in a loop": ("for l < 2:", "  r_bsd = sqrt(z_bsd)", "  z_bsd <- where(z_bsd > 0, r_bsd, 0)", "z_bsd"),
    "a condition on a reduction": ("r_bsd = sqrt(z_bsd)", "where(min(z_bsd, max_d z_bsd) > 0, r_bsd, 0)"),
    "a condition on a later product": (
        "r_bsd = sqrt(z_bsd)",
        "u_bsd = 2 r_bsd + 1",
        "q_bsd = z_bsd W_d' W_d'",
        "where(q_bsd > 0, u_bsd W_d, 0)",
    ),
    "a condition on a later state": (
        "r_bsd = log(z_bsd)",
        "S_bsd = tanh(S_{b(s - 1)d}) / 9 + 9 z_bsd",
        "where(S_bsd > 0 and z_bsd > 0, r_bsd, 0)",
    ),
    "a root under a sum": (
        "r_bsd = sqrt(z_bsd)",
        "where(z_bsd >= 0, mean_d(1 / (9 + z_bsd)) + where(z_bsd > 0, r_bsd, 0), 0)",
    ),
}


@pytest.mark.parametrize("plan", PLANS)
@pytest.mark.parametrize("case", LAZY)
def test_gradients_do_not_feel_a_branch_that_is_not_taken(case: str, plan: str) -> None:
    """They are the differences of the reference, along a random direction."""
    *named, last = [LAZY[case]] if isinstance(LAZY[case], str) else LAZY[case]
    body = ["weights W_d"] if "W" in last else []
    bound = model("s, d" + ", l: 2" * ("for l < 2:" in named), *body, *named, f"return {last}", D=5)
    draw = np.random.default_rng(0)
    z, lean = draw.standard_normal((1, POSITIONS, 5)), draw.standard_normal((1, POSITIONS, 5))
    z[0, :2, :2] = 0
    lean[0, :2, :2] = 0
    agrees(bound, plan, [z])
    x = torch.from_numpy(z).requires_grad_()
    built(bound, plan)(x).sum().backward()
    assert x.grad is not None
    high, low = (bound.reference(z + step * lean, weights=weights(bound)).sum() for step in (1e-7, -1e-7))
    assert float((x.grad.numpy() * lean).sum()) == pytest.approx((high - low) / 2e-7, rel=1e-4, abs=1e-4)


# ------------------------------------------------------------------------------------- letters inside and outside of operators

SHADOWED = {
    "a root under a sum": "where(z_bsd > 0, (sum_d sqrt(abs(z_bsd))), 0)",
    "a mean of quotients": "where(z_bsd > 0, mean_d(1 / z_bsd), 0)",
    "a softmax": "where(z_bsd > 0, Sm_d(1 / z_bsd), 0)",
    "a norm": "where(z_bsd > 1, z_bsd / sqrt(mean_d(1 / z_bsd^2)), z_bsd)",
    "a product": "where(z_bsd > 0, (sum_d (W_d / z_bsd)), 0)",
    "sums in sums": "where(z_bsd > 0, (sum_d (log(abs(z_bsd)) (sum_d (1 / z_bsd)))), 0)",
    "branches in branches": "where(z_bsd > 0, (sum_d where(z_bsd > 1, 1 / z_bsd, sqrt(abs(z_bsd)))), 0)",
    "a name": ("r_bsd = sqrt(abs(z_bsd))", "where(z_bsd > 0, (sum_d r_bsd), 0)"),
    "a name beside its branch": ("r_bsd = sqrt(abs(z_bsd))", "r_bsd + where(z_bsd > 0, r_bsd, 0)"),
    "a name in other branches": ("r_bsd = 1 / z_bsd", "where(z_bsd > 0, r_bsd, 0) + where(z_bsd < -1 / 2, r_bsd, 0)"),
    "a name in both branches": ("r_bsd = 1 / z_bsd", "where(z_bsd > 0, r_bsd, -r_bsd)"),
    "a name at other positions": ("r_bsd = 1 / z_bsd", "m_bsdd' = where(z_bsd > 0, r_bsd', 0)", "m_bsdd' W_d'"),
    "a name in the next turn": (
        "r_bsd = z_bsd",
        "for l < 2:",
        "  z_bsd <- z_bsd + r_bsd / 2",
        "  r_bsd <- 1 / (abs(z_bsd) + 1)",
        "  z_bsd <- z_bsd + where(z_bsd > 0, r_bsd, 0)",
        "z_bsd",
    ),
    "a name before a change": (
        "r_bsd = sqrt(abs(z_bsd))",
        "z_bsd <- z_bsd / 2",
        "q_bsd = z_bsd W_d' W_d'",
        "where(q_bsd > 0, r_bsd W_d, 0)",
    ),
    "other positions": "where(z_bsd > 0, W_d' z_bsd' / abs(z_bsd'), 0)",
}


@pytest.mark.parametrize("plan", PLANS)
@pytest.mark.parametrize("case", SHADOWED)
def test_a_condition_is_not_about_the_letters_of_an_operator_in_its_branch(case: str, plan: str) -> None:
    *named, last = [SHADOWED[case]] if isinstance(SHADOWED[case], str) else SHADOWED[case]
    body = ["weights W_d"] if "W" in last else []
    agrees(model("s, d" + ", l: 2" * ("for l < 2:" in named), *body, *named, f"return {last}", D=5), plan)


@pytest.mark.parametrize("plan", PLANS)
def test_a_condition_is_computed_where_it_is_known(plan: str) -> None:
    """One that is made of a later value is not there yet where the root stands."""
    lines = ("r_bsd = sqrt(abs(z_bsd))", "for l < 2:", "  z_bsd <- where(z_bsd > 0, r_bsd, z_bsd / 2) W_d", "return z_bsd")
    agrees(model("s, d, l: 2", "weights W_d", *lines, D=5), plan)


@pytest.mark.parametrize("operator", ["(sum_d T_{(d + 3)})", "mean_d(T_{(d + 3)})", "(sum_d z_bsd T_{(d + 3)})"])
def test_a_condition_does_not_guard_the_slots_of_an_operator_over_its_letter(operator: str) -> None:
    with refuses("E309"):
        einformer.parse(main("s, d: 5", "weights T_d", f"return where(d < 2, {operator}, 0) + z_bsd")).bind()
    with refuses("E309"):
        einformer.parse(main("s, d: 5", "weights T_d", "return where(d < 3, T_{(d + 3)}, 0) + z_bsd")).bind()
    einformer.parse(main("s, d: 5", "weights T_d", "return where(d < 2, T_{(d + 3)}, 0) + z_bsd")).bind()


def test_an_ordinary_mask_is_as_it_was() -> None:
    lines = ("w_bss' = Sm_s'(z_bsd z_bs'd / sqrt(D) + where(s' <= s, 0, -inf))", "return w_bss' z_bs'd")
    assert "torch.where" not in model("s, d", *lines, D=5).source(plan="fast")
    gated = model("s, d", "return where(s > 2, tanh(z_bsd), z_bsd / 3)", D=5).source(plan="notation")
    assert gated.count("torch.where") == 1
