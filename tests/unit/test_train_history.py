"""The history: every value once, in windows, and losses that are not finite refused."""

from __future__ import annotations

import math
import time
from pathlib import Path

import pyarrow.parquet as pq
import pytest
import torch
from torch import Tensor

from minbert.base.errors import UserError
from minbert.train.history import SCHEMA, History, LossMeter

Values = list[tuple[int, str, float]]


def ids(task: str, rows: Tensor) -> list[str]:
    return [f"{task}-{row}" for row in rows.tolist()]


def meter(history: History, window: int, read_every: int = 1) -> LossMeter:
    return LossMeter(history, ids, window, read_every)


def losses(history: History) -> Values:
    assert all(
        (split, metric) == ("train", "loss") for _, _, split, _, metric, _, _ in history.rows
    )
    return [(step, task, value) for step, _, _, task, _, value, _ in history.rows]


def feed(made: LossMeter, first: list[float], second: list[float], last: int) -> None:
    """Tell losses of SST (weight 1) and STS (weight 0.5), a pair a step; `last` ends an epoch."""
    for step, (a, b) in enumerate(zip(first, second, strict=True), start=1):
        made.add(step, "sst", torch.tensor([step]), 1.0, torch.tensor(a))
        made.add(step, "sts", torch.tensor([step]), 0.5, torch.tensor(b))
        made.after_step(step, epoch=1, last=step == last)


@pytest.mark.parametrize("read_every", [1, 3, 100])
def test_windows_hold_the_means_of_their_steps(read_every: int) -> None:
    history = History()
    feed(meter(history, 2, read_every), [1.0, 3.0, 5.0, 6.0, 9.0], [4.0, 2.0, 8.0, 0.0, 2.0], 5)
    assert losses(history) == [
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


def test_the_overall_loss_of_sequential_steps_is_that_of_each_steps_task() -> None:
    history = History()
    made = meter(history, 3)
    for step, (task, value) in enumerate([("sst", 2.0), ("sst", 4.0), ("sts", 9.0)], start=1):
        made.add(step, task, torch.tensor([0]), 1.0, torch.tensor(value))
        made.after_step(step, epoch=1)
    assert set(losses(history)) == {(3, "sst", 3.0), (3, "sts", 9.0), (3, "overall", 5.0)}


def test_the_latest_loss_is_the_last_steps_sum() -> None:
    made = meter(History(), 10)
    assert math.isnan(made.latest)
    feed(made, [1.0, 3.0], [4.0, 2.0], 0)
    assert made.latest == pytest.approx(4.0)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("read_every", [1, 4])
def test_a_loss_that_is_not_finite_is_told_with_step_task_and_ids(
    value: float, read_every: int
) -> None:
    made = meter(History(), 50, read_every)
    message = rf"task 'sts' is {value} at step 2; batch ids: sts-2\. Lower optimiser\.lr"
    with pytest.raises(UserError, match=message):
        feed(made, [1.0] * 4, [1.0, value, 1.0, 1.0], 0)


def test_losses_are_kept_without_their_graph() -> None:
    made = meter(History(), 50, 50)
    weight = torch.nn.Parameter(torch.ones(()))
    made.add(1, "sst", torch.tensor([0]), 1.0, weight * 2)
    assert not made.waiting[0][-1].requires_grad


def test_a_listener_hears_every_row_as_it_is_written(tmp_path: Path) -> None:
    heard: list[tuple[object, ...]] = []
    history = History(heard.append)
    history.log(3, 1, "dev", "sst", "accuracy", 0.5)
    history.log(3, 1, "dev", "overall", "plain", torch.tensor(0.25).item())
    assert heard == history.rows
    history.write(tmp_path / "history.parquet")
    table = pq.read_table(tmp_path / "history.parquet")
    assert table.schema.equals(SCHEMA)
    assert [tuple(row.values()) for row in table.to_pylist()] == heard
    assert all(abs(row["time"] - time.time()) < 60 for row in table.to_pylist())


def test_details_are_kept_and_not_told() -> None:
    heard: list[tuple[object, ...]] = []
    history = History(heard.append)
    history.log(3, 1, "train", "sst-sts", "gradient_cosine", 0.5)
    history.log(3, 1, "train", "sst-sts", "gradient_cosine/embeddings", 0.25)
    assert heard == history.rows[:1] and len(history.rows) == 2


def test_an_empty_history_has_its_columns(tmp_path: Path) -> None:
    History().write(tmp_path / "history.parquet")
    table = pq.read_table(tmp_path / "history.parquet")
    assert table.schema.equals(SCHEMA) and len(table) == 0
