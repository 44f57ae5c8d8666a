"""The page of the study: how far equal trainings lie apart."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from pages import study

from minbert.evaluate.statistics import interval


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


def test_a_papers_scatter_is_of_what_has_learnt_the_task(tables: Path) -> None:
    learnt = {"sst_above": 2, "sst_n": 2, "sst_sd": 0.02, "para_above": 0, "sts_above": 0}
    more = {"overall_normalised_sd": 0.01, "para_n": 2, "sts_n": 2}
    unlearnt = {"sst_above": 1, "sst_sd": 0.9, "overall_normalised_sd": 0.9}
    change(tables, "hybrid-bert", {"*": learnt | more, "1-bert": unlearnt})
    _, _, _, hybrid, *_ = study.scatter()
    assert hybrid[0] == "hybrid-bert: all that have learnt the task"
    assert (hybrid[1], hybrid[4]) == ("0.020", "0.010")
