"""The score table that is made of runs' predictions, rows that are the best of others, the best."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from factories import history, predictions, score

from minbert.evaluate.reading import SCHEMA, Score, read_scores
from minbert.evaluate.score import RunScores, best_of_each_task, candidates, choose
from minbert.spec.task import TASKS

# (task, split) -> (predictions, labels); None in place of the labels: they are not public
Rows = dict[tuple[str, str], tuple[list[float], Sequence[float | None] | None]]

DEV: Rows = {
    ("sst", "dev"): ([0, 1, 2, 3], [0, 1, 2, 4]),
    ("para", "dev"): ([1, 0], [1, 1]),
    ("sts", "dev"): ([1.0, 2.0, 3.0], [0.0, 2.0, 4.0]),
}
THREE = ("sst", "para", "sts")
OVERALL = [("dev", "overall", rule) for rule in ("normalised", "plain")]


def train(folder: Path, name: str, rows: Rows, *measured: tuple[int, str, str, float]) -> None:
    """Leave the files of the training `name`, KEY.SEED: predictions, and dev scores by epoch."""
    lines = [
        (f"{split}{i}", task, split, value, labels[i] if labels else None)
        for (task, split), (predicted, labels) in rows.items()
        for i, value in enumerate(predicted)
    ]
    path = predictions(folder / name / "predictions.parquet", *lines)
    history(path.with_name("history.parquet"), *((e, "dev", *rest) for e, *rest in measured))


def variant(name: str, key: str, tasks: Sequence[str] = THREE, **more: Any) -> dict[str, Any]:
    return {"name": name, "tasks": dict.fromkeys(tasks, key)} | more


def column(rows: list[dict[str, Any]], name: str = "value") -> dict[tuple[str, ...], Any]:
    return {(row["split"], row["task"], row["metric"]): row[name] for row in rows}


def test_golden_table(tmp_path: Path) -> None:
    """Each task from its own training; the last epoch's dev scores stand beside the best."""
    measured = {
        "sst": [(2, "sst", "accuracy", 0.6), (1, "sst", "accuracy", 0.75), (2, "sst", "loss", 9.0)],
        "para": [(1, "para", "accuracy", 0.4), (2, "para", "accuracy", 0.9)],
        "sts": [(2, "sts", "pearson", 0.5)],
    }
    for task, of in measured.items():
        train(
            tmp_path, f"k-{task}.0", {key: rows for key, rows in DEV.items() if key[0] == task}, *of
        )
    path = tmp_path / "scores.parquet"
    rows = score(path, {"name": "v", "tasks": {task: f"k-{task}" for task in THREE}})
    assert pq.read_schema(path).equals(SCHEMA) and len(rows) == 9
    expected = {("dev", "sst", "accuracy"): 0.75, ("dev", "para", "accuracy"): 0.5}
    expected |= {("dev", "para", "f1"): 2 / 3, ("dev", "sts", "pearson"): 1}
    expected |= {("dev", "sts", "rmse"): (2 / 3) ** 0.5} | dict.fromkeys(OVERALL, 0.75)
    found, last = column(rows), column(rows, "last")
    assert {of: found[of] for of in expected} == pytest.approx(expected)
    keys = {"sst": "k-sst", "para": "k-para", "sts": "k-sts", "overall": "own"}
    assert {row["task"]: row["key"] for row in rows} == keys
    assert last["dev", "sst", "accuracy"] == 0.6 and last["dev", "sst", "macro_f1"] is None
    overall = ((0.6 + 0.9 + 0.75) / 3, (0.6 + 0.9 + 0.5) / 3)
    assert [last[of] for of in OVERALL] == pytest.approx(overall)


def test_only_what_is_there_is_scored(tmp_path: Path) -> None:
    """Test where asked for, on rows with labels; runs with all files; overall of all tasks."""
    test: Rows = {("sst", "test"): ([0, 1, 2], [0, None, 1]), ("para", "test"): ([0, 1], None)}
    train(tmp_path, "a.0", DEV | test)
    train(tmp_path, "a.1", DEV)
    variants = [variant("two", "a", ("sst", "para")), variant("three", "a", tested=True)]
    half = {"name": "half", "tasks": {"sst": "a", "para": "none"}}
    path = tmp_path / "scores.parquet"
    rows = score(path, *variants, half, seeds=(0, 1, 2))
    tested = [row for row in rows if row["split"] == "test"]
    assert {(row["variant"], row["seed"], row["task"]) for row in tested} == {("three", 0, "sst")}
    assert column(tested)["test", "sst", "accuracy"] == 0.5
    assert {row["variant"] for row in rows if row["task"] == "overall"} == {"three"}
    of = [(name, seed) for name in ("two", "three") for seed in (0, 1)]
    assert list(dict.fromkeys((row["variant"], row["seed"]) for row in rows)) == of
    assert column(rows, "last")["dev", "sts", "pearson"] is None  # evaluated only
    assert score(path) == []


