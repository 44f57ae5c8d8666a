"""Steps of one task, in turn (minbert-downstream, section 3.3.1, "round robin", read that way)."""

from minbert.train.samplers import EpochSampler, Steps


class Alternating(EpochSampler):
    """An epoch draws what `unified` draws; each batch is a step, of one task after the other."""

    def epoch(self) -> Steps:
        drawn = [self.draw(task) for task in self.batch]
        for batches in zip(*drawn, strict=True):
            for batch in zip(self.batch, batches, strict=True):
                yield [batch]
