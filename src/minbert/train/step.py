"""One optimiser step's gradients: those of the summed losses, or combined by surgery."""

from collections.abc import Sequence
from itertools import chain
from typing import Any, NamedTuple

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
        tasks, device = len(self.own), next(model.module.parameters()).device

        def part(kind: str, name: str | None, *given: Any) -> Any:
            return load_part(kind, name)(*given) if name else None

        self.penalty = part("penalty", "smart" if spec.smart else None, spec, model, seed)
        self.method: Method | None = part("surgery", spec.surgery, tasks)
        self.weighting: Weighting | None = part(
            "weighting", spec.weighting, tasks, generator, device
        )

    def parameters(self) -> list[Parameter]:
        """Return all trained parameters, each once."""
        learned = self.weighting.parameters() if self.weighting else []
        return list(dict.fromkeys(chain(self.shared, *self.own.values(), learned)))

    def __call__(self, step: Step) -> list[TaskResult]:
        """Run forward and backward for each batch, and return their results.

        `measured` is what the history records of the step besides, by (task or pair, metric).
        """
        self.measured = {}
        if self.method is None and self.fits_jointly(step):
            losses, results = self._forward(step, len(step))
            factors = self._factors(losses.detach())
            (losses * factors).sum().backward()
        else:
            results, of_shared = [], []
            for batch in step:
                results.append(self._in_parts(*batch, len(step)))
                if self.method or self.weighting:  # which need all of them before they are summed
                    of_shared.append([parameter.grad for parameter in self.shared])
                    for parameter in self.shared:
                        parameter.grad = None
            factors = self._factors(_weighted(results))
            if of_shared:
                self._combine([task for task, _ in step], of_shared, factors)
        if self.weighting is not None:
            for result, factor in zip(results, factors, strict=True):
                self._note(result.task, "task_weight", result.weight * factor)
        return results

    def _factors(self, losses: Tensor) -> Tensor:
        """Return what each of the weighted `losses` [n] is multiplied by."""
        return torch.ones_like(losses) if self.weighting is None else self.weighting(losses)

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
        found: list[TaskResult] = []
        for part in parts:
            losses, results = self._forward([(task, part)], of_step, len(part) / len(rows))
            losses.sum().backward()
            found += results
        loss = torch.stack([result.loss for result in found]).sum()
        prediction = torch.cat([result.prediction for result in found])
        return found[0]._replace(rows=rows, loss=loss, prediction=prediction)

    def _combine(
        self, tasks: Sequence[str], of_shared: Sequence[Sequence[Tensor | None]], factors: Tensor
    ) -> None:
        """Set the gradients of a step's `tasks` by the `factors` [n] of their losses, and surgery.

        `of_shared` are those of the shared parameters, by task, without the factors.
        """
        if self.weighting is not None:
            self._scale_own(tasks, factors)
        if self.method is None:
            combine(self.shared, of_shared, factors)
            return
        products = inner_products(of_shared) * torch.outer(factors, factors)
        gramian, whole = products.sum(0), self.method.whole
        for place, task in enumerate(tasks if whole else ()):
            for gradient in (p.grad for p in self.own[task] if p.grad is not None):
                gramian[place, place] += inner(gradient, gradient)
        weights = self.method(gramian, self.generator)
        if whole:
            self._scale_own(tasks, weights)
        combine(self.shared, of_shared, weights * factors, mean=whole)
        for row in cosine_rows(tasks, products, weights, self.groups) if self.measure else ():
            self._note(*row)

    def _scale_own(self, tasks: Sequence[str], factors: Tensor) -> None:
        """Multiply the gradients of what only one task uses by that task's factor."""
        for task, factor in zip(tasks, factors, strict=True):
            for parameter in self.own[task]:
                if parameter.grad is not None:
                    parameter.grad = parameter.grad * factor


def _weighted(results: Sequence[TaskResult]) -> Tensor:
    """Return the weighted losses [n] of a step's batches."""
    return torch.stack([each.weight * each.loss for each in results])
