"""What figures read: the runs that are there, their curves and predictions, a paper's scores."""

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from pathlib import Path
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from minbert.base.progress import some
from minbert.data.parquet import read_file
from minbert.evaluate.bootstrap import Systems, difference
from minbert.evaluate.reading import GUESS, Of, Scores, read_scores, score_title
from minbert.evaluate.seeds import Interval, over_seeds, rows_of
from minbert.evaluate.text import Line
from minbert.figures import style
from minbert.spec.task import TASKS

Drawn = tuple[Figure, list[str]]
"""A figure, and the notes that belong under it."""

FLOOR = f"Floor: {GUESS}."
CROSSED = f"\u00d7: not clearly above the floor ({GUESS})."
OVER = "seeds (Student t), of one seed over examples"
NAMED = 8  # a note names so many missing runs and counts the rest, to leave room for the figure

Curves = dict[tuple[str, str, str], pd.DataFrame]
"""The curves of a stage's runs, by split, task and metric.

A curve has a column for each seed, and a row for each point at which one has a value, by epochs:
0.25 is after a quarter of the first one.
"""

Means = dict[str, dict[str, Interval]]
"""Means over seeds, or gains, by measure, or by series of one measure, and variant."""


@dataclass(frozen=True)
class Inputs:
    """What a kind of figure shows, the files that it reads, and what is said of its papers.

    `variants` has the labels of what is shown by name, in order; none of figures over all papers.
    `runs` has a file of each run by KEY.SEED, with the others beside it; `scores` are by paper. Any
    of these files may be missing, as its run may have failed or not have started. `papers` is what
    `plan.outputs` says.
    """

    variants: Mapping[str, str]
    papers: Sequence[Line]
    runs: Mapping[str, Path]
    scores: Mapping[str, Path]

    @property
    def about(self) -> Line:
        """What is said of the only paper."""
        return self.papers[0]

    @property
    def absent(self) -> list[str]:
        """The note that names the runs whose predictions are missing, if any are."""
        missing, seeds = [], {*self.about["seeds"]}
        for name, label in self.variants.items():
            if gone := seeds - seeds.intersection(*self.predictions(name).values()):
                missing.append(f"{label} (seed {', '.join(map(str, sorted(gone)))})")
        return [f"Failed or not run: {some(missing, NAMED)}."] * bool(missing)

    def files(self, key: str, name: str) -> dict[int, Path]:
        """Return the `NAME.parquet` of a training's runs that exist, by seed."""
        seeds = sorted(self.about["seeds"])
        every = {n: self.runs[f"{key}.{n}"].with_name(f"{name}.parquet") for n in seeds}
        return {seed: path for seed, path in every.items() if path.is_file()}

    def predictions(self, variant: str) -> dict[str, dict[int, Path]]:
        """Return the predictions of a variant's runs that exist, by task and seed."""
        (keys,) = (of["tasks"] for of in self.about["variants"] if of["name"] == variant)
        return {task: self.files(key, "predictions") for task, key in keys.items()}

    def curves(self, stage: Line) -> Curves:
        """Return the curves of the runs of a stage whose histories exist."""
        columns = ("step", "epoch", "split", "task", "metric", "value")
        files = self.files(stage["key"], "history")
        if not files:
            return {}
        every = pd.concat([read_file(files[n], columns).to_pandas().assign(seed=n) for n in files])
        # All epochs have as many steps, and dev is scored after the last.
        every["epoch"] = every["step"] / (every["step"].max() / every["epoch"].max())
        groups: Any = every.groupby(["split", "task", "metric"], sort=False)
        return {
            of: rows.pivot(index="epoch", columns="seed", values="value") for of, rows in groups
        }

    def last_stages(self) -> dict[str, Curves]:
        """Return the curves of each variant's last stage, if it has any."""
        last = {name: self.about["stages"][name][-1] for name in self.variants}
        return {name: found for name in last if (found := self.curves(last[name]))}

    def measures(self, found: Mapping[str, Curves]) -> list[str]:
        """Return the measures of the dev scores that runs have, overall first."""
        there = {of for curves in found.values() for of in curves}
        known = (self.rule, *TASKS)
        return [measure for measure in known if ("dev", *recorded_as(measure)) in there]

    @property
    def rule(self) -> str:
        """The only paper's rule for the overall score."""
        return self.about["rule"]

    @property
    def overall(self) -> str:
        """How that comes about: "normalised mean of SST, Paraphrase, STS"."""
        titles = (TASKS[task].title for task in self.about["overall_tasks"])
        return f"{self.rule} mean of {', '.join(titles)}"

    def read_scores(self, about: Line) -> tuple[Scores, dict[Of, Interval]]:
        """Return a paper's scores, and their means over seeds; none if its runs failed."""
        path, paper = self.scores[about["paper"]], about["paper"]
        scores = read_scores(path, paper) if path.is_file() else {}
        return scores, over_seeds(scores, about["overall_tasks"])

    @cached_property
    def means(self) -> Means:
        """What the variants score on dev, by the paper's rule and on each task that any has."""
        _, over = self.read_scores(self.about)
        found: Means = {}
        for measure, name in product((self.rule, *TASKS), self.variants):
            if one := over.get(Of(name, "dev", measure)):
                found.setdefault(measure, {})[name] = one
        return found

    def draw_floors(self, axes: Axes, variants: Container[str], measure: str) -> list[float]:
        """Draw and return the floors of `measure` that the variants have, each once.

        They are of the examples, which may be half of dev or all.
        """
        found = [one for name, one in self.means.get(measure, {}).items() if name in variants]
        floors = sorted({one.floor for one in found if one.floor is not None})
        for floor in floors:
            axes.axhline(floor, **style.FLOOR)
        return floors

    def gains(self, pairs: Mapping[str, str]) -> dict[str, Means]:
        """Return what variants gain over the others that they are paired with, on each measure.

        `ours` are on dev, with the claims' interval over examples and seeds; `published` is what
        the paper printed. Ours have `learned` if both have.
        """
        scores, _ = self.read_scores(self.about)
        systems = Systems(rows_of(scores, self.about["overall_tasks"]), self.runs)
        printed = dict(published(self.about))
        found: dict[str, Means] = {of: {"ours": {}, "published": {}} for of in self.means}
        for measure, pair in product(self.means, pairs.items()):
            name, _ = pair
            one, two = map(systems.of(measure).get, pair)
            if one and two:
                change = difference(one, two, 1 / one.examples)
                n, learned = len({*one.seeds} & {*two.seeds}) or 1, one.learned and two.learned
                gain = Interval(change.value, *change.interval(), n, learned=learned)
                found[measure]["ours"][name] = gain
            here, there = (printed.get(Of(variant, "dev", measure)) for variant in pair)
            if here is not None and there is not None:
                found[measure]["published"][name] = Interval(here - there)
        return found


