"""Epochs as long as the largest task (minibert-unleashed, section 4.3)."""

from minbert.train.samplers.unified import Unified


class Recycled(Unified):
    """An epoch is one pass over the largest task; smaller tasks start over, shuffled each time.

    With `sampler.examples` it is that many examples of the largest task, drawn without replacement:
    the paper's random subset sampling, with a larger batch for that task.
    """
