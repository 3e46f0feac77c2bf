"""What does a person, or a program, see who runs `einformer lint`?"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from einformer.cli import main
from einformer.errors import Source
from einformer.notes import files
from einformer.notes.files import CHECKERS
from tests import commands

OK, FINDINGS, MISUSE = 0, 1, 2
WRONG = (
    "# Note <!-- einformer: axes b s d e a -->\n\n$q_{bsea} = z_{bsd} Q_{dea}$ and $k_{bse} = z_{bsd} K_{dea}$, $v = \\int q$\n"
)
RIGHT = WRONG.replace("k_{bse}", "k_{bsea}")

Lint = Callable[..., tuple[int, str, str]]


@pytest.fixture
def lint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Lint:
    """The command in a folder of its own: its exit code, and what it printed."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "wrong.md").write_text(WRONG, encoding="utf-8")
    (tmp_path / "right.md").write_text(RIGHT, encoding="utf-8")

    def run(*arguments: str) -> tuple[int, str, str]:
        code = main(["lint", *arguments])
        return code, *capsys.readouterr()

    return run


def test_a_finding_looks_like_that_of_a_compiler(lint: Lint) -> None:
    code, out, _ = lint("wrong.md")
    assert code == FINDINGS
    assert out == (
        "E301 `a` occurs once in its product and is not an index of the left side\n"
        "  wrong.md:3:58\n"
        "  3 | $q_{bsea} = z_{bsd} Q_{dea}$ and $k_{bse} = z_{bsd} K_{dea}$, $v = \\int q$\n"
        "    |                                                          ^\n"
        "  rule: R2: an index that is not on the left side is summed where two or more factors carry it;"
        " alone it must be summed by an operator\n"
        "  write: `a` on the left, on the factor that it is summed with, or `sum_a`\n"
        "\n"
        "wrong.md  1 finding; 2 of 2 equations read\n"
    )


def test_the_exit_code_says_what_was_found(lint: Lint) -> None:
    assert lint("right.md")[0] == OK
    assert lint("right.md", "wrong.md")[0] == FINDINGS
    code, out, _ = lint("right.md", "none.md")
    assert (code, "E802" in out) == (MISUSE, True)
    Path("a.docx").touch()
    code, out, _ = lint("a.docx")
    assert (code, "E801" in out) == (MISUSE, True)
    Path("latin.md").write_bytes("é".encode("latin-1"))
    assert lint("latin.md")[0] == MISUSE


def test_a_folder_is_read_but_for_what_is_hidden_or_excluded(lint: Lint) -> None:
    for name in ("sub/a.md", "sub/deep/b.tex", ".hidden/c.md", "sub/draft.md", "sub/d.py"):
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).write_text("", encoding="utf-8")
    Path("pyproject.toml").write_text("[tool.einformer.lint]\nexclude = ['draft*']\n", encoding="utf-8")
    files = [file["file"] for file in json.loads(lint(".", "--json")[1])["files"]]
    assert files == ["right.md", "sub/a.md", "sub/d.py", "sub/deep/b.tex", "wrong.md"]


# ----------------------------------------------------------------------------------------------------------- formats


def test_json(lint: Lint) -> None:
    code, out, _ = lint("wrong.md", "right.md", "--json")
    data = json.loads(out)
    assert code == FINDINGS
    skipped = {"no indices": 1}
    assert data["files"][1] == {
        "file": "right.md", "findings": 0, "equations": 3, "read": 2, "names": 0, "legend": "", "skipped": skipped,
    }  # fmt: skip
    (finding,) = data["findings"]
    assert {key: finding[key] for key in ("code", "file", "line", "column")} == {
        "code": "E301", "file": "wrong.md", "line": 3, "column": 58,
    }  # fmt: skip


def test_github(lint: Lint) -> None:
    _, out, _ = lint("wrong.md", "--format", "github")
    assert out.startswith("::error file=wrong.md,line=3,col=58,endLine=3,endColumn=59,title=E301::`a` occurs once")
    assert out.count("\n") == 1


