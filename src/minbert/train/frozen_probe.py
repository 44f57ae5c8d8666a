"""A frozen encoder, which is not even loaded: heads are trained on cached features."""

import numpy as np
import torch
from torch import Tensor

from minbert.model.adapter import without_backbone
from minbert.model.multitask import Heads
from minbert.model.weights import load_weights
from minbert.spec.architecture import read_architecture
from minbert.spec.stage import StageSpec
from minbert.train.examples import Labelled, read_splits
from minbert.train.samplers import Step
from minbert.train.trainable import Sources, TrainableModel


class FrozenProbe(TrainableModel):
    """Heads on the pooled embeddings of a frozen encoder (`minbert.train.features`).

    `features` are by task and split, [sequences, H]; a split without examples has none.
    """

    trained = staticmethod(without_backbone)

    def __init__(self, spec: StageSpec, sources: Sources, device: torch.device) -> None:
        self.device = device
        hidden = read_architecture(sources.backbone / "config.json").hidden
        self.module = Heads(spec)
        self.examples, self.features = {}, {}
        for task in spec.ordered_tasks:
            self.module.add_head(task, hidden)
            siamese = spec.tasks[task].pairing == "siamese"
            tables = read_splits(sources.tokens[task], ["id", "split", "label"])
            self.examples[task] = {s: Labelled(t, siamese, device) for s, t in tables.items()}
            # Copies: products of the file's unaligned memory would differ in their last bits.
            features = load_weights(sources.features[task]).items()
            self.features[task] = {split: each.to(device).clone() for split, each in features}
        self.module.to(device)

    def forward(self, step: Step) -> list[tuple[Tensor, Tensor]]:
        found = []
        for task, rows in step:
            examples, at = self.examples[task]["train"], rows.to(self.device)
            pooled = self.features[task]["train"][examples.sequence_rows(at)]
            found.append((self.module.from_pooled(task, pooled), examples.labels[at]))
        return found

    def activations(self, task: str, rows: Tensor) -> np.ndarray:
        return np.zeros(len(rows))  # heads keep next to nothing

    @torch.no_grad()
    def outputs(self, task: str, split: str) -> Tensor:
        return self.module.from_pooled(task, self.features[task][split])
