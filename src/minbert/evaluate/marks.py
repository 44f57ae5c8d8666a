"""What pages and tables say of scores: the floors, the marks of those below, what chose epochs."""

from collections.abc import Iterable

from minbert.evaluate.statistics import Interval
from minbert.spec.task import TASKS

BELOW, CONSTANT = "°", "‡"
"""Marks of scores that are not above their floor, and of runs that predict one class or value."""

GUESS = "the best guess without the text (for an accuracy, the most frequent class; for r, 0)"
"""What a floor is, in the words of figures and report."""

MEANING = (
    f"{BELOW} marks a score that is not above its floor at the 5 % level (the most frequent class "
    f"by McNemar's exact test, or r = 0), {CONSTANT} a score of predictions that are all the same; "
    "1/3 after a mark: one of three seeds. If half or more of a row's seeds are marked, it is not "
    "shown that it learnt the task."
)


FAVOURED = {
    "dev": "Dev was also used to choose the epoch of every run, which favours all of them",
    "half": "One half of dev chose the epoch of every run; scores are on the other half",
    "both": "For some runs, one half of dev chose the epoch and scores are on the other half; for "
    "the others, all of dev served both purposes, which favours them",
}
"""What chose the epochs, by what the stages' `selection_split` says, or `both`."""

GUESSES = {
    "f1": "for F1 always predicting class 1",
    "macro_f1": "for macro-F1 1 / classes",
    "matthews": "for Matthews r 0",
    "spearman": "for Spearman rho 0",
}
"""The floors that `MEANING` does not name, by metric."""


def guesses(tasks: Iterable[str]) -> str:
    """Return the sentence on the other floors that `tasks` have, if any."""
    metrics = {TASKS[task].metric for task in tasks}
    if found := [said for metric, said in GUESSES.items() if metric in metrics]:
        return f" Other floors: {', '.join(found)} (docs/statistics.md)."
    return ""


def marks(score: Interval) -> str:
    """Return the marks after a score; with several seeds, how many of them each is about."""
    constant = score.constant or 0
    below = 0 if score.above is None else score.n - score.above - constant
    found = ""
    for mark, seeds in ((CONSTANT, constant), (BELOW, below)):
        if seeds > 0:
            found += " " + mark + (f"{seeds}/{score.n}" if seeds < score.n else "")
    return found
