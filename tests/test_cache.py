"""Is what decoding keeps enough, and no more? With nothing else remembered, step by step gives what all at once gives."""

from __future__ import annotations

import math

import numpy as np
import pytest
import sympy
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

import einformer
from einformer.errors import EinformerError
from einformer.language.tree import Name
from einformer.objects import Model
from tests.caches import CACHES, Cached
from tests.few import FEW_TEXTS, few
from tests.forms import FORMS, Form
from tests.oracles.decoding import chunked, decode
from tests.small import LENGTH, SMALL, decided, error, inputs, model, weights
from tests.well_formed import Text, texts

EXACT = 1e-12
MODELS = [name for name in SMALL if name != "loss"]
LISTED = ["gemma2", "gpt_oss", "gpt_oss_yarn"]  # windows
BOUNDED = ["mistral", "gemma2", "gpt_oss", "mixtral", "linear_attention", "delta_net", "mamba2"]


def stepped(model: Model, lengths: list[int], fewer: int = 0) -> float:
    """How far the outputs of a sequence in chunks are from those of the whole."""
    given, found = inputs(model, {"S": sum(lengths)}), weights(model)
    chunks = chunked(given, [1] * len(given), lengths)
    return error(decode(model, chunks, found, fewer), model.reference(*given, weights=found))


# ----------------------------------------------------------------------------------------------------- enough, no more


@pytest.mark.parametrize("name", few(MODELS, FEW_TEXTS))
def test_what_is_kept_suffices(name: str) -> None:
    assert stepped(model(name), [1] * LENGTH) < EXACT
    assert stepped(model(name), [4, 3, 1, 3]) < EXACT


@settings(max_examples=20, deadline=None)
@given(st.sampled_from(MODELS), st.lists(st.integers(1, 7), min_size=1, max_size=5))
def test_chunks_of_any_length(name: str, lengths: list[int]) -> None:
    assume(sum(lengths) <= 11 or name != "gpt2_without_biases")  # it has no more positions
    assert stepped(model(name), lengths) < EXACT


@pytest.mark.parametrize("name", BOUNDED)
def test_one_position_fewer_does_not_suffice(name: str) -> None:
    assert stepped(model(name), [1] * LENGTH, fewer=1) > 0.01


@pytest.mark.parametrize("case", CACHES, ids=lambda case: case.name)
def test_any_text(case: Cached) -> None:
    """What nobody here wrote a cache for: what is kept is what its author first wrote at another position."""
    bound = case.model()
    assert {entry.full_path: entry.back for entry in bound.kept if not entry.source} == case.kept
    assert stepped(bound, [1] * LENGTH) < EXACT
    assert stepped(bound, [4, 3, 1, 3]) < EXACT
    if any(entry.back is not None and entry.kind != "sum" for entry in bound.kept):
        assert stepped(bound, [1] * LENGTH, fewer=1) > 0.01


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(texts(causal=True), st.permutations([2, 3, 5, 7, 4]), st.lists(st.integers(1, 4), min_size=1, max_size=4))
def test_random_texts(text: Text, sizes: list[int], lengths: list[int]) -> None:
    """What is kept of any causal text suffices."""
    given = {letter: size for letter, size in text.sizes(*sizes).items() if letter not in "BS"}
    bound = einformer.parse(text.text).bind(**given | ({"V": 53} if text.tokens else {}))
    assume(bound.legend.axis_of_size("K") is None or sum(lengths) <= bound.size("K"))
    arrays = inputs(bound, {"S": sum(lengths)}, len(text.text))
    try:
        expected = bound.reference(*arrays, weights=weights(bound))
        found = decode(bound, chunked(arrays, [1] * len(arrays), lengths), weights(bound))
    except EinformerError as refused:
        assume(refused.findings[0].code not in ("E309", "E508"))
        raise
    assume(np.isfinite(expected).all() and decided(bound, arrays, expected))
    assert error(found, expected) < 1e-10


def test_a_plan_that_forgets_a_tensor_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    """The test above does test: each tensor that is kept is needed."""
    for name in ("llama", "deepseek_v3", "linear_attention_masked", "delta_net"):
        kept = model(name).kept
        for left_out in {entry.name for entry in kept}:
            some = tuple(entry for entry in kept if entry.name != left_out)
            monkeypatch.setattr(Model, "kept", some)
            assert stepped(model(name), [6, 5]) > 0.01
            monkeypatch.undo()


# -------------------------------------------------------------------------------------------------------------- bytes

