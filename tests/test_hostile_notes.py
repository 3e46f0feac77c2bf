"""Does every file of notes end soon, in findings or in none, and does no file end the linting of the others?

What opens and is never closed, and what is shared by two parts of a pattern, is repeated until a reader that goes back for
each would not end.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from einformer.cli import main
from tests.commands import lint, read_json, run
from tests.few import few
from tests.guard import guarded, needs_a_timer
from tests.refusals import findings_of

LENGTH = 200_000  # characters: read in a fraction of a second
REPEATED = {
    "a.md": (
        "`", "~", "```", "```\n", "```x\n", "` ", "<!--",
        "<!--\n", "$", "$ ", "$\n", "$x ", "$$x ", "\\(", "\\[", "\\\\[x", "[",
        "[a](", "| ", "> ", "#", "1.", "1.1 a", "- ", "---\n", "$`", "{math}`", "_a", " ", "\t", "\n", "\n ", "x_i = y_i\n\n",
        "of shape (", "shape `(A", "for each $a,", "$x \\in \\{0, \\dots, ", "einformer: ignore", "```einformer\n", "\\def\\a{",
    ),
    "a.tex": (
        "\\begin{equation}", "\\begin{equation}x", "\\begin{align}\\[", "\\begin", "\\begin ", "\\begin{", "\\begin{verbatim}",
        "\\begin{algorithm}\\For", "\\begin{algorithm}\\For $x$", "\\newcommand", "\\newcommand{", "\\newcommand{\\a}{",
        "\\def\\a#1", "\\def\\a#1{", "\\DeclareMathOperator{\\a}{x}", "%", "%\n", "\\%", "\\section{", "\\input{",
        "\\usepackage[",
        "\\begin{lstlisting}[language=einformer]\n",
    ),
    "a.rst": (".. math::\n", ".. math:: x\n\n", ":math:`", ":math:`x\n", "``", "..\n", ".. code::\n", "===\n", "x\n===\n"),
    "a.typ": (
        "$", "$ ", "$ x ", "`", "```", "` ", "/*", "//", "#let ", "#let a", "#let a(", "#let a = $", "#let a = `",
        "pseudocode(", "pseudocode()", "= ", "https://",
    ),
    "a.py": ("'", "(", "#", "x_bs = ", "x_bs = y_bs\n", '"""$"""\n', "# einformer: ignore"),
    "a.ipynb": ("[", '{"cells":', "`"),
}  # fmt: skip
CASES = [(name, piece) for name, pieces in REPEATED.items() for piece in pieces]
QUICK = [
    *(("a.md", piece) for piece in ("`", "~", "<!--", "$x ", "\\(", "of shape (", " ")),
    *(
        ("a.tex", piece)
        for piece in ("\\begin{equation}x", "\\begin{algorithm}\\For", "\\newcommand{\\a}{", "\\begin{verbatim}")
    ),
    *(("a.typ", piece) for piece in ("```", "/*", "pseudocode(", "#let a(")),
    *(("a.rst", ":math:`"), ("a.py", "("), ("a.ipynb", "[")),
]


@needs_a_timer
@pytest.mark.parametrize("case", few(CASES, QUICK), ids=[f"{name} {piece!r}" for name, piece in CASES])
def test_what_is_repeated_is_read_once(case: tuple[str, str]) -> None:
    name, piece = case
    text = piece * (LENGTH // len(piece))
    with guarded():
        list(lint_source(name, text))
    with guarded():
        findings_of(text[:50_000], name)


def lint_source(name: str, text: str) -> list[str]:
    """The codes of a text, or of a file that cannot be read."""
    return lint(text, name).codes


INSIDE = [
    ("$$x_i {} = y_i$$", "&"),
    ("$$x_i = y_i {} z_i$$", "& "),
    ("$$x_i = {} y_i$$", "\\text{if} "),
    ("$$y_{{{}}} = x_{{bs}}$$", " "),
    ("$$y_{{{}}} = x_{{bs}}$$", " , "),
    ("$$y_{{{}}} = x$$", "i"),
    ("$$y_{{{}}} = x$$", "i,"),
    ("$$y{} = 1$$", "_a"),
    ("$$y{} = 1$$", "^a"),
    ("$$y{} = x_i$$", "'"),
    ("$$y_i = {} x_i$$", " "),
    ("$$y_i = {} x_i$$", "~"),
    ("$$y_i = {} x_i$$", "\\quad "),
    ("$$y_i = {} x_i$$", "\\langle "),
    ("$$y_i = {} x_i$$", "|"),
    ("$$y_i = {} x_i$$", "\\hat"),
    ("$$y_i = {} x_i$$", "\\sum_i "),
    ("$$y_i = {} x_i$$", "\\frac"),
    ("$$y_i = {} x_i$$", "\\begin{cases}"),
    ("$$y_i = {} x_i$$", "x_i + "),
    ("$$y_i = {} x_i$$", "x_i = "),
    ("$$y_i = {} x_i$$", "x_i \\\\ "),
    ("$$y_i = {} x_i$$", "\n"),
    ("$$y_i = {} x_i$$", "% \n"),
    ("$$x_{{ij}}|_{{{} = 0}}$$", "<"),
]


@needs_a_timer
@pytest.mark.parametrize("inside", few(INSIDE, INSIDE[::4]), ids=[f"{form} {piece!r}" for form, piece in INSIDE])
def test_a_formula_is_read_once(inside: tuple[str, str]) -> None:
    """As long as one may be that is read at all."""
    form, piece = inside
    with guarded():
        lint_source("a.md", form.format(piece * (19_000 // len(piece))))


@needs_a_timer
@pytest.mark.parametrize("piece", ["texttt(", "a_(", "attach(", '"', "ab ", "a.", "(", "#a", "/"])
def test_a_formula_of_typst_is_read_once(piece: str) -> None:
    with guarded():
        lint_source("a.typ", f"$ {piece * (19_000 // len(piece))} $")


def test_macros_make_no_more_than_a_formula_holds() -> None:
    """Of one that is used often each formula is small; of one that doubles itself there is an end."""
    long = "\\newcommand{\\a}{" + "x_i " * 5_000 + "}\n" + "$\\a$\n" * 3_000
    doubling = "".join(
        f"\\newcommand{{\\{name}}}{{\\{following}\\{following}}}"
        for name, following in zip("abcdefghijklmnopqr", "bcdefghijklmnopqrs", strict=True)
    )
    for text in (long, f"{doubling}\\newcommand{{\\s}}{{x}}$$y = \\a$$", "\\newcommand{\\a}{\\a\\a}$$y = \\a$$"):
        with guarded():
            assert lint_source("a.tex", text) == []


def test_a_macro_that_ends_a_row_is_closed() -> None:
    text = "\\newcommand{\\nn}{\\nonumber\\\\}\n" + WRONG
    assert [finding[:4] for finding in lint_source("a.tex", text)] == ["E301"]


# ---------------------------------------------------------------------------------------------- folders of odd files

WRONG = "<!-- einformer: axes b s d e a --> $q_{bsea} = z_{bsd} Q_{dea}$ and $k_{bse} = z_{bsd} K_{dea}$\n"


def nested(folder: Path) -> None:
    """Folders so deep that no path can name the last."""
    here = Path.cwd()
    try:
        os.chdir(folder)
        for _ in range(1_500):
            Path("d").mkdir()
            os.chdir("d")
        Path("deep.md").write_text(WRONG)
    finally:
        os.chdir(here)


def link(path: Path, to: str) -> Path:
    path.symlink_to(to)
    return path


def subfolder(path: Path) -> Path:
    path.mkdir()
    return path


def pipe(path: Path) -> Path:
    os.mkfifo(path)
    return path


ODD: dict[str, Callable[[Path], object]] = {
    "input of a root": lambda folder: (folder / "b.tex").write_text("\\input{/}"),
    "input of a long name": lambda folder: (folder / "b.tex").write_text(f"\\input{{{'a' * 5_000}}}"),
    "input of no name": lambda folder: (folder / "b.tex").write_text("\\input{.}\\input{..}\\input{ }\\input{a\0b}"),
    "a folder as a file": lambda folder: (subfolder(folder / "c.tex"), (folder / "b.tex").write_text("\\input{c}")),
    "a lock file": lambda folder: (link(folder / ".#b.tex", "nowhere"), (folder / "b.tex").write_text("x")),
    "a dangling link": lambda folder: (link(folder / "c.tex", "nowhere"), (folder / "b.tex").write_text("\\input{c}")),
    "links in a circle": lambda folder: (link(folder / "c.tex", "c.tex"), link(folder / "self", ".")),
    "a pipe": lambda folder: (pipe(folder / "c.tex"), (folder / "b.tex").write_text("\\input{c}")),
    "prose in Python": lambda folder: (folder / "b.py").write_text("(" * 10_000 + " a prose. " * 1_000),
    "many signs in Python": lambda folder: (folder / "b.py").write_text("x = " + "-" * 100_000 + "1\n"),
    "many attributes in Python": lambda folder: (folder / "b.py").write_text("x = " + "a." * 20_000 + "b\n"),
    "deep JSON": lambda folder: (folder / "b.ipynb").write_text("[" * 100_000),
    "cells that are none": lambda folder: [
        (folder / f"{number}.ipynb").write_text(json.dumps(cells))
        for number, cells in enumerate(([], {"cells": [1]}, {"cells": {"a": 1}}, {"cells": None}, {"cells": [{}]}))
    ],
    "another encoding": lambda folder: (folder / "b.md").write_bytes(b"\xe9"),
    "a name that is no text": lambda folder: Path(os.fsdecode(os.fsencode(folder) + b"/\xff.md")).write_text(WRONG),
    "a name that steers": lambda folder: (folder / "b\n::error::\x1b[2J\u202e.md").write_text(WRONG),
    "deep folders": nested,
}  # fmt: skip


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="the system has no pipes")
@pytest.mark.parametrize("form", few(["text", "github", "sarif", "json"], {"github"}))
@pytest.mark.parametrize("odd", ODD)
def test_no_file_ends_the_linting_of_others(
    odd: str, form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nor does what a file is called reach what shows it."""
    (tmp_path / "a.md").write_text(WRONG)
    ODD[odd](tmp_path)
    monkeypatch.chdir(tmp_path)
    with guarded(20):
        assert main(["lint", ".", "--format", form]) > 0
    subprocess.run(["rm", "-rf", str(tmp_path / "d")], check=True)  # deeper than Python removes
    out = capsys.readouterr().out
    assert "a.md" in out
    assert "E301" in out
    assert out.encode()
    assert all(letter.isprintable() or letter == "\n" for letter in out)
    assert all(line.startswith("::") == (form == "github") for line in out.splitlines() if "::" in line[:2])


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="the system has no pipes")
def test_a_pipe_that_nobody_writes_is_an_empty_text(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "einformer", "check", str(pipe(tmp_path / "a.ein"))]
    answer = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert (answer.returncode, answer.stdout[:5]) == (1, "E105 ")


@needs_a_timer
def test_many_small_files_take_little_time_each(tmp_path: Path) -> None:
    for number in range(500):
        (tmp_path / f"{number}.md").write_text("$y_{b} = x_{bs}$\n", encoding="utf-8")
    with guarded(5):
        assert len(read_json("lint", str(tmp_path), "--legend", "b, s")["files"]) == 500


@needs_a_timer
def test_a_loop_of_many_turns_ends(tmp_path: Path) -> None:
    path = tmp_path / "loop.ein"
    path.write_text("axes d, l: L\nlayer M(z_d) -> z_d:\n  for l < L:\n    z_d <- tanh(z_d)\n  return z_d\n", encoding="utf-8")
    with guarded():
        assert run("report", str(path), "--set", "D=3,L=1000").code == 0
