"""Whether what was measured bears a claim out."""

from __future__ import annotations

from collections.abc import Sequence

from scipy.special import stdtr

from minbert.evaluate.bootstrap import Estimate

HOLDS, FAILS, NOISE, NOT_RUN = "holds", "does not hold", "within noise", "not run"
LEVEL = 0.05


def against(estimate: Estimate, direction: str, margin: float) -> float:
    """Return how likely the true difference is outside of what is claimed: a tail probability.

    `higher` and `lower` claim a difference above or below 0; `not higher` and `not lower` one of
    at most, or at least minus, `margin` (a test of non-inferiority); `same` both of these (two
    one-sided tests, Schuirmann 1987), of which the worse counts. The probability is that of the t
    distribution around the estimate.
    """
    tails = []
    if direction == "higher":
        tails.append(_below(estimate, 0.0, including=True))
    if direction == "lower":
        tails.append(1 - _below(estimate, 0.0, including=False))
    if direction in ("same", "not lower"):
        tails.append(_below(estimate, -margin, including=False))
    if direction in ("same", "not higher"):
        tails.append(1 - _below(estimate, margin, including=True))
    return max(tails)


def _below(estimate: Estimate, bound: float, including: bool) -> float:
    if estimate.error == 0:  # the same run twice: the difference is known
        return float(estimate.value < bound or (including and estimate.value == bound))
    return float(stdtr(estimate.freedom, (bound - estimate.value) / estimate.error))


def decision(tails: Sequence[float]) -> tuple[float, bool]:
    """Return (p, whether for the claim) of a claim about one or several pairs, from `against`.

    The claim holds only if it does for each pair, so the largest tail counts (an
    intersection-union test, Berger 1982). It fails if it does for any of k pairs, whose smallest
    chance counts k times (Bonferroni). p is two-sided: twice the smaller of the two.
    """
    worst = max(tails)
    fails = min(1.0, len(tails) * (1 - worst))
    return min(1.0, 2 * min(worst, fails)), worst <= fails


def verdict(adjusted: float, supports: bool) -> str:
    """Return the verdict from a claim's p-value, adjusted for those judged beside it."""
    if adjusted > LEVEL:
        return NOISE
    return HOLDS if supports else FAILS
