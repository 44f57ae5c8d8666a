"""What jobs cost, estimated at the rate of finished runs: time, memory, threads."""

import math
import statistics
from collections import defaultdict
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import cache, cached_property
from typing import Any, NamedTuple

from pydantic import ValidationError

from minbert.base.errors import UserError
from minbert.devices.gpus import visible_cards
from minbert.plan.parameters import Counts, stage_parameters
from minbert.plan.pending import Job, Pending
from minbert.plan.plan import Plan
from minbert.spec.architecture import BERT_BASE, NUMBER, Architecture, training_bytes
from minbert.spec.epochs import Epoch, epoch_of
from minbert.spec.protocol import SPLITS
from minbert.spec.stage import StageSpec
from minbert.spec.task import BUILT_IN, TASKS
from minbert.store.node import KINDS, Node, canonical
from minbert.store.plans import read_description, read_record, sound


class Size(NamedTuple):
    """Examples of each split of a task, and the mean tokens of one, special ones included."""

    train: int
    dev: int
    test: int
    tokens: float


Sizes = Callable[[str], Size]  # of a task

SIZES = {
    "sst": Size(8544, 1101, 2210, 25),
    "para": Size(141506, 20215, 40431, 30),
    "sts": Size(6040, 863, 1725, 28),
    "cfimdb": Size(1707, 245, 488, 224),
    "lmrd": Size(22500, 2500, 25000, 300),
}
"""The real data sets."""
SMALL = Size(1000, 300, 150, 25)  # a task of the built-in corpus, about, until its table is made
ASSUMED = Size(10_000, 1_000, 1_000, 40)  # a task of one's own until its table is made
TOKENS_A_WORD = 1.3  # word pieces, about; in the real data sets 1.2 to 1.4

GPU_RATE = 2e13
"""Operations a second that a data-centre GPU is assumed to do in bf16: a fifth of what it can, as
it waits for the host between small batches."""
CPU_RATE = 5e10  # those that one CPU thread is assumed to do, if nothing was measured

PROCESS = 10**9  # bytes before it computes: libraries, and on a GPU its context
LARGER = 2.0  # a step's largest batches have about this many times the mean tokens
FROZEN = 1_300_000
"""Numbers for each hidden unit that a frozen encoder holds of its batch on a GPU, 65,536 tokens."""
PLAIN = 1500  # MB of a step that trains nothing: a data set's table, a figure
AROUND = {0: 700, 1: 3700}
"""MB of main memory besides a step, by its GPUs, on a cluster, where two Snakemakes start it; with
one CUDA's libraries too."""
LEAST, SPARE = 20, 4  # minutes that a training may take, and as many times its estimated time
MINUTES = 60  # that each other job may take
MOST_THREADS = 4  # More do not make a step of a few hundred tokens faster.


def operations(spec: StageSpec, arch: Architecture, sizes: Sizes) -> float:
    """Count multiplications and additions of a whole job, by weight and token.

    Per weight and token, forward takes 2, backward 2 for the activations and 2 for the weights
    unless they are frozen; SMART as much again, and for each ascent. Only layers and pooler count:
    embeddings are looked up, all else is small, such as heads on cached features, which count as
    none. Trained tasks are scored on dev after each epoch; all tasks are scored on dev and test at
    the end.
    """
    if spec.trainable == "heads":
        return 0.0
    drawn = epoch(spec, sizes).examples
    parts, total = arch.parameters(), 0.0
    step = (6 if spec.trainable == "all" else 4) * (2 + spec.smart.ascents if spec.smart else 1)
    for task, how in spec.tasks.items():
        size, epochs = sizes(task), spec.epochs if how.trained else 0
        cost = epochs * step * drawn.get(task, 0) + 2 * (size.dev * (epochs + 1) + size.test)
        total += min(size.tokens, spec.max_length) * cost
    return total * (sum(parts.layers) + parts.pooler)


def epoch(spec: StageSpec, sizes: Sizes) -> Epoch:
    """Return the steps of an epoch, and how many examples of each trained task it draws."""
    return epoch_of(spec, {task: sizes(task).train for task in spec.trained_tasks})


def memory(spec: StageSpec, counted: Counts | None, arch: Architecture, sizes: Sizes) -> int:
    """Estimate the bytes that one job of a stage holds at most where it computes.

    Besides the model's state there are activations of one batch at a time. Surgery keeps
    each task's gradients, SMART a second pass. With a frozen encoder there are features instead of
    an encoder, two of a pair whose sentences are encoded separately. What cannot be counted counts
    as none.
    """
    total = arch.parameters().total
    of = counted or {"encoder": total, "trainable": total, "heads": 0}
    if spec.trainable == "heads":
        pairs = [t for t, how in spec.tasks.items() if how.pairing == "siamese"]
        held = sum(sum(sizes(task)[:3]) for task in (*spec.tasks, *pairs))
        return PROCESS + training_bytes(of["heads"], of["heads"]) + held * arch.hidden * NUMBER
    gradients = 1 + len(spec.trained_tasks) if spec.surgery else 1
    state = training_bytes(of["encoder"] + of["heads"], of["trainable"], gradients)
    longest = min(spec.max_length, arch.positions)
    tokens = {task: min(LARGER * sizes(task).tokens, longest) for task in spec.trained_tasks}
    batches = (spec.tasks[t].batch_size * arch.activation_bytes(n) for t, n in tokens.items())
    return PROCESS + state + int(max(batches)) * (2 if spec.smart else 1)


