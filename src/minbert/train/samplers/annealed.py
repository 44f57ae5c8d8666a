"""Annealed sampling (Stickland and Murray, 2019, section 4.1): in the end all tasks alike."""

from collections.abc import Iterator

from minbert.spec.epochs import annealed_exponent
from minbert.train.samplers import Step
from minbert.train.samplers.temperature import Temperature


class Annealed(Temperature):
    """As `Temperature`, with an exponent that falls from epoch to epoch, from 1 to 0.2."""

    kept = (*Temperature.kept, "epochs_begun")
    epochs_begun = 0

    @property
    def exponent(self) -> float:
        return annealed_exponent(self.epochs_begun, self.spec.epochs)

    def rest(self, done: int) -> Iterator[Step]:
        if not done:
            self.epochs_begun += 1
        return super().rest(done)
