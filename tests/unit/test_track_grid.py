"""A paper in MLflow: from what is published to the grid's own run, its rows and its model."""

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
from minbert.evaluate.statistics import interval
from minbert.evaluate.table import write_table
from minbert.evaluate.table_rows import read_table
from minbert.store.plans import description_path, plan_path, read_plan, write_plan
from minbert.track.follower import Follower
from minbert.track.grid_run import record_grids
from minbert.track.journal import attempts
from minbert.track.papers import describe
from minbert.track.rows import ROWS
from minbert.track.store import CURVES, VIEW, Tag, open_store, own_store, view_tag

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
    "encoder": "bert, 12 layers, 768 wide, commit abc (google-bert/bert-base-uncased)",
    "datasets": {"cfimdb": "d2", "sst": "d1"},
    "labels": {"one": "One", "two": "Two"},
    "scores": "s1",
}
KEYS = {"one": {"sst": "k1", "cfimdb": "k1"}, "two": {"sst": "k2", "cfimdb": "k3"}}
VALUES = {("one", 0): 0.5, ("one", 1): 0.7, ("two", 0): 0.71, ("two", 1): 0.59}
TABLE = {
    **{"paper": "p", "title": "Sharing", "caption": "", "rule": "plain", "seeds": [0, 1]},
    **{"backbone": "b", "data": "d", "tasks": ["sst", "cfimdb"]},
}
STAGES = [
    ["p", "one", "main", "sst,cfimdb", "k1", "backbone", "One", ""],
    ["p", "two", "sst", "sst", "k2", "backbone", "Two", ""],
    ["p", "two", "cfimdb", "cfimdb", "k3", "k2", "Two", ""],
]


@pytest.fixture
def root(tmp_path: Path, mlflow_store: Path) -> Path:
    """What `publish` finds when the grid of paper `p` is done: tables, figures, scores, weights."""
    root = results(tmp_path.resolve(), mlflow_store)
    for name, text in SHOWN.items():
        for path in (keyed(root, name), root / name):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
    about: dict[str, Any] = {"paper": "p", "split": "dev", "key": "k"}
    rows = []
    for (variant, seed), value in VALUES.items():
        row = about | {"variant": variant, "seed": seed}
        rows.append(row | {"task": "overall", "metric": "plain", "value": value, "floor": 0.3})
        # Seed 1 of `two` has not learnt sst.
        sst = {"value": value / 2, "floor": 0.25, "p_floor": seed / 10, "constant": False}
        for task, key in KEYS[variant].items():
            own = {"task": task, "metric": "accuracy", "key": key}
            rows.append(row | own | (sst if task == "sst" else {"value": 0.4}))
    pq.write_table(pa.Table.from_pylist(rows, schema=SCHEMA), root / "tables" / "scores.parquet")
    make_table(root, "one", "two", "untrained")
    for key in ("k1", "k2", "k3"):
        need = {"kind": "backbone", "key": "b", "seed": None}
        needs = {f"backbone.{n}": {**need, "file": n} for n in ("config.json", "tokenizer.json")}
        spec = {"stage": {"tasks": {}, "trainable": "lora" if key == "k3" else "all"}}
        described = {"kind": "train", "key": key, "spec": spec, "code": {}}
        write_json(description_path(root, "train", key), described | {"needs": needs})
        for seed in (0, 1):
            folder = root / "store" / "train" / key / f"seed{seed}"
            folder.mkdir(parents=True)
            (folder / "model.safetensors").write_text(f"{key} {seed}")
            took = {"seconds": 4 + 2 * seed, "steps": 10, "tokens_per_second": 30}
            ran = {"outcome": took, "environment": {"commit": f"{key}-{seed}", "precision": "bf16"}}
            ran["peak_memory_bytes"] = 100 + seed
            write_json(folder / "run.json", ran)
    for name in ("config.json", "tokenizer.json", "model.safetensors"):
        write_json(root / "store" / "backbone" / "b" / name, {})
    counted = {"rows": {"train": 8544, "dev": 1101, "test": 2210}}
    write_json(root / "store" / "data" / "d1" / "report.json", counted)
    told = {"extra": {}, "needs": {}}
    jobs = {f"train-{key}": told for key in ("k1", "k2", "k3")}
    shown = [(name.partition(".")[0], *keyed(root, name).parts[-3:-1]) for name in SHOWN]
    listed = {"papers": {"p": FACTS}, "shown": shown, "tracking": True, "variants": STAGES}
    listed |= {"jobs": jobs, "files": {}}
    write_plan(root, listed)
    return root


