"""Where does each implicit sum stand (R2)? Texts with their verdict, and what holds of every text.

A text with one reading is shown with each sum written out, `=` where there is none. A text that is refused is shown
with the code of the error and the place.
"""

from __future__ import annotations

import functools
import re
import string
from collections import Counter

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from einformer import EinformerError
from einformer.errors import Finding, Source
from einformer.language import parser, printer
from einformer.language.scope import Scope
from einformer.language.tree import Equation, Spec
from einformer.language.walk import equations
from tests.refusals import findings_of
from tests.texts import spec, text

LAYERS = """
layer RMSNorm_d(z_d) -> z_d:
  return z_d
layer Router(z_d) -> p_x:
  return z_d
layer Rotary(x_se) -> y_se:
  return x_se
"""

TRAPS = """
z_bsd = gelu(z_bsd W_df + ω_f) U_fd                       E303 gelu(z_bsd W_df + ω_f)
h_bsf = silu(z_bsd G_df) (z_bsd U_df)                     E303 silu(z_bsd G_df)
y_bsea = Sm_s'(q_bsea k_bs'ea / sqrt(H) + m_ss') v_bs'ea  E303 Sm_s'(q_bsea k_bs'ea / sqrt(H) + m_ss')
y_bsd = sigmoid(z_bsd W_d) y_bsd                          E303 sigmoid(z_bsd W_d)
y_bsd = z_bsd / sqrt(z_bsd z_bsd / D + ε)                 E303 sqrt(z_bsd z_bsd / D + ε)
y_bs = a_bsd b_d + c_bsd e_d                              y_bs = sum_d(a_bsd b_d) + sum_d(c_bsd e_d)
"""
MENDED = """
z_bsd = gelu(z_bsd' W_d'f + ω_f) U_fd                     z_bsd = sum_f(gelu(sum_d'(z_bsd' W_d'f) + ω_f) U_fd)
h_bsf = gelu(z_bsd W_df + ω_f)                            h_bsf = gelu(sum_d(z_bsd W_df) + ω_f)
z_bsd = h_bsf U_fd                                        z_bsd = sum_f(h_bsf U_fd)
h_bsf = silu(z_bsd G_df) (z_bsd' U_d'f)                   h_bsf = silu(sum_d(z_bsd G_df)) sum_d'(z_bsd' U_d'f)
h_bsf = silu(g_bsf) (z_bsd U_df)                          h_bsf = silu(g_bsf) sum_d(z_bsd U_df)
h_bsf = silu(sum_d (z_bsd G_df)) (z_bsd U_df)             h_bsf = silu(sum_d(z_bsd G_df)) sum_d(z_bsd U_df)
w_bss'a = Sm_s'(q_bsea k_bs'ea / sqrt(H) + m_ss')         w_bss'a = Sm_s'(sum_e(q_bsea k_bs'ea / sqrt(H)) + m_ss')
y_bsea = w_bss'a v_bs'ea                                  y_bsea = sum_s'(w_bss'a v_bs'ea)
y_bsea = Sm_s'(q_bse'a k_bs'e'a + m_ss') v_bs'ea          y_bsea = sum_s'(Sm_s'(sum_e'(q_bse'a k_bs'e'a) + m_ss') v_bs'ea)
y_bsd = sigmoid(z_bsd' W_d') y_bsd                        y_bsd = sigmoid(sum_d'(z_bsd' W_d')) y_bsd
y_bsd = z_bsd / sqrt(z_bsd' z_bsd' / D + ε)               y_bsd = z_bsd / sqrt(sum_d'(z_bsd' z_bsd' / D) + ε)
y_bsd = z_bsd / sqrt(mean_d z_bsd^2 + ε)                  y_bsd = z_bsd / sqrt(mean_d(z_bsd^2) + ε)
y_bsd = z_bsd / sqrt(sum_d z_bsd z_bsd / D + ε)           y_bsd = z_bsd / sqrt(sum_d(z_bsd z_bsd) / D + ε)
"""
LEAVES_AND_TERMS = """
y_s = z_sd                                                E301 d
y_s = z_sd + W_d                                          E301 d
y_s = z_sd W_d + γ_d                                      E301 d
y_s = (z_sd)^2                                            E301 d
y_s = z_sd u_se                                           E301 d, E301 e
y = z_sd W_d                                              E301 s
y_sd = 1                                                  E302 y_sd
y_sd = z_s                                                E302 y_sd
ψ_h = 1                                                   E302 ψ_h
y_sd = z_sd + γ_d                                         =
y_sd = z_sd + 1                                           =
y_sd = -z_sd                                              =
y_sd = z_s W_d                                            =
y_sd = z_sd W_d                                           =
y_s = z_sd W_d                                            y_s = sum_d(z_sd W_d)
y_s = -z_sd W_d                                           y_s = sum_d(-z_sd W_d)
y = z_sd W_sd                                             y = sum_{sd}(z_sd W_sd)
y_s = 2 z_sd W_d / 3                                      y_s = sum_d(2 z_sd W_d / 3)
y_s = z_sd / W_d                                          y_s = sum_d(z_sd / W_d)
y_s = 1 / (z_sd W_d)                                      y_s = 1 / sum_d(z_sd W_d)
y_sf = z_sd (W_df + U_df)                                 y_sf = sum_d(z_sd (W_df + U_df))
y_sf = z_sd (W_df + ω_f)                                  y_sf = sum_d(z_sd (W_df + ω_f))
y_sd = (z_sd - μ_s) γ_d                                   =
y_sd' = (z_sd - μ_s) W_dd'                                y_sd' = sum_d((z_sd - μ_s) W_dd')
y_s = (z_sd W_d)^2                                        y_s = (sum_d(z_sd W_d))^2
y_s = z_sd W_d^2                                          y_s = sum_d(z_sd W_d^2)
"""
OPERATORS = """
y_s = mean_d z_s                                          E306 d
y_sd = mean_d z_sd                                        E302 y_sd
y_s = Sm_d(z_sd)                                          E301 Sm_d(z_sd)
p = where(top_{2,x}(r_x), r_x, 0)                         E301 top_{2,x}(r_x)
y_se = (sum_d z_sd) W_de                                  E301 d
y_s = sum_d z_sd                                          y_s = sum_d(z_sd)
y_s = mean_d z_sd                                         y_s = mean_d(z_sd)
y_s = mean_d (z_sd W_d)                                   y_s = mean_d(z_sd W_d)
y_sd = z_sd - mean_d z_sd                                 y_sd = z_sd - mean_d(z_sd)
y_sd = z_sd / sum_d z_sd                                  y_sd = z_sd / sum_d(z_sd)
y_se = sum_d z_sd W_de                                    y_se = sum_d(z_sd W_de)
y_s = Sm_d(z_sd) W_d                                      y_s = sum_d(Sm_d(z_sd) W_d)
y_sd = Sm_d(z_sd)                                         =
y_sf = Sm_f(z_sd W_df)                                    y_sf = Sm_f(sum_d(z_sd W_df))
w_bss' = exp(t_bss') / sum_s' exp(t_bss')                 w_bss' = exp(t_bss') / sum_s'(exp(t_bss'))
c_sa = cumsum_s(log(α_sa))                                =
t_ss' = w_ss' + u_se u_se                                 t_ss' = w_ss' + sum_e(u_se u_se)
t_ss' = w_ss' + u_se r_s'e                                t_ss' = w_ss' + sum_e(u_se r_s'e)
t_ss' = w_ss' + u_s                                       =
p_x = where(top_{2,x}(r_x), r_x, 0)                       =
o_g = sum_j(where(top_{2,j}(h_{(gj)}), h_{(gj)}, 0))      =
n_s = lse_s' t_ss'                                        n_s = lse_s'(t_ss')
λ = mean_{bs}(lse_v y_bsv - y_{b s t_bs})                 λ = mean_{bs}(lse_v(y_bsv) - y_{b s t_bs})
y_e = max_{ab} z_abe                                      y_e = max_{ab}(z_abe)
"""
SLOTS = """
m_s = where(s' <= s, 0, -inf)                             E301 s'
t_sa = q_sea r_{(s - s')ea}                               E301 s'
y_d = E_{x_s d}                                           E301 s
m_ss' = where(s' <= s, 0, -inf)                           =
m_ss'a = where(s' <= s, λ_a (s' - s), -inf)               =
t_ss'a = q_sea r_{(s - s')ea}                             t_ss'a = sum_e(q_sea r_{(s - s')ea})
y_sd = E_{x_s d}                                          =
y_se = x_{s n_e}                                          =
q_bseg = χ_ceg p_{b(s - c)eg}                             q_bseg = sum_c(χ_ceg p_{b(s - c)eg})
y_{s(ih)} = x_{s(ih)} cos(s θ_h) + (2 i - 1) x_{s((1 - i)h)} sin(s θ_h)  =
u_{bs(ae)} = y_bsea                                       =
q_bsea = p_{bs(ae)}                                       =
y_s = q_{s(ae)} W_ae                                      y_s = sum_{ae}(q_{s(ae)} W_ae)
"""
READINGS = """
h_sgahn = exp(Δ_sa W_a) w_{(s - 1)gahn}                   E303 exp(Δ_sa W_a)
y_bsu = q_bse (k_bs'e v_bs'u) m_ss'                       E303 k_bs'e v_bs'u
h_bsf = silu(z_bsd G_dmf h_bsm) (z_bsd U_df)              E303 z_bsd U_df
y_s = z_sd W_d / sqrt(z_sd U_d)                           E303 sqrt(z_sd U_d)
h_sgahn = a_sa w_{(s - 1)gahn}                            =
y_bsu = q_bse k_bs'e v_bs'u m_ss'                         y_bsu = sum_{es'}(q_bse k_bs'e v_bs'u m_ss')
y_bsd' = (x_bsd γ_d + β_d) W_dd'                          y_bsd' = sum_d((x_bsd γ_d + β_d) W_dd')
y_sf = relu(γ_d z_sd) W_df                                y_sf = sum_d(relu(γ_d z_sd) W_df)
y_sf = sum_d (relu(γ_d z_sd) W_df)                        y_sf = sum_d(relu(γ_d z_sd) W_df)
y_bsd = p_bsx (silu(g_bsxf) u_bsxf O_xfd)                 y_bsd = sum_x(p_bsx sum_f(silu(g_bsxf) u_bsxf O_xfd))
y_bsd = p_bsx silu(g_bsxf) u_bsxf O_xfd                   y_bsd = sum_{xf}(p_bsx silu(g_bsxf) u_bsxf O_xfd)
y_bsd = p_bsx (g_bsxf O_xfd + ω_xd)                       y_bsd = sum_x(p_bsx (sum_f(g_bsxf O_xfd) + ω_xd))
y_bsd = p_bsx g_bsxf O_xfd + ω_xd                         E301 x
y_bsfa = exp(q_bsea k_bs'ea) v_bs'fa                      y_bsfa = sum_s'(exp(sum_e(q_bsea k_bs'ea)) v_bs'fa)
t_ss'a = (q_sna K_rna c_s'r + p_sea t_s'e) τ              t_ss'a = (sum_{nr}(q_sna K_rna c_s'r) + sum_e(p_sea t_s'e)) τ
S_seua = α_sa S_{(s - 1)eua} + k_sea v_sua                =
"""
CALLS = """
h_s = RMSNorm(z_sd)                                       E301 RMSNorm(z_sd)
p_bs = Router(z_bsd)                                      E301 Router(z_bsd)
p_bsx = Router(z_bsx)                                     E402 Router(z_bsx)
p_bsx = Router(z_bsdx)                                    E406 Router(z_bsdx)
p_bsx = Router(z_bsd)                                     =
p_bsd = Router(z_bsd) R_dx                                p_bsd = sum_x(Router(z_bsd) R_dx)
y_sd = Router(z_sd) W_xd                                  y_sd = sum_x(Router(z_sd) W_xd)
h_sf = RMSNorm(z_sd) W_df                                 h_sf = sum_d(RMSNorm(z_sd) W_df)
q_segj = Rotary(z_sd Q_degj)                              q_segj = Rotary(sum_d(z_sd Q_degj))
q_segj = RMSNorm_e(z_sd Q_degj)                           q_segj = RMSNorm_e(sum_d(z_sd Q_degj))
w_ss'g = q_seg Rotary(k_s'eg)                             w_ss'g = sum_e(q_seg Rotary(k_s'eg))
"""
NOT_CAUGHT = """
Δ_se = W_er U_re x_se                                     Δ_se = sum_r(W_er U_re x_se)
y_bse = w_bss'a v_bs'ea                                   y_bse = sum_{s'a}(w_bss'a v_bs'ea)
h_f = silu(z_d G_dmf h_m) (z_d U_dnf k_n)                 h_f = sum_d(silu(sum_m(z_d G_dmf h_m)) sum_n(z_d U_dnf k_n))
"""
TABLES = [TRAPS, MENDED, LEAVES_AND_TERMS, OPERATORS, SLOTS, READINGS, CALLS, NOT_CAUGHT]
ROWS = [re.split(r"  +", row) for table in TABLES for row in table.strip().split("\n")]


