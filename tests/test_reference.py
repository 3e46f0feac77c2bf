"""Does each construct of the notation mean what the language reference says? Numbers by hand, or one line of NumPy."""

from __future__ import annotations

import math

import numpy as np
import pytest

from einformer import EinformerError
from einformer.objects import Specification
from tests.refusals import refuses
from tests.texts import Array, spec

INF = math.inf


def drawn(*shape: int) -> Array:
    return np.random.default_rng(sum(shape)).standard_normal(shape)


def value(found: Specification, *inputs: object, weights: dict[str, Array] | None = None, **given: object) -> Array:
    """The output of a text whose axes get their sizes from the inputs."""
    bound = found.bind(**given)  # type: ignore[arg-type]
    return bound.reference(*map(np.asarray, inputs), weights=weights or {})


def of_x(expression: str, x: object) -> Array:
    """An expression in the vector x."""
    return value(spec("x", "layer F(x_x) -> y_x:", f"return {expression}"), x)


# ------------------------------------------------------------------------------------------- products and their sums


def test_a_product_sums_what_two_factors_share() -> None:
    x, w = drawn(2, 3), drawn(3, 4)
    found = value(spec("s, d, e", "layer F(x_sd, w_de) -> y_se:", "return x_sd w_de"), x, w)
    assert np.allclose(found, x @ w)


def test_a_wanted_index_is_not_summed() -> None:
    x, g = drawn(2, 3), drawn(3)
    assert np.allclose(value(spec("s, d", "layer F(x_sd, g_d) -> y_sd:", "return x_sd g_d"), x, g), x * g)


def test_each_term_has_its_own_sum() -> None:
    a, b, c = drawn(2, 3), drawn(3), drawn(2)
    found = value(spec("s, d", "layer F(a_sd, b_d, c_s) -> y_s:", "return a_sd b_d + c_s"), a, b, c)
    assert np.allclose(found, a @ b + c)


def test_the_smallest_product_sums() -> None:
    """The gate is one number for each position; the features outside stay."""
    z, w = drawn(2, 3), drawn(3)
    found = value(spec("s, d", "layer F(z_sd, w_d) -> y_sd:", "return sigmoid(z_sd' w_d') z_sd"), z, w)
    assert np.allclose(found, z / (1 + np.exp(-(z @ w)))[:, None])


def test_a_product_in_parentheses_sums_inside() -> None:
    """Attention in one line: e is summed in the scores, s' outside the softmax."""
    q, k, v = drawn(2, 3), drawn(4, 3), drawn(4, 5)
    found = value(spec("s, t, e, u", "layer F(q_se, k_te, v_tu) -> y_su:", "return Sm_t(q_se k_te) v_tu"), q, k, v)
    powers = np.exp(q @ k.T)
    assert np.allclose(found, powers / powers.sum(1, keepdims=True) @ v)


def test_heads_stay_apart_in_one_line() -> None:
    """`a` is wanted: element-wise inside the softmax and outside, two readings for nobody."""
    q, k, v = drawn(2, 3, 2), drawn(4, 3, 2), drawn(4, 5, 2)
    found = value(spec("s, t, e, u, a", "layer F(q_sea, k_tea, v_tua) -> y_sua:", "return Sm_t(q_sea k_tea) v_tua"), q, k, v)
    powers = np.exp(np.einsum("sea,tea->sta", q, k))
    assert np.allclose(found, np.einsum("sta,tua->sua", powers / powers.sum(1, keepdims=True), v))


def test_a_term_without_the_index_leaves_no_choice() -> None:
    """`(a b + c) g`, element by element: c could not be summed."""
    a, b, c, g = (drawn(3) + each for each in range(4))
    found = value(spec("d", "layer F(a_d, b_d, c_d, g_d) -> y_d:", "return (a_d b_d + c_d) g_d"), a, b, c, g)
    assert np.allclose(found, (a * b + c) * g)


def test_a_denominator_is_a_factor() -> None:
    x, y = drawn(3), drawn(3)
    found = value(spec("d", "layer F(x_d, y_d) -> λ:", "return 2 x_d / y_d"), x, y)
    assert np.allclose(found, (2 * x / y).sum())


