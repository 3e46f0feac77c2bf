"""Is each habit of writing formulas down read, and a slip in it found at its place in the file?"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.commands import LETTERS, Found, Linted, lint, lint_file, read_json, run

RIGHT, WRONG = r"q_{bsea} = z_{bsd} Q_{dea}", r"k_{bse} = z_{bsd} K_{dea}"
ROW = r"\\"


def checked(name: str, text: str) -> Linted:
    return lint(text, name, LETTERS)


def told(finding: Found) -> tuple[str, int, str]:
    """The code, the line and the characters of a finding."""
    return finding.code, finding.line, finding.text


HABITS = {  # a file; how many equations are read of it; the line of the slip
    "a fence of MyST": ("a.md", f"```{{math}}\n:label: q\n\n{RIGHT}\n```\n\n```{{math}}\n{WRONG}\n```\n", 2, 8),
    "colons of MyST": ("a.md", f":::{{math}}\n{RIGHT} \\\\\n{WRONG}\n:::\n", 2, 3),
    "a role of MyST": ("a.md", f"Thus {{math}}`{RIGHT}`,\nand {{math}}``{WRONG}``.\n", 2, 2),
    "a label of MyST": ("a.md", f"$$\n{RIGHT}\n$$ (eq-q)\n\n$$\n{WRONG}\n$$ (eq-k)\n", 2, 6),
    "a fence of GitHub": ("a.md", f"```math\n{RIGHT}\n```\nand\n> ```math\n> {WRONG}\n> ```\n", 2, 6),
    "ticks of GitHub": ("a.md", f"Inline $`{RIGHT}`$\nand $`{WRONG}`$\n", 2, 2),
    "a fence in a list": ("a.md", f"- item\n\n  ```python\n  x = '$a_{{bc}} = d_b$'\n  ```\n\n  ${RIGHT}$, ${WRONG}$\n", 2, 7),
    "a label of Quarto": ("a.qmd", f"---\ntitle: x\n---\n\n$$\n{RIGHT}\n$$ {{#eq-q}}\n\n${WRONG}$\n", 2, 9),
    "a callout of Obsidian": ("a.md", f"> [!note] Shapes\n> $${RIGHT}$$\n> ^eq-q\n\n- [ ] ${WRONG}$ ==so==\n", 2, 5),
    "a role of Sphinx": ("a.rst", f"Queries\n=======\n\nThus :math:`{RIGHT}`, and\n:math:`{WRONG}`.\n", 2, 5),
    "a directive": ("a.rst", f"So:\n\n.. math::\n   :label: q\n\n   {RIGHT} \\\\\n   {WRONG}\n\nText.\n", 2, 7),
    "a directive of one line": ("a.rst", f".. math:: {RIGHT}\n\n.. math:: {WRONG}\n", 2, 3),
    "paragraphs of a directive": ("a.rst", f".. math::\n\n   {RIGHT}\n\n   {WRONG}\n", 2, 5),
    "code in between": ("a.rst", f".. code-block:: rst\n\n   :math:`a_{{bc}} = d_{{be}}`\n\n:math:`{RIGHT}, {WRONG}`\n", 2, 5),
    "a raw docstring": ("a.py", f'def f():\n    r"""Thus :math:`{RIGHT}`,\n\n    ${WRONG}$\n    """\n', 2, 4),
    "a docstring that is not raw": ("a.py", f'"""Thus $$ {RIGHT} {ROW}\n {WRONG} $$"""\n'.replace("\\", "\\\\"), 2, 2),
    "a name of Typst": ("a.typ", "#let qq = $q_(b s e a)$\n$#qq = z_(b s d) Q_(d e a)$\n\n"
                        "$ k_(b s e) = z_(b s d) K_(d e a) $\n", 2, 4),
    "a function of Typst": ("a.typ", "#let ten(x, i) = $#x _(#i)$\n$q_(b s e a) = ten(z, b s d) Q_(d e a)$\n"
                            "$ k_(b s e) = #ten(z, b s d) ten(K, d e a) $\n", 2, 3),
    "words between rows": ("a.tex", f"\\begin{{align}}\n{RIGHT} \\\\\n\\intertext{{and also}}\n{WRONG}\n\\end{{align}}", 2, 4),
}  # fmt: skip


@pytest.mark.parametrize("habit", HABITS)
def test_a_slip_is_found_in_its_line(habit: str) -> None:
    name, text, read, line = HABITS[habit]
    found = checked(name, text)
    assert found.counts == {"": read}
    assert list(map(told, found.findings)) == [("E301", line, "a")]


def test_names_of_typst_end() -> None:
    """One that stands for itself, one of too few arguments, one that nothing closes."""
    text = "#let aa = $aa + bb$\n#let bb = $#aa _(i j)$\n#let cc(x) = $#x _(i j)$\n$aa = cc(b, d) = cc(b = x_(i j)$ $#cc$\n"
    assert checked("a.typ", text).counts.total() < 10


def test_two_backslashes_of_a_docstring_are_one() -> None:
    text = (
        'def f():\n    """Rows:\n\n    $$x_{bd} = \\\\sum_{e} y_{be} z_{ed} \\\\\\\\ u_{bd} = \\\\sum_{e} y_{bd}$$\n    """\n'
    )
    found = checked("a.py", text)
    assert found.counts == {"": 2}
    (finding,) = found.findings
    assert (finding.code, finding.line, finding.column) == ("E306", 4, text.split("\n")[3].rindex("{e}") + 2)


def test_a_line_of_a_docstring_is_shown_as_it_stands(tmp_path: Path) -> None:
    line = "    $$x_{bd} = \\\\sum_{e} y_{bd}$$"
    (tmp_path / "a.py").write_text(f'"""Rows:\n\n{line}\n"""\n', encoding="utf-8")
    assert line in run("lint", str(tmp_path / "a.py")).out


def test_a_docstring_is_a_section() -> None:
    """What one function calls `q` is not what another does."""
    text = 'r"""Here $q_{bsea} = z_{bsd} Q_{dea}$."""\ndef f():\n    r"""And $w_{bss\'a} = q_{bse} k_{bs\'ea}$."""\n'
    assert checked("a.py", text).findings == ()
    both = text.replace('."""\ndef f():\n    r"""And', ", and")
    assert [finding.code for finding in checked("a.py", both).findings] == ["E304"]


@pytest.mark.parametrize(
    "text",
    [
        'x = """$q_{bse} = z_{bsd} Q_{dea}$"""\n',  # no docstring
        '# $q_{bse} = z_{bsd} Q_{dea}$\n',
        'def f():\n    """A literal: ``$q_{bse} = z_{bsd} Q_{dea}$``.\n\n    >>> "$q_{bse} = z_{bsd} Q_{dea}$"\n    """\n',
        '"""Nothing."""\n' + "\n" * 20_000 + "x = 1\n",
        'class A:\n    ("""$k$""")\n\n    def f(self): "é"; "x"\n',
    ],
)  # fmt: skip
def test_only_docstrings_are_read(text: str) -> None:
    assert checked("a.py", text).counts in ({}, {"no indices": 1})


def test_names_and_docstrings_are_checked_in_one_go() -> None:
    text = f'def f(z_bsd):\n    r"""${WRONG}$, ${RIGHT}$"""\n    # axes: b s d\n    x_bds = z_bsd.relu()\n'
    assert [finding.code for finding in checked("a.py", text).findings] == ["E771", "E301"]
    silent = text.replace('"""\n', '"""  # einformer: ignore[E301]\n')
    assert [finding.code for finding in checked("a.py", silent).findings] == ["E771"]


@pytest.mark.parametrize("comment", [".. einformer: ignore[E301]", "..  einformer: ignore", ".. einformer: ignore[E302]"])
def test_a_comment_of_restructured_text_silences_the_next_line(comment: str) -> None:
    found = checked("a.rst", f":math:`{RIGHT}`\n\n{comment}\n:math:`{WRONG}`\n").findings
    assert [finding.code for finding in found] == ["E301"] * comment.endswith("[E302]")


def test_a_definition_in_another_cell_is_told_with_its_cell() -> None:
    cells = [f"${RIGHT}$ and $k_{{bsea}} = z_{{bsd}} K_{{dea}}$", "$w_{bss'a} = q_{bse} k_{bs'ea}$"]
    text = json.dumps({"cells": [{"cell_type": "markdown", "source": cell} for cell in cells]})
    (finding,) = checked("n.ipynb", text).findings
    assert finding.facts == ("defined as `q_bsea` (n.ipynb:cell 1:1)",)


MAIN = """\\documentclass{article}
\\usepackage[x]{amsmath, letters}
\\def\\z{z_{bsd}}
\\begin{document}\\input{parts/one}\\end{document}
"""


@pytest.fixture
def paper(tmp_path: Path) -> Path:
    """A document of three files, of which the last has a slip behind macros of the others."""
    (tmp_path / "parts").mkdir()
    (tmp_path / "main.tex").write_text(MAIN, encoding="utf-8")
    (tmp_path / "letters.sty").write_text("\\RequirePackage{letters}\n\\newcommand{\\K}[1]{K_{#1}}\n", encoding="utf-8")
    text = "$k_{bse} = \\z \\K{dea}$, $q_{bsea} = \\z Q_{dea}$"
    (tmp_path / "parts" / "one.tex").write_text(text, encoding="utf-8")
    return tmp_path


def test_macros_are_those_of_the_document(paper: Path) -> None:
    checked = lint_file(str(paper / "parts" / "one.tex"), LETTERS)
    assert checked.counts == {"": 2}
    assert list(map(told, checked.findings)) == [("E301", 1, "a")]


def test_a_file_defines_macros_anew(paper: Path) -> None:
    part = paper / "parts" / "one.tex"
    part.write_text("\\def\\z{z_{bs}}" + part.read_text(encoding="utf-8"), encoding="utf-8")
    checked = lint_file(str(part), LETTERS)
    assert {finding.code for finding in checked.findings} == {"E301"}
    assert len(checked.findings) == 3  # of `d`, with the macro of its own, in both; and of `a`


def test_files_that_name_each_other_end(paper: Path) -> None:
    (paper / "parts" / "one.tex").write_text("\\input{../main}\\input{one}\\input{none} $x_{bs} = \\z g_d$", encoding="utf-8")
    assert read_json("lint", str(paper))["findings"] == []
