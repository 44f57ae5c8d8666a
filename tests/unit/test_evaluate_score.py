"""The score table that is made of runs' predictions."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from run_files import history

from minbert.base.errors import UserError
from minbert.evaluate.reading import SCHEMA, read_scores
from minbert.evaluate.score import score_runs

# (task, split) -> (predictions, labels); None in place of the labels: they are not public
Rows = dict[tuple[str, str], tuple[list[float], Sequence[float | None] | None]]

DEV: Rows = {
    ("sst", "dev"): ([0, 1, 2, 3], [0, 1, 2, 4]),
    ("para", "dev"): ([1, 0], [1, 1]),
    ("sts", "dev"): ([1.0, 2.0, 3.0], [0.0, 2.0, 4.0]),
}


def predictions(path: Path, rows: Rows) -> Path:
    lines: list[dict[str, Any]] = []
    for (task, split), (predicted, labels) in rows.items():
        for i, value in enumerate(predicted):
            label = None if labels is None else labels[i]
            line = {"id": f"{split}{i}", "task": task, "split": split, "prediction": float(value)}
            lines.append(line | {"scores": [0.5], "label": label})
    path.parent.mkdir(parents=True, exist_ok=True)
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


THREE = ("sst", "para", "sts")
OVERALL = [("dev", "overall", rule) for rule in ("normalised", "plain")]


def test_golden_table(tmp_path: Path) -> None:
    rows = score(tmp_path, run(predictions(tmp_path / "a.parquet", DEV), *THREE))
    assert pq.read_schema(tmp_path / "scores.parquet").equals(SCHEMA)
    assert len(rows) == 9
    expected = {("dev", "sst", "accuracy"): 0.75, ("dev", "para", "accuracy"): 0.5}
    expected |= {("dev", "para", "f1"): 2 / 3, ("dev", "sts", "pearson"): 1}
    expected |= {("dev", "sts", "rmse"): (2 / 3) ** 0.5} | dict.fromkeys(OVERALL, 0.75)
    found = column(rows)
    assert {of: found[of] for of in expected} == pytest.approx(expected)
    keys = {"sst": "key-sst", "para": "key-para", "sts": "key-sts", "overall": "own"}
    assert {row["task"]: row["key"] for row in rows} == keys


def test_test_is_scored_only_where_tested_and_labelled(tmp_path: Path) -> None:
    test: Rows = {
        ("sst", "test"): ([0, 1], [0, 0]),
        ("para", "test"): ([0, 1], None),
        ("sts", "test"): ([0, 1], None),
    }
    made = predictions(tmp_path / "a.parquet", DEV | test)
    rows = score(tmp_path, run(made, *THREE, seed=0), run(made, *THREE, seed=1, tested=True))
    tested = [row for row in rows if row["split"] == "test"]
    assert {(row["seed"], row["task"]) for row in tested} == {(1, "sst")}
    assert column(tested)["test", "sst", "accuracy"] == 0.5


def test_a_split_is_scored_on_its_rows_that_have_labels(tmp_path: Path) -> None:
    """As the test split of a task of one's own, of which some rows are labelled."""
    test: Rows = {("sst", "test"): ([0, 1, 2], [0, None, 1])}
    made = predictions(tmp_path / "a.parquet", DEV | test)
    found = column(score(tmp_path, run(made, "sst", tested=True)))
    assert found["test", "sst", "accuracy"] == 0.5


def test_overall_needs_all_three_tasks_and_takes_them_from_any_file(tmp_path: Path) -> None:
    both = predictions(tmp_path / "a.parquet", DEV)
    assert "overall" not in {row["task"] for row in score(tmp_path, run(both, "sst", "para"))}
    parts = {}
    for task in THREE:
        one: Rows = {key: value for key, value in DEV.items() if key[0] == task}
        parts[task] = entry(predictions(tmp_path / task / "a.parquet", one), task)
    found = column(score(tmp_path, run(both, tasks=parts)))
    assert [of for of in found if of[1] == "overall"] == OVERALL


