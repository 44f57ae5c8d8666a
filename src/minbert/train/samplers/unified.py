"""Unified steps: one batch of each task a step (hybrid-bert, section 4.2.1)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import torch

from minbert.grid.spec import StageSpec
from minbert.train.samplers import Step, draw


class Unified:
    """Every step holds one batch of each trained task, so each task sees as many batches.

    An epoch has `sampler.examples` examples of a task, by default as many as the smallest task
    has; larger tasks are sampled anew each epoch, without replacement within it. With unequal
    batch sizes `examples` counts those of the smallest batch, the others in proportion.
    """

    def __init__(
        self, spec: StageSpec, sizes: Mapping[str, int], generator: torch.Generator
    ) -> None:
        self.batch = {task: spec.tasks[task].batch_size for task in spec.trained_tasks}
        self.sizes = {task: sizes[task] for task in spec.trained_tasks}
        self.generator = generator
        self.examples = spec.sampler.examples or min(self.sizes.values())
        self.smallest = min(self.batch.values())
        self.steps = -(-self.examples // self.smallest)

    def epoch(self) -> Iterator[Step]:
        """Yield one epoch's steps; the last may hold smaller batches."""
        batches = {}
        for task, batch in self.batch.items():
            count = self.examples * batch // self.smallest
            batches[task] = draw(self.sizes[task], count, self.generator).split(batch)
        for step in range(self.steps):
            yield [(task, rows[step]) for task, rows in batches.items()]
