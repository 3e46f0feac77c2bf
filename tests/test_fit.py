"""Are solved sizes the largest that fit, and the powers of growth right? Against scans, closed forms and published sizes."""

from __future__ import annotations

import doctest
import json
import math
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest
import sympy

import einformer
from einformer import EinformerError, load
from einformer.cli import main
from einformer.interpreters.count import roofline, rules
from einformer.interpreters.count.algebra import exponent, leading
from einformer.objects import Model
from einformer.report import fit
from einformer.report.fit import BYTES, NUMBERS, find_largest, in_memory, of_parameters, parse_quantity
from tests.few import few
from tests.refusals import refuses

A, B, D, E, F, G, L, S, V, W = sympy.symbols("A B D E F G L S V W")


@pytest.mark.parametrize("module", [fit, roofline, rules])
def test_examples_of_the_docstrings(module: ModuleType) -> None:
    result = doctest.testmod(module)
    assert result.attempted
    assert not result.failed


# --------------------------------------------------------------------------------------------------------- quantities


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("80GB", 80 * 10**9),
        ("80GiB", 85_899_345_920),
        ("1.5TB", 1_500_000_000_000),
        ("0.5 KiB", 512),
        ("7B", 7),
        (" 24 MB ", 24_000_000),
        ("0.1GB", 100_000_000),
    ],
)
def test_a_size_is_decimal_or_binary_as_its_unit_says(text: str, size: int) -> None:
    assert parse_quantity(text, BYTES) == size


@pytest.mark.parametrize(("text", "size"), [("1.3B", 1_300_000_000), ("124M", 124_000_000), ("42", 42), ("1.7T", 17 * 10**11)])
def test_a_number_of_parameters_has_the_units_of_papers(text: str, size: int) -> None:
    assert parse_quantity(text, NUMBERS) == size


@pytest.mark.parametrize(
    "text", ["", "80", "80G", "80Gb", "80gb", "-1GB", "0GB", "nanGB", "infGB", "1e9B", "80 G B", "1,5GB", "²GB"]
)
def test_what_is_no_size_is_refused(text: str) -> None:
    with pytest.raises(EinformerError, match=r"^E608 "):
        parse_quantity(text, BYTES)


@pytest.mark.parametrize("unit", ["KB", "kB"])
def test_a_thousand_bytes_are_written_with_either_k(unit: str) -> None:
    assert parse_quantity(f"1{unit}", BYTES) == parse_quantity(f"1 {unit}", BYTES) == 1000
    assert parse_quantity(f"1 {unit[0]}iB", BYTES) == 1024
    assert parse_quantity(f"3{unit[0]}", NUMBERS) == 3000


def test_a_size_beyond_all_is_refused() -> None:
    with pytest.raises(EinformerError, match=r"^E608 "):
        parse_quantity("9999999999PB", BYTES)


# ----------------------------------------------------------------------------------------------------------- bisection


