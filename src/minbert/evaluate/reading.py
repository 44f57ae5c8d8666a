"""Parquet files with the columns that are expected of them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from minbert.common.errors import UserError, nearest
from minbert.common.parquet import Condition, read_file


def read_columns(
    path: Path | str, columns: Sequence[str], conditions: Sequence[Condition] = ()
) -> pa.Table:
    """Return `columns` of the parquet file at `path`, only the rows that meet all `conditions`.

    A file that is absent, is not parquet, lacks a column or is damaged
    (a page is not what its checksum says) raises `UserError`, which names what the file has
    instead.
    """
    path = Path(path)
    if not path.is_file():
        raise UserError(f"{path}: there is no such file; run the step that makes it")
    try:
        present = pq.read_schema(path).names
    except (pa.ArrowInvalid, OSError) as error:
        raise UserError(
            f"{path}: not a parquet file that can be read ({error}); delete it and make it again"
        ) from error
    absent = [name for name in columns if name not in present]
    if absent:
        raise UserError(
            f"{path}: no column '{absent[0]}' (needed: {', '.join(columns)}); "
            f"found {', '.join(present) or 'no columns'}.{nearest(absent[0], present)}"
        )
    try:
        return read_file(path, columns, conditions)
    except (pa.ArrowInvalid, OSError) as error:
        raise UserError(
            f"{path}: is damaged ({error}); delete it and run snakemake again, which makes it anew"
        ) from error
