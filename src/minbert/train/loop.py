"""The training loop: epochs of steps, dev scores after each, the best epoch's weights kept."""

import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

import torch

from minbert.base.errors import UserError
from minbert.base.progress import Progress
from minbert.evaluate.scoring import selection_score
from minbert.model.encoder import Embeddings, compute_in
from minbert.model.weights import load_weights
from minbert.spec.parts import load_part
from minbert.spec.stage import StageSpec
from minbert.train.activation_budget import in_parts
from minbert.train.checkpoints import Checkpoints, Generators, Part
from minbert.train.device import is_out_of_memory, release_memory
from minbert.train.evaluation import Evaluation
from minbert.train.history import History, TrainingMeter
from minbert.train.optimiser import AdamW
from minbert.train.samplers import EpochSampler, Step
from minbert.train.selection import report_mask, selection_mask
from minbert.train.step import Gradients, TaskResult
from minbert.train.surgery.gradients import Surgery, cosine_rows, layer_groups
from minbert.train.trainable import TrainableModel

POINTS = 400
"""Training-loss rows that a run aims at, so that a long run's history stays small."""


@dataclass
class Position(Part):
    """How far a run has come: `done` steps of `epoch` (from 1), `step` in all."""

    epoch: int = 1
    done: int = 0
    step: int = 0
    best_epoch: int = 0
    best_score: float = float("-inf")
    score: float = float("nan")
    training: float = 0.0  # seconds of the steps
    before: float = 0.0  # of the whole run, in its interrupted parts

    def __post_init__(self) -> None:
        self._started = time.perf_counter()

    @property
    def seconds(self) -> float:
        """The seconds of the whole run so far."""
        return self.before + time.perf_counter() - self._started

    def state_dict(self) -> dict[str, Any]:
        return asdict(self) | {"before": self.seconds}


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
        self.spec = spec
        self.model = model
        self.settings = settings
        self.history = history
        self.position = Position()
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
        self.layer_groups = layer_groups(model.module, self.gradients.shared)
        self.total = self.sampler.steps * spec.epochs
        chosen = spec.optimiser.schedule
        schedule = load_part("schedule", chosen.name)(self.total, chosen.warmup)
        on_cpu = settings.device.type == "cpu"
        # A sparse gradient's rows are counted on the host: an accelerator would have to wait.
        parts = model.module.modules() if on_cpu else ()
        by_rows = [part.word for part in parts if isinstance(part, Embeddings)]
        self.optimiser = AdamW(self.gradients.parameters(), spec.optimiser, schedule, by_rows)
        window = max(1, min(self.sampler.steps, self.total // POINTS))
        self.meter = TrainingMeter(history, train, window, read_every=1 if on_cpu else 50)

    def _check_sizes(self) -> None:
        for task in self.spec.trained_tasks:
            examples = self.model.examples[task]
            if not len(examples["train"]):
                raise UserError(f"task '{task}' has no training examples")
            ids = examples["dev"].ids
            if not ids:
                raise UserError(f"task '{task}' has no dev examples to choose the best epoch by")
            for mask in (selection_mask, report_mask):
                if not mask(ids, self.spec.selection_split).any():
                    raise UserError(
                        f"task '{task}': its {len(ids)} dev examples are too few for "
                        "'selection_split: half'"
                    )

    def parts(self) -> Mapping[str, Part]:
        """Return what survives an interruption, by name."""
        own = {"surgery": self.gradients.generator}
        if self.gradients.penalty is not None:
            own["penalty"] = self.gradients.penalty.generator
        parts: dict[str, Part | None] = {
            "model": self.model,
            "optimiser": self.optimiser,
            "meter": self.meter,
            "history": self.history,
            "position": self.position,
            "sampler": self.sampler,
            "generators": Generators(self.settings.device, own),
            "surgery": self.gradients.method,
            "weighting": self.gradients.weighting,
        }
        return {name: part for name, part in parts.items() if part is not None}

    def run(self) -> dict[str, float]:
        """Train every epoch, from a checkpoint if there is one; then restore the best weights.

        Returns what the record holds as `outcome`.
        """
        at, settings, progress = self.position, self.settings, self.settings.progress
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
        at = self.position
        self.model.module.train()
        last = at.step - at.done + self.sampler.steps
        clock = time.perf_counter()
        for batch in self.sampler.rest(at.done):
            at.step, at.done = at.step + 1, at.done + 1
            self.gradients.measure = at.step % self.meter.window == 0
            results, surgery = self.step(batch)
            self.meter.after_step(at.step, at.epoch, last=at.step == last)
            if self.gradients.measure:
                self._log_measured(results, surgery)
            self.settings.progress.update(at.epoch, self.meter.latest)
            at.training += time.perf_counter() - clock
            if at.step != last:
                self.settings.checkpoints.after_step(at.step)
            clock = time.perf_counter()

    def _end_epoch(self) -> None:
        """Score dev, keep the weights if they are the best so far, and save the state."""
        at, checkpoints = self.position, self.settings.checkpoints
        if self.gradients.weighting is not None:
            self.gradients.weighting.end_epoch()
        self.optimiser.flush()
        self.optimiser.zero_grad()
        release_memory()
        self.meter.end_epoch(at.step, at.epoch)
        reported, choosing = self.evaluation.score(at.step, at.epoch)
        at.score = selection_score(choosing, self.spec.select)
        self.settings.progress.epoch(at.epoch, self.spec.epochs, reported, at.score)
        if at.score > at.best_score:
            at.best_epoch, at.best_score = at.epoch, at.score
            self.evaluation.best = self.evaluation.last
            checkpoints.keep_best(at.epoch, self.model.weights())
        at.epoch, at.done = at.epoch + 1, 0
        if at.epoch <= self.spec.epochs:
            checkpoints.after_step(at.step, save=True)

    def step(self, batch: Step) -> tuple[list[TaskResult], Surgery | None]:
        """Make one step, in smaller parts if memory runs out; return what `Gradients` returns."""
        failed = ""
        while True:
            self.optimiser.zero_grad()
            try:
                found = self.gradients(batch)
                break
            except (RuntimeError, MemoryError) as error:
                if not is_out_of_memory(error):
                    raise
                if failed:
                    raise UserError(
                        f"{failed}. Lower 'batch_size' or 'max_length', run fewer jobs at once, or "
                        f"use a smaller backbone. {error}"
                    ) from error
            # Not in the handler of the error, whose traceback holds on to the activations.
            self.gradients.halve_budget(batch)
            release_memory(self.settings.device)
            parts = in_parts(self.gradients.activation_budget)
            failed = f"out of memory at step {self.position.step}"
            self.settings.progress.say(f"{failed}: trying again in {parts}")
            sizes = ", ".join(f"{len(rows)} of {task}" for task, rows in batch)
            failed += f" ({sizes}), also in {parts}"
        self.meter.add(self.position.step, found[0])
        self.optimiser.step()
        return found

    def _log_measured(self, results: list[TaskResult], surgery: Surgery | None) -> None:
        """Log what a window's last step measured of each task, and between tasks if surgery did."""
        log = partial(self.history.log, self.position.step, self.position.epoch, "train")
        for result in results:
            for metric, value in result.measured.items():
                log(result.task, metric, value.item())
        if surgery is not None:
            for row in cosine_rows([each.task for each in results], surgery, self.layer_groups):
                log(*row)

    def log_details(self) -> None:
        """Log what figures show of the best epoch's model besides its scores."""
        epoch = self.position.best_epoch
        for task in self.spec.trained_tasks:
            for metric, value in self.model.details(task).items():
                self.history.log(self.sampler.steps * epoch, epoch, "dev", task, metric, value)
