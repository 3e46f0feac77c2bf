"""Is a note the program that it displays? Its equations are compared with NumPy's, its errors with the lines of the file."""

from __future__ import annotations

import itertools
import json
import re
import runpy
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

import einformer
from einformer import EinformerError
from einformer.cli import main
from einformer.errors import Source
from einformer.notes.programs import LanguageText, read_program
from einformer.objects import Specification
from einformer.testing.execution import execute
from einformer.testing.trial import trial

ROOT = Path(__file__).parents[1]
CHAPTER = (ROOT / "docs" / "attention.md").read_text(encoding="utf-8")
LEGEND = "```einformer note\naxes\n  n: N\n  d: D\nlayer Twice(x_nd) -> y_nd:\n```\n"


def read(text: str, name: str = "note.md") -> LanguageText:
    found = read_program(Source(name, text))
    assert found
    return found


def specification(text: str, name: str = "note.md") -> Specification:
    return einformer.parse(text, name)


def line_of(text: str, part: str) -> int:
    """The line of a text in which a part of it begins."""
    assert text.count(part) == 1
    return text[: text.index(part)].count("\n") + 1


# ------------------------------------------------------------------------------------------------------- the chapter


def turned(x: NDArray[np.float64]) -> NDArray[np.float64]:
    """The chapter's rotation as one of the plane of complex numbers: member 0 of a pair is real, member 1 imaginary."""
    pairs = x.shape[1] // 2
    angles = np.outer(np.arange(len(x)), 10000.0 ** (-np.arange(pairs) / pairs))
    plane = (x[:, :pairs] + 1j * x[:, pairs:]) * np.exp(1j * angles)
    return np.concatenate([plane.real, plane.imag], axis=1)


def test_the_chapter_is_attention() -> None:
    """By NumPy, sequence after sequence, head after head and row after row, with nothing of ours."""
    found = trial(specification(CHAPTER), {"B": 2, "S": 5, "D": 24, "A": 6, "G": 3}, 1)
    z, q, k, v, o = (found.tensors[name] for name in ("z_bsd", "Q_degj", "K_deg", "V_deg", "O_egjd"))
    output = np.zeros_like(z)
    for b, g, j in itertools.product(range(2), range(3), range(2)):
        queries, keys, values = turned(z[b] @ q[:, :, g, j]), turned(z[b] @ k[:, :, g]), z[b] @ v[:, :, g]
        weights = np.exp(queries @ keys.T / 2) * np.tril(np.ones((5, 5)))
        output[b] += weights / weights.sum(axis=1, keepdims=True) @ values @ o[:, g, j]
    assert found.output == pytest.approx(output, abs=1e-12)


