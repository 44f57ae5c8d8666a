"""ModernBERT's attention (Warner et al., 2024); its other parts are BERT's."""

import torch
from torch import Tensor, nn

from minbert.model.encoder import Attention
from minbert.model.packed import Packed
from minbert.spec.architecture import Architecture
from minbert.spec.encoders.modernbert import ModernBert
from minbert.spec.stage import Dropout as Rates


class ModernAttention(Attention):
    """Attention to all tokens or to a window, with rotary positions (Su et al., 2021)."""

    def __init__(self, arch: Architecture, dropout: Rates, number: int) -> None:
        super().__init__(arch, dropout, number)
        assert isinstance(arch, ModernBert)
        # The embeddings' norm stands for that of the first layer.
        if not number:
            self.norm = nn.Identity()
        everywhere = number % arch.every == 0
        self.window = None if everywhere else arch.window // 2
        self.base = arch.global_base if everywhere else arch.local_base or arch.global_base

    def attend(self, projected: Tensor, query: Tensor | None, batch: Packed) -> Tensor:
        # A first token's query is at position 0, where nothing is turned.
        turned = 2 if query is None else 1
        size = self.output.in_features // self.heads
        vectors = projected.view(len(projected), -1, self.heads, size)
        cosine, sine = batch.derive(angles, self.base, size, projected.dtype)
        head, rest = vectors[:, :turned], vectors[:, turned:]
        left, right = head.chunk(2, -1)
        head = head * cosine + torch.cat([-right, left], -1) * sine
        projected = torch.cat([head, rest], 1).flatten(1)
        return super().attend(projected, query, batch)


def angles(batch: Packed, base: float, size: int, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """Return cosine and sine of each token's angles, [T, 1, 1, size]."""
    even = torch.arange(0, size, 2, device=batch.tokens.device).float()
    # Entries n and n + size / 2 of a vector are turned by position / base^(2 n / size).
    angle = batch.positions[:, None] * (1.0 / base ** (even / size))
    whole = torch.cat([angle, angle], 1)[:, None, None]
    return whole.cos().to(dtype), whole.sin().to(dtype)
