"""Results as frames, tensors and models: what `minbert.open` gives, and what it says is missing."""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from own_tasks import NEWS, using
from trained_root import run_folder

import minbert
from minbert.base.errors import UserError
from minbert.base.files import read_json
from minbert.data.parquet import read_file
from minbert.evaluate.scoring import score_task
from minbert.explore.results import Results
from minbert.explore.run import Run
from minbert.model.weights import load_weights
from minbert.plan.plan import Plan
from minbert.spec.resolve import StageRef
from minbert.spec.task import TASKS
from minbert.track.journal import Journal

EXAMPLES = "examples.parquet"
HEAVY = {"torch", "mlflow", "pandas", "pyarrow", "matplotlib", "numpy", "pydantic"}


@pytest.fixture(autouse=True)
def _tasks() -> Iterator[None]:
    with using():
        yield


@pytest.fixture
def results(trained_plan: Plan) -> Results:
    return minbert.open(trained_plan.root)


@pytest.fixture
def root(trained_plan: Plan, tmp_path: Path) -> Path:
    """A copy of the results, to change."""
    return Path(shutil.copytree(trained_plan.root, tmp_path / "results"))


def test_importing_the_package_imports_nothing() -> None:
    code = f"import sys, minbert; print(sorted({HEAVY} & set(sys.modules)), callable(minbert.open))"
    words = [sys.executable, "-c", code]
    assert subprocess.run(words, capture_output=True, text=True, check=True).stdout == "[] True\n"


def test_frames_need_no_torch(trained_plan: Plan) -> None:
    code = (
        f"import sys, minbert; r = minbert.open({str(trained_plan.root)!r}); "
        "run = r.run('frozen'); "
        "[r.variants, r.runs, r.scores, r.specs(), run.history, run.predictions, repr(r)]; "
        "r.compare('frozen', 'one/three'); print('torch' in sys.modules)"
    )
    words = [sys.executable, "-c", code]
    assert subprocess.run(words, capture_output=True, text=True, check=True).stdout == "False\n"


def content(root: Path) -> dict[str, tuple[str, int]]:
    return {
        str(path): (hashlib.sha256(path.read_bytes()).hexdigest(), path.stat().st_mtime_ns)
        for path in root.rglob("*")
        if path.is_file()
    }


def test_looking_changes_nothing(root: Path) -> None:
    before = content(root)
    results = minbert.open(str(root))
    _ = results.variants, results.runs, results.scores, repr(results)
    _ = results.specs(), results.histories(), results.predictions()
    results.run("frozen").model("sst")("Fine .")
    str(results.compare("one/three", "staged"))
    assert content(root) == before


def test_variants_and_runs_are_those_of_the_plan(results: Results, trained_plan: Plan) -> None:
    assert results.variants.to_numpy().tolist() == trained_plan.publication["variants"]
    runs = results.runs.set_index(["paper", "variant", "stage", "seed"])
    assert len(runs) == len(trained_plan.stages)
    assert runs.loc["one", "later", "main", 0]["state"] == "not run"
    one = runs.loc["one", "frozen", "main", 0]
    record = read_json(run_folder(trained_plan, "frozen") / "run.json")
    assert one["state"] == "finished" and one["parameters"] == record["parameters"]
    assert one["best_epoch"] == record["outcome"]["best_epoch"] and one["device"] == "cpu"
    assert repr(results).endswith("variants of one, two; runs: 8 finished, 1 not run>")


def test_the_state_of_a_run_that_has_not_finished(root: Path, trained_plan: Plan) -> None:
    results = minbert.open(root)

    def state() -> tuple[object, object]:
        (row,) = results.runs.query("variant == 'later'")[["state", "error"]].itertuples(
            index=False
        )
        return tuple(row)

    key = trained_plan.train(StageRef("one", "later", "main")).key
    about = {"experiment": "one", "key": key, "seed": "0", "name": "later"}
    journal = Journal.start(root, about)
    assert state()[0] == "running"
    with pytest.raises(UserError, match=r"not trained yet .*\(stage main, seed 0: running\)$"):
        results.run("later")
    journal.end("KILLED", "SystemExit: stopped by signal 15")
    assert state() == ("interrupted", "SystemExit: stopped by signal 15")
    Journal.start(root, about).end("FAILED", "ValueError: no")
    assert state() == ("failed", "ValueError: no")


