r"""What LaTeX means: each row of these tables is a formula from notes and the plain text that it stands for."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable

import pytest

import einformer
from einformer import EinformerError
from einformer.architectures.texts import library
from einformer.errors import Finding, Source
from einformer.interpreters.latex import latex
from einformer.language.parser import parse
from einformer.language.printer import show
from einformer.language.tree import Equation, Spec, Sum
from tests.guard import guarded

FRAME = "axes\n  b: B\n  s: S\n  d: D\n  e: E\n  a: A\n  l: L\nlayer F(z_s) -> y_s:\n  {}\n  return z_s\n"


def read(text: str) -> tuple[Spec, tuple[Finding, ...]]:
    return parse(Source("notes.tex", text), library())


def equation(text: str) -> Equation:
    """The first equation of a layer with this line."""
    spec, findings = read(FRAME.format(text))
    assert not findings, str(findings[0])
    first = spec.layers[0].body[0]
    assert isinstance(first, Equation)
    return first


RIGHT_SIDES = [
    (r"z_{bsd} Q_{dea}", "z_bsd Q_dea"),
    (r"z_{bsd}\,Q_{dea}\!W_{ea}", "z_bsd Q_dea W_ea"),
    (r"z_{bsd} \cdot Q_{dea} \times 2", "z_bsd Q_dea 2"),
    (r"\mathrm{Sm}_{s'}\left(\frac{q_{bsea} k_{bs'ea}}{\sqrt{E}} + m_{ss'}\right)", "Sm_s'(q_bsea k_bs'ea / sqrt(E) + m_ss')"),
    (r"\operatorname{Sm}_{s'} \bigl( m_{ss'} \bigr)", "Sm_s'(m_ss')"),
    (r"\operatorname*{max}_d \Big(z_{sd}\Big)", "max_d(z_sd)"),
    (r"\frac12", "1 / 2"),
    (r"\dfrac{a b}{c d} x_s", "(a b / (c d)) x_s"),
    (r"\frac{(a b)}{c}", "(a b) / c"),
    (r"\frac{a + b}{c}", "(a + b) / c"),
    (r"\frac{\frac{a}{b}}{c}", "(a / b) / c"),
    (r"x_s - \frac{2 a}{c}", "x_s - 2 a / c"),
    (r"x_s - \frac{a + b}{c}", "x_s - (a + b) / c"),
    (r"-\left(\frac{a}{c}\right)", "-(a / c)"),
    (r"x_s \frac{-a}{c}", "x_s (-a / c)"),
    (r"\frac{a}{c}^{2}", "(a / c)^2"),
    (r"\frac{l \bmod 2}{c}", "(l mod 2) / c"),
    (r"a b / c", "a b / c"),
    (r"ED", "E D"),
    (r"4D\,", "4 D"),
    (r"2 x_s^2", "2 x_s^2"),
    (r"x^23", "x^2 3"),
    (r"x_{s}^{-2}", "x_s^-2"),
    (r"\Theta^{-2 a / E}", "Θ^(-2 a / E)"),
    (r"W^{0}_{d'e}", "W0_d'e"),
    (r"W^0_{d'e}", "W0_d'e"),
    (r"W^{\mathrm{in}}_{de}", "Win_de"),
    (r"\mathbf{W}^{QK}_{de}", "WQK_de"),
    (r"{W^{0}_{de}}^{2}", "W0_de^2"),
    (r"W^{0}", "W^0"),
    (r"x'_{sd}", "x'_sd"),
    (r"x_{sd}'", "x'_sd"),
    (r"x^\prime_{sd}", "x'_sd"),
    (r"x^{\prime\prime}_{sd}", "x''_sd"),
    (r"x^{0\prime}_{s^{\prime}d}", "x0'_s'd"),
    (r"{x}_{sd}", "x_sd"),
    (r"m_{s s'}", "m_ss'"),
    (r"s'^{2}", "s'^2"),
    (r"\gamma_d + \epsilon + \varepsilon + \phi + \varphi", "γ_d + ε + ε + φ + φ"),
    (r"\boldsymbol{\gamma}_d", "γ_d"),
    (r"\alpha_{\mathrm{e}}", "α_e"),
    (r"E_{x_{bs} d}", "E_{x_bs d}"),
    (r"S_{b(s-1)e}", "S_{b(s - 1)e}"),
    (r"S_{b(2s+1)e}", "S_{b(2 s + 1)e}"),
    (r"S_{(\frac{s}{2})e}", "S_{(s / 2)e}"),
    (r"y_{b 0 e}", "y_{b 0 e}"),
    (r"\sum_d x_{d} y_d", "sum_d(x_d y_d)"),
    (r"\sum_{d} {(x_d + 1) y_d}", "sum_d((x_d + 1) y_d)"),
    (r"\exp(-\infty)", "exp(-inf)"),
    (r"\exp x_s", "exp(x_s)"),
    (r"\log_2 (A)", "log2(A)"),
    (r"\left\lfloor \frac{s}{2} \right\rfloor", "floor(s / 2)"),
    (r"\lceil A \rceil + \left|x_s\right| + \lvert x_s \rvert", "ceil(A) + abs(x_s) + abs(x_s)"),
    (r"1 \times 10^{-5} + 2.5\times10^3 + 1e-5", "1e-5 + 2.5e3 + 1e-5"),
    (r"2 \cdot 10^{-5}", "2 10^-5"),
    (r"s' \leq s \land \lnot (s = 1) \lor s \neq 2", "s' <= s and not (s == 1) or s != 2"),
    (r"s - 3 < s' \le s", "s - 3 < s' <= s"),
    (r"(s = 1)", "(s == 1)"),
    (r"\begin{cases} 0 & s' \leq s \\ -\infty & \text{otherwise} \end{cases}", "where(s' <= s, 0, -inf)"),
    (r"\begin{cases} 0, & \text{if } s' \leq s \\ -\infty, & \text{if } s' > s \\ \end{cases}", "where(s' <= s, 0, -inf)"),
    (r"\begin{cases} 0 & s' \leq s \\ -\infty & s < s' \end{cases}", "where(s' <= s, 0, -inf)"),
    (r"\begin{cases} 1 & s = 0 \\ 2 & s = 1 \\ 3 & \text{else} \end{cases}", "where(s == 0, 1, where(s == 1, 2, 3))"),
    (r"2 \begin{cases} a & s = 0 \\ \begin{cases} b & s \neq 1 \\ c & s = 1 \end{cases} & \text{otherwise} \end{cases}",
     "2 where(s == 0, a, where(s != 1, b, c))"),
    (r"\mathrm{top}_{2, d}(z_{sd})", "top_{2,d}(z_sd)"),
    (r"\mathrm{RMSNorm}_l(z_{sd})", "RMSNorm_l(z_sd)"),
    (r"& z_{sd} + & 1 \nonumber \hspace{1em}", "z_sd + 1"),
    (r"$z_{sd}$ + 1\quad", "z_sd + 1"),
]  # fmt: skip


@pytest.mark.parametrize(("notes", "plain"), RIGHT_SIDES)
def test_right_sides(notes: str, plain: str) -> None:
    assert equation(rf"y_{{s}} = {notes} \,") == equation(f"y_s = {plain}")


NOTS = [
    ("not s == s'", r"\lnot (s = s')"),
    ("not s' < s < 3", r"\lnot (s' < s < 3)"),
    ("not (s == 1 or s == 2) and s' == 1", r"\lnot (s = 1 \lor s = 2) \land s' = 1"),
    ("not s + s'", r"\lnot (s + s')"),
    ("not 2 s", r"\lnot (2 s)"),
    ("not not s", r"\lnot \lnot s"),
    ("not z_s^2", r"\lnot z_{s}^{2}"),
]


@pytest.mark.parametrize(("plain", "page"), NOTS)
def test_what_is_denied_stands_in_parentheses(plain: str, page: str) -> None:
    """The sign takes what stands next to it, where the word takes a whole comparison."""
    denied = equation(f"y_s = where({plain}, 1, 2)")
    assert rf"\text{{if}}\ {page} \\" in latex(denied)
    assert f"where({plain}, " in show(denied)
    assert equation(latex(denied)) == denied


STATEMENTS = [
    (r"u_{bsd} = y_{bs(ea)} \,", "u_{bs(ea)} = y_bsea"),
    (r"u_{sbd} \leftarrow y_{bs(ea)} \,", "u_{sb(ea)} <- y_bsea"),
    (r"u_{bsd} = y_{bsd} \,", "u_bsd = y_bsd"),
    (r"q_{bsea} = p_{bs(ea)} \,", "q_bsea = p_{bs(ea)}"),
    (r"z_s \gets z_s + 1", "z_s <- z_s + 1"),
    (r"z_s <- \frac{z_s}{2}", "z_s <- z_s / 2"),
    (r"c_{ss'} = (s = s') \,", "c_ss' = (s == s')"),
    (r"c_{ss'} = s \leq s' = 2", "c_ss' = s <= s' == 2"),
    (r"return \frac{z_s}{2}", "return z_s / 2"),
    (r"\textbf{return}\ \frac{z_s}{2}", "return z_s / 2"),
    (r"y_s &= \tanh(z_s) % the state", "y_s = tanh(z_s)  # the state"),
    (r"y_s = \tanh(z_s) \qquad \text{the state}", "y_s = tanh(z_s)  # the state"),
    (
        r"y_s = \tanh(z_s) && @\ \text{goon 1.1}\quad \text{5}\%\text{ of x}\hat{\ }\text{2}",
        "y_s = tanh(z_s)  @ goon 1.1 # 5% of x^2",
    ),
    (r"y_s = \tanh(z_s)  @ goon 1.1 # the state", "y_s = tanh(z_s)  @ goon 1.1 # the state"),
]


@pytest.mark.parametrize(("notes", "plain"), STATEMENTS)
def test_statements(notes: str, plain: str) -> None:
    assert equation(notes) == equation(plain)


PLAIN = """# a block
axes
  b: B                # batch
  s: S
  d: D

