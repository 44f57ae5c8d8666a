"""LoRA: low-rank changes of the query and value maps of a frozen encoder (Hu et al., 2022)."""

import math

from torch import Tensor, nn

from minbert.model.encoder import Attention, SharedEncoder
from minbert.model.layers import Linear


class LowRank(nn.Module):
    """x to `scale` up(down(x)), [T, H] to [T, H], of rank `rank`; 0 at the start (section 4.1)."""

    def __init__(self, hidden: int, rank: int, scale: float) -> None:
        super().__init__()
        self.scale = scale
        self.down = Linear(hidden, rank, bias=False)
        self.up = Linear(rank, hidden, bias=False)
        # As in the authors' library.
        nn.init.kaiming_uniform_(self.down.weight, a=math.sqrt(5))
        nn.init.zeros_(self.up.weight)

    def forward(self, x: Tensor) -> Tensor:
        return self.up(self.down(x)) * self.scale


class LoRALinear(Linear):
    """An attention's map to queries, keys and values, [T, H] to [T, 3H], changed in two of them."""

    def __init__(self, qkv: Linear, rank: int, scale: float) -> None:
        nn.Module.__init__(self)
        self.in_features, self.out_features = qkv.in_features, qkv.out_features
        self.weight, self.bias = qkv.weight, qkv.bias
        self.lora_query = LowRank(self.in_features, rank, scale)
        self.lora_value = LowRank(self.in_features, rank, scale)

    def forward(self, x: Tensor, outputs: slice = slice(None)) -> Tensor:
        found = super().forward(x, outputs)
        hidden = self.in_features
        if outputs.start is None:
            found[..., :hidden] += self.lora_query(x)
        if outputs.stop is None:
            found[..., -hidden:] += self.lora_value(x)
        return found


def add_lora(encoder: SharedEncoder, rank: int, alpha: float) -> None:
    """Freeze `encoder`; add changes of `rank`, times alpha / rank, to its queries and values."""
    encoder.requires_grad_(False)
    for module in encoder.modules():
        if isinstance(module, Attention):
            module.qkv = LoRALinear(module.qkv, rank, alpha / rank)
