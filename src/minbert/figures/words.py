"""Numbers in the words of a figure."""

from __future__ import annotations

from collections.abc import Sequence

from minbert.evaluate.statistics import interval


def mean_words(values: Sequence[float]) -> str:
    """Return the mean of seeds to three digits; of several with its 95 % interval."""
    found = interval(values)
    if found.low is None or found.high is None:
        return f"{found.mean:.3f}"
    return f"{found.mean:.3f} [{found.low:.3f}, {found.high:.3f}]"
