"""BERT's encoder on packed batches (Devlin et al., 2019, section 3; Vaswani et al., 2017), shared.

Those of DistilBERT, RoBERTa and ELECTRA are the same but for what their `Architecture` says.
"""

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from minbert.model.attention import attend
from minbert.model.layers import Dropout, LayerNorm, Linear
from minbert.model.packed import Packed, join
from minbert.spec.architecture import Architecture, Parts
from minbert.spec.parts import load_part
from minbert.spec.stage import Dropout as Rates


def table(rows: int, width: int) -> nn.Embedding:
    """Return an embedding whose weights are not drawn, which takes a second on the meta device."""
    return nn.Embedding(rows, width, _weight=torch.empty(rows, width))


class Embeddings(nn.Module):
    """Normalised sum of word, position and token type embeddings, as far as there are such.

    `noise` [T, H] is added to what the layers receive, before dropout. Embeddings of another width
    are mapped to H after dropout (Clark et al., 2020), and noise is added last.
    """

    def __init__(self, arch: Architecture, dropout: Rates) -> None:
        super().__init__()
        width = arch.embedding or arch.hidden
        self.first_position = arch.first_position
        self.word = table(arch.vocab_size, width)
        self.position = table(arch.position_rows, width) if arch.position_rows else None
        self.token_type = table(arch.types, width) if arch.types else None
        self.norm = nn.LayerNorm(width, eps=arch.layer_norm_eps, bias=arch.bias)
        self.dropout = Dropout(dropout.embedding)
        self.project = Linear(width, arch.hidden) if arch.embedding else None
        self.dtype: torch.dtype | None = None  # of the output; None: that of the weights

    def forward(self, batch: Packed, noise: Tensor | None = None) -> Tensor:
        found = self.word(batch.tokens)
        if self.position is not None:
            found = found + self.position(batch.positions + self.first_position)
        if self.token_type is not None:
            found = found + self.token_type(batch.types)
        found = self.norm(found)
        if noise is not None and self.project is None:
            found = found + noise
        found = self.dropout(found if self.dtype is None else found.to(self.dtype))
        if self.project is None:
            return found
        found = self.project(found)
        return found if noise is None else found + noise.to(found.dtype)


class Sublayer(nn.Module):
    """What attention and feed-forward have in common: x to norm(x + dropout(f(x))), [T, H].

    Where norms come first it is x + dropout(f(norm(x))) instead (Xiong et al., 2020). An `adapter`
    changes what is added. A subclass sets its first map, then calls `_end`: the order of weights
    decides how they are drawn and summed.
    """

    norm: nn.Module

    def _end(self, arch: Architecture, dropout: Rates, inner: int) -> None:
        """Set what follows `inner` units."""
        self.norm_first = arch.norm_first
        self.output = Linear(inner, arch.hidden, arch.bias)
        self.dropout = Dropout(dropout.sublayer)
        self.adapter: Any = None
        self.norm = LayerNorm(arch.hidden, eps=arch.layer_norm_eps, bias=arch.bias)

    def before(self, hidden: Tensor) -> Tensor:
        """Return what f reads, [T, H]."""
        return self.norm(hidden) if self.norm_first else hidden

    def after(self, hidden: Tensor, inner: Tensor) -> Tensor:
        """Return the sublayer's output from its input `hidden` [T, H] and its `inner` units."""
        change = self.output(inner)
        if self.adapter is None:
            hidden = self.dropout(change, hidden)
        else:
            hidden = hidden + self.adapter(self.dropout(change))
        return hidden if self.norm_first else self.norm(hidden)


