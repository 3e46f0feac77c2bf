"""What does a text become when sizes and scalars are given, by hand or by the shapes of its inputs (R8)?"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from random import Random

import numpy as np
import pytest
import torch

import einformer
from einformer import EinformerError
from einformer.objects import Model
from tests.refusals import findings_of, refuses
from tests.texts import Array, spec, text

HEADS = ("d, a, e: H = D / A, f: F = 4 D", "layer Heads(x_dae) -> y_f:", "weights W_daef", "return x_dae W_daef")
SCALED = ("l, x", "layer Scaled(x_x) -> y_lx:", "return μ_l x_x + ν")


def scaled(**given: object) -> Array:
    """ν + μ_l x at x = 1."""
    model = spec(*SCALED, scalars="ν = 0; μ_l = l").bind(**{"L": 3} | given)  # type: ignore[arg-type]
    return model.reference(np.ones(1), weights={})[:, 0]


# ------------------------------------------------------------------------------------------------------------- sizes


def test_a_size_follows_from_its_default() -> None:
    model = spec(*HEADS).bind(D=12, A=3)
    assert [model.size(letter) for letter in "DAHF"] == [12, 3, 4, 48]
    assert model.weight_shapes() == {"W": (12, 3, 4, 48)}


def test_a_default_is_replaced() -> None:
    model = spec(*HEADS).bind(D=12, A=3, H=7)
    assert [model.size(letter) for letter in "DAHF"] == [12, 3, 7, 48]


@pytest.mark.parametrize(
    ("size", "expected"),
    [("D + 1", 7), ("2 D - 3", 9), ("D^2", 36), ("2 D / 4", 3), ("floor(D / 4)", 1), ("ceil(D / 4)", 2), ("D mod 4", 2)],
)
def test_a_size_is_a_formula(size: str, expected: int) -> None:
    assert spec(f"d, f: F = {size}", "layer Y(x_df) -> y_d:", "return sum_f x_df").bind(D=6).size("F") == expected


def test_a_size_that_is_not_whole_is_refused() -> None:
    with refuses("E602", "e", "2.4"):
        spec(*HEADS).bind(D=12, A=5).weight_shapes()


SIZES = {
    **dict.fromkeys(("10 / 3", "1.5", "sqrt(2)", "H = 10 / 3", "2 D + 1 / 2", "H = 2 D + 1 / 2"), "E602"),
    **dict.fromkeys(("D / 2 + D / 3 + 1 / 7", "D^2 / 2 + 1 / 3", "K / 4 + 3 D / 8 + 1 / 16", "H / 2 + 1 / 3"), "E602"),
    **dict.fromkeys(("0", "-2", "1 - D", "-D", "D - D", "inf", "10^30", "1 / 0", "5 mod 5"), "E604"),
    "5 <= 3": "E603",
    **dict.fromkeys(("NH", "NH = 2 D", "2 NH", "h", "d", "E1"), "E204"),
    **dict.fromkeys(("D", "N"), "E202"),
    **dict.fromkeys(("10 / 2", "H", "H = D", "H = D / 2", "0.5 D", "2.5 D + 1 / 2", "D / 2 + 1 / 2", "D^2 / 3 - D / 3"), ""),
    **dict.fromkeys(("2 - D", "D - K", "1 / D", "D / K + 1 / 2", "floor(D / 2) + 1 / 2", "floor(10 / 3)", "N D", "5 <= K"), ""),
}


def declared(size: str) -> str:
    return text(f"d, e: {size}", "layer Y(x_de) -> x_de:", "return N x_de", scalars="N = 5 / 2")


@pytest.mark.parametrize("size", SIZES)
def test_a_size_that_cannot_come_out_whole_is_refused_where_it_is_declared(size: str) -> None:
    found = [finding.code for finding in findings_of(declared(size))]
    assert found == [SIZES[size]] * bool(SIZES[size])


def test_a_size_may_be_whole_by_what_is_bound() -> None:
    """By default F is D + 1 / 2, but H may be 3."""
    model = spec("d, e: H = 2 D, f: F = H / 2 + 1 / 2", "layer Y(x_de) -> y_f:", "return sum_{de} x_de + f")
    assert model.bind(D=5, H=3).size("F") == 2
    with pytest.raises(EinformerError, match="E602"):
        model.bind(D=5)


@pytest.mark.parametrize("seed", range(4))
def test_a_size_is_never_whole_only_where_no_numbers_make_it_whole(seed: int) -> None:
    """Every size of two letters up to 24 against the verdict on the text; 24 is a multiple of each divisor."""
    random, refused = Random(seed), 0
    for _ in range(60):
        a, b, c = (random.randrange(-2, 4) for _ in range(3))
        m, n, k = (random.choice((1, 2, 3, 4, 6, 8)) for _ in range(3))
        size = f"{a} D / {m} + {b} K / {n} + {c} / {k}"
        values = {Fraction(a * d, m) + Fraction(b * e, n) + Fraction(c, k) for d in range(1, 25) for e in range(1, 25)}
        codes = {finding.code for finding in findings_of(declared(size))}
        never = "E602" if not any(value.denominator == 1 for value in values) else "E604" if max(values) < 1 else ""
        assert codes == {never} - {""}, size
        refused += bool(never)
    assert 10 < refused < 50


def test_an_axis_as_long_as_another_is_told_how() -> None:
    """The suggestion stands in the reader's file, where its letter is free."""
    for axes in ("d, e: D", "d, e: E, f: E", "e: H = 2 D, d, h: D, f: H"):
        refused = text(axes, "layer Y(x_d) -> x_d:", "return 2 x_d")
        shared = [finding for finding in findings_of(refused) if finding.code == "E202"]
        for finding in reversed(shared):
            line = finding.fix.split("`")[1]
            old = next(row for row in axes.split(", ") if row.startswith(f"{line[0]}:"))
            axes = axes.replace(old, line)
        assert "E202" not in {finding.code for finding in findings_of(text(axes, "layer Y(x_d) -> x_d:", "return 2 x_d"))}
        assert shared


