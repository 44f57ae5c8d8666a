"""Single examples in the report: the worst of a paper."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from figure_files import SIZES
from reporting import HARM, PAPER, SEEDS

from minbert.evaluate.predictions import read_predicted
from minbert.publish.packed import without_unread_scores
from minbert.report.floors import judge
from minbert.report.material import Material
from minbert.report.runs import read_runs
from minbert.report.warnings import find_warnings
from minbert.report.worst import WORST, over_runs, worst

TASKS = ("sst", "para", "sts")


def files(material: Material, task: str, variant: str = "1-bert") -> list[Path]:
    scores = material.trained(PAPER)
    wanted = (variant, task)
    return next(material.predictions(at) for of, at in scores if (of.variant, of.measure) == wanted)


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


def test_tasks_whose_texts_are_not_there_are_named_and_have_no_examples(material: Material) -> None:
    def warned() -> dict[str, list[str]]:
        runs, verdicts = read_runs(material), judge(material)
        return dict(find_warnings(material, runs, verdicts, [], []))

    path = material.job.need("examples.sst")
    assert not any("from a bundle" in said for said in warned())
    away = path.rename(path.with_name("away"))
    try:
        assert [of for said, of in warned().items() if "from a bundle" in said] == [["SST"]]
        assert {row.task for row in worst(material, PAPER)} == {"para", "sts"}
    finally:
        away.rename(path)


def test_the_worst_examples_have_the_largest_mean_error(material: Material) -> None:
    rows = worst(material, PAPER)
    assert [row.task for row in rows] == [task for task in TASKS for _ in range(WORST)]
    variants = {of.variant for of, _ in material.trained(PAPER) if of.measure == "para"}
    paths = {path for name in variants for path in files(material, "para", name)}
    of_runs = over_runs("para", read_predicted(paths, "para"))
    first = next(row for row in rows if row.task == "para")
    assert first.error == f"{of_runs.error.max():.2f}" and first.runs == len(paths)
    assert first.right == of_runs.right[of_runs.error.argmax()]


def test_texts_are_whole_lines_without_what_hides_them(
    material: Material, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = [row.texts for row in worst(material, PAPER) if row.task == "para"]
    assert all(len(pair) == 2 and pair[1].startswith("another ") for pair in texts)
    assert any(HARM in first and "[31m" in first and "\x1b" not in first for first, _ in texts)
    monkeypatch.setattr("minbert.report.worst.LONGEST", 20)
    cut = [text for row in worst(material, PAPER) for text in row.texts]
    assert max(map(len, cut)) == 20 and all(len(text) < 20 or text[-1] == "…" for text in cut)
