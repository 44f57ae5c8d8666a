"""A task's files: which rows are examples, which are rejected, and the report."""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from importlib import import_module
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from own_files import DEV, GOOD, HEAD, NEWS, TOPICS, as_json, built, frame, job, node, rows

from minbert.base.files import read_json
from minbert.data.dataset import derived_split, read_dataset, write_dataset
from minbert.data.examples import SCHEMA, Example, label_of
from minbert.data.identity import checksum
from minbert.data.parquet import read_file
from minbert.data.tables import BadRow
from minbert.spec.protocol import SPLITS
from minbert.spec.task import BUILT_IN, Task, TaskEntry

pytestmark = pytest.mark.usefixtures("own_folder")

SHARED = Path(os.environ.get("MINBERT_SHARED", Path(__file__).parents[3] / "shared")) / "data"
COURSE = SHARED / "cs224n"
needs_course = pytest.mark.skipif(not COURSE.is_dir(), reason=f"no course files in {COURSE}")


def examples(out: Path) -> list[Example]:
    """Return the examples in the folder of a data set."""
    return [Example(**row) for row in read_file(out / "examples.parquet").to_pylist()]


def rejects(out: Path) -> dict[int, str]:
    """Return what is wrong with the rejected rows, by their lines."""
    return pd.read_csv(out / "rejected.csv", index_col="line")["reason"].to_dict()


def read(task: str, **paths: Path) -> Any:
    """Read the files of a built-in task by split."""
    forms = dict.fromkeys(paths, "tsv")
    return read_dataset({"task": task, "forms": forms, **BUILT_IN[task].reading}, paths)


COMMAS = (HEAD + rows(300)).replace("\t", ",")
READ: dict[str, tuple[str, str | bytes, dict[str, float], dict[int, str]]] = {
    "parquet": ("t.parquet", frame(300).assign(other=0).to_parquet(), {}, {}),
    "tsv: a mark, a quoted header, white space, U+2028, CR LF, a blank line": (
        "t.tsv",
        '\ufeff"text"\t topic\r\n  \r\n a\u2028<b> &amp; \tworld\r\n' + rows(300),
        {"a\u2028<b> &amp;": 0},
        {},
    ),
    "tsv: quotes are read if they make fields, and take no other row with them": (
        "t.tsv",
        HEAD
        + rows(300)
        + '"a ""1""\n\n\ttwo"\tsports\n"open\tworld\n"A" b\tworld\n"open\nx\tworld\n',
        {'a "1"\n\n\ttwo': 1, '"open': 0, '"A" b': 0, "x": 0},
        {307: "1 columns, but the header has 2"},
    ),
    "csv: line breaks, quotes and commas in a field": (
        "t.csv",
        COMMAS + '\n,\r\n"one,\n\n""two""",sports\n',
        {'one,\n\n"two"': 1},
        {},
    ),
    "jsonl: what is no object, lacks a key, or has half of a surrogate pair": (
        "t.jsonl",
        as_json(300) + '{"text": "a\\ud83d", "topic": 0}\n[1]\n{"text": "x"}\n',
        {},
        {301: r"text contains U\+D83D", 302: "is no JSON", 303: "no column 'topic'; found text"},
    ),
    "rows that are no examples, and a label that is ignored": (
        "t.tsv",
        HEAD
        + rows(800)
        + "x\twrold\n \tworld\nx\t\none column\nno\0text\tworld\nit\x92s\tworld\nx\t-1.0\n",
        {},
        {
            802: "label 'wrold' is not one of world, sports, business or a whole number from 0 to",
            803: "text is empty",
            804: "a train row without a label",
            805: "1 columns, but the header has 2",
            806: r"text contains U\+0000",
            807: r"text contains U\+0092, .* windows-1252",
        },
    ),
}


@pytest.mark.parametrize("kind", READ)
def test_rows_are_examples_or_set_aside_with_the_reason(kind: str, tmp_path: Path) -> None:
    name, content, more, reasons = READ[kind]
    entry = NEWS | {"files": {"train": name, "dev": "d.tsv"}, "ignore": [-1]}
    out = built(tmp_path, {name: content}, entry)
    found = [e for e in examples(out) if e.split == "train"]
    usual = [e for e in found if e.sentence1.startswith("text number")]
    assert {e.sentence1: e.label for e in found if e not in usual} == more
    assert len(usual) == (800 if 802 in reasons else 300)
    assert list(rejects(out)) == list(reasons)
    for line, reason in reasons.items():
        assert re.search(reason, rejects(out)[line]), rejects(out)[line]


