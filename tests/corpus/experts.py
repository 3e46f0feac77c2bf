"""A mixture of experts that loops over its experts, as in the first ports of Mixtral."""

import torch
import torch.nn.functional as F
from torch import nn


def route(logits, k):
    """The weights of the chosen experts, zero elsewhere."""
    top, chosen = torch.topk(logits, k, dim=-1)
    top = top.softmax(dim=-1)
    return torch.zeros_like(logits).scatter(-1, chosen, top)


class Expert(nn.Module):
    def __init__(self, dim, hidden):
        super().__init__()
        self.gate = nn.Linear(dim, hidden, bias=False)
        self.up = nn.Linear(dim, hidden, bias=False)
        self.down = nn.Linear(hidden, dim, bias=False)

    def forward(self, x):
        return self.down(F.silu(self.gate(x)) * self.up(x))


class MoE(nn.Module):
    def __init__(self, dim, hidden, num_experts, top_k=2):
        super().__init__()
        self.router = nn.Linear(dim, num_experts, bias=False)
        self.experts = nn.ModuleList(Expert(dim, hidden) for _ in range(num_experts))
        self.top_k = top_k

    def forward(self, x):
        b, s, d = x.shape
        x = x.view(-1, d)
        probs = F.softmax(self.router(x), dim=1)
        weights, chosen = torch.topk(probs, self.top_k, dim=-1)
        weights = weights / weights.sum(dim=-1, keepdim=True)
        out = torch.zeros_like(x)
        for i, expert in enumerate(self.experts):
            token, slot = torch.where(chosen == i)
            out.index_add_(0, token, expert(x[token]) * weights[token, slot, None])
        return out.view(b, s, d)
