"""A frozen encoder, which is not even loaded: heads are trained on cached features."""

import numpy as np
import pyarrow as pa
import torch
from torch import Tensor
from torch.nn import Parameter

from minbert.model.adapter import without_backbone
from minbert.model.multitask import Heads
from minbert.model.weights import load_weights
from minbert.spec.architecture import read_architecture
from minbert.spec.stage import StageSpec
from minbert.train.examples import Labelled, read_splits
from minbert.train.trainable import Sources, TrainableModel


class Pooled(Labelled):
    """One task's examples of one split with the pooled embeddings of their sequences [S, H]."""

    def __init__(
        self, table: pa.Table, features: Tensor, siamese: bool, device: torch.device
    ) -> None:
        super().__init__(table, siamese, device)
        # A copy: products of the file's unaligned memory would differ in their last bits.
        self.features = features.to(device).clone()


class FrozenProbe(TrainableModel):
    """Heads on the pooled embeddings of a frozen encoder (`minbert.train.features`)."""

    examples: dict[str, dict[str, Pooled]]
    trained = staticmethod(without_backbone)

    def __init__(self, spec: StageSpec, sources: Sources, device: torch.device) -> None:
        self.device = device
        hidden = read_architecture(sources.backbone / "config.json").hidden
        self.module = Heads(spec)
        self.examples = {}
        for task in spec.ordered_tasks:
            self.module.add_head(task, hidden)
            features = load_weights(sources.features[task])
            siamese = spec.tasks[task].pairing == "siamese"
            tables = read_splits(sources.tokens[task], ["id", "split", "label"])
            # Features have no tensor for a split without examples.
            self.examples[task] = {
                split: Pooled(
                    table, features.get(split, torch.empty(0, hidden)), siamese, self.device
                )
                for split, table in tables.items()
            }
        self.module.to(device)

    def output(self, task: str, rows: Tensor) -> tuple[Tensor, Tensor]:
        examples = self.examples[task]["train"]
        rows = rows.to(self.device)
        pooled = examples.features[examples.sequence_rows(rows)]
        return self.module.from_pooled(task, pooled), examples.labels[rows]

    def activations(self, task: str, rows: Tensor) -> np.ndarray:
        return np.zeros(len(rows))  # heads keep next to nothing

    @torch.no_grad()
    def outputs(self, task: str, split: str) -> Tensor:
        return self.module.from_pooled(task, self.examples[task][split].features)

    def shared_parameters(self) -> list[Parameter]:
        return []  # The tasks share the encoder alone, which is frozen.

    def own_parameters(self, task: str) -> list[Parameter]:
        return list(self.module.heads[task].parameters())
