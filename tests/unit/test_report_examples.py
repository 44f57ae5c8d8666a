"""Single examples in the report: the worst of a paper, and those that train has, too."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from figure_files import SIZES
from reporting import HARM, SEEDS, job_of

from minbert.data.rows import SCHEMA
from minbert.evaluate.predictions import read_predicted
from minbert.evaluate.reading import Of, Score
from minbert.plan.plan import Plan
from minbert.publish.packed import without_unread_scores
from minbert.report.findings import cases, leaked
from minbert.report.papers import Paper, predicted, read_papers
from minbert.report.worst import WORST, over_runs, worst
from minbert.store.job import Job


@pytest.fixture(scope="module")
def job(reported: Plan) -> Job:
    return job_of(reported, reported.shown["report"])


@pytest.fixture(scope="module")
def paper(job: Job) -> Paper:
    (paper,) = read_papers(job)
    return paper


def files(job: Job, paper: Paper, task: str) -> list[Path]:
    """Return the predictions of one variant."""
    scores = paper.scores[Of("1-bert", "dev", task)]
    runs = (job.need(f"run.{score.key}.{seed}") for seed, score in scores.items())
    return [run.with_name("predictions.parquet") for run in runs]


def test_predictions_are_taken_together_over_runs(job: Job, paper: Paper) -> None:
    paths = files(job, paper, "sst")
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
    binary = read_predicted(files(job, paper, "para"), "para")
    shares = np.abs(binary.label - binary.scores[:, :, 0]).mean(axis=0)
    assert over_runs("para", binary).error == pytest.approx(shares)
    values = read_predicted(files(job, paper, "sts"), "sts")
    said, error, _ = over_runs("sts", values)
    assert (error + 1e-9 >= np.abs(said - values.label)).all()
    assert not (said == np.rint(said)).all()


def test_without_probabilities_an_error_is_one_or_none(
    job: Job, paper: Paper, tmp_path: Path
) -> None:
    """As if one seed had come in a lean bundle, and the others were trained here."""
    first, *others = files(job, paper, "sst")
    pq.write_table(without_unread_scores(pq.read_table(first)), tmp_path / "lean")
    _, error, right = over_runs("sst", read_predicted([tmp_path / "lean", *others], "sst"))
    np.testing.assert_allclose(error, 1 - right / len(SEEDS))
    assert 0 < error.mean() < 1


def test_the_worst_examples_have_the_largest_mean_error(
    job: Job, paper: Paper, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = list(worst(job, paper))
    tasks = [row["task"] for row in rows]
    assert tasks == [title for title in ("SST", "Paraphrase", "STS") for _ in range(WORST)]
    one = predicted(job, paper.trained, "para")
    over = over_runs("para", one)
    first = next(row for row in rows if row["task"] == "Paraphrase")
    assert first["error"] == f"{over.error.max():.2f}"
    assert first["right"] == f"{over.right[over.error.argmax()]:.0f} of {len(one.prediction)}"
    texts = [row["texts"] for row in rows if row["task"] == "Paraphrase"]
    assert all(len(pair) == 2 and pair[1].startswith("another ") for pair in texts)
    assert any(HARM in first and "[31m" in first and "\x1b" not in first for first, _ in texts)
    monkeypatch.setattr("minbert.report.worst.LONGEST", 20)
    cut = [text for row in worst(job, paper) for text in row["texts"]]
    assert max(map(len, cut)) <= 20 and any(text[-1] == "…" for text in cut)


def test_tasks_whose_texts_are_not_there_are_named_and_have_no_examples(
    job: Job, paper: Paper
) -> None:
    path = job.need("examples.sst")
    away = path.rename(path.with_name("away"))
    try:
        assert cases(job, [paper], [], [])["textless"] == ["SST"]
        assert {row["task"] for row in worst(job, paper)} == {"Paraphrase", "STS"}
    finally:
        away.rename(path)


RIGHT = {"v": [(7, 6), (1, 0)], "w": [(8, 7), (0, 0)]}
"""By seed: how many of 8 dev examples a variant has right, and of the 7 that are not in train."""
SAID = "p: SST accuracy without 1 of 8 examples: median -0.0357, most -0.0714 (V)"


@pytest.mark.parametrize(("in_train", "said"), [("az", [SAID]), ("", []), ("abcdefgh", [])])
def test_the_report_has_what_leaked_examples_add(
    in_train: str, said: list[str], tmp_path: Path
) -> None:
    rows = [
        {"id": name, "split": "dev", "label": 1.0, "in_train": name in in_train}
        for name in "abcdefghz"  # z is in the half of dev that chose the epochs
    ]
    pq.write_table(pa.Table.from_pylist(rows, schema=SCHEMA), tmp_path / "rows")
    for variant, seeds in RIGHT.items():
        for seed, (whole, clean) in enumerate(seeds):
            right = [whole > clean, *(n < clean for n in range(7))]
            lines = [
                {"id": name, "task": "sst", "split": "dev", "prediction": float(one)}
                | {"label": 1.0, "scores": [0.0] * 5}
                for name, one in zip("abcdefgh", right, strict=True)
            ]
            (tmp_path / f"run.{variant}.{seed}").mkdir()
            path = tmp_path / f"run.{variant}.{seed}" / "predictions.parquet"
            pq.write_table(pa.Table.from_pylist(lines), path)
    job: Any = SimpleNamespace(
        needs=lambda _: {"sst": tmp_path / "rows"}, need=lambda name: tmp_path / name / "run.json"
    )
    trained = {Of(v, "dev", "sst"): {n: Score(0, v) for n in (0, 1)} for v in RIGHT}
    paper = Paper("p", {}, {}, {name: name.upper() for name in RIGHT}, trained)
    assert list(leaked(job, [paper])) == said
