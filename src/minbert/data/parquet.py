"""Parquet files read in one piece, with errors that name the file and what is wrong with it.

`pyarrow.parquet.read_table` imports `pyarrow.dataset`, which takes a sixth of a second in every
job and is not needed for a single file.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from minbert.base.errors import UserError, did_you_mean
from minbert.base.files import whole


def read_file(
    path: Path | str, columns: Sequence[str] | None = None, where: Mapping[str, Any] = {}
) -> pa.Table:
    """Return the file's `columns` (default: all), of the rows that have all values in `where`.

    That holds a value for a column, or a list of values.

    Raises `UserError` if the file is missing, not parquet, damaged (by its pages' checksums), or
    lacks a column.
    """
    if not Path(path).is_file():
        raise UserError(f"{path}: there is no such file; run the step that makes it")
    try:
        with pq.ParquetFile(path, page_checksum_verification=True) as file:
            present = file.schema_arrow.names
            wanted = present if columns is None else list(columns)
            needed = list(dict.fromkeys([*wanted, *where]))
            if absent := [name for name in needed if name not in present]:
                raise UserError(
                    f"{path}: no column '{absent[0]}' (needed: {', '.join(needed)}); "
                    f"found {', '.join(present) or 'no columns'}.{did_you_mean(absent[0], present)}"
                )
            table = file.read(needed)
    except (pa.ArrowException, OSError) as error:
        raise UserError(
            f"{path}: is damaged or not a parquet file ({error}); delete it and run what made it "
            "again"
        ) from error
    for name, value in where.items():
        field = pc.field(name)
        table = table.filter(field.isin(value) if isinstance(value, list) else field == value)
    return table.select(wanted)


def write_file(path: Path, table: pa.Table) -> None:
    """Write a table, completely or not at all."""
    with whole(path) as temporary:
        pq.write_table(table, temporary, compression="zstd")
