"""The marks of scores in a table, and the sentences under it that say how to read it."""

from collections.abc import Iterable, Sequence
from itertools import product
from statistics import fmean

from minbert.evaluate.reading import DELTA_M, FAVOURED, score_title
from minbert.evaluate.scoring import CORRELATIONS
from minbert.evaluate.seeds import Interval
from minbert.evaluate.text import ABSENT, Line
from minbert.spec.task import OWN_FILES, TASKS

FLOOR, OWN_RULE, BELOW, CONSTANT = "Floor", "†", "°", "‡"

OTHER_FLOORS = {
    "f1": "for F1 always predicting class 1",
    "macro_f1": "for macro-F1 1 / classes",
    "matthews": "for Matthews r 0",
    "spearman": "for Spearman rho 0",
}
"""The floors that not every table names, by metric."""


def marks(score: Interval) -> str:
    """Return the marks after a score; with several seeds, how many of them each is about."""
    constant = score.constant or 0
    below = 0 if score.above is None else score.n - score.above - constant
    counts = {CONSTANT: constant, BELOW: below}
    return "".join(
        f" {mark}" + f"{seeds}/{score.n}" * (seeds < score.n)
        for mark, seeds in counts.items()
        if seeds > 0
    )


def has_published(about: Line) -> bool:
    """Whether the paper gives a figure of any of its rows."""
    return any(of is not None for row in about["rows"] for of in row["published"].values())


def remarks(about: Line, rows: Sequence[Line]) -> list[str]:
    """Return the sentences under `rows` of the table that say how to read it, as plain text."""
    tasks, overall, single = about["tasks"], about["overall_tasks"], about["single"]
    count = len(about["seeds"])
    alone = "over the split's examples, which says nothing about how another run would score"
    ours = f"the score of one run ± half the width of its 95 % interval {alone}."
    if count > 1:
        ours = (
            f"mean ± half the width of its 95 % interval (Student t) over n of {count} seeds, by "
            f"the spread that the rows share; with one seed, {alone}."
        )
    metrics = {TASKS[task].metric for task in tasks}
    floors = ", ".join(of for metric, of in OTHER_FLOORS.items() if metric in metrics)
    normalised = (
        f"({score_title(task)} + 1) / 2"
        if TASKS[task].metric in CORRELATIONS
        else score_title(task)
        for task in overall
    )
    own = _listed(TASKS[task].title for task in tasks if task not in TASKS.built_in)
    data = [about["data"]] * (not own or about["data"] != OWN_FILES)
    found = [
        f"Ours: {ours} Scores: {', '.join(map(score_title, tasks))}.",
        f"{FLOOR}: the score without learning. {BELOW} marks a score that is not above its floor "
        "at the 5 % level (the most frequent class by McNemar's exact test, or r = 0), "
        f"{CONSTANT} a score of predictions that are all the same; 1/3 after a mark: one of three "
        "seeds. If half or more of a row's seeds are marked, it is not shown that it learnt the "
        "task." + f" Other floors: {floors} (docs/statistics.md)." * bool(floors),
        f"Overall: normalised is the mean of {_listed(normalised)}; plain is the plain mean of "
        f"{_listed(map(score_title, overall))}; {OWN_RULE} marks the paper's own rule"
        + ", which its published overall follows" * has_published(about)
        + ".",
    ]
    gains: dict[str, list[float]] = {}
    for row, task in product(rows, overall):
        if (score := row["scores"].get(task)) and score.last is not None:
            gains.setdefault(TASKS[task].title, []).append(score.mean - score.last)
    said = ", ".join(f"{title} {fmean(of):+.3f}" for title, of in gains.items())
    if about["selection_split"] != "dev":
        found.append(f"{FAVOURED[about['selection_split']]}.")
    elif said:
        found.append(
            "Selected on dev: our figures are from the epoch of each run with the best dev score. "
            f"Best minus last epoch, averaged over the rows: {said}; the csv has every "
            "row."
        )
    if any(DELTA_M in row["scores"] for row in rows):
        label, titles = about["labels"][single], ", ".join(TASKS[task].title for task in overall)
        found.append(
            f"Δm: the gain over '{label}', which trains each task alone, with the same seed: the "
            f"mean over {titles} of (score - single) / single, in per cent (Maninis et al. 2019). "
            f"It is 0 for '{label}' itself, and {ABSENT} where a task has no score or its single "
            "score is not above 0."
        )
    if any("budget" in row for row in rows):
        found.append(
            "Tuned: of the settings listed in the grid, the one with the best overall score, "
            "averaged over the seeds, on the half of dev that also chose the epochs; its scores "
            "here are on the other half, or on test. Budget: the training runs of all settings and "
            "seeds. Settings are as in the grid, before 'scale' in the configuration applies; "
            f"tables/{about['paper']}.tuning.md lists all that were tried."
        )
    data += [f"{OWN_FILES}: {own}"] * bool(own)
    return [
        *found,
        f"Backbone: {about['backbone']}. Data: {'; '.join(data)}. {ABSENT}: not published, or not "
        "a task of the row.",
    ]


def _listed(words: Iterable[str]) -> str:
    *first, last = list(words) or [""]
    return f"{', '.join(first)} and {last}" if first else last
