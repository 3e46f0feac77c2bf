"""Does `einformer report` say what is in a model, measure what it says, and admit what does not hold?"""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import einformer
from einformer import from_huggingface, report
from einformer.cli import main
from einformer.interpreters.count import rules
from einformer.interpreters.count.symbols import Symbols
from einformer.interpreters.torch import measure
from einformer.objects import Model
from einformer.report import Report, checks, contents
from einformer.report.specimen import Small, Specimen, choose_inputs, shrink

TOY = {"model_type": "gpt2", "n_embd": 12, "n_head": 3, "n_layer": 2, "n_positions": 8, "vocab_size": 300}
CLAIMS = [
    "parameters: by the text = in the module",
    "parameters: 4 L D² + 4 L D in blocks.{l}.CausalAttention",
    "parameters: 2 L D in blocks.{l}.LayerNorm",
    "parameters: 2 L E D² + (1 + E) L D in blocks.{l}.MLP",
    "parameters: 2 L D in blocks.{l}.LayerNorm_2",
    "parameters: 2 D in LayerNorm_3",
    "parameters: (V + K) D in GPT2",
    "FLOPs: by the text = by torch's FlopCounterMode",
    "FLOPs: (8 + 4 E) L B S D² + 4 L B S² D + 2 B S V D",
    "shapes: by the legend = of every tensor",
    "values: notation = reference, float64",
    "values: fast = reference, float64",
    "values: fast = notation, float64",
    "causality: outputs before a changed input stay",
]


@functools.cache
def toy() -> Model:
    return from_huggingface(TOY | {"bos_token_id": 0, "eos_token_id": 0})


@pytest.fixture(scope="module")
def made() -> Report:
    return report.examine(toy(), text="horizon")


@pytest.fixture
def config(tmp_path: Path) -> str:
    path = tmp_path / "config.json"
    path.write_text(json.dumps(TOY | {"bos_token_id": 0, "eos_token_id": 0}), encoding="utf-8")
    return str(path)


def failing() -> list[str]:
    return [check.claim for check in report.examine(toy(), text="").checks if not check.holds]


# ---------------------------------------------------------------------------------------------------- what is reported


def test_every_claim_is_checked_and_holds(made: Report) -> None:
    assert [check.claim for check in made.checks] == CLAIMS
    assert made.holds


def test_sections_are_the_layers_with_their_counts(made: Report) -> None:
    assert [(section.layer, section.times) for section in made.sections] == [
        ("CausalAttention", 2),
        ("LayerNorm", 5),
        ("MLP", 2),
        ("GPT2", 1),
    ]
    assert sum(section.parameters * section.times for section in made.sections) == made.parameters == toy().num_parameters
    assert sum(section.flops * section.times for section in made.sections) == made.flops == toy().flops(B=1, S=8)


def test_equations_are_as_written_with_their_shapes(made: Report) -> None:
    attention = {row.equation: row.shape for row in made.sections[0].rows}
    assert attention["q_bsea  = z_bsd Q_dea + α_ea"] == (1, 8, 4, 3)
    assert attention["m_ss'   = where(s' <= s, 0, -inf)"] == (8, 8)
    assert attention["u_{bs(ae)} = y_bsea"] == (1, 8, 12)


def test_sizes_say_where_they_come_from(made: Report) -> None:
    sizes = {size.letter: (size.value, size.origin) for size in made.sizes}
    assert sizes["D"] == ("12", "n_embd")
    assert sizes["H"] == ("4", "H = D / A")
    assert "B" not in sizes


def test_the_text_is_read_as_bytes(made: Report) -> None:
    assert made.reading is not None
    assert made.reading.tokens == len("horizon")
    assert sum(probability for _, probability in made.reading.guesses.likeliest) < 1


def test_the_seed_decides_what_is_random() -> None:
    one, same, other = (report.examine(toy(), text="horizon", seed=seed).reading for seed in (1, 1, 2))
    assert one is not None
    assert same is not None
    assert other is not None
    assert one.guesses == same.guesses != other.guesses


def test_small_sizes_keep_what_divides_what() -> None:
    small = shrink(einformer.model("gpt2-xl"))
    sizes = [small.size(letter) for letter in "DAVKLF"]
    assert small.size("D") == small.size("A") * small.size("H")
    assert len({*sizes, small.size("H"), *choose_inputs(small).values()} - {2}) == 7


# ------------------------------------------------------------------------------------------- a mistake shows as a failure


def test_small_sizes_divide_where_sizes_are_equal() -> None:
    """A key head for each query head: heads are chosen after the heads that divide them."""
    small = shrink(einformer.model("llama", V=32000, D=64, A=4, G=4, L=2, F=128))
    assert small.size("A") % small.size("G") == 0