@functools.cache
def layers() -> Spec:
    return parser.parse(Source("<layers>", legend("sedx") + LAYERS))[0]


def legend(line: str) -> str:
    """Every letter of a line is an axis."""
    return "axes\n" + "".join(f"  {letter}: {letter.upper()}\n" for letter in sorted({*line} & {*string.ascii_lowercase}))


def read(line: str) -> Equation:
    """An equation in a legend in which every letter is an axis."""
    source = Source("<text>", f"{legend(line)}layer Text(x) -> y:\n  {line}\n")
    spec, findings = parser.parse(source, layers())
    assert not findings, findings[0]
    (equation,) = equations(spec.layers[0].body)
    return equation


def elaborated(equation: Equation) -> tuple[Equation, list[Finding]]:
    scope = Scope({layer.name: layer for layer in layers().layers})
    return scope.equation(equation), scope.findings


def place(finding: Finding) -> str:
    return finding.span.text


def verdict(line: str) -> str:
    """The text with its sums written out, `=` where it has none, or what is wrong with it and where."""
    equation, findings = elaborated(read(line))
    if findings:
        return ", ".join(f"{finding.code} {place(finding)}" for finding in findings)
    shown = printer.show(equation)
    return "=" if shown == line else shown


@pytest.mark.parametrize(("line", "expected"), ROWS, ids=[row[0] for row in ROWS])
def test_the_reading_of(line: str, expected: str) -> None:
    assert verdict(line) == ("=" if line == expected else expected)


