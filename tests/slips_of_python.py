"""Slips of one line that people make in a model whose names say their axes: what the linter calls them, or why it is silent."""

from __future__ import annotations

from typing import NamedTuple

MODEL = '''
"""A decoder with grouped attention, experts and a state space.

b: batch
s: positions
t: positions that are read
d: hidden
g: groups of heads
j: heads of a group
e: features of a head
f: features of an expert
x: experts
k: experts of a token
n: states
v: vocabulary
"""

import math

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch import Tensor


def rms_norm(z_bsd: Tensor, gain_d: Tensor, eps: float = 1e-6) -> Tensor:
    m_bs1 = z_bsd.pow(2).mean(dim=-1, keepdim=True)
    n_bsd = z_bsd * torch.rsqrt(m_bs1 + eps) * gain_d
    return n_bsd


class Attention(nn.Module):
    def forward(self, z_bsd: Tensor, cos_se: Tensor, sin_se: Tensor) -> Tensor:
        B, S, D = z_bsd.shape
        q_bsgje = torch.einsum("bsd,dgje->bsgje", z_bsd, self.Q_dgje)
        k_bsge = torch.einsum("bsd,dge->bsge", z_bsd, self.K_dge)
        v_bsge = torch.einsum("bsd,dge->bsge", z_bsd, self.V_dge)
        k_bsge = k_bsge * cos_se[:, None, :] + rotate(k_bsge) * sin_se[:, None, :]
        k_btge = torch.cat((self.past_k_btge, k_bsge), dim=1)
        v_btge = torch.cat((self.past_v_btge, v_bsge), dim=1)
        w_bgjst = torch.einsum("bsgje,btge->bgjst", q_bsgje, k_btge) / math.sqrt(q_bsgje.shape[-1])
        m_st = torch.ones(S, k_btge.shape[1], dtype=torch.bool).tril(k_btge.shape[1] - S)
        w_bgjst = w_bgjst.masked_fill(~m_st, float("-inf"))
        p_bgjst = torch.softmax(w_bgjst.float(), dim=-1).to(w_bgjst.dtype)
        y_bsgje = torch.einsum("bgjst,btge->bsgje", p_bgjst, v_btge)
        o_bsd = torch.einsum("bsgje,gjed->bsd", y_bsgje, self.O_gjed)
        return o_bsd


class Heads(nn.Module):
    def __init__(self, D: int, G: int) -> None:
        super().__init__()
        self.q_proj = nn.Linear(D, D, bias=False)
        self.k_proj = nn.Linear(D, D, bias=False)
        self.v_proj = nn.Linear(D, D, bias=False)
        self.o_proj = nn.Sequential(nn.Linear(D, D), nn.Dropout(0.1))
        self.G, self.E = G, D // G

    def forward(self, z_bsd: Tensor) -> Tensor:
        B, S, D = z_bsd.shape
        q_bgse = self.q_proj(z_bsd).view(B, S, self.G, self.E).transpose(1, 2)
        k_bgse = self.k_proj(z_bsd).view(B, S, self.G, self.E).transpose(1, 2)
        v_bgse = self.v_proj(z_bsd).view(B, S, self.G, self.E).transpose(1, 2)
        y_bgse = F.scaled_dot_product_attention(q_bgse, k_bgse, v_bgse, is_causal=True)
        u_bsd = y_bgse.transpose(1, 2).contiguous().view(B, S, D)
        return self.o_proj(u_bsd)


def embed(x_bs: Tensor, E_vd: Tensor) -> Tensor:
    z_bsd = E_vd[x_bs] * math.sqrt(E_vd.shape[1])
    B, S, D = z_bsd.shape
    z_bsd = z_bsd.reshape(*z_bsd.shape[:2], D)
    return z_bsd


def mask(q_bsd: Tensor, k_btd: Tensor) -> Tensor:
    B, S, D = q_bsd.shape
    B, T, D = k_btd.shape
    m_st = torch.ones(S, T).tril()
    return m_st


class Experts(nn.Module):
    def forward(self, z_bsd: Tensor) -> Tensor:
        r_bsx = torch.einsum("bsd,dx->bsx", z_bsd, self.R_dx)
        p_bsx = r_bsx.softmax(dim=-1)
        top_bsk, chosen_bsk = torch.topk(p_bsx, self.K, dim=-1)
        share_bsk = top_bsk / top_bsk.sum(dim=-1, keepdim=True)
        gate_bsx = torch.zeros_like(p_bsx).scatter(-1, chosen_bsk, share_bsk)
        g_bsxf = torch.einsum("bsd,xdf->bsxf", z_bsd, self.G_xdf)
        u_bsxf = torch.einsum("bsd,xdf->bsxf", z_bsd, self.U_xdf)
        h_bsxf = F.silu(g_bsxf) * u_bsxf
        h_bsxf = h_bsxf * gate_bsx[..., None]
        y_bsd = torch.einsum("bsxf,xfd->bsd", h_bsxf, self.O_xfd)
        load_x = gate_bsx.gt(0).float().mean(dim=(0, 1))
        mass_x = p_bsx.mean(dim=(0, 1))
        self.loss = (load_x * mass_x).sum()
        return y_bsd


class StateSpace(nn.Module):
    def forward(self, z_bsd: Tensor) -> Tensor:
        delta_bsd = F.softplus(self.step(z_bsd))
        a_bsdn = torch.exp(delta_bsd[..., None] * self.A_dn)
        b_bsn = torch.einsum("bsd,dn->bsn", z_bsd, self.B_dn)
        c_bsn = torch.einsum("bsd,dn->bsn", z_bsd, self.C_dn)
        x_bsdn = (delta_bsd * z_bsd)[..., None] * b_bsn[:, :, None, :]
        h_bdn = torch.zeros_like(x_bsdn[:, 0])
        rows = []
        for s in range(z_bsd.shape[1]):
            h_bdn = a_bsdn[:, s] * h_bdn + x_bsdn[:, s]
            rows.append(torch.einsum("bdn,bn->bd", h_bdn, c_bsn[:, s]))
        y_bsd = torch.stack(rows, dim=1)
        return y_bsd + z_bsd * self.skip_d


def loss(z_bsd: Tensor, E_vd: Tensor, target_bs: Tensor) -> Tensor:
    y_bsv = z_bsd @ E_vd.T
    logp_bsv = y_bsv.log_softmax(dim=-1)
    picked_bs = logp_bsv.gather(-1, target_bs[..., None]).squeeze(-1)
    return -picked_bs.mean()
'''


