"""Runs of results that no job here told of, as they came in a bundle, in a real MLflow."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from mlflow.entities import Run
from trained_root import plan_of, run_folder

from minbert.base.files import read_json, write_json, write_text
from minbert.plan.describe import write
from minbert.plan.plan import Plan
from minbert.track.follower import Follower
from minbert.track.journal import attempts, newest_attempts
from minbert.track.runs import log_imported_runs
from minbert.track.store import Tag, open_store

OLD = "0123456789abcdef"


@pytest.fixture
def plan(trained_plan: Plan, tmp_path: Path) -> Plan:
    """Return the plan of a copy of the trained results."""
    shutil.copytree(trained_plan.base, tmp_path / "base")
    return plan_of(tmp_path / "base")


def stored(plan: Plan, store: Path) -> dict[str, Run]:
    """Let a follower store all there is; return the newest run by key."""
    if not (plan.root / "mlflow.db").exists():
        shutil.copy(store, plan.root)
    Follower(plan.root, plan=write(plan)).finish()
    opened = open_store(plan.root)
    return {
        run.data.tags[Tag.KEY]: run
        for paper in ("one", "two")
        for run in opened.runs("", opened.experiment(paper))
        if Tag.SUPERSEDED not in run.data.tags
    }


def test_runs_that_came_in_are_as_if_they_had_been_trained_here(
    trained_plan: Plan, plan: Plan, tmp_path: Path, mlflow_store: Path
) -> None:
    local = tmp_path / "local"
    shutil.copytree(trained_plan.base, local)
    here = stored(plan_of(local), mlflow_store)
    for kind in ("tracking", "store/tokens", "store/data", "store/features"):
        shutil.rmtree(plan.root / kind)
    for path in (plan.root / "store" / "train").rglob("run.json"):
        record = read_json(path)
        record["environment"]["commit"] = "theirs"
        write_json(path, record)
    came = stored(plan, mlflow_store)
    assert came.keys() == here.keys() and len(came) == 7
    for key, run in came.items():
        ours = here[key]
        assert run.info.run_name == ours.info.run_name and run.info.status == "FINISHED"
        assert run.data.params == ours.data.params
        assert run.data.metrics == pytest.approx(ours.data.metrics)
        tags = {Tag.COMMIT: "theirs", "minbert.host": "elsewhere"}
        differing = {name for name in run.data.tags if run.data.tags[name] != ours.data.tags[name]}
        assert differing == {*tags, Tag.ATTEMPT}
        assert run.data.tags.items() >= tags.items()
        assert run.info.end_time == pytest.approx(ours.info.end_time, abs=60_000)
        assert run.info.end_time - run.info.start_time == pytest.approx(
            1000 * run.data.metrics["cost/seconds"], abs=5
        )
        assert not run.inputs.dataset_inputs and ours.inputs.dataset_inputs
    before = [attempt.name for attempt in attempts(plan.root)]
    stored(plan, mlflow_store)
    assert [attempt.name for attempt in attempts(plan.root)] == before, "each is told of once"


def test_what_was_trained_here_is_not_told_of_again(plan: Plan) -> None:
    before = [attempt.name for attempt in attempts(plan.root)]
    log_imported_runs(plan.root, write(plan))
    assert [attempt.name for attempt in attempts(plan.root)] == before


@pytest.mark.parametrize("end", [None, "FAILED"])
def test_a_result_whose_job_here_did_not_end_well_has_come_in(plan: Plan, end: str | None) -> None:
    """A follower that is killed as it tells of a run also leaves an attempt without an end."""
    key = run_folder(plan, "three").parent.name
    old = newest_attempts(plan.root)[key, "0"]
    path = old.path / "end.json"
    said = read_json(path)
    path.unlink()
    if end:
        write_json(path, said | {"status": end})
    log_imported_runs(plan.root, write(plan))
    new = newest_attempts(plan.root)[key, "0"]
    assert new.name > old.name and new.status == "FINISHED"


def test_a_result_that_was_carried_over_is_told_of_under_its_new_key(plan: Plan) -> None:
    key = run_folder(plan, "three").parent.name
    old = newest_attempts(plan.root)[key, "0"]
    old.path.rename(old.path.with_name(old.name.replace(key, OLD)))
    before = len(attempts(plan.root))
    log_imported_runs(plan.root, write(plan))
    assert len(attempts(plan.root)) == before + 1
    assert newest_attempts(plan.root)[key, "0"].status == "FINISHED"


def test_a_damaged_result_is_reported_and_stops_no_other(
    plan: Plan, capfd: pytest.CaptureFixture[str]
) -> None:
    shutil.rmtree(plan.root / "tracking")
    damaged = run_folder(plan, "three")
    write_text(damaged / "run.json", "{}")
    log_imported_runs(plan.root, write(plan))
    assert len(attempts(plan.root)) == 6
    (line,) = capfd.readouterr().err.splitlines()
    assert line.startswith(f"tracking: {damaged}: not in MLflow: {damaged}/run.json is damaged")