def test_settings_are_there_before_a_run(results: Results, trained_plan: Plan) -> None:
    specs = results.specs("one/*").set_index(["variant", "stage"])
    assert specs.loc[("later", "main"), "epochs"] == 2
    assert specs.loc[("later", "main"), "optimiser.lr"] == 0.001
    assert specs.loc[("staged", "all"), "tasks.para.pairing"] == "siamese"
    described = trained_plan.train(StageRef("one", "staged", "again")).spec["stage"]
    ours = results.run("staged").spec["again"]
    assert json.dumps(ours, sort_keys=True) == json.dumps(described, sort_keys=True)
    assert set(specs.index) >= {("best", "three/main"), ("best", "staged/again")}


def test_histories_are_stage_by_stage(results: Results, trained_plan: Plan) -> None:
    history = results.run("staged").history
    for stage in ("all", "again"):
        path = run_folder(trained_plan, "staged", stage) / "history.parquet"
        ours = history[history.stage == stage].drop(columns="stage").reset_index(drop=True)
        pd.testing.assert_frame_equal(ours, read_file(path).to_pandas())
    several = results.histories("one/a*")
    assert set(several["variant"]) == {"adapted"} and set(several["stage"]) == {"a", "b"}
    assert list(several.columns[:4]) == ["paper", "variant", "seed", "stage"]


def test_predictions_are_of_the_stage_that_scores_a_task(
    results: Results, trained_plan: Plan
) -> None:
    ours = results.run("staged").predictions
    for task, stage in (("para", "all"), ("sst", "again"), ("sts", "again")):
        path = run_folder(trained_plan, "staged", stage) / "predictions.parquet"
        theirs = read_file(path, where={"task": task}).to_pandas()
        of_task = ours[ours.task == task].reset_index(drop=True)
        pd.testing.assert_frame_equal(of_task[theirs.columns], theirs)
    texts = read_file(trained_plan.sources.data("para").folder(trained_plan.root) / EXAMPLES)
    said = dict(zip(texts["id"].to_pylist(), texts["sentence2"].to_pylist(), strict=True))
    pairs = ours[ours.task == "para"]
    assert [said[of] for of in pairs["id"]] == pairs["sentence2"].tolist()
    every = results.predictions("three")
    assert set(zip(every["paper"], every["task"], strict=True)) == {
        *(("one", task) for task in ("sst", "para", "sts")),
        ("two", "cfimdb"),
    }


def test_texts_that_were_deleted_are_empty(root: Path) -> None:
    for path in (root / "store" / "data").glob(f"*/{EXAMPLES}"):
        path.unlink()
    predictions = minbert.open(root).run("frozen").predictions
    assert len(predictions) == 48 and predictions["sentence1"].isna().all()


def test_weights_are_those_of_the_tasks_stage(results: Results, trained_plan: Plan) -> None:
    run = results.run("staged")
    path = run_folder(trained_plan, "staged", "all") / "model.safetensors"
    ours, theirs = run.weights("para"), load_weights(path)
    assert ours.keys() == theirs.keys()
    assert all(bool((ours[name] == theirs[name]).all()) for name in theirs)
    with pytest.raises(UserError, match=r"several tasks: sst, para, sts; name one"):
        run.weights()
    assert set(results.run("frozen").weights()) == set(results.run("frozen").weights("sst"))


@pytest.mark.parametrize(("variant", "task"), [("frozen", "sst"), ("one/three", "sts")])
def test_a_model_predicts_as_its_run_did(results: Results, variant: str, task: str) -> None:
    run = results.run(variant)
    known = run.predictions.query("task == @task and split == 'dev'")
    texts = [known["sentence1"]] + [known["sentence2"]] * TASKS[task].pair
    model = run.model(task, device="cpu")
    made = model(*(list(of) for of in texts))
    np.testing.assert_allclose(made["prediction"], known["prediction"], rtol=1e-5)
    assert made["sentence1"].tolist() == known["sentence1"].tolist()
    assert sum(p.numel() for p in model.module.parameters()) > 1000
    assert not model.module.training


