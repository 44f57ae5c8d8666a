"""The training loop: epochs of steps, dev scores after each, the best epoch kept."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from torch import Tensor

from minbert.common.errors import UserError
from minbert.common.progress import Progress
from minbert.grid.parts import load_part
from minbert.grid.spec import StageSpec
from minbert.grid.tasks import TASKS
from minbert.scoring import overall, score_task, selection_score
from minbert.train.history import History, LossMeter
from minbert.train.learner import Learner
from minbert.train.losses import Loss
from minbert.train.samplers import EpochSampler
from minbert.train.step import Gradients
from minbert.train.surgery.gradients import cosines

POINTS = 400
"""Training-loss rows a run aims at, so that a long run's history stays light."""


@dataclass
class Outcome:
    """What a finished loop hands on: the best epoch's weights, and how it went."""

    best_epoch: int
    best_score: float
    last_score: float
    steps: int
    seconds: float
    training_seconds: float
    tokens_per_second: float
    weights: dict[str, Tensor] = field(repr=False)


class Loop:
    """Trains a learner as its spec says.

    Random numbers come from the seed alone: the samplers and the surgery have generators of their
    own; initial heads and dropout draw from torch's default one, which the caller has seeded.
    """

    def __init__(
        self,
        spec: StageSpec,
        learner: Learner,
        seed: int,
        device: torch.device,
        precision: str,
        history: History,
        progress: Progress,
    ) -> None:
        self.spec = spec
        self.learner = learner
        self.device = device
        self.history = history
        self.progress = progress
        self.losses: dict[str, Loss] = {
            name: load_part("loss", task.loss)() for name, task in spec.tasks.items()
        }
        sizes = {task: learner.size(task, "train") for task in spec.trained_tasks}
        for task, size in sizes.items():
            if size == 0:
                raise UserError(f"task '{task}' has no training examples")
        for task in spec.trained_tasks:
            if learner.size(task, "dev") == 0:
                raise UserError(f"task '{task}' has no dev examples to choose the best epoch by")
        for task in spec.trained_tasks:
            if spec.tasks[task].start_at_prior:
                labels = learner.labels(task, "train")
                constant = self.losses[task].constant(labels, TASKS[task].classes)
                learner.module.get_submodule(f"heads.{task}").start_at(constant)  # type: ignore[operator]
        self.sampler: EpochSampler = load_part("sampler", spec.sampler.name)(
            spec, sizes, torch.Generator().manual_seed(seed * 2 + 1)
        )
        self.autocast: Callable[[], AbstractContextManager[object]] = (
            partial(torch.autocast, device.type, torch.bfloat16)
            if precision == "bf16"
            else nullcontext
        )
        self.gradients = Gradients(
            spec,
            learner,
            self.losses,
            self.autocast,
            torch.Generator().manual_seed(seed * 2 + 2),
            seed,
        )
        used = {id(p): p for p in self.gradients.shared}
        used |= {id(p): p for own in self.gradients.own.values() for p in own}
        chosen = spec.optimiser
        self.optimiser = torch.optim.AdamW(
            used.values(),
            lr=chosen.lr,
            betas=chosen.betas,
            eps=chosen.eps,
            weight_decay=chosen.weight_decay,
            fused=True,
        )
        total = self.sampler.steps * spec.epochs
        self.schedule = load_part("schedule", chosen.schedule.name)(
            self.optimiser, total, chosen.schedule.warmup
        )
        self.total = total
        self.meter = LossMeter(
            history,
            lambda task, rows: [learner.ids(task, "train")[row] for row in rows.tolist()],
            window=max(1, min(self.sampler.steps, total // POINTS)),
            read_every=1 if device.type == "cpu" else 50,
        )

    def run(self) -> Outcome:
        """Train every epoch; return the weights of the epoch with the best dev score."""
        started = time.perf_counter()
        training = 0.0
        step, best_epoch, best_score, score = 0, 0, float("-inf"), float("nan")
        best: dict[str, Tensor] = {}
        self.progress.start(self.total)
        for epoch in range(1, self.spec.epochs + 1):
            epoch_started = time.perf_counter()
            step = self._epoch(step, epoch)
            training += time.perf_counter() - epoch_started
            score = self._evaluate(step, epoch)
            if score > best_score:
                best_epoch, best_score = epoch, score
                best = {k: v.detach().cpu().clone() for k, v in self.learner.weights().items()}
        self.progress.close()
        return Outcome(
            best_epoch,
            best_score,
            score,
            step,
            time.perf_counter() - started,
            training,
            self.learner.tokens_seen / max(training, 1e-9),
            best,
        )

    def _epoch(self, step: int, epoch: int) -> int:
        self.learner.module.train()
        last = step + self.sampler.steps
        for batch in self.sampler.epoch():
            step += 1
            self.optimiser.zero_grad(set_to_none=True)
            products = self.gradients(batch, partial(self.meter.add, step))
            self.optimiser.step()
            self.schedule.step()
            self.meter.after_step(step, epoch, last=step == last)
            if products is not None and (step % self.meter.window == 0):
                self._log_cosines(step, epoch, [task for task, _ in batch], products)
            self.progress.update(epoch, self.meter.latest)
        return step

    def _log_cosines(self, step: int, epoch: int, tasks: list[str], products: Tensor) -> None:
        found = cosines(products).tolist()
        for i, first in enumerate(tasks):
            for j in range(i + 1, len(tasks)):
                pair = f"{first}-{tasks[j]}"
                self.history.log(step, epoch, "train", pair, "gradient_cosine", found[i][j])

    def _evaluate(self, step: int, epoch: int) -> float:
        """Score the trained tasks on dev; those carried along are scored once, by `predictions`."""
        self.learner.module.eval()
        scores: dict[str, float] = {}
        for task in self.spec.trained_tasks:
            output, labels = self._outputs(task, "dev"), self.learner.labels(task, "dev")
            prediction = self.losses[task].prediction(output).cpu().numpy()
            scores[task] = score_task(task, prediction, labels.cpu().numpy())
            loss = self.losses[task].loss(output, labels).item()
            self.history.log(step, epoch, "dev", task, "loss", loss)
            self.history.log(step, epoch, "dev", task, TASKS[task].metric, scores[task])
        for rule in ("normalised", "plain"):
            value = overall(scores, rule)
            if value is not None:
                self.history.log(step, epoch, "dev", "overall", rule, value)
        chosen = selection_score(scores, self.spec.select)
        self.progress.epoch(epoch, self.spec.epochs, scores, chosen)
        return chosen

    def _outputs(self, task: str, split: str) -> Tensor:
        with self.autocast():
            return self.learner.outputs(task, split).float()

    def predictions(self, split: str) -> dict[str, dict[str, Any]]:
        """Return {task: {ids, prediction [N], scores [N, n], label [N]}} of one split."""
        self.learner.module.eval()
        found = {}
        for task in self.spec.ordered_tasks:
            if self.learner.size(task, split) == 0:
                continue
            output = self._outputs(task, split)
            found[task] = {
                "ids": self.learner.ids(task, split),
                "prediction": self.losses[task].prediction(output).cpu().numpy(),
                "scores": self.losses[task].scores(output).cpu().numpy(),
                "label": self.learner.labels(task, split).cpu().numpy(),
            }
        return found

    def restore(self, weights: dict[str, Tensor]) -> None:
        """Put saved weights back into the model."""
        self.learner.restore(weights)
