"""Rows of files: what is read, what is set aside, what is refused, and in which words."""

from __future__ import annotations

import gzip
import json
import re
from io import BytesIO
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from own_files import (
    BOTH,
    DEV,
    GOOD,
    PAIR,
    SCORE,
    TOPICS,
    TWO,
    Files,
    Row,
    built,
    examples,
    read,
    rejects,
    rows,
    table,
)

from minbert.base.errors import UserError

pytestmark = pytest.mark.usefixtures("own_folder")


def as_json(given: list[Row], **more: object) -> str:
    return "".join(json.dumps({**more, "text": t, "topic": c}) + "\n" for t, c in given)


def parquet(texts: list[bytes], name: str = "text") -> bytes:
    """Return a file whose column of text, like one that nobody reads, holds any bytes."""
    buffers = pa.array(texts, pa.binary()).buffers()
    text = pa.StringArray.from_buffers(len(texts), buffers[1], buffers[2])
    made = BytesIO()
    topics = [TOPICS[n % 3] for n in range(len(texts))]
    other = pa.StringArray.from_buffers(1, *pa.array([b"\xff"], pa.binary()).buffers()[1:])
    columns = [pa.concat_arrays([other] * len(texts)), text, topics]
    pq.write_table(pa.table(columns, ["other", name, "topic"]), made)
    return made.getvalue()


def named(name: str, **more: object) -> dict[str, Any]:
    """Return an entry whose train file has this name."""
    return {"files": {"train": name, "dev": "d.tsv"}} | more


TRAIN = table(rows(300))
CSV, JSON = table(rows(300), ","), as_json(rows(300))
FLIPPED = "topic\ttext\n" + "".join(f"{label}\t{text}\n" for text, label in rows(300))
LONG = "x" * 1_000_001
FORMS: Files = {
    "t.tsv": TRAIN,
    "t.csv": CSV,
    "t.jsonl": JSON,
    "t.parquet": parquet([text.encode() for text, _ in rows(300)]),
}

READ: dict[str, tuple[Files, dict[str, Any], dict[str, float], dict[int, str]]] = {
    **{name: ({name: content}, named(name), {}, {}) for name, content in FORMS.items()},
    "tsv: a line break in the last field": (
        {"t.tsv": FLIPPED + 'sports\t"one\r\ntwo"\r\n'},
        {},
        {"one\ntwo": 1},
        {},
    ),
    "tsv: a blank line, quotes and a tab in a field of three lines": (
        {"t.tsv": TRAIN + '"one ""1""\n\n\ttwo"\tsports\nafter\tworld\n'},
        {},
        {'one "1"\n\n\ttwo': 1, "after": 0},
        {},
    ),
    "tsv: a quoted field with what could be a row is rejected whole": (
        {"t.tsv": TRAIN + '"one\nlike a row\tworld\ntwo"\tsports\n'},
        {},
        {},
        {302: "lines 302 to 304 can", 303: "lines 302 to 304", 304: "several rows"},
    ),
    "tsv: quotes that make no fields are text": (
        {"t.tsv": TRAIN + '"never closed\tworld\nends in a quote"\tsports\n"A" b\tworld\n'},
        {},
        {'"never closed': 0, 'ends in a quote"': 1, '"A" b': 0},
        {},
    ),
    "tsv: a quote that is never closed takes no other row with it": (
        {"t.tsv": TRAIN + '"opened, one column\n' + table(rows(9, 900))[11:]},
        {},
        {},
        {302: "1 columns, but the header has 2"},
    ),
    "csv: line breaks, quotes and commas in a field": (
        {"t.csv": CSV + '"one,\n\n""two""",sports\n'},
        named("t.csv"),
        {'one,\n\n"two"': 1},
        {},
    ),
    "jsonl: half of a surrogate pair in an id": (
        {
            "t.jsonl": as_json(rows(300), i=None) + '{"i": "a\\ud83d", "text": "x", "topic": 0}\n',
            "d.jsonl": as_json(rows(12, 2000), i=None),
        },
        {"id": "i", "files": {"train": "t.jsonl", "dev": "d.jsonl"}},
        {},
        {301: r"id contains U\+D83D"},
    ),
    "text that Windows wrote and that was converted as Latin-1": (
        {"t.tsv": TRAIN + "it\x92s\tworld\nit\u2019s\tworld\n"},
        {},
        {"it\u2019s": 0},
        {302: r"text contains U\+0092, .* windows-1252"},
    ),
    **{
        f"{name}: {end!r} ends a line, and blank lines are no rows": (
            {name: f"\n{content}\n  \n".replace("\n", end)},
            named(name),
            {},
            {},
        )
        for name, content in FORMS.items()
        if isinstance(content, str)
        for end in ("\n", "\r\n", "\r\r\n", "\r")
    },
    "a byte order mark, a quoted header, white space, U+2028, HTML and CR LF": (
        {"t.tsv": '\ufeff"text"\t topic\r\n' + " a\u2028<b> &amp; \tworld\r\n" + TRAIN[11:]},
        {},
        {"a\u2028<b> &amp;": 0},
        {},
    ),
    "rows that are no examples": (
        {
            "t.tsv": table([*rows(700), (LONG, "world"), ("x", "wrold"), (" ", "world")])
            + "x\t\none column\nno\0text\tworld\n"
        },
        {},
        {},
        {
            702: "^text has 1,000,001 characters, more than 1,000,000$",
            703: "label 'wrold' is not one of world, sports, business, or 0 to 2$",
            704: "text is empty",
            705: "a train row without a label",
            706: "1 columns, but the header has 2",
            707: r"text contains U\+0000",
        },
    ),
    "ids that are none": (
        {
            "t.tsv": "id\ttext\ttopic\n"
            + "".join(f"{n}\t{text}\t{label}\n" for n, (text, label) in enumerate(rows(300)))
            + "\tx\t0\na b\tx\t0\n7\tx\t0\n",
            "d.tsv": "id\ttext\ttopic\nd\tx\t0\ne\ty\t1\n",
        },
        {"id": "id"},
        {"x": 0, "y": 1},
        {
            302: "id is empty",
            303: "id 'a b' contains white",
            304: r"'7' is already in t\.tsv, line 9",
        },
    ),
}


