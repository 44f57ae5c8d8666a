"""How many CPU threads a training job gets."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from minbert.grid.plan import Plan

MOST = 4
"""More threads than these leave a step of a few hundred tokens no faster."""


def job_threads(plan: Plan, cores: int | None) -> int:
    """Return the threads of each job on `cores`: as configured, or shared out.

    Jobs side by side on one thread each are done sooner than one after the other on several
    (docs/speed.md), so a job gets more than one only where there are fewer jobs than cores.
    """
    waiting = sum(not node.done(plan.root, seed) for node, seed in plan.runs())
    return threads_of(plan, cores, waiting)


def threads_of(plan: Plan, cores: int | None, waiting: int) -> int:
    """Return the threads of each of the `waiting` training jobs."""
    chosen = plan.config.threads
    if chosen != "auto":
        return chosen
    return max(1, min(MOST, (cores or 1) // max(1, waiting)))
