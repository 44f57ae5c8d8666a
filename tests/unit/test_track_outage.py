"""Nine jobs and a real MLflow server that is killed in the middle and comes back near the end."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from chaos.compare import read_store, written_points
from chaos.server import Server
from following import log, processes, results, start, wait_for

from minbert.track.follower import Follower
from minbert.track.journal import Attempt, attempts
from minbert.track.store import Tag

JOBS, AT_ONCE, ROWS, SECONDS = 9, 3, 40, 0.6
DELAY = 10.0


@pytest.fixture
def server(tmp_path: Path, mlflow_store: Path) -> Iterator[Server]:
    made = Server(tmp_path / "server")
    results(made.folder, mlflow_store).joinpath("mlflow.db").rename(made.store)
    made.wait()
    yield made
    made.kill()


def work(root: Path, number: int) -> None:
    """Do what a training does to its journal, for about `SECONDS`."""
    journal = start(root, f"job{number}")
    for step in range(ROWS):
        log(journal, range(step, step + 1))
        time.sleep(SECONDS / ROWS)
    journal.end("FINISHED")


def seconds(attempt: Attempt) -> float:
    return float((attempt.end() or {})["ended"]) - float(attempt.run["started"])


def test_no_point_is_lost_and_no_job_waits(server: Server, tmp_path: Path) -> None:
    root = tmp_path / "results"
    waiting = [processes.Process(target=work, args=(root, number)) for number in range(JOBS)]
    follower = processes.Process(target=Follower(root, server.uri).follow, args=(None, 0.2))
    follower.start()
    running = []

    def ended(share: float) -> bool:
        running[:] = [job for job in running if job.is_alive()]
        while waiting and len(running) < AT_ONCE:
            running.append(waiting.pop())
            running[-1].start()
        return sum(one.end() is not None for one in attempts(root)) >= share * JOBS

    def all_stored() -> bool:
        tags = read_store(server.store).tags.values()
        return [of.get(Tag.OFFSET) for of in tags] == ["ended"] * JOBS

    try:
        wait_for(lambda: ended(1 / 3), "a third of the jobs")
        assert read_store(server.store).by_attempt, "the follower had begun"
        server.kill()
        wait_for(lambda: ended(2 / 3), "two thirds of the jobs, without the server")
        server.wait()
        wait_for(lambda: ended(1), "all jobs")
        wait_for(all_stored, "the follower")
    finally:
        for process in (follower, *running):
            process.kill()
            process.join()
    stored = read_store(server.store)
    for attempt in attempts(root):
        (run,) = stored.by_attempt[attempt.name]
        assert stored.status[run] == "FINISHED"
        assert stored.points[run] == written_points(attempt)
        assert stored.points[run].total() == ROWS
    assert max(map(seconds, attempts(root))) < SECONDS + DELAY