def test_numbers_of_numpy_are_numbers() -> None:
    model = spec(*HEADS).bind(D=np.int64(12), A=np.float32(3))
    assert [model.size(letter) for letter in "DAHF"] == [12, 3, 4, 48]
    assert np.array_equal(scaled(ν=np.int32(7), μ=[np.float64(1), np.int8(2), 3]), [8, 9, 10])
    with pytest.raises(EinformerError, match="E604"):
        spec(*HEADS).bind(D=np.float64(2.5))


def test_a_letter_that_is_no_size_is_told_so() -> None:
    with refuses("E601", "Q"):
        spec(*HEADS).bind(D=12, A=3).size("Q")


@pytest.mark.parametrize("turns", ["L / 2", "L - 4"])
def test_a_loop_turns_a_whole_number_of_times(turns: str) -> None:
    layer = ("l, x", "layer F(x_x) -> x_x:", f"for l < {turns}:", "  x_x <- 2 x_x", "return x_x")
    assert np.array_equal(spec(*layer).bind(L=4).reference(np.ones(1), weights={}), [4 if "/" in turns else 1])
    with refuses("E604", "L / 2" if "/" in turns else "L - 4"):
        spec(*layer).bind(L=3)


def test_top_takes_a_whole_number() -> None:
    layer = ("x", "layer F(x_x) -> x_x:", "return where(top_{T,x}(x_x), x_x, 0)")
    for given, message in ((2.5, "`top` takes 2.5"), (-1, "`top` takes -1")):
        with pytest.raises(EinformerError, match=f"E604 {message}"):
            spec(*layer, scalars="T = 2").bind(T=given)


INNER = ("layer Inner(x_x, q) -> x_x:", "r = q", "return Dr(x_x, r)", "layer Outer(x_x, q) -> x_x:", "return Inner(x_x, q)")
LAYER, TURNS = "layer F(x_x) -> x_x:", "for l < 2:"
IMPROBABLE = {
    "a number": ("x", "", LAYER, "return Dr(x_x, 1.5)"),
    "the scalar of all": ("x", "p = -1", LAYER, "return Dr(x_x)"),
    "one turn": ("x, l: 2", "q_l = [0.1, 2]", LAYER, TURNS, "  x_x <- Dr(x_x, q_l)", "return x_x"),
    "a number of turns": ("x, l: 2", "", LAYER, TURNS, "  x_x <- Dr(x_x, 2 l)", "return x_x"),
    "an argument": ("x", "", "layer Part(x_x, q) -> x_x:", "return Dr(x_x, q)", LAYER, "return Part(x_x, 2)"),
    "an index": ("x", "", LAYER, "return Dr(x_x, 1 / (x + 1))"),
    "data": ("x", "", LAYER, "return Dr(x_x, sigmoid(x_x))"),
    "data in an argument": ("x", "", *INNER, LAYER, "return Outer(x_x, sigmoid(x_x))"),
}


@pytest.mark.parametrize("text", IMPROBABLE.values(), ids=IMPROBABLE)
def test_what_drops_has_one_probability(text: tuple[str, ...]) -> None:
    axes, scalars, *lines = text
    with pytest.raises(EinformerError, match=r"E604 `Dr` drops with (probability|one probability everywhere)"):
        spec(axes, *lines, scalars=scalars)