def test_what_an_operator_sums_is_not_summed_again() -> None:
    x, z = drawn(3), drawn(3) + 1
    found = value(spec("d", "layer F(x_d, z_d) -> λ:", "return (sum_d x_d) (sum_d z_d)"), x, z)
    assert np.allclose(found, x.sum() * z.sum())


def test_softmax_by_hand() -> None:
    assert np.allclose(of_x("exp(x_x) / sum_x exp(x_x)", [0, math.log(3)]), [0.25, 0.75])


# -------------------------------------------------------------------------------------------------------- operators


def test_operators_reduce_the_indices_they_name() -> None:
    x = drawn(2, 3, 4)
    expected = {"sum": x.sum((1, 2)), "mean": x.mean((1, 2)), "max": x.max((1, 2)), "min": x.min((1, 2))}
    for name, each in expected.items():
        found = value(spec("s, d, e", "layer F(x_sde) -> y_s:", f"return {name}_{{de}} x_sde"), x)
        assert np.allclose(found, each)


def test_the_variance_is_the_mean_square_deviation() -> None:
    assert np.allclose(value(spec("d", "layer F(x_d) -> λ:", "return var_d x_d"), [1, 2, 6]), 14 / 3)


def test_a_power_belongs_to_the_argument_of_an_operator() -> None:
    assert value(spec("d", "layer F(x_d) -> λ:", "return mean_d x_d^2"), [1, 3]) == 5


def test_sum_takes_the_rest_of_the_product() -> None:
    x, y = drawn(2, 3), drawn(3)
    assert np.allclose(value(spec("s, d", "layer F(x_sd, y_d) -> z_s:", "return sum_d x_sd y_d"), x, y), x @ y)


def test_softmax_gives_nothing_to_minus_infinity() -> None:
    assert np.array_equal(of_x("Sm_x x_x", [3, -INF, 3]), [0.5, 0, 0.5])


def test_softmax_over_nothing_is_zero() -> None:
    assert np.array_equal(of_x("Sm_x x_x", [-INF, -INF]), [0, 0])


def test_softmax_of_large_numbers_does_not_overflow() -> None:
    assert np.allclose(of_x("Sm_x x_x", [1000, 1000 + math.log(3)]), [0.25, 0.75])


def test_lse_skips_minus_infinity() -> None:
    lse = spec("x", "layer F(x_x) -> λ:", "return lse_x x_x")
    assert np.allclose(value(lse, [math.log(2), -INF, math.log(3)]), math.log(5))
    assert value(lse, [-INF, -INF]) == -INF


def test_top_takes_the_lower_index_of_equals() -> None:
    assert np.array_equal(of_x("where(top_{2,x}(x_x), x_x, 0)", [1, 3, 2, 3, 3]), [0, 3, 0, 3, 0])


def test_top_ranks_along_its_own_index() -> None:
    x = np.array([[1, 2], [4, 3], [5, 0]])
    found = value(spec("s, x", "layer F(r_xs) -> y_xs:", "return where(top_{1,x}(r_xs), 1, 0)"), x)
    assert np.array_equal(found, [[0, 0], [0, 1], [1, 0]])


def test_cumsum_adds_up_to_its_own_position() -> None:
    assert np.array_equal(of_x("cumsum_x x_x", [1, 2, 4]), [1, 3, 7])


def test_an_operator_over_what_does_not_vary_repeats_it() -> None:
    """The index of a slot counts, though the scalar that it selects is one number."""
    assert np.allclose(of_x("x_x - mean_x (x_x - x_x + 2)", [5, 7]), [3, 5])


