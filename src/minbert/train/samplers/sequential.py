"""Sequential epochs: one pass over each task, one after the other (hybrid-bert, section 4.1)."""

from minbert.train.samplers import EpochSampler, Steps


class Sequential(EpochSampler):
    """An epoch is one pass over each task in `sampler.order`, of up to `sampler.examples` rows."""

    def epoch(self) -> Steps:
        for task in self.spec.sampler.order or self.spec.trained_tasks:
            for batch in self.draw(task):
                yield [(task, batch)]
