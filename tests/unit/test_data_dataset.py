"""The one reader: the course's files and others, rejected rows, the report, the 1 % limit."""

from __future__ import annotations

import csv
import os
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from own_files import read
from own_tasks import using

from minbert.base.errors import UserError
from minbert.base.files import read_json, write_text
from minbert.data.dataset import Dataset, with_made_splits, write_dataset
from minbert.data.examples import Example, Rejected, label_of, read_examples
from minbert.data.identity import checksum
from minbert.spec.entry import TaskEntry
from minbert.spec.protocol import SPLITS
from minbert.spec.task import BUILT_IN, TASKS, Task, task_facts
from minbert.store.record import read_record

SHARED = Path(os.environ.get("MINBERT_SHARED", Path(__file__).parents[3] / "shared"))
COURSE = SHARED / "data" / "cs224n"
needs_course = pytest.mark.skipif(not COURSE.is_dir(), reason=f"no course files in {COURSE}")

HEAD = "\tid\tsentence\tsentiment\n"
PAIR = "\tid\tsentence1\tsentence2\tsimilarity\n"


def course(task: str, folder: Path = COURSE) -> Dataset:
    return read(task, **{s: folder / getattr(BUILT_IN[task].files, s).path for s in SPLITS})


def found_in(folder: Path, task: str, content: str | bytes) -> Dataset:
    path = folder / "train.csv"
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return read(task, train=path)


def test_an_index_column_and_the_test_files_extra_column_are_left_out(tmp_path: Path) -> None:
    write_text(tmp_path / "train.csv", HEAD + "0\ta1\t A fine film . \t3\n")
    write_text(tmp_path / "test.csv", "0\t\tid\tsentence\n1\t0.0\tb1\t Dull .\n")
    found = read("sst", test=tmp_path / "test.csv", train=tmp_path / "train.csv")
    assert found.examples == [
        Example("a1", "train", "A fine film .", None, 3.0),
        Example("b1", "test", "Dull .", None, None),
    ]
    assert found.rejected == []


TEXTS = [
    ("sst", HEAD + '0\ta\t"x ""y"" z"\t1\n', [('x "y" z', None, 1.0)]),
    ("sst", HEAD + '0\ta\t"never closed\t1\n', [('"never closed', None, 1.0)]),
    ("sst", HEAD + "0\ta\tLine\u2028separator\t3\n\n", [("Line\u2028separator", None, 3.0)]),
    ("sst", ("\ufeff" + HEAD + "0\ta\tGood\t3\n").replace("\n", "\r\n"), [("Good", None, 3.0)]),
    ("sts", PAIR + '1\ta\t5" nails\t"""it""?"\t4.75\n', [('5" nails', '"it"?', 4.75)]),
    ("cfimdb", HEAD + "0\ta\tcaf\x92\t1\n", [("caf\x92", None, 1.0)]),
]  # fmt: skip


@pytest.mark.parametrize(("task", "content", "wanted"), TEXTS)
def test_texts_are_read_as_they_are(
    task: str, content: str, wanted: list[Any], tmp_path: Path
) -> None:
    found = found_in(tmp_path, task, content)
    assert [(e.sentence1, e.sentence2, e.label) for e in found.examples] == wanted
    assert found.rejected == []


BAD = {
    "1\ta1\tGood": "3 columns, but the header has 4",
    "2\ta2\tGood\tthree": "label 'three' is not one of negative, somewhat negative, neutral",
    "3\ta3\tGood\t7": "label '7' is not one of .*, or 0 to 4$",
    "4\ta4\t \t3": "sentence is empty",
    "5\ta0\tAgain\t3": "id 'a0' is already in train.csv, line 2; are ids unique?",
    "6\ta6\tGood\t": "a train row without a label",
    "7\ta7\tGood\t1.5": "label 1.5 is not a whole number",
    "8\t\tGood\t1": "id '' is empty or contains white space",
    "9\ta9\tgo\0od\t3": "sentence contains a NUL byte",
    "10\tb0\tit\x92s\t3": r"sentence contains the control character U\+0092",
}