# -------------------------------------------------------------------------------------------------------- functions


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("gelu(x_x)", [0, 0.8413447460685429]),
        ("gelutanh(x_x)", [0, 0.8411919906082768]),
        ("silu(x_x)", [0, 0.7310585786300049]),
        ("sigmoid(x_x)", [0.5, 0.7310585786300049]),
        ("softplus(x_x)", [0.6931471805599453, 1.3132616875182228]),
        ("tanh(x_x)", [0, 0.7615941559557649]),
        ("cos(x_x π)", [1, -1]),
        ("relu(1 / 2 - x_x)", [0.5, 0]),
        ("log2(x_x + 1)", [0, 1]),
        ("abs(x_x - 3)", [3, 2]),
        ("floor(x_x - 1/2)", [-1, 0]),
        ("ceil(x_x - 1/2)", [0, 1]),
        ("min(x_x, 1/4)", [0, 0.25]),
        ("max(x_x, 1/4)", [0.25, 1]),
        ("(x_x - 3) mod 5", [2, 3]),
        ("Dr(x_x, 1/2)", [0, 1]),
    ],
)
def test_functions_at_zero_and_one(expression: str, expected: list[float]) -> None:
    assert np.allclose(of_x(expression, [0, 1]), expected, rtol=1e-15, atol=1e-15)


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("-x_x^2", [-4, -9]),
        ("(-x_x)^2", [4, 9]),
        ("x_x^-1", [1 / 2, 1 / 3]),
        ("1 - x_x - x_x", [-3, -5]),
        ("1 - 2 x_x", [-3, -5]),
        ("x_x (-2)", [-4, -6]),
        ("-x_x (x_x - 1)", [-2, -6]),
        ("6 x_x / (2 x_x)", [3, 3]),
        ("1 - 6 / x_x", [-2, -1]),
        ("- 2^x_x", [-4, -8]),
    ],
)
def test_signs_and_quotients(expression: str, expected: list[float]) -> None:
    assert np.allclose(of_x(expression, [2, 3]), expected)


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("1 < x_x <= 3", [0, 0, 1, 1, 0]),
        ("0 < x_x < 4 < 5", [0, 1, 1, 1, 0]),
        ("x_x == 2 or x_x == 4", [0, 0, 1, 0, 1]),
        ("not x_x < 2 and x_x != 3", [0, 0, 1, 0, 1]),
        ("x_x mod 2 == 0", [1, 0, 1, 0, 1]),
        ("x_x >= 3 or x_x > 0 and x_x < 2", [0, 1, 0, 1, 1]),
    ],
)
def test_conditions(condition: str, expected: list[int]) -> None:
    assert np.array_equal(of_x(f"where({condition}, 1, 0)", range(5)), expected)


# ------------------------------------------------------------------------------------------------------------ slots


def test_an_index_is_its_own_number() -> None:
    assert np.array_equal(
        value(spec("s, d", "layer F(x_sd) -> y_sd:", "return x_sd + 10 s + d"), np.zeros((2, 2))), [[0, 1], [10, 11]]
    )


def test_a_primed_index_runs_over_the_same_axis() -> None:
    found = value(spec("s", "layer F(x_s) -> y_ss':", "return x_s - x_s'"), [1, 2, 5])
    assert np.array_equal(found, [[0, -1, -4], [1, 0, -3], [4, 3, 0]])


def test_a_group_on_the_left_merges_row_major() -> None:
    """`(ae)` is the number a H + e."""
    y = np.arange(12).reshape(2, 2, 3)  # s, e, a
    found = value(spec("s, e, a, d: A E", "layer F(y_sea) -> u_sd:", "u_{s(ae)} = y_sea"), y)
    assert np.array_equal(found, [[0, 3, 1, 4, 2, 5], [6, 9, 7, 10, 8, 11]])


def test_a_group_on_the_right_splits_row_major() -> None:
    found = value(spec("e, a, d: A E", "layer F(u_d) -> y_ea:", "return u_{(ae)}"), range(6), A=3, E=2)
    assert np.array_equal(found, [[0, 2, 4], [1, 3, 5]])


def test_arithmetic_in_a_group() -> None:
    """The other member of each pair."""
    found = value(spec("e: H, i: 2, h: H / 2", "layer F(x_e) -> y_e:", "y_{(ih)} = x_{((1 - i)h)}"), range(6))
    assert np.array_equal(found, [3, 4, 5, 0, 1, 2])


def test_a_tensor_in_a_slot_selects() -> None:
    rows = drawn(4, 2)
    found = value(spec("s, v, d", "layer F(x_s, E_vd) -> y_sd:", "return E_{x_s d}"), [3, 0, 3], rows)
    assert np.array_equal(found, rows[[3, 0, 3]])