def keyed(root: Path, name: str) -> Path:
    """Return where the file of a plain name is made."""
    kind = {"tables/claims": "claims"}.get(name.partition(".")[0], name.partition("s/")[0])
    return (
        root
        / "store"
        / kind
        / name.partition(".")[0].replace("/", "-")
        / f"{kind}{Path(name).suffix}"
    )


def make_table(root: Path, *variants: str) -> None:
    """Make the paper's table with these rows from its scores, keyed and plain."""
    rows = [{"row": v, "variant": v, "split": "dev", "published": {}} for v in variants]
    table = read_table({**TABLE, "rows": rows}, root / "tables" / "scores.parquet", {})
    write_table(table, root / "made")
    for path in (keyed(root, "tables/p.csv"), root / "tables" / "p.csv"):
        path.write_bytes((root / "made" / "table.csv").read_bytes())


def train(root: Path) -> dict[str, str]:
    """Leave the runs of the grid's seeds; return {name: attempt}."""
    found = {}
    for _, variant, stage, tasks, key, *_ in STAGES:
        for seed in (0, 1):
            about = {"experiment": "p", "name": f"{variant}/{stage} . s{seed}"}
            params = {"variant": variant, "stage": stage, "tasks": tasks, "seed": str(seed)}
            journal = start(root, key, seed, **about, params=params)
            log(journal, range(3))
            journal.end("FINISHED")
            found[about["name"]] = journal.folder.name
    return found


def rows_of(root: Path) -> dict[str, Any]:
    """Return the runs of the view of the paper's table, in its order."""
    client = open_store(root).client
    experiment = client.get_experiment_by_name("p")
    assert experiment is not None
    view = json.loads(experiment.tags[view_tag(VIEW)])
    order = [f"{view['orderByKey']} {'ASC' if view['orderByAsc'] else 'DESC'}"]
    found = client.search_runs(
        [experiment.experiment_id], filter_string=view["searchFilter"], order_by=order
    )
    assert len({run.info.run_name for run in found}) == len(found)
    return {run.info.run_name: run for run in found}


