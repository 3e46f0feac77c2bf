"""Is the memory of generation that of the equations, and are engines' rules what their sources say?"""

from __future__ import annotations

import json
import re
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

import einformer
from einformer.cli import main
from einformer.interpreters.count.conventions import read_formats
from einformer.interpreters.count.engines import read_engines
from einformer.notes.quantities import configs
from einformer.objects import Model
from einformer.report import generation
from einformer.report.generation import count_generation
from tests.refusals import refuses
from tests.shipped import families
from tests.toys import config_of

GIGABYTES = 10**9
GEMMA: dict[str, Any] = json.loads((Path(__file__).parent / "configs" / "gemma-3-4b-text.json").read_text())["config"]


def test_windows_and_full_layers_of_gemma() -> None:
    """By hand: 29 layers keep 1,024 positions, 5 keep all; keys and values of 4 heads of 256 in 2 bytes. vLLM puts layers into
    groups of 5, and 29 are 30 of these."""
    taken = count_generation(einformer.from_huggingface(GEMMA), 80 * GIGABYTES, B=8, S=131_072)
    position = 2 * 4 * 256 * 2
    assert [(row["layers"], row["position"], row["needed"]) for row in taken.data()["kinds"]] == [
        (29, position, 8 * 1024 * position),
        (5, position, 8 * 131_072 * position),
    ]
    assert taken.needed == 8 * position * (29 * 1024 + 5 * 131_072)
    assert taken.allocated("vllm-uniform") == 34 * 8 * 131_072 * position
    assert taken.allocated("vllm") == 8 * position * (30 * 65 * 16 + 5 * 131_072)
    assert taken.allocated("sglang") == position * (29 * int(8 * 131_072 * Fraction(4, 5)) + 5 * 8 * 131_072)
    assert taken.allocated("llama-cpp") == 8 * position * (29 * 1536 + 5 * 131_072)
    assert taken.allocated("llama-cpp-unified") == position * (29 * (8 * 1024 + 512) + 5 * 8 * 131_072)
    assert taken.allocated("llama-cpp-full") == taken.allocated("vllm-uniform")


def test_a_pool_with_a_share_holds_the_windows() -> None:
    """Rows that are no longer than the window need it whole, so the pool of the others is longer than the rows."""
    taken = count_generation(einformer.from_huggingface(GEMMA), GIGABYTES, B=2, S=800)
    assert taken.allocated("sglang") == 2 * 4 * 256 * 2 * 2 * (5 * 1000 + 29 * 800)


@pytest.mark.parametrize(
    ("engine", "length", "back", "rows", "positions"),
    [
        ("vllm", 1000, None, 1, 1008),
        ("vllm", 16, None, 3, 48),
        ("vllm", 5000, 1023, 1, 1040),  # 64 pages, and one more since a window begins inside a page
        ("vllm", 40, 1023, 1, 48),
        ("llama-cpp", 5000, 1023, 1, 1536),  # 1024 and 512
        ("llama-cpp", 5000, 127, 2, 1536),  # 128 and 512 are 640, up to a multiple of 256, for each row
        ("llama-cpp-unified", 5000, 127, 2, 768),  # two windows and 512 once
        ("llama-cpp-unified", 5000, None, 2, 10_240),
        ("llama-cpp", 5000, None, 1, 5120),
        ("llama-cpp-full", 5000, 1023, 1, 5120),
        ("sglang", 5000, 1023, 3, 12_000),
    ],
)
def test_positions_of_a_row(engine: str, length: int, back: int | None, rows: int, positions: int) -> None:
    assert read_engines()[engine].positions(length, back, rows) == positions


