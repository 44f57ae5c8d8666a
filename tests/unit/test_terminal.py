"""Lines while the grid runs and the summary at its end: what is counted, said and left out."""

from __future__ import annotations

import io
import logging
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from snakemake_interface_logger_plugins.common import LogEvent

from minbert.base.errors import UserError
from minbert.commands import watch
from minbert.commands.summary import summary
from minbert.commands.watch import Tally, Watch, Work, gpu_use
from minbert.evaluate.reading import SCHEMA
from minbert.evaluate.winner import winners
from minbert.store.plans import write_plan

JOBS = [*(Work("train", f"k{n}", 0) for n in range(4)), Work("data"), Work("scores", "s")]


def record(event: LogEvent | None, text: str = "", **said: Any) -> logging.LogRecord:
    made = logging.LogRecord("snakemake", logging.INFO, "", 0, text, None, None)
    made.__dict__ |= {"event": event, **said}
    return made


def begin(tally: Tally, number: int, work: Work) -> None:
    wildcards = {"key": work.key, "seed": str(work.seed)} if work.key else None
    said = {"jobid": number, "rule_name": work.rule, "wildcards": wildcards}
    if work.rule == "scores":
        said["wildcards"] = {"key": work.key}
    tally.emit(record(LogEvent.JOB_INFO, **said))


def end(tally: Tally, number: int) -> None:
    tally.emit(record(LogEvent.JOB_FINISHED, job_id=number))


@pytest.fixture
def watched(monkeypatch: pytest.MonkeyPatch) -> Watch:
    """Four stages of 100 s each, and a clock that stands still."""
    cost = SimpleNamespace(of=lambda node: SimpleNamespace(seconds=100.0, measured=True))
    monkeypatch.setattr(watch, "Costs", lambda plan: cost)
    monkeypatch.setattr(watch, "gpu_use", lambda: "")
    monkeypatch.setattr("time.monotonic", lambda: 1000.0)
    nodes = {("train", f"k{n}"): f"variant-{n}" for n in range(4)}
    monkeypatch.setattr(watch, "title", lambda plan, node, seed: f"{node} . s{seed}")
    plan: Any = SimpleNamespace(nodes=nodes)
    return Watch(plan, JOBS, slots=2)


def test_jobs_are_counted_from_snakemakes_events(watched: Watch) -> None:
    tally = watched.tally
    begin(tally, 1, JOBS[4])
    end(tally, 1)
    for number, work in enumerate(JOBS[:3], 2):
        begin(tally, number, work)
    end(tally, 2)
    tally.emit(record(LogEvent.JOB_ERROR, jobid=3))
    tally.emit(record(None, "a word by the way"))
    line = watched.line()
    assert "training: 1 of 4 stages done" in line
    assert "other jobs: 1 of 2" in line and "failed: 1" in line
    assert "now: variant-2 . s0" in line
    assert watched.ran() == (
        "ran 1 training stages and 1 other jobs in 0 s; 1 failed; 3 were not reached"
    )