def runs_in(root: Path) -> int:
    store = open_store(root)
    return len(list(store.runs("", store.experiment("p"))))


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
    journal.end("FINISHED", artifacts={"model.safetensors": weights})
    Follower(root, plan=plan(root)).finish()
    client = open_store(root).client
    assert client.search_registered_models() == [], "the grid is not finished"

    (name,) = record(root)
    Follower(root, plan=plan(root)).finish()
    run = stored_run(root, name)
    assert run.info.status == "FINISHED"
    found = artifacts(root, run)
    card = found.pop("model/README.md")
    flavour = json.loads(found.pop("model/MLmodel"))["flavors"]["python_function"]
    assert found == {
        "tables/p.md": "| a |",
        "tables/p.csv": (root / "tables" / "p.csv").read_text(),
        "tables/claims.md": "claims",
        "figures/curve.png": "curve",
        "figures/all/ranking.png": "ranking",
        # Means are .60 and .65; of `two` seed 0 is the better. It has a model for each task.
        "model/sst.safetensors": "k2 0",
        "model/cfimdb.safetensors": "k3 0",
        "model/sst.json": found["model/sst.json"],
        "model/cfimdb.json": found["model/cfimdb.json"],
        # A stage froze the backbone, whose weights are then not in its own.
        "model/backbone/config.json": "{}\n",
        "model/backbone/tokenizer.json": "{}\n",
        "model/backbone/model.safetensors": "{}\n",
    }
    how = flavour["config"]["tasks"]
    assert list(how) == ["cfimdb", "sst"] and how["cfimdb"]["precision"] == "bf16"
    assert how["sst"]["weights"] == "sst.safetensors"
    for said in (
        "# p: two",
        "seed 0. Trained by commit k2-0, k3-0. Stages: ",
        "0.6500, the mean of 2 seeds; this seed 0.7100",
        "| sst | accuracy | dev | 0.3550 |",
        "| sst | 8544 | 1101 | 2210 | `d1` |",
        "- sst: Stanford Sentiment Treebank",
        f"- backbone {FACTS['encoder']}: Apache 2.0",
    ):
        assert said in card
    assert card.index("- sst:") < card.index("- cfimdb:")

    best = client.get_model_version_by_alias("p", "best")
    assert best.run_id == run.info.run_id and best.description == card
    assert best.source == f"{run.info.artifact_uri}/model"
    assert best.tags["variant"] == "two" and best.tags["seed"] == "0"
    assert best.tags["score"] == "0.710000"
    # The table's row has the means over seeds, and a name that says whose they are.
    assert run.info.run_name == "grid" and run.data.params["variant"] == "two"
    wanted = {"best/overall": 0.65, "best/sst": 0.325, "floor/overall": 0.3, "floor/sst": 0.25}
    wanted |= {"best/cfimdb": 0.4}
    found = {name: run.data.metrics[name] for name in wanted}
    assert found == pytest.approx(wanted, rel=1e-7)
    assert run.data.tags["not_learned"] == "sst" and not run.data.tags["learned"]


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
    monkeypatch.setattr("minbert.track.grid_run.commit", lambda: "another")
    assert record(root) == [first]
    keyed(root, "tables/p.md").write_text("| b |")
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
    assert run.data.tags["minbert.complete"] == "False"
    assert open_store(root).client.search_registered_models("name = 'p'") == []


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
    view = json.loads(experiment.tags[view_tag(VIEW)])
    metrics = [column for column in view["selectedColumns"] if column.startswith("metrics.`best")]
    names = ("overall", "sst", "cfimdb", "overall/low", "overall/high")
    assert metrics == [f"metrics.`best/{name}`" for name in names]
    assert {"tags.`learned`", "tags.`not_learned`"} <= set(view["selectedColumns"])

    # What a person writes there stays; without a plan what the plan wrote stays.
    describe(open_store(root), "p", None)
    assert client.get_experiment(experiment.experiment_id).tags["mlflow.note.content"] == said
    client.set_experiment_tag(experiment.experiment_id, "mlflow.note.content", "mine")
    changed = {**FACTS, "title": "Renamed"}
    describe(open_store(root), "p", changed)
    assert client.get_experiment(experiment.experiment_id).tags["mlflow.note.content"] == "mine"
    client.set_experiment_tag(experiment.experiment_id, "mlflow.note.content", f"mine\n{said}")
    describe(open_store(root), "p", changed)
    told = client.get_experiment(experiment.experiment_id).tags["mlflow.note.content"]
    assert told.startswith("**Renamed.**")


def test_until_there_are_rows_the_view_shows_runs(root: Path) -> None:
    store = open_store(root)
    describe(store, "p", FACTS)
    tags = store.client.get_experiment(store.experiment("p")).tags
    assert {"params.`variant`", "params.`seed`"} <= set(
        json.loads(tags[view_tag(VIEW)])["selectedColumns"]
    )


def test_an_interval_ends_where_scores_end(root: Path) -> None:
    """The t interval of two seeds is wide: 0.6 +- 1.27, and of the half 0.3 +- 0.64."""
    record(root)
    Follower(root, plan=plan(root)).finish()
    metrics = rows_of(root)["one"].data.metrics
    found = [metrics[f"best/{of}/{end}"] for of in ("overall", "sst") for end in ("low", "high")]
    assert found == pytest.approx([-0.671, 1.0, 0.0, 0.935], abs=1e-3)


def test_runs_of_variants_that_no_longer_exist_are_marked_until_they_exist_again(
    root: Path,
) -> None:
    trained = train(root)
    whole = read_plan(root, plan(root))

    def marked(stages: list[list[str]]) -> set[str]:
        record_grids(root, whole | {"variants": stages}, complete=True)
        Follower(root, plan=plan(root)).finish()
        found = {name: stored_run(root, attempt) for name, attempt in trained.items()}
        return {name for name, run in found.items() if Tag.SUPERSEDED in run.data.tags}

    assert marked(STAGES) == set()
    assert marked(STAGES[:2]) == {"two/cfimdb . s0", "two/cfimdb . s1"}
    assert marked(STAGES) == set()


