"""The history: every value once, losses in windows, scores of an epoch's training batches."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from minbert.base.errors import UserError
from minbert.train.history import History
from minbert.train.step import TaskResult

LABELS = {"sst": [0.0, 1, 2, 3], "para": [1.0, 1, 0, 0], "sts": [0.0, 1, 2, 5]}
EXAMPLES = {
    task: {"train": SimpleNamespace(ids=[f"{task}-{n}" for n in range(9)], labels=torch.tensor(of))}
    for task, of in LABELS.items()
}
MODULE = SimpleNamespace(spec=SimpleNamespace(selection_split="dev"))
MODEL: Any = SimpleNamespace(examples=EXAMPLES, module=MODULE)


def result(
    task: str, loss: float = 0.0, weight: float = 1.0, rows: Any = (0,), prediction: Any = (0.0,)
) -> TaskResult:
    predicted = torch.tensor(prediction)
    return TaskResult(task, torch.tensor(rows), weight, torch.tensor(loss), predicted)


@pytest.fixture
def history() -> History:
    return History(MODEL)


def feed(history: History, *steps: list[TaskResult]) -> list[Any]:
    """Return (step, task, value) of what is logged of the losses of a window of these steps."""
    for results in steps:
        history.step += 1
        history.add(results)
    before = len(history.rows)
    history.end_window()
    rows = history.rows[before:]
    assert {row[2:5:2] for row in rows} == {("train", "loss")}
    return [row[0:6:3] + row[5:6] for row in rows]


def test_windows_hold_the_means_of_their_steps_also_where_tasks_take_turns(
    history: History,
) -> None:
    both = [result("sst", 1.0), result("sts", 4.0, 0.5)]
    expected = [(2, "sst", 2.0), (2, "sts", 4.0), (2, "overall", 3.0)]
    assert feed(history, both, [result("sst", 3.0)]) == expected
    assert history.loss == 3.0
    assert feed(history, [result("sts", 8.0, 0.5)]) == [(3, "sts", 8.0), (3, "overall", 4.0)]


@pytest.mark.parametrize("value", [math.nan, -math.inf])
def test_a_loss_that_is_not_finite_is_told_with_step_task_and_ids(
    value: float, history: History
) -> None:
    message = rf"task 'sts' is {value} at step 2; batch ids: sts-2\. Lower optimiser\.lr"
    with pytest.raises(UserError, match=message):
        feed(history, [result("sts", 1.0, rows=[1])], [result("sts", value, rows=[2])])


def test_an_epochs_batches_are_scored_together(history: History) -> None:
    feed(history, [result("sts", rows=[0, 3], prediction=[5.0, 0.0])])
    feed(history, [result("sts", rows=[1], prediction=[4.0]), result("para", rows=[2])])
    feed(history, [result("sst", rows=[3, 0], prediction=[3.0, 1.0])], [result("para")])
    history.end_epoch({})
    assert [(*row[2:5], round(row[5], 6)) for row in history.rows if row[4] != "loss"] == [
        ("train", "sst", "accuracy", 0.5),
        ("train", "para", "accuracy", 0.5),
        ("train", "sts", "pearson", -1.0),
        ("train", "overall", "normalised", 0.333333),
        ("train", "overall", "plain", 0.0),
    ]
    feed(history, [result("sst", prediction=[4.0])])
    history.end_epoch({})
    assert history.rows[-1][2:6] == ("train", "sst", "accuracy", 0.0)