@pytest.mark.parametrize("q", ["0", "1", "l / 4", "where(l == 0, 0.5, 0)"])
def test_what_drops_may_have_another_probability_in_each_turn(q: str) -> None:
    module = spec("x: 9, l: 2", *INNER, LAYER, TURNS, f"  x_x <- Outer(x_x, {q})", "return x_x").bind().build()
    module.train()
    assert module(torch.ones(9)).isfinite().all()


@pytest.mark.parametrize("count", ["x", "n_x", "x_x"])
def test_top_takes_as_many_everywhere(count: str) -> None:
    with refuses("E604", count):
        spec("x", LAYER, "n_x = x + 1", f"return where(top_{{{count},x}}(x_x), n_x, 0)")


def test_a_turn_in_which_top_takes_less_than_nothing_is_refused() -> None:
    lines = (LAYER, TURNS, "  x_x <- where(top_{l - 1,x}(x_x), x_x, 0)", "return x_x")
    with refuses("E604", "l - 1"):
        spec("x, l: 2", *lines)


def test_a_size_without_a_value_is_open() -> None:
    model = spec(*HEADS).bind(D=12)
    with refuses("E601", "A"):
        model.size("H")


NEEDED = {  # each text, and the sizes without which it is no file of PyTorch
    "a weight": (("b, d, f", "layer M(z_bd) -> y_bf:", "weights W_df", "return z_bd W_df"), "DF"),
    "a loop": (("b, d, l", "layer M(z_bd) -> z_bd:", "for l < L:", "  z_bd <- tanh(z_bd)", "return z_bd"), "L"),
    "a default": (("b, d, e: H = D / A", "layer M(z_bd) -> y_bd:", "return z_bd / sqrt(H)"), "A"),
    "numbers of an index": (("b, d, k", "layer M(z_bd) -> y_bdk:", "return z_bd k"), "K"),
    "a scalar": (("b, d, k", "layer M(z_bd) -> y_bd:", "return τ z_bd"), "K"),
    "nothing: its inputs tell": (("b, d", "layer M(z_bd) -> y_bd:", "return z_bd / D"), ""),
}


@pytest.mark.parametrize("plan", ["notation", "fast"])
@pytest.mark.parametrize("case", NEEDED)
def test_one_error_names_every_size_that_is_missing_once(case: str, plan: str) -> None:
    """What is emitted has no name that nothing defines; `build` runs what `source` prints."""
    lines, missing = NEEDED[case]
    model = spec(*lines, scalars="τ = K^2" if case == "a scalar" else "").bind()
    if not missing:
        assert torch.equal(model.build(plan=plan).eval()(torch.ones(2, 3)), torch.ones(2, 3) / 3)
        return
    for emit in (model.source, model.build):
        with pytest.raises(EinformerError) as error:
            emit(plan=plan)
        (finding,) = error.value.findings
        assert (finding.code, finding.fix) == ("E601", f"`bind({', '.join(f'{letter}=…' for letter in missing)})`")


QUESTIONS: dict[str, Callable[[Model], object]] = {
    "parameters": lambda model: model.num_parameters,
    "kinds of parameters": lambda model: model.parameter_counts,
    "shapes": lambda model: model.weight_shapes(),
    "FLOPs": lambda model: model.flops(B=1, S=2),
    "memory": lambda model: model.memory(B=1, S=2),
    "a cache": lambda model: model.cache_bytes(B=1, S=2),
    "PyTorch": lambda model: model.source(),
}


@pytest.mark.parametrize("question", QUESTIONS)
def test_each_question_names_all_missing_sizes(question: str) -> None:
    with pytest.raises(EinformerError) as error:
        QUESTIONS[question](einformer.model("llama", L=2))
    assert [finding.fix for finding in error.value.findings] == ["`bind(D=…, G=…, A=…, F=…, V=…)`"]


@pytest.mark.parametrize("value", [0, -1, 2.5, math.inf, math.nan, True, "6"])
def test_a_size_is_a_positive_whole_number(value: object) -> None:
    with pytest.raises(EinformerError, match="E604"):
        spec(*HEADS).bind(D=value)  # type: ignore[arg-type]


def test_a_whole_number_may_be_written_as_a_fraction() -> None:
    assert spec(*HEADS).bind(D=12.0).size("D") == 12


def test_what_is_not_declared_cannot_be_given() -> None:
    with refuses("E605", "X"):
        spec(*HEADS).bind(X=3)


def test_groups_are_compared_again_as_numbers() -> None:
    """`(ae)` is d for the default of H, and is not once H is given another value."""
    merged = spec("d, a, e: H = D / A", "layer Merge(y_ae) -> u_d:", "u_{(ae)} = y_ae", "return 2 u_d")
    assert merged.bind(D=6, A=2).size("H") == 3
    with pytest.raises(EinformerError, match="E308"):
        merged.bind(D=6, A=2, H=4)


