"""Tables of a run as a bundle has them: small, and predictions without ids and labels.

The ids of a task's dev and test rows are random, and the same in each of hundreds of runs. So a
packed table has the number of the row among those of the data set (`data.rows`) instead; what
cannot be restored to the last bit so stays as it is.
"""

from collections.abc import Mapping
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


def packed_schema(schema: pa.Schema) -> pa.Schema:
    """Return the columns of a packed table, by those of `predictions`."""
    kept = [field for field in schema if field.name not in _STANDS_FOR]
    return pa.schema([*kept, pa.field(ROW, pa.int32())])


def pack(table: pa.Table, rows: Mapping[str, pa.Table]) -> pa.Table:
    """Return `predictions` without ids and labels; unchanged if `rows`, by task, lack some."""
    tasks = table["task"].to_pylist()
    if any(task not in rows for task in set(tasks)):
        return table
    places = {
        task: {name: n for n, name in enumerate(rows[task]["id"].to_pylist())}
        for task in set(tasks)
    }
    named = zip(tasks, table["id"].to_pylist(), strict=True)
    found = [places[task].get(name) for task, name in named]
    if None in found:
        return table
    small = table.append_column(ROW, pa.array(found, pa.int32())).drop_columns(_STANDS_FOR)
    return small if restored(small, rows, table.schema).equals(table) else table


def restored(table: pa.Table, rows: Mapping[str, pa.Table], schema: pa.Schema) -> pa.Table:
    """Return a packed table with ids and labels, by `schema`; another one as it is.

    Raises `KeyError` for a task without rows, and an Arrow error for a row that is not there.
    """
    if ROW not in table.schema.names:
        return table.select(schema.names).cast(schema)
    starts, ends, start = {}, {}, 0
    for task, of in rows.items():
        starts[task], ends[task] = start, start + len(of)
        start = ends[task]
    tasks = table["task"].to_pylist()
    at = pc.add(table[ROW].cast(pa.int64()), pa.array([starts[task] for task in tasks], pa.int64()))
    end = pa.array([ends[task] for task in tasks], pa.int64())
    if pc.any(pc.or_(pc.less(table[ROW], 0), pc.greater_equal(at, end))).as_py():
        raise pa.ArrowIndexError("a row that the data set does not have")
    every = pa.concat_tables([of.select(_STANDS_FOR) for of in rows.values()])
    chosen = every.take(at)
    label = chosen["label"].cast(pa.float32(), safe=False).cast(pa.float64())
    whole = table.append_column("id", chosen["id"]).append_column("label", label)
    return whole.select(schema.names).cast(schema).combine_chunks()


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


def write_small(table: pa.Table, path: Path) -> None:
    """Write a table in few bytes, the same ones each time."""
    words, numbers = [], {}
    for field in table.schema:
        if pa.types.is_floating(field.type):
            numbers[field.name] = "BYTE_STREAM_SPLIT"
        elif pa.types.is_list(field.type):
            numbers[f"{field.name}.list.element"] = "BYTE_STREAM_SPLIT"
        elif pa.types.is_integer(field.type):
            numbers[field.name] = "DELTA_BINARY_PACKED"
        elif field.name != "id":
            words.append(field.name)
    pq.write_table(
        table.combine_chunks(),
        path,
        compression="zstd",
        compression_level=19,
        use_dictionary=words,
        column_encoding=numbers,
        write_statistics=False,
        write_page_checksum=True,
    )


class Rows:
    """The dev and test rows of each task of a run, where `store` has them.

    `described` are descriptions by kind and key.
    """

    def __init__(self, store: Path, described: Mapping[tuple[str, str], Mapping[str, Any]]) -> None:
        self.described = described
        self._paths = {
            (key if kind == "data" else of["needs"]["examples"]["key"]): path
            for (kind, key), of in described.items()
            if kind in ("data", "rows") and (path := store / kind / key / "rows.parquet").is_file()
        }
        self._read: dict[str, pa.Table] = {}

    def of(self, run: Mapping[str, Any]) -> dict[str, pa.Table]:
        """Return {task: rows} of the run of this description."""
        found = {}
        for name, need in run["needs"].items():
            kind, _, task = name.partition(".")
            if kind != "tokens" or (need["kind"], need["key"]) not in self.described:
                continue
            tokens = self.described[need["kind"], need["key"]]
            data = tokens["needs"]["examples"]["key"]
            if data in self._paths:
                if data not in self._read:
                    self._read[data] = read_file(self._paths[data])
                found[task] = self._read[data]
        return found
