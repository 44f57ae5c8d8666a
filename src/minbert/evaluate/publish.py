"""Tables and figures under their plain names, copied from where their keys put them."""

from __future__ import annotations

import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from minbert.common.files import whole
from minbert.common.parquet import read_file
from minbert.grid.node import published_path, read_listing
from minbert.track.grid_run import record_grids


def publish(root: Path, stamp: str) -> None:
    """Copy each product to its plain name, join the papers' scores, and leave the stamp's mark.

    The marks of earlier stamps go first, so that going back to an earlier configuration publishes
    again although all that it needs is still there: also if this is killed halfway.
    """
    listed = read_listing(root, stamp)
    clear_marks(root)
    for name, source in listed["products"].items():
        with whole(root / name) as temporary:
            shutil.copyfile(source, temporary)
    tables = [read_file(path) for path in listed["scores"]]
    with whole(root / "tables" / "scores.parquet") as temporary:
        pq.write_table(pa.concat_tables(tables), temporary)
    record_grids(root, listed, complete=True)
    published_path(root, stamp).with_suffix(".done").touch()


def clear_marks(root: Path) -> None:
    """Take away the marks of all that was published."""
    for mark in (root / "store" / "published").glob("*.done"):
        mark.unlink()
