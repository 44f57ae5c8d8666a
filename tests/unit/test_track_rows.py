"""What MLflow is told of trainings and of a paper's rows, and how rows stand above their runs."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from following import finish, results, stored_run, write_page
from mlflow.entities import Run
from trained_root import plan_of, run_folder

from minbert.base.files import read_json, write_json, write_text
from minbert.evaluate.text import csv_text
from minbert.plan.describe import write
from minbert.plan.plan import Plan
from minbert.store.plans import write_plan
from minbert.track.follower import Follower
from minbert.track.journal import attempts, newest_attempts
from minbert.track.papers import CURVES, VIEW, view_tag
from minbert.track.rows import record_grids
from minbert.track.runs import log_imported_runs, of_predictions
from minbert.track.store import Tag, open_store, own_store

FACTS = {
    **{"title": "Sharing", "description": "How much\n to share?", "rule": "plain"},
    **{"file": "workflow/grids/p.yaml", "source": "the course", "backbone": "bert"},
    **{"datasets": {"cfimdb": "d2", "sst": "d1"}},
}


@pytest.fixture
def root(tmp_path: Path, mlflow_store: Path) -> Path:
    return results(tmp_path.resolve(), mlflow_store)


def test_a_page_has_what_is_published_of_a_paper(tmp_path: Path) -> None:
    """Intervals end where scores end; `best` trains nothing."""
    dev = {"seeds": "2", "split": "dev", "keys": "k1", "sst_mean": "0.3", "sst_low": "-0.34"}
    dev |= {"sst_high": "1.2", "sst_above": "1", "sst_n": "2", "sst_floor": "0.2"}
    dev |= {"overall_plain_mean": "0.6", "overall_plain_low": "-0.7", "overall_plain_high": "1.9"}
    test = {"seeds": "1", "split": "test", "keys": "k1", "sst_mean": "0.25"}
    chosen = {"variant": "best", "seeds": "2", "split": "dev", "keys": "k2", "sst_mean": "0.4"}
    absent = {"variant": "absent", "seeds": "0", "split": "dev"}
    lines = [chosen, {"variant": "one"} | dev, {"variant": "one"} | test, absent]
    every = {name: "" for line in lines for name in line}
    table = csv_text(tuple(every), [every | line for line in lines])
    for name in ("tables/p.csv", "figures/p/curve.png", "tables/other.csv"):
        write_text(tmp_path / name, table)
    shown = [("tables/p", "table", "t"), ("tables/other", "table", "o")]
    shown.append(("figures/p/curve", "figure", "f"))
    stages = [["p", "one", s, "sst", k, "", "One", ""] for s, k in (("a", "k1"), ("b", "k2"))]
    stages.append(["p", "absent", "main", "sst", "k3", "", "Absent", ""])
    pages = []
    for _ in range(2):
        record_grids(tmp_path, {"papers": {"p": FACTS}, "variants": stages, "shown": shown})
        pages.append(page := read_json(tmp_path / "tracking" / "p.json"))
    assert pages[0]["id"] == page["id"] and pages[0]["written"] < page["written"]
    one, best = page["rows"]
    assert one["metrics"] == {
        **{"n": 1, "test/sst": 0.25},
        **{"best/sst": 0.3, "best/sst/low": 0, "best/sst/high": 1},
        **{"best/overall": 0.6, "best/overall/low": -0.7, "best/overall/high": 1},
    }
    assert one["tags"] == {"learned": "", "not_learned": "sst"}
    assert (best["variant"], best["metrics"]) == ("best", {"n": 2, "best/sst": 0.4})
    assert page["parents"] == {"k1": "one", "k2": "one"} and page["keys"] == ["k1", "k2", "k3"]
    assert page["files"] == ["tables/p.csv", "figures/p/curve.png"]


def shown(root: Path, name: str) -> dict[str, Run]:
    """Return the runs of one of the paper's views, in its order."""
    client = open_store(root).client
    experiment = client.get_experiment_by_name("paper")
    assert experiment is not None
    view = json.loads(experiment.tags[view_tag(name)])
    order = [f"{view['orderByKey']} {'ASC' if view['orderByAsc'] else 'DESC'}"]
    found = client.search_runs([experiment.experiment_id], view["searchFilter"], order_by=order)
    return {run.info.run_name: run for run in found}


