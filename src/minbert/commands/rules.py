"""What the rules ask of the plan: each job's inputs, command, priority and resources.

The functions take a job's wildcards: its key, which says what kind of job it is, and for a training
its seed.
"""

from __future__ import annotations

import filecmp
import math
import shlex
from collections import defaultdict
from collections.abc import Callable, Iterator
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import snakemake.common
import snakemake.rules
from snakemake.exceptions import WorkflowError
from snakemake.io import ancient

from minbert.base.errors import did_you_mean
from minbert.devices.slurm import has_gpus
from minbert.plan.cost import Costs, chains, job_threads
from minbert.plan.pending import Job, Pending, inputs
from minbert.store.node import KINDS, Node

SOON = 10**12
"""The priority of what people look at: it is made in seconds, so before more training."""

# Snakemake asks for the parameters of the same few functions some twenty times a job.
for _module in (snakemake.common, snakemake.rules):
    _module.get_function_params = cache(_module.get_function_params)


class Rules:
    """What Snakemake is told of the jobs of a plan, of which `jobs` would run.

    `cores` are shared by all jobs; None: each runs on a node of a cluster. The plan's record has
    the name `record`.
    """

    def __init__(self, jobs: Pending, record: str, cores: int | None) -> None:
        self.plan, self.jobs, self.cores = jobs.plan, jobs, cores
        wish = self.plan.config.device
        self.costs = Costs(self.plan, gpu=has_gpus(wish) if cores is None else None)
        self.mem_mb, self.runtime = self._asks(self.costs.mem_mb), self._asks(self.costs.minutes)
        self.gpu = self._asks(self.costs.gpus, growth=1)
        self.threads = job_threads(jobs, cores)  # of a training
        self.at = f"--results {shlex.quote(str(self.plan.root))} --plan {record}"
        """The options of every step: the results root, and the plan that the job belongs to."""
        self._nodes = {key: node for (_, key), node in self.plan.nodes.items()}

    def job(self, wildcards: Any) -> Job:
        """Return a job's node and seed; an error if the plan has no such key."""
        node = self._nodes.get(wildcards.key)
        if node is None:
            said = f"the configuration has no job with key {wildcards.key}"
            raise WorkflowError(f"{said}; `minbert plan` lists its jobs")
        return node, int(wildcards.seed) if node.kind == "train" else None

    def inputs(self, wildcards: Any) -> list[str]:
        """Return the files that a job is made from, as far as Snakemake has to see them.

        The age of files does not matter, as their paths say what they hold: a copy of the results
        that has lost its times makes nothing again.
        """
        return self._inputs(self.job(wildcards))

    def command(self, wildcards: Any) -> str:
        """Return the step that makes a job's files, without `--threads`."""
        node, seed = self.job(wildcards)
        words = ["make", f"{node.kind}-{node.key}", self.at]
        if seed is not None:
            words.append(f"--seed {seed}")
        if KINDS[node.kind].computes:
            words.append(f"--memory {self.costs.device_mb(node)}")
        return " ".join(words)

    def priority(self, wildcards: Any) -> int:
        """Return the milliseconds of the longest chain of trainings that begins with a job."""
        return math.ceil(1000 * self._chains.get(self.job(wildcards), 0))

    def _asks(self, of: Callable[[Node], int], growth: int = 2) -> Callable[..., int]:
        """Return what a job asks for, which is `growth` times as much at each attempt."""
        return lambda wildcards, attempt: of(self.job(wildcards)[0]) * growth ** (attempt - 1)

    def groups(self) -> Iterator[tuple[str, list[str], list[Path], str]]:
        """Yield the jobs that make what people look at: two for each paper, one for all.

        Each makes what is missing of several nodes, one after the other. Of each there is its name,
        inputs that others make, outputs, and the step.
        """
        made: dict[str, list[Node]] = defaultdict(list)
        for node in self.plan.shown.values():
            what = "figures" if node.kind == "figure" else "scores"
            paper = str(node.spec.get("paper", "")).replace("-", "_")
            made[f"{what}_{paper}" if paper else "summary"].append(node)
        for name, nodes in made.items():
            missing = [node for node in nodes if (node, None) in self.jobs] or nodes
            own = {self.jobs.folder((node, None)) for node in nodes}
            needed = dict.fromkeys(path for node in missing for path in self._inputs((node, None)))
            yield (
                name,
                [path for path in needed if str(Path(path).parent) not in own],
                [node.folder(self.plan.root) / file for node in missing for file in node.outputs],
                " ".join(["make", *(f"{node.kind}-{node.key}" for node in missing), self.at]),
            )

    def _inputs(self, job: Job) -> list[str]:
        return [ancient(path) for path in inputs(self.jobs, job, apart=self.cores is None)]

    def keyed(self, wildcards: Any, dag: Any) -> Any:
        """Return the keyed file of a readable name.

        Snakemake goes by age alone, which says nothing of what a plain file holds: if that is not
        the keyed one's content, the file is forced, as by `--forcerun`.
        """
        name, products = wildcards.name, self.plan.products
        plain = self.plan.names / name
        if name not in products:
            near = did_you_mean(name, products)
            raise WorkflowError(f"{plain}: the configuration makes no such file.{near}")
        source = products[name]
        if not (source.exists() and plain.exists() and filecmp.cmp(source, plain, shallow=False)):
            dag.forcefiles.add(str(plain))
        return ancient(source)

    @cached_property
    def _chains(self) -> dict[Job, float]:
        return chains(self.jobs, self.costs)
