"""The score table that is made of runs' predictions, rows that are the best of others, the best."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from run_files import history

from minbert.base.errors import UserError
from minbert.evaluate.reading import SCHEMA, Score, read_scores
from minbert.evaluate.score import Scored, best_of, score_runs
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


def predictions(path: Path, rows: Rows) -> Path:
    lines: list[dict[str, Any]] = []
    for (task, split), (predicted, labels) in rows.items():
        for i, value in enumerate(predicted):
            label = None if labels is None else labels[i]
            line = {"id": f"{split}{i}", "task": task, "split": split, "prediction": float(value)}
            lines.append(line | {"label": label})
    pq.write_table(pa.Table.from_pylist(lines), path)
    history(path.with_suffix(".history"))
    return path


def entry(path: Path, key: str) -> dict[str, Any]:
    return {"predictions": path, "history": path.with_suffix(".history"), "key": key}


def run(path: Path, *tasks: str, **more: Any) -> dict[str, Any]:
    entries = {task: entry(path, f"key-{task}") for task in tasks}
    about = {"paper": "p", "variant": "v", "seed": 0, "key": "own", "tested": False}
    return about | {"tasks": entries} | more


def score(folder: Path, *runs: dict[str, Any], single: str = "") -> list[dict[str, Any]]:
    """Score runs, and return the rows of the table."""
    score_runs(runs, folder / "scores.parquet", single)
    return pq.read_table(folder / "scores.parquet").to_pylist()


def column(rows: list[dict[str, Any]], name: str = "value") -> dict[tuple[str, ...], Any]:
    return {(row["split"], row["task"], row["metric"]): row[name] for row in rows}


def test_golden_table(tmp_path: Path) -> None:
    """Each task from its own file; the last epoch's dev scores stand beside the best."""
    parts = {}
    for task in THREE:
        one: Rows = {key: value for key, value in DEV.items() if key[0] == task}
        parts[task] = entry(predictions(tmp_path / f"{task}.parquet", one), f"key-{task}")
    history(
        tmp_path / "sst.history",
        *((2, "sst", "accuracy", 0.6), (1, "sst", "accuracy", 0.75), (2, "sst", "loss", 9.0)),
    )
    history(tmp_path / "para.history", (1, "para", "accuracy", 0.4), (2, "para", "accuracy", 0.9))
    history(tmp_path / "sts.history", (2, "sts", "pearson", 0.5))
    rows = score(tmp_path, run(tmp_path, tasks=parts))
    assert pq.read_schema(tmp_path / "scores.parquet").equals(SCHEMA)
    assert len(rows) == 9
    expected = {("dev", "sst", "accuracy"): 0.75, ("dev", "para", "accuracy"): 0.5}
    expected |= {("dev", "para", "f1"): 2 / 3, ("dev", "sts", "pearson"): 1}
    expected |= {("dev", "sts", "rmse"): (2 / 3) ** 0.5} | dict.fromkeys(OVERALL, 0.75)
    found = column(rows)
    assert {of: found[of] for of in expected} == pytest.approx(expected)
    keys = {"sst": "key-sst", "para": "key-para", "sts": "key-sts", "overall": "own"}
    assert {row["task"]: row["key"] for row in rows} == keys
    last = column(rows, "last")
    assert last["dev", "sst", "accuracy"] == 0.6 and last["dev", "sst", "macro_f1"] is None
    overall = ((0.6 + 0.9 + 0.75) / 3, (0.6 + 0.9 + 0.5) / 3)
    assert [last[of] for of in OVERALL] == pytest.approx(overall)


def test_only_what_is_there_is_scored(tmp_path: Path) -> None:
    """Test where asked for, on rows with labels; runs with all files; overall of all tasks."""
    test: Rows = {("sst", "test"): ([0, 1, 2], [0, None, 1]), ("para", "test"): ([0, 1], None)}
    made = predictions(tmp_path / "a.parquet", DEV | test)
    half = run(made, "sst", "para", seed=3)
    half["tasks"]["para"] = entry(tmp_path / "none.parquet", "k")
    rows = score(tmp_path, run(made, "sst", "para"), run(made, *THREE, seed=1, tested=True), half)
    tested = [row for row in rows if row["split"] == "test"]
    assert {(row["seed"], row["task"]) for row in tested} == {(1, "sst")}
    assert column(tested)["test", "sst", "accuracy"] == 0.5
    assert {row["seed"] for row in rows if row["task"] == "overall"} == {1}
    assert list(dict.fromkeys(row["seed"] for row in rows)) == [0, 1]
    assert column(rows, "last")["dev", "sts", "pearson"] is None  # evaluated only
    assert score(tmp_path) == []


def test_floors_and_errors_stand_beside_the_scores(tmp_path: Path) -> None:
    rows: Rows = {
        ("sst", "dev"): ([1.0] * 16 + [0.0] * 4, [1.0] * 12 + [0.0] * 8),
        ("para", "dev"): ([1.0] * 20, [1.0] * 12 + [0.0] * 8),
        ("sts", "dev"): (list(range(20)), list(range(20))),
    }
    score(tmp_path, run(predictions(tmp_path / "a.parquet", rows), *THREE))
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


