"""Which errors does the linter find in notes, and is each one there?"""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest

from einformer.errors import Source
from einformer.notes.documents.latex import read_markdown
from einformer.notes.legend import read_sizes
from tests.commands import LETTERS, Found, Linted, lint, run
from tests.refusals import names

DATA = Path(__file__).parent / "data"


def checked(text: str, **legend: str) -> Linted:
    return lint(text, legend=legend or LETTERS)


def findings(text: str, **legend: str) -> tuple[Found, ...]:
    return checked(text, **legend).findings


def codes(text: str, **legend: str) -> list[str]:
    return checked(text, **legend).codes


def places(found: tuple[Found, ...]) -> list[tuple[str, str]]:
    """Each finding with the characters it points at."""
    return [(finding.code, finding.text) for finding in found]


# --------------------------------------------------------------------------------------------------- a published note


def test_the_errors_of_a_published_note_are_found_and_nothing_else() -> None:
    found = findings((DATA / "s001.md").read_text(encoding="utf-8"))
    assert [(f.code, f.line) for f in found] == [
        ("E302", 34),  # E9: w_{bss'da}, in the display of E1
        ("E304", 34),  # E10: q_{bse}
        ("E305", 34),  # E11: w_{bds's'a}
        ("E501", 38),  # E2: the mask
        ("E501", 40),  # E3: w_{bss'da} = 0
        ("E301", 42),  # E9: w_{bdss'a}
        ("E304", 44),  # E13: y_{bse}, where it is read with its heads
        ("E301", 46),  # E17: u_{bsd} O_{d'd}
    ]


def test_nothing_is_found_in_the_corrected_note() -> None:
    corrected = checked((DATA / "s001_corrected.md").read_text(encoding="utf-8"))
    assert corrected.findings == ()
    assert corrected.counts == {"": 19, "`\\rightarrow` is not an equality": 1}


# ------------------------------------------------------------------------------------------------------------- rules

