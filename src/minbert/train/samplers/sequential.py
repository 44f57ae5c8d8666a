"""One pass over each task, one after the other (hybrid-bert, section 4.1)."""

from collections.abc import Iterator

from minbert.train.samplers import EpochSampler, Step


class Sequential(EpochSampler):
    """An epoch is one shuffled pass over each trained task in `sampler.order`, a batch per step.

    `sampler.examples` caps each pass; the rows of a capped pass are drawn afresh each epoch.
    """

    def epoch(self) -> Iterator[Step]:
        for task in self.spec.sampler.order or self.spec.trained_tasks:
            for batch in self.draw(task):
                yield [(task, batch)]
