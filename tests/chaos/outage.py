"""A grid of 30 jobs whose MLflow server is killed in the middle and comes back near the end.

No point may be missing or doubled, and no job that runs while the server is away may take 10 s
longer than the slowest one before.
"""

from __future__ import annotations

import argparse
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from chaos.compare import compare
from chaos.grid import CONFIG, Tracked, make
from chaos.server import Server
from minbert.track.journal import Attempt, attempts

GRID = """\
paper: chaos
title: One tiny variant with many seeds
overall: normalised
variants:
  tiny:
    epochs: 3
    max_length: 32
    optimiser: {lr: 1e-3}
    tasks:
      sst: {loss: cross_entropy, batch_size: 8, head: {width: 8}}
"""
DELAY = 10.0


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(prog="python -m chaos.outage", description=__doc__)
    parser.add_argument("--jobs", type=int, default=30)
    parser.add_argument("--cores", type=int, default=2)
    parser.add_argument("--frozen", action="store_true", help="SIGSTOP in place of SIGKILL")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="outage-") as temporary:
        base = Path(temporary).resolve()
        server = Server(base / "server")
        try:
            server.wait()
            down = Server.freeze if arguments.frozen else Server.kill
            return outage(base, server, arguments.jobs, arguments.cores, down)
        finally:
            server.kill()


def outage(
    base: Path, server: Server, jobs: int, cores: int, down: Callable[[Server], None]
) -> int:
    """Run the grid, print what was measured, and return 1 if something is not as it should be.

    The server goes `down` when a third of the jobs have ended, and comes back after two thirds.
    """
    seeds = f"seeds: {list(range(jobs))}\n"
    folder = make(base / "grid", CONFIG.replace("seeds: [0]\n", seeds), GRID).folder
    project = Tracked(folder, server.uri)
    with (folder / "snakemake.log").open("wb") as log:
        words = ("snakemake", "--cores", str(cores), "all")
        workflow = subprocess.Popen(
            words, cwd=folder, env=project.environment, stdout=log, stderr=log
        )
        _wait_for(project, workflow, jobs // 3)
        down(server)
        gone, began = time.time(), time.monotonic()
        _wait_for(project, workflow, 2 * jobs // 3)
        away = time.monotonic() - began
        server.start()
        assert workflow.wait() == 0, (folder / "snakemake.log").read_text("utf-8")
    server.wait()
    project.minbert("follow", "--once")
    found = compare(project, project, server.store)
    before = [_seconds(a) for a in attempts(project.root) if _ended(a) < gone]
    after = [_seconds(a) for a in attempts(project.root) if _ended(a) >= gone]
    print("\n".join(found.differences))
    print(
        f"{found.attempts} jobs, the server away for {away:.0f} s; {found.points} points, "
        f"{len(found.differences)} missing, doubled, or of a run in a wrong state"
    )
    for name, seconds in (("before", before), ("while it was away and after", after)):
        mean = sum(seconds) / len(seconds)
        print(f"seconds a job, {name}: mean {mean:.1f}, slowest {max(seconds):.1f}")
    late = max(after) - max(before) > DELAY
    return bool(found.differences) or found.attempts != jobs or late


def _wait_for(project: Tracked, workflow: subprocess.Popen[bytes], ended: int) -> None:
    while sum(a.end() is not None for a in attempts(project.root)) < ended:
        assert workflow.poll() is None, "it ended too soon"
        time.sleep(0.2)


def _ended(attempt: Attempt) -> float:
    """Return when a job ended, in unix seconds."""
    return float((attempt.end() or {})["ended"])


def _seconds(attempt: Attempt) -> float:
    """Return how long a job took from its first note to its last."""
    return _ended(attempt) - float(attempt.run["started"])


if __name__ == "__main__":
    raise SystemExit(main())
