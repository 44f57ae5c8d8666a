"""One optimiser step's gradients: summed over tasks, or operated on."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Protocol

import torch
from torch import Tensor

from minbert.grid.parts import load_part
from minbert.grid.spec import StageSpec
from minbert.train.distributed import ALONE, Alone
from minbert.train.learner import Learner
from minbert.train.losses import Loss
from minbert.train.memory import divide
from minbert.train.samplers import Step
from minbert.train.surgery.gradients import Surgery, combine, inner_products

if TYPE_CHECKING:
    from minbert.train.graphs import Graphs

Noted = tuple[str, Tensor, float, Tensor, Tensor]
Note = Callable[[str, Tensor, float, Tensor, Tensor], None]
"""Told of each batch: task, rows [B], the task's weight, the loss (a scalar), predictions [B]."""


class Penalty(Protocol):
    """A penalty that is added to a task's loss."""

    generator: torch.Generator

    def __call__(self, task: str, rows: Tensor, output: Tensor) -> Tensor:
        """Return it for the training `rows` [B] of `task` and the head's `output` [B, classes]."""
        ...


class Gradients:
    """Sets every trainable parameter's gradient for a step. Returns what surgery did, if any.

    Without surgery the loss is the weighted sum of the tasks' losses (`reduction: mean` divides it
    by their number), one backward pass a task so that only one task's activations are alive at a
    time. SMART's penalty is part of a task's loss; `seed` is that of its noise. With surgery the
    shared parameters get the combination that the method's weights give; heads and a task's own
    layers always get their own task's gradient, never projected.

    A batch whose activations would take more than `room` bytes is worked on in parts, one after
    the other; their losses and gradients add up to the whole batch's, as all losses are means over
    examples. So are the slices of a batch that several processes (`peers`) share: each gets the
    whole step's gradients, losses and predictions. A batch that is worked on whole may be left to
    `graphs`.
    """

    def __init__(
        self,
        spec: StageSpec,
        learner: Learner,
        losses: dict[str, Loss],
        autocast: Callable[[], AbstractContextManager[object]],
        generator: torch.Generator,
        seed: int = 0,
        room: float = float("inf"),
        peers: Alone = ALONE,
    ) -> None:
        self.learner = learner
        self.room = room / (2 if spec.smart else 1)
        self.parts = 1
        """The most parts that a batch had to be divided into so far."""
        self.peers = peers
        self.meeting = False
        """Whether the processes have begun to add up the step: none can make it again alone."""
        self.graphs: Graphs | None = None
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

    def __call__(self, step: Step, note: Note) -> Surgery | None:
        """Run forward and backward for each batch of `step`, telling `note` each task's loss.

        Returns what surgery did with the n tasks' gradients, in the step's order.
        """
        self.meeting = False
        by_task: list[list[Tensor | None]] = []
        noted: list[Noted] = []
        seen: set[str] = set()
        for task, rows in step:
            if self.method is not None and task in seen:
                raise ValueError(f"surgery is between tasks, but '{task}' is twice in a step")
            seen.add(task)
            weight = self.weight[task] / (len(step) if self.mean else 1)
            loss, prediction, gradients = self._batch(task, rows, weight)
            noted.append((task, rows, weight, loss, prediction))
            by_task.append(gradients[: len(self.shared)])
            if self.method is not None:
                own = gradients[len(self.shared) :]
                for parameter, gradient in zip(self.own[task], own, strict=True):
                    parameter.grad = gradient
        if self.peers.count > 1:
            # Only now, so that a process that runs out of memory can try again before it.
            self.meeting = True
            noted, by_task = self._together(noted, by_task)
        surgery = None
        if self.method is not None:
            products = inner_products(by_task)
            surgery = Surgery(products, self.method(products.sum(0), self.generator))
            combine(self.shared, by_task, surgery.weights)
        for batch in noted:  # Last: a step that is made once more is told once.
            note(*batch)
        return surgery

    def halve_room(self, most: float) -> None:
        """Halve the room, from `most` bytes if that is less. Graphs give their memory back."""
        self.room = min(self.room, most) / 2
        self.graphs = None

    def _batch(
        self, task: str, rows: Tensor, weight: float
    ) -> tuple[Tensor, Tensor, list[Tensor | None]]:
        """Go forward and backward through a batch; return loss, predictions [B], and gradients.

        The gradients are, with surgery, those of the shared and the task's own parameters; without,
        none: they are added to what the parameters have. All are of this process's slice alone.
        """
        whole = len(rows)
        place = self.peers.place(whole)
        counted = min(1, place.stop - place.start)
        # A process without a row works on the first at weight 0: all meet the same parameters.
        rows = rows[place] if counted else rows[:1]
        total: Tensor | None = None
        predictions: list[Tensor] = []
        gradients: list[Tensor | None] = []
        parts = list(divide(self.learner.activations(task, rows), self.room))
        self.parts = max(self.parts, len(parts))
        if self.graphs and len(parts) == 1 and (done := self.graphs.batch(task, rows, weight)):
            return done
        for span in parts:
            part = rows[span]
            with self.autocast():
                output, labels = self.learner.output(task, part)
                penalty = self.penalty(task, part, output) if self.penalty else None
            loss = self.losses[task].loss(output, labels)
            predictions.append(self.losses[task].prediction(output.detach().float()))
            if penalty is not None:
                loss = loss + penalty
            loss = loss * (counted * len(part) / whole)
            total = loss.detach() if total is None else total + loss.detach()
            if self.method is None:
                (weight * loss).backward()
                continue
            parameters = [*self.shared, *self.own[task]]
            found = torch.autograd.grad(weight * loss, parameters, allow_unused=True)
            gradients = [
                b if a is None else a if b is None else a + b
                for a, b in zip(gradients or [None] * len(found), found, strict=True)
            ]
        assert total is not None
        return total, torch.cat(predictions), gradients

    def _together(
        self, noted: list[Noted], by_task: list[list[Tensor | None]]
    ) -> tuple[list[Noted], list[list[Tensor | None]]]:
        """Add up what the processes found in their slices; return losses and gradients of all."""
        parameters = [*self.shared, *(p for own in self.own.values() for p in own)]
        graded = [parameter for parameter in parameters if parameter.grad is not None]
        sums = self.peers.sum([parameter.grad for parameter in graded])
        for parameter, gradient in zip(graded, sums, strict=True):
            parameter.grad = gradient
        by_task = [self.peers.sum(gradients) for gradients in by_task]
        told: list[Tensor | None] = []
        for _, rows, _, loss, prediction in noted:
            place = self.peers.place(len(rows))
            known = prediction.new_zeros(len(rows), dtype=torch.float64)
            known[place] = prediction[: place.stop - place.start].double()
            told += [loss.double().reshape(1), known]
        sums = self.peers.sum(told)
        together: list[Noted] = []
        for before, total, predicted in zip(noted, sums[::2], sums[1::2], strict=True):
            task, rows, weight, loss, prediction = before
            assert total is not None and predicted is not None
            of_all = total[0].to(loss.dtype), predicted.to(prediction.dtype)
            together.append((task, rows, weight, *of_all))
        return together, by_task
