"""Scores by variant, split and measure, as figures show them: means, floors, and notes."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from minbert.evaluate import reading
from minbert.evaluate.marks import GUESS
from minbert.evaluate.reading import Of, Scores, score_title
from minbert.evaluate.seeds import over_seeds
from minbert.evaluate.statistics import Interval
from minbert.figures.inputs import Inputs, absent_notes, listed, mean_of
from minbert.spec.task import TASKS

FLOOR = f"Floor: {GUESS}."
NOT_ABOVE = f"not above the floor, {GUESS}, at the 5 % level"
CROSSED = f"\u00d7: {NOT_ABOVE}."
CUT = "Longer bars are cut at the edges of a panel."


def title_of(measure: str) -> str:
    """Return the axis title of a measure: a task, `other`, `overall` or its rule."""
    if measure in TASKS:
        return score_title(measure)
    return "Other tasks" if measure == "other" else "Overall score"


def read_scores(path: Path, paper: str) -> Scores:
    """Return the scores of `paper`; none if there is no such file (its runs failed)."""
    return reading.read_scores(path, paper) if path.is_file() else {}


def measure_of(task: str, metric: str) -> str:
    """Return the measure of a row in a history: its task, or for `overall` the rule."""
    return metric if task == "overall" else task


def unlearned_note(found: Iterable[Of], labels: Mapping[str, str]) -> str:
    """Return the note that names the variants, and tasks, in `found`."""
    tasks: dict[str, list[str]] = {}
    for of in found:
        if of.variant in labels and of.measure in TASKS:
            tasks.setdefault(labels[of.variant], []).append(TASKS[of.measure].title)
    said = [f"{label} ({', '.join(of)})" for label, of in tasks.items()]
    return f"Not above the floor at the 5 % level: {listed(said)}." if said else ""


@dataclass(frozen=True)
class PaperScores:
    """The scores of one paper on one split; `overall_tasks` are those of the overall score.

    `shown` has the scored seeds of each variant of the figure, `absent` the notes on missing runs.
    """

    rule: str
    overall_tasks: Sequence[str]
    split: str = "dev"
    scores: Scores = field(default_factory=dict)
    shown: dict[str, set[int]] = field(default_factory=dict)
    absent: list[str] = field(default_factory=list)

    @cached_property
    def means(self) -> dict[Of, Interval]:
        """The means over seeds."""
        return over_seeds(self.scores, self.overall_tasks)

    @cached_property
    def measures(self) -> list[str]:
        """The rule and the tasks that have scores."""
        return [m for m in (self.rule, *TASKS) if any(of.measure == m for of in self.scores)]

    @property
    def flat(self) -> list[Of]:
        """The scores of rows that have not learnt; overall, that have learnt none of the tasks."""
        return [of for of, one in self.means.items() if one.learned is False]

    def get(self, variant: str, measure: str) -> Interval | None:
        """Return the mean of a variant; None without scores."""
        return self.means.get(Of(variant, self.split, measure))

    def flat_one(self, variants: Iterable[str], measure: str) -> bool:
        """Whether one of the variants has not learnt."""
        return any(Of(name, self.split, measure) in self.flat for name in variants)

    def floors(self, variants: Iterable[str], measure: str) -> list[float]:
        """Return the floors of `measure` that the variants have, each once.

        They are of the examples, which may be half of dev or all.
        """
        found = (self.get(name, measure) for name in variants)
        return sorted({one.floor for one in found if one and one.floor is not None})

    @property
    def overall(self) -> str:
        """How the overall score comes about: "normalised mean of SST, Paraphrase and STS"."""
        *first, last = (TASKS[task].title for task in self.overall_tasks)
        return (
            f"{self.rule} mean of {', '.join(first)} and {last}" if first else f"{self.rule} {last}"
        )


def paper_scores(inputs: Inputs, split: str = "dev") -> PaperScores:
    """Return the scores on `split` of the only paper among the inputs."""
    ((paper, path),) = inputs.scores.items()
    scores = {of: v for of, v in read_scores(path, paper).items() if of.split == split}
    shown: dict[str, set[int]] = {name: set() for name in inputs.variants}
    for of, values in scores.items():
        if of.variant in shown:
            shown[of.variant] |= set(values)
    wanted = dict.fromkeys(shown, set().union(*shown.values()))
    absent = absent_notes(inputs.variants, shown, wanted, inputs.failed)
    about = inputs.about
    return PaperScores(about["rule"], about["overall_tasks"], split, scores, shown, absent)


def crossed_note(shown: Iterable[Interval]) -> str:
    """Return the note on crosses, if there are any."""
    return CROSSED * any(one.learned is False for one in shown)


def seeds_note(shown: Iterable[Interval], more: str = "") -> str:
    """Return the note on how many seeds are shown, and what their interval is; then `more`."""
    found = list(shown)
    over = ["over seeds (Student t)"] if any(one.n > 1 for one in found) else []
    if any(one.n == 1 and one.low is not None for one in found):
        over.append("with one seed, over examples" if over else "over examples, not over seeds")
    bars = f"; bars: 95 % interval {'; '.join(over)}. {CUT}" if over else ", so no intervals."
    return f"Points: {mean_of(one.n for one in found)}{bars}{more}"
