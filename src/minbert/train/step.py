"""One optimiser step's gradients: summed over tasks, or combined by surgery."""

from collections.abc import Mapping, Sequence
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
from minbert.train.surgery import Method
from minbert.train.surgery.gradients import Surgery, combine, inner, inner_products
from minbert.train.weightings import Weighting


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
        seed: int = 0,
        room: float = float("inf"),
    ) -> None:
        self.learner = learner
        self.losses = losses
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

    def fits_together(self, step: Step) -> bool:
        """Return whether all batches of `step` may go through the shared layers as one."""
        if self.penalty is not None or len(step) < 2 or not self.learner.begins_shared:
            return False
        return sum(self.learner.activations(*batch).sum() for batch in step) <= self.room

    def together(
        self, step: Step, weights: Sequence[float], weighting: Weighting | None
    ) -> list[Trained]:
        """Add the gradients of the batches' weighted losses to all parameters' `grad`.

        With a `weighting`, they are multiplied by its factors.
        """
        found = self.learner.together(step)
        losses = [
            self.losses[task].loss(output, labels)
            for (task, _), (output, labels) in zip(step, found, strict=True)
        ]
        weighted = torch.stack([w * loss for w, loss in zip(weights, losses, strict=True)])
        factors = weighting(weighted.detach()) if weighting else None
        (weighted if factors is None else weighted * factors).sum().backward()
        trained = [
            Trained(
                task, rows, weight, loss.detach(), self.losses[task].prediction(output.detach()), {}
            )
            for (task, rows), weight, loss, (output, _) in zip(
                step, weights, losses, found, strict=True
            )
        ]
        return trained if factors is None else self.noted(trained, factors)

    def noted(self, trained: Sequence[Trained], factors: Tensor) -> list[Trained]:
        """Return `trained` with what each loss was multiplied by, if that is measured."""
        if not self.measure:
            return list(trained)
        return [
            each._replace(measured={**each.measured, "task_weight": each.weight * factor})
            for each, factor in zip(trained, factors, strict=True)
        ]

    def _forward(
        self, task: str, rows: Tensor, share: float
    ) -> tuple[Tensor, Tensor, dict[str, Tensor]]:
        """Return loss, prediction [B] and what was measured of `rows` [B], a batch's `share`."""
        measured: dict[str, Tensor] = {}
        output, labels = self.learner.output(task, rows)
        if self.penalty:
            penalty, measured = self.penalty(task, rows, output, share, self.measure)
        loss = self.losses[task].loss(output, labels)
        prediction = self.losses[task].prediction(output.detach())
        return loss + penalty if self.penalty else loss, prediction, measured

    def halve_room(self, step: Step) -> None:
        """Halve the room, or what the largest batch of `step` takes if that is less."""
        most = max(self.learner.activations(task, rows).sum() for task, rows in step)
        self.room = min(self.room, most) / 2


class Gradients:
    """Sets every trained parameter's gradient for a step.

    Without surgery the loss is the weighted sum of the tasks' losses, or its mean: the tasks'
    batches go through the layers that they share as one, if all activations fit in memory, else
    one after the other. With surgery the shared parameters get the combination that the method
    gives, others their own task's gradient, which a method on whole gradients weights, too. A
    weighting multiplies each task's loss by a factor, and so all of its gradients, before surgery.
    """

    def __init__(self, spec: StageSpec, passes: Passes, generator: torch.Generator) -> None:
        self.passes = passes
        self.generator = generator
        self.weight = {name: task.weight for name, task in spec.tasks.items()}
        self.mean = spec.reduction == "mean"
        tasks = len(spec.trained_tasks)
        self.shared = passes.learner.shared_parameters()
        self.own = {task: passes.learner.own_parameters(task) for task in spec.trained_tasks}
        self.method: Method | None = None
        if spec.surgery:
            self.method = load_part("surgery", spec.surgery)(tasks)
        self.weighting: Weighting | None = None
        if spec.weighting:
            device = next(chain(self.shared, *self.own.values())).device
            self.weighting = load_part("weighting", spec.weighting)(tasks, generator, device)

    def parameters(self) -> list[Parameter]:
        """Return all trained parameters, each once."""
        learned = self.weighting.parameters() if self.weighting else []
        return list(dict.fromkeys(chain(self.shared, *self.own.values(), learned)))

    def __call__(self, step: Step) -> tuple[list[Trained], Surgery | None]:
        """Run forward and backward for each batch; return their results and surgery's, if any."""
        weights = [self.weight[task] / (len(step) if self.mean else 1) for task, _ in step]
        surgery: Surgery | None = None
        if self.method is None and self.passes.fits_together(step):
            trained = self.passes.together(step, weights, self.weighting)
        elif self.method is None and self.weighting is None:
            both = zip(step, weights, strict=True)
            trained = [self.passes(*batch, weight, None)[0] for batch, weight in both]
        else:
            trained, surgery = self._by_task(step, weights)
        if self.weighting is not None:
            self.weighting.after_step(_weighted(trained))
        return trained, surgery

    def end_epoch(self) -> None:
        if self.weighting is not None:
            self.weighting.end_epoch()

    def _by_task(
        self, step: Step, weights: Sequence[float]
    ) -> tuple[list[Trained], Surgery | None]:
        """Keep each task's gradients apart until all losses are known, then combine them."""
        by_task: list[list[Tensor | None]] = []
        trained: list[Trained] = []
        for (task, rows), weight in zip(step, weights, strict=True):
            if any(task == before.task for before in trained):
                raise ValueError(f"a step has one batch of each task, but '{task}' is there twice")
            own = self.own[task]
            found, gradients = self.passes(task, rows, weight, [*self.shared, *own])
            trained.append(found)
            by_task.append(gradients[: len(self.shared)])
            for parameter, gradient in zip(own, gradients[len(self.shared) :], strict=True):
                parameter.grad = gradient
        factors = None
        if self.weighting is not None:
            factors = self.weighting(_weighted(trained))
            trained = self.passes.noted(trained, factors)
            self._weight_own(step, factors)
        if self.method is None:
            assert factors is not None
            combine(self.shared, by_task, factors)
            return trained, None
        products = inner_products(by_task)
        if factors is not None:
            products = products * torch.outer(factors, factors)
        gramian, whole = products.sum(0), self.method.whole
        if whole:
            for place, (task, _) in enumerate(step):
                for gradient in (p.grad for p in self.own[task] if p.grad is not None):
                    gramian[place, place] += inner(gradient, gradient)
        surgery = Surgery(products, self.method(gramian, self.generator))
        if whole:
            self._weight_own(step, surgery.weights)
        combined = surgery.weights if factors is None else surgery.weights * factors
        combine(self.shared, by_task, combined, mean=whole)
        return trained, surgery

    def _weight_own(self, step: Step, weights: Tensor) -> None:
        """Multiply the gradients of what only one task uses by that task's weight."""
        for (task, _), weight in zip(step, weights, strict=True):
            for parameter in self.own[task]:
                if parameter.grad is not None:
                    parameter.grad = parameter.grad * weight


def _weighted(trained: Sequence[Trained]) -> Tensor:
    """Return the weighted losses [n] of a step's batches."""
    return torch.stack([each.weight * each.loss for each in trained])
