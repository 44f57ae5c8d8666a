"""Recycled samples: epochs as long as the largest task (minibert-unleashed, section 4.3)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import torch

from minbert.grid.spec import StageSpec
from minbert.train.samplers import Step, draw


class Recycled:
    """Every step holds one batch of each trained task; an epoch is one pass over the largest.

    Smaller tasks come round again, freshly shuffled each time. With `sampler.examples` an epoch
    has so many rows of the largest task, drawn anew without replacement: the paper's random
    subset sampling, with a larger batch for that task.
    """

    def __init__(
        self, spec: StageSpec, sizes: Mapping[str, int], generator: torch.Generator
    ) -> None:
        self.batch = {task: spec.tasks[task].batch_size for task in spec.trained_tasks}
        self.sizes = {task: sizes[task] for task in spec.trained_tasks}
        self.generator = generator
        self.largest = max(self.sizes, key=lambda task: self.sizes[task])
        size = self.sizes[self.largest]
        self.examples = min(spec.sampler.examples or size, size)
        self.steps = -(-self.examples // self.batch[self.largest])

    def epoch(self) -> Iterator[Step]:
        """Yield one epoch's steps; the last may hold a smaller batch of the largest task."""
        batches = {}
        for task, batch in self.batch.items():
            count = self.examples if task == self.largest else self.steps * batch
            batches[task] = draw(self.sizes[task], count, self.generator).split(batch)
        for step in range(self.steps):
            yield [(task, rows[step]) for task, rows in batches.items()]
