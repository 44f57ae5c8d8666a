"""What training jobs cost, before they run: from finished runs, or from counted operations."""

import statistics
from collections.abc import Mapping
from contextlib import suppress
from functools import cache, cached_property
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import ValidationError

from minbert.base.errors import UserError
from minbert.devices.cards import visible_cards
from minbert.plan.experiment import Experiment
from minbert.plan.parameters import convolution_parameters, inserted_parameters
from minbert.plan.pending import Job, Pending
from minbert.spec import epochs
from minbert.spec.architecture import BERT_BASE, Architecture
from minbert.spec.epochs import EPOCHS, Epoch
from minbert.spec.stage import StageSpec
from minbert.spec.task import TASKS
from minbert.store.node import Node, seed_folders
from minbert.store.plans import described_in
from minbert.store.record import sound

TOKENS = {"sst": 25, "para": 30, "sts": 28, "cfimdb": 224, "lmrd": 300}
"""Mean tokens of an example, special ones included, in the real data sets."""

TOKENS_A_WORD = 1.3
"""Word pieces of a word, about; in the real data sets 1.2 to 1.4."""

ASSUMED_TOKENS = 40.0
"""Of a task of one's own until its table is made."""

HEAD = 2e4
"""Operations on an example whose features are cached: nothing beside any encoder."""


class Rows(NamedTuple):
    """Examples of each split."""

    train: int
    dev: int
    test: int


class Given(NamedTuple):
    """What a stage is counted by: the encoder, and each task's rows and mean tokens."""

    arch: Architecture
    rows: Mapping[str, Rows]
    tokens: Mapping[str, float] = TOKENS


def operations(spec: StageSpec, given: Given) -> float:
    """Count multiplications and additions of a whole job, by weight and token.

    Per weight and token, forward takes 2, backward 2 for the activations and 2 for the weights
    unless they are frozen. Only layers, pooler and what is inserted into them count: embeddings
    are looked up, heads are small. Trained tasks are scored on dev after each epoch; all tasks are
    scored on dev and test at the end.
    """
    arch, rows, tokens = given
    drawn = epoch(spec, rows).examples
    if spec.trainable == "heads":
        return HEAD * spec.epochs * sum(drawn.values())
    parts = arch.parameters()
    backbone = sum(parts.layers) + parts.pooler
    total = 0.0
    for task, how in spec.tasks.items():
        inserted = inserted_parameters(spec, arch).trained
        inserted += convolution_parameters(how, arch.hidden)
        weights = backbone + inserted
        cost = 2.0 * weights * (rows[task].dev + rows[task].test)
        if how.trained:
            trained = weights if spec.trainable == "all" else inserted
            step = 4.0 * weights + 2.0 * trained
            if spec.smart is not None:
                # A second pass on the perturbed input; an ascent needs no gradient of weights.
                step = 2 * step + 4.0 * weights * spec.smart.ascents
            cost += spec.epochs * (step * drawn[task] + 2.0 * weights * rows[task].dev)
        total += min(tokens[task], spec.max_length) * cost
    return total


def batches(spec: StageSpec, rows: Mapping[str, Rows]) -> float:
    """Count the batches that a whole job goes forward and backward through; none for heads alone.

    What a head launches is nothing beside an encoder.
    """
    if spec.trainable == "heads":
        return 0.0
    drawn = epoch(spec, rows).examples
    return spec.epochs * sum(n / spec.tasks[task].batch_size for task, n in drawn.items())


def epoch(spec: StageSpec, rows: Mapping[str, Rows]) -> Epoch:
    """Return the steps of an epoch, and how many examples of each trained task it draws.

    Raises `UserError` for a sampler without an entry in `EPOCHS`.
    """
    if (name := spec.sampler.name) not in EPOCHS:
        raise UserError(
            f"sampler '{name}' is not in EPOCHS in {epochs.__file__}; add '{name}': a function "
            "that returns the steps of an epoch and the examples that it draws of each task "
            "(docs/adding.md)"
        )
    return EPOCHS[name](spec, {task: rows[task].train for task in spec.trained_tasks})


SIZES = {
    "sst": Rows(8544, 1101, 2210),
    "para": Rows(141506, 20215, 40431),
    "sts": Rows(6040, 863, 1725),
    "cfimdb": Rows(1707, 245, 488),
    "lmrd": Rows(22500, 2500, 25000),
}
"""Examples of train, dev and test in the real data sets, until their tables are made."""

ASSUMED = Rows(10_000, 1_000, 1_000)
"""Those of a task of one's own until its table is made."""

GPU_RATE = 1e14
"""Operations a second that a data-centre GPU is assumed to do, in bf16."""

CPU_RATE = 5e10
"""Operations a second that one CPU thread is assumed to do, if nothing was measured."""

BATCH_SECONDS = 0.015
"""Seconds that the host of a GPU is assumed to need for one batch's forward and backward: small
batches wait for it, however fast the GPU."""


class Cost(NamedTuple):
    """Seconds of one job; `measured` says whether runs of the same key took that long."""

    seconds: float
    measured: bool