def test_every_rule_is_broken_somewhere() -> None:
    broken = Counter(code for _, verdict in ROWS for code in re.findall(r"E\d{3}", verdict))
    assert len(ROWS) > 100
    assert broken.keys() == {"E301", "E302", "E303", "E306", "E402", "E406"}


def test_a_call_consumes_what_its_layer_takes() -> None:
    """An index that a call consumes occurs once; it is not left over."""
    assert verdict("p_bsx = Router(z_bsd)") == "="


def test_constants_are_scalars() -> None:
    """A scalar may be the same for every index; a tensor may not."""
    lines = ["layer Same(z_d) -> z_d:", "return z_d ψ_d"]
    assert not findings_of(text("d", *lines, scalars="ψ_d = 1"))


def test_a_scalar_has_no_sum() -> None:
    """What is not wanted on its left side is left over, as in an equation; a sum belongs into a layer."""
    lines = ["layer Same(z_d) -> z_d:", "return z_d c"]
    for scalars, code in {"c = d": "E301", "θ_d = d; c = θ_d": "E301", "θ_d = d; c = θ_d θ_d": "E604"}.items():
        findings = findings_of(text("d", *lines, scalars=scalars))
        assert [finding.code for finding in findings] == [code]


def test_reading_oneself_needs_an_earlier_position_or_an_arrow() -> None:
    head, model = "layer Mix(z_sd) -> z_sd:", ("model Last(z_sd) -> z_sd causal in s:", "return z_sd")
    for line, codes in {
        "W_sd = z_sd W_sd": ["E507"],
        "W_sd = z_sd W_{(s + 1)d}": ["E507"],
        "W_sd = z_sd W_{(s - 0)d}": ["E507"],
        "W_sd = z_sd W_{(s - d)d}": ["E507"],
        "W_sd = z_sd + W_{(s - 1)d}": [],
        "W_sd = z_sd + W_{(s - 1 - d)d}": [],
        "W_sd = z_sd + W_{(s - 2 D)d}": [],
        "W_sd = z_sd + W_{(s - s - 1)d}": ["E507"],
        "W_sd <- z_sd W_sd": ["E204"],
    }.items():
        found = findings_of(text("s, d", head, line, "return z_sd W_sd", *model))
        assert [finding.code for finding in found] == codes, line


