"""Does `einformer count` say where parameters and FLOPs go, fast and without a heavy library? Does `source` print what runs?"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import einformer
from einformer import EinformerError, load
from einformer.cli import main
from einformer.language.tree import Name
from einformer.objects import Model

CONFIG = Path(__file__).parents[1] / "docs" / "examples" / "gpt2" / "config.json"
PARAMETERS = {"gpt2": 124_439_808, "gpt2-medium": 354_823_168, "gpt2-large": 774_030_080, "gpt2-xl": 1_557_611_200}
TOY = {"model_type": "gpt2", "n_embd": 12, "n_head": 3, "n_layer": 2, "n_positions": 8, "vocab_size": 11}


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, str]]:
    """`main` as a function: its exit code, and what it printed."""

    def answer(*arguments: str) -> tuple[int, str, str]:
        return main(arguments), *capsys.readouterr()

    return answer


# ------------------------------------------------------------------------------------------------------------- targets


@pytest.mark.parametrize("name", PARAMETERS)
def test_a_named_size_is_a_target(name: str) -> None:
    assert einformer.model(name).num_parameters == PARAMETERS[name]
    assert einformer.model(name).spec.name == "GPT2"


def test_a_model_takes_other_sizes_and_scalars() -> None:
    small = einformer.model("gpt2-xl", L=2, ε=1e-6)
    assert (small.size("L"), small.size("D")) == (2, 1600)
    assert hasattr(small.build("meta"), "to_huggingface")
    assert small.legend.number(Name("ε")) == 1e-6
    assert einformer.model("llama", D=12, A=3).size("H") == 4
    other = einformer.model(CONFIG, L=2)
    assert (other.size("L"), other.size("D")) == (2, 768)
    assert not hasattr(other.build("meta"), "to_huggingface")  # no config of transformers says so


@pytest.mark.parametrize("name", ["gpt2-xl", str(CONFIG), str(CONFIG.parent)])
def test_a_specification_does_not_drop_the_sizes_of_a_model(name: str) -> None:
    with pytest.raises(EinformerError, match="E802") as caught:
        load(name)
    assert f"`ein.model({name!r})`" in str(caught.value)


def test_a_config_and_its_folder_are_targets() -> None:
    file, folder = einformer.model(CONFIG), einformer.model(CONFIG.parent)
    assert file.num_parameters == folder.num_parameters == PARAMETERS["gpt2"]
    assert file.flops(B=1, S=1024) == 291_648_307_200


def test_a_text_is_a_target_with_open_sizes(tmp_path: Path) -> None:
    path = tmp_path / "twice.ein"
    path.write_text("axes\n  d: D\nlayer Twice(z_d) -> z_d:\n  return 2 z_d\n", encoding="utf-8")
    found = einformer.model(path)
    assert isinstance(found, Model)
    assert found.open == {"D"}


@pytest.mark.parametrize("command", ["count", "source", "report"])
@pytest.mark.parametrize(("name", "code"), [("gpt-2", "E802"), ("none/config.json", "E802"), (".", "E802")])
def test_what_is_no_target_is_said(run: Callable[..., tuple[int, str, str]], command: str, name: str, code: str) -> None:
    exit_code, out, err = run(command, name)
    assert (exit_code, out) == (2, "")
    assert err.startswith(f"{code} ")


# --------------------------------------------------------------------------------------------------------------- count


def test_count_json(run: Callable[..., tuple[int, str, str]]) -> None:
    code, out, _ = run("count", "gpt2", "--json")
    found = json.loads(out)
    assert code == 0
    assert found["inputs"] == {"B": 1, "S": 1024}
    assert found["parameters"] == sum(part["parameters"] for part in found["parts"]) == PARAMETERS["gpt2"]
    assert found["flops"] == sum(part["flops"] for part in found["parts"]) == 291_648_307_200


def test_the_sizes_of_the_input_may_be_given(run: Callable[..., tuple[int, str, str]]) -> None:
    found = json.loads(run("count", "gpt2", "--batch", "4", "--seq", "128", "--json")[1])
    assert found["flops"] == einformer.model("gpt2").flops(B=4, S=128)


def test_a_sequence_may_not_be_too_long(run: Callable[..., tuple[int, str, str]]) -> None:
    code, _, err = run("count", "gpt2", "--seq", "1025")
    assert code == 1
    assert err.startswith("E603 the size of `s` is 1025, its bound 1024")


def test_the_table_adds_up(run: Callable[..., tuple[int, str, str]]) -> None:
    lines = run("count", "gpt2")[1].split("\n")
    assert lines[0] == "gpt2.ein: pre-norm decoder with learned positions, B = 1, S = 1,024"
    # 12 layers of 34 S D + 5 A S², and 5 S D around them (Korthikanti et al. 2022, section 4)
    assert ["total", "124,439,808", "291,648,307,200", "1,079,771,136"] in [line.split() for line in lines]


def test_what_a_model_takes_in_all(run: Callable[..., tuple[int, str, str]]) -> None:
    data = json.loads(run("count", "gpt2", "--json")[1])
    assert data["flops_by_phase"] == {"forward": 291_648_307_200, "backward": 583_296_614_400, "training": 874_944_921_600}
    assert data["parameter_counts"] == {
        "total": 124_439_808, "embedding": 39_383_808, "non_embedding": 85_056_000, "active": 124_439_808
    }  # fmt: skip
    assert data["memory"]["total"] == 18 * 124_439_808 + 1_079_771_136 + 4 * 1024 * 50257
    assert data["cache"] == {"per_token": 2 * 2 * 12 * 768, "total": 1024 * 2 * 2 * 12 * 768}  # keys and values, bfloat16


@pytest.mark.parametrize(
    ("arguments", "phase", "expected"),
    [
        (("--recompute", "full"), "training", 874_944_921_600 + 212_600_881_152),  # the blocks again, not the logits
        (("--recompute", "selective"), "training", 874_944_921_600 + 12 * 2 * 1_610_612_736),  # scores and weighted sums
        (("--convention", "macs"), "forward", 291_648_307_200 // 2),
        (("--convention", "goon"), "forward", 291_648_307_200 - 79_047_426_048),
        (("--convention", "prefill"), "forward", 291_648_307_200 - 79_047_426_048 + 79_047_426_048 // 1024),
        (("--convention", "chinchilla"), "forward", 291_648_307_200 + 12 * 3 * 12 * 1024**2 + 2 * 1024 * 50257 * 768),
    ],
)
def test_recomputation_and_conventions(
    run: Callable[..., tuple[int, str, str]], arguments: tuple[str, ...], phase: str, expected: int
) -> None:
    """The parts are those of nanoGPT's notebook."""
    assert json.loads(run("count", "gpt2", "--json", *arguments)[1])["flops_by_phase"][phase] == expected


