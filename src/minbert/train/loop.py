"""The training loop: epochs of steps, dev scores after each, the best epoch kept."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Any

import torch
from torch import Tensor

from minbert.common.errors import UserError
from minbert.common.progress import Progress
from minbert.grid.parts import load_part
from minbert.grid.spec import StageSpec
from minbert.grid.tasks import TASKS
from minbert.model.encoder import embeddings
from minbert.scoring import overall, score_task, selection_score
from minbert.train.best import Best
from minbert.train.distributed import ALONE, Alone
from minbert.train.fit import TrainScores
from minbert.train.history import History, LossMeter
from minbert.train.learner import Learner
from minbert.train.losses import Loss
from minbert.train.memory import PART, give_back, is_out_of_memory, too_large
from minbert.train.optimiser import AdamW
from minbert.train.resume import Checkpoints
from minbert.train.samplers import EpochSampler, Step
from minbert.train.step import Gradients
from minbert.train.surgery.gradients import Surgery
from minbert.train.surgery.record import cosine_rows, layer_groups

POINTS = 400
"""Training-loss rows a run aims at, so that a long run's history stays light."""


@dataclass
class Outcome:
    """How a finished loop went."""

    best_epoch: int
    best_score: float
    last_score: float
    steps: int
    seconds: float
    training_seconds: float
    tokens_per_second: float