def test_a_miscount_of_parameters_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    counted = measure.count_parameters
    monkeypatch.setattr(measure, "count_parameters", lambda module: counted(module) | {"E": 1})
    assert failing() == [CLAIMS[0], CLAIMS[6]]


def test_a_miscount_of_flops_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measure, "count_flops", lambda module, inputs: 1)
    assert failing() == CLAIMS[7:9]


def test_a_wrong_formula_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(*arguments: Any, **named: Any) -> Any:
        counts = rules.count_flops(*arguments, **named)
        return counts[:-1] if isinstance(arguments[2], Symbols) else counts

    monkeypatch.setattr(checks, "count_flops", wrong)
    monkeypatch.setattr(report, "sections", lambda subject: ())
    assert "FLOPs: (8 + 4 E) L B S D² + 4 L B S² D" in [
        check.claim for check in checks.flops_are_counted(Specimen(toy(), toy().inputs())) if not check.holds
    ]


def test_a_wrong_shape_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checks, "shapes", lambda *_: [(*row[:2], (2, *row[2]), row[3]) for row in contents.shapes(*_)])
    assert failing() == [CLAIMS[9]]


@pytest.mark.parametrize(("plan", "claims"), [("notation", [10, 12]), ("fast", [11, 12])])
def test_a_plan_that_computes_something_else_fails(monkeypatch: pytest.MonkeyPatch, plan: str, claims: Sequence[int]) -> None:
    value = Small.value

    def wrong(self: Small, by: str, given: Sequence[Any]) -> Any:
        return value(self, by, given) + 1e-6 * (by == plan)

    monkeypatch.setattr(Small, "value", wrong)
    assert failing() == [CLAIMS[k] for k in claims]


def test_a_look_into_the_future_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    value = measure.compute
    monkeypatch.setattr(measure, "compute", lambda *a: (y := value(*a)) + 1e-6 * np.flip(y, 1))
    assert CLAIMS[13] in failing()


def test_a_model_that_ignores_its_inputs_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measure, "compute", lambda module, given: np.ones((2, 6, 300)))
    assert CLAIMS[13] in failing()


# ---------------------------------------------------------------------------------------------------------- the command


def test_the_report_is_plain_in_a_pipe(config: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", config]) == 0
    out, err = capsys.readouterr()
    assert "\x1b" not in out + err
    assert err == ""
    assert "all 14 hold" in out
    assert "Random weights know no language" in out
    assert max(map(len, out.split("\n"))) <= 120


def test_report_json(config: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "text.txt").write_text("pink", encoding="utf-8")
    assert main(["report", config, "--json", "--text", str(tmp_path / "text.txt"), "--seq", "5"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert set(found) == {
        "title", "inputs", "sizes", "sections", "parameters", "parameters_formula", "flops", "flops_formula", "checks",
        "reading", "holds",
    }  # fmt: skip
    assert found["inputs"] == {"B": 1, "S": 5}
    assert found["reading"]["text"] == "pink"
    assert [check["claim"] for check in found["checks"]] == CLAIMS


def test_a_failed_check_is_shown_and_exits_1(
    config: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(measure, "count_flops", lambda module, inputs: 1)
    assert main(["report", config]) == 1
    out = capsys.readouterr().out
    assert "✗ fails  FLOPs: by the text = by torch's FlopCounterMode" in out
    assert "2 of 14 fail" in out


def test_steps_are_told() -> None:
    told: list[str] = []
    step: Callable[[str], None] = told.append
    report.examine(toy(), text="", step=step)
    assert told == [*checks.CHECKS, "reading the text"]


# ------------------------------------------------------------------------------------------------- what few models are

AXES = "axes\n  b: B\n  s: S\n  d: D\n  v: V\n"


@pytest.mark.parametrize(
    "text",
    [
        "axes\n  b: B\n  s: S\nmodel M(z_bs) -> y_bs causal in s:\n  weights κ\n  return κ z_bs\n",
        AXES + "model M(x_bs) -> y_bsd causal in s:\n  weights E_vd\n  return E_{x_bs d}\n",
        AXES + "model M(x_bs) -> y_bsd causal in s:\n  weights E_vd\n  n_bs = (3 x_bs + 1) mod V\n  return E_{n_bs d}\n",
        AXES.replace("  v: V\n", "")
        + "model M(z_bsd) -> y_bsd causal in s:\n  return where(s > 2, z_{b(s - 3)d}, z_bsd / 2)\n",
    ],
    ids=["one parameter", "tokens and no logits", "tokens in a formula", "the last inputs are not read"],
)
def test_every_claim_holds_of(text: str) -> None:
    spec = einformer.parse(text)
    examined = report.examine(spec.bind(**{size: 5 for size in "DV" if f": {size}\n" in text}), text="horizon")
    assert not [check for check in examined.checks if not check.holds]
    assert examined.reading is None