def test_floors_and_errors_stand_beside_the_scores(tmp_path: Path) -> None:
    rows: Rows = {
        ("sst", "dev"): ([1.0] * 16 + [0.0] * 4, [1.0] * 12 + [0.0] * 8),
        ("para", "dev"): ([1.0] * 20, [1.0] * 12 + [0.0] * 8),
        ("sts", "dev"): (list(range(20)), list(range(20))),
    }
    train(tmp_path, "a.0", rows)
    score(tmp_path / "scores.parquet", variant("v", "a"))
    of = {name: of[0] for (_, _, name), of in read_scores(tmp_path / "scores.parquet", "p").items()}
    sst, para, sts, whole = (of[name] for name in (*THREE, "plain"))
    assert [one.floor for one in (sst, para, sts)] == [0.6, 0.6, 0.0]
    assert [one.constant for one in (sst, para, sts)] == [False, True, False]
    # Four won and none lost: (1 / 2) ** 4; one class against the same class: nothing won.
    assert (sst.p_floor, para.p_floor) == (pytest.approx(1 / 16), 1.0)
    assert sst.error == pytest.approx((0.8 * 0.2 / 20) ** 0.5)
    assert whole.floor == pytest.approx(0.4) and whole.p_floor is None
    errors = np.array([sst.error, para.error, sts.error])
    assert whole.error == pytest.approx(np.linalg.norm(errors) / 3)
    assert [one.learned for one in (sst, para, sts, whole)] == [False, False, True, None]


HALF, WHOLE = [0.0, 2.0, 1.0], [1.0, 2.0, 3.0]
"""Predictions of STS with r = 0.5 and 1."""


def test_the_gain_is_over_the_single_tasks_of_the_same_seed(tmp_path: Path) -> None:
    def solved(name: str, right: tuple[int, int], values: list[float], *last: float) -> None:
        """Of four examples `right` of sst and para each; `values` of sts."""
        rows: Rows = {
            (task, "dev"): ([0.0] * n + [1.0] * (4 - n), [0.0] * 4)
            for task, n in zip(("sst", "para"), right, strict=True)
        }
        measured = [(1, t, TASKS[t].metric, of) for t, of in zip(THREE, last, strict=False)]
        train(tmp_path, name, rows | {("sts", "dev"): (values, [0.0, 2.0, 4.0])}, *measured)

    solved("alone.0", (1, 2), HALF, 0.5, 0.4, 0.2)
    solved("alone.1", (2, 4), WHOLE)
    for seed in (0, 1, 2):
        solved(f"b.{seed}", (2, 1), WHOLE, *[0.6, 0.4, 0.1] * (seed == 0))
    variants = [variant(name, name) for name in ("alone", "b")]
    rows = score(tmp_path / "scores.parquet", *variants, seeds=range(3), single="alone")
    rows = [row for row in rows if row["metric"] == "delta_m"]
    assert [(row["variant"], row["seed"]) for row in rows] == [
        (n, s) for n in ("alone", "b") for s in (0, 1)
    ]
    gains = [0, 0, 100 * (1 - 0.5 + 1) / 3, 100 * (0 - 0.75 + 0) / 3]
    assert [row["value"] for row in rows] == pytest.approx(gains, abs=1e-9)
    assert rows[2]["last"] == pytest.approx(100 * (0.2 - 0.5) / 3) and rows[3]["last"] is None


def runs(key: str, *seeds: dict[str, float]) -> dict[int, RunScores]:
    """Return runs with dev scores by task."""
    return {
        n: {("dev", task, TASKS[task].metric): Score(value, key) for task, value in of.items()}
        for n, of in enumerate(seeds)
    }


RUNS = {
    "steady": runs("steady", {"sst": 0.3, "para": 0.5, "sts": 1.0}),
    "sharp": runs("sharp", {"sst": 0.7, "para": 0.8, "sts": 0.0}),
    "uneven": runs("uneven", {"sst": 0.9}, {"sst": 0.1}),
    "even": runs("even", {"sst": 0.6}, {"sst": 0.6}),
    "same": runs("same", {"sst": 0.7}, {"sst": 0.5}),
    "once": runs("once", {"sst": 0.9}),
    "none": {},
}


@pytest.mark.parametrize(
    ("order", "rule", "expected"),
    [
        # With r as (r + 1) / 2 they are .600 and .667, plainly .600 and .500.
        ("steady sharp", "plain", "steady"),
        ("steady sharp", "normalised", "sharp"),
        ("uneven even once none", "plain", "even"),
        ("even same", "plain", "even"),
        ("same even", "plain", "same"),
        ("none", "plain", ""),
    ],
)
def test_the_best_of_others(order: str, rule: str, expected: str) -> None:
    """The first of equals, among those with the most seeds."""
    assert choose(candidates(RUNS, order.split(), THREE), rule) == expected


def test_each_task_is_from_its_own_best() -> None:
    (run,) = best_of_each_task(RUNS, ["steady", "none", "sharp"]).values()
    keys = {task: score.key for (_, task, _), score in run.items()}
    assert keys == {"sst": "sharp", "para": "sharp", "sts": "steady"}
