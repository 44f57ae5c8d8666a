"""Lines while the grid runs and the summary at its end: what is counted, said and left out."""

from __future__ import annotations

import logging
import os
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from factories import put_rows

from minbert.base.files import write_text
from minbert.commands import session
from minbert.commands.session import Session
from minbert.commands.summary import summary
from minbert.evaluate.reading import SCHEMA
from minbert.store.plans import write_plan
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
    config = SimpleNamespace(tracking=SimpleNamespace(enabled=True))
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
    line = watched.line()
    assert line.startswith("2 of 6 jobs done")
    assert line.endswith("failed: 1 | now: k2 . s0, train")
    assert watched.ran() == "ran 2 jobs in 0 s; 1 failed; 3 not reached"
    run = {"experiment": "p", "key": "k1", "seed": 0, "name": "", "params": {}}
    Journal.start(watched.plan.root, run).end("KILLED")
    assert "; 1 interrupted, to be resumed; 3 not" in watched.ran()
    say(watched, "job_info", 1)  # It is tried again.
    assert "failed" not in watched.line()


def test_the_time_left_follows_the_pace_so_far(watched: Session, clock: SimpleNamespace) -> None:
    say(watched, "job_info", 0, 1)
    assert "left" not in watched.line()
    clock.now += 150  # Two at a time, somewhat faster than expected.
    say(watched, "job_finished", 0, 1)
    assert "about 3 min left" in watched.line()
    say(watched, "job_finished", 2, 3, 4, 5)
    assert "left" not in watched.line()


ROWS = [
    ("p", "a", 0, "dev", "normalised", 0.9, "k1"),
    ("p", "a", 1, "dev", "normalised", 0.1, "k1"),
    ("p", "b", 0, "dev", "normalised", 0.6, "k2"),
    ("p", "b", 1, "dev", "normalised", 0.6, "k2"),
    ("p", "b", 1, "test", "normalised", 0.7, "k2"),
    ("p", "c", 0, "dev", "plain", 0.95, "k3"),
    ("p", "c", 0, "test", "normalised", 0.99, "k3"),
    ("p", "best", 0, "dev", "normalised", 0.97, ""),
]


def summarised(root: Path, *more: dict[str, Any], **papers: dict[str, Any]) -> list[str]:
    """Return the summary of `ROWS`, and of rows of a task like the first one with `more`."""
    names = ("paper", "variant", "seed", "split", "metric", "value", "key")
    rows = [{"task": "overall"} | dict(zip(names, row, strict=True)) for row in ROWS]
    of_task = {**rows[0], "task": "sst", "metric": "accuracy", "floor": 0.3}
    rows += [of_task | {"variant": f"v{n}"} | each for n, each in enumerate(more)]
    put_rows(root / "tables" / "scores.parquet", rows, SCHEMA)
    record = {"papers": papers, "tracking": True, "below": ""}
    return summary(root, write_plan(root, record)).splitlines()


def test_the_summary_names_the_best_and_what_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shutil.which", lambda _: "/another/bin/minbert")
    called = os.path.relpath(Path(sys.executable).with_name("minbert"))
    about = {"source": "DIR", "seeds": [0, 1]}
    assert summarised(
        tmp_path, p={"rule": "normalised", **about}, q={"rule": "plain", **about}
    ) == [
        "p       best: b, normalised overall dev score 0.600 (2 seeds)",
        "q       no variant has an overall score yet",
        f"tables  {tmp_path / 'tables'}",
        f"runs    {called} ui --results {tmp_path}",
    ]


def test_the_summary_ends_with_what_a_reader_must_know(tmp_path: Path) -> None:
    found = [("k1", 0.01), ("k2", 0.2), ("k3", 1.0), ("k3", 1.0)]
    low = [{"key": key, "p_floor": p, "constant": False} for key, p in found]
    write_text(
        tmp_path / "tables" / "index.csv",
        "row,status\nr1,scored\nr2,no labels\nr3,not configured\n",
    )
    facts = {"rule": "normalised", "source": "builtin", "seeds": [0]}
    said = summarised(tmp_path, *low, low[-1] | {"key": "k4", "split": "test"}, p=facts)
    assert [line.split(maxsplit=1)[1] for line in said[1:-2]] == [
        "2 of 3 dev scores are not clearly above their floor",
        "1 of 2 published rows scored (1 no labels)",
        "the data are generated: scores say nothing about the papers' methods",
        "one seed: differences between variants may be chance",
    ]


def test_when_there_is_nothing_to_be_done_the_places_are_told(
    watched: Session, capsys: pytest.CaptureFixture[str]
) -> None:
    report = watched.plan.root / "report.html"
    report.touch()
    watched.emit(logging.makeLogRecord({"msg": "Building DAG of jobs..."}))
    assert capsys.readouterr().err == ""
    said = "Nothing to be done (all requested files are present and up to date)."
    watched.emit(logging.makeLogRecord({"msg": said}))
    places, runs = capsys.readouterr().err.splitlines()
    assert places == f"report  {report}" and runs.endswith(f"ui --results {watched.plan.root}")
