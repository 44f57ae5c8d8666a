"""One round: a grid is run until it is done, while its processes are killed at random moments."""

from __future__ import annotations

import os
import random
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from signal import SIGINT, SIGKILL, SIGTERM

import psutil

from chaos.grid import Tracked
from chaos.server import Server

REPAIRS = 6
"""Runs that may be needed after the last harm: a run that ends in an error is started again."""
NO_JOBS = ("", "follow", "publish", "publish-one", "publish-partial", "plan")


def processes(folder: Path) -> dict[int, str]:
    """Return the processes that work in `folder`, with their steps; "" is another program."""
    found = {}
    for process in psutil.process_iter(["cwd", "cmdline"]):
        if process.info["cwd"] == str(folder):
            _, *words = process.info["cmdline"] or [""]
            found[process.pid] = words[2] if words[:2] == ["-m", "minbert"] else ""
    return found


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
        pause: tuple[float, float] = (2, 16),
    ) -> None:
        self.project = project
        self.draw = draw
        self.left = left
        self.server = server
        self.pause = pause
        self.done: Counter[str] = Counter()
        self.starts = 0
        self.log = project.folder / "snakemake.log"
        self._workflows: list[subprocess.Popen[bytes]] = []
        self._server_back = 0.0
        one = self._signal_one
        self._harms: dict[str, Callable[[], bool]] = {
            "job": lambda: one(self._jobs(), SIGKILL),
            "Snakemake": lambda: one(self._alive(), SIGKILL),
            "job and Snakemake": lambda: one(self._jobs(), SIGKILL) and one(self._alive(), SIGKILL),
            "follower": lambda: one(self._jobs(follow=True), SIGKILL),
            "job, SIGTERM": lambda: one(self._jobs(), SIGTERM),
            "Snakemake, SIGTERM": lambda: one(self._alive(), SIGTERM),
            "all, Ctrl-C": lambda: one(self._alive(), SIGINT, os.killpg),  # as a terminal does
            "second Snakemake": self._start_second,
            "second Snakemake, its lock ignored": lambda: self._start_second("--nolock"),
        }
        if server is not None:
            self._harms["server killed"] = lambda: self._harm_server(server, Server.kill)
            self._harms["server frozen"] = lambda: self._harm_server(server, Server.freeze)

    def run(self) -> None:
        """Run until done; raises `AssertionError` if it is not done after the last harm."""
        repairs = 0
        try:
            while True:
                self._start()
                self._disturb()
                statuses = [workflow.wait() for workflow in self._workflows]
                self._workflows = []
                if statuses == [0]:
                    break
                repairs += self.left == 0
                assert repairs < REPAIRS, f"not done after {repairs} more runs: {self.log}"
                self.project.run("snakemake", "--unlock", ends=None)
            self._settle()
        finally:
            for pid in processes(self.project.folder):
                with suppress(ProcessLookupError):
                    os.kill(pid, SIGKILL)

    def _start(self, *more: str) -> None:
        words = ("snakemake", "--cores", "2", "all", *more)
        with self.log.open("ab") as sink:
            where, env = self.project.folder, self.project.environment
            started = subprocess.Popen(
                words, cwd=where, env=env, stdout=sink, stderr=sink, start_new_session=True
            )
        self._workflows.append(started)
        self.starts += 1

    def _disturb(self) -> None:
        """Do harm now and then for as long as a workflow lives."""
        strike = time.monotonic() + self.draw.uniform(*self.pause)
        while self._alive():
            time.sleep(0.05)
            if self.server and not self.server.up and time.monotonic() > self._server_back:
                self.server.start()
            if self.left and time.monotonic() > strike:
                self._strike()
                strike = time.monotonic() + self.draw.uniform(*self.pause)

    def _strike(self) -> None:
        for name in self.draw.sample(sorted(self._harms), len(self._harms)):
            if self._harms[name]():
                self.done[name] += 1
                self.left -= 1
                return

    def _alive(self) -> list[int]:
        return [workflow.pid for workflow in self._workflows if workflow.poll() is None]

    def _jobs(self, follow: bool = False) -> list[int]:
        steps = processes(self.project.folder).items()
        return [pid for pid, of in steps if (of == "follow" if follow else of not in NO_JOBS)]

    def _signal_one(
        self, pids: Iterable[int], number: int, send: Callable[[int, int], None] = os.kill
    ) -> bool:
        """Send a signal to one of these; return whether there was one."""
        with suppress(IndexError, ProcessLookupError):
            send(self.draw.choice(sorted(pids)), number)
            return True
        return False

    def _start_second(self, *more: str) -> bool:
        if len(self._workflows) > 1:
            return False
        self._start(*more)
        return True

    def _harm_server(self, server: Server, harm: Callable[[Server], None]) -> bool:
        """Harm the server if it is up; it is brought back some time later."""
        if not server.up:
            return False
        harm(server)
        self._server_back = time.monotonic() + self.draw.uniform(3, 20)
        return True

    def _settle(self) -> None:
        """Store what is left where the follower was killed, or the server was away.

        `minbert gc` then removes what killed steps were writing; a training does that itself.
        """
        if self.server is not None:
            self.server.wait()
        for _ in range(10):
            told = self.project.minbert("follow")
            if "not stored yet" not in told and "does not answer" not in told:
                break
        self.project.minbert("gc", "--delete")
