"""The best variant of each paper: that with the highest overall dev score, averaged over seeds."""

from collections.abc import Mapping
from statistics import fmean
from typing import NamedTuple

from minbert.evaluate.reading import Scores
from minbert.spec.task import TASKS


class Winner(NamedTuple):
    """A paper's best variant. `dev` is {seed: overall score} by the paper's rule.

    `keys` are {task: key of the training that it is scored by}.
    """

    variant: str
    dev: Mapping[int, float]
    keys: Mapping[str, str]

    @property
    def score(self) -> float:
        """The mean overall dev score."""
        return fmean(self.dev.values())

    @property
    def seed(self) -> int:
        """The seed with the best dev score, the smallest in a tie."""
        return max(self.dev, key=lambda seed: (self.dev[seed], -seed))


def ranked(scores: Scores, rule: str, split: str = "dev") -> dict[str, dict[int, float]]:
    """Return {variant: {seed: overall score by `rule`}}, the highest mean over seeds first.

    Rows that are the best of other variants are left out: they train nothing, and what they show
    is a choice among the others. The first variant in the table wins a tie.
    """
    found = {
        of.variant: {seed: score.value for seed, score in by_seed.items()}
        for of, by_seed in scores.items()
        if (of.split, of.measure) == (split, rule) and all(s.key for s in by_seed.values())
    }
    return dict(sorted(found.items(), key=lambda item: -fmean(item[1].values())))


def winner(scores: Scores, rule: str) -> Winner | None:
    """Return the best variant of a paper, the first of `ranked`; None if none has a score."""
    for variant, dev in ranked(scores, rule).items():
        scored = {of.measure: seeds for of, seeds in scores.items() if of[:2] == (variant, "dev")}
        keys = {task: next(iter(scored[task].values())).key for task in TASKS if task in scored}
        return Winner(variant, dev, keys)
    return None
