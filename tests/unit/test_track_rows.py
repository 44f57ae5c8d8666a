"""What MLflow is told of trainings and of a paper's rows, and how rows stand above their runs."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from factories import put_rows
from following import finish, results, stored_run, write_rows
from mlflow.entities import Run
from trained_root import plan_of, run_folder

from minbert.base.files import read_json, write_json, write_text
from minbert.data.parquet import read_file
from minbert.evaluate.reading import SCHEMA
from minbert.plan.describe import write
from minbert.plan.plan import Plan
from minbert.store.plans import SCORES, write_plan
from minbert.track.follower import Follower
from minbert.track.journal import Attempt, Journal, attempts, newest_attempts
from minbert.track.runs import PARENTS, log_imported_runs, record_rows
from minbert.track.store import CURVES, VIEW, Tag, open_store, view_tag

FACTS = {
    **{"title": "Sharing", "description": "How much\n to share?", "rule": "plain"},
    **{"file": "workflow/grids/p.yaml", "source": "the course", "encoder": "BERT (bert)"},
    **{"datasets": {"cfimdb": "d2", "sst": "d1"}, "overall_tasks": ["sst", "sts"]},
}


@pytest.fixture
def root(tmp_path: Path, mlflow_store: Path) -> Path:
    return results(tmp_path.resolve(), mlflow_store)


def test_a_row_has_what_is_published_of_it(tmp_path: Path) -> None:
    """Intervals end where scores end; `best` trains nothing, and `absent` has no score."""
    found: list[dict[str, Any]] = []

    def score(variant: str, task: str, metric: str, *values: float, **more: Any) -> None:
        about = {"paper": "p", "variant": variant, "split": "dev", "task": task, "metric": metric}
        about |= {"key": "k2", "floor": 0.2, "p_floor": 0.5, "constant": False} | more
        found.extend(about | {"seed": n, "value": value} for n, value in enumerate(values))

    untested = {"p_floor": None, "constant": None}
    score("best", "sst", "accuracy", 0.5, 0.3)
    score("one", "sst", "accuracy", 0.1, 0.5)
    score("one", "sts", "pearson", 0.9, 0.3, p_floor=0.001, floor=0.0)
    score("one", "overall", "plain", 0.8, 0.4, **untested)
    score("one", "overall", "normalised", 0.8, 0.4, **untested)
    score("one", "sst", "accuracy", 0.25, split="test", **untested)
    put_rows(tmp_path / SCORES, found, SCHEMA)
    stages = [["p", "one", s, "sst", k, "", "One", ""] for s, k in (("a", "k1"), ("b", "k2"))]
    stages.append(["p", "absent", "main", "sst", "k3", "", "Absent", ""])
    for _ in range(2):
        record_rows(tmp_path, {"papers": {"p": FACTS}, "variants": stages})
    best, one = (Attempt(log) for log in sorted((tmp_path / "tracking").glob("*.jsonl")))
    end = one.end()
    assert (one.read()[0]["name"], best.read()[0]["name"]) == ("one", "best")
    assert {name: value for name, value, *_ in end["points"]} == pytest.approx(
        {
            **{"n": 2, "test/sst": 0.25, "best/sst": 0.3, "best/sst/low": 0, "best/sst/high": 1},
            **{"best/sts": 0.6, "best/sts/low": -1, "best/sts/high": 1},
            **{"best/overall": 0.6, "best/overall/low": -1, "best/overall/high": 1},
        }
    )
    assert end["tags"] == {Tag.ROW: "one", Tag.NOT_LEARNED: "sst"}
    (page,) = read_json(tmp_path / PARENTS).values()
    assert page == {"k1": one.name, "k2": one.name, "k3": "", "row.p.one": "", "row.p.best": ""}
    # Without labels of test, a new run has no score on it.
    put_rows(tmp_path / SCORES, [row for row in found if row["split"] == "dev"], SCHEMA)
    record_rows(tmp_path, {"papers": {"p": FACTS}, "variants": stages})
    newest = newest_attempts(tmp_path)["row.p.one", "0"]
    names = [name for name, *_ in newest.read()[0]["points"]]
    assert newest.name != one.name and "best/sst" in names and "test/sst" not in names
    assert newest_attempts(tmp_path)["row.p.best", "0"].name == best.name


def shown(root: Path, name: str) -> dict[str, Run]:
    """Return the runs of one of the paper's views, in its order."""
    client = open_store(root)
    experiment = client.get_experiment_by_name("paper")
    assert experiment is not None
    view = json.loads(experiment.tags[view_tag(name)])
    order = [f"{view['orderByKey']} DESC"]
    found = client.search_runs([experiment.experiment_id], view["searchFilter"], order_by=order)
    return {run.info.run_name: run for run in found}


