"""Does every format of notes give the same findings, each at its place in the file?"""

from __future__ import annotations

import json

import pytest

from einformer.errors import Source
from einformer.language.parser import parse
from einformer.language.sizes import Legend
from einformer.notes.documents.latex import read_latex, read_markdown
from einformer.notes.documents.macros import expand_macros
from einformer.notes.documents.pieces import Document, Macro, Passage
from einformer.notes.documents.spelling import rewrite_formula
from einformer.notes.documents.typst import read_typst
from einformer.notes.legend import Stated, read_sizes
from tests.commands import Found, Linted, lint

LEGEND = dict(zip("bsdeaijkl", "BSDEAIJKL", strict=True))


def checked(name: str, text: str) -> Linted:
    return lint(text, name, LEGEND)


def told(finding: Found) -> tuple[str, int, str]:
    """The code, the line and the characters of a finding."""
    return finding.code, finding.line, finding.text


def formulas(document: Document) -> list[tuple[str, bool]]:
    return [(formula.latex.text.strip(), formula.display) for section in document.sections for formula in section.formulas]


# ------------------------------------------------------------------------------------------------------------ places

WRONG = {
    "a.tex": "Text.\n\\begin{align}\n  q_{bse} &= z_{bsd} Q_{dea}\n\\end{align}\n",
    "b.tex": "Text. % $x$\n\nIn a line $q_{bse} = z_{bsd} Q_{dea}$.\n",
    "c.tex": "\\[ x_{b} = y_b \\]\n\n\\[ q_{bse} = z_{bsd} Q_{dea} \\]\n",
    "d.md": "# Note\n\n$$q_{bse} = z_{bsd} Q_{dea}$$\n",
    "e.md": "```\n$code$\n```\n\\\\(q_{bse} = z_{bsd} Q_{dea}\\\\) costs \\$5\n",
    "f.txt": "A text\n\n$$\nq_{bse} = z_{bsd} Q_{dea}$$\n",
    "g.typ": "= Note\n\n$ q_(b s e) = z_(b s d) Q_(d e a) $\n",
    "h.typ": "// comment $x$\n\n$q_(b s e) = z_(b s d) Q_(d e a)$\n",
    "i.tex": "\\newcommand{\\Q}{Q_{dea}}\n\n$q_{bse} = z_{bsd} \\Q$\n",
    "j.tex": "\\def\\of#1#2{#1_{#2}}\n\n$q_{bse} = \\of{z}{bsd} \\of{Q}{dea}$\n",
    "k.md": "> $$\n> \\begin{aligned} x_b &= y_b \\\\\n> q_{bse} &= z_{bsd} Q_{dea} \\end{aligned}$$\n",
}  # fmt: skip
PLACES = {"e.md": (4, "a"), "f.txt": (4, "a"), "i.tex": (3, "\\"), "j.tex": (3, "a")}


@pytest.mark.parametrize("name", WRONG)
def test_a_finding_has_its_place_in_the_file(name: str) -> None:
    line, place = PLACES.get(name, (3, "a"))
    assert [told(finding) for finding in checked(name, WRONG[name]).findings] == [("E301", line, place)]


def test_a_place_in_a_notebook_is_told_by_its_cell() -> None:
    cells = [
        ("markdown", ["# Note\n", "$q_{bsea} = z_{bsd} Q_{dea}$, $k_{bsea} = z_{bsd} K_{dea}$\n"]),
        ("code", ["x = '$y_b'"]),
    ]
    cells += [
        ("markdown", ["Then\n", "$w_{bss'a} = q_{bse} k_{bs'ea}$"]),
        ("markdown", ["# Next\n", "$w_{bss'a} = q_{bse} k_{bs'ea}$"]),
    ]
    text = json.dumps({"cells": [{"cell_type": kind, "source": source} for kind, source in cells]})
    (finding,) = checked("n.ipynb", text).findings  # a definition holds beyond its cell, and up to the next heading
    assert finding.file == "n.ipynb:cell 3"
    assert told(finding) == ("E304", 2, "q_{bse}")


@pytest.mark.parametrize("text", ["", "[]", '{"cells": 3}', '{"cells": [{"source": "x"}]}'])
def test_what_is_no_notebook_is_refused(text: str) -> None:
    assert checked("n.ipynb", text).codes == ["E801"]