class Attention(Sublayer):
    """Multi-head self-attention of layer `number`, from 0: all layers of BERT are alike."""

    window: int | None = None

    def __init__(self, arch: Architecture, dropout: Rates, number: int) -> None:
        super().__init__()
        self.heads = arch.heads
        self.attention_dropout = dropout.attention
        self.qkv = Linear(arch.hidden, 3 * arch.hidden, arch.bias)
        self._end(arch, dropout, arch.hidden)

    def forward(self, hidden: Tensor, batch: Packed, first_only: bool = False) -> Tensor:
        """Return the output; with `first_only` that of each row's first token alone, [B, H]."""
        inside, query = self.before(hidden), None
        width = hidden.shape[1]
        projected = self.qkv(inside, slice(width if first_only else None, None))
        if first_only:
            query = self.qkv(inside.index_select(0, batch.first), slice(width))
            hidden = hidden.index_select(0, batch.first)
        return self.after(hidden, self.attend(projected, query, batch))

    def attend(self, projected: Tensor, query: Tensor | None, batch: Packed) -> Tensor:
        """Call `minbert.model.attention.attend` with queries and keys as they are compared."""
        p = self.attention_dropout if self.training else 0.0
        return attend(projected, query, batch, self.heads, p, self.window)


class FeedForward(Sublayer):
    """Position-wise sublayer with GELU, or GeGLU: inner units times gates (Shazeer, 2020)."""

    def __init__(self, arch: Architecture, dropout: Rates) -> None:
        super().__init__()
        self.approximate = "tanh" if arch.activation == "gelu_tanh" else "none"
        self.parts = 2 if arch.gated else 1
        self.inner = Linear(arch.hidden, self.parts * arch.intermediate, arch.bias)
        self._end(arch, dropout, arch.intermediate)

    def forward(self, hidden: Tensor) -> Tensor:
        inner, *gate = self.inner(self.before(hidden)).chunk(self.parts, -1)
        inner = F.gelu(inner, approximate=self.approximate)
        return self.after(hidden, inner * gate[0] if gate else inner)


class Layer(nn.Module):
    """Transformer layer `number`, from 0; with norms first, the last normalises its output, too."""

    def __init__(self, arch: Architecture, dropout: Rates, number: int) -> None:
        super().__init__()
        self.attention: Attention = load_part("attention", arch.attention)(arch, dropout, number)
        self.feed_forward = FeedForward(arch, dropout)
        self.final_norm: nn.Module = nn.Identity()
        if arch.norm_first and number == arch.layers - 1:
            self.final_norm = LayerNorm(arch.hidden, eps=arch.layer_norm_eps, bias=arch.bias)

    def forward(self, hidden: Tensor, batch: Packed, first_only: bool = False) -> Tensor:
        return self.final_norm(self.feed_forward(self.attention(hidden, batch, first_only)))


class Stack(nn.Module):
    """Some `parts` of an encoder: the embeddings, a run of layers, the pooler.

    Parameter names are those of the backbone's file: `layers.6` is its seventh layer in any stack.
    """

    def __init__(self, arch: Architecture, dropout: Rates, parts: Parts) -> None:
        super().__init__()
        self.embeddings = Embeddings(arch, dropout) if parts.embeddings else None
        self.layers = nn.ModuleDict({str(n): Layer(arch, dropout, n) for n in parts.layers})
        self.pooler: nn.Module | None = None
        if parts.pooler:  # BERT's: tanh of a linear map, [B, H] to [B, H]
            dense = nn.Linear(arch.hidden, arch.hidden)
            self.pooler = nn.Sequential(OrderedDict(dense=dense, tanh=nn.Tanh()))

    def forward(
        self,
        batch: Packed,
        hidden: Tensor | None = None,
        noise: Tensor | None = None,
        first_only: bool = False,
    ) -> Tensor:
        """Return [T, H] from embeddings with `noise` [T, H], or from `hidden` of the stack below.

        With `first_only` the last layer computes each row's first token alone, [B, H].
        """
        if self.embeddings is not None:
            hidden = self.embeddings(batch, noise)
        assert hidden is not None
        last = len(self.layers) - 1
        for number, layer in enumerate(self.layers.values()):
            hidden = layer(hidden, batch, first_only and number == last)
        return hidden


