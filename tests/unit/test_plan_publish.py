"""Tables and figures under plain names."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from minbert.base.files import read_json, write_json, write_text
from minbert.evaluate.reading import SCHEMA
from minbert.evaluate.text import read_csv
from minbert.publish.publish import failed_variants
from minbert.publish.publish import publish as publish_all
from minbert.store.plans import PUBLISHED, VARIANT_COLUMNS, held, read_plan, write_plan
from minbert.track.journal import Journal


@pytest.fixture(autouse=True)
def _no_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("minbert.publish.publish.record_grids", lambda *_, **__: None)


def planned(root: Path, text: str, *papers: str, options: str = "", **more: str) -> str:
    """Make papers' products and a page of all of them; return the name of the plan's record."""
    products = {}
    for paper in papers:
        keyed = root / "store" / "table" / f"{text}{paper}"
        write_text(keyed / "table.md", f"{text} {paper}")
        products[f"tables/{paper}.md"] = str(keyed / "table.md")
        scores = root / "store" / "scores" / f"{text}{paper}"
        scores.mkdir(parents=True)
        table = pa.Table.from_pylist([{"paper": paper, "variant": text}], schema=SCHEMA)
        pq.write_table(table, scores / "scores.parquet")
    for name in ("report.html", *more):
        path = root / "store" / "page" / f"{text}{'-'.join(papers)}" / name.replace("/", "-")
        write_text(path, f"{text} of {', '.join(papers)}")
        products[name] = str(path)
    record = {
        "products": products,
        "papers": {paper: {"scores": f"{text}{paper}"} for paper in papers},
        "variants": [[paper, text, *VARIANT_COLUMNS[2:]] for paper in papers],
        "below": "",
        "stamp": f"{text} {' '.join(papers)}",
        "options": options or f"--config name={text}",
    }
    return write_plan(root, record)


def publish(root: Path, plan: str) -> None:
    stamp = read_plan(root, plan)["stamp"]
    publish_all(root, plan, root / "store" / "published" / f"{stamp}-0.done")


def holders(root: Path) -> set[str]:
    """Return the stamps of the plans that the plain names are of."""
    return set(read_json(root / PUBLISHED)["stamps"].values())


def test_plain_names_hold_what_was_published_last(tmp_path: Path) -> None:
    plans = {text: planned(tmp_path, text, "one", "two") for text in ("first", "second")}
    for text in ("first", "second", "first"):
        publish(tmp_path, plans[text])
        assert (tmp_path / "tables" / "two.md").read_text("utf-8") == f"{text} two"
        assert {row["variant"] for row in read_csv(tmp_path / "variants.tsv", "\t")} == {text}
        assert holders(tmp_path) == {f"{text} one two"}
        page = read_json(tmp_path / PUBLISHED)
        assert page["plans"] == dict.fromkeys(("one", "two", "all"), plans[text])
        assert set(page["options"].values()) == {f"--config name={text}"}


def test_a_paper_that_was_taken_out_of_the_configuration_goes(tmp_path: Path) -> None:
    publish(tmp_path, planned(tmp_path, "first", "one", "two", options="--configfile a.yaml"))
    publish(tmp_path, planned(tmp_path, "second", "two", "three", options="--configfile a.yaml"))
    assert (tmp_path / "report.html").read_text("utf-8") == "second of two, three"
    assert not (tmp_path / "tables" / "one.md").exists()
    rows = read_csv(tmp_path / "variants.tsv", "\t")
    assert {row["paper"] for row in rows} == {"two", "three"}


def test_what_an_older_version_published_of_other_papers_stops_nothing(tmp_path: Path) -> None:
    """A table without a column of today's is lost; one with a column more is kept without it."""
    publish(tmp_path, planned(tmp_path, "first", "one", "two"))
    scores, variants = tmp_path / "tables" / "scores.parquet", tmp_path / "variants.tsv"
    table = pq.read_table(scores)
    pq.write_table(table.append_column("more", table["paper"]), scores)
    text = variants.read_text("utf-8")
    variants.write_text("".join(f"{line}\tmore\n" for line in text.splitlines()), "utf-8")
    publish(tmp_path, planned(tmp_path, "second", "two"))
    assert holders(tmp_path) == {"first one two", "second two"}
    assert pq.read_schema(scores).equals(SCHEMA) and "more" not in variants.read_text("utf-8")
    pq.write_table(pq.read_table(scores).drop_columns(["error"]), scores)
    publish(tmp_path, planned(tmp_path, "third", "two"))
    assert holders(tmp_path) == {"third two"}


@pytest.mark.parametrize("name", ["variants.tsv", "tables/scores.parquet"])
@pytest.mark.parametrize("junk", [None, b"", b"\xff\x00"])
def test_what_was_lost_of_other_papers_stops_nothing(
    tmp_path: Path, name: str, junk: bytes | None
) -> None:
    publish(tmp_path, planned(tmp_path, "first", "one", "two"))
    (tmp_path / name).unlink()
    if junk is not None:
        (tmp_path / name).write_bytes(junk)
    publish(tmp_path, planned(tmp_path, "second", "two"))
    assert (tmp_path / "report.html").read_text("utf-8") == "second of two"
    assert holders(tmp_path) == {"second two"}


