"""The page of the study: spreads, reasons, and what the bundles' records say."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from pages import study

from minbert.evaluate.index import in_words
from minbert.evaluate.statistics import interval
from minbert.evaluate.text import read_csv
from minbert.evaluate.verdicts import FAILS
from minbert.spec.published import FIGURES


@pytest.fixture
def tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Yield copies of the papers' tables that the page is made from."""
    (tmp_path / "tables").mkdir()
    for paper in study.PAPERS:
        rows = pd.read_csv(study.STUDY / "tables" / f"{paper}.csv")
        rows.to_csv(tmp_path / "tables" / f"{paper}.csv", index=False)
    monkeypatch.setattr(study, "STUDY", tmp_path)
    study.table.cache_clear()
    yield tmp_path / "tables"
    study.table.cache_clear()


def change(tables: Path, paper: str, rows: dict[str, dict[str, Any]]) -> None:
    """Set columns of a paper's rows; of the variant "*", of all of them."""
    path = tables / f"{paper}.csv"
    table = pd.read_csv(path).set_index("variant", drop=False)
    for variant, columns in rows.items():
        for name, value in columns.items():
            table.loc[slice(None) if variant == "*" else variant, name] = value
    table.to_csv(path, index=False)


def test_equal_trainings_are_one_row_with_the_seeds_of_both(tables: Path) -> None:
    seeds = {"single-task": [0.41, 0.44, 0.40], "3-bert": [0.39, 0.46]}
    rows = {
        name: {f"sst_{part}": value for part, value in interval(of)._asdict().items()}
        for name, of in seeds.items()
    }
    change(tables, "hybrid-bert", rows)
    heads, pair, *_ = study.scatter()
    assert heads[:2] == ("standard deviation over seeds", "SST")
    assert pair[0] == "hybrid-bert: single-task and 3-bert, as one"
    alike = [score for of in seeds.values() for score in of]
    assert pair[1] == f"{np.std(alike, ddof=1):.3f}", "as of one row with all five seeds"


def test_the_page_counts_the_rows_that_the_index_calls_scored() -> None:
    index = read_csv(study.STUDY / "tables" / "index.csv")
    scored = [line for line in index if line["status"] == "scored"]
    assert in_words(index).startswith(f"{len(scored)} of {len(index)} published rows scored")
    assert f"| rows | {len(scored)} of the {len(index)} have scores" in study.PAGE.read_text(
        "utf-8"
    )
    assert all(any(line[f"{name}_ours"] for name in FIGURES) for line in scored)


def test_a_papers_scatter_is_of_what_has_learnt_the_task(tables: Path) -> None:
    learnt = {"sst_above": 2, "sst_n": 2, "sst_sd": 0.02, "para_above": 0, "sts_above": 0}
    more = {"overall_normalised_sd": 0.01, "para_n": 2, "sts_n": 2}
    unlearnt = {"sst_above": 1, "sst_sd": 0.9, "overall_normalised_sd": 0.9}
    change(tables, "hybrid-bert", {"*": learnt | more, "1-bert": unlearnt})
    _, _, _, hybrid, *_ = study.scatter()
    assert hybrid[0] == "hybrid-bert: all that have learnt the task"
    assert (hybrid[1], hybrid[4]) == ("0.020", "0.010")


def bundle(path: Path, runs: Mapping[str, Sequence[float]]) -> None:
    """Write a bundle of runs: by name, when the values of their histories were measured."""
    with zipfile.ZipFile(path, "w") as archive:
        for name, times in runs.items():
            archive.writestr(f"train/{name}/run.json", json.dumps({"seed": 1}))
            history = pd.DataFrame({"time": times}).to_parquet()
            archive.writestr(f"train/{name}/history.parquet", history)


def test_a_run_in_several_bundles_counts_once_and_a_long_gap_is_a_stop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(study, "STUDY", tmp_path)
    bundle(tmp_path / "gte.zip", {"c/seed1": [5, 0, 899]})
    bundle(tmp_path / "depths.zip", {"a/seed1": [0, 9], "b/seed1": [0, 1, 901]})
    bundle(tmp_path / "seed-1.zip", {"a/seed1": [0, 9]})
    found = study.runs.__wrapped__()
    assert list(found) == ["seed-1.zip", "depths.zip", "gte.zip"]
    stopped = {one["of"].split("/")[1]: one["stopped"] for runs in found.values() for one in runs}
    assert stopped == {"a": False, "b": True, "c": False}
    assert [len(runs) for runs in found.values()] == [1, 1, 1]


