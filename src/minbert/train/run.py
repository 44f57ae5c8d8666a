"""A training job: a stage with a seed, from its first step to its weights, scores and record."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from minbert.base.environment import environment, peak_memory
from minbert.base.errors import UserError
from minbert.base.files import write_json
from minbert.base.progress import Progress, counted
from minbert.data.parquet import write_file
from minbert.evaluate.scoring import selection_score
from minbert.model.encoder import Embeddings, compute_in
from minbert.model.weights import load_weights, save_weights
from minbert.spec.architecture import WEIGHTS
from minbert.spec.parts import load_part
from minbert.spec.stage import StageSpec
from minbert.store.job import Job
from minbert.train.checkpoints import Checkpoints, Part
from minbert.train.device import device_name, is_out_of_memory, release_memory, set_up
from minbert.train.history import History, Listener, predictions
from minbert.train.optimiser import AdamW
from minbert.train.samplers import EpochSampler, Step
from minbert.train.step import Gradients, activation_budget
from minbert.train.trainable import Sources, TrainableModel

POINTS = 400
"""Training-loss rows that a run aims at, so that a long run's history stays small."""


def make(job: Job, **surroundings: Any) -> dict[str, Any]:
    """Train the job's stage; `surroundings`: listener, checkpoints and provenance of a run."""
    assert job.seed is not None
    spec = StageSpec.model_validate(job.spec["stage"])
    sources = Sources(
        job.need("backbone.config.json").parent,
        job.needs("tokens"),
        job.needs("features"),
        job.need("start") if "start" in job.described["needs"] else None,
        tuple(map(job.need, spec.fuse or ())),
    )
    how = {"title": job.title, "device": job.device, "precision": job.extra["precision"]}
    return train_stage(spec, job.seed, sources, job.out, threads=job.threads, **how, **surroundings)


def train_stage(
    spec: StageSpec,
    seed: int,
    sources: Sources,
    out: Path,
    *,
    checkpoints: Checkpoints | None = None,
    provenance: Mapping[str, Any] = {},
    **how: Any,
) -> dict[str, Any]:
    """Train one stage and write its files to `out`; return the record that is in `run.json`.

    Writes `model.safetensors` and `predictions.parquet` (dev and test), both of the best epoch,
    `history.parquet` and `run.json`. With `checkpoints` an interrupted run resumes from its last
    state, which is removed when the run has ended. The record has `provenance`, too: what the run
    was made from. `how` is what `Loop` takes besides.
    """
    checkpoints = checkpoints or Checkpoints(out)
    loop = Loop(spec, seed, sources, checkpoints, **how)
    outcome = loop.run()
    at = loop.history
    write_file(out / "predictions.parquet", predictions(at))
    at.epoch, at.step = at.best_epoch, loop.sampler.steps * at.best_epoch
    for task in spec.trained_tasks:
        for metric, value in loop.model.details(task).items():
            at.log("dev", task, metric, value)
    at.write(out / "history.parquet")
    save_weights(out / WEIGHTS, loop.model.weights)
    on_cuda = loop.device.type == "cuda"
    record = {
        **provenance,
        "spec": spec.model_dump(mode="json"),
        "seed": seed,
        "outcome": outcome,
        "environment": environment(device_name(loop.device), loop.threads, loop.precision),
        "peak_memory_bytes": peak_memory(),
        "peak_device_memory_bytes": torch.cuda.max_memory_allocated() if on_cuda else None,
        "parts_of_a_batch": loop.gradients.most_parts,
        "parameters": sum(p.numel() for p in loop.model.module.parameters()),
    }
    write_json(out / "run.json", record)
    checkpoints.clear()
    loop.progress.say(
        f"best epoch {at.best_epoch} ({spec.select} {at.best_score:.4f}), "
        f"{outcome['seconds']:.0f} s, {outcome['tokens_per_second']:.0f} tokens/s"
    )
    return record


