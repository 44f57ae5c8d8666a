"""What a job asks a machine or a cluster for: memory, time and threads; more after a failure."""

import math
from functools import cache

from minbert.plan.cost import Costs, Sizes
from minbert.plan.parameters import Counts, counts
from minbert.plan.pending import Pending
from minbert.plan.plan import Plan
from minbert.spec.architecture import NUMBER, Architecture, training_bytes
from minbert.spec.stage import StageSpec
from minbert.store.kinds import KINDS
from minbert.store.node import Node

WRAPPED = 700
"""MB that a job on a cluster takes besides its step: two Snakemakes start it."""

ON_GPU = 3000
"""MB of main memory that CUDA's libraries add to a process with a GPU."""

PLAIN = 1500
"""MB of a step that trains nothing: a data set's table, a figure."""

LEAST = 20
"""Minutes added to a training for slow starts and slow disks."""

SPARE = 4
"""A job may take this many times its estimated time."""

TOKENS_AT_ONCE = 65536
"""Tokens in one batch of a frozen encoder on a GPU; more than on a CPU."""


LARGER = 2.0
"""A step's largest batches have about this many times the mean tokens."""

PROCESS = 10**9
"""Bytes of a process before it computes: libraries, and on a GPU its context."""


class Resources:
    """Demands of a plan's jobs. `gpu`: whether training jobs get a GPU each; None: as seen here."""

    def __init__(self, plan: Plan, gpu: bool | None) -> None:
        self.plan, self.gpu = plan, gpu
        self.costs = Costs(plan, gpu)
        self.device_mb = cache(self._device_mb)

    def mem_mb(self, node: Node, attempt: int) -> int:
        """Return the MB of main memory that a job asks for; twice as many at each attempt."""
        step = self.device_mb(node) or PLAIN
        return (WRAPPED + step + ON_GPU * self.gpus(node)) * 2 ** (attempt - 1)

    def minutes(self, node: Node, attempt: int) -> int:
        """Return the minutes that it asks for; twice as many at each attempt.

        A training that runs out of them resumes from its last state.
        """
        asked = KINDS[node.kind].minutes
        if node.kind == "train":
            asked = LEAST + math.ceil(SPARE * self.costs.of(node).seconds / 60)
        return asked * 2 ** (attempt - 1)

    def gpus(self, node: Node) -> int:
        """Return the GPUs that a job asks for: one if it computes, else none."""
        return int(bool(self.gpu) and KINDS[node.kind].computes)

    def _device_mb(self, node: Node) -> int:
        """Return the MB that a job needs where it computes; 0 if it computes nothing."""
        arch, held = self.costs.arch, 0
        if node.kind == "train":
            held = stage_memory(self.plan, node, self.costs)
        elif node.kind in ("features", "backbone"):
            layer = arch.model_copy(update={"layers": 1}).activation_bytes(1)
            held = PROCESS + 2 * NUMBER * arch.parameters().total + int(TOKENS_AT_ONCE * layer)
        return math.ceil(held / 1e6)


def stage_memory(plan: Plan, node: Node, costs: Costs) -> int:
    """Estimate the bytes of a training job, until its shapes are known by BERT-base."""
    stage = plan.every[plan.owners[node.key]]
    counted = counts(plan, stage) or counts(plan, stage, base_shapes=True)
    return memory(stage.spec, counted, costs.arch, costs.sizes(stage.spec))


def memory(spec: StageSpec, counted: Counts | None, arch: Architecture, sizes: Sizes) -> int:
    """Estimate the bytes that one job of a stage holds at most where it computes.

    Besides the model's state there are activations of one batch at a time. Surgery and weightings
    keep each task's gradients, SMART a second pass. With a frozen encoder there are features
    instead of an encoder. What cannot be counted counts as none.
    """
    heads = (counted and counted["heads"]) or 0
    # Two sequences an example, if its sentences are encoded separately.
    sequences = {task: 1 + (how.pairing == "siamese") for task, how in spec.tasks.items()}
    if spec.trainable == "heads":
        held = sum(sum(sizes[task][:3]) * number for task, number in sequences.items())
        return PROCESS + training_bytes(heads, heads) + held * arch.hidden * NUMBER
    encoder = counted["encoder"] if counted else arch.parameters().total
    gradients = 1 + len(spec.trained_tasks) if spec.surgery or spec.weighting else 1
    activations = 0
    for task in spec.trained_tasks:
        tokens = LARGER * sizes[task].tokens / sequences[task]
        row = arch.activation_bytes(min(tokens, spec.max_length, arch.positions))
        activations = max(activations, int(spec.tasks[task].batch_size * sequences[task] * row))
    trained = (counted and counted["trainable"]) or encoder
    state = training_bytes(encoder + heads, trained, gradients)
    return PROCESS + state + activations * (2 if spec.smart else 1)


MOST_THREADS = 4
"""More threads do not make a step of a few hundred tokens faster."""


def job_threads(plan: Plan, jobs: Pending, cores: int | None) -> int:
    """Return the CPU threads of each of `jobs` that trains on `cores`: as set, or shared out.

    Jobs side by side on one thread each finish sooner than one after the other on several
    (docs/speed.md), so a job gets more than one only if there are fewer jobs than cores.
    """
    if plan.config.threads != "auto":
        return plan.config.threads
    waiting = sum(node.kind == "train" for node, _ in jobs)
    return max(1, min(MOST_THREADS, (cores or 1) // max(1, waiting)))