def test_each_row_is_a_run_above_the_runs_of_its_seeds(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_text(root / "tables" / "paper.md", "| a |")
    plan = write_plan(root, {"papers": {"paper": FACTS}})
    trained = {f"{key} . s{n}": finish(root, key, n).folder for key in ("a", "b") for n in (0, 1)}
    rows = {"a": {"best/overall": 0.5, "n": 2}, "b": {"best/overall": 0.6, "n": 2}}

    def publish(written: float, *keys: str, **rows: dict[str, float]) -> None:
        write_page(root, written, keys, **rows)
        Follower(root, plan=plan).finish()

    Follower(root, plan=plan).finish()
    assert shown(root, VIEW).keys() == shown(root, CURVES).keys() == trained.keys()
    with monkeypatch.context() as patch:  # it dies with half of the rows stored
        patch.setattr("minbert.track.writer._attach", None)
        publish(1.0, "a", "b", **rows)
    Follower(root, plan=plan).finish()
    first = shown(root, VIEW)
    assert list(first) == ["b", "a"] and first["a"].data.metrics == rows["a"]
    assert first["a"].data.tags["learned"] == "sst" and first["a"].info.status == "FINISHED"
    assert shown(root, CURVES).keys() == trained.keys()
    for name, attempt in trained.items():
        parent = stored_run(root, attempt).data.tags[Tag.PARENT]
        assert parent == first[name.partition(" ")[0]].info.run_id
    (grid,) = open_store(root).runs(f"tags.`{Tag.KIND}` = 'grid'")
    copy = root / "mlartifacts" / "paper" / grid.info.run_id / "artifacts" / "tables" / "paper.md"
    assert copy.read_text() == "| a |"

    # In place; `b` is not in the grid any more, and later it is again.
    publish(2.0, "a", a={"best/overall": 0.9, "n": 2})
    (one,) = shown(root, VIEW).values()
    assert one.info.run_id == first["a"].info.run_id and one.data.metrics["best/overall"] == 0.9
    assert shown(root, CURVES).keys() == {"a . s0", "a . s1"}
    publish(3.0, "a", "b", **rows)
    assert list(shown(root, VIEW)) == ["b", "a"] and shown(root, CURVES).keys() == trained.keys()

    experiment = open_store(root).client.get_experiment(one.info.experiment_id)
    said = experiment.tags["mlflow.note.content"]
    assert said.startswith("**Sharing.** How much to share?") and FACTS["file"] in said
    columns = json.loads(experiment.tags[view_tag(VIEW)])["selectedColumns"]
    assert {"metrics.`best/cfimdb`", "metrics.`best/overall/low`", "tags.`learned`"} <= {*columns}


def test_two_folders_with_one_store_keep_their_rows_apart(root: Path, tmp_path: Path) -> None:
    for n, folder in enumerate((root, tmp_path / "other")):
        write_page(folder, 1.0, (), identity=str(n), one={"best/overall": 0.1 + n / 2})
        Follower(folder, own_store(root)).finish()
    rows = open_store(root).runs(f"tags.`{Tag.ROW}` = 'one'")
    current = (run.data for run in rows if Tag.SUPERSEDED not in run.data.tags)
    found = sorted(data.metrics["best/overall"] for data in current)
    assert found == pytest.approx([0.1, 0.6])


def test_a_run_says_what_it_learnt(tmp_path: Path) -> None:
    tasks = {
        "sst": ([0, 1] * 10, [0, 1] * 10),
        "para": ([1] * 20, [1, 1, 0, 1] * 5),
        "sts": ([1, 2] * 10, [1, 1.5, 1.2, 1] * 5),
        "lmrd": ([1], [None]),
    }
    rows: list[dict[str, Any]] = [
        {"task": task, "split": split, "prediction": float(ours), "label": label}
        for task, pair in tasks.items()
        for ours, label in zip(*pair, strict=True)
        for split in ("dev", "test")
        if split == "dev" or task == "sst"
    ]
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "p.parquet")
    metrics, tags = of_predictions(tmp_path / "p.parquet", "normalised")
    r = metrics["best/sts"]
    whole = (1.75 + (r + 1) / 2) / 3
    assert metrics == pytest.approx(
        {"best/sst": 1.0, "best/para": 0.75, "best/sts": r, "best/overall": whole, "test/sst": 1.0}
    )
    assert tags == {"learned": "sst", "not_learned": "para,sts"}


