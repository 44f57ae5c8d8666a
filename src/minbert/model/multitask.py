"""The model of a stage: an encoder shared as the spec says, and each task's pooling and head."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from minbert.model.encoder import ByTask, SharedEncoder
from minbert.spec.architecture import Architecture, shared_parts
from minbert.spec.parts import load_part
from minbert.spec.stage import StageSpec
from minbert.spec.task import TASKS, Feature

Batches = Sequence[tuple[str, Any]]
"""Tasks, and for each what `pooled` takes: a `Packed` batch, or pooled embeddings."""


FEATURES: dict[Feature, Callable[[Tensor, Tensor], Tensor]] = {
    "u": lambda u, v: u,
    "v": lambda u, v: v,
    "u*v": lambda u, v: u * v,
    "|u-v|": lambda u, v: (u - v).abs(),
}


class Heads(nn.Module):
    """The heads of a stage's tasks, by name in `heads`: from pooled embeddings to logits."""

    can_run_jointly = False
    """Whether tasks share the first layers of what is trained, so that one pass pays."""

    def __init__(self, spec: StageSpec) -> None:
        super().__init__()
        self.spec = spec
        self.heads = ByTask()

    def add_head(self, name: str, hidden: int) -> None:
        """Add the head of the task `name`, for embeddings of width `hidden`, with new weights."""
        task = self.spec.tasks[name]
        # Features of a pair's two embeddings: Reimers and Gurevych (2019, section 3).
        width = len(task.features) * hidden if task.features else hidden
        make = load_part("head", task.head.name)
        self.heads[name] = make(width, TASKS[name].classes, task.head)

    def from_pooled(self, task: str, pooled: Tensor) -> Tensor:
        """Return logits [B, classes] of `pooled` [B, H]; pairs have 2 B, all first ones first."""
        features = self.spec.tasks[task].features
        if features:
            pair = pooled.chunk(2)
            pooled = torch.cat([FEATURES[feature](*pair) for feature in features], 1)
        return self.heads[task](pooled)

    def forward(self, batches: Batches, noise: Tensor | None = None) -> list[Tensor]:
        """Return the logits [B, classes] of each (task, batch), as `pooled` takes them."""
        pooled = self.pooled(batches, noise)
        return [self.from_pooled(task, of) for (task, _), of in zip(batches, pooled, strict=True)]

    def pooled(self, batches: Batches, noise: Tensor | None = None) -> list[Tensor]:
        """Return the pooled embeddings of each (task, batch): those that it holds."""
        return [batch for _, batch in batches]

    @torch.no_grad()
    def outputs(self, task: str, inputs: Any) -> Tensor:
        """Return the logits [N, classes] of all `inputs` of `task`, which are pooled in batches."""
        return self.from_pooled(task, inputs.pool(lambda of: self.pooled([(task, of)])[0]))

    def trained_parameters(self, task: str | None = None) -> dict[str, nn.Parameter]:
        """Return the trained parameters, by name, that only `task` uses, its head's too.

        Without a task, return those of the encoder that all tasks use.
        """
        parts = ["encoder.shared."]
        if task:
            parts = [f"encoder.own.{task}.", f"heads.{task}.", f"convolutions.{task}."]
        trained = {name: of for name, of in self.named_parameters() if of.requires_grad}
        return {name: trained[name] for part in parts for name in trained if name.startswith(part)}


class MultitaskModel(Heads):
    """The encoder, and each task's pooling, perhaps after a convolution, and head, trained or not.

    Weights are drawn from torch's default generator; `encoder.load_backbone` loads pretrained ones.
    """

    def __init__(self, arch: Architecture, spec: StageSpec) -> None:
        super().__init__(spec)
        tasks = spec.ordered_tasks
        shared = shared_parts(spec.shared_layers, spec.shared_end, arch.layers)
        self.encoder = SharedEncoder(arch, tasks, shared, spec.dropout)
        self.can_run_jointly = shared.embeddings
        self.convolutions = ByTask()
        self._poolings: dict[str, Any] = {}
        for name in tasks:
            task = spec.tasks[name]
            self.add_head(name, arch.hidden)
            if task.convolution:
                layer = load_part("token_layer", "convolution")
                self.convolutions[name] = layer(arch.hidden, task.convolution)
            self._poolings[name] = load_part("pooling", task.pooling)()

    def pooled(self, batches: Batches, noise: Tensor | None = None) -> list[Tensor]:
        """Return the embeddings of the rows of each (task, batch), [rows, H], float32.

        `noise` [T, H] is added to the embeddings of all T tokens. Several batches go through the
        layers that they share as one: only if they `can_run_jointly`.
        """
        firsts = [
            self._poolings[task].first_only and task not in self.convolutions for task, _ in batches
        ]
        found = []
        outputs = self.encoder(batches, firsts, noise)
        for (task, batch), output in zip(batches, outputs, strict=True):
            convolved = task in self.convolutions
            hidden = self.convolutions[task](output, batch) if convolved else output
            found.append(self._poolings[task](hidden.float(), batch, self.encoder.pooler(task)))
        return found
