"""Is the memory of generation that of the equations, and are engines' rules what their sources say?"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import einformer
from einformer.cli import main
from einformer.report import generation
from einformer.report.generation import count_generation, read_engines
from tests.toys import config_of

GIGABYTES = 10**9
GEMMA: dict[str, Any] = json.loads((Path(__file__).parent / "configs" / "gemma-3-4b-text.json").read_text())["config"]


def test_windows_and_full_layers_of_gemma() -> None:
    """By hand: 29 layers keep 1,024 positions, 5 keep all; keys and values of 4 heads of 256 in 2 bytes."""
    taken = count_generation(einformer.from_huggingface(GEMMA), 80 * GIGABYTES, B=8, S=131_072)
    position = 2 * 4 * 256 * 2
    assert [(kind.layers, kind.position, kind.needed) for kind in taken.kinds] == [
        (29, position, 8 * 1024 * position),
        (5, position, 8 * 131_072 * position),
    ]
    assert taken.allocated("vllm-uniform") == 34 * 8 * 131_072 * position
    assert taken.allocated("vllm") == 8 * position * (29 * 65 * 16 + 5 * 131_072)
    assert taken.allocated("llama-cpp") == 8 * position * (29 * 1536 + 5 * 131_072)
    assert taken.allocated("llama-cpp-full") == taken.allocated("vllm-uniform")


@pytest.mark.parametrize(
    ("engine", "length", "back", "positions"),
    [
        ("vllm", 1000, None, 1008),
        ("vllm", 16, None, 16),
        ("vllm", 5000, 1023, 1040),  # 64 pages, and one more since a window begins inside a page
        ("vllm", 40, 1023, 48),
        ("llama-cpp", 5000, 1023, 1536),  # 1024 and 512
        ("llama-cpp", 5000, 127, 768),  # 128 and 512 are 640, up to a multiple of 256
        ("llama-cpp", 5000, None, 5000),
        ("llama-cpp-full", 5000, 1023, 5000),
    ],
)
def test_positions_of_a_row(engine: str, length: int, back: int | None, positions: int) -> None:
    assert read_engines()[engine].positions(length, back) == positions


@pytest.mark.parametrize("name", ["qwen3_5", "kimi_linear", "nemotron_h", "deepseek_v3", "mamba2", "llama4_text", "gpt_oss"])
def test_the_cache_needed_is_that_of_decoding(name: str) -> None:
    """Kinds of layers add up to the cache that is derived, and no engine allocates less."""
    model = einformer.from_huggingface(config_of(name))
    taken = count_generation(model, GIGABYTES, B=3, S=100)
    assert taken.needed == model.cache_bytes("bfloat16", B=3, S=100).total
    assert all(taken.allocated(engine) >= taken.needed for engine in read_engines())


def test_the_longest_row_fits_and_the_next_does_not() -> None:
    model = einformer.from_huggingface(GEMMA)
    longest = count_generation(model, 12 * GIGABYTES, B=8, S=16).longest
    assert longest is not None
    sizes = [count_generation(model, 1, B=8, S=length) for length in (longest, longest + 1)]
    within, beyond = (size.weights + size.needed for size in sizes)
    assert within <= 12 * GIGABYTES < beyond
    assert sizes[0].advice == "1 B do not hold the weights and one position"
    mamba = einformer.from_huggingface(config_of("mamba2"))
    assert count_generation(mamba, GIGABYTES, B=1, S=16).advice == "1 GB hold the weights and the cache of 1 row of any length"


def test_windows_alone_stay_windows() -> None:
    """Only beside layers that see all positions does vLLM without its hybrid manager keep them whole."""
    taken = count_generation(einformer.model("mistral-7b-v0.1"), GIGABYTES, B=1, S=32_768)
    assert taken.allocated("vllm-uniform") == taken.allocated("vllm") == 32 * 2 * 8 * 128 * 2 * (257 * 16)


def test_every_engine_has_a_source() -> None:
    assert all(engine.source and engine.title for engine in read_engines().values())


def test_the_command(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(GEMMA))
    assert main(["count", str(tmp_path), "--generation", "--context", "128Ki", "--batch", "8"]) == 0
    said = capsys.readouterr().out
    assert " ".join(said.split("\n")[2].split()) == " ".join(generation.HEAD)
    assert "22,447,915,008 bytes, 22.45 GB: what the equations read again" in said
    assert "146,028,888,064 bytes, 146 GB, 6.51 of that: llama.cpp --swa-full" in said
    assert "80 GB hold the weights and the cache of 8 rows up to 434,975 positions" in said
    assert main(["count", str(tmp_path), "--generation", "--context", "1k", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["inputs"], found["kinds"][0]["layers"]) == ({"B": 1, "S": 1000}, 29)
    assert found["engines"]["vllm"]["source"] == read_engines()["vllm"].source


def test_sizes_that_are_missing_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["count", "llama", "--generation"]) == 1
    assert "E601" in capsys.readouterr().err
