"""Scores of classes from counts: how often each is right, predicted, and true.

The counts may be shares, and may have leading dimensions: those of resamples.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


class ClassCounts(NamedTuple):
    """For each class [..., c]: examples predicted rightly, predicted as it, and truly of it."""

    hits: Floats
    said: Floats
    true: Floats


def indicators(predicted: Floats, true: Floats) -> Floats:
    """Return what each example adds to a `ClassCounts`, [n, 3 c], for c classes, two or more."""
    classes = max(2, int(max(predicted.max(), true.max())) + 1)
    known = np.arange(classes)
    said, is_true = predicted[:, None] == known, true[:, None] == known
    return np.hstack([said & is_true, said, is_true]).astype(float)


def tally(counts: Floats) -> ClassCounts:
    """Return the tally of sums or means [..., 3 c] of `indicators`."""
    return ClassCounts(*np.split(counts, 3, axis=-1))


def f1(of: ClassCounts) -> Floats:
    """Return the F1 of class 1, 2 TP / (2 TP + FP + FN); 0 if nothing is positive."""
    return _f1(of)[..., 1]


def macro_f1(of: ClassCounts) -> Floats:
    """Return the unweighted mean of F1 over the classes that occur, as predicted or as true."""
    occur = (of.said + of.true) > 0
    return np.asarray(_f1(of).sum(axis=-1) / occur.sum(axis=-1))


def matthews(of: ClassCounts) -> Floats:
    """Return Matthews' correlation of two or more classes, in [-1, 1]; 0 if a side is constant.

    Gorodkin (2004), equation 8: the covariance of the two sides' indicators, over the root of the
    product of their variances.
    """
    n = of.true.sum(axis=-1)
    both = of.hits.sum(axis=-1) * n - (of.said * of.true).sum(axis=-1)
    spread = [n**2 - (side**2).sum(axis=-1) for side in (of.said, of.true)]
    product = np.clip(spread[0], 0, None) * np.clip(spread[1], 0, None)
    varied = product > 1e-12 * n**4
    return np.asarray(np.where(varied, both / np.sqrt(np.where(varied, product, 1.0)), 0.0))


def _f1(of: ClassCounts) -> Floats:
    marked = of.said + of.true
    return np.asarray(2 * of.hits / np.where(marked > 0, marked, 1.0))


OF_COUNTS: dict[str, Callable[[ClassCounts], Floats]] = {
    "f1": f1,
    "macro_f1": macro_f1,
    "matthews": matthews,
}
"""The metrics that counts decide, by name."""
