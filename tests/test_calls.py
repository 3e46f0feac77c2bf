"""Which index does each formal of a call take, which weights does it use, and is its result that of each row alone?"""

from __future__ import annotations

import re

import numpy as np
import pytest

from einformer import EinformerError, parse
from einformer.errors import Source
from einformer.language import parser
from einformer.language.calls import Binding, bind_call
from einformer.language.tree import Apply
from tests.refusals import refuses
from tests.texts import Array, spec


def bound(head: str, call: str, *actuals: str, loops: str = "") -> Binding:
    """How a call of a layer binds, by the letters of its arguments alone."""
    tree, _ = parser.parse(Source("<head>", f"layer {head}:\n  return 0"))
    applied = parser.parse_expression(call, tree)
    assert isinstance(applied, Apply)
    letters = [dict.fromkeys(re.findall(r"\w'*", actual)) for actual in actuals]
    return bind_call(tree.layers[0], applied, letters, frozenset(loops))


def drawn(*shape: int) -> Array:
    return np.random.default_rng(sum(shape)).standard_normal(shape)


def rms(x: Array, axis: int) -> Array:
    """A norm with ε = 1 and weights of one."""
    found: Array = x / np.sqrt((x**2).mean(axis, keepdims=True) + 1)
    return found


# -------------------------------------------------------------------------------------------------- which index binds


def test_a_formal_takes_the_same_letter_first() -> None:
    assert bound("F(x_s) -> x_s", "F(1)", "s' s s''").letters == {"s": "s"}


def test_a_formal_takes_the_only_index_over_its_axis() -> None:
    assert bound("Rotary(x_se) -> y_se", "Rotary(1)", "b s' e g").letters == {"s": "s'", "e": "e"}


def test_two_indices_over_its_axis_are_ambiguous() -> None:
    with refuses("E402", "s", "s'", "s''"):
        bound("F(x_s) -> x_s", "F(1)", "s' s''")


def test_a_head_that_lacks_the_index_should_name_it() -> None:
    layers = "layer F_s(m_ss') -> m_ss':\n  return m_ss'\n\nlayer G(m_ss''s''') -> m_ss''s''':\n  return F(m_ss''s''')"
    with pytest.raises(EinformerError) as refusal:
        parse(f"axes\n  s: S\n\n{layers}\n")
    assert refusal.value.findings[0].fix == "`F_ss'(…)` as its head, and `F_…` with the index that stands for `s'`"


def test_no_index_over_its_axis_does_not_bind() -> None:
    with refuses("E402", "d"):
        bound("F(x_d) -> x_d", "F(1)", "b s")


def test_an_index_is_taken_once() -> None:
    """Where s takes s', s' must take another."""
    assert bound("F(m_ss') -> m_ss'", "F(1)", "s s'").letters == {"s": "s", "s'": "s'"}
    with pytest.raises(EinformerError, match="E402"):
        bound("F(m_ss') -> m_ss'", "F(1)", "s")


def test_the_subscript_of_a_call_renames_the_letters_of_the_head() -> None:
    assert bound("RMSNorm_d(z_d) -> z_d", "RMSNorm_e(1)", "b s e d").letters == {"d": "e"}


def test_the_subscript_goes_before_the_same_letter() -> None:
    assert bound("F_s(x_s) -> x_s", "F_s'(1)", "s s'").letters == {"s": "s'"}


def test_the_letter_of_a_loop_is_no_renaming() -> None:
    assert bound("RMSNorm_d(z_d) -> z_d", "RMSNorm_l(1)", "b s d", loops="l").letters == {"d": "d"}
    assert bound("RMSNorm_d(z_d) -> z_d", "RMSNorm_le(1)", "b s e", loops="l").letters == {"d": "e"}


def test_inner_axes_are_renamed_too() -> None:
    assert bound("GatedMLP_f(z_d) -> z_d", "GatedMLP_o(1)", "b s d").letters == {"f": "o", "d": "d"}


