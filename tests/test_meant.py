"""Forms of other notations are answered by the form of this one, and what is suggested is accepted where it stood."""

from __future__ import annotations

import pytest

from einformer.errors import Finding
from einformer.language.suggestions import ROWS
from tests.refusals import findings_of

FRAME = """axes
  b: B
  s: S
  d: D
  a: A
  e: H
  f: F
  g: D + F
  x: X
  v: V
  l: L
scalars
  ε = 1e-5
layer Scale(z_d) -> z_d:
  weights γ_d
  return γ_d z_d
model Main(x_bs, z_bsd, u_bsf, q_bsea, k_bsea, p_bsx) -> y_bsd causal in s:
  weights E_vd, W_df
  m_ss' = where(s' <= s, 0, -inf)
  {}
  return z_bsd
"""
LOOP = "for l < L:\n    {}"
TYPED = {  # a line of the body, or what replaces a line of the frame, and the form that must stand there
    "o_bsd = z_bsd ** 2": "z_bsd^2",
    "o_bsd = z_bsd 2^-s": "^(-s)",
    "z_bsd += Scale(z_bsd)": "z_bsd <- z_bsd + Scale(z_bsd)",
    "z_bsd -= z_bsd + 1": "z_bsd <- z_bsd - (z_bsd + 1)",
    "z_bsd *= s + 1": "z_bsd <- (s + 1) z_bsd",
    "z_bsd /= s + 1": "z_bsd <- z_bsd / (s + 1)",
    "o_bsd := 2 z_bsd": "o_bsd =",
    "o_bsd == 2 z_bsd": "o_bsd =",
    "o_bsf = z_bsd * W_df": "z_bsd W_df",
    "o_bsd = 4*D z_bsd": "4 D",
    "o_bsd = 4 × D*(s + 1) z_bsd": "4 D (s + 1)",
    "o_bsd = z_bsd ⊙ z_bsd": "z_bsd z_bsd",
    "o_bsd = z_bsd / √H": "sqrt(H)",
    "o_bsd = z_bsd / √(H + 1)": "sqrt(H + 1)",
    "o_bsf = ∑_d z_bsd W_df": "sum",
    "o_bsf = Σ_d z_bsd W_df": "sum",
    "o_bsd = (s % 2) z_bsd": "s mod 2",
    "n_s = s // 2": "floor(s / 2)",
    "o_bsd = z_bsd // twice": "# twice",
    "n_s = where(s > 0 && s < 5, 1, 0)": "and",
    "n_s = where(s > 7 || s < 5, 1, 0)": "or",
    "n_s = where(!(s > 5), 1, 0)": "not",
    "o_bsd = |z_bsd|": "abs(z_bsd)",
    "o_bsd = z_bsd;": "z_bsd",
    "for l in range(L):\n    z_bsd <- z_bsd + Scale_l(z_bsd)": "for l < L:",
    "for l in range(0, L):\n    z_bsd <- z_bsd + Scale_l(z_bsd)": "for l < L:",
    "for l in L:\n    z_bsd <- z_bsd + Scale_l(z_bsd)": "for l < L:",
    "for l = 1 to L\n    z_bsd <- z_bsd + Scale_l(z_bsd)": "for l < L:",
    LOOP.format("z_bsd <- z_bsd + Scale[l](z_bsd)"): "Scale_l",
    "axes:": "axes",
    "scalars:": "scalars",
    "weight γ_d": "weights γ_d",
    "weights: γ_d": "weights γ_d",
    "def Scale(z_d) -> z_d:": "layer Scale",
    "let o_bsd = z_bsd": "o_bsd",
    "o_bsd = z[b, s, d]": "z_bsd",
    "o_bsd = z[b, s - 1, d]": "z_{b(s - 1)d}",
    "o_bsd = E[x_bs, d]": "E_{x_bs d}",
    "o_bsd = z_{b,s,d}": "z_bsd",
    "w_bss'a = softmax(q_bsea k_bs'ea + m_ss', dim=-1)": "Sm_s'(q_bsea k_bs'ea + m_ss')",
    "o_bs = mean(z_bsd, dim=-1)": "mean_d(z_bsd)",
    "o_bs = max(z_bsd, axis=2)": "max_d(z_bsd)",
    "w_bss'a = softmax_s'(q_bsea k_bs'ea + m_ss')": "Sm_s'",
    "w_bss'a = Softmax_{s'}(q_bsea k_bs'ea + m_ss')": "Sm_s'",
    "w_bss'a = softmax(q_bsea k_bs'ea + m_ss')": "Sm_s'(",
    "o_bsd = softmax(z_bsd)": "Sm_d(",
    "o_bsd = softmax(z_bsd u_bsf W_df)": "Sm_…(",
    'o_bsf = einsum("bsd,df->bsf", z_bsd, W_df)': "z_bsd W_df",
    "o_bsf = torch.einsum('bsd,df->bsf', z, W)": "z_bsd W_df",
    "o_bs = z_bsd.mean(-1)": "mean_d(z_bsd)",
    "o_bs = z_bsd.sum(dim=2)": "sum_d(z_bsd)",
    "o_bs = z_bsd.amax(d)": "max_d(z_bsd)",
    "o_bsf = z_bsd W_df.T": "W_df",
    "o_bsf = z_bsd W_df^T": "W_df",
    "o_bsf = z_bsd W^{df}": "W_df",
    "o_bsd = z_bsd[:, :, d]": "z_bsd",
    "o_bsd = z[:, s]": "z_…",
    "o_bs = sum_d(z_bsd, axis=-1)": "sum_d(z_bsd)",
    "o_bs = mean(z_bsd, d)": "mean_d(z_bsd)",
    "o_bsd = z_bsd / ||z_bsd||": "sqrt(sum_d z_bsd^2)",
    "o_bsd = log_2(1 + z_bsd^2)": "log2",
    "o_bsx = where(top_2 p_bsx, p_bsx, 0)": "top_{2,x} p_bsx",
    "n_ss' = torch.tril(torch.ones(S, S))": "where(s' <= s, 0, -inf)",
    "n_ss' = causal_mask": "where(s' <= s, 0, -inf)",
    "o_bs = logsumexp_d z_bsd": "lse",
    "o_bs = std_d z_bsd": "sqrt(var_d(z_bsd))",
    "o_bsd = where(argmax_d z_bsd, 1, 0)": "top_{1,d}",
    "o_bsd = ln(1 + z_bsd^2)": "log",
    "o_bsd = swish(z_bsd)": "silu",
    "o_bsd = dropout(z_bsd, 0.1)": "Dr",
    "o_bsd = σ(z_bsd)": "sigmoid",
    "o_bsd = exp^z_bsd": "exp(z_bsd)",
    "o_bsd = z_bsd if s < 3 else 0": "where(s < 3, z_bsd, 0)",
    "c_bsg = concat(z_bsd, u_bsf)": "where(g < D, z_{bs(g + 0)}, u_{bs(g - D)})",
    "c_bsg = cat([z_bsd, u_bsf], dim=-1)": "where(g < D, z_{bs(g + 0)}, u_{bs(g - D)})",
    "c_bsg = concat_g(z_bsd, u_bsf)": "where(g < D, z_{bs(g + 0)}, u_{bs(g - D)})",
    "o_bsd = z_{b floor(s / 2) d}": "n_… = floor(s / 2)",
    "o_bsd = z_{b(floor((s - 1) / 2))d}": "n_… = floor((s - 1) / 2)",
    "o_bsd = z_{b min(s, 2) d}": "n_… = min(s, 2)",
    "o_bsx = where(top_1(p_bsx), p_bsx, 0)": "top_{1,x}(p_bsx)",
    "o_bsx = where(topk(p_bsx, k=2), p_bsx, 0)": "top_{2,x}(p_bsx)",
    "o_bsd = E_x_bsd": "E_{x_bs d}",
    "o_bsd = E_x_bs d": "E_{x_bs d}",
    "r_{bs(ae)} = q_bsea\n  o_bsea = r_bs(ae)": "r_{bs(ae)}",
    "r_bs(ae) = q_bsea": "r_{bs(ae)}",
    "h_bsd = h_b(s - 1)d / 2 + z_bsd": "h_{b(s - 1)d}",
    "h_bsd = h_b{s - 1}d / 2 + z_bsd": "h_{b(s - 1)d}",
    "h_bsd = h_{bs-1d} / 2 + z_bsd": "h_{b(s - 1)d}",
}
UNFINISHED = {"Sm_…(", "n_… = ", "z_…"}  # nothing says over which index, or which name is free


