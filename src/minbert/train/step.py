"""One optimiser step's gradients: summed over tasks, or combined by surgery."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from itertools import chain
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import Parameter

from minbert.spec.parts import load_part
from minbert.spec.stage import StageSpec
from minbert.train.learner import Learner
from minbert.train.losses import Loss
from minbert.train.room import divide
from minbert.train.samplers import Step
from minbert.train.surgery.gradients import Surgery, combine, inner_products


class Trained(NamedTuple):
    """What a step found in one task's batch: `loss` is a scalar, `prediction` [B].

    `measured` are more scalars for the history, by metric, if `Passes.measure` is set.
    """

    task: str
    rows: Tensor
    weight: float
    loss: Tensor
    prediction: Tensor
    measured: Mapping[str, Tensor]


class Passes:
    """Forward and backward passes through a task's batch, in as many parts as memory needs.

    A batch whose activations would take more than `room` bytes is divided. Losses are means over
    examples, so the parts' losses and gradients, weighted by their share of the examples, add up
    to the batch's. SMART's penalty, whose noise `seed` decides, is part of a task's loss.
    """

    def __init__(
        self,
        spec: StageSpec,
        learner: Learner,
        losses: Mapping[str, Loss],
        autocast: Callable[[], AbstractContextManager[object]],
        seed: int = 0,
        room: float = float("inf"),
    ) -> None:
        self.learner = learner
        self.losses = losses
        self.autocast = autocast
        self.room = room / (2 if spec.smart else 1)
        self.parts = 1  # the most that a batch was divided into so far
        self.measure = False  # whether a penalty measures what the history records of it
        smart = load_part("penalty", "smart") if spec.smart else None
        self.penalty = smart(spec, learner, losses, seed) if smart else None

    def __call__(
        self, task: str, rows: Tensor, weight: float, parameters: Sequence[Parameter] | None
    ) -> tuple[Trained, list[Tensor | None]]:
        """Go forward and backward through the training `rows` [B] of `task`.

        Returns the gradients of the weighted loss for `parameters`; with None, all parameters'
        `grad` is added to instead.
        """
        losses: list[Tensor] = []
        predictions: list[Tensor] = []
        gradients: list[Tensor | None] = []
        measured: dict[str, Tensor] = {}
        parts = [rows[span] for span in divide(self.learner.activations(task, rows), self.room)]
        self.parts = max(self.parts, len(parts))
        for part in parts:
            share = len(part) / len(rows)
            loss, prediction, more = self._forward(task, part, share)
            loss = loss * share
            for metric, value in more.items():
                measured[metric] = measured.get(metric, 0) + value * share
            losses.append(loss.detach())
            predictions.append(prediction)
            if parameters is None:
                (weight * loss).backward()
                continue
            found = torch.autograd.grad(weight * loss, parameters, allow_unused=True)
            gradients = [
                b if a is None else a if b is None else a + b
                for a, b in zip(gradients or [None] * len(found), found, strict=True)
            ]
        loss = sum(losses[1:], losses[0])
        return Trained(task, rows, weight, loss, torch.cat(predictions), measured), gradients

    def _forward(
        self, task: str, rows: Tensor, share: float
    ) -> tuple[Tensor, Tensor, dict[str, Tensor]]:
        """Return loss, prediction [B] and what was measured of `rows` [B], a batch's `share`."""
        measured: dict[str, Tensor] = {}
        with self.autocast():
            output, labels = self.learner.output(task, rows)
            if self.penalty:
                penalty, measured = self.penalty(task, rows, output, share, self.measure)
        loss = self.losses[task].loss(output, labels)
        prediction = self.losses[task].prediction(output.detach().float())
        return loss + penalty if self.penalty else loss, prediction, measured

    def halve_room(self, step: Step) -> None:
        """Halve the room, or what the largest batch of `step` takes if that is less."""
        most = max(self.learner.activations(task, rows).sum() for task, rows in step)
        self.room = min(self.room, most) / 2


class Gradients:
    """Sets every trained parameter's gradient for a step.

    Without surgery the loss is the weighted sum of the tasks' losses, or its mean, with one
    backward pass per task to keep only its activations in memory. With surgery the shared
    parameters get the combination that the method gives, others their own task's gradient.
    """

    def __init__(self, spec: StageSpec, passes: Passes, generator: torch.Generator) -> None:
        self.passes = passes
        self.generator = generator
        self.weight = {name: task.weight for name, task in spec.tasks.items()}
        self.mean = spec.reduction == "mean"
        self.method = load_part("surgery", spec.surgery) if spec.surgery else None
        self.shared = passes.learner.shared_parameters()
        self.own = {task: passes.learner.own_parameters(task) for task in spec.trained_tasks}

    def parameters(self) -> list[Parameter]:
        """Return all trained parameters, each once."""
        return list(dict.fromkeys(chain(self.shared, *self.own.values())))

    def __call__(self, step: Step) -> tuple[list[Trained], Surgery | None]:
        """Run forward and backward for each batch; return their results and surgery's, if any."""
        by_task: list[list[Tensor | None]] = []
        trained: list[Trained] = []
        for task, rows in step:
            weight = self.weight[task] / (len(step) if self.mean else 1)
            if self.method is None:
                trained.append(self.passes(task, rows, weight, None)[0])
                continue
            if any(task == before.task for before in trained):
                raise ValueError(f"surgery is between tasks, but '{task}' is twice in a step")
            own = self.own[task]
            found, gradients = self.passes(task, rows, weight, [*self.shared, *own])
            trained.append(found)
            by_task.append(gradients[: len(self.shared)])
            for parameter, gradient in zip(own, gradients[len(self.shared) :], strict=True):
                parameter.grad = gradient
        if self.method is None:
            return trained, None
        products = inner_products(by_task)
        surgery = Surgery(products, self.method(products.sum(0), self.generator))
        combine(self.shared, by_task, surgery.weights)
        return trained, surgery
