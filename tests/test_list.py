"""What ships, and is it said as it is?"""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

import einformer
from einformer.architectures import models
from einformer.cli import main
from einformer.errors import Source
from einformer.huggingface.families import families, family
from einformer.language import parser
from einformer.report import shipped as listing
from tests.test_commands import terminal, uncoloured

ARCHITECTURES = Path(einformer.__file__).parent / "architectures"
CONFIGS = Path(__file__).parent / "configs"


found = listing.list_shipped


# How each attends, as the papers say it; the others are compared with the texts themselves.
ATTENTION = {
    "bloom": "multi-head",
    "deepseek_v3": "latent",
    "delta_net": "recurrent",
    "falcon": "multi-query",
    "falcon_grouped": "grouped",
    "gemma2": "grouped, window",
    "gpt2": "multi-head",
    "gpt_bigcode": "multi-query",
    "gpt_oss": "grouped, window",
    "linear_attention": "recurrent",
    "linear_attention_masked": "linear",
    "llama": "grouped",
    "loss": "",
    "mamba2": "recurrent",
    "mistral": "grouped, window",
}


def test_every_text_is_listed() -> None:
    files = {path.stem: path for path in ARCHITECTURES.glob("*.ein") if path.stem != "library"}
    assert [each.name for each in found().architectures] == sorted(files)
    for each in found().architectures:
        assert files[each.name].read_text(encoding="utf-8").startswith(f"# {each.name}.ein: {each.about}\n")


def test_every_family_is_listed() -> None:
    assert {name for each in found().architectures for name in each.families} == set(families())
    for each in found().architectures:
        assert all(
            each.name in {family(f"{name} {v}").architecture for v in ("", *family(name).variants)} for name in each.families
        )


@pytest.mark.parametrize(("name", "attention"), ATTENTION.items())
def test_how_each_attends(name: str, attention: str) -> None:
    assert next(each.attention for each in found().architectures if each.name == name) == attention


def test_windows_are_those_of_the_texts() -> None:
    """A bound from below stands before a primed s."""
    for each in found().architectures:
        text = (ARCHITECTURES / f"{each.name}.ein").read_text(encoding="utf-8")
        assert each.attention.endswith("window") == bool(re.search(r"s - \w+ <=? s'", text)), each.name


@pytest.mark.parametrize(
    ("line", "attention"),
    [
        ("w_ss'a = Sm_s'(q_sea k_s'ea)", "multi-head"),
        ("w_ss'gj = Sm_s'(q_segj k_s'eg)", "grouped"),
        ("w_ss'gj = Sm_s'(k_s'eg q_segj / sqrt(E))", "grouped"),
        ("w_ss'a = Sm_s'(q_sea k_s'e)", "multi-query"),
        ("w_ss'a = Sm_s'(q_sea K_ead k_s'd)", "latent"),
        ("w_ss'a = q_sea k_s'ea", "linear"),
        ("w_sea = w_{(s - 1)ea} + q_sea", "recurrent"),
        ("w_sea <- w_sea + q_sea", ""),
        ("w_sea = q_sea Q_ea", ""),
    ],
)
def test_how_an_equation_attends(line: str, attention: str) -> None:
    text = f"axes\n  s: S\nmodel M(x_s) -> y_s causal in s:\n  {line}\n  return x_s\n"
    spec, findings = parser.parse(Source("t", text))
    assert not findings
    assert ", ".join(listing._find_attention(spec)) == attention


def test_published_sizes() -> None:
    """124 M and 1558 M parameters, as OpenAI's table of the four sizes has them with tied embeddings."""
    sizes = {each.name: each.parameters for each in found().models}
    assert sizes.keys() == models().keys()
    assert (sizes["gpt2"], sizes["gpt2-xl"]) == (124_439_808, 1_557_611_200)


@pytest.mark.parametrize("name", [name for name in models() if (CONFIGS / f"{name}.json").exists()])
def test_published_sizes_are_those_of_the_configs(name: str) -> None:
    """The model of a name is that of its config.json, and has as many parameters as transformers' one."""
    row = json.loads((CONFIGS / f"{name}.json").read_text(encoding="utf-8"))
    assert not einformer.model(name).diff(einformer.from_huggingface(row["config"]))
    assert next(each.parameters for each in found().models if each.name == name) == row["parameters"]


def test_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list"]) == 0
    out = capsys.readouterr().out
    assert re.search(r"^mistral +grouped, window +llama with a window$", out, re.MULTILINE)
    assert re.search(r"^gpt2-xl +gpt2 +1,557,611,200$", out, re.MULTILINE)


def test_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list", "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed["architectures"][-1]["name"] == found().architectures[-1].name
    assert {"name": "gpt2", "architecture": "gpt2", "parameters": 124_439_808} in printed["models"]


@pytest.mark.slow
def test_in_a_terminal() -> None:
    lines = uncoloured(terminal("list", columns=80)).split("\n")
    assert all(len(line) <= 80 for line in lines)
    assert any(line.startswith("mistral ") for line in lines)


def test_torch_is_not_loaded() -> None:
    import subprocess
    import sys

    few = "shipped.texts.shipped = lambda: ('gpt2',); row = shipped.models()['gpt2']; shipped.models = lambda: {'gpt2': row}"
    code = (
        f"import sys; from einformer.report import shipped; {few}; from einformer.cli import main; main(['list']); "
        "sys.exit('torch' in sys.modules or 'sympy' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True).returncode == 0
