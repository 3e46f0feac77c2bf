"""Is what means nothing, or two things, refused by the rule that says so? One slip each, beside the text without it."""

from __future__ import annotations

import pytest

from einformer.errors import Source
from einformer.targets import examine
from tests.refusals import findings_of
from tests.texts import text

F = "layer Q(z_d) -> y_d:"
G = "layer Q(z_d) -> y_f:"
NORM = ["layer Unit(z_d) -> z_d:", "weights γ_d", "return γ_d z_d"]

# name: code, axes, the refused lines, the accepted ones
SLIPS: dict[str, tuple[str, str, list[str], list[str]]] = {
    "two sums or one": (
        "E303",
        "d, f",
        [G, "weights G_df, U_df", "return silu(z_d G_df) (z_d U_df)"],
        [G, "weights G_df, U_df", "u_f = z_d U_df", "return silu(z_d G_df) u_f"],
    ),
    "two sums or one, with a bias": (
        "E303",
        "d, f",
        [G, "weights G_df, U_df, β_f", "return silu(z_d G_df + β_f) (z_d U_df)"],
        [G, "weights G_df, U_df, β_f", "return silu(z_d G_df + β_f) (z_d' U_d'f)"],
    ),
    "a gate or a scale": (
        "E303",
        "d",
        [F, "weights W_d", "return sigmoid(z_d W_d) z_d"],
        [F, "weights W_d", "return sigmoid(z_d' W_d') z_d"],
    ),
    "a norm or one": ("E303", "d", [F, "return z_d / sqrt(z_d z_d)"], [F, "return z_d / sqrt(z_d' z_d')"]),
    "occurs once": ("E301", "d, f", [F, "weights W_df", "return z_d W_df"], [F, "weights W_df", "return z_d sum_f W_df"]),
    "is kept and not wanted": (
        "E301",
        "d, f",
        [G, "weights W_f", "return W_f Sm_d z_d"],
        [G, "weights W_f", "return W_f sum_d (Sm_d z_d)"],
    ),
    "stands on the left only": (
        "E302",
        "d, f",
        ["layer Q(z_d) -> y_df:", "return 2 z_d"],
        ["layer Q(z_d) -> y_df:", "return z_d + f"],
    ),
    "twice on one tensor": (
        "E305",
        "d",
        ["layer Q(z_dd') -> y_d:", "return z_dd"],
        ["layer Q(z_dd') -> y_d:", "return sum_d' z_dd'"],
    ),
    "an operator over what is not there": ("E306", "d, f", [F, "return z_d + max_f z_d"], [F, "return z_d + max_f f"]),
    "a score without its prime": (
        "E313",
        "s, e",
        ["layer Q(q_se, k_se) -> w_ss':", "return Sm_s'(q_se k_se + where(s' <= s, 0, -inf))"],
        ["layer Q(q_se, k_se) -> w_ss':", "return Sm_s'(q_se k_s'e + where(s' <= s, 0, -inf))"],
    ),
    "a score without its prime on a line of its own": (
        "E313",
        "s, e",
        ["layer Q(q_se, k_se) -> w_ss':", "t_ss' = q_se k_se + where(s' <= s, 0, -inf)", "return Sm_s' t_ss'"],
        ["layer Q(q_se, k_se) -> w_ss':", "t_ss' = q_se k_s'e + where(s' <= s, 0, -inf)", "return Sm_s' t_ss'"],
    ),
    "a score without its prime two lines before": (
        "E313",
        "s, e",
        ["layer Q(q_se, k_se) -> w_ss':", "t_s's = q_se k_se + s'", "u_ss' = t_s's / 2", "return Sm_s'(u_ss' - s)"],
        ["layer Q(q_se, k_se) -> w_ss':", "t_s's = q_se k_s'e + s'", "u_ss' = t_s's / 2", "return Sm_s'(u_ss' - s)"],
    ),
    "scores of a line that are read again feel it there": (
        "E313",
        "s, e",
        ["layer Q(q_se, k_se) -> w_ss':", "t_ss' = q_se k_se + s'", "return Sm_s'(t_ss') s"],
        ["layer Q(q_se, k_se) -> w_ss':", "t_ss' = q_se k_se + s'", "return Sm_s'(t_ss') t_ss'"],
    ),
    "what is subtracted on a line of its own": (
        "E313",
        "s",
        ["layer Q(t_ss') -> w_ss':", "c_s = 2 t_{s 0}", "return Sm_s'(t_ss' - c_s)"],
        ["layer Q(t_ss') -> w_ss':", "c_s = max_s' t_ss'", "return Sm_s'(t_ss' - c_s)"],
    ),
    "a score without its prime, divided with the mask": (
        "E313",
        "s, e: H",
        ["layer Q(q_se, k_se, m_ss') -> w_ss':", "return Sm_s'((m_ss' - q_se k_se) / sqrt(H))"],
        ["layer Q(q_se, k_se, m_ss') -> w_ss':", "return Sm_s'((m_ss' - q_se k_s'e) / sqrt(H))"],
    ),
    "a score without its prime where the mask shows it": (
        "E313",
        "s, e",
        ["layer Q(q_se, k_se) -> w_ss':", "return Sm_s'(where(s' <= s, q_se k_se, -inf))"],
        ["layer Q(q_se, k_se) -> w_ss':", "return Sm_s'(where(s' <= s, q_se k_s'e, -inf))"],
    ),
    "a softmax over heads of what has none": (
        "E313",
        "s, a",
        ["layer Q(t_ss'a, m_ss') -> w_ss'a:", "return Sm_a(t_ss'a + m_ss')"],
        ["layer Q(t_ss'a, m_ss') -> w_ss'a:", "return Sm_s'(t_ss'a + m_ss')"],
    ),
    "a mean that a variance does not feel": (
        "E313",
        "s, d",
        ["layer Q(z_sd, c_s) -> y_s:", "return var_d (z_sd - c_s)"],
        ["layer Q(z_sd, c_s) -> y_s:", "return mean_d ((z_sd - c_s)^2)"],
    ),
    "a bias that a choice does not feel": (
        "E313",
        "s, x",
        ["layer Q(z_sx, c_s) -> y_sx:", "return where(top_{2,x}(z_sx + c_s), 1, 0)"],
        ["layer Q(z_sx, c_x) -> y_sx:", "return where(top_{2,x}(z_sx + c_x), 1, 0)"],
    ),
    "too few slots": ("E304", "d, f", [G, "weights W_df", "return z_d W_d + f"], [G, "weights W_df", "return z_d W_df"]),
    "a slot over another axis": (
        "E307",
        "d, f",
        [G, "weights W_df", "return z_d W_fd"],
        [G, "weights W_df", "return z_d W_df"],
    ),
    "a bound on another axis": (
        "E307",
        "s: S <= K, k, m",
        ["layer Q(x_s) -> y_s:", "weights P_k, R_m", "return x_s + R_s + sum_k P_k"],
        ["layer Q(x_s) -> y_s:", "weights P_k, R_m", "return x_s + P_s + sum_m R_m"],
    ),
    "a group that is not its axis": (
        "E308",
        "d, a, e: D / A",
        ["layer Q(z_d) -> y_ae:", "return z_{(aa'e)} + a'"],
        ["layer Q(z_d) -> y_ae:", "return z_{(ae)}"],
    ),
    "a number outside": ("E309", "d: 2", ["layer Q(z_d) -> y:", "return z_{2}"], ["layer Q(z_d) -> y:", "return z_{1}"]),
    "defined twice": ("E202", "d", [F, "y_d = 2 z_d", "y_d = y_d + 1"], [F, "y_d = 2 z_d", "y_d <- y_d + 1"]),
    "changed before it is defined": ("E204", "d", [F, "y_d <- 2 z_d"], [F, "y_d = 2 z_d"]),
    "used before it is defined": (
        "E205",
        "d",
        [F, "x_d = 2 y_d", "y_d = z_d", "y_d <- x_d + y_d"],
        [F, "y_d = z_d", "x_d = 2 y_d", "y_d <- x_d + y_d"],
    ),
    "defined in a loop alone": (
        "E205",
        "d, l",
        [F, "y_d = z_d", "for l < L:", "  x_d = 2 y_d", "  y_d <- x_d", "y_d <- x_d + y_d"],
        [F, "y_d = z_d", "x_d = y_d", "for l < L:", "  x_d <- 2 y_d", "  y_d <- x_d", "y_d <- x_d + y_d"],
    ),
    "defined by itself": (
        "E507",
        "s",
        ["model Q(x_s) -> h_s causal in s:", "h_s = h_s + x_s"],
        ["model Q(x_s) -> h_s causal in s:", "h_s = h_{(s - 1)} + x_s"],
    ),
    "a weight that nobody reads": (
        "E206",
        "d",
        [F, "weights W_d, V_d", "return z_d W_d"],
        [F, "weights W_d, V_d", "return z_d W_d V_d"],
    ),
    "a tensor that nobody reads": ("E203", "d", [F, "x_d = 2 z_d", "return 3 z_d"], [F, "x_d = 2 z_d", "return 3 x_d"]),
    "an axis that nobody has": ("E203", "d, e", [F, "return 3 z_d"], [F, "return z_d sum_e e"]),
    "letters that look alike": (
        "E004",
        "d",
        [F, "weights ο_d, o_d", "return z_d ο_d o_d"],
        [F, "weights ω_d, o_d", "return z_d ω_d o_d"],
    ),
    "a set of weights for each turn or one": (
        "E403",
        "d, l",
        [*NORM, F, "for l < L:", "  z_d <- Unit(z_d)", "return z_d"],
        [*NORM, F, "for l < L:", "  z_d <- Unit_l(z_d)", "return z_d"],
    ),
    "a name of the language on the left": (
        "E202",
        "d",
        [F, "mean_d = 2 z_d", "return mean_d"],
        [F, "m_d = 2 z_d", "return m_d"],
    ),
    "a name of the language for an input": ("E202", "d", ["layer Q(exp_d) -> y_d:", "return exp_d"], [F, "return exp(z_d)"]),
    "a name of the language for a weight": (
        "E202",
        "d",
        [F, "weights max_d", "return max_d z_d"],
        [F, "weights m_d", "return m_d z_d"],
    ),
    "a layer with the letter of a size": (
        "E202",
        "d, f",
        ["layer F(z_d) -> y_d:", "return 2 z_d", G, "weights W_df", "return F(z_d) W_df"],
        ["layer T(z_d) -> y_d:", "return 2 z_d", G, "weights W_df", "return T(z_d) W_df"],
    ),
    "an instance with the letter of a size": (
        "E202",
        "d, f",
        [*NORM, G, "weights W_df, F: Unit", "return F(z_d) W_df"],
        [*NORM, G, "weights W_df, f: Unit", "return f(z_d) W_df"],
    ),
    "a loop in a loop of the same letter": (
        "E202",
        "d, l",
        [F, "for l < L:", "  for l < L:", "    z_d <- 2 z_d", "return z_d"],
        [F, "for l < L:", "  for l' < L:", "    z_d <- 2 z_d", "return z_d"],
    ),
    "a power with two readings": ("E104", "d", [F, "return z_d + sum_d (z_d)^2"], [F, "return z_d + sum_d (z_d^2)"]),
    "a quotient with two readings": ("E104", "d", [F, "return z_d / 2 z_d"], [F, "return z_d / (2 z_d)"]),
}


