"""ModernBERT's attention (Warner et al., 2024); its other parts are BERT's."""

import torch
from torch import Tensor, nn

from minbert.model.encoder import Attention
from minbert.model.packed import Packed
from minbert.spec.architecture import Architecture
from minbert.spec.encoders.modernbert import ModernBert
from minbert.spec.stage import Dropout as Rates


class ModernAttention(Attention):
    """Attention to all tokens or to a window, with rotary positions (Su et al., 2021).

    In the first layer the embeddings' norm stands for its own.
    """

    def __init__(self, arch: Architecture, dropout: Rates, number: int) -> None:
        super().__init__(arch, dropout, number)
        assert isinstance(arch, ModernBert)
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
        turns = batch.derive(angles, self.base, size, projected.dtype)
        head = rotate(vectors[:, :turned], *turns)
        projected = torch.cat([head, vectors[:, turned:]], 1).flatten(1)
        return super().attend(projected, query, batch)


def angles(batch: Packed, base: float, size: int, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """Return cosine and sine of each token's angles, [T, 1, 1, size].

    Entries n and n + size / 2 of a vector are turned by position / base^(2 n / size).
    """
    even = torch.arange(0, size, 2, device=batch.tokens.device).float()
    angle = batch.positions[:, None] * (1.0 / base ** (even / size))
    whole = torch.cat([angle, angle], 1)[:, None, None]
    return whole.cos().to(dtype), whole.sin().to(dtype)


def rotate(vectors: Tensor, cosine: Tensor, sine: Tensor) -> Tensor:
    """Return `vectors` [T, kinds, heads, size], each pair of entries turned by its angle."""
    left, right = vectors.chunk(2, -1)
    return vectors * cosine + torch.cat([-right, left], -1) * sine