@needs_course
@pytest.mark.parametrize(
    ("task", "sizes", "malformed"),
    [
        ("sst", (8544, 1101, 2210), []),
        ("sts", (6040, 863, 1725), []),
        ("cfimdb", (1707, 245, 488), []),
        ("para", (14172, 2053, 3987), [1775, 2755]),
    ],
)
def test_the_courses_files(
    task: str, sizes: tuple[int, ...], malformed: list[int], tmp_path: Path
) -> None:
    files = {split: BUILT_IN[task].files[split] for split in SPLITS}
    found = read(task, **{split: COURSE / file.path for split, file in files.items()})
    report = write_dataset({"task": task}, *found, tmp_path)
    assert tuple(report["rows"].values()) == sizes
    assert sorted(row.line for row in found[1]) == malformed


def test_the_courses_form_has_an_index_and_tests_without_labels(tmp_path: Path) -> None:
    """Only where controls are allowed, as in CFIMDB, is a wrong decoding text."""
    head = "\tid\tsentence\tsentiment\n"
    (tmp_path / "train.csv").write_text(head + "0\ta1\t caf\x92 . \t1\n1\tb\tno\0\t1\n", "utf-8")
    (tmp_path / "test.csv").write_text("0\t\tid\tsentence\n1\t0.0\tb1\t Dull .\n")
    found = read("cfimdb", test=tmp_path / "test.csv", train=tmp_path / "train.csv")
    told = [(e.id, e.split, e.sentence1, e.label) for e in found[0]]
    assert told == [("a1", "train", "caf\x92 .", 1.0), ("b1", "test", "Dull .", None)]
    assert [(r.split, r.line, r.text) for r in found[1]] == [("train", 3, "1\tb\tno\0\t1")]


NOT_NAMED = "label '{}' is not one of world, sports, business or a whole number from 0 to 2"


@pytest.mark.parametrize(
    ("classes", "value", "label"),
    [
        *((TOPICS, value, 1.0) for value in ("sports", 1, "1.0")),
        (TOPICS, "", None),
        *((TOPICS, value, NOT_NAMED.format(value)) for value in ("9", "sport", "nan", 1.5)),
        (3, True, 1.0),
        (("True", "False"), "FALSE", 1.0),
        (("1", "2", "3"), 2.0, 1.0),  # names, not places
        (("1", "2", "3"), "0", "label '0' is not one of 1, 2, 3"),
        (None, "+4.5e0", 4.5),
        *(
            (None, value, f"label '{value[:80]}' is not a number from 0 to 5")
            for value in ("0_1", "\u0663", "x" * 5000, "5.0000001")
        ),
    ],
)
def test_labels_are_names_or_numbers(classes: Any, value: object, label: object) -> None:
    entry: dict[str, Any] = {"kind": "classification", "classes": classes}
    if classes is None:
        entry = {"kind": "regression", "range": [0, 5]}
    task = Task.of("t", TaskEntry(sentence1="a", label="b", files="x", dev=0.1, **entry))
    if not isinstance(label, str):
        assert label_of(value, task) == label
        return
    with pytest.raises(BadRow, match=f"^{re.escape(label)}$"):
        label_of(value, task)


def test_derived_splits_are_shares_that_keep_twins_together(tmp_path: Path) -> None:
    shares = {"dev": 0.1, "test": 0.2}
    found = [derived_split((f"text {n}",), shares) for n in range(4000)]
    made = {split: found.count(split) / 4000 for split in shares}
    assert made == pytest.approx(shares, abs=0.03)
    twins = HEAD + rows(90) + rows(90).replace("text ", "TEXT  ")
    table = examples(built(tmp_path, {"t.tsv": twins}, NEWS | {"files": "t.tsv", **shares}))
    pairs = {(" ".join(e.sentence1.lower().split()), e.split) for e in table}
    assert len(table) == 180 and len(pairs) == 90