# ----------------------------------------------------------------------------------------------------------- scalars


def test_a_scalar_is_a_number() -> None:
    assert np.array_equal(scaled(ν=5), [5, 6, 7])


def test_a_scalar_with_an_index_is_a_number_or_a_list() -> None:
    assert np.array_equal(scaled(μ=7), [7, 7, 7])
    assert np.array_equal(scaled(μ=[3, 1, 4]), [3, 1, 4])
    assert np.array_equal(scaled(μ=(3, 1.5, math.inf)), [3, 1.5, math.inf])


def test_a_scalar_is_another_formula() -> None:
    assert np.array_equal(scaled(μ="2^l + ν", ν=1), [3, 4, 6])


@pytest.mark.parametrize("value", [True, math.nan, None, [1, None, 2], [True, 1, 2], object()])
def test_what_is_no_number_is_no_scalar(value: object) -> None:
    with pytest.raises(EinformerError, match="E604"):
        scaled(μ=value)


def test_a_list_has_the_length_of_its_axis() -> None:
    for value in ([1, 2], [1, 2, 3, 4]):
        with pytest.raises(EinformerError, match="E606"):
            scaled(μ=value)


def test_a_scalar_without_index_is_no_list() -> None:
    with pytest.raises(EinformerError, match="E606"):
        scaled(ν=[1, 2, 3])


@pytest.mark.parametrize(
    ("formula", "code"), [("l +", "E101"), ("ξ", "E204"), ("x", "E301"), ("2l", "E103"), ("", "E101"), ("1\n2", "E101")]
)
def test_a_formula_is_checked(formula: str, code: str) -> None:
    with pytest.raises(EinformerError, match=code):
        scaled(μ=formula)


def test_scalars_may_be_replaced_by_a_block() -> None:
    """Rope scaling is a few formulas."""
    replaced = spec(*SCALED, scalars="ν = 0; μ_l = l").replace("ξ = 3\nμ_l = ξ - l")
    assert np.array_equal(replaced.bind(L=3).reference(np.ones(1), weights={})[:, 0], [3, 2, 1])


def test_binding_leaves_the_specification_as_it_was() -> None:
    text = spec(*SCALED, scalars="ν = 0; μ_l = l")
    before = str(text)
    text.bind(L=3, ν=7, μ=[1, 2, 3])
    assert str(text) == before


# ------------------------------------------------------------------------------------------------------------ inputs

LOOKUP = spec("s: S <= K, k, d", "layer Look(x_sd) -> y_sd:", "weights P_kd", "return x_sd + P_sd")


def test_a_shape_binds_an_open_size() -> None:
    p = np.arange(6.0).reshape(3, 2)
    assert np.array_equal(LOOKUP.bind(K=3).reference(np.zeros((2, 2)), weights={"P": p}), p[:2])


def test_a_shape_stays_within_the_bound() -> None:
    with refuses("E603", "s", "4", "3"):
        LOOKUP.bind(K=3).reference(np.zeros((4, 2)), weights={"P": np.zeros((3, 2))})


def test_a_given_size_stays_within_the_bound() -> None:
    with pytest.raises(EinformerError, match="E603"):
        LOOKUP.bind(K=3, S=4)
    assert LOOKUP.bind(K=3, S=3).size("S") == 3


def test_an_input_has_the_size_that_is_bound() -> None:
    with refuses("E701", "x", "2", "d", "5"):
        LOOKUP.bind(K=3, D=5).reference(np.zeros((2, 2)), weights={})


def test_inputs_agree_on_an_open_size() -> None:
    sums = spec("d", "layer Add(x_d, y_d) -> z_d:", "return x_d + y_d").bind()
    with refuses("E701", "y", "1", "d", "3"):
        sums.reference(np.zeros(3), np.zeros(1), weights={})


def test_an_input_has_an_axis_for_each_letter() -> None:
    with refuses("E701", "x", "1", "2"):
        LOOKUP.bind(K=3).reference(np.zeros(2), weights={})


def test_there_is_an_array_for_each_input() -> None:
    with refuses("E401", "Look", "1", "2"):
        LOOKUP.bind(K=3).reference(np.zeros((2, 2)), np.zeros(2), weights={})


def test_a_layer_is_evaluated_alone() -> None:
    model = einformer.load("gpt2")["MLP"].bind(D=2, F=3, K=1)
    w, u = np.ones((2, 3)), np.ones((3, 2))
    assert np.allclose(model.reference(np.ones((1, 1, 2)), weights={"W": w, "U": u}), 3 * 1.9545976940877752)


def test_a_value_may_leave_what_its_default_was_made_of_unused() -> None:
    found = einformer.load("gpt_neox").bind(D=20, A=2, L=1, V=7, R=4)
    assert "  R = 4 " in str(found.spec)
