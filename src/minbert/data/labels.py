"""Public labels of test rows, from a file of ids and labels.

Scores alone read them (`evaluate.score`): no data set, training or choice does. Whoever has the
original files of SST, STS-B or Quora makes these files with workflow/labels.py.
"""

from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from minbert.base.errors import UserError
from minbert.base.files import write_json
from minbert.data.examples import label_of
from minbert.data.identity import check_unchanged
from minbert.data.parquet import read_file, write_file
from minbert.data.tables import BadRow, form_of, read_rows
from minbert.spec.task import TASKS
from minbert.store.job import Job

SCHEMA = pa.schema([("id", pa.string()), ("label", pa.float64())])


def make(job: Job) -> None:
    """Write the labels of the job's task, and how many of its test rows without one got one."""
    path, task = Path(job.extra["paths"]["labels"]), job.spec["task"]
    check_unchanged(path, job.spec["files"]["labels"])
    test = read_file(job.need("examples"), ("id", "label"), {"split": "test"}).to_pylist()
    hidden = {row["id"] for row in test if row["label"] is None}
    given = {name: of for name, of in file_labels(path, task).items() if name in hidden}
    if hidden and not given:
        raise UserError(
            f"{path}: none of the {len(hidden):,} test rows of task '{task}' has its id there"
        )
    write_file(job.out / "labels.parquet", pa.table([[*given], [*given.values()]], schema=SCHEMA))
    write_json(job.out / "labels.json", {"task": task, "rows": len(hidden), "labelled": len(given)})


def file_labels(path: Path, task: str) -> dict[str, float]:
    """Return {id: label} of a file with these two columns; `UserError` names a row that is bad."""
    found: dict[str, float] = {}
    for line, _, row in read_rows(path, form_of(path.name), ("id", "label")):
        try:
            if isinstance(row, str):
                raise BadRow(row)
            if (label := label_of(row["label"], TASKS[task])) is None:
                raise BadRow("a row without a label")
            if str(row["id"]) in found:
                raise BadRow(f"a second row of id {str(row['id'])!r:.80}")
        except BadRow as error:
            raise UserError(f"{path}, line {line}: {error}") from None
        found[str(row["id"])] = label
    return found


def with_labels(table: pa.Table, path: Path | None) -> pa.Table:
    """Return the rows of a table (`id`, `label`) that have a label, or get one from that file."""
    label = table["label"].cast(pa.float64())
    if path and path.is_file():
        given = read_file(path)
        places = pc.index_in(table["id"], given["id"].combine_chunks())
        label = pc.coalesce(label, given["label"].take(places))
    return table.drop_columns("label").append_column("label", label).filter(pc.is_valid(label))
