"""Scores of the best epoch in MLflow: those of the paper's table, their floors, what was learnt."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from following import results, start, stored_run

from minbert.evaluate.score import score_runs
from minbert.evaluate.table import write_table
from minbert.evaluate.table_rows import read_table
from minbert.evaluate.text import read_csv
from minbert.plan.plan import Plan
from minbert.store.job import node_folder
from minbert.track.follower import Follower
from minbert.track.runs import of_predictions
from minbert.track.store import Tag, open_store

TYPES = {"prediction": pa.float64(), "label": pa.float64()}


@pytest.fixture
def root(tmp_path: Path, mlflow_store: Path) -> Path:
    return results(tmp_path.resolve(), mlflow_store)


def make_table(plan: Plan, folder: Path) -> Path:
    """Write `table.csv` of paper `one` to `folder`; return the path of its scores."""
    runs = []
    for run in plan.shown["scores/one"].spec["runs"]:
        tasks = {}
        for task, key in dict(run.get("tasks", {})).items():
            ran = node_folder(plan.root, "train", key, run["seed"])
            files = {name: ran / f"{name}.parquet" for name in ("predictions", "history")}
            tasks[task] = {"key": key, **files}
        runs.append({**run, "tasks": tasks})
    score_runs(runs, folder / "scores.parquet")
    write_table(read_table(plan.shown["tables/one"].spec, folder / "scores.parquet", {}), folder)
    return folder / "scores.parquet"


def test_the_metrics_of_runs_are_the_figures_of_the_table(trained_plan: Plan, root: Path) -> None:
    """Of variants of one stage and of several, and of a task that a stage only carries along."""
    scores = pq.read_table(make_table(trained_plan, root)).to_pylist()
    keys = {(row["variant"], row["task"]): row["key"] for row in scores if row["split"] == "dev"}
    shutil.copytree(trained_plan.root / "tracking", root / "tracking")
    Follower(root).finish()
    store = open_store(root)
    runs = {r.data.tags[Tag.KEY]: r.data for r in store.runs("", store.experiment("one"))}
    columns = {"overall_normalised_mean": "overall"}
    columns |= {f"{task}_mean": task for task in ("sst", "para", "sts")}
    compared = set()
    for row in read_csv(root / "table.csv"):
        for column, task in columns.items():
            metrics = runs[key].metrics if (key := keys.get((row["variant"], task))) else {}
            if row["split"] == "dev" and f"best/{task}" in metrics:
                assert float(row[column]) == pytest.approx(metrics[f"best/{task}"], rel=1e-7)
                compared.add(f"{row['variant']} {task}")
    assert {"three overall", "three para", "staged sts", "adapted sst", "fused sts"} <= compared


def predictions(path: Path, **tasks: tuple[Sequence[float], Sequence[float | None]]) -> Path:
    """Write the predictions and labels of each task's dev examples."""
    rows = [
        {
            "task": task,
            "split": split,
            "prediction": ours,
            "label": label if split == "dev" else None,
        }
        for task, pair in tasks.items()
        for n, (ours, label) in enumerate(zip(*pair, strict=True))
        for split in ("dev", "test")
    ]
    names = ("task", "split", "prediction", "label")
    schema = pa.schema([(name, TYPES.get(name, pa.string())) for name in names])
    pq.write_table(pa.Table.from_pylist(rows, schema=schema), path)
    return path


def test_floors_and_what_was_learnt_can_be_filtered_by(root: Path) -> None:
    found = predictions(
        root / "p.parquet",
        sst=([0, 1] * 10, [0, 1] * 10),
        para=([1] * 20, [1, 1, 0, 1] * 5),
        sts=([1, 2] * 10, [1, 1.5, 1.2, 1] * 5),
        lmrd=([1], [None]),
    )
    metrics, shown = of_predictions(found, "normalised")
    for key, tags in (("shown", shown), ("other", {"learned": "sst,para"})):
        start(root, key).end("FINISHED", tags=tags, metrics=metrics, step=30)
    Follower(root).finish()
    (attempt,) = (root / "tracking").glob("*-shown-*")
    run = stored_run(root, attempt)
    r = run.data.metrics["best/sts"]
    assert run.data.metrics == pytest.approx(
        {"best/sst": 1.0, "floor/sst": 0.5, "best/para": 0.75, "floor/para": 0.75}
        | {"best/sts": r, "floor/sts": 0.0, "best/overall": (1.75 + (r + 1) / 2) / 3}
        | {"floor/overall": (0.5 + 0.75 + 0.5) / 3}
    )
    (point,) = open_store(root).client.get_metric_history(run.info.run_id, "best/overall")
    assert point.step == 30
    said = {name: run.data.tags.get(name) for name in ("learned", "not_learned", "constant")}
    assert said == {"learned": "sst", "not_learned": "para,sts", "constant": "para"}
    store = open_store(root)
    identity = store.experiment("paper")
    for query, count in (("not_learned LIKE '%para%'", 1), ("learned LIKE '%sst%'", 2)):
        assert len(store.client.search_runs([identity], f"tags.{query}")) == count, query