class Loop(Part):
    """A stage's model and all that trains it, as the spec says; `seed` decides all generators."""

    kept = ("model", "history", "sampler", "gradients", "optimiser", "generators")

    def __init__(
        self,
        spec: StageSpec,
        seed: int,
        sources: Sources,
        checkpoints: Checkpoints,
        *,
        title: str,
        device: str = "auto",
        precision: str = "auto",
        threads: int = 1,
        listener: Listener | None = None,
    ) -> None:
        self.spec, self.checkpoints, self.threads = spec, checkpoints, threads
        self.progress = Progress(title)
        self.device, self.precision = set_up(device, precision, threads)
        # For new heads and dropout; samplers, and surgery and weighting, have others.
        torch.manual_seed(seed)
        model: TrainableModel = load_part("trainable", spec.trainable)(spec, sources, self.device)
        self.model = model
        budget = activation_budget(self.device, threads, model.module)
        compute_in(model.module, self.precision)
        for task in spec.trained_tasks:
            if spec.tasks[task].init_bias_to_prior:
                model.init_bias_to_prior(task)
        sizes = {task: len(model.examples[task]["train"]) for task in spec.trained_tasks}
        of_sampler, of_steps = (torch.Generator().manual_seed(seed * 2 + n) for n in (1, 2))
        make_sampler = load_part("sampler", spec.sampler.name)
        self.sampler: EpochSampler = make_sampler(spec, sizes, of_sampler)
        self.gradients = Gradients(spec, model, seed, of_steps, budget)
        self.total = self.sampler.steps * spec.epochs
        self.window = max(1, min(self.sampler.steps, self.total // POINTS))
        self.history = History(model, listener)
        chosen = spec.optimiser.schedule
        schedule = load_part("schedule", chosen.name)(self.total, chosen.warmup)
        # A sparse gradient's rows are counted on the host: an accelerator would have to wait.
        parts = model.module.modules() if self.device.type == "cpu" else ()
        by_rows = [part.word for part in parts if isinstance(part, Embeddings)]
        self.optimiser = AdamW(self.gradients.parameters(), spec.optimiser, schedule, by_rows)
        # Those that draw dropout: torch's, of the CPU and, if different, of the device.
        self.generators = [torch.default_generator]
        if self.device.type == "cuda":
            self.generators.append(torch.cuda.default_generators[self.device.index])
        elif self.device.type == "mps":
            self.generators.append(torch.mps._get_default_mps_generator())

    def run(self) -> dict[str, Any]:
        """Train every epoch, or resume; restore the best weights; return the record's `outcome`."""
        at, say = self.history, self.progress.say
        where = f"{device_name(self.device)}, {self.precision}, {counted(self.threads, 'thread')}"
        say(f"{self.total} steps on {where}")
        if refused := self.checkpoints.resume(self, f"{self.device.type}, {self.precision}"):
            say(f"starting from scratch: {refused}")
        elif at.step:
            at.tell(at.rows)
            say(f"resuming after step {at.step} of {self.total}")
        self.progress.start(self.total, at.step)
        while at.epoch <= self.spec.epochs:
            self._train_epoch()
            self._end_epoch()
        release_memory()
        self.model.weights = load_weights(self.checkpoints.folder / self.checkpoints.best)
        return {
            "best_epoch": at.best_epoch,
            "best_score": at.best_score,
            "steps": at.step,
            "seconds": at.seconds,
            "tokens_per_second": self.model.tokens_seen / at.seconds,
        }

    def _train_epoch(self) -> None:
        """Make the steps of the epoch that are not done yet."""
        at, steps = self.history, self.sampler.steps
        self.model.module.train()
        for batch in self.sampler.rest(at.step - (at.epoch - 1) * steps):
            at.step += 1
            is_last = at.step == at.epoch * steps
            self.gradients.measure = at.step % self.window == 0
            self.step(batch)
            if self.gradients.measure or is_last:
                at.end_window()
            for (task, metric), value in self.gradients.measured.items():
                at.log("train", task, metric, float(value))
            self.progress.update(at.epoch, at.loss)
            if not is_last:
                self.checkpoints.after_step(at.step)

    def _end_epoch(self) -> None:
        """Score dev, keep the weights if they are the best so far, and save the state."""
        at, model = self.history, self.model
        self.optimiser.flush()
        self.optimiser.zero_grad()
        release_memory()
        model.module.eval()
        outputs = {task: model.outputs(task, "dev") for task in self.spec.trained_tasks}
        scores = at.end_epoch(outputs)
        *_, choosing = scores.values()
        score = selection_score(choosing, self.spec.select)
        self.progress.epoch(at.epoch, self.spec.epochs, scores["dev"], score)
        if score > at.best_score:
            at.best_epoch, at.best_score, at.best_outputs = at.epoch, score, outputs
            self.checkpoints.keep_best(at.epoch, model.weights)
        at.epoch += 1
        if at.epoch <= self.spec.epochs:
            self.checkpoints.after_step(at.step, save=True)

    def step(self, batch: Step, again: bool = False) -> None:
        """Make one step; if memory runs out, it is made again in smaller parts, once."""
        self.optimiser.zero_grad()
        try:
            self.history.add(self.gradients(batch))
        except (RuntimeError, MemoryError) as error:
            if not is_out_of_memory(error):
                raise
        else:
            self.optimiser.step()
            return
        # Not in the handler, as the error's traceback holds the activations.
        told = f"out of memory at step {self.history.step}"
        if again:
            raise UserError(
                f"{told}, also in smaller parts. Lower 'batch_size', 'max_length' or --cores"
            )
        most = max(self.model.activations(*each).sum() for each in batch)
        self.gradients.budget = min(self.gradients.budget, most) / 2
        release_memory(self.device)
        self.progress.say(f"{told}: trying again in smaller parts")
        self.step(batch, again=True)
