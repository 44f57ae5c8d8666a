"""The largest value over a row's tokens (Kim, 2014, section 2)."""

import torch
from torch import Tensor, nn

from minbert.model.packed import Packed


class MaxPooling:
    """Max over time: each feature's largest value among a row's tokens; no pooler."""

    first_only = False

    def __call__(self, hidden: Tensor, batch: Packed, pooler: nn.Module) -> Tensor:
        lowest = hidden.new_full((batch.rows, hidden.shape[1]), torch.finfo(hidden.dtype).min)
        rows = batch.row_of[:, None].expand_as(hidden)
        return lowest.scatter_reduce(0, rows, hidden, "amax", include_self=False)
