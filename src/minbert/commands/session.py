"""What Snakemake's process asks of a plan: its rules, and a workflow from its start to its end.

The functions of `Rules` take a job's wildcards: its key, which says what kind of job it is, and for
a training its seed.

While a workflow runs, nothing deletes results, one follower stores what jobs measure in MLflow, and
lines say how far it is: a thread prints them, and counts the events that Snakemake logs when a job
starts, ends or fails, here or on a cluster. After an error, whatever finished is published.
"""

from __future__ import annotations

import filecmp
import logging
import math
import os
import shlex
import subprocess
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import snakemake.common
import snakemake.rules
from snakemake.exceptions import WorkflowError
from snakemake.io import ancient

from minbert.base.errors import did_you_mean
from minbert.base.locks import exclusive_lock, results_lock
from minbert.base.progress import counted, duration, some
from minbert.devices.gpus import describe_devices
from minbert.devices.slurm import cancel_orphans, has_gpus
from minbert.plan.cost import Costs, chains, job_threads
from minbert.plan.describe import title, write
from minbert.plan.pending import Job, Pending, inputs
from minbert.store.node import KINDS, Node
from minbert.track.journal import newest_attempts
from minbert.track.store import check_store

SOON = 10**12
"""The priority of what people look at: it is made in seconds, so before more training."""

_LAST_PASS = 60.0
"""Seconds that the follower has to store what jobs measured last."""
OTHERS = 4.0
"""Seconds that a job is expected to take besides training."""
_STATES = {"job_info": "running", "job_finished": "done", "job_error": "failed"}
_REPLACED = ("group_info", "job_info", "job_started", "job_finished", "progress")
"""Events whose lines on the console these lines replace; Snakemake's log file has them all."""

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
        requested = self.plan.config.device
        self.costs = Costs(self.plan, gpu=has_gpus(requested) if cores is None else None)
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

    def stored_path(self, wildcards: Any, dag: Any) -> Any:
        """Return the path in the store of what has a readable name.

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


@dataclass
class Work:
    """The name of a job, the seconds that it is expected to take, a training's key and seed."""

    name: str
    seconds: float = OTHERS
    run: tuple[str, str] = ("", "")
    state: str = ""
    """One of `_STATES`, or none before the job starts."""


