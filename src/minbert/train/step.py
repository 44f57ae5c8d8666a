"""One optimiser step's gradients: those of the summed losses, or combined by surgery."""

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import Parameter

from minbert.spec.parts import load_part
from minbert.spec.stage import StageSpec
from minbert.train.room import divide
from minbert.train.samplers import Step
from minbert.train.surgery import Method
from minbert.train.surgery.gradients import Surgery, combine, inner, inner_products
from minbert.train.trainable import TrainableModel
from minbert.train.weightings import Weighting


class TaskResult(NamedTuple):
    """What a step found in one task's batch: `loss` is a scalar, `prediction` [B], both detached.

    `measured` are more scalars for the history, by metric, if `Gradients.measure` is set.
    """

    task: str
    rows: Tensor
    weight: float
    loss: Tensor
    prediction: Tensor
    measured: Mapping[str, Tensor]


class Gradients:
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

    def __init__(
        self,
        spec: StageSpec,
        model: TrainableModel,
        seed: int,
        generator: torch.Generator,
        activation_budget: float = float("inf"),
    ) -> None:
        self.model = model
        self.generator = generator
        # SMART keeps the activations of two passes.
        self.activation_budget = activation_budget / (2 if spec.smart else 1)
        self.most_parts = 1  # that a batch was divided into so far
        self.measure = False  # whether results hold what the history records besides losses
        self.weight = {name: task.weight for name, task in spec.tasks.items()}
        self.mean = spec.reduction == "mean"
        self.shared = model.shared_parameters()
        self.own = {task: model.own_parameters(task) for task in spec.trained_tasks}
        tasks = len(spec.trained_tasks)
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

    def __call__(self, step: Step) -> tuple[list[TaskResult], Surgery | None]:
        """Run forward and backward for each batch; return their results and surgery's, if any."""
        weights = [self.weight[task] / (len(step) if self.mean else 1) for task, _ in step]
        surgery: Surgery | None = None
        if self.method is None and self.fits_jointly(step):
            results = self._jointly(step, weights)
        elif self.method is None and self.weighting is None:
            both = zip(step, weights, strict=True)
            results = [self._of_task(*batch, weight)[0] for batch, weight in both]
        else:
            results, surgery = self._apart(step, weights)
        if self.weighting is not None:
            self.weighting.after_step(_weighted_losses(results))
        return results, surgery

    def fits_jointly(self, step: Step) -> bool:
        """Return whether all batches of `step` may go through the shared layers as one."""
        if self.penalty is not None or len(step) < 2 or not self.model.can_run_jointly:
            return False
        return sum(self.model.activations(*batch).sum() for batch in step) <= self.activation_budget

    def halve_budget(self, step: Step) -> None:
        """Halve the budget, or what the largest batch of `step` takes if that is less."""
        most = max(self.model.activations(task, rows).sum() for task, rows in step)
        self.activation_budget = min(self.activation_budget, most) / 2

    def _jointly(self, step: Step, weights: Sequence[float]) -> list[TaskResult]:
        """Add the gradients of the summed loss to all parameters' `grad`, by one pass."""
        results, losses = [], []
        outputs = self.model.joint_forward(step)
        for (task, rows), weight, (output, labels) in zip(step, weights, outputs, strict=True):
            of_task = self.model.losses[task]
            losses.append(of_task.loss(output, labels))
            prediction = of_task.prediction(output.detach())
            results.append(TaskResult(task, rows, weight, losses[-1].detach(), prediction, {}))
        weighted = torch.stack([w * loss for w, loss in zip(weights, losses, strict=True)])
        if self.weighting is not None:
            factors = self.weighting(weighted.detach())
            weighted = weighted * factors
            results = self._with_factors(results, factors)
        weighted.sum().backward()
        return results

    def _of_task(
        self,
        task: str,
        rows: Tensor,
        weight: float,
        parameters: Sequence[Parameter] | None = None,
    ) -> tuple[TaskResult, list[Tensor | None]]:
        """Go forward and backward through the training `rows` [B] of `task`, in parts if need be.

        Returns the gradients of the weighted loss for `parameters`; with None, all parameters'
        `grad` is added to instead.
        """
        of_task = self.model.losses[task]
        losses: list[Tensor] = []
        predictions: list[Tensor] = []
        gradients: list[Tensor | None] = []
        measured: dict[str, Tensor] = {}
        sizes = self.model.activations(task, rows)
        parts = [rows[span] for span in divide(sizes, self.activation_budget)]
        self.most_parts = max(self.most_parts, len(parts))
        for part in parts:
            share = len(part) / len(rows)
            output, labels = self.model.output(task, part)
            penalty, more = None, dict[str, Tensor]()
            if self.penalty is not None:
                penalty, more = self.penalty(task, part, output, share, self.measure)
            loss = of_task.loss(output, labels)
            loss = (loss if penalty is None else loss + penalty) * share
            for metric, value in more.items():
                measured[metric] = measured.get(metric, 0) + value * share
            losses.append(loss.detach())
            predictions.append(of_task.prediction(output.detach()))
            if parameters is None:
                (weight * loss).backward()
                continue
            found = torch.autograd.grad(weight * loss, parameters, allow_unused=True)
            gradients = [
                b if a is None else a if b is None else a + b
                for a, b in zip(gradients or [None] * len(found), found, strict=True)
            ]
        whole = sum(losses[1:], losses[0])
        result = TaskResult(task, rows, weight, whole, torch.cat(predictions), measured)
        return result, gradients

    def _apart(
        self, step: Step, weights: Sequence[float]
    ) -> tuple[list[TaskResult], Surgery | None]:
        """Keep each task's gradients apart until all losses are known, then combine them."""
        results: list[TaskResult] = []
        of_shared: list[list[Tensor | None]] = []
        for (task, rows), weight in zip(step, weights, strict=True):
            if any(task == before.task for before in results):
                raise ValueError(f"a step has one batch of each task, but '{task}' is there twice")
            own = self.own[task]
            result, gradients = self._of_task(task, rows, weight, [*self.shared, *own])
            results.append(result)
            of_shared.append(gradients[: len(self.shared)])
            for parameter, gradient in zip(own, gradients[len(self.shared) :], strict=True):
                parameter.grad = gradient
        factors = None
        if self.weighting is not None:
            factors = self.weighting(_weighted_losses(results))
            results = self._with_factors(results, factors)
            self._scale_own(step, factors)
        if self.method is not None:
            return results, self._operate(self.method, step, of_shared, factors)
        assert factors is not None
        combine(self.shared, of_shared, factors)
        return results, None

    def _operate(
        self,
        method: Method,
        step: Step,
        of_shared: Sequence[Sequence[Tensor | None]],
        factors: Tensor | None,
    ) -> Surgery:
        """Set the shared parameters' gradients to what `method` makes of the tasks' gradients."""
        products = inner_products(of_shared)
        if factors is not None:
            products = products * torch.outer(factors, factors)
        gramian = products.sum(0)
        if method.whole:
            for place, (task, _) in enumerate(step):
                for gradient in (p.grad for p in self.own[task] if p.grad is not None):
                    gramian[place, place] += inner(gradient, gradient)
        surgery = Surgery(products, method(gramian, self.generator))
        if method.whole:
            self._scale_own(step, surgery.weights)
        combined = surgery.weights if factors is None else surgery.weights * factors
        combine(self.shared, of_shared, combined, mean=method.whole)
        return surgery

    def _scale_own(self, step: Step, factors: Tensor) -> None:
        """Multiply the gradients of what only one task uses by that task's factor."""
        for (task, _), factor in zip(step, factors, strict=True):
            for parameter in self.own[task]:
                if parameter.grad is not None:
                    parameter.grad = parameter.grad * factor

    def _with_factors(self, results: list[TaskResult], factors: Tensor) -> list[TaskResult]:
        """Add to `results` what each loss was multiplied by, if that is measured."""
        if not self.measure:
            return results
        return [
            each._replace(measured={**each.measured, "task_weight": each.weight * factor})
            for each, factor in zip(results, factors, strict=True)
        ]


def _weighted_losses(results: Sequence[TaskResult]) -> Tensor:
    """Return the weighted losses [n] of a step's batches."""
    return torch.stack([each.weight * each.loss for each in results])
