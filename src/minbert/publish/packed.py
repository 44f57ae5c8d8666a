"""Tables of a run as a bundle has them: small, and predictions without ids and labels.

The ids of a task's dev and test rows are random, and the same in each of hundreds of runs. So a
packed table has the number of the row among those of the data set (`data.rows`) instead; what
cannot be restored to the last bit so stays as it is.
"""

from collections.abc import Mapping, Sequence
from functools import cache
from itertools import accumulate
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
    places = {t: {name: n for n, name in enumerate(of["id"].to_pylist())} for t, of in rows.items()}
    named = zip(table["task"].to_pylist(), table["id"].to_pylist(), strict=True)
    found = [places.get(task, {}).get(name) for task, name in named]
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
    ends = dict(zip(rows, accumulate(map(len, rows.values())), strict=True))
    end = pa.array([ends[task] for task in table["task"].to_pylist()], pa.int64())
    length = pa.array([len(rows[task]) for task in table["task"].to_pylist()], pa.int64())
    if pc.any(pc.or_(pc.less(table[ROW], 0), pc.greater_equal(table[ROW], length))).as_py():
        raise pa.ArrowIndexError("a row that the data set does not have")
    at = pc.add(pc.subtract(end, length), table[ROW])
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
        needs = self._described["train", key]["needs"]
        tokens = {
            name.partition(".")[2]: self._described["tokens", need["key"]]
            for name, need in needs.items()
            if name.startswith("tokens.")
        }
        data = {task: of["needs"]["examples"]["key"] for task, of in tokens.items()}
        return {t: self._read(self._paths[at]) for t, at in data.items() if at in self._paths}
