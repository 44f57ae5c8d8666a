"""How the scores of a table's row stand against their floors, and the marks that say so."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from minbert.evaluate.reading import Score
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


class Standing(NamedTuple):
    """The floor of a score, and how many of its `n` seeds are above it, how many constant.

    `above` and `constant` are None for an overall score, which is not tested.
    """

    floor: float
    above: int | None
    constant: int | None
    n: int

    @property
    def marks(self) -> str:
        """The marks after the score; with several seeds, how many of them each is about."""
        constant = self.constant or 0
        below = 0 if self.above is None else self.n - self.above - constant
        found = ""
        for mark, seeds in ((CONSTANT, constant), (BELOW, below)):
            if seeds > 0:
                found += " " + mark + (f"{seeds}/{self.n}" if seeds < self.n else "")
        return found


def standing(seeds: Sequence[Score]) -> Standing | None:
    """Return how the scores of all seeds stand; None if they have no floor."""
    floor = seeds[0].floor
    if floor is None:
        return None
    if seeds[0].learned is None:
        return Standing(floor, None, None, len(seeds))
    above = sum(bool(score.learned) for score in seeds)
    return Standing(floor, above, sum(bool(score.constant) for score in seeds), len(seeds))
