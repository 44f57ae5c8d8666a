"""The course's files: quoting, row counts, rows set aside, and files that are not right."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from minbert.base.errors import UserError
from minbert.data.course import COURSE_FILES, course_files, in_folder, read_course
from minbert.data.examples import Example
from minbert.data.identity import checksum
from minbert.data.report import write_dataset

SHARED = Path(os.environ.get("MINBERT_SHARED", Path(__file__).parents[3] / "shared"))
COURSE = SHARED / "data" / "cs224n"
needs_course = pytest.mark.skipif(not COURSE.is_dir(), reason=f"no course files in {COURSE}")

HEADER = "\tid\tsentence\tsentiment\n"
PAIR_HEADER = "\tid\tsentence1\tsentence2\tsimilarity\n"


def file(tmp_path: Path, text: str | bytes, name: str = "train.csv") -> Path:
    path = tmp_path / name
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def test_single_sentences_and_the_test_files_extra_column(tmp_path: Path) -> None:
    train = file(tmp_path, HEADER + "0\ta1\t A fine film . \t3\n")
    test = file(tmp_path, "0\t\tid\tsentence\n1\t0.0\tb1\t Dull .\n", "test.csv")
    examples, rejected = read_course("sst", {"test": test, "train": train})
    assert examples == [
        Example("a1", "train", "A fine film .", None, 3.0),
        Example("b1", "test", "Dull .", None, None),
    ]
    assert rejected == []


def test_quoted_fields_are_unquoted_once_and_other_quotes_stay(tmp_path: Path) -> None:
    rows = (
        '1\ta\t"He said ""no""."\t5" nails , it \'s\t2.5\n'
        '2\tb\t"""What is """"it""""?"""\tWhat ?\t0.0\n'
    )
    examples, rejected = read_course("sts", {"train": file(tmp_path, PAIR_HEADER + rows)})
    assert [(e.sentence1, e.sentence2) for e in examples] == [
        ('He said "no".', "5\" nails , it 's"),
        ('"What is ""it""?"', "What ?"),
    ]
    assert rejected == []


def test_real_labels_are_not_truncated(tmp_path: Path) -> None:
    path = file(tmp_path, PAIR_HEADER + "1\ta\tx\ty\t4.75\n")
    assert read_course("sts", {"train": path})[0][0].label == 4.75


def test_malformed_rows_are_set_aside_and_take_no_neighbour_along(tmp_path: Path) -> None:
    rows = [
        "0\ta0\tGood\t3",
        '1\ta1\t"never closed\t3',
        "2\ta2\tGood\t3",
        "3\ta3\tGood",
        "4\ta4\tGood\tthree",
        "5\ta5\tGood\t7",
        "6\ta6\t \t3",
        "7\ta0\tAgain\t3",
        "8\ta8\tGood\t",
        "",
        "9\ta9\tLine\u2028separator\t3",
    ]
    path = file(tmp_path, HEADER + "\n".join(rows) + "\n")
    examples, rejected = read_course("sst", {"train": path})
    assert [e.id for e in examples] == ["a0", "a2", "a9"]
    assert [(r.file, r.line, r.split) for r in rejected] == [
        ("train.csv", line, "train") for line in (3, 5, 6, 7, 8, 9, 10, 11)
    ]
    assert rejected[0].text == rows[1]
    for found, reason in zip(
        rejected,
        [
            "malformed quotes",
            "3 columns, but the header has 4",
            "label 'three' is not a number",
            "label 7 is not between 0 and 4",
            "sentence is empty",
            "id 'a0' is already in train.csv, line 2",
            "a train row without a label",
            "0 columns",
        ],
        strict=True,
    ):
        assert reason in found.reason