# ---------------------------------------------------------------------------------------------------------- formulas


def test_formulas_of_latex() -> None:
    text = r"""
\section{One} $a$ and \(b\), \$3 and % $c$
\begin{equation*} d \end{equation*} \[ e \] $$ f $$ \begin{verbatim} $g$ \end{verbatim}
\begin{gather} h \\ i \end{gather}
\begin{algorithm} \For{$j$} $k$ \EndFor \end{algorithm}
"""
    document = read_latex(Source("a.tex", text))
    assert formulas(document) == [
        ("a", False), ("b", False), ("d", True), ("e", True), ("f", True), ("h \\\\ i", True), ("j", False), ("k", False),
    ]  # fmt: skip
    assert [section.title for section in document.sections] == ["", "One"]
    assert [formula.unread for formula in document.sections[1].formulas][-1] == "the loop of an algorithm"


def test_formulas_of_markdown() -> None:
    text = "## One\n$a$ `$b$` <!-- $c$ -->\n\n2.1 Two\n\n$$d$$\n\n~~~\n$e$\n~~~\n\n\\[f\\] and 5 $\n\nno $ more\n"
    document = read_markdown(Source("a.md", text))
    assert formulas(document) == [("a", False), ("d", True), ("f", True)]
    assert [section.title for section in document.sections] == ["", "One", "2.1 Two"]


def test_formulas_of_typst() -> None:
    text = "#let SM = math.op(`Softmax`)\n== One\n$a_(i j)$ and `$b$` // $c$\n$ SM_j (x_(i j) / sqrt(D)) $\n"
    assert formulas(read_typst(Source("a.typ", text))) == [
        ("a_{i j}", False),
        ("\\operatorname{Softmax}_{j} (\\frac{x_{i j}}{\\sqrt{D}})", True),
    ]


TYPST = {
    "x_(b s) arrow.l y_b z_s": "x_{b s} \\leftarrow  y_{b} z_{s}",
    "a / b c": "\\frac{a }{ b} c".replace(" }{ ", "}{"),
    "(a + b) / (c d)": "\\frac{a + b}{c d}",
    "frac(a, b)": "\\frac{a}{ b}",
    "x_i^2'": "x_{i}^{2}'",
    "cases(0 & s' <= s, -infinity & s' > s)": "\\begin{cases}0 & s' \\leq  s\\\\ -\\infty  & s' > s\\end{cases}",
    "alpha_(s) \\\n = 1": "\\alpha _{s} \\\\  = 1",
    'upright("ReLU")(x) "and" y': "\\mathrm{ReLU}(x) \\text{and} y",
    "sum_(j=1)^N a_(i j)": "\\sum _{j=1}^{N} a_{i j}",
    "macron(W)_(d f)": "\\bar{W}_{d f}",
}


@pytest.mark.parametrize("text", TYPST)
def test_typst_becomes_latex(text: str) -> None:
    (formula,) = read_typst(Source("a.typ", f"${text}$")).sections[0].formulas
    assert formula.latex.text == TYPST[text]


# ---------------------------------------------------------------------------------------------------------- spelling

SPELLED = {
    r"x_{i,j}": "x_{i j}",
    r"x_{t-1}": "x_{(t - 1)}",
    r"x_{bs+1}": "x_{b(s + 1)}",
    r"\hat{x}_{ij}": r"\mathrm{xhat}_{ij}",
    r"W^{(l)}_{ij}": r"\mathrm{Wl}_{ij}",
    r"W_{\text{out}}": r"\mathrm{Wout}",
    r"d_{\rm ff}": r"\mathrm{dff}",
    r"x_{\{ij\}}": "x_{ij}",
    r"x_i'": "x'_{i}",
    r"x^2": "x^{2}",
    r"x_i^2": "x_{i}^{2}",
    r"\mathrm{softmax}_j(x_{ij})": r"\mathrm{Sm}_{j}( x_{ij})",
    r"\sum_{j=1}^{N} x_j": r"\sum_{j}  x_{j}",
    r"\sum_{s'=0}^{s} x_{s'}": r"s \sum_{s'}  x_{s'}",
    r"\frac{\partial y_i}{\partial x_j}": r"\frac{  y_{i}}{\! x_{j}}",
    r"\partial y_i / \partial x_j": r"\frac{ y_{i}}{ \! x_{j}}",
    r"\sum\limits_{\substack{j = 1 \\ j \neq i}} x_j": r"i \sum_{j}  x_{j}",
    r"\sum_{0 \leq i < j \leq n} x_{ij}": r"n \sum_{i j}  x_{ij}",
    r"\sum_{i + j = k} x_{ij}": r"\substack  x_{ij}",
    r"{\rm attn}_{ij} + \max√{d_k}": r"\mathrm{attn}_{ij} + \max\sqrt{ d_{k}}",
    r"e^{x_i}": r"\exp( x_{i})",
    r"a := b": "a =  b",
    r"\left[ a \right]": "(  a )",
    r"{\rm if} x": r"\text{if}  x",
}


