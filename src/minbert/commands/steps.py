"""The rules' steps: `minbert make KIND-KEY ...` makes nodes, by the function `make` of their maker.

What decides a result is in the maker, whose code is in the key. Here is only what surrounds it:
checks, locks, devices, signals, and the journal for MLflow.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from importlib import import_module
from pathlib import Path
from traceback import format_exc
from typing import Any

from minbert.base.errors import UserError
from minbert.base.locks import exclusive_lock, patience, remove_half_written, results_lock
from minbert.base.process import end_with_parent, imports, without_pandas
from minbert.devices.gpus import device_for
from minbert.spec.architecture import WEIGHTS
from minbert.spec.task import use_tasks_of
from minbert.store.code import differs
from minbert.store.job import Job
from minbert.store.node import KINDS, digest, finished, node_code
from minbert.store.plans import describe_job

FORMAT = 1
"""Of a run's record; it changes with the meaning of a field."""

GRACE = 8
"""Seconds that a training job has from a signal to the end of its step and the saved state."""

STOPS = (signal.SIGTERM, signal.SIGINT)
"""The signals that ask a job to stop: a cluster's or Snakemake's, and Ctrl-C."""


def make(root: Path, names: Sequence[str], memory: int | None = None, **more: Any) -> None:
    """Make the nodes `KIND-KEY` one after the other; figures that fail do not stop the others.

    `memory` is in MB, `more` is for `load_job`. Raises `UserError` in the end if any figure failed,
    so that the next workflow tries it again. The process does nothing else, and ends with its
    parent; `STOPS` end it as an error does, so that all is closed.
    """
    if more.get("seed") is None and any(name.startswith("train-") for name in names):
        raise UserError(f"{names[0]}: give its --seed")
    end_with_parent()
    # Threads that spin while they wait make steps many times slower on a busy machine.
    if more.get("threads", 1) > 1:
        os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    _on_stop(_stop)
    without_pandas()
    undrawn = []
    with results_lock(root):
        for kind, _, key in (name.partition("-") for name in names):
            job = load_job(root, kind, key, memory=memory and memory * 10**6, **more)
            _check_needs(job)
            try:
                run_job(job)
            except Exception as error:
                if kind != "figure":
                    raise
                undrawn.append(job.title)
                why = error if isinstance(error, UserError) else format_exc()
                print(f"{job.title}: not drawn: {why}", file=sys.stderr, flush=True)
    if undrawn:
        raise UserError(f"not drawn: {', '.join(undrawn)}")


def _check_needs(job: Job) -> None:
    """Refuse a job before what it is made from is there: scores of half the runs are others.

    What people look at does without what finished jobs may let go.
    """
    shown = KINDS[job.described["kind"]].shown
    for name, need in job.described["needs"].items():
        path, kind = job.need(name), need["kind"]
        if not path.exists() and not (shown and need["file"] in KINDS[kind].deletable):
            raise UserError(
                f"{path}: there is no such file, and {job.title} needs it; run the step that makes "
                f"it, {kind} {need['key']}"
            )


def load_job(
    root: Path,
    kind: str,
    key: str,
    seed: int | None = None,
    threads: int = 1,
    memory: int | None = None,
    plan: str | None = None,
) -> Job:
    """Read what `plan` says of a node (default: the newest plan).

    `memory` is what it needs of a GPU, in bytes; if it is not known, the job gets a GPU alone. The
    tasks of this process are then those of the plan.
    Raises `UserError` for other code than was planned.
    """
    described = describe_job(root, kind, key, plan)
    use_tasks_of(described)
    planned = described["code"]
    if changed := differs(planned, node_code(kind, described["maker"], described["parts"])):
        raise UserError(
            f"the code of {kind} {key} has changed since it was planned "
            f"({', '.join(changed)}): run snakemake again"
        )
    return Job(root, described, seed, threads, memory)


def run_job(job: Job) -> None:
    """Make the job's node, on the device that it asks for if it computes anything.

    A training is alone in its work folder, and is not done again if another job just has.
    """
    say = partial(print, file=sys.stderr, flush=True)
    leased = device_for(job.extra.get("device", "cpu"), job.memory, say)
    if job.described["kind"] != "train":
        with leased as device:
            _make(replace(job, device=device))
        return
    work = job.root / "work" / job.described["key"] / f"seed{job.seed}"
    with exclusive_lock(work, f"training of {job.title}", patience()) as waited:
        if waited and finished("train", job.out):
            say("the process that held the lock has finished it")
            return
        for folder in (work, job.out):
            remove_half_written(folder)
        with leased as device:
            _train(replace(job, device=device), work)


def _make(job: Job, **more: Any) -> Any:
    with imports():
        maker = import_module(job.described["maker"])
    return maker.make(job, **more)


def _train(job: Job, work: Path) -> None:
    """Train; what is measured is written down for MLflow as it comes."""
    with imports():
        from minbert.track.journal import Journal
        from minbert.track.runs import describe_run, outcome
        from minbert.train.checkpoints import Checkpoints

    checkpoints = Checkpoints(work, job.extra["checkpoint_seconds"])

    def save_and_stop(number: int, frame: object) -> None:
        """Save the state after the current step; end in any case within seconds."""
        checkpoints.stop = number
        signal.signal(signal.SIGALRM, _stop)
        signal.alarm(GRACE)

    _on_stop(save_and_stop)
    journal = Journal.start(job.root, describe_run(job))
    try:
        told = {"checkpoints": checkpoints, "provenance": provenance(job)}
        record = _make(job, listener=journal.log, **told)
    except BaseException as error:
        with suppress(OSError):  # On a full disk, that is the error to report.
            # A signal raises no `Exception`: a run that was told to stop has not failed.
            failed = isinstance(error, Exception)
            journal.end("FAILED" if failed else "KILLED", f"{type(error).__name__}: {error}")
        raise
    journal.end("FINISHED", **outcome(job, record))


def provenance(job: Job) -> dict[str, Any]:
    """Return what a training's record says of what it was made from: code, data and backbone.

    It decides no result, so it is in no key. Data are digested here, so that no other file need be
    kept: a quarter of a second for Quora.
    """
    from minbert.data.digests import task_digests

    return {
        "format": FORMAT,
        "code": digest(job.described["code"]),
        "data": {task: task_digests(path) for task, path in job.needs("tokens").items()},
        "backbone": backbone_digest(job.need(f"backbone.{WEIGHTS}")),
    }


def backbone_digest(weights: Path) -> str | None:
    """Return the SHA-256 of a backbone's tensors (`model.weights.checksum`), as its file has it.

    None if the file is damaged (training then fails and says so) or was not written by minbert.
    """
    from safetensors import SafetensorError, safe_open

    from minbert.model.weights import CHECKSUM  # loads torch

    with suppress(SafetensorError), safe_open(weights, "np") as file:
        return (file.metadata() or {}).get(CHECKSUM)
    return None


def _stop(number: int, frame: object) -> None:
    raise SystemExit(f"stopped by signal {number}")


def _on_stop(handler: Callable[[int, Any], None]) -> None:
    for number in STOPS:
        signal.signal(number, handler)
