"""What is wrong with a file or a task of one's own, and what the messages say."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from own_files import (
    BOTH,
    DEV,
    GOOD,
    NEWS,
    PAIR,
    SCORE,
    TOPICS,
    TWO,
    built,
    configured,
    rows,
    table,
)
from own_tasks import using

from minbert.base.errors import UserError


@pytest.fixture(autouse=True)
def _tasks(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    monkeypatch.chdir(tmp_path)
    with using():
        yield


WITH_ID = "id\ttext\ttopic\n" + "".join(f"{n}\ttext {n}\t{TOPICS[n % 3]}\n" for n in range(60))
LATIN = GOOD.replace("text number 7", "caf\xe9").encode("latin-1")
JSON = "".join(json.dumps({"text": t, "topic": c}) + "\n" for t, c in rows(60))

DATA: dict[str, tuple[dict[str, str | bytes], dict[str, Any], str]] = {
    "missing column": (
        {"t.tsv": GOOD, "d.tsv": DEV},
        BOTH | {"label": "topics"},
        r"t\.tsv, line 1: no column 'topics'; found text, topic\. Did you mean 'topic'\? Name the",
    ),
    "label outside the classes": (
        {"t.tsv": table([*rows(60), ("x", "weather"), ("y", "weather")]), "d.tsv": DEV},
        BOTH,
        r"2 of 62 train rows are malformed, more than 1%.*line 62: label 'weather' is not one of "
        r"world, sports, business, or 0 to 2",
    ),
    "classes that are counted from 1": (
        {"t.tsv": table([(f"t {n}", n % 3 + 1) for n in range(60)]), "d.tsv": DEV},
        BOTH | {"classes": 3},
        r"20 of 60 train rows are malformed.*label 3 is not between 0 and 2",
    ),
    "empty file": ({"t.tsv": "", "d.tsv": DEV}, BOTH, r"t\.tsv: the file is empty; expected rows"),
    "header alone": (
        {"t.tsv": "text\ttopic\n", "d.tsv": DEV},
        BOTH,
        r"t\.tsv: has no rows; expected examples below the names of the columns",
    ),
    "one class alone": (
        {"t.tsv": table([(f"t {n}", "sports") for n in range(40)]), "d.tsv": DEV},
        BOTH,
        r"task 'news': all 40 train rows have the label 1 \(sports\), expected two labels or more",
    ),
    "one class alone in dev": (
        {"t.tsv": GOOD, "d.tsv": table([(f"d {n}", 0) for n in range(9)])},
        BOTH,
        r"all 9 dev rows have the label 0 \(world\)",
    ),
    "dev equal to train": (
        {"t.tsv": GOOD, "d.tsv": GOOD},
        BOTH,
        r"the text of each of its 60 dev rows is in train too.*make the split: 'dev: 0\.1'",
    ),
    "test equal to train": (
        {"t.tsv": GOOD, "d.tsv": DEV, "e.tsv": GOOD},
        NEWS | {"files": {**TWO, "test": "e.tsv"}},
        r"the text of each of its 60 test rows is in train too.*make the split: 'test: 0\.1'",
    ),
    "one text alone": (
        {"t.tsv": table([("the same", n % 3) for n in range(60)])},
        NEWS | {"files": "t.tsv", "dev": 0.1},
        r"task 'news': all 60 rows have the same text, expected different ones; is 'sentence1' the",
    ),
    "a folder for a file": (
        {"t.parquet/part-0.parquet": b"", "d.tsv": DEV},
        NEWS | {"files": {"train": "t.parquet", "dev": "d.tsv"}},
        r"task 'news', train: t\.parquet is a folder, expected one file; name the file in it\. "
        "If the data set is in parts, as Spark writes it, join them first",
    ),
    "a folder for a file of a folder": (
        {"d/train.parquet/part-0.parquet": b""},
        NEWS | {"files": "d", "dev": 0.1},
        r"train: d/train\.parquet is a folder, expected one file",
    ),
    "Latin-1": (
        {"t.tsv": LATIN, "d.tsv": DEV},
        BOTH,
        r"t\.tsv, line 9: byte 0xe9 at offset \d+ is not UTF-8; is the file Latin-1\? Convert it: "
        "iconv",
    ),
    "duplicate ids": (
        {
            "t.tsv": WITH_ID,
            "d.tsv": WITH_ID.replace("text ", "other ").replace("other\t", "text\t"),
        },
        BOTH | {"id": "id"},
        r"60 of 60 dev rows.*id '0' is already in t\.tsv, line 2; are ids unique\? Without 'id' in "
        "the task, rows are known by their split and line",
    ),
    "NaN labels": (
        {"t.tsv": table([(f"t {n}", "nan" if n % 9 == 0 else n % 9) for n in range(60)])},
        SCORE | {"files": "t.tsv", "dev": 0.3},
        r"7 of 60 train rows are malformed.*label 'nan' is not a number",
    ),
    "NaN in JSON": (
        {"t.jsonl": "".join(f'{{"text": "t {n}", "topic": NaN}}\n' for n in range(9))},
        SCORE | {"files": "t.jsonl", "dev": 0.3},
        r"9 of 9 train rows are malformed.*label 'nan' is not a number",
    ),
    "label beyond the range": (
        {"t.tsv": table([(f"t {n}", n) for n in range(20)])},
        SCORE | {"files": "t.tsv", "dev": 0.3},
        r"9 of 20 train rows are malformed.*label 11 is not between 0 and 10",
    ),
    "commas in a tsv": (
        {"t.tsv": table(rows(9), ","), "d.tsv": DEV},
        BOTH,
        r"no tab in the header 'text,topic'; expected tabs.*Are they separated by commas\? Call it "
        r"\.csv",
    ),
    "tabs in a csv": (
        {"t.csv": GOOD},
        NEWS | {"files": "t.csv", "dev": 0.3},
        r"no comma in the header.*Are they separated by tabs\? Call it \.tsv",
    ),
    "unclosed quote in a csv": (
        {"t.csv": 'text,topic\na,world\n"b,sports\nc,world\n'},
        NEWS | {"files": "t.csv", "dev": 0.3},
        r"t\.csv, line 3: found malformed quotes \(unexpected end of data\); a field that begins",
    ),
    "lines that are no JSON": (
        {"t.jsonl": JSON + "{'text': 'x'}\n[1]\n"},
        NEWS | {"files": "t.jsonl", "dev": 0.3},
        r"2 of 62 train rows are malformed.*line 61: is not JSON .*line 62: is no JSON object",
    ),
    "a key that some lines lack": (
        {"t.jsonl": JSON + '{"text": "x"}\n' * 2},
        NEWS | {"files": "t.jsonl", "dev": 0.3},
        r"2 of 62 train rows.*line 61: no key 'topic'",
    ),
    "a number for a sentence": (
        {"t.jsonl": JSON + '{"text": 3, "topic": "world"}\n' * 2},
        NEWS | {"files": "t.jsonl", "dev": 0.3},
        r"2 of 62 train rows.*line 61: text is 3, expected text",
    ),
    "damaged parquet": (
        {"t.parquet": b"PAR1 and then nothing"},
        NEWS | {"files": "t.parquet", "dev": 0.3},
        r"t\.parquet: is damaged or not a parquet file",
    ),
    "parquet without the column": (
        {"t.parquet": b"", "t.tsv": GOOD},
        NEWS | {"files": "p.parquet", "dev": 0.3},
        r"p\.parquet: no column 'text'; found body, topic\.",
    ),
    "two columns of one name": (
        {"t.tsv": "text\ttext\ttopic\na\tb\tworld\n", "d.tsv": DEV},
        BOTH,
        r"2 columns are called 'text', expected one",
    ),
    "unknown ending": (
        {"t.xlsx": b"PK\x03\x04"},
        NEWS | {"files": "t.xlsx", "dev": 0.3},
        r"config: tasks\.news\.files: .*t\.xlsx: cannot tell its form from the ending '\.xlsx'; "
        r"expected one of \.tsv, \.csv",
    ),
    "URL without an ending": (
        {},
        NEWS | {"files": {"url": "https://example.org/get/7", "sha256": "0" * 64}, "dev": 0.3},
        r"config: tasks\.news\.files: 7: cannot tell its .*'format'; download it yourself first",
    ),
    "missing file": (
        {"t.tsv": GOOD},
        BOTH,
        r"task 'news', dev: d\.tsv: there is no such file; check the path. Did you mean 't\.tsv'\?",
    ),
    "missing folder": (
        {},
        NEWS | {"files": "nowhere"},
        r"task 'news', train: nowhere: there is no such file; check the path",
    ),
    "folder without train": (
        {"d/training.tsv": GOOD},
        NEWS | {"files": "d"},
        r"d has no train file; it has training\.tsv\. Call the files train, dev and test",
    ),
    "folder without dev": (
        {"d/train.tsv": GOOD},
        NEWS | {"files": "d"},
        r"d has no dev file to choose the best epoch by; add one, or make the split: 'dev: 0\.1'",
    ),
    "folder with two files of a split": (
        {"d/train.tsv": GOOD, "d/train.csv": GOOD},
        NEWS | {"files": "d"},
        r"d has train\.tsv and train\.csv; keep one of them",
    ),
    "folder with the split that is made": (
        {"d/train.tsv": GOOD, "d/dev.tsv": DEV},
        NEWS | {"files": "d", "dev": 0.1},
        r"tasks\.news\.dev: d has a file for dev; leave out the share, or the file",
    ),
    "too few rows for a made split": (
        {"t.tsv": table(rows(3))},
        NEWS | {"files": "t.tsv", "dev": 0.001},
        r"no dev rows are left; give more rows, or another share \(`dev` in the task\)",
    ),
    "hidden test labels": (
        {"t.tsv": GOOD, "d.tsv": DEV, "e.tsv": table([(f"e {n}", -1) for n in range(9)])},
        NEWS | {"files": {**TWO, "test": "e.tsv"}},
        r"9 of 9 test rows.*label '-1' is not one of.*leave the column out if test labels are not",
    ),
    "pairs without their second sentence": (
        {"t.tsv": "a\tb\tsame\n" + "".join(f"x {n}\t\t{n % 2}\n" for n in range(9))},
        PAIR | {"files": "t.tsv", "dev": 0.3},
        r"9 of 9 train rows are malformed.*sentence2 is empty",
    ),
}
"""What is wrong with data: the files, the task, and what the message says."""


@pytest.mark.parametrize("kind", DATA)
def test_bad_data_is_explained(kind: str, tmp_path: Path) -> None:
    files, entry, message = DATA[kind]
    pq.write_table(pa.table({"body": ["a"], "topic": ["world"]}), tmp_path / "p.parquet")
    with pytest.raises(UserError) as error:
        built(tmp_path, files, entry)
    said = str(error.value)
    assert re.search(message, said, re.DOTALL), said
    assert not list((tmp_path / "results").glob("store/data/*/*")), "nothing is left"


TASK = BOTH
ENTRIES: dict[str, tuple[str, dict[str, Any], str]] = {
    "no classes": (
        "t",
        TASK | {"classes": None},
        r"'tasks\.t': kind classification needs 'classes'",
    ),
    "one class": ("t", TASK | {"classes": ["a"]}, r"2 to 1000; found \('a',\)"),
    "a class twice": ("t", TASK | {"classes": ["a", "b", "a"]}, r"'a' is there twice"),
    "three of two classes": (
        "t",
        TASK | {"kind": "binary"},
        r"kind binary has two 'classes', the names of 0 and 1; found",
    ),
    "no range": ("t", SCORE | {"range": None, "files": TWO}, r"'range', the lowest and highest"),
    "classes of a number": ("t", SCORE | {"classes": 3, "files": TWO}, r"it has no 'classes'"),
    "range upside down": ("t", SCORE | {"range": [5, 0], "files": TWO}, r"found \[5\.0, 0\.0\]"),
    "metric of another kind": (
        "t",
        TASK | {"metric": "pearson"},
        r"metric 'pearson' is not for kind classification, which has accuracy, macro_f1, matthews",
    ),
    "unknown metric": (
        "t",
        TASK | {"metric": "macro-f1"},
        r"'tasks\.t\.metric' is 'macro-f1'; expected .*'macro_f1'",
    ),
    "unknown key": (
        "t",
        TASK | {"labels": "x"},
        r"unknown key 'tasks\.t\.labels'\. Did you mean 'label'",
    ),
    "one column for two things": ("t", TASK | {"label": "text"}, r"column 'text' is named twice"),
    "no dev": ("t", NEWS | {"files": {"train": "t.tsv"}}, r"no dev examples to choose the best"),
    "file and share": ("t", TASK | {"dev": 0.1}, r"'dev' is both a file and a share of train"),
    "folder and file": (
        "t",
        NEWS | {"files": {"folder": "news", "test": "e.tsv"}},
        r"'tasks\.t\.files': has a 'folder', whose files are the splits, and 'test'; give the",
    ),
    "neither folder nor train": (
        "t",
        NEWS | {"files": {"test": "e.tsv"}},
        r"'tasks\.t\.files': needs 'train', a file",
    ),
    "a share above a half": (
        "t",
        NEWS | {"files": "t.tsv", "dev": 0.9},
        r"'tasks\.t\.dev' is 0\.9; .*0\.5",
    ),
    "shares that leave nothing": (
        "t",
        NEWS | {"files": "t.tsv", "dev": 0.5, "test": 0.5},
        r"'tasks\.t': 'dev' and 'test' are shares of train whose sum is 1, expected less than 1",
    ),
    "another name of dev": (
        "t",
        NEWS | {"files": {"train": "t.tsv", "validation": "d.tsv"}},
        r"unknown key 'tasks\.t\.files\.validation': that split is called 'dev' here",
    ),
    "URL without a checksum": (
        "t",
        NEWS | {"files": "https://example.org/t.tsv", "dev": 0.1},
        r"is a URL: give its checksum too, as \{url: \.\.\., sha256: \.\.\.\}",
    ),
    "half a checksum": (
        "t",
        NEWS | {"files": {"url": "https://example.org/t.tsv", "sha256": "abc"}, "dev": 0.1},
        r"'tasks\.t\.files\.sha256' is 'abc'; expected text that matches",
    ),
    "name of a built-in task": ("sst", TASK, r"'sst' is a built-in task; give yours another name"),
    "name with a meaning": ("overall", TASK, r"a task cannot be called 'overall'"),
    "name that a model has": ("type", TASK, r"a task cannot be called 'type'"),
    "no name": ("My-Task", TASK, r"'My-Task' is no name of a task: small letters, digits"),
}


@pytest.mark.parametrize("kind", ENTRIES)
def test_a_wrong_task_is_refused_with_the_configuration(kind: str, tmp_path: Path) -> None:
    name, entry, message = ENTRIES[kind]
    with pytest.raises(UserError, match=message):
        configured(tmp_path, entry, name)


def test_no_head_can_be_called_what_torch_has() -> None:
    from torch import nn

    from minbert.spec.entry import NAME, RESERVED

    heads = nn.ModuleDict()
    taken = {name for name in dir(heads) if NAME.fullmatch(name) and name[0] != "_"}
    taken.add("smart_apply")  # which may not be there yet
    assert taken <= set(RESERVED), taken - set(RESERVED)
