"""Unified steps: one batch of each task per step (hybrid-bert, section 4.2.1)."""

from minbert.train.samplers import EpochSampler, Steps


class Unified(EpochSampler):
    """An epoch has `sampler.examples` examples of each task, by default the smallest task's number.

    Larger tasks are sampled afresh each epoch, without replacement within it.
    """

    def epoch(self) -> Steps:
        batches = {task: self.draw(task) for task in self.batch}
        for step in range(self.steps):
            yield [(task, rows[step]) for task, rows in batches.items()]