def test_the_last_epochs_dev_scores_stand_beside_the_best(tmp_path: Path) -> None:
    test: Rows = {("sst", "test"): ([0, 1], [0, 0])}
    made = predictions(tmp_path / "a.parquet", DEV | test)
    history(
        made.with_suffix(".history"),
        *((2, "sst", "accuracy", 0.6), (1, "sst", "accuracy", 0.75), (2, "sst", "loss", 9.0)),
        *((1, "para", "accuracy", 0.4), (2, "para", "accuracy", 0.9)),
        (2, "sts", "pearson", 0.5),
    )
    found = column(score(tmp_path, run(made, *THREE, tested=True)), "last")
    expected = {("dev", "sst", "accuracy"): 0.6, ("dev", "para", "accuracy"): 0.9}
    expected |= dict(zip(OVERALL, ((0.6 + 0.9 + 0.75) / 3, (0.6 + 0.9 + 0.5) / 3), strict=True))
    assert {of: found[of] for of in expected} == pytest.approx(expected)
    assert found["dev", "sst", "macro_f1"] is found["test", "sst", "accuracy"] is None


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


def test_a_task_that_was_only_carried_along_has_no_last_epoch(tmp_path: Path) -> None:
    made = predictions(tmp_path / "a.parquet", DEV)
    path = made.with_suffix(".history")
    history(path, (1, "sst", "accuracy", 0.6), (1, "para", "accuracy", 0.9))
    found = column(score(tmp_path, run(made, *THREE)), "last")
    assert found["dev", "sts", "pearson"] is found[OVERALL[0]] is None


def solved(path: Path, right: tuple[int, int], values: list[float], **last: float) -> Path:
    """Write dev predictions: so many `right` of four for sst and para, and the `values` of sts."""
    rows: Rows = {
        (task, "dev"): ([0.0] * n + [1.0] * (4 - n), [0.0] * 4)
        for task, n in zip(("sst", "para"), right, strict=True)
    }
    made = predictions(path, rows | {("sts", "dev"): (values, [0.0, 2.0, 4.0])})
    metrics = {"sst": "accuracy", "para": "accuracy", "sts": "pearson"}
    history(made.with_suffix(".history"), *((1, t, metrics[t], v) for t, v in last.items()))
    return made


HALF, WHOLE, AGAINST = [0.0, 2.0, 1.0], [1.0, 2.0, 3.0], [3.0, 2.0, 1.0]
"""Predictions of STS with r = 0.5, 1 and -1."""


def gains(path: Path, *runs: dict[str, Any]) -> dict[tuple[str, int], tuple[float, float | None]]:
    """Return {(variant, seed): delta_m, and that after the last epoch} over the variant `alone`."""
    found = [row for row in score(path, *runs, single="alone") if row["metric"] == "delta_m"]
    return {(row["variant"], row["seed"]): (row["value"], row["last"]) for row in found}


def test_the_gain_is_over_the_single_tasks_of_the_same_seed(tmp_path: Path) -> None:
    alone = [
        run(solved(tmp_path / "0", (1, 2), HALF), *THREE, variant="alone", seed=0),
        run(solved(tmp_path / "1", (2, 4), WHOLE), *THREE, variant="alone", seed=1),
    ]
    both = solved(tmp_path / "b", (2, 1), WHOLE)
    found = gains(tmp_path, *alone, *(run(both, *THREE, seed=seed) for seed in (0, 1, 2)))
    assert found["alone", 0] == found["alone", 1] == (0, None)
    assert found["v", 0] == (pytest.approx(100 * (1 - 0.5 + 1) / 3), None)
    assert found["v", 1] == (pytest.approx(100 * (0 - 0.75 + 0) / 3), None)
    # Seed 2 is over the means .375, .75 and .75.
    assert found["v", 2] == (pytest.approx(100 * (1 / 3 - 2 / 3 + 1 / 3) / 3, abs=1e-9), None)


