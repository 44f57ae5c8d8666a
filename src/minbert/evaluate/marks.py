"""How the scores of a table's row stand against their floors, and the marks that say so."""

from collections.abc import Sequence
from typing import NamedTuple

from minbert.evaluate.reading import Score

BELOW, CONSTANT = "°", "‡"
"""Marks of scores that are not above their floor, and of runs that predict one class or value."""

MEANING = (
    f"{BELOW} marks a score that is not above its floor at the 5 % level (the most frequent class "
    f"by McNemar's exact test, or r = 0), {CONSTANT} one of predictions that are all the same; 1/3 "
    "after a mark: one of three seeds. A row most of whose seeds are marked is not shown to have "
    "learnt the task."
)


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
