"""The best variant of each paper: that with the highest overall dev score, averaged over seeds."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

from minbert.evaluate.reading import Scores, read_scores
from minbert.spec.task import TASKS


@dataclass(frozen=True)
class Winner:
    """A paper's best variant. `dev` and `test` are {seed: overall score} by the paper's `rule`.

    `keys` are {task: key of the training that it is scored by}.
    """

    paper: str
    variant: str
    rule: str
    dev: Mapping[int, float]
    test: Mapping[int, float]
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


def winners(scores: Path, rules: Mapping[str, str]) -> dict[str, Winner]:
    """Return {paper: its best variant} for those of `rules` ({paper: overall rule}) with scores.

    `scores` is the published `scores.parquet`. The best is the first of `ranked`.
    """
    best: dict[str, Winner] = {}
    for paper, rule in rules.items():
        table = read_scores(scores, paper)
        for variant, dev in list(ranked(table, rule).items())[:1]:
            test = ranked(table, rule, "test").get(variant, {})
            scored = {of.measure: s for of, s in table.items() if of[:2] == (variant, "dev")}
            keys = {task: next(iter(scored[task].values())).key for task in TASKS if task in scored}
            best[paper] = Winner(paper, variant, rule, dev, test, keys)
    return best
