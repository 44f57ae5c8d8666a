"""BERT's encoder on packed batches (Devlin et al., 2019, section 3; Vaswani et al., 2017)."""

from collections.abc import Iterable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from minbert.base.errors import UserError
from minbert.model.dropout import Dropout, dropout
from minbert.model.packed import Packed, PaddedView
from minbert.spec.architecture import Architecture
from minbert.spec.stage import Dropout as Rates


class Embeddings(nn.Module):
    """Normalised sum of word, position and token type embeddings; `noise` [T, H] is then added."""

    def __init__(self, arch: Architecture, dropout: Rates) -> None:
        super().__init__()
        self.word, self.position, self.token_type = (
            # Empty: torch's own draws would be unused, and on its meta device they cost a second.
            nn.Embedding(rows, arch.hidden, _weight=torch.empty(rows, arch.hidden))
            for rows in (arch.vocab_size, arch.positions, arch.types)
        )
        self.norm = nn.LayerNorm(arch.hidden, eps=arch.layer_norm_eps)
        self.dropout = Dropout(dropout.embedding)

    def forward(self, batch: Packed, noise: Tensor | None = None) -> Tensor:
        if batch.longest > self.position.num_embeddings:
            raise UserError(
                f"a row has {batch.longest} tokens, but the backbone knows "
                f"{self.position.num_embeddings} positions; lower 'max_length' to that"
            )
        summed = self.word(batch.tokens) + self.position(batch.positions)
        normed = self.norm(summed + self.token_type(batch.types))
        return self.dropout(normed if noise is None else normed + noise)