class Row(NamedTuple):
    """What stands there, what somebody wrote, and the code of the finding; or none, and why."""

    right: str
    wrong: str
    code: str
    why: str = ""


SLIPS = {
    # ------------------------------------------------------------------------------------------------ norms
    "a mean over positions": Row("pow(2).mean(dim=-1, keepdim", "pow(2).mean(dim=1, keepdim",
                                            "", "an axis of length 1 meets any other"),
    "a mean without its axis": Row("mean(dim=-1, keepdim=True)\n    n_", "mean(dim=-1)\n    n_", "E771"),
    "a gain of another layer": Row("(m_bs1 + eps) * gain_d", "(m_bs1 + eps) * self.gain_e", "", "one letter is no suffix"),
    # -------------------------------------------------------------------------------------------- attention
    "a head for a group": Row('"bsd,dge->bsge", z_bsd, self.K_dge', '"bsd,dge->bsge", z_bsd, self.Q_dgje', "E772"),
    "an output in another order": Row('"bsd,dgje->bsgje"', '"bsd,dgje->bsjge"', "E771"),
    "an output without its heads": Row('"bsgje,btge->bgjst"', '"bsgje,btge->bgst"', "E771"),
    "scores that are transposed": Row('"bsgje,btge->bgjst"', '"bsgje,btge->bgjts"', "E771"),
    "keys read at the queries": Row('"bsgje,btge->bgjst"', '"bsgje,bsge->bgjst"', "E772"),
    "an angle at the heads": Row("* cos_se[:, None, :]", "* cos_se[None, :, :]", "E773"),
    "an angle without a head": Row("* cos_se[:, None, :]", "* cos_se", "E773"),
    "a cache joined at the heads": Row("(self.past_k_btge, k_bsge), dim=1", "(self.past_k_btge, k_bsge), dim=2", "",
                                        "both positions may be as many"),
    "keys for values in the cache": Row("(self.past_v_btge, v_bsge)", "(self.past_k_btge, k_bsge)", "",
                                         "the axes are the same"),
    "a scale by the heads": Row("q_bsgje.shape[-1])", "q_bsgje.shape[-2])", "", "any number may be a scale"),
    "a mask the other way round": Row("masked_fill(~m_st,", "masked_fill(~m_st.T,", "E773"),
    "a mask that is not negated": Row("masked_fill(~m_st,", "masked_fill(m_st,", "", "the axes are the same"),
    "a softmax over the queries": Row("softmax(w_bgjst.float(), dim=-1)", "softmax(w_bgjst.float(), dim=-2)", "E775"),
    "a softmax over the heads": Row("softmax(w_bgjst.float(), dim=-1)", "softmax(w_bgjst.float(), dim=1)", "",
                                     "weights of heads may be meant"),
    "values read at the queries": Row('"bgjst,btge->bsgje"', '"bgjst,bsge->bsgje"', "E775"),
    "weights before the softmax": Row('->bsgje", p_bgjst', '->bsgje", w_bgjst', "", "the axes are the same"),
    "a projection of the keys' heads": Row('"bsgje,gjed->bsd", y_bsgje', '"bsgje,gjed->bsd", k_bsge', "E772"),
    "a projection that is transposed": Row('"bsgje,gjed->bsd"', '"bsgje,dgje->bsd"', "E772"),
    "an embedding of another table": Row("E_vd[x_bs] *", "self.P_sd[x_bs] *", "", "any table may be looked up"),
    "an embedding that is turned": Row("E_vd[x_bs] *", "E_vd.T[x_bs] *", "", "a look-up is not followed"),
    "a causal mask over features": Row("torch.ones(S, T)", "torch.ones(S, D)", "", "tensors made of sizes are not followed"),
    # ---------------------------------------------------------------------------------------- heads by views
    "heads that are never moved": Row("k_proj(z_bsd).view(B, S, self.G, self.E).transpose(1, 2)",
                                      "k_proj(z_bsd).view(B, S, self.G, self.E)", "", "a view is not followed"),
    "a view into heads before positions": Row("k_proj(z_bsd).view(B, S, self.G, self.E).transpose(1, 2)",
                                              "k_proj(z_bsd).view(B, self.G, S, self.E)", "", "a view is not followed"),
    "heads that are not moved back": Row("y_bgse.transpose(1, 2).contiguous()", "y_bgse.contiguous()",
                                            "", "a view is not followed"),
    "features moved back for heads": Row("y_bgse.transpose(1, 2).contiguous()", "y_bgse.transpose(2, 3).contiguous()",
                                            "", "a view is not followed"),
    "keys and values exchanged": Row("(q_bgse, k_bgse, v_bgse, is", "(q_bgse, v_bgse, k_bgse, is", "", "the axes are the same"),
    "sizes in another order": Row("B, S, D = z_bsd.shape\n        q_bgse", "S, B, D = z_bsd.shape\n        q_bgse",
                                            "", "sizes are not followed"),
    # ---------------------------------------------------------------------------------------------- experts
    "a router over positions": Row("r_bsx.softmax(dim=-1)", "r_bsx.softmax(dim=1)", "", "weights of positions may be meant"),
    "the best positions": Row("torch.topk(p_bsx, self.K, dim=-1)", "torch.topk(p_bsx, self.K, dim=1)",
                                            "", "`topk` is not followed"),
    "shares that add up over positions": Row("top_bsk.sum(dim=-1, keepdim=True)", "top_bsk.sum(dim=1, keepdim=True)", "",
                                             "an axis of length 1 meets any other"),
    "shares that keep no axis": Row("top_bsk.sum(dim=-1, keepdim=True)", "top_bsk.sum(dim=-1)", "E773"),
    "experts named and chosen exchanged": Row("top_bsk, chosen_bsk = torch.topk", "chosen_bsk, top_bsk = torch.topk", "",
                                              "the axes are the same"),
    "a gate at the features": Row("h_bsxf * gate_bsx[..., None]", "h_bsxf * gate_bsx[:, :, None]", "E773"),
    "an expert's weights transposed": Row('"bsxf,xfd->bsd"', '"bsxf,xdf->bsd"', "E772"),
    "experts that are not summed": Row('"bsxf,xfd->bsd"', '"bsxf,xfd->bsxd"', "E771"),
    "a load of positions": Row("gt(0).float().mean(dim=(0, 1))", "gt(0).float().mean(dim=(0, 2))",
                                            "", "the axes are the same, one letter is no suffix"),
    # ------------------------------------------------------------------------------------------ state space
    "a step at the states": Row("delta_bsd[..., None] * self.A_dn", "delta_bsd[..., None, :] * self.A_dn", "E773"),
    "an input at the features": Row("b_bsn[:, :, None, :]", "b_bsn[:, :, :, None]", "E773"),
    "rows stacked before the batch": Row("torch.stack(rows, dim=1)", "torch.stack(rows, dim=0)", "",
                                         "a list that grows in a loop is not followed"),
    # ----------------------------------------------------------------------------------------------- losses
    "an embedding that is not transposed": Row("z_bsd @ E_vd.T", "z_bsd @ E_vd", "E773"),
    "a loss over positions": Row("y_bsv.log_softmax(dim=-1)", "y_bsv.log_softmax(dim=1)", "",
                                  "scores of positions may be meant"),
    "targets that keep an axis": Row(".gather(-1, target_bs[..., None]).squeeze(-1)", ".gather(-1, target_bs[..., None])",
                                     "", "`gather` is not followed"),
}  # fmt: skip