def test_a_report_and_a_table_of_all_examples(tmp_path: Path) -> None:
    pairs = [
        Example("1", "train", "A dog runs .", "A cat sits .", 5.0),
        Example("2", "train", "Only here", "now", -0.5),
        Example("3", "dev", "a cat  sits .", "a DOG runs .", 2.0),
        Example("4", "dev", "New", "pair", 1.9),
        Example("5", "test", "new", "pair", None),
    ]
    report = write_dataset({"task": "sts"}, pairs, [], tmp_path)
    assert report == {
        "task": "sts",
        "rows": {"train": 2, "dev": 2, "test": 1},
        "rejected": {},
        "labels": {"train": {"5": 1, "-1": 1}, "dev": {"2": 1, "1": 1}, "test": {"none": 1}},
        "mean_words": {"train": 5.5, "dev": 5.0, "test": 2.0},
        "overlaps": {"dev in train": 1, "test in train": 0, "test in dev": 1},
        "warnings": [],
    }
    assert read_json(tmp_path / "report.json") == report
    written = read_file(tmp_path / "examples.parquet")
    assert written.schema.equals(SCHEMA) and [Example(**r) for r in written.to_pylist()] == pairs


def test_a_limit_takes_rows_at_even_distances_and_absent_classes_are_told(tmp_path: Path) -> None:
    given = [Example(f"{s}{n}", s, f"{s} {n}", None, n % 4) for s in SPLITS[:2] for n in range(10)]
    for limit, kept in ((4, (0, 2, 5, 7)), (99, range(10))):
        report = write_dataset({"task": "sst", "limit": limit}, given, [], tmp_path)
        found = [e.id for e in examples(tmp_path)]
        assert found == [f"{split}{n}" for split in SPLITS[:2] for n in kept]
    assert report["warnings"] == ["train has no row of its class 'positive'"]


def test_a_folder_is_files_by_their_splits(tmp_path: Path) -> None:
    files = {"d/train.tsv": HEAD + rows(30), "d/dev.csv": "text,topic\nx,0\ny,1\n"}
    files["d/test.jsonl"] = "\n".join(json.dumps({"text": f"new {n}"}) for n in range(4))
    found = examples(built(tmp_path, files, NEWS | {"files": "d"}))
    assert Counter(e.split for e in found) == {"train": 30, "dev": 2, "test": 4}
    assert {e.label for e in found if e.split == "test"} == {None}, "the label column is missing"


def test_a_download_is_known_by_its_checksum_and_read_like_a_file(tmp_path: Path) -> None:
    (tmp_path / "served.tsv").write_text(GOOD)
    pin = checksum(tmp_path / "served.tsv", "sha256:")
    url = (tmp_path / "served.tsv").as_uri()
    file = {"url": url, "sha256": pin.removeprefix("sha256:")}
    planned = node(tmp_path, {"d.tsv": DEV}, NEWS | {"files": {"train": file, "dev": "d.tsv"}})
    need = planned.needs["train"].node
    assert (need.spec, need.extra) == ({"name": "served.tsv", "checksum": pin}, {"url": url})
    for each in (need, planned):
        import_module(each.maker).make(made := job(tmp_path, each))
    assert {e.split for e in examples(made.out)} == {"train", "dev"}


# Anything that can stand on one line, but for what is rejected; a lone surrogate is in no file.
line = st.text(
    st.characters(blacklist_categories=["Cs", "Cc"], whitelist_characters="\t"), max_size=40
)


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(given=st.lists(st.tuples(st.booleans(), line, st.integers(0, 4)), min_size=1, max_size=8))
def test_rows_come_back_as_they_were_written_and_a_bad_line_is_set_aside_alone(
    given: list[tuple[bool, str, int]], tmp_path: Path
) -> None:
    """A row is written as RFC 4180 does: in quotes, and quotes in it doubled."""
    lines = []
    for n, (good, text, label) in enumerate(given):
        quoted = f"a {text} b".replace('"', '""')
        lines.append(
            f'{n}\tid{n}\t"{quoted}"\t{label}' if good else f"bad{text}".replace("\t", " ")
        )
    path = tmp_path / "train.csv"
    path.write_bytes("\n".join(["\tid\tsentence\tsentiment", *lines]).encode())
    found, rejected = read("sst", train=path)
    assert [(e.id, e.sentence1, e.label) for e in found] == [
        (f"id{n}", f"a {text} b", label) for n, (good, text, label) in enumerate(given) if good
    ]
    bad = [n for n, (good, _, _) in enumerate(given) if not good]
    assert [(r.line, r.text) for r in rejected] == [(n + 2, lines[n]) for n in bad]