def test_sarif(lint: Lint) -> None:
    data: dict[str, Any] = json.loads(lint("wrong.md", "--format", "sarif")[1])
    (run,) = data["runs"]
    (result,) = run["results"]
    place = result["locations"][0]["physicalLocation"]
    assert data["version"] == "2.1.0"
    assert [rule["id"] for rule in run["tool"]["driver"]["rules"]] == ["E301"]
    assert result["ruleId"] == "E301"
    assert place["artifactLocation"]["uri"] == "wrong.md"
    assert place["region"] == {"startLine": 3, "startColumn": 58, "endLine": 3, "endColumn": 59}


def test_a_cell_of_a_notebook_is_a_file_to_programs(lint: Lint) -> None:
    Path("n.ipynb").write_text(json.dumps({"cells": [{"cell_type": "markdown", "source": [WRONG]}]}), encoding="utf-8")
    assert lint("n.ipynb", "--format", "github")[1].startswith("::error file=n.ipynb,line=3,")
    assert "n.ipynb:cell 1:3:58" in lint("n.ipynb")[1]


PYTHON = """# b: batch
# s: sequence
# d: hidden
# e: head
import torch
def f(z_bsd, Q_de):
    q_bsd = torch.einsum("bsd,de->bse", z_bsd, Q_de)
    return q_bsd
"""


def test_one_command_for_notes_and_for_python(lint: Lint) -> None:
    Path("a.py").write_text(PYTHON, encoding="utf-8")
    cells = [{"cell_type": kind, "source": [text]} for kind, text in (("markdown", WRONG), ("code", PYTHON), ("code", "%time"))]
    Path("n.ipynb").write_text(json.dumps({"cells": cells}), encoding="utf-8")
    found = json.loads(lint("wrong.md", "a.py", "n.ipynb", "--json")[1])["findings"]
    places = [(each["file"], each["line"]) for each in found]
    assert places == [("wrong.md", 3), ("a.py", 7), ("n.ipynb:cell 1", 3), ("n.ipynb:cell 2", 7)]
    Path("a.py").write_text(PYTHON.replace("Q_de)\n", "Q_de)  # einformer: ignore\n"), encoding="utf-8")
    assert lint("a.py")[:2] == (OK, "a.py  nothing found; 1 name with axes\n")
    Path("a.py").write_text("def", encoding="utf-8")
    assert lint("a.py")[0] == MISUSE


# ------------------------------------------------------------------------------------------------ silence, settings

SILENT = {
    "a.md": (
        "{} <!-- einformer: ignore[E301] -->",
        "<!-- einformer: ignore -->\n{}",
        "<!-- einformer: ignore[E302, E301] -->\n{}",
    ),
    "a.tex": ("{} % einformer: ignore[E301]", "% einformer: ignore\n{}"),
    "a.typ": ("{} // einformer: ignore[E301]", "// einformer: ignore\n{}"),
}
EQUATION = "$k_{bse} = z_{bsd} K_{dea}$ $q_{bsea} = z_{bsd} Q_{dea}$"
IN_TYPST = "$k_(b s e) = z_(b s d) K_(d e a)$ $q_(b s e a) = z_(b s d) Q_(d e a)$"
EQUATIONS = {"a.md": EQUATION, "a.tex": EQUATION, "a.typ": IN_TYPST}


@pytest.mark.parametrize("name", SILENT)
def test_a_comment_silences_its_line_or_the_next(name: str) -> None:
    def codes(text: str) -> list[str]:
        return commands.lint(text, name, commands.LETTERS).codes

    assert codes(EQUATIONS[name]) == ["E301"]
    for comment in SILENT[name]:
        assert codes(comment.format(EQUATIONS[name])) == []
        assert codes(comment.replace("E301", "E999").format(EQUATIONS[name])) == ["E301"] * ("E301" in comment)
        assert codes(comment.format("text") + "\n" + EQUATIONS[name]) == ["E301"]


