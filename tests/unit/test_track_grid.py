"""The grid's own run: from what is published to MLflow, once, with its model, card and address."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from following import log, results, start, stored_run

from minbert.base.files import write_json
from minbert.evaluate.reading import SCHEMA
from minbert.spec.protocol import Measured
from minbert.store.plans import description_path, plan_path, read_plan, write_plan
from minbert.track.follower import Follower
from minbert.track.journal import attempts
from minbert.track.papers import describe
from minbert.track.runs import record_grids
from minbert.track.store import open_store

SHOWN = {
    "tables/p.md": "| a |",
    "tables/claims.md": "claims",
    "tables/other.md": "another paper's",
    "figures/p/curve.png": "curve",
    "figures/other/curve.png": "another paper's",
    "figures/all/ranking.png": "ranking",
}
FACTS = {
    "title": "Sharing",
    "description": "How much\n to share?",
    "rule": "plain",
    "file": "workflow/grids/p.yaml",
    "seeds": [0, 1],
    "source": "https://course.example/data",
    "backbone": "google-bert/bert-base-uncased",
    "revision": "abc",
    "datasets": {"cfimdb": "d2", "sst": "d1"},
    "variants": {
        "one": {"label": "One", "tasks": {"sst": "k1", "cfimdb": "k1"}},
        "two": {"label": "Two", "tasks": {"sst": "k2", "cfimdb": "k3"}},
    },
}
VALUES = {("one", 0): 0.5, ("one", 1): 0.7, ("two", 0): 0.71, ("two", 1): 0.59}


@pytest.fixture(autouse=True)
def _own_store(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)


@pytest.fixture
def root(tmp_path: Path, mlflow_store: Path) -> Path:
    """What `publish` finds when the grid of paper `p` is done: tables, figures, scores, weights."""
    root = results(tmp_path.resolve(), mlflow_store)
    products = {}
    for name, text in SHOWN.items():
        for path in (root / "keyed" / name.replace("/", "-"), root / name):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        products[name] = str(root / "keyed" / name.replace("/", "-"))
    about: dict[str, Any] = {"paper": "p", "split": "dev", "key": "k"}
    rows = []
    for (variant, seed), value in VALUES.items():
        row = about | {"variant": variant, "seed": seed}
        rows.append(row | {"task": "overall", "metric": "plain", "value": value, "floor": 0.3})
        # Seed 1 of `two` has not learnt sst.
        sst = {"value": value / 2, "floor": 0.25, "p_floor": seed / 10, "constant": False}
        rows.append(row | {"task": "sst", "metric": "accuracy"} | sst)
    pq.write_table(pa.Table.from_pylist(rows, schema=SCHEMA), root / "tables" / "scores.parquet")
    for key in ("k1", "k2", "k3"):
        need = {"kind": "backbone", "key": "b", "seed": None}
        needs = {f"backbone.{n}": {**need, "file": n} for n in ("config.json", "tokenizer.json")}
        described = {"kind": "train", "key": key, "spec": {"stage": {"tasks": {}}}, "code": {}}
        write_json(description_path(root, "train", key), described | {"needs": needs})
        for seed in (0, 1):
            folder = root / "store" / "train" / key / f"seed{seed}"
            folder.mkdir(parents=True)
            (folder / "model.safetensors").write_text(f"{key} {seed}")
            ran = {"outcome": {"seconds": 1}, "environment": {"commit": f"{key}-{seed}"}}
            write_json(folder / "run.json", ran)
    for name in ("config.json", "tokenizer.json"):
        write_json(root / "store" / "backbone" / "b" / name, {})
    counted = {"rows": {"train": 8544, "dev": 1101, "test": 2210}}
    write_json(root / "store" / "data" / "d1" / "report.json", counted)
    listed = {"papers": {"p": FACTS}, "products": products, "tracking": True}
    write_plan(root, listed)
    return root


def plan(root: Path) -> str:
    """Return the name of the only record."""
    (path,) = plan_path(root, "").parent.iterdir()
    return path.stem


def record(root: Path, complete: bool = True) -> list[str]:
    record_grids(root, read_plan(root, plan(root)), complete)
    return [a.name for a in attempts(root) if a.run["key"] == "grid-p"]


def artifacts(root: Path, run: Any) -> dict[str, str]:
    folder = root / "mlartifacts" / "p" / run.info.run_id / "artifacts"
    return {str(p.relative_to(folder)): p.read_text() for p in folder.rglob("*") if p.is_file()}


def test_tables_figures_and_the_best_model_are_a_run(root: Path) -> None:
    weights = root / "alone.safetensors"
    weights.write_text("a run that is on its own")
    journal = start(root, "k9", experiment="p", tags={"minbert.select": "plain"})
    log(journal, range(3))
    best_row = Measured(3, 1, "best", "overall", "plain", 0.99, 1.0)
    journal.end("FINISHED", artifacts={"model.safetensors": weights}, rows=[best_row])
    Follower(root, plan=plan(root)).finish()
    client = open_store(root).client
    before = client.get_model_version_by_alias("minbert-p", "best")
    assert before.run_id == stored_run(root, journal.folder).info.run_id

    (name,) = record(root)
    Follower(root, plan=plan(root)).finish()
    run = stored_run(root, name)
    assert run.info.status == "FINISHED"
    found = artifacts(root, run)
    card = found.pop("model/README.md")
    assert found == {
        "tables/p.md": "| a |",
        "tables/claims.md": "claims",
        "figures/curve.png": "curve",
        "figures/all/ranking.png": "ranking",
        # Means are .60 and .65; of `two` seed 0 is the better. It has a model for each task.
        "model/sst.safetensors": "k2 0",
        "model/cfimdb.safetensors": "k3 0",
        "model/sst.json": found["model/sst.json"],
        "model/cfimdb.json": found["model/cfimdb.json"],
        **dict.fromkeys(("model/config.json", "model/tokenizer.json"), found["model/config.json"]),
    }
    for said in (
        "# p: two",
        "seed 0. Trained by commit k2-0, k3-0. Stages: ",
        "0.6500, the mean of 2 seeds; this seed 0.7100",
        "| sst | accuracy | dev | 0.3550 |",
        "| sst | 8544 | 1101 | 2210 | `d1` |",
        "- sst: Stanford Sentiment Treebank",
        "- backbone `google-bert/bert-base-uncased`: Apache 2.0",
    ):
        assert said in card
    assert card.index("- sst:") < card.index("- cfimdb:")

    best = client.get_model_version_by_alias("minbert-p", "best")
    assert best.run_id == run.info.run_id and best.description == card
    assert best.source == f"{run.info.artifact_uri}/model"
    assert best.tags["variant"] == "two" and best.tags["seed"] == "0"
    assert best.tags["score"] == "0.710000"
    # The table's row has the means over seeds, and a name that says whose they are.
    assert run.info.run_name == "grid . best: two" and run.data.params["variant"] == "two"
    wanted = {"best/overall": 0.65, "best/sst": 0.325, "floor/overall": 0.3, "floor/sst": 0.25}
    assert run.data.metrics == pytest.approx(wanted, abs=1e-9)
    assert run.data.tags["not_learned"] == "sst"
    assert not {"learned", "constant"} & run.data.tags.keys()


def test_a_damaged_record_is_left_out_of_the_card(root: Path) -> None:
    (root / "store" / "train" / "k2" / "seed0" / "run.json").write_text("")
    (root / "store" / "data" / "d1" / "report.json").write_text("{}")
    record(root)
    (card,) = (root / "tracking").glob("*/card.md")
    told = card.read_text()
    assert "Trained by commit k3-0, unknown." in told and "| sst | ? | ? | ? | `d1` |" in told


def test_what_is_published_again_as_it_was_makes_no_second_run(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (first,) = record(root)
    monkeypatch.setattr("minbert.track.runs.commit", lambda: "another")
    assert record(root) == [first]
    Path(read_plan(root, plan(root))["products"]["tables/p.md"]).write_text("| b |")
    assert record(root) == [first, (second := record(root)[-1])]
    Follower(root, plan=plan(root)).finish()
    assert stored_run(root, first).data.tags["minbert.superseded"] == second
    assert artifacts(root, stored_run(root, second))["tables/p.md"] == "| b |"


def test_one_that_was_killed_is_recorded_again(root: Path) -> None:
    (first,) = record(root)
    (root / "tracking" / first / "end.json").unlink()
    assert len(record(root)) == 2
    Follower(root, plan=plan(root)).finish()
    assert stored_run(root, first).info.status == "KILLED"


def test_if_weights_were_not_kept_there_is_no_model(root: Path) -> None:
    (root / "store" / "train" / "k2" / "seed0" / "model.safetensors").unlink()
    (name,) = record(root, complete=False)
    Follower(root, plan=plan(root)).finish()
    run = stored_run(root, name)
    assert not any(path.startswith("model/") for path in artifacts(root, run))
    assert "minbert.score" not in run.data.tags and run.data.tags["minbert.complete"] == "False"
    assert open_store(root).client.search_registered_models("name = 'minbert-p'") == []


def test_the_experiment_says_what_it_compares_and_shows_the_papers_columns(root: Path) -> None:
    (name,) = record(root)
    Follower(root, plan=plan(root)).finish()
    run = stored_run(root, name)
    client = open_store(root).client
    experiment = client.get_experiment_by_name("p")
    assert experiment is not None
    said = experiment.tags["mlflow.note.content"]
    assert said.startswith("**Sharing.** How much to share?")
    assert "`workflow/grids/p.yaml`, 2 variants" in said and "seeds 0, 1" in said
    address = f"#/experiments/{experiment.experiment_id}/runs/{run.info.run_id}"
    assert f"[the grid's own run]({address}?" in said
    assert f"({address}/artifacts/tables/p.md?" in said
    view = json.loads(experiment.tags["mlflow.sharedViewState.minbert"])
    metrics = [column for column in view["selectedColumns"] if column.startswith("metrics")]
    assert metrics == [f"metrics.`best/{name}`" for name in ("overall", "sst", "cfimdb")]
    assert view["orderByKey"] == "metrics.`best/overall`" and not view["orderByAsc"]
    grouped = view["groupBy"]
    assert [key["groupByData"] for key in grouped["groupByKeys"]] == ["variant", "stage"]
    assert grouped["aggregateFunction"] == "average"
    assert {"tags.`learned`", "tags.`not_learned`"} <= set(view["selectedColumns"])

    # What a person writes there stays; without a plan what the plan wrote stays.
    describe(open_store(root), "p", None)
    assert client.get_experiment(experiment.experiment_id).tags["mlflow.note.content"] == said
    client.set_experiment_tag(experiment.experiment_id, "mlflow.note.content", "mine")
    changed = {**FACTS, "title": "Renamed"}
    describe(open_store(root), "p", changed)
    assert client.get_experiment(experiment.experiment_id).tags["mlflow.note.content"] == "mine"
    client.set_experiment_tag(experiment.experiment_id, "mlflow.note.content", said)
    describe(open_store(root), "p", {**changed, "seeds": [0]})
    one_seed = client.get_experiment(experiment.experiment_id).tags
    assert "groupBy" not in json.loads(one_seed["mlflow.sharedViewState.minbert"])
    told = client.get_experiment(experiment.experiment_id).tags["mlflow.note.content"]
    assert told.startswith("**Renamed.**")