def codes(axes: str, lines: list[str]) -> set[str]:
    return {finding.code for finding in findings_of(text(axes, *lines))}


@pytest.mark.parametrize("name", SLIPS)
def test_a_slip_is_refused_by_its_rule(name: str) -> None:
    code, axes, refused, _ = SLIPS[name]
    assert codes(axes, refused) == {code}


@pytest.mark.parametrize("name", SLIPS)
def test_without_the_slip_it_is_accepted(name: str) -> None:
    _, axes, _, accepted = SLIPS[name]
    assert codes(axes, accepted) == set()


@pytest.mark.parametrize(
    ("axes", "lines"),
    [
        ("d", ["layer Q(z_d) -> w_d:", "return Sm_d (z_d - max_d z_d)"]),
        ("d", ["layer Q(z_d) -> w_d:", "return Sm_d (z_d - lse_d z_d)"]),
        ("s", ["layer Q(t_ss') -> w_ss':", "return Sm_s'(t_ss' + s' - s)"]),
        ("s, a", ["layer Q(t_ss'a, μ_a) -> w_ss'a:", "return Sm_s'(t_ss'a + where(s' <= s, μ_a (s' - s), -inf))"]),
        ("s", ["layer Q(m_ss') -> w_ss':", "return Sm_s'(where(s' <= s, 0, -inf))+ 0 m_ss'"]),
        ("s, d", ["layer Q(z_sd, c_s) -> w_sd:", "return Sm_d(c_s (z_sd + 1))"]),
        ("s, d", ["layer Q(z_sd, c_s) -> y_s:", "return max_d (z_sd + c_s) + lse_d (z_sd + c_s) + mean_d (z_sd + c_s)"]),
        ("s, a", ["layer Q(t_ss'a, c_s') -> w_ss'a:", "return Sm_{s'a}(t_ss'a + c_s')"]),
    ],
)
def test_a_term_that_is_felt_or_says_what_it_lacks_may_stand(axes: str, lines: list[str]) -> None:
    assert codes(axes, lines) == set()


