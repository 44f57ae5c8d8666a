"""The variants of a paper on dev, and how far their scores would move with other examples or seeds.

Examples are drawn with replacement (Efron & Tibshirani 1993, chapter 6). All systems of a task are
scored on the same draws, so that what makes an example hard or easy for all of them cancels in a
difference: the paired bootstrap. With several seeds, systems are compared seed by seed, and the
variance over seeds is added (`seeds.shared_spreads`).

A claim measures a number from the curves of each run, or its score. There are no examples to draw
again for such a number, so its error comes from the seeds alone, with their variance pooled over
rows as for scores.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple
from zlib import crc32

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import stdtrit

from minbert.data.parquet import read_file
from minbert.evaluate.reading import LEVEL, Of, read_predicted
from minbert.evaluate.scoring import (
    CORRELATIONS,
    METRICS,
    Floats,
    accuracy,
    averaged,
    paired,
    pearson,
    weight,
)
from minbert.evaluate.seeds import Row, Spread, Trainings, own_spread, shared_spreads
from minbert.spec.published import MAJORITY
from minbert.spec.task import BUILT_IN, TASKS

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


AT_ONCE = 50
"""Resamples that are scored together: of 40,000 examples, they take little memory."""

LAST = 5
"""The epochs at the end that the measure `spread` is over."""

LEAST = {"gap": 1, "spread": LAST, "epoch": LAST, "loss": 1}
"""How many scored epochs each measure takes: a shorter run would look steady for its length."""


class System(NamedTuple):
    """A system that is compared: its scores by seed, on all examples and on b resamples of them.

    `scores` [1 + b, s] has those on all examples first. A trained system has the numbers of its
    `seeds` and their `runs`; it was scored on so many `examples`, in curves after so many `epochs`,
    and has `learned` its task or not. Seeds that failed to learn what most did are left out:
    `failed` counts them. `paired` and `alone` are how far its scores move with the seed, if more is
    known of it than they say: without and with what all systems have in common in a seed.
    """

    scores: Floats
    seeds: Sequence[int] = ()
    runs: Sequence[Trainings] = ()
    examples: int = 0
    epochs: float = np.inf
    learned: bool = True
    failed: int = 0
    paired: Spread | None = None
    alone: Spread | None = None

    def over(self, seeds: Sequence[int]) -> Floats:
        """Return its mean scores [1 + b] over those of `seeds` that it has; over all, if none."""
        kept = [seed in seeds for seed in self.seeds]
        return (self.scores[:, kept] if any(kept) else self.scores).mean(axis=1)


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
        half = stdtrit(self.freedom, 1 - level / 2) * self.error
        return self.value - half, self.value + half

    def detectable(self, level: float) -> float:
        """Return the true difference that a test at `level` finds with probability `POWER`."""
        factors = stdtrit(self.freedom, 1 - level / 2) + stdtrit(self.freedom, POWER)
        return factors * self.error

    def seeds_needed(self, distance: float, seeds: int, level: float) -> int | None:
        """Return how many seeds each side needs for a test at `level` to find `distance`.

        More than the `seeds` of the side that has fewer, two at least; for a true difference as
        large as `distance` and even odds. None if more than `MOST_SEEDS`, as where the examples are
        too few.
        """
        for n in range(seeds + 1, MOST_SEEDS + 1):
            error = np.sqrt(self.of_examples + self.of_seeds / n)
            freedom = max(n - 1, self.freedom * (n - 1) / (seeds - 1))
            if stdtrit(freedom, 1 - level / 2) * error <= distance:
                return n
        return None


def resampled(task: str, predictions: Floats, labels: Floats, resamples: int = RESAMPLES) -> Floats:
    """Return the scores [1 + b, c] of c systems' `predictions` [c, n], on b resamples of examples.

    The first are those on all n examples. The metric is the task's own. Each task has its own
    resamples, always the same for the same number of examples.
    """
    score, n = METRICS[TASKS[task].metric], len(labels)
    right = (predictions == labels).T.astype(float)
    sides = np.vstack([predictions, labels])
    found: list[Any] = [[score(said, labels) for said in predictions]]
    draw = np.random.default_rng([SEED, _stream(task)])
    for start in range(0, resamples, AT_ONCE):
        drawn = draw.integers(0, n, (min(AT_ONCE, resamples - start), n))
        if score is accuracy:  # Sums of whole numbers are exact.
            counts = np.array([np.bincount(at, minlength=n) for at in drawn], float)
            found.extend(counts @ right / n)
        elif score is pearson:
            rows = (_standardised(sides[:, at]) for at in drawn)
            found += [of[:-1] @ of[-1] / n for of in rows]
        else:
            found += [[score(said, labels[at]) for said in predictions[:, at]] for at in drawn]
    return np.array(found)


def _standardised(rows: Floats) -> Floats:
    """Return `rows` [c, n] with mean 0 and deviation 1; constant ones become 0."""
    centred = rows - rows.mean(axis=1, keepdims=True)
    deviation = rows.std(axis=1, keepdims=True)
    flat = deviation <= 1e-13 * np.abs(rows).max(axis=1, keepdims=True)
    return np.asarray(centred / np.where(flat, np.inf, deviation))


def _stream(task: str) -> int:
    """Return the number of a task's own draws, whatever other tasks there are."""
    places = list(BUILT_IN)
    return places.index(task) if task in places else len(places) + 1 + crc32(task.encode())


