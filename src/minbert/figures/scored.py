"""Scores by variant, split and measure, as figures show them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple, get_args

from minbert.evaluate.reading import read_columns
from minbert.evaluate.statistics import Interval, interval
from minbert.grid.tasks import TASKS
from minbert.scoring import Rule

_COLUMNS = ("paper", "variant", "seed", "split", "task", "metric", "value")

TITLES = {
    **{
        name: f"{task.title} {_metric}"
        for name, task in TASKS.items()
        for _metric in ({"accuracy": "accuracy", "pearson": "Pearson r"}[task.metric],)
    },
    "overall": "Overall score",
}
"""What an axis says of each measure."""


class Of(NamedTuple):
    """What a score is of: `measure` is a task, by its own metric, or a rule of the overall."""

    variant: str
    split: str
    measure: str


Scores = dict[Of, dict[int, float]]
"""The scores by seed."""


def read_scores(path: Path, paper: str) -> Scores:
    """Return the scores of `paper`; none, if there is no such file (its runs failed)."""
    if not path.is_file():
        return {}
    main = {(name, task.metric): name for name, task in TASKS.items()}
    main |= {("overall", rule): rule for rule in get_args(Rule)}
    found: Scores = {}
    for line in read_columns(path, _COLUMNS, [("paper", "=", paper)]).to_pylist():
        measure = main.get((line["task"], line["metric"]))
        if measure:
            of = Of(line["variant"], line["split"], measure)
            found.setdefault(of, {})[line["seed"]] = line["value"]
    return found


def over_seeds(scores: Scores) -> dict[Of, Interval]:
    """Return the mean of each score with its interval over seeds."""
    return {of: interval(list(values.values())) for of, values in scores.items()}


def seeds_note(counts: Iterable[int], what: str = "Points", bars: str = "bars") -> list[str]:
    """Return the note on how many seeds are shown and what their interval is."""
    ns = sorted(set(counts))
    if not ns:
        return []
    if ns == [1]:
        return [f"{what}: 1 seed, so no interval over seeds."]
    said = " or ".join(map(str, ns))
    return [f"{what}: mean of {said} seeds; {bars}: 95 % interval over seeds (Student t)."]


def seeds_shown(scores: Mapping[Of, Mapping[int, float]], variant: str, split: str) -> set[int]:
    """Return the seeds that any score of a variant and split has."""
    return {
        seed
        for of, values in scores.items()
        if (of.variant, of.split) == (variant, split)
        for seed in values
    }
