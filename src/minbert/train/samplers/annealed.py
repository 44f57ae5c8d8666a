"""Annealed sampling (Stickland and Murray, 2019, section 4.1): in the end all tasks alike."""

from minbert.spec.epochs import annealed_exponent
from minbert.train.samplers.temperature import Temperature


class Annealed(Temperature):
    """As `Temperature`, with an exponent that falls from epoch to epoch, from 1 to 0.2."""

    @property
    def exponent(self) -> float:
        return annealed_exponent(self.done + 1, self.spec.epochs)