def test_bad_rows_are_rejected_and_take_no_neighbour_along(tmp_path: Path) -> None:
    rows = ["0\ta0\tGood\t3", *BAD, "11\tlast\tGood\t3"]
    found = found_in(tmp_path, "sst", HEAD + "\n".join(rows) + "\n")
    assert [e.id for e in found.examples] == ["a0", "last"]
    assert [(r.file, r.line, r.split, r.text) for r in found.rejected] == [
        ("train.csv", at, "train", text) for at, text in enumerate(BAD, start=3)
    ]
    for row, reason in zip(found.rejected, BAD.values(), strict=True):
        assert re.search(reason, row.reason), row


REFUSED = [
    ("", "train.csv: the file is empty"),
    (HEAD, "has no rows"),
    (",id,sentence,sentiment\n0,a,x,3\n", "no tab in the header ',id,sentence,sentiment'"),
    ("\tid\tsentences\tsentiment\n0\ta\tx\t3\n", "no column 'sentence'; .* mean 'sentences'"),
    ("\tid\tsentence\n0\ta\tGood\n", "no column 'sentiment'"),
    (HEAD.encode() + b"0\ta\tx\t3\n1\tb\tCaf\xe9\t3\n", r"line 3: byte 0xe9 .* Latin-1\? .*latin1"),
    (HEAD.encode() + b"0\ta\tit\x92s\t3\n", r"byte 0x92 .* Windows-1252\? .*windows-1252"),
]  # fmt: skip


@pytest.mark.parametrize(("content", "message"), REFUSED)
def test_wrong_files_are_explained(tmp_path: Path, content: str | bytes, message: str) -> None:
    with pytest.raises(UserError, match=message):
        found_in(tmp_path, "sst", content)


@needs_course
@pytest.mark.parametrize(
    ("task", "rows", "overlaps"),
    [
        ("sst", (8544, 1101, 2210), (2, 0)),
        ("sts", (6040, 863, 1725), (16, 19)),
        ("cfimdb", (1707, 245, 488), None),
        ("para", (14172, 2053, 3987), None),
    ],
)
def test_the_courses_files(
    task: str, rows: tuple[int, ...], overlaps: tuple[int, int] | None, tmp_path: Path
) -> None:
    found = course(task)
    report = write_dataset(task, found, tmp_path)
    assert tuple(report["rows"].values()) == rows
    malformed = {"ad118c967d683c93883bf072d": 1775, "9054345d02cd6c5642a4904dc": 2755}
    expected = malformed if task == "para" else {}
    assert {r.text.split("\t")[1]: r.line for r in found.rejected} == expected
    if overlaps:
        assert report["overlaps"]["dev in train"] == overlaps[0]
    for split in SPLITS if task != "para" else ():  # of which the folder has a part
        file = getattr(BUILT_IN[task].files, split)
        assert checksum(COURSE / file.path, "git:") == file.checksum


NAMES = ("world", "sports", "business")


def task(classes: tuple[str, ...] | int) -> Task:
    entry = {"kind": "classification", "sentence1": "a", "label": "b", "files": "x", "dev": 0.1}
    return Task.of("news", TaskEntry(**entry, classes=classes))


@pytest.mark.parametrize(
    ("classes", "value", "label"),
    [
        *((NAMES, value, 1.0) for value in ("sports", "1", 1, 1.0, "1.0")),
        *((NAMES, value, None) for value in (None, "")),
        (3, True, 1.0),
        (("true", "false"), True, 0.0),
        (("True", "False"), "FALSE", 1.0),
        *((("1", "2", "3"), value, 1.0) for value in ("2", 2, 2.0)),  # names, not places
        (("1", "2", "3"), "0", "label '0' is not one of 1, 2, 3"),
        (NAMES, "9", "label '9' is not one of world, sports, business, or 0 to 2"),
        (3, "nan", "label 'nan' is not a number"),
    ],
)
def test_labels_are_names_or_numbers(classes: Any, value: object, label: object) -> None:
    assert label_of(value, task(classes)) == label


def test_made_splits_are_shares_that_keep_twins_together_and_stay() -> None:
    texts = [(f"text {n // 2} " + " " * (n % 2), "B" if n % 2 else "b") for n in range(4000)]
    given = [Example(str(n), "train", one, two, 0.0) for n, (one, two) in enumerate(texts)]
    made = {"dev": 0.1, "test": 0.2}
    found = with_made_splits(given, made)
    of = {e.id: e.split for e in found}
    assert all(of[str(n)] == of[str(n + 1)] for n in range(0, 4000, 2)), "twins"
    shares = {split: list(of.values()).count(split) / 4000 for split in ("dev", "test")}
    assert shares == pytest.approx(made, abs=0.03)
    fewer = {e.id: e.split for e in with_made_splits(given[:1000], made)}
    assert all(of[key] == split for key, split in fewer.items()), "other rows move none"
    assert [e.split for e in found] == sorted(of.values(), key=["train", "dev", "test"].index)


