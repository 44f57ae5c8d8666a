"""Tables of a run as a bundle has them: small, and predictions without ids and labels.

The ids of a task's dev and test rows are random, and the same in each of hundreds of runs. So a
packed table has the number of the row among those of the data set (`data.rows`) instead; what
cannot be restored to the last bit so stays as it is.
"""

import io
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from minbert.data.parquet import read_file
from minbert.spec.task import TASKS

ROW = "row"
"""The column that stands for id and label."""
_STANDS_FOR = ["id", "label"]


def pack(table: pa.Table, rows: Mapping[str, pa.Table]) -> pa.Table:
    """Return `predictions` without ids and labels; unchanged if `rows`, by task, lack some."""
    ids = {task: of["id"].to_pylist() for task, of in rows.items()}
    places = {(task, name): n for task, names in ids.items() for n, name in enumerate(names)}
    named = zip(table["task"].to_pylist(), table["id"].to_pylist(), strict=True)
    found = [places.get(each) for each in named]
    if None in found:
        return table
    small = table.append_column(ROW, pa.array(found, pa.int32())).drop_columns(_STANDS_FOR)
    return small if restored(small, rows, table.schema).equals(table) else table


def restored(table: pa.Table, rows: Mapping[str, pa.Table], schema: pa.Schema) -> pa.Table:
    """Return a packed table with ids and labels, by `schema`; another one as it is.

    Raises `KeyError` for a task without rows, or a column that is not there, `IndexError` for a row
    that is not there, and an Arrow error for other types.
    """
    if ROW in table.schema.names:
        tasks, numbers = table["task"].to_pylist(), table[ROW].to_pylist()
        if min(numbers, default=0) < 0:
            raise IndexError("negative row")
        for name in _STANDS_FOR:
            of_task = {task: rows[task][name].to_pylist() for task in dict.fromkeys(tasks)}
            values = [of_task[task][n] for task, n in zip(tasks, numbers, strict=True)]
            kind = pa.float32() if name == "label" else pa.string()
            table = table.append_column(name, pa.array(values, kind))
    return table.select(schema.names).cast(schema).combine_chunks()


def without_unread_scores(table: pa.Table) -> pa.Table:
    """Return `predictions` with the `scores` that tables, figures and claims read.

    They are the probabilities on dev of tasks with two classes. Gone are those on test, those of
    more classes, and a regression's values, which are its predictions.
    """
    binary = [task for task in pc.unique(table["task"]).to_pylist() if TASKS[task].kind == "binary"]
    read = pc.and_(
        pc.not_equal(table["split"], "test"),
        pc.is_in(table["task"], pa.array(binary, pa.string())),
    )
    field = table.schema.field("scores")
    scores = pc.if_else(read, table["scores"], pa.scalar(None, field.type))
    return table.set_column(table.schema.get_field_index("scores"), field, scores)


def small_bytes(table: pa.Table) -> bytes:
    """Return a table as parquet of few bytes, the same ones each time."""
    sink = io.BytesIO()
    words = [f.name for f in table.schema if pa.types.is_string(f.type)]
    pq.write_table(
        table.combine_chunks(),
        sink,
        compression="zstd",
        compression_level=19,
        use_dictionary=words,
        use_byte_stream_split=True,  # of all other columns
        write_statistics=False,
        write_page_checksum=True,
    )
    return sink.getvalue()


class Rows:
    """The dev and test rows of each task of a run, where one of `stores` has them.

    `described` are descriptions by kind and key.
    """

    def __init__(
        self, stores: Sequence[Path], described: Mapping[tuple[str, str], Mapping[str, Any]]
    ) -> None:
        self._described = described
        self._paths = {
            (key if kind == "data" else of["needs"]["examples"]["key"]): path
            for (kind, key), of in described.items()
            if kind in ("data", "rows")
            for store in stores
            if (path := store / kind / key / "rows.parquet").is_file()
        }
        self._read = cache(read_file)

    def of(self, key: str) -> dict[str, pa.Table]:
        """Return {task: rows} of a run."""
        found = {}
        for name, need in self._described["train", key]["needs"].items():
            prefix, _, task = name.partition(".")
            if prefix == "tokens":
                tokens = self._described["tokens", need["key"]]
                if path := self._paths.get(tokens["needs"]["examples"]["key"]):
                    found[task] = self._read(path)
        return found