scalars
  ε = 1e-5

layer F(z_bsd) -> y_bsd:
  weights W_dd', α_d? = γ_d
  weights pre, post: RMSNorm
  h_bsd' = z_bsd W_dd' + α_d                    # hidden
  for l < 2:
    h_bsd <- pre_l(h_bsd)
  return post(h_bsd)
"""
MIXED = r"""% a block
axes
  b: B                % batch
  s: S
  d: D

scalars
  \varepsilon = 10^{-5} \times 1

layer F(z_bsd) -> y_bsd:
  weights W_dd', \alpha_d? = \gamma_d, pre, post: RMSNorm
  \begin{align*}
    h_{bsd'} &= z_{bsd} W_{dd'} + \alpha_d \\ % hidden
    \textbf{for}\ l < 2\colon \\
    \quad h_{bsd} &\leftarrow \mathrm{pre}_l(h_{bsd})
  \end{align*}
  return \mathrm{post}(h_{bsd})
"""
ROWS = r"""
\[\begin{aligned}[t]
&\textit{a block} \\[2ex]
&\textbf{axes} \\
&\quad\begin{array}{lr}
  b\colon B & \qquad \text{batch} \\
  s\colon S \\
  d\colon D
\end{array}
\textbf{scalars} \\*
&\quad \epsilon = 1
\times 10^{-5} \\
&\textbf{layer}\ F(z_{bsd}) \to y_{bsd}: \\
&\quad \textbf{weights}\ W_{dd'}, \alpha_d? = \gamma_d, \mathrm{pre}, \text{post}\colon \mathrm{RMSNorm} \\
&\quad h_{bsd'} = z_{bsd} W_{dd'}
   + \alpha_d && \text{hidden} \\
&\quad \textbf{for}\ l < 2\colon \\
&\quad\quad h_{bsd} \gets \mathrm{pre}_l(h_{bsd}) \\
&\quad \textbf{return}\ \mathrm{post}(h_{bsd})
\end{aligned}\]
"""


@pytest.mark.parametrize("text", [MIXED.replace(r"10^{-5} \times 1", r"1 \times 10^{-5}"), ROWS], ids=["mixed", "rows"])
def test_layout(text: str) -> None:
    spec, findings = read(text)
    assert not findings, "\n\n".join(map(str, findings))
    assert show(spec) == PLAIN
    assert spec == read(PLAIN)[0]


REFUSALS = [
    (r"y_s = \foo{z_s}", "E101", r"\foo", "`\\foo` is not a command"),
    (r"y_s = \tanh(z_s) + Sm_{s}(z_s)", "E101", "Sm", "`Sm` is a product of letters"),
    (r"y_s = \frac{z_s}{2", "E102", "{", "never closed"),
    (r"y_s = \frac{z_s}", "E101", r"\frac", ""),
    (r"y_s = \left( z_s \right] \,", "E102", "]", "closes nothing"),
    (r"y_s = \left\{ z_s \right\}", "E101", r"\{", ""),
    (r"y_s = \lfloor z_s ) \rfloor", "E102", r"\rfloor", "closes nothing"),
    (r"y_s = z_s \cdot - 2", "E101", r"\cdot", ""),
    (r"y_s = \times z_s", "E101", r"\times", ""),
    (r"y_s = x^{(l)}_{s} + \pi", "E101", "(", "neither part of a name nor a power"),
    (r"y_s = x^{2}^{3} + \pi", "E101", "^", "a second `^`"),
    (r"y_s = x_{s}_{d} + \pi", "E101", "_", "a second `_`"),
    (r"y_s = x_{\mathrm{in}}", "E101", r"\mathrm{in}", "not one letter"),
    (r"y_s = x_{(s + \infty)}", "E101", r"\infty", "not one letter"),
    (r"y_s = x_{\sqrt{s}}", "E101", r"\sqrt", "not one letter"),
    (r"y_s = x_{(s \bmod 2)}", "E101", r"\bmod", "not one letter"),
    (r"y_s = \sqrt[3]{z_s}", "E101", "[", ""),
    (r"y_s = \sum_{d=1}^{D} x_d", "E101", "=", ""),
    (r"y_s = \begin{cases} 0 & s = 1 \\ 1 & s = 2 \end{cases}", "E101", "s = 2", "the last row of cases"),
    (r"y_s = \begin{cases} 0 & s = 1 \end{cases}", "E101", r"\begin{cases}", "two rows"),
    (r"y_s = \begin{cases} 0 & s = 1 \\ 1 \end{cases}", "E101", r"\begin{cases}", "a value and its condition"),
    (r"y_s = \begin{cases} 0 & s = 1 \\ 1 & s \neq 1", "E102", r"\begin{cases}", "never closed"),
    (r"y_s = z_s \end{cases}", "E102", r"\end{cases}", "closes nothing"),
    (r"y_s = \begin{pmatrix} 1 \end{pmatrix}", "E102", r"\begin{pmatrix}", "cannot stand here"),
    (r"y_s = z_s \qquad \frac{1}{2}", "E101", r"\frac", ""),
    (r"y_s = \mathrm{a-b}", "E003", "a", ""),
    (r"y_s = z_s ☃ \pi", "E003", "☃", "SNOWMAN"),
    (r"y_s = |z_s| \pi", "E101", "|", ""),
    (r"y_s = \frac{z_s + }{2}", "E101", "}", ""),
    (r"y_s = \tanh z_s x_s", "E104", "x", ""),
    (r"y_s = \pi x_{Q}", "E101", "Q", "is not an index"),
]  # fmt: skip


@pytest.mark.parametrize(("notes", "code", "at", "message"), REFUSALS)
def test_refusals(notes: str, code: str, at: str, message: str) -> None:
    """The first finding has the code, stands under the right characters and names what is wrong."""
    _, findings = read(FRAME.format(notes))
    assert findings
    first = findings[0]
    assert (first.code, first.span.text) == (code, at), str(first)
    assert message in first.message


def test_every_refusal_says_what_to_write() -> None:
    findings = [finding for notes, *_ in REFUSALS for finding in read(FRAME.format(notes))[1]]
    assert [str(finding) for finding in findings if not finding.fix] == []


def test_a_wrong_row_leaves_the_others() -> None:
    text = FRAME.format("\\begin{aligned} y_s &= \\foo \\\\ x_s &= \\pi \\\\ w_s &= \\bar{x} \\end{aligned}")
    spec, findings = read(text)
    assert [finding.message.split("`")[1] for finding in findings] == ["\\foo", "\\bar"]
    assert [statement.left.name for statement in spec.layers[0].body if isinstance(statement, Equation)] == ["x", "y"]


HOSTILE = {
    "braces": r"\pi" + "{" * 5000,
    "closed braces": r"\pi" + "{" * 5000 + "}" * 5000,
    "fractions": r"\frac{" * 1500 + "1" + "}{2}" * 1500,
    "roots": r"\sqrt{" * 1500 + "1" + "}" * 1500,
    "subscripts": r"\pi " + "x_{" * 3000 + "s" + "}" * 3000,
    "superscripts": r"\pi " + "x^{" * 3000 + "s" + "}" * 3000,
    "scripts": r"\pi " + "x^" * 7000,
    "primes": r"\pi x" + "'" * 15000,
    "cases": r"\begin{cases} 1 & s = 1 \\ " * 300 + "1" + r" & s = 2 \end{cases}" * 300,
    "open cases": r"\begin{cases}" * 1000,
    "environments": r"\begin{aligned}" * 5000,
    "ends": r"\end{aligned}" * 5000,
    "rows": r"\\" * 40_000,
    "left": r"\left(" * 2500,
    "fences": r"\left|" * 2500,
    "dollars": "$$" * 20_000,
    "commands": "\\" * 40_001,
    "text": r"\text{" * 2500,
    "products": r"\cdot " * 2500,
    "powers of ten": r"1 \times 10^{" * 1200,
    "flat fractions": r"\frac{a}{b} " * 1300,
    "comment": "\\pi %" + "\\begin{aligned}" * 6000,
    "a line": "\\pi + " * 16_000,
    "words": r"\text{" + "a " * 7000 + "}",
    "remark": r"\pi \qquad " + r"\text{a}" * 2000,
    "brackets": r"\pi " + "(" * 15_000,
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_texts(name: str) -> None:
    """Any answer will do, soon: the stack is not used up."""
    with contextlib.suppress(EinformerError), guarded():
        read(FRAME.format("y_s = " + HOSTILE[name]))


@pytest.mark.parametrize("written", ["x_s", "x_{s}", "x_\\mathrm{s}", "x'_s", "\\gamma^0_s"])
def test_the_place_of_a_tensor_ends_with_its_last_script(written: str) -> None:
    """Whatever follows it: a sign, too."""
    right = equation(f"y_s = {written}+1").right
    assert isinstance(right, Sum)
    assert right.terms[0].span.text == written


@pytest.mark.parametrize("name", ["gpt2", "deepseek_v3", "mpt"])
def test_no_prefix_of_a_text_breaks_the_reader(name: str) -> None:
    text = einformer.load(name).latex()
    for end in range(0, len(text), 29):
        read(text[:end])


def test_an_equality_without_commands_is_not_read_as_plain_text() -> None:
    compared = equation("y_s = a (s == 1)")
    assert latex(compared) == r"\displaystyle y_{s} = a (s = 1)"
    assert equation(latex(compared)) == compared
    assert latex(equation("y_s = a")) == "y_{s} = a"


def test_what_is_printed_is_tex() -> None:
    """No script stands twice on one name, and every brace is closed: what TeX would refuse."""
    text = latex(equation("y_s = x'_s^2 + W0_s^2 + s'^2 + (x^2)^3 + (a / b)^2 + z_{b(s - 1)}"))
    assert not re.search(r"'_\{[^{}]*\}\^|\}\^\{[^{}]*\}\^", text)
    assert (
        text == r"y_{s} = {x'_{s}}^{2} + {W^{0}_{s}}^{2} + {s'}^{2} + (x^{2})^{3} + \left(\frac{a}{b}\right)^{2} + z_{b(s - 1)}"
    )


def test_single_equations_have_no_environment(golden: Callable[[str, str], None]) -> None:
    lines = [show(equation(f"y_s = {plain}")) + "\n  " + latex(equation(f"y_s = {plain}")) for _, plain in RIGHT_SIDES]
    golden("latex.txt", "\n".join(lines) + "\n")
