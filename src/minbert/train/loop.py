"""The training loop: epochs of steps, dev scores after each, the best epoch's weights kept."""

import time
from collections.abc import Mapping
from dataclasses import dataclass

import torch

from minbert.base.errors import UserError
from minbert.base.progress import Progress
from minbert.evaluate.scoring import selection_score
from minbert.model.encoder import Embeddings, compute_in
from minbert.model.weights import load_weights
from minbert.spec.parts import load_part
from minbert.spec.stage import StageSpec
from minbert.train.checkpoints import Checkpoints, Generators, Part
from minbert.train.device import is_out_of_memory, release_memory
from minbert.train.evaluation import Evaluation
from minbert.train.history import History, TrainingMeter
from minbert.train.optimiser import AdamW
from minbert.train.samplers import EpochSampler, Step
from minbert.train.step import Gradients
from minbert.train.trainable import TrainableModel

POINTS = 400
"""Training-loss rows that a run aims at, so that a long run's history stays small."""


@dataclass(frozen=True)
class Settings:
    """How a run computes, keeps and reports; activations may take `activation_budget` bytes."""

    device: torch.device
    precision: str
    progress: Progress
    checkpoints: Checkpoints
    activation_budget: float = float("inf")


class Loop:
    """Trains a model as its spec says.

    The sampler has a generator, surgery and weighting share a second one; new heads and dropout
    draw from torch's default one, which the caller has seeded.
    """

    def __init__(
        self,
        spec: StageSpec,
        model: TrainableModel,
        seed: int,
        settings: Settings,
        history: History,
    ) -> None:
        self.spec, self.model, self.settings, self.history = spec, model, settings, history
        self.evaluation = Evaluation(spec, model, history)
        compute_in(model.module, settings.precision)
        self._check_sizes()
        for task in spec.trained_tasks:
            if spec.tasks[task].init_bias_to_prior:
                model.init_bias_to_prior(task)
        train = {task: model.examples[task]["train"] for task in spec.trained_tasks}
        self.sampler: EpochSampler = load_part("sampler", spec.sampler.name)(
            spec,
            {task: len(examples) for task, examples in train.items()},
            torch.Generator().manual_seed(seed * 2 + 1),
        )
        draws = torch.Generator().manual_seed(seed * 2 + 2)
        self.gradients = Gradients(spec, model, seed, draws, settings.activation_budget)
        self.total = self.sampler.steps * spec.epochs
        self.window = max(1, min(self.sampler.steps, self.total // POINTS))
        self.meter = TrainingMeter(history, train)
        chosen = spec.optimiser.schedule
        schedule = load_part("schedule", chosen.name)(self.total, chosen.warmup)
        # A sparse gradient's rows are counted on the host: an accelerator would have to wait.
        parts = model.module.modules() if settings.device.type == "cpu" else ()
        by_rows = [part.word for part in parts if isinstance(part, Embeddings)]
        self.optimiser = AdamW(self.gradients.parameters(), spec.optimiser, schedule, by_rows)

    def _check_sizes(self) -> None:
        for task in self.spec.trained_tasks:
            if not len(self.model.examples[task]["train"]):
                raise UserError(f"task '{task}' has no training examples")
            if not all(mask.any() for mask in self.evaluation.masks[task].values()):
                raise UserError(
                    f"task '{task}' has too few dev examples to choose the best epoch by "
                    f"(selection_split: {self.spec.selection_split})"
                )

    def parts(self) -> Mapping[str, Part]:
        """Return what survives an interruption, by name."""
        parts: dict[str, Part | None] = {
            "model": self.model,
            "optimiser": self.optimiser,
            **{f"rows {number}": rows for number, rows in self.optimiser.rows.items()},
            "meter": self.meter,
            "history": self.history,
            "sampler": self.sampler,
            "generators": Generators(self.settings.device),
            "gradients": self.gradients,
            "penalty": self.gradients.penalty,
            "surgery": self.gradients.method,
            "weighting": self.gradients.weighting,
        }
        return {name: part for name, part in parts.items() if part is not None}

    def run(self) -> dict[str, float]:
        """Train every epoch, from a checkpoint if there is one; then restore the best weights.

        Returns what the record holds as `outcome`.
        """
        at, settings, progress = self.history, self.settings, self.settings.progress
        computed_on = f"{settings.device.type}, {settings.precision}"
        if refused := settings.checkpoints.resume(self.parts(), computed_on):
            progress.say(f"starting from scratch: {refused}")
        elif at.step:
            progress.say(f"resuming after step {at.step} of {self.total}")
        progress.start(self.total, at.step)
        while at.epoch <= self.spec.epochs:
            self._train_epoch()
            self._end_epoch()
        seconds = at.seconds
        release_memory()
        self.model.restore(load_weights(settings.checkpoints.best))
        return {
            "best_epoch": at.best_epoch,
            "best_score": at.best_score,
            "last_score": at.score,
            "steps": at.step,
            "seconds": seconds,
            "training_seconds": at.training,
            "tokens_per_second": self.model.tokens_seen / max(at.training, 1e-9),
        }

    def _train_epoch(self) -> None:
        """Make the steps of the epoch that are not done yet."""
        at = self.history
        self.model.module.train()
        clock = time.perf_counter()
        for batch in self.sampler.rest(at.done):
            at.step, at.done = at.step + 1, at.done + 1
            is_last = at.done == self.sampler.steps
            self.gradients.measure = at.step % self.window == 0
            self.step(batch)
            if self.gradients.measure or is_last:
                self.meter.end_window()
            for (task, metric), value in self.gradients.measured.items():
                self.history.log("train", task, metric, float(value))
            self.settings.progress.update(at.epoch, self.meter.latest)
            at.training += time.perf_counter() - clock
            if not is_last:
                self.settings.checkpoints.after_step(at.step)
            clock = time.perf_counter()

    def _end_epoch(self) -> None:
        """Score dev, keep the weights if they are the best so far, and save the state."""
        at, checkpoints = self.history, self.settings.checkpoints
        if self.gradients.weighting is not None:
            self.gradients.weighting.end_epoch()
        self.optimiser.flush()
        self.optimiser.zero_grad()
        release_memory()
        self.meter.end_epoch()
        scores = self.evaluation.score()
        *_, choosing = scores.values()
        at.score = selection_score(choosing, self.spec.select)
        self.settings.progress.epoch(at.epoch, self.spec.epochs, scores["dev"], at.score)
        if at.score > at.best_score:
            at.best_epoch, at.best_score = at.epoch, at.score
            self.evaluation.best = self.evaluation.last
            checkpoints.keep_best(at.epoch, self.model.weights())
        at.epoch, at.done = at.epoch + 1, 0
        if at.epoch <= self.spec.epochs:
            checkpoints.after_step(at.step, save=True)

    def step(self, batch: Step, again: bool = False) -> None:
        """Make one step; if memory runs out, it is made `again` in smaller parts."""
        self.optimiser.zero_grad()
        found = None
        try:
            found = self.gradients(batch)
        except (RuntimeError, MemoryError) as error:
            if not is_out_of_memory(error):
                raise
            if again:
                raise UserError(
                    f"out of memory at step {self.history.step}, also in smaller parts. "
                    "Lower 'batch_size' or 'max_length', run fewer jobs at once, or use a smaller "
                    f"backbone. {error}"
                ) from error
        if found is None:  # Not in the handler, as the error's traceback holds the activations.
            self.gradients.halve_budget(batch)
            release_memory(self.settings.device)
            where = f"out of memory at step {self.history.step}"
            self.settings.progress.say(f"{where}: trying again in smaller parts")
            self.step(batch, again=True)
            return
        self.meter.add(found)
        self.optimiser.step()

    def log_details(self) -> None:
        """Log what figures show of the best epoch's model besides its scores."""
        at = self.history
        at.step, at.epoch = self.sampler.steps * at.best_epoch, at.best_epoch
        for task in self.spec.trained_tasks:
            for metric, value in self.model.details(task).items():
                self.history.log("dev", task, metric, value)
