"""The score table that is made of runs' predictions."""

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
Rows = dict[tuple[str, str], tuple[list[float], list[float] | None]]

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


def lines(path: Path) -> list[tuple[Any, ...]]:
    return [tuple(row.values()) for row in pq.read_table(path).to_pylist()]


def test_golden_table(tmp_path: Path) -> None:
    made = predictions(tmp_path / "a.parquet", DEV)
    out = tmp_path / "scores.parquet"
    score_runs([run(made, "sst", "para", "sts")], out)
    assert len(lines(out)) == 9
    assert pq.read_schema(out).equals(SCHEMA)
    values = {(row[4], row[5]): (row[6], row[7]) for row in lines(out)}
    assert values[("sst", "accuracy")] == (0.75, "key-sst")
    assert values[("para", "accuracy")] == (0.5, "key-para")
    assert values[("para", "f1")] == (pytest.approx(2 / 3), "key-para")
    assert values[("sts", "pearson")] == (pytest.approx(1), "key-sts")
    assert values[("sts", "rmse")] == (pytest.approx((2 / 3) ** 0.5), "key-sts")
    assert values[("overall", "normalised")] == (pytest.approx(0.75), "own")
    assert values[("overall", "plain")] == (pytest.approx(0.75), "own")


def test_test_is_scored_only_where_tested_and_labelled(tmp_path: Path) -> None:
    test: Rows = {
        ("sst", "test"): ([0, 1], [0, 0]),
        ("para", "test"): ([0, 1], None),
        ("sts", "test"): ([0, 1], None),
    }
    made = predictions(tmp_path / "a.parquet", DEV | test)
    out = tmp_path / "scores.parquet"
    tasks = ("sst", "para", "sts")
    runs = [run(made, *tasks, seed=0), run(made, *tasks, seed=1, tested=True)]
    score_runs(runs, out)
    tested = [row for row in lines(out) if row[3] == "test"]
    assert {(row[2], row[4]) for row in tested} == {(1, "sst")}
    assert [row[6] for row in tested if row[5] == "accuracy"] == [0.5]


def test_overall_needs_all_three_tasks_and_takes_them_from_any_file(tmp_path: Path) -> None:
    both = predictions(tmp_path / "a.parquet", DEV)
    out = tmp_path / "scores.parquet"
    score_runs([run(both, "sst", "para")], out)
    assert "overall" not in {row[4] for row in lines(out)}
    parts = {}
    for task in ("sst", "para", "sts"):
        one: Rows = {key: value for key, value in DEV.items() if key[0] == task}
        path = predictions(tmp_path / task / "a.parquet", one)
        parts[task] = entry(path, task)
    score_runs([run(both, tasks=parts)], out)
    assert [row[5] for row in lines(out) if row[4] == "overall"] == ["normalised", "plain"]


def test_the_last_epochs_dev_scores_stand_beside_the_best(tmp_path: Path) -> None:
    test: Rows = {("sst", "test"): ([0, 1], [0, 0])}
    made = predictions(tmp_path / "a.parquet", DEV | test)
    history(
        made.with_suffix(".history"),
        *((2, "sst", "accuracy", 0.6), (1, "sst", "accuracy", 0.75), (2, "sst", "loss", 9.0)),
        *((1, "para", "accuracy", 0.4), (2, "para", "accuracy", 0.9)),
        (2, "sts", "pearson", 0.5),
    )
    out = tmp_path / "scores.parquet"
    score_runs([run(made, "sst", "para", "sts", tested=True)], out)
    found = {row[3:6]: row[8] for row in lines(out)}
    assert found["dev", "sst", "accuracy"] == 0.6
    assert found["dev", "para", "accuracy"] == 0.9
    assert found["dev", "overall", "normalised"] == pytest.approx((0.6 + 0.9 + 0.75) / 3)
    assert found["dev", "overall", "plain"] == pytest.approx((0.6 + 0.9 + 0.5) / 3)
    assert found["dev", "sst", "macro_f1"] is None
    assert found["test", "sst", "accuracy"] is None


def test_floors_and_errors_stand_beside_the_scores(tmp_path: Path) -> None:
    rows: Rows = {
        ("sst", "dev"): ([1.0] * 16 + [0.0] * 4, [1.0] * 12 + [0.0] * 8),
        ("para", "dev"): ([1.0] * 20, [1.0] * 12 + [0.0] * 8),
        ("sts", "dev"): (list(range(20)), list(range(20))),
    }
    out = tmp_path / "scores.parquet"
    score_runs([run(predictions(tmp_path / "a.parquet", rows), "sst", "para", "sts")], out)
    found = {(r["task"], r["metric"]): r for r in pq.read_table(out).to_pylist()}
    sst, para, sts = (
        found[k] for k in (("sst", "accuracy"), ("para", "accuracy"), ("sts", "pearson"))
    )
    assert [row["floor"] for row in (sst, para, sts)] == [0.6, 0.6, 0.0]
    assert [row["constant"] for row in (sst, para, sts)] == [False, True, False]
    # Four won and none lost: (1 / 2) ** 4; one class against the same class: nothing won.
    assert (sst["p_floor"], para["p_floor"]) == (pytest.approx(1 / 16), 1.0)
    assert sst["error"] == pytest.approx((0.8 * 0.2 / 20) ** 0.5)
    whole = found["overall", "plain"]
    assert whole["floor"] == pytest.approx(0.4) and whole["p_floor"] is None
    errors = np.array([sst["error"], para["error"], sts["error"]])
    assert whole["error"] == pytest.approx(np.linalg.norm(errors) / 3)
    of = {name: of[0] for (_, _, name), of in read_scores(out, "p").items()}
    assert [of[name].learned for name in ("sst", "para", "sts", "plain")] == [
        *(False, False, True, None)
    ]