def test_byte_order_mark_and_windows_line_ends_are_accepted(tmp_path: Path) -> None:
    text = ("\ufeffid\tsentence\tsentiment\na\tGood\t3\n").replace("\n", "\r\n")
    examples, rejected = read_course("sst", {"train": file(tmp_path, text)})
    assert examples == [Example("a", "train", "Good", None, 3.0)]
    assert rejected == []


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "train.csv: the file is empty"),
        (HEADER, "a header without rows"),
        (",id,sentence,sentiment\n0,a,Good,3\n", "no tab in the header ',id,sentence,sentiment'"),
        (
            "\tid\tsentences\tsentiment\n0\ta\tGood\t3\n",
            "no column 'sentence' for task 'sst' \\(train\\); found id, sentences, sentiment. "
            "Did you mean 'sentences'",
        ),
        ("\tid\tsentence\n0\ta\tGood\n", "no column 'sentiment'"),
        (
            HEADER.encode() + b"0\ta\tGood\t3\n1\tb\tCaf\xe9\t3\n",
            r"line 3: byte 0xe9 at offset 41 is not UTF-8; is the file Latin-1\?",
        ),
    ],
)
def test_wrong_files_are_explained(tmp_path: Path, content: str | bytes, message: str) -> None:
    with pytest.raises(UserError, match=message):
        read_course("sst", {"train": file(tmp_path, content)})


def test_missing_files_and_unknown_tasks(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"cannot read .*absent\.csv: No such file"):
        read_course("sst", {"train": tmp_path / "absent.csv"})
    with pytest.raises(UserError, match="the course has no files for task 'lmrd'"):
        course_files("lmrd")
    with pytest.raises(UserError, match="no such folder"):
        in_folder("sts", tmp_path / "absent")
    (tmp_path / "sts-train.csv").symlink_to("sts-train.csv")
    with pytest.raises(UserError, match=r"sts-train\.csv: is a link that leads nowhere; put"):
        in_folder("sts", tmp_path)
    (tmp_path / "sts-train.csv").unlink()
    os.mkfifo(tmp_path / "sts-train.csv")
    with pytest.raises(UserError, match=r"sts-train\.csv: is not a regular file; put the file"):
        in_folder("sts", tmp_path)
    (tmp_path / "sts-train.csv").unlink()
    file(tmp_path, "", "sts-trian.csv")
    with pytest.raises(UserError, match=r"has no sts-train\.csv.*Did you mean 'sts-trian\.csv'"):
        in_folder("sts", tmp_path)


@needs_course
def test_published_files_have_their_pins() -> None:
    for task in ("sst", "sts", "cfimdb"):
        for name, pin in COURSE_FILES[task].values():
            assert checksum(COURSE / name, pin) == pin


@needs_course
@pytest.mark.parametrize(
    ("task", "rows"),
    [
        ("sst", (8544, 1101, 2210)),
        ("sts", (6040, 863, 1725)),
        ("cfimdb", (1707, 245, 488)),
        ("para", (14172, 2053, 3987)),
    ],
)
def test_real_row_counts(task: str, rows: tuple[int, int, int], tmp_path: Path) -> None:
    examples, rejected = read_course(task, in_folder(task, COURSE))
    report = write_dataset(task, examples, rejected, tmp_path)
    assert tuple(report["rows"].values()) == rows
    malformed = {"ad118c967d683c93883bf072d": 1775, "9054345d02cd6c5642a4904dc": 2755}
    expected = malformed if task == "para" else {}
    assert {r.text.split("\t")[1]: r.line for r in rejected} == expected


@needs_course
def test_real_overlaps_between_splits(tmp_path: Path) -> None:
    sts = write_dataset("sts", *read_course("sts", in_folder("sts", COURSE)), tmp_path / "sts")
    assert sts["overlaps"]["dev in train"] == 16
    assert sts["overlaps"]["test in train"] == 19
    sst = write_dataset("sst", *read_course("sst", in_folder("sst", COURSE)), tmp_path / "sst")
    assert sst["overlaps"]["dev in train"] == 2
