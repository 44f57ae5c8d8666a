"""Tables of a run as a bundle has them: small, and predictions without ids and labels.

The ids of a task's dev and test rows are random, and the same in each of hundreds of runs. So a
packed table has the number of the row among those of the data set (`data.examples`) instead; what
cannot be restored to the last bit so stays as it is.
"""

import io
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from minbert.base.files import read_json
from minbert.data.parquet import read_file
from minbert.spec.task import TASKS

ROW = "row"
"""The column that stands for id and label."""

Rows = Mapping[str, Mapping[str, list[Any]]]
"""The columns of the dev and test rows of each task."""


def pack(table: pa.Table, rows: Rows) -> pa.Table:
    """Return `predictions` without ids and labels; unchanged if `rows` lack some."""
    places = {(task, at): n for task, of in rows.items() for n, at in enumerate(of["id"])}
    tasks, ids = table["task"].to_pylist(), table["id"].to_pylist()
    found = [places.get(at) for at in zip(tasks, ids, strict=True)]
    small = table.append_column(ROW, pa.array(found, pa.int32())).drop_columns(["id", "label"])
    return small if None not in found and restored(small, rows).equals(table) else table


def restored(table: pa.Table, rows: Rows) -> pa.Table:
    """Return a packed table with ids and labels, another one as it is.

    Raises `ValueError` for a task without rows, and `LookupError` for a row that is not there.
    """
    if ROW not in table.schema.names:
        return table
    if absent := {*table["task"].to_pylist()} - rows.keys():
        raise ValueError(
            f"lacks the ids and labels of '{min(absent)}': import the bundle first that it was "
            "made without"
        )
    places = [*zip(table["task"].to_pylist(), table[ROW].to_pylist(), strict=True)]
    ids = pa.array([rows[task]["id"][n] for task, n in places])
    labels = pa.array([rows[task]["label"][n] for task, n in places], pa.float32())
    plain = table.drop_columns([ROW]).add_column(0, "id", ids)
    return plain.add_column(5, "label", labels.cast(pa.float64()))


def without_unread_scores(table: pa.Table) -> pa.Table:
    """Return `predictions` with the `scores` that tables, figures and claims read.

    They are the probabilities on dev of tasks with two classes. Gone are those on test, those of
    more classes, and a regression's values, which are its predictions.
    """
    places = zip(table["task"].to_pylist(), table["split"].to_pylist(), strict=True)
    read = [split != "test" and TASKS[task].kind == "binary" for task, split in places]
    scores = pc.if_else(pa.array(read, pa.bool_()), table["scores"], None)
    at = table.schema.get_field_index("scores")
    return table.set_column(at, table.schema.field(at), scores)


def small_bytes(table: pa.Table) -> bytes:
    """Return a table as parquet of few bytes, the same ones each time."""
    sink = io.BytesIO()
    pq.write_table(
        table.combine_chunks(),
        sink,
        compression="zstd",
        compression_level=19,
        use_dictionary=["split", "task", "metric", "id"],
        use_byte_stream_split=True,  # of all other columns
        write_statistics=False,
    )
    return sink.getvalue()


def rows_by_task(descriptions: Iterable[Path], *stores: Path) -> Rows:
    """Return the rows of each task, of the described nodes, where one of `stores` has them."""
    found = {}
    for path in descriptions:
        kind, _, key = path.stem.partition("-")
        for store in stores if kind == "rows" else ():
            if (table := store / kind / key / "rows.parquet").is_file():
                data = read_json(path)["needs"]["examples"]["key"]
                task = read_json(path.with_name(f"data-{data}.json"))["spec"]["task"]
                found[task] = read_file(table).to_pydict()
    return found
