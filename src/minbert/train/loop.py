"""The training loop: epochs of steps, dev scores after each, the best epoch's weights kept."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from minbert.base.errors import UserError
from minbert.base.progress import Progress
from minbert.engine.checkpoints import Best, Checkpoints, Generators, Part
from minbert.engine.device import give_back, is_out_of_memory
from minbert.evaluate.scoring import score_task, selection_score
from minbert.model.encoder import Embeddings, compute_in
from minbert.model.heads.cosine import CosineHead
from minbert.model.weights import load_weights, save_weights
from minbert.spec.parts import load_part
from minbert.spec.stage import SelectOn, StageSpec
from minbert.spec.task import TASKS
from minbert.train.history import History, LossMeter, TrainScores
from minbert.train.learner import Learner
from minbert.train.losses import Loss, task_loss
from minbert.train.optimiser import AdamW
from minbert.train.room import in_parts
from minbert.train.samplers import EpochSampler, Step
from minbert.train.selection import choosing, judging
from minbert.train.step import Gradients, Passes, Trained
from minbert.train.surgery.gradients import Surgery, cosine_rows, layer_groups

POINTS = 400
"""Training-loss rows that a run aims at, so that a long run's history stays small."""


SAMPLE = 512
"""Training examples that a cosine's first threshold is found on."""


@dataclass
class Outcome:
    best_epoch: int
    best_score: float
    last_score: float
    steps: int
    seconds: float
    training_seconds: float
    tokens_per_second: float


@dataclass
class Position:
    """How far a run has come: `done` steps of `epoch` (from 1), `step` in all."""

    epoch: int = 1
    done: int = 0
    step: int = 0
    best_epoch: int = 0
    best_score: float = float("-inf")
    score: float = float("nan")
    training: float = 0.0  # seconds of the steps
    seconds: float = 0.0  # of the whole run with its interrupted parts
    _read: float = field(default_factory=time.perf_counter)

    def state(self) -> dict[str, Any]:
        self.read_clock()
        return {name: value for name, value in vars(self).items() if name != "_read"}

    def load(self, state: dict[str, Any]) -> None:
        """Take over all fields; the clock runs on."""
        self.read_clock()
        vars(self).update(state | {"seconds": state["seconds"] + self.seconds})

    def read_clock(self) -> None:
        """Add to `seconds` those since the last call."""
        now = time.perf_counter()
        self.seconds, self._read = self.seconds + now - self._read, now


@dataclass(frozen=True)
class Settings:
    """How a run computes, keeps and reports; activations may take `room` bytes."""

    device: torch.device
    precision: str
    progress: Progress
    best: Best
    checkpoints: Checkpoints | None = None
    room: float = float("inf")


