"""Single examples in the report: the worst of a paper, and those that train has, too."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from factories import predictions, put_rows
from reporting import HARM, job_of

from minbert.data.examples import ROWS
from minbert.evaluate.reading import Of, Predicted, Score, over_runs
from minbert.plan.plan import Plan
from minbert.report.make import (
    WORST,
    Paper,
    cases,
    leaked,
    predicted,
    read_papers,
    worst,
)
from minbert.store.job import Job


@pytest.fixture(scope="module")
def job(reported: Plan) -> Job:
    return job_of(reported, reported.shown["report"])


@pytest.fixture(scope="module")
def paper(job: Job) -> Paper:
    (paper,) = read_papers(job)
    return paper


SURE = np.full((3, 2, 5), 0.1)
SURE[:, 0, 0], SURE[:, 1, 3] = [0.6, 0.4, 0.2], [0.9, 0.3, 0.0]


@pytest.mark.parametrize(
    ("task", "label", "prediction", "scores", "said", "error", "right"),
    [
        ("sst", [0, 3], [[0, 3], [0, 1], [2, 1]], SURE, [0, 1], [0.6, 0.6], [2 / 3, 1 / 3]),
        # A lean bundle has no probabilities of classes: an error is 1 or 0.
        (
            "sst",
            [0, 3],
            [[0, 3], [0, 1], [2, 1]],
            SURE[:, :, :0],
            [0, 1],
            [1 / 3, 2 / 3],
            [2 / 3, 1 / 3],
        ),
        (
            "para",
            [1, 0],
            [[1, 0], [0, 0]],
            [[[0.8], [0.3]], [[0.4], [0.1]]],
            [0, 0],
            [0.4, 0.2],
            [0.5, 1],
        ),
        (
            "sts",
            [1, 4],
            [[1.4, 2], [1.6, 5]],
            [[[1.4], [2]], [[1.6], [5]]],
            [1.5, 3.5],
            [0.5, 1.5],
            [0.5, 0],
        ),
    ],
)
def test_predictions_are_taken_together_over_runs(
    task: str, label: Any, prediction: Any, scores: Any, said: Any, error: Any, right: Any
) -> None:
    one = Predicted(["a", "b"], *(np.array(of, float) for of in (label, prediction, scores)))
    found = over_runs(task, one)
    for of, wanted in zip(found, (said, error, right), strict=True):
        np.testing.assert_allclose(of, wanted)


def test_the_worst_examples_have_the_largest_mean_error(
    job: Job, paper: Paper, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = list(worst(job, paper))
    tasks = [row["task"] for row in rows]
    assert tasks == [title for title in ("SST", "Paraphrase", "STS") for _ in range(WORST)]
    one = predicted(job, paper, "para")
    over = over_runs("para", one)
    first = next(row for row in rows if row["task"] == "Paraphrase")
    assert first["error"] == f"{over.error.max():.2f}"
    runs = len(one.prediction)
    assert first["right"] == f"{over.right[over.error.argmax()] * runs:.0f} of {runs}"
    texts = [row["texts"] for row in rows if row["task"] == "Paraphrase"]
    assert all(len(pair) == 2 and pair[1].startswith("another ") for pair in texts)
    assert any(HARM in first and "[31m" in first and "\x1b" not in first for first, _ in texts)
    one = predicted(job, paper, "sts")
    over = over_runs("sts", one)
    values = [f"{of[over.error.argmax()]:.3g}" for of in (one.label, over.said)]
    first = next(row for row in rows if row["task"] == "STS")
    assert [first["label"], first["said"]] == values
    monkeypatch.setattr("minbert.report.make.LONGEST", 20)
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
SAID = "p: SST accuracy without 1 of 8 examples: median -0.0089, from -0.1250 to +0.0000"


@pytest.mark.parametrize(("in_train", "said"), [("az", [SAID]), ("", []), ("abcdefgh", [])])
def test_the_report_has_what_leaked_examples_add(
    in_train: str, said: list[str], tmp_path: Path
) -> None:
    rows = [
        {"id": name, "split": "dev", "label": 1.0, "in_train": name in in_train}
        for name in "abcdefghz"  # z is in the half of dev that chose the epochs
    ]
    put_rows(tmp_path / "rows", rows, ROWS)
    for variant, seeds in RIGHT.items():
        for seed, (whole, clean) in enumerate(seeds):
            right = [whole > clean, *(n < clean for n in range(7))]
            lines = [
                (name, "sst", "dev", float(one), 1.0)
                for name, one in zip("abcdefgh", right, strict=True)
            ]
            predictions(tmp_path / f"run.{variant}.{seed}" / "predictions.parquet", *lines)
    job: Any = SimpleNamespace(
        needs=lambda _: {"sst": tmp_path / "rows"}, need=lambda name: tmp_path / name / "run.json"
    )
    trained = {Of(v, "dev", "sst"): {n: Score(0, v) for n in (0, 1)} for v in RIGHT}
    paper = Paper("p", {}, trained)
    assert list(leaked(job, [paper])) == said
