"""Is a printed formula of matrices what its line in indices says? By NumPy, for every text that ships and for random ones."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from einformer import EinformerError, load, parse
from einformer.interpreters.latex.formulas import LayerNames, MatrixStyle, add_scripts
from einformer.interpreters.latex.matrices import write_formulas
from einformer.language.sizes import Legend
from einformer.language.tree import Layer
from einformer.language.walk import equations
from einformer.notes.notations import conventions, style
from einformer.notes.rendering import attention, render
from einformer.objects import Specification
from einformer.testing.subject import Subject, isolate
from tests import shipped, well_formed
from tests.examples import ROOT, make_page
from tests.oracles.matrices import SIGNS, Oracle, Recorder, apart, called_sizes
from tests.refusals import refuses
from tests.texts import spec as of

DOCUMENTS = sorted(path.stem for path in (ROOT / "einformer" / "notes" / "texts").glob("*.ein"))
QUICK = {*DOCUMENTS, "gpt2", "llama", "gpt_oss", "deepseek_v3", "mamba2", "delta_net"}
TEXTS = [pytest.param(name, marks=[] if name in QUICK else pytest.mark.slow) for name in (*DOCUMENTS, *shipped.TEXTS)]
INDEXED = {"E": 4, "K": 6}  # the part of an index head that is rotated is no longer than the head
GIVEN = {"gptj": {"R": 4, "D": 24, "A": 3}}  # its default is for heads of a real size
GIVEN |= dict.fromkeys(("axk2", "deepseek_v32", "glm_moe_dsa"), INDEXED)
MATRICES = [name for name in conventions() if style(name)]


def fitted(about: Subject) -> Legend:
    """Small sizes that fit the legend."""
    random = Random(0)
    for _ in range(3000):
        sizes = {letter: random.choice((2, 3, 4, 6, 8, 24)) for letter in about.letters()}
        legend = replace(about.legend, values={**about.legend.values, **sizes})
        if fits(legend):
            return legend
    raise AssertionError(about.name)


def fits(legend: Legend) -> bool:
    try:
        axes = [axis for axis in legend.axes.values() if legend.length(axis.letter)]
        return all(axis.bound is None or legend.length(axis.letter) <= legend.number(axis.bound) for axis in axes)
    except EinformerError:
        return False


def oracles(spec: Specification, legend: Legend, columns: bool = False, keeps: bool = False) -> Iterator[Oracle]:
    """An oracle for each layer."""
    written = apart(spec.written)
    found = write_formulas(written, MatrixStyle(columns=columns, weights="A" * keeps), translate=Recorder)
    for name, lines in found.items():
        yield Oracle(written, lines, legend, called_sizes(found, name, legend), np.random.default_rng(len(name)))


@pytest.fixture(autouse=True, scope="module")
def _infinite() -> Iterator[None]:
    with np.errstate(all="ignore"):
        yield


# ------------------------------------------------------------------------------------------------------------- proofs


@pytest.mark.parametrize("name", TEXTS)
def test_each_line_of_a_text_is_what_its_indices_say(name: str) -> None:
    """Vectors as rows and as columns, weights of attention in a line of their own and not."""
    spec = load(name)
    legend = fitted(isolate(spec, GIVEN.get(name, {})))
    for form in (False, True):
        found = [each for oracle in oracles(spec, legend, form, form) for each in oracle.differences()]
        assert bool(found) == (name != "loss")  # whose one line reads a logit at the place of a token
        assert [line.equation for line, difference in found if not difference < 1e-9] == []


def proved(drawn: well_formed.Text, columns: bool) -> set[str]:
    """Each line of a random text is what its indices say; the signs that came up."""
    spec, seen = parse(drawn.text), set[str]()
    model = spec.bind(**drawn.sizes(2, 3, 4, 5))
    for oracle in oracles(spec, model.legend, columns):
        for line, difference in oracle.differences():
            assert difference < 1e-9, line
        seen |= oracle.seen
    return seen


def test_each_line_of_a_random_text_is_what_its_indices_say() -> None:
    seen = [proved(well_formed.written(Random(seed)), seed % 2 == 0) for seed in range(40)]
    assert set().union(*seen) >= SIGNS - {r" \cdot ", "{", "^{"}


@pytest.mark.slow
@settings(max_examples=100, deadline=None)
@given(well_formed.texts(), st.booleans())
def test_whatever_hypothesis_writes_is_what_its_indices_say(drawn: well_formed.Text, columns: bool) -> None:
    with np.errstate(all="ignore"):
        proved(drawn, columns)


def test_every_sign_is_proved() -> None:
    """Those of the quick texts, and of lines that no text has."""
    seen = set[str]()
    odd = of(
        "s, d, e",
        "layer F(x_sd, q_e) -> y_se:",
        "weights A_de",
        "u_sd = sqrt(D) 2 (mean_sd x_sd)^2 x_sd / (1 + x_sd^2)",
        "return (sum_d(u_sd A_de)) q_e / (sum_d x_sd^2)",
    )
    for spec in (odd, *map(load, sorted(QUICK))):
        for oracle in oracles(spec, fitted(isolate(spec, {}))):
            assert all(difference < 1e-9 for _, difference in oracle.differences())
            seen |= oracle.seen
    assert seen >= SIGNS


TAKEN = {
    "read once": (["y_sd = a_ss' x_s'd"], 1),
    "read twice": (["b_sd = a_ss' x_s'd", "y_sd = a_ss' b_s'd"], 3),
    "after what it reads is new": (["x_sd <- 2 x_sd", "y_sd = a_ss' x_s'd"], 3),
    "after what a line in it reads is new": (["b_ss' = 2 a_ss'", "x_sd <- 2 x_sd", "y_sd = b_ss' x_s'd"], 3),
    "after what it reads is new in a loop": (["for l < L:", "  x_sd <- 2 x_sd", "y_sd = a_ss' x_s'd"], 4),
    "read the other way round": (["y_s'd = a_ss' x_sd"], 1),
    "read twice in one line": (["y_sd = a_ss' a_s's'' x_s''d"], 2),
    "new once more": (["a_ss' <- 2 a_ss'", "y_sd = a_ss' x_s'd"], 3),
}


HEADS = r"\mathrm{Concat}(%s_{1}, \dots, %s_{A})"
GROUPS = {  # the sides of the first line, by rows and by columns
    "of a vector": (["layer Line(x_d) -> y_ae:", "y_ae = x_{(ae)}"], [HEADS % ("y", "y"), "x"],
                    [r"\mathrm{Concat}_{a}(y_{a}^{\top})", r"x^{\top}"]),
    "before an axis": (["layer Line(x_df) -> y_a:", "weights A_fe", "y_fea = x_{(ae)f}", "return y_fea A_fe"],
                       *[[HEADS % ("Y", "Y"), r"X^{\top}"]] * 2),
    "on the left before an axis": (["layer Line(x_afe) -> y_df:", "y_{(ae)f} = x_afe"],
                                   *[[r"Y^{\top}", HEADS % ("X", "X")]] * 2),
    "that a function reads": (["layer Line(x_ae) -> y_ae:", "u_{(ea)} = x_ae", "y_ae = tanh(u_{(ea)})"],
                              *([u, r"\mathrm{Concat}_{e}(x_{e}^{\top})"] for u in ("u", r"u^{\top}"))),
}  # fmt: skip


@pytest.mark.parametrize("case", GROUPS)
def test_heads_side_by_side_stand_in_columns(case: str) -> None:
    """By rows and by columns; a line that has no form stays in indices."""
    body, *printed = GROUPS[case]
    axes = ["a", "e: H", *["d: D = A H"] * ("d" in body[0]), *["f"] * ("f" in body[0])]
    spec = of(", ".join(axes), *body)
    for columns, sides in enumerate(printed):
        (oracle,) = oracles(spec, fitted(isolate(spec, {})), bool(columns))
        first, *_ = lines = list(oracle.differences())
        assert all(difference < 1e-9 for _, difference in lines)
        assert [side and side.text for side in (first[0].left, first[0].right)] == sides


@pytest.mark.parametrize("case", TAKEN)
def test_a_line_is_taken_in_where_nothing_changes(case: str) -> None:
    """How many lines are left, and what they say."""
    body, left = TAKEN[case]
    spec = of("s, d" + ", l" * ("loop" in case), "layer Line(x_sd) -> y_sd:", "a_ss' = Sm_s'(x_sd x_s'd)", *body)
    (oracle,) = oracles(spec, fitted(isolate(spec, {})))
    found = list(oracle.differences())
    assert len(found) == left
    assert all(difference < 1e-9 for _, difference in found)


# -------------------------------------------------------------------------------------------------- what is printed

# Read off the documents: S000 "Self-Attention", S002, S003 "Attention" and "Multi Head", Vaswani et al. 3.2.
PRINTED = {
    "s000": [
        r"Q = X W^{(q)}", r"K = X W^{(k)}", r"V = X W^{(v)}",
        r"A = \mathrm{Softmax}\!\left(\frac{Q K^{T}}{\sqrt{D_{q}}}\right)", r"= A V",
        r"A^{(i)} = \mathrm{Softmax}\!\left(\frac{Q^{(i)} K^{(i)T}}{\sqrt{D_{\mathrm{head}}}}\right)",
        r"W^{(q)} \in \mathbb{R}^{D \times D_{q}}",
    ],
    "s002": [
        r"Q = X W_{Q}", r"K = X W_{K}", r"V = X W_{V}", r"= \mathrm{softmax}(X X^{T}) \, X",
        r"= \mathrm{softmax}\!\left(\frac{Q K^{T}}{\sqrt{D_{K}}}\right) \, V", r"W_{Q} \in \mathbb{R}^{m \times D_{K}}",
    ],
    "s003": [
        r"X W_{Q}", r"\mathrm{Attention}(Q, K, V) = \mathrm{softmax}\!\left(\frac{Q K^{\top}}{\sqrt{d}}\right) \, V",
        r"= \mathrm{Concat}(Z_{1}, \dots, Z_{h}) \, W_{O}", r"W_{1} \in \mathbb{R}^{d \times d_{\mathrm{ff}}}",
        r"W_{E} \in \mathbb{R}^{V \times d}", r"= Z W_{U}",
    ],
}  # fmt: skip


@pytest.mark.parametrize("name", PRINTED)
def test_a_document_reads_as_it_is_printed(name: str) -> None:
    found = load(name).latex(name)
    assert [each for each in PRINTED[name] if each not in found] == []


def test_several_heads_read_as_in_their_paper() -> None:
    found = load("s003").latex("vaswani")
    head = r"\mathrm{softmax}\!\left(\frac{Q_{i} K_{i}^{T}}{\sqrt{d_{k}}}\right) \, V_{i}"
    assert rf"\mathrm{{head}}_{{i}} = \mathrm{{Attention}}(Q_{{i}}, K_{{i}}, V_{{i}}) = {head}" in found
    assert r"\mathrm{MultiHead}(X) = \mathrm{Concat}(\mathrm{head}_{1}, \dots, \mathrm{head}_{h}) \, W^{O}" in found
    assert r"\mathrm{FeedForward}(\mathrm{MultiHead}(X))" in found
    assert r"Q_{i} = X W_{i}^{Q}" in found


def test_a_transposed_weight_is_no_other_weight() -> None:
    assert r"\mathrm{RMSNorm}(Z) \, (W^{U})^{T}" in load("llama").latex("vaswani")


def test_a_capital_that_means_something_else_is_not_taken() -> None:
    """`W` is of weights, `E` a size that the line has."""
    spec = of("s, d, e", "layer Line(w_sd, e_sd) -> y_se:", "weights Q_de", "y_se = (w_sd + e_sd) Q_de / sqrt(E)")
    assert r"\frac{(w + e) \, W_{Q}}{\sqrt{E}}" in spec.latex(form="matrix")


def test_a_matrix_is_not_called_as_a_size_of_the_weights_beside_it() -> None:
    """`C` is the size of c in the weights."""
    spec = of("s, d, c", "layer Line(x_sd) -> y_sd:", "weights P_dc, O_cd", "c_sc = x_sd P_dc", "y_sd = c_sc O_cd")
    page = spec.latex(form="matrix")
    assert r"c = X W_{P}" in page
    assert r"W_{P} \in \mathbb{R}^{D \times C}" in page


def test_a_vector_with_the_letter_of_a_number_is_bold() -> None:
    head = ["layer Line(x_sd) -> y_sd:", "weights β_d", "return x_sd β_d + β"]
    spec = of("s, d", *head, scalars="β = 2")
    assert r"= X \operatorname{diag}(\boldsymbol{\beta}) + \beta (\mathbf{1} \mathbf{1}^{\top})" in spec.latex(form="matrix")
    (oracle,) = oracles(spec, fitted(isolate(spec, {})))
    assert all(difference < 1e-9 for _, difference in oracle.differences())


def test_an_author_s_remarks_on_weights_are_printed() -> None:
    """And instances of one layer stand on one line, as in the text."""
    head = ["layer Scale(z_d) -> z_d:", "return 2 z_d", "layer Line(x_sd) -> y_sd:", "weights A_dd'    # the map"]
    spec = of("s, d", *head, "weights pre, post: Scale", "return pre(post(x_sd' A_d'd))")
    page = spec.latex(form="matrix")
    assert r"\textbf{weights}\ W_{A} \in \mathbb{R}^{D \times D} \qquad \text{the map}" in page
    assert r"\textbf{weights}\ \mathrm{pre}, \mathrm{post}\colon \mathrm{Scale}" in page


LABELS = {
    "gpt2.CausalAttention": ("ab", "b"),
    "gpt2.MLP": ("b", "b"),
    "llama.Attention": ("gj", ""),
    "deepseek_v3.LatentAttention": ("a", ""),
    "gpt_oss.Experts": ("x", ""),
    "s000.Heads": ("h", ""),
    "s003.Single": ("", ""),
    "mamba2.Mamba2": ("bgjs", "b"),
}


@pytest.mark.parametrize("name", LABELS)
def test_labels_are_sequences_heads_and_experts(name: str) -> None:
    """Those of a layer, and which of them are not said."""
    document, _, layer = name.partition(".")
    found = write_formulas(load(document).written, MatrixStyle())[layer].labels
    assert ("".join(sorted(found.chosen)), "".join(found.dropped)) == LABELS[name]


LINES = [
    ("y_sf = x_sd A_df", r"X W_{A}"),
    ("y_sv = x_sd E_vd", r"X W_{E}^{\top}"),
    ("y_sd = x_sd γ_d", r"X \operatorname{diag}(\gamma)"),
    ("y_sd = x_sd + γ_d", r"X + \mathbf{1} \gamma"),
    ("y_sd = x_sd + 1", r"X + \mathbf{1} \mathbf{1}^{\top}"),
    ("y_sd = x_sd p_sd", r"X \odot P"),
    ("y_sd = x_sd / (sum_d x_sd^2)", r"\operatorname{diag}(X^{\circ 2} \mathbf{1})^{-1} X"),
    ("y_sd = x_sd / (1 + p_sd^2)", r"X \oslash (\mathbf{1} \mathbf{1}^{\top} + P^{\circ 2})"),
    ("y_sd = Sm_s(x_sd)", r"\mathrm{softmax}(X^{\top})^{\top}"),
    ("y_s = x_sd γ_d", r"X \gamma^{\top}"),
    ("y_s = sum_d x_sd", r"X \mathbf{1}"),
    ("y_s = x_sd p_sd", r"(X \odot P) \, \mathbf{1}"),
    ("y_sd = x_sd - mean_sd x_sd", r"X - \mathrm{mean}_{sd}(X) \, (\mathbf{1} \mathbf{1}^{\top})"),
    ("y_d = mean_s x_sd", r"\mathrm{mean}(X^{\top})^{\top}"),
    ("y_ss' = x_sd p_s'd", r"X P^{\top}"),
    ("y_sf = (sum_d x_sd) β_f", r"X \mathbf{1} \beta"),
    ("y_sd = where(p_sd > 0, x_sd, 0)", r"\mathrm{where}(P > 0, X, 0)"),
    ("y_sd = cumsum_s x_sd", r"\mathrm{cumsum}(X^{\top})^{\top}"),
    ("y_sd = cumprod_d(erf(x_sd))", r"\mathrm{cumprod}(\mathrm{erf}(X))"),
]


@pytest.mark.parametrize(("line", "expected"), LINES)
def test_how_one_line_reads(line: str, expected: str) -> None:
    left = line.partition(" = ")[0]
    given = [each for each in ("x_sd", "p_s'd", "p_sd") if each in line]
    weights = [each for each in ("A_df", "E_vd", "γ_d", "β_f") if each in line]
    formals = ", ".join(each.replace("'", "") for each in given) or "x_sd"
    axes = ", ".join(letter for letter in "sdfv" if letter in "".join(re.findall("_[a-z]+", line + formals)))
    head = [f"layer Line({formals}) -> {left}:", *(f"weights {each}" for each in weights)]
    spec = of(axes, *head, line)
    assert spec.latex(form="matrix").splitlines()[-2].partition(" = ")[2].strip() == expected


# -------------------------------------------------------------------------------------------------- all the others


@pytest.mark.parametrize("name", TEXTS)
def test_every_text_can_be_written_in_every_document_s_matrices(name: str) -> None:
    """Braces are closed, no letter has two scripts above, no two tensors of a layer are called the same."""
    spec = load(name)
    for convention in ["ours", *MATRICES]:
        found = spec.latex(convention, "matrix")
        assert found.count("{") == found.count("}")
        assert tex_refuses(found) == "", convention
        theirs, how = render(spec.written, convention), style(convention) or MatrixStyle()
        for lines in write_formulas(theirs, how).values():
            symbols = list(called(lines.layer, lines.translator.names))
            assert len(set(symbols)) == len(symbols), (convention, lines.layer.name, sorted(symbols))


def tex_refuses(text: str) -> str:
    """What has two scripts above it, or a command that runs into a letter."""
    while not (found := re.search(r"\^[•\w](_[•\w])?\^|'_[•\w]\^|\\(prime|top|circ|odot)[A-Za-z]", text)):
        shorter = re.sub(r"\{[^{}]*\}", "•", text)
        if shorter == text:
            return ""
        text = shorter
    return found[0]


def test_tex_refuses_two_scripts() -> None:
    for text in ("U^{(ng)}^{2}", "x'_{s}^{T}", r"x^{\primeT}", r"\sqrt{U^{a}_{b}^{2}}"):
        assert tex_refuses(text)
    assert tex_refuses(r"{U^{(n)}}^{2} \mathbb{R}^{D \times D} x_{s}^{\prime T} \frac{a^{2}}{b^{2}}") == ""


def called(layer: Layer, by: LayerNames) -> Iterator[str]:
    """What a layer's tensors are called as matrices."""
    lefts = {each.left.name for each in equations(layer.body) if each.relation != "return"}
    weights = {weight.name for weight in layer.weights if weight.kind != "instance"}
    for name in lefts | weights | {formal.name for formal in layer.formals}:
        base, scripts = by.base(name, True)
        yield add_scripts(base, scripts)


def test_the_page_holds_whole_texts() -> None:
    page = make_page("matrices")
    assert re.findall(r"^## (.*)$", page, re.M) == [
        "S000",
        "S002",
        "S003",
        "S003 in the letters of Vaswani et al.",
        "GPT-2",
        "Llama",
    ]
    assert "\\mathrm{Softmax}" in page


def test_documents_that_write_matrices_have_formulas_of_attention() -> None:
    assert {name for name in conventions() if attention(name)} == {"vaswani", "megatron", "s000", "s002", "s003"}
    assert attention("s000")[0] == PRINTED["s000"][5]


def test_a_form_that_there_is_not_is_refused() -> None:
    with refuses("E605", "tensor"):
        load("gpt2").latex(form="tensor")


@pytest.mark.parametrize("name", conventions())
def test_a_document_is_written_in_its_own_form(name: str) -> None:
    spec = load("s003")
    assert spec.latex(name) == spec.latex(name, "matrix" if style(name) else "index")