def test_a_letter_means_the_same_in_every_formal() -> None:
    assert bound("F(x_s, y_s) -> x_s", "F(1, 2)", "s'", "s'").letters == {"s": "s'"}
    with refuses("E402", "F", "s'", "y_s", "s"):
        bound("F(x_s, y_s) -> x_s", "F(1, 2)", "s'", "s")


@pytest.mark.parametrize(
    ("head", "call", "actuals", "code"),
    [
        ("F(x_s) -> x_s", "F(1, 2)", ("s", "s"), "E401"),
        ("F(x_s, y_s) -> x_s", "F(1)", ("s",), "E401"),
        ("F(x_s) -> x_s", "F_s'(1)", ("s'",), "E402"),
        ("F_d(z_d) -> z_d", "F_e(1)", ("s d",), "E402"),
    ],
    ids=["too many", "too few", "nothing to rename", "renamed to what is not there"],
)
def test_calls_that_do_not_bind(head: str, call: str, actuals: tuple[str, ...], code: str) -> None:
    with pytest.raises(EinformerError, match=code):
        bound(head, call, *actuals)


def test_the_output_has_the_callers_letters() -> None:
    found = bound("Rotary(x_se) -> y_se", "Rotary(1)", "b s' e g")
    assert found.output == ("s'", "e")
    assert found.bound == (frozenset({"s'", "e"}),)
    assert found.kept == {"s'", "e"}


def test_a_layer_may_consume_an_index_and_give_another() -> None:
    found = bound("Router(z_d) -> p_x", "Router(1)", "b s d")
    assert (found.output, found.kept) == (("x",), frozenset())


def test_what_is_carried_along_must_not_clash() -> None:
    with pytest.raises(EinformerError, match="E406"):
        bound("Router(z_d) -> p_x", "Router(1)", "d x")
    with pytest.raises(EinformerError, match="E406"):
        bound("F(x_s, y_d) -> x_sd", "F(1, 2)", "s d", "d")


# ------------------------------------------------------------------------------------------------ what a call is worth


def test_carried_indices_are_rows_alone() -> None:
    z = drawn(2, 3, 4)
    found = spec("b, s, d", "model Y(z_bsd) -> z_bsd causal in s:", "return RMSNorm(z_bsd)", scalars="ε = 1").bind()
    assert np.allclose(found.reference(z, weights={"RMSNorm.γ": np.ones(4)}), rms(z, -1))


def test_a_renamed_call_works_on_its_own_index() -> None:
    """`RMSNorm_e(q_sed)` is over e, though q has the layer's own d; its weights have the size of e."""
    q = drawn(2, 3, 4)
    found = spec("s, e, d", "layer Y(q_sed) -> q_sed:", "return RMSNorm_e(q_sed)", scalars="ε = 1").bind(E=3)
    assert found.weight_shapes() == {"RMSNorm.γ": (3,)}
    assert np.allclose(found.reference(q, weights={"RMSNorm.γ": np.ones(3)}), rms(q, 1))


def test_a_size_in_a_body_is_that_of_the_actual() -> None:
    lines = ["layer Unit_d(z_d) -> z_d:", "return z_d / D", "layer Y(q_de) -> q_de:", "return Unit_e(q_de)"]
    assert np.allclose(spec("d, e", *lines).bind().reference(np.ones((2, 4)), weights={}), 1 / 4)


def test_a_call_in_a_renamed_call_is_renamed() -> None:
    lines = [
        "layer Inner_d(z_d) -> z_d:",
        "weights γ_d",
        "return γ_d z_d / sum_d z_d",
        "layer Outer_d(z_d) -> z_d:",
        "return Inner(z_d)",
    ]
    found = spec("d, e", *lines, "layer Y(q_de) -> q_de:", "return Outer_e(q_de)").bind(E=2)
    assert found.weight_shapes() == {"Outer.Inner.γ": (2,)}
    assert np.allclose(found.reference(np.array([[1.0, 3]]), weights={"Outer.Inner.γ": np.array([4, 8])}), [[1, 6]])


