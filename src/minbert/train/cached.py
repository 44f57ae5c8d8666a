"""A frozen encoder: heads alone are trained, on features that a rule of their own has cached."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow.compute as pc
import torch
from torch import Tensor
from torch.nn import Module, ModuleDict, Parameter

from minbert.common.parquet import read_file
from minbert.grid.architecture import read_architecture
from minbert.grid.parts import load_part
from minbert.grid.spec import StageSpec
from minbert.grid.tasks import TASKS
from minbert.model.pairs import feature_width, join
from minbert.model.weights import load_weights
from minbert.train.distributed import ALONE, Alone
from minbert.train.learner import Sources

SPLITS = ("train", "dev", "test")


class Heads(Module):
    """One head a task, named as in the whole model, so that saved weights fit both.

    Initial weights come from torch's default generator: seed it first.
    """

    def __init__(self, spec: StageSpec, hidden: int) -> None:
        super().__init__()
        self.heads = ModuleDict()
        for name in spec.ordered_tasks:
            task = spec.tasks[name]
            width = feature_width(task.features, hidden) if task.features else hidden
            self.heads[name] = load_part("head", task.head.name)(
                width, TASKS[name].classes, task.head
            )


class Cached:
    """Heads on cached features; the encoder is not even loaded."""

    def __init__(self, spec: StageSpec, sources: Sources, device: torch.device) -> None:
        self.spec = spec
        self.device = device
        hidden = read_architecture(sources.backbone / "config.json").hidden
        self.module = Heads(spec, hidden).to(device)
        self._ids: dict[tuple[str, str], list[str]] = {}
        self._labels: dict[tuple[str, str], Tensor] = {}
        self._features: dict[tuple[str, str], Tensor] = {}
        for task in spec.ordered_tasks:
            self._load(task, sources.tokens[task], sources.features[task])
        self.tokens_seen = 0

    def _load(self, task: str, tokens: Path, features: Path) -> None:
        table = read_file(tokens, ["id", "split", "label"])
        pooled = load_weights(features)
        for split in SPLITS:
            part = table.filter(pc.equal(table.column("split"), split))
            labels = part.column("label").to_numpy(zero_copy_only=False).astype(np.float32)
            self._ids[task, split] = part.column("id").to_pylist()
            self._labels[task, split] = torch.from_numpy(labels.copy()).to(self.device)
            if len(part):
                # A copy of its own: products of a file's unaligned memory end in other last bits.
                self._features[task, split] = pooled[split].to(self.device).clone()

    def _joined(self, task: str, split: str, rows: Tensor | slice) -> Tensor:
        pooled = self._features[task, split]
        features = self.spec.tasks[task].features
        if not features:
            return pooled[rows]
        u, v = pooled.chunk(2)
        return join(u[rows], v[rows], features)

    def size(self, task: str, split: str) -> int:
        """Return the number of examples of `task` in `split`."""
        return len(self._ids[task, split])

    def ids(self, task: str, split: str) -> list[str]:
        """Return the examples' ids, in row order."""
        return self._ids[task, split]

    def labels(self, task: str, split: str) -> Tensor:
        """Return the labels [N], float32, NaN where none is public."""
        return self._labels[task, split]

    def output(self, task: str, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Return the head's output [B, classes] and the labels [B] of training `rows` [B]."""
        rows = rows.to(self.device)
        head = self.module.heads[task]
        return head(self._joined(task, "train", rows)), self._labels[task, "train"][rows]

    def activations(self, task: str, rows: Tensor) -> np.ndarray:
        """Return zeros: what heads keep is nothing beside the features."""
        return np.zeros(len(rows))

    @torch.no_grad()
    def outputs(self, task: str, split: str, peers: Alone = ALONE) -> Tensor:
        """Return the head's output [N, classes] of a whole split, without gradients.

        It costs too little to be shared out among `peers`.
        """
        head = self.module.heads[task]
        return head(self._joined(task, split, slice(None)))

    def details(self, task: str) -> dict[str, float]:
        """Return nothing: there is no more to a task than its scores."""
        return {}

    def shared_parameters(self) -> list[Parameter]:
        """Return no parameters: the encoder, all that tasks share, is frozen."""
        return []

    def own_parameters(self, task: str) -> list[Parameter]:
        """Return the parameters of the head of `task`."""
        return list(self.module.heads[task].parameters())

    def weights(self) -> dict[str, Tensor]:
        """Return the heads' tensors by the whole model's names (`heads.TASK. ...`)."""
        return self.module.state_dict()

    def restore(self, weights: dict[str, Tensor]) -> None:
        """Put saved heads back."""
        self.module.load_state_dict(weights)
