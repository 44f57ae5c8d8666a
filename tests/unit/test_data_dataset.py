"""A data set: splits that are made, its report, its key, and the five real ones."""

from __future__ import annotations

import json
import re
from collections import Counter
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from own_files import (
    BOTH,
    COURSE,
    DEV,
    GOOD,
    NEWS,
    PAIR,
    built,
    course,
    examples,
    job,
    needs_course,
    node,
    rows,
    table,
)
from own_tasks import using

from minbert.base.errors import UserError
from minbert.base.files import read_json, write_text
from minbert.data.dataset import Dataset, make, with_made_splits, write_dataset
from minbert.data.examples import SCHEMA, Example, label_of
from minbert.data.identity import checksum, sha256
from minbert.data.parquet import read_file
from minbert.data.tables import BadRow
from minbert.spec.entry import TaskEntry
from minbert.spec.protocol import SPLITS
from minbert.spec.task import BUILT_IN, TASKS, Task, task_facts
from minbert.store.record import read_record

pytestmark = pytest.mark.usefixtures("own_folder")


@needs_course
@pytest.mark.parametrize(
    ("task", "rows", "overlaps"),
    [
        ("sst", (8544, 1101, 2210), (2, 2)),
        ("sts", (6040, 863, 1725), (16, 19)),
        ("cfimdb", (1707, 245, 488), None),
        ("para", (14172, 2053, 3987), None),
    ],
)
def test_the_courses_files(
    task: str, rows: tuple[int, ...], overlaps: tuple[int, int] | None, tmp_path: Path
) -> None:
    found = course(task)
    report = write_dataset(task, found, tmp_path, {})
    assert tuple(report["rows"].values()) == rows
    malformed = {"ad118c967d683c93883bf072d": 1775, "9054345d02cd6c5642a4904dc": 2755}
    expected = malformed if task == "para" else {}
    assert {r.text.split("\t")[1]: r.line for r in found.rejected} == expected
    if overlaps:
        told = report["overlaps"]
        assert (told["dev in train"], told["test in train"]) == overlaps
    for split in SPLITS if task != "para" else ():  # of which the folder has a part
        file = getattr(BUILT_IN[task].files, split)
        assert checksum(COURSE / file.path, "git:") == file.checksum


NAMES = ("world", "sports", "business")
NOT_NAMED = "label '{}' is not one of world, sports, business, or 0 to 2"


def task(classes: Any) -> Task:
    entry: dict[str, Any] = {"kind": "classification", "classes": classes}
    if classes is None:
        entry = {"kind": "regression", "range": [0, 5]}
    return Task.of("t", TaskEntry(sentence1="a", label="b", files="x", dev=0.1, **entry))


@pytest.mark.parametrize(
    ("classes", "value", "label"),
    [
        *((NAMES, value, 1.0) for value in ("sports", "1", 1, 1.0, "1.0")),
        *((NAMES, value, None) for value in (None, "")),
        *((NAMES, value, NOT_NAMED.format(value)) for value in ("9", "-1", "sport", "nan")),
        (NAMES, 1.5, NOT_NAMED.format(1.5)),
        *((3, value, 1.0) for value in (True, "True")),
        *(
            (3, value, f"label '{value}' is not a whole number from 0 to 2")
            for value in ("3", "1.5")
        ),
        (("true", "false"), True, 0.0),
        (("True", "False"), "FALSE", 1.0),
        *((("1", "2", "3"), value, 1.0) for value in ("2", 2, 2.0)),  # names, not places
        (("1", "2", "3"), "0", "label '0' is not one of 1, 2, 3"),
        (None, "+4.5e0", 4.5),
        *(
            (None, value, f"label '{value[:80]}' is not a number from 0 to 5")
            for value in ("nan", "-inf", "0_1", "\u0663", "x" * 5000, "5.0000001", "1e999")
        ),
    ],
)
def test_labels_are_names_or_numbers(classes: Any, value: object, label: object) -> None:
    if not isinstance(label, str):
        assert label_of(value, task(classes)) == label
        return
    with pytest.raises(BadRow, match=f"^{re.escape(label)}$"):
        label_of(value, task(classes))


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


