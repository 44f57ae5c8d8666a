"""What the rules ask of the plan: each job's inputs, command, priority and resources.

The functions take a job's wildcards: its key, which says what kind of job it is, and for a training
its seed.
"""

from __future__ import annotations

import filecmp
import math
import shlex
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from inspect import signature
from pathlib import Path
from typing import Any, TypeVar

from snakemake.common import overwrite_function_params
from snakemake.exceptions import WorkflowError
from snakemake.io import ancient, report
from snakemake.resources import Resource

from minbert.base.errors import reraise_as
from minbert.devices.slurm import has_gpus
from minbert.plan.cost import Chain, chains
from minbert.plan.demand import Resources, job_threads
from minbert.plan.describe import shown_as
from minbert.plan.outputs import paper_of
from minbert.plan.pending import Job, Pending, inputs
from minbert.plan.plan import Plan
from minbert.store.kinds import KINDS
from minbert.store.node import Node

SOON = 10**12
"""The priority of what people look at: it is made in seconds, so before more training."""

Function = TypeVar("Function", bound=Callable[..., Any])


def _known(function: Function) -> Function:
    """Keep a function's parameters with it: Snakemake asks for them some twenty times a job."""
    overwrite_function_params(function, signature(function).parameters)
    return function


# Its own resources, too: half of all these calls.
overwrite_function_params(Resource.evaluate, signature(Resource("", 0).evaluate).parameters)


class Rules:
    """The jobs of a plan, of which `jobs` would run.

    `cores` are shared by all jobs; None: each runs on a node of a cluster. The plan's record has
    the name `record`. With `urgent` unset, priorities are not computed, as in a process that runs
    one job.
    """

    def __init__(
        self, plan: Plan, jobs: Pending, record: str, cores: int | None, *, urgent: bool = True
    ) -> None:
        self.plan, self.jobs, self.cores = plan, jobs, cores
        wish = plan.config.device
        self.demand = Resources(plan, gpu=has_gpus(wish) if cores is None else None)
        """What jobs ask for."""
        self._urgent = urgent
        self.at = f"--results {shlex.quote(str(plan.root))} --plan {record}"
        """The options of every step: the results root, and the plan that the job belongs to."""
        self._nodes = {key: node for (_, key), node in plan.nodes.items()}

    def job(self, wildcards: Any) -> Job:
        """Return a job's node and seed; an error if the plan has no such key."""
        node = self._nodes.get(wildcards.key)
        if node is None:
            raise WorkflowError(
                f"the configuration asks for no job with key {wildcards.key}; `minbert plan` lists "
                "what it asks for"
            )
        return node, int(wildcards.seed) if KINDS[node.kind].seeded else None

    def made_from(self, *kinds: str) -> Callable[[Any], list[str]]:
        """Return a rule's input function; `kinds` are all that its jobs may be made from.

        The age of files does not matter, as their paths say what they hold: a copy of the results
        that has lost its times makes nothing again.
        """

        @_known
        def files(wildcards: Any) -> list[str]:
            job = self.job(wildcards)
            if other := {need.node.kind for need in job[0].needs.values()}.difference(kinds):
                raise WorkflowError(
                    f"a job of kind '{job[0].kind}' is made from {', '.join(sorted(other))}, which "
                    "its rule does not name"
                )
            return [ancient(path) for path in inputs(self.jobs, job, apart=self.cores is None)]

        return files

    @_known
    def command(self, wildcards: Any) -> str:
        """Return the step that makes a job's files, without `--threads`."""
        node, seed = self.job(wildcards)
        words = [node.kind, node.key, self.at]
        if seed is not None:
            words.append(f"--seed {seed}")
        if KINDS[node.kind].computes:
            words.append(f"--memory {self.demand.device_mb(node)}")
        return " ".join(words)

    @_known
    def priority(self, wildcards: Any) -> int:
        """Return the milliseconds of the longest chain of trainings that begins with a job."""
        job = self.job(wildcards)
        if job[0].kind == "rows":  # Figures read these.
            return SOON
        return math.ceil(1000 * self._chains[job].seconds) if job in self._chains else 0

    @_known
    def mem_mb(self, wildcards: Any, attempt: int) -> int:
        """Return the MB of main memory that a job asks for."""
        node, _ = self.job(wildcards)
        return self.demand.mem_mb(node, attempt)

    @_known
    def runtime(self, wildcards: Any, attempt: int) -> int:
        """Return the minutes that a job asks for."""
        node, _ = self.job(wildcards)
        return self.demand.minutes(node, attempt)

    @_known
    def gpu(self, wildcards: Any) -> int:
        """Return the GPUs that a job asks Slurm for; on one machine jobs lease them."""
        node, _ = self.job(wildcards)
        return self.demand.gpus(node) if self.cores is None else 0

    def groups(self) -> Iterator[Group]:
        """Yield what people look at by the jobs that make it: two for each paper, one for all."""
        made: dict[str, list[Node]] = defaultdict(list)
        for node in self.plan.shown.values():
            what = "figures" if node.kind == "figure" else "scores"
            paper = paper_of(node).replace("-", "_")
            made[f"{what}_{paper}" if paper else "summary"].append(node)
        for name, nodes in made.items():
            yield Group(self, name, nodes, threads=2 if name == "summary" else 1)

    def keyed(self, wildcards: Any, dag: Any) -> Any:
        """Return the keyed file of a plain name.

        Snakemake goes by age alone, which says nothing of what a plain file holds: if that is not
        the keyed one's content, the file is forced, as by `--forcerun`.
        """
        with reraise_as(WorkflowError):
            source, plain = self.plan.product(wildcards.name), self.plan.names / wildcards.name
        if not (source.exists() and plain.exists() and filecmp.cmp(source, plain, shallow=False)):
            dag.forcefiles.add(str(plain))
        return ancient(source)

    @cached_property
    def threads(self) -> int:
        """The CPU threads of a training."""
        return job_threads(self.plan, self.jobs, self.cores)

    @cached_property
    def _chains(self) -> dict[Job, Chain]:
        return chains(self.jobs, self.demand.costs) if self._urgent else {}