# What llama.cpp wrote when it ran these models: MiB of the parts that grow and of the states, and the thread that shows it.
LOGS: dict[str, tuple[str, dict[str, Any], str, float, float]] = {
    "ollama/ollama#17037": ("gemma-3-4b", {"B": 1, "S": 131_072}, "float16", 2560 + 174, 0),
    "lmstudio-ai/lmstudio-bug-tracker#1862": ("qwen3.5-27b", {"B": 1, "S": 262_144}, "float16", 16384, 598.5 / 4),
    "ggml-org/llama.cpp#11446": ("deepseek-v3", {"B": 1, "S": 32_768}, "float16", 2196, 0),
    "ikawrakow/ik_llama.cpp#259": ("deepseek-v3", {"B": 1, "S": 32_768}, "q8_0", 1166.62, 0),
}


@pytest.mark.parametrize("thread", LOGS)
def test_an_engine_allocates_what_its_log_says(thread: str) -> None:
    name, sizes, cache, growing, states = LOGS[thread]
    taken = count_generation(published(name), GIGABYTES, cache=cache, **sizes)
    allocated = taken.allocated("llama-cpp")
    assert isinstance(allocated, int)
    assert f"{allocated / 2**20:.2f}" == f"{growing + states:.2f}"


def published(name: str) -> Model:
    """A model of which a thread speaks."""
    return einformer.from_huggingface(configs()[name])


def test_what_no_source_says_is_not_stated() -> None:
    """vLLM leaves the dtype of states to each model, and does not share pages of different sizes by a rule that is stated."""
    taken = count_generation(einformer.from_huggingface(config_of("qwen3_5")), GIGABYTES, B=1, S=100)
    assert "not stated for recurrent states" in str(taken.allocated("vllm"))
    assert taken.data()["engines"]["vllm"]["bytes"] is None
    assert isinstance(taken.allocated("llama-cpp"), int)
    alone = count_generation(einformer.model("mistral-7b-v0.1"), GIGABYTES, B=1, S=100, cache="q4_0")
    assert alone.allocated("sglang") == alone.allocated("vllm") == "it has no cache in q4_0"
    assert "windows alone" in str(count_generation(einformer.model("mistral-7b-v0.1"), 1, B=1, S=9).allocated("sglang"))


def test_formats_are_those_of_gguf() -> None:
    """Blocks of 32 numbers and a scale of two bytes; q4_1 and q5_1 have two, q5 a bit more of each."""
    two, four, five, eight = 2, 16, 16 + 4, 32
    blocks = {"q8_0": two + eight, "q5_1": 2 * two + five, "q5_0": two + five, "q4_1": 2 * two + four, "q4_0": two + four}
    assert {name: (read_formats()[name].block, read_formats()[name].bytes) for name in blocks} == {
        name: (32, size) for name, size in blocks.items()
    }
    assert all(row.source for row in read_formats().values() if row.block > 1)


def test_blocks_must_divide_a_position() -> None:
    model = einformer.load("llama").bind(D=8, A=2, G=1, F=4, L=1, V=7)
    with refuses("E605", "q8_0", "4"):
        count_generation(model, GIGABYTES, B=1, S=4, cache="q8_0")


@pytest.mark.parametrize("name", ["qwen3_5", "kimi_linear", "nemotron_h", "deepseek_v3", "mamba2", "llama4_text", "gpt_oss"])
def test_the_cache_needed_is_that_of_decoding(name: str) -> None:
    """Kinds of layers add up to the cache that is derived, and no engine allocates less."""
    model = einformer.from_huggingface(config_of(name))
    taken = count_generation(model, GIGABYTES, B=3, S=100)
    assert taken.needed == model.cache_bytes("bfloat16", B=3, S=100).total
    known = [size for size in map(taken.allocated, read_engines()) if isinstance(size, int)]
    assert known
    assert min(known) >= taken.needed


