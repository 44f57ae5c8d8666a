"""The study's scripts: Quora's files, a row's second training, tables, the search's table."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from minbert.base.errors import UserError
from minbert.base.files import write_json, write_text
from minbert.evaluate.score import make
from minbert.plan.plan import Plan
from minbert.spec.resolve import StageRef
from minbert.store.job import Job
from minbert.store.plans import ADOPTED
from study import tables
from study.again import compared
from study.quora import split, write

HEAD = "\tid\tsentence1\tsentence2\tis_duplicate"
ROWS = {  # int(sha256sum of the id, 16) % 10: 6, 0, 7, 9 and 8
    "quora-train.csv": ["1\tk\tWhat? \u2028 Why?\tHow?\t1.0", "2\td\tA malformed row\t"],
    "quora-dev.csv": ["3\tf\tWho?\tWhom?\t0.0"],
    "quora-test-student.csv": ["4\ta\tWhere?\tWhen?\t0.0", "5\tc\tWhich?\tWhat?\t1.0"],
}


def test_quoras_rows_are_split_by_their_ids_in_their_order() -> None:
    rows = sorted((row for rows in ROWS.values() for row in rows), reverse=True)
    found = split("\n".join([HEAD, *rows]) + "\n")
    want = {name: [HEAD, *sorted(rows, reverse=True)] for name, rows in ROWS.items()}
    test = "quora-test-student.csv"
    want[test] = [row.rpartition("\t")[0] for row in want[test]]
    assert found == {name: "\n".join(rows) + "\n" for name, rows in want.items()}


def test_only_the_courses_file_is_split_and_it_is_not_overwritten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = tmp_path / "quora-dev.csv"
    source.write_text(HEAD + "\n", "utf-8")
    with pytest.raises(UserError, match=r"is not the course's quora-dev\.csv: expected git:de7c"):
        write(source, tmp_path / "made")
    pin = "git:829f6fad15ca0dca6a33570cc149334d29b51e32"
    monkeypatch.setattr("study.quora.PIN", pin)
    with pytest.raises(UserError, match="would be overwritten; give another folder"):
        write(source, tmp_path)
    write(source, tmp_path / "made")
    assert (tmp_path / "made" / "quora-dev.csv").read_bytes() == source.read_bytes()


def test_a_row_is_compared_prediction_by_prediction(trained_plan: Plan, tmp_path: Path) -> None:
    study, root = (
        shutil.copytree(trained_plan.root, tmp_path / name) for name in ("study", "again")
    )
    for each in (study, root):
        job = Job(each, trained_plan.shown["scores/one"].describe(), None, 1)
        make(job)
        shutil.copy2(job.out / "scores.parquet", each / "tables")
    scores, counts = compared(str(root), str(study), "one/three")
    assert scores["anew"].count() >= 3 and scores["anew"].equals(scores["study"])
    assert len(counts) >= 6 and (counts["predictions"] > 0).sum() >= 6
    assert not counts.filter(like="different").any(axis=None)
    key = trained_plan.train(StageRef("one", "three", "main")).key
    (path,) = (root / "store" / "train" / key).glob("seed*/predictions.parquet")
    rows = pd.read_parquet(path)
    first, second, *_ = rows.index[rows["split"] == "test"]
    rows.loc[first, "prediction"] = np.nextafter(rows.loc[first, "prediction"], np.inf)
    write_table(rows.drop(index=second), path)
    write_table(pd.read_parquet(history := path.with_name("history.parquet"))[1:], history)
    _, counts = compared(str(root), str(study), "one/three")
    assert counts["different predictions"].sum() == 2, "one that moved by a bit, one that is gone"
    assert counts["different histories"].sum() == 1
    path.parent.rename(path.parent.with_name("seed7"))
    with pytest.raises(UserError, match=r"has no run of one/three with a seed that .*again has"):
        compared(str(root), str(study), "one/three")


def write_table(frame: pd.DataFrame, path: Path) -> None:
    pq.write_table(pa.Table.from_pandas(frame, preserve_index=False), path)


FIRST, SECOND, THIRD, OTHER = ("f" * 16, "a" * 16, "1" * 16, "c" * 16)


def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    """Leave a kept table, and a made one of results that went from `FIRST` to `THIRD`."""
    monkeypatch.setattr(tables, "TABLES", tmp_path / "kept")
    monkeypatch.setattr(tables, "RESULTS", tmp_path / "made")
    history = [{"from": FIRST, "to": SECOND}, {"from": SECOND, "to": THIRD}]
    write_json(tmp_path / "made" / f"store/train/{THIRD}/seed1" / ADOPTED, history)
    write_text(tmp_path / "made/tables/p.csv", text)
    write_text(tmp_path / "kept/p.csv", f"keys,sst\r\n{OTHER} {FIRST},0.5\r\n")


@pytest.mark.parametrize(
    ("text", "same"),
    [
        (f"keys,sst\r\n{THIRD} {OTHER},0.5\r\n", True),
        (f"keys,sst\r\n{OTHER} {FIRST},0.5\r\n", True),
        (f"keys,sst\r\n{THIRD} {OTHER},0.5\n", False),
        (f"keys,sst\r\n{SECOND} {OTHER},0.5\r\n", False),
        (f"keys,sst\r\n{THIRD} {OTHER},0.51\r\n", False),
    ],
)
def test_tables_are_compared_by_the_keys_of_the_bundles(
    text: str, same: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made(tmp_path, monkeypatch, text)
    if not same:
        with pytest.raises(SystemExit, match=r"kept/p\.csv"):
            tables.compare()
    tables.copy()
    tables.compare()
    assert THIRD not in (tmp_path / "kept" / "p.csv").read_bytes().decode()


def test_a_table_that_was_not_made_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made(tmp_path, monkeypatch, "")
    (tmp_path / "made/tables/p.csv").unlink()
    with pytest.raises(SystemExit, match=r"tables/p\.csv: there is no such file.*make study"):
        tables.copy()
