"""Do pictures show the numbers that were counted, whole and readable, and never half of a file?"""

from __future__ import annotations

import importlib
import json
import struct
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import matplotlib
import pytest

import einformer
from einformer import load
from einformer.cli import main
from einformer.interpreters.count.conventions import DEFAULT, PRECISIONS, read_devices
from einformer.objects import Model
from einformer.report import plot, series

HALF = PRECISIONS["bfloat16"]
GPT2_SMALL = {"D": 768, "A": 12, "L": 12, "V": 50257, "K": 1024}


@pytest.fixture(scope="module")
def gpt2() -> Model:
    return einformer.model("gpt2")


@pytest.fixture
def run(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., tuple[int, str, str]]:
    """`main` as a function, in an empty folder."""
    monkeypatch.chdir(tmp_path)

    def answer(*arguments: str) -> tuple[int, str, str]:
        return main(arguments), *capsys.readouterr()

    return answer


# ---------------------------------------------------------------------------------------------------------- the numbers


def test_lengths_are_as_far_as_a_text_allows(gpt2: Model) -> None:
    assert series.lengths(gpt2)[0] == 16
    assert series.lengths(gpt2)[-1] == 1024
    assert series.lengths(load("gpt2").bind(**GPT2_SMALL | {"K": 5000}))[-1] == 5000
    assert series.lengths(load("llama").bind(D=16, A=4, G=2, F=24, L=2, V=11))[-1] == 2**17


def test_shares_are_those_of_nanogpt(gpt2: Model) -> None:
    """Its printed FLOPs of each part at S = 1024, in percent."""
    whole = 291_648_307_200
    parts = {
        "logits": 79_047_426_048,
        "CausalAttention": 12 * (8_053_063_680 - 2 * 1_610_612_736),
        "CausalAttention, pairs of positions": 12 * 2 * 1_610_612_736,
        "MLP": 12 * 9_663_676_416,
    }
    found = series.shares(gpt2, 1, [1024], DEFAULT)
    assert found == {name: [pytest.approx(100 * flops / whole)] for name, flops in parts.items()}


def test_shares_are_of_the_whole(gpt2: Model) -> None:
    found = series.shares(gpt2, 3, [16, 100, 1000], DEFAULT)
    assert [sum(column) for column in zip(*found.values(), strict=True)] == pytest.approx([100, 100, 100])


def test_components_are_bytes_for_each_parameter(gpt2: Model) -> None:
    """2 + 4 + 4 + 4 + 4, Megatron-LM's 18 in bfloat16; in GB."""
    found = series.components(gpt2, 1, [16, 64], "bfloat16", "none")
    state = {"parameters": 2, "gradients": 4, "master": 4, "momentum": 4, "variance": 4}
    assert {name: found[name] for name in state} == {name: [n * 0.124439808] * 2 for name, n in state.items()}
    assert found["logits"] == [16 * 50257 * 4 / 1e9, 64 * 50257 * 4 / 1e9]
    assert set(found) == {*state, "activations", "logits"}


def test_a_picture_of_memory_ends_where_the_rest_would_not_be_seen() -> None:
    at, found = series.readable([1, 2, 3, 4], {"a": [1, 1, 1, 1], "b": [0, 2, 9, 99]}, size=4)
    assert (at, found) == ([1, 2, 3], {"a": [1, 1, 1], "b": [0, 2, 9]})


def test_points_have_the_intensities_of_the_notes(gpt2: Model) -> None:
    """2 B S D / (p (2 B S + D)) of a projection; one position after another does B / (1 + 2 B / D) for each byte."""
    found = series.points(gpt2, 4, 512, HALF, DEFAULT)
    by_step = {
        step: {round(p.intensity, 6) for p in found if (p.part, p.step) == ("CausalAttention", step)}
        for step in ("prefill", "decode")
    }
    assert by_step == {
        "prefill": {round(2 * 4 * 512 * 768 / (2 * (2 * 4 * 512 + 768)), 6)},
        "decode": {round(2 * 4 * 768 / (2 * (2 * 4 + 768)), 6)},
    }


def test_a_cache_is_what_each_kind_of_layer_needs(gpt2: Model) -> None:
    """Keys and values of 12 layers in two bytes, of all positions or of a window."""
    needed, allocated = series.cache(gpt2, 2, [16, 1000], HALF)
    assert needed == {"blocks.{l}.CausalAttention: all positions": [2 * n * 2 * 12 * 768 * 2 / 1e9 for n in (16, 1000)]}
    assert allocated["vLLM 0.33.0"] == [2 * n * 2 * 12 * 768 * 2 / 1e9 for n in (16, 1008)]  # by pages of 16
    needed, _ = series.cache(einformer.model("mistral-7b-v0.1"), 1, [2048, 4096, 8192], HALF)
    (sizes,) = needed.values()
    assert sizes == [n * 2**27 / 1e9 for n in (2, 4, 4)]