def test_the_time_left_is_that_of_the_stages_that_are_left(
    watched: Watch, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert watched.seconds_left() == 200  # four of 100 s, two at a time
    begin(watched.tally, 1, JOBS[0])
    monkeypatch.setattr("time.monotonic", lambda: 1040.0)
    assert watched.seconds_left() == (3 * 100 + 60) / 2
    end(watched.tally, 1)
    assert watched.seconds_left() == 150
    for number in (2, 3):
        begin(watched.tally, number, JOBS[number - 1])
        end(watched.tally, number)
    assert watched.seconds_left() == 100  # one stage takes as long, whatever the slots
    watched._busy = 300.0  # these three took 300 s on two slots: twice what was reckoned
    assert watched.seconds_left() == 200
    begin(watched.tally, 4, JOBS[3])
    end(watched.tally, 4)
    assert watched.seconds_left() == 0 and "left" not in watched.line()


def test_of_a_queue_nothing_is_said_until_some_have_ended(watched: Watch) -> None:
    watched.queued = True
    assert watched.seconds_left() is None and "time left not known yet" in watched.line()
    for number in range(3):
        begin(watched.tally, number, JOBS[number])
        end(watched.tally, number)
    assert watched.seconds_left() == 100


def test_a_failed_stage_is_not_waited_for(watched: Watch) -> None:
    begin(watched.tally, 1, JOBS[0])
    watched.tally.emit(record(LogEvent.JOB_ERROR, jobid=1))
    assert watched.seconds_left() == 150


def test_a_stage_that_is_tried_again_has_not_failed(watched: Watch) -> None:
    begin(watched.tally, 1, JOBS[0])
    watched.tally.emit(record(LogEvent.JOB_ERROR, jobid=1))
    begin(watched.tally, 1, JOBS[0])
    assert watched.seconds_left() == 200 and "failed" not in watched.line()
    end(watched.tally, 1)
    assert watched.ran() == ("ran 1 training stages and 0 other jobs in 0 s; 5 were not reached")


def test_the_console_keeps_errors_and_lets_blocks_of_jobs_go(
    watched: Watch, tmp_path: Path
) -> None:
    logger = logging.Logger("snakemake-like")
    console = logging.StreamHandler(io.StringIO())
    file = logging.FileHandler(tmp_path / "log")
    logger.addHandler(console)
    logger.addHandler(file)
    watched.start(logger)
    for event, text in ((LogEvent.JOB_INFO, "rule train"), (LogEvent.JOB_ERROR, "Error in rule")):
        logger.info(text, extra={"event": event, "jobid": 1, "rule_name": "train"})
    logger.info("Select jobs to execute...")
    logger.info("a warning of another kind")
    watched.stop()
    logger.info("after the end", extra={"event": LogEvent.JOB_STARTED})
    assert console.stream.getvalue().splitlines() == [
        "Error in rule",
        "a warning of another kind",
        "after the end",
    ]
    assert "rule train" in (tmp_path / "log").read_text()  # Snakemake's own file has it all
    assert (
        list(watched.tally.failed.values()) == [Work("train")]
        and watched.tally not in logger.handlers
    )


def test_gpus_are_told_and_their_absence_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tool = tmp_path / "nvidia-smi"
    monkeypatch.setenv("PATH", str(tmp_path) + os.pathsep + os.environ["PATH"])
    tool.write_text("#!/bin/sh\necho '0, 87, 12345, 143771'\necho '1, [N/A], [N/A], 143771'\n")
    tool.chmod(0o755)
    assert gpu_use() == "GPU 0 87 % 12.1 of 140 GiB, GPU 1"
    tool.write_text("#!/bin/sh\necho 'no devices were found'\nexit 6\n")
    assert gpu_use() == ""
    tool.unlink()
    monkeypatch.setenv("PATH", str(tmp_path))
    assert gpu_use() == ""


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
    found = winners(scores(tmp_path, ROWS), {"p": "normalised", "other": "plain"})
    assert list(found) == ["p"]
    one = found["p"]
    assert (one.variant, one.score, one.seed) == ("b", pytest.approx(0.6), 0)
    assert one.test == {1: 0.7}


def test_the_summary_names_the_best_and_what_is_there(tmp_path: Path) -> None:
    scores(tmp_path, ROWS)
    papers = {"p": {"rule": "normalised"}, "none": {"rule": "plain"}}
    plan = write_plan(tmp_path, {"papers": papers, "tracking": True})
    said = summary(tmp_path, plan, ".venv/bin/minbert")
    assert "p       best: b, overall dev score 0.600 (mean of 2 seeds)" in said
    assert "none    no variant has an overall score yet" in said
    assert f"runs    .venv/bin/minbert ui --results {tmp_path}" in said
    assert "report" not in said and "figures" not in said
    (tmp_path / "report.html").touch()
    said = summary(tmp_path, write_plan(tmp_path, {"papers": papers, "tracking": False}))
    assert f"report  {tmp_path / 'report.html'}" in said and "ui --results" not in said
    with pytest.raises(UserError, match="plan 'nope'"):
        summary(tmp_path, "nope")
