"""The history: every value once, losses in windows, scores of an epoch's training batches."""

from __future__ import annotations

import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow.parquet as pq
import pytest
import torch

from minbert.base.errors import UserError
from minbert.train.history import SCHEMA, History, TrainingMeter
from minbert.train.step import TaskResult

LABELS = {"sst": [0.0, 1, 2, 3], "para": [1.0, 1, 0, 0], "sts": [0.0, 1, 2, 5]}
EXAMPLES: Any = {
    task: SimpleNamespace(ids=[f"{task}-{n}" for n in range(9)], labels=torch.tensor(labels))
    for task, labels in LABELS.items()
}


@pytest.fixture
def meter() -> TrainingMeter:
    return TrainingMeter(History(), EXAMPLES)


def result(
    task: str, loss: float = 0.0, weight: float = 1.0, rows: Any = (0,), prediction: Any = (0.0,)
) -> TaskResult:
    predicted = torch.tensor(prediction)
    return TaskResult(task, torch.tensor(rows), weight, torch.tensor(loss), predicted)


def feed(meter: TrainingMeter, steps: list[list[TaskResult]], window: int) -> list[Any]:
    """Return (step, split, task, metric, value) of what is logged of these steps."""
    for results in steps:
        meter.history.step += 1
        meter.add(results)
        if meter.history.step % window == 0:
            meter.end_window()
    return [(step, *of) for step, _, *of, _ in meter.history.rows]


def losses(step: int, **values: float) -> list[Any]:
    return [(step, "train", task, "loss", value) for task, value in values.items()]


def test_windows_hold_the_means_of_their_steps(meter: TrainingMeter) -> None:
    of_steps = [(1.0, 4.0), (3.0, 2.0), (5.0, 8.0), (6.0, 0.0)]
    steps = [[result("sst", a), result("sts", b, 0.5)] for a, b in of_steps]
    expected = losses(2, sst=2.0, sts=3.0, overall=3.5) + losses(4, sst=5.5, sts=4.0, overall=7.5)
    assert feed(meter, steps, 2) == expected
    assert meter.latest() == 6.0


def test_the_overall_loss_of_sequential_steps_is_that_of_each_steps_task(
    meter: TrainingMeter,
) -> None:
    steps = [[result("sst", 2.0)], [result("sst", 4.0)], [result("sts", 9.0)]]
    assert feed(meter, steps, 3) == losses(3, sst=3.0, sts=9.0, overall=5.0)


@pytest.mark.parametrize("value", [math.nan, -math.inf])
def test_a_loss_that_is_not_finite_is_told_with_step_task_and_ids(
    value: float, meter: TrainingMeter
) -> None:
    steps = [[result("sts", 1.0, rows=[1])], [result("sts", value, rows=[2])]]
    message = rf"task 'sts' is {value} at step 2; batch ids: sts-2\. Lower optimiser\.lr"
    with pytest.raises(UserError, match=message):
        feed(meter, steps, 2)


def test_an_epochs_batches_are_scored_together(meter: TrainingMeter) -> None:
    batches = {
        "sst": [([3, 0], [3.0, 1.0]), ([1], [1.0]), ([3], [3.0])],
        "para": [([2, 1], [0.0, 1.0])],
        "sts": [([0, 3], [1.0, 2.0]), ([1], [1.0])],
    }
    steps = [[result(t, rows=r, prediction=p)] for t, of in batches.items() for r, p in of]
    feed(meter, steps, 3)
    meter.end_epoch()
    r = torch.corrcoef(torch.tensor([[0.0, 5, 1], [1, 2, 1]]))[0, 1].item()
    found = {row[2:5]: row[5] for row in meter.history.rows if row[4] != "loss"}
    assert found == pytest.approx(
        {
            ("train", "sst", "accuracy"): 0.75,
            ("train", "para", "accuracy"): 1.0,
            ("train", "sts", "pearson"): r,
            ("train", "overall", "plain"): (1.75 + r) / 3,
            ("train", "overall", "normalised"): (1.75 + (r + 1) / 2) / 3,
        },
        abs=1e-6,
    )
    feed(meter, [[result("sst", prediction=[4.0])]], 1)
    meter.end_epoch()
    assert meter.history.rows[-1][2:6] == ("train", "sst", "accuracy", 0.0)


def test_a_listener_hears_every_row_but_details_as_it_is_written(tmp_path: Path) -> None:
    heard: list[tuple[object, ...]] = []
    history = History(heard.append)
    history.log("dev", "sst", "accuracy", 0.5)
    history.log("train", "sst-sts", "gradient_cosine/embeddings", 0.25)
    history.log("dev", "overall", "plain", 0.25)
    assert heard == [history.rows[0], history.rows[2]]
    history.write(tmp_path / "history.parquet")
    table = pq.read_table(tmp_path / "history.parquet")
    assert table.schema.equals(SCHEMA)
    assert [tuple(row.values()) for row in table.to_pylist()] == history.rows