def whole_encoder(arch: Architecture, dropout: Rates) -> Stack:
    """Return the encoder with all of its parts; its state is a backbone's state."""
    return Stack(arch, dropout, Parts(range(arch.layers), embeddings=True, pooler=True))


def compute_in(module: nn.Module, precision: str) -> None:
    """Let the encoders in `module` compute in `precision`: fp32 or bf16."""
    for part in module.modules():
        if isinstance(part, Embeddings):
            part.dtype = torch.bfloat16 if precision == "bf16" else None


def initialise(module: nn.Module, generator: torch.Generator | None = None) -> None:
    """Draw BERT's initial weights: normal(0, 0.02), biases 0, norms 1 (Devlin et al.'s code)."""
    for part in module.modules():
        if isinstance(part, nn.Linear | nn.Embedding):
            nn.init.normal_(part.weight, std=0.02, generator=generator)
        if isinstance(part, nn.LayerNorm):
            nn.init.ones_(part.weight)
        if isinstance(part, nn.Linear | nn.LayerNorm) and part.bias is not None:
            nn.init.zeros_(part.bias)


class ByTask(nn.ModuleDict):
    """Modules of tasks, which may be called what `ModuleDict` has already, such as `type`."""

    def add_module(self, name: str, module: Any) -> None:
        self._modules[name] = module


class SharedEncoder(nn.Module):
    """One encoder per task, random until `load_backbone`; they share what `shared` says."""

    def __init__(
        self, arch: Architecture, tasks: Sequence[str], shared: Parts, dropout: Rates
    ) -> None:
        super().__init__()
        self.hidden = arch.hidden
        layers = [number for number in range(arch.layers) if number not in shared.layers]
        rest = Parts(layers, not shared.embeddings, not shared.pooler)
        # On the meta device first, so that nn.Linear does not draw weights that are not used.
        with torch.device("meta"):
            self.shared = Stack(arch, dropout, shared)
            self.own: Any = ByTask({task: Stack(arch, dropout, rest) for task in tasks})
        # On the CPU; `to_empty` imports sympy to do the same.
        self._apply(lambda parameter: torch.empty(parameter.shape))
        initialise(self)

    def forward(
        self,
        batches: Sequence[tuple[str, Packed]],
        first_only: Sequence[bool],
        noise: Tensor | None = None,
    ) -> list[Tensor]:
        """Return the last layer of each (task, batch), [T, H], or [B, H] for `first_only`.

        The latter is of each row's first token alone; it is whole, [T, H], if the last layer is
        shared and not all of the tasks have it `first_only`. `noise` [T, H] is added to the
        embeddings. Several batches, of tasks that share the embeddings, go through the shared
        layers as one.
        """
        own = [self.own[task] for task, _ in batches]
        if self.shared.embeddings is None:
            ((_, batch),), (stack,), (first,) = batches, own, first_only
            hidden = stack(batch, noise=noise, first_only=first and not self.shared.layers)
            return [self.shared(batch, hidden, first_only=first)]
        whole = join([batch for _, batch in batches])
        firsts = all(first_only) and not own[0].layers
        sizes = [batch.rows if firsts else len(batch.tokens) for _, batch in batches]
        parts = self.shared(whole, noise=noise, first_only=firsts).split(sizes)
        given = zip(own, batches, parts, first_only, strict=True)
        return [stack(batch, part, first_only=first) for stack, (_, batch), part, first in given]

    def pooler(self, task: str) -> nn.Module:
        return self.shared.pooler or self.own[task].pooler

    def load_backbone(self, state: Mapping[str, Tensor]) -> None:
        """Start every copy from the same backbone: `state` has the names of `whole_encoder`."""
        for stack in (self.shared, *self.own.values()):
            stack.load_state_dict({name: state[name] for name in stack.state_dict()})