@pytest.mark.parametrize("step", [1, 3])
@pytest.mark.parametrize("most", [1, 5, 24, 10**18])
def test_the_largest_is_that_of_a_scan(step: int, most: int) -> None:
    for limit in range(60):
        scanned = [size for size in range(step, min(most, 60) + 1, step) if size * size // 7 + size <= limit]
        found = find_largest(lambda size: size * size // 7 + size, limit, step, most)
        assert (found.size if found else None) == max(scanned, default=None)
        if found:
            after = found.size + step
            assert found.above == ((after, after * after // 7 + after) if after <= most else None)


def test_the_largest_asks_seldom() -> None:
    asked: list[int] = []

    def count(size: int) -> int:
        asked.append(size)
        return size

    assert find_largest(count, 10**12) == fit.LargestSize(10**12, 10**12, (10**12 + 1, 10**12 + 1))
    assert len(asked) < 90


# -------------------------------------------------------------------------------------------------------------- memory


@pytest.fixture(scope="module")
def xl() -> Model:
    return einformer.model("gpt2-xl")


@pytest.mark.parametrize("letter", ["B", "S"])
@pytest.mark.parametrize("recompute", ["none", "selective", "full"])
def test_a_size_of_the_inputs_fits_and_the_next_does_not(xl: Model, letter: str, recompute: Any) -> None:
    limit, sizes = 60 * 10**9, {"B": 3, "S": 900}
    found = in_memory(xl, limit, letter, recompute=recompute, B=3, S=900).found
    for size, count in ((found.size, found.count), found.above or (0, 0)):
        sizes[letter] = size or 1
        assert not size or count == xl.memory(recompute=recompute, B=sizes["B"], S=sizes["S"]).total
    assert found.count <= limit
    assert found.above[1] > limit if found.above else found.size == 1024


def test_a_batch_is_what_the_state_leaves_over(xl: Model) -> None:
    """A closed form: 18 bytes a parameter, and of each row L S D (34 + 5 A S / D) and the logits in float32."""
    limit, length = 80 * 10**9, 512
    found = in_memory(xl, limit, "B", S=length).found
    row = 48 * length * 1600 * 34 + 48 * 5 * 25 * length**2 + 4 * length * 50257
    state = 18 * 1_557_611_200
    assert found.size == pytest.approx((limit - state) / row, rel=0.02)  # embedding, dropout and the last norm beside


def test_a_depth_is_what_memory_leaves_over() -> None:
    small = load("gpt2").bind(D=64, A=4, L=2, V=97, K=32)
    limit = 50 * 10**6
    found = in_memory(small, limit, "L", B=2, S=32).found
    counts = [load("gpt2").bind(D=64, A=4, L=found.size + k, V=97, K=32).memory(B=2, S=32).total for k in (0, 1)]
    assert counts == [found.count, found.above and found.above[1]]
    assert counts[0] <= limit < counts[1]


def test_generation_holds_weights_and_cache(xl: Model) -> None:
    """2 p L D bytes of cache for each position of a row, in 2 bytes as the weights."""
    row = 1024 * 2 * 2 * 48 * 1600
    found = in_memory(xl, 40 * 10**9, "B", use="generation", S=1024).found
    assert found.size == (40 * 10**9 - 2 * 1_557_611_200) // row
    assert found.count == 2 * 1_557_611_200 + found.size * row


def test_a_window_lets_any_sequence_fit() -> None:
    mistral = load("mistral").bind(D=64, A=4, G=2, F=96, L=2, V=97, W=16)
    assert in_memory(mistral, 10**7, "S", use="generation", B=1).found.size == 10**18


OVER: dict[str, Any] = {"mesh": "tp=5", "shard": "tp: a d' f (s)"}


def test_a_mesh_makes_room(xl: Model) -> None:
    alone, shared = (in_memory(xl, 80 * 10**9, "B", **over, S=1000).found.size for over in ({}, OVER))
    assert shared > 3 * alone


def test_a_size_that_devices_share_is_a_multiple_of_them(xl: Model) -> None:
    found = in_memory(xl, 80 * 10**9, "S", **OVER, B=60).found
    assert found.size % 5 == 0
    assert found.above == (found.size + 5, xl.memory(**OVER, B=60, S=found.size + 5).total)


def test_a_batch_fills_the_fullest_stage_of_a_pipeline(xl: Model) -> None:
    """In microbatches, which the ranks of the batch share."""
    over: dict[str, Any] = {"mesh": "pp=4,dp=2", "shard": "pp: l; dp: b", "microbatches": 3}
    found = in_memory(xl, 40 * 10**9, "B", **over, S=1000).found
    more = found.size + 6
    assert found.size % 6 == 0
    assert (found.count, found.above) == (
        xl.memory(**over, B=found.size, S=1000).total,
        (more, xl.memory(**over, B=more, S=1000).total),
    )


def test_a_sequence_stays_within_its_bound(xl: Model) -> None:
    found = in_memory(xl, 10**12, "S", B=1).found
    assert (found.size, found.above) == (1024, None)


@pytest.mark.parametrize(("use", "limit"), [("training", 25 * 10**9), ("generation", 3 * 10**9)])
def test_what_cannot_fit_is_said(xl: Model, use: Any, limit: int) -> None:
    with pytest.raises(EinformerError, match=r"^E609 .* = 1 takes"):
        in_memory(xl, limit, "B", use=use, S=1024)


def test_a_letter_that_there_is_not_is_said(xl: Model) -> None:
    with pytest.raises(EinformerError, match=r"^E605 "):
        in_memory(xl, 10**11, "Q", B=1, S=8)


# ---------------------------------------------------------------------------------------------------------- parameters


@pytest.mark.parametrize("name", few(["gpt2", "gpt2-medium", "gpt2-large", "gpt2-xl"], {"gpt2", "gpt2-xl"}))
def test_the_published_width_gives_the_published_parameters(name: str) -> None:
    model = einformer.model(name)
    assert of_parameters(model, model.num_parameters).found.size == model.size("D")
    assert of_parameters(model, model.num_parameters - 1).found.above == (model.size("D"), model.num_parameters)


def test_a_width_is_divisible_by_the_heads() -> None:
    """GPT-3 XL has 24 heads and 2048 wide, which is not: the nearest widths that are, and their parameters by its formula."""
    gpt3 = load("gpt2").bind(D=1536, A=24, L=24, V=50257, K=2048)
    found = of_parameters(gpt3, 1_315_723_264).found
    assert found.size % 24 == 0
    for size, count in ((found.size, found.count), found.above or (0, 0)):
        assert count == 12 * 24 * size**2 + 13 * 24 * size + (50257 + 2048) * size + 2 * size
    assert found.size < 2048 < found.size + 24


def test_a_width_keeps_rotary_pairs_whole() -> None:
    """H = D / A is even, so D is a multiple of 2 A."""
    llama = load("llama").bind(D=12, A=3, G=3, F=20, L=2, V=11)
    assert of_parameters(llama, 10**6).found.size % 6 == 0


def test_a_width_apart_from_the_heads_is_any() -> None:
    """H is a size of its own: D need not be divisible."""
    gemma = load("gemma2").bind(D=14, A=4, G=2, H=6, F=20, L=2, V=11)
    assert of_parameters(gemma, gemma.num_parameters).found.size == 14
    assert of_parameters(gemma, gemma.num_parameters - 1).found.size == 13


def test_a_head_too_narrow_for_its_rotary_pairs_is_passed_over() -> None:
    """R = 8 numbers of each head turn, so H is at least 8; with 5 heads D is a multiple of 5, and 40 the least."""
    neox = load("gpt_neox").bind(D=60, A=5, F=20, L=2, V=11, R=8)
    assert of_parameters(neox, neox.num_parameters).found.size == 60
    assert of_parameters(neox, neox.num_parameters - 1).found.size == 55
    least = load("gpt_neox").bind(D=40, A=5, F=20, L=2, V=11, R=8).num_parameters
    with pytest.raises(EinformerError, match=r"^E309 "):
        of_parameters(neox, least - 1)


@pytest.mark.parametrize("step", [48, 128])
def test_a_step_may_be_given(step: int) -> None:
    small = load("gpt2").bind(D=64, A=4, L=2, V=97, K=32)
    assert of_parameters(small, 10**7, step=step).found.size % step == 0


def test_too_few_parameters_are_said() -> None:
    with refuses("E609", "12"):
        of_parameters(einformer.model("gpt2"), 10**5)


# -------------------------------------------------------------------------------------------------------------- growth


@pytest.mark.parametrize(
    ("formula", "letters", "power", "part"),
    [
        (8 * B * S * D**2 + 4 * B * S**2 * D, "S", 2, 4 * B * S**2 * D),
        (8 * B * S * D**2 + 4 * B * S**2 * D, "SD", 3, 4 * B * S * D * (2 * D + S)),
        (S * (S + 1) - S**2, "S", 1, S),
        (S * sympy.Min(S, W), "S", 1, S * W),
        (S * sympy.Max(S, W), "S", 2, S**2),
        (S * sympy.Min(S, W), "SW", 2, S * sympy.Min(S, W)),
        (sympy.ceiling(L / 2) * D + V, "L", 1, L * D / 2),
        (sympy.sqrt(S) + 7, "S", sympy.Rational(1, 2), sympy.sqrt(S)),
        (2 * B * S * D / (2 * B * S + D), "S", 0, D),
        (2 * B * S * D / (2 * B * S + D), "D", 0, 2 * B * S),
        (V / (D * S), "S", -1, V / (D * S)),
        (sympy.Integer(7), "S", 0, sympy.Integer(7)),
    ],
)
def test_the_growth_of_a_formula(formula: sympy.Expr, letters: str, power: Any, part: sympy.Expr) -> None:
    assert exponent(formula, letters) == power
    assert sympy.simplify(leading(formula, letters) - part) == 0


def test_the_power_is_that_of_numbers() -> None:
    """Against floating point: the slope between two large numbers on a logarithmic scale."""
    found = load("gpt2").flops()
    sizes = {B: 2, D: 64, A: 4, E: 4, L: 3, V: 97}
    for letter in sizes | {S: 128}:
        at = {key: n for key, n in (sizes | {S: 128}).items() if key != letter}
        low, high = (float(found.subs(at | {letter: 10**k})) for k in (12, 13))
        assert round(math.log10(high / low), 3) == float(exponent(found, letter.name))


def test_a_formula_that_grows_by_no_power_is_refused() -> None:
    with pytest.raises(EinformerError, match=r"^E607 "):
        exponent(sympy.log(S), "S")


def test_parameters_to_leading_order_are_those_of_the_notes() -> None:
    """(4 + 2 E) L D²."""
    assert sympy.expand(leading(load("gpt2").parameters, "DL") - (4 + 2 * E) * L * D**2) == 0


@pytest.mark.parametrize(
    ("name", "power"), [("gpt2", 2), ("mistral", 1), ("linear_attention", 1), ("linear_attention_masked", 2)]
)
def test_the_growth_of_attention_is_that_of_its_kind(name: str, power: int) -> None:
    """Quadratic; linear under a window or with a state."""
    spec = load(name)
    found = spec.flops("exact")
    assert exponent(found, "S") == power


# ------------------------------------------------------------------------------------------------------------- command


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, str]]:
    def answer(*arguments: str) -> tuple[int, str, str]:
        return main(arguments), *capsys.readouterr()

    return answer


def test_fit_shows_the_size_and_the_next(run: Callable[..., tuple[int, str, str]]) -> None:
    code, out, _ = run("fit", "gpt2", "--parameters", "1.3B")
    assert code == 0
    assert "D = 2,820  1,290,203,580 parameters\nD = 2,832  1,300,587,504 parameters: above the limit\n" in out


def test_fit_json(run: Callable[..., tuple[int, str, str]]) -> None:
    code, out, _ = run("fit", "gpt2", "--memory", "24GB", "--seq", "256", "--precision", "float32", "--json")
    found, gpt2 = json.loads(out), einformer.model("gpt2")
    assert (code, found["letter"], found["what"], found["inputs"]) == (0, "B", "training", {"S": 256})
    assert found["count"] == gpt2.memory(precision="float32", B=found["size"], S=256).total <= found["limit"] == 24 * 10**9
    assert found["above"]["count"] == gpt2.memory(precision="float32", B=found["size"] + 1, S=256).total > 24 * 10**9


def test_fit_for_generation(run: Callable[..., tuple[int, str, str]]) -> None:
    """(10⁹ - 2 · 124,439,808) / (2 · 2 · 12 · 768 · 1024) = 19.9."""
    _, out, _ = run("fit", "gpt2", "--memory", "1GB", "--generation")
    assert out.startswith("gpt2.ein: pre-norm decoder with learned positions, S = 1,024\n\nB = 19 ")


@pytest.mark.parametrize(
    ("arguments", "code"),
    [(("--memory", "80G"), "E608"), (("--memory", "1MB"), "E609"), (("--parameters", "1.3GB"), "E608")],
)
def test_fit_says_what_it_cannot_do(run: Callable[..., tuple[int, str, str]], arguments: tuple[str, ...], code: str) -> None:
    exit_code, out, err = run("fit", "gpt2", *arguments)
    assert (exit_code, out) == (1, "")
    assert err.startswith(f"{code} ")
