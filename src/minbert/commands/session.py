"""A workflow's start and end, in Snakemake's own process: locks, devices, MLflow, the terminal.

While it runs, nothing deletes results, one follower stores what jobs measure in MLflow, and lines
say how far it is (`progress`). After an error, whatever finished is published.
"""

from __future__ import annotations

import logging
import os
import shlex
import subprocess
import sys
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

from minbert.base.locks import exclusive_lock, results_lock
from minbert.commands.progress import Idle, Progress
from minbert.commands.summary import places
from minbert.devices.gpus import in_words
from minbert.devices.slurm import cancel_orphans
from minbert.plan.describe import write
from minbert.plan.plan import Plan
from minbert.track.store import check_store

_LAST_PASS = 60.0
"""Seconds that the follower has to store what jobs measured last."""


class Session:
    """One run of the workflow of `plan`, whose record has the name `record`.

    If there is nothing to be done, Snakemake calls neither `start` nor `end`, and its `logger` has
    the word; then the places of the results are told.
    """

    def __init__(self, plan: Plan, record: str, logger: logging.Logger) -> None:
        self.plan = plan
        self._options = ["--results", str(plan.root), "--plan", record]
        self._held = ExitStack()  # until this process ends
        self._follower: subprocess.Popen[bytes] | None = None
        self._logger = logger
        logger.addHandler(Idle(places(plan.root, plan.names, plan.config.tracking.enabled)))

    def start(self, workflow: Any, gpu: bool | None) -> None:
        """Lock the results, write what jobs read, and follow Snakemake's `workflow` from now on.

        `gpu`: whether trainings get a GPU each of a cluster; None: jobs run on this machine.
        Raises `UserError` if another workflow runs on these results.
        """
        plan, tracking = self.plan, self.plan.config.tracking.enabled
        plan.check_names()
        self._held.enter_context(results_lock(plan.root))
        plans = plan.root / "store" / "plans"
        self._held.enter_context(exclusive_lock(plans, f"a workflow on {plan.root}"))
        if tracking:
            check_store(plan.root)
        write(plan)
        _tell_devices(plan.config.device, gpu)
        logs = plan.root / "logs"
        logs.mkdir(parents=True, exist_ok=True)
        words = [Path(sys.argv[0]).name, *sys.argv[1:]]  # of Snakemake, for the report
        (logs / "command.txt").write_text(shlex.join(words) + "\n", encoding="utf-8")
        if tracking:
            command = self._minbert("follow", "--until", str(os.getpid()))
            with (logs / "follower.log").open("a", encoding="utf-8") as sink:
                # In a session of its own: Ctrl-C must not end it before its last pass.
                self._follower = subprocess.Popen(
                    command, stdout=sink, stderr=sink, start_new_session=True
                )
        jobs = [(job.rule.name, job.wildcards_dict) for job in workflow.dag.needrun_jobs()]
        self._progress = Progress(plan, [job for job in jobs if job[0] != "all"])
        self._progress.start(self._logger)

    def end(self, *, partial: bool = False) -> None:
        """Complete MLflow, and summarise what ran and came of it; `partial`: publish what there is.

        Tables then mark rows as failed or not run.
        """
        if partial:
            subprocess.run(self._minbert("publish"), check=False)
        if self._follower is not None:
            self._follower.terminate()  # asks for its last pass
            with suppress(subprocess.TimeoutExpired):
                self._follower.wait(_LAST_PASS)
            if self._follower.returncode != 0:  # It was killed, or left something undone.
                subprocess.run(self._minbert("follow", "--once"), check=False)
        self._progress.stop(self._logger)
        print(f"\n{self._progress.ran()}", file=sys.stderr, flush=True)
        subprocess.run(self._minbert("summary"), check=False)

    def _minbert(self, command: str, *more: str) -> list[str]:
        return [sys.executable, "-m", "minbert", command, *self._options, *more]


def _tell_devices(wish: str, gpu: bool | None) -> None:
    """Report once where training will run; on Slurm, cancel jobs of a killed Snakemake."""
    if gpu is None:
        print(in_words(wish), file=sys.stderr)
        return
    none = "run on CPUs: the cluster has no GPU" if wish == "auto" else f"run on {wish}"
    print(f"training jobs {'ask for a GPU each' if gpu else none}", file=sys.stderr)
    if left := cancel_orphans(Path.cwd()):
        print(f"cancelled jobs that an earlier Snakemake left: {' '.join(left)}", file=sys.stderr)
