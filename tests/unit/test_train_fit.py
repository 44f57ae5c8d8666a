"""Scores on train: what they are of, when they are logged, and how a run goes on with them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import torch
from stepping import learner

from minbert.evaluate.scoring import score_task
from minbert.spec.parts import load_part
from minbert.train.history import History, TrainScores
from minbert.train.run import train_stage

LABELS = {"sst": [0.0, 1, 2, 3], "para": [1.0, 1, 0, 0], "sts": [0.0, 1, 2, 5]}


def scores(history: History) -> TrainScores:
    return TrainScores(history, lambda task: torch.tensor(LABELS[task]))


def gather(made: TrainScores, task: str, *batches: tuple[list[int], list[float]]) -> None:
    for rows, prediction in batches:
        made.add(task, torch.tensor(rows), torch.tensor(prediction))


def test_an_epochs_batches_are_scored_together() -> None:
    history = History()
    made = scores(history)
    gather(made, "sst", ([3, 0], [3.0, 1.0]), ([1], [1.0]), ([3], [3.0]))
    gather(made, "para", ([2, 1], [0.0, 1.0]))
    gather(made, "sts", ([0, 3], [1.0, 2.0]), ([1], [1.0]))
    made.end_epoch(7, 2)
    found = {row[2:5]: row[5] for row in history.rows}
    r = torch.corrcoef(torch.tensor([[0.0, 5, 1], [1, 2, 1]]))[0, 1].item()
    assert found == {
        ("train", "sst", "accuracy"): 0.75,
        ("train", "para", "accuracy"): 1.0,
        ("train", "sts", "pearson"): pytest.approx(r, abs=1e-6),
        ("train", "overall", "plain"): pytest.approx((1.75 + r) / 3, abs=1e-6),
        ("train", "overall", "normalised"): pytest.approx((1.75 + (r + 1) / 2) / 3, abs=1e-6),
    }
    assert {row[:2] for row in history.rows} == {(7, 2)}
    gather(made, "sst", ([0], [4.0]))
    made.end_epoch(9, 3)
    assert [row[2:6] for row in history.rows[5:]] == [("train", "sst", "accuracy", 0.0)]


def test_it_goes_on_from_its_state() -> None:
    whole, cut, rest = History(), scores(History()), History()
    batches = [([3, 0], [3.0, 1.0]), ([1], [1.0]), ([2], [0.0])]
    uncut = scores(whole)
    gather(uncut, "sst", *batches)
    gather(cut, "sst", *batches[:2])
    later = scores(rest)
    later.load(cut.state())
    gather(later, "sst", *batches[2:])
    for made in (uncut, later):
        made.end_epoch(1, 1)
    assert [row[:6] for row in rest.rows] == [row[:6] for row in whole.rows]
    assert scores(History()).state() == {} == later.state()


@pytest.mark.parametrize("surgery", [None, "pcgrad"])
@pytest.mark.parametrize("room", [float("inf"), 1.0], ids=["whole", "in parts"])
def test_where_nothing_moves_they_are_the_models_scores_on_train(
    room: float,
    surgery: str | None,
    make_spec: Any,
    sources: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("minbert.train.run.budget", lambda *_: room)
    slow = {"lr": 1e-20}
    spec = make_spec(("sst", "sts"), still=True, surgery=surgery, optimiser=slow, epochs=1)
    given = sources("sst", "sts")
    train_stage(spec, 0, given, tmp_path, title="t", device="cpu", precision="fp32")
    rows = pq.read_table(tmp_path / "history.parquet").to_pylist()
    found = {r["task"]: r["value"] for r in rows if r["split"] == "train" and r["metric"] != "loss"}
    made = learner(spec, sources)
    made.module.eval()
    # An epoch is one pass over STS, the smallest task.
    prediction = load_part("loss", spec.tasks["sts"].loss)().prediction(
        made.outputs("sts", "train")
    )
    expected = score_task("sts", prediction, made.examples["sts"]["train"].labels)
    assert found["sts"] == pytest.approx(expected, abs=1e-4)
