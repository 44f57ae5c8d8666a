"""The dev and test rows of a data set without their texts: what figures read of examples.

So figures are drawn where the texts are not, as in results that came in a bundle.
"""

import pyarrow as pa

from minbert.data.examples import seen
from minbert.data.parquet import read_file, write_file
from minbert.store.job import Job

_GIVEN = [pa.field(name, pa.string(), nullable=False) for name in ("id", "split")]
_IN_TRAIN = pa.field("in_train", pa.bool_(), nullable=False)
SCHEMA = pa.schema([*_GIVEN, ("label", pa.float64()), _IN_TRAIN])


def make(job: Job) -> None:
    """Write the dev and test rows of the job's data set, in order.

    `in_train` says whether train has the text too, as `seen` compares texts.
    """
    given = read_file(job.need("examples")).to_pylist()
    rows = [(row, seen(row["sentence1"], row["sentence2"])) for row in given]
    train = {text for row, text in rows if row["split"] == "train"}
    kept = [row | {"in_train": text in train} for row, text in rows if row["split"] != "train"]
    write_file(job.out / "rows.parquet", pa.Table.from_pylist(kept, schema=SCHEMA))