def test_a_primed_actual_keeps_its_prime() -> None:
    """`Rotary(k_s')` turns by the positions s'."""
    lines = ["layer Turn(x_s) -> x_s:", "return s x_s", "layer Y(q_s, k_s) -> y_ss':", "return q_s Turn(k_s')"]
    found = spec("s", *lines).bind().reference(np.array([1, 10]), np.array([5, 7]), weights={})
    assert np.array_equal(found, [[0, 7], [0, 70]])


SHIFT_BACK = ["layer Back_t(x_t) -> x_t:", "return x_{(t - 1)}", "model Y(x_sd) -> x_sd causal in s:"]


def test_an_axis_that_a_call_binds_to_time_is_time() -> None:
    """Before its start everything is zero, whatever letter the layer has for it."""
    found = spec("s, d, t", *SHIFT_BACK, "return Back_s(x_sd)").bind().reference(np.array([[1], [2], [3]]), weights={})
    assert np.array_equal(found, [[0], [1], [2]])


def test_a_letter_of_time_that_a_call_binds_to_features_is_not_time() -> None:
    lines = ["layer Back_s(x_s) -> x_s:", "return x_{(s - 1)}", *SHIFT_BACK[2:], "return Back_d(x_sd)"]
    with pytest.raises(EinformerError, match="E309"):
        spec("s, d", *lines).bind().reference(np.ones((2, 3)), weights={})


def test_a_letter_of_the_body_is_not_the_callers() -> None:
    """The layer sums over its own d'; the caller's d' is carried along."""
    lines = ["layer Total(x_d) -> λ:", "return sum_d' x_d'", "layer Y(m_d'd) -> y_d':", "return Total(m_d'd)"]
    m = drawn(3, 3)
    assert np.allclose(spec("d", *lines).bind().reference(m, weights={}), m.sum(1))


def test_an_argument_that_varies_is_carried_beside_one_that_does_not() -> None:
    lines = [
        "layer Scores(q_e, k_te) -> w_t:",
        "return q_e k_te",
        "layer Y(q_bhe, k_bte) -> w_bht:",
        "return Scores(q_bhe, k_bte)",
    ]
    q, k = drawn(2, 3, 4), drawn(2, 5, 4)
    found = spec("b, h, t, e", *lines).bind().reference(q, k, weights={})
    assert np.allclose(found, np.einsum("bhe,bte->bht", q, k))


def test_a_recurrence_carries_its_rows() -> None:
    lines = ["layer Sums(x_s) -> h_s:", "h_s = h_{(s - 1)} + x_s", "model Y(x_bsd) -> y_bsd causal in s:", "return Sums(x_bsd)"]
    x = drawn(2, 3, 4)
    assert np.allclose(spec("b, s, d", *lines).bind().reference(x, weights={}), x.cumsum(1))


# ---------------------------------------------------------------------------------------------------------- instances

SCALE = ["layer Scale(z_d) -> z_d:", "weights γ_d", "return γ_d z_d"]
SHIFT = ["layer Shift(z_d) -> z_d:", "weights β_d", "return z_d + β_d"]


def paths(*lines: str, **sizes: int) -> list[str]:
    axes = "d, l" if any("_l" in line or "l <" in line for line in lines) else "d"
    return list(spec(axes, *lines).bind(D=2, **sizes).weight_shapes())


def test_anonymous_instances_are_numbered_in_text_order() -> None:
    found = paths(*SCALE, *SHIFT, "layer Y(z_d) -> z_d:", "z_d <- Scale(z_d)", "z_d <- Shift(z_d)", "return Scale(z_d)")
    assert found == ["Scale.γ", "Shift.β", "Scale_2.γ"]


def test_an_outer_call_is_numbered_before_its_argument() -> None:
    lines = [*SCALE, "layer Y(z_d) -> z_d:", "return Scale(1 + Scale(z_d))"]
    weights = {"Scale.γ": np.array([2]), "Scale_2.γ": np.array([10])}
    assert spec("d", *lines).bind().reference(np.array([1]), weights=weights) == [22]


def test_each_turn_of_a_loop_has_its_own_set() -> None:
    assert paths(*SCALE, "layer Y(z_d) -> z_d:", "for l < L:", "  z_d <- Scale_l(z_d)", "return z_d", L=2) == [
        "blocks.0.Scale.γ", "blocks.1.Scale.γ",
    ]  # fmt: skip


