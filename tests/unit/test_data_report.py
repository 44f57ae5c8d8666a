"""A data set's folder: its report, its rejected rows, and the 1 % limit."""

from __future__ import annotations

import csv
import re
from pathlib import Path

import pytest

from minbert.base.errors import UserError
from minbert.base.files import read_json, write_text
from minbert.data.examples import Example, Rejected, read_examples
from minbert.data.report import write_dataset
from minbert.store.record import read_record


def many(count: int) -> list[Example]:
    return [Example(f"e{i}", "train", f"Film number {i}", None, float(i % 5)) for i in range(count)]


def bad(count: int, split: str = "train") -> list[Rejected]:
    return [Rejected(f"{split}.csv", i + 2, 'a "reason"', "raw\ttext", split) for i in range(count)]


def test_report_counts_rows_labels_words_duplicates_and_overlaps(tmp_path: Path) -> None:
    pairs = [
        Example("1", "train", "A dog runs .", "A cat sits .", 5.0),
        Example("2", "train", "a cat  sits .", "a DOG runs .", 4.2),
        Example("3", "train", "Only here", "now", 0.0),
        Example("4", "dev", "A dog runs .", "a cat sits .", 2.0),
        Example("5", "dev", "New", "pair", 1.9),
        Example("6", "test", "new", "pair", None),
    ]
    report = write_dataset("sts", pairs, [], tmp_path)
    assert report == {
        "task": "sts",
        "rows": {"train": 3, "dev": 2, "test": 1},
        "rejected": {},
        "labels": {"train": {"0-1": 1, "4-5": 2}, "dev": {"1-2": 1, "2-3": 1}, "test": {"none": 1}},
        "mean_words": {"train": 6.33, "dev": 5.0, "test": 2.0},
        "duplicates": {"train": 1, "dev": 0, "test": 0},
        "overlaps": {"dev in train": 1, "test in train": 0, "test in dev": 1},
    }
    assert read_json(tmp_path / "report.json") == report
    assert read_examples(tmp_path / "examples.parquet").num_rows == 6


def test_rejected_rows_stand_beside_the_table(tmp_path: Path) -> None:
    report = write_dataset("sst", many(198), bad(2), tmp_path)
    assert report["rejected"] == {"train": 2}
    assert report["labels"]["train"] == {"0": 40, "1": 40, "2": 40, "3": 39, "4": 39}
    with (tmp_path / "rejected.csv").open(newline="") as handle:
        assert list(csv.reader(handle)) == [
            ["file", "line", "reason", "text"],
            ["train.csv", "2", 'a "reason"', "raw\ttext"],
            ["train.csv", "3", 'a "reason"', "raw\ttext"],
        ]


def test_more_than_one_percent_of_a_split_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(UserError) as caught:
        write_dataset("sst", many(1000), bad(6, "dev"), tmp_path / "out")
    message = str(caught.value)
    assert "6 of 6 dev rows are malformed, more than 1%" in message
    assert 'dev.csv, line 6: a "reason"' in message and "line 7" not in message
    with pytest.raises(UserError, match="2 of 199 train rows"):
        write_dataset("sst", many(197), bad(2), tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_damaged_report_names_the_folders_of_its_own_store(tmp_path: Path) -> None:
    """Though another folder above it is called `store`: the message says what to delete."""
    store = tmp_path / "store" / "results" / "store"
    write_text(store / "data" / "0" / "report.json", "{}")
    told = re.escape(f"delete {store / 'data' / '0'} and {store / 'report'}, and")
    with pytest.raises(UserError, match=told):
        read_record(store / "data" / "0" / "report.json")
