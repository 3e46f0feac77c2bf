"""Is a slip of one letter in a shipped text found where it is made, or does the text then mean something else, rightly?

A row: the architecture, what stands there, what is written instead, and the code with the line of the finding, counted
from the slip: `+1` where a later line is the first that contradicts it. What is legal has the reason instead.
"""

from __future__ import annotations

import difflib
import functools

import pytest

from einformer.errors import Source
from tests.commands import run
from tests.examples import ROOT
from tests.refusals import findings_of

FOUND = """
gpt2 | e: H = D / A | e: H = D / B | E308 +20
gpt2 | s: S <= K | s: S <= J | E307 +32
gpt2 | l: L | i: L | E201 +26
gpt2 | E = 4 | G = 4 | E203 +0
gpt2 | p = 0.1 | q = 0.1 | E204 +9
gpt2 | (z_bsd) -> z_bsd: | (z_bs) -> z_bsd: | E304 +2
gpt2 | O_d'd, | O_dd, | E305 +0
gpt2 | α_ea? | α_aa? | E305 +0
gpt2 | q_bsea  = z_bsd | q_bsea  = x_bsd | E204 +0
gpt2 | z_bsd Q_dea | z_bsd Q_eea | E305 +0
gpt2 | z_bsd K_dea | z_bsd K_de | E304 +0
gpt2 | z_bsd V_dea | z_bsd V_d'ea | E301 +0
gpt2 | z_bsd V_dea | z_bse V_dea | E307 +0
gpt2 | where(s' <= s | where(s' >= s | E501 +1
gpt2 | where(s' <= s | where(s' < s | E502 +1
gpt2 | where(s' <= s | where(s <= s | E302 +0
gpt2 | 0, -inf) | 0, inf) | E501 +1
gpt2 | = Sm_s'( | = Sm_s( | E503 +0
gpt2 | q_bsea k_bs'ea | q_bsea v_bs'ea | E203 -3
gpt2 | q_bsea k_bs'ea | q_bsea k_bsea | E313 +0
gpt2 | + m_ss') | - m_ss') | E501 +0
gpt2 | y_bsea  = Dr( | q_bsea  = Dr( | E202 +0
gpt2 | v_bs'ea | v_bsea | E301 +0
gpt2 | Dr(w_bss'a) | Dr(w_bss'e) | E307 +0
gpt2 | u_{bs(ae)} | u_{bs(af)} | E302 +0
gpt2 | u_{bs(ae)} | u_{bs(ae} | E102 +0
gpt2 | u_bsd' O_d'd | u_bsd O_d'd | E301 +0
gpt2 | O_d'd + ω_d) | O_d'd + ω_e) | E307 +0
gpt2 | O_d'd + ω_d) | O_d'd + w_d) | E304 +0
gpt2 | h_bsf = gelutanh | h_bse = gelutanh | E302 +0
gpt2 | gelutanh( | gelutahh( | E204 +0
gpt2 | Dr(h_bsf U_fd | Dr(h_bsf W_fd | E307 +0
gpt2 | GPT2(x_bs) -> y_bsv | GPT2(x_bs) -> y_bsd | E301 +6
gpt2 | E_{x_bs d} | E_{x_bs v} | E307 +0
gpt2 | + P_sd) | + P_bd) | E307 +0
gpt2 | CausalAttention_l( | CausalAttention_k( | E402 +0
gpt2 | MLP_l(LayerNorm_l | MLP_l(LayerNorm_d | E403 +0
gpt2 | (z_bsd) E_vd | (z_bsd) E_vf | E307 +0
gpt2 | return LayerNorm(z_bsd) | return LayerNorm(x_bsd) | E304 +0
llama | i: 2 | i: 3 | E308 +13
llama | h: H / 2 | h: H / 3 | E308 +12
llama | x_{s((1 - i)h)} | x_{s((1 - h)h)} | E308 +0
llama | x_{s((1 - i)h)} | x_{s((2 - i)h)} | E309 +0
llama | cos(s θ_h) | cos(h θ_h) | E303 +0
llama | v_seg = z_sd V_deg | v_sed = z_sd V_deg | E301 +0
llama | z_sd K_deg | z_sd K_dek | E201 +0
mistral | s - W < s' <= s | s + W < s' <= s | E502 -16
mistral | s - W < s' <= s | s - W < s' <= W | E501 -16
mixtral | top_{T,x}(r_x) | top_{T,f}(r_x) | E306 +0
mixtral | (r_x), r_x, 0) | (r_x), p_x, 0) | E507 +0
mixtral | / sum_x(p_x) | / sum_f(p_x) | E306 +0
linear_attention | S_{(s - 1)eua} | S_{(s + 1)eua} | E507 +0
linear_attention | S_{(s - 1)eua} | S_{(s - 0)eua} | E507 +0
linear_attention | z_sd V_dua | z_sd V_due | E307 +0
deepseek_v3 | K_rna c_s'r + | K_rna c_sr + | E313 +0
deepseek_v3 | LatentNorm_c(z_sd A_dc) | LatentNorm_d(z_sd A_dc) | E301 +0
deepseek_v3 | GatedMLP_o( | GatedMLP_d( | E402 +0
gemma2 | s - W_l < s' | s - W_k < s' | E201 +0
loss | lse_v(y_bsv) | lse_s(y_bsv) | E301 +0
"""
LEGAL = """
gpt2 | f: F = E D | f: F = E G | a size may be made of a letter without an axis
gpt2 | 0, -inf) | 1, -inf) | a softmax does not see a bias that all keys have
gpt2 | / sqrt(H) | / sqrt(D) | the scale is the author's
gpt2 | W_df + ω_f) | W_df - ω_f) | a bias has either sign
gpt2 | causal in s | causal in b | true, though not the claim that is meant
gpt2 | E_vd, P_kd | E_vd, P_sd | a table as long as the sequence: with sizes bound it is one
gpt2 | for l < L | for l < K | how many layers there are is the author's
gpt2 | z_bsd + MLP_l | z_bsd - MLP_l | a residual has either sign
llama | j: J = A / G | j: J = A / H | sizes are the author's
bloom | (s' - s) | (s' + s) | a bias is the author's
"""


