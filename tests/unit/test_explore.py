"""Results as frames, tensors and models: what `minbert.open` gives, and what it says is missing."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from own_tasks import NEWS
from trained_root import run_folder

import minbert
from minbert.base.errors import UserError
from minbert.base.files import write_json
from minbert.data.parquet import read_file, write_file
from minbert.evaluate.reading import SCHEMA
from minbert.explore.results import Results
from minbert.model.weights import load_weights
from minbert.plan.plan import Plan
from minbert.spec.task import TASKS
from minbert.store.plans import plan_path, records, write_plan

EXAMPLES = "examples.parquet"


@pytest.fixture
def results(trained_plan: Plan) -> Results:
    return minbert.open(trained_plan.root)


def test_importing_imports_nothing_and_frames_need_no_torch(trained_plan: Plan) -> None:
    heavy = {"torch", "mlflow", "pandas", "pyarrow", "matplotlib", "numpy", "pydantic"}
    code = (
        f"import sys, minbert; print(sorted({heavy} & set(sys.modules)))\n"
        f"r = minbert.open({str(trained_plan.root)!r}); run = r.run('frozen')\n"
        "[r.variants, r.scores, r.specs(), run.history, run.predictions, repr(r)]\n"
        "r.compare('frozen', 'one/three'); print('torch' in sys.modules)"
    )
    words = [sys.executable, "-c", code]
    assert subprocess.run(words, capture_output=True, text=True, check=True).stdout == "[]\nFalse\n"


def test_variants_are_those_of_the_plan(results: Results, trained_plan: Plan) -> None:
    assert results.variants.to_numpy().tolist() == trained_plan.publication["variants"]
    assert repr(results).endswith("base/results: variants of {'one': 6, 'two': 1}>")


def test_settings_histories_and_predictions_are_of_each_stage(
    results: Results, trained_plan: Plan
) -> None:
    specs = results.specs("one/*").set_index(["variant", "stage"])
    assert specs.loc[("later", "main"), "optimiser.lr"] == 0.001  # it is not trained
    assert specs.loc[("staged", "all"), "tasks.para.pairing"] == "siamese"
    assert set(specs.index) >= {("best", "three/main"), ("best", "staged/again")}
    run = results.run("staged")
    for stage, tasks in (("all", ["para"]), ("again", ["sst", "sts"])):
        folder = run_folder(trained_plan, "staged", stage)
        ours = run.history.query("stage == @stage").drop(columns="stage").reset_index(drop=True)
        pd.testing.assert_frame_equal(ours, read_file(folder / "history.parquet").to_pandas())
        for task in tasks:  # those that the stage scores
            theirs = read_file(folder / "predictions.parquet", where={"task": task}).to_pandas()
            ours = run.predictions.query("task == @task").reset_index(drop=True)
            pd.testing.assert_frame_equal(ours[theirs.columns], theirs)
    several = results.histories("one/a*")
    assert set(several["variant"]) == {"adapted"} and set(several["stage"]) == {"a", "b"}
    assert several[["paper", "seed"]].to_numpy().tolist() == [["one", 0]] * len(several)
    every = results.predictions("three")[["paper", "task"]].itertuples(index=False, name=None)
    assert {*every} == {("one", "sst"), ("one", "para"), ("one", "sts"), ("two", "cfimdb")}
    path = run_folder(trained_plan, "staged", "all") / "model.safetensors"
    weights, theirs = run.weights("para"), load_weights(path)
    assert weights.keys() == theirs.keys()
    assert all(bool((weights[name] == theirs[name]).all()) for name in theirs)


def test_sentences_are_those_of_the_examples_as_long_as_they_are_there(
    trained_plan: Plan, root: Path
) -> None:
    pairs = minbert.open(root).run("staged").predictions.query("task == 'para'")
    texts = read_file(trained_plan.sources.data("para").folder(root) / EXAMPLES)
    said = dict(zip(texts["id"].to_pylist(), texts["sentence2"].to_pylist(), strict=True))
    assert [said[of] for of in pairs["id"]] == pairs["sentence2"].tolist()
    for path in (root / "store" / "data").glob(f"*/{EXAMPLES}"):
        path.unlink()
    assert minbert.open(root).run("frozen").predictions["sentence1"].isna().all()


def test_a_model_predicts_as_its_run_did(results: Results) -> None:
    run = results.run("one/three")
    known = run.predictions.query("task == 'sts' and split == 'dev'")
    model = run.model("sts", device="cpu")
    TASKS.use([NEWS])  # as of other results
    made = model(known["sentence1"].tolist(), known["sentence2"].tolist())
    np.testing.assert_allclose(made["prediction"], known["prediction"], rtol=1e-5)
    assert made["sentence1"].tolist() == known["sentence1"].tolist()
    assert not model.module.training


def test_a_model_without_its_tokenizer_names_the_command_that_makes_it(root: Path) -> None:
    (path,) = (root / "store" / "backbone").glob("*/tokenizer.json")
    path.unlink()  # as in results from a bundle with weights
    with pytest.raises(UserError, match=f"{path}: there is no such .*`snakemake --cores 2 {path}"):
        minbert.open(root).run("frozen").model("sst")


def test_the_best_of_others_has_their_runs(results: Results) -> None:
    run = results.run("best")
    assert repr(run) == "<one/best, seed 0: sst, para, sts>"
    assert set(run.history["stage"]) == {"three/main", "staged/again"}
    theirs = results.run("one/three").predictions.query("task == 'para'")
    ours = run.predictions.query("task == 'para'")
    assert ours["prediction"].tolist() == theirs["prediction"].tolist()


def test_scores_are_those_published_of_whole_grids_and_a_part_the_newer_first(
    root: Path, trained_plan: Plan
) -> None:
    results, path = minbert.open(root), root / "tables" / "scores.parquet"
    whole = results.scores
    assert set(whole["variant"]) == {"best"} and whole["value"].eq(0.5).all()
    part = root / "only" / "tables" / "scores.parquet"
    part.parent.mkdir(parents=True)
    both = pd.concat([whole.assign(value=0.125), whole.assign(variant="apart")])
    write_file(part, pa.Table.from_pandas(both, SCHEMA, preserve_index=False))
    ((earlier, record),) = records(root)
    write_json(root / "only/published.json", {"plan": write_plan(root, record | {"below": "only"})})
    pd.testing.assert_frame_equal(results.scores, both.reset_index(drop=True))
    write_json(plan_path(root, earlier), record | {"written": 9e9})
    found = results.scores
    pd.testing.assert_frame_equal(found.iloc[: len(whole)], whole)
    assert set(found.iloc[len(whole) :]["variant"]) == {"apart"}
    for made in (root / "published.json", root / "only" / "published.json", path, part):
        made.unlink()
    assert results.scores.empty
    assert results.variants.to_numpy().tolist() == trained_plan.publication["variants"]


REFUSED: list[tuple[Callable[[Results], object], str]] = [
    (lambda r: r.specs("one/frozn"), r"no variant 'one/frozn', .*Did you mean 'one/frozen'"),
    (lambda r: r.histories("later"), "no run of 'later' has finished yet"),
    (lambda r: r.predictions("frozen", seed=3), "no run of 'frozen' with seed 3 has finished yet"),
    (lambda r: Results(r.root / "tables"), "the folder has no results"),
    (lambda r: r.run("staged").weights(), r"sst, para, sts; name one .*in Python `task=\"sst\"`"),
    (lambda r: r.run("frozen").model("st"), r"no task 'st'; it has .* Did you mean"),
    (lambda r: r.run("frozen").model("sst")(["a", " "]), "example 1: a sentence is empty"),
]


@pytest.mark.parametrize(("ask", "told"), REFUSED)
def test_what_is_not_there_is_named(
    results: Results, ask: Callable[[Results], object], told: str
) -> None:
    with pytest.raises(UserError, match=told):
        ask(results)
