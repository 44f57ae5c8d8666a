"""How far scores would move with other examples and other seeds: the bootstrap.

Examples are drawn with replacement (Efron & Tibshirani 1993, chapter 6). All systems of a task
are scored on the same draws, so that what makes an example hard or easy for all of them cancels
in a difference: the paired bootstrap. With several seeds these are redrawn as well, for each
system apart: the hierarchical bootstrap.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

from minbert.grid.tasks import TASKS

RESAMPLES = 2000
SEED = 1993
"""All draws come from it: the same predictions have the same intervals."""

_CELLS = 2_000_000
"""Examples drawn at a time, so that 40,000 of them need no more memory than 40."""

Floats = NDArray[np.float64]


class Sample(NamedTuple):
    """One system's scores by seed, `values` [s], and on resampled examples, `draws` [b, s]."""

    values: Floats
    draws: Floats


class Estimate(NamedTuple):
    """A difference with its standard error and 95 % interval.

    `freedom` are the degrees of freedom of the t distribution that the interval follows: infinite
    with one seed, where only the examples vary.
    """

    value: float
    error: float
    freedom: float
    low: float
    high: float


def resampled_scores(
    task: str, predictions: Floats, labels: Floats, resamples: int = RESAMPLES
) -> Floats:
    """Return the scores [b, c] of c systems' `predictions` [n, c] on b resamples of the n examples.

    The metric is the task's own. Pearson's r where a side is constant is 0.0, as in
    `minbert.scoring.pearson`. Tasks have resamples of their own; for one task and number of
    examples they are always the same.
    """
    if TASKS[task].metric == "accuracy":
        return _resampled_means(task, (predictions == labels[:, None]).astype(float), resamples)
    x, y = _standardised(predictions), _standardised(labels[:, None])
    systems = x.shape[1]
    means = _resampled_means(task, np.hstack([x, x * x, x * y, y, y * y]), resamples)
    mx, mxx, mxy = (means[:, i * systems : (i + 1) * systems] for i in range(3))
    my, myy = means[:, -2:-1], means[:, -1:]
    spread = np.clip(mxx - mx**2, 0, None) * np.clip(myy - my**2, 0, None)
    r = (mxy - mx * my) / np.sqrt(np.where(spread > 1e-14, spread, 1.0))
    return np.clip(r, -1.0, 1.0)


def _standardised(values: Floats) -> Floats:
    """Return columns [n, c] of mean 0 and deviation 1; constant ones become 0."""
    centred = values - values.mean(axis=0)
    deviation = centred.std(axis=0)
    flat = deviation <= 1e-13 * np.abs(values).max(axis=0, initial=0.0)
    return np.asarray(np.where(flat, 0.0, centred / np.where(flat, 1.0, deviation)))


def _resampled_means(task: str, values: Floats, resamples: int) -> Floats:
    """Return the means [b, k] of `values` [n, k] over b resamples of its rows."""
    n = len(values)
    draw = np.random.default_rng([SEED, list(TASKS).index(task)])
    found = np.empty((resamples, values.shape[1]))
    at_once = max(1, _CELLS // n)
    counts = np.empty((at_once, n))
    for start in range(0, resamples, at_once):
        rows = min(at_once, resamples - start)
        for row, drawn in zip(counts, draw.integers(0, n, size=(rows, n)), strict=False):
            row[:] = np.bincount(drawn, minlength=n)
        found[start : start + rows] = counts[:rows] @ values / n
    return found


def difference(one: Sample, other: Sample, least: float = 0.0) -> Estimate:
    """Return the mean score of `one` less that of `other`, over their seeds.

    The standard error is the deviation of the bootstrap's differences, and the interval is value
    +- t * error (Efron & Tibshirani 1993, chapters 6 and 12). With one seed this is the plain
    paired bootstrap over examples. With several, the variance that comes from few seeds is itself
    poorly known: the degrees of freedom are Satterthwaite's (1946), the examples' part counting as
    known.

    Two runs that happen to be right on the same examples (such as two that predict one class only)
    differ on no resample either. `least`, the weight of one example, is the smallest error that
    is believed.
    """
    draw = np.random.default_rng([SEED, len(TASKS)])
    value = float(one.values.mean() - other.values.mean())
    spreads = [_seed_variance(sample) for sample in (one, other)]
    draws = [_redrawn(s, v, draw) for s, v in zip((one, other), spreads, strict=True)]
    error = max(least, float(np.std(draws[0] - draws[1], ddof=1)))
    unsure = sum(
        (variance / len(s.values)) ** 2 / (len(s.values) - 1)
        for s, variance in zip((one, other), spreads, strict=True)
        if variance
    )
    freedom = error**4 / unsure if unsure else np.inf
    half = float(stdtrit(freedom, 0.975)) * error
    return Estimate(value, error, float(freedom), value - half, value + half)


def _seed_variance(sample: Sample) -> float:
    """Return the variance of a system's score over seeds, were there endless examples.

    Seeds differ in their scores also because each errs on other examples. That part is in the
    examples' draws already, as the variance of a seed's score about the seeds' mean, and is taken
    off: resampling both levels as they are would count it twice (Davison & Hinkley 1997, section
    3.8). One seed, or a spread that is no larger than that part: 0.
    """
    seeds = len(sample.values)
    if seeds == 1:
        return 0.0
    about_mean = sample.draws - sample.draws.mean(axis=1, keepdims=True)
    of_examples = about_mean.var(axis=0, ddof=1).sum() / (seeds - 1)
    return max(0.0, float(sample.values.var(ddof=1) - of_examples))


def _redrawn(sample: Sample, variance: float, draw: np.random.Generator) -> Floats:
    """Return the system's mean over seeds on other examples and with other seeds, [b].

    The seeds' deviations from their mean are redrawn, scaled to `variance`.
    """
    examples = np.asarray(sample.draws.mean(axis=1))
    if not variance:
        return examples
    resamples, seeds = sample.draws.shape
    deviations = sample.values - sample.values.mean()
    scaled = deviations * np.sqrt(variance / deviations.var())
    drawn = draw.multinomial(seeds, np.full(seeds, 1 / seeds), size=resamples)
    return np.asarray(examples + drawn @ scaled / seeds)
