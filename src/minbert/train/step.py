"""One optimiser step's gradients: those of the summed losses, or combined by surgery."""

from collections.abc import Sequence
from functools import reduce
from itertools import chain
from typing import Any, NamedTuple, Self

import torch
from torch import Tensor
from torch.nn import Parameter

from minbert.spec.parts import load_part
from minbert.spec.stage import StageSpec
from minbert.train.activation_budget import divide
from minbert.train.checkpoints import Part
from minbert.train.samplers import Step
from minbert.train.surgery import Method
from minbert.train.surgery.gradients import (
    combine,
    cosine_rows,
    inner,
    inner_products,
    layer_groups,
)
from minbert.train.trainable import TrainableModel
from minbert.train.weightings import Weighting


class TaskResult(NamedTuple):
    """What a step found in one task's batch: `loss` is a scalar, `prediction` [B], detached."""

    task: str
    rows: Tensor
    weight: float
    loss: Tensor
    prediction: Tensor

    def joined(self, other: Self) -> Self:
        """Return the result of a batch of which these are two parts, whose losses add up."""
        return self._replace(
            rows=torch.cat([self.rows, other.rows]),
            loss=self.loss + other.loss,
            prediction=torch.cat([self.prediction, other.prediction]),
        )


class Gradients(Part):
    """Sets every trained parameter's gradient for a step.

    Without surgery, the loss is the weighted sum of the tasks' losses, or its mean. The tasks'
    batches go through the layers that they share as one, if all activations fit in memory, else
    one after the other. With surgery, the shared parameters get the combination that the method
    gives, and others their own task's gradient, which a method on whole gradients weights, too. A
    weighting multiplies each task's loss by a factor, and so all of its gradients, before surgery.

    A batch whose activations would take more than `activation_budget` bytes is divided. Losses are
    means over examples, so the parts' losses and gradients, weighted by their share of the
    examples, add up to the batch's. SMART's penalty, whose noise `seed` decides, is part of a
    task's loss. Surgery and weightings draw from `generator`.
    """

    kept = ("generator",)

    def __init__(
        self,
        spec: StageSpec,
        model: TrainableModel,
        seed: int,
        generator: torch.Generator,
        activation_budget: float = float("inf"),
    ) -> None:
        self.spec, self.model, self.generator = spec, model, generator
        # SMART keeps the activations of two passes.
        self.activation_budget = activation_budget / (2 if spec.smart else 1)
        self.most_parts = 1  # that a batch was divided into so far
        self.measure = False  # whether the next step fills `measured`
        self.measured: dict[tuple[str, str], Any] = {}
        self.shared = model.shared_parameters()
        self.groups = layer_groups(model.module, self.shared)
        self.own = {task: model.own_parameters(task) for task in spec.trained_tasks}
        tasks = len(self.own)
        self.penalty = load_part("penalty", "smart")(spec, model, seed) if spec.smart else None
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

    def __call__(self, step: Step) -> list[TaskResult]:
        """Run forward and backward for each batch, and return their results.

        `measured` is what the history records of the step besides, by (task or pair, metric).
        """
        self.measured = {}
        factors: Tensor | None = None
        if self.method is None and self.fits_jointly(step):
            losses, results = self._forward(step, len(step))
            if self.weighting is not None:
                factors = self.weighting(losses.detach())
                losses = losses * factors
            losses.sum().backward()
        else:
            results, of_shared = [], []
            for batch in step:
                results.append(self._in_parts(*batch, len(step)))
                if self.method or self.weighting:  # which need all gradients before they are summed
                    of_shared.append([parameter.grad for parameter in self.shared])
                    for parameter in self.shared:
                        parameter.grad = None
            if self.weighting is not None:
                factors = self.weighting(_weighted(results))
                self._scale_own(step, factors)
            if self.method is not None:
                self._operate(self.method, step, of_shared, factors)
            elif factors is not None:
                combine(self.shared, of_shared, factors)
        if self.weighting is not None and factors is not None:
            for result, factor in zip(results, factors, strict=True):
                self._note(result.task, "task_weight", result.weight * factor)
        return results

    def _note(self, task: str, metric: str, value: Tensor | float) -> None:
        """Add to what is measured, if anything is."""
        if self.measure:
            self.measured[task, metric] = self.measured.get((task, metric), 0) + value

    def fits_jointly(self, step: Step) -> bool:
        """Return whether all batches of `step` may go through the shared layers as one."""
        if self.penalty is not None or len(step) < 2 or not self.model.can_run_jointly:
            return False
        return sum(self.model.activations(*batch).sum() for batch in step) <= self.activation_budget

    def halve_budget(self, step: Step) -> None:
        """Halve the budget, or what the largest batch of `step` takes if that is less."""
        most = max(self.model.activations(task, rows).sum() for task, rows in step)
        self.activation_budget = min(self.activation_budget, most) / 2

    def _forward(
        self, batches: Step, of_step: int, share: float = 1.0
    ) -> tuple[Tensor, list[TaskResult]]:
        """Return the weighted losses [n], with their graph, and results of n batches of a step.

        A step has `of_step` batches. If only a part of a batch is given, `share` is its share of
        the batch's examples, by which what is found is multiplied.
        """
        losses, results = [], []
        outputs = self.model.forward(batches)
        for (task, rows), (output, labels) in zip(batches, outputs, strict=True):
            of_task = self.model.losses[task]
            loss = of_task.loss(output, labels)
            if self.penalty is not None:
                penalty, measured = self.penalty(task, rows, output, share, self.measure)
                loss = loss + penalty
                for metric, value in measured.items():
                    self._note(task, metric, value * share)
            loss = loss * share
            weight = self.spec.tasks[task].weight
            if self.spec.reduction == "mean":
                weight /= of_step
            losses.append(weight * loss)
            prediction = of_task.prediction(output.detach())
            results.append(TaskResult(task, rows, weight, loss.detach(), prediction))
        return torch.stack(losses), results

    def _in_parts(self, task: str, rows: Tensor, of_step: int) -> TaskResult:
        """Add the gradients of one batch's weighted loss, in parts if need be, to all `grad`."""
        sizes = self.model.activations(task, rows)
        parts = [rows[span] for span in divide(sizes, self.activation_budget)]
        self.most_parts = max(self.most_parts, len(parts))
        results: list[TaskResult] = []
        for part in parts:
            losses, found = self._forward([(task, part)], of_step, len(part) / len(rows))
            losses.sum().backward()
            results += found
        return reduce(TaskResult.joined, results)

    def _operate(
        self,
        method: Method,
        step: Step,
        of_shared: Sequence[Sequence[Tensor | None]],
        factors: Tensor | None,
    ) -> None:
        """Set the shared parameters' gradients to the combination that `method` gives.

        `of_shared` are those of the shared parameters, by batch, without the weighting's `factors`.
        """
        products = inner_products(of_shared)
        if factors is None:
            factors = products.new_ones(len(step))
        products *= torch.outer(factors, factors)
        gramian = products.sum(0)
        for place, (task, _) in enumerate(step if method.whole else ()):
            for gradient in (p.grad for p in self.own[task] if p.grad is not None):
                gramian[place, place] += inner(gradient, gradient)
        weights = method(gramian, self.generator)
        if method.whole:
            self._scale_own(step, weights)
        combine(self.shared, of_shared, weights * factors, mean=method.whole)
        if self.measure:
            for row in cosine_rows([task for task, _ in step], products, weights, self.groups):
                self._note(*row)

    def _scale_own(self, step: Step, factors: Tensor) -> None:
        """Multiply the gradients of what only one task uses by that task's factor."""
        for (task, _), factor in zip(step, factors, strict=True):
            for parameter in self.own[task]:
                if parameter.grad is not None:
                    parameter.grad = parameter.grad * factor


def _weighted(results: Sequence[TaskResult]) -> Tensor:
    """Return the weighted losses [n] of a step's batches."""
    return torch.stack([each.weight * each.loss for each in results])
