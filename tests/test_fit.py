"""Are solved sizes the largest that fit, and the powers of growth right? Against scans, closed forms and published sizes."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
import sympy

import einformer
from einformer import EinformerError, load
from einformer.interpreters.count.algebra import exponent, leading
from einformer.objects import Model
from einformer.report import fit
from tests.commands import read_json, run
from tests.few import few

A, B, D, E, F, G, L, S, V, W = sympy.symbols("A B D E F G L S V W")


def solve(target: str, *arguments: str, **options: object) -> dict[str, Any]:
    """What `einformer fit` answers: `set` are sizes, and every other option has its name."""
    sizes = ",".join(f"{name}={value}" for name, value in dict(options.pop("set", {})).items())  # type: ignore[call-overload]
    named = [word for name, value in options.items() for word in (f"--{name}", str(value))]
    answer: dict[str, Any] = read_json("fit", target, *arguments, *named, *(["--set", sizes] if sizes else []))
    return answer


# --------------------------------------------------------------------------------------------------------- quantities

NOTHING = "axes\n  b: B\n  d: D\nlayer Same(z_bd) -> y_bd:\n  return z_bd\n"  # of which any size fits


@pytest.fixture(scope="module")
def nothing(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("nothing") / "same.ein"
    path.write_text(NOTHING, encoding="utf-8")
    return str(path)


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
def test_a_size_is_decimal_or_binary_as_its_unit_says(nothing: str, text: str, size: int) -> None:
    assert solve(nothing, memory=text, set={"D": 3})["limit"] == size


@pytest.mark.parametrize(("text", "size"), [("1.3B", 1_300_000_000), ("124M", 124_000_000), ("42", 42), ("1.7T", 17 * 10**11)])
def test_a_number_of_parameters_has_the_units_of_papers(nothing: str, text: str, size: int) -> None:
    assert solve(nothing, parameters=text)["limit"] == size


@pytest.mark.parametrize(
    "text",
    ["", "80", "80G", "80Gb", "80gb", "-1GB", "0GB", "nanGB", "infGB", "1e9B", "80 G B", "1,5GB", "²GB", "9999999999PB"],
)
def test_what_is_no_size_is_refused(nothing: str, text: str) -> None:
    answer = run("fit", nothing, f"--memory={text}", "--set", "D=3")
    assert (answer.code, answer.out, answer.err[:5]) == (1, "", "E608 ")


@pytest.mark.parametrize("unit", ["KB", "kB"])
def test_a_thousand_bytes_are_written_with_either_k(nothing: str, unit: str) -> None:
    for text, size in ((f"1{unit}", 1000), (f"1 {unit}", 1000), (f"1 {unit[0]}iB", 1024)):
        assert solve(nothing, memory=text, set={"D": 3})["limit"] == size
    assert solve(nothing, parameters=f"3{unit[0]}")["limit"] == 3000


# ----------------------------------------------------------------------------------------------------------- bisection


@pytest.mark.parametrize("step", [1, 3])
@pytest.mark.parametrize("most", [1, 5, 24, 10**18])
def test_the_largest_is_that_of_a_scan(step: int, most: int) -> None:
    for limit in range(60):
        scanned = [size for size in range(step, min(most, 60) + 1, step) if size * size // 7 + size <= limit]
        found = fit.find_largest(lambda size: size * size // 7 + size, limit, step, most)
        assert (found.size if found else None) == max(scanned, default=None)
        if found:
            after = found.size + step
            assert found.above == ((after, after * after // 7 + after) if after <= most else None)


def test_the_largest_asks_seldom() -> None:
    asked: list[int] = []

    def count(size: int) -> int:
        asked.append(size)
        return size

    assert fit.find_largest(count, 10**12) == fit.LargestSize(10**12, 10**12, (10**12 + 1, 10**12 + 1))
    assert len(asked) < 90


# -------------------------------------------------------------------------------------------------------------- memory


@pytest.fixture(scope="module")
def xl() -> Model:
    return einformer.model("gpt2-xl")


@pytest.mark.parametrize("letter", ["B", "S"])
@pytest.mark.parametrize("recompute", ["none", "selective", "full"])
def test_a_size_of_the_inputs_fits_and_the_next_does_not(xl: Model, letter: str, recompute: Any) -> None:
    limit, sizes = 60 * 10**9, {"B": 3, "S": 900}
    other = {"seq": 900} if letter == "B" else {"batch": 3}
    found = solve("gpt2-xl", memory="60GB", solve=letter, recompute=recompute, **other)
    for fitted in filter(None, (found, found["above"])):
        sizes[letter] = fitted["size"]
        assert fitted["count"] == xl.memory(recompute=recompute, B=sizes["B"], S=sizes["S"]).total
    assert found["count"] <= limit
    assert found["above"]["count"] > limit if found["above"] else found["size"] == 1024


def test_a_batch_is_what_the_state_leaves_over() -> None:
    """A closed form: 18 bytes a parameter, and of each row L S D (34 + 5 A S / D) and the logits in float32."""
    limit, length = 80 * 10**9, 512
    found = solve("gpt2-xl", memory="80GB", seq=length)
    row = 48 * length * 1600 * 34 + 48 * 5 * 25 * length**2 + 4 * length * 50257
    state = 18 * 1_557_611_200
    assert found["size"] == pytest.approx((limit - state) / row, rel=0.02)  # embedding, dropout and the last norm beside


SMALL = {"D": 64, "A": 4, "L": 2, "V": 97, "K": 32}


def test_a_depth_is_what_memory_leaves_over() -> None:
    limit = 50 * 10**6
    found = solve("gpt2", memory="50MB", solve="L", batch=2, seq=32, set=SMALL)
    counts = [load("gpt2").bind(**SMALL | {"L": found["size"] + k}).memory(B=2, S=32).total for k in (0, 1)]
    assert counts == [found["count"], found["above"]["count"]]
    assert counts[0] <= limit < counts[1]


def test_generation_holds_weights_and_cache() -> None:
    """2 p L D bytes of cache for each position of a row, in 2 bytes as the weights."""
    row = 1024 * 2 * 2 * 48 * 1600
    found = solve("gpt2-xl", "--generation", memory="40GB", seq=1024)
    assert found["size"] == (40 * 10**9 - 2 * 1_557_611_200) // row
    assert found["count"] == 2 * 1_557_611_200 + found["size"] * row


def test_a_window_lets_any_sequence_fit() -> None:
    sizes = {"D": 64, "A": 4, "G": 2, "F": 96, "L": 2, "V": 97, "W": 16}
    assert solve("mistral", "--generation", memory="10MB", solve="S", set=sizes)["size"] == 10**18


OVER: dict[str, Any] = {"mesh": "tp=5", "shard": "tp: a d' f (s)"}


def test_a_mesh_makes_room() -> None:
    alone, shared = (solve("gpt2-xl", memory="80GB", seq=1000, **over)["size"] for over in ({}, OVER))
    assert shared > 3 * alone


def test_a_size_that_devices_share_is_a_multiple_of_them(xl: Model) -> None:
    found = solve("gpt2-xl", memory="80GB", solve="S", batch=60, **OVER)
    more = found["size"] + 5
    assert found["size"] % 5 == 0
    assert found["above"] == {"size": more, "count": xl.memory(**OVER, B=60, S=more).total}


def test_a_batch_fills_the_fullest_stage_of_a_pipeline(xl: Model) -> None:
    """In microbatches, which the ranks of the batch share."""
    over: dict[str, Any] = {"mesh": "pp=4,dp=2", "shard": "pp: l; dp: b", "microbatches": 3}
    found = solve("gpt2-xl", memory="40GB", seq=1000, **over)
    more = found["size"] + 6
    assert found["size"] % 6 == 0
    assert found["count"] == xl.memory(**over, B=found["size"], S=1000).total
    assert found["above"] == {"size": more, "count": xl.memory(**over, B=more, S=1000).total}


def test_a_sequence_stays_within_its_bound() -> None:
    found = solve("gpt2-xl", memory="1TB", solve="S")
    assert (found["size"], found["above"]) == (1024, None)


@pytest.mark.parametrize(("use", "limit"), [([], "25GB"), (["--generation"], "3GB")])
def test_what_cannot_fit_is_said(use: list[str], limit: str) -> None:
    answer = run("fit", "gpt2-xl", "--memory", limit, "--seq", "1024", *use)
    assert (answer.code, answer.err[:5]) == (1, "E609 ")
    assert " with B = 1 takes " in answer.err


def test_a_letter_that_there_is_not_is_said() -> None:
    answer = run("fit", "gpt2-xl", "--memory", "100GB", "--solve", "Q")
    assert (answer.code, answer.err[:5]) == (1, "E605 ")


# ---------------------------------------------------------------------------------------------------------- parameters


@pytest.mark.parametrize("name", few(["gpt2", "gpt2-medium", "gpt2-large", "gpt2-xl"], {"gpt2", "gpt2-xl"}))
def test_the_published_width_gives_the_published_parameters(name: str) -> None:
    model = einformer.model(name)
    width, count = model.size("D"), model.num_parameters
    assert solve(name, parameters=count)["size"] == width
    assert solve(name, parameters=count - 1)["above"] == {"size": width, "count": count}


def test_a_width_is_divisible_by_the_heads() -> None:
    """GPT-3 XL has 24 heads and 2048 wide, which is not: the nearest widths that are, and their parameters by its formula."""
    found = solve("gpt2", parameters=1_315_723_264, set={"D": 1536, "A": 24, "L": 24, "V": 50257, "K": 2048})
    assert found["size"] % 24 == 0
    for fitted in (found, found["above"]):
        size = fitted["size"]
        assert fitted["count"] == 12 * 24 * size**2 + 13 * 24 * size + (50257 + 2048) * size + 2 * size
    assert found["size"] < 2048 < found["size"] + 24


def test_a_width_keeps_rotary_pairs_whole() -> None:
    """H = D / A is even, so D is a multiple of 2 A."""
    found = solve("llama", parameters="1M", set={"D": 12, "A": 3, "G": 3, "F": 20, "L": 2, "V": 11})
    assert found["size"] % 6 == 0


def test_a_width_apart_from_the_heads_is_any() -> None:
    """H is a size of its own: D need not be divisible."""
    sizes = {"D": 14, "A": 4, "G": 2, "H": 6, "F": 20, "L": 2, "V": 11}
    count = load("gemma2").bind(**sizes).num_parameters
    assert [solve("gemma2", parameters=most, set=sizes)["size"] for most in (count, count - 1)] == [14, 13]


def test_a_head_too_narrow_for_its_rotary_pairs_is_passed_over() -> None:
    """R = 8 numbers of each head turn, so H is at least 8; with 5 heads D is a multiple of 5, and 40 the least."""
    sizes = {"D": 60, "A": 5, "F": 20, "L": 2, "V": 11, "R": 8}
    count, least = (load("gpt_neox").bind(**sizes | {"D": width}).num_parameters for width in (60, 40))
    assert [solve("gpt_neox", parameters=most, set=sizes)["size"] for most in (count, count - 1)] == [60, 55]
    bound = ",".join(f"{letter}={size}" for letter, size in sizes.items())
    assert run("fit", "gpt_neox", "--parameters", str(least - 1), "--set", bound).err[:5] == "E309 "


@pytest.mark.parametrize("step", [48, 128])
def test_a_step_may_be_given(step: int) -> None:
    assert solve("gpt2", parameters="10M", step=step, set=SMALL)["size"] % step == 0


def test_too_few_parameters_are_said() -> None:
    answer = run("fit", "gpt2", "--parameters", "100K")
    assert (answer.code, answer.err[:5]) == (1, "E609 ")
    assert " D = 12 " in answer.err


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


def test_fit_shows_the_size_and_the_next() -> None:
    code, out, _ = run("fit", "gpt2", "--parameters", "1.3B")
    assert code == 0
    assert "D = 2,820  1,290,203,580 parameters\nD = 2,832  1,300,587,504 parameters: above the limit\n" in out


def test_fit_json() -> None:
    code, out, _ = run("fit", "gpt2", "--memory", "24GB", "--seq", "256", "--precision", "float32", "--json")
    found, gpt2 = json.loads(out), einformer.model("gpt2")
    assert (code, found["letter"], found["what"], found["inputs"]) == (0, "B", "training", {"S": 256})
    assert found["count"] == gpt2.memory(precision="float32", B=found["size"], S=256).total <= found["limit"] == 24 * 10**9
    assert found["above"]["count"] == gpt2.memory(precision="float32", B=found["size"] + 1, S=256).total > 24 * 10**9


def test_fit_for_generation() -> None:
    """(10⁹ - 2 · 124,439,808) / (2 · 2 · 12 · 768 · 1024) = 19.9."""
    _, out, _ = run("fit", "gpt2", "--memory", "1GB", "--generation")
    assert out.startswith("gpt2.ein: pre-norm decoder with learned positions, S = 1,024\n\nB = 19 ")


@pytest.mark.parametrize(
    ("arguments", "code"),
    [(("--memory", "80G"), "E608"), (("--memory", "1MB"), "E609"), (("--parameters", "1.3GB"), "E608")],
)
def test_fit_says_what_it_cannot_do(arguments: tuple[str, ...], code: str) -> None:
    exit_code, out, err = run("fit", "gpt2", *arguments)
    assert (exit_code, out) == (1, "")
    assert err.startswith(f"{code} ")
