"""Is a note the program that it displays? Its equations are compared with NumPy's, its errors with the lines of the file."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from einformer import model
from einformer.cli import main
from einformer.errors import EinformerError, Source
from einformer.notes.programs import Program, program
from einformer.testing.trial import trial

ROOT = Path(__file__).parents[1]
CHAPTER = (ROOT / "docs" / "attention.md").read_text(encoding="utf-8")
LEGEND = "```einformer note\naxes\n  n: N\n  d: D\nlayer Twice(x_nd) -> y_nd:\n```\n"


def read(text: str, name: str = "note.md") -> Program:
    return program(Source(name, text))


def specification(text: str, name: str = "note.md") -> model.Specification:
    source = read(text, name).source
    return model.parse(source.text, source.name)


def line_of(text: str, part: str) -> int:
    """The line of a text in which a part of it begins."""
    assert text.count(part) == 1
    return text[: text.index(part)].count("\n") + 1


# ------------------------------------------------------------------------------------------------------- the chapter


def test_the_chapter_is_attention() -> None:
    """By NumPy, head after head and row after row, with nothing of ours."""
    found = trial(specification(CHAPTER), {"B": 2, "S": 5, "D": 6, "A": 3}, 1)
    z, q, k, v, o = (found.tensors[name] for name in ("z_bsd", "Q_dea", "K_dea", "V_dea", "O_dd'"))
    heads = []
    for a in range(3):
        queries, keys, values = (z @ weight[:, :, a] for weight in (q, k, v))
        scores = queries @ keys.transpose(0, 2, 1) / np.sqrt(2)
        weights = np.exp(scores) * np.tril(np.ones((5, 5)))
        heads.append(weights / weights.sum(axis=-1, keepdims=True) @ values)
    assert found.output == pytest.approx(np.concatenate(heads, axis=-1) @ o, abs=1e-12)


def test_the_chapter_prints_what_it_answers(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    (block,) = re.findall(r"^```text\n\$ einformer (run [^\n]*)\n(.*?)^```", CHAPTER, re.MULTILINE | re.DOTALL)
    assert main(block[0].replace('"', "").split(maxsplit=3)) == 0
    assert capsys.readouterr().out == block[1]


def test_a_mask_that_is_turned_around_is_refused_in_its_line() -> None:
    turned = CHAPTER.replace(r"0 & s' \leq s \\ -\infty & s' > s", r"0 & s \leq s' \\ -\infty & s > s'")
    assert turned != CHAPTER
    with pytest.raises(EinformerError) as error:
        specification(turned)
    (finding,) = error.value.findings
    assert finding.code == "E501"
    assert finding.span.line == line_of(turned, "w_{bss'a} = ")


def test_a_typo_in_an_index_is_refused_in_its_line() -> None:
    slipped = CHAPTER.replace("y_{bsd} &= u_{bsd'} O_{d'd}", "y_{bsd} &= u_{bsd} O_{d'd}")
    with pytest.raises(EinformerError) as error:
        specification(slipped)
    assert {(f.code, f.span.line) for f in error.value.findings} == {("E301", line_of(slipped, "y_{bsd} &="))}


# -------------------------------------------------------------------------------------------------- what is read


def in_latex(text: str) -> str:
    """The chapter as a file of LaTeX, with a macro for the softmax."""
    text = re.sub(
        r"```einformer note\n(.*?)```", r"\\begin{lstlisting}[language=einformer]\n\1\\end{lstlisting}", text, flags=re.S
    )
    text = re.sub(r"```text\n.*?```", "", text, flags=re.S)
    text = re.sub(r"\$\$\n(\\begin\{aligned\}.*?)\\end\{aligned\}\n\$\$", r"\\begin{align}\1\\end{align}", text, flags=re.S)
    text = text.replace("\\begin{align}\\begin{aligned}", "\\begin{align}").replace("\\mathrm{Sm}", "\\softmax")
    return f"\\newcommand{{\\softmax}}{{\\mathrm{{Sm}}}}\n{text}"


def test_latex_says_the_same() -> None:
    text = in_latex(CHAPTER)
    assert "\\begin{align}" in text
    assert "\\softmax" in text
    assert specification(text, "note.tex").tree.layers == specification(CHAPTER).tree.layers


@pytest.mark.parametrize(
    ("displayed", "lines"),
    [
        ("$$y_{nd} = 2 x_{nd}.$$", ["y_{nd} = 2 x_{nd}"]),
        ("$$\ny_{nd} = 2 x_{nd},\n$$", ["y_{nd} = 2 x_{nd}"]),
        (r"\[ y_{nd} = 2 x_{nd} \]", ["y_{nd} = 2 x_{nd}"]),
        (r"$$h_{nd} = x_{nd}, \quad y_{nd} = 2 h_{nd}$$", ["h_{nd} = x_{nd}", "y_{nd} = 2 h_{nd}"]),
        ("$$h_{nd} = x_{nd}$$ and $$y_{nd} = 2 h_{nd}$$", ["h_{nd} = x_{nd}", "y_{nd} = 2 h_{nd}"]),
        (r"$$x_{nd} \leftarrow 2 x_{nd}$$", [r"x_{nd} \leftarrow 2 x_{nd}"]),
        ("$y_{nd} = 3 x_{nd}$ in a sentence", []),
        ("```\n$$y_{nd} = 3 x_{nd}$$\n```", []),
        ("$$Y = 2 X$$", []),
    ],
)
def test_what_is_displayed_is_a_line(displayed: str, lines: list[str]) -> None:
    assert re.findall(r"^  \$\$ (.*) \$\$$", read(f"{LEGEND}\n{displayed}\n").source.text, re.MULTILINE) == lines


def test_what_has_no_indices_is_counted() -> None:
    found = read(f"{LEGEND}\n$$Y = 2 X$$\n\n$$y_{{nd}} = 2 x_{{nd}}$$\n")
    assert (found.equations, found.others) == (1, 1)


def test_lines_stay_where_they_are() -> None:
    note = f"# Title\n\nWords.\n\n{LEGEND}\nMore words.\n\n$$h_{{nd}} = x_{{nd}}$$\n\nAnd\n\n$$y_{{nd}} = 2 h_{{nd}}$$\n"
    text = read(note).source.text
    for part in ("axes", "layer Twice", "h_{nd} =", "y_{nd} ="):
        assert line_of(text, part) == line_of(note, part)


def test_a_block_goes_on_below_equations() -> None:
    note = f"{LEGEND}\n$$h_{{nd}} = x_{{nd}}$$\n\n```einformer note\n  return 2 h_nd\n```\n"
    found = trial(specification(note), {}, 0)
    assert found.output == pytest.approx(2 * found.tensors["x_nd"])


def test_a_note_without_a_block_has_no_layer() -> None:
    with pytest.raises(EinformerError, match="E105"):
        specification("Words and $x_{bs}$.\n")


def test_a_format_that_is_not_run() -> None:
    with pytest.raises(EinformerError, match="E801"):
        read("= Title", "note.typ")


# ------------------------------------------------------------------------------------------------------- the command


@pytest.fixture
def note(tmp_path: Path) -> Callable[[str], str]:
    def write(text: str) -> str:
        path = tmp_path / "note.md"
        path.write_text(text, encoding="utf-8")
        return str(path)

    return write


def test_the_command_as_json(note: Callable[[str], str], capsys: pytest.CaptureFixture[str]) -> None:
    path = note(f"{LEGEND}\n$$y_{{nd}} = 0 x_{{nd}} - \\infty$$\n")
    assert main(["run", path, "--sizes", "N=2, D=3", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["layer"], found["sizes"], found["equations"]) == ("Twice(x_nd) -> y_nd", {"D": 3, "N": 2}, 1)
    assert found["tensors"][1] == {"tensor": "y_nd", "shape": "2 × 3", "mean": "none", "deviation": "none"}


def test_a_seed_draws_other_numbers() -> None:
    spec = specification(f"{LEGEND}\n$$y_{{nd}} = 2 x_{{nd}}$$\n")
    one, same, other = (trial(spec, {"N": 2}, seed).output for seed in (1, 1, 2))
    assert np.array_equal(one, same)
    assert not np.array_equal(one, other)


def test_wrong_equations_are_findings(note: Callable[[str], str], capsys: pytest.CaptureFixture[str]) -> None:
    path = note(f"{LEGEND}\n$$y_{{nd}} = 2 x_{{nm}}$$\n")
    assert main(["run", path]) == 1
    assert capsys.readouterr().err.startswith("E201")


@pytest.mark.parametrize("sizes", ["N", "N=x", "N=2 D="])
def test_sizes_that_are_none(note: Callable[[str], str], sizes: str) -> None:
    with pytest.raises(SystemExit) as error:
        main(["run", note(LEGEND), "--sizes", sizes])
    assert error.value.code == 2