def test_every_part_of_points_has_a_share(gpt2: Model) -> None:
    """So colours mean the same in both pictures."""
    for model in (gpt2, load("mixtral").bind(D=16, A=4, G=2, F=24, X=4, L=2, V=11)):
        assert {p.part for p in series.points(model, 1, 32, HALF, DEFAULT)} == set(series.shares(model, 1, [2], DEFAULT))


def test_bounds_are_of_a_prompt_a_step_and_training(gpt2: Model) -> None:
    """Weights and 73,728 / 2 bytes of cache for each position: the same bytes, but S times the FLOPs."""
    prompt, step, training = series.bounds(gpt2, 1, 1024, "bfloat16", read_devices()["h100-sxm"])
    assert prompt.moved == step.moved == 2 * (124_439_808 - 1024 * 768) + 1024 * 36864
    assert (prompt.work, step.work, training.work) == ("prefill", "decode", "training")
    assert step.limit == "memory"
    assert step.seconds == pytest.approx(step.moved / 3.35e12)


# -------------------------------------------------------------------------------------------------------- the pictures


@pytest.mark.parametrize("kind", ["flops", "memory", "cache", "roofline", "all"])
def test_a_picture_is_drawn(run: Callable[..., tuple[int, str, str]], kind: str) -> None:
    length = ["--seq", "256"] if kind in ("roofline", "all") else []
    assert run("plot", "gpt2", "--kind", kind, *length) == (0, "gpt2.png\n", "")
    head = Path("gpt2.png").read_bytes()[:24]
    assert head[:8] == b"\x89PNG\r\n\x1a\n"
    width, height = struct.unpack(">II", head[16:])
    assert width > 1000
    assert height > (2000 if kind == "all" else 700)
    assert [path.name for path in Path().iterdir()] == ["gpt2.png"]


@pytest.mark.parametrize("longest", [2, 8])
def test_a_short_sequence_has_a_picture(run: Callable[..., tuple[int, str, str]], longest: int) -> None:
    """Without a warning of matplotlib, which is an error here."""
    assert run("plot", "gpt2", "--set", f"D=12,A=3,L=1,V=11,K={longest}", "--out", "gpt2.svg")[0] == 0


def test_a_file_that_nobody_named_is_not_replaced(
    run: Callable[..., tuple[int, str, str]], capsys: pytest.CaptureFixture[str]
) -> None:
    Path("gpt2.png").write_text("mine", encoding="utf-8")
    with pytest.raises(SystemExit, match="2"):
        run("plot", "gpt2", "--kind", "flops")
    assert "`gpt2.png` exists already; `--out gpt2.png` replaces it" in capsys.readouterr().err
    assert Path("gpt2.png").read_text(encoding="utf-8") == "mine"
    assert run("plot", "gpt2", "--kind", "flops", "--out", "gpt2.png")[0] == 0


def test_a_picture_says_what_it_shows(run: Callable[..., tuple[int, str, str]], monkeypatch: pytest.MonkeyPatch) -> None:
    """Title, convention, axes with units, legend; read from an SVG whose letters are letters."""
    monkeypatch.setitem(plot._STYLE, "svg.fonttype", "none")
    code, out, _ = run("plot", "gpt2", "--out", "x.svg", "--json", "--batch", "2", "--seq", "64")
    assert (code, json.loads(out)) == (0, {"target": "gpt2", "kind": "all", "file": "x.svg"})
    said = " ".join("".join(e.itertext()) for e in ElementTree.parse("x.svg").iter() if e.tag.endswith("text"))
    for words in (
        "gpt2, 124,439,808 parameters",
        "torch (FlopCounterMode",
        "share of forward FLOPs (%)",
        "sequence length S (tokens)",
        "memory (GB, 10⁹ bytes)",
        "arithmetic intensity (FLOPs per byte moved)",
        "rate at most (FLOP/s)",
        "bounds, not estimates",
        "decode as a whole: at least",
        "CausalAttention, pairs of positions, decode",
        "NVIDIA H100 SXM, 989.5 TFLOP/s in bfloat16, 3.35 TB/s",
    ):
        assert words in said


