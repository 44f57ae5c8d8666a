"""Scores by variant, split and measure, as figures show them: means, gains, floors, and notes."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any

from minbert.evaluate import reading
from minbert.evaluate.bootstrap import Systems, difference
from minbert.evaluate.reading import GUESS, Of, Scores, score_title
from minbert.evaluate.seeds import Interval, over_seeds
from minbert.figures.inputs import Inputs, mean_of
from minbert.spec.task import TASKS

FLOOR = f"Floor: {GUESS}."
NOT_ABOVE = f"not above the floor ({GUESS}) at the 5 % level"
CROSSED = f"\u00d7: {NOT_ABOVE}."
OVER = "seeds (Student t), of one seed over examples"
CUT = "Longer bars are cut at the edges of a panel."


def title_of(measure: str) -> str:
    """Return the axis title of a measure: a task, `overall` or its rule."""
    return score_title(measure) if measure in TASKS else "Overall score"


def read_scores(path: Path, paper: str) -> Scores:
    """Return the scores of `paper`; none if there is no such file (its runs failed)."""
    return reading.read_scores(path, paper) if path.is_file() else {}


def measure_of(task: str, metric: str) -> str:
    """Return the measure of a row in a history: its task, or for `overall` the rule."""
    return metric if task == "overall" else task


class PaperScores:
    """What a figure's variants score on one split, by their paper's rule and on each task.

    `scores` are by seed, `means` over seeds, and `measures` what any variant has.
    """

    def __init__(self, inputs: Inputs, split: str = "dev") -> None:
        ((paper, path),) = inputs.scores.items()
        every = read_scores(path, paper)
        self.split, self.rule = split, inputs.about["rule"]
        self.overall_tasks = inputs.about["overall_tasks"]
        known = (self.rule, *TASKS)
        self.scores = {
            of: by_seed
            for of, by_seed in every.items()
            if of.variant in inputs.variants and of.split == split and of.measure in known
        }
        means = over_seeds(every, self.overall_tasks)
        self.means = {of: means[of] for of in self.scores}
        self.measures = [m for m in known if any(of.measure == m for of in self.scores)]

    @property
    def overall(self) -> str:
        """How the overall score comes about: "normalised mean of SST, Paraphrase, STS"."""
        return f"{self.rule} mean of {', '.join(TASKS[task].title for task in self.overall_tasks)}"

    def get(self, variant: str, measure: str) -> Interval | None:
        """Return the mean of a variant; None without scores."""
        return self.means.get(Of(variant, self.split, measure))

    def floors(self, variants: Iterable[str], measure: str) -> list[float]:
        """Return the floors of `measure` that the variants have, each once.

        They are of the examples, which may be half of dev or all.
        """
        found = (self.get(name, measure) for name in variants)
        return sorted({one.floor for one in found if one and one.floor is not None})


def published(about: Mapping[str, Any]) -> Iterator[tuple[Of, float]]:
    """Yield the numbers that a paper printed; a variant may have several, of as many tables."""
    for row in about["rows"]:
        names = {"overall": about["rule"], "other": row["other_task"]}
        for name, value in row["published"].items():
            if value is not None:
                yield Of(row["variant"], row["split"], names.get(name, name)), value


Gains = dict[tuple[str, str, str], tuple[Interval | None, Interval | None]]


def gains(inputs: Inputs, paper: PaperScores, pairs: Iterable[tuple[str, str]]) -> Gains:
    """Return what the first variant of each pair gains over the second, by both and the measure.

    First ours on dev, with the claims' interval over examples and seeds, then what the paper
    printed; None if one of the two has no such score. Ours has `learned` if both have.
    """
    files = {
        f"{score.key}.{seed}": inputs.predictions[of.variant][of.measure][seed]
        for of, by_seed in paper.scores.items()
        for seed, score in by_seed.items()
        if of.measure in TASKS
    }
    systems = Systems(paper.scores, files, paper.overall_tasks)
    printed = dict(published(inputs.about))
    found: Gains = {}
    for (name, other), measure in product(pairs, paper.measures):
        ours = said = None
        of = systems.of(measure)
        if {name, other} <= of.keys():
            one, two = of[name], of[other]
            change = difference(one, two, 1 / one.examples)
            ours = Interval(change.value, *change.interval(), min(one.seeds, two.seeds))
            ours = ours._replace(learned=one.learned and two.learned)
        first, second = (Of(variant, "dev", measure) for variant in (name, other))
        if {first, second} <= printed.keys():
            said = Interval(printed[first] - printed[second])
        found[name, other, measure] = ours, said
    return found


def points_note(shown: Sequence[Interval], over: str = OVER) -> str:
    """Return the note on crosses, on how many seeds are shown, and what their interval is over."""
    seeds = mean_of(one.n for one in shown)
    over = "examples, not over seeds" if seeds == "1 seed" else over
    crosses = f"{CROSSED} " * any(one.learned is False for one in shown)
    bars = f"; bars: 95 % interval over {over}. {CUT}" * any(one.low is not None for one in shown)
    return f"{crosses}Points: {seeds}{bars}" * bool(shown)