class Session(logging.Handler):
    """One run of the workflow whose jobs are those of `rules`; Snakemake's `logger` tells of them.

    If there is nothing to be done, Snakemake calls neither `start` nor `end`.
    """

    def __init__(self, rules: Rules, logger: logging.Logger) -> None:
        super().__init__()
        self.rules, self.plan, self._logger = rules, rules.plan, logger
        self.jobs: dict[int, Work] = {}  # by Snakemake's number
        self._held = ExitStack()  # until this process ends
        self._ended = threading.Event()
        self._follower: subprocess.Popen[bytes] | None = None
        logger.addHandler(self)

    def start(self, workflow: Any) -> None:
        """Lock the results, write what jobs read, and follow Snakemake's `workflow` from now on.

        Raises `UserError` if another workflow runs on these results.
        """
        plan, root, tracking = self.plan, self.plan.root, self.plan.config.tracking.enabled
        plan.check_names()
        self._held.enter_context(results_lock(root))
        self._held.enter_context(exclusive_lock(root / "store" / "plans", f"a workflow on {root}"))
        if tracking:
            check_store(root)
        write(plan)
        gpu = self.rules.costs.gpu
        where = f"training jobs ask for {'a' if gpu else 'no'} GPU"
        _say(describe_devices(plan.config.device) if gpu is None else where)
        if gpu is not None:
            cancel_orphans(Path.cwd(), _say)
        (logs := root / "logs").mkdir(parents=True, exist_ok=True)
        words = [Path(sys.argv[0]).name, *sys.argv[1:]]  # of Snakemake, for the report
        (logs / "command.txt").write_text(shlex.join(words) + "\n", encoding="utf-8")
        if tracking:
            with (logs / "follower.log").open("a") as sink:
                # In a separate session: Ctrl-C must not end it before its last pass.
                self._follower = subprocess.Popen(
                    self._minbert("follow", "--until", str(os.getpid())),
                    stdout=sink,
                    stderr=sink,
                    start_new_session=True,
                )
        jobs = (job for job in workflow.dag.needrun_jobs() if job.rule.name != "all")
        self.expect({job.jobid: (job.rule.name, job.wildcards_dict) for job in jobs})
        for of in self._logger.handlers:
            if isinstance(of, logging.StreamHandler) and not isinstance(of, logging.FileHandler):
                of.addFilter(_is_shown)
        threading.Thread(target=self._tell, daemon=True).start()

    def expect(self, jobs: Mapping[int, tuple[str, Mapping[str, str]]]) -> None:
        """Begin to count these jobs, each a rule, perhaps of another workflow, and wildcards."""
        self.started = time.monotonic()
        for number, (rule, wildcards) in jobs.items():
            self.jobs[number] = Work(rule)
            if node := self.plan.nodes.get(("train", wildcards.get("key", ""))):
                seconds, seed = OTHERS + self.rules.costs.seconds(node), wildcards["seed"]
                name = f"{title(self.plan, node)} . s{seed}"
                self.jobs[number] = Work(name, seconds, (node.key, seed))

    def emit(self, record: logging.LogRecord) -> None:
        """Count what Snakemake says, if it is an event of a job."""
        said = record.__dict__
        job = self.jobs.get(said.get("jobid", said.get("job_id", -1)))
        if job and (state := _STATES.get(said.get("event", ""))):
            job.state = state

    def _in(self, state: str) -> list[Work]:
        return [job for job in self.jobs.values() if job.state == state]

    def line(self) -> str:
        """Return the state of the workflow in one line.

        The time left is the time so far, times what is expected of the jobs to come over what was
        of those that are done, however many run side by side and how fast this machine is. Nothing
        is said of it before a hundredth is done.
        """
        done, failed = self._in("done"), self._in("failed")
        newest = newest_attempts(self.plan.root) if failed else {}
        ends = [newest[job.run].end() for job in failed if job.run in newest]
        stopped = sum(end.get("status") == "KILLED" for end in ends)
        taken = time.monotonic() - self.started
        parts = [f"{len(done)} of {counted(len(self.jobs), 'job')} done in {duration(taken)}"]
        counts = {"failed": len(failed) - stopped, "interrupted, to be resumed": stopped}
        parts += [f"{number} {what}" for what, number in counts.items() if number]
        if names := sorted(of.name for of in self._in("running")):
            spent, every = (sum(of.seconds for of in works) for works in (done, self.jobs.values()))
            if spent > every / 100:
                parts.append(f"about {duration(taken * (every - spent) / spent)} left")
            parts.append(f"now: {some(names)}")
        return " | ".join(parts)

    def places(self) -> str:
        """Return where the results are, and the command that shows the runs, a line for each."""
        names, config = self.plan.names, self.plan.config
        paths = [names / name for name in ("report.html", "tables", "figures")]
        lines = [str(path) for path in paths if path.exists()]
        if config.tracking.enabled:
            minbert = os.path.relpath(Path(sys.executable).with_name("minbert"))
            lines.append(shlex.join([minbert, "ui", "--results", config.results]))
        return "\n".join(lines)

    def end(self, *, partial: bool = False) -> None:
        """Complete MLflow, and say what ran, and where the results are.

        `partial`: publish what there is; tables then mark rows as failed or not run.
        """
        if partial:
            subprocess.run(self._minbert("publish-partial"), check=False, stdout=sys.stderr)
        if self._follower is not None:
            self._follower.terminate()  # asks for its last pass
            with suppress(subprocess.TimeoutExpired):
                self._follower.wait(_LAST_PASS)
            if self._follower.returncode != 0:  # It was killed, or left something undone.
                subprocess.run(self._minbert("follow"), check=False)
        self._ended.set()
        _say(f"\n{self.line()}\n{self.places()}")

    def _tell(self) -> None:
        """Print a line when jobs have ended, or else now and then; `end` prints the last one."""
        told, before = 0.0, -1
        while not self._ended.wait(1.0):
            now, count = time.monotonic(), len(self._in("done") + self._in("failed"))
            if count < len(self.jobs) and now - told >= (10.0 if count != before else 300.0):
                told, before = now, count
                with suppress(OSError):  # A closed terminal stops no workflow.
                    _say(f"{time.strftime('%H:%M:%S')}  {self.line()}")

    def _minbert(self, command: str, *more: str) -> list[str]:
        options = shlex.split(self.rules.at)
        return [sys.executable, "-m", "minbert", command, *options, *more]


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def _is_shown(record: logging.LogRecord) -> bool:
    """Whether a record belongs on the console beside these lines: errors always do."""
    said = record.getMessage()
    return getattr(record, "event", "") not in _REPLACED and said != "Select jobs to execute..."
