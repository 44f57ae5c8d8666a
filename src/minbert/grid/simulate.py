"""`minbert plan --cores N` and `--gpus N`: the plan's jobs scheduled on a machine that need not be.

Seconds are those of the job itself where it has run, else of jobs of its kind; a training's are
`estimate.Costs`'s and what a process takes to start.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property

from minbert.common.errors import UserError
from minbert.common.files import read_json
from minbert.common.words import clock
from minbert.grid.estimate import BATCH_SECONDS, GPU_RATE, Costs, Gpu
from minbert.grid.node import SEEDED, Node, node_folder
from minbert.grid.pending import Pending, pending
from minbert.grid.plan import Plan
from minbert.grid.schedule import Schedule, Task, schedule
from minbert.grid.threads import threads_of
from minbert.grid.wall import wall_seconds

CORES_A_GPU = 8
"""Cores that a machine is taken to have for each GPU, where nobody says."""

START = 3.0
"""Seconds from a training's start to its first step and from its last to its end, in all."""

USUAL = {
    **{"fetch": 5.0, "data": 1.0, "vocabulary": 2.5, "backbone": 10.0, "tokens": 1.0},
    **{"scores": 2.0, "table": 1.5, "index": 1.6, "claims": 2.0},
    **{"figure": 3.5, "report": 10.0, "publish": 0.6},
}
"""Seconds of jobs that train nothing, where none has run: those of the demo on two cores, but
for downloads, which are a guess."""

PRETRAINING = 90.0
"""Seconds of the built-in backbone's pretraining, likewise."""


@dataclass(frozen=True)
class Machine:
    """What to schedule on: cores, and GPUs of one kind."""

    cores: int | None = None
    gpus: int = 0
    gpu: Gpu = field(default_factory=Gpu)

    def __post_init__(self) -> None:
        cores = 1 if self.cores is None else self.cores
        said = {"--cores": cores, "--rate": self.gpu.rate, "--batch-ms": 1000 * self.gpu.batch}
        for word, number in said.items():
            if not number > 0:
                raise UserError(f"{word} is {number}; expected a number above 0")
        if self.gpus < 0:
            raise UserError(f"--gpus is {self.gpus}; expected a number of 0 or more")

    @property
    def capacity(self) -> dict[str, int]:
        """What it has of each resource."""
        cores = self.cores or CORES_A_GPU * max(1, self.gpus)
        return {"cores": cores, **({"gpus": self.gpus} if self.gpus else {})}


def asked_machine(
    cores: int | None, gpus: int, rate: float | None, batch_ms: float | None
) -> Machine | None:
    """Return the machine that the words of a command line ask for; None for none."""
    if not gpus and (rate, batch_ms) != (None, None):
        raise UserError("--rate and --batch-ms are about GPUs: say how many by --gpus N")
    if cores is None and not gpus:
        return None
    batch = BATCH_SECONDS if batch_ms is None else batch_ms / 1000
    return Machine(cores, gpus, Gpu(GPU_RATE if rate is None else rate, batch))