@pytest.mark.parametrize("text", SPELLED)
def test_notes_are_spelled_as_the_language_is(text: str) -> None:
    source = Source("a.md", text)
    assert rewrite_formula(Passage.of(source, 0, len(text))).text.strip() == SPELLED[text]


def test_macros_are_expanded_in_macros() -> None:
    source = Source("a.md", r"\two{x} + \one")
    macros = {"one": Macro(0, "y"), "two": Macro(1, r"#1_{\one}")}
    whole = expand_macros(Passage.of(source, 0, len(source.text)), macros)
    assert whole.text == "x_{y} + y"
    assert [whole.places[at] for at in (0, 1, 3, 8)] == [5, 0, 0, 10]


def test_a_macro_of_itself_ends() -> None:
    source = Source("a.md", r"\x")
    assert len(expand_macros(Passage.of(source, 0, 2), {"x": Macro(0, r"\x\x")}).text) < 100_000


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.md", "$" + "x_{" * 500 + "a" + "}" * 500 + " = y_{ij}$"),
        ("a.md", "$" + "(" * 500 + "x_{ij}" + ")" * 500 + " = y_{ij}$"),
        ("a.md", "$" + "\\frac{a}{" * 500 + "x_{ij}" + "}" * 500 + " = y_{ij}$"),
        ("a.md", "$" + "x^x" * 500 + " = y_{ij}$"),
        ("a.md", "$" + "x_x^x_x' = y_{ij}$ $} { \\right) _ ^ & x_ = ^$ $$\\begin{cases} x_i$$ $x_i = \\frac$ $\\sum_ = x_i$"),
        ("a.md", "$\\begin{cases} x_i & y \\end{aligned} = \\hat = \\text = x_$ \\newcommand{\\x \\def\\y#1 $\\x = x_i$"),
        ("a.tex", "\\def\\x{\\x} \\def\\y#1{#1#1} $\\x_i = \\y{\\y{\\y{x_{ij}}}}$ $\\y$ \\section{" + "\\begin{align}" * 50),
        ("a.typ", "$" + "x_(" * 500 + "a" + ")" * 500 + " = y_(i j)$ $ x_( / ) ^ _ = cases( = y_(i $ $/ a / / b = x_i$ $x_$"),
        ("a.tex", "$" * 999),
        ("a.tex", "$a_{ij" * 999),
        ("a.md", "`" * 999 + "\\(" * 999),
    ],
)
def test_no_text_is_too_strange(name: str, text: str) -> None:
    checked(name, text)


def test_an_axis_that_prose_states_is_described_with_its_size() -> None:
    text = "Weights.\n\nHere $Q_{de}$ has the shape $D \\times D / A$, $Q_{de} \\in \\mathbb{R}^{D \\times D / A}$.\n"
    known = {each.letter: each for section in read_markdown(Source("note.md", text)).sections for each in read_sizes(section)}
    assert Stated.of_sizes(known).describe("d") == "d: D (note.md:3)"
    assert Stated.of_sizes(known).describe("e'") == "e: D / A (note.md:3)"


def test_an_axis_of_a_latex_text_is_described_with_its_size() -> None:
    text = "axes\n  s: S <= 8 % positions\n  d: D\n\nlayer Half(z_d) -> z_d:\n  z_{sd} = \\frac{z_{sd}}{2}\n"
    legend = Legend.of(parse(Source("note.tex", text))[0])
    assert legend.describe("s") == "s: S <= 8 (note.tex:2)"
