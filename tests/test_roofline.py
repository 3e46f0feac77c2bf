"""Are bytes moved, intensities and bounds of time right? Against the formulas and figures of notes, books and papers."""

from __future__ import annotations

import itertools
import json
from typing import Any

import pytest
import sympy

import einformer
from einformer import EinformerError, load
from einformer.cli import main
from einformer.interpreters.count.conventions import CONVENTIONS, DEFAULT, PRECISIONS, Device, read_devices
from einformer.interpreters.count.numbers import Numbers
from einformer.interpreters.count.roofline import TimeBound, bound_decode, bound_prefill, bound_training, count_read_weights
from einformer.interpreters.count.rules import Traffic, count_traffic, find_intensity
from einformer.interpreters.count.symbols import Symbols
from einformer.language.sizes import Legend
from einformer.objects import Model, Specification
from tests.texts import spec as text

B, S, D, G, J, C, p = sympy.symbols("B S D G J C p")
HALF = PRECISIONS["bfloat16"]


def formulas(spec: Specification, fused: bool = False, cached: Any = 0, element: Any = p) -> list[Traffic[sympy.Expr]]:
    sizes = Symbols(Legend.of(spec.tree), cached=cached)
    return list(count_traffic(spec.tree, spec.name, sizes, DEFAULT, element, fused))


def having(moves: list[Traffic[Any]], *words: str) -> list[Traffic[Any]]:
    """The equations in which one of some words stands."""
    found = [each for each in moves if any(word in each.text for word in words)]
    assert len(found) == len(words)
    return found


def equal(left: sympy.Expr, right: sympy.Expr) -> bool:
    return bool(sympy.simplify(left - right) == 0)


# ------------------------------------------------------------------------------------------------- bytes and intensity


def test_a_square_projection_has_the_intensity_of_the_notes_corrected() -> None:
    """(B, S, D) x (D, D): 2 B S D / (p (2 B S + D)); the notes print half of it."""
    gpt2 = load("gpt2")
    projections = having(formulas(gpt2), "z_bsd Q_dea", "z_bsd K_dea", "z_bsd V_dea", "u_bsd' O_d'd")
    for each in projections:
        assert equal(find_intensity([each]), 2 * B * S * D / (p * (2 * B * S + D)))


def test_decoding_does_two_flops_for_each_byte_of_the_weights_and_row() -> None:
    """2 B / p, of the weights alone: the notes have half of it."""
    for each in having(formulas(load("gpt2")), "z_bsd Q_dea", "gelutanh(z_bsd W_df", "h_bsf U_fd"):
        whole = (each.each / each.moved).subs({S: 1})
        assert equal(sympy.limit(whole, D, sympy.oo), 2 * B / p)


def core(fused: bool, cached: Any = 0) -> sympy.Expr:
    """The intensity of grouped attention, J queries for each key, two bytes a number."""
    both = having(formulas(load("llama"), fused, cached, 2), "q_segj k_s'eg", "w_ss'gj v_s'eg")
    return find_intensity(both).subs(sympy.Symbol("A"), J * G)


def test_attention_of_a_prompt_has_the_intensity_of_the_scaling_book() -> None:
    """T G / (G + 1), where G is our J: what has two positions stays on the chip."""
    assert equal(core(fused=True), S * J / (J + 1))


def test_attention_in_decoding_has_the_intensity_of_the_scaling_book() -> None:
    """S G / (G + S), where S is what is cached and the position itself."""
    assert equal(core(fused=True, cached=C - 1).subs(S, 1), C * J / (J + C))


def test_attention_that_fuses_nothing_moves_the_scores() -> None:
    """Of each of the two products: one of S x S numbers, one of S x H for each query, and the keys or values."""
    assert sympy.limit(core(fused=False), S, sympy.oo) == sympy.Symbol("D") / (G * J)  # H: 4 H / (2 · 2)


def test_what_a_product_of_matrices_moves_is_the_sum_of_their_numbers() -> None:
    """Against enumeration: each number of the operands and of the result, once."""
    product = text("i: I\n  j: J\n  k: K", "layer Times(x_ij, y_jk) -> z_ik:", "  return x_ij y_jk").bind(I=3, J=5, K=7)
    (found,) = count_traffic(product.spec.tree, product.spec.name, Numbers(product.legend), DEFAULT, 4)
    numbers = [len(list(itertools.product(range(m), range(n)))) for m, n in ((3, 5), (5, 7), (3, 7))]
    assert (found.read, found.written) == (4 * sum(numbers[:2]), 4 * numbers[2])
    assert found.each == 2 * 3 * 5 * 7


