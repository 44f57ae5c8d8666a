"""One optimiser step's gradients: summed over tasks, or operated on."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Protocol

import torch
from torch import Tensor

from minbert.grid.parts import load_part
from minbert.grid.spec import StageSpec
from minbert.train.learner import Learner
from minbert.train.losses import Loss
from minbert.train.samplers import Step
from minbert.train.surgery.gradients import combine, gramian

Note = Callable[[str, Tensor, float, Tensor], None]
"""Told of each batch: its task, its rows [B], the task's weight, and its loss (a scalar)."""


class Penalty(Protocol):
    """A penalty that is added to a task's loss."""

    generator: torch.Generator

    def __call__(self, task: str, rows: Tensor, output: Tensor) -> Tensor:
        """Return it for the training `rows` [B] of `task` and the head's `output` [B, classes]."""
        ...


class Gradients:
    """Sets every trainable parameter's gradient for a step. Returns the Gramian, if one is made.

    Without surgery the loss is the weighted sum of the tasks' losses (`reduction: mean` divides it
    by their number), one backward pass a task so that only one task's activations are alive at a
    time. SMART's penalty is part of a task's loss; `seed` is that of its noise. With surgery the
    shared parameters get the combination that the method's weights give; heads and a task's own
    layers always get their own task's gradient, never projected.
    """

    def __init__(
        self,
        spec: StageSpec,
        learner: Learner,
        losses: dict[str, Loss],
        autocast: Callable[[], AbstractContextManager[object]],
        generator: torch.Generator,
        seed: int = 0,
    ) -> None:
        self.learner = learner
        self.losses = losses
        self.weight = {name: task.weight for name, task in spec.tasks.items()}
        self.autocast = autocast
        self.generator = generator
        self.mean = spec.reduction == "mean"
        self.penalty: Penalty | None = (
            load_part("penalty", "smart")(spec, learner, losses, seed) if spec.smart else None
        )
        self.method = load_part("surgery", spec.surgery) if spec.surgery else None
        self.shared = learner.shared_parameters()
        self.own = {task: learner.own_parameters(task) for task in spec.trained_tasks}

    def __call__(self, step: Step, note: Note) -> Tensor | None:
        """Run forward and backward for each batch of `step`, telling `note` each task's loss.

        Returns the Gramian [n, n] of the n tasks' gradients before surgery, in the step's order.
        """
        by_task = []
        seen: set[str] = set()
        for task, rows in step:
            weight = self.weight[task] / (len(step) if self.mean else 1)
            with self.autocast():
                output, labels = self.learner.output(task, rows)
                penalty = self.penalty(task, rows, output) if self.penalty else None
            loss = self.losses[task].loss(output, labels)
            if penalty is not None:
                loss = loss + penalty
            note(task, rows, weight, loss)
            if self.method is None:
                (weight * loss).backward()
                continue
            if task in seen:
                raise ValueError(f"surgery is between tasks, but '{task}' is twice in a step")
            seen.add(task)
            own = self.own[task]
            found = torch.autograd.grad(weight * loss, [*self.shared, *own], allow_unused=True)
            by_task.append(found[: len(self.shared)])
            for parameter, gradient in zip(own, found[len(self.shared) :], strict=True):
                parameter.grad = gradient
        if self.method is None:
            return None
        products = gramian(by_task)
        combine(self.shared, by_task, self.method(products, self.generator))
        return products