GPT2 = {"D": 768, "A": 12, "L": 12, "V": 50257, "K": 1024}
LLAMA_3_8B = {"D": 4096, "A": 32, "G": 8, "L": 32, "F": 14336, "V": 128256}
LLAMA_2_70B = {"D": 8192, "A": 64, "G": 8, "L": 80, "F": 28672, "V": 32000}
MISTRAL_7B = {"D": 4096, "A": 32, "G": 8, "L": 32, "F": 14336, "V": 32000, "W": 4096}
DEEPSEEK_V3 = {
    "D": 7168, "A": 128, "N": 128, "E": 64, "U": 128, "C": 1536, "R": 512, "F": 18432, "X": 256, "G": 8, "M": 2048,
    "Z": 1, "V": 129280, "L": 61,
}  # fmt: skip
GPT_OSS_20B = {"D": 2880, "A": 64, "G": 8, "H": 64, "X": 32, "F": 2880, "V": 201088, "L": 24}
PUBLISHED = {  # bytes of a token in bfloat16, and by which formula
    "gpt2": (GPT2, 2 * 2 * 768 * 12),  # 2 p D L: Pope et al. 2022, Kipply's inference arithmetic
    "llama": (LLAMA_3_8B, 131_072),  # 2 p G H L
    "mistral": (MISTRAL_7B, 131_072),
    "deepseek_v3": (DEEPSEEK_V3, 70_272),  # (512 + 64) p L: DeepSeek-V2 report, section 2.1
    "gpt_oss": (GPT_OSS_20B, 2 * 2 * 8 * 64 * 24),
}


@pytest.mark.parametrize("name", PUBLISHED)
def test_bytes_are_the_published_ones(name: str) -> None:
    sizes, per_token = PUBLISHED[name]
    found = einformer.load(name).bind(**sizes).cache_bytes("bfloat16", B=3, S=100)
    assert (found.per_token, found.total) == (per_token, 3 * 100 * per_token)


def test_bytes_of_llama_2_70b() -> None:
    assert einformer.load("llama").bind(**LLAMA_2_70B).cache_bytes("bfloat16", B=1, S=4096).total == 4096 * 327_680


def test_a_window_caps_the_bytes() -> None:
    """Of Mistral 7B at most 4096 positions; of gpt-oss every second layer 128."""
    mistral = einformer.load("mistral").bind(**MISTRAL_7B)
    assert [mistral.cache_bytes("bfloat16", B=1, S=s).total // 131_072 for s in (4095, 4096, 4097, 100_000)] == [
        4095, 4096, 4096, 4096,
    ]  # fmt: skip
    per_layer = 2 * 2 * 8 * 64
    total = einformer.load("gpt_oss").bind(**GPT_OSS_20B).cache_bytes("bfloat16", B=1, S=1000).total
    assert total == 12 * per_layer * (128 + 1000)


def test_a_state_has_the_same_bytes_at_any_length() -> None:
    bound = model("mamba2")
    sizes = {letter: bound.size(letter) for letter in "GJHNC"}
    state = sizes["H"] * sizes["N"] * sizes["G"] * sizes["J"]
    taps = (sizes["C"] - 1) * (sizes["H"] * sizes["G"] * sizes["J"] + 2 * sizes["G"] * sizes["N"])
    assert {bound.cache_bytes("float32", B=2, S=s).total for s in (4, 1000)} == {2 * 4 * (state + taps)}
    assert bound.cache_bytes("float32", B=2, S=9).per_token == 0


def test_tokens_have_eight_bytes() -> None:
    """Whatever the dtype of the weights."""
    case = next(case for case in CACHES if case.name == "tokens are kept as tokens")
    assert case.model().cache_bytes("bfloat16", B=3, S=11).total == 8 * 3 * 11


def test_an_unknown_dtype_is_refused() -> None:
    with pytest.raises(EinformerError, match="E605"):
        model("gpt2").cache_bytes("int3", B=1, S=1)


# ------------------------------------------------------------------------------------------------------------ formulas

FORMULAS = {  # what is held in all
    "gpt2": "2*p*B*D*L*S",
    "llama": "2*p*B*S*L*G*D/A",
    "qwen3": "2*p*B*S*L*G*H",
    "mistral": "2*p*B*L*G*D/A*Min(S, W)",
    "gemma2": "2*p*B*G*H*(ceiling(L/2)*Min(S, 4096) + (L - ceiling(L/2))*S)",
    "deepseek_v3": "p*B*S*L*(R + E)",
    "linear_attention": "p*B*L*A*E*U",
    "mamba2": "p*B*G*(H*J*N + (C - 1)*(H*J + 2*N))",
}


