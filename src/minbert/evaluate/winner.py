"""The best variant of each paper: that with the highest overall dev score, averaged over seeds."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

from minbert.evaluate.reading import read_scores


@dataclass(frozen=True)
class Winner:
    """A paper's best variant. `dev` and `test` are {seed: overall score} by the paper's rule."""

    paper: str
    variant: str
    dev: Mapping[int, float]
    test: Mapping[int, float]

    @property
    def score(self) -> float:
        """The mean overall dev score."""
        return fmean(self.dev.values())

    @property
    def seed(self) -> int:
        """The seed with the best dev score, the smallest in a tie."""
        return max(self.dev, key=lambda seed: (self.dev[seed], -seed))


def winners(scores: Path, rules: Mapping[str, str]) -> dict[str, Winner]:
    """Return {paper: its best variant} for those of `rules` ({paper: overall rule}) with scores.

    `scores` is the published `scores.parquet`. Rows that are the best of other variants are left
    out, as they train nothing. The first variant in the table wins a tie.
    """
    best: dict[str, Winner] = {}
    for paper, rule in rules.items():
        found: dict[str, dict[str, dict[int, float]]] = {}
        for of, by_seed in read_scores(scores, paper).items():
            trained = {seed: score.value for seed, score in by_seed.items() if score.key}
            if of.measure == rule and trained:
                found.setdefault(of.variant, {})[of.split] = trained
        for variant, splits in found.items():
            if "dev" in splits:
                one = Winner(paper, variant, splits["dev"], splits.get("test", {}))
                if paper not in best or one.score > best[paper].score:
                    best[paper] = one
    return best