def test_slots_are_read_in_their_order() -> None:
    """Two selecting slots of the same range: row x, column t."""
    table = np.arange(9).reshape(3, 3)
    found = value(spec("s, u, v", "layer F(x_s, t_s, E_uv) -> y_s:", "return E_{x_s t_s}"), [0, 1], [2, 0], table)
    assert np.array_equal(found, [2, 3])


def test_a_number_in_a_slot() -> None:
    assert np.array_equal(value(spec("s, d: 2", "layer F(x_sd) -> y_s:", "return x_{s 1}"), [[1, 2], [3, 4]]), [2, 4])


@pytest.mark.parametrize("slot", ["(s + 1)", "(s - 1)", "(2 s)", "(S - s)"])
def test_a_slot_that_leaves_its_axis_is_an_error(slot: str) -> None:
    with pytest.raises(EinformerError, match="E309"):
        value(spec("s", "layer F(x_s) -> y_s:", f"return x_{{{slot}}}"), [1, 2])


def test_a_selecting_number_outside_its_axis_is_an_error() -> None:
    rows = spec("s, v", "layer F(x_s, E_v) -> y_s:", "return E_{x_s}")
    for token in (-1, 3):
        with pytest.raises(EinformerError, match="E309"):
            value(rows, [0, token], drawn(3))


# ------------------------------------------------------------------------------------------------------------- time


def test_before_the_start_of_time_everything_is_zero() -> None:
    shifted = spec("s, d", "model F(x_sd) -> y_sd causal in s:", "return x_{(s - 2)d} + 1")
    assert np.array_equal(value(shifted, [[1, 2], [3, 4], [5, 6]]), [[1, 1], [1, 1], [2, 3]])


def test_token_zero_does_not_stand_before_the_start() -> None:
    """Zero would select the first row of E; which position is read an input says here, so the check cannot know."""
    lines = ["layer F(x_s, n_s, E_vd) -> y_sd:", "return E_{x_{n_s} d}", "model Last(z_sd) -> z_sd causal in s:", "return z_sd"]
    bound = spec("s, v, d", *lines)["F"].bind()
    assert bound.reference(np.array([1, 1]), np.array([0, 1]), drawn(2, 2), weights={}).shape == (2, 2)
    with pytest.raises(EinformerError, match="E309"):
        bound.reference(np.array([1, 1]), np.array([0, -1]), drawn(2, 2), weights={})


def test_a_guard_keeps_a_selecting_slot_after_the_start() -> None:
    guarded = spec("s, v", "model F(x_s, E_v) -> y_s causal in s:", "return where(s > 0, E_{x_{(s - 1)}}, -1)")
    assert np.array_equal(value(guarded, [1, 0, 1], [5, 7]), [-1, 7, 5])


def test_a_recurrence_is_solved_in_the_order_of_positions() -> None:
    """h = 2 h + x, position by position."""
    text = spec("s", "model F(x_s) -> h_s causal in s:", "h_s = 2 h_{(s - 1)} + x_s")
    assert np.array_equal(value(text, [1, 1, 5]), [1, 3, 11])


def test_a_recurrence_two_steps_back() -> None:
    """Fibonacci, in both columns."""
    text = spec("s, d", "model F(x_sd) -> h_sd causal in s:", "h_sd = h_{(s - 1)d} + h_{(s - 2)d} + x_sd")
    assert np.array_equal(value(text, [[1, 2], [0, 0], [0, 0], [0, 0]])[:, 1], [2, 2, 4, 6])


def test_a_recurrence_in_a_layer_that_carries_rows() -> None:
    lines = [
        "layer Decay(x_s) -> h_s:",
        "h_s = h_{(s - 1)} / 2 + x_s",
        "model F(x_bs) -> y_bs causal in s:",
        "return Decay(x_bs)",
    ]
    assert np.array_equal(value(spec("b, s", *lines), [[4, 0, 0], [0, 2, 2]]), [[4, 2, 1], [0, 2, 3]])


