"""Sequential epochs: one pass over each task, one after the other (hybrid-bert, section 4.1)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import torch

from minbert.grid.spec import StageSpec
from minbert.train.samplers import Step, draw


class Sequential:
    """An epoch is one shuffled pass over each trained task in `sampler.order`, a batch a step.

    `sampler.examples` caps each pass; the rows of a capped pass are drawn anew each epoch.
    """

    def __init__(
        self, spec: StageSpec, sizes: Mapping[str, int], generator: torch.Generator
    ) -> None:
        self.order = spec.sampler.order or spec.trained_tasks
        self.batch = {task: spec.tasks[task].batch_size for task in self.order}
        cap = spec.sampler.examples
        self.sizes = {task: sizes[task] for task in self.order}
        self.counts = {t: min(n, cap) if cap else n for t, n in self.sizes.items()}
        self.generator = generator
        self.steps = sum(-(-self.counts[task] // self.batch[task]) for task in self.order)

    def epoch(self) -> Iterator[Step]:
        """Yield one epoch's steps; the last of each task may be smaller."""
        for task in self.order:
            rows = draw(self.sizes[task], self.counts[task], self.generator)
            for batch in rows.split(self.batch[task]):
                yield [(task, batch)]
