"""Tables and figures under readable names."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest
from factories import put_rows

from minbert.base.files import read_json, write_json, write_text
from minbert.evaluate.reading import SCHEMA
from minbert.publish.publish import failed_variants, publish_one
from minbert.publish.publish import publish as publish_all
from minbert.store.job import node_folder
from minbert.store.node import KINDS
from minbert.store.plans import PUBLISHED, VARIANT_COLUMNS, manifest, read_plan, write_plan
from minbert.track.journal import Journal


@pytest.fixture(autouse=True)
def _no_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("minbert.publish.publish.record_rows", lambda *_, **__: None)


def planned(root: Path, text: str, *papers: str, more: tuple[str, ...] = ()) -> str:
    """Make papers' products and pages of all of them; return the name of the plan's record."""
    shown = []
    for paper in papers:
        shown += [(f"tables/{paper}", "table"), (f"scores/{paper}", "scores")]
        scores = root / "store" / "scores" / f"{text}{paper}" / "scores.parquet"
        put_rows(scores, [{"paper": paper, "variant": text}], SCHEMA)
    for name in ("report", *more):
        shown.append((name, name.rpartition("/")[2]))
    keyed = [(name, kind, text + name.rpartition("/")[2]) for name, kind in shown]
    for _, kind, key in keyed:
        for file in KINDS[kind].outputs if kind != "scores" else ():
            write_text(root / "store" / kind / key / file, f"{text} {key.removeprefix(text)}")
    record = {
        "shown": keyed,
        "variants": [[paper, text, *VARIANT_COLUMNS[2:]] for paper in papers],
        "below": "",
        "configured": ["config.yaml"],
        "stamp": f"{text} {' '.join(papers)}",
    }
    return write_plan(root, record)


def publish(root: Path, plan: str) -> None:
    stamp = read_plan(root, plan)["stamp"]
    publish_all(root, plan, root / "store" / "published" / f"{stamp}-0.done")


def test_plain_names_hold_what_was_published_last(tmp_path: Path) -> None:
    """And nothing of the plan before: neither its papers nor its pages."""
    first = planned(tmp_path, "first", "one", "two", more=("tables/claims",))
    second = planned(tmp_path, "second", "two", "three")
    write_text(tmp_path / "tables" / "mine.md", "a user's own")
    for text, plan, papers in (
        ("first", first, ["one", "two"]),
        ("second", second, ["two", "three"]),
        ("first", first, ["one", "two"]),
    ):
        publish(tmp_path, plan)
        tables = {path.stem for path in (tmp_path / "tables").glob("*.md")}
        assert tables == {*papers, "mine"} | ({"claims"} if text == "first" else set())
        for paper in papers:
            assert (tmp_path / "tables" / f"{paper}.md").read_text("utf-8") == f"{text} {paper}"
        joined = pq.read_table(tmp_path / "tables" / "scores.parquet")
        assert joined.column("paper").to_pylist() == sorted(papers)
        page = read_json(tmp_path / PUBLISHED)
        assert (page["plan"], page["stamp"]) == (plan, f"{text} {' '.join(papers)}")


def test_one_file_of_another_plan_leaves_the_names_to_be_made_again(tmp_path: Path) -> None:
    first, second = (planned(tmp_path, text, "one") for text in ("first", "second"))
    publish_one(tmp_path, first, "tables/one.md")
    said = {"stamp": "", "names": ["tables/one.md"], "configured": ["config.yaml"]}
    assert manifest(tmp_path) == said
    publish(tmp_path, first)
    whole = manifest(tmp_path)
    publish_one(tmp_path, second, "tables/one.md")
    assert manifest(tmp_path) == whole | {"stamp": ""}
    assert (tmp_path / "tables" / "one.md").read_text("utf-8") == "second one"


def test_publishing_cut_short_has_no_mark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Some readable names are the second's then: the first is not in place any more."""
    first, second = (planned(tmp_path, text, "one", "two") for text in ("first", "second"))
    publish(tmp_path, first)

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("minbert.publish.publish.read_file", killed)
    with pytest.raises(KeyboardInterrupt):
        publish(tmp_path, second)
    assert (tmp_path / "tables" / "two.md").read_text("utf-8") == "second two"
    assert manifest(tmp_path)["stamp"] == "", "so that both make them again"


def test_interrupted_rows_or_damaged_journals_have_not_failed(tmp_path: Path) -> None:
    names = ("wrong", "stopped", "damaged", "alive", "finished", "other-seed")
    variants = [["p", name, "s", "sst", name, "backbone", "L", ""] for name in names]
    jobs = {
        name: Journal.start(tmp_path, {"experiment": "p", "key": name, "seed": 0, "name": name})
        for name in names
    }
    jobs["wrong"].end("FAILED", "UserError: too hot")
    jobs["other-seed"].end("FINISHED", "")
    jobs["finished"].end("FAILED", "UserError: in an earlier attempt elsewhere")
    write_json(node_folder(tmp_path, "train", "finished", 0) / "run.json", {})
    of = {"experiment": "p", "key": "other-seed", "seed": 1, "name": "other-seed"}
    Journal.start(tmp_path, of).end("FAILED", "UserError: of a seed that is no longer planned")
    jobs["stopped"].end("KILLED", "SystemExit: stopped by signal 2")
    jobs["damaged"].end("FAILED", "not known any more")
    with jobs["damaged"].path.open("r+b") as file:
        file.truncate(file.seek(0, 2) - 9)
    plan = {"variants": variants, "papers": {"p": {"seeds": [0]}}}
    assert failed_variants(tmp_path, plan) == {
        ("p", "wrong"): "stage 's', seed 0: UserError: too hot",
        ("p", "damaged"): "stage 's', seed 0: killed",
    }
