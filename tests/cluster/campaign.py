"""A grid on the cluster while it is disturbed: each fault, when it came, when it was got over."""

from __future__ import annotations

import re
import subprocess
import time
from collections import defaultdict
from itertools import pairwise

from chaos.grid import Tracked
from pipeline.project import wait_for

from cluster.slurm import Slurm
from minbert.track.journal import attempts

LIMIT = 600.0
"""Seconds that a run may take, and that a fault may wait for a job to strike."""

TRAIN = re.compile(r"rule_train_wildcards_([0-9a-f]{16})_(\d+)")
WORKFLOW = ("snakemake", "--workflow-profile", "profiles/slurm", "all")
QUICK = ("--slurm-init-seconds-before-status-checks", "2", "--latency-wait", "20")


class Campaign:
    """One run of `project` on `slurm`, with the faults named, in their order.

    They are "out of memory", which comes first, "requeued", "cancelled" and "Snakemake killed".
    """

    def __init__(self, slurm: Slurm, project: Tracked, faults: tuple[str, ...] = ()) -> None:
        self.slurm = slurm
        self.project = project
        self.faults = dict.fromkeys(faults, "")
        """The keys of the trainings that they struck."""
        self.words = [*WORKFLOW, *QUICK]
        self.log = project.folder / "snakemake.log"
        self.seconds = 0.0

    def run(self) -> None:
        """Run until done; raises `AssertionError` if that, or a fault, does not come about."""
        began = time.monotonic()
        if "out of memory" in self.faults:
            self.project.minbert("plan")
            self.faults["out of memory"] = key = self.project.key("frozen")
            small = f"300 if attempt == 1 and wildcards.key == '{key}' else 4000"
            self.words += ["--set-resources", f"train:mem_mb={small}"]
        self.workflow = self._start()
        jobs = {}
        try:
            for name in self.faults:
                if name != "out of memory":
                    jobs[name], self.faults[name] = self._victim()
                    self._strike(name, jobs[name])
            status = self.workflow.wait(timeout=LIMIT)
        finally:
            self.workflow.kill()
        self.seconds = time.monotonic() - began
        assert status == 0, self.log.read_text(encoding="utf-8")[-3000:]
        assert not self.slurm.jobs(), "jobs are left in the queue"
        self._look_back(jobs)
        self.project.minbert("follow")

    def overlaps(self) -> list[str]:
        """Return the attempts that began while an earlier one at the same stage still trained."""
        ordered = sorted(attempts(self.project.root), key=lambda of: (of.group, of.name))
        return [
            after.name
            for before, after in pairwise(ordered)
            if before.group == after.group
            and any(when > after.read()[0]["started"] for *_, when in before.read()[0]["points"])
        ]

    def jobs(self) -> list[dict[str, str]]:
        """Return what Slurm says of all jobs of this run."""
        folder = str(self.project.folder)
        return [job for job in self.slurm.shown().values() if job.get("WorkDir") == folder]

    def asked(self) -> dict[str, set[str]]:
        """Return {rule or group: GPUs that its jobs were given}."""
        found: dict[str, set[str]] = defaultdict(set)
        for job in self.jobs():
            rule = job.get("Comment", "").removeprefix("rule_").partition("_")[0]
            found[rule].add(job.get("TresPerJob", ""))
        return found

    def _start(self) -> subprocess.Popen[bytes]:
        where = self.project.folder
        with self.log.open("ab") as out:
            return subprocess.Popen(
                self.words, cwd=where, env=self.project.environment, stdout=out, stderr=out
            )

    def _victim(self) -> tuple[str, str]:
        """Wait for a training that has saved a state and was not struck; return job and key."""
        found: list[tuple[str, str]] = []

        def seen() -> bool:
            assert self.workflow.poll() is None, "the run ended before all faults had come"
            for job, (state, comment) in self.slurm.jobs().items():
                match = TRAIN.match(comment)
                if state == "RUNNING" and match and match[1] not in self.faults.values():
                    work = self.project.root / "work" / match[1] / f"seed{match[2]}"
                    if any(work.glob("state-*.pt")):
                        found.append((job, match[1]))
            return bool(found)

        wait_for(seen, "no training to strike", LIMIT)
        return found[0]

    def _strike(self, fault: str, job: str) -> None:
        if fault == "requeued":
            self.slurm.command("scontrol", "requeue", job)
        elif fault == "cancelled":
            self.slurm.command("scancel", job)
        else:
            self.workflow.kill()
            self.workflow.wait()
            assert job in self.slurm.jobs(), "the job went with Snakemake: nothing is tested"
            self.project.run("snakemake", "--unlock")
            self.workflow = self._start()

    def _look_back(self, jobs: dict[str, str]) -> None:
        """Make sure that each fault came at all."""
        shown, printed = self.slurm.shown(), self.log.read_text(encoding="utf-8")
        if "requeued" in jobs:
            assert shown[jobs["requeued"]]["Restarts"] == "1"
        if "cancelled" in jobs:
            assert shown[jobs["cancelled"]]["JobState"] == "CANCELLED"
        if "Snakemake killed" in jobs:
            # The one that was struck may have ended before Snakemake was there again.
            assert re.search(r"an earlier Snakemake left: \d+", printed), "no orphan was ended"
        if key := self.faults.get("out of memory"):
            logs = self.project.folder.glob(f".snakemake/slurm_logs/*/{key}*/*")
            assert any("exceeded memory limit" in p.read_text(errors="replace") for p in logs)
            assert "Trying to restart" in printed
