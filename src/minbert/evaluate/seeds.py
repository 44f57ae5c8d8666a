"""What the seeds of rows come to: mean, interval, whether a row learned its task; rows by score.

Tables, figures, claims and the report all ask here.
"""

from collections.abc import Mapping, Sequence
from statistics import fmean

import numpy as np

from minbert.evaluate.reading import Of, Scores
from minbert.evaluate.statistics import Interval, Spread, alike, interval, steadied
from minbert.spec.protocol import OVERALL_TASKS, RULES


def learned(scores: Scores, of: Of, overall_tasks: Sequence[str] = OVERALL_TASKS) -> bool | None:
    """Whether most seeds of a row are above the floor; None if that is not tested.

    By an overall rule: of at least one of its tasks, as the others do not hide what it learned.
    """
    if of.measure in RULES:
        parts = {learned(scores, of._replace(measure=task)) for task in overall_tasks}
        return True if True in parts else None if None in parts else False
    above = [score.learned for score in scores.get(of, {}).values()]
    return None if not above or None in above else sum(map(bool, above)) * 2 > len(above)


def shared_spreads(
    scores: Scores, spreads: Mapping[Of, Spread], overall_tasks: Sequence[str]
) -> dict[Of, Spread]:
    """Return the spread over seeds to be used for each score of a paper that has learned its task.

    Rows share theirs for each split and measure (`statistics.steadied`); `spreads` has the own ones
    of rows of several seeds. A training under two names counts once, and the overall score of a
    row that is the best of others, which trains nothing, does not count.
    """
    groups: dict[tuple[str, ...], list[Of]] = {}
    for of in spreads:
        if learned(scores, of, overall_tasks):
            groups.setdefault(of[1:], []).append(of)
    found: dict[Of, Spread] = {}
    for (_, measure), group in groups.items():
        # An overall score has the key of its last stage alone, which rows of other tasks may share.
        tasks = overall_tasks if measure in RULES else (measure,)
        trained = {}
        for of in group:
            parts = [scores.get(of._replace(measure=task), {}) for task in tasks]
            runs = tuple((part[seed].key, seed) for part in parts for seed in part)
            if all(score.key for score in scores[of].values()):
                trained[runs] = spreads[of]
        rows = alike(trained.values())
        found |= {of: steadied(spreads[of], rows) for of in group}
    return found


def over_seeds(scores: Scores, overall_tasks: Sequence[str] = OVERALL_TASKS) -> dict[Of, Interval]:
    """Return the mean over seeds of every score of a paper; `scores` are all that it has.

    Of one seed, the 95 % interval is that over examples. Of several, it is Student's t interval
    with the variance that rows of the paper which have learned the task share
    (`statistics.steadied`), as in the claims. A row that has not learned it has its own, as has
    every gain over single tasks: all rows' gains move with the same runs of the reference.
    """
    values = {of: [score.value for score in seeds.values()] for of, seeds in scores.items()}
    several = {of: float(np.var(v, ddof=1)) for of, v in values.items() if len(v) > 1}
    own = {of: Spread(var, var, len(values[of]) - 1) for of, var in several.items()}
    used = shared_spreads(scores, own, overall_tasks)
    found = {}
    for of, by_seed in scores.items():
        seeds = list(by_seed.values())
        shared = (used[of].whole, used[of].freedom) if of in used else None
        lasts = [score.last for score in seeds if score.last is not None]
        tested = seeds[0].learned is not None
        found[of] = interval(values[of], seeds[0].error, shared)._replace(
            last=fmean(lasts) if lasts else None,
            floor=seeds[0].floor,
            above=sum(score.learned is True for score in seeds) if tested else None,
            constant=sum(score.constant is True for score in seeds) if tested else None,
            learned=learned(scores, of, overall_tasks),
        )
    return found


def ranked(scores: Scores, rule: str, split: str = "dev") -> dict[str, dict[int, float]]:
    """Return {variant: {seed: overall score by `rule`}}, the highest mean over seeds first.

    Rows that are the best of other variants are left out: they train nothing, and what they show
    is a choice among the others. The first variant in the table wins a tie.
    """
    found = {
        of.variant: {seed: score.value for seed, score in by_seed.items()}
        for of, by_seed in scores.items()
        if (of.split, of.measure) == (split, rule) and all(s.key for s in by_seed.values())
    }
    return dict(sorted(found.items(), key=lambda item: -fmean(item[1].values())))