@dataclass(frozen=True)
class Group:
    """Nodes that one job makes, one after the other, by the rule `name`.

    The job has the files of those that are missing, and leaves the others as they are.
    """

    rules: Rules
    name: str
    nodes: Sequence[Node]
    threads: int = 1

    @cached_property
    def missing(self) -> Sequence[Node]:
        """The nodes that would be made; all of them if none is missing."""
        return [node for node in self.nodes if (node, None) in self.rules.jobs] or self.nodes

    @property
    def outputs(self) -> list[Any]:
        """The files of a job, each with its title for `snakemake --report`."""
        return [
            self._shown(node, node.folder(self.rules.plan.root) / name)
            for node in self.missing
            for name in node.outputs
        ]

    def _shown(self, node: Node, path: Path) -> Any:
        if node.kind == "scores" or path.suffix == ".tex":
            return path
        category, title = shown_as(node)
        return report(
            path,
            # Functions, so that braces in a title stay what they are.
            category=lambda wildcards: category,
            labels=lambda wildcards: {"what": title, "file": path.suffix[1:]},
        )

    def inputs(self, wildcards: Any) -> list[str]:
        """Return what the nodes are made from, without what the job makes itself."""
        rules = self.rules
        own = {str(node.folder(rules.plan.root)) for node in self.nodes}
        paths = [
            path
            for node in self.missing
            for path in inputs(rules.jobs, (node, None), apart=rules.cores is None)
        ]
        return [ancient(path) for path in dict.fromkeys(paths) if str(Path(path).parent) not in own]

    @property
    def command(self) -> str:
        """Return the step that makes the nodes."""
        words = (f"{node.kind}-{node.key}" for node in self.missing)
        return f"make {' '.join(words)} {self.rules.at}"
