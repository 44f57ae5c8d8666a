"""The history: every value once, losses in windows, scores of an epoch's training batches."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow.parquet as pq
import pytest
import torch
from stepping import tiny_model

from minbert.base.errors import UserError
from minbert.evaluate.scoring import score_task
from minbert.train.history import SCHEMA, History, TrainingMeter
from minbert.train.run import train_stage
from minbert.train.step import TaskResult

LABELS = {"sst": [0.0, 1, 2, 3], "para": [1.0, 1, 0, 0], "sts": [0.0, 1, 2, 5]}
EXAMPLES: Any = {
    task: SimpleNamespace(ids=[f"{task}-{n}" for n in range(9)], labels=torch.tensor(labels))
    for task, labels in LABELS.items()
}


def meter(window: int = 1000, read_every: int = 1) -> TrainingMeter:
    return TrainingMeter(History(), EXAMPLES, window, read_every)


def result(
    task: str,
    loss: float = 0.0,
    weight: float = 1.0,
    rows: Iterable[int] = (0,),
    prediction: Iterable[float] = (0.0,),
) -> TaskResult:
    rows, predicted = torch.tensor(list(rows)), torch.tensor(list(prediction))
    return TaskResult(task, rows, weight, torch.tensor(loss), predicted, {})


def feed(made: TrainingMeter, first: list[float], second: list[float], last: int = 0) -> None:
    """Add losses of SST (weight 1) and STS (weight 0.5), a pair a step; `last` ends an epoch."""
    for step, (a, b) in enumerate(zip(first, second, strict=True), start=1):
        made.add(step, [result("sst", a, rows=[step]), result("sts", b, 0.5, rows=[step])])
        made.after_step(step, epoch=1, last=step == last)


@pytest.mark.parametrize("read_every", [1, 3, 100])
def test_windows_hold_the_means_of_their_steps(read_every: int) -> None:
    made = meter(2, read_every)
    assert math.isnan(made.latest)
    feed(made, [1.0, 3.0, 5.0, 6.0, 9.0], [4.0, 2.0, 8.0, 0.0, 2.0], last=5)
    assert {row[2:5:2] for row in made.history.rows} == {("train", "loss")}
    assert [(row.step, row.task, row.value) for row in made.history.rows] == [
        (2, "sst", 2.0),
        (2, "sts", 3.0),
        (2, "overall", 3.5),
        (4, "sst", 5.5),
        (4, "sts", 4.0),
        (4, "overall", 7.5),
        (5, "sst", 9.0),
        (5, "sts", 2.0),
        (5, "overall", 10.0),
    ]
    assert made.latest == 10.0


def test_the_overall_loss_of_sequential_steps_is_that_of_each_steps_task() -> None:
    made = meter(3)
    for step, (task, value) in enumerate([("sst", 2.0), ("sst", 4.0), ("sts", 9.0)], start=1):
        made.add(step, [result(task, value)])
        made.after_step(step, epoch=1)
    found = {(row.task, row.value) for row in made.history.rows}
    assert found == {("sst", 3.0), ("sts", 9.0), ("overall", 5.0)}


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("read_every", [1, 4])
def test_a_loss_that_is_not_finite_is_told_with_step_task_and_ids(
    value: float, read_every: int
) -> None:
    message = rf"task 'sts' is {value} at step 2; batch ids: sts-2\. Lower optimiser\.lr"
    with pytest.raises(UserError, match=message):
        feed(meter(50, read_every), [1.0] * 4, [1.0, value, 1.0, 1.0])


def test_an_epochs_batches_are_scored_together() -> None:
    made = meter()
    batches = [
        result("sst", rows=[3, 0], prediction=[3.0, 1.0]),
        result("sst", rows=[1], prediction=[1.0]),
        result("sst", rows=[3], prediction=[3.0]),
        result("para", rows=[2, 1], prediction=[0.0, 1.0]),
        result("sts", rows=[0, 3], prediction=[1.0, 2.0]),
        result("sts", rows=[1], prediction=[1.0]),
    ]
    made.add(1, batches)
    made.end_epoch(7, 2)
    found = {row[2:5]: row.value for row in made.history.rows}
    r = torch.corrcoef(torch.tensor([[0.0, 5, 1], [1, 2, 1]]))[0, 1].item()
    assert found == {
        ("train", "sst", "accuracy"): 0.75,
        ("train", "para", "accuracy"): 1.0,
        ("train", "sts", "pearson"): pytest.approx(r, abs=1e-6),
        ("train", "overall", "plain"): pytest.approx((1.75 + r) / 3, abs=1e-6),
        ("train", "overall", "normalised"): pytest.approx((1.75 + (r + 1) / 2) / 3, abs=1e-6),
    }
    assert {row[:2] for row in made.history.rows} == {(7, 2)}
    made.add(2, [result("sst", rows=[0], prediction=[4.0])])
    made.end_epoch(9, 3)
    assert [row[2:6] for row in made.history.rows[5:]] == [("train", "sst", "accuracy", 0.0)]


@pytest.mark.parametrize("surgery", [None, "pcgrad"])
@pytest.mark.parametrize("budget", [float("inf"), 1.0], ids=["whole", "in parts"])
def test_where_nothing_moves_they_are_the_models_scores_on_train(
    budget: float,
    surgery: str | None,
    make_spec: Any,
    sources: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("minbert.train.run.activation_budget", lambda *_: budget)
    spec = make_spec(("sst", "sts"), still=True, surgery=surgery, optimiser={"lr": 1e-20})
    given = sources("sst", "sts")
    train_stage(spec, 0, given, tmp_path, title="t", device="cpu", precision="fp32")
    rows = pq.read_table(tmp_path / "history.parquet").to_pylist()
    found = {r["task"]: r["value"] for r in rows if r["split"] == "train" and r["metric"] != "loss"}
    model = tiny_model(spec, sources)
    model.module.eval()
    # An epoch is one pass over STS, the smallest task.
    prediction = model.losses["sts"].prediction(model.outputs("sts", "train"))
    expected = score_task("sts", prediction, model.examples["sts"]["train"].labels)
    assert found["sts"] == pytest.approx(expected, abs=1e-4)


def test_a_listener_hears_every_row_but_details_as_it_is_written(tmp_path: Path) -> None:
    heard: list[tuple[object, ...]] = []
    history = History(heard.append)
    history.log(3, 1, "dev", "sst", "accuracy", 0.5)
    history.log(3, 1, "train", "sst-sts", "gradient_cosine/embeddings", 0.25)
    history.log(3, 1, "dev", "overall", "plain", torch.tensor(0.25).item())
    assert heard == [history.rows[0], history.rows[2]]
    history.write(tmp_path / "history.parquet")
    table = pq.read_table(tmp_path / "history.parquet")
    assert table.schema.equals(SCHEMA)
    assert [tuple(row.values()) for row in table.to_pylist()] == history.rows
    assert all(abs(row["time"] - time.time()) < 60 for row in table.to_pylist())
