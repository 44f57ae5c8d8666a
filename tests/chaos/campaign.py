"""One round: a grid is run until it is done, while its processes are killed at random moments."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from chaos.grid import Tracked
from chaos.harm import followers, jobs, kill_one, processes
from chaos.server import Server

REPAIRS = 6
"""Runs that may be needed after the last harm: a run that ends in an error is started again."""


class Campaign:
    """Harms a project's processes, `left` times at most, and counts what was done.

    With a `server`, which the project tracks to, that one is killed and frozen too.
    """

    def __init__(
        self,
        project: Tracked,
        draw: random.Random,
        left: int,
        server: Server | None = None,
        pause: tuple[float, float] = (1, 10),
    ) -> None:
        self.project = project
        self.draw = draw
        self.left = left
        self.server = server
        self.pause = pause
        self.done: Counter[str] = Counter()
        self.starts = 0
        self._workflows: list[subprocess.Popen[bytes]] = []
        self._server_back = 0.0
        self._harms: dict[str, Callable[[], bool]] = {
            "job": lambda: kill_one(jobs, project.folder, draw),
            "Snakemake": self._kill_workflow,
            "job and Snakemake": self._kill_both,
            "follower": lambda: kill_one(followers, project.folder, draw),
            "job, SIGTERM": lambda: kill_one(jobs, project.folder, draw, signal.SIGTERM),
            "Snakemake, SIGTERM": lambda: self._stop_workflow(signal.SIGTERM),
            "all, Ctrl-C": lambda: self._stop_workflow(signal.SIGINT, group=True),
            "second Snakemake": self._start_second,
            "second Snakemake, its lock ignored": lambda: self._start_second("--nolock"),
        }
        if server is not None:
            self._harms |= {"server killed": server_harm(self, Server.kill)}
            self._harms |= {"server frozen": server_harm(self, Server.freeze)}

    def run(self) -> None:
        """Run until done; raises `AssertionError` if it is not done after the last harm."""
        repairs = 0
        try:
            while True:
                self._start()
                self._disturb()
                alone = len(self._workflows) == 1
                statuses = [workflow.wait() for workflow in self._workflows]
                self._workflows = []
                if alone and statuses == [0]:
                    break
                repairs += self.left == 0
                assert repairs < REPAIRS, f"not done after {repairs} more runs: {self.log}"
                self._unlock()
            self._settle()
        finally:
            for running in processes(self.project.folder):
                running.kill()

    @property
    def log(self) -> Path:
        """What all Snakemakes of this round printed."""
        return self.project.folder / "snakemake.log"

    def _start(self, *more: str) -> None:
        words = ("snakemake", "--cores", "2", "all", *more)
        with self.log.open("ab") as sink:
            self._workflows.append(
                subprocess.Popen(
                    words,
                    cwd=self.project.folder,
                    env=self.project.environment,
                    stdout=sink,
                    stderr=sink,
                    start_new_session=True,
                )
            )
        self.starts += 1

    def _disturb(self) -> None:
        """Do harm now and then for as long as a workflow lives."""
        strike = time.monotonic() + self.draw.uniform(*self.pause)
        while any(workflow.poll() is None for workflow in self._workflows):
            time.sleep(0.05)
            self._restore_server()
            if self.left and time.monotonic() > strike:
                self._strike()
                strike = time.monotonic() + self.draw.uniform(*self.pause)

    def _strike(self) -> None:
        for name in self.draw.sample(sorted(self._harms), len(self._harms)):
            if self._harms[name]():
                self.done[name] += 1
                self.left -= 1
                return

    def _kill_workflow(self) -> bool:
        return self._stop_workflow(signal.SIGKILL)

    def _stop_workflow(self, number: int, *, group: bool = False) -> bool:
        """Send a signal to a Snakemake, or to its jobs too, as a terminal does."""
        alive = [workflow for workflow in self._workflows if workflow.poll() is None]
        if not alive:
            return False
        with suppress(ProcessLookupError):
            (os.killpg if group else os.kill)(self.draw.choice(alive).pid, number)
        return True

    def _kill_both(self) -> bool:
        if not jobs(self.project.folder):
            return False
        return kill_one(jobs, self.project.folder, self.draw) and self._kill_workflow()

    def _start_second(self, *more: str) -> bool:
        if len(self._workflows) > 1:
            return False
        self._start(*more)
        return True

    def _restore_server(self) -> None:
        if self.server is not None and not self.server.up and time.monotonic() > self._server_back:
            self.server.start()

    def _unlock(self) -> None:
        """What the message of a locked folder says to do."""
        self.project.run("snakemake", "--unlock", ends=None)

    def _settle(self) -> None:
        """Wait for the follower; start another one where it was killed, or the server was away.

        `minbert gc` then removes what killed steps were writing; a training does that itself.
        """
        if self.server is not None:
            self.server.wait()
        for _ in range(10):
            told = self.project.minbert("follow", "--once")
            if "not stored yet" not in told and "does not answer" not in told:
                break
        self.project.minbert("gc", "--delete")


def server_harm(campaign: Campaign, harm: Callable[[Server], None]) -> Callable[[], bool]:
    """Return a function that harms the server if it is up; it is brought back some time later."""

    def do() -> bool:
        assert campaign.server is not None
        if not campaign.server.up:
            return False
        harm(campaign.server)
        campaign._server_back = time.monotonic() + campaign.draw.uniform(3, 20)
        return True

    return do
