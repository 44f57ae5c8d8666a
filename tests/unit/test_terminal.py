"""Lines while the grid runs and the summary at its end: what is counted, said and left out."""

from __future__ import annotations

import io
import logging
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from snakemake_interface_logger_plugins.common import LogEvent

from minbert.base.errors import UserError
from minbert.base.files import write_text
from minbert.commands import progress
from minbert.commands.progress import Idle, Progress, Work
from minbert.commands.summary import CLAIMS, called, places, summary, undecided
from minbert.evaluate.claims import COLUMNS
from minbert.evaluate.reading import SCHEMA, read_scores
from minbert.evaluate.seeds import winner
from minbert.evaluate.text import csv_text
from minbert.store.plans import write_plan
from minbert.track.journal import Journal

JOBS = [*(Work("train", f"k{n}", 0) for n in range(4)), Work("data", "d"), Work("scores_p")]
EACH = 100 - progress.OTHERS
"""Seconds that a stage is expected to take: 100 with its start and end."""


def record(event: LogEvent | None, text: str = "", **said: Any) -> logging.LogRecord:
    made = logging.LogRecord("snakemake", logging.INFO, "", 0, text, None, None)
    made.__dict__ |= {"event": event, **said}
    return made


def begin(watched: Progress, number: int) -> None:
    work = JOBS[number]
    wildcards = {"key": work.key, "seed": str(work.seed)} if work.key else None
    said = {"jobid": number, "rule_name": work.rule, "wildcards": wildcards}
    watched.emit(record(LogEvent.JOB_INFO, **said))


def end(watched: Progress, number: int) -> None:
    watched.emit(record(LogEvent.JOB_FINISHED, job_id=number))


def fail(watched: Progress, number: int) -> None:
    watched.emit(record(LogEvent.JOB_ERROR, jobid=number))


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    made = SimpleNamespace(now=1000.0)
    monkeypatch.setattr("time.monotonic", lambda: made.now)
    return made


@pytest.fixture
def watched(monkeypatch: pytest.MonkeyPatch, clock: SimpleNamespace, tmp_path: Path) -> Progress:
    """Four stages, and a clock that stands still."""
    costs = SimpleNamespace(of=lambda node: SimpleNamespace(seconds=EACH))
    monkeypatch.setattr(progress, "Costs", lambda plan: costs)
    monkeypatch.setattr(progress, "title", lambda plan, node, seed: f"{node} . s{seed}")
    nodes = {("train", f"k{n}"): f"variant-{n}" for n in range(4)}
    plan: Any = SimpleNamespace(nodes=nodes, root=tmp_path)
    return Progress(plan, JOBS)


def test_jobs_of_another_workflow_may_have_wildcards_of_the_same_names() -> None:
    """The pipeline may be a module of it."""
    assert Work.of("simulate", {"seed": "last", "key": "a"}) == Work("simulate", "a")
    assert Work.of("train", {"seed": "7", "key": "a"}) == Work("train", "a", 7)


def test_jobs_are_counted_from_snakemakes_events(watched: Progress) -> None:
    begin(watched, 4)
    end(watched, 4)
    for number in range(3):
        begin(watched, number)
    end(watched, 0)
    fail(watched, 1)
    watched.emit(record(None, "a word by the way"))
    line = watched.line()
    assert line.startswith("training: 1 of 4 stages done | other jobs: 1 of 2")
    assert line.endswith("failed: 1 | now: variant-2 . s0")
    assert watched.ran() == "ran 1 training stage and 1 other job in 0 s; 1 failed; 3 not reached"
    begin(watched, 1)  # It is tried again.
    assert "failed" not in watched.line()


def test_a_training_that_was_told_to_stop_has_not_failed(watched: Progress) -> None:
    for number in range(2):
        begin(watched, number)
        run = {"experiment": "p", "key": f"k{number}", "seed": 0, "name": "", "params": {}}
        Journal.start(watched.plan.root, run).end(("KILLED", "FAILED")[number])
        fail(watched, number)
    said = "1 failed; 1 interrupted, to go on from where they were; 4 not reached"
    assert watched.ran().endswith(f" in 0 s; {said}")


def test_the_time_left_follows_the_pace_so_far(watched: Progress, clock: SimpleNamespace) -> None:
    begin(watched, 0)
    begin(watched, 1)
    assert watched.seconds_left() is None and "left" not in watched.line()
    clock.now += 50  # Two at a time, twice as fast as expected.
    end(watched, 0)
    end(watched, 1)
    assert watched.seconds_left() == pytest.approx(50 * (200 + 2 * progress.OTHERS) / 200)
    assert "about 1 min left" in watched.line()
    begin(watched, 2)
    clock.now += 50  # Half of it is done.
    assert watched.seconds_left() == pytest.approx(100 * (150 + 2 * progress.OTHERS) / 250)
    fail(watched, 2)  # It is not waited for.
    assert watched.seconds_left() == pytest.approx(100 * (100 + 2 * progress.OTHERS) / 200)
    for number in (3, 4, 5):
        begin(watched, number)
        end(watched, number)
    assert watched.seconds_left() == 0 and "left" not in watched.line()


