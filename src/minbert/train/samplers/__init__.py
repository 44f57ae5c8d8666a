"""Samplers: which rows of which tasks make up each step of an epoch."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import ClassVar

import torch
from torch import Tensor

from minbert.spec.epochs import epoch_of
from minbert.spec.stage import StageSpec
from minbert.train.checkpoints import Part

Step = list[tuple[str, Tensor]]
"""One optimiser step: (task, row numbers int64 [B]) for each batch in it."""


class EpochSampler(Part, ABC):
    """Draws the steps of one epoch after another from `generator`.

    `sizes` has the number of training examples of each trained task; `steps` and `examples` are
    those of one epoch (`minbert.spec.epochs`). An epoch follows from the generator's state at its
    start, so a run can resume in the middle of one.
    """

    kept: ClassVar[tuple[str, ...]] = ("start", "done")

    def __init__(
        self, spec: StageSpec, sizes: Mapping[str, int], generator: torch.Generator
    ) -> None:
        self.spec = spec
        self.sizes = {task: sizes[task] for task in spec.trained_tasks}
        self.batch = {task: spec.tasks[task].batch_size for task in spec.trained_tasks}
        self.steps, self.examples = epoch_of(spec, self.sizes)
        self.generator = generator
        self.start = generator.get_state()  # of the epoch
        self.done = 0  # epochs

    @abstractmethod
    def epoch(self) -> Iterator[Step]:
        """Yield the next epoch's `steps` steps, drawn afresh; the last may be smaller."""

    def rest(self, done: int) -> Iterator[Step]:
        """Yield the steps of an epoch from step `done` on, counted from 0."""
        self.generator.set_state(self.start)
        yield from islice(self.epoch(), done, None)
        self.start = self.generator.get_state()
        self.done += 1

    def draw(self, task: str) -> tuple[Tensor, ...]:
        """Return an epoch's batches of `task`, int64 [B] each, in random order."""
        rows = draw(self.sizes[task], self.examples[task], self.generator)
        return rows.split(self.batch[task])


class OneOfEach(EpochSampler):
    """Every step holds one batch of each trained task."""

    def epoch(self) -> Iterator[Step]:
        batches = {task: self.draw(task) for task in self.batch}
        for step in range(self.steps):
            yield [(task, rows[step]) for task, rows in batches.items()]


def draw(size: int, count: int, generator: torch.Generator) -> Tensor:
    """Return `count` rows below `size`, without replacement: whole permutations, then a part."""
    whole, rest = divmod(count, size)
    parts = [torch.randperm(size, generator=generator) for _ in range(whole)]
    if rest:
        parts.append(torch.randperm(size, generator=generator)[:rest])
    return torch.cat(parts)
