"""What the seeds of rows come to: mean, interval, whether a row learned its task; rows by score.

Tables, figures, claims and the report all ask here.

A variance over two or three seeds says little, so that a t distribution with one or two degrees of
freedom decides almost nothing. Rows of one paper are trained in similar ways, and scored on the
same examples. So the mean of their variances, with the degrees of freedom of all, serves for each
of them: the pooled variance of an analysis of variance, and of laboratories that measure alike (ISO
5725-2). As there, a row whose variance is an outlier by Cochran's test is not one of them; nor are
trainings that have not learned their task, which fail rather than vary.
"""

from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean
from typing import NamedTuple

import numpy as np
from scipy.special import fdtrc, stdtrit

from minbert.evaluate.reading import LEVEL, Of, Scores
from minbert.evaluate.scoring import Floats
from minbert.spec.protocol import OVERALL_TASKS, RULES


class Interval(NamedTuple):
    """A mean over `n` values; `low` and `high` bound its interval (None if unknown).

    `sd` is the values' own standard deviation, with n - 1 degrees of freedom; None of a single one.
    Of scores (`seeds.over_seeds`), `last` is the mean after the last epoch, `floor` that of the
    score, `above` how many seeds have learned the task and `constant` how many predict one class or
    number; `learned` whether the row has learned. These are None where unknown.
    """

    mean: float
    low: float | None = None
    high: float | None = None
    n: int = 1
    sd: float | None = None
    last: float | None = None
    floor: float | None = None
    above: int | None = None
    constant: int | None = None
    learned: bool | None = None

    def in_words(self, digits: int = 3, sign: str = "") -> str:
        """Return the mean and half the interval's width, if it has one; `sign` "+" is shown too."""
        half = "" if self.high is None else f" ± {self.high - self.mean:.{digits}f}"
        return f"{self.mean:{sign}.{digits}f}{half}"


def interval(
    values: Sequence[float], error: float | None = None, shared: "Spread | None" = None
) -> Interval:
    """Return the mean of `values` and its 95 % Student-t interval.

    mean +- t(n - 1) * s / sqrt(n), with s the standard deviation with n - 1 degrees of freedom
    (Student, 1908), or with the variance and degrees of freedom that are `shared`. A single value
    has none, or that of its standard `error` over examples, if that is given.
    """
    n, mean, sd, freedom = len(values), float(np.mean(values)), None, np.inf
    if n > 1:
        sd = float(np.std(values, ddof=1))
        variance, freedom = (shared.whole, shared.freedom) if shared else (sd**2, n - 1)
        error = np.sqrt(variance / n)
    if error is None:
        return Interval(mean)
    half = stdtrit(freedom, 1 - LEVEL / 2) * error
    return Interval(mean, mean - half, mean + half, n, sd)


OUTLIER = 0.01
"""The level of Cochran's test; ISO 5725-2 calls what fails it an outlier."""

ALMOST = 1 + 1e-9
"""Two rows alone have the same spread when compared seed by seed, but for rounding."""


class Spread(NamedTuple):
    """The variance of scores over seeds, and its degrees of freedom.

    `whole` is that of the scores, `variance` that of infinitely many examples.
    """

    variance: float
    whole: float
    freedom: float


BySeed = Mapping[int, Floats]
"""A row's scores by seed, each [1 + b] (`bootstrap.System`)."""


def own_spread(scores: Floats, share: float = 1.0) -> Spread | None:
    """Return the spread of one row's `scores` [1 + b, s] (`bootstrap.System`); None of one seed.

    The part that comes from erring on other examples is subtracted, as the examples' draws have it
    already (Davison & Hinkley 1997, section 3.8). What is left is negative where the spread is
    within that part. Without draws (b = 0), nothing is. Of the s - 1 degrees of freedom, this
    `share` is the row's own.
    """
    freedom, of_examples = share * (scores.shape[1] - 1), 0.0
    if freedom == 0:
        return None
    about_mean = scores - scores.mean(axis=1, keepdims=True)
    if len(scores) > 1:
        of_examples = about_mean[1:].var(axis=0, ddof=1).sum() / freedom
    whole = np.square(about_mean[0]).sum() / freedom
    return Spread(whole - of_examples, whole, freedom)


