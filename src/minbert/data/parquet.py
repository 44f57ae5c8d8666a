"""Parquet files read in one piece, with errors that name the file and what is wrong with it."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from minbert.base.errors import UserError
from minbert.base.files import whole
from minbert.spec.protocol import SPLITS


def read_file(
    path: Path | str, columns: Sequence[str] | None = None, where: Mapping[str, Any] = {}
) -> pa.Table:
    """Return a file's `columns` (default: all), of rows with the values, or one of a list, `where`.

    `UserError` if it is missing, not parquet, damaged (by page checksums), or lacks a column.
    """
    needed = None if columns is None else list(dict.fromkeys([*columns, *where]))
    try:
        # `read_table` would import `pyarrow.dataset`: a sixth of a second in every job.
        with pq.ParquetFile(path, page_checksum_verification=True) as file:
            table = file.read(needed)
        for name, value in where.items():
            field = pc.field(name)
            table = table.filter(field.isin(value) if isinstance(value, list) else field == value)
        return table if columns is None else table.select(columns)
    except (pa.ArrowException, KeyError, OSError) as error:
        raise UserError(
            f"{path}: is missing, damaged or no such table ({error}); delete it and make it again"
        ) from error


def read_splits(path: Path, columns: Sequence[str] | None = None) -> dict[str, pa.Table]:
    """Return a file's rows of train, dev and test, which may be none."""
    table = read_file(path, columns)
    return {split: table.filter(pc.equal(table["split"], split)) for split in SPLITS}


def write_file(path: Path, table: pa.Table) -> None:
    """Write a table, completely or not at all."""
    with whole(path) as temporary:
        pq.write_table(table, temporary, compression="zstd", write_page_checksum=True)