class Loop:
    """Trains a learner as its spec says.

    The sampler has a generator of its own, surgery and weighting have another; new heads and
    dropout draw from torch's default one, which the caller has seeded.
    """

    def __init__(
        self, spec: StageSpec, learner: Learner, seed: int, settings: Settings, history: History
    ) -> None:
        self.spec = spec
        self.learner = learner
        self.settings = settings
        self.history = history
        self.position = Position()
        self.dev, self.best_dev = dict[str, Tensor](), dict[str, Tensor]()
        self.losses: dict[str, Loss] = {
            name: task_loss(task.loss, self._head(name)) for name, task in spec.tasks.items()
        }
        compute_in(learner.module, settings.precision)
        self._check_sizes()
        self._start_heads()
        device = settings.device
        sizes = {task: len(learner.examples[task]["train"]) for task in spec.trained_tasks}
        self.sampler: EpochSampler = load_part("sampler", spec.sampler.name)(
            spec, sizes, torch.Generator().manual_seed(seed * 2 + 1)
        )
        self.passes = Passes(spec, learner, self.losses, seed, settings.room)
        draws = torch.Generator().manual_seed(seed * 2 + 2)
        self.gradients = Gradients(spec, self.passes, draws)
        self.layer_groups = layer_groups(learner.module, self.gradients.shared)
        self.total = self.sampler.steps * spec.epochs
        chosen = spec.optimiser.schedule
        schedule = load_part("schedule", chosen.name)(self.total, chosen.warmup)
        # A sparse gradient's rows are counted on the host: an accelerator would have to wait.
        parts = learner.module.modules() if device.type == "cpu" else ()
        deferred = [part.word for part in parts if isinstance(part, Embeddings)]
        self.optimiser = AdamW(self.gradients.parameters(), spec.optimiser, schedule, deferred)
        self.scores = TrainScores(history, lambda task: learner.examples[task]["train"].labels)
        self.meter = LossMeter(
            history,
            lambda task, rows: [learner.examples[task]["train"].ids[n] for n in rows.tolist()],
            window=max(1, min(self.sampler.steps, self.total // POINTS)),
            read_every=1 if device.type == "cpu" else 50,
        )

    def _check_sizes(self) -> None:
        for task in self.spec.trained_tasks:
            if not len(self.learner.examples[task]["train"]):
                raise UserError(f"task '{task}' has no training examples")
            if not len(self.learner.examples[task]["dev"]):
                raise UserError(f"task '{task}' has no dev examples to choose the best epoch by")
            ids = self.learner.examples[task]["dev"].ids
            if not all(which(ids, self.spec.select_on).any() for which in (choosing, judging)):
                raise UserError(
                    f"task '{task}': its {len(ids)} dev examples are too few for 'select_on: half'"
                )

    def _start_heads(self) -> None:
        for task in self.spec.trained_tasks:
            if self.spec.tasks[task].start_at_prior:
                labels = self.learner.examples[task]["train"].labels
                constant = self.losses[task].constant(labels, TASKS[task].classes)
                head = self._head(task)
                head.start_at(constant)
                if TASKS[task].kind == "binary" and isinstance(head, CosineHead):
                    head.part_at(self._first_outputs(task), labels.mean().item())

    def _head(self, task: str) -> Any:
        return self.learner.module.get_submodule(f"heads.{task}")

    @torch.no_grad()
    def _first_outputs(self, task: str) -> Tensor:
        """Return the outputs [N, classes] of up to `SAMPLE` training examples before any step."""
        size, seen = len(self.learner.examples[task]["train"]), self.learner.tokens_seen
        self.learner.module.eval()
        rows = torch.arange(0, size, max(1, -(-size // SAMPLE)))
        batches = rows.split(self.spec.tasks[task].batch_size)
        outputs = torch.cat([self.learner.output(task, batch)[0] for batch in batches])
        self.learner.tokens_seen = seen
        return outputs

    def parts(self) -> Mapping[str, Part]:
        own = {"surgery": self.gradients.generator}
        if self.passes.penalty is not None:
            own["penalty"] = self.passes.penalty.generator
        found: dict[str, Part] = {
            "model": self.learner,
            "optimiser": self.optimiser,
            "scores": self.scores,
            "meter": self.meter,
            "history": self.history,
            "position": self.position,
            "sampler": self.sampler,
            "generators": Generators(self.settings.device, own),
        }
        if self.gradients.method is not None:
            found["surgery"] = self.gradients.method
        if self.gradients.weighting is not None:
            found["weighting"] = self.gradients.weighting
        return found

    def run(self) -> Outcome:
        """Train every epoch, from a checkpoint if there is one; keep the best epoch's weights."""
        at, say, checkpoints = self.position, self.settings.progress, self.settings.checkpoints
        computed_on = f"{self.settings.device.type}, {self.settings.precision}"
        if checkpoints:
            if refused := checkpoints.resume(self.parts(), computed_on):
                say.say(f"starting from scratch: {refused}")
            elif at.step:
                say.say(f"resuming after step {at.step} of {self.total}")
        say.start(self.total, at.step)
        while at.epoch <= self.spec.epochs:
            self._epoch()
            self.gradients.end_epoch()
            self.optimiser.settle()
            self.optimiser.zero_grad()
            give_back()
            self.scores.end_epoch(at.step, at.epoch)
            at.score = self._evaluate()
            if at.score > at.best_score:
                at.best_epoch, at.best_score = at.epoch, at.score
                self.best_dev = self.dev
                write = partial(save_weights, state=self.learner.weights())
                self.settings.best.keep(at.epoch, write)
            at.epoch, at.done = at.epoch + 1, 0
            if checkpoints and at.epoch <= self.spec.epochs:
                checkpoints.save(at.step)
        say.close()
        at.read_clock()
        speed = self.learner.tokens_seen / max(at.training, 1e-9)
        return Outcome(
            at.best_epoch, at.best_score, at.score, at.step, at.seconds, at.training, speed
        )

    def _epoch(self) -> None:
        at = self.position
        self.learner.module.train()
        last = at.step - at.done + self.sampler.steps
        clock = time.perf_counter()
        for batch in self.sampler.rest(at.done):
            at.step, at.done = at.step + 1, at.done + 1
            self.passes.measure = at.step % self.meter.window == 0
            trained, surgery = self.train_step(batch)
            self.meter.after_step(at.step, at.epoch, last=at.step == last)
            if self.passes.measure:
                self._log_details(trained, surgery)
            self.settings.progress.update(at.epoch, self.meter.latest)
            at.training += time.perf_counter() - clock
            clock = time.perf_counter()
            if self.settings.checkpoints and at.step != last:
                self.settings.checkpoints.after_step(at.step)

    def _log_details(self, trained: list[Trained], surgery: Surgery | None) -> None:
        """Log what a window's last step measured of each task, and between tasks if surgery did."""
        log = partial(self.history.log, self.position.step, self.position.epoch, "train")
        for batch in trained:
            for metric, value in batch.measured.items():
                log(batch.task, metric, value.item())
        if surgery is not None:
            tasks = [batch.task for batch in trained]
            for row in cosine_rows(tasks, surgery, self.layer_groups):
                log(*row)

    def train_step(self, batch: Step) -> tuple[list[Trained], Surgery | None]:
        """Make one step, in smaller parts if memory runs out; return what `Gradients` returns."""
        found = self._gradients(batch)
        if found is None:
            # Not in the handler of the error, whose traceback holds on to the activations.
            self.passes.halve_room(batch)
            give_back(self.settings.device)
            self.settings.progress.say(
                f"out of memory at step {self.position.step}: trying again in "
                f"{in_parts(self.passes.room)}"
            )
            found = self._gradients(batch, again=True)
            assert found is not None
        trained, surgery = found
        for task, rows, weight, loss, prediction, _ in trained:
            self.meter.add(self.position.step, task, rows, weight, loss)
            self.scores.add(task, rows, prediction)
        self.optimiser.step()
        return trained, surgery

    def _gradients(
        self, batch: Step, again: bool = False
    ) -> tuple[list[Trained], Surgery | None] | None:
        """Return None if memory ran out; raise `UserError` if it did `again`."""
        self.optimiser.zero_grad()
        try:
            return self.gradients(batch)
        except (RuntimeError, MemoryError) as error:
            if not is_out_of_memory(error):
                raise
            if again:
                sizes = ", ".join(f"{len(rows)} of {task}" for task, rows in batch)
                raise UserError(
                    f"out of memory at step {self.position.step} ({sizes}), also in "
                    f"{in_parts(self.passes.room)}. Lower 'batch_size' or 'max_length', run fewer "
                    f"jobs at once, or use a smaller backbone. {error}"
                ) from error
        return None

    def _evaluate(self) -> float:
        """Score the trained tasks on dev and log it; return the score that epochs compete by.

        If a half of dev chooses, its scores are logged as split `selection`, the others' as `dev`.
        """
        at, how = self.position, self.spec.select_on
        self.learner.module.eval()
        self.dev = {task: self.learner.outputs(task, "dev") for task in self.spec.trained_tasks}
        scores = self._score("dev", judging)
        choose_by = scores if how == "dev" else self._score("selection", choosing)
        chosen = selection_score(choose_by, self.spec.select)
        self.settings.progress.epoch(at.epoch, self.spec.epochs, scores, chosen)
        return chosen

    def _score(
        self, split: str, which: Callable[[Sequence[str], SelectOn], np.ndarray]
    ) -> dict[str, float]:
        """Return the scores of those dev examples that are `which`, and log them as `split`."""
        at = self.position
        scores: dict[str, float] = {}
        for task, outputs in self.dev.items():
            examples = self.learner.examples[task]["dev"]
            rows = torch.from_numpy(which(examples.ids, self.spec.select_on)).to(outputs.device)
            output, labels = outputs[rows], examples.labels[rows]
            prediction = self.losses[task].prediction(output).cpu().numpy()
            scores[task] = score_task(task, prediction, labels.cpu().numpy())
            loss = self.losses[task].loss(output, labels).item()
            self.history.log(at.step, at.epoch, split, task, "loss", loss)
            self.history.log(at.step, at.epoch, split, task, TASKS[task].metric, scores[task])
        self.history.log_overall(at.step, at.epoch, split, scores)
        return scores

    def predictions(self, split: str) -> dict[str, dict[str, Any]]:
        """Return {task: {ids, splits, prediction [N], scores [N, n], label, last [N]}} of a split.

        `last` is dev's prediction after the last epoch, NaN for other splits and tasks that are not
        trained. `splits` says which dev examples chose the epoch, if a half did. Call `restore`
        first; dev outputs of the best epoch are kept and not computed again.
        """
        self.learner.module.eval()
        known = self.best_dev if split == "dev" else {}
        found = {}
        for task in self.spec.ordered_tasks:
            examples = self.learner.examples[task][split]
            if not len(examples):
                continue
            output = known[task] if task in known else self.learner.outputs(task, split)
            last = np.full(len(examples), np.nan)
            if split == "dev" and task in self.dev:
                last = self.losses[task].prediction(self.dev[task]).cpu().numpy()
            splits = np.full(len(examples), split, dtype=object)
            if split == "dev":
                splits[~judging(examples.ids, self.spec.select_on)] = "selection"
            found[task] = {
                "ids": examples.ids,
                "splits": splits,
                "last": last,
                "prediction": self.losses[task].prediction(output).cpu().numpy(),
                "scores": self.losses[task].scores(output).cpu().numpy(),
                "label": examples.labels.cpu().numpy(),
            }
        return found

    def restore(self) -> None:
        give_back()
        self.learner.restore(load_weights(self.settings.best.path))
