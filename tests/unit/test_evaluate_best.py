"""Rows that are the best of others: how they are chosen, scored and named."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import pyarrow.parquet as pq
import pytest
from run_files import predictions
from test_evaluate_table import build, row, table

from minbert.evaluate.reading import Score
from minbert.evaluate.score import SPLITS, Splits, best_of, score_runs
from minbert.spec.task import TASKS

THREE = ("sst", "para", "sts")
Dev = dict[str, dict[int, dict[str, float]]]


def scored_on(key: str, **splits: dict[str, float]) -> Splits:
    """Return the scores of a run, by split and task."""
    return {
        split: {
            task: {TASKS[task].metric: Score(value, key, None)}
            for task, value in splits.get(split, {}).items()
        }
        for split in SPLITS
    }


def chosen(order: list[str], dev: Dev, by: Literal["overall", "task"], rule: str) -> dict[str, str]:
    """Return {task: variant} of the first seed of the best, by the key that its score has."""
    candidates = {
        name: {seed: scored_on(name, dev=of) for seed, of in dev.get(name, {}).items()}
        for name in order
    }
    found = best_of(candidates, by, rule)
    return keys(found[0])["dev"] if found else {}


def keys(run: Splits) -> dict[str, dict[str, str]]:
    return {s: {t: of[TASKS[t].metric].key for t, of in run[s].items()} for s in SPLITS}


def test_the_half_of_dev_that_chose_the_epoch_chooses_the_best_too() -> None:
    def run(name: str, selection: float, dev: float) -> Splits:
        return scored_on(name, selection={"sst": selection}, dev={"sst": dev}, test={"sst": dev})

    candidates = {"a": {0: run("a", 0.6, 0.4)}, "b": {0: run("b", 0.5, 0.9)}}
    found = best_of(candidates, "task", "plain")[0]
    assert keys(found) == {split: {"sst": "a"} for split in SPLITS}


def test_the_best_overall_by_the_papers_rule() -> None:
    # With r as (r + 1) / 2 they are .600 and .667, plainly .600 and .500.
    dev: Dev = {
        "steady": {0: {"sst": 0.3, "para": 0.5, "sts": 1.0}},
        "sharp": {0: {"sst": 0.7, "para": 0.8, "sts": 0.0}},
    }
    assert chosen(["steady", "sharp"], dev, "overall", "plain") == dict.fromkeys(THREE, "steady")
    assert chosen(["steady", "sharp"], dev, "overall", "normalised")["sst"] == "sharp"


def test_the_mean_over_seeds_decides_and_the_first_of_equals_wins() -> None:
    dev: Dev = {
        "a": {0: {"sst": 0.9}, 1: {"sst": 0.1}},
        "b": {0: {"sst": 0.6}, 1: {"sst": 0.6}},
        "c": {0: {"sst": 0.6}},
    }
    assert chosen(["a", "b", "c"], dev, "task", "plain") == {"sst": "b"}
    assert chosen(["c", "b", "a"], dev, "task", "plain") == {"sst": "c"}


def test_each_task_may_be_anothers_and_candidates_without_scores_are_left_out() -> None:
    dev: Dev = {
        "a": {0: {"sst": 0.9, "sts": 0.1}},
        "b": {0: {"sst": 0.1, "sts": 0.2}},
        "c": {},
    }
    assert chosen(["a", "b", "c", "d"], dev, "task", "plain") == {"sst": "a", "sts": "b"}
    assert chosen(["c", "d"], dev, "task", "plain") == {}
    assert chosen(["a", "b"], dev, "overall", "plain") == {}, "neither has all three tasks"


def run(name: str, seed: int, folder: Path, tested: bool = False) -> dict[str, Any]:
    path = folder / name / f"{seed}.parquet"
    files = {"predictions": path, "history": path.with_suffix(".history")}
    tasks = {"sst": {"key": f"key-{name}"} | files}
    about = {"paper": "p", "variant": name, "seed": seed, "key": f"key-{name}", "tested": tested}
    return about | {"tasks": tasks}


def best(seed: int, tested: bool) -> dict[str, Any]:
    about = {"paper": "p", "variant": "best", "seed": seed, "key": "", "tested": tested}
    return about | {"best_of": ["a", "b"], "by": "task", "rule": "plain", "tasks": {}}


@pytest.fixture
def runs(tmp_path: Path) -> list[dict[str, Any]]:
    """Variant b is better on dev, a on test; neither is itself tested."""
    for seed in (0, 1):
        predictions(tmp_path / "a" / f"{seed}.parquet", {("sst", "dev"): 1, ("sst", "test"): 4})
        predictions(tmp_path / "b" / f"{seed}.parquet", {("sst", "dev"): 3, ("sst", "test"): 2})
    return [run(name, seed, tmp_path) for name in ("a", "b") for seed in (0, 1)]


def scored(path: Path) -> dict[tuple[str, int, str], tuple[float, str]]:
    rows = pq.read_table(path).to_pylist()
    return {
        (r["variant"], r["seed"], r["split"]): (r["value"], r["key"])
        for r in rows
        if r["metric"] == "accuracy"
    }


def test_dev_chooses_and_test_is_scored_once(tmp_path: Path, runs: list[dict[str, Any]]) -> None:
    score_runs([best(0, True), *runs, best(1, True)], tmp_path / "s.parquet")
    found = scored(tmp_path / "s.parquet")
    assert len({(variant, seed) for variant, seed, _ in found}) == 6
    assert found["best", 0, "dev"] == found["b", 0, "dev"] == (0.75, "key-b")
    assert found["best", 1, "test"] == (0.5, "key-b")
    assert ("a", 0, "test") not in found and ("b", 0, "test") not in found


def test_the_table_names_the_choice(tmp_path: Path, runs: list[dict[str, Any]]) -> None:
    score_runs([*runs, best(0, True), best(1, True)], tmp_path / "s.parquet")
    about = {"choice": {"key-a": "a", "key-b": "b"}, "table": "2", "published": {"sst": 0.5}}
    spec = table(row("Best", "best", split="test", **about))
    (line,), text, _ = build(tmp_path, spec, tmp_path / "s.parquet")
    assert "here: b" in text and line["keys"] == "key-b"
