"""A grid on the cluster while it is disturbed: each fault, when it came, when it was got over."""

from __future__ import annotations

import re
import subprocess
import time
from collections import defaultdict
from collections.abc import Callable
from itertools import pairwise
from typing import NamedTuple

from chaos.grid import Tracked
from pipeline.project import wait_for

from cluster.slurm import Slurm
from minbert.track.journal import Attempt, attempts

LIMIT = 600.0
"""Seconds that a run may take, and that a fault may wait for a job to strike."""

TRAIN = re.compile(r"rule_train_wildcards_([0-9a-f]{16})_(\d+)")
WORKFLOW = ("snakemake", "--workflow-profile", "profiles/slurm", "all")
QUICK = ("--slurm-init-seconds-before-status-checks", "2", "--latency-wait", "20")


class Fault(NamedTuple):
    """One fault: what it did, and the training and the Slurm job that it struck."""

    name: str
    key: str
    job: str = ""


class Campaign:
    """One run of `project` on `slurm`, with the faults named (see `FAULTS`), in their order.

    The run may take `LIMIT` seconds.
    """

    def __init__(
        self,
        slurm: Slurm,
        project: Tracked,
        faults: tuple[str, ...] = (),
    ) -> None:
        self.slurm = slurm
        self.project = project
        self.names = faults
        self.more: tuple[str, ...] = ()
        self.faults: list[Fault] = []
        self.log = project.folder / "snakemake.log"
        self.seconds = 0.0
        self._struck: set[str] = set()

    def run(self) -> None:
        """Run until done; raises `AssertionError` if that, or a fault, does not come about."""
        began = time.monotonic()
        if "out of memory" in self.names:
            key = self._a_key()
            small = f"300 if attempt == 1 and wildcards.key == '{key}' else 4000"
            self.more += ("--set-resources", f"train:mem_mb={small}")
            self._struck.add(key)
            self.faults.append(Fault("out of memory", key))
        self.workflow = self._start()
        try:
            for name in self.names:
                if name != "out of memory":
                    self._faults[name]()
            status = self.workflow.wait(timeout=LIMIT)
        finally:
            self.workflow.kill()
        self.seconds = time.monotonic() - began
        assert status == 0, self.log.read_text(encoding="utf-8")[-3000:]
        assert not self.slurm.jobs(), "jobs are left in the queue"
        self._look_back()
        self.project.minbert("follow", "--once")

    @property
    def _faults(self) -> dict[str, Callable[[], None]]:
        return {
            "requeued": self._requeue,
            "cancelled": self._cancel,
            "Snakemake killed": self._kill,
        }

    def overlaps(self) -> list[str]:
        """Return the attempts that began while an earlier one at the same stage still trained."""
        groups: dict[tuple[str, str], list[Attempt]] = defaultdict(list)
        for attempt in attempts(self.project.root):
            groups[attempt.group].append(attempt)
        found = []
        for several in groups.values():
            for before, after in pairwise(several):
                last = max((row.time for row in before.rows()[0]), default=0.0)
                found += [after.name] if last > after.run["started"] else []
        return found

    def asked(self) -> dict[str, set[str]]:
        """Return {rule or group: GPUs that its jobs were given} as Slurm says."""
        found: dict[str, set[str]] = defaultdict(set)
        for job in self.slurm.shown().values():
            if job.get("WorkDir") == str(self.project.folder):
                rule = job.get("Comment", "").removeprefix("rule_").partition("_")[0]
                found[rule].add(job.get("TresPerJob", ""))
        return found

    def _start(self) -> subprocess.Popen[bytes]:
        with self.log.open("ab") as sink:
            return subprocess.Popen(
                (*WORKFLOW, *QUICK, *self.more),
                cwd=self.project.folder,
                env=self.project.environment,
                stdout=sink,
                stderr=sink,
            )

    def _a_key(self) -> str:
        self.project.minbert("plan")
        return self.project.key("frozen")

    def _victim(self) -> tuple[str, str]:
        """Wait for a training that has saved a state and was not struck; return job and key."""
        found: list[tuple[str, str]] = []

        def seen() -> bool:
            assert self.workflow.poll() is None, "the run ended before all faults had come"
            for job, (state, comment) in self.slurm.jobs().items():
                match = TRAIN.match(comment)
                if state == "RUNNING" and match and match[1] not in self._struck:
                    work = self.project.root / "work" / match[1] / f"seed{match[2]}"
                    if any(work.glob("state-*.pt")):
                        found.append((job, match[1]))
            return bool(found)

        wait_for(seen, "no training to strike", LIMIT)
        self._struck.add(found[0][1])
        return found[0]

    def _requeue(self) -> None:
        job, key = self._victim()
        self.slurm.command("scontrol", "requeue", job)
        self.faults.append(Fault("requeued", key, job))

    def _cancel(self) -> None:
        job, key = self._victim()
        self.slurm.command("scancel", job)
        self.faults.append(Fault("cancelled", key, job))

    def _kill(self) -> None:
        """Kill Snakemake while a job trains, unlock its folder, and start it again."""
        job, key = self._victim()
        self.workflow.kill()
        self.workflow.wait()
        assert job in self.slurm.jobs(), "the job went with Snakemake: nothing is tested"
        self.faults.append(Fault("Snakemake killed", key, job))
        self.project.run("snakemake", "--unlock")
        self.workflow = self._start()

    def _look_back(self) -> None:
        """Make sure that each fault came at all."""
        shown = self.slurm.shown()
        printed = self.log.read_text(encoding="utf-8")
        for fault in self.faults:
            if fault.name == "requeued":
                assert shown[fault.job]["Restarts"] == "1", shown[fault.job]
            elif fault.name == "cancelled":
                assert shown[fault.job]["JobState"] == "CANCELLED", shown[fault.job]
            elif fault.name == "Snakemake killed":
                # The one that was struck may have ended before Snakemake was there again.
                assert re.search(r"an earlier Snakemake left: \d+", printed), "no orphan was ended"
            else:
                logs = self._slurm_logs(fault.key)
                assert "exceeded memory limit" in logs, f"it had memory enough: {logs[-500:]}"
                assert "Trying to restart" in printed

    def _slurm_logs(self, key: str) -> str:
        folder = self.project.folder / ".snakemake" / "slurm_logs"
        return "".join(p.read_text(errors="replace") for p in sorted(folder.glob(f"*/{key}*/*")))
