"""The bootstrap: how far scores would move with other examples and other seeds.

Examples are drawn with replacement (Efron & Tibshirani 1993, chapter 6). All systems of a task are
scored on the same draws, so that what makes an example hard or easy for all of them cancels in a
difference: the paired bootstrap. With several seeds, their variance is added (`statistics`).
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple
from zlib import crc32

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import stdtrit

from minbert.evaluate.scoring import CORRELATIONS, METRICS, Floats, averaged, paired, score_task
from minbert.evaluate.statistics import LEVEL, Spread, own_spread
from minbert.spec.protocol import OVERALL_TASKS
from minbert.spec.task import TASKS

RESAMPLES = 2000
SEED = 1993
"""All draws come from it, so that the same predictions have the same intervals."""

POWER = 0.8
"""With which a difference counts as detectable."""

CAUTION = 1.2
"""Factor on the seeds' variance in the degrees of freedom. A variance with few of them is often far
too small, which makes the freedom too large; `tests/nulls` counts the false alarms."""

CAUTION_OF_ONE = 5.0
"""The same factor for one degree of freedom: two seeds, which by chance may be almost equal, of a
row that no other row makes steadier."""

MOST_SEEDS = 50
"""What anyone would train; a claim that needs more needs other examples."""

_CELLS = 2_000_000
"""Examples drawn at a time, so that 40,000 of them need no more memory than 40."""


class Sample(NamedTuple):
    """One system's scores by seed, `values` [s], and on resampled examples, `draws` [b, s].

    `spread` is how far they move with the seed, if more is known of it than these scores say.
    """

    values: Floats
    draws: Floats
    spread: Spread | None = None


class Estimate(NamedTuple):
    """A difference with its standard error and the degrees of freedom of its t distribution.

    `freedom` is infinite with one seed, as only the examples vary. The error's variance would be
    `of_examples` with infinitely many seeds, and `of_seeds` / n more with n of each side.
    """

    value: float
    error: float
    freedom: float
    of_examples: float = 0.0
    of_seeds: float = 0.0

    def interval(self, level: float = LEVEL) -> tuple[float, float]:
        """Return the interval that excludes the true difference with probability `level`."""
        half = float(stdtrit(self.freedom, 1 - level / 2)) * self.error
        return self.value - half, self.value + half

    def detectable(self, level: float = LEVEL) -> float:
        """Return the true difference that a test at `level` finds with probability `POWER`."""
        factors = stdtrit(self.freedom, 1 - level / 2) + stdtrit(self.freedom, POWER)
        return float(factors) * self.error

    def seeds_needed(self, distance: float, seeds: int, level: float = LEVEL) -> int | None:
        """Return how many seeds each side needs for a test at `level` to find `distance`.

        More than the `seeds` of the side that has fewer, two at least; for a true difference as
        large as `distance` and even odds. None if more than `MOST_SEEDS`, as where the examples are
        too few.
        """
        for n in range(seeds + 1, MOST_SEEDS + 1):
            error = np.sqrt(self.of_examples + self.of_seeds / n)
            freedom = max(n - 1, self.freedom * (n - 1) / (seeds - 1))
            if float(stdtrit(freedom, 1 - level / 2)) * error <= distance:
                return n
        return None


def sample(task: str, predictions: Floats, labels: Floats) -> Sample:
    """Return the scores of the `predictions` [s, n] of a system's seeds.

    All systems of a task that are scored on as many examples have the same draws of them.
    """
    values = np.array([score_task(task, seed, labels) for seed in predictions])
    return Sample(values, resampled_scores(task, predictions.T, labels))


def resampled_scores(
    task: str, predictions: Floats, labels: Floats, resamples: int = RESAMPLES
) -> Floats:
    """Return the scores [b, c] of c systems' `predictions` [n, c] on b resamples of the n examples.

    The metric is the task's own. Each task has its own resamples, always the same for the same
    number of examples.
    """
    metric, n = TASKS[task].metric, len(labels)
    found = np.empty((resamples, predictions.shape[1]))
    right = (predictions == labels[:, None]).astype(float)
    sides = np.column_stack([predictions, labels])
    columns = _standardised(sides)
    for rows, drawn in _drawn(task, n, resamples):
        if metric in ("accuracy", "pearson"):
            counts = np.array([np.bincount(row, minlength=n) for row in drawn], dtype=float)
            whole = metric == "accuracy"  # Sums of whole numbers are exact.
            found[rows] = counts @ right / n if whole else _weighted_r(counts / n, columns)
            continue
        for row, places in zip(found[rows], drawn, strict=True):
            row[:] = _scores(metric, sides[places])
    return found


def _scores(metric: str, sides: Floats) -> Floats | list[float]:
    """Return the scores [c] of the first columns of `sides` [n, c + 1]; the last has the labels."""
    if metric != "spearman":
        return [METRICS[metric](column, sides[:, -1]) for column in sides.T[:-1]]
    from scipy.stats import rankdata  # takes a second to import

    ranks = _standardised(rankdata(sides, axis=0))
    return np.clip(ranks[:, :-1].T @ ranks[:, -1] / len(ranks), -1.0, 1.0)


def _standardised(values: Floats) -> Floats:
    """Return columns [n, c] of mean 0 and deviation 1; constant ones become 0."""
    centred = values - values.mean(axis=0)
    deviation = centred.std(axis=0)
    flat = deviation <= 1e-13 * np.abs(values).max(axis=0)
    return np.asarray(np.where(flat, 0.0, centred / np.where(flat, 1.0, deviation)))


def _weighted_r(weights: Floats, columns: Floats) -> Floats:
    """Return Pearson's r [b, c] of the first `columns` [n, c + 1] and the last one.

    Each of `weights` [b, n] adds up to 1. r is 0.0 where a side is constant (`scoring.pearson`).
    """
    means = weights @ columns
    variances = np.clip(weights @ columns**2 - means**2, 0, None)
    covariance = weights @ (columns * columns[:, -1:]) - means * means[:, -1:]
    product = (variances * variances[:, -1:])[:, :-1]
    return np.clip(covariance[:, :-1] / np.sqrt(np.where(product > 1e-14, product, 1.0)), -1.0, 1.0)


def _stream(task: str) -> int:
    """Return the number of a task's own draws, whatever other tasks there are."""
    places = list(TASKS.built_in)
    return places.index(task) if task in places else len(places) + 1 + crc32(task.encode())


