"""Which jobs would run, and which files Snakemake is told of: enough, in the right order."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from factories import finish, make_plan, training
from planning import REPOSITORY, TWO_STAGES

from minbert.plan.outputs import load_plan
from minbert.plan.pending import Job, Pending, asked, inputs, pending
from minbert.plan.plan import Plan
from minbert.spec.config import load_config

GRID = TWO_STAGES + "  alone: {extends: t, epochs: 20}\n"


@pytest.fixture
def made(tmp_path: Path) -> Plan:
    return make_plan(tmp_path, GRID, seeds=[0, 1])


def the(plan: Plan, kind: str) -> Job:
    (node,) = [node for node in plan.nodes.values() if node.kind == kind]
    return node, None


def folder(plan: Plan, job: Job) -> Path:
    return job[0].folder(plan.root, job[1])


def told(jobs: Pending, job: Job, *, apart: bool = False) -> list[str]:
    """Return a job's inputs as KIND/FILE."""
    store = jobs.plan.root / "store"
    paths = [Path(path).relative_to(store) for path in inputs(jobs, job, apart=apart)]
    return sorted(f"{path.parts[0]}/{path.name}" for path in paths)


def test_only_what_is_missing_runs(made: Plan) -> None:
    assert {node.kind for node, _ in pending(made)} == {kind for kind, _ in made.nodes}
    finish(made)
    assert pending(made) == {}
    shutil.rmtree(made.root / "store" / "tokens")
    assert pending(made) == {}, "only finished jobs need it"
    (folder(made, (training(made, "alone"), 1)) / "run.json").unlink()
    found = pending(made)
    assert set(found) == {(training(made, "alone"), 1), the(made, "tokens")}


def test_weights_that_were_let_go_are_trained_again_if_needed(made: Plan, tmp_path: Path) -> None:
    finish(made)
    weights = folder(made, (training(made, "first"), 0)) / "model.safetensors"
    weights.unlink()
    assert pending(made) == {}
    after = make_plan(tmp_path, GRID.replace("2e-4", "3e-4"), seeds=[0, 1])
    found = pending(after)
    assert found[training(after, "first"), 0] == "model.safetensors was deleted and is needed again"
    assert found[training(after, "second"), 0] == ""
    assert (training(after, "first"), 1) not in found


@pytest.mark.parametrize(
    ("kind", "waits"),
    [
        ("alone", ["tokens/tokens.parquet"]),
        ("tokens", ["backbone/tokenizer.json", "data/examples.parquet"]),
        ("table", ["scores/scores.parquet"]),
        # Who waits for a job waits for what is before it.
        ("second", ["train/model.safetensors"]),
        ("scores", ["train/run.json"] * 4),  # not of `first`
        ("report", ["index/index.csv", "rows/rows.parquet"]),
    ],
)
def test_one_file_tells_of_each_job_waited_for(made: Plan, kind: str, waits: list[str]) -> None:
    job = (training(made, kind), 0) if kind in ("alone", "second") else the(made, kind)
    assert told(pending(made), job) == waits


def test_machines_that_see_files_late_wait_for_each_job(made: Plan) -> None:
    assert told(pending(made), (training(made, "second"), 0), apart=True) == [
        "backbone/config.json",
        "tokens/tokens.parquet",
        "train/model.safetensors",
    ]


@pytest.fixture(scope="module")
def grids(tmp_path_factory: pytest.TempPathFactory) -> Pending:
    """Return the jobs of all grids."""
    config = load_config([REPOSITORY / "config.yaml"]).model_dump(mode="json")
    results = str(tmp_path_factory.mktemp("grids") / "results")
    values = {"data": "builtin", "backbone": "builtin", "seeds": [0, 1], "results": results}
    return pending(load_plan({**config, **values}, REPOSITORY))


def test_a_long_grid_has_few_files_for_each_job(grids: Pending) -> None:
    """Snakemake takes a tenth of a millisecond for each, several times over."""
    assert len(grids) > 200
    assert sum(len(inputs(grids, job)) for job in grids) < 5 * len(grids)


def test_weights_are_named_by_each_reader(grids: Pending) -> None:
    """With `keep_weights: false` Snakemake deletes them after the last job that names them."""
    read = 0
    for job in (job for job in grids if job[0].kind == "train"):
        for needed, files in grids.needs(job).items():
            if needed[0].kind == "train":
                read += 1
                assert f"{grids.folder(needed)}/{files[0]}" in inputs(grids, job)
    assert read > 20


def test_a_missing_file_beside_the_needed_one_is_named_too(made: Plan) -> None:
    """A job that was killed, or a person, may have left some of its files."""
    finish(made)
    first, second = ((training(made, name), 0) for name in ("first", "second"))
    (folder(made, first) / "run.json").unlink()
    shutil.rmtree(folder(made, second))
    jobs = pending(made)
    assert set(jobs) >= {first, second}
    assert {"train/model.safetensors", "train/run.json"} <= {*told(jobs, second)}


def test_finished_jobs_name_what_is_there(made: Plan) -> None:
    finish(made)
    (folder(made, (training(made, "first"), 0)) / "model.safetensors").unlink()
    second = training(made, "second"), 0
    assert told(pending(made), second) == [
        "backbone/config.json",
        "tokens/tokens.parquet",
        "train/history.parquet",
    ]
    shutil.rmtree(folder(made, the(made, "tokens")))
    assert "tokens/tokens.parquet" not in told(pending(made), second)


def test_all_asks_for_what_nobody_waits_for(made: Plan) -> None:
    report = str(folder(made, the(made, "report")) / "report.html")
    assert asked(pending(made)) == [str(made.mark), report]
    finish(made)
    assert asked(pending(made)) == [str(made.mark)]
    alone = folder(made, (training(made, "alone"), 0)) / "history.parquet"
    alone.unlink()
    assert asked(pending(made)) == [str(made.mark), str(alone)]