@pytest.mark.parametrize("kind", READ)
def test_rows_are_examples_or_set_aside_with_the_reason(kind: str, tmp_path: Path) -> None:
    files, entry, more, reasons = READ[kind]
    out = built(tmp_path, {"t.tsv": TRAIN, "d.tsv": DEV, **files}, BOTH | entry)
    found = examples(out)
    usual = [e for e in found if e.sentence1.startswith("text number")]
    assert {e.sentence1: e.label for e in found if e not in usual} == more
    assert {e.label for e in usual if e.split == "train"} >= {0, 1}
    given = files.get((BOTH | entry)["files"]["train"], TRAIN)
    wanted = given.count("text number") if isinstance(given, str) else 300
    assert [e.split for e in usual].count("train") == wanted
    assert list(rejects(out)) == list(reasons)
    for line, reason in reasons.items():
        assert re.search(reason, rejects(out)[line]), rejects(out)[line]


HIDDEN = {"files": {**TWO, "test": "x.tsv"}}
HINT = "; leave the column out if test labels are not public"
X = {"x.tsv": table(rows(9, 900, (-1,)))}
WITH_ID = "id\ttext\ttopic\n" + "".join(f"{n}\ttext {n}\t{TOPICS[n % 3]}\n" for n in range(60))
OTHER_ID = WITH_ID.replace("text ", "other ").replace("other\t", "text\t")
IN_JSON = named("t.jsonl")

