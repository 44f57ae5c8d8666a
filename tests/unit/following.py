"""Jobs' files, followers in processes of their own, and what a real sqlite store holds."""

from __future__ import annotations

import multiprocessing
import os
import shutil
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import TYPE_CHECKING, Any

from chaos.compare import Point, read_store

from minbert.spec.protocol import Measured
from minbert.track.follower import Follower
from minbert.track.journal import Journal
from minbert.track.store import Tag, open_store

if TYPE_CHECKING:
    from mlflow.entities import Run

# Forked from a process that has imported mlflow and opened nothing: an import takes seconds.
processes = multiprocessing.get_context("forkserver")
processes.set_forkserver_preload(["mlflow.tracking", "mlflow.store.tracking.sqlalchemy_store"])


def follow_in_process(root: Path, pid: int, told: Path) -> None:
    with told.open("a", buffering=1, encoding="utf-8") as sys.stderr:
        Follower(root).follow(until_pid=pid, interval=0.05)


@contextmanager
def follower(root: Path, told: Path, pid: int | None = None) -> Iterator[BaseProcess]:
    """Run a follower in a process of its own; SIGKILL it at the end, if it is still there."""
    process = processes.Process(target=follow_in_process, args=(root, pid or os.getpid(), told))
    process.start()
    try:
        yield process
    finally:
        process.kill()
        process.join()


def wait_for(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline, f"waited 60 s for {what}"
        time.sleep(0.02)


def make(root: Path) -> None:
    list(open_store(root).runs())


def start(root: Path, key: str, seed: int | str = 0, **more: Any) -> Journal:
    run = {"experiment": "paper", "key": key, "seed": seed, "name": f"{key} . sst . s{seed}"}
    return Journal.start(root, {**run, **more})


def log(journal: Journal, steps: range, value: Callable[[int], float] = float) -> None:
    for step in steps:
        journal.log(Measured(step, 1, "train", "sst", "loss", value(step), 1.7e9 + step / 7))


def stored_run(root: Path, attempt: Path | str) -> Run:
    store = open_store(root)
    name = Path(attempt).name
    found = list(store.runs(f"tags.`{Tag.ATTEMPT}` = '{name}'"))
    assert len(found) == 1, f"{name} is stored {len(found)} times"
    return found[0]


def offset(root: Path, attempt: Path) -> int:
    """Return how far the store has come with an attempt's history; 0 if it has no such run."""
    every = read_store(root / "mlflow.db").tags.values()
    return sum(int(tags.get(Tag.OFFSET, 0)) for tags in every if tags[Tag.ATTEMPT] == attempt.name)


def stored_points(root: Path, run_id: str) -> Counter[Point]:
    return read_store(root / "mlflow.db").points[run_id]


def results(folder: Path, store: Path) -> Path:
    """Return `folder` as a results root with a copy of a made store."""
    shutil.copy(store, folder)
    return folder


def make_store(folder: Path) -> Path:
    """Make a store by three processes at once."""
    users = [processes.Process(target=make, args=(folder,)) for _ in range(3)]
    for user in users:
        user.start()
    for user in users:
        user.join(120)
    assert [user.exitcode for user in users] == [0, 0, 0]
    return folder / "mlflow.db"
