"""A text that names layers, axes and scalars of the library means what it meant when it wrote them out."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterator
from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest

import einformer
from einformer.architectures import texts
from einformer.cli import main
from einformer.errors import Source
from einformer.language.parser import parse
from einformer.language.printer import show
from einformer.language.tree import Node, Spec
from tests.refusals import findings_of

FILES = {f"{name}.ein": texts.text(name).text for name in texts.shipped()}


def bare(value: Any) -> Any:
    """A tree without comments."""
    if isinstance(value, tuple):
        return tuple(map(bare, value))
    if not isinstance(value, Node):
        return value
    kept = {field.name: bare(getattr(value, field.name)) for field in fields(value)}
    return replace(value, **{name: type(item)() if name in ("comment", "above") else item for name, item in kept.items()})


def parts(spec: Spec) -> Iterator[tuple[str, str]]:
    """The axes, the scalars and each layer of a text as they are printed."""
    yield "axes", "\n".join(sorted(show(bare(axis)) for axis in spec.axes))
    yield "scalars", "\n".join(sorted(f"{show(scalar)} @ {scalar.note}" for scalar in spec.scalars))
    for layer in sorted(spec.layers, key=lambda layer: layer.name):
        yield layer.name, show(bare(layer))


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:8]


def test_expanded_texts(golden: Callable[[str, str], None]) -> None:
    """The golden file was made of texts that wrote everything out."""
    rows = []
    for name in texts.shipped():
        written, _, findings = texts.elaborate(texts.text(name))
        assert findings == ()
        rows.append(" ".join([name, *(f"{part}:{digest(text)}" for part, text in parts(written))]))
    golden("texts.txt", "\n".join(rows) + "\n")


# ------------------------------------------------------------------------------------------------------- naming the library

LEGEND = "axes s, e, i, h\nscalars θ_h, μ\n  Θ = 100\n"
TURN = "model Turn(x_se) -> x_se causal in s:\n  return Rotary(x_se)\n"
SHORT = LEGEND + TURN
INTERLEAVED = SHORT.replace("model", "layer Rotary = RotaryInterleaved\nmodel")
VARIED = SHORT.replace("model", "layer Rotary = Rotary:\n  y_{s(ih)} = x_{s(ih)} c_s\n  c_s = 2 s\nmodel")
DEEP = """axes s, d, g, j, e, i, h
scalars Θ, θ_h
model Attend(z_sd) -> z_sd causal in s:
  m_ss' = where(s' <= s, 0, -inf)
  return Attention(z_sd, m_ss')
"""


def value(text: str) -> Any:
    return einformer.parse(text).bind(D=4, A=1, H=4).reference(np.arange(12.0).reshape(3, 4), weights={})


def test_what_is_named_means_what_it_means_written_out() -> None:
    written = str(einformer.parse(SHORT))
    assert "  e: H = D / A        # head" in written
    assert "  θ_h = Θ^(-2 h / H)  @ rope 3.2.2 eq 15" in written
    assert "layer Rotary(x_se) -> y_se:" in written
    assert np.array_equal(value(written), value(SHORT))
    assert einformer.parse(written).written == einformer.parse(SHORT).written
    assert einformer.parse(SHORT, "note.txt").layers == ["Rotary", "Turn"]


def test_what_the_text_declares_itself_holds_in_the_layers_of_the_library() -> None:
    """The angles are those of its own Θ."""
    assert not np.allclose(value(SHORT), value(SHORT.replace("Θ = 100", "Θ = 10000")))


def test_a_layer_of_the_library_under_another_name() -> None:
    assert [layer.name for layer in einformer.parse(INTERLEAVED).written.layers] == ["Rotary", "Turn"]
    angle = np.exp(1j * np.arange(3)[:, None] * 100.0 ** (-np.arange(2) / 2))
    pairs = np.arange(12.0).reshape(3, 2, 2)
    turned = (pairs[..., 0] + 1j * pairs[..., 1]) * angle
    np.testing.assert_allclose(value(INTERLEAVED), np.stack([turned.real, turned.imag], -1).reshape(3, 4), atol=1e-12)


def test_a_line_replaces_the_line_of_its_name_and_a_new_name_goes_before() -> None:
    varied = SHORT.replace("model", "layer Rotary = Rotary:   @ rope\n  c_s = 2 s\n  y_{s(ih)} = x_{s(ih)} c_s θ_0 μ\nmodel")
    np.testing.assert_array_equal(value(varied), np.arange(12.0).reshape(3, 4) * [[0], [2], [4]])
    layer = einformer.parse(varied).written.layers[0]
    assert (layer.name, layer.note, [show(row)[:2] for row in layer.body]) == ("Rotary", "rope", ["c_", "y_"])


def test_an_axis_or_scalar_of_the_library_has_another_value_where_the_head_says_so() -> None:
    spec = einformer.parse(
        SHORT.replace("s, e,", "s: S <= K, e: H = 4,").replace("θ_h, μ\n  Θ = 100", "Θ = 100, θ_h = Θ^h, μ = 2")
    )
    axes, scalars = (
        {item.span.text: show(bare(item)) for item in items} for items in (spec.written.axes, spec.written.scalars)
    )
    assert [axes["s"], axes["e"], axes["i"]] == ["s: S <= K", "e: H = 4", "i: 2"]
    assert list(scalars.values()) == ["Θ = 100", "θ_h = Θ^h", "μ = 2"]
    assert [axis.comment for axis in spec.written.axes[:2]] == ["sequence", "head"]


def test_layers_of_the_library_call_the_layers_of_the_text() -> None:
    """`Attention` of the library calls the `Rotary` of Cohere, which is another layer of the library."""
    layers = {layer.name: layer for layer in einformer.load("cohere").written.layers}
    interleaved = next(layer for layer in texts.library().layers if layer.name == "RotaryInterleaved")
    assert show(bare(layers["Rotary"])) == show(bare(replace(interleaved, name="Rotary")))
    assert "Rotary(z_sd Q_degj)" in show(layers["Attention"])


def test_a_text_reaches_what_it_names_and_what_that_names() -> None:
    whole = {layer.name: layer for layer in texts.library().layers}
    near = texts.reach("Experts, and \\mathrm{ClippedAttention}_l(…)").layers
    assert {layer.name for layer in near} == {"Experts", "UnscaledExperts", "ClippedAttention", "Attention", "Clip", "Rotary"}
    assert all(layer == whole[layer.name] and layer.span.line == whole[layer.name].span.line for layer in near)
    assert [whole[layer].span.line for layer in whole] == sorted(whole[layer].span.line for layer in whole)
    line = texts.text("library").text.split("\n")[whole["Clip"].span.line - 1]
    assert line.startswith("layer Clip_d(")


def test_every_layer_of_the_library_is_used() -> None:
    named = {match for text in FILES.values() for match in re.findall(r"^layer \w+ = (\w+):?", text, re.MULTILINE)}
    called = {layer.name for name in texts.shipped() for layer in texts.write_out(name).layers}
    assert {layer.name for layer in texts.library().layers} - named - called == set()


def test_no_text_writes_out_what_the_library_has() -> None:
    """Comments apart, whatever the layer is called."""
    known = {show(bare(replace(layer, name="_"))) for layer in texts.library().layers}
    for name, text in FILES.items():
        own = parse(Source(name, text), texts.library())[0].layers
        written = {layer.name: show(bare(replace(layer, name="_"))) for layer in own if layer.span.source.name == name}
        assert {layer for layer, said in written.items() if said in known} == set(), name


TWICE = "\nlayer Twice(x_d) -> y_d:\n  return 2 x_d\n"


@pytest.mark.parametrize(
    ("text", "code", "place", "fix"),
    [
        (SHORT.replace("s,", "s, q,"), "E201", "q", "`q: Q`"),
        (SHORT.replace("μ", "μ, β_h"), "E204", "β", "`β = …`"),
        (SHORT.replace("θ_h", "θ_e"), "E204", "θ", "`θ = …`"),
        (INTERLEAVED.replace("Interleaved", "Interlaced"), "E204", "RotaryInterlaced", "`RotaryInterleaved`"),
        (INTERLEAVED.replace("Interleaved", "Interleaved @ rope"), "E107", "@", ""),
        (
            INTERLEAVED.replace("Interleaved\n", "Interleaved\n  return 0\n"),
            "E105",
            "return 0",
            "`layer Rotary = RotaryInterleaved:`",
        ),
        (VARIED.replace("c_s =", "c'_s ="), "E204", "c'_s = 2 s", "a line for one of `y =`, in this order"),
        (SHORT.replace("s, e", "s: 3 Q q, e"), "E204", "q", "`Q`"),
        (SHORT.replace("s,", "s, l,"), "E203", "l", "nothing: delete the line"),
        (SHORT.replace("i, ", ""), "E201", "Rotary(x_se)", "`axes …, i`"),
        (DEEP, "E204", "Attention(z_sd, m_ss')", "`scalars …, μ`"),
        ("axes\n  b, s\n" + TWICE, "E101", ",", "`axes b, s` on the line of the heading"),
        ("axes\n  b\n" + TWICE, "E101", "\n", "`axes b` on the line of the heading"),
        ("axes d\n\nscalars\n  ε, μ\n" + TWICE, "E101", ",", "`scalars ε, μ` on the line of the heading"),
    ],
)
def test_what_is_wrong_is_told_in_the_text_that_names_the_library(text: str, code: str, place: str, fix: str) -> None:
    with pytest.raises(einformer.EinformerError) as caught:
        einformer.parse(text)
    finding = caught.value.findings[0]
    assert (finding.code, finding.span.text, finding.span.source.name) == (code, place, "<text>")
    assert finding.fix.startswith(fix)


def test_what_layers_of_the_library_lack_is_mended_by_naming_it() -> None:
    text = "axes s, d\nscalars Θ\n" + DEEP.split("\n", 2)[2]
    while findings := findings_of(text):
        head, name = findings[0].fix.split("`")[1].split(" …, ")
        text = text.replace(f"{head} ", f"{head} {name}, ", 1)
    assert text.startswith("axes j, g, h, i, e, s, d\nscalars θ_h, μ, Θ\n")


@pytest.mark.parametrize("name", ["qwen3", "llama-3-8b"])
def test_a_text_is_printed_written_out(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["source", "--text", name]) == 0
    text = capsys.readouterr().out
    assert "layer Attention(z_sd, m_ss') -> z_sd:" in text
    assert parse(Source("alone", text))[1] == ()  # no library is at hand
    assert main(["source", "--text", name, "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"target": name, "text": text}


@pytest.mark.parametrize("option", [["--plan", "fast"], ["--check"], ["--annotations"], ["--ascii"]])
def test_options_of_pytorch_do_not_apply_to_a_text(option: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["source", "--text", "gpt2", *option])
    assert caught.value.code == 2
    assert f"`{option[0]}` does not apply with `--text`" in capsys.readouterr().err
