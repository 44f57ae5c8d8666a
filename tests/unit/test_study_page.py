"""The page of the study with one seed and with several, on its own tables."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from pages import study

from minbert.evaluate.statistics import interval


@pytest.fixture
def tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Yield copies of the papers' tables, as of one seed, that the page is made from."""
    (tmp_path / "tables").mkdir()
    for paper in study.PAPERS:
        rows = pd.read_csv(study.STUDY / "tables" / f"{paper}.csv")
        counts = ["seeds", *(name for name in rows if name.endswith("_n"))]
        rows[counts] = rows[counts].clip(upper=1)
        rows.to_csv(tmp_path / "tables" / f"{paper}.csv", index=False)
    monkeypatch.setattr(study, "STUDY", tmp_path)
    study.table.cache_clear()
    yield tmp_path / "tables"
    study.table.cache_clear()


def of_seeds(tables: Path, paper: str, scores: dict[str, dict[str, list[float]]]) -> None:
    """Give rows of a paper, by variant and column, the scores of several seeds."""
    path = tables / f"{paper}.csv"
    rows = pd.read_csv(path).set_index("variant", drop=False)
    for variant, columns in scores.items():
        for name, values in columns.items():
            rows.loc[variant, "seeds"] = len(values)
            for part, value in interval(values)._asdict().items():
                rows.loc[variant, f"{name}_{part}"] = value
    rows.to_csv(path, index=False)


def test_equal_trainings_of_several_seeds_have_a_standard_deviation(tables: Path) -> None:
    one, other = [0.41, 0.44, 0.40], [0.39, 0.46]
    alike = {"sst": one, "sts": [0.5, 0.5]}
    of_seeds(tables, "hybrid-bert", {"single-task": alike, "3-bert": {"sst": other}})
    heads, pair, *_, median = study.scatter()
    assert heads[:2] == ("standard deviation over seeds", "SST")
    assert pair[0] == "hybrid-bert: single-task and 3-bert, as one"
    assert pair[1] == f"{np.std(one + other, ddof=1):.3f}", "as of one row with all five seeds"
    own = [np.std(one, ddof=1), np.std(other, ddof=1)]
    assert median == ("hybrid-bert: median of 2 rows", f"{np.mean(own):.3f}", "—", "0.000", "—")


def test_equal_trainings_of_one_seed_have_a_difference(tables: Path) -> None:
    heads, pair, *_ = study.scatter()
    assert heads[0] == "rows" and pair[0].startswith("hybrid-bert: single-task \N{MINUS SIGN} ")
    assert pair[1][0] in "+\N{MINUS SIGN}"