@pytest.mark.parametrize(
    ("lines", "fix"),
    [
        (["layer Q(q_bse, k_bse, m_ss') -> w_bss':", "return Sm_s'(q_bse k_bse + m_ss')"], "`k_bs'e`"),
        (["layer Q(t_bss'e, m_ss') -> w_bss'e:", "return Sm_e(t_bss'e + m_ss')"], "`Sm_s'`"),
        (["layer Q(t_be, β_b) -> w_be:", "return Sm_e(t_be + β_b)"], "`Sm_b`"),
    ],
)
def test_what_to_write_for_a_term_that_is_not_felt(lines: list[str], fix: str) -> None:
    (finding,) = findings_of(text("b, s, e", *lines))
    assert finding.fix == f"{fix}, or the text without it"


def test_a_scalar_in_a_group_is_told_so() -> None:
    lines = [F, "weights V_d", "return V_{(nh)} z_d"]
    (finding,) = findings_of(text("d, h", *lines, scalars="n = 2"))
    assert (finding.code, finding.span.text) == ("E201", "n")


@pytest.mark.parametrize(
    ("plain", "other"),
    [
        ("x_d", "𝑥_𝑑"),
        ("x_d'", "x_d′"),
        ("x_d'", "x_d’"),
        ("2 - x_d", "2 − x_d"),
        ("ε x_d", "𝜀 x_d"),
        ("2 x_d", "2 · x_d"),
        ("K x_d", "\u212a x_d"),
    ],
)
def test_the_same_letter_in_another_font_is_the_same(plain: str, other: str) -> None:
    """NFKC, and a handful of signs (R11)."""
    primed = "'" in plain
    head = "layer Q(x_d) -> y_d':" if primed else "layer Q(x_d) -> y_d:"
    trees = [examine(Source("<text>", text("d, k", head, f"return {e} + ε K", scalars="ε = 2"))) for e in (plain, other)]
    assert trees[0][0] == trees[1][0]
    assert not [finding for finding in trees[0][1] if finding.code != "E203"]
