"""One optimiser step's gradients: those of the summed losses, or combined by surgery."""

import os
from collections import defaultdict
from collections.abc import Iterator
from itertools import chain
from math import inf
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Generator, Tensor
from torch.nn import Module, Parameter

from minbert.spec.architecture import training_bytes
from minbert.spec.parts import load_part
from minbert.spec.stage import StageSpec
from minbert.train.checkpoints import Part
from minbert.train.device import machine_memory
from minbert.train.samplers import Step
from minbert.train.surgery import Method
from minbert.train.surgery.gradients import combine, cosine_rows, inner_products, layer_groups
from minbert.train.trainable import TrainableModel
from minbert.train.weightings import Weighting

SHARE = 0.4
"""Share of a job's part of the memory that activations may take."""
OF_STATE = 0.26
"""On a CPU they may take this share of the model's state: so a job peaks below 1.3 times that."""
PART = 0.45
"""Share of the budget for each part of a larger batch, which also holds the gradients so far."""
SMALL = 5 * 2**28
"""Bytes of state and activations together that a job on a CPU may take, however small its model."""


def activation_budget(device: torch.device, threads: int, module: Module) -> float:
    """Return the bytes that the activations of `module` may take.

    On a CPU memory is divided among as many jobs as its cores have room for, the same at every call
    on a machine: how batches are divided decides the last bits of a result. On a GPU it is four
    fifths of what is free when the job begins.
    """
    if device.type == "cuda":
        return 2 * SHARE * torch.cuda.mem_get_info(device)[0]
    sizes = [(p.numel(), p.requires_grad) for p in module.parameters()]
    state = training_bytes(sum(n for n, _ in sizes), sum(n for n, trained in sizes if trained))
    jobs = max(1, (os.cpu_count() or 1) // threads)
    return min(SHARE * machine_memory() / jobs, max(OF_STATE * state, SMALL - state))


def divide(sizes: np.ndarray, budget: float) -> Iterator[slice]:
    """Divide items of `sizes` (bytes) into slices of one item, or of `PART` of the `budget`."""
    # Two parts of 16 sentences cost BERT-base 11 % more time: what fits stays whole.
    budget *= 1 if sizes.sum() <= budget else PART
    start, total = 0, 0.0
    for place, size in enumerate(sizes):
        if place > start and total + size > budget:
            yield slice(start, place)
            start, total = place, 0.0
        total += size
    yield slice(start, len(sizes))


class TaskResult(NamedTuple):
    """What a step found in one task's batch: `loss` is a scalar, `prediction` [B], detached."""

    task: str
    rows: Tensor
    weight: float
    loss: Tensor
    prediction: Tensor


class Gradients(Part):
    """Sets every trained parameter's gradient for a step.

    Without surgery, the loss is the weighted sum of the tasks' losses, or its mean; batches go
    through the layers that they share as one if all activations fit in memory, else one after the
    other. With surgery, shared parameters get the combination that the method gives, others their
    task's gradient, which a method on whole gradients weights, too. A weighting multiplies each
    task's loss by a factor, before surgery; both draw from `rng`.

    A batch whose activations would take more than `budget` bytes is divided. Losses are
    means over examples, so the parts' losses and gradients, weighted by their share of the
    examples, add up to the batch's. SMART's penalty, whose noise `seed` decides, is part of a
    task's loss.
    """

    kept = ("generator", "penalty", "method", "weighting")

    def __init__(
        self, spec: StageSpec, model: TrainableModel, seed: int, rng: Generator, budget: float = inf
    ) -> None:
        self.spec, self.model, self.generator = spec, model, rng
        # SMART keeps the activations of two passes.
        self.budget = budget / (2 if spec.smart else 1)
        self.most_parts = 1  # that a batch was divided into so far
        self.measure = False  # whether the next step fills `measured`
        self.measured: dict[tuple[str, str], Any] = defaultdict(int)
        self.weights: dict[str, float] = {}  # of the step's losses, by task
        self.factors: dict[str, Tensor] = {}  # by which a weighting multiplies them
        module = model.module
        # The trained parameters that all tasks use, and those that one uses, its head's too.
        trained = module.trained_parameters
        shared = trained()
        self.groups = layer_groups(shared, model.architecture.layers)
        self.shared = list(shared.values())
        self.own = {task: [*trained(task).values()] for task in spec.trained_tasks}
        self.penalty = load_part("penalty", "smart")(spec, model, seed) if spec.smart else None
        tasks, device = len(self.own), next(module.parameters()).device
        self.method: Method | None = None
        if spec.surgery:
            self.method = load_part("surgery", spec.surgery)(tasks)
        self.weighting: Weighting | None = None
        if spec.weighting:
            self.weighting = load_part("weighting", spec.weighting)(tasks, rng, device)

    def parameters(self) -> list[Parameter]:
        """Return all trained parameters."""
        learned = self.weighting.parameters() if self.weighting else []
        return list(chain(self.shared, *self.own.values(), learned))

    def __call__(self, step: Step) -> list[TaskResult]:
        """Run forward and backward for each batch; `measured` is what the history records, too."""
        self.measured.clear()
        divisor = len(step) if self.spec.reduction == "mean" else 1
        self.weights = {task: self.spec.tasks[task].weight / divisor for task, _ in step}
        if self.weighting is not None:
            self.factors = dict(zip(self.weights, self.weighting(), strict=True))
        if self.method is not None:
            results = self._by_surgery(self.method, step)
        elif self.fits_jointly(step):
            results = self._pass(step)
        else:
            results = [self._in_parts(*batch) for batch in step]
        if self.weighting is not None:
            self.weighting.learn(torch.stack([each.weight * each.loss for each in results]))
        for task, factor in self.factors.items() if self.measure else ():
            self.measured[task, "task_weight"] = self.weights[task] * factor
        return results

    def fits_jointly(self, step: Step) -> bool:
        """Return whether all batches of `step` may go through the shared layers as one."""
        if self.penalty is not None or len(step) < 2 or not self.model.module.can_run_jointly:
            return False
        return sum(self.model.activations(*batch).sum() for batch in step) <= self.budget

    def _pass(self, batches: Step, share: float = 1.0) -> list[TaskResult]:
        """Add the losses' gradients, times a part's `share` of its batch; return the results."""
        losses, results = [], []
        outputs = self.model.forward(batches)
        for (task, rows), (output, labels) in zip(batches, outputs, strict=True):
            of_task, weight = self.model.losses[task], self.weights[task]
            loss = of_task.loss(output, labels)
            if self.penalty is not None:
                penalty, measured = self.penalty(task, rows, output, share, self.measure)
                loss = loss + penalty
                for metric, value in measured.items():
                    self.measured[task, metric] += value * share
            loss = loss * share
            losses.append(weight * loss * self.factors.get(task, 1.0))
            prediction = of_task.prediction(output.detach())
            results.append(TaskResult(task, rows, weight, loss.detach(), prediction))
        torch.stack(losses).sum().backward()
        return results

    def _in_parts(self, task: str, rows: Tensor) -> TaskResult:
        """Add the gradients of one batch's loss, in parts if need be, to all `grad`."""
        sizes = self.model.activations(task, rows)
        parts = [rows[span] for span in divide(sizes, self.budget)]
        self.most_parts = max(self.most_parts, len(parts))
        found = [self._pass([(task, part)], len(part) / len(rows))[0] for part in parts]
        loss = torch.stack([result.loss for result in found]).sum()
        prediction = torch.cat([result.prediction for result in found])
        return found[0]._replace(rows=rows, loss=loss, prediction=prediction)

    def _by_surgery(self, method: Method, step: Step) -> list[TaskResult]:
        """Run the step's batches one by one, and let `method` combine their gradients."""
        tasks, parameters = [task for task, _ in step], list(self.shared)
        for task in tasks if method.whole else ():
            parameters += self.own[task]
        results, gradients = [], []
        for batch in step:
            results.append(self._in_parts(*batch))
            gradients.append([parameter.grad for parameter in parameters])
            for parameter in parameters:
                parameter.grad = None
        products, count = inner_products(gradients), len(self.shared)
        gramian = products[:count].sum(0)
        for of_own in products[count:]:
            gramian += of_own
        weights = method(gramian, self.generator)
        combine(parameters, gradients, weights, mean=method.whole)
        if self.measure:
            for task, metric, value in cosine_rows(tasks, products[:count], weights, self.groups):
                self.measured[task, metric] = value
        return results
