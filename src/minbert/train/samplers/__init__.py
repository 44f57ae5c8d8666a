"""Samplers: which rows of which tasks make up each step of an epoch."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping

import torch
from torch import Generator, Tensor

from minbert.base.errors import UserError
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
    def epoch(self) -> Iterator[Step]:
        """Yield the next epoch's `steps` steps, drawn afresh; the last may be smaller."""

    def rest(self, done: int) -> Iterator[Step]:
        """Yield the steps of an epoch from step `done` on, counted from 0.

        Raises `UserError` if the epoch has not as many steps as the plan counted on.
        """
        self.generator.set_state(self.start)
        drawn = list(self.epoch())
        if len(drawn) != self.steps:
            raise UserError(
                f"sampler '{self.spec.sampler.name}' yields {len(drawn)} steps in an epoch, but "
                f"`epoch_of` in minbert/spec/epochs.py says {self.steps}, as plan and schedule do"
            )
        yield from drawn[done:]
        self.start = self.generator.get_state()
        self.done += 1

    def draw(self, task: str, count: int | None = None) -> tuple[Tensor, ...]:
        """Return random batches, int64 [B], of an epoch's rows or `count`: each once, then anew."""
        size, count = self.sizes[task], self.examples[task] if count is None else count
        passes = [torch.randperm(size, generator=self.generator) for _ in range(-(-count // size))]
        return torch.cat(passes)[:count].split(self.batch[task])