def test_only_chosen_experts_are_read() -> None:
    mixtral = load("mixtral").bind(D=12, A=3, G=3, F=20, X=8, L=2, V=11)
    moves = count_traffic(mixtral.spec.tree, mixtral.spec.name, Numbers(mixtral.at(B=1, S=1)), DEFAULT, 2)
    gate = next(each for each in moves if "G_xdf" in each.text)
    assert gate.read == 2 * (12 + 2 * 12 * 20)  # two of the eight experts
    assert gate.written == 2 * 2 * 20


def test_under_a_mask_the_exact_convention_moves_the_pairs_it_allows() -> None:
    gpt2 = einformer.model("gpt2")
    sizes = Numbers(gpt2.at(B=1, S=8))
    full, exact = (
        next(
            each for each in count_traffic(gpt2.spec.tree, gpt2.spec.name, sizes, CONVENTIONS[name], 1) if "Sm_s'" in each.text
        )
        for name in ("torch", "exact")
    )
    assert (full.written, exact.written) == (12 * 64, 12 * 36)
    assert full.read == exact.read == 2 * 8 * 768


# ------------------------------------------------------------------------------------------------------- bounds of time


def bound(model: Model, work: str, device: Device, count: int = 1, **sizes: int) -> TimeBound:
    """As `Model` has it, from the parts."""
    tree, name = model.spec.tree, model.spec.name
    cache = model.cache_bytes("bfloat16", **sizes).total
    if work == "prefill":
        return bound_prefill(tree, name, model.at(**sizes), cache, HALF, device, count)
    return bound_decode(tree, name, model.at(**sizes | {"S": 1}), sizes["S"] - 1, cache, HALF, device, count)


A100 = Device("A100 as kipply rounds it", {"bfloat16": 312e12}, 1.5e12, 40e9, "kipply")
KIPPLY = {"D": 8192, "A": 64, "L": 64, "V": 65536, "K": 8192}
BIASES = ("CausalAttention.α", "CausalAttention.κ", "CausalAttention.ν", "CausalAttention.ω", "MLP.ω", "MLP.υ", "LayerNorm.β")


@pytest.fixture(scope="module")
def kipply() -> Model:
    return load("gpt2").without(*BIASES).bind(**KIPPLY)


def test_a_step_of_52b_reads_what_kipply_says(kipply: Model) -> None:
    """12 L D² + V D parameters, and gains that are not counted there; 2,097,152 bytes of cache for each position."""
    gains = (2 * 64 + 1) * 8192
    found = bound(kipply, "decode", A100, B=1, S=1)
    assert found.moved == 2 * (52_076_478_464 + gains) + 2_097_152
    assert bound(kipply, "decode", A100, B=1, S=1001).moved - found.moved == 1000 * 2_097_152
    assert bound(kipply, "decode", A100, B=3, S=1).moved - found.moved == 2 * 2_097_152


def test_a_step_of_52b_computes_what_kipply_says(kipply: Model) -> None:
    """24 L D² of the blocks (103,079,215,104), 2 V D of the head, and one pair of positions: 4 L D."""
    found = bound(kipply, "decode", A100, B=1, S=1)
    assert found.flops == 103_079_215_104 + 2 * 65536 * 8192 + 4 * 64 * 8192
    assert found.limit == "memory"


@pytest.mark.parametrize(("rows", "milliseconds", "limit"), [(1, 21.7, "memory"), (512, 53.3, "compute")])
def test_a_260b_on_sixteen_devices_takes_what_kipply_says(rows: int, milliseconds: float, limit: str) -> None:
    found = TimeBound("decode", rows * 2 * 260 * 10**9, 2 * 260 * 10**9, A100, 312e12, 16)
    assert (round(found.seconds * 1e3, 1), found.limit) == (milliseconds, limit)


def test_falcon_40b_with_200_rows_takes_what_the_notes_say() -> None:
    """12.8 ms on four devices: 78 tokens a second for each row."""
    found = TimeBound("decode", 200 * 2 * 40 * 10**9, 2 * 40 * 10**9, read_devices()["a100-80gb"], 312e12, 4)
    assert round(found.seconds * 1e3, 1) == 12.8
    assert int(1 / found.seconds) == 78


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        (1, "21.7 ms for decode on A100 as kipply rounds it: 520,000,000,000 bytes at 24 TB/s"),
        (512, "53.3 ms for decode on A100 as kipply rounds it: 266,240,000,000,000 FLOPs at 4992 TFLOP/s"),
    ],
)
def test_a_bound_says_where_it_comes_from(rows: int, said: str) -> None:
    assert str(TimeBound("decode", rows * 2 * 260 * 10**9, 2 * 260 * 10**9, A100, 312e12, 16)) == said


