"""Parquet files read in one piece: columns, and the rows that meet conditions."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from minbert.data.parquet import Condition, read_file


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A file of three columns."""
    made = tmp_path / "table.parquet"
    table = pa.table({"id": ["a", "b", "c"], "split": ["dev", "dev", "test"], "n": [1, 2, 3]})
    pq.write_table(table, made)
    return made


@pytest.mark.parametrize(
    ("conditions", "ids"),
    [
        ([], ["a", "b", "c"]),
        ([("split", "=", "dev")], ["a", "b"]),
        ([("split", "=", "dev"), ("n", "=", 2)], ["b"]),
        ([("id", "in", ["a", "c"])], ["a", "c"]),
        ([("split", "!=", "dev")], ["c"]),
    ],
)
def test_rows_meet_all_conditions(path: Path, conditions: list[Condition], ids: list[str]) -> None:
    assert read_file(path, ["id"], conditions).to_pydict() == {"id": ids}


def test_columns_come_in_the_order_asked_for(path: Path) -> None:
    assert read_file(path, ["n", "id"]).column_names == ["n", "id"]
    assert read_file(path).column_names == ["id", "split", "n"]