def solved(path: Path, right: tuple[int, int], values: list[float], **last: float) -> Path:
    """Write dev predictions: so many `right` of four for sst and para, and the `values` of sts."""
    rows: Rows = {
        (task, "dev"): ([0.0] * n + [1.0] * (4 - n), [0.0] * 4)
        for task, n in zip(("sst", "para"), right, strict=True)
    }
    made = predictions(path, rows | {("sts", "dev"): (values, [0.0, 2.0, 4.0])})
    measured = ((1, task, TASKS[task].metric, value) for task, value in last.items())
    history(made.with_suffix(".history"), *measured)
    return made


def test_the_gain_is_over_the_single_tasks_of_the_same_seed(tmp_path: Path) -> None:
    last = {"sst": 0.5, "para": 0.4, "sts": 0.2}
    alone = [
        run(solved(tmp_path / "0", (1, 2), HALF, **last), *THREE, variant="alone", seed=0),
        run(solved(tmp_path / "1", (2, 4), WHOLE), *THREE, variant="alone", seed=1),
    ]
    both = solved(tmp_path / "b", (2, 1), WHOLE, sst=0.6, para=0.4, sts=0.1)
    runs = [*alone, *(run(both, *THREE, seed=seed) for seed in (0, 2))]
    rows = [row for row in score(tmp_path, *runs, single="alone") if row["metric"] == "delta_m"]
    # Seed 2 is over the means .375, .75 and .75.
    gains = [0, 0, 100 * (1 - 0.5 + 1) / 3, 100 * (1 / 3 - 2 / 3 + 1 / 3) / 3]
    assert [row["value"] for row in rows] == pytest.approx(gains, abs=1e-9)
    assert rows[2]["last"] == pytest.approx(100 * (0.2 - 0.5) / 3) and rows[3]["last"] is None


def test_predictions_that_are_not_numbers_and_unknown_tasks_are_named(tmp_path: Path) -> None:
    made = predictions(tmp_path / "bad.parquet", {("sst", "dev"): ([1, float("nan")], [1, 1])})
    with pytest.raises(UserError, match=r"bad.parquet.*1 of 2 predictions .* id 'dev1'"):
        score(tmp_path, run(made, "sst"))
    with pytest.raises(UserError, match=r"unknown task 'stt'.*Did you mean"):
        score(tmp_path, run(made, "stt"))
    assert not (tmp_path / "scores.parquet").exists()


Dev = dict[str, dict[int, dict[str, float]]]


def scored_on(key: str, **splits: dict[str, float]) -> Scored:
    """Return the scores of a run, by split and task."""
    return {
        (split, task, TASKS[task].metric): Score(value, key, None)
        for split, of in splits.items()
        for task, value in of.items()
    }


def chosen(order: str, dev: Dev, by: Literal["overall", "task"], rule: str) -> dict[str, str]:
    """Return {task: variant} of the first seed of the best, by the key that its score has."""
    candidates = {
        name: {seed: scored_on(name, dev=of) for seed, of in dev.get(name, {}).items()}
        for name in order.split()
    }
    found = best_of(candidates, by, rule)
    return {task: score.key for (_, task, _), score in found[0].items()} if found else {}


def test_the_best_of_others() -> None:
    # With r as (r + 1) / 2 they are .600 and .667, plainly .600 and .500.
    rules: Dev = {
        "steady": {0: {"sst": 0.3, "para": 0.5, "sts": 1.0}},
        "sharp": {0: {"sst": 0.7, "para": 0.8, "sts": 0.0}},
    }
    assert chosen("steady sharp", rules, "overall", "plain") == dict.fromkeys(THREE, "steady")
    assert chosen("steady sharp", rules, "overall", "normalised")["sst"] == "sharp"
    seeds: Dev = {
        "a": {0: {"sst": 0.9}, 1: {"sst": 0.1}},
        "b": {0: {"sst": 0.6}, 1: {"sst": 0.6}},
        "c": {0: {"sst": 0.6}},
    }
    assert chosen("a b c", seeds, "task", "plain") == {"sst": "b"}
    assert chosen("c b a", seeds, "task", "plain") == {"sst": "c"}, "the first of equals"
    tasks: Dev = {"a": {0: {"sst": 0.9, "sts": 0.1}}, "b": {0: {"sst": 0.1, "sts": 0.2}}, "c": {}}
    assert chosen("a b c d", tasks, "task", "plain") == {"sst": "a", "sts": "b"}
    assert chosen("a b", tasks, "overall", "plain") == {}, "neither has all three tasks"


def test_the_half_of_dev_that_chose_the_epoch_chooses_the_best_too() -> None:
    a = scored_on("a", selection={"sst": 0.6}, dev={"sst": 0.4}, test={"sst": 0.4})
    b = scored_on("b", selection={"sst": 0.5}, dev={"sst": 0.9}, test={"sst": 0.9})
    assert best_of({"a": {0: a}, "b": {0: b}}, "task", "plain") == {0: a}