def test_rows_of_unequal_length_mean_what_they_mean_alone() -> None:
    rows = spec("b, s", "model F(x_bs) -> y_bs causal in s:", "return Sm_s'(where(s' <= s, 0, -inf)) x_bs'").bind()
    x = np.array([[1, 2, 6], [4, 99, 99]])
    found = rows.reference(x, weights={}, lengths=[3, 1])
    assert np.array_equal(found, [[1, 1.5, 3], [4, np.nan, np.nan]], equal_nan=True)


@pytest.mark.parametrize("lengths", [[3], [3, 1, 1], [3, 4], [3, 0]])
def test_lengths_are_those_of_the_rows(lengths: list[int]) -> None:
    rows = spec("b, s", "model F(x_bs) -> y_bs causal in s:", "return 2 x_bs").bind()
    with refuses("E701", "lengths"):
        rows.reference(np.ones((2, 3)), weights={}, lengths=lengths)


def test_a_weight_that_nobody_reads_is_refused() -> None:
    scale = spec("d", "layer F(x_d) -> y_d:", "weights W_d", "return W_d x_d").bind()
    with refuses("E704", "V", "W"):
        scale.reference(np.ones(2), weights={"W": np.ones(2), "V": np.ones(2)})


@pytest.mark.parametrize("token", [0.5, math.nan, math.inf])
def test_half_a_token_is_none(token: float) -> None:
    found = spec("s, v, d", "layer F(x_s) -> y_sd:", "weights E_vd", "return E_{x_s d}").bind(V=3, D=2)
    with refuses("E309" if token == math.inf else "E702", "E"):
        found.reference(np.array([1, token]), weights={"E": drawn(3, 2)})


def test_a_count_that_is_not_whole_is_refused() -> None:
    """Of a size that is known only here."""
    halves = spec("s, d", "layer F(x_sd) -> y_sd:", "for s' < S / 2:", "  x_sd <- 2 x_sd", "return x_sd").bind()
    assert np.array_equal(halves.reference(np.ones((4, 1)), weights={}), np.full((4, 1), 4))
    with refuses("E604", "1.5"):
        halves.reference(np.ones((3, 1)), weights={})
    with refuses("E604", "1.5"):
        value(spec("x", "layer F(x_x) -> y_x:", "return where(top_{X / 2, x}(x_x), 1, 0)"), [1, 2, 3])


# ------------------------------------------------------------------------------------------------------------ where


def test_where_reads_only_the_branch_it_takes() -> None:
    """The slot `e + 2` leaves the axis exactly where the other branch is taken."""
    rotated = spec("e", "layer F(x_e) -> y_e:", "return where(e < 2, x_{(e + 2)}, x_{(e - 2)})")
    assert np.array_equal(value(rotated, [1, 2, 3, 4]), [3, 4, 1, 2])


def test_where_inside_where_reads_only_what_both_take() -> None:
    inner = spec("e", "layer F(x_e) -> y_e:", "return where(e < 3, where(e > 0, x_{(e + 1)}, 7), x_{(e - 3)})")
    assert np.array_equal(value(inner, [1, 2, 3, 4]), [7, 3, 4, 1])


def test_where_reports_the_branch_it_takes() -> None:
    with pytest.raises(EinformerError, match="E309"):
        value(spec("e", "layer F(x_e) -> y_e:", "return where(e < 3, x_{(e + 2)}, 0)"), [1, 2, 3, 4])


def test_where_on_layer_numbers_takes_one_branch() -> None:
    """The other does not exist: its weights are not asked for."""
    lines = [
        "layer One(z_d) -> z_d:", "weights γ_d", "return γ_d z_d",
        "layer Two(z_d) -> z_d:", "weights β_d", "return z_d + β_d",
        "layer F(z_d) -> y_d:", "for l < L:", "  z_d <- where(l < 1, One_l(z_d), Two_l(z_d))", "return z_d",
    ]  # fmt: skip
    found = spec("d, l", *lines)
    assert found.bind(D=2, L=2).weight_shapes() == {"blocks.0.One.γ": (2,), "blocks.1.Two.β": (2,)}
    weights = {"blocks.0.One.γ": np.array([2, 3]), "blocks.1.Two.β": np.array([10, 20])}
    assert np.array_equal(value(found, [1, 1], weights=weights, L=2), [12, 23])