def test_a_named_instance_is_one_set() -> None:
    """ALBERT: the same block in each turn."""
    lines = [*SCALE, "layer Y(z_d) -> z_d:", "weights block: Scale", "for l < L:", "  z_d <- block(z_d)", "return z_d"]
    assert paths(*lines, L=2) == ["block.γ"]
    assert spec("d, l", *lines).bind(L=3).reference(np.array([1]), weights={"block.γ": np.array([2])}) == [8]


def test_named_instances_with_the_letter_of_the_loop() -> None:
    lines = [
        *SCALE,
        "layer Y(z_d) -> z_d:",
        "weights pre, post: Scale",
        "for l < L:",
        "  z_d <- post_l(pre_l(z_d))",
        "return z_d",
    ]
    assert paths(*lines, L=1) == ["blocks.0.post.γ", "blocks.0.pre.γ"]


def test_a_layer_without_weights_has_no_instances() -> None:
    lines = [
        "layer Twice(z_d) -> z_d:",
        "return 2 z_d",
        "layer Y(z_d) -> z_d:",
        "for l < L:",
        "  z_d <- Twice(Twice(z_d))",
        "return z_d",
    ]
    assert paths(*lines, L=2) == []


def test_in_a_loop_an_anonymous_instance_carries_its_letter() -> None:
    with pytest.raises(EinformerError, match="E403"):
        spec("d, l", *SCALE, "layer Y(z_d) -> z_d:", "for l < L:", "  z_d <- Scale(z_d)", "return z_d")


@pytest.mark.parametrize("other", ["mix_m", "mix"])
def test_an_instance_carries_the_same_letters_at_every_call(other: str) -> None:
    lines = ["for l < L:", "  z_d <- mix_l(z_d)", "for m < M:", f"  z_d <- {other}(z_d)", "return z_d"]
    with refuses("E403", "mix", "l"):
        spec("d, l, m", *SCALE, "layer Y(z_d) -> z_d:", "weights mix: Scale", *lines)


def test_a_renamed_letter_from_which_a_size_is_derived_is_refused() -> None:
    lines = ["layer Turn_e(x_e) -> y_e:", "y_{(ih)} = x_{((1 - i)h)}", "layer Y(z_d) -> y_d:", "return Turn_d(z_d)"]
    with pytest.raises(EinformerError, match="E404"):
        spec("d, e: H, i: 2, h: H / 2", *lines)


GROUPED = ["layer U_d(z_d) -> y_d:", "weights L_dae", "w_ea = z_d L_dae", "o_{(ea)} = w_ea", "y_d = o_d"]
FORWARDED = ["layer W_d(z_d) -> z_d:", "return U_d(z_d)"]


@pytest.mark.parametrize("call", ["U_a(z_ba)", "W_a(z_ba)"], ids=["itself", "in a layer between"])
def test_a_layer_that_reads_a_group_over_its_axis_is_not_called_over_another(call: str) -> None:
    with refuses("E404", "d", "(ea)"):
        spec("b, d: D = A H, a: A, e: H", *GROUPED, *FORWARDED, "layer Y(z_ba) -> y_ba:", f"return {call}")


def test_a_layer_that_reads_a_group_over_its_axis_is_called_over_another_of_that_size() -> None:
    head = "layer Y(z_bf) -> y_bf:"
    model = spec("b, d: D = A H, a: A, e: H, f: F = A H", *GROUPED, head, "return U_f(z_bf)").bind(A=2, H=3)
    z, weight = drawn(4, 6), drawn(6, 2, 3)
    assert np.allclose(model.reference(z, weights={"U.L": weight}), np.einsum("bd,dae->bea", z, weight).reshape(4, 6))


def test_a_layer_of_the_file_replaces_that_of_the_library() -> None:
    lines = ["layer RMSNorm(z_d) -> z_d:", "return z_d / 2", "layer Y(z_d) -> z_d:", "return RMSNorm(z_d)"]
    assert spec("d", *lines).bind().reference(np.array([4]), weights={}) == [2]
