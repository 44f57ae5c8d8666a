"""How long the jobs of a workflow that have not ended will take, by what the others took."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from minbert.store.job import SEEDED

_SECONDS = {"data": 2.0, "tokens": 2.0, "table": 2.0, "index": 2.0, "publish": 2.0}
_SECONDS |= {"features": 5.0, "report": 6.0}
_OTHERS = 3.0
"""Seconds that jobs other than trainings took in the demo on two cores, their start included."""
_START = 4.0
"""Seconds that a training there took besides those of its record: to start, to read and to end."""


@dataclass(frozen=True)
class Work:
    """One job: its rule, and the key and seed of what it makes, if it has them."""

    rule: str
    key: str = ""
    seed: int | None = None

    @classmethod
    def of(cls, rule: str, wildcards: dict[str, str] | None) -> Work:
        """Return the job of `rule`, perhaps of another workflow, with these wildcards."""
        words = wildcards or {}
        seed = words.get("seed") if rule in SEEDED else None
        return cls(rule, words.get("key", ""), None if seed is None else int(seed))


def trainings(works: Iterable[Work]) -> list[Work]:
    """Return those of `works` that train."""
    return [work for work in works if work.rule == "train"]


def seconds_left(
    waiting: Iterable[Work],
    took: Mapping[Work, float],
    running: Mapping[Work, float],
    costs: Mapping[Work, float],
    side_by_side: tuple[int, int],
) -> float:
    """Return the seconds until the jobs `waiting`, those that run among them, have ended.

    `took` are the seconds of jobs that ended, `running` those since the start of jobs that run, and
    `costs` those that trainings are expected to take. Of trainings and of other jobs so many run
    `side_by_side`.

    What is expected of a rule's jobs is multiplied by its pace: what its jobs took, over what was
    expected of them. Jobs that run count too, with as much as they have run; so a job that takes
    longer than expected slows the pace before it ends. One more job as expected is mixed in, so
    that the first one decides half.
    """
    waiting = list(waiting)
    expected = {
        work: _START + costs[work] if work in costs else _SECONDS.get(work.rule, _OTHERS)
        for work in {*waiting, *took, *running}
    }
    left = {}
    for rule in {work.rule for work in waiting}:
        ended = {work: seconds for work, seconds in took.items() if work.rule == rule}
        begun = {work: seconds for work, seconds in running.items() if work.rule == rule}
        reckoned = sum(expected[work] for work in ended)
        reckoned += sum(min(seconds, expected[work]) for work, seconds in begun.items())
        of_rule = [seconds for work, seconds in expected.items() if work.rule == rule]
        one = sum(of_rule) / len(of_rule)
        pace = (sum(ended.values()) + sum(begun.values()) + one) / (reckoned + one)
        for work in (work for work in waiting if work.rule == rule):
            left[work] = max(0.0, expected[work] * pace - running.get(work, 0.0))
    trained = sum(left[work] for work in trainings(left))
    together = trained / side_by_side[0] + (sum(left.values()) - trained) / side_by_side[1]
    return max(together, max(left.values(), default=0.0))
