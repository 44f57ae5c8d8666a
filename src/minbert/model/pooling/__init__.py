"""From the hidden states of tokens (with `first_only`, of first ones) to one embedding per row."""

import torch
from torch import Tensor, nn

from minbert.model.packed import Packed


class ClsPooling:
    """`pooler` of each row's first token; `hidden` may be that of the first tokens, [B, H]."""

    first_only = True

    def __call__(self, hidden: Tensor, batch: Packed, pooler: nn.Module) -> Tensor:
        if len(hidden) != batch.rows:
            hidden = hidden.index_select(0, batch.first)
        return pooler(hidden)


class MaxPooling:
    """Max over time (Kim, 2014, section 2): each feature's largest value among a row's tokens."""

    first_only = False

    def __call__(self, hidden: Tensor, batch: Packed, pooler: nn.Module) -> Tensor:
        lowest = hidden.new_full((batch.rows, hidden.shape[1]), torch.finfo(hidden.dtype).min)
        rows = batch.row_of[:, None].expand_as(hidden)
        return lowest.scatter_reduce(0, rows, hidden, "amax", include_self=False)


class MeanPooling:
    """Mean of each row's tokens (Reimers and Gurevych, 2019), special ones included; no pooler."""

    first_only = False

    def __call__(self, hidden: Tensor, batch: Packed, pooler: nn.Module) -> Tensor:
        sums = hidden.new_zeros(batch.rows, hidden.shape[1]).index_add(0, batch.row_of, hidden)
        return sums / batch.lengths[:, None]