def difference(one: System, other: System, least: float = 0.0) -> Estimate:
    """Return the mean score of `one` less that of `other`, over the seeds that both have.

    If they have none in common, or one is no training, it is over all of each. The standard error
    is the deviation of the bootstrap's differences, with the variance of each side's mean over
    other seeds added; an interval is value +- t * error (Efron & Tibshirani 1993, chapters 6 and
    12). With one seed this is the plain paired bootstrap over examples. With several, the variance
    over seeds is itself uncertain: the degrees of freedom are Satterthwaite's (1946), from the
    whole variance of the seeds' scores, raised by `CAUTION` (`CAUTION_OF_ONE`), and at least those
    of the variance that has fewer. What is left of that variance without the examples' part may by
    chance be nothing, and the freedom would be infinite just where the spread is underrated.

    Two runs that are right on the same examples (such as two that predict one class only) differ
    on no resample. So the error is at least `least`, the weight of one example.
    """
    both = [seed for seed in one.seeds if seed in other.seeds]
    means = one.over(both) - other.over(both)
    shares: dict[Spread, float] = {}  # a spread of both sides is one estimate
    of_one = 0.0
    for side in (one, other):
        if spread := (side.paired if both else side.alone) or own_spread(side.scores):
            shares[spread] = shares.get(spread, 0.0) + 1 / (len(both) or side.scores.shape[1])
            of_one += max(0.0, spread.variance)
    of_seeds = sum(max(0.0, spread.variance) * share for spread, share in shares.items())
    error = max(least, np.sqrt(means[1:].var(ddof=1) + of_seeds))
    unsure = 0.0
    for spread, share in shares.items():
        caution = CAUTION_OF_ONE if spread.freedom <= 1 else CAUTION
        unsure += (caution * spread.whole * share) ** 2 / spread.freedom
    fewest = min((spread.freedom for spread in shares), default=0)
    freedom = max(fewest, error**4 / unsure) if unsure else np.inf
    return Estimate(means[0], error, freedom, error**2 - of_seeds, of_one)


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
        right = np.mean(predicted == true)
        return np.sqrt(right * (1 - right) / n)
    if metric in CORRELATIONS and 0 in (predicted.std(), true.std()):
        return None
    if metric != "pearson":
        return resampled(task, predicted[None], true)[1:].std()
    x, y = _standardised(np.vstack([predicted, true]))
    influence = x * y - np.mean(x * y) * (x**2 + y**2) / 2
    return np.sqrt(np.mean(influence**2) / n)


def overall_error(errors: Mapping[str, float], rule: str, tasks: Sequence[str]) -> float | None:
    """Return that of the overall score of `tasks` by `rule`; None unless all of them have one.

    Tasks have different examples, so variances add up; (r + 1) / 2 halves that of r.
    """
    if not {*tasks} <= errors.keys():
        return None
    return float(np.linalg.norm([weight(t, rule) * errors[t] for t in tasks]) / len(tasks))


def measured(measure: str, train: Floats, dev: Floats) -> float:
    """Return the `measure` of a run from its curves, with a value for each epoch.

    `gap`: train less dev score after the last epoch. `spread`: the largest less the smallest dev
    score of the last five epochs. `epoch`: the first whose dev score is within 1 % of the run's
    best, as a share of the run; the best itself may be any epoch of a plateau. `loss`: the mean on
    train over all epochs, as the end of a long run does not show how fast it fell.
    """
    if measure == "spread":
        return np.ptp(dev[-LAST:])
    if measure == "epoch":
        reached = dev >= dev.max() - 0.01 * abs(dev.max())
        return (1 + reached.argmax()) / len(dev)
    return train[-1] - dev[-1] if measure == "gap" else train.mean()