@pytest.mark.parametrize("option", ["--convention", "--precision", "--recompute"])
def test_an_option_that_is_not_there_is_a_wrong_call(run: Callable[..., tuple[int, str, str]], option: str) -> None:
    with pytest.raises(SystemExit, match="2"):
        run("count", "gpt2", option, "nothing")


def test_what_is_not_there_is_said() -> None:
    for wrong in ({"convention": "nothing"}, {"recompute": "nothing"}, {"phase": "nothing"}):
        with pytest.raises(EinformerError, match="E605"):
            einformer.model("gpt2").flops(B=1, S=1, **wrong)  # type: ignore[arg-type]
    with pytest.raises(EinformerError, match="E605"):
        einformer.model("gpt2").memory(B=1, S=1, precision="nothing")


@pytest.mark.parametrize("arguments", [["gpt2", "--formulas"], ["llama"]])
def test_formulas_where_they_are_wanted_or_sizes_are_open(
    run: Callable[..., tuple[int, str, str]], arguments: list[str]
) -> None:
    data = json.loads(run("count", *arguments, "--json")[1])
    assert all("D" in part["parameters"] for part in data["parts"])
    assert run("count", *arguments)[0] == 0


def test_a_cache_has_a_formula(run: Callable[..., tuple[int, str, str]]) -> None:
    """In bytes of the precision; where there is none, why."""
    cache = json.loads(run("count", "gpt2", "--formulas", "--json", "--precision", "float32")[1])["cache"]
    assert cache == {"per_token": "8 L D", "total": "8 L B S D"}
    assert "cache    bytes: 2 (E + R) L B S in all, 2 (E + R) L for a further position" in run("count", "deepseek_v3")[1]
    assert "cache    `Loss` does not say in which axis it is causal" in run("count", "loss", "--formulas")[1]


def test_formulas_are_those_of_the_notes(run: Callable[..., tuple[int, str, str]]) -> None:
    parts = {part["path"]: part for part in json.loads(run("count", "gpt2", "--formulas", "--json")[1])["parts"]}
    assert parts["GPT2"]["parameters"] == "(V + K) D"
    assert parts["blocks.{l}.LayerNorm"]["parameters_of_one"] == "2 D"
    assert parts["total"]["parameters"] == "(4 + 2 E) L D² + (9 + E) L D + (2 + V + K) D"


