"""Single examples in the report: the worst of a paper."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from figure_files import SIZES
from reporting import HARM, PAPER, SEEDS, job_of, plan_results

from minbert.evaluate.predictions import read_predicted
from minbert.plan.plan import Plan
from minbert.publish.packed import without_unread_scores
from minbert.report.floors import judge
from minbert.report.material import Material
from minbert.report.runs import read_runs
from minbert.report.warnings import find_warnings
from minbert.report.worst import LONGEST, WORST, over_runs, worst

TASKS = ("sst", "para", "sts")


@pytest.fixture(scope="module")
def plan(tmp_path_factory: pytest.TempPathFactory) -> Plan:
    return plan_results(tmp_path_factory.mktemp("examples"))


@pytest.fixture
def material(plan: Plan) -> Material:
    return Material(job_of(plan, plan.shown["report"]))


def files(material: Material, task: str, variant: str = "1-bert") -> list[Path]:
    scores = dict(material.trained(PAPER))
    return next(
        material.predictions(by_seed)
        for of, by_seed in scores.items()
        if (of.variant, of.measure) == (variant, task)
    )


def test_predictions_are_taken_together_over_runs(material: Material) -> None:
    paths = files(material, "sst")
    one = read_predicted(paths, "sst")
    said, error, right = over_runs("sst", one)
    rows = [
        {row["id"]: row for row in pq.read_table(path).to_pylist() if row["split"] == "dev"}
        for path in paths
    ]
    assert len(SEEDS) == len(rows) and len(one.ids) == SIZES["sst"]
    n = 7
    of = [seed[one.ids[n]] for seed in rows]
    label = int(one.label[n])
    assert error[n] == pytest.approx(np.mean([1 - row["scores"][label] for row in of]))
    assert right[n] == sum(row["prediction"] == label for row in of)
    classes = [row["prediction"] for row in of]
    assert classes.count(said[n]) == max(map(classes.count, classes))
    values = read_predicted(files(material, "sts"), "sts")
    said, error, _ = over_runs("sts", values)
    assert (error + 1e-9 >= np.abs(said - values.label)).all()
    assert not (said == np.rint(said)).all()


def test_without_probabilities_an_error_is_one_or_none(material: Material, tmp_path: Path) -> None:
    """As if one seed had come in a lean bundle, and the others were trained here."""
    first, *others = files(material, "sst")
    pq.write_table(without_unread_scores(pq.read_table(first)), tmp_path / "lean")
    _, error, right = over_runs("sst", read_predicted([tmp_path / "lean", *others], "sst"))
    np.testing.assert_allclose(error, 1 - right / len(SEEDS))
    assert 0 < error.mean() < 1


def test_tasks_whose_texts_are_not_there_are_named_and_have_no_examples(
    plan: Plan, material: Material
) -> None:
    away = material.job.need("examples.sst").rename(plan.root / "examples.parquet")
    runs, verdicts = read_runs(material), judge(material)
    try:
        warned = dict(find_warnings(material, runs, verdicts, [], []))
        assert {row.task for row in worst(material, PAPER)} == {"para", "sts"}
    finally:
        away.rename(material.job.need("examples.sst"))
    (gone,) = [cases for text, cases in warned.items() if "from a bundle" in text]
    assert gone == ["SST"]
    whole = dict(find_warnings(material, runs, verdicts, [], []))
    assert not any("from a bundle" in text for text in whole)


def test_the_worst_examples_have_the_largest_mean_error(material: Material) -> None:
    rows = worst(material, PAPER)
    assert [row.task for row in rows] == [task for task in TASKS for _ in range(WORST)]
    variants = {of.variant for of, _ in material.trained(PAPER) if of.measure == "para"}
    paths = {path for name in variants for path in files(material, "para", name)}
    of_runs = over_runs("para", read_predicted(paths, "para"))
    first = next(row for row in rows if row.task == "para")
    assert first.error == f"{of_runs.error.max():.2f}" and first.runs == len(paths)
    assert first.right == of_runs.right[of_runs.error.argmax()]


def test_texts_are_whole_lines_without_what_hides_them(material: Material) -> None:
    texts = [row.texts for row in worst(material, PAPER) if row.task == "para"]
    assert all(len(pair) == 2 and pair[1].startswith("another ") for pair in texts)
    assert any(HARM in first and "[31m" in first and "\x1b" not in first for first, _ in texts)
    path = material.job.need("examples.sst")
    kept = path.read_bytes()
    try:
        table = pq.read_table(path)
        at = table.column_names.index("sentence1")
        pq.write_table(table.set_column(at, "sentence1", [["word " * 999] * len(table)]), path)
        ((text, *_), *_) = (row.texts for row in worst(material, PAPER))
    finally:
        path.write_bytes(kept)
    assert len(text) <= LONGEST and text.endswith("word…")
