"""Fine-tuning: encoder and heads are trained on packed batches of tokens."""

import re
from functools import partial
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from torch.nn import Parameter

from minbert.base.errors import UserError
from minbert.model.multitask import MultitaskModel, build_model
from minbert.model.weights import load_weights
from minbert.spec.architecture import read_architecture
from minbert.spec.stage import StageSpec
from minbert.train.examples import Examples, read_examples, special_tokens
from minbert.train.inference import pool_all
from minbert.train.samplers import Step
from minbert.train.trainable import Sources, TrainableModel


class Finetuned(TrainableModel):
    """All weights are trained, starting from the backbone's or from those of an earlier stage.

    A head or convolution is new unless the earlier stage has one for that task, of the same shape.
    """

    module: MultitaskModel
    examples: dict[str, dict[str, Examples]]

    def __init__(self, spec: StageSpec, sources: Sources, device: torch.device) -> None:
        self.architecture = read_architecture(sources.backbone / "config.json")
        if spec.max_length > self.architecture.positions:
            spec = spec.model_copy(update={"max_length": self.architecture.positions})
        self.module = build_model(self.architecture, spec, sources.backbone)
        self._start(spec, sources)
        self.can_run_jointly = self.module.encoder.begins_shared
        self.module.to(device)
        special = special_tokens(sources.backbone / "tokenizer.json", self.architecture.two_types)
        words = self.architecture.vocab_size
        self.examples = {
            task: read_examples(
                path, task, spec.tasks[task].pairing, special, spec.max_length, device, words
            )
            for task, path in sources.tokens.items()
        }

    def _start(self, spec: StageSpec, sources: Sources) -> None:
        if sources.start is not None:
            start_from(self.module, load_weights(sources.start), sources.start)

    def output(self, task: str, rows: Tensor) -> tuple[Tensor, Tensor]:
        batch, labels = self.examples[task]["train"].batch(rows)
        self.tokens_seen += batch.tokens.shape[0]
        return self.module(task, batch), labels

    def joint_forward(self, step: Step) -> list[tuple[Tensor, Tensor]]:
        found = [self.examples[task]["train"].batch(rows) for task, rows in step]
        batches = [(task, batch) for (task, _), (batch, _) in zip(step, found, strict=True)]
        self.tokens_seen += sum(batch.tokens.shape[0] for batch, _ in found)
        outputs = self.module.together(batches)
        return [(output, labels) for output, (_, labels) in zip(outputs, found, strict=True)]

    def activations(self, task: str, rows: Tensor) -> np.ndarray:
        lengths = self.examples[task]["train"].lengths(rows)
        # A siamese pair has two sequences: all first ones, then all second ones.
        return self.architecture.activation_bytes(lengths).reshape(-1, len(rows)).sum(0)

    def outputs(self, task: str, split: str) -> Tensor:
        pooled = pool_all(partial(self.module.pooled, task), self.examples[task][split])
        with torch.no_grad():
            return self.module.from_pooled(task, pooled)

    def shared_parameters(self) -> list[Parameter]:
        return [p for p in self.module.shared_parameters() if p.requires_grad]

    def own_parameters(self, task: str) -> list[Parameter]:
        return [p for p in self.module.own_parameters(task) if p.requires_grad]


def start_from(model: MultitaskModel, state: dict[str, Tensor], where: Path) -> None:
    """Give `model` the weights `state` of the file `where`, which an earlier stage saved."""
    ours = model.state_dict()
    earlier = state
    for task, how in model.spec.tasks.items():
        if how.head_from is not None:
            state = {n: t for n, t in state.items() if not n.startswith(f"heads.{task}.")}
            taken = f"heads.{how.head_from}."
            for name in (name for name in earlier if name.startswith(taken)):
                state[name.replace(taken, f"heads.{task}.", 1)] = earlier[name]
    # One encoder for all tasks becomes the start of each task's own copy.
    for name in ours:
        whole = re.sub(r"^encoder\.own\.[^.]+\.", "encoder.shared.", name)
        if name not in state and whole in state:
            state = {**state, name: state[whole]}
    fits = {k: v for k, v in state.items() if k in ours and ours[k].shape == v.shape}
    missing = [k for k in ours if k.startswith("encoder.") and k not in fits]
    if missing and any(k.startswith("encoder.") for k in state):
        raise UserError(
            f"{where}: does not hold the encoder's {missing[0]} (and {len(missing) - 1} more); "
            "the stage it starts from must share layers in the same way"
        )
    # All of a head or nothing: a deeper head may have the same first layer, a wider convolution
    # the same bias.
    for part in [f"{kind}.{task}." for task in model.heads for kind in ("heads", "convolutions")]:
        names = {k for k in {*ours, *state} if k.startswith(part)}
        if not names <= fits.keys():
            fits = {k: v for k, v in fits.items() if k not in names}
    model.load_state_dict(fits, strict=False)