LEGEND = dict(zip("bsdeacflhtvijk", "BSDDACFLQTVNNN", strict=True))
QKV = "$q_{bsea} = z_{bsd} Q_{dea}$, $k_{bsea} = z_{bsd} K_{dea}$, $v_{bsea} = z_{bsd} V_{dea}$. "
WRONG = {
    "on the left only": ("$q_{bsea} = z_{bsd} Q_{de}$", "E302", "q_{bsea}"),
    "on the right only": ("$q_{bse} = z_{bsd} Q_{dea}$", "E301", "a"),
    "on one term only": ("$z_{bsd} = x_{bsd} + y_{bse}$", "E301", "e"),
    "lacks what its neighbours have": (f"{QKV}$w_{{bss'a}} = q_{{bse}} k_{{bs'ea}}$", "E304", "q_{bse}"),
    "in another order": (f"{QKV}$w_{{bss'a}} = q_{{bsea}} k_{{bs'ae}}$", "E307", "a"),
    "summed too early": ("$y_{bse} = w_{bss'a} v_{bs'ea}$ and $u_{bsd} = y_{bs(ae)}$", "E304", "y_{bs(ae)}"),
    "twice on one tensor": ("$q_{bsea} = z_{bsd} Q_{dea}$, $w_{bs} = q_{bsaa}$", "E305", "a"),
    "a sum over nothing": ("$z_{id} = \\sum_j A_{ik} x_{kd}$", "E306", "j"),
    "a softmax over nothing": ("$w_{bss'a} = \\mathrm{softmax}_d(q_{bsea} k_{bs'ea})$", "E306", "d"),
    "three times, twice on one tensor": ("$y_{j} = A_{ii} B_{ij}$", "E305", "i"),
    "three times among several": ("$y_{j} = c_k A_{ii} B_{ij} d_k$", "E305", "i"),
    "a sum without the indices that it has elsewhere": ("$P = f_i + g_i$ and $y_j = P_i W_{ij}$", "E301", "i"),
    "a softmax over the queries": ("$w_{ss'} = \\mathrm{Sm}_s(q_{se} k_{s'e})$, $y_{se} = w_{ss'} v_{s'e}$", "E312", "s"),
    "two stated sizes": ("$x_{bd}$ of shape `(B, D)`, $y_{bd}$ of shape `(B, F)`", "E208", "d"),
    "an addend beside a scalar": ("$y_t = \\alpha + \\beta x_t + u_k$", "E301", "k"),
    "a step of another": ("$y_t = \\alpha + \\beta x_{i-1}$", "E301", "i"),
    "a sum in a function": ("$\\mathrm{Var}(s) = \\mathrm{Var}(\\sum_{j} d_i c_i)$", "E306", "j"),
    "a sum beside an expression of numbers": ("$2 \\alpha = \\sum_j r_j d_i$", "E301", "i"),
    "a sum on one side only": ("$-\\sum_i r_k d_i = \\sum_i r_i c_i$", "E302", "\\sum_i r_i c_i"),
    "a sum alone": ("for $\\sum_k r_i c_j$", "E306", "k"),
    "a class of a sum": ("$f_j(z) = e^{z_j} / \\sum_k e^{z_i}$", "E306", "k"),
    "a sum that is wrong beside a use that is wrong": (
        "$q_{bsea} = z_{bsd} Q_{dea} x_{bsf}$ and $w_{bsta} = q_{bse} k_{btea}$", "E301 E304", "f q_{bse}"
    ),
    "no index of a loop on the right": ("For each $l$: $h_{bl} = x_{bd} w_d$", "E302", "h_{bl}"),
    "a matrix without its indices": ("$M_{jk} = a_j b_k$ and $y_{jk} = c_{ji} r_{ik} + \\alpha M$", "E304", "M"),
    "a term that lacks an index, beside indices above": (
        "$u^i u_i = 1$, $t_{ij} = p u_i + p g_{ij}$", "E302", "p u_i"
    ),
    "three times, once above": ("$0 = \\nabla^i (p u_i u_i)$", "E305", "u_i"),
    "an element beside indices above": ("$u^i u_i = u^j u_j$, $q = -p_i u^j$", "E301 E301", "i j"),
    "a letter that another equation holds for": (
        "$\\sum_i u_{ij} = 0, \\quad j = 1, \\dots, n$; $g_i = 2 u_{ij}$", "E301", "j"
    ),
    "a group without the index that it has elsewhere": (
        "$q = \\sum_i \\sum_j (y_i - m)^2$, $y_{ij} = m + e_{ij}$", "E306", "j"
    ),
    "a root of a product": ("$p = \\sqrt{u_{ij} u_{ik}}$", "E301 E301", "j k"),
    "a sum over another letter": ("$v_k u_k = \\sum_j v_k u_k$", "E306", "j"),
    "a term with another index twice": (
        "$t_{ijk} = a_i \\delta_{jk} + a_j \\delta_{jk}$", "E302", "a_j \\delta_{jk}"
    ),
    "an index less than four times before": (
        "$a_{ce} = W_{et} b_{ct}$, $d_{ce} = W_{et} f_{ct}$, $g_{ce} = W_{et} h_{ct}$, $r_{ce} = W_e t_{ct} v_{cet}$",
        "E304",
        "W_e",
    ),
    "a term that a softmax does not feel": ("$w_{jk} = \\mathrm{Sm}_k(q_{ji} r_{ki} + m_j)$", "E313", "m_j"),
    "a group that does not fit": (
        "$u_{b(ae)} = y_{bea}$ and $z_{bf} = u_{bd} O_{df}$",
        "E308",
        "d",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG)
def test_a_slip_is_found_where_it_is(case: str) -> None:
    text, code, place = WRONG[case]
    assert places(findings(text, **LEGEND)) == list(zip(code.split(), place.split() if " " in code else [place], strict=True))


MASK = "The causal mask: $$m_{ss'} = \\begin{cases} 0 & %s \\\\ -\\infty & \\text{otherwise} \\end{cases}$$"
SCORES = " and $w_{ss'} = \\mathrm{Sm}_{%s}(q_{se} k_{s'e} + m_{ss'})$"


@pytest.mark.parametrize(
    ("condition", "over", "wrong"),
    [
        ("s' \\leq s", "s'", False),
        ("s' < s", "s'", False),
        ("s \\geq s'", "s'", False),
        ("s' \\geq s", "s'", True),
        ("s \\leq s'", "s'", True),
        ("s > s'", "s'", False),
        ("s' > s", "s'", True),
        ("s' \\leq s", "s", True),  # the softmax says which index counts the keys
        ("s \\leq s'", "s", False),
    ],
)
def test_a_mask_shows_the_past(condition: str, over: str, wrong: bool) -> None:
    found = codes(MASK % condition + SCORES % over)
    assert ("E501" in found) == wrong


@pytest.mark.parametrize(("size", "over", "wrong"), [("S", "s", True), ("S", "t", False), ("T", "s", False), ("", "s", False)])
def test_letters_of_one_size_are_one_axis_to_a_softmax(size: str, over: str, wrong: bool) -> None:
    text = f"$w_{{st}} = \\mathrm{{Sm}}_{over}(q_{{se}} k_{{te}})$, $y_{{se}} = w_{{st}} v_{{te}}$"
    assert lint(text, legend={"s": "S", "t": size, "e": "E"}).codes == ["E312"] * wrong


def test_letters_are_told_as_they_are_printed() -> None:
    text = "$\\mathbf{A}_{cla} = B_{cl} D_{la}$, $E_{cla} = \\mathbf{A}_{cl} B_{la}$, $F_{cla} = \\mathcal{A}_{cl} B_{la}$"
    (finding,) = findings(text)
    assert names(finding) >= {"A"}
    assert finding.facts[0].startswith("defined as `A_cla`")


def test_a_mask_is_left_alone_where_nothing_is_said_to_be_causal() -> None:
    assert codes(MASK.replace("causal ", "") % "s \\leq s'" + SCORES % "s'") == []


def test_a_row_goes_on_with_the_left_side_before() -> None:
    rows = "q_{bsea} &= z_{bsd} Q_{dea} \\\\ &= x_{bsd} K_{de} \\\\ &\\quad + y_{bsea}"
    text = f"$$\\begin{{aligned}} {rows} \\end{{aligned}}$$ $y_{{bsea}}$"
    assert [finding.line for finding in findings(text)] == []
    assert codes(text.replace("+ y_{bsea}", "")) == ["E302"]


# ------------------------------------------------------------------------------------------------ what is no finding

RIGHT = {
    "a dropped batch index": f"{QKV}Without the batch, $w_{{ss'a}} = q_{{sea}} k_{{s'ea}}$.",
    "a label": "$a_{ij} = q_{il} k_{jl} / \\sqrt{d_k}$, $b_{kj} = a_{kl} c_{lj}$",
    "a matrix": "$q_{bse} = z_{bsd} W$",
    "a constant": "$w_{bss'a} = 0$, $v_{bs'ea} = w_{bss'a} z_{bsea}$",
    "a fixed index": "$x_i = \\delta_{iv}$, $y_{iv} = \\delta_{ij} z_{jv}$",
    "a letter that is fixed": "For each layer $l$: $z_{bf} = x_{bd} W_{ldf}$, $y_{bd} = x_{bd} V_{ld}$",
    "a range beside an equation": "$y_j = r_{ji} x_j^2, \\quad i = 0..n$, "
    "$m_i v_i = f_i + \\sum_{j \\neq i} e_{ij} (d r_{ij} (e_{ij} u_{ij}))$",
    "a squared distance": "$d_{ij} = x_{ik} x_{ik} - 2 x_{ik} x_{jk} + x_{jk} x_{jk}$",
    "a trace": "$t = A_{ii}$, $s_j = b_j A_{ii}$",
    "a sum over a diagonal": "$y_j = \\sum_i A_{ii} B_{ij}$, $y_j = A_{jj} x_j$, $A_{ll} x_l = 0$, $y_{ij} = A_{ii} B_{ij}$",
    "a number made of elements": "$H = 2 x_t - x_{t-1}$, $P = f_i + g_i$, $P_t = r_t$, $Q = r_t + \\mu$, $Q_t = n_t$",
    "a value that is chosen": "$P = f_i$ and $y_j = P_i W_{ij}$",
    "a diagonal": "$A_{cca} = B_{ca} D_a$, $B_{ca} = E_{ce} F_{ea}$",
    "a split index": "$q_{sd} = q_{s(ah)} = q_{sah}$",
    "an overloaded letter": "$A_{ca} = \\sum_l A_{cla}$, $U_{cla} = \\exp(A_{cla})$",
    "a bound that is an index": "$S_{sd'd} = \\sum_{s'=0}^{s} k_{s'd'} v_{s'd}$",
    "a derivative": "$\\frac{\\partial l}{\\partial x_{ij}} = \\frac{\\partial l}{\\partial y_{ik}} W_{jk}$",
    "a step in time": "$S_{td'd} = S_{(t-1)d'd} + k_{td'} v_{td}$, $h_{td} = h_{t-1,d} + v_{td}$",
    "words": "$x_{in}$ and $W_{out}$: $y_{ij} = x_{ij} W_{out}$",
    "a lone row": "$a_i = b_i c_i$ and $a_{ij} b_{ij} = d_{ij}$",
    "a function of a number": "$q'_{sd} = R(s) q_{sd'}$",
    "an open end": "$k_{sd} S_{sde} = v_{se} + \\epsilon$, and $k_{sd} = v_{s} + \\epsilon$",
    "transposition": "$A_{ij} = B_{ik} C_{kj}$, $D_{ij} = A_{ji}$",
    "an expectation of what is known": "$\\mathbb{E}^Q_t r_{jt} = \\exp(a_t)$, $\\mathbb{E}_t c_i = c_i$",
    "some elements": "$w = n_j + 1$, $a = 3 b_i$, $g_t = h_i$, $x_{nk} = c x_{nj}$, $\\max_j z_j = z_i$, $\\sum_j a_{ij} = 1$",
    "a function of the author on the left": "$f(x_t z) = \\exp(-r t) (c_t - d_t)$",
    "a step": "$\\pi_t = f_{t+j} g_t$, $q = e^{f_{y_i}} / \\sum_j e^{f_j}$",
    "a trace by the name of its matrix": "$u_{ij} = g_{ij} - \\frac{1}{2} \\delta_{ij} g$, $g_{ij} = p_i p_j$",
    "two tensors of one letter": "$\\epsilon_{ijk}' = R_{il} R_{jt} R_{kv} \\epsilon_{ltv} = \\epsilon_{ijk}$, "
    "$j_i = \\epsilon_{ij} e_j$, $\\epsilon_{ij} = \\sigma \\delta_{ij}$",
    "a contraction": "$S_{k} = \\delta_{ij} T_{ijk} = T_{iik}$",
    "a number of states": "$p = \\sum_{ij} C_i$, $\\sum_{ijk} A_{ijk} = \\sum_{ijk} B_{ij}$",
    "elements of a matrix": "$J_{ij} = \\delta_{ik} \\delta_{jt} - \\delta_{it} \\delta_{jk}$",
    "a word below a sum": "$m_i = \\sum_{all} x_{ij} u_j / n$",
    "elements of one tensor": "$F = |v_a - v_b| \\rho_a$, $2 (x_{k})_j = x_{i}$",
    "an element-wise product": "$a_i = b_i \\odot c_i$, $d_{ij} = a_i e_{ij}$",
}


@pytest.mark.parametrize("case", RIGHT)
def test_what_people_mean_is_no_finding(case: str) -> None:
    assert findings(RIGHT[case]) == ()
    assert findings(RIGHT[case], **LEGEND) == ()  # nor where each letter is known to be an index


def test_what_cannot_be_read_is_counted_by_its_reason() -> None:
    text = "$y_{ij} = x_{ij} \\text{LN}$, $y_i = \\mathbf{W} x_i$, $y_{ij} = \\int x_{ij}$, $y_{ij} = x_{ij}^T$, $a = 2$"
    counts = checked(text).counts
    reasons = ["the operator or word `LN`", "vectors and matrices in bold", "an integral", "a transposed matrix", "no indices"]
    assert counts == dict.fromkeys(reasons, 1)


def test_a_letter_beside_indices_is_in_the_legend_or_its_equation_is_not_read() -> None:
    text = "$y_{ij} = x_{ik} w_{kj} + b_{qj}$"
    assert checked(text, i="I", j="J", k="K").counts == {"`q` is not in the legend": 1}
    assert codes(text, i="I", j="J", k="K", q="Q") == ["E301"]


def test_a_subscript_without_a_letter_of_the_legend_is_a_label() -> None:
    text = "$h_t = W_{xh} x_t + U_{hh} h_{t-1} + b_h$, $\\sigma_\\epsilon = \\sqrt{d_k} c_{\\rm max,in} / n_t$"
    assert checked(text, t="T", k="K", d="D").findings == ()
    assert checked("$r_{sf} = y_{sde} w_{def}$", f="F", d="D", e="E", s="S").counts == {"": 1}


NOT_IN_A_LEGEND = {
    "an economy": "$Y_t = C_{yt} + C_{ot}$, $T_t = \\tau_t W_t + T_{tr}$, $Y_t = c Y_{t-1} + v (Y_{t-1} - Y_{t-2})$",
    "a class": "$L_i = -\\log p_{y_i}$, $q = e^{f_{y_i}} / \\sum_j e^{f_j}$",
    "a balance": "$z_{ij} = x_{ij} y_{kl}$, $a_{ij} = b_{jk}$",
}


@pytest.mark.parametrize("case", NOT_IN_A_LEGEND)
def test_nothing_is_guessed_without_a_legend(case: str) -> None:
    """What could be judged is counted, and the legend is proposed."""
    found = lint(NOT_IN_A_LEGEND[case])
    assert (found.findings, found.counts[""]) == ((), 0)


def test_a_legend_is_proposed_ready_to_paste() -> None:
    text = "$0 \\leq b < B$\n\n$w_{bij} = q_{bik} k_{bjk}$ and $y_{bi} = \\sum_j w_{bij} x_{bl}$\n"
    assert lint(text).counts == {"no legend": 2}
    proposal = next(line for line in run_on(text).split("\n") if "einformer: axes" in line).strip()
    assert proposal == "<!-- einformer: axes b: B, i j k -->"
    assert lint(f"{proposal}\n{text}").counts == {"": 1, "`l` is not in the legend": 1}


def run_on(text: str) -> str:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "note.md"
        path.write_text(text, encoding="utf-8")
        return run("lint", str(path)).out


SAID = {  # where a legend stands in a file
    "note.md": "<!-- einformer: axes b s d a e -->\n\n%s\n",
    "note.tex": "%% einformer: axes b: B, s: S, d a e\n\n%s\n",
    "note.rst": ".. einformer: axes b s d a e\n\n.. math:: %s\n",
    "note.typ": "// einformer: axes b s d a e\n\n$ q_(b s e) = z_(b s d) Q_(d e a) $\n%%%s\n",
    "note.py": '# einformer: axes b s d a e\ndef f():\n    r"""%s"""\n',
    "block.md": "```einformer\naxes\n  b: B\n  s: S <= 8 # positions\n  d: D\n  a: A\n  e: H = D / A\n```\n\n%s\n",
    "table.md": "| letter | size |\n|---|---|\n| b | B |\n| s | S |\n| d | D |\n| a | A |\n| e | E |\n\n%s\n",
}


@pytest.mark.parametrize("name", SAID)
def test_a_legend_is_read_where_it_stands(name: str) -> None:
    formula = "q_{bse} = z_{bsd} Q_{dea}"
    text = SAID[name] % (formula if name == "note.rst" else f"${formula}$")
    assert (lint(text, name).codes, lint(text.replace("axes", "sizes").replace("| b |", "| - |"), name).codes) == (["E301"], [])


def test_a_legend_holds_from_its_section_on() -> None:
    wrong = "\n\n$y_{ij} = x_{ik}$\n\n"
    text = f"# One{wrong}# Two\n<!-- einformer: axes i j k -->{wrong}# Three{wrong}# Four\n<!-- einformer: axes t -->{wrong}"
    assert [finding.line for finding in lint(text).findings] == [8, 8, 12, 12][::2]


def test_a_legend_with_a_slip_is_a_finding() -> None:
    assert lint("<!-- einformer: axes bs: 3: -->\n$x_b$\n").codes == ["E805"]


def test_an_upper_index_is_an_index() -> None:
    text = "$T^{ij} = g^{ik} g^{jl} T_{kl}$, $\\Gamma_j = \\Gamma^i_{ij}$, $v^i = g^{ij} v_j$, $t_{ij}^{ab} = e_i^a f_j^b$"
    legend = dict.fromkeys("ijklab", "")
    assert (lint(text, legend=legend).counts, lint(text, legend=legend).findings) == ({"": 4}, ())
    for right, wrong in (("T_{kl}", "T_{kj}"), ("g^{ij} v", "g^{ik} v"), ("f_j^b", "f_k^b")):
        assert lint(text.replace(right, wrong), legend=legend).findings, wrong
    assert lint("$x_t = x_t^a + x_t^b$", legend={"t": "", "a": ""}).counts == {"`a` above: an index, or a label?": 1}


# ----------------------------------------------------------------------------------------------------------- legends


@pytest.mark.parametrize(
    "text",
    [
        "`(B, D)`-shaped tensors, $x_{bd}$",
        "tensors of shape `(B, D)`, $x_{bd}$",
        "$x_{bd}$ of shape $B \\times D$",
        "$x_{bd}$, which has shape $(B, D)$",
        "$x_{bd} \\in \\mathbb{R}^{B \\times D}$",
        "$b \\in \\{0, \\dots, B-1\\}$ and $d \\in \\{0, \\dots, D - 1\\}$",
        "$b = 0, \\ldots, B - 1$ and $0 \\leq d < D$",
        "| letter | size |\n|---|---|\n| $b$ | $B$ |\n| `d` | `D` |",
    ],
)
def test_a_legend_is_read_from_the_text(text: str) -> None:
    document = read_markdown(Source("note.md", text))
    assert {known.letter: known.size for section in document.sections for known in read_sizes(section)} == {"b": "B", "d": "D"}


def test_a_size_is_known_with_its_place() -> None:
    (finding,) = findings("$b \\in \\{0, \\dots, B-1\\}$\n\n$y_{ij} = x_{ik} w_{kj}$, $z_{ij} = x_{bik} w_{kj}$")
    assert finding.facts == ("b: B (note.md:1)",)


def test_a_legend_is_given() -> None:
    text = "$u_{b(ae)} = y_{bea}$ and $z_{bf} = u_{bd} O_{df}$, $x_{bf} = y_{beg} O_{efg}$"
    assert codes(text) == []
    assert codes(text, b="B", d="D", e="D", a="A", f="F") == ["E308"]
    assert codes(text, b="B", d="D", e="D/A", a="A", f="F") == []
    assert codes(text, b="B", d="D", e="H", a="A", f="F") == []  # D may well be A H


def test_an_index_inside_a_computed_slot_is_no_further_one() -> None:
    """A convolution sums c, and the next one reads what it made at s - c."""
    assert codes("$$y_{bse} = \\sum_c P_c x_{b(s - c)e}$$ $$z_{bse} = \\sum_c J_c y_{b(s - c)e}$$") == []


@pytest.mark.parametrize("target", ["gpt2", "llama"])
def test_a_page_in_matrices_is_not_a_text_of_the_language(target: str) -> None:
    """It has a legend, and says of no layer which axes its result has. The same page in indices is one."""
    for form, found in (("matrix", []), ("index", ["E201"])):
        page = run("latex", target, "--form", form).out.replace("b\\colon B", "c\\colon B")
        assert sorted({*codes(f"$$\n{page}\n$$\n")} & {"E101", "E201"}) == found