def test_a_model_says_what_it_expects(results: Results) -> None:
    run = results.run("one/three")
    pairs, single = run.model("para"), run.model("sst")
    assert len(pairs("a b", "c d")) == 1 and len(single([])) == 0
    with pytest.raises(UserError, match=r"'para' has two sentences .* found 2 first and 0 second"):
        pairs(["a", "b"])
    with pytest.raises(UserError, match=r"'sst' has one sentence .* expected model\(sentences\)"):
        single(["a"], ["b"])
    with pytest.raises(UserError, match="example 1: a sentence is empty, expected one sentence"):
        single(["a", " "])
    with pytest.raises(UserError, match=r"no task 'st'; it has sst, para, sts. Did you mean"):
        run.model("st")


def test_a_model_keeps_its_tasks(results: Results) -> None:
    model = results.run("frozen").model("sst")
    with using(NEWS):
        model(["A film ."])
        assert TASKS.own == ()


def test_the_best_of_others_has_their_runs(results: Results) -> None:
    run = results.run("best")
    assert repr(run) == "<one/best, seed 0: sst, para, sts>"
    assert set(run.history["stage"]) == {"three/main", "staged/again"}
    theirs = results.run("one/three").predictions.query("task == 'para'")
    ours = run.predictions.query("task == 'para'")
    assert ours["prediction"].tolist() == theirs["prediction"].tolist()


def test_scores_are_those_published(results: Results) -> None:
    found = results.scores
    assert set(found["variant"]) == {"best"} and found["value"].eq(0.5).all()


def test_variants_of_a_part_come_after_those_of_whole_grids(root: Path) -> None:
    """What both have is that of the whole."""
    whole = pq.read_table(root / "tables" / "scores.parquet").to_pandas()
    part = whole[whole["variant"] == whole["variant"].iloc[0]].assign(value=0.125)
    more = pd.concat([part, part.assign(variant="apart")])
    folder = root / "only" / "tables"
    folder.mkdir(parents=True)
    pq.write_table(pa.Table.from_pandas(more, preserve_index=False), folder / "scores.parquet")
    found = Results(root).scores
    pd.testing.assert_frame_equal(found.iloc[: len(whole)], whole, check_dtype=False)
    assert set(found.iloc[len(whole) :]["variant"]) == {"apart"}


def test_before_the_first_publication_the_newest_plan_counts(
    root: Path, trained_plan: Plan
) -> None:
    (root / "published.json").unlink()
    shutil.rmtree(root / "tables")
    shutil.rmtree(next((root / "store" / "train").glob(f"{_key(trained_plan, 'frozen')}*")))
    results = minbert.open(root)
    assert results.variants.to_numpy().tolist() == trained_plan.publication["variants"]
    scores = results.scores.query("split == 'dev' and task == 'sst' and metric == 'accuracy'")
    assert set(scores["variant"]) == {"three", "staged", "adapted", "best"}
    (score,) = scores[scores["variant"] == "three"]["value"]
    dev = results.run("one/three").predictions.query("task == 'sst' and split == 'dev'")
    assert score == pytest.approx(score_task("sst", dev["prediction"], dev["label"]))
    assert results.run("staged").tasks == ("sst", "para", "sts")


def _key(plan: Plan, variant: str) -> str:
    return plan.train(StageRef("one", variant, "main")).key


def test_patterns_and_folders_without_results(results: Results, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"no variant 'one/frozn'; .*Did you mean 'one/frozen'"):
        results.specs("one/frozn")
    with pytest.raises(UserError, match="no run of 'later' has finished yet"):
        results.histories("later")
    with pytest.raises(UserError, match=r"no run of 'frozen' with seed 3 has finished yet"):
        results.predictions("frozen", seed=3)
    with pytest.raises(UserError, match=f"{tmp_path}: the folder has no results"):
        minbert.open(tmp_path)


def test_a_run_may_be_of_a_key(results: Results, trained_plan: Plan) -> None:
    key = _key(trained_plan, "frozen")
    run: Run = results.run(f"frozen@{key[:6]}")
    assert run.variant == "frozen" and len(results.specs(f"one/frozen@{key}")) == 1
