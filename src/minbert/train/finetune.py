"""Fine-tuning: encoder and heads are trained on packed batches of tokens."""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from torch.nn import Parameter

from minbert.common.errors import UserError
from minbert.grid.architecture import Architecture, read_architecture
from minbert.grid.spec import StageSpec
from minbert.model.multitask import MultitaskModel
from minbert.model.weights import load_weights
from minbert.train.distributed import ALONE, Alone
from minbert.train.examples import Examples, read_examples, special_tokens
from minbert.train.inference import pool_all
from minbert.train.learner import Sources


class Finetuned:
    """All weights are trained, from the backbone's or from those of an earlier stage.

    A head or convolution starts anew unless the earlier stage has that task's, of the same shape.
    A stage that trained heads alone leaves no encoder: its encoder was the backbone's.
    """

    def __init__(self, spec: StageSpec, sources: Sources, device: torch.device) -> None:
        architecture = read_architecture(sources.backbone / "config.json")
        self.architecture = architecture
        if spec.max_length > architecture.positions:
            spec = spec.model_copy(update={"max_length": architecture.positions})
        self.module = MultitaskModel(architecture, spec)
        self.module.encoder.load_backbone(load_weights(sources.backbone / "model.safetensors"))
        self._prepare(spec, sources, architecture)
        self.module.to(device)
        special = special_tokens(sources.backbone / "tokenizer.json")
        self.examples: dict[str, dict[str, Examples]] = {
            task: read_examples(
                path, task, spec.tasks[task].pairing, special, spec.max_length, device
            )
            for task, path in sources.tokens.items()
        }
        self.tokens_seen = 0

    def _prepare(self, spec: StageSpec, sources: Sources, architecture: Architecture) -> None:
        """Turn the pretrained model into the one that the stage begins with."""
        if sources.start is not None:
            self._start_from(load_weights(sources.start), sources.start)

    def _start_from(self, state: dict[str, Tensor], where: Path) -> None:
        ours = self.module.state_dict()
        earlier = state
        for task, how in self.module.spec.tasks.items():
            if how.head_from is not None:
                state = {n: t for n, t in state.items() if not n.startswith(f"heads.{task}.")}
                taken = f"heads.{how.head_from}."
                state |= {
                    f"heads.{task}.{name.removeprefix(taken)}": tensor
                    for name, tensor in earlier.items()
                    if name.startswith(taken)
                }
        # What one encoder for all tasks has learnt starts each task's own copy.
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
        # Half of a head is no head: a deeper one may share its first layer's shape, a wider
        # convolution its bias's.
        kinds = ("heads", "convolutions")
        for part in [f"{kind}.{task}." for task in self.module.heads for kind in kinds]:
            names = {k for k in {*ours, *state} if k.startswith(part)}
            if not names <= fits.keys():
                fits = {k: v for k, v in fits.items() if k not in names}
        self.module.load_state_dict(fits, strict=False)

    def size(self, task: str, split: str) -> int:
        """Return the number of examples of `task` in `split`."""
        return len(self.examples[task][split])

    def ids(self, task: str, split: str) -> list[str]:
        """Return the examples' ids, in row order."""
        return self.examples[task][split].ids

    def labels(self, task: str, split: str) -> Tensor:
        """Return the labels [N], float32, NaN where none is public."""
        return self.examples[task][split].labels

    def output(self, task: str, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Return the head's output [B, classes] and the labels [B] of training `rows` [B]."""
        batch, labels = self.examples[task]["train"].batch(rows)
        self.tokens_seen += batch.tokens.shape[0]
        return self.module(task, batch), labels

    def activations(self, task: str, rows: Tensor) -> np.ndarray:
        """Estimate what a step keeps for each of the training `rows` [B], bytes [B]."""
        examples = self.examples[task]["train"]
        lengths = examples.sequences.lengths[examples.sequence_rows(rows.numpy())]
        # A siamese pair has two sequences: all first ones, then all second ones.
        sizes: np.ndarray = self.architecture.activation_bytes(lengths)
        return sizes.reshape(-1, len(rows)).sum(0)

    def outputs(self, task: str, split: str, peers: Alone = ALONE) -> Tensor:
        """Return the head's output [N, classes] of a whole split, without gradients."""
        pooled = pool_all(partial(self.module.pooled, task), self.examples[task][split], peers)
        with torch.no_grad():
            return self.module.from_pooled(task, pooled)

    def details(self, task: str) -> dict[str, float]:
        """Return nothing: there is no more to a task than its scores."""
        return {}

    def shared_parameters(self) -> list[Parameter]:
        """Return the encoder's parameters that more than one task uses (never a head's)."""
        return [p for p in self.module.shared_parameters() if p.requires_grad]

    def own_parameters(self, task: str) -> list[Parameter]:
        """Return the parameters that `task` alone uses, its head among them."""
        return [p for p in self.module.own_parameters(task) if p.requires_grad]

    def weights(self) -> dict[str, Tensor]:
        """Return all tensors of encoder and heads by name."""
        return self.module.state_dict()

    def restore(self, weights: dict[str, Tensor]) -> None:
        """Put saved tensors back."""
        self.module.load_state_dict(weights)