@pytest.mark.parametrize(
    ("flops", "said"), [(5e18, "5 s"), (2.5e15, "2.5 ms"), (3e12, "3 µs"), (4e9, "4 ns"), (4e5, "0.0004 ns")]
)
def test_time_has_a_unit(flops: float, said: str) -> None:
    assert TimeBound("decode", int(flops), 0, A100, 1e18).time == said


def test_count_says_how_long_it_takes_at_least(capsys: pytest.CaptureFixture[str]) -> None:
    """28 bytes for each parameter in training; weights and cache in decoding."""
    assert main(["count", "gpt2", "--device", "h100-sxm"]) == 0
    said = [line for line in capsys.readouterr().out.splitlines() if line.startswith("at least")]
    assert [line.split(" for ")[1].split()[0] for line in said] == ["prefill", "decode", "training"]
    assert said[1].endswith(f"{2 * (124_439_808 - 1024 * 768) + 1024 * 36864:,} bytes at 3.35 TB/s")
    assert main(["count", "gpt2", "--device", "h100-sxm", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["device"] == "h100-sxm"
    assert found["seconds_at_least"]["training"] >= 28 * 124_439_808 / 3.35e12


def test_a_prompt_computes_only_its_last_logits_and_half_of_the_pairs() -> None:
    gpt2 = einformer.model("gpt2")
    found = bound(gpt2, "prefill", A100, B=1, S=1024)
    exact, head = 272_339_828_736, 79_047_426_048  # nanoGPT's parts, S (S + 1) / 2 pairs
    assert found.flops == exact - head + head // 1024
    assert found.moved == 2 * (124_439_808 - 1024 * 768) + 1024 * 73728 // 2  # the table of positions is read by rows


def test_a_table_that_is_not_the_head_is_read_by_rows() -> None:
    untied = load("llama").bind(D=16, A=4, G=2, F=24, L=2, V=11)
    tied = load("llama").without("Llama.U").bind(D=16, A=4, G=2, F=24, L=2, V=11)
    read = [count_read_weights(model.spec.tree, model.spec.name, model.legend, HALF) for model in (untied, tied)]
    assert read[0] == read[1] == 2 * tied.num_parameters == 2 * (untied.num_parameters - 11 * 16)


def test_only_the_experts_of_one_token_must_be_read() -> None:
    """Two of eight: 12,879,925,248 parameters of Mixtral 8x7B compute, of them 32000 x 4096 as rows."""
    mixtral = load("mixtral").bind(D=4096, A=32, G=8, H=128, F=14336, X=8, L=32, V=32000)
    assert count_read_weights(mixtral.spec.tree, mixtral.spec.name, mixtral.legend, HALF) == 2 * (12_879_925_248 - 32000 * 4096)


@pytest.mark.parametrize(("precision", "bytes_"), [("float32", 24), ("bfloat16", 28), ("megatron-float16", 28), ("sgd", 20)])
def test_a_training_step_moves_what_the_optimiser_changes_twice(precision: str, bytes_: int) -> None:
    """Parameters, their copy, and moments: 4 + 8, and 2 + 4 + 8 bytes for each; gradients may stay on the chip."""
    gpt2, device = einformer.model("gpt2"), read_devices()["h100-sxm"]
    found = bound_training(gpt2.spec.tree, gpt2.spec.name, gpt2.at(B=2, S=64), PRECISIONS[precision], device)
    assert found.moved == bytes_ * 124_439_808
    assert found.flops == gpt2.flops(convention="exact", phase="training", B=2, S=64)


# ------------------------------------------------------------------------------------------------------------- devices


@pytest.mark.parametrize(("name", "ridge"), [("b200", 281), ("h100-sxm", 295), ("a100-80gb", 156), ("v100s", 118)])
def test_the_ridges_of_devices_are_those_of_the_notes(name: str, ridge: int) -> None:
    """There from bandwidths rounded to two digits, 2.0 and 1.1 TB/s."""
    device = read_devices()[name]
    assert device.peak["float16"] / device.bandwidth == pytest.approx(ridge, rel=0.03)


@pytest.mark.parametrize("name", read_devices())
def test_a_device_is_whole(name: str) -> None:
    device = read_devices()[name]
    assert device.title
    assert device.source
    assert set(device.peak) <= {"float32", "bfloat16", "float16"}
    assert 1e12 < max(device.peak.values()) < 1e16
    assert 1e11 < device.bandwidth < 1e13
    assert device.peak.get("float32", 0) <= max(device.peak.values())


def test_a_rate_that_nobody_published_is_refused() -> None:
    with pytest.raises(EinformerError, match=r"^E605 .* in bfloat16"):
        read_devices()["v100s"].rate(HALF)
    assert read_devices()["v100s"].rate(PRECISIONS["float16"]) == 130e12
