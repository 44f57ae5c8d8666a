"""Lines while the grid runs and at its end: what is counted, said and left out."""

from __future__ import annotations

import logging
import os
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from minbert.commands import session
from minbert.commands.session import Session
from minbert.track.journal import Journal

JOBS: dict[int, tuple[str, dict[str, str]]] = {
    **{n: ("train", {"key": f"k{n}", "seed": "0"}) for n in range(4)},
    4: ("data", {"key": "d"}),
    5: ("train", {"key": "of another workflow", "seed": "last"}),
}


def say(watched: Session, event: str, *numbers: int) -> None:
    name = "job_id" if event == "job_finished" else "jobid"  # as Snakemake does
    for number in numbers:
        watched.emit(logging.makeLogRecord({"event": event, name: number}))


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    made = SimpleNamespace(now=1000.0)
    monkeypatch.setattr("time.monotonic", lambda: made.now)
    return made


@pytest.fixture
def watched(monkeypatch: pytest.MonkeyPatch, clock: SimpleNamespace, tmp_path: Path) -> Session:
    """Four stages of 100 seconds, and a clock that stands still."""
    costs = SimpleNamespace(seconds=lambda node: 100 - session.OTHERS)
    monkeypatch.setattr(session, "title", lambda plan, node: node.key)
    nodes = {("train", f"k{n}"): SimpleNamespace(key=f"k{n}") for n in range(4)}
    config = SimpleNamespace(tracking=SimpleNamespace(enabled=True), results="my results")
    plan: Any = SimpleNamespace(nodes=nodes, root=tmp_path, names=tmp_path, config=config)
    rules: Any = SimpleNamespace(plan=plan, costs=costs)
    made = Session(rules, logging.Logger("snakemake-like"))
    made.expect(JOBS)
    return made


def test_jobs_are_counted_from_snakemakes_events(watched: Session) -> None:
    say(watched, "job_info", 4, 0, 1, 2, 5)
    say(watched, "job_finished", 4, 0)
    say(watched, "job_error", 1)
    watched.emit(logging.makeLogRecord({"msg": "a word by the way"}))
    assert (
        watched.line()
        == "2 of 6 jobs done in 0 s | 1 failed | about 0 s left | now: k2 . s0, train"
    )
    run = {"experiment": "p", "key": "k1", "seed": 0, "name": "", "params": {}}
    Journal.start(watched.plan.root, run).end("KILLED")
    assert " | 1 interrupted, to be resumed | about " in watched.line()
    say(watched, "job_info", 1)  # It is tried again.
    assert "failed" not in watched.line()


def test_the_time_left_follows_the_pace_so_far(watched: Session, clock: SimpleNamespace) -> None:
    say(watched, "job_info", 0, 1, 2)
    assert "left" not in watched.line()
    clock.now += 50
    say(watched, "job_finished", 4)
    assert "left" not in watched.line(), "4 of 408 seconds say nothing"
    clock.now += 100  # Two at a time, somewhat faster than expected.
    say(watched, "job_finished", 0, 1)
    assert "3 of 6 jobs done in 2 min | about 2 min left | now: " in watched.line()
    say(watched, "job_finished", 2, 3, 5)
    assert "left" not in watched.line()


def test_the_end_tells_where_the_results_are(watched: Session) -> None:
    report = watched.plan.root / "report.html"
    report.touch()
    ours = os.path.relpath(Path(sys.executable).with_name("minbert"))
    assert watched.places() == f"{report}\n{ours} ui --results 'my results'"
