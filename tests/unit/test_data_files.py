"""A task's files: which rows are examples, which are set aside, what is refused, and the report."""

from __future__ import annotations

import json
import re
from collections import Counter
from importlib import import_module
from io import BytesIO
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from own_files import (
    BOTH,
    COURSE,
    DEV,
    GOOD,
    NEWS,
    TWO,
    Files,
    Row,
    built,
    course,
    examples,
    job,
    needs_course,
    node,
    read,
    rejects,
    rows,
    table,
)
from own_tasks import using

from minbert.base.errors import UserError
from minbert.base.files import read_json
from minbert.data.dataset import Dataset, make, with_made_splits, write_dataset
from minbert.data.examples import SCHEMA, Example, label_of
from minbert.data.identity import checksum, sha256
from minbert.data.parquet import read_file
from minbert.data.tables import BadRow
from minbert.spec.entry import TaskEntry
from minbert.spec.protocol import SPLITS
from minbert.spec.task import BUILT_IN, TASKS, Task, task_facts

pytestmark = pytest.mark.usefixtures("own_folder")


def as_json(given: list[Row], **more: object) -> str:
    return "".join(json.dumps({**more, "text": t, "topic": c}) + "\n" for t, c in given)


def parquet(given: list[Row]) -> bytes:
    made, (texts, topics) = BytesIO(), zip(*given, strict=True)
    pq.write_table(pa.table({"other": range(len(given)), "text": texts, "topic": topics}), made)
    return made.getvalue()


def named(name: str) -> dict[str, Any]:
    """Return an entry whose train file has this name."""
    return {"files": {"train": name, "dev": "d.tsv"}}


TRAIN = table(rows(300))
CSV, JSON = table(rows(300), ","), as_json(rows(300))
LONG = "x" * 1_000_001
FORMS: Files = {"t.tsv": TRAIN, "t.csv": CSV, "t.jsonl": JSON, "t.parquet": parquet(rows(300))}

