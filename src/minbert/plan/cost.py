"""What training jobs cost, before they run: from finished runs, or from counted operations."""

import statistics
from collections.abc import Mapping
from contextlib import suppress
from functools import cache, cached_property
from pathlib import Path
from typing import NamedTuple

from pydantic import ValidationError

from minbert.base.errors import UserError
from minbert.devices.cards import visible_cards
from minbert.plan.experiment import Experiment
from minbert.plan.parameters import convolution_parameters, inserted_parameters
from minbert.plan.pending import Job, Pending
from minbert.spec import epochs
from minbert.spec.architecture import BERT_BASE, Architecture
from minbert.spec.epochs import EPOCHS, Epoch
from minbert.spec.protocol import SPLITS
from minbert.spec.stage import StageSpec
from minbert.spec.task import TASKS
from minbert.store.node import Node, seed_folders
from minbert.store.plans import described_in
from minbert.store.record import sound


class Size(NamedTuple):
    """Examples of each split of a task, and the mean tokens of one, special ones included."""

    train: int
    dev: int
    test: int
    tokens: float


Sizes = Mapping[str, Size]

SIZES = {
    "sst": Size(8544, 1101, 2210, 25),
    "para": Size(141506, 20215, 40431, 30),
    "sts": Size(6040, 863, 1725, 28),
    "cfimdb": Size(1707, 245, 488, 224),
    "lmrd": Size(22500, 2500, 25000, 300),
}
"""The real data sets."""

ASSUMED = Size(10_000, 1_000, 1_000, 40)
"""A task of one's own until its table is made."""

TOKENS_A_WORD = 1.3
"""Word pieces of a word, about; in the real data sets 1.2 to 1.4."""

HEAD = 2e4
"""Operations on an example whose features are cached: nothing beside any encoder."""

GPU_RATE = 1e14
"""Operations a second that a data-centre GPU is assumed to do, in bf16."""

CPU_RATE = 5e10
"""Operations a second that one CPU thread is assumed to do, if nothing was measured."""

BATCH_SECONDS = 0.015
"""Seconds that the host of a GPU is assumed to need for one batch's forward and backward: small
batches wait for it, however fast the GPU."""


def operations(spec: StageSpec, arch: Architecture, sizes: Sizes) -> float:
    """Count multiplications and additions of a whole job, by weight and token.

    Per weight and token, forward takes 2, backward 2 for the activations and 2 for the weights
    unless they are frozen. Only layers, pooler and what is inserted into them count: embeddings
    are looked up, heads are small. Trained tasks are scored on dev after each epoch; all tasks are
    scored on dev and test at the end.
    """
    drawn = epoch(spec, sizes).examples
    if spec.trainable == "heads":
        return HEAD * spec.epochs * sum(drawn.values())
    parts = arch.parameters()
    backbone = sum(parts.layers) + parts.pooler
    total = 0.0
    for task, how in spec.tasks.items():
        inserted = inserted_parameters(spec, arch).trained
        inserted += convolution_parameters(how, arch.hidden)
        weights = backbone + inserted
        cost = 2.0 * weights * (sizes[task].dev + sizes[task].test)
        if how.trained:
            trained = weights if spec.trainable == "all" else inserted
            step = 4.0 * weights + 2.0 * trained
            if spec.smart is not None:
                # A second pass on the perturbed input; an ascent needs no gradient of weights.
                step = 2 * step + 4.0 * weights * spec.smart.ascents
            cost += spec.epochs * (step * drawn[task] + 2.0 * weights * sizes[task].dev)
        total += min(sizes[task].tokens, spec.max_length) * cost
    return total


def batches(spec: StageSpec, sizes: Sizes) -> float:
    """Count the batches that a whole job goes forward and backward through; none for heads alone.

    What a head launches is nothing beside an encoder.
    """
    if spec.trainable == "heads":
        return 0.0
    drawn = epoch(spec, sizes).examples
    return spec.epochs * sum(n / spec.tasks[task].batch_size for task, n in drawn.items())


def epoch(spec: StageSpec, sizes: Sizes) -> Epoch:
    """Return the steps of an epoch, and how many examples of each trained task it draws.

    Raises `UserError` for a sampler without an entry in `EPOCHS`.
    """
    if (name := spec.sampler.name) not in EPOCHS:
        raise UserError(
            f"sampler '{name}' is not in EPOCHS in {epochs.__file__}; add '{name}': a function "
            "that returns the steps of an epoch and the examples that it draws of each task "
            "(docs/adding.md)"
        )
    return EPOCHS[name](spec, {task: sizes[task].train for task in spec.trained_tasks})


class Cost(NamedTuple):
    """Seconds of one job; `measured` says whether runs of the same key took that long."""

    seconds: float
    measured: bool


class Costs:
    """Costs of an experiment's training jobs; `gpu` says whether on GPUs, None: as found here."""

    def __init__(self, experiment: Experiment, gpu: bool | None = None) -> None:
        self.experiment = experiment
        self.arch = experiment.sources.architecture or BERT_BASE
        """That of the backbone; until its shapes are known, BERT-base."""
        self._gpu = gpu
        self.of, self.size = cache(self._of), cache(self._size)

    def _of(self, node: Node) -> Cost:
        """Return the cost of one seed of a training node: the median of its finished seeds.

        If there are none, its operations at the rate of all finished runs, or at an assumed one;
        on a GPU its batches take `BATCH_SECONDS` each at least.
        """
        if seconds := self._seconds(node.key):
            return Cost(statistics.median(seconds), True)
        spec = StageSpec.model_validate(node.spec["stage"])
        waiting = BATCH_SECONDS * batches(spec, self.sizes(spec)) * self._on_gpu
        return Cost(max(waiting, self._operations(spec) / self._rate[0]), False)

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

    def sizes(self, spec: StageSpec) -> Sizes:
        """Return the sizes of a stage's tasks."""
        return {task: self.size(task) for task in spec.tasks}

    def _size(self, task: str) -> Size:
        """Return the size of a task: as its table has it, or until that is made, as assumed."""
        config, data = self.experiment.config, self.experiment.sources.data(task)
        found = SIZES.get(task, ASSUMED)
        if report := sound(data.folder(self.experiment.root) / "report.json"):
            words = report.get("mean_words", {}).get("train")
            if words is not None and task not in SIZES:
                found = found._replace(tokens=2 + TASKS[task].pair + TOKENS_A_WORD * words)
            return found._replace(**{split: report["rows"].get(split, 0) for split in SPLITS})
        if task not in config.tasks and config.data == "builtin":
            paths = data.extra["paths"].items()
            rows = {split: Path(path).read_bytes().count(b"\n") - 1 for split, path in paths}
            found = found._replace(**rows)
        train, dev, test = (min(n, config.limit or n) for n in found[:3])
        return Size(train, dev, test, found.tokens)

    @property
    def assumed(self) -> list[str]:
        """The tasks of one's own whose sizes are assumed, as their tables are not made yet."""
        used = {task for stage in self.experiment.stages.values() for task in stage.spec.tasks}
        root, data = self.experiment.root, self.experiment.sources.data
        own = (task for task in self.experiment.config.tasks if task in used)
        return [task for task in own if not sound(data(task).folder(root) / "report.json")]

    def _operations(self, spec: StageSpec) -> float:
        return operations(spec, self.arch, self.sizes(spec))

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
