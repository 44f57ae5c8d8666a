"""Scaled dot-product attention over padded rows (Vaswani et al., 2017, section 3.2.1)."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor

from minbert.model.dropout import dropout


def attend(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, p: float) -> Tensor:
    """Return each position's context, [B, heads, L, d] like all three inputs.

    `mask` is True at the keys that count, bool [B, 1, 1, L], None if all do. `p` is the dropout
    of attention weights; where torch's fused kernel has none (on a CPU), the steps are its own.
    """
    if p == 0.0 or query.device.type != "cpu":
        return F.scaled_dot_product_attention(query, key, value, attn_mask=mask, dropout_p=p)
    scores = (query * query.shape[-1] ** -0.5) @ key.transpose(-1, -2)
    if mask is not None:
        scores = scores.masked_fill_(~mask, float("-inf"))
    return dropout(scores.softmax(-1), p) @ value
