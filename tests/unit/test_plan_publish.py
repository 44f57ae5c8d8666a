"""Tables and figures under plain names."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from minbert.base.files import write_json, write_text
from minbert.publish.publish import failed_variants, publish
from minbert.store.node import published_path
from minbert.track.journal import Journal


def listed(root: Path, stamp: str, text: str) -> None:
    """Write two papers' products, and list them under a stamp."""
    sources = {}
    scores = []
    for paper in ("one", "two"):
        keyed = root / "store" / "table" / f"{stamp}{paper}"
        write_text(keyed / "table.md", f"{text} {paper}")
        pq.write_table(pa.table({"paper": [paper], "value": [0.5]}), keyed / "scores.parquet")
        sources[f"tables/{paper}.md"] = str(keyed / "table.md")
        scores.append(str(keyed / "scores.parquet"))
    write_json(published_path(root, stamp), {"products": sources, "scores": scores, "papers": {}})


def test_plain_names_hold_what_was_published_last(tmp_path: Path) -> None:
    for stamp in ("first", "second"):
        listed(tmp_path, stamp, stamp)
    marks = tmp_path / "store" / "published"
    for stamp in ("first", "second", "first"):
        publish(tmp_path, stamp)
        assert (tmp_path / "tables" / "two.md").read_text("utf-8") == f"{stamp} two"
        assert [mark.name for mark in marks.glob("*.done")] == [f"{stamp}.done"]


def test_a_publishing_that_was_cut_short_leaves_no_mark(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some plain names are the second's then: the first is not in place any more."""
    for stamp in ("first", "second"):
        listed(tmp_path, stamp, stamp)
    publish(tmp_path, "first")

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("minbert.publish.publish.read_file", killed)
    with pytest.raises(KeyboardInterrupt):
        publish(tmp_path, "second")
    assert (tmp_path / "tables" / "two.md").read_text("utf-8") == "second two"
    assert not list((tmp_path / "store" / "published").glob("*.done"))


def test_scores_of_all_papers_are_joined(tmp_path: Path) -> None:
    listed(tmp_path, "stamp", "")
    publish(tmp_path, "stamp")
    joined = pq.read_table(tmp_path / "tables" / "scores.parquet")
    assert joined.column("paper").to_pylist() == ["one", "two"]


def test_rows_that_were_interrupted_or_whose_journal_is_damaged_have_not_failed(
    tmp_path: Path,
) -> None:
    header = "paper\tvariant\tstage\tkey\n"
    names = ("wrong", "stopped", "damaged", "unknown", "lost")
    write_text(tmp_path / "variants.tsv", header + "".join(f"p\t{n}\ts\t{n}\n" for n in names))
    jobs = {
        name: Journal.start(tmp_path, {"experiment": "p", "key": name, "seed": 0, "name": name})
        for name in names
    }
    jobs["wrong"].end("FAILED", "UserError: too hot")
    jobs["stopped"].end("KILLED", "SystemExit: stopped by signal 2")
    jobs["damaged"].end("FAILED", "not known any more")
    write_text(jobs["damaged"].folder / "end.json", "")
    jobs["unknown"].end("FAILED", "not known any more")
    write_text(jobs["unknown"].folder / "run.json", "[]")
    assert failed_variants(tmp_path) == {
        ("p", "wrong"): "stage 's', seed 0: UserError: too hot",
        ("p", "damaged"): "stage 's', seed 0: killed",
    }