def test_every_difference_that_we_exclude_has_its_reason_or_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shown = [*study.claimed()]
    found = {said: why for said, *why in study.why_different()}
    excluded = [one for one in shown if one["verdict"] == FAILS or study._outside(one)]
    assert sum(said.count(";") + 1 for said in found) - 1 == len(excluded), "after the heading"
    for reasons, last in (
        ([], "not known"),
        ([{"claim": "*", "reason": "R", "evidence": "E"}], "R"),
    ):
        monkeypatch.setattr(study, "reasons", lambda given=reasons: {"differences": given})
        (_, (_, why, _)) = study.why_different()
        assert why == last
    empty = [{"claim": "no/such/claim/sst", "reason": "R", "evidence": "E"}]
    monkeypatch.setattr(study, "reasons", lambda: {"differences": empty})
    with pytest.raises(AssertionError, match="no difference is no/such/claim/sst"):
        list(study.why_different())


def test_tuned_methods_stand_from_best_to_worst_beside_all_rates() -> None:
    (_, rate, *_), *methods = study.tuned()
    assert rate == "learning rate" and len(methods) == 7
    scores = [float(overall) for _, _, overall, *_ in methods]
    assert scores == sorted(scores, reverse=True)
    assert [name for name, *_, verdict in methods if verdict == study.ABSENT] == ["plain-sum"]
    (_, *rates), *tried = study.rates()
    assert rates == ["5e-6", "1e-5", "2e-5", "4e-5"]
    chosen = {name: rate for name, rate, *_ in methods}
    for name, *of in tried:
        assert of[rates.index(chosen[name])] == max(of)


def claim(**changes: Any) -> dict[str, Any]:
    """Return a claim of hybrid-bert that is within noise, too small to detect, and of our sign."""
    ours = {"difference": 0.01, "low": -0.02, "high": 0.04, "low_95": -0.01, "high_95": 0.03}
    more = {"detectable": 0.05, "published_difference": 0.02, "direction": "higher"}
    return {"paper": "hybrid-bert", "verdict": study.NOISE, **ours, **more} | changes


@pytest.mark.parametrize(
    ("changes", "agreed", "noise"),
    [
        ({}, ("1 of 1", "0 of 0"), ("1", "1", "0")),
        ({"direction": "lower"}, ("0 of 1", "0 of 0"), ("1", "1", "0")),
        ({"low_95": 0.001}, ("1 of 1", "1 of 1"), ("1", "1", "0")),
        ({"direction": "same"}, ("0 of 0", "0 of 0"), ("1", "0", "0")),
        ({"published_difference": 0.05}, ("1 of 1", "0 of 0"), ("1", "0", "1")),
        ({"published_difference": None}, ("1 of 1", "0 of 0"), ("1", "0", "0")),
        ({"verdict": study.HOLDS}, ("1 of 1", "0 of 0"), ("0", "0", "0")),
    ],
)
def test_claims_are_counted_by_what_they_show(
    changes: dict[str, Any],
    agreed: tuple[str, str],
    noise: tuple[str, str, str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(study, "claimed", lambda: [claim(**changes)])
    for counts, said in ((study.verdicts(), agreed), (study.noise(), noise)):
        lines = {line[0]: line for line in counts}
        assert lines["hybrid-bert"][-len(said) :] == said
        assert lines["all"][1:] == lines["hybrid-bert"][1:]


def test_a_published_difference_outside_our_interval_is_excluded() -> None:
    ours = {"low": -0.1, "high": 0.2, "difference": 0.1}
    assert not study._outside(ours | {"published_difference": 0.2})
    assert study._outside(ours | {"published_difference": 0.21})
    assert not study._outside(ours | {"published_difference": None})
    assert not study._outside({"published_difference": 0.5}), "not judged"
