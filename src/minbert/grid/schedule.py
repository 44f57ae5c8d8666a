"""A list schedule of jobs on a machine: who runs when, as Snakemake would start them.

Whenever a job ends, those that are ready are looked through in the order given, and
every one that fits into what is free is started (Graham, 1969). Nothing waits for a wide job
to fit, as nothing does in Snakemake. Jobs of one machine only; nothing here knows what they do.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

Capacity = Mapping[str, int]
"""How much of each resource a machine has, such as {"cores": 2}."""


@dataclass(frozen=True)
class Task:
    """One job: `needs` are the names of jobs that have to end first, `uses` what it takes up.

    As in Snakemake, more than there is of a resource means all of it.
    """

    name: str
    kind: str
    seconds: float
    uses: Mapping[str, int]
    needs: tuple[str, ...] = ()


@dataclass
class Schedule:
    """When each job starts and ends, seconds from the beginning, and what bounds the whole."""

    capacity: Capacity
    tasks: Sequence[Task]
    starts: dict[str, float] = field(default_factory=dict)
    ends: dict[str, float] = field(default_factory=dict)
    chain: tuple[str, ...] = ()
    """The critical path: the chain of jobs that takes longest, in order."""
    critical: float = 0.0
    """What it takes, seconds: no number of machines is faster."""

    @property
    def makespan(self) -> float:
        """Seconds from the first start to the last end."""
        return max(self.ends.values(), default=0.0)

    def work(self, resource: str) -> float:
        """Return the seconds that the jobs take of a resource, one unit at a time."""
        most = self.capacity[resource]
        return sum(task.seconds * min(task.uses.get(resource, 0), most) for task in self.tasks)

    def bound(self, resource: str) -> float:
        """Return the seconds that a resource needs even if it is never idle."""
        return self.work(resource) / self.capacity[resource]

    def idle(self, resource: str) -> float:
        """Return the share of a resource's time that nothing uses."""
        return 1 - self.bound(resource) / self.makespan if self.makespan else 0.0


def schedule(tasks: Sequence[Task], capacity: Capacity) -> Schedule:
    """Return the list schedule of `tasks` on `capacity`.

    Raises `ValueError` for a job that needs one that is not there, or is its own predecessor.
    """
    by_name = {task.name: task for task in tasks}
    place = {task.name: number for number, task in enumerate(tasks)}
    users: dict[str, list[str]] = {name: [] for name in by_name}
    waiting = {task.name: len(set(task.needs)) for task in tasks}
    for task in tasks:
        for need in set(task.needs):
            if need not in by_name:
                raise ValueError(f"job '{task.name}' needs '{need}', which is not among the jobs")
            users[need].append(task.name)
    made = Schedule(capacity, tasks)
    free = dict(capacity)
    ready = [place[name] for name, left in waiting.items() if not left]
    running: list[tuple[float, int]] = []
    now = 0.0
    while ready or running:
        ready.sort()
        left = []
        for number in ready:
            task = tasks[number]
            uses = {kind: min(n, capacity[kind]) for kind, n in task.uses.items()}
            if any(free[kind] < n for kind, n in uses.items()):
                left.append(number)
                continue
            for kind, n in uses.items():
                free[kind] -= n
            made.starts[task.name], made.ends[task.name] = now, now + task.seconds
            heapq.heappush(running, (now + task.seconds, number))
        ready = left
        now = running[0][0]
        while running and running[0][0] == now:
            task = tasks[heapq.heappop(running)[1]]
            for kind, n in task.uses.items():
                free[kind] += min(n, capacity[kind])
            for user in users[task.name]:
                waiting[user] -= 1
                if not waiting[user]:
                    ready.append(place[user])
    stuck = [name for name in by_name if name not in made.ends]
    if stuck:
        raise ValueError(f"job '{stuck[0]}' waits for itself")
    made.critical, made.chain = _longest(sorted(tasks, key=lambda t: made.starts[t.name]))
    return made


def _longest(ordered: Sequence[Task]) -> tuple[float, tuple[str, ...]]:
    """Return the longest chain of jobs, which are given so that needs come first."""
    length: dict[str, float] = {}
    before: dict[str, str | None] = {}
    for task in ordered:
        last = max(task.needs, key=lambda need: length[need], default=None)
        before[task.name] = last
        length[task.name] = task.seconds + (length[last] if last else 0.0)
    at: str | None = max(length, key=lambda name: length[name], default=None)
    longest = length[at] if at else 0.0
    chain = []
    while at:
        chain.append(at)
        at = before[at]
    return longest, tuple(reversed(chain))