def test_a_task_that_was_only_carried_along_has_no_last_epoch(tmp_path: Path) -> None:
    made = predictions(tmp_path / "a.parquet", DEV)
    path = made.with_suffix(".history")
    history(path, (1, "sst", "accuracy", 0.6), (1, "para", "accuracy", 0.9))
    out = tmp_path / "scores.parquet"
    score_runs([run(made, "sst", "para", "sts")], out)
    found = {row[3:6]: row[8] for row in lines(out)}
    assert found["dev", "sts", "pearson"] is None
    assert found["dev", "overall", "normalised"] is None


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
    score_runs(runs, path, "alone")
    found = [row for row in lines(path) if row[4:6] == ("overall", "delta_m")]
    return {(row[1], row[2]): (row[6], row[8]) for row in found}


def test_the_gain_is_over_the_single_tasks_of_the_same_seed(tmp_path: Path) -> None:
    three = ("sst", "para", "sts")
    alone = [
        run(solved(tmp_path / "0", (1, 2), HALF), *three, variant="alone", seed=0),
        run(solved(tmp_path / "1", (2, 4), WHOLE), *three, variant="alone", seed=1),
    ]
    both = solved(tmp_path / "b", (2, 1), WHOLE)
    found = gains(tmp_path / "s", *alone, *(run(both, *three, seed=seed) for seed in (0, 1, 2)))
    assert found["alone", 0] == found["alone", 1] == (0, None)
    assert found["v", 0] == (pytest.approx(100 * (1 - 0.5 + 1) / 3), None)
    assert found["v", 1] == (pytest.approx(100 * (0 - 0.75 + 0) / 3), None)
    # Seed 2 is over the means .375, .75 and .75.
    assert found["v", 2] == (pytest.approx(100 * (1 / 3 - 2 / 3 + 1 / 3) / 3, abs=1e-9), None)


def test_the_gain_after_the_last_epoch_is_over_single_tasks_after_theirs(tmp_path: Path) -> None:
    three = ("sst", "para", "sts")
    alone = solved(tmp_path / "a", (1, 2), HALF, sst=0.5, para=0.4, sts=0.2)
    both = solved(tmp_path / "b", (1, 2), HALF, sst=0.6, para=0.4, sts=0.1)
    runs = [run(alone, *three, variant="alone"), run(both, *three)]
    assert gains(tmp_path / "s", *runs)["v", 0] == (0, pytest.approx(100 * (0.2 - 0.5) / 3))


def test_no_gain_over_what_is_missing_or_not_above_0(tmp_path: Path) -> None:
    three = ("sst", "para", "sts")
    good = solved(tmp_path / "g", (2, 2), WHOLE)
    for bad in (AGAINST, [1.0, 1.0, 1.0]):
        alone = run(solved(tmp_path / "a", (2, 2), bad), *three, variant="alone")
        assert gains(tmp_path / "s", alone, run(good, *three)) == {}
    assert gains(tmp_path / "s", run(good, *three)) == {}, "the reference was not run"
    of_two = run(good, "sst", "para", variant="two")
    found = gains(tmp_path / "s", run(good, *three, variant="alone"), of_two, run(good, *three))
    assert set(found) == {("alone", 0), ("v", 0)}


def test_a_gain_on_test_is_over_test_scores_though_the_reference_is_not_tested(
    tmp_path: Path,
) -> None:
    three = ("sst", "para", "sts")
    test: Rows = {(task, "test"): of for (task, _), of in DEV.items()}
    half: Rows = test | {("sst", "test"): ([0, 9, 9, 3], [0, 1, 2, 3])}
    alone = run(predictions(tmp_path / "a", DEV | half), *three, variant="alone")
    score_runs(
        [alone, run(predictions(tmp_path / "b", DEV | test), *three, tested=True)],
        tmp_path / "s",
        "alone",
    )
    found = {row[1:4]: row[6] for row in lines(tmp_path / "s") if row[5] == "delta_m"}
    assert found == {
        ("alone", 0, "dev"): 0,
        ("v", 0, "dev"): 0,
        ("v", 0, "test"): pytest.approx(100 * (0.75 / 0.5 - 1) / 3),
    }


def test_a_run_without_a_file_is_left_out_and_counted(tmp_path: Path) -> None:
    made = predictions(tmp_path / "a.parquet", DEV)
    half = run(made, "sst", "para", seed=1)
    half["tasks"]["para"] = entry(tmp_path / "none.parquet", "k")
    runs = [run(tmp_path / "none.parquet", "sst"), half, run(made, "sst", seed=2)]
    out = tmp_path / "scores.parquet"
    score_runs(runs, out)
    assert [row[2] for row in lines(out)] == [2, 2]


def test_no_run_at_all_still_makes_a_table(tmp_path: Path) -> None:
    score_runs([], tmp_path / "scores.parquet")
    made = pq.read_table(tmp_path / "scores.parquet")
    assert made.schema.equals(SCHEMA) and made.num_rows == 0


def test_rows_keep_the_order_of_the_runs(tmp_path: Path) -> None:
    made = predictions(tmp_path / "a.parquet", DEV)
    runs = [run(made, "sst", variant=name) for name in ("z", "a", "m")]
    score_runs(runs, tmp_path / "scores.parquet")
    assert list(dict.fromkeys(row[1] for row in lines(tmp_path / "scores.parquet"))) == [*"zam"]


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