def test_what_a_scalar_says_is_an_earlier_position_once_it_is_bound() -> None:
    lines = "model Mix(z_sd) -> z_sd causal in s:", "W_sd = z_sd + W_{(s - N)d}", "return z_sd + W_sd"
    unbound = spec("s, d", *lines, scalars="N = 2")
    unbound.bind(D=3, N=2).source()
    with pytest.raises(EinformerError, match="E507"):
        unbound.bind(D=3, N=0)


def test_two_terms_may_differ_in_what_they_sum() -> None:
    assert verdict("y_s = z_sd W_d + x_se V_e") == "y_s = sum_d(z_sd W_d) + sum_e(x_se V_e)"


# ------------------------------------------------------------------------------------------------- of every equation

FORMS = [
    "{} {}",
    "{} {} {}",
    "({} + {}) {}",
    "{} + {}",
    "{} / {}",
    "relu({}) {}",
    "exp({} {}) {}",
    "({} {}) {}",
    "{}^2 {}",
    "sqrt({})",
]


@st.composite
def formulas(draw: st.DrawFn, depth: int = 2) -> str:
    """A formula of tensors over a few letters."""
    if depth == 0 or draw(st.integers(0, 3)) == 0:
        letters = draw(st.lists(st.sampled_from(["a", "b", "c", "d", "a'"]), min_size=1, max_size=3, unique=True))
        return f"{draw(st.sampled_from('xyzW'))}_{''.join(letters)}"
    form = draw(st.sampled_from(FORMS))
    parts = [draw(formulas(depth=depth - 1)) for _ in range(form.count("{}"))]
    return form.format(*(f"({part})" if " " in part else part for part in parts))


