"""A frozen encoder, which is not even loaded: heads are trained on cached features."""

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from minbert.data.parquet import read_splits
from minbert.model.multitask import Heads
from minbert.model.weights import load_weights
from minbert.spec.architecture import read_architecture
from minbert.spec.stage import StageSpec
from minbert.train.examples import Examples
from minbert.train.trainable import Sources, TrainableModel


class Features:
    """The pooled embeddings of sequences, [S, H], in their place."""

    def __init__(self, pooled: Tensor) -> None:
        self.pooled = pooled
        self.lengths = np.zeros(len(pooled), np.int64)  # Heads keep next to nothing.

    def pack(self, sequences: np.ndarray) -> Tensor:
        return self.pooled[torch.from_numpy(sequences).to(self.pooled.device)]

    def pool(self, encode: Callable[[Tensor], Tensor]) -> Tensor:
        return encode(self.pooled)


class FrozenProbe(TrainableModel):
    """Heads on the pooled embeddings of a frozen encoder (`minbert.train.features`)."""

    frozen = True

    def __init__(self, spec: StageSpec, sources: Sources, device: torch.device) -> None:
        self.architecture = read_architecture(sources.backbone / "config.json")
        hidden = self.architecture.hidden
        self.module = Heads(spec)
        self.examples = {}
        for task in spec.ordered_tasks:
            self.module.add_head(task, hidden)
            siamese = spec.tasks[task].pairing == "siamese"
            pooled = load_weights(sources.features[task])
            of_task = self.examples[task] = {}
            for split, table in read_splits(sources.tokens[task], ["id", "split", "label"]).items():
                # Copies: products of the file's unaligned memory would differ in their last bits.
                features = Features(pooled.get(split, torch.zeros(0, hidden)).to(device).clone())
                of_task[split] = Examples(table, siamese, features, device)
        self.module.to(device)