def rows(table: str) -> list[list[str]]:
    return [row.split(" | ") for row in table.strip().split("\n")]


@functools.cache
def whole(name: str) -> Source:
    file = ROOT / "einformer" / "architectures" / "gpt2.ein"
    return Source(f"{name}.ein", file.read_text("utf-8") if name == "gpt2" else run("source", "--text", name).out)


def mutated(name: str, old: str, new: str) -> tuple[Source, int]:
    """The text, its library's layers written out, with the first `old` written otherwise, and the line of that."""
    source = whole(name)
    assert old in source.text
    return Source(source.name, source.text.replace(old, new, 1)), source.text[: source.text.index(old)].count("\n") + 1


@pytest.mark.parametrize(("name", "old", "new", "expected"), rows(FOUND))
def test_a_slip_is_found(name: str, old: str, new: str, expected: str) -> None:
    source, line = mutated(name, old, new)
    first = findings_of(source.text)[0]
    assert f"{first.code} {first.span.line - line:+d}" == expected


@pytest.mark.parametrize(("name", "old", "new", "why"), rows(LEGAL))
def test_a_slip_is_another_text(name: str, old: str, new: str, why: str) -> None:
    assert findings_of(mutated(name, old, new)[0].text) == (), why


@pytest.mark.parametrize(("name", "old", "new", "expected"), [*rows(FOUND), *rows(LEGAL)])
def test_a_slip_is_of_one_letter(name: str, old: str, new: str, expected: str) -> None:
    changes = [change for change in difflib.SequenceMatcher(None, old, new).get_opcodes() if change[0] != "equal"]
    assert [max(end - start, to - at) for _, start, end, at, to in changes] == [1]