def _drawn(task: str, n: int, resamples: int) -> Iterator[tuple[slice, NDArray[np.int64]]]:
    """Yield the places of drawn examples [rows, n], for slices of the resamples."""
    draw = np.random.default_rng([SEED, _stream(task)])
    at_once = max(1, _CELLS // n)
    for start in range(0, resamples, at_once):
        rows = min(at_once, resamples - start)
        yield slice(start, start + rows), draw.integers(0, n, size=(rows, n))


def difference(one: Sample, other: Sample, least: float = 0.0) -> Estimate:
    """Return the mean score of `one` less that of `other`, over their seeds.

    The standard error is the deviation of the bootstrap's differences, with the variance of each
    side's mean over other seeds added; an interval is value +- t * error (Efron & Tibshirani 1993,
    chapters 6 and 12). With one seed this is the plain paired bootstrap over examples. With
    several, the variance over seeds is itself uncertain: the degrees of freedom are Satterthwaite's
    (1946), from the whole variance of the seeds' scores, raised by `CAUTION` (`CAUTION_OF_ONE`),
    and at least those of the variance that has fewer. What is left of that variance without the
    examples' part may by chance be nothing, and the freedom would be infinite just where the
    spread is underrated.

    Two runs that are right on the same examples (such as two that predict one class only) differ
    on no resample. So the error is at least `least`, the weight of one example.
    """
    value = float(one.values.mean() - other.values.mean())
    of_examples = (one.draws.mean(axis=1) - other.draws.mean(axis=1)).var(ddof=1)
    spreads: dict[Spread, float] = {}  # a spread of both sides is one estimate
    of_one = 0.0
    for side in (one, other):
        if spread := side.spread or own_spread(side.values, side.draws):
            spreads[spread] = spreads.get(spread, 0.0) + 1 / len(side.values)
            of_one += max(0.0, spread.variance)
    of_seeds = sum(max(0.0, spread.variance) * share for spread, share in spreads.items())
    error = max(least, float(np.sqrt(of_examples + of_seeds)))
    unsure = sum(
        (_caution(spread) * spread.whole * share) ** 2 / spread.freedom
        for spread, share in spreads.items()
    )
    fewest = min((spread.freedom for spread in spreads), default=0)
    freedom = max(fewest, error**4 / unsure) if unsure else np.inf
    return Estimate(value, error, float(freedom), error**2 - of_seeds, of_one)


def _caution(spread: Spread) -> float:
    return CAUTION_OF_ONE if spread.freedom == 1 else CAUTION


def combined(parts: Mapping[str, Sample], measure: str) -> Sample:
    """Return the part of the task `measure`, or the mean by that overall rule of all parts.

    `parts` are by task, of the same seeds in the same order (`scoring.overall`).
    """
    if measure in TASKS:
        return parts[measure]
    values = averaged({task: part.values for task, part in parts.items()}, measure)
    return Sample(values, averaged({task: part.draws for task, part in parts.items()}, measure))


def constant(score: float) -> Sample:
    """Return a given score, known without error."""
    return Sample(np.array([score]), np.full((RESAMPLES, 1), score))


def standard_error(task: str, prediction: ArrayLike, label: ArrayLike) -> float | None:
    """Return the standard error over examples of the score that `scoring.score_task` gives.

    Accuracy: that of a share. Pearson r: by the infinitesimal jackknife, the root mean square of
    what each example adds to r, over sqrt(n). Both are what the bootstrap over examples comes to
    with many resamples (Efron & Tibshirani 1993, chapters 5 and 22); of other metrics it is that
    bootstrap's. Correlations of constant predictions have none.
    """
    predicted, true = paired(prediction, label)
    n = len(true)
    metric = TASKS[task].metric
    if metric == "accuracy":
        right = float(np.mean(predicted == true))
        return float(np.sqrt(right * (1 - right) / n))
    if metric in CORRELATIONS and 0 in (predicted.std(), true.std()):
        return None
    if metric != "pearson":
        return float(resampled_scores(task, predicted[:, None], true).std())
    x = (predicted - predicted.mean()) / predicted.std()
    y = (true - true.mean()) / true.std()
    influence = x * y - float(np.mean(x * y)) * (x**2 + y**2) / 2
    return float(np.sqrt(np.mean(influence**2) / n))


def overall_error(
    errors: Mapping[str, float | None], rule: str, tasks: Sequence[str] = OVERALL_TASKS
) -> float | None:
    """Return that of the overall score of `tasks` by `rule`; None unless all of them have one.

    Tasks have different examples, so variances add up; (r + 1) / 2 halves that of r.
    """
    known = [error for task in tasks if (error := errors.get(task)) is not None]
    if len(known) < len(tasks):
        return None
    halved = [t for t in tasks if rule == "normalised" and TASKS[t].metric in CORRELATIONS]
    parts = [error / (2 if task in halved else 1) for task, error in zip(tasks, known, strict=True)]
    return float(np.linalg.norm(parts) / len(parts))
