"""The example table: what a valid row is for each task, writing and reading it."""

from __future__ import annotations

import math
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from minbert.base.errors import UserError
from minbert.data.examples import (
    Example,
    example_schema,
    fault,
    read_examples,
    write_examples,
)
from minbert.spec.task import TASKS

SINGLE = Example("a", "train", "Fine .", None, 3.0)
PAIR = Example("a", "train", "One .", "Two .", 1.0)


@pytest.mark.parametrize(
    ("task", "example"),
    [
        ("sst", SINGLE),
        ("sst", SINGLE._replace(split="test", label=None)),
        ("sts", PAIR._replace(label=4.75)),
        ("sts", PAIR._replace(label=0.0)),
        ("para", PAIR),
        ("lmrd", SINGLE._replace(split="test")),
    ],
)
def test_valid_examples(task: str, example: Example) -> None:
    assert fault(example, TASKS[task]) is None


@pytest.mark.parametrize(
    ("task", "example", "reason"),
    [
        ("sst", SINGLE._replace(label=5.0), "label 5 is not between 0 and 4"),
        ("sst", SINGLE._replace(label=-1.0), "label -1 is not between"),
        ("sst", SINGLE._replace(label=1.5), "label 1.5 is not a whole number"),
        ("para", PAIR._replace(label=0.5), "not a whole number"),
        ("sts", PAIR._replace(label=5.2), "label 5.2 is not between 0 and 5"),
        ("sts", PAIR._replace(label=math.nan), "label nan is not between"),
        ("sts", PAIR._replace(label=math.inf), "label inf is not between"),
        ("sst", SINGLE._replace(label=None), "a train row without a label"),
        ("sst", SINGLE._replace(sentence1=" \t"), "sentence is empty"),
        ("sts", PAIR._replace(sentence2=""), "sentence2 is empty"),
        ("sts", PAIR._replace(sentence1="a\0b"), "sentence1 contains a NUL byte"),
        ("sst", PAIR, "two sentences, but task 'sst' has one"),
        ("sts", SINGLE, "one sentence, but task 'sts' has two"),
        ("sst", SINGLE._replace(id=""), "id '' is empty"),
        ("sst", SINGLE._replace(id="a b"), "white space"),
        ("sst", SINGLE._replace(split="valid"), "split 'valid' is not one of train, dev, test"),
    ],
)
def test_faults(task: str, example: Example, reason: str) -> None:
    assert reason in str(fault(example, TASKS[task]))


def test_table_comes_back_as_written(tmp_path: Path) -> None:
    rows = [PAIR._replace(label=4.75), PAIR._replace(id="b", split="test", label=None)]
    write_examples("sts", rows, tmp_path / "examples.parquet")
    table = read_examples(tmp_path / "examples.parquet")
    assert table.schema.equals(example_schema())
    assert [Example(**row) for row in table.to_pylist()] == rows


def test_invalid_and_duplicate_examples_are_not_written(tmp_path: Path) -> None:
    out = tmp_path / "examples.parquet"
    with pytest.raises(UserError, match=r"example 'a' \(dev\): another example has the same id"):
        write_examples("sst", [SINGLE, SINGLE._replace(split="dev")], out)
    with pytest.raises(UserError, match=r"example 'a' \(train\): label 9 is not between"):
        write_examples("sst", [SINGLE._replace(label=9.0)], out)
    with pytest.raises(UserError, match="there are no examples"):
        write_examples("sst", [], out)
    assert not out.exists()


def test_other_files_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.parquet"
    with pytest.raises(UserError, match="there is no such file"):
        read_examples(path)
    path.write_text("id,split")
    with pytest.raises(UserError, match="is damaged or not a parquet file"):
        read_examples(path)
    pq.write_table(pa.table({"id": ["a"]}), path)
    with pytest.raises(UserError, match=r"expected columns id string, split .* found id string"):
        read_examples(path)


def test_naming_sources_does_not_import_pyarrow() -> None:
    code = "import sys, minbert.data.sources, minbert.data.lmrd; sys.exit('pyarrow' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