def test_each_row_of_the_table_is_a_run_above_the_runs_of_its_seeds(root: Path) -> None:
    trained = train(root)
    record(root)
    Follower(root, plan=plan(root)).finish()
    rows = rows_of(root)
    assert list(rows) == ["two", "one"], "by the mean, without those that are not trained"
    for name, of_overall in (("two", [0.71, 0.59]), ("one", [0.5, 0.7])):
        ours, metrics = interval(of_overall), rows[name].data.metrics
        assert metrics["best/overall"] == pytest.approx(ours.mean) and metrics["n"] == 2
        assert metrics["floor/sst"] == 0.25
        assert rows[name].data.tags["not_learned"] == "sst"
    # Two stages: a seed takes both, and memory is the most that any run held.
    cost = {n: v for n, v in rows["two"].data.metrics.items() if n.startswith("cost/")}
    assert cost == {
        **{"cost/seconds": 10, "cost/steps": 20, "cost/tokens_per_second": 30},
        "cost/peak_memory_bytes": 101,
    }
    assert rows["one"].data.metrics["cost/seconds"] == 5

    experiment = rows["one"].info.experiment_id
    for name, attempt in trained.items():
        run = stored_run(root, attempt)
        above = rows[name.partition("/")[0]]
        assert run.data.tags[Tag.PARENT] == above.info.run_id
    # The other view has what trained, side by side.
    client = open_store(root).client
    view = json.loads(client.get_experiment(experiment).tags[view_tag(CURVES)])
    shown = client.search_runs([experiment], filter_string=view["searchFilter"])
    assert {run.info.run_name for run in shown} == trained.keys()


def test_rows_are_brought_up_to_date_in_place_whatever_is_killed(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    train(root)
    record(root)
    with monkeypatch.context() as patch:  # the follower dies between a row's run and its scores
        patch.setattr("minbert.track.rows.markdown", None)
        Follower(root, plan=plan(root)).finish()
    before = runs_in(root)
    for _ in range(2):
        Follower(root, plan=plan(root)).finish()
    assert runs_in(root) == before + 1, "the other row's"
    first = {name: run.info.run_id for name, run in rows_of(root).items()}
    assert len(first) == 2

    scores = root / "tables" / "scores.parquet"
    table = pq.read_table(scores)
    kept = [row | {"value": 0.9} for row in table.to_pylist() if row["variant"] == "one"]
    pq.write_table(pa.Table.from_pylist(kept, schema=SCHEMA), scores)
    make_table(root, "one")
    record(root)
    Follower(root, plan=plan(root)).finish()
    (one,) = rows_of(root).values()
    assert one.info.run_id == first["one"]
    assert one.data.metrics["best/overall"] == pytest.approx(0.9)

    # A score that the table no longer has.
    kept = [row for row in kept if row["task"] != "cfimdb"]
    pq.write_table(pa.Table.from_pylist(kept, schema=SCHEMA), scores)
    make_table(root, "one")
    record(root)
    Follower(root, plan=plan(root)).finish()
    (one,) = rows_of(root).values()
    assert one.info.run_id != first["one"] and "best/cfimdb" not in one.data.metrics


def test_two_folders_with_one_store_keep_their_rows_apart(root: Path, tmp_path: Path) -> None:
    for folder in (root, other := tmp_path / "other"):
        if folder is other:
            about = {Tag.KIND: "grid", Tag.COMPLETE: "False"}
            journal = start(other, "grid-p", "all", experiment="p", tags=about)
            row = {"variant": "one", "label": "Mine", "seeds": [0], "stages": [], "chosen": False}
            row |= {"metrics": {"best/overall": 0.1}, "tags": {}}
            write_json(journal.folder / ROWS, {"rows": [row], "keys": []})
            journal.end("FINISHED")
        else:
            record(root)
        Follower(folder, own_store(root)).finish()
    store = open_store(root)
    found = store.runs(f"tags.`{Tag.ROW}` = 'one'", store.experiment("p"))
    scores = [
        run.data.metrics["best/overall"] for run in found if Tag.SUPERSEDED not in run.data.tags
    ]
    assert sorted(scores) == pytest.approx([0.1, 0.6])


def test_a_finished_grid_is_one_version_of_the_papers_model(root: Path) -> None:
    client = open_store(root).client

    def versions() -> list[int]:
        Follower(root, plan=plan(root)).finish()
        return sorted(v.version for v in client.search_model_versions("name = 'p'"))

    record(root, complete=False)
    assert versions() == []
    record(root)
    assert versions() == [1]
    record(root, complete=False)  # a seed more, say, that failed
    assert versions() == [1]
    keyed(root, "tables/p.md").write_text("| b |")
    record(root)
    assert versions() == [1, 2]
    assert client.get_model_version_by_alias("p", "best").version == 2
