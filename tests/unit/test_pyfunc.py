"""The registered model as MLflow loads it: the predictions of `minbert predict`."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from following import results

from minbert.base.errors import UserError
from minbert.evaluate.reading import SCHEMA
from minbert.plan.plan import Plan
from minbert.predict.predict import predict
from minbert.spec.resolve import StageRef
from minbert.store.plans import records
from minbert.track.follower import Follower
from minbert.track.grid_run import record_grids
from minbert.track.store import open_store

FIRST = ["a warm film", "it drags", "how far is it ?"]
SECOND = ["a cold film", "it drags on", "is it far ?"]
STAGES = {
    "three": {"sst": "main", "para": "main", "sts": "main"},
    "adapted": {"sst": "a", "sts": "b"},  # a training for each, on a frozen backbone
}


@pytest.fixture
def tracking(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """MLflow, which is left as it was found."""
    import mlflow

    yield mlflow
    mlflow.set_tracking_uri(None)  # which takes it out of the environment, too


def load_best(plan: Plan, variant: str, folder: Path, store: Path, mlflow: Any) -> tuple[Path, Any]:
    """Publish the trained plan with this variant as its best one, and load that as MLflow does."""
    root = Path(shutil.copytree(plan.root, folder.resolve() / "results"))
    results(root, store)
    about = {"paper": "one", "variant": variant, "seed": 0, "split": "dev", "value": 0.9}
    rows = [about | {"task": "overall", "metric": "normalised", "key": "k"}]
    for task, stage in STAGES[variant].items():
        metric = "pearson" if task == "sts" else "accuracy"
        key = plan.train(StageRef("one", variant, stage)).key
        rows.append(about | {"task": task, "metric": metric, "key": key})
    pq.write_table(pa.Table.from_pylist(rows, schema=SCHEMA), root / "tables" / "scores.parquet")
    ((name, record),) = records(root)
    only = {"one": record["papers"]["one"]}
    record_grids(root, record | {"shown": [], "papers": only}, complete=True)
    Follower(root, plan=name).finish()
    mlflow.set_tracking_uri(open_store(root).uri)
    shutil.rmtree(root / "store")  # the registered model needs nothing of it
    return root, mlflow.pyfunc.load_model("models:/one@best")


@pytest.mark.parametrize("variant", STAGES)
def test_a_loaded_model_predicts_as_the_command_does(
    variant: str,
    trained_plan: Plan,
    tmp_path: Path,
    mlflow_store: Path,
    tracking: Any,
    capsys: pytest.CaptureFixture[str],
) -> None:
    _, model = load_best(trained_plan, variant, tmp_path, mlflow_store, tracking)
    tasks = list(STAGES[variant])
    texts = [(task, one, two) for one, two in zip(FIRST, SECOND, strict=True) for task in tasks]
    frame = pd.DataFrame(texts, columns=["task", "sentence1", "sentence2"])
    frame.index = pd.Index([f"row {n}" for n in range(len(frame))])
    made = model.predict(frame)
    assert list(made.index) == list(frame.index)
    capsys.readouterr()
    for task in tasks:
        pairs = [*zip(FIRST, SECOND, strict=True)]
        words = FIRST if task == "sst" else [text for pair in pairs for text in pair]
        predict(trained_plan.root, f"one/{variant}", task=task, sentences=words)
        lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
        of_task = made[made["task"] == task].to_dict("records")
        assert len(lines) == len(of_task) == len(FIRST)
        for line, row in zip(lines, of_task, strict=True):
            assert {name: row[name] for name in line} == line
            assert all(pd.isna(row[name]) for name in row.keys() - line.keys())


def test_a_frame_that_does_not_fit_is_refused(
    trained_plan: Plan, tmp_path: Path, mlflow_store: Path, tracking: Any
) -> None:
    _, model = load_best(trained_plan, "three", tmp_path, mlflow_store, tracking)
    frame = pd.DataFrame({"sentence1": FIRST})
    refused = {
        "give each row a 'task', as by frame.assign(task='para')": frame,
        "found task 'cola', expected one of para, sst, sts": frame.assign(task="cola"),
        "found the columns sentence1, task; task 'sts' needs sentence2, too": frame.assign(
            task="sts"
        ),
        "found a frame without rows, expected": frame.assign(task="sst").iloc[:0],
        "found a list, expected a data frame of sentences": FIRST,
    }
    for told, given in refused.items():
        with pytest.raises(UserError) as raised:
            model.predict(given)
        assert told in str(raised.value)
