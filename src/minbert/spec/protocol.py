"""What all papers share: sources of data, splits, the overall score, the form of a measured value.

Unlike the other registries this module is part of code digests: no key holds what it says.
"""

from typing import Literal, NamedTuple, get_args

COURSE_URL = (
    "https://raw.githubusercontent.com/gpoesia/minbert-default-final-project/"
    "7ac8260577fc12a86c7aaf38918056c30054ef39/data"
)
LMRD_URL = "https://ai.stanford.edu/~amaas/data/sentiment/aclImdb_v1.tar.gz"

SPLITS = ("train", "dev", "test")

OVERALL_TASKS = ("sst", "para", "sts")
"""The tasks of the overall score; a variant without one of them has no overall score."""

Rule = Literal["normalised", "plain"]
"""How the overall score is formed (`minbert.evaluate.scoring.overall`)."""

RULES: tuple[Rule, ...] = get_args(Rule)


class Measured(NamedTuple):
    """A value, maybe NaN, after step `step` of `epoch` (both from 1); `time` is in unix seconds."""

    step: int
    epoch: int
    split: str
    task: str
    metric: str
    value: float
    time: float