def test_the_gain_after_the_last_epoch_is_over_single_tasks_after_theirs(tmp_path: Path) -> None:
    alone = solved(tmp_path / "a", (1, 2), HALF, sst=0.5, para=0.4, sts=0.2)
    both = solved(tmp_path / "b", (1, 2), HALF, sst=0.6, para=0.4, sts=0.1)
    found = gains(tmp_path, run(alone, *THREE, variant="alone"), run(both, *THREE))
    assert found["v", 0] == (0, pytest.approx(100 * (0.2 - 0.5) / 3))


def test_no_gain_over_what_is_missing_or_not_above_0(tmp_path: Path) -> None:
    good = solved(tmp_path / "g", (2, 2), WHOLE)
    for bad in (AGAINST, [1.0, 1.0, 1.0]):
        alone = run(solved(tmp_path / "a", (2, 2), bad), *THREE, variant="alone")
        assert gains(tmp_path, alone, run(good, *THREE)) == {}
    assert gains(tmp_path, run(good, *THREE)) == {}, "the reference was not run"
    of_two = run(good, "sst", "para", variant="two")
    found = gains(tmp_path, run(good, *THREE, variant="alone"), of_two, run(good, *THREE))
    assert set(found) == {("alone", 0), ("v", 0)}


def test_a_gain_on_test_is_over_test_scores_though_the_reference_is_not_tested(
    tmp_path: Path,
) -> None:
    test: Rows = {(task, "test"): of for (task, _), of in DEV.items()}
    half: Rows = test | {("sst", "test"): ([0, 9, 9, 3], [0, 1, 2, 3])}
    alone = run(predictions(tmp_path / "a", DEV | half), *THREE, variant="alone")
    tested = run(predictions(tmp_path / "b", DEV | test), *THREE, tested=True)
    rows = score(tmp_path, alone, tested, single="alone")
    of_test = [row for row in rows if row["split"] == "test"]
    gain = column(of_test)["test", "overall", "delta_m"]
    assert {row["variant"] for row in of_test} == {"v"}
    assert gain == pytest.approx(100 * (0.75 / 0.5 - 1) / 3)


def test_a_run_without_a_file_is_left_out_whole(tmp_path: Path) -> None:
    made = predictions(tmp_path / "a.parquet", DEV)
    half = run(made, "sst", "para", seed=1)
    half["tasks"]["para"] = entry(tmp_path / "none.parquet", "k")
    rows = score(tmp_path, run(tmp_path / "none.parquet", "sst"), half, run(made, "sst", seed=2))
    assert [row["seed"] for row in rows] == [2, 2]


def test_no_run_at_all_still_makes_a_table(tmp_path: Path) -> None:
    assert score(tmp_path) == []
    assert pq.read_schema(tmp_path / "scores.parquet").equals(SCHEMA)


def test_rows_keep_the_order_of_the_runs(tmp_path: Path) -> None:
    made = predictions(tmp_path / "a.parquet", DEV)
    rows = score(tmp_path, *(run(made, "sst", variant=name) for name in "zam"))
    assert list(dict.fromkeys(row["variant"] for row in rows)) == [*"zam"]


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ({("para", "dev"): ([1], [1])}, "no predictions of task 'sst' on labelled dev rows"),
        ({("sst", "dev"): ([1], None)}, "no predictions of task 'sst' on labelled dev rows"),
        ({("sst", "dev"): ([1, float("nan")], [1, 1])}, r"1 of 2 predictions .* id 'dev1'"),
    ],
)
def test_malformed_predictions_are_named(tmp_path: Path, rows: Rows, message: str) -> None:
    made = predictions(tmp_path / "bad.parquet", rows)
    with pytest.raises(UserError, match=f"bad.parquet.*{message}"):
        score_runs([run(made, "sst")], tmp_path / "scores.parquet")
    assert not (tmp_path / "scores.parquet").exists()


def test_runs_and_tasks_are_checked(tmp_path: Path) -> None:
    made = predictions(tmp_path / "a.parquet", DEV)
    with pytest.raises(UserError, match="variant 'v', seed 0 is there twice"):
        score_runs([run(made, "sst"), run(made, "para")], tmp_path / "scores.parquet")
    with pytest.raises(UserError, match=r"unknown task 'stt'.*Did you mean"):
        score_runs([run(made, "stt")], tmp_path / "scores.parquet")
