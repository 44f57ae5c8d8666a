"""One optimiser step's gradients: those of the summed losses, or combined by surgery."""

from collections.abc import Mapping, Sequence
from functools import reduce
from itertools import chain
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import Parameter

from minbert.spec.parts import load_part
from minbert.spec.stage import StageSpec
from minbert.train.activation_budget import divide
from minbert.train.samplers import Step
from minbert.train.surgery import Method
from minbert.train.surgery.gradients import Surgery, combine, inner, inner_products
from minbert.train.trainable import TrainableModel
from minbert.train.weightings import Weighting


class TaskResult(NamedTuple):
    """What a step found in one task's batch: `loss` is a scalar, `prediction` [B].

    `measured` are more scalars for the history, by metric, if `Gradients.measure` is set. All are
    detached once the step is done.
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
        surgery: Surgery | None = None
        if self.method is None and self.fits_jointly(step):
            results = self._jointly(step)
        elif self.method is None and self.weighting is None:
            results = [self._in_parts(step, *batch)[0] for batch in step]
        else:
            results, surgery = self._apart(step)
        if self.weighting is not None:
            self.weighting.after_step(_weighted(results))
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

    def _forward(self, batches: Step, of_step: int, share: float = 1.0) -> list[TaskResult]:
        """Return what is found in `batches`, of the `of_step` batches of a step.

        Losses keep their graph. If only a part of a batch is given, `share` is its share of the
        batch's examples, and multiplies the loss.
        """
        results = []
        outputs = self.model.forward(batches)
        for (task, rows), (output, labels) in zip(batches, outputs, strict=True):
            of_task = self.model.losses[task]
            loss, measured = of_task.loss(output, labels), {}
            if self.penalty is not None:
                penalty, measured = self.penalty(task, rows, output, share, self.measure)
                loss = loss + penalty
            prediction = of_task.prediction(output.detach())
            weight = self.weight[task] / (of_step if self.mean else 1)
            results.append(TaskResult(task, rows, weight, loss * share, prediction, measured))
        return results

    def _jointly(self, step: Step) -> list[TaskResult]:
        """Add the gradients of the summed loss to all parameters' `grad`, by one pass."""
        results = self._forward(step, len(step))
        losses = _weighted(results)
        results = [each._replace(loss=each.loss.detach()) for each in results]
        if self.weighting is not None:
            factors = self.weighting(losses.detach())
            losses = losses * factors
            if self.measure:
                results = _with_factors(results, factors)
        losses.sum().backward()
        return results

    def _in_parts(
        self, step: Step, task: str, rows: Tensor, parameters: Sequence[Parameter] | None = None
    ) -> tuple[TaskResult, list[Tensor | None]]:
        """Go forward and backward through one batch of `step`, in parts if need be.

        Returns the gradients of the weighted loss for `parameters`; with None, all parameters'
        `grad` is added to instead.
        """
        sizes = self.model.activations(task, rows)
        parts = [rows[span] for span in divide(sizes, self.activation_budget)]
        self.most_parts = max(self.most_parts, len(parts))
        results: list[TaskResult] = []
        gradients: list[Tensor | None] = []
        for part in parts:
            share = len(part) / len(rows)
            (result,) = self._forward([(task, part)], len(step), share)
            loss = result.weight * result.loss
            measured = {metric: value * share for metric, value in result.measured.items()}
            results.append(result._replace(loss=result.loss.detach(), measured=measured))
            if parameters is None:
                loss.backward()
                continue
            found = torch.autograd.grad(loss, parameters, allow_unused=True)
            gradients = [
                b if a is None else a if b is None else a + b
                for a, b in zip(gradients or [None] * len(found), found, strict=True)
            ]
        whole = TaskResult(
            task,
            rows,
            results[0].weight,
            reduce(torch.add, (each.loss for each in results)),
            torch.cat([each.prediction for each in results]),
            {
                name: reduce(torch.add, (each.measured[name] for each in results))
                for name in results[0].measured
            },
        )
        return whole, gradients

    def _apart(self, step: Step) -> tuple[list[TaskResult], Surgery | None]:
        """Keep each task's gradients apart until all losses are known, then combine them."""
        results: list[TaskResult] = []
        of_shared: list[list[Tensor | None]] = []
        for task, rows in step:
            if any(task == before.task for before in results):
                raise ValueError(f"a step has one batch of each task, but '{task}' is there twice")
            own = self.own[task]
            result, gradients = self._in_parts(step, task, rows, [*self.shared, *own])
            results.append(result)
            of_shared.append(gradients[: len(self.shared)])
            for parameter, gradient in zip(own, gradients[len(self.shared) :], strict=True):
                parameter.grad = gradient
        factors = torch.ones(len(step), device=results[0].loss.device)
        if self.weighting is not None:
            factors = self.weighting(_weighted(results))
            if self.measure:
                results = _with_factors(results, factors)
            self._scale_own(step, factors)
        surgery: Surgery | None = None
        whole = False
        if self.method is not None:
            whole = self.method.whole
            products = inner_products(of_shared) * torch.outer(factors, factors)
            gramian = products.sum(0)
            for place, (task, _) in enumerate(step if whole else ()):
                for gradient in (p.grad for p in self.own[task] if p.grad is not None):
                    gramian[place, place] += inner(gradient, gradient)
            surgery = Surgery(products, self.method(gramian, self.generator))
            factors = surgery.weights * factors
            if whole:
                self._scale_own(step, surgery.weights)
        combine(self.shared, of_shared, factors, mean=whole)
        return results, surgery

    def _scale_own(self, step: Step, factors: Tensor) -> None:
        """Multiply the gradients of what only one task uses by that task's factor."""
        for (task, _), factor in zip(step, factors, strict=True):
            for parameter in self.own[task]:
                if parameter.grad is not None:
                    parameter.grad = parameter.grad * factor


def _with_factors(results: list[TaskResult], factors: Tensor) -> list[TaskResult]:
    """Add to `results` what each loss was multiplied by."""
    return [
        each._replace(measured={**each.measured, "task_weight": each.weight * factor})
        for each, factor in zip(results, factors, strict=True)
    ]


def _weighted(results: Sequence[TaskResult]) -> Tensor:
    """Return the weighted losses [n] of a step's batches."""
    return torch.stack([each.weight * each.loss for each in results])