REFUSED: dict[str, tuple[Files, dict[str, Any], str]] = {
    "missing column": (
        {},
        {"label": "topics"},
        r"t\.tsv: no column 'topics'; found text, topic\. Did you mean 'topic'\? Name the file's",
    ),
    "label outside the classes": (
        {"t.tsv": table([*rows(60), ("x", "weather"), ("y", "weather")])},
        {},
        r"2 of 62 train rows are malformed, more than 1%.*line 62: label 'weather' is not one of "
        r"world, sports, business, or 0 to 2",
    ),
    "empty file": ({"t.tsv": ""}, {}, r"t\.tsv: has no rows; expected examples below the names"),
    "one class alone": (
        {"t.tsv": table(rows(40, 0, ("sports",)))},
        {},
        r"task 'news': all 40 train rows have the label 1 \(sports\), expected two labels or more",
    ),
    "dev equal to train": (
        {"d.tsv": GOOD},
        {},
        r"the text of each of its 60 dev rows is in train too.*make the split: 'dev: 0\.1'",
    ),
    "a folder for a file": (
        {"t.parquet/part-0.parquet": b""},
        named("t.parquet"),
        r"task 'news', train: t\.parquet: is a folder, expected one file; name the file in it, or "
        "join its parts first",
    ),
    "Latin-1": (
        {"t.tsv": GOOD.replace("text number 7", "caf\xe9").encode("latin-1")},
        {},
        r"t\.tsv, line 9: byte 0xe9 at offset \d+ is not UTF-8; is the file Windows-1252, or "
        "Latin-1.*iconv -f windows-1252",
    ),
    **{
        f"{kind} in place of text: {content[:4]!r}": (
            {"t.tsv": content},
            {},
            rf"t\.tsv: is {kind}, expected .*; {way}",
        )
        for kind, content, way in (
            ("UTF-16", GOOD.encode("utf-16"), "convert it: iconv"),
            ("UTF-16", b"\xfe\xff\0t", "convert it: iconv"),
            ("a gzip file", gzip.compress(b"x", mtime=0), "unpack it: gunzip"),
            ("a zip archive", b"PK\x03\x04", "unpack it: unzip"),
            ("a parquet file", parquet([b"a"]), r"call it \.parquet"),
            ("a Git LFS pointer", b"version https://git-lfs.github.com/spec/v1", ".*git lfs pull"),
            ("an HTML page", b"<!DOCTYPE html>\n<html>", "download the file itself"),
        )
    },
    "duplicate ids": (
        {"t.tsv": WITH_ID, "d.tsv": OTHER_ID},
        {"id": "id"},
        r"60 of 60 dev rows.*id '0' is already in t\.tsv, line 2; are ids unique\? Without 'id' in "
        "the task, rows are known by their split and line",
    ),
    "NaN in JSON": (
        {"t.jsonl": "".join(f'{{"text": "t {n}", "topic": NaN}}\n' for n in range(9))},
        SCORE | IN_JSON | {"classes": None},
        r"9 of 9 train rows are malformed.*label 'nan' is not a number from 0 to 10",
    ),
    "commas in a tsv": (
        {"t.tsv": table(rows(9), ",")},
        {},
        r"no column 'text'; found text,topic\. Are its columns separated by.*Give its 'format'",
    ),
    "unclosed quote in a csv": (
        {"t.csv": 'text,topic\na,world\n"b,sports\nc,world\n'},
        named("t.csv"),
        r"t\.csv, line 3: found malformed quotes \(unexpected end of data\); a field that begins",
    ),
    "lines that are no JSON": (
        {"t.jsonl": as_json(rows(60)) + "{'text': 'x'}\n[1]\n"},
        IN_JSON,
        r"2 of 62 train rows are malformed.*line 61: is not JSON .*line 62: is no JSON object",
    ),
    **{
        f"one JSON array, {how}": (
            {"t.jsonl": json.dumps([{"text": t, "topic": c} for t, c in rows(60)], indent=indent)},
            IN_JSON,
            r"line 1: is no.* JSON .*expected one in each line.*An array is converted by jq -c",
        )
        for how, indent in (("on one line", None), ("indented", 1))
    },
    "a key that some lines lack": (
        {"t.jsonl": as_json(rows(60)) + '{"text": "x"}\n' * 2},
        IN_JSON,
        r"2 of 62 train rows.*line 61: no key 'topic'",
    ),
    "a number for a sentence": (
        {"t.jsonl": as_json(rows(60)) + '{"text": 3, "topic": "world"}\n' * 2},
        IN_JSON,
        r"2 of 62 train rows.*line 61: text is 3, not text",
    ),
    "a key that two lines have twice": (
        {"t.jsonl": as_json(rows(60)) + '{"text": "x", "topic": 0, "text": "y"}\n' * 2},
        IN_JSON,
        r"2 of 62 train rows.*line 61: is not JSON \(it has the key 'text' twice\)",
    ),
    "damaged parquet": (
        {"t.parquet": b"PAR1 and then nothing"},
        named("t.parquet"),
        r"t\.parquet: is damaged or not a parquet file .*; write or download it again$",
    ),
    "parquet without the column": (
        {"t.parquet": parquet([b"a"], "body")},
        named("t.parquet"),
        r"t\.parquet: no column 'text'; found other, body, topic\. Name the file's own columns",
    ),
    "parquet with two columns of one name": (
        {"t.parquet": parquet([b"a"], "topic")},
        named("t.parquet") | {"sentence1": "other"},
        r"t\.parquet: 2 columns are called 'topic', expected one; rename or remove the others",
    ),
    "parquet with text that is not UTF-8": (
        {"t.parquet": parquet([b"caf\xe9", *(b"text %d" % n for n in range(60))])},
        named("t.parquet"),
        r"t\.parquet: has text that is not UTF-8",
    ),
    "two columns of one name": (
        {"t.tsv": "text\t text\ttopic\na\tb\tworld\n"},
        {},
        r"t\.tsv, line 1: 2 columns are called 'text', expected one",
    ),
    "unknown ending": (
        {"t.xlsx": b"PK\x03\x04"},
        {"files": "t.xlsx", "dev": 0.3},
        r"config: tasks\.news\.files: .*t\.xlsx: cannot tell its form from the ending '\.xlsx'; "
        r"expected one of \.tsv, \.csv",
    ),
    "URL without an ending": (
        {},
        {"files": {"url": "https://example.org/get/7", "sha256": "0" * 64}, "dev": 0.3},
        r"config: tasks\.news\.files: 7: cannot tell its .*'format'; download it yourself first",
    ),
    "missing file": (
        {},
        {"files": {"train": "t.tsv", "dev": "e.tsv"}},
        r"task 'news', dev: e\.tsv: there is no such file; check the path. Did you mean '.\.tsv'",
    ),
    "missing folder": (
        {},
        {"files": "nowhere/t.tsv", "dev": 0.1},
        r"task 'news', train: nowhere/t\.tsv: there is no folder 'nowhere'; check the path",
    ),
    "folder without train": (
        {"d/training.tsv": GOOD},
        {"files": "d"},
        r"d has no train file; it has training\.tsv\. Call the files train, dev and test",
    ),
    "folder without dev": (
        {"d/train.tsv": GOOD},
        {"files": "d"},
        r"d has no dev file to choose the best epoch by; add one, or make the split: 'dev: 0\.1'",
    ),
    "folder with two files of a split": (
        {"d/train.tsv": GOOD, "d/train.csv": GOOD},
        {"files": "d", "dev": 0.1},
        r"d has train\.tsv and train\.csv; keep one of them",
    ),
    "folder with the split that is made": (
        {"d/train.tsv": GOOD, "d/dev.tsv": DEV},
        {"files": "d", "dev": 0.1},
        r"tasks\.news\.files: d has a file for dev, which is also a share of train; keep one",
    ),
    "too few rows for a made split": (
        {"t.tsv": table(rows(3))},
        {"files": "t.tsv", "dev": 0.001},
        r"no dev rows are left; give more rows, or another share \(`dev` in the task\)",
    ),
    "hidden test labels, by name": (X, HIDDEN, "9 of 9 test.*'-1' is not one of world.*" + HINT),
    "-1 in train is no hidden label": (
        {"t.tsv": table([*rows(60), ("x", -1), ("y", -1)])},
        {},
        "label '-1' is not one of world, sports, business, or 0 to 2$",
    ),
    "pairs without their second sentence": (
        {"t.tsv": "a\tb\tsame\n" + "".join(f"x {n}\t\t{n % 2}\n" for n in range(9))},
        PAIR | {"files": "t.tsv", "dev": 0.3, "classes": None},
        r"9 of 9 train rows are malformed.*b is empty",
    ),
}
"""What is wrong with data: the files, the task, and what the message says."""


