"""What training jobs cost, before they run: from finished runs, or from counted operations."""

import statistics
from collections import defaultdict
from collections.abc import Mapping
from contextlib import suppress
from functools import cache, cached_property
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import ValidationError

from minbert.base.errors import UserError
from minbert.devices.cards import visible_cards
from minbert.plan.experiment import Experiment
from minbert.plan.parameters import inserted_parameters
from minbert.plan.pending import Job, Pending
from minbert.spec.architecture import BERT_BASE, Architecture
from minbert.spec.epochs import EPOCHS, Epoch
from minbert.spec.protocol import SPLITS
from minbert.spec.stage import StageSpec
from minbert.spec.task import TASKS
from minbert.store.node import Node
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

GPU_RATE = 2e13
"""Operations a second that a data-centre GPU is assumed to do in bf16: a fifth of what it can, as
it waits for the host between small batches."""

CPU_RATE = 5e10
"""Operations a second that one CPU thread is assumed to do, if nothing was measured."""


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
    parts, inserted = arch.parameters(), inserted_parameters(spec, arch)[1]
    weights = sum(parts.layers) + parts.pooler + inserted
    step = 4.0 * weights + 2.0 * (weights if spec.trainable == "all" else inserted)
    if spec.smart is not None:
        # A second pass on the perturbed input; an ascent needs no gradient of weights.
        step = 2 * step + 4.0 * weights * spec.smart.ascents
    total = 0.0
    for task, how in spec.tasks.items():
        cost = 2.0 * weights * (sizes[task].dev + sizes[task].test)
        if how.trained:
            cost += spec.epochs * (step * drawn[task] + 2.0 * weights * sizes[task].dev)
        total += min(sizes[task].tokens, spec.max_length) * cost
    return total


def epoch(spec: StageSpec, sizes: Sizes) -> Epoch:
    """Return the steps of an epoch, and how many examples of each trained task it draws."""
    return EPOCHS[spec.sampler.name](spec, {task: sizes[task].train for task in spec.trained_tasks})


class Cost(NamedTuple):
    """Seconds of one job; `measured` says whether runs of the same key took that long."""

    seconds: float
    measured: bool


class Costs:
    """Costs of an experiment's training jobs; `gpu` says whether on GPUs, None: as found here."""

    def __init__(self, experiment: Experiment, gpu: bool | None = None) -> None:
        self.experiment, self._gpu = experiment, gpu
        self.arch = experiment.sources.architecture or BERT_BASE
        """That of the backbone; until its shapes are known, BERT-base."""
        self.of, self.size = cache(self._of), cache(self._size)

    def _of(self, node: Node) -> Cost:
        """Return the cost of one seed of a training node: the median of its finished seeds.

        If there are none, its operations at the rate of all finished runs, or at an assumed one.
        """
        if runs := self._runs.get(node.key):
            return Cost(statistics.median(run["outcome"]["seconds"] for run in runs), True)
        return Cost(self.operations(node.spec["stage"]) / self.rate[0], False)

    def sizes(self, spec: StageSpec) -> Sizes:
        """Return the sizes of a stage's tasks."""
        return {task: self.size(task) for task in spec.tasks}

    def _size(self, task: str) -> Size:
        """Return the size of a task: as its table has it, or until that is made, as assumed."""
        config, data = self.experiment.config, self.experiment.sources.data(task)
        found = SIZES.get(task, ASSUMED)
        if report := sound(data.folder(self.experiment.root) / "report.json"):
            if words := report.get("mean_words", {}).get("train"):
                found = found._replace(tokens=2 + TASKS[task].pair + TOKENS_A_WORD * words)
            return found._replace(**{split: report["rows"].get(split, 0) for split in SPLITS})
        if task in TASKS.built_in and config.data == "builtin":
            paths = data.extra["paths"].items()
            rows = {split: Path(path).read_bytes().count(b"\n") - 1 for split, path in paths}
            found = found._replace(**rows)
        train, dev, test = (min(n, config.limit or n) for n in found[:3])
        return Size(train, dev, test, found.tokens)

    def operations(self, stage: Mapping[str, Any]) -> float:
        """Return the operations of one seed of a stage, by its resolved spec."""
        spec = StageSpec.model_validate(stage)
        return operations(spec, self.arch, self.sizes(spec))

    @cached_property
    def _runs(self) -> dict[str, list[dict[str, Any]]]:
        """The records of all finished runs on devices like the one to be used, by key."""
        found = defaultdict(list)
        for path in (self.experiment.root / "store" / "train").glob("*/seed*/run.json"):
            if record := sound(path):
                device = record["environment"]["device"]  # or a GPU's model
                if self._on_gpu == (device not in ("cpu", "mps")):
                    found[path.parts[-3]].append(record)
        return found

    @cached_property
    def rate(self) -> tuple[float, bool]:
        """Operations a second: the median of all finished runs, or assumed; whether measured."""
        rates = []
        for run in (run for runs in self._runs.values() for run in runs):
            # One of other tasks and settings, or of data that are gone, says nothing of a rate.
            with suppress(UserError, ValidationError, KeyError):
                if run["spec"]["trainable"] != "heads":
                    rates.append(self.operations(run["spec"]) / run["outcome"]["seconds"])
        if rates:
            return statistics.median(rates), True
        return (GPU_RATE if self._on_gpu else CPU_RATE), False

    @cached_property
    def _on_gpu(self) -> bool:
        if self._gpu is not None:
            return self._gpu
        wish = self.experiment.config.device
        return wish.startswith("cuda") or (wish == "auto" and bool(visible_cards()))


def chains(jobs: Pending, costs: Costs) -> dict[Job, float]:
    """Return, for each job, the seconds of the longest chain of trainings that begins with it.

    The grid takes that long at least once the job has started, however many devices there are.
    """
    after = defaultdict[Job, list[Job]](list)
    for job in jobs:
        for needed in jobs.needs(job):
            after[needed].append(job)

    @cache
    def longest(job: Job) -> float:
        own = costs.of(job[0]).seconds if job[0].kind == "train" else 0.0
        return own + max(map(longest, after[job]), default=0.0)

    return {job: longest(job) for job in jobs}