class Attention(nn.Module):
    """Multi-head self-attention with its skip connection and norm, [T, H] to [T, H]."""

    def __init__(self, arch: Architecture, dropout: Rates) -> None:
        super().__init__()
        if arch.hidden % arch.heads:
            raise UserError(f"{arch.hidden} hidden units do not divide among {arch.heads} heads")
        self.heads = arch.heads
        self.attention_dropout = dropout.attention
        self.qkv = nn.Linear(arch.hidden, 3 * arch.hidden)
        self.output = nn.Linear(arch.hidden, arch.hidden)
        self.dropout = Dropout(dropout.sublayer)
        self.adapter: nn.Module | None = None  # changes what is added to the input
        self.norm = nn.LayerNorm(arch.hidden, eps=arch.layer_norm_eps)

    def forward(self, hidden: Tensor, batch: Packed, first_only: bool = False) -> Tensor:
        """Return the output; with `first_only` that of each row's first token alone, [B, H]."""
        view, width = batch.padded, hidden.shape[1]
        if first_only:
            sizes = [width, 2 * width]
            to_query, to_others = zip(
                self.qkv.weight.split(sizes), self.qkv.bias.split(sizes), strict=True
            )
            keys_values = view.pad(F.linear(hidden, *to_others))
            hidden = hidden.index_select(0, batch.first)
            query = F.linear(hidden, *to_query).index_select(0, view.order)
            context = self._attend(query, keys_values, view).index_select(0, view.place)
        else:
            query, keys_values = view.pad(self.qkv(hidden)).split([width, 2 * width], dim=1)
            context = self._attend(query, keys_values, view).index_select(0, view.slots)
        changed = self.dropout(self.output(context))
        if self.adapter is not None:
            changed = self.adapter(changed)
        return self.norm(hidden + changed)

    def _attend(self, query: Tensor, keys_values: Tensor, view: PaddedView) -> Tensor:
        """Return the context of each query [N, H]: all slots, or one per row in groups' order."""
        dropout = self.attention_dropout if self.training else 0.0
        contexts = []
        every = len(query) == view.size
        queries = query.split([g.rows * (g.longest if every else 1) for g in view.groups])
        parts = keys_values.split([g.rows * g.longest for g in view.groups])
        for group, ours, part in zip(view.groups, queries, parts, strict=True):
            heads = ours.view(group.rows, -1, self.heads, ours.shape[1] // self.heads)
            parted = part.view(group.rows, group.longest, 2, self.heads, -1)
            key, value = parted.permute(2, 0, 3, 1, 4)
            context = attend(heads.transpose(1, 2), key, value, group.mask, dropout)
            contexts.append(context.transpose(1, 2).reshape(len(ours), -1))
        return torch.cat(contexts)


def attend(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, p: float) -> Tensor:
    """Return scaled dot-product attention [B, heads, L, d] (Vaswani et al., 2017, section 3.2.1).

    `mask` is True at the keys that count, bool [B, 1, 1, L], or None if all do. `p` is the dropout
    of attention weights, which torch's fused kernel lacks on a CPU.
    """
    if p == 0.0 or query.device.type != "cpu":
        return F.scaled_dot_product_attention(query, key, value, attn_mask=mask, dropout_p=p)
    scores = (query * query.shape[-1] ** -0.5) @ key.transpose(-1, -2)
    if mask is not None:
        scores = scores.masked_fill_(~mask, float("-inf"))
    return dropout(scores.softmax(-1), p) @ value


class FeedForward(nn.Module):
    """Position-wise sublayer with exact GELU; as `Attention` otherwise."""

    def __init__(self, arch: Architecture, dropout: Rates) -> None:
        super().__init__()
        self.inner = nn.Linear(arch.hidden, arch.intermediate)
        self.output = nn.Linear(arch.intermediate, arch.hidden)
        self.dropout = Dropout(dropout.sublayer)
        self.adapter: nn.Module | None = None
        self.norm = nn.LayerNorm(arch.hidden, eps=arch.layer_norm_eps)

    def forward(self, hidden: Tensor) -> Tensor:
        changed = self.dropout(self.output(F.gelu(self.inner(hidden))))
        if self.adapter is not None:
            changed = self.adapter(changed)
        return self.norm(hidden + changed)


class Layer(nn.Module):
    """One post-norm transformer layer: attention, then feed-forward."""

    def __init__(self, arch: Architecture, dropout: Rates) -> None:
        super().__init__()
        self.attention = Attention(arch, dropout)
        self.feed_forward = FeedForward(arch, dropout)

    def forward(self, hidden: Tensor, batch: Packed, first_only: bool = False) -> Tensor:
        return self.feed_forward(self.attention(hidden, batch, first_only))


class Pooler(nn.Module):
    """BERT's pooler: tanh of a linear map, [B, H] to [B, H]."""

    def __init__(self, arch: Architecture) -> None:
        super().__init__()
        self.dense = nn.Linear(arch.hidden, arch.hidden)

    def forward(self, hidden: Tensor) -> Tensor:
        return torch.tanh(self.dense(hidden))


class Stack(nn.Module):
    """A run of BERT's parts: the embeddings or not, some layers, the pooler or not.

    Parameter names are those of the backbone's file: `layers.6` is its seventh layer in any stack.
    """

    def __init__(
        self,
        arch: Architecture,
        dropout: Rates,
        *,
        layers: Iterable[int],
        embeddings: bool,
        pooler: bool,
    ) -> None:
        super().__init__()
        self.embeddings = Embeddings(arch, dropout) if embeddings else None
        self.layers = nn.ModuleDict({str(n): Layer(arch, dropout) for n in layers})
        self.pooler = Pooler(arch) if pooler else None

    def forward(
        self,
        batch: Packed,
        hidden: Tensor | None = None,
        noise: Tensor | None = None,
        first_only: bool = False,
    ) -> Tensor:
        """Return [T, H], from the stack's own embeddings or from `hidden` [T, H] of the one below.

        `noise` [T, H] is added to the stack's own embeddings. With `first_only` the last layer
        computes each row's first token alone, [B, H]: the same numbers, less work.
        """
        if (self.embeddings is None) == (hidden is None):
            raise ValueError("a stack starts from its own embeddings or from a hidden state")
        if self.embeddings is not None:
            hidden = self.embeddings(batch, noise)
        assert hidden is not None
        last = len(self.layers) - 1
        for number, layer in enumerate(self.layers.values()):
            hidden = layer(hidden, batch, first_only and number == last)
        return hidden


def whole_encoder(arch: Architecture, dropout: Rates) -> Stack:
    """Return the encoder with all of its parts; its state is a backbone's state."""
    return Stack(arch, dropout, layers=range(arch.layers), embeddings=True, pooler=True)


def allocate(module: nn.Module) -> None:
    """Give meta parameters memory on the CPU; `nn.Module.to_empty` imports sympy to do the same."""
    for part in module.modules():
        for name, parameter in part.named_parameters(recurse=False):
            setattr(part, name, nn.Parameter(torch.empty(parameter.shape)))


def initialise(module: nn.Module, generator: torch.Generator | None = None) -> None:
    """Draw BERT's initial weights: normal(0, 0.02), biases 0, norms 1 (Devlin et al.'s code)."""
    for part in module.modules():
        if isinstance(part, nn.Linear | nn.Embedding):
            nn.init.normal_(part.weight, std=0.02, generator=generator)
        if isinstance(part, nn.LayerNorm):
            nn.init.ones_(part.weight)
        if isinstance(part, nn.Linear | nn.LayerNorm) and part.bias is not None:
            nn.init.zeros_(part.bias)
