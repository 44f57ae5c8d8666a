"""The longest chain of trainings behind each job, which says what to start first."""

from __future__ import annotations

import heapq
from collections.abc import Mapping
from typing import NamedTuple

from minbert.plan.cost import Costs
from minbert.plan.pending import Job, Pending


class Chain(NamedTuple):
    """Trainings of which each waits for the one before, and the seconds of all of them."""

    seconds: float
    trainings: tuple[Job, ...]


def chains(jobs: Pending, costs: Costs) -> dict[Job, Chain]:
    """Return, for each job, the longest chain of trainings that begins with it.

    That is how long the grid takes at least once the job has started, however many devices there
    are. Only trainings take time.
    """
    after: dict[Job, list[Job]] = {job: [] for job in jobs}
    for job in jobs:
        for needed in jobs.needs(job):
            if needed in after:
                after[needed].append(job)
    found: dict[Job, Chain] = {}

    def longest(job: Job) -> Chain:
        if job not in found:
            rest = max(map(longest, after[job]), key=lambda chain: chain[0], default=Chain(0.0, ()))
            if job[0].kind == "train":
                rest = Chain(costs.of(job[0]).seconds + rest.seconds, (job, *rest.trainings))
            found[job] = rest
        return found[job]

    for job in jobs:
        longest(job)
    return found


def makespan(jobs: Pending, costs: Costs, first: Mapping[Job, float], devices: int) -> float:
    """Return the seconds until all trainings are done on so many devices, one at a time on each.

    A device that is free starts, of the trainings whose needs are there, the one with the highest
    number in `first`; what else must be made takes no time.
    """
    trainings = [job for job in jobs if job[0].kind == "train"]
    waits = {job: {need for need in jobs.needs(job) if need in first} for job in trainings}
    waits = {job: {n for n in needs if n[0].kind == "train"} for job, needs in waits.items()}
    after: dict[Job, list[Job]] = {job: [] for job in trainings}
    for job, needs in waits.items():
        for need in needs:
            after[need].append(job)
    order = {job: place for place, job in enumerate(trainings)}
    ready = [(-first[job], order[job], job) for job in trainings if not waits[job]]
    heapq.heapify(ready)
    running: list[tuple[float, int, Job]] = []
    now = 0.0
    while ready or running:
        while ready and len(running) < devices:
            _, place, job = heapq.heappop(ready)
            heapq.heappush(running, (now + costs.of(job[0]).seconds, place, job))
        now, _, ended = heapq.heappop(running)
        for job in after[ended]:
            waits[job].remove(ended)
            if not waits[job]:
                heapq.heappush(ready, (-first[job], order[job], job))
    return now
