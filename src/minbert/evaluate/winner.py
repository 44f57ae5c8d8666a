"""The best variant of each paper: the highest overall score on dev, the mean over its seeds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

from minbert.evaluate.reading import read_columns

_COLUMNS = ("paper", "variant", "seed", "split", "task", "metric", "value", "key")


@dataclass(frozen=True)
class Winner:
    """A paper's best variant. `dev` is {seed: overall score}, `test` likewise where there is one.

    Scores are by the paper's own rule. `seed` is the one that scored best on dev, the smallest of
    equals.
    """

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
        """The seed of the best run."""
        return max(self.dev, key=lambda seed: (self.dev[seed], -seed))


def winners(scores: Path, rules: Mapping[str, str]) -> dict[str, Winner]:
    """Return {paper: its best variant} for those of `rules` ({paper: overall rule}) with scores.

    `scores` is the published `scores.parquet`. Rows that are the best of other variants are left
    out: they train nothing. Of equal variants the first in the table wins.
    """
    if not rules:
        return {}
    found: dict[tuple[str, str], dict[str, dict[int, float]]] = {}
    wanted = [("task", "=", "overall"), ("key", "!=", "")]
    for row in read_columns(scores, _COLUMNS, conditions=wanted).to_pylist():
        if rules.get(row["paper"]) == row["metric"]:
            splits = found.setdefault((row["paper"], row["variant"]), {})
            splits.setdefault(row["split"], {})[row["seed"]] = row["value"]
    best: dict[str, Winner] = {}
    for (paper, variant), splits in found.items():
        if "dev" in splits:
            one = Winner(paper, variant, splits["dev"], splits.get("test", {}))
            if paper not in best or one.score > best[paper].score:
                best[paper] = one
    return best