READ: dict[str, tuple[Files, dict[str, Any], dict[str, float], dict[int, str]]] = {
    **{name: ({name: content}, named(name), {}, {}) for name, content in FORMS.items()},
    "tsv: a blank line, quotes and a tab in a field of three lines": (
        {"t.tsv": TRAIN + '"one ""1""\n\n\ttwo"\tsports\nafter\tworld\n'},
        {},
        {'one "1"\n\n\ttwo': 1, "after": 0},
        {},
    ),
    "tsv: quotes that make no fields are text, and take no other row with them": (
        {
            "t.tsv": TRAIN
            + '"open\tworld\nends in a quote"\tsports\n"A" b\tworld\n"open\nx\tworld\n'
        },
        {},
        {'"open': 0, 'ends in a quote"': 1, '"A" b': 0, "x": 0},
        {305: "1 columns, but the header has 2"},
    ),
    "csv: line breaks, quotes and commas in a field": (
        {"t.csv": CSV + '"one,\n\n""two""",sports\n'},
        named("t.csv"),
        {'one,\n\n"two"': 1},
        {},
    ),
    "jsonl: what is no object, lacks a key, or has half of a surrogate pair": (
        {"t.jsonl": JSON + '{"text": "a\\ud83d", "topic": 0}\n[1]\n{"text": "x"}\n'},
        named("t.jsonl"),
        {},
        {301: r"text contains U\+D83D", 302: "is no JSON object", 303: "no key 'topic'"},
    ),
    **{
        f"{name}: CR LF ends a line, and blank lines are no rows": (
            {name: f"\n{content}\n  \n".replace("\n", "\r\n")},
            named(name),
            {},
            {},
        )
        for name, content in FORMS.items()
        if isinstance(content, str)
    },
    "a byte order mark, a quoted header, white space, U+2028, HTML and CR LF": (
        {"t.tsv": '\ufeff"text"\t topic\r\n' + " a\u2028<b> &amp; \tworld\r\n" + TRAIN[11:]},
        {},
        {"a\u2028<b> &amp;": 0},
        {},
    ),
    "rows that are no examples": (
        {
            "t.tsv": table([*rows(800), (LONG, "world"), ("x", "wrold"), (" ", "world")])
            + "x\t\none column\nno\0text\tworld\nit\x92s\tworld\n"
        },
        {},
        {},
        {
            802: "^text has 1,000,001 characters, more than 1,000,000$",
            803: "label 'wrold' is not one of world, sports, business or a whole number from 0 to",
            804: "text is empty",
            805: "a train row without a label",
            806: "1 columns, but the header has 2",
            807: r"text contains U\+0000",
            808: r"text contains U\+0092, .* windows-1252",
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
        {302: "id is empty", 303: "id 'a b' contains white", 304: "above has the id '7'"},
    ),
}


@pytest.mark.parametrize("kind", READ)
def test_rows_are_examples_or_set_aside_with_the_reason(kind: str, tmp_path: Path) -> None:
    files, entry, more, reasons = READ[kind]
    out = built(tmp_path, {"t.tsv": TRAIN, "d.tsv": DEV, **files}, BOTH | entry)
    found = examples(out)
    usual = [e for e in found if e.sentence1.startswith("text number")]
    assert {e.sentence1: e.label for e in found if e not in usual} == more
    given = files.get((BOTH | entry)["files"]["train"], TRAIN)
    wanted = given.count("text number") if isinstance(given, str) else 300
    assert [e.split for e in usual].count("train") == wanted
    assert list(rejects(out)) == list(reasons)
    for line, reason in reasons.items():
        assert re.search(reason, rejects(out)[line]), rejects(out)[line]


HIDDEN = {"files": {**TWO, "test": "x.tsv"}}
IN_JSON = named("t.jsonl")
REFUSED: dict[str, tuple[Files, dict[str, Any], str]] = {
    "missing column": (
        {},
        {"label": "topics"},
        r"t\.tsv, line 2: no column 'topics'; found text, topic\. Did you mean 'topic'\? Name the",
    ),
    "label outside the classes": (
        {"t.tsv": table([*rows(60), ("x", "weather"), ("y", "weather")])},
        {},
        r"2 of 62 train rows are malformed, more than 1%.*line 62: label 'weather' is not one of "
        r"world, sports, business or a whole number from 0 to 2",
    ),
    "empty file": ({"t.tsv": ""}, {}, r"t\.tsv: has no rows; expected examples below the names"),
    "one class alone": (
        {"t.tsv": table(rows(40, 0, ("sports",)))},
        {},
        r"task 'news': train has 40 rows, expected two different labels or more",
    ),
    "dev equal to train": (
        {"d.tsv": GOOD},
        {},
        r"dev has 60 rows, and the text of each is in train, too; .*'dev: 0\.1'",
    ),
    "Latin-1": (
        {"t.tsv": GOOD.replace("text number 7", "caf\xe9").encode("latin-1")},
        {},
        r"t\.tsv, line 9: byte 0xe9 is not UTF-8 text; .*iconv -f windows-1252",
    ),
    "unclosed quote in a csv": (
        {"t.csv": 'text,topic\na,world\n"b,sports\nc,world\n'},
        named("t.csv"),
        r"t\.csv, line 3: found malformed quotes \(unexpected end of data\); a field that begins",
    ),
    "a number for a sentence, and no label": (
        {"t.jsonl": as_json(rows(60)) + '{"text": 3, "topic": 1}\n{"text": "x", "topic": NaN}\n'},
        IN_JSON,
        r"2 of 62 train rows.*line 61: text is 3, not text.*line 62: label 'nan' is not one of",
    ),
    "damaged parquet": (
        {"t.parquet": b"PAR1 and then nothing"},
        named("t.parquet"),
        r"t\.parquet: is damaged or not a parquet file",
    ),
    "two columns of one name": (
        {"t.tsv": "text\t text\ttopic\na\tb\tworld\n"},
        {},
        r"t\.tsv: two columns are called 'text'",
    ),
    "unknown ending": (
        {"t.xlsx": b"PK\x03\x04"},
        {"files": "t.xlsx", "dev": 0.3},
        r"config: tasks\.news\.files: .*t\.xlsx: cannot tell its form .*expected one of \.tsv, \.",
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
    "folder without train": (
        {"d/training.tsv": GOOD},
        {"files": "d"},
        r"d has training\.tsv; expected one file of train, such as train\.tsv$",
    ),
    "folder without dev": (
        {"d/train.tsv": GOOD},
        {"files": "d"},
        r"d has train\.tsv; expected one file of dev, .*or in its place 'dev: 0\.1' in the task",
    ),
    "hidden test labels": (
        {"x.tsv": table(rows(9, 900, (-1,)))},
        HIDDEN,
        "9 of 9 test.*'-1' is not one of world.*",
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


def test_the_courses_form_has_an_index_and_tests_without_labels(tmp_path: Path) -> None:
    """Only where controls are allowed, as in CFIMDB, is a wrong decoding text."""
    head = "\tid\tsentence\tsentiment\n"
    (tmp_path / "train.csv").write_text(head + "0\ta1\t caf\x92 . \t1\n1\tb\tno\0\t1\n", "utf-8")
    (tmp_path / "test.csv").write_text("0\t\tid\tsentence\n1\t0.0\tb1\t Dull .\n")
    found = read("cfimdb", test=tmp_path / "test.csv", train=tmp_path / "train.csv")
    told = [(e.id, e.split, e.sentence1, e.label) for e in found.examples]
    assert told == [("a1", "train", "caf\x92 .", 1.0), ("b1", "test", "Dull .", None)]
    assert [r[:2] + r[3:] for r in found.rejected] == [("train.csv", 3, "1\tb\tno\0\t1", "train")]


NAMES = ("world", "sports", "business")
NOT_NAMED = "label '{}' is not one of world, sports, business or a whole number from 0 to 2"


@pytest.mark.parametrize(
    ("classes", "value", "label"),
    [
        *((NAMES, value, 1.0) for value in ("sports", "1", 1, 1.0, "1.0")),
        *((NAMES, value, None) for value in (None, "")),
        *((NAMES, value, NOT_NAMED.format(value)) for value in ("9", "sport", "nan", 1.5)),
        (3, True, 1.0),
        (3, "3", "label '3' is not a whole number from 0 to 2"),
        (("True", "False"), "FALSE", 1.0),
        (("1", "2", "3"), 2.0, 1.0),  # names, not places
        (("1", "2", "3"), "0", "label '0' is not one of 1, 2, 3"),
        (None, "+4.5e0", 4.5),
        *(
            (None, value, f"label '{value[:80]}' is not a number from 0 to 5")
            for value in ("nan", "0_1", "\u0663", "x" * 5000, "5.0000001")
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


def test_made_splits_are_shares_that_keep_twins_together_and_stay() -> None:
    texts = [(f"text {n // 2} " + " " * (n % 2), "B" if n % 2 else "b") for n in range(4000)]
    given = [Example(str(n), "train", one, two, 0.0) for n, (one, two) in enumerate(texts)]
    made = {"dev": 0.1, "test": 0.2}
    of = {e.id: e.split for e in with_made_splits(given, made)}
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
    for limit, kept in ((4, (0, 2, 5, 7)), (99, range(10))):
        write_dataset("sst", Dataset(given, [], Counter()), tmp_path, {}, limit=limit)
        found = [e.id for e in examples(tmp_path)]
        assert found == [f"{split}{n}" for split in SPLITS[:2] for n in kept]


def test_what_is_found_in_the_data_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Ignored labels, absent classes, texts with several labels, and texts that two splits have."""
    train = [row for row in rows(60) if row[1] != "sports"]
    files = {"t.tsv": table([*train, *rows(9, 900, (-1,))]), "d.tsv": DEV}
    files["d.tsv"] += "TEXT  number 2000\tworld\ntext number 0\tbusiness\nx\t-1.0\n"
    out = built(tmp_path, files, BOTH | {"ignore": [-1]})
    warnings = [
        "train has no row of 1 of its classes: sports",
        "2 texts occur with more than one label",
        "9 train rows have an ignored label",
        "1 dev rows have an ignored label",
    ]
    report = read_json(out / "report.json")
    assert report["warnings"] == warnings and report["overlaps"] == {"dev in train": 1}
    printed = capsys.readouterr().err
    told = ["train 40, dev 14 rows, 0 set aside", "1 rows of dev in train, by their text"]
    assert printed.splitlines() == [f"news: {each}" for each in (*told, *warnings)]


def test_a_folder_is_files_by_their_splits(tmp_path: Path) -> None:
    files = {"d/train.tsv": table(rows(30)), "d/dev.csv": table(rows(9, 50), ",")}
    files["d/test.jsonl"] = "\n".join(json.dumps({"text": f"new {n}"}) for n in range(4))
    found = examples(built(tmp_path, files, NEWS | {"files": "d"}))
    assert Counter(e.split for e in found) == {"train": 30, "dev": 9, "test": 4}
    assert {e.label for e in found if e.split == "test"} == {None}, "the label column is missing"


def test_a_file_that_changed_since_the_plan_is_refused(tmp_path: Path) -> None:
    planned = node(tmp_path, {"t.tsv": GOOD, "d.tsv": DEV}, BOTH)
    (tmp_path / "t.tsv").write_text(DEV)
    with pytest.raises(UserError, match=r"t\.tsv changed since the plan"):
        make(job(tmp_path, planned))


def test_a_download_is_known_by_its_checksum(tmp_path: Path) -> None:
    url = "https://example.org/get?file=train.tsv"
    planned = node(tmp_path, {}, NEWS | {"files": {"url": url, "sha256": "0" * 64}, "dev": 0.1})
    need = planned.needs["train"]
    assert need.node.spec == {"name": "get?file=train.tsv", "checksum": f"sha256:{'0' * 64}"}
    assert need.node.extra == {"url": url} and planned.spec["forms"] == {"train": "tsv"}


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
        ({"title": "Other", "metric": "macro_f1"}, True),
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


# Anything that can stand on one line, but for what is rejected; a lone surrogate is in no file.
line = st.text(
    st.characters(blacklist_categories=["Cs", "Cc"], whitelist_characters="\t"), max_size=40
)


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rows=st.lists(st.tuples(st.booleans(), line, st.integers(0, 4)), min_size=1, max_size=8))
def test_rows_come_back_as_they_were_written_and_a_bad_line_is_set_aside_alone(
    rows: list[tuple[bool, str, int]], tmp_path: Path
) -> None:
    """A row is written as RFC 4180 does: in quotes, and quotes in it doubled."""
    lines = []
    for n, (good, text, label) in enumerate(rows):
        quoted = f"a {text} b".replace('"', '""')
        lines.append(
            f'{n}\tid{n}\t"{quoted}"\t{label}' if good else f"bad{text}".replace("\t", " ")
        )
    path = tmp_path / "train.csv"
    path.write_bytes("\n".join(["\tid\tsentence\tsentiment", *lines]).encode())
    found, rejected, _ = read("sst", train=path)
    assert [(e.id, e.sentence1, e.label) for e in found] == [
        (f"id{n}", f"a {text} b", label) for n, (good, text, label) in enumerate(rows) if good
    ]
    bad = [n for n, (good, _, _) in enumerate(rows) if not good]
    assert [(r.line, r.text) for r in rejected] == [(n + 2, lines[n]) for n in bad]
