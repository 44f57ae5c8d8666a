"""The dev and test rows of a data set without their texts: what figures read of examples.

So figures are drawn where the texts are not, as in results that came in a bundle.
"""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from minbert.base.files import whole
from minbert.data.examples import overlapping, read_examples
from minbert.store.job import Job

SCHEMA = pa.schema(
    [
        pa.field("id", pa.string(), nullable=False),
        pa.field("split", pa.string(), nullable=False),
        pa.field("label", pa.float64()),
        pa.field("in_train", pa.bool_(), nullable=False),
    ]
)


def make(job: Job) -> None:
    """Write the rows of the job's data set."""
    write_rows(job.need("examples"), job.out / "rows.parquet")


def write_rows(examples: Path, out: Path) -> None:
    """Write the dev and test rows of the table `examples` to the parquet file `out`, in order.

    `in_train` says whether train has the text too, as `data.examples.seen` compares texts. Raises
    `UserError` for a missing or damaged table.
    """
    listed = read_examples(examples).to_pylist()
    overlaps = overlapping(listed)
    rows = [
        {name: row[name] for name in ("id", "split", "label")}
        | {"in_train": row["id"] in overlaps[row["split"]]}
        for row in listed
        if row["split"] in overlaps
    ]
    with whole(out) as temporary:
        pq.write_table(pa.Table.from_pylist(rows, schema=SCHEMA), temporary, compression="zstd")