@pytest.fixture
def plan(trained_plan: Plan, tmp_path: Path) -> Plan:
    """Return the plan of a copy of the trained results."""
    shutil.copytree(trained_plan.base, tmp_path / "base")
    return plan_of(tmp_path / "base")


def test_runs_that_came_in_are_as_if_they_had_been_trained_here(plan: Plan) -> None:
    here = newest_attempts(plan.root)
    before = {of: (attempt.run, attempt.end() or {}) for of, attempt in here.items()}
    record = write(plan)
    log_imported_runs(plan.root, record)
    assert len(attempts(plan.root)) == len(here), "those are known"
    for kind in ("tracking", "store/tokens", "store/data", "store/features"):
        shutil.rmtree(plan.root / kind)
    for path in (plan.root / "store" / "train").rglob("run.json"):
        said = read_json(path)
        said["environment"]["commit"] = "theirs"
        write_json(path, said)
    for _ in range(2):
        log_imported_runs(plan.root, record)
    came = attempts(plan.root)
    assert {attempt.group for attempt in came} == here.keys() and len(came) == 7
    for attempt in came:
        (run, end), own, its_end = before[attempt.group], attempt.run, attempt.end() or {}
        assert own["host"] == "elsewhere" and own["tags"][Tag.COMMIT] == "theirs"
        assert (own["name"], own["params"]) == (run["name"], run["params"])
        assert its_end["metrics"] == pytest.approx(end["metrics"])
        assert {**its_end, "ended": 0, "metrics": 0} == {**end, "ended": 0, "metrics": 0}
        took = its_end["metrics"]["cost/seconds"]
        assert its_end["ended"] - own["started"] == pytest.approx(took, abs=1e-3)


@pytest.mark.parametrize("end", [None, "FAILED"])
def test_a_result_whose_job_here_did_not_end_well_has_come_in(plan: Plan, end: str | None) -> None:
    """A follower that is killed as it tells of a run also leaves an attempt without an end."""
    key = run_folder(plan, "three").parent.name
    old = newest_attempts(plan.root)[key, "0"]
    (old.path / "end.json").unlink()
    if end:
        write_json(old.path / "end.json", {"status": end})
    log_imported_runs(plan.root, write(plan))
    new = newest_attempts(plan.root)[key, "0"]
    assert new.name > old.name and new.status == "FINISHED"


def test_a_damaged_result_is_reported_and_stops_no_other(
    plan: Plan, capfd: pytest.CaptureFixture[str]
) -> None:
    shutil.rmtree(plan.root / "tracking")
    damaged = run_folder(plan, "three")
    write_text(damaged / "run.json", "{")
    log_imported_runs(plan.root, write(plan))
    assert len(attempts(plan.root)) == 6
    (line,) = capfd.readouterr().err.splitlines()
    assert line.startswith(f"tracking: {damaged}: not in MLflow: {damaged}/run.json is damaged")