@pytest.mark.parametrize("name", FORMULAS)
def test_the_bytes_have_a_formula(name: str) -> None:
    written = sympy.sympify(FORMULAS[name], {letter: sympy.Symbol(letter) for letter in "ABCDEGHJLNRSUWp"})
    assert sympy.expand(einformer.load(name).cache_bytes().total - written) == 0


def test_a_token_more_has_a_formula() -> None:
    p, d, layers = sympy.symbols("p D L")
    assert einformer.load("gpt2").cache_bytes().per_token == 2 * p * d * layers
    assert einformer.load("gpt2").cache_bytes("bfloat16").per_token == 4 * d * layers
    assert einformer.load("mamba2").cache_bytes().per_token == 0


def in_letters(bound: Model, length: int) -> tuple[int, int]:
    """The formulas of the bytes at the sizes of a model and of its inputs."""
    at, found = bound.at(**bound.inputs(3, length)), bound.spec.cache_bytes("float32")
    numbers = {letter: at.named(Name(str(letter))) for letter in found.per_token.free_symbols | found.total.free_symbols}
    return found.per_token.subs(numbers), found.total.subs(numbers)


@pytest.mark.parametrize("name", few(MODELS, FEW_TEXTS))
def test_the_formula_is_that_of_what_is_held(name: str) -> None:
    """What is followed turn by turn at some sizes, and in letters."""
    bound = model(name)
    for length in (2, 3, 5, 11):
        expected = bound.cache_bytes("float32", **bound.inputs(3, length))
        if name in LISTED:
            with pytest.raises(EinformerError, match="E607"):
                bound.spec.cache_bytes()
            continue
        assert in_letters(bound, length) == (expected.per_token, expected.total)


@pytest.mark.parametrize("case", CACHES, ids=lambda case: case.name)
def test_the_formula_of_any_text(case: Cached) -> None:
    """What masks do not say in sums of positions, or what differs between the turns of a layer's own loop, has none."""
    bound = case.model()
    unclear = ("chunks reach back", "two loops change", "windows in turn", "positions that a layer chooses for", "keys of a")
    for length in (2, 3, 5, 11):
        expected = bound.cache_bytes("float32", B=3, S=length)
        if case.name.startswith(unclear):
            with pytest.raises(EinformerError, match="E607"):
                bound.spec.cache_bytes()
        else:
            assert in_letters(bound, length) == (expected.per_token, expected.total)


WITHOUT_FORMULA = {  # another number in each turn, or in turns that no formula counts
    "attention before a loop that shifts", "attention in a loop before what shifts", "a tensor that two loops read and change",
    "attention, a loop that never turns, and a shift", "a window, then taps in a loop",
    "a shift in some turns, attention in others", "a state as far back as the feature and the turn say",
    "the number of a turn in a call", "a weight of each turn in a call of one instance", "a layer is chosen by an argument",
    "a choice in the other branch", "a choice in the first branch", "a choice in a sum in a choice",
    "a choice of instances that all turns share", "a choice by two loops", "a choice by numbers that are data",
    "as far back as the turn", "visible positions in the first turn alone",
    "as far back as the turn inside, and changed outside", "all positions in the last turns inside, and changed outside",
    "a window of a list, and all positions", "two loops in a loop, one reads earlier",
    "a shift before two loops, of which one shifts", "a shift in the first turn of a loop alone",
    "a window that is wider in each turn, and loops in it",
}  # fmt: skip


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.name)
def test_the_formula_of_any_form(form: Form) -> None:
    """What some turns of a loop keep is counted in those alone, or has no formula."""
    bound = form.model("apart")
    expected = bound.cache_bytes("float32", B=3, S=7)
    if form.name in WITHOUT_FORMULA:
        with pytest.raises(EinformerError, match="E607"):
            bound.spec.cache_bytes()
    else:
        assert in_letters(bound, 7) == (expected.per_token, expected.total)


