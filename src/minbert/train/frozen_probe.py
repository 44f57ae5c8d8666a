"""A frozen encoder, which is not even loaded: heads are trained on cached features."""

from typing import Any

import numpy as np
import pyarrow as pa
import torch
from torch import Tensor

from minbert.model.adapter import without_backbone
from minbert.model.multitask import Heads
from minbert.model.weights import load_weights
from minbert.spec.architecture import read_architecture
from minbert.spec.stage import StageSpec
from minbert.train.examples import Labelled, read_splits
from minbert.train.trainable import Sources, TrainableModel


class Features(Labelled):
    """Labelled examples with the pooled embeddings of their sequences, [sequences, H]."""

    def __init__(self, table: pa.Table, siamese: bool, pooled: Tensor) -> None:
        super().__init__(table, siamese, pooled.device)
        self.pooled = pooled
        self.lengths = np.zeros(len(pooled), np.int64)  # Heads keep next to nothing.

    def batch(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Return the embeddings of example `rows` (int64 [B], CPU), and the labels [B]."""
        rows = rows.to(self.labels.device)
        return self.pooled[self.sequence_rows(rows)], self.labels[rows]

    def pool(self, _: Any) -> Tensor:
        """Return the embedding of every sequence."""
        return self.pooled


class FrozenProbe(TrainableModel):
    """Heads on the pooled embeddings of a frozen encoder (`minbert.train.features`)."""

    trained = staticmethod(without_backbone)

    def __init__(self, spec: StageSpec, sources: Sources, device: torch.device) -> None:
        self.architecture = read_architecture(sources.backbone / "config.json")
        self.module = Heads(spec)
        self.examples: dict[str, dict[str, Features]] = {}
        for task in spec.ordered_tasks:
            self.module.add_head(task, self.architecture.hidden)
            siamese = spec.tasks[task].pairing == "siamese"
            features = load_weights(sources.features[task])
            of_task = self.examples[task] = {}
            for split, table in read_splits(sources.tokens[task], ["id", "split", "label"]).items():
                pooled = features.get(split, torch.zeros(0, self.architecture.hidden))
                # Copies: products of the file's unaligned memory would differ in their last bits.
                of_task[split] = Features(table, siamese, pooled.to(device).clone())
        self.module.to(device)
