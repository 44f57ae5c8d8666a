"""What the loop trains: a model with its examples, however much of it is frozen."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from minbert.model.encoder import SharedEncoder
from minbert.model.multitask import Heads, MultitaskModel
from minbert.model.weights import load_weights
from minbert.spec.architecture import WEIGHTS, Architecture, read_architecture
from minbert.spec.stage import StageSpec
from minbert.spec.task import TASKS
from minbert.train.checkpoints import Part
from minbert.train.examples import Examples, read_examples
from minbert.train.losses import Loss, task_loss
from minbert.train.samplers import Step

INSERTED = (".adapter.", ".qkv.lora_")
"""What the names of an encoder's tensors that are not the backbone's contain."""
SAMPLE = 512
"""Training examples that a cosine's first threshold is found on."""


@dataclass(frozen=True)
class Sources:
    """The files that a stage is trained on; tasks map to `tokens.parquet` or cached features."""

    backbone: Path
    tokens: dict[str, Path]
    features: dict[str, Path]
    start: Path | None = None  # the weights of the stage that it starts from
    adapters: tuple[Path, ...] = ()  # those of the stages that it fuses


class TrainableModel(Part):
    """A model with its data: takes batches as row numbers, returns outputs [B, classes].

    It is made of a stage's `StageSpec`, its `Sources` and the device.

    `examples` are by task and split (train, dev, test): what `batch` gives of them, `module` takes.
    `tokens_seen` counts training batches'.
    """

    kept = ("weights", "tokens_seen")

    module: Heads
    architecture: Architecture
    examples: dict[str, dict[str, Examples]]
    tokens_seen = 0
    frozen = False  # whether the backbone is

    @staticmethod
    def insert(encoder: SharedEncoder, spec: StageSpec, state: Mapping[str, Tensor]) -> None:
        """Add to the pretrained `encoder` what the stage inserts; `state` is what it saved."""

    @classmethod
    def trained(cls, state: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Return what is saved of the tensors of a whole model: all but a frozen backbone's."""
        return {
            name: tensor
            for name, tensor in state.items()
            if not (cls.frozen and name.startswith("encoder."))
            or any(part in name for part in INSERTED)
        }

    @cached_property
    def losses(self) -> dict[str, Loss]:
        """Return each task's loss, which reads the output of its head."""
        tasks = self.module.spec.tasks
        return {name: task_loss(of.loss, self.module.heads[name]) for name, of in tasks.items()}

    def forward(self, step: Step) -> list[tuple[Tensor, Tensor]]:
        """Return the output [B, classes] and the labels [B] of each batch of a training step."""
        batches, labels = [], []
        for task, rows in step:
            examples = self.examples[task]["train"]
            batch, label = examples.batch(rows)
            batches.append((task, batch))
            labels.append(label)
            self.tokens_seen += int(examples.lengths(rows).sum())
        return list(zip(self.module(batches), labels, strict=True))

    def outputs(self, task: str, split: str) -> Tensor:
        """Return the head's output [N, classes] of a whole split, without gradients."""
        return self.module.outputs(task, self.examples[task][split].inputs)

    def activations(self, task: str, rows: Tensor) -> np.ndarray:
        """Estimate what a step keeps for each of the training `rows` [B], bytes [B]."""
        lengths = self.examples[task]["train"].lengths(rows)
        # A siamese pair has two sequences: all first ones, then all second ones.
        return self.architecture.activation_bytes(lengths).reshape(-1, len(rows)).sum(0)

    @torch.no_grad()
    def init_bias_to_prior(self, task: str) -> None:
        """Let a head output what is best for all training labels."""
        examples = self.examples[task]["train"]
        head: Any = self.module.heads[task]
        if not hasattr(head, "part_at"):
            head.start_at(self.losses[task].constant(examples.labels, TASKS[task].classes))
        # As many of the first outputs are above a cosine's threshold as have label 1.
        elif TASKS[task].kind == "binary":
            self.module.eval()
            rows = torch.arange(0, len(examples), max(1, -(-len(examples) // SAMPLE)))
            parts = rows.split(self.module.spec.tasks[task].batch_size)
            outputs = [self.module([(task, examples.batch(part)[0])])[0] for part in parts]
            head.part_at(torch.cat(outputs), examples.labels.mean().item())

    def details(self, task: str) -> dict[str, float]:
        """Return what figures show of a trained task on dev besides its scores, by metric."""
        return {}

    @property
    def weights(self) -> dict[str, Tensor]:
        """The tensors that are saved, by the whole model's names; a frozen rest stays as it is."""
        return self.trained(self.module.state_dict())

    @weights.setter
    def weights(self, weights: dict[str, Tensor]) -> None:
        self.module.load_state_dict(self.module.state_dict() | weights)


class Finetuned(TrainableModel):
    """Encoder and heads are trained, from the backbone's weights or from those of an earlier stage.

    A head or convolution is new unless the earlier stage has one for that task, of the same shape.
    New weights come from torch's default generator: seed it first.
    """

    module: MultitaskModel

    def __init__(self, spec: StageSpec, sources: Sources, device: torch.device) -> None:
        backbone = sources.backbone
        self.architecture = read_architecture(backbone / "config.json")
        self.module = MultitaskModel(self.architecture, spec)
        self.module.encoder.load_backbone(load_weights(backbone / WEIGHTS))
        self.module.encoder.requires_grad_(not self.frozen)
        self.start(sources)
        self.module.to(device)
        self.examples = {
            task: read_examples(path, spec.tasks[task].pairing, backbone, spec.max_length, device)
            for task, path in sources.tokens.items()
        }

    def start(self, sources: Sources) -> None:
        """Insert what the stage inserts, and take over what an earlier one trained."""
        model = self.module
        self.insert(model.encoder, model.spec, {})
        state = load_weights(sources.start) if sources.start else {}

        def part(prefix: str) -> dict[str, Tensor]:
            return {n.removeprefix(prefix): t for n, t in state.items() if n.startswith(prefix)}

        if earlier := part("encoder."):
            # One encoder for all tasks becomes the start of each task's own copy.
            ours = model.encoder.state_dict()
            own = re.compile(r"^own\.[^.]+\.")
            names = {name: name if name in earlier else own.sub("shared.", name) for name in ours}
            model.encoder.load_state_dict({n: earlier[place] for n, place in names.items()})
        # All of a head or nothing: a deeper head may have the same first layer, a wider convolution
        # the same bias.
        for kind, modules in (("heads", model.heads), ("convolutions", model.convolutions)):
            for task, module in modules.items():
                from_task = (kind == "heads" and model.spec.tasks[task].init_head_from) or task
                theirs = part(f"{kind}.{from_task}.")
                shapes = [
                    {n: t.shape for n, t in of.items()} for of in (theirs, module.state_dict())
                ]
                if shapes[0] == shapes[1]:
                    module.load_state_dict(theirs)
