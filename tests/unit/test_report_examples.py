"""Single examples in the report: the worst of a paper."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from figure_files import SIZES
from reporting import HARM, NOT_RUN, PAPER, SEEDS, job_of, plan_results

from minbert.evaluate.predictions import Predicted
from minbert.figures.predicted import read_predicted
from minbert.plan.plan import Plan
from minbert.publish.packed import without_unread_scores
from minbert.report import predictions
from minbert.report.floors import judge
from minbert.report.material import Material
from minbert.report.predictions import LONGEST, Stage, StagePredictions, read_said, read_texts
from minbert.report.runs import read_runs
from minbert.report.warnings import find_warnings
from minbert.report.worst import WORST, worst

TASKS = ("sst", "para", "sts")


@pytest.fixture(scope="module")
def plan(tmp_path_factory: pytest.TempPathFactory) -> Plan:
    return plan_results(tmp_path_factory.mktemp("examples"))


@pytest.fixture
def material(plan: Plan) -> Material:
    return Material(job_of(plan, plan.shown["report"]))


@pytest.fixture
def said(material: Material) -> dict[Stage, StagePredictions]:
    return read_said(material)


def stage(material: Material, variant: str, task: str) -> Stage:
    stages = material.job.spec["stages"]
    return next(of["key"] for of in stages if of["variant"] == variant), task


def test_predictions_are_taken_together_over_the_seeds(
    material: Material, said: dict[Stage, StagePredictions]
) -> None:
    one = said[stage(material, "1-bert", "sst")]
    paths = material.predictions(stage(material, "1-bert", "sst")[0])
    rows = [
        {row["id"]: row for row in pq.read_table(path).to_pylist() if row["split"] == "dev"}
        for path in paths.values()
    ]
    assert one.seeds == len(SEEDS) == len(rows) and len(one.ids) == SIZES["sst"]
    n = 7
    of = [seed[one.ids[n]] for seed in rows]
    assert one.label[n] == of[0]["label"]
    label = int(one.label[n])
    assert one.error[n] == pytest.approx(np.mean([1 - row["scores"][label] for row in of]))
    assert one.right[n] == sum(row["prediction"] == label for row in of)
    classes = [row["prediction"] for row in of]
    assert classes.count(one.said[n]) == max(map(classes.count, classes))


def test_without_probabilities_an_error_is_one_or_none(material: Material) -> None:
    """As if one seed had come in a lean bundle, and the others were trained here."""
    key, task = stage(material, "1-bert", "sst")
    path = next(iter(material.predictions(key).values()))
    whole = path.read_bytes()
    try:
        pq.write_table(without_unread_scores(pq.read_table(path)), path)
        one = read_said(material)[key, task]
    finally:
        path.write_bytes(whole)
    np.testing.assert_allclose(one.error, 1 - one.right / len(SEEDS))
    assert 0 < one.error.mean() < 1


def test_of_values_the_mean_counts_and_the_distance(
    material: Material, said: dict[Stage, StagePredictions]
) -> None:
    one = said[stage(material, "1-bert", "sts")]
    assert (one.error + 1e-9 >= np.abs(one.said - one.label)).all()
    assert not (one.said == np.rint(one.said)).all()


def test_tasks_whose_texts_are_not_there_are_named(plan: Plan, material: Material) -> None:
    away = material.job.need("examples/sst").rename(plan.root / "examples.parquet")
    try:
        runs, verdicts = read_runs(material), judge(material)
        warned = dict(find_warnings(material, runs, verdicts, [], []))
    finally:
        away.rename(material.job.need("examples/sst"))
    (gone,) = [cases for text, cases in warned.items() if "from a bundle" in text]
    assert gone == ["SST"]
    whole = dict(find_warnings(material, runs, verdicts, [], []))
    assert not any("from a bundle" in text for text in whole)


def test_stages_that_have_not_run_are_left_out(
    material: Material, said: dict[Stage, StagePredictions]
) -> None:
    assert stage(material, NOT_RUN, "sst") not in said
    assert {task for _, task in said} == set(TASKS)


def test_the_worst_examples_have_the_largest_mean_error(
    material: Material, said: dict[Stage, StagePredictions]
) -> None:
    rows = worst(material, PAPER, said)
    assert [row.task for row in rows] == [task for task in TASKS for _ in range(WORST)]
    of_task = [one for (_, task), one in said.items() if task == "para"]
    errors = np.mean([one.error for one in of_task], axis=0)
    first = next(row for row in rows if row.task == "para")
    assert first.id == of_task[0].ids[errors.argmax()] and first.error == f"{errors.max():.2f}"
    assert first.runs == len(SEEDS) * len(of_task)
    assert first.right == sum(one.right[errors.argmax()] for one in of_task)
    assert {row.more for row in rows} == {0}


def test_a_task_without_texts_has_no_worst_examples(
    plan: Plan, material: Material, said: dict[Stage, StagePredictions]
) -> None:
    texts = material.job.need("examples/sst")
    away = texts.rename(plan.root / "away.parquet")
    try:
        assert {row.task for row in worst(material, PAPER, said)} == {"para", "sts"}
    finally:
        away.rename(texts)


def test_examples_that_share_the_last_error_of_the_table_are_counted(
    plan: Plan, material: Material, said: dict[Stage, StagePredictions]
) -> None:
    """As without probabilities, where all that a run gets wrong have the same error."""
    error = np.where(np.arange(SIZES["para"]) % 4 == 0, 1.0, np.arange(SIZES["para"]) == 1)
    tied = {of: one._replace(error=error) if of[1] == "para" else one for of, one in said.items()}
    rows = [row for row in worst(material, PAPER, tied) if row.task == "para"]
    assert {row.error for row in rows} == {"1.00"}
    assert {row.more for row in rows} == {SIZES["para"] // 4 + 1 - WORST}


def test_stages_scored_on_a_half_of_dev_stand_beside_those_of_all(
    material: Material, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As tuned rows beside the papers' own (`selection_split: half`)."""
    halved = material.predictions(stage(material, "1-bert", "sst")[0])

    def read(of_seeds: dict[int, Path], task: str) -> Predicted | None:
        one = read_predicted(of_seeds, task)
        if one is None or of_seeds != halved:
            return one
        return one.of(one.ids[::2])

    monkeypatch.setattr(predictions, "read_predicted", read)
    said = read_said(material)
    of_sst = {tuple(one.ids) for (_, task), one in said.items() if task == "sst"}
    assert [len(ids) for ids in of_sst] == [SIZES["sst"] / 2], "the half that all have"
    assert {row.id for row in worst(material, PAPER, said) if row.task == "sst"} <= {*of_sst.pop()}


def test_texts_are_whole_lines_without_what_hides_them(material: Material) -> None:
    wanted = {"para": {"para-dev-0", "para-dev-1"}}
    texts = read_texts(material, wanted)
    assert set(texts) == {("para", "para-dev-0"), ("para", "para-dev-1")}
    first, second = texts["para", "para-dev-0"]
    assert first == f"train sentence number 0 of para {HARM} [31m"
    assert second.startswith("another ")
    path = material.job.need("examples/sst")
    kept = path.read_bytes()
    try:
        table = pq.read_table(path)
        at = table.column_names.index("sentence1")
        pq.write_table(table.set_column(at, "sentence1", [["word " * 999] * len(table)]), path)
        ((text,),) = read_texts(material, {"sst": {"sst-dev-0"}}).values()
    finally:
        path.write_bytes(kept)
    assert len(text) <= LONGEST and text.endswith("word…")