def test_the_longest_row_fits_and_the_next_does_not() -> None:
    model = einformer.from_huggingface(GEMMA)
    longest = count_generation(model, 12 * GIGABYTES, B=8, S=16).longest
    assert longest is not None
    sizes = [count_generation(model, 1, B=8, S=length) for length in (longest, longest + 1)]
    within, beyond = (size.weights + size.needed for size in sizes)
    assert within <= 12 * GIGABYTES < beyond
    assert count_generation(model, 2**32, B=8, S=1).advice.endswith(", and the weights alone take 1.8 times as much")
    mamba = einformer.from_huggingface(config_of("mamba2"))
    assert count_generation(mamba, GIGABYTES, B=1, S=16).advice == "1 GB hold the weights and the cache of 1 row of any length"


def test_windows_alone_stay_windows() -> None:
    """Only beside layers that see all positions does vLLM without its hybrid manager keep them whole."""
    taken = count_generation(einformer.model("mistral-7b-v0.1"), GIGABYTES, B=1, S=32_768)
    position = 32 * 2 * 8 * 128 * 2
    assert taken.allocated("vllm-uniform") == taken.allocated("vllm") == position * (257 * 16)
    assert (
        taken.allocated("llama-cpp") == taken.allocated("llama-cpp-full") == position * 32_768
    )  # it has no windows of Mistral


def test_windows_of_a_model_that_an_engine_does_not_name_are_not_stated() -> None:
    text = einformer.load("mistral").bind(D=8, A=2, G=1, F=4, L=1, V=7, W=3)
    taken = count_generation(text, GIGABYTES, B=1, S=9)
    assert taken.allocated("llama-cpp") == "not stated for windows of a text"
    assert isinstance(taken.allocated("llama-cpp-full"), int)
    known = {name for engine in read_engines().values() for name in (*engine.windowed, *engine.whole)}
    assert known <= set(families())


def test_every_engine_has_a_source() -> None:
    """And a version, and no cache that is not a format."""
    for engine in read_engines().values():
        assert engine.source
        assert re.search(r" (\d+\.\d+\.\d+|[0-9a-f]{7})\b", engine.title)
        assert set(engine.caches) <= read_formats().keys()


def test_the_command(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(GEMMA))
    assert main(["count", str(tmp_path), "--generation", "--context", "128Ki", "--batch", "8"]) == 0
    said = capsys.readouterr().out
    assert " ".join(said.split("\n")[2].split()) == " ".join(generation.HEAD)
    assert "22,447,915,008 bytes, 22.45 GB as bfloat16: what the equations read again" in said
    assert "146,028,888,064 bytes, 146 GB, 6.51 of that: vLLM 0.33.0 --disable-hybrid-kv-cache-manager, " in said
    assert "80 GB hold the weights and the cache of 8 rows up to 434,975 positions" in said
    assert main(["count", str(tmp_path), "--generation", "--context", "1k", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["inputs"], found["kinds"][0]["layers"]) == ({"B": 1, "S": 1000}, 29)
    assert found["engines"]["vllm"]["source"] == read_engines()["vllm"].source


def test_the_command_stores_the_cache_in_blocks(capsys: pytest.CaptureFixture[str]) -> None:
    """A block of q8_0 is 34 bytes for 32 numbers: 17 of 32 of those of two bytes."""
    sizes = []
    for cache in ([], ["--cache", "q8_0"]):
        assert main(["count", "qwen3-14b", "--generation", "--context", "8Ki", *cache, "--json"]) == 0
        sizes.append(json.loads(capsys.readouterr().out)["cache"])
        assert main(["fit", "qwen3-14b", "--generation", "--memory", "80GB", "--solve", "S", *cache, "--json"]) == 0
        sizes.append(json.loads(capsys.readouterr().out)["size"])
    assert sizes[2] * 32 == sizes[0] * 17
    assert sizes[3] * 17 // 32 in (sizes[1], sizes[1] - 1)
    for command in (["count"], ["fit", "--memory", "80GB"]):
        with pytest.raises(SystemExit, match="2"):
            main([command[0], "qwen3-14b", *command[1:], "--cache", "q8_0"])


def test_sizes_that_are_missing_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["count", "llama", "--generation"]) == 1
    assert "E601" in capsys.readouterr().err