@pytest.mark.parametrize("kind", REFUSED)
def test_bad_data_is_explained(kind: str, tmp_path: Path) -> None:
    files, entry, message = REFUSED[kind]
    with pytest.raises(UserError) as error:
        built(tmp_path, {"t.tsv": GOOD, "d.tsv": DEV, **files}, BOTH | entry)
    said = str(error.value)
    assert re.search(message, said, re.DOTALL), said
    assert not list((tmp_path / "results").glob("store/data/*/*")), "nothing is left"


SST = "\tid\tsentence\tsentiment\n"


def test_the_courses_form_has_an_index_and_tests_without_labels(tmp_path: Path) -> None:
    (tmp_path / "train.csv").write_text(SST + "0\ta1\t A fine film . \t3\n")
    (tmp_path / "test.csv").write_text("0\t\tid\tsentence\n1\t0.0\tb1\t Dull .\n")
    found = read("sst", test=tmp_path / "test.csv", train=tmp_path / "train.csv")
    told = [(e.id, e.split, e.sentence1, e.label) for e in found.examples]
    assert told == [("a1", "train", "A fine film .", 3.0), ("b1", "test", "Dull .", None)]


def test_only_where_controls_are_allowed_is_a_wrong_decoding_text(tmp_path: Path) -> None:
    (tmp_path / "train.csv").write_text(SST + "0\ta\tcaf\x92\t1\n1\tb\tno\0\t1\n", "utf-8")
    found = read("cfimdb", train=tmp_path / "train.csv")
    assert [e.sentence1 for e in found.examples] == ["caf\x92"]
    assert [(r.file, r.line, r.split, r.text) for r in found.rejected] == [
        ("train.csv", 3, "train", "1\tb\tno\0\t1")
    ]