def written(line: str) -> str:
    """The frame with a line; one that begins a block or declares stands for that of the frame."""
    for place in ("axes", "scalars", "  weights γ_d", "layer Scale(z_d) -> z_d:"):
        if line.rstrip(":").split()[-1:] == place.rstrip(":").split()[-1:]:
            return FRAME.replace(f"{place}\n", f"{line if place[0] != ' ' else '  ' + line}\n").format("o_bsd = z_bsd")
    return FRAME.format(line)


def examined(text: str) -> list[Finding]:
    """What is wrong with a text, but for names of the frame that a line does not use."""
    return [finding for finding in findings_of(text) if finding.code not in ("E203", "E206")]


@pytest.mark.parametrize("line", TYPED)
def test_a_form_of_another_notation_is_answered_by_one_that_is_accepted(line: str) -> None:
    text = written(line)
    (finding,) = examined(text)
    assert finding.fix == f"`{TYPED[line]}`"
    mended = text[: finding.span.start] + TYPED[line] + text[finding.span.end :]
    assert TYPED[line].startswith(tuple(UNFINISHED)) or examined(mended) == []


def test_each_row_is_typed() -> None:
    assert {examined(written(line))[0].message for line in TYPED} == {row.reason for row in ROWS}
    assert len({row.reason for row in ROWS}) == len(ROWS)


def test_where_no_axis_is_declared_none_is_proposed() -> None:
    first = findings_of("model M(z_bd) -> y_bd:\n  return z_bd\n")[0]
    assert (first.code, first.fix) == ("E201", "`b: …` among the axes")