def test_the_same_picture_is_the_same_file(run: Callable[..., tuple[int, str, str]]) -> None:
    for name in ("a.svg", "b.svg"):
        run("plot", "gpt2", "--out", name, "--kind", "flops")
    assert Path("a.svg").read_bytes() == Path("b.svg").read_bytes()


def test_legend_and_small_print_stand_beside_the_data(gpt2: Model) -> None:
    figure = figure_of(gpt2)
    figure.draw_without_rendering()
    for axes in figure.axes:
        area = axes.get_window_extent()
        legend = axes.get_legend()
        assert legend is not None
        assert legend.get_window_extent().x0 >= area.x1
        assert legend.get_window_extent().x1 <= figure.bbox.x1
        assert axes.texts[-1].get_window_extent().y0 >= area.y1
        assert axes.texts[-1].get_window_extent().x1 <= figure.bbox.x1
        assert axes.get_title(loc="left")


def figure_of(model: Model) -> Any:
    subject = plot.PlottedModel("gpt2", model, 1, 256, DEFAULT, HALF, "none", read_devices()["h100-sxm"])
    with matplotlib.rc_context(plot._STYLE):
        return plot._make_figure(subject, list(plot.KINDS.values()))


def test_colours_can_be_told_apart() -> None:
    """Okabe and Ito's: no two near each other in lightness and hue as those see them who see no red (a projection of sRGB)."""
    seen = [tuple(int(colour[k : k + 2], 16) / 255 for k in (1, 3, 5)) for colour in plot._COLOURS]
    dichromat = [(0.567 * r + 0.433 * g, 0.558 * r + 0.442 * g, 0.242 * g + 0.758 * b) for r, g, b in seen]
    gaps = [max(abs(x - y) for x, y in zip(a, b, strict=True)) for i, a in enumerate(dichromat) for b in dichromat[:i]]
    assert min(gaps) > 0.08


# ------------------------------------------------------------------------------------------------------------- trouble


def test_a_picture_that_fails_leaves_the_old_file(gpt2: Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(self: object, path: Path, **_: object) -> None:
        Path(path).write_bytes(b"half")
        raise OSError("no space left")

    monkeypatch.setattr("matplotlib.figure.Figure.savefig", broken)
    (tmp_path / "old.png").write_bytes(b"old")
    subject = plot.PlottedModel("gpt2", gpt2, 1, 64, DEFAULT, HALF, "none", read_devices()["h100-sxm"])
    with pytest.raises(OSError, match="no space"):
        plot.plot(subject, "flops", tmp_path / "old.png")
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {"old.png": b"old"}


def test_without_matplotlib_the_extra_is_named(
    run: Callable[..., tuple[int, str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    code, out, err = run("plot", "gpt2")
    assert (code, out) == (2, "")
    assert err.startswith("E803 `matplotlib` is not installed")
    assert "pip install 'einformer[plot]'" in err


@pytest.mark.parametrize("name", ["x.pdf", "x", "x.PNG.txt"])
def test_other_formats_are_refused(run: Callable[..., tuple[int, str, str]], name: str) -> None:
    with pytest.raises(SystemExit):
        run("plot", "gpt2", "--out", name)
    assert not list(Path().iterdir())


def test_a_folder_that_is_not_there_is_said(run: Callable[..., tuple[int, str, str]]) -> None:
    code, out, err = run("plot", "gpt2", "--out", "none/x.png", "--kind", "flops")
    assert (code, out) == (2, "")
    assert "none" in err


def test_a_size_that_is_open_is_said(run: Callable[..., tuple[int, str, str]]) -> None:
    code, _, err = run("plot", "llama")
    assert code == 1
    assert err.startswith("E601 ")


@pytest.mark.parametrize("kind", ["flops", "all"])
def test_a_text_that_multiplies_nothing_cannot_be_drawn(run: Callable[..., tuple[int, str, str]], kind: str) -> None:
    text = "axes\n  b: B\n  s: S\n  d: 3\nmodel Twice(x_bsd) -> y_bsd causal in s:\n  return 2 x_bsd\n"
    Path("twice.ein").write_text(text, encoding="utf-8")
    code, _, err = run("plot", "twice.ein", "--kind", kind)
    assert code == 2
    assert err.startswith("E804 ")
    assert [path.name for path in Path().iterdir()] == ["twice.ein"]


def test_no_command_but_plot_loads_matplotlib(
    run: Callable[..., tuple[int, str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert importlib.import_module("einformer.report.plot")
    assert run("fit", "gpt2", "--memory", "80GB")[0] == 0
