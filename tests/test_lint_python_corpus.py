"""Of the slips in a model whose names say their axes, which are found, and is each that is not found known?"""

from __future__ import annotations

import pytest

from tests.commands import lint
from tests.slips_of_python import MODEL, SLIPS


def test_the_model_is_right() -> None:
    reading = lint(MODEL, "model.py")
    assert reading.codes == []
    assert reading.names >= 30


@pytest.mark.parametrize("slip", SLIPS)
def test_a_slip_is_found_or_known_not_to_be(slip: str) -> None:
    right, wrong, code, why = SLIPS[slip]
    assert MODEL.count(right) == 1, right
    text = MODEL.replace(right, wrong)
    found = lint(text, "model.py")
    assert found.codes[:1] == [code] * bool(code)
    line = text[: text.index(wrong)].count("\n") + 1
    assert all(abs(finding.line - line) <= 3 for finding in found.findings)
    assert bool(code) != bool(why)


IDIOMS = {
    "a shape with a star": """
q_bsae = z_bsd.view(*z_bsd.shape[:-1], A, -1)
lead = z_bsd.shape[:-1]
q_bsae = z_bsd.view(lead + (A, -1))
q_bsae = z_bsd.view((*lead, -1, E))
""",
    "heads that are repeated": """
k_base = k_bgse.repeat_interleave(J, dim=1)
k_base = k_bgse.repeat(1, J, 1, 1)
k_bgjse = k_bgse[:, :, None].expand(B, G, J, S, E)
k_base = k_bgjse.reshape(B, G * J, S, E)
""",
    "the largest": """
m_bs1 = z_bsd.max(dim=-1, keepdim=True).values
m_bs, i_bs = z_bsd.max(-1)
m_bs = z_bsd.max(2)[0]
p_bsk, i_bsk = r_bsx.topk(2)
h_bskx = F.one_hot(i_bsk, X)
p_bsk = r_bsx.gather(-1, i_bsk)
""",
    "rows of a table": """
n = z_bsd[mask_bs]
n_bd = n
z_bsd = E_vd[x_bs] + P_sd[torch.arange(S)]
z_bsd = F.embedding(x_bs, E_vd)
""",
    "stacked pairs": """
r_bsji = torch.stack((-z_bsd[..., 1::2], z_bsd[..., ::2]), dim=-1)
r_bsd = r_bsji.flatten(-2)
r_ibsd = torch.stack([z_bsd, z_bsd])
""",
    "an unknown axis times one of length 1": """
r = z_bsd.unflatten(2, (2, 6)) * c_sj[:, None, :]
n_bsd = (r + r.roll(1, 2)).flatten(2, 3)
""",
    "tables of positions": """
m_st = torch.ones(S, S).tril()
m_1st = torch.zeros(1, S, S)
n_st = torch.arange(S)[:, None] - torch.arange(S)
""",
    "numbers of Python": """
n = max(S, 3)
m = min(z_bsd.shape[1], 4)
z_bsd = z_bsd[:, :n]
""",
    "modules of torch": """
self.q = nn.Linear(D, A * E)
self.n = nn.Sequential(nn.LayerNorm(D), nn.SiLU())
q_bsae = self.q(z_bsd).view(B, S, A, E)
n_bsd = self.n(z_bsd)
h_bsx = self.q(z_bsd)
""",
    "an attribute of two classes": """
self.w = nn.Linear(D, D)
self.w = Attention()
w_bst = self.w(z_bsd)
""",
    "weights that are summed": """
p_bsx = r_bsx.softmax(-1)
l_x = p_bsx.sum((0, 1))
n_bs = einsum("bsx->bs", p_bsx)
""",
    "einops": """
z_bse = reduce(y_bsae, "b s a e -> b s e", "sum")
q_bsd = repeat(q_sd, "s d -> b s d", b=B)
""",
}
KNOWN = """# axes: b s d a e g j k t x v i f n r c
import torch, math
import torch.nn as nn
import torch.nn.functional as F
from torch import einsum
from einops import reduce, repeat
B, S, D = z_bsd.shape
B, G, S, E = k_bgse.shape
B, S, A, E = y_bsae.shape
B, S, X, K, J = r_bsxkj.shape
V, D = E_vd.shape
T, I = e_ti.shape
"""


@pytest.mark.parametrize("idiom", IDIOMS)
def test_an_idiom_is_left_alone(idiom: str) -> None:
    assert lint(KNOWN + IDIOMS[idiom], "model.py").findings == ()
