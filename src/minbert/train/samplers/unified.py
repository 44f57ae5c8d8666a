"""One batch of each task per step (hybrid-bert, section 4.2.1)."""

from collections.abc import Iterator

from minbert.train.samplers import EpochSampler, Step


class Unified(EpochSampler):
    """An epoch has `sampler.examples` examples of each task, by default the smallest task's number.

    Larger tasks are sampled afresh each epoch, without replacement within it.
    """

    def epoch(self) -> Iterator[Step]:
        drawn = [self.draw(task) for task in self.batch]
        for batches in zip(*drawn, strict=True):
            yield list(zip(self.batch, batches, strict=True))
