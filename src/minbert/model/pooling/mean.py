"""The mean over a row's tokens (Reimers and Gurevych, 2019)."""

from torch import Tensor, nn

from minbert.model.packed import Packed


class MeanPooling:
    """Mean of each row's tokens, special ones included; no pooler."""

    first_only = False

    def __call__(self, hidden: Tensor, batch: Packed, pooler: nn.Module) -> Tensor:
        sums = hidden.new_zeros(batch.rows, hidden.shape[1]).index_add(0, batch.row_of, hidden)
        return sums / batch.lengths[:, None]