def published(about: Line) -> Iterator[tuple[Of, float]]:
    """Yield the numbers that a paper printed; a variant may have several, of as many tables."""
    for row in about["rows"]:
        names = {"overall": about["rule"], "other": row["other_task"]}
        for name, value in row["published"].items():
            yield Of(row["variant"], row["split"], names.get(name, name)), value


def points_note(shown: Sequence[Interval], over: str = OVER) -> str:
    """Return the note on crosses, on how many seeds are shown, and what their interval is over."""
    seeds = mean_of(one.n for one in shown)
    over = "examples, not over seeds" if seeds == "1 seed" else over
    crosses = f"{CROSSED} " * any(one.learned is False for one in shown)
    bars = f"; bars: 95 % interval over {over}. Longer bars are cut at the edges of a panel."
    bars *= any(one.low is not None for one in shown)
    return f"{crosses}Points: {seeds}{bars}" * bool(shown)


def mean_of(counts: Iterable[int]) -> str:
    """Return the words for values over so many seeds: "1 seed", or "mean of 2 or 5 seeds"."""
    found = " or ".join(map(str, sorted(set(counts))))
    return "1 seed" if found == "1" else f"mean of {found} seeds"


def title_of(measure: str) -> str:
    """Return the axis title of a measure: a task, `overall` or its rule."""
    return score_title(measure) if measure in TASKS else "Overall score"


def recorded_as(measure: str) -> tuple[str, str]:
    """Return the task and metric of a measure in histories."""
    return (measure, TASKS[measure].metric) if measure in TASKS else ("overall", measure)


def task_title(name: str) -> str:
    """Return the title of a task, or the name of what is none."""
    return TASKS[name].title if name in TASKS else name
