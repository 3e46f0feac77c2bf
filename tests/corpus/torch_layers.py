"""PyTorch's own attention and encoder layer, wrapped for causal use."""

import torch
from torch import nn


class SelfAttention(nn.Module):
    def __init__(self, d_model, nhead):
        super().__init__()
        self.attn = nn.MultiheadAttention(d_model, nhead, batch_first=True)

    def forward(self, x):
        length = x.size(1)
        mask = torch.triu(torch.ones(length, length, dtype=torch.bool), diagonal=1)
        y, _ = self.attn(x, x, x, attn_mask=mask, need_weights=False)
        return y


class Encoder(nn.Module):
    def __init__(self, d_model, nhead, dim_feedforward):
        super().__init__()
        self.layer = nn.TransformerEncoderLayer(
            d_model, nhead, dim_feedforward, activation="relu", batch_first=True, norm_first=True
        )

    def forward(self, x):
        mask = nn.Transformer.generate_square_subsequent_mask(x.size(1))
        return self.layer(x, src_mask=mask)
