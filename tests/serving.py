"""`minbert ui`'s server, started as a process of its own."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

SERVE = "from pathlib import Path; from minbert.track.store import serve; "
SERVE += "serve(Path({root!r}), {port})"


def free_port() -> int:
    """Return a port on the loopback that is free now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def serving(root: Path, port: int) -> Iterator[list[str]]:
    """Serve the store of `root`; yield the lines that are printed until it answers."""
    words = [sys.executable, "-c", SERVE.format(root=str(root), port=port)]
    env = {k: v for k, v in os.environ.items() if not k.startswith("MLFLOW")}
    server = subprocess.Popen(words, env=env, stdout=subprocess.PIPE, text=True)
    try:
        assert server.stdout is not None
        lines: list[str] = []
        while not lines or not lines[-1].startswith("Ctrl-C"):
            line = server.stdout.readline()
            assert line, lines
            lines.append(line.strip())
        yield lines
    finally:
        server.send_signal(signal.SIGTERM)
        server.wait(60)
