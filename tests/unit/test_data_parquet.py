"""Parquet files read in one piece: columns, rows that meet conditions, and what is no such file."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from minbert.base.errors import UserError
from minbert.data.parquet import read_file, write_file


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A file of three columns."""
    table = pa.table({"id": ["a", "b", "c"], "split": ["dev", "dev", "test"], "n": [1, 2, 3]})
    write_file(tmp_path / "table.parquet", table)
    return tmp_path / "table.parquet"


@pytest.mark.parametrize(
    ("where", "ids"),
    [
        ({}, ["a", "b", "c"]),
        ({"split": "dev", "n": 2}, ["b"]),
        ({"id": ["a", "c"]}, ["a", "c"]),
    ],
)
def test_rows_have_all_values(path: Path, where: dict[str, Any], ids: list[str]) -> None:
    assert read_file(path, ["id"], where).to_pydict() == {"id": ids}


def test_columns_come_in_their_order(path: Path) -> None:
    assert read_file(path, ["n", "id"]).column_names == ["n", "id"]
    assert read_file(path).column_names == ["id", "split", "n"]


def test_what_is_no_such_file_is_named(path: Path) -> None:
    with pytest.raises(
        UserError, match=r"no column 'ids' \(needed: ids\); found id, split, n\. Did"
    ):
        read_file(path, ["ids"])
    with pytest.raises(UserError, match="absent: there is no such file"):
        read_file(path.with_name("absent"))
    draw = random.Random(0)
    table = pa.table({"prediction": [draw.random() for _ in range(500)]})
    pq.write_table(table, path, write_page_checksum=True)
    content = bytearray(path.read_bytes())
    content[1000] ^= 1
    for damaged in (b"id,split", bytes(content)):
        path.write_bytes(damaged)
        with pytest.raises(
            UserError, match=r"table\.parquet: is damaged or not .*delete it and run"
        ):
            read_file(path)