def letters(right: str) -> list[str]:
    """The indices of a formula."""
    return sorted(set(re.findall(r"[a-d]'?", "".join(re.findall(r"_([a-d']+)", right)))))


def equation(left: list[str], right: str) -> str:
    return f"T{'_' if left else ''}{''.join(left)} = {right}"


@st.composite
def lines(draw: st.DrawFn) -> str:
    """An equation whose left side has some of the letters of its right side."""
    right = draw(formulas())
    return equation(draw(st.lists(st.sampled_from(letters(right)), unique=True)), right)


def renamed(line: str) -> str:
    """Every letter of an index is another one, in the same alphabetical order or not."""
    other = str.maketrans("abcd", "phgq")
    return re.sub(r"_\{?[a-d']+", lambda match: match[0].translate(other), line)


@settings(max_examples=200, deadline=None)
@given(lines())
def test_renaming_an_index_throughout_changes_nothing(line: str) -> None:
    equation, findings = elaborated(read(line))
    other, others = elaborated(read(renamed(line)))
    assert [(f.code, renamed_place(place(f))) for f in findings] == [(f.code, place(f)) for f in others]
    if not findings:
        assert renamed(printer.show(equation)) == printer.show(other)


def renamed_place(shown: str) -> str:
    """The place of a finding after renaming: a letter alone, or a formula."""
    return renamed(shown) if "_" in shown else renamed(f"_{shown}")[1:]


@settings(max_examples=200, deadline=None)
@given(formulas())
def test_elaboration_is_idempotent(right: str) -> None:
    """What is written out means itself, without a second reading or a further sum; nothing but the left side is left."""
    left = letters(right)
    for letter in letters(right):  # as many sums as there can be
        fewer = [other for other in left if other != letter]
        left = left if elaborated(read(equation(fewer, right)))[1] else fewer
    once, findings = elaborated(read(equation(left, right)))
    assume(not findings)
    assert elaborated(once) == (once, [])
    assert Scope({}).free(once.right).keys() == set(left)