def count_cold(check: str) -> tuple[str, float]:
    """`count gpt2 --json` in a process of its own, and the processor time of it."""
    code = f"import sys, time; from einformer.cli import main; main(['count', 'gpt2', '--json']); {check}"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stderr, float(done.stderr.split()[-1])


def test_count_loads_no_heavy_library() -> None:
    loaded, _ = count_cold("print(*sys.modules, 0, file=sys.stderr)")
    assert {"torch", "sympy", "transformers", "rich", "jaxtyping"}.isdisjoint(loaded.split())


# -------------------------------------------------------------------------------------------------------------- source


@pytest.mark.parametrize("plan", ["fast", "notation"])
def test_source_is_a_file_that_runs(run: Callable[..., tuple[int, str, str]], tmp_path: Path, plan: str) -> None:
    (tmp_path / "config.json").write_text(json.dumps(TOY | {"bos_token_id": 0, "eos_token_id": 0}), encoding="utf-8")
    code, out, _ = run("source", str(tmp_path), "--plan", plan)
    assert code == 0
    assert json.loads(run("source", str(tmp_path), "--plan", plan, "--json")[1])["source"] == out
    namespace: dict[str, object] = {"__name__": "emitted"}
    exec(compile(out, "emitted", "exec", dont_inherit=True), namespace)
    assert "GPT2" in namespace


@pytest.mark.parametrize("options", [[], ["--text"], ["--stage", "0/2"]])
def test_source_is_written_to_a_file(run: Callable[..., tuple[int, str, str]], tmp_path: Path, options: list[str]) -> None:
    """What it prints, and no other file."""
    (tmp_path / "config.json").write_text(json.dumps(TOY | {"bos_token_id": 0, "eos_token_id": 0}), encoding="utf-8")
    printed = run("source", str(tmp_path), *options)[1]
    path = tmp_path / "model.py"
    assert run("source", str(tmp_path), *options, "--out", str(path)) == (0, f"{path}\n", "")
    assert path.read_text(encoding="utf-8") == printed
    assert json.loads(run("source", str(tmp_path), *options, "--out", str(path), "--json")[1])["file"] == str(path)
    assert sorted(tmp_path.iterdir()) == [tmp_path / "config.json", path]


def test_source_that_cannot_be_written_leaves_what_was(
    run: Callable[..., tuple[int, str, str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fill_disk(path: Path, text: str, **_: object) -> int:
        path.write_bytes(text[:9].encode())
        raise OSError(28, "No space left on device")

    path = tmp_path / "model.py"
    path.write_text("before", encoding="utf-8")
    monkeypatch.setattr(Path, "write_text", fill_disk)
    code, _, err = run("source", "gpt2-xl", "--out", str(path))
    assert (code, list(tmp_path.iterdir()), path.read_bytes()) == (2, [path], b"before")
    assert "No space left" in err


def test_source_does_not_replace_its_config(run: Callable[..., tuple[int, str, str]], tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text(json.dumps(TOY | {"bos_token_id": 0, "eos_token_id": 0}), encoding="utf-8")
    for target in (tmp_path, path):
        before = path.read_bytes()
        with pytest.raises(SystemExit) as error:
            run("source", str(target), "--out", str(path))
        assert (error.value.code, path.read_bytes()) == (2, before)


def test_source_of_open_sizes_says_which(run: Callable[..., tuple[int, str, str]]) -> None:
    code, out, err = run("source", "llama")
    assert (code, out) == (1, "")
    assert err.startswith("E601 ")


@pytest.mark.parametrize("plan", ["notation", "fast"])
def test_source_of_open_sizes_that_a_formula_reads_says_which(plan: str) -> None:
    """No weight and no loop needs them."""
    model = einformer.parse("axes\n  d: D\n  e: H\nlayer Scale(z_d) -> z_d:\n  return z_d / sqrt(H)\n").bind()
    with pytest.raises(EinformerError, match="E601 the size `H` is not bound"):
        model.source(plan)


def test_open_sizes_cannot_be_counted() -> None:
    with pytest.raises(EinformerError, match="E601"):
        _ = einformer.model("llama").num_parameters


def test_the_formula_of_the_parameters_is_that_of_a_specification() -> None:
    D, E, K, L, V = sorted((formula := load("gpt2").parameters).free_symbols, key=str)
    assert formula.subs({D: 768, E: 4, K: 1024, L: 12, V: 50257}) == PARAMETERS["gpt2"]
