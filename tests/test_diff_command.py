"""How does a difference look, and what does it count?"""

from __future__ import annotations

import json
import re
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import einformer
from einformer.cli import main
from einformer.objects import Model
from tests.commands import read_json
from tests.test_commands import terminal, uncoloured

_CONFIGS = Path(__file__).parent / "configs"


def row(name: str) -> Any:
    return json.loads((_CONFIGS / f"{name}.json").read_text(encoding="utf-8"))


def model(name: str) -> Model:
    return einformer.from_huggingface(row(name)["config"])


def compare(one: str, other: str, *options: str) -> Any:
    """What `einformer diff` says of two targets, of which each may be one of our configs."""
    with tempfile.TemporaryDirectory() as folder:
        return read_json("diff", *(_find_target(name, Path(folder)) for name in (one, other)), *options)


def _find_target(name: str, folder: Path) -> str:
    if not (_CONFIGS / f"{name}.json").exists():
        return name
    (folder / f"{name}.json").write_text(json.dumps(row(name)["config"]), encoding="utf-8")
    return str(folder / f"{name}.json")


def counts(one: str, other: str, *options: str) -> dict[str, tuple[Any, Any, Any]]:
    """The counts of two targets and their difference."""
    return {count["what"]: (count["one"], count["other"], count["more"]) for count in compare(one, other, *options)["counts"]}


def list_values(difference: Any) -> list[tuple[str, str, str, str]]:
    return [(value.name, value.one, value.other, value.about) for value in difference.values]


# ------------------------------------------------------------------------------------------------- what it looks like

SCREEN = """\
                        llama  mistral
Θ  base of the angles  500000    10000

scalars
+ W = inf

model Llama → Mistral
-   m_ss' = where(s' <= s, 0, -inf)
+   m_ss' = where(s - W < s' <= s, 0, -inf)
                  ^^^^^^^

parameters, the same: 2 (1 + G / A) L D² + (2 + 3 F) L D + (1 + 2 V) D

forward FLOPs, the same: 4 (1 + G / A) L B S D² + 4 L B S² D + 6 L B S F D + 2 B S V D

cache of a position, the same: 4 L G D / A
"""


def test_llama_and_mistral(capsys: pytest.CaptureFixture[str]) -> None:
    """The difference of the files is that of the architectures, and a screen holds it."""
    assert main(["diff", "llama", "mistral"]) == 0
    assert capsys.readouterr().out == SCREEN
    assert len(SCREEN.splitlines()) <= 24


def test_as_text() -> None:
    assert str(einformer.load("llama").diff(einformer.load("mistral"))) == "\n".join(
        ["Θ: 500000 → 10000", "", *SCREEN.splitlines()[3:10]]
    )