def test_the_console_keeps_errors_and_lets_blocks_of_jobs_go(
    watched: Progress, tmp_path: Path
) -> None:
    logger = logging.Logger("snakemake-like")
    console = logging.StreamHandler(io.StringIO())
    file = logging.FileHandler(tmp_path / "log")
    logger.addHandler(console)
    logger.addHandler(file)
    watched.start(logger)
    for event, text in ((LogEvent.JOB_INFO, "rule train"), (LogEvent.JOB_ERROR, "Error in rule")):
        logger.info(text, extra={"event": event, "jobid": 1, "rule_name": "data"})
    logger.info("Select jobs to execute...")
    logger.info("a warning of another kind")
    watched.stop(logger)
    logger.info("after the end", extra={"event": LogEvent.JOB_STARTED})
    assert console.stream.getvalue().splitlines() == [
        "Error in rule",
        "a warning of another kind",
        "after the end",
    ]
    assert "rule train" in (tmp_path / "log").read_text()  # Snakemake's own file has it all
    assert list(watched.failed.values()) == [Work("data")] and watched not in logger.handlers


def scores(root: Path, rows: list[tuple[str, str, int, str, str, float, str]]) -> Path:
    names = ("paper", "variant", "seed", "split", "metric", "value", "key")
    named = [{"task": "overall", "last": None} | dict(zip(names, row, strict=True)) for row in rows]
    table = pa.Table.from_pylist(named, schema=SCHEMA)
    path = root / "tables" / "scores.parquet"
    path.parent.mkdir(parents=True)
    pq.write_table(table, path)
    return path


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


def test_the_best_variant_is_the_best_mean_on_dev_by_the_papers_rule(tmp_path: Path) -> None:
    path = scores(tmp_path, ROWS)
    assert winner(read_scores(path, "other"), "plain") is None
    one = winner(read_scores(path, "p"), "normalised")
    assert one and (one.variant, one.score, one.seed) == ("b", pytest.approx(0.6), 0)


def test_the_summary_names_the_best_and_what_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scores(tmp_path, ROWS)
    about = {"source": "DIR", "seeds": [0, 1]}
    papers = {"p": {"rule": "normalised", **about}, "none": {"rule": "plain", **about}}
    plan = write_plan(tmp_path, {"papers": papers, "tracking": True, "below": ""})
    monkeypatch.setattr("minbert.commands.summary.called", lambda: ".venv/bin/minbert")
    said = summary(tmp_path, plan)
    assert "p       best: b, normalised overall dev score 0.600 (mean of 2 seeds)" in said
    assert "none    no variant has an overall score yet" in said
    assert f"runs    .venv/bin/minbert ui --results {tmp_path}" in said
    assert "report" not in said and "figures" not in said
    (tmp_path / "report.html").touch()
    said = summary(
        tmp_path, write_plan(tmp_path, {"papers": papers, "tracking": False, "below": ""})
    )
    assert f"report  {tmp_path / 'report.html'}" in said and "ui --results" not in said
    assert "warning" not in said
    with pytest.raises(UserError, match="plan 'nope'"):
        summary(tmp_path, "nope")


def test_the_summary_ends_with_what_a_reader_must_know(tmp_path: Path) -> None:
    path = scores(tmp_path, ROWS)
    rows = pq.read_table(path).to_pylist()
    of_task = {**rows[0], "task": "sst", "metric": "accuracy", "floor": 0.3}
    found = [("k1", 0.01, False), ("k2", 0.2, False), ("k3", 1.0, True), ("k3", 1.0, True)]
    rows += [
        of_task | {"variant": f"v{n}", "key": key, "p_floor": p, "constant": constant}
        for n, (key, p, constant) in enumerate(found)
    ]
    rows.append({**rows[-1], "key": "k4", "split": "test"})
    pq.write_table(pa.Table.from_pylist(rows, schema=SCHEMA), path)
    write_text(
        tmp_path / "tables" / "index.csv",
        "row,status\nr1,scored\nr2,no labels\nr3,not configured\n",
    )
    papers = {"p": {"rule": "normalised", "source": "builtin", "seeds": [0]}}
    said = summary(
        tmp_path, write_plan(tmp_path, {"papers": papers, "tracking": False, "below": ""})
    )
    assert [line.removeprefix("warning  ") for line in said.splitlines() if "warning" in line] == [
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


def line(verdict: str, needed: int | None, **more: object) -> dict[str, object]:
    about = {"paper": "p", "variant": "a", "strongest": "b", "task": "sst", "verdict": verdict}
    return about | {"seeds": 3, "seeds_against": 3, "seeds_needed": needed} | more


def test_seeds_that_would_decide_claims(tmp_path: Path) -> None:
    assert list(undecided(tmp_path)) == []
    lines = [
        line("within noise", 12, variant="late", measure="gap"),
        line("within noise", 5),
        line("within noise", None),
        line("holds", None),
    ]
    write_text(tmp_path / CLAIMS, csv_text((*COLUMNS, "measure"), lines))
    assert list(undecided(tmp_path)) == [
        "Within noise, by tables/claims.csv: 3 of 4 claims; more seeds would probably decide 2 of "
        "them:",
        "  p, a against b, sst: 5 seeds each",
        "  p, late against b, sst gap: 12 seeds each",
    ]
    write_text(tmp_path / CLAIMS, csv_text(COLUMNS, lines[3:]))
    assert list(undecided(tmp_path)) == []