def test_a_report_and_a_table_of_all_examples(tmp_path: Path) -> None:
    pairs = [
        Example("1", "train", "A dog runs .", "A cat sits .", 5.0),
        Example("2", "train", "a cat  sits .", "a DOG runs .", 4.2),
        Example("3", "train", "Only here", "now", -0.5),
        Example("4", "dev", "A dog runs .", "a cat sits .", 2.0),
        Example("5", "dev", "New", "pair", 1.9),
        Example("6", "test", "new", "pair", None),
    ]
    report = write_dataset("sts", Dataset(pairs, [], Counter(test=7)), tmp_path, {})
    assert report == {
        "task": "sts",
        "rows": {"train": 3, "dev": 2, "test": 1},
        "rejected": {},
        "labels": {
            "train": {"5": 1, "4": 1, "-1": 1},
            "dev": {"2": 1, "1": 1},
            "test": {"none": 1},
        },
        "mean_words": {"train": 6.33, "dev": 5.0, "test": 2.0},
        "overlaps": {"dev in train": 1, "test in train": 0, "test in dev": 1},
        "warnings": [
            "1 texts occur with more than one label",
            "7 test rows have an ignored label",
        ],
    }
    assert read_json(tmp_path / "report.json") == report
    written = read_file(tmp_path / "examples.parquet")
    assert written.schema.equals(SCHEMA) and [Example(**r) for r in written.to_pylist()] == pairs


def test_a_limit_takes_rows_at_even_distances(tmp_path: Path) -> None:
    given = [Example(f"{s}{n}", s, f"{s} {n}", None, n % 5) for s in SPLITS[:2] for n in range(10)]
    write_dataset("sst", Dataset(given, [], Counter()), tmp_path, {}, limit=4)
    found = [e.id for e in examples(tmp_path)]
    assert found == [f"{split}{n}" for split in SPLITS[:2] for n in (0, 2, 5, 7)]


