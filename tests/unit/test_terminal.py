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
from minbert.base.files import write_text
from minbert.commands import watch
from minbert.commands.remaining import Work, seconds_left
from minbert.commands.summary import places, summary
from minbert.commands.watch import Idle, Tally, Watch, gpu_use
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
def watched(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Watch:
    """Four stages of 100 s each (20 s on a cluster of CPUs), and a clock that stands still."""
    a, b = (SimpleNamespace(seconds=seconds, measured=True) for seconds in (100.0, 20.0))
    costs = {None: SimpleNamespace(of=lambda node: a), False: SimpleNamespace(of=lambda node: b)}
    monkeypatch.setattr(watch, "Costs", lambda plan, gpu: costs[gpu])
    monkeypatch.setattr(watch, "gpu_use", lambda: "")
    monkeypatch.setattr("time.monotonic", lambda: 1000.0)
    nodes = {("train", f"k{n}"): f"variant-{n}" for n in range(4)}
    monkeypatch.setattr(watch, "title", lambda plan, node, seed: f"{node} . s{seed}")
    plan: Any = SimpleNamespace(nodes=nodes, root=tmp_path)
    return Watch(plan, JOBS, slots=2, others=2)


def test_jobs_of_another_workflow_may_have_wildcards_of_the_same_names() -> None:
    """The pipeline may be a module of it."""
    assert Work.of("simulate", {"seed": "last", "key": "a"}) == Work("simulate", "a")
    assert Work.of("train", {"seed": "7", "key": "a"}) == Work("train", "a", 7)


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
    assert watched.ran() == ("ran 1 training stage and 1 other job in 0 s; 1 failed; 3 not reached")


START, QUICK, SCORES = 4, 2, 3
"""Seconds that are expected beside those of a stage, and of data and of scores."""


def test_the_time_left_is_that_of_all_jobs_that_are_left(
    watched: Watch, monkeypatch: pytest.MonkeyPatch
) -> None:
    each, others = 100 + START, QUICK + SCORES
    assert watched.seconds_left() == (4 * each + others) / 2  # two jobs at a time
    line = "training: 0 of 4 stages done | other jobs: 0 of 2 | about 4 min left"
    assert watched.line() == line
    begin(watched.tally, 1, JOBS[0])
    monkeypatch.setattr("time.monotonic", lambda: 1040.0)
    assert watched.seconds_left() == (4 * each - 40 + others) / 2
    monkeypatch.setattr("time.monotonic", lambda: 1000.0 + each)
    end(watched.tally, 1)
    assert watched.seconds_left() == (3 * each + others) / 2
    for number, work in enumerate(JOBS[1:4], 2):
        begin(watched.tally, number, work)
    monkeypatch.setattr("time.monotonic", lambda: 1000.0 + 2 * each)
    for number in (2, 3, 4):
        end(watched.tally, number)
    assert watched.seconds_left() == SCORES  # one after the other, whatever runs side by side
    assert "4 of 4 stages done | other jobs: 0 of 2 | under a minute left" in watched.line()
    for number, work in enumerate(JOBS[4:], 5):
        begin(watched.tally, number, work)
        end(watched.tally, number)
    assert watched.seconds_left() == 0 and "left" not in watched.line()


def test_jobs_that_take_longer_than_expected_slow_the_rest_before_they_end() -> None:
    stages = [Work("train", f"k{n}") for n in range(10)]
    costs = dict.fromkeys(stages, 20.0 - START)
    assert seconds_left(stages, {}, {}, costs, (2, 2)) == 100
    at = [seconds_left(stages, {}, dict.fromkeys(stages[:2], s), costs, (2, 2)) for s in (20, 40)]
    assert at == [80, pytest.approx((8 * 20 * 5 / 3) / 2)]  # of 100 s, 60 were reckoned
    ended = dict.fromkeys(stages[:2], 100.0)
    assert seconds_left(stages[2:], ended, {}, costs, (2, 2)) == pytest.approx(
        8 * 20 * 220 / 60 / 2
    )
    quick = dict.fromkeys(stages[:2], 5.0)
    assert seconds_left(stages[2:], quick, {}, costs, (2, 2)) == pytest.approx(8 * 20 * 0.5 / 2)


def test_each_rule_has_its_own_pace_and_room() -> None:
    figures = [Work("figure", f"f{n}") for n in range(9)]
    stage = Work("train", "k")
    left = seconds_left([stage, *figures[1:]], {figures[0]: 9.0}, {}, {stage: 20.0}, (1, 4))
    assert left == pytest.approx(20 + START + 8 * 3 * (9 + 3) / (3 + 3) / 4)


def test_of_a_queue_nothing_is_said_until_some_have_ended(watched: Watch) -> None:
    watched.gpu = False
    assert watched.seconds_left() is None and "time left not known yet" in watched.line()
    for number in range(3):
        begin(watched.tally, number, JOBS[number])
        watched.tally.running[number] = JOBS[number], 1000.0 - (20 + START)
        end(watched.tally, number)
    assert watched.seconds_left() == 20 + START  # not the 100 s of this machine


def test_a_failed_stage_is_not_waited_for(watched: Watch) -> None:
    begin(watched.tally, 1, JOBS[0])
    watched.tally.emit(record(LogEvent.JOB_ERROR, jobid=1))
    assert watched.seconds_left() == (3 * (100 + START) + QUICK + SCORES) / 2


def test_a_stage_may_fail_while_the_time_left_is_reckoned(watched: Watch) -> None:
    failed = watched.tally.failed

    class Slow(Work):
        def __hash__(self) -> int:
            failed[len(failed)] = JOBS[1]
            return super().__hash__()

    failed[0] = Slow("train", "k0", 0)
    assert watched.seconds_left() is not None


def test_a_stage_that_is_tried_again_has_not_failed(watched: Watch) -> None:
    begin(watched.tally, 1, JOBS[0])
    watched.tally.emit(record(LogEvent.JOB_ERROR, jobid=1))
    begin(watched.tally, 1, JOBS[0])
    assert "about 4 min left" in watched.line() and "failed" not in watched.line()
    end(watched.tally, 1)
    assert watched.ran() == ("ran 1 training stage and 0 other jobs in 0 s; 5 not reached")


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
    about = {"source": "DIR", "seeds": [0, 1]}
    papers = {"p": {"rule": "normalised", **about}, "none": {"rule": "plain", **about}}
    plan = write_plan(tmp_path, {"papers": papers, "tracking": True, "below": ""})
    said = summary(tmp_path, plan, ".venv/bin/minbert")
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
    logger.addHandler(Idle(places(tmp_path, tmp_path, tracking=True, command="minbert")))
    logger.info("Building DAG of jobs...")
    assert capsys.readouterr().err == ""
    logger.info("Nothing to be done (all requested files are present and up to date).")
    assert capsys.readouterr().err.splitlines() == [
        f"report  {tmp_path / 'report.html'}",
        f"runs    minbert ui --results {tmp_path}",
    ]
