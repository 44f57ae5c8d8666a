"""Parquet files read in one piece: columns, rows that meet conditions, and what is no such file."""

from __future__ import annotations

import random
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from minbert.base.errors import UserError
from minbert.data.parquet import read_file, write_file


def test_columns_in_their_order_of_rows_that_have_all_values(tmp_path: Path) -> None:
    path = tmp_path / "table.parquet"
    table = pa.table({"id": ["a", "b", "c"], "split": ["dev", "dev", "test"], "n": [1, 2, 3]})
    write_file(path, table)
    assert read_file(path).equals(table)
    assert read_file(path, ["n", "id"]).column_names == ["n", "id"]
    assert read_file(path, ["id"], {"split": "dev", "n": 2}).to_pydict() == {"id": ["b"]}
    assert read_file(path, ["id"], {"id": ["a", "c"]}).to_pydict() == {"id": ["a", "c"]}


def test_what_is_wrong_with_a_file_is_told_and_damage_is_seen_by_checksums(tmp_path: Path) -> None:
    path, draw = tmp_path / "table.parquet", random.Random(0)
    told = r"table\.parquet: is missing, damaged or no such table .*delete it and make"
    with pytest.raises(UserError, match=told):
        read_file(path)
    table = pa.table({"prediction": [draw.random() for _ in range(500)]})
    pq.write_table(table, path, write_page_checksum=True)
    with pytest.raises(UserError, match=told):
        read_file(path, ["id"])
    content = bytearray(path.read_bytes())
    content[1000] ^= 1
    for damaged in (b"id,split", bytes(content)):
        path.write_bytes(damaged)
        with pytest.raises(UserError, match=told):
            read_file(path)
