"""Unified steps: one batch of each task per step (hybrid-bert, section 4.2.1)."""

from minbert.train.samplers import OneOfEach


class Unified(OneOfEach):
    """An epoch has `sampler.examples` examples of each task, by default the smallest task's number.

    Larger tasks are sampled afresh each epoch, without replacement within it.
    """