def test_each_row_is_a_run_above_the_runs_of_its_seeds(root: Path) -> None:
    plan = write_plan(root, {"papers": {"paper": FACTS}, "variants": []})
    trained = {f"{key} . s{n}": finish(root, key, n) for key in ("a", "b") for n in (0, 1)}
    rows = {"a": {"best/overall": 0.5, "n": 2}, "b": {"best/overall": 0.6, "n": 2}}

    def publish(*keys: str, **rows: dict[str, float]) -> None:
        write_rows(root, *keys, **rows)
        Follower(root, plan).follow()

    Follower(root, plan).follow()
    assert shown(root, VIEW).keys() == shown(root, CURVES).keys() == trained.keys()
    publish("a", "b", **rows)
    first = shown(root, VIEW)
    assert list(first) == ["b", "a"] and first["a"].data.metrics == rows["a"]
    assert first["a"].data.tags[Tag.NOT_LEARNED] == "sst" and first["a"].info.status == "FINISHED"
    assert shown(root, CURVES).keys() == trained.keys()
    for name, log in trained.items():
        parent = stored_run(root, log).data.tags["mlflow.parentRunId"]
        assert parent == first[name.partition(" ")[0]].info.run_id

    # In place; `b` is not in the grid any more, and later it is again.
    publish("a", a={"best/overall": 0.9, "n": 2})
    (one,) = shown(root, VIEW).values()
    assert one.info.run_id == first["a"].info.run_id and one.data.metrics["best/overall"] == 0.9
    assert one.info.end_time == first["a"].info.end_time, "else its duration means nothing"
    assert shown(root, CURVES).keys() == {"a . s0", "a . s1"}
    # A run of an edited row is needed, though what is published knows nothing of it yet.
    stage = ["paper", "c", "main", "sst", "c", "", "C", ""]
    edited = write_plan(root, {"papers": {"paper": FACTS}, "variants": [stage]})
    finish(root, "c")
    Follower(root, edited).sweep()
    assert shown(root, CURVES).keys() == {"a . s0", "a . s1", "c . s0"}
    publish("a", "b", **rows)
    assert list(shown(root, VIEW)) == ["b", "a"] and shown(root, CURVES).keys() == trained.keys()

    experiment = open_store(root).get_experiment(one.info.experiment_id)
    said = experiment.tags["mlflow.note.content"]
    assert said.startswith("**Sharing.** How much to share?") and FACTS["file"] in said
    columns = json.loads(experiment.tags[view_tag(VIEW)])["selectedColumns"]
    expected = {"metrics.`best/cfimdb`", "metrics.`best/overall/low`", "tags.`not_learned`"}
    assert expected <= {*columns}


@pytest.fixture
def plan(trained_plan: Plan, tmp_path: Path) -> Plan:
    """Return the plan of a copy of the trained results."""
    shutil.copytree(trained_plan.base, tmp_path / "base")
    return plan_of(tmp_path / "base")


def test_runs_that_came_in_are_as_if_they_had_been_trained_here(plan: Plan) -> None:
    here = newest_attempts(plan.root)
    before = {of: attempt.read()[0] for of, attempt in here.items()}
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
    came = {attempt.group: attempt.read()[0] for attempt in attempts(plan.root)}
    assert came.keys() == here.keys() and len(came) == 7
    for group, run in came.items():
        told = before[group]
        assert (run["tags"].pop(Tag.HOST), run["tags"].pop(Tag.COMMIT)) == ("elsewhere", "theirs")
        assert run["tags"].items() <= told["tags"].items()
        same = ("name", "experiment", "params", "status")
        assert [run[name] for name in same] == [told[name] for name in same]
        assert [of[:3] for of in run["points"]] == [of[:3] for of in told["points"]]
        record = read_json(plan.root / "store/train" / group[0] / f"seed{group[1]}" / "run.json")
        how = record["outcome"]
        values = {name: (value, step) for name, value, step, *_ in run["points"]}
        assert run["ended"] - run["started"] == pytest.approx(how["seconds"], abs=1e-3)
        best = pytest.approx(how["best_score"]), how["steps"]  # after the only epoch
        assert values.get("best/overall", best) == best
    key = run_folder(plan, "three").parent.name
    table = read_file(run_folder(plan, "three") / "predictions.parquet").to_pylist()
    test = [row for row in table if (row["task"], row["split"]) == ("sst", "test")]
    right = sum(row["prediction"] == row["label"] for row in test)
    told = {name: value for name, value, *_ in came[key, "0"]["points"]}
    assert told["test/sst"] == pytest.approx(right / len(test)) and "best/overall" in told


@pytest.mark.parametrize("end", [None, "FAILED"])
def test_a_result_whose_job_here_did_not_end_well_has_come_in(plan: Plan, end: str | None) -> None:
    """A follower that is killed as it tells of a run also leaves an attempt without an end."""
    key = run_folder(plan, "three").parent.name
    old = newest_attempts(plan.root)[key, "0"]
    old.path.write_bytes(b"".join(old.path.read_bytes().splitlines(keepends=True)[:-1]))
    if end:
        Journal(old.path).end("FAILED")
    log_imported_runs(plan.root, write(plan))
    new = newest_attempts(plan.root)[key, "0"]
    assert new.name > old.name and new.end()["status"] == "FINISHED"


def test_a_damaged_result_is_reported_and_stops_no_other(
    plan: Plan, capfd: pytest.CaptureFixture[str]
) -> None:
    shutil.rmtree(plan.root / "tracking")
    damaged = run_folder(plan, "three")
    write_text(damaged / "run.json", "{")
    log_imported_runs(plan.root, write(plan))
    assert len(attempts(plan.root)) == 6
    (line,) = capfd.readouterr().err.splitlines()
    assert f"seed 0: not in MLflow: {damaged}/run.json: not valid JSON" in line
