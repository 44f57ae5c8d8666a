"""The pooler's output on the first token (Devlin et al., 2019)."""

from torch import Tensor, nn

from minbert.model.packed import Packed


class ClsPooling:
    """`pooler` of each row's first token; `hidden` may be that of the first tokens, [B, H]."""

    first_only = True

    def __call__(self, hidden: Tensor, batch: Packed, pooler: nn.Module) -> Tensor:
        if len(hidden) != batch.rows:
            hidden = hidden.index_select(0, batch.first)
        return pooler(hidden)