# --------------------------------------------------------------------------------------- equations, weights, scalars


def test_rebinding_reads_the_old_value() -> None:
    found = spec("d", "layer F(x_d) -> z_d:", "z_d = 2 x_d", "z_d <- z_d + 1", "z_d <- z_d^2", "return z_d - x_d")
    assert np.array_equal(value(found, [0, 1]), [1, 8])


def test_rebinding_at_an_earlier_position_reads_the_old_value() -> None:
    """No recurrence: a running sum would be 1, 3, 6."""
    shifted = spec("s", "model F(z_s) -> z_s causal in s:", "z_s <- z_s + z_{(s - 1)}", "return z_s")
    assert np.array_equal(value(shifted, [1, 2, 3]), [1, 3, 5])


def test_rebinding_leaves_the_callers_tensor_alone() -> None:
    lines = ["layer Zero(z_d) -> z_d:", "z_d <- z_d - z_d", "return z_d", "layer F(z_d) -> y_d:", "y_d = Zero(z_d) + z_d"]
    assert np.array_equal(value(spec("d", *lines), [3, 4]), [3, 4])


def test_an_index_that_the_right_side_lacks_is_repeated() -> None:
    """A term may lack a wanted index."""
    assert np.array_equal(
        value(spec("s, d", "layer F(x_s, y_d) -> z_sd:", "return x_s + y_d"), [1, 2], [10, 20]), [[11, 21], [12, 22]]
    )


def test_an_optional_weight_is_zero_where_absent() -> None:
    biased = spec("d", "layer F(x_d) -> y_d:", "weights β_d?", "return x_d + β_d")
    assert np.array_equal(value(biased, [1, 2]), [1, 2])
    assert np.array_equal(value(biased, [1, 2], weights={"β": np.array([5, 6])}), [6, 8])


def test_an_optional_weight_has_the_default_it_is_given() -> None:
    scaled = spec("d", "layer F(x_d) -> y_d:", "weights γ_d? = 3", "return γ_d x_d")
    assert np.array_equal(value(scaled, [1, 2]), [3, 6])
    assert np.array_equal(value(scaled, [1, 2], weights={"γ": np.array([5, 6])}), [5, 12])


def test_a_tie_is_the_other_weight() -> None:
    tied = spec("d, e", "layer F(x_d) -> y_d:", "weights W_de, U_de = W_de", "h_e = x_d W_de", "return h_e U_de")
    w = drawn(2, 3)
    assert tied.bind(D=2, E=3).weight_shapes() == {"W": (2, 3)}
    assert np.allclose(value(tied, [1, 2], weights={"W": w}, E=3), [1, 2] @ w @ w.T)


def test_an_optional_tie_is_the_other_weight_where_absent() -> None:
    tied = spec("d, e", "layer F(x_d) -> y_d:", "weights W_de, U_de? = W_de", "h_e = x_d W_de", "return h_e U_de")
    w, u = drawn(2, 3), drawn(3, 2).T
    assert np.allclose(value(tied, [1, 2], weights={"W": w}, E=3), [1, 2] @ w @ w.T)
    assert np.allclose(value(tied, [1, 2], weights={"W": w, "U": u}, E=3), [1, 2] @ w @ u.T)


@pytest.mark.parametrize(
    ("weights", "code"),
    [({}, "E704"), ({"W": np.zeros((3, 2))}, "E701"), ({"W": np.zeros(2)}, "E701")],
    ids=["none", "swapped", "flat"],
)
def test_a_weight_that_is_missing_or_misshapen_is_an_error(weights: dict[str, Array], code: str) -> None:
    with pytest.raises(EinformerError, match=code):
        value(spec("d, e", "layer F(x_d) -> y_e:", "weights W_de", "return x_d W_de"), [1, 2], weights=weights, E=3)


def test_a_list_of_scalars_has_one_for_each_number() -> None:
    listed = spec("l, d", "layer F(x_d) -> z_d:", "z_d = x_d", "for l < L:", "  z_d <- z_d μ_l + l", scalars="μ_l = [2, 3, 5]")
    assert np.array_equal(value(listed, [1], L=3), [((2 + 0) * 3 + 1) * 5 + 2])


