"""Delta m: what training tasks together gains over training each alone (Maninis et al. 2019)."""

from collections.abc import Mapping, Sequence
from statistics import fmean

from minbert.spec.protocol import OVERALL_TASKS

DELTA_M = "delta_m"
"""Its name as a metric of the task `overall` in the score table."""


def delta_m(
    scores: Mapping[str, float], single: Mapping[str, float], tasks: Sequence[str] = OVERALL_TASKS
) -> float | None:
    """Return the mean over `tasks` of (score - single) / single, in per cent.

    Equation 5 of Maninis et al. (2019), where all scores are better when higher. None if a score
    is missing or a `single` is not above 0, as a gain is then no share of it.
    """
    if not all(task in scores and single.get(task, 0.0) > 0 for task in tasks):
        return None
    return 100 * fmean((scores[task] - single[task]) / single[task] for task in tasks)
