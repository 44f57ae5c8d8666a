"""Lines while the grid runs and the summary at its end: what is counted, said and left out."""

from __future__ import annotations

import logging
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from snakemake_interface_logger_plugins.common import LogEvent

from minbert.base.files import write_text
from minbert.commands import progress
from minbert.commands.progress import Idle, Progress
from minbert.commands.summary import called, places, summary
from minbert.evaluate.reading import SCHEMA
from minbert.store.plans import write_plan
from minbert.track.journal import Journal

JOBS: list[tuple[str, dict[str, str]]] = [
    *(("train", {"key": f"k{n}", "seed": "0"}) for n in range(4)),
    ("data", {"key": "d"}),
    ("train", {"key": "of another workflow", "seed": "last"}),
]


def begin(watched: Progress, number: int) -> None:
    said = {"event": LogEvent.JOB_INFO, "jobid": number}
    said |= dict(zip(("rule_name", "wildcards"), JOBS[number], strict=True))
    watched.emit(logging.makeLogRecord(said))


def end(watched: Progress, number: int) -> None:
    watched.emit(logging.makeLogRecord({"event": LogEvent.JOB_FINISHED, "job_id": number}))


def fail(watched: Progress, number: int) -> None:
    watched.emit(logging.makeLogRecord({"event": LogEvent.JOB_ERROR, "jobid": number}))


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    made = SimpleNamespace(now=1000.0)
    monkeypatch.setattr("time.monotonic", lambda: made.now)
    return made


@pytest.fixture
def watched(monkeypatch: pytest.MonkeyPatch, clock: SimpleNamespace, tmp_path: Path) -> Progress:
    """Four stages of 100 seconds, and a clock that stands still."""
    costs = SimpleNamespace(of=lambda node: SimpleNamespace(seconds=100 - progress.OTHERS))
    monkeypatch.setattr(progress, "Costs", lambda plan: costs)
    monkeypatch.setattr(progress, "title", lambda plan, node: node.key)
    nodes = {("train", f"k{n}"): SimpleNamespace(key=f"k{n}") for n in range(4)}
    plan: Any = SimpleNamespace(nodes=nodes, root=tmp_path)
    return Progress(plan, JOBS)


def test_jobs_are_counted_from_snakemakes_events(watched: Progress) -> None:
    begin(watched, 4)
    end(watched, 4)
    for number in (0, 1, 2, 5):
        begin(watched, number)
    end(watched, 0)
    fail(watched, 1)
    watched.emit(logging.makeLogRecord({"msg": "a word by the way"}))
    line = watched.line()
    assert line.startswith("2 of 6 jobs done")
    assert line.endswith("failed: 1 | now: k2 . s0, train")
    assert watched.ran() == "ran 2 jobs in 0 s; 1 failed; 3 not reached"
    run = {"experiment": "p", "key": "k1", "seed": 0, "name": "", "params": {}}
    Journal.start(watched.plan.root, run).end("KILLED")
    assert "; 1 interrupted, to go on from where they were; 3 not" in watched.ran()
    begin(watched, 1)  # It is tried again.
    assert "failed" not in watched.line()


def test_the_time_left_follows_the_pace_so_far(watched: Progress, clock: SimpleNamespace) -> None:
    begin(watched, 0)
    begin(watched, 1)
    assert "left" not in watched.line()
    clock.now += 150  # Two at a time, somewhat faster than expected.
    end(watched, 0)
    end(watched, 1)
    assert "about 3 min left" in watched.line()
    for number in (2, 3, 4, 5):
        begin(watched, number)
        end(watched, number)
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


def scores(root: Path, *more: dict[str, Any]) -> Path:
    """Write `ROWS`, and rows of a task like the first one with `more`."""
    names = ("paper", "variant", "seed", "split", "metric", "value", "key")
    rows = [{"task": "overall"} | dict(zip(names, row, strict=True)) for row in ROWS]
    of_task = {**rows[0], "task": "sst", "metric": "accuracy", "floor": 0.3}
    rows += [of_task | {"variant": f"v{n}"} | each for n, each in enumerate(more)]
    path = root / "tables" / "scores.parquet"
    path.parent.mkdir(parents=True)
    pq.write_table(pa.Table.from_pylist(rows, schema=SCHEMA), path)
    return path


def summarised(root: Path, tracking: bool = False, **papers: dict[str, Any]) -> list[str]:
    record = {"papers": papers, "tracking": tracking, "below": ""}
    return summary(root, write_plan(root, record)).splitlines()


def test_the_summary_names_the_best_and_what_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scores(tmp_path)
    monkeypatch.setattr("minbert.commands.summary.called", lambda: ".venv/bin/minbert")
    about = {"source": "DIR", "seeds": [0, 1]}
    papers = {"p": {"rule": "normalised", **about}, "q": {"rule": "plain", **about}}
    assert summarised(tmp_path, tracking=True, **papers) == [
        "p       best: b, normalised overall dev score 0.600 (2 seeds)",
        "q       no variant has an overall score yet",
        f"tables  {tmp_path / 'tables'}",
        f"runs    .venv/bin/minbert ui --results {tmp_path}",
    ]


def test_the_summary_ends_with_what_a_reader_must_know(tmp_path: Path) -> None:
    found = [("k1", 0.01, False), ("k2", 0.2, False), ("k3", 1.0, True), ("k3", 1.0, True)]
    low = [{"key": key, "p_floor": p, "constant": constant} for key, p, constant in found]
    scores(tmp_path, *low, low[-1] | {"key": "k4", "split": "test"})
    index = "row,status\nr1,scored\nr2,no labels\nr3,not configured\n"
    write_text(tmp_path / "tables" / "index.csv", index)
    said = summarised(tmp_path, p={"rule": "normalised", "source": "builtin", "seeds": [0]})
    assert [line.split(maxsplit=1)[1] for line in said[1:-1]] == [
        "2 of 3 dev scores are not above their floor, 1 from runs that predict one class or number",
        "1 of 2 published rows scored (1 no labels)",
        "the data are generated: scores say nothing about the papers' methods",
        "one seed: differences between variants may be chance",
    ]


def test_when_there_is_nothing_to_be_done_the_places_are_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "report.html").touch()
    logger = logging.Logger("snakemake-like")
    logger.addHandler(Idle(places(tmp_path, tmp_path, tracking=True)))
    logger.info("Building DAG of jobs...")
    assert capsys.readouterr().err == ""
    logger.info("Nothing to be done (all requested files are present and up to date).")
    assert capsys.readouterr().err.splitlines() == [
        f"report  {tmp_path / 'report.html'}",
        f"runs    {called()} ui --results {tmp_path}",
    ]