class Simulation:
    """The jobs of a plan that would run, or all of them where none would, on a machine."""

    def __init__(self, plan: Plan, machine: Machine) -> None:
        self.plan = plan
        self.machine = machine
        self.costs = Costs(plan, machine.gpu if machine.gpus else None)
        self.measured = 0
        """How many of the jobs have seconds of their own or of their shape."""
        jobs = pending(plan)
        self.anew = not jobs
        self.jobs: Pending = jobs or self._all()

    def _all(self) -> Pending:
        seeds = self.plan.config.seeds
        return {
            (node, seed): ""
            for node in self.plan.nodes.values()
            for seed in (seeds if node.kind in SEEDED else (None,))
        }

    @cached_property
    def _wall(self) -> dict[tuple[str, str, int | None], float]:
        return {} if self.machine.gpus else wall_seconds(self.plan.base)

    @cached_property
    def _start(self) -> float:
        """Seconds that a training takes beside what its record says, the median of what ran."""
        found = []
        for (kind, key, seed), seconds in self._wall.items():
            record = node_folder(self.plan.root, kind, key, seed) / "run.json"
            if kind == "train" and record.exists():
                found.append(max(0.0, seconds - read_json(record)["outcome"]["seconds"]))
        return statistics.median(found) if found else START

    @cached_property
    def _by_kind(self) -> dict[str, float]:
        """The median seconds of jobs of each kind that have run."""
        found: dict[str, list[float]] = {}
        for (kind, _, _), seconds in self._wall.items():
            found.setdefault(kind, []).append(seconds)
        return {kind: statistics.median(of) for kind, of in found.items()}

    def _seconds(self, node: Node, seed: int | None) -> float:
        own = self._wall.get((node.kind, node.key, seed))
        if own is not None:
            self.measured += 1
            return own
        if node.kind == "train":
            cost = self.costs.of(node)
            self.measured += cost.measured
            return cost.seconds + self._start
        if node.kind in self._by_kind:
            return self._by_kind[node.kind]
        if node.kind == "features":
            return self.costs.features(node) + self._start
        return PRETRAINING if "pretraining" in node.spec else USUAL[node.kind]

    def tasks(self) -> list[Task]:
        """Return the jobs, first what is planned first; the last one publishes."""
        capacity = self.machine.capacity
        trainings = sum(node.kind == "train" for node, _ in self.jobs)
        threads = threads_of(self.plan, capacity["cores"], trainings)
        order = {at: number for number, at in enumerate(self.plan.nodes)}
        jobs = sorted(self.jobs, key=lambda job: (order[job[0].kind, job[0].key], job[1] or 0))
        names = {(node.kind, node.key, seed): _name(node, seed) for node, seed in jobs}
        found = []
        for node, seed in jobs:
            uses = {"cores": 1}
            if node.kind in {"train", "features"}:
                processes = self.plan.processes(node.key) if node.kind == "train" else 1
                uses = {"cores": threads * processes}
                uses |= {"gpus": processes} if "gpus" in capacity else {}
            elif node.kind == "backbone":
                uses = {"cores": capacity["cores"]}
            elif node.kind == "report":
                uses = {"cores": 2}
            needs = [
                names.get((need.node.kind, need.node.key, need.of(seed)), "")
                for need in node.needs.values()
            ]
            found.append(
                Task(
                    _name(node, seed),
                    node.kind,
                    self._seconds(node, seed),
                    uses,
                    tuple(dict.fromkeys(need for need in needs if need)),
                )
            )
        last = self._by_kind.get("publish", USUAL["publish"])
        everything = tuple(task.name for task in found)
        return [*found, Task("publish", "publish", last, {"cores": 1}, everything)]

    def run(self) -> Schedule:
        """Return the schedule."""
        self.measured = 0
        return schedule(self.tasks(), self.machine.capacity)


def _name(node: Node, seed: int | None) -> str:
    return f"{node.kind} {node.key}" + ("" if seed is None else f" s{seed}")


def simulated(plan: Plan, machine: Machine) -> str:
    """Return what the simulation says: makespan, what bounds it, and the critical path."""
    return "\n".join(_lines(plan, machine))


def _lines(plan: Plan, machine: Machine) -> Iterator[str]:
    simulation = Simulation(plan, machine)
    made = simulation.run()
    capacity = machine.capacity
    on = ", ".join(f"{number} {kind}" for kind, number in reversed(capacity.items()))
    which = "all jobs, as none is to run" if simulation.anew else "the jobs to run"
    yield f"Simulated on {on}: {which}, {len(made.tasks)}, {simulation.measured} as measured."
    yield f"Makespan {clock(made.makespan)}, of which the critical path {clock(made.critical)}."
    for kind in reversed(capacity):
        yield (
            f"{kind}: {clock(made.work(kind))} of work, at least {clock(made.bound(kind))} on "
            f"{capacity[kind]}; idle {made.idle(kind):.0%}."
        )
    titles = {_name(n, s): plan.title(n) for n, s in simulation.jobs}
    seconds = {task.name: (task.kind, task.seconds) for task in made.tasks}
    steps = [(seconds[name], titles.get(name, "")) for name in made.chain]
    shown = [f"{kind} {title} {clock(s)}".replace("  ", " ") for (kind, s), title in steps]
    yield f"Critical path: {' > '.join(shown)}."
    if machine.gpus:
        yield (
            f"A run has a GPU to itself: {machine.gpu.rate:.1e} operations/s, a batch in at least "
            f"{1000 * machine.gpu.batch:g} ms, {START:.0f} s to start (assumptions)."
        )