def test_a_comment_above_a_display_holds_for_all_of_it() -> None:
    text = "%s\n$$\n\\begin{aligned}\nq_{bsea} &= z_{bsd} Q_{dea} \\\\\nk_{bse} &= z_{bsd} K_{dea}\n\\end{aligned}\n$$\n"
    counts = [len(commands.lint(text % line, legend=commands.LETTERS).findings) for line in ("", "<!-- einformer: ignore -->")]
    assert counts == [1, 0]


def test_settings_are_those_of_the_project(lint: Lint) -> None:
    Path("pyproject.toml").write_text("[tool.einformer.lint]\nignore = ['E301']\n", encoding="utf-8")
    assert lint("wrong.md")[0] == OK
    Path("pyproject.toml").write_text("[tool.einformer.lint]\nmacros = { '\\Q' = 'Q_{dea}' }\n", encoding="utf-8")
    Path("macro.md").write_text(WRONG.replace("Q_{dea}", "\\Q"), encoding="utf-8")
    assert "2 of 2" in lint("macro.md")[1]
    Path("pyproject.toml").write_text("[tool.einformer.lint]\nlegend = { d = 'D', b = '' }\n", encoding="utf-8")
    Path("short.md").write_text("$y_b = x_{bd} w_{bd} v_d$ and $u_b = x_{bd} w_{b}$", encoding="utf-8")
    assert "d: D (given)" in lint("short.md", "--legend", "b: B")[1]


@pytest.mark.parametrize(
    "table",
    ["ignore = 'E301'", "ignore = ['E99']", "legend = ['b']", "legend = { b = 3 }", "lists = []", "ignore = [3]", "x ="],
)
def test_settings_with_a_slip_are_refused(lint: Lint, table: str) -> None:
    Path("pyproject.toml").write_text(f"[tool.einformer.lint]\n{table}\n", encoding="utf-8")
    code, _, err = lint("right.md")
    assert (code, err[:4]) == (MISUSE, "E805")


@pytest.mark.parametrize("legend", ["b: ", "B: b", "bs", "b: B; s: S: "])
def test_a_legend_with_a_slip_is_refused(lint: Lint, legend: str) -> None:
    code, _, err = lint("right.md", "--legend", legend)
    assert (code, "E805" in err) == ((MISUSE, True) if legend != "b: B; s: S: " else (OK, False))


def test_a_crash_is_a_finding_about_its_file(lint: Lint, monkeypatch: pytest.MonkeyPatch) -> None:
    def crash(path: Path) -> Source:
        if path.name == "crash.md":
            raise ValueError("a defect")
        return read(path)

    read = files._read_source
    monkeypatch.setattr(files, "_read_source", crash)
    Path("crash.md").touch()
    found = json.loads(lint("crash.md", "wrong.md", "--json")[1])["findings"]
    assert [(each["code"], each["file"]) for each in found] == [("E801", "crash.md"), ("E301", "wrong.md")]


def test_every_kind_of_file_is_in_the_docs() -> None:
    page = (Path(__file__).parents[1] / "docs" / "lint.md").read_text(encoding="utf-8")
    assert [suffix for suffix in CHECKERS if f"`{suffix}`" not in page] == [".markdown"]


def test_the_hook_of_pre_commit_runs_the_command() -> None:
    hook = (Path(__file__).parents[1] / ".pre-commit-hooks.yaml").read_text(encoding="utf-8")
    assert "entry: einformer lint\n" in hook


def test_the_linter_needs_no_torch() -> None:
    code = (
        "import sys; from einformer.cli import main; main(['lint', sys.argv[1]]);"
        "print({'torch', 'sympy', 'numpy'} & set(sys.modules))"
    )
    note = Path(__file__).parent / "data" / "s001.md"
    out = subprocess.run(
        [sys.executable, "-c", code, note], capture_output=True, text=True, check=True, encoding="utf-8"
    ).stdout
    assert out.endswith("set()\n")