def test_what_sizes_decide_has_no_formula() -> None:
    """A window at some sizes, all positions at others."""
    spec = einformer.parse(
        "axes\n  s: S\n  d: D\nmodel Text(z_sd) -> y_sd causal in s:\n"
        "  w_ss' = Sm_s'(z_sd z_s'd + where(s' <= s and (D > 5 or s - 4 < s'), 0, -inf))\n  return w_ss' z_s'd\n"
    )
    assert [spec.bind(D=size).kept[0].back for size in (5, 6)] == [3, None]
    with pytest.raises(EinformerError, match="E607 how far back"):
        spec.cache_bytes()


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(texts(causal=True), st.permutations([2, 3, 5, 7, 4]), st.integers(2, 9))
def test_the_formula_of_random_texts(text: Text, sizes: list[int], length: int) -> None:
    given = {letter: size for letter, size in text.sizes(*sizes).items() if letter not in "BS"}
    bound = einformer.parse(text.text).bind(**given | ({"V": 53} if text.tokens else {}))
    assume(bound.legend.axis_of_size("K") is None or length <= bound.size("K"))
    try:
        expected = bound.cache_bytes("float32", **bound.inputs(3, length))
        found = in_letters(bound, length)
    except EinformerError as refused:
        assume(refused.findings[0].code not in ("E309", "E508", "E607"))
        raise
    assert found == (expected.per_token, expected.total)


# ------------------------------------------------------------------------------------------------------------ refusals


def test_what_does_not_say_that_it_is_causal_has_no_cache() -> None:
    text = "axes\n  s: S\n  d: D\nlayer Same(z_sd) -> z_sd:\n  return z_sd\n"
    with pytest.raises(EinformerError, match=r"E508 .*does not say in which axis it is causal"):
        einformer.parse(text).bind(D=3).cache_bytes(S=2)


def test_a_tensor_over_all_visible_positions_is_not_kept() -> None:
    """Scores of an earlier position have as many numbers as that position saw."""
    text = """axes
  s: S
  d: D
model Text(z_sd) -> y_sd causal in s:
  w_ss' = Sm_s'(z_sd z_s'd + where(s' <= s, 0, -inf))
  w'_ss' = where(s' <= s, w_ss' + w_{(s - 1)s'}, 0)
  return w'_ss' z_s'd
"""
    with pytest.raises(EinformerError, match=r"E508 .*`w` is over all visible positions too"):
        einformer.parse(text).bind(D=3).cache_bytes(S=2)


def test_a_window_beside_what_is_given_at_all_positions_is_refused() -> None:
    """In one layer s' runs over one range."""
    text = """axes
  s: S
  d: D
layer Mix(z_sd, k_s'd) -> z_sd:
  w_ss' = Sm_s'(z_sd z_s'd + where(s - 2 < s' <= s, 0, -inf))
  y_ss' = Sm_s'(z_sd k_s'd + where(s' <= s, 0, -inf))
  return w_ss' z_s'd + y_ss' k_s'd
model Text(z_sd) -> y_sd causal in s:
  weights A_d
  k_sd = A_d z_sd
  return Mix(tanh(z_sd), k_s'd)
"""
    with pytest.raises(EinformerError, match="E508 `Mix` keeps a window of `z`, and is given `k` at all visible positions"):
        einformer.parse(text).bind(D=3).cache_bytes(S=2)


def test_a_running_sum_in_a_recurrence_is_refused() -> None:
    body = "  S_sd = tanh(S_{(s - 1)d}) + cumsum_s z_sd\n  return S_sd\n"
    text = f"axes\n  s: S\n  d: D\nmodel Text(z_sd) -> y_sd causal in s:\n{body}"
    with pytest.raises(EinformerError, match="E508 this sum stands in the recurrence of `S`"):
        einformer.parse(text).bind(D=3).cache_bytes(S=2)


def test_a_position_that_depends_on_inputs_is_refused_when_the_text_is_read() -> None:
    text = "axes\n  b: B\n  s: S\n  d: D\nmodel Look(z_bsd, i_bs) -> y_bsd causal in s:\n  return z_{b i_bs d} s\n"
    with pytest.raises(EinformerError, match="E501"):
        einformer.parse(text)


def test_an_angle_of_the_length_is_refused_when_the_text_is_read() -> None:
    text = "axes\n  s: S\n  d: D\nmodel Turn(z_sd) -> y_sd causal in s:\n  return z_sd cos(s / S)\n"
    with pytest.raises(EinformerError, match="E504"):
        einformer.parse(text)


def test_positions_are_counted_as_far_as_a_window_reaches() -> None:
    """A window of any width, also one that is a formula, is found to the position."""
    for width in (1, 2, 11, 12, 13, 100, 4096, 131_072):
        assert {entry.back for entry in einformer.load("mistral").bind(**MISTRAL_7B | {"W": width}).kept} == {width - 1}
    assert {entry.back for entry in einformer.load("mistral").bind(**MISTRAL_7B | {"W": math.inf}).kept} == {None}
    assert np.all([entry.kind == "visible" for entry in model("llama").kept])
