"""Recycled samples: epochs as long as the largest task (minibert-unleashed, section 4.3)."""

from minbert.train.samplers.unified import Unified


class Recycled(Unified):
    """An epoch is one pass over the largest task; smaller tasks start over, shuffled each time.

    With `sampler.examples` it has so many of its rows: the paper's random subset sampling.
    """
