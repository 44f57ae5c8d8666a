"""Samplers whose epoch is a pass over the smallest, the largest, or each of the tasks."""

from collections.abc import Iterator

from minbert.train.samplers import EpochSampler, Step


class Unified(EpochSampler):
    """One batch of each task per step (hybrid-bert, section 4.2.1).

    An epoch has `sampler.examples` examples of each task, by default the smallest task's number.
    Larger tasks are sampled afresh each epoch, without replacement within it.
    """

    def epoch(self) -> Iterator[Step]:
        drawn = [self.draw(task) for task in self.batch]
        for batches in zip(*drawn, strict=True):
            yield list(zip(self.batch, batches, strict=True))


class Recycled(Unified):
    """Epochs as long as the largest task; smaller ones start over (minibert-unleashed, 4.3).

    They are shuffled each time. With `sampler.examples` an epoch is that many examples of the
    largest task, drawn without replacement: the paper's random subset sampling, with a larger batch
    for that task.
    """


class Alternating(Unified):
    """An epoch draws what `unified` draws; each batch is a step, of one task after the other.

    So we read the "round robin" of minbert-downstream, section 3.3.1.
    """

    def epoch(self) -> Iterator[Step]:
        for step in super().epoch():
            yield from ([batch] for batch in step)


class Sequential(EpochSampler):
    """One shuffled pass over each trained task in `sampler.order` (hybrid-bert, section 4.1).

    Each batch is a step. `sampler.examples` caps each pass; the rows of a capped pass are drawn
    afresh each epoch.
    """

    def epoch(self) -> Iterator[Step]:
        for task in self.spec.sampler.order or self.spec.trained_tasks:
            for batch in self.draw(task):
                yield [(task, batch)]