def test_what_a_plan_has_no_more_goes(tmp_path: Path) -> None:
    with_claims = planned(tmp_path, "first", "one", **{"tables/claims.md": ""})
    without = planned(tmp_path, "second", "one")
    publish(tmp_path, with_claims)
    write_text(tmp_path / "tables" / "mine.md", "a user's own")
    assert (tmp_path / "tables" / "claims.md").exists()
    publish(tmp_path, without)
    assert not (tmp_path / "tables" / "claims.md").exists()
    assert (tmp_path / "tables" / "mine.md").exists()
    publish(tmp_path, with_claims)
    assert (tmp_path / "tables" / "claims.md").exists()


def test_one_paper_does_not_take_the_others_off_the_pages(tmp_path: Path) -> None:
    publish(tmp_path, every := planned(tmp_path, "first", "one", "two"))
    publish(tmp_path, alone := planned(tmp_path, "second", "two"))
    assert (tmp_path / "tables" / "one.md").read_text("utf-8") == "first one"
    assert (tmp_path / "tables" / "two.md").read_text("utf-8") == "second two"
    assert (tmp_path / "report.html").read_text("utf-8") == "first of one, two"
    found = pq.read_table(tmp_path / "tables" / "scores.parquet").to_pylist()
    assert {(row["paper"], row["variant"]) for row in found} == {
        ("one", "first"),
        ("two", "second"),
    }
    rows = read_csv(tmp_path / "variants.tsv", "\t")
    assert {(r["paper"], r["variant"]) for r in rows} == {("one", "first"), ("two", "second")}
    plans = {"one": every, "two": alone, "all": every}
    assert read_json(tmp_path / PUBLISHED)["plans"] == plans
    assert holders(tmp_path) == {"first one two", "second two"}
    publish(tmp_path, every)
    assert (tmp_path / "tables" / "two.md").read_text("utf-8") == "first two"


def test_a_damaged_page_stops_nothing(tmp_path: Path) -> None:
    plan = planned(tmp_path, "first", "one")
    for text in ("{", "[]", '{"plans": [], "stamps": {"one": 3}}'):
        write_text(tmp_path / PUBLISHED, text)
        assert held(tmp_path) == {}
    write_text(tmp_path / "store" / "published" / "first one-7.done", "")
    publish(tmp_path, plan)
    (mark,) = (tmp_path / "store" / "published").glob("*.done")
    assert mark.name == "first one-0.done" and holders(tmp_path) == {"first one"}


def test_a_publishing_that_was_cut_short_leaves_no_mark(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some plain names are the second's then: the first is not in place any more."""
    first, second = (planned(tmp_path, text, "one", "two") for text in ("first", "second"))
    publish(tmp_path, first)

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("minbert.publish.names.read_file", killed)
    with pytest.raises(KeyboardInterrupt):
        publish(tmp_path, second)
    assert (tmp_path / "tables" / "two.md").read_text("utf-8") == "second two"
    assert holders(tmp_path) == {""}, "so that both make them again"


def test_scores_of_all_papers_are_joined(tmp_path: Path) -> None:
    publish(tmp_path, planned(tmp_path, "text", "one", "two"))
    joined = pq.read_table(tmp_path / "tables" / "scores.parquet")
    assert joined.column("paper").to_pylist() == ["one", "two"]


def test_rows_that_were_interrupted_or_whose_journal_is_damaged_have_not_failed(
    tmp_path: Path,
) -> None:
    names = ("wrong", "stopped", "damaged", "unknown", "lost", "silent")
    variants = [["p", name, "s", "sst", name, "backbone", "L", ""] for name in names]
    jobs = {
        name: Journal.start(tmp_path, {"experiment": "p", "key": name, "seed": 0, "name": name})
        for name in names
    }
    jobs["wrong"].end("FAILED", "UserError: too hot")
    jobs["stopped"].end("KILLED", "SystemExit: stopped by signal 2")
    jobs["damaged"].end("FAILED", "not known any more")
    write_text(jobs["damaged"].folder / "end.json", "")
    write_json(jobs["silent"].folder / "end.json", {"status": "FAILED"})
    jobs["unknown"].end("FAILED", "not known any more")
    write_text(jobs["unknown"].folder / "run.json", "[]")
    assert failed_variants(tmp_path, variants) == {
        ("p", "wrong"): "stage 's', seed 0: UserError: too hot",
        ("p", "damaged"): "stage 's', seed 0: killed",
        ("p", "silent"): "stage 's', seed 0: no error was noted",
    }


@pytest.mark.parametrize("name", ["../config.yaml", "tables/../../config.yaml", "store", 3])
def test_nothing_but_what_was_published_is_removed(tmp_path: Path, name: object) -> None:
    root = tmp_path / "results"
    publish(root, planned(root, "first", "one"))
    write_text(tmp_path / "config.yaml", "a user's own")
    page = read_json(root / PUBLISHED)
    write_json(root / PUBLISHED, page | {"names": [*page["names"], name]})
    assert held(root) == {}, "damaged"
    write_json(root / PUBLISHED, page | {"names": [*page["names"], "tables", "tables/mine"]})
    (root / "tables" / "mine").mkdir()
    publish(root, planned(root, "second", "one"))
    assert (tmp_path / "config.yaml").exists() and (root / "tables" / "mine").exists()
