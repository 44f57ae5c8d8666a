"""Samplers: which rows of which tasks make up each step of an epoch."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from itertools import islice

import torch
from torch import Generator, Tensor

from minbert.spec.epochs import epoch_of
from minbert.spec.stage import StageSpec
from minbert.train.checkpoints import Part

Step = list[tuple[str, Tensor]]
"""One optimiser step: (task, row numbers int64 [B]) for each batch in it."""
Steps = Iterator[Step]


class EpochSampler(Part, ABC):
    """Draws the steps of one epoch after another from `generator`.

    `sizes` has the number of training examples of each trained task; `steps` and `examples` are
    those of one epoch (`minbert.spec.epochs`). An epoch follows from the generator's state at its
    start, so a run can resume in the middle of one.
    """

    kept = ("start", "done")

    def __init__(self, spec: StageSpec, sizes: Mapping[str, int], generator: Generator) -> None:
        self.spec = spec
        self.sizes = {task: sizes[task] for task in spec.trained_tasks}
        self.batch = {task: spec.tasks[task].batch_size for task in spec.trained_tasks}
        self.steps, self.examples = epoch_of(spec, self.sizes)
        self.generator = generator
        self.start = generator.get_state()  # of the epoch
        self.done = 0  # epochs

    @abstractmethod
    def epoch(self) -> Steps:
        """Yield the next epoch's `steps` steps, drawn afresh; the last may be smaller."""

    def rest(self, done: int) -> Steps:
        """Yield the steps of an epoch from step `done` on, counted from 0."""
        self.generator.set_state(self.start)
        yield from islice(self.epoch(), done, None)
        self.start = self.generator.get_state()
        self.done += 1

    def draw(self, task: str, count: int | None = None) -> tuple[Tensor, ...]:
        """Return random batches, int64 [B], of an epoch's rows or `count`: each once, then anew."""
        size, count = self.sizes[task], self.examples[task] if count is None else count
        passes = [torch.randperm(size, generator=self.generator) for _ in range(-(-count // size))]
        return torch.cat(passes)[:count].split(self.batch[task])
