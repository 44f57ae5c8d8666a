"""Which files Snakemake is told of: enough to run what must run, in the right order."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from planning import REPOSITORY, TWO_STAGES, planning_folder

from minbert.base.files import write_text
from minbert.plan.pending import Job, Pending, asked, inputs, pending
from minbert.plan.plan import Plan
from minbert.spec.config import load_config
from minbert.spec.resolve import StageRef
from minbert.store.kinds import KINDS

GRID = TWO_STAGES + "  alone: {extends: t, epochs: 20}\n"


@pytest.fixture
def made(tmp_path: Path) -> Plan:
    base = planning_folder(tmp_path, GRID)
    values = {"grids": ["g"], "data": "builtin", "backbone": "builtin", "seeds": [0, 1]}
    return Plan.load({**values, "results": str(base / "results")}, base)


def finish(made: Plan) -> None:
    """Leave the files of every node."""
    for node in made.nodes.values():
        for seed in made.config.seeds if KINDS[node.kind].seeded else (None,):
            for name in node.outputs:
                write_text(node.folder(made.root, seed) / name, "")


def training(made: Plan, variant: str, seed: int = 0) -> Job:
    return made.train(StageRef("hybrid-bert", variant, "main")), seed


def shown(made: Plan, kind: str) -> Job:
    (node,) = [node for node in made.nodes.values() if node.kind == kind]
    return node, None


def folder(made: Plan, job: Job) -> Path:
    return job[0].folder(made.root, job[1])


def told(jobs: Pending, job: Job, *, apart: bool = False) -> list[str]:
    """Return a job's inputs as KIND/FILE."""
    store = jobs.plan.root / "store"
    paths = [Path(path).relative_to(store) for path in inputs(jobs, job, apart=apart)]
    return sorted(f"{path.parts[0]}/{path.name}" for path in paths)


def test_one_file_tells_of_each_job_that_is_waited_for(made: Plan) -> None:
    jobs = pending(made)
    assert told(jobs, training(made, "alone")) == ["tokens/tokens.parquet"]
    assert told(jobs, shown(made, "tokens")) == ["backbone/tokenizer.json", "data/examples.parquet"]
    assert told(jobs, shown(made, "table")) == ["scores/scores.parquet"]


def test_who_waits_for_a_job_waits_for_what_is_before_it(made: Plan) -> None:
    jobs = pending(made)
    assert told(jobs, training(made, "second")) == ["train/model.safetensors"]
    assert told(jobs, shown(made, "scores")) == ["train/predictions.parquet"] * 4  # not of `first`
    assert told(jobs, shown(made, "report")) == ["data/report.json", "index/index.csv"]


def test_machines_that_see_files_late_wait_for_each_job(made: Plan) -> None:
    jobs = pending(made)
    assert told(jobs, training(made, "second"), apart=True) == [
        "backbone/config.json",
        "tokens/tokens.parquet",
        "train/model.safetensors",
    ]
    assert told(jobs, shown(made, "report"), apart=True).count("train/run.json") == 6


@pytest.fixture(scope="module")
def grids(tmp_path_factory: pytest.TempPathFactory) -> Pending:
    """Return the jobs of all grids."""
    config = load_config(REPOSITORY / "config.yaml").model_dump(mode="json")
    results = str(tmp_path_factory.mktemp("grids") / "results")
    values = {"data": "builtin", "backbone": "builtin", "seeds": [0, 1], "results": results}
    return pending(Plan.load({**config, **values}, REPOSITORY))


def test_a_long_grid_has_few_files_for_each_job(grids: Pending) -> None:
    """Snakemake takes a tenth of a millisecond for each, several times over."""
    assert len(grids) > 200
    assert sum(len(inputs(grids, job)) for job in grids) < 5 * len(grids)


def test_weights_are_named_by_each_reader(grids: Pending) -> None:
    """With `keep_weights: false` Snakemake deletes them after the last job that names them."""
    jobs, read = grids, 0
    for job in (job for job in jobs if job[0].kind == "train"):
        for needed, files in jobs.needs(job).items():
            if needed[0].kind == "train":
                read += 1
                assert f"{jobs.folder(needed)}/{files[0]}" in inputs(jobs, job)
    assert read > 20


def test_a_missing_file_beside_the_needed_one_is_named_too(made: Plan) -> None:
    """A job that was killed, or a person, may have left some of its files."""
    finish(made)
    first = training(made, "first")
    (folder(made, first) / "run.json").unlink()
    shutil.rmtree(folder(made, training(made, "second")))
    jobs = pending(made)
    assert set(jobs) >= {first, training(made, "second")}
    found = told(jobs, training(made, "second"))
    assert "train/model.safetensors" in found and "train/run.json" in found


def test_finished_jobs_name_what_is_there(made: Plan) -> None:
    finish(made)
    (folder(made, training(made, "first")) / "model.safetensors").unlink()
    jobs = pending(made)
    assert not jobs
    assert told(jobs, training(made, "second")) == [
        "backbone/config.json",
        "tokens/tokens.parquet",
        "train/history.parquet",
    ]
    shutil.rmtree(folder(made, shown(made, "tokens")))
    assert "tokens/tokens.parquet" not in told(pending(made), training(made, "second"))


def test_all_asks_for_what_nobody_waits_for(made: Plan) -> None:
    report = str(folder(made, shown(made, "report")) / "report.html")
    assert asked(pending(made)) == [str(made.mark), report]
    finish(made)
    assert asked(pending(made)) == [str(made.mark)]
    alone = folder(made, training(made, "alone")) / "history.parquet"
    alone.unlink()
    assert asked(pending(made)) == [str(made.mark), str(alone)]