class Costs:
    """Costs of an experiment's training jobs; `gpu` says whether on GPUs, None: as found here."""

    def __init__(self, experiment: Experiment, gpu: bool | None = None) -> None:
        self.experiment = experiment
        self._gpu = gpu
        self._known: dict[str, Cost] = {}
        self._reports: dict[str, dict[str, Any]] = {}

    def of(self, node: Node) -> Cost:
        """Return the cost of one seed of a training node: the median of its finished seeds.

        If there are none, its operations at the rate of all finished runs, or at an assumed one;
        on a GPU its batches take `BATCH_SECONDS` each at least.
        """
        if node.key not in self._known:
            if seconds := self._seconds(node.key):
                self._known[node.key] = Cost(statistics.median(seconds), True)
            else:
                spec = StageSpec.model_validate(node.spec["stage"])
                waiting = BATCH_SECONDS * batches(spec, self.given(spec).rows) * self._on_gpu
                computing = self._operations(spec) / self._rate[0]
                self._known[node.key] = Cost(max(waiting, computing), False)
        return self._known[node.key]

    def gpu_hours(self, node: Node) -> float:
        """Return the hours that one seed would take at `GPU_RATE`, by counted operations."""
        spec = StageSpec.model_validate(node.spec["stage"])
        return self._operations(spec) / GPU_RATE / 3600

    @property
    def basis(self) -> str:
        """What estimated times rest on, in words."""
        rate, measured = self._rate
        source = "as in finished runs" if measured else "an assumption"
        return f"by counted operations at {rate:.1e} a second ({source})"

    def given(self, spec: StageSpec) -> Given:
        """Return what a stage's operations and memory are counted by; unknown shapes: BERT-base."""
        arch = self.experiment.sources.architecture or BERT_BASE
        rows = {task: self.rows(task) for task in spec.tasks}
        return Given(arch, rows, {task: self.tokens(task) for task in spec.tasks})

    def rows(self, task: str) -> Rows:
        """Return the examples of each split of a task."""
        if report := self._report(task):
            return Rows(*(report["rows"].get(split, 0) for split in Rows._fields))
        config = self.experiment.config
        if task in config.tasks:
            rows = ASSUMED
        elif config.data == "builtin":
            paths = self.experiment.sources.data(task).extra["paths"]
            rows = Rows(**{s: Path(p).read_bytes().count(b"\n") - 1 for s, p in paths.items()})
        else:
            rows = SIZES[task]
        return Rows(*(min(n, config.limit or n) for n in rows))

    def tokens(self, task: str) -> float:
        """Return the mean tokens of an example of a task."""
        if task in TOKENS:
            return TOKENS[task]
        words = (self._report(task) or {}).get("mean_words", {}).get("train")
        if words is None:
            return ASSUMED_TOKENS
        return 2 + TASKS[task].pair + TOKENS_A_WORD * float(words)

    @property
    def assumed(self) -> list[str]:
        """The tasks of one's own whose sizes are assumed, as their tables are not made yet."""
        used = {task for stage in self.experiment.stages.values() for task in stage.spec.tasks}
        return [t for t in self.experiment.config.tasks if t in used and not self._report(t)]

    def _operations(self, spec: StageSpec) -> float:
        return operations(spec, self.given(spec))

    def _report(self, task: str) -> dict[str, Any] | None:
        """Return the report on a task's data; it is read once, when it is there."""
        if task not in self._reports:
            folder = self.experiment.sources.data(task).folder(self.experiment.root)
            if found := sound(folder / "report.json"):
                self._reports[task] = found
        return self._reports.get(task)

    @cached_property
    def _rate(self) -> tuple[float, bool]:
        """Operations a second: the median of all finished runs, or assumed; whether measured."""
        rates = []
        for path in (self.experiment.root / "store" / "spec").glob("train-*.json"):
            # A damaged description, or one of other tasks and settings, says nothing of a rate.
            with suppress(UserError, ValidationError, KeyError):
                described = described_in(path)
                seconds = self._seconds(described["key"])
                spec = StageSpec.model_validate(described["spec"]["stage"])
                if seconds and spec.trainable != "heads":
                    counted = self._operations(spec)
                    rates += [counted / each for each in seconds]
        if rates:
            return statistics.median(rates), True
        return (GPU_RATE if self._on_gpu else CPU_RATE), False

    @cached_property
    def _on_gpu(self) -> bool:
        if self._gpu is not None:
            return self._gpu
        wish = self.experiment.config.device
        return wish.startswith("cuda") or (wish == "auto" and bool(visible_cards()))

    def _seconds(self, key: str) -> list[float]:
        """Return the seconds of the finished seeds of a key, on devices of the kind here."""
        folder = self.experiment.root / "store" / "train" / key
        here = "mps" if self.experiment.config.device == "mps" else "cpu"
        found = []
        for path in seed_folders(folder).values():
            if record := sound(path / "run.json"):
                device = record.get("environment", {}).get("device", "cpu")  # or a GPU's model
                if device not in ("cpu", "mps") if self._on_gpu else device == here:
                    found.append(record["outcome"]["seconds"])
        return found


class Chain(NamedTuple):
    """Trainings of which each waits for the one before, and the seconds of all of them."""

    seconds: float
    trainings: tuple[Job, ...]


def chains(jobs: Pending, costs: Costs) -> dict[Job, Chain]:
    """Return, for each job, the longest chain of trainings that begins with it.

    The grid takes that long at least once the job has started, however many devices there are.
    Only trainings take time.
    """
    after: dict[Job, list[Job]] = {job: [] for job in jobs}
    for job in jobs:
        for needed in jobs.needs(job):
            if needed in after:
                after[needed].append(job)

    @cache
    def longest(job: Job) -> Chain:
        rest = max(map(longest, after[job]), key=lambda chain: chain.seconds, default=Chain(0, ()))
        if job[0].kind != "train":
            return rest
        return Chain(costs.of(job[0]).seconds + rest.seconds, (job, *rest.trainings))

    return {job: longest(job) for job in jobs}