def test_facts_of_built_in_tasks_are_as_ever() -> None:
    """They are in the keys of all data sets and trainings."""
    with using():
        assert {name: task_facts(name) for name in TASKS} == {
            "sst": ["classification", 5, False, 0, 4, "accuracy"],
            "para": ["binary", 1, True, 0, 1, "accuracy"],
            "sts": ["regression", 1, True, 0, 5, "pearson"],
            "cfimdb": ["classification", 2, False, 0, 1, "accuracy"],
            "lmrd": ["classification", 5, False, 0, 4, "accuracy"],
        }


def many(count: int, split: str = "train") -> list[Example]:
    return [Example(f"{split}{i}", split, f"{split} {i}", None, float(i % 5)) for i in range(count)]


def dataset(examples: list[Example], bad: int = 0, split: str = "train") -> Dataset:
    row = 'a "reason"', "raw\ttext", split
    return Dataset(examples, [Rejected(f"{split}.csv", n + 2, *row) for n in range(bad)], Counter())


def test_report_counts_rows_labels_words_duplicates_and_overlaps(tmp_path: Path) -> None:
    pairs = [
        Example("1", "train", "A dog runs .", "A cat sits .", 5.0),
        Example("2", "train", "a cat  sits .", "a DOG runs .", 4.2),
        Example("3", "train", "Only here", "now", 0.0),
        Example("4", "dev", "A dog runs .", "a cat sits .", 2.0),
        Example("5", "dev", "New", "pair", 1.9),
        Example("6", "test", "new", "pair", None),
    ]
    report = write_dataset("sts", dataset(pairs), tmp_path)
    assert report == {
        "task": "sts",
        "rows": {"train": 3, "dev": 2, "test": 1},
        "rejected": {},
        "labels": {"train": {"0-1": 1, "4-5": 2}, "dev": {"1-2": 1, "2-3": 1}, "test": {"none": 1}},
        "mean_words": {"train": 6.33, "dev": 5.0, "test": 2.0},
        "duplicates": {"train": 1, "dev": 0, "test": 0},
        "overlaps": {"dev in train": 1, "test in train": 0, "test in dev": 1},
        "warnings": ["1 texts occur with more than one label"],
    }
    assert read_json(tmp_path / "report.json") == report
    assert read_examples(tmp_path / "examples.parquet").num_rows == 6


def test_rejected_rows_stand_beside_the_table(tmp_path: Path) -> None:
    report = write_dataset("sst", dataset([*many(198), *many(9, "dev")], 2), tmp_path)
    assert report["rejected"] == {"train": 2}
    with (tmp_path / "rejected.csv").open(newline="") as handle:
        assert list(csv.reader(handle)) == [
            ["file", "line", "reason", "text"],
            ["train.csv", "2", 'a "reason"', "raw\ttext"],
            ["train.csv", "3", 'a "reason"', "raw\ttext"],
        ]


def test_more_than_one_percent_of_a_split_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(UserError) as caught:
        write_dataset("sst", dataset(many(1000), 6, "dev"), tmp_path / "out")
    message = str(caught.value)
    assert "6 of 6 dev rows are malformed, more than 1%" in message
    assert 'dev.csv, line 6: a "reason"' in message and "line 7" not in message
    with pytest.raises(UserError, match="2 of 199 train rows"):
        write_dataset("sst", dataset(many(197), 2), tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_damaged_report_names_the_folders_of_its_own_store(tmp_path: Path) -> None:
    """Though another folder above it is called `store`: the message says what to delete."""
    store = tmp_path / "store" / "results" / "store"
    write_text(store / "data" / "0" / "report.json", "{}")
    told = re.escape(f"delete {store / 'data' / '0'} and {store / 'report'}, and")
    with pytest.raises(UserError, match=told):
        read_record(store / "data" / "0" / "report.json")
