"""Heads that start at the best constant prediction (`start_at_prior`)."""

from typing import Any

import torch
from torch import Tensor

from minbert.model.heads.cosine import CosineHead
from minbert.spec.stage import StageSpec
from minbert.spec.task import TASKS
from minbert.train.trainable import TrainableModel

SAMPLE = 512
"""Training examples that a cosine's first threshold is found on."""


def start_at_prior(spec: StageSpec, model: TrainableModel) -> None:
    """Let the heads for which the spec asks it output what is best for all training labels.

    A cosine that separates two classes gets a threshold with as many examples above it as have
    label 1.
    """
    for task in spec.trained_tasks:
        if not spec.tasks[task].start_at_prior:
            continue
        labels = model.examples[task]["train"].labels
        head: Any = model.module.get_submodule(f"heads.{task}")
        head.start_at(model.losses[task].constant(labels, TASKS[task].classes))
        if TASKS[task].kind == "binary" and isinstance(head, CosineHead):
            head.part_at(_first_outputs(spec, model, task), labels.mean().item())


@torch.no_grad()
def _first_outputs(spec: StageSpec, model: TrainableModel, task: str) -> Tensor:
    """Return the outputs [N, classes] of up to `SAMPLE` training examples before any step."""
    size, seen = len(model.examples[task]["train"]), model.tokens_seen
    model.module.eval()
    rows = torch.arange(0, size, max(1, -(-size // SAMPLE)))
    batches = rows.split(spec.tasks[task].batch_size)
    outputs = torch.cat([model.output(task, batch)[0] for batch in batches])
    model.tokens_seen = seen
    return outputs
