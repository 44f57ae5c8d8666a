"""What a job asks a machine or a cluster for: memory and time, more at each further attempt."""

from __future__ import annotations

import math
from functools import cached_property

from minbert.grid.architecture import BERT_BASE, NUMBER
from minbert.grid.estimate import Costs, Gpu
from minbert.grid.memory import PROCESS
from minbert.grid.node import Node
from minbert.grid.parameters import encoder_parameters
from minbert.grid.plan import Plan

WRAPPED = 700
"""MB that a cluster's job takes beside the step: two Snakemakes that start it."""

ON_GPU = 3000
"""MB of main memory that a process with a GPU takes more: CUDA's libraries."""

PLAIN = 1500
"""MB of a step that trains nothing: a data set's table, a figure."""

LEAST = 20
"""Minutes that a training may take besides: slow starts, slow disks."""

SHORT = {"backbone": 240, "features": 120, "data": 60, "tokens": 60}
OTHER = 10
"""Minutes of the other jobs, by kind. A group's are those of all its jobs, one after the other."""

SPARE = 4
"""A job may take so many times the time that it is thought to take."""

TOKENS_AT_ONCE = 65536
"""Tokens that a frozen encoder is given at once on a GPU, and more than on a CPU."""


class Demand:
    """Demands of a plan's jobs. `gpu`: whether training jobs get a GPU each; None: as seen here."""

    def __init__(self, plan: Plan, gpu: bool | None) -> None:
        self.plan = plan
        self.gpu = gpu

    @cached_property
    def _costs(self) -> Costs:
        return Costs(self.plan, Gpu() if self.gpu else None)

    def mem_mb(self, kind: str, key: str, attempt: int) -> int:
        """Return the MB of main memory that a job asks for; twice as many at each attempt."""
        return self._mem_mb(self.plan.node(kind, key)) * 2 ** (attempt - 1)

    def minutes(self, kind: str, key: str, attempt: int) -> int:
        """Return the minutes that it asks for; twice as many at each attempt.

        A training that runs out of them goes on from its last state.
        """
        return self._minutes(self.plan.node(kind, key)) * 2 ** (attempt - 1)

    def device_mb(self, kind: str, key: str) -> int:
        """Return the MB that a job needs where it computes; 0 if it computes nothing."""
        return math.ceil(self._device_bytes(self.plan.node(kind, key)) / 1e6)

    def gpus(self, kind: str, key: str) -> int:
        """Return the GPUs that a job asks for: one a process if it computes, else none."""
        node = self.plan.node(kind, key)
        return self._processes(node) if self.gpu and "device" in node.extra else 0

    def _mem_mb(self, node: Node) -> int:
        step = math.ceil(self._device_bytes(node) / 1e6)
        if not step:
            return WRAPPED + PLAIN
        return WRAPPED + self._processes(node) * (step + (ON_GPU if self.gpu else 0))

    def _processes(self, node: Node) -> int:
        return self.plan.processes(node.key) if node.kind == "train" else 1

    def _device_bytes(self, node: Node) -> int:
        if node.kind == "train":
            return self._costs.memory(node).total
        arch = self.plan.sources.architecture or BERT_BASE
        parts = encoder_parameters(arch)
        encoder = NUMBER * (parts.embeddings + arch.layers * parts.layer + parts.pooler)
        if node.kind == "features":
            layer = arch.model_copy(update={"layers": 1}).activation_bytes(1)
            return PROCESS + encoder + int(TOKENS_AT_ONCE * layer)
        if node.kind == "backbone":
            # Weights, gradients and two moments of a small one; twice the file of a large one.
            return PROCESS + 4 * encoder
        return 0

    def _minutes(self, node: Node) -> int:
        if node.kind != "train":
            return SHORT.get(node.kind, OTHER)
        return LEAST + math.ceil(SPARE * self._costs.of(node).seconds / 60)
