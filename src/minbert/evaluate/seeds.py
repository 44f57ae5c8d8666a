"""What the seeds of a row come to: their mean, its interval, and whether the row learnt the task.

Tables, figures, claims and the report all ask here.
"""

from collections.abc import Callable, Sequence
from statistics import fmean

import numpy as np

from minbert.evaluate.reading import Of, Scores
from minbert.evaluate.spread import Spread, pool_variances
from minbert.evaluate.statistics import Interval, interval
from minbert.spec.protocol import OVERALL_TASKS, RULES


def learned(scores: Scores, of: Of, overall_tasks: Sequence[str] = OVERALL_TASKS) -> bool | None:
    """Whether most seeds of a row are above the floor; None if that is not tested.

    By an overall rule: of at least one of its tasks, as the others do not hide what it learnt.
    """
    if of.measure in RULES:
        parts = {learned(scores, of._replace(measure=task)) for task in overall_tasks}
        return True if True in parts else None if None in parts else False
    above = [score.learned for score in scores.get(of, {}).values()]
    return None if not above or None in above else sum(map(bool, above)) * 2 > len(above)


def shared_spreads(
    scores: Scores, spread_of: Callable[[Of], Spread | None], overall_tasks: Sequence[str]
) -> dict[Of, Spread]:
    """Return the spread over seeds to be used for each score of a paper that has learnt its task.

    Rows share theirs for each split and measure (`pool_variances`); `spread_of` has a row's own, or
    None to leave it out. A training under two names counts once, and the overall score of a row
    that is the best of others, which trains nothing, does not count.
    """
    runs: dict[Of, tuple[str, ...]] = {}
    groups: dict[tuple[str, ...], tuple[dict[tuple[str, ...], Spread], ...]] = {}
    for of, seeds in scores.items():
        if len(seeds) == 1 or not learned(scores, of, overall_tasks):
            continue
        if (own := spread_of(of)) is None:
            continue
        tasks = overall_tasks if of.measure in RULES else (of.measure,)
        parts = [scores.get(of._replace(measure=task), {}) for task in tasks]
        runs[of] = tuple(f"{part[n].key}.{n}" for part in parts for n in seeds if n in part)
        derived = not all(score.key for score in seeds.values())
        groups.setdefault(of[1:], ({}, {}))[derived][runs[of]] = own
    used = {group: pool_variances(*kinds) for group, kinds in groups.items()}
    return {of: used[of[1:]][of_row] for of, of_row in runs.items()}


def over_seeds(scores: Scores, overall_tasks: Sequence[str] = OVERALL_TASKS) -> dict[Of, Interval]:
    """Return the mean over seeds of every score of a paper; `scores` are all that it has.

    Of one seed, the 95 % interval is that over examples. Of several, it is Student's t interval
    with the variance that rows of the paper which have learned the task share
    (`spread.pool_variances`), as in the claims. A row that has not learned it has its own, as has
    every gain over single tasks: all rows' gains move with the same runs of the reference.
    """
    values = {of: [score.value for score in seeds.values()] for of, seeds in scores.items()}

    def own(of: Of) -> Spread:
        variance = float(np.var(values[of], ddof=1))
        return Spread(variance, variance, len(values[of]) - 1)

    used = shared_spreads(scores, own, overall_tasks)
    found = {}
    for of, by_seed in scores.items():
        first, *_ = seeds = list(by_seed.values())
        shared = (used[of].whole, used[of].freedom) if of in used else None
        lasts = [score.last for score in seeds if score.last is not None]
        tested = first.learned is not None
        found[of] = interval(values[of], first.error, shared)._replace(
            last=fmean(lasts) if lasts else None,
            floor=first.floor,
            above=sum(bool(score.learned) for score in seeds) if tested else None,
            constant=sum(bool(score.constant) for score in seeds) if tested else None,
            learned=learned(scores, of, overall_tasks),
        )
    return found