def seed_effects(rows: Sequence[BySeed]) -> tuple[BySeed, float]:
    """Return what the scores of each seed have in common, and the share of freedom that is left.

    Rows with the same seed draw the same batches, and begin with the same heads. This is the fit of
    an additive layout of rows and seeds by least squares; some scores may be missing. Nothing is
    fitted if it left no degree of freedom.
    """
    cells = [(row, seed) for row, of in enumerate(rows) for seed in of]
    of_rows, of_seeds = np.array(cells).reshape(-1, 2).T
    design = np.hstack([of[:, None] == np.unique(of) for of in (of_rows, of_seeds)]).astype(float)
    left = len(cells) - np.linalg.matrix_rank(design)
    if left == 0:
        return {}, 1.0
    scores = np.array([rows[row][seed] for row, seed in cells])
    fitted = np.linalg.lstsq(design, scores, rcond=None)[0][len(rows) :]
    fitted -= fitted.mean(axis=0)  # a seed of other rows alone counts as an average one
    effects = dict(zip(np.unique(of_seeds).tolist(), fitted, strict=True))
    return effects, left / (len(cells) - len(rows))


def alike(rows: Iterable[Spread]) -> list[Spread]:
    """Return the spreads of `rows` without the outliers, the smallest first."""
    found = sorted(rows, key=lambda row: row.whole)
    while len(found) > 1 and _is_outlier(found[-1], found[:-1]):
        found.pop()
    return found


def _is_outlier(one: Spread, others: Sequence[Spread]) -> bool:
    """Whether `one` is too large by Cochran's test, for any numbers of seeds ('t Lam 2010)."""
    rest = _mean(others)
    if rest.whole == 0:
        return one.whole > 0
    chance = fdtrc(one.freedom, rest.freedom, one.whole / rest.whole)
    return chance * (1 + len(others)) <= OUTLIER


def _mean(spreads: Iterable[Spread]) -> Spread:
    variances, wholes, freedoms = zip(*spreads, strict=True)
    variance, whole = (np.average(of, weights=freedoms) for of in (variances, wholes))
    return Spread(variance, whole, sum(freedoms))


Trainings = Mapping[str, str]
"""The training KEY.SEED that each task of a run is scored by."""


class Row(NamedTuple):
    """The trainings of each seed of a score, and what became of them.

    `learned` is whether most seeds are clearly above the floor, None if that is not tested; by an
    overall rule, of at least one of its tasks, as the others do not hide what was learned, and most
    seeds learned all that most of them did. `failed` are the seeds that have not learned what most
    of them have, by an overall rule on one of its tasks. A row that is the best of others is not
    `trained`: its overall score has no key.
    """

    runs: Mapping[int, Trainings]
    learned: bool | None
    failed: Sequence[int]
    trained: bool


def rows_of(scores: Scores, overall_tasks: Sequence[str] = OVERALL_TASKS) -> dict[Of, Row]:
    """Return what became of the seeds of each score of a paper."""
    rows = {}
    for of, by_seed in scores.items():
        # An overall score has the key of its last stage alone, which others may share.
        tasks = overall_tasks if of.measure in RULES else (of.measure,)
        parts = {task: scores.get(of._replace(measure=task), {}) for task in tasks}
        above = {task: [one.learned for one in part.values()] for task, part in parts.items()}
        most = [parts[task] for task, each in above.items() if each.count(True) * 2 > len(each)]
        failed = [n for n in by_seed if any(part[n].learned is False for part in most)]
        untested = None in above.get(of.measure, ())
        rows[of] = Row(
            {
                n: {task: f"{part[n].key}.{n}" for task, part in parts.items() if n in part}
                for n in sorted(by_seed)
            },
            None if untested else bool(most) and len(failed) * 2 < len(by_seed),
            failed,
            all(score.key for score in by_seed.values()),
        )
    return rows


