"""A real MLflow server on the loopback that can be killed, frozen and brought back."""

from __future__ import annotations

import os
import signal
import subprocess
import time
import urllib.request
from pathlib import Path

from serving import free_port

from minbert.track.store import environment, server_command


class Server:
    """`mlflow server` on a sqlite store in `folder`; one process group, so that all of it dies."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True)
        self.store = folder / "server.db"
        self.port = free_port()
        self.uri = f"http://127.0.0.1:{self.port}"
        self.frozen = False
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def up(self) -> bool:
        """Whether it runs and is not frozen; it may be starting still."""
        return self._process is not None and not self.frozen

    def start(self) -> None:
        """Start it, or let it go on if it was frozen; does not wait until it answers."""
        if self.frozen:
            self._signal(signal.SIGCONT)
            self.frozen = False
        elif self._process is None:
            words = server_command(f"sqlite:///{self.store}", self.port)
            with (self.folder / "server.log").open("ab") as log:
                self._process = subprocess.Popen(
                    words, env=environment(), stdout=log, stderr=log, start_new_session=True
                )

    def wait(self, seconds: float = 120) -> None:
        """Start it if need be, and wait until it answers."""
        self.start()
        deadline = time.monotonic() + seconds
        while True:
            try:
                with urllib.request.urlopen(f"{self.uri}/health", timeout=2):
                    return
            except OSError:
                assert time.monotonic() < deadline, f"no answer at {self.uri} in {seconds} s"
                time.sleep(0.2)

    def kill(self) -> None:
        """SIGKILL to all of it."""
        if self._process is not None:
            self._signal(signal.SIGKILL)
            self._process.wait()
        self._process, self.frozen = None, False

    def freeze(self) -> None:
        """SIGSTOP to all of it: connections are taken, and nothing answers."""
        self._signal(signal.SIGSTOP)
        self.frozen = True

    def _signal(self, number: int) -> None:
        assert self._process is not None
        os.killpg(self._process.pid, number)
