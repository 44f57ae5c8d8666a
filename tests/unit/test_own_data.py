"""Data of one's own: four forms of file, made splits, keys and downloads."""

from __future__ import annotations

import csv
import json
from importlib import import_module
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
    TOPICS,
    Row,
    built,
    node,
    rows,
    table,
)
from own_tasks import using

from minbert.base.errors import UserError
from minbert.data.dataset import make
from minbert.data.examples import Example
from minbert.data.identity import sha256
from minbert.data.parquet import read_file
from minbert.spec.config import load_config
from minbert.store.job import Job


@pytest.fixture(autouse=True)
def _tasks(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    monkeypatch.chdir(tmp_path)
    with using():
        yield


def examples(out: Path) -> list[Example]:
    return [Example(**row) for row in read_file(out / "examples.parquet").to_pylist()]


def set_aside(out: Path) -> list[dict[str, str]]:
    with (out / "rejected.csv").open(encoding="utf-8", newline="") as handle:
        return list(csv.DictReader(handle))


def forms(given: list[Row], folder: Path) -> dict[str, bytes]:
    """Return the content of a file with the rows, by the form."""
    columns = {"text": [text for text, _ in given], "topic": [label for _, label in given]}
    pq.write_table(pa.table({"other": [0] * len(given), **columns}), folder / "made")
    objects = [{"topic": label, "text": text, "other": None} for text, label in given]
    return {
        "tsv": table(given).encode(),
        "csv": table([(f'"{text}"', label) for text, label in given], ",").encode(),
        "jsonl": "".join(json.dumps(each) + "\n" for each in objects).encode(),
        "parquet": (folder / "made").read_bytes(),
    }


@pytest.mark.parametrize("form", ["tsv", "csv", "jsonl", "parquet"])
def test_all_forms_hold_the_same_examples(form: str, tmp_path: Path) -> None:
    train, dev = rows(30), rows(9, 100)
    given = {f"{s}.{form}": forms(r, tmp_path)[form] for s, r in (("train", train), ("dev", dev))}
    files = {name.partition(".")[0]: name for name in given}
    found = examples(built(tmp_path, given, NEWS | {"files": files}))
    assert [(e.split, e.sentence1, e.label) for e in found] == [
        *(("train", text, TOPICS.index(str(label))) for text, label in train),
        *(("dev", text, TOPICS.index(str(label))) for text, label in dev),
    ]
    assert len({e.id for e in found}) == len(found)


def test_a_folder_is_files_by_their_splits(tmp_path: Path) -> None:
    files = {"d/train.tsv": table(rows(30)), "d/dev.csv": table(rows(9, 50), ",")}
    files["d/test.jsonl"] = "\n".join(json.dumps({"text": f"new {n}"}) for n in range(4))
    found = examples(built(tmp_path, files, NEWS | {"files": "d"}))
    assert [e.split for e in found].count("test") == 4
    assert {e.label for e in found if e.split == "test"} == {None}, "the label column is missing"


def test_quotes_of_a_tsv_are_read_by_rfc_4180_or_are_text(tmp_path: Path) -> None:
    lines = ['"a tab\there"\tworld', '"Sanitation" is poor\tsports', 'He said "no"\tbusiness']
    lines += ['"never closed\tworld', '""doubled"" within\tsports']
    body = table(rows(30)) + "\n".join(lines) + "\n"
    out = built(tmp_path, {"t.tsv": body}, NEWS | {"files": "t.tsv", "dev": 0.3})
    texts = {e.sentence1 for e in examples(out)}
    assert {"a tab\there", '"Sanitation" is poor', 'He said "no"', '"never closed'} <= texts
    assert set_aside(out) == []


def test_overlaps_are_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    dev = [*rows(3), *rows(9, 100)]
    files = {"train.tsv": table(rows(30)), "dev.tsv": table(dev)}
    out = built(tmp_path, files, NEWS | {"files": {"train": "train.tsv", "dev": "dev.tsv"}})
    assert json.loads((out / "report.json").read_text())["overlaps"] == {"dev in train": 3}
    assert "news: 3 dev rows have the text of a train row" in capsys.readouterr().err


def test_malformed_rows_are_set_aside_with_their_reason(tmp_path: Path) -> None:
    long = "x" * 1_000_001
    bad = [(long, "world"), ("no such topic", "wrold"), ("", "world"), ("nothing", "")]
    body = table([*rows(600), *bad]) + "one column\n"
    entry = NEWS | {"files": "t.tsv", "dev": 0.2}
    out = built(tmp_path, {"t.tsv": body}, entry)
    reasons = {row["line"]: row["reason"] for row in set_aside(out)}
    assert reasons == {
        "602": "sentence has 1,000,001 characters, more than 1,000,000",
        "603": "label 'wrold' is not one of world, sports, business, or 0 to 2",
        "604": "sentence is empty",
        "605": "a train row without a label",
        "606": "1 columns, but the header has 2",
    }
    assert all(len(row["text"]) <= 1000 for row in set_aside(out))


def test_labels_that_cannot_all_be_learnt_are_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = {
        "t.tsv": table([r for r in rows(60) if r[1] != "sports"]),
        "d.tsv": table(rows(9, 200)),
    }
    files["d.tsv"] += "TEXT  number 200\tworld\ntext number 0\tbusiness\n"
    out = built(tmp_path, files, BOTH)
    told = [
        "train has no row of 1 of its classes: sports",
        "2 texts occur with more than one label",
    ]
    assert json.loads((out / "report.json").read_text())["warnings"] == told
    printed = capsys.readouterr().err
    assert all(f"news: {each}\n" in printed for each in told)


def test_the_order_of_a_pair_may_decide_its_label(tmp_path: Path) -> None:
    body = "a\tb\tsame\n" + "".join(f"x {n}\ty {n}\t1\ny {n}\tx {n}\t0\n" for n in range(30))
    out = built(tmp_path, {"t.tsv": body}, PAIR | {"files": "t.tsv", "dev": 0.3})
    assert json.loads((out / "report.json").read_text())["warnings"] == []


def test_tasks_may_be_in_a_file_of_their_own(tmp_path: Path) -> None:
    (tmp_path / "own.yaml").write_text(
        "news: {kind: binary, files: x.tsv, dev: 0.1, sentence1: a, label: b}\n"
    )
    config = load_config({"grids": ["g"], "tasks": "own.yaml"})
    assert config.tasks["news"].kind == "binary"
    with pytest.raises(UserError, match=r"'tasks': other\.yaml: there is no such file"):
        load_config({"grids": ["g"], "tasks": "other.yaml"})


def test_a_file_that_changed_since_the_plan_is_refused(tmp_path: Path) -> None:
    planned = node(tmp_path, {"t.tsv": GOOD, "d.tsv": DEV}, BOTH)
    (tmp_path / "t.tsv").write_text(DEV)
    job = Job(tmp_path / "results", {**planned.describe(), "extra": planned.extra}, None, 1)
    with pytest.raises(UserError, match=r"t\.tsv changed since the plan"):
        make(job)


def test_a_download_is_known_by_its_checksum(tmp_path: Path) -> None:
    url = "https://example.org/data/news.tsv"
    planned = node(tmp_path, {}, NEWS | {"files": {"url": url, "sha256": "0" * 64}, "dev": 0.1})
    need = planned.needs["train"]
    assert need.node.spec == {"name": "news.tsv", "checksum": f"sha256:{'0' * 64}"}
    assert planned.spec["forms"] == {"train": "tsv"} and need.node.extra == {"url": url}


@pytest.mark.parametrize(
    ("url", "name"),
    [
        ("https://zenodo.org/r/1/train.tsv?download=1", "train.tsv"),
        (f"https://s3.example.org/a/b.jsonl?Signature={'x' * 400}&Path=/c.d", "b.jsonl"),
        ("https://example.org/get?file=train.tsv", "get?file=train.tsv"),
    ],
)
def test_a_download_may_have_a_query(tmp_path: Path, url: str, name: str) -> None:
    planned = node(tmp_path, {}, NEWS | {"files": {"url": url, "sha256": "0" * 64}, "dev": 0.1})
    need = planned.needs["train"]
    assert (need.file, need.node.spec["name"]) == (name, name)
    assert planned.spec["forms"] == {"train": name.rpartition(".")[2]}
    assert need.node.extra == {"url": url}


def test_a_download_is_read_like_a_file(tmp_path: Path) -> None:
    (tmp_path / "served.tsv").write_text(GOOD, encoding="utf-8")
    file = {"url": (tmp_path / "served.tsv").as_uri(), "sha256": sha256(tmp_path / "served.tsv")}
    planned = node(tmp_path, {"d.tsv": DEV}, NEWS | {"files": {"train": file, "dev": "d.tsv"}})
    for each in (planned.needs["train"].node, planned):
        job = Job(tmp_path / "results", {**each.describe(), "extra": each.extra}, None, 1)
        import_module(each.maker).make(job)
    assert {e.split for e in examples(job.out)} == {"train", "dev"}


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