class Costs:
    """What a plan's jobs cost. `gpu`: whether training jobs get a GPU each; None: as seen here."""

    def __init__(self, plan: Plan, gpu: bool | None = None) -> None:
        self.plan, self.gpu = plan, gpu
        # Until the backbone's shapes are known, BERT-base stands for it.
        self.arch = plan.sources.architecture or BERT_BASE

    @cache  # noqa: B019 - a process has few of these
    def seconds(self, node: Node) -> float:
        """Estimate the seconds of a training with one seed."""
        return self.operations(node.spec["stage"]) / self.rate[0]

    @cache  # noqa: B019
    def size(self, task: str) -> Size:
        """Return the size of a task: as its table has it, or until that is made, as assumed."""
        config, data = self.plan.config, self.plan.sources.data(task)
        small = task in BUILT_IN and config.data == "builtin"
        found = SMALL if small else SIZES.get(task, ASSUMED)
        if report := sound(data.folder(self.plan.root) / "report.json"):
            if words := report.get("mean_words", {}).get("train"):
                found = found._replace(tokens=2 + TASKS[task].pair + TOKENS_A_WORD * words)
            return found._replace(**{split: report["rows"].get(split, 0) for split in SPLITS})
        train, dev, test = (min(n, config.limit or n) for n in found[:3])
        return Size(train, dev, test, found.tokens)

    def operations(self, stage: Mapping[str, Any]) -> float:
        """Return the operations of one seed of a stage, by its resolved spec."""
        return operations(StageSpec.model_validate(stage), self.arch, self.size)

    @cached_property
    def rate(self) -> tuple[float, bool]:
        """Operations a second, and whether they were measured or are assumed.

        They are the median of finished runs, one of each stage, of this plan's encoder and data, on
        devices like the one to be used.
        """
        rates = list[float]()
        on_gpu, requested = self.gpu, self.plan.config.device
        if on_gpu is None:
            on_gpu = requested.startswith("cuda") or (requested == "auto" and bool(visible_cards()))
        paths = sorted((self.plan.root / "store" / "train").glob("*/seed*/run.json"))
        for key, path in {path.parts[-3]: path for path in paths}.items():
            # One of other tasks and settings, or of data that are gone, says nothing of a rate.
            with suppress(UserError, ValidationError, KeyError):
                run = read_record(path)
                device = run["environment"]["device"]  # or a GPU's model
                same = on_gpu == (device not in ("cpu", "mps")) and self._is_of_plan(key, run)
                if same and run["spec"]["trainable"] != "heads":
                    rates.append(self.operations(run["spec"]) / run["outcome"]["seconds"])
        if rates:
            return statistics.median(rates), True
        return (GPU_RATE if on_gpu else CPU_RATE), False

    def _is_of_plan(self, key: str, run: Mapping[str, Any]) -> bool:
        """Whether a run had the plan's encoder and data, whatever code made these."""
        root, sources = self.plan.root, self.plan.sources
        needs = read_description(root, "train", key)["needs"]
        made = {sources.backbone: needs["backbone.config.json"]["key"]}
        for task in run["spec"]["tasks"]:
            tokens = read_description(root, "tokens", needs[f"tokens.{task}"]["key"])
            made[sources.data(task)] = tokens["needs"]["examples"]["key"]
        specs = ((read_description(root, node.kind, of)["spec"], node) for node, of in made.items())
        return all(canonical(spec) == canonical(node.spec) for spec, node in specs)

    @cache  # noqa: B019
    def device_mb(self, node: Node) -> int:
        """Return the MB that a job needs where it computes; 0 if it computes nothing."""
        held = 0
        if node.kind == "train":
            stage = self.plan.every[self.plan.owners[node.key]]
            counted = stage_parameters(self.plan, stage, self.plan.sources.architecture is None)
            held = memory(stage.spec, counted, self.arch, self.size)
        elif node.kind in ("features", "backbone"):
            numbers = 2 * self.arch.parameters().total + FROZEN * self.arch.hidden
            held = PROCESS + NUMBER * numbers
        return math.ceil(held / 1e6)

    def mem_mb(self, node: Node) -> int:
        """Return the MB of main memory that a job asks for."""
        return (self.device_mb(node) or PLAIN) + AROUND[self.gpus(node)]

    def minutes(self, node: Node) -> int:
        """Return the minutes that it asks for; a training resumes from its last state."""
        if node.kind != "train":
            return MINUTES
        return LEAST + math.ceil(SPARE * self.seconds(node) / 60)

    def gpus(self, node: Node) -> int:
        """Return the GPUs that a job asks a cluster for: one if it computes, else none."""
        return int(bool(self.gpu) and KINDS[node.kind].computes)


def job_threads(jobs: Pending, cores: int | None) -> int:
    """Return the CPU threads of each of `jobs` that trains on `cores`: as set, or shared out.

    Jobs side by side on one thread each finish sooner than one after the other on several
    (docs/speed.md), so a job gets more than one only if there are fewer jobs than cores.
    """
    if (threads := jobs.plan.config.threads) != "auto":
        return threads
    waiting = sum(node.kind == "train" for node, _ in jobs)
    return max(1, min(MOST_THREADS, (cores or 1) // max(1, waiting)))


def chains(jobs: Pending, costs: Costs) -> dict[Job, float]:
    """Return, for each job, the seconds of the longest chain of trainings that begins with it."""
    after = defaultdict[Job, list[Job]](list)
    for job in jobs:
        for needed in jobs.needs(job):
            after[needed].append(job)

    @cache
    def longest(job: Job) -> float:
        own = costs.seconds(job[0]) if job[0].kind == "train" else 0.0
        return own + max(map(longest, after[job]), default=0.0)

    return {job: longest(job) for job in jobs}
