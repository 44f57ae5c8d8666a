"""Tasks drawn in proportion to a power of their size (Stickland and Murray, 2019, section 4.1)."""

from collections.abc import Iterator

import torch

from minbert.spec.epochs import pass_over
from minbert.train.samplers import EpochSampler, Step


class Temperature(EpochSampler):
    """Each step has one batch of a task, drawn with p ~ size ** (1 / `sampler.temperature`)."""

    @property
    def exponent(self) -> float:
        assert self.spec.sampler.temperature is not None
        return 1 / self.spec.sampler.temperature

    def epoch(self) -> Iterator[Step]:
        tasks = list(self.batch)
        passes = [pass_over(size, self.spec.sampler) for size in self.sizes.values()]
        powers = [count**self.exponent for count in passes]
        chances = torch.tensor([power / sum(powers) for power in powers], dtype=torch.float64)
        drawn = torch.multinomial(chances, self.steps, replacement=True, generator=self.generator)
        # Rows come without replacement until each came once in the epoch.
        counts = zip(tasks, drawn.bincount(minlength=len(tasks)).tolist(), strict=True)
        batches = {task: iter(self.draw(task, n * self.batch[task])) for task, n in counts if n}
        for number in drawn.tolist():
            yield [(tasks[number], next(batches[tasks[number]]))]