def test_what_is_found_in_the_data_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Absent classes, texts with several labels, and texts that two splits have."""
    files = {"t.tsv": table([row for row in rows(60) if row[1] != "sports"]), "d.tsv": DEV}
    files["d.tsv"] += "TEXT  number 2000\tworld\ntext number 0\tbusiness\n"
    out = built(tmp_path, files, BOTH)
    warnings = [
        "train has no row of 1 of its classes: sports",
        "2 texts occur with more than one label",
    ]
    report = read_json(out / "report.json")
    assert report["warnings"] == warnings and report["overlaps"] == {"dev in train": 1}
    printed = capsys.readouterr().err
    told = [
        "train 40, dev 14 rows, 0 set aside",
        "1 rows of dev in train, by their text",
        *warnings,
    ]
    assert printed.splitlines() == [f"news: {each}" for each in told]


def test_the_order_of_a_pair_may_decide_its_label(tmp_path: Path) -> None:
    body = "a\tb\tsame\n" + "".join(f"x {n}\ty {n}\t1\ny {n}\tx {n}\t0\n" for n in range(30))
    out = built(tmp_path, {"t.tsv": body}, PAIR | {"files": "t.tsv", "dev": 0.3})
    assert read_json(out / "report.json")["warnings"] == []


@pytest.mark.parametrize(
    ("label", "ignore", "classes"),
    [("-", ["-"], [*NAMES]), (-1, [-1], [*NAMES]), ("-1", ["-1"], 3), ("-1.0", [-1], 3)],
)
def test_rows_with_ignored_labels_are_left_out_and_counted(
    label: object, ignore: list[object], classes: Any, tmp_path: Path
) -> None:
    files = {
        "t.tsv": table([*rows(60, 0, (0, 1, 2)), *rows(9, 900, (label,))]),
        "d.tsv": table([*rows(12, 1000, (0, 1, 2)), *rows(5, 400, (label,))]),
    }
    out = built(tmp_path, files, BOTH | {"classes": classes, "ignore": ignore})
    assert [e.split for e in examples(out)] == ["train"] * 60 + ["dev"] * 12
    told = ["9 train rows have an ignored label", "5 dev rows have an ignored label"]
    report = read_json(out / "report.json")
    assert report["warnings"] == told and report["rejected"] == {}


def test_a_folder_is_files_by_their_splits(tmp_path: Path) -> None:
    files = {"d/train.tsv": table(rows(30)), "d/dev.csv": table(rows(9, 50), ",")}
    files["d/test.jsonl"] = "\n".join(json.dumps({"text": f"new {n}"}) for n in range(4))
    found = examples(built(tmp_path, files, NEWS | {"files": "d"}))
    assert [e.split for e in found].count("test") == 4
    assert {e.label for e in found if e.split == "test"} == {None}, "the label column is missing"


def test_a_link_that_leads_nowhere_is_called_that(tmp_path: Path) -> None:
    (tmp_path / "t.tsv").symlink_to("gone.tsv")
    with pytest.raises(
        UserError, match=r"train: t\.tsv: is a link to gone\.tsv, which is not there$"
    ):
        node(tmp_path, {"d.tsv": DEV}, BOTH)


def test_a_file_that_changed_since_the_plan_is_refused(tmp_path: Path) -> None:
    planned = node(tmp_path, {"t.tsv": GOOD, "d.tsv": DEV}, BOTH)
    (tmp_path / "t.tsv").write_text(DEV)
    with pytest.raises(UserError, match=r"t\.tsv changed since the plan"):
        make(job(tmp_path, planned))


@pytest.mark.parametrize(
    ("url", "name"),
    [
        ("https://example.org/data/news.tsv", "news.tsv"),
        ("https://zenodo.org/r/1/train.tsv?download=1", "train.tsv"),
        (f"https://s3.example.org/a/b.jsonl?Signature={'x' * 400}&Path=/c.d", "b.jsonl"),
        ("https://example.org/get?file=train.tsv", "get?file=train.tsv"),
    ],
)
def test_a_download_is_known_by_its_checksum(tmp_path: Path, url: str, name: str) -> None:
    planned = node(tmp_path, {}, NEWS | {"files": {"url": url, "sha256": "0" * 64}, "dev": 0.1})
    need = planned.needs["train"]
    assert need.node.spec == {"name": name, "checksum": f"sha256:{'0' * 64}"}
    assert need.file == name and need.node.extra == {"url": url}
    assert planned.spec["forms"] == {"train": name.rpartition(".")[2]}


def test_a_download_is_read_like_a_file(tmp_path: Path) -> None:
    (tmp_path / "served.tsv").write_text(GOOD, encoding="utf-8")
    file = {"url": (tmp_path / "served.tsv").as_uri(), "sha256": sha256(tmp_path / "served.tsv")}
    planned = node(tmp_path, {"d.tsv": DEV}, NEWS | {"files": {"train": file, "dev": "d.tsv"}})
    for each in (planned.needs["train"].node, planned):
        import_module(each.maker).make(made := job(tmp_path, each))
    assert {e.split for e in examples(made.out)} == {"train", "dev"}


@pytest.mark.parametrize(
    ("change", "same"),
    [
        ({"title": "Other"}, True),
        ({"metric": "macro_f1"}, True),
        ({"classes": ["a", "b", "c"]}, False),
        ({"dev": 0.2}, False),
        ({"label": "text", "sentence1": "topic"}, False),
    ],
)
def test_what_decides_a_data_set_is_in_its_key(
    change: dict[str, Any], same: bool, tmp_path: Path
) -> None:
    entry = NEWS | {"files": "t.tsv", "dev": 0.1}
    one = node(tmp_path, {"t.tsv": GOOD}, entry)
    other = node(tmp_path, {"t.tsv": GOOD}, entry | change)
    assert (one.key == other.key) is same
    moved = node(tmp_path, {"elsewhere/t.tsv": GOOD}, entry | {"files": "elsewhere/t.tsv"})
    assert moved.key == one.key, "where it lies is not"


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


def test_a_damaged_report_names_the_folders_of_its_own_store(tmp_path: Path) -> None:
    """Though another folder above it is called `store`: the message says what to delete."""
    store = tmp_path / "store" / "results" / "store"
    write_text(store / "data" / "0" / "report.json", "{}")
    told = re.escape(f"delete {store / 'data' / '0'} and {store / 'report'}, and")
    with pytest.raises(UserError, match=told):
        read_record(store / "data" / "0" / "report.json")
