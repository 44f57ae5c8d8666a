"""The model of a stage: an encoder shared as the spec says; pooling and head of each task."""

from __future__ import annotations

from typing import cast

from torch import Tensor, nn

from minbert.grid.architecture import Architecture
from minbert.grid.depth import shared_depth
from minbert.grid.parts import load_part
from minbert.grid.spec import StageSpec
from minbert.grid.tasks import TASKS
from minbert.model.packed import Packed
from minbert.model.pairs import feature_width, join
from minbert.model.pooling import Pooling
from minbert.model.sharing import SharedEncoder


class MultitaskModel(nn.Module):
    """`encoder` and `heads` of all tasks of `spec`, trained or not.

    Initial weights come from torch's default generator: seed it first.
    """

    def __init__(self, arch: Architecture, spec: StageSpec) -> None:
        super().__init__()
        self.spec = spec
        tasks = spec.ordered_tasks
        self.encoder = SharedEncoder(
            arch, tasks, shared_depth(spec.shared_layers, arch.layers), spec.dropout
        )
        self.heads = nn.ModuleDict()
        self.convolutions = nn.ModuleDict()
        self._poolings: dict[str, Pooling] = {}
        for name in tasks:
            task = spec.tasks[name]
            width = feature_width(task.features, arch.hidden) if task.features else arch.hidden
            head = load_part("head", task.head.name)(width, TASKS[name].classes, task.head)
            self.heads[name] = head
            if task.convolution:
                layer = load_part("token_layer", "convolution")
                self.convolutions[name] = layer(arch.hidden, task.convolution)
            self._poolings[name] = load_part("pooling", task.pooling)()

    def pooled(self, task: str, batch: Packed, noise: Tensor | None = None) -> Tensor:
        """Return the embedding of each row for `task`, [rows, H]."""
        pooling, convolved = self._poolings[task], task in self.convolutions
        hidden = self.encoder(task, batch, noise, pooling.first_only and not convolved)
        if convolved:
            hidden = self.convolutions[task](hidden, batch)
        return pooling(hidden, batch, self.encoder.pooler(task))

    def from_pooled(self, task: str, pooled: Tensor) -> Tensor:
        """Return logits [B, classes] from the embeddings of B rows; of 2B for a siamese task."""
        features = self.spec.tasks[task].features
        if features:
            u, v = pooled.chunk(2)
            pooled = join(u, v, features)
        return cast(Tensor, self.heads[task](pooled))

    def forward(self, task: str, batch: Packed, noise: Tensor | None = None) -> Tensor:
        """Return logits [B, classes].

        For a siamese task `batch` has 2B rows: all first sentences, then all second ones.
        `noise` [T, H] is added to the embeddings of its tokens.
        """
        return self.from_pooled(task, self.pooled(task, batch, noise))

    def shared_parameters(self) -> list[nn.Parameter]:
        """Return the parameters that several tasks train (never a head's)."""
        return self.encoder.shared_parameters()

    def own_parameters(self, task: str) -> list[nn.Parameter]:
        """Return the parameters that only `task` trains: its part of the encoder, and its head.

        A convolution over its tokens is the task's own too.
        """
        own = self.encoder.own_parameters(task) + list(self.heads[task].parameters())
        if task in self.convolutions:
            own += self.convolutions[task].parameters()
        return own
