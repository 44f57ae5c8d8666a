"""ModernBERT's encoder (Warner et al., 2024): BERT's parts, normalised before and not after."""

from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from minbert.model.attention import attend
from minbert.model.encoder import Attention, Embeddings, FeedForward, Layer, Stack, add
from minbert.model.packed import Packed
from minbert.model.precision import LayerNorm
from minbert.spec.architecture import Architecture
from minbert.spec.encoders.modernbert import ModernBert
from minbert.spec.stage import Dropout as Rates


class ModernEmbeddings(Embeddings):
    """Normalised word embeddings; positions are known to attention alone."""

    bias = False


class ModernAttention(Attention):
    """Attention to all tokens or to a window, with rotary positions (Su et al., 2021).

    In the first layer the embeddings' norm stands for its own.
    """

    bias = False

    def __init__(self, arch: ModernBert, dropout: Rates, number: int) -> None:
        super().__init__(arch, dropout)
        if not number:
            self.norm = nn.Identity()
        everywhere = number % arch.every == 0
        self.window = None if everywhere else arch.window // 2
        self.base = arch.global_base if everywhere else arch.local_base or arch.global_base

    def forward(self, hidden: Tensor, batch: Packed, first_only: bool = False) -> Tensor:
        context = self.context(self.norm(hidden), batch, first_only)
        if first_only:
            hidden = hidden.index_select(0, batch.first)
        return add(self, hidden, self.output(context))

    def attend(self, projected: Tensor, query: Tensor | None, batch: Packed, p: float) -> Tensor:
        # A first token's query is at position 0, where nothing is turned.
        turned = 2 if query is None else 1
        size = self.output.in_features // self.heads
        vectors = projected.view(len(projected), -1, self.heads, size)
        how = self.base, size, projected.dtype
        turns = batch.derive(("angles", *how), partial(angles, batch, *how))
        head = rotate(vectors[:, :turned], *turns)
        projected = torch.cat([head, vectors[:, turned:]], 1).flatten(1)
        return attend(projected, query, batch, self.heads, p, self.window)


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


class ModernFeedForward(FeedForward):
    """A feed-forward sublayer whose inner units are gated (GeGLU; Shazeer, 2020)."""

    bias, gated = False, True

    def forward(self, hidden: Tensor) -> Tensor:
        inner, gate = self.inner(self.norm(hidden)).chunk(2, -1)
        inner = F.gelu(inner, approximate=self.approximate) * gate
        return add(self, hidden, self.output(inner))


class ModernLayer(Layer):
    """A pre-norm layer; the last one normalises its output, too."""

    def __init__(self, arch: Architecture, dropout: Rates, number: int) -> None:
        nn.Module.__init__(self)
        assert isinstance(arch, ModernBert)
        self.attention = ModernAttention(arch, dropout, number)
        self.feed_forward = ModernFeedForward(arch, dropout)
        self.final_norm: nn.Module | None = None
        if number == arch.layers - 1:
            self.final_norm = LayerNorm(arch.hidden, eps=arch.layer_norm_eps, bias=False)

    def forward(self, hidden: Tensor, batch: Packed, first_only: bool = False) -> Tensor:
        hidden = super().forward(hidden, batch, first_only)
        return hidden if self.final_norm is None else self.final_norm(hidden)


class ModernStack(Stack):
    embeddings_of = ModernEmbeddings
    layer_of = ModernLayer
