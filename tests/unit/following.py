"""Jobs' logs, followers in processes of their own, and what a real sqlite store holds."""

from __future__ import annotations

import multiprocessing
import os
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import TYPE_CHECKING, Any

from chaos.compare import StoredRun, read_store

from minbert.base.files import write_json
from minbert.spec.protocol import Measured
from minbert.track.follower import Follower
from minbert.track.journal import Journal, newest_attempts
from minbert.track.runs import PARENTS
from minbert.track.store import Tag, attempt_runs, open_store

if TYPE_CHECKING:
    from mlflow.entities import Run

# Forked from a process that has imported mlflow and opened nothing: an import takes seconds.
processes = multiprocessing.get_context("forkserver")
processes.set_forkserver_preload(["mlflow.tracking", "mlflow.store.tracking.sqlalchemy_store"])


def follow_in_process(root: Path, told: Path) -> None:
    with told.open("a", buffering=1, encoding="utf-8") as sys.stderr:
        sys.exit(Follower(root).follow(os.getppid(), interval=0.05))


@contextmanager
def follower(root: Path, told: Path) -> Iterator[BaseProcess]:
    """Run a follower in a process of its own; SIGKILL it at the end, if it is still there."""
    process = processes.Process(target=follow_in_process, args=(root, told))
    process.start()
    try:
        yield process
    finally:
        process.kill()
        process.join()


def start(root: Path, key: str, seed: int = 0, **more: Any) -> Journal:
    run = {"experiment": "paper", "key": key, "seed": seed, "name": f"{key} . s{seed}"}
    return Journal.start(root, {**run, **more})


def log(journal: Journal, steps: range, value: Callable[[int], float] = float) -> None:
    for step in steps:
        journal.log(Measured(step, 1, "dev", "sst", "loss", value(step), 1.7e9 + step / 7))


def finish(root: Path, key: str, seed: int = 0, **more: Any) -> Path:
    """Leave a finished run of three points."""
    journal = start(root, key, seed, **more)
    log(journal, range(3))
    journal.end("FINISHED")
    return journal.path


def write_rows(root: Path, *keys: str, **rows: dict[str, float]) -> None:
    """Leave what is published of the paper: rows with these metrics, each above its name's key."""
    logs = {}
    for name, metrics in rows.items():
        old = newest_attempts(root).get((f"row.{name}", "0"))
        journal = Journal(old.path) if old else start(root, f"row.{name}", name=name)
        journal.end("FINISHED", metrics=metrics, tags={Tag.ROW: name, Tag.NOT_LEARNED: "sst"})
        logs[name] = journal.path.stem
    above = dict.fromkeys((*keys, *(f"row.{name}" for name in rows)), "")
    write_json(root / PARENTS, {"paper": above | logs})


def stored_run(root: Path, log: Path) -> Run:
    """Return the run of an attempt as MLflow has it."""
    return attempt_runs(open_store(root))[log.stem]


def stored(root: Path, log: Path) -> StoredRun:
    """Return the only run of an attempt; one without anything if there is none."""
    every = read_store(root / "mlflow.db").values()
    found = [run for run in every if run.tags.get(Tag.ATTEMPT) == log.stem]
    assert len(found) < 2, f"{log} is stored {len(found)} times"
    return found[0] if found else StoredRun("")


def results(folder: Path, store: Path) -> Path:
    """Return `folder` as a results root with a copy of a made store."""
    shutil.copy(store, folder)
    return folder
