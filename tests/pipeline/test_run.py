"""A complete run: what it leaves, and what MLflow has of it."""

from __future__ import annotations

import math
import re
import resource
import sqlite3
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from chaos.compare import Point, read_store
from PIL import Image

from minbert.store.node import KINDS

from .project import PAPER, Project

pytestmark = pytest.mark.pipeline

STEADY = 1.9
"""How many times as much CPU as an empty workflow one with nothing to be done may take.

Measured: 1.5. Importing torch would make it 2.8."""


def test_a_run_leaves_tables_figures_and_all_outputs(finished: Project) -> None:
    root = finished.root
    for ending in ("csv", "md", "tex"):
        assert "hybrid-bert" in (root / "tables" / f"{PAPER}.{ending}").read_text("utf-8")
    figure = root / "figures" / PAPER / "multitask-loss"
    assert figure.with_suffix(".pdf").read_bytes().startswith(b"%PDF")
    with Image.open(figure.with_suffix(".png")) as image:
        assert min(image.size) > 300
    scores = pq.read_table(root / "tables" / "scores.parquet")
    assert set(scores.column("variant").to_pylist()) == set(finished.variants().values())
    for variant in finished.variants().values():
        found = {path.name for path in finished.seed_folder(variant).iterdir()}
        assert found == set(KINDS["train"].outputs)


def test_the_terminal_tells_how_far_it_is_and_what_came_of_it(finished: Project) -> None:
    printed = (finished.folder / "printed.txt").read_text("utf-8")
    assert printed.count("training runs on cpu") == 1
    assert re.search(r"\d+ of 23 jobs done in .* \| now: ", printed)
    assert printed.count("23 of 23 jobs done in ") == 1
    last = printed[printed.index("\n23 of 23 jobs done in ") :].splitlines()
    assert "failed" not in last[1] and "results/report.html" in last
    assert any(line.endswith("bin/minbert ui --results results") for line in last)
    # Plain lines: no colour, nothing rewritten, and no block for every job beside them.
    assert not set("\x1b\r\x08") & set(printed) and "rule train:" not in printed
    logs = (finished.folder / ".snakemake" / "log").glob("*.log")  # of later looks, too
    assert any("rule train:" in path.read_text("utf-8") for path in logs)


def nothing_to_be_done(project: Project) -> float:
    """Return the seconds of CPU that Snakemake takes to find that there is nothing to be done."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert "Nothing to be done" in project.snakemake("all")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def test_again_there_is_nothing_to_be_done(finished: Project, tmp_path: Path) -> None:
    """Beside a workflow that is empty, as machines differ; other work only adds to either."""
    (tmp_path / "Snakefile").write_text("rule all:\n    input: 'Snakefile'\n", encoding="utf-8")
    empty = Project(tmp_path)
    taken = [(nothing_to_be_done(finished), nothing_to_be_done(empty)) for _ in range(2)]
    assert min(ours for ours, _ in taken) < STEADY * min(its for _, its in taken)


def test_the_store_has_every_row_and_every_run_is_finished(finished: Project) -> None:
    check_store(finished, [finished.seed_folder(v) for v in finished.variants().values()])


def test_mlflow_has_the_grids_rows(finished: Project) -> None:
    with sqlite3.connect(finished.root / "mlflow.db") as store:
        rows = "select value from tags join runs using (run_uuid) where key = 'minbert.row'"
        found = store.execute(f"{rows} and status = 'FINISHED'").fetchall()
        note = "select value from experiment_tags where key = 'mlflow.note.content'"
        ((said,),) = store.execute(note).fetchall()
    scored = {row["variant"] for row in finished.table(PAPER) if row["status"] == "scored"}
    assert {name for (name,) in found} == scored and len(found) == len(scored)
    assert "workflow/grids/hybrid-bert.yaml" in said


def check_store(project: Project, folders: list[Path]) -> None:
    """Compare each row of each history with the store, both ways, and how the runs ended.

    Details (a slash in the metric) are not told to the store.
    """
    stored = read_store(project.root / "mlflow.db").values()
    for folder in folders:
        at = {"minbert.key": folder.parent.name, "minbert.seed": folder.name.removeprefix("seed")}
        (run,) = (run for run in stored if at.items() <= run.tags.items())
        assert run.status == "FINISHED", folder
        # What a run came to, and what it took, is told once it has ended.
        ends = ("best/", "test/", "cost/")
        curves = {point: n for point, n in run.points.items() if not point[0].startswith(ends)}
        assert len(curves) < len(run.points)
        rows = pq.read_table(folder / "history.parquet").to_pylist()
        assert len(rows) > 5
        assert curves == Counter(as_stored(row) for row in rows if "/" not in row["metric"])


def as_stored(row: dict[str, Any]) -> Point:
    """Return a row of a history as MLflow keeps it."""
    name = f"{row['split']}/{row['task']}/{row['metric']}"
    nan = math.isnan(row["value"])
    return name, row["step"], round(row["time"] * 1000), 0.0 if nan else row["value"], nan
