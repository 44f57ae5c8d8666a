"""Annealed sampling (Stickland and Murray, 2019, section 4.1): in the end tasks nearly alike."""

from minbert.train.samplers.temperature import Temperature


class Annealed(Temperature):
    """As `Temperature`, with an exponent that falls from epoch to epoch, from 1 to 0.2."""

    @property
    def exponent(self) -> float:
        return 1 - 0.8 * self.done / max(1, self.spec.epochs - 1)