def test_two_sizes_of_one_architecture(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Sizes and counts, no equation."""
    paths = [tmp_path / name / "config.json" for name in ("llama-2-7b", "llama-3-8b")]
    for path in paths:
        path.parent.mkdir()
        path.write_text(json.dumps(row(path.parent.name)["config"]), encoding="utf-8")
    assert main(["diff", *map(str, paths)]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "                                      llama-2-7b  llama-3-8b",
        "G  key/value heads                            32           8",
        "J  query heads of one key/value head           1           4",
        "F  MLP hidden                             11,008      14,336",
        "V  vocabulary                             32,000     128,256",
        "Θ  base of the angles                      10000      500000",
        "",
        "B = 1, S = 1,024             llama-2-7b          llama-3-8b          difference",
        "parameters                6,738,415,616       8,030,261,248      +1,291,845,632  +19.2%",
        "forward FLOPs        14,081,050,279,936  15,919,296,282,624  +1,838,246,002,688  +13.1%",
        "cache of a position             524,288             131,072            -393,216  -75.0%",
        "cache, bfloat16             536,870,912         134,217,728        -402,653,184  -75.0%",
    ]


@pytest.mark.slow
@pytest.mark.parametrize(("pair", "columns"), [("llama mistral", 80), ("mixtral deepseek_v3", 120), ("gpt2 gpt2-xl", 80)])
def test_in_a_terminal(pair: str, columns: int, capsys: pytest.CaptureFixture[str]) -> None:
    """No line is longer than the terminal; what differs is in reverse, and says the same words."""
    shown = terminal("diff", *pair.split(), columns=columns)
    assert "\x1b[" in shown
    assert all(len(line) <= columns for line in uncoloured(shown).split("\n"))
    main(["diff", *pair.split()])
    piped = re.sub(r"^ *[\^ ]+$", "", capsys.readouterr().out, flags=re.MULTILINE)
    words = Counter(piped.split()) - Counter(uncoloured(shown).split())
    assert all(re.fullmatch(r"[+-][\d.]+%", word) for word in words)  # shares need more room


def test_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["diff", "llama", "mistral", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["targets"] == ["llama", "mistral"]
    assert found["values"] == [{"name": "Θ", "one": "500000", "other": "10000", "about": "base of the angles"}]
    assert found["parts"][1]["changes"] == [
        {
            "one": "  m_ss' = where(s' <= s, 0, -inf)",
            "other": "  m_ss' = where(s - W < s' <= s, 0, -inf)",
            "marks": [[], [[16, 23]]],
        }
    ]
    assert [count["more"] for count in found["counts"]] == ["0", "0", "0"]


def test_a_size_that_one_text_comments_on_has_that_comment() -> None:
    text = "axes\n  d: D{}\nlayer Twice(z_d) -> z_d:\n  return 2 z_d\n"
    one, other = (einformer.parse(text.format(comment)).bind(D=size) for comment, size in (("", 2), ("  # hidden", 3)))
    for difference in (one.diff(other), other.bind(D=2).diff(one.bind(D=3))):
        assert list_values(difference) == [("D", "2", "3", "hidden")]


def test_no_difference(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["diff", "llama", "llama"]) == 0
    assert capsys.readouterr().out.startswith("no difference\n\nparameters, the same: ")


@pytest.mark.parametrize("arguments", ["diff llama", "diff llama none.ein", "diff none.ein llama", "diff a b c"])
def test_wrong_calls(arguments: str, capsys: pytest.CaptureFixture[str]) -> None:
    try:
        code = main(arguments.split())
    except SystemExit as stop:
        code = int(str(stop.code))
    assert code == 2
    assert "Traceback" not in capsys.readouterr().err


# ------------------------------------------------------------------------------------------------------------- models


@pytest.mark.parametrize(
    ("one", "other"), [("llama-2-7b", "llama-3-8b"), ("qwen2-0.5b", "qwen2-7b"), ("mixtral-8x7b", "mixtral-8x22b-instruct")]
)
def test_counts_are_those_of_transformers(one: str, other: str) -> None:
    """Parameters of the model on the meta device, and its FLOPs by FlopCounterMode, as the configs carry them."""
    found = counts(one, other, "--batch", "1", "--seq", "512")
    theirs = {"parameters": "parameters", "forward FLOPs": "flops"}
    for what, key in theirs.items():
        numbers = [row(name)[key] for name in (one, other)]
        assert found[what] == (*numbers, numbers[1] - numbers[0])


def test_a_cache_is_keys_and_values() -> None:
    """2 bytes, keys and values, layers, heads, features: by hand."""
    found = counts("llama-2-7b", "llama-3-8b", "--batch", "3", "--seq", "100")
    by_hand = [2 * 2 * 32 * 32 * 128, 2 * 2 * 32 * 8 * 128]
    assert found["cache of a position"][:2] == tuple(by_hand)
    assert found["cache, bfloat16"][:2] == tuple(3 * 100 * each for each in by_hand)


def test_sizes_only_between_two_of_one_architecture() -> None:
    found = model("llama-2-7b").diff(model("llama-3-8b"))
    assert not found.parts
    assert list_values(found) == [
        ("G", "32", "8", "key/value heads"),
        ("J", "1", "4", "query heads of one key/value head"),
        ("F", "11,008", "14,336", "MLP hidden"),
        ("V", "32,000", "128,256", "vocabulary"),
        ("Θ", "10000", "500000", "base of the angles"),
    ]


def test_stretched_positions_are_lines() -> None:
    found = model("llama-3-8b").diff(model("llama-3.1-70b"))
    (scalars,) = found.parts
    assert {"θ_h = (1 - ξ_h) δ_h / ρ + ξ_h δ_h", "Λ = 8192"} <= {change.other for change in scalars.changes}


@pytest.mark.parametrize(
    ("name", "formula"),
    [
        ("gpt2", "4 L D"),
        ("llama", "4 L G D / A"),
        ("gemma2", "4 L G H"),
        ("deepseek_v3", "2 (E + R) L"),
        ("falcon", "4 L D / A"),
        ("mamba2", "0"),
    ],
)
def test_caches_in_letters(name: str, formula: str) -> None:
    """Keys and values of two bytes; of DeepSeek a latent and a rotary key; of Mamba nothing that grows."""
    assert counts(name, "llama")["cache of a position"][0] == formula


def test_what_cannot_be_decoded_has_no_cache() -> None:
    assert counts("loss", "llama")["cache of a position"][::2] == (None, None)


def test_a_bound_model_and_a_text() -> None:
    """Sizes that one leaves open are said to be, and counts are formulas."""
    found = compare("llama-2-7b", "llama")
    assert {"name": "D", "one": "4,096", "other": "open", "about": "hidden"} in found["values"]
    assert {count["more"] for count in found["counts"]} == {"0"}


TOY = {"model_type": "gpt2", "n_embd": 12, "n_head": 3, "n_layer": 2, "n_positions": 8, "vocab_size": 11}
TOY |= {"bos_token_id": 0, "eos_token_id": 0}


def test_the_shorter_sequence_is_that_of_both(tmp_path: Path) -> None:
    """GPT-2 reads 1024 positions, and a toy eight."""
    (tmp_path / "config.json").write_text(json.dumps(TOY), encoding="utf-8")
    for one, other in (("gpt2", str(tmp_path)), (str(tmp_path), "gpt2")):
        assert compare(one, other)["inputs"] == {"B": 1, "S": 8}


def test_what_one_cannot_say_in_letters(capsys: pytest.CaptureFixture[str]) -> None:
    """The formula of the other one is told all the same."""
    assert main(["diff", "loss", "llama"]) == 0
    assert capsys.readouterr().out.endswith("\ncache of a position\n- not to be said in letters\n+ 4 L G D / A\n")


@pytest.mark.parametrize("size", ["3.5 D", "0.5 D", "D / 2.5", "D^1.5", "floor(3.5 D)"])
def test_a_text_that_keeps_nothing_and_has_fractions_in_its_sizes(
    size: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = "axes\n  s: S\n  d: D\n  f: F = {}\nmodel M(z_sd) -> y_sf causal in s:\n  weights W_df\n  return z_sd W_df\n"
    (tmp_path / "one.ein").write_text(text.format("4 D"))
    (tmp_path / "other.ein").write_text(text.format(size))
    assert main(["diff", str(tmp_path / "one.ein"), str(tmp_path / "other.ein")]) == 0
    assert "cache of a position, the same: 0\n" in capsys.readouterr().out