def test_a_scalar_is_a_formula_in_its_index() -> None:
    angles = spec("h", "layer F(x_h) -> y_h:", "return x_h θ_h", scalars="Θ = 16; θ_h = Θ^(-h / H)")
    assert np.allclose(value(angles, [1, 1, 1, 1]), [1, 1 / 2, 1 / 4, 1 / 8])


def test_after_a_loop_its_letter_is_an_index_again() -> None:
    lines = ["layer F(z_d) -> y_dl:", "for l < L:", "  z_d <- 2 z_d", "return z_d + μ_l"]
    assert np.array_equal(value(spec("d, l", *lines, scalars="μ_l = [1, 10]"), [1], L=2), [[5, 14]])


def test_layers_number_their_weights() -> None:
    lines = [
        "layer Add(z_d) -> z_d:",
        "weights β_d",
        "return z_d + β_d",
        "layer F(z_d) -> y_d:",
        "for l < L:",
        "  z_d <- 2 Add_l(z_d)",
        "return z_d",
    ]
    weights = {"blocks.0.Add.β": np.array([1]), "blocks.1.Add.β": np.array([10])}
    assert np.array_equal(value(spec("d, l", *lines), [0], weights=weights, L=2), [24])


# ------------------------------------------------------------------------------------------- the library, and a trace


def test_the_root_of_a_norm_holds_its_epsilon() -> None:
    """(3, 4) has mean square 12.5; with ε = 12.5 the root is 5."""
    norm = spec("d", "layer F(z_d) -> y_d:", "return RMSNorm(z_d)", scalars="ε = 12.5")
    assert np.allclose(value(norm, [3, 4], weights={"RMSNorm.γ": np.array([1, 10])}), [3 / 5, 8])


def test_a_layer_norm_has_the_biased_variance() -> None:
    """(1, 5) has mean 3 and variance 4; with ε = 5 the root is 3."""
    norm = spec("d", "layer F(z_d) -> y_d:", "return LayerNorm(z_d)", scalars="ε = 5")
    weights = {"LayerNorm.γ": np.array([3, 6]), "LayerNorm.β": np.array([0, 1])}
    assert np.allclose(value(norm, [1, 5], weights=weights), [-2, 5])


def test_the_gated_mlp_gates_with_silu() -> None:
    z, g, u, o = drawn(2), drawn(2, 3), drawn(3, 2).T, drawn(3, 2)
    mlp = spec("d, f", "layer MLP(z_d) -> y_d:", "return GatedMLP(z_d)")
    gate = z @ g
    weights = {"GatedMLP.G": g, "GatedMLP.U": u, "GatedMLP.O": o}
    assert np.allclose(value(mlp, z, weights=weights, F=3), (gate / (1 + np.exp(-gate)) * (z @ u)) @ o)


def test_a_trace_holds_every_tensor_by_path() -> None:
    lines = [
        "layer Add(z_d) -> z_d:",
        "weights β_d",
        "a_d = z_d + β_d",
        "return 2 a_d",
        "layer F(z_d) -> y_d:",
        "for l < L:",
        "  z_d <- Add_l(z_d)",
        "return z_d",
    ]
    trace: dict[str, Array] = {}
    weights = {"blocks.0.Add.β": np.array([1]), "blocks.1.Add.β": np.array([10])}
    spec("d, l", *lines).bind(L=2).reference(np.array([0]), weights=weights, trace=trace)
    found = {path: array.tolist() for path, array in trace.items()}
    assert found == {
        "blocks.0.Add.a": [1], "blocks.0.Add.z": [2], "blocks.0.z": [2],
        "blocks.1.Add.a": [12], "blocks.1.Add.z": [24], "blocks.1.z": [24], "y": [24],
    }  # fmt: skip


def test_everything_is_float64() -> None:
    x = np.array([1, 2], dtype=np.float32)
    assert value(spec("d", "layer F(x_d) -> y_d:", "return x_d / 3"), x).dtype == np.float64
