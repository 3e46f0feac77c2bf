"""Functions whose variables carry their shapes, as Shazeer writes them."""

# axes: b, s t: S, d a e f

import math

import torch


def project(z_bsd, Q_dea):
    q_bsea = torch.einsum("bsd,dea->bsea", z_bsd, Q_dea)
    return q_bsea


def scores(q_bsea, k_btea):
    t_bast = torch.einsum("bsea,btea->bast", q_bsea, k_btea)
    t_bast = t_bast / math.sqrt(q_bsea.shape[2])
    return t_bast


def attend(q_bsea, k_bsea, v_bsea):
    t_bsta = torch.einsum("bsea,btea->bsta", q_bsea, k_bsea) / math.sqrt(q_bsea.shape[2])
    w_bsta = torch.softmax(t_bsta, dim=2)
    y_bsea = torch.einsum("bsta,btea->bsea", w_bsta, v_bsea)
    return y_bsea


def merge(y_bsea):
    B, S, H, A = y_bsea.shape
    u_bsd = y_bsea.transpose(2, 3).reshape(B, S, A * H)
    return u_bsd


def split(p_bsd, A):
    B, S, _ = p_bsd.shape
    q_bsea = p_bsd.reshape(B, S, A, -1).transpose(2, 3)
    return q_bsea


def mlp(z_bsd, W_df, U_fd):
    h_bsf = torch.relu(torch.einsum("bsd,df->bsf", z_bsd, W_df))
    y_bsd = torch.einsum("bsf,fd->bsd", h_bsf, U_fd)
    return y_bsd
