"""The page of benchmarks has every table of the registry; models written by hand compute as much as ours."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode
from transformers import GPT2Config, LlamaConfig, MixtralConfig

from tests.benchmarks import __main__ as benchmarks
from tests.benchmarks.long import run_prefill
from tests.benchmarks.models import FAMILIES, Family, decode, forward, training
from tests.benchmarks.peers import HandGPT, HandLlama
from tests.benchmarks.tables import TABLES, Table
from tests.benchmarks.timing import CUDA, Place, Row, Work, compare, write_cells

HEADER = r"\d{4}-\d\d-\d\d, Python 3\.\d+\.\d+, torch \d\S+, transformers \d\S+, .+, \d+ cores, load average before the run \d"


def test_the_page_has_every_table_its_command_and_its_machine() -> None:
    page = benchmarks.PAGE.read_text(encoding="utf-8")
    assert page.startswith(benchmarks.INTRODUCTION)
    assert re.search(HEADER, page)
    sections = re.findall(r"^## (.+)\n\n(.+)\n\n(?:\| |failed: )", page, re.MULTILINE)
    assert sections == [(table.title, table.text) for table in TABLES.values()]


def fail_to_measure(place: Place) -> Iterator[Row]:
    yield {"work": "first"}
    raise ValueError("no luck\nat all")


def measure_dtype(place: Place) -> Iterator[Row]:
    yield {"work": "sum", "a": "1 s"}
    yield {"work": "mean", "b": place.dtype}


def test_a_table_that_fails_is_written_with_its_error_and_the_others_go_on(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    some = {"first": Table("First", "One.", 1, fail_to_measure), "second": Table("Second", "Two.", 1, measure_dtype)}

    def run(command: list[str], **_: object) -> None:
        name, path = command[3], Path(command[command.index("--rows") + 1])
        benchmarks.write_rows(some[name], Place(), path)

    monkeypatch.setattr(benchmarks, "TABLES", some)
    monkeypatch.setattr("subprocess.run", run)
    page = tmp_path / "page.md"
    monkeypatch.setattr(sys, "argv", ["benchmarks", "all", "--page", str(page)])
    benchmarks.main()
    assert page.read_text(encoding="utf-8").endswith(
        "## First\n\nOne.\n\n| work |\n| --- |\n| first |\n\nfailed: ValueError: no luck\n\n"
        "## Second\n\nTwo.\n\n| work | a | b |\n| --- | --- | --- |\n| sum | 1 s |  |\n| mean |  | float32 |\n"
    )


def test_a_process_writes_the_rows_of_its_table(tmp_path: Path) -> None:
    benchmarks.write_rows(Table("Second", "Two.", 1, measure_dtype), Place("cpu", "bfloat16"), tmp_path / "rows")
    assert json.loads((tmp_path / "rows").read_text(encoding="utf-8")) == [
        [{"work": "sum", "a": "1 s"}, {"work": "mean", "b": "bfloat16"}],
        "",
    ]


def test_a_wrong_name_is_one_error(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "argv", ["benchmarks", "gpt3"])
    with pytest.raises(SystemExit, match="2"):
        benchmarks.main()
    assert "invalid choice: 'gpt3' (choose from 'limits', 'gpt2'," in capsys.readouterr().err


def test_ratios_are_medians_over_rounds() -> None:
    cells = write_cells({"ours": [1.0, 2.0, 9.0], "theirs": [2.0, 2.0, 3.0], "limit": [0.0005, 0.0005, 0.0007]}, "ours")
    assert cells == {"ours": "2 s", "theirs": "2 s (1.00)", "limit": "500 µs (4000.00)"}


def test_a_candidate_that_fails_leaves_the_others() -> None:
    def refuse() -> Work:
        raise RuntimeError("not here")

    row = compare("sum", {"ours": lambda: lambda: None, "theirs": refuse}, budget=0)
    assert row["theirs"] == "failed: RuntimeError: not here"
    assert re.fullmatch(r"[\d.]+ (µs|ms)", row["ours"])
    assert list(row) == ["work", "ours", "theirs"]


@pytest.mark.parametrize("name", ["gpt2", "llama"])
def test_models_by_hand_have_the_parameters_and_the_products_of_ours(name: str) -> None:
    family = Family(FAMILIES[name].config, FAMILIES[name].by_hand, place=Place("meta"))

    def count(module: Any) -> tuple[int, int]:
        with FlopCounterMode(display=False) as counter, torch.no_grad():
            module(torch.zeros(2, 8, dtype=torch.int64, device="meta"))
        return sum(weight.numel() for weight in module.parameters()), counter.get_total_flops()

    with torch.device("meta"):
        assert count(family.hand()) == count(family.ours())


TOY: dict[str, Any] = {
    "hidden_size": 16, "num_attention_heads": 4, "num_key_value_heads": 2, "num_hidden_layers": 2, "vocab_size": 32,
    "intermediate_size": 24, "max_position_embeddings": 64, "use_cache": False,
}  # fmt: skip
TOYS = {
    "gpt2": Family(GPT2Config(n_embd=16, n_head=4, n_layer=2, vocab_size=32, n_positions=64, use_cache=False), HandGPT),
    "llama": Family(LlamaConfig(tie_word_embeddings=False, **TOY), HandLlama),
    "mixtral": Family(MixtralConfig(num_local_experts=4, num_experts_per_tok=2, **TOY)),
}


@pytest.mark.parametrize("name", TOYS)
def test_every_candidate_of_a_model_runs(name: str) -> None:
    toy = TOYS[name]
    rows = [compare(make.__name__, make(toy, 2, 8), budget=0) for make in (forward, training, decode)]
    assert all(len(row) >= 3 and not any("failed" in cell for cell in row.values()) for row in rows), rows


@pytest.mark.parametrize("name", ["llama", "mamba2_decoder"])
def test_a_long_prompt_holds_nothing_over_pairs_of_positions(name: str) -> None:
    length = 8192
    _, grown = run_prefill(name, length)
    assert grown < length**2  # a mask of a byte for each pair


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device")
def test_a_table_of_models_is_measured_on_cuda() -> None:
    rows = list(TABLES["llama_decode"].measure(CUDA))
    assert not any(cell.startswith("failed") for row in rows for cell in row.values())