def test_the_chapter_prints_what_it_answers(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """But for the last digit of what is zero on paper."""
    monkeypatch.chdir(ROOT)
    (block,) = re.findall(r"^```text\n\$ einformer (run [^\n]*)\n(.*?)^```", CHAPTER, re.MULTILINE | re.DOTALL)
    assert main(block[0].replace('"', "").split(maxsplit=3)) == 0
    rounded = re.compile(r"(?<= by )\d(?:e-1[3-7]|e\+00)")
    assert rounded.sub("0", capsys.readouterr().out) == rounded.sub("0", block[1])


def test_a_mask_that_is_turned_around_is_refused_in_its_line() -> None:
    inverted = CHAPTER.replace(r"0 & s' \leq s \\ -\infty & s' > s", r"0 & s \leq s' \\ -\infty & s > s'")
    assert inverted != CHAPTER
    with pytest.raises(EinformerError) as error:
        specification(inverted)
    (finding,) = error.value.findings
    assert finding.code == "E501"
    assert finding.span.line == line_of(inverted, "w_{bss'gj} = \\mathrm")


def test_a_typo_in_an_index_is_refused_in_its_line() -> None:
    slipped = CHAPTER.replace("y_{bsd} &= r_{bsegj} O_{egjd}", "y_{bsd} &= r_{bsegj} O_{egj'd}")
    assert slipped != CHAPTER
    with pytest.raises(EinformerError) as error:
        specification(slipped)
    assert {(f.code, f.span.line) for f in error.value.findings} == {("E301", line_of(slipped, "y_{bsd} &="))}


# -------------------------------------------------------------------------------------------------- what is read


def in_latex(text: str) -> str:
    """The chapter as a file of LaTeX, with a macro for the softmax."""
    text = re.sub(
        r"```einformer note\n(.*?)```", r"\\begin{lstlisting}[language=einformer]\n\1\\end{lstlisting}", text, flags=re.S
    )
    text = re.sub(r"```(?:text|pycon)\n.*?```", "", text, flags=re.S)
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
        (r"$$\mathbf{y}_{nd} = 2 \boldsymbol{x}_{nd}$$", ["y_{nd} = 2 x_{nd}"]),
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
    assert (len(found.lines), found.words) == (1, 1)


def test_columns_of_a_display_are_equations() -> None:
    rows = r"h_{nd} &= x_{nd} & g_{nd} &= 2 h_{nd} \\ y_{nd} &= g_{nd} \\ &\quad + h_{nd}"
    found = trial(specification(f"{LEGEND}\n\\begin{{align}}\n{rows}\n\\end{{align}}\n"), {}, 0)
    assert found.output == pytest.approx(3 * found.tensors["x_nd"])


def test_a_sum_sign_takes_a_power_with_it() -> None:
    text = r"$$y_{n} = \sum_{d=1}^{D} (x_{nd} - 1)^2$$"
    found = trial(specification(f"{LEGEND.replace('y_nd', 'y_n')}\n{text}\n"), {}, 0)
    assert found.output == pytest.approx(((found.tensors["x_nd"] - 1) ** 2).sum(axis=1))


def test_a_definition_may_stand_below_what_reads_it() -> None:
    """`where h is …`; but not where a value changes, whose order is all there is."""
    found = trial(specification(f"{LEGEND}\n$$y_{{nd}} = 2 h_{{nd}}$$\n\nwhere\n\n$$h_{{nd}} = 5 x_{{nd}}$$\n"), {}, 0)
    assert found.output == pytest.approx(10 * found.tensors["x_nd"])
    changing = f"{LEGEND}\n$$y_{{nd}} = 2 h_{{nd}}$$\n$$h_{{nd}} = x_{{nd}}$$\n$$x_{{nd}} \\leftarrow x_{{nd}}$$\n"
    with pytest.raises(EinformerError, match="E205"):
        specification(changing)


def test_a_block_goes_on_below_equations() -> None:
    note = f"{LEGEND}\n$$h_{{nd}} = x_{{nd}}$$\n\n```einformer note\n  return 2 h_nd\n```\n"
    found = trial(specification(note), {}, 0)
    assert found.output == pytest.approx(2 * found.tensors["x_nd"])


def test_a_note_may_be_longer_than_a_text(note: Callable[[str], str]) -> None:
    """A text has at most 100,000 characters, the words around it do not count; what is cut off would be lost in silence."""
    long = note(f"{LEGEND}\n{'Words. ' * 30_000}\n\n$$y_{{nd}} = 2 x_{{nd}}$$\n")
    assert einformer.load(long).layer.name == "Twice"
    with pytest.raises(EinformerError, match="E001"):
        read(10_000_001 * " ")


def test_a_block_in_the_front_matter() -> None:
    inside = "\n".join(f"  {line}".rstrip() for line in LEGEND.split("\n")[1:-2])
    front = f"---\ntitle: Twice\neinformer: |\n{inside}\nauthor: nobody\n---\n\n$$y_{{nd}} = 2 x_{{nd}}$$\n"
    found = trial(specification(front), {}, 0)
    assert found.output == pytest.approx(2 * found.tensors["x_nd"])
    assert findings(front.replace("2 x_{nd}", "2 x_{nm}")) == ["E201 note.md:11:18"]


def test_equations_below_a_loop_are_its_body() -> None:
    """Three turns of a doubling, and one doubling after them: 16 times."""
    turns = "```einformer\n  for l < L:\n```\n$$x_{nd} \\leftarrow 2 x_{nd}$$\n```einformer\n  return 2 x_nd\n```\n"
    found = trial(specification(LEGEND.replace("layer", "  l: L = 3\nlayer") + turns), {}, 0)
    assert found.output == pytest.approx(16 * found.tensors["x_nd"])


# ------------------------------------------------------------------------------------------------------------- places


def findings(text: str, name: str = "note.md") -> list[str]:
    """Code and place of all that is wrong with a note, as one reads it."""
    with pytest.raises(EinformerError) as error:
        specification(text, name)
    return [f"{finding.code} {finding.span}:{finding.span.column}" for finding in error.value.findings]


def test_an_error_stands_where_it_was_written() -> None:
    """Behind a macro with an argument, in the second row of a display: the column is that of the file."""
    note = f"\\newcommand{{\\twice}}[1]{{2 \\left( #1 \\right)}}\n{LEGEND}\n\\[\nh_{{nd}} = x_{{nd}}, \\quad\n"
    note += "  y_{nd} = \\twice{\\twice{h_{nd}}} + \\twice{x_{nm}}\n\\]\n"
    line = line_of(note, "  y_{nd}")
    column = note.split("\n")[line - 1].index("m}}") + 1
    assert findings(note) == [f"E201 note.md:{line}:{column}"]


def test_an_error_in_a_block_stands_where_it_was_written() -> None:
    note = f"Words.\n\n{LEGEND.replace('x_nd', 'x_nk')}\n$$y_{{nd}} = 2 x_{{nk}}$$\n"
    assert findings(note)[0] == "E201 note.md:7:16"


def test_the_excerpt_shows_the_file() -> None:
    with pytest.raises(EinformerError) as error:
        specification(f"{LEGEND}\nIt is\n\n$$y_{{nd}} = 2 \\cdot x_{{nm}}.$$\n")
    assert str(error.value).split("\n")[1:4] == [
        "  note.md:10:24",
        "  10 | $$y_{nd} = 2 \\cdot x_{nm}.$$",
        "     |                        ^",
    ]


def test_a_size_that_does_not_fit_is_told_at_its_place() -> None:
    half = LEGEND.replace("  d: D", "  d: D\n  e: D / 2").replace("x_nd", "x_nde")
    with pytest.raises(EinformerError) as error:
        trial(specification(f"Words.\n\n{half}\n$$y_{{nd}} = \\sum_e x_{{nde}}$$\n"), {"D": 3}, 0)
    assert str(error.value.findings[0].span) == "note.md:7"


def test_the_cell_of_a_notebook_is_told() -> None:
    cells = [LEGEND, "## Next\n\n$$y_{nd} = 2 x_{nm}$$\n"]
    notebook = json.dumps({"cells": [{"cell_type": "markdown", "source": [cell]} for cell in cells]})
    assert findings(notebook, "note.ipynb") == ["E201 note.ipynb:cell 2:3:18"]
    right = specification(notebook.replace("nm", "nd"), "note.ipynb")
    assert right.tree.layers == specification(f"{LEGEND}\n$$y_{{nd}} = 2 x_{{nd}}$$\n").tree.layers


def test_typst_says_the_same() -> None:
    note = LEGEND + "\n= Twice\n\n$ h_(n d) = x_(n d), quad y_(n d) = 2 h_(n d) $\n"
    found = trial(specification(note, "note.typ"), {}, 0)
    assert found.output == pytest.approx(2 * found.tensors["x_nd"])
    assert findings(note.replace("2 h_(n d)", "2 h_(n m)"), "note.typ")[0].startswith("E201 note.typ:10:")


# -------------------------------------------------------------------------------------------------- what no block says


@pytest.mark.parametrize(
    "said",
    [
        "| n | N | rows |\n|---|---|---|\n| d | D | columns |",
        "`(N, D)`-shaped $x_{nd}$.",
        "$x_{nd} \\in \\mathbb{R}^{N \\times D}$",
    ],
)
def test_sizes_that_the_text_says_need_no_legend(said: str) -> None:
    note = f"{said}\n\n```einformer\nlayer Twice(x_nd) -> y_nd:\n```\n\n$$y_{{nd}} = 2 x_{{nd}}$$\n"
    assert str(specification(note)).startswith("axes\n  n: N\n  d: D\n\n")


def test_a_legend_is_not_said_twice() -> None:
    """What a block says counts, and what no equation uses is no axis."""
    note = f"| n | M | rows |\n| k | K | more |\n\n{LEGEND}\n$$y_{{nd}} = 2 x_{{nd}}$$\n"
    assert str(specification(note)).startswith("axes\n  n: N\n  d: D\n\n")


@pytest.mark.parametrize("name", ["note.md", "note.tex"])
def test_a_note_without_a_block_is_told_which(name: str) -> None:
    """What is proposed, put where it is proposed, makes a program of the note."""
    note = "# Attention\n\nThey are `(S, D)`-shaped, $z_{sd}$.\n\n$$q_{se} = z_{sd} Q_{de}, \\quad v_{se} = z_{sd} V_{de}$$\n"
    note += "$$k_{se} = z_{sd} K_{de}$$\n$$w_{ss'} = \\mathrm{Sm}_{s'}(q_{se} k_{s'e} / \\sqrt{H})$$\n"
    note += "$$y_{se} = w_{ss'} v_{s'e}$$\n"
    with pytest.raises(EinformerError, match="E806") as error:
        specification(note, name)
    block = error.value.findings[0].fix.partition("\n\n")[2]
    found = trial(specification(note.replace("$$q", f"{block}\n\n$$q"), name), {"S": 5, "D": 3, "H": 2}, 0)
    z, q, k, v = (found.tensors[name] for name in ("z_sd", "Q_de", "K_de", "V_de"))
    weights = np.exp(z @ q @ (z @ k).T / np.sqrt(2))
    assert found.output == pytest.approx(weights / weights.sum(axis=1, keepdims=True) @ z @ v)


def test_a_block_is_proposed_with_the_scalars_of_the_library() -> None:
    note = "$$y_{sd} = x_{sd} / \\sqrt{\\mathrm{mean}_d x_{sd}^2 + \\varepsilon}$$\n"
    with pytest.raises(EinformerError, match="E806") as error:
        specification(note)
    block = error.value.findings[0].fix.partition("\n\n")[2]
    found = trial(specification(f"{block}\n\n{note}"), {"S": 5, "D": 3}, 0)
    x = found.tensors["x_sd"]
    assert found.output == pytest.approx(x / np.sqrt((x**2).mean(axis=1, keepdims=True) + 1e-5))


def test_a_block_is_proposed_with_the_sizes_that_equations_read() -> None:
    """`E` is the size of e where an equation reads it; else the library's letter stands, H."""
    note = "$$k_{se} = z_{sd} W_{de}$$\n\n$$y_{s} = \\frac{\\sum_e k_{se}}{\\sqrt{E}}$$\n"
    with pytest.raises(EinformerError, match="E806") as error:
        specification(note)
    block = error.value.findings[0].fix.partition("\n\n")[2]
    found = trial(specification(f"{block}\n\n{note}"), {"S": 5, "D": 3, "E": 2}, 0)
    z, weight = found.tensors["z_sd"], found.tensors["W_de"]
    assert found.output == pytest.approx((z @ weight).sum(axis=1) / np.sqrt(2))


def test_words_alone_are_no_program() -> None:
    with pytest.raises(EinformerError, match="E806"):
        specification("Words and $x_{bs}$.\n")


def test_a_whole_text_in_latex_is_a_note() -> None:
    """As `einformer latex` prints it: displayed in Markdown, or as a file of LaTeX by itself."""
    spec = einformer.load("gpt2")
    assert einformer.parse(f"# GPT-2\n\n$$\n{spec.latex()}\n$$\n", "note.md").tree.layers == spec.tree.layers
    assert einformer.parse(spec.latex(), "gpt2.tex").tree.layers == spec.tree.layers
    assert einformer.parse(str(spec), "gpt2.txt").tree.layers == spec.tree.layers


# -------------------------------------------------------------------------------------------------- what a note claims


SOFTMAX = """$$w_{nd} = \\frac{\\exp(x_{nd})}{\\sum_{d'} \\exp(x_{nd'})} = \\mathrm{Sm}_d(x_{nd})$$

so that

$$\\sum_d w_{nd} = %s.$$

$$y_{nd} = w_{nd}$$
"""


@pytest.mark.parametrize(("total", "holds"), [("1", True), ("2", False)])
def test_a_statement_is_computed(total: str, holds: bool) -> None:
    """A third side, and a sum on the left: neither defines anything, both are true of a softmax, or not."""
    found = execute(Source("note.md", f"{LEGEND}\n{SOFTMAX % total}"), {}, 0)
    said = {check.claim: (check.holds, check.detail) for check in found.checks if "note.md" in check.claim}
    assert [right for right, _ in said.values()] == [True, holds]
    assert [detail for _, detail in said.values()] == ["equal", "equal" if holds else "off by 1"]
    assert [claim.partition(": ")[0] for claim in said] == ["note.md:8", "note.md:12"]
    assert found.holds is holds


def test_a_statement_of_what_changes_is_not_judged() -> None:
    note = f"{LEGEND}\n$$x_{{nd}} \\leftarrow 2 x_{{nd}}$$\n$$\\sum_d x_{{nd}} = 0$$\n```einformer\n  return x_nd\n```\n"
    found = execute(Source("note.md", note), {}, 0)
    assert found.unchecked == (("note.md:9: \\sum_d x_{nd} = 0", "`x` changes its value"),)
    assert found.holds


def test_a_statement_of_what_is_not_there_is_not_judged() -> None:
    note = f"{LEGEND}\n$$y_{{nd}} = 2 x_{{nd}}$$\n$$\\sum_d y_{{nd}} = \\hat{{z}}_{{n}}$$\n"
    found = execute(Source("note.md", note), {}, 0)
    assert found.unchecked == (("note.md:9: \\sum_d y_{nd} = \\hat{z}_{n}", "`zhat` is not computed"),)


@pytest.mark.parametrize("wrong", ["$$y_{nd} = .$$", "$$y_{nd} = {,}$$", "$$= x_{nd}$$", "$$\n\n$$", "$$y_{nd} = \\twice$$"])
def test_displays_that_say_nothing_are_refused(wrong: str) -> None:
    assert findings(f"{LEGEND}\n{wrong}\n")


def test_what_was_measured() -> None:
    """A matrix of N × M numbers: 2 N M multiplications and additions for each row."""
    note = (
        LEGEND.replace("  d: D", "  d: D\n  m: M").replace("y_nd:", "y_nm:\n  weights W_dm") + "\n$$y_{nm} = x_{nd} W_{dm}$$\n"
    )
    found = execute(Source("note.md", note), {"N": 3, "D": 5, "M": 7}, 0)
    measured = {check.claim: check.detail for check in found.checks}
    assert measured["parameters: by the text = in the module"] == "35"
    assert measured["FLOPs: by the text = by torch's FlopCounterMode"] == "210"


def test_a_file_that_was_written_takes_other_lengths(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Run at S = 3, and then called with 7 positions, by PyTorch's own import."""
    import torch

    path = tmp_path / "chapter.py"
    arguments = ["run", str(ROOT / "docs" / "attention.md"), "--set", "B=2,S=3,D=24,A=6,G=3", "--out", str(path)]
    assert main(arguments) == 0
    module = runpy.run_path(str(path))["Attention"]()
    assert module(torch.zeros(5, 7, 24)).shape == (5, 7, 24)


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
    assert main(["run", path, "--set", "N=2, D=3", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["layer"], found["sizes"], found["equations"]) == ("Twice(x_nd) -> y_nd", {"D": 3, "N": 2}, 1)
    assert found["tensors"][1] == {"tensor": "y_nd", "shape": "2 × 3", "mean": "none", "deviation": "none"}


def test_json_has_no_words_of_its_own_for_infinity(note: Callable[[str], str], capsys: pytest.CaptureFixture[str]) -> None:
    """RFC 8259: what is no finite number is no number; `json` of Python writes and reads it all the same."""
    path = note(f"{LEGEND}\n$$y_{{nd}} = 0 x_{{nd}} - \\infty$$\n")
    main(["run", path, "--set", "N=2, D=3", "--json"])
    assert json.loads(capsys.readouterr().out, parse_constant=pytest.fail)["output"] == [["-inf"] * 3] * 2


def test_a_note_is_not_replaced_by_what_it_computes(note: Callable[[str], str], capsys: pytest.CaptureFixture[str]) -> None:
    path = note(f"{LEGEND}\n$$y_{{nd}} = 2 x_{{nd}}$$\n")
    before = Path(path).read_text(encoding="utf-8")
    with pytest.raises(SystemExit) as error:
        main(["run", path, "--set", "N=2, D=3", "--out", f"{Path(path).parent}/../{Path(path).parent.name}/note.md"])
    assert error.value.code == 2
    assert "is what is read" in capsys.readouterr().err
    assert Path(path).read_text(encoding="utf-8") == before


def test_a_note_is_not_replaced_by_another_name(note: Callable[[str], str], capsys: pytest.CaptureFixture[str]) -> None:
    path = Path(note(f"{LEGEND}\n$$y_{{nd}} = 2 x_{{nd}}$$\n"))
    path.with_name("other.md").hardlink_to(path)
    with pytest.raises(SystemExit):
        main(["run", str(path), "--set", "N=2, D=3", "--out", str(path.with_name("other.md"))])
    assert "is what is read" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["check", "latex", "count", "source", "run", "diff gpt2"])
def test_a_note_is_a_target(note: Callable[[str], str], capsys: pytest.CaptureFixture[str], command: str) -> None:
    name, *others = command.split()
    assert main([name, note(f"{LEGEND.replace('d: D', 'd: D = 3')}\n$$y_{{nd}} = 2 x_{{nd}}$$\n"), *others]) == 0
    assert "Twice" in capsys.readouterr().out


def test_a_seed_draws_other_numbers() -> None:
    spec = specification(f"{LEGEND}\n$$y_{{nd}} = 2 x_{{nd}}$$\n")
    one, same, other = (trial(spec, {"N": 2}, seed).output for seed in (1, 1, 2))
    assert np.array_equal(one, same)
    assert not np.array_equal(one, other)


def test_wrong_equations_are_findings(note: Callable[[str], str], capsys: pytest.CaptureFixture[str]) -> None:
    path = note(f"{LEGEND}\n$$y_{{nd}} = 2 x_{{nm}}$$\n")
    assert main(["run", path]) == 1
    assert capsys.readouterr().err.startswith("E201")


def test_a_size_is_a_number(note: Callable[[str], str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", note(f"{LEGEND}\n$$y_{{nd}} = 2 x_{{nd}}$$\n"), "--set", "N=x"]) == 1
    assert capsys.readouterr().err.startswith("E604 ")


@pytest.mark.parametrize("sizes", ["N", "N=2 D="])
def test_sizes_that_are_none(note: Callable[[str], str], sizes: str) -> None:
    with pytest.raises(SystemExit) as error:
        main(["run", note(LEGEND), "--set", sizes])
    assert error.value.code == 2


@pytest.mark.parametrize("sizes", [{"N": 10**9}, {"D": 10**6, "N": 10**3}, {"D": 10**12}])
def test_what_is_too_large_is_refused_before_it_is_allocated(sizes: dict[str, int], monkeypatch: pytest.MonkeyPatch) -> None:
    """The first array would be drawn for the inputs."""
    monkeypatch.setattr("einformer.testing.values.draw_inputs", lambda *_: pytest.fail("numbers are drawn"))
    with pytest.raises(EinformerError, match="E604 this equation has") as refusal:
        execute(Source("note.md", f"{LEGEND}$$y_{{nd}} = 2 x_{{nd}}$$\n"), sizes, 0)
    assert refusal.value.findings[0].span.line == 7


def test_a_weight_that_is_too_large_is_refused_before_it_is_allocated() -> None:
    """Though the equations read one row of it."""
    text = "axes\n  d: D\n  k: K\nlayer Row(x_d) -> y_d:\n  weights W_kd\n  return x_d W_0d\n"
    with pytest.raises(EinformerError, match="E604 the weight `W` has 3e\\+12 numbers"):
        trial(einformer.parse(text), {"K": 10**12, "D": 3}, 0)