def shared_spreads(
    rows: Mapping[Of, Row], drawn: Mapping[Of, BySeed], paired: bool = False
) -> dict[Of, Spread]:
    """Return the spread over seeds to be used for each score of a paper that has learned its task.

    Rows of several seeds share theirs for each split and measure: the mean of those of `drawn` that
    are `alike`, weighted by their degrees of freedom; or the row's own where that is larger, so
    that rows which vary more than the others raise few false alarms (`tests/nulls`). An outlier has
    its own, with its own degrees of freedom. If rows are to be compared seed by seed, `paired`, the
    spread is without what those that are alike have in common in a seed (`seed_effects`).

    A training under two names counts once, and the overall score of a row that is the best of
    others, which trains nothing, does not count.
    """
    groups: dict[tuple[str, ...], dict[Of, Spread]] = {}
    for of, values in drawn.items():
        spread = own_spread(np.array([*values.values()]).T)
        if spread and rows[of].learned:
            groups.setdefault(of[1:], {})[of] = spread
    found: dict[Of, Spread] = {}
    for own in groups.values():
        runs = {str(rows[of].runs): of for of in own if rows[of].trained}
        usual = alike(own[of] for of in runs.values())
        like = [of for of in own if usual and not _is_outlier(own[of], usual)]
        pool = [of for of in runs.values() if of in like]
        effects, share = seed_effects([drawn[of] for of in pool]) if paired else ({}, 1.0)
        for of in like:
            rest = [value - effects.get(seed, 0.0) for seed, value in drawn[of].items()]
            own[of] = own_spread(np.array(rest).T, share) or own[of]
        found |= own
        for of in like:
            mean = _mean(own[each] for each in pool)
            same = own[of]._replace(freedom=mean.freedom)
            found[of] = same if same.whole > ALMOST * mean.whole else mean
    return found


def over_seeds(scores: Scores, overall_tasks: Sequence[str] = OVERALL_TASKS) -> dict[Of, Interval]:
    """Return the mean over seeds of every score of a paper; `scores` are all that it has.

    Of one seed, the 95 % interval is that over examples. Of several, it is Student's t interval
    with the variance that rows of the paper share of which every seed has learned the task
    (`shared_spreads`). Other rows have their own, as has every gain over single tasks: all rows'
    gains move with the same runs of the reference.
    """
    rows = rows_of(scores, overall_tasks)
    drawn = {
        of: {seed: np.array([score.value]) for seed, score in seeds.items()}
        for of, seeds in scores.items()
        if not rows[of].failed
    }
    used = shared_spreads(rows, drawn)
    found = {}
    for of, by_seed in scores.items():
        first, *_ = seeds = list(by_seed.values())
        lasts = [score.last for score in seeds if score.last is not None]
        tested = first.learned is not None
        values = [score.value for score in seeds]
        found[of] = interval(values, first.error, used.get(of))._replace(
            last=fmean(lasts) if lasts else None,
            floor=first.floor,
            above=sum(score.learned is True for score in seeds) if tested else None,
            constant=sum(score.constant is True for score in seeds) if tested else None,
            learned=rows[of].learned,
        )
    return found


def ranked(scores: Scores, rule: str) -> list[Of]:
    """Return the rows' overall scores on dev by `rule`, the highest mean over seeds first.

    Rows that are the best of other variants are left out: they train nothing, and what they show
    is a choice among the others. The first variant in the table wins a tie.
    """
    means = {
        of: fmean(score.value for score in by_seed.values())
        for of, by_seed in scores.items()
        if of[1:] == ("dev", rule) and all(score.key for score in by_seed.values())
    }
    return sorted(means, key=lambda of: -means[of])
