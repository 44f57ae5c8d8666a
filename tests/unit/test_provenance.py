"""What a run's record says of what it was made from: code, data, backbone, machine."""

from __future__ import annotations

import hashlib
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from minbert.base.files import read_json
from minbert.data.digests import ids_digest, labels_digest, task_digests
from minbert.data.parquet import read_file
from minbert.data.tokenise import SCHEMA
from minbert.model.weights import checksum, load_weights
from minbert.plan.plan import Plan
from minbert.spec.resolve import StageRef
from minbert.store.node import digest
from minbert.store.plans import read_description

ROWS: list[dict[str, Any]] = [
    {"id": "a", "split": "train", "label": 1.0, "tokens1": [7, 8], "tokens2": [9]},
    {"id": "\u00e9", "split": "train", "label": 0.2, "tokens1": [], "tokens2": [70_000]},
    {"id": "b", "split": "dev", "label": 3.0, "tokens1": [5], "tokens2": None},
    {"id": "c", "split": "test", "label": None, "tokens1": [5], "tokens2": []},
]


def write(path: Path, rows: list[dict[str, Any]], **how: Any) -> Path:
    pq.write_table(pa.Table.from_pylist(rows, schema=SCHEMA), path, **how)
    return path


def of_bytes(*parts: bytes) -> str:
    return hashlib.sha256(b"".join(parts)).hexdigest()


def digested(rows: list[dict[str, Any]]) -> dict[str, str]:
    """Return the digests of some rows, one number after the other."""
    tokens = b""
    for name in ("tokens1", "tokens2"):
        lists = [row[name] for row in rows]
        tokens += b"".join(struct.pack("<i", -1 if of is None else len(of)) for of in lists)
        tokens += b"".join(struct.pack("<i", token) for of in lists for token in of or ())
    labels = (
        b"\0\0\xc0\x7f" if r["label"] is None else struct.pack("<f", r["label"]) for r in rows
    )
    return {
        "ids": of_bytes(*(f"{row['id']}\n".encode() for row in rows)),
        "tokens": of_bytes(tokens),
        "labels": of_bytes(*labels),
    }


def test_a_tasks_digests_are_those_of_its_numbers(tmp_path: Path) -> None:
    found = task_digests(write(tmp_path / "tokens.parquet", ROWS))
    for split in ("train", "dev", "test"):
        assert found[split] == digested([row for row in ROWS if row["split"] == split])
    # printf 'a\n\u00e9\n' | sha256sum
    assert found["train"]["ids"].startswith("3b8e79201784bc682391208841e1a882")


def test_they_say_nothing_of_how_parquet_holds_them(tmp_path: Path) -> None:
    plain = task_digests(write(tmp_path / "plain.parquet", ROWS))
    how = {"row_group_size": 1, "use_dictionary": False, "compression": "zstd"}
    mixed = [ROWS[number] for number in (2, 0, 3, 1)]
    assert task_digests(write(tmp_path / "other.parquet", mixed, **how)) == plain
    train = task_digests(write(tmp_path / "train.parquet", ROWS[:2]))
    assert train["train"] == plain["train"]
    assert train["dev"] == {name: of_bytes() for name in ("ids", "tokens", "labels")}


def test_labels_that_are_not_public_are_alike_whatever_their_bits() -> None:
    other = np.frombuffer(struct.pack("<I", 0xFFC00001), np.float32)
    assert labels_digest(other) == labels_digest(np.array([np.nan])) == of_bytes(b"\0\0\xc0\x7f")


@pytest.mark.parametrize("variant", ["three", "frozen"])
def test_a_record_says_what_the_run_was_made_from(trained_plan: Plan, variant: str) -> None:
    """Also one that is trained on cached features."""
    node = trained_plan.train(StageRef("one", variant, "main"))
    folder = node.folder(trained_plan.root, 0)
    record = read_json(folder / "run.json")
    assert record["format"] == 1
    assert record["code"] == digest(read_description(trained_plan.root, "train", node.key)["code"])
    weights = trained_plan.sources.backbone.folder(trained_plan.root) / "model.safetensors"
    assert record["backbone"] == checksum(load_weights(weights))
    predicted = read_file(folder / "predictions.parquet").to_pandas()
    assert record["data"].keys() == {*predicted["task"]} == record["spec"]["tasks"].keys()
    for (task, split), rows in predicted.groupby(["task", "split"]):
        said = record["data"][task][split]
        assert said["ids"] == ids_digest(rows["id"].to_list())
        assert said["labels"] == labels_digest(rows["label"].to_numpy())