@dataclass(frozen=True, eq=False)
class Systems:
    """Variants with scores on the same dev examples, by `seeds.rows_of`.

    `files` has a file beside the others of each run by KEY.SEED.
    """

    rows: Mapping[Of, Row]
    files: Mapping[str, Path]

    @cache  # noqa: B019 - a process has few of these
    def of(self, task: str, measure: str = "") -> dict[str, System]:
        """Return the variants with scores on `task`, or by an overall rule, and `MAJORITY`.

        All are scored on the same resampled examples. Those that have learned the task share their
        spreads (`seeds.shared_spreads`). Of a `measure` (`measured`), there is no `MAJORITY`.
        """
        found = {}
        for of, row in self.rows.items():
            if of[1:] == ("dev", task):
                failed = row.failed if row.learned else ()
                runs = {seed: run for seed, run in row.runs.items() if seed not in failed}
                system = self._system(runs, task, measure)
                found[of] = system._replace(learned=row.learned is True, failed=len(failed))
        drawn = {
            of: dict(zip(one.seeds, one.scores.T, strict=True))
            for of, one in found.items()
            if np.isfinite(one.scores).all()
        }
        paired, alone = (shared_spreads(self.rows, drawn, of) for of in (True, False))
        systems = {
            of.variant: one._replace(paired=paired.get(of), alone=alone.get(of))
            for of, one in found.items()
        }
        if found and not measure:
            guess = dict.fromkeys(next(iter(runs.values())), MAJORITY)
            systems[MAJORITY] = self._system({0: guess}, task)._replace(seeds=(), runs=())
        return systems

    def _system(self, by_seed: Mapping[int, Trainings], task: str, measure: str = "") -> System:
        seeds, runs = [*by_seed], [*by_seed.values()]
        drawn = {part: self._resampled(part) for part in runs[0]}
        examples = sum(n for _, n in drawn.values())
        if not measure:
            parts = {t: np.stack([of[run[t]] for run in runs], 1) for t, (of, _) in drawn.items()}
            return System(averaged(parts, task), seeds, runs, examples)
        metric = "loss" * (measure == "loss")
        curves = [
            (self._curve(run, "train", task, metric), self._curve(run, "dev", task)) for run in runs
        ]
        epochs = min(len(curve) for pair in curves for curve in pair)
        enough = epochs >= LEAST[measure]
        values = [measured(measure, *pair) if enough else np.nan for pair in curves]
        return System(np.tile(values, (RESAMPLES + 1, 1)), seeds, runs, examples, epochs)

    def _curve(self, run: Trainings, split: str, task: str, metric: str = "") -> Floats:
        """Return the score by epoch of a run.

        Of another `metric` it is the mean over each epoch, and overall the tasks' sum. There is
        none if the tasks were not scored equally often.
        """
        curves = {}
        for part, name in run.items():
            of = {"split": split, "task": part, "metric": metric or TASKS[part].metric}
            path = self.files[name].with_name("history.parquet")
            rows = read_file(path, ("epoch", "value"), of)
            epochs = rows.group_by("epoch").aggregate([("value", "mean")]).sort_by("epoch")
            curves[part] = np.asarray(epochs["value_mean"], float)
        if len({*map(len, curves.values())}) > 1:
            return np.empty(0)
        return np.sum([*curves.values()], axis=0) if metric else averaged(curves, task)

    @cache  # noqa: B019
    def _resampled(self, task: str) -> tuple[dict[str, Floats], int]:
        """Return the scores [1 + b] of all runs of a task, and the number of examples."""
        rows = (row for of, row in self.rows.items() if of[1:] == ("dev", task))
        runs = list(dict.fromkeys(run[task] for row in rows for run in row.runs.values()))
        paths = [self.files[run].with_name("predictions.parquet") for run in runs]
        read = read_predicted(paths, task)
        values, counts = np.unique(read.label, return_counts=True)
        always = np.full(len(read.ids), values[counts.argmax()])
        scores = resampled(task, np.vstack([read.prediction, always]), read.label)
        return dict(zip([*runs, MAJORITY], scores.T, strict=True)), len(read.ids)