@dataclass
class Position:
    """How far a run has come: `epoch` (from 1) and `done`, the steps of it that are done.

    `seconds` are those of the whole run, `training` those without evaluation, both up to the
    last time the clock was read.
    """

    epoch: int = 1
    done: int = 0
    step: int = 0
    best_epoch: int = 0
    best_score: float = float("-inf")
    score: float = float("nan")
    seconds: float = 0.0
    training: float = 0.0


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
        best: Best,
        checkpoints: Checkpoints | None = None,
        room: float = float("inf"),
        peers: Alone = ALONE,
    ) -> None:
        self.peers = peers
        self.spec = spec
        self.learner = learner
        self.device = device
        self.history = history
        self.progress = progress
        self.checkpoints = checkpoints
        self.position = Position()
        self.best = best
        self.dev, self.best_dev = dict[str, Tensor](), dict[str, Tensor]()
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
            room,
            peers,
        )
        self.layer_groups = layer_groups(learner.module, self.gradients.shared)
        used = {id(p): p for p in self.gradients.shared}
        used |= {id(p): p for own in self.gradients.own.values() for p in own}
        total = self.sampler.steps * spec.epochs
        chosen = spec.optimiser.schedule
        schedule = load_part("schedule", chosen.name)(total, chosen.warmup)
        # A sparse gradient's rows are counted on the host: an accelerator would have to wait.
        deferred = embeddings(learner.module) if device.type == "cpu" else ()
        self.optimiser = AdamW(used.values(), spec.optimiser, schedule, deferred)
        self.total = total
        self.fit = TrainScores(history, lambda task: learner.labels(task, "train"))
        self.meter = LossMeter(
            history,
            lambda task, rows: [learner.ids(task, "train")[row] for row in rows.tolist()],
            window=max(1, min(self.sampler.steps, total // POINTS)),
            read_every=1 if device.type == "cpu" else 50,
        )

    def run(self) -> Outcome:
        """Train every epoch; keep the weights of the epoch with the best dev score.

        With checkpoints, a run that was interrupted goes on where it stopped.
        """
        at = self.position
        self.epoch_start = self.sampler.generator.get_state()
        if self.checkpoints and (told := self.checkpoints.restore(self)):
            self.progress.say(told)
        self.sampler.generator.set_state(self.epoch_start)
        self._began = time.perf_counter() - at.seconds
        self.progress.start(self.total, at.step)
        while at.epoch <= self.spec.epochs:
            self._epoch()
            self.optimiser.settle()
            self.optimiser.zero_grad()
            give_back()
            self.fit.end_epoch(at.step, at.epoch)
            at.score = self._evaluate(at.step, at.epoch)
            if at.score > at.best_score:
                at.best_epoch, at.best_score = at.epoch, at.score
                self.best_dev = self.dev
                if self.peers.first:
                    self.best.keep(at.epoch, self.learner.weights())
            at.epoch, at.done = at.epoch + 1, 0
            self.epoch_start = self.sampler.generator.get_state()
            if self.checkpoints and at.epoch <= self.spec.epochs:
                self.checkpoints.save(self)
        self.progress.close()
        self.read_clock()
        speed = self.peers.total(self.learner.tokens_seen) / max(at.training, 1e-9)
        return Outcome(
            at.best_epoch, at.best_score, at.score, at.step, at.seconds, at.training, speed
        )

    def read_clock(self) -> None:
        """Note how long the run has taken, its interrupted parts together."""
        self.position.seconds = time.perf_counter() - self._began

    def _epoch(self) -> None:
        """Train the steps of the epoch that are not done yet."""
        at = self.position
        self.learner.module.train()
        last = at.step - at.done + self.sampler.steps
        clock = time.perf_counter()
        for batch in islice(self.sampler.epoch(), at.done, None):
            at.step, at.done = at.step + 1, at.done + 1
            surgery = self.train_step(batch)
            self.meter.after_step(at.step, at.epoch, last=at.step == last)
            if surgery is not None and (at.step % self.meter.window == 0):
                tasks = [task for task, _ in batch]
                for row in cosine_rows(tasks, surgery, self.layer_groups):
                    self.history.log(at.step, at.epoch, "train", *row)
            self.progress.update(at.epoch, self.meter.latest)
            at.training += time.perf_counter() - clock
            clock = time.perf_counter()
            if self.checkpoints and at.step != last:
                self.checkpoints.after_step(self)

    def train_step(self, batch: Step) -> Surgery | None:
        """Make one optimiser step of one batch a task; return what surgery did, if any.

        Where memory runs out the step is made again once, in parts, in half of the room.
        """
        surgery = None
        for again in (False, True):
            self.optimiser.zero_grad()
            try:
                surgery = self.gradients(batch, self._note)
                break
            except (RuntimeError, MemoryError) as error:
                if not is_out_of_memory(error):
                    raise
                if again or self.gradients.meeting:
                    place = f"step {self.position.step}"
                    raise UserError(too_large(batch, place, self.gradients.room, error)) from error
            # Outside of the handler, whose traceback holds on to the activations.
            self._make_room(batch)
        self.optimiser.step()
        return surgery

    def _note(
        self, task: str, rows: Tensor, weight: float, loss: Tensor, prediction: Tensor
    ) -> None:
        self.meter.add(self.position.step, task, rows, weight, loss)
        self.fit.add(task, rows, prediction)

    def _make_room(self, batch: Step) -> None:
        """Halve the room, from what the largest batch of the step takes if that is less."""
        slices = [(task, rows[self.peers.place(len(rows))]) for task, rows in batch]
        most = max(self.learner.activations(task, rows).sum() for task, rows in slices)
        self.gradients.halve_room(most)
        if self.device.type == "cuda":
            torch.cuda.empty_cache()
        self.progress.say(
            f"out of memory at step {self.position.step}: once more, in parts of "
            f"{PART * self.gradients.room / 2**20:.0f} MiB of activations"
        )

    def _evaluate(self, step: int, epoch: int) -> float:
        """Score the trained tasks on dev; those carried along are scored once, by `predictions`."""
        self.learner.module.eval()
        scores: dict[str, float] = {}
        self.dev = {task: self._outputs(task, "dev") for task in self.spec.trained_tasks}
        for task, output in self.dev.items():
            labels = self.learner.labels(task, "dev")
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
            return self.learner.outputs(task, split, self.peers).float()

    def predictions(self, split: str) -> dict[str, dict[str, Any]]:
        """Return {task: {ids, prediction [N], scores [N, n], label [N]}} of one split.

        The model holds the best epoch's weights; what it said of dev then is not asked again.
        """
        self.learner.module.eval()
        known = self.best_dev if split == "dev" else {}
        found = {}
        for task in self.spec.ordered_tasks:
            if self.learner.size(task, split) == 0:
                continue
            output = known[task] if task in known else self._outputs(task, split)
            found[task] = {
                "ids": self.learner.ids(task, split),
                "prediction": self.losses[task].prediction(output).cpu().numpy(),
                "scores": self.losses[task].scores(output).cpu().numpy(),
                "label": self.learner.labels(task, split).cpu().numpy(),
            }
        return found

    def restore(self) -> None:
        """Put the best epoch's weights back into the model."""
        give_back()
        self.peers.wait()
        self.learner.restore(self.best.load(self.position.best_epoch))
