"""One rule for the best variant: whoever names it agrees, and the best of others is none."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from figure_texts import drawn
from run_files import history

from minbert.evaluate.reading import SCHEMA, Of, read_scores
from minbert.evaluate.score import score_runs
from minbert.evaluate.seeds import ranked, winner
from minbert.figures.inputs import Inputs
from minbert.spec.protocol import OVERALL_TASKS

MEANS = {"chosen": 0.9, "low": 0.4, "high": 0.8, "same": 0.8}
"""`chosen` is the best of others."""


def scores(path: Path) -> Path:
    rows: list[dict[str, Any]] = []
    for variant, mean in MEANS.items():
        about = {"paper": "p", "variant": variant, "task": "overall", "metric": "plain"}
        key = "" if variant == "chosen" else "k"
        for seed, shift in ((0, 0.05), (1, -0.05)):
            rows.append(about | {"seed": seed, "split": "dev", "value": mean + shift, "key": key})
            rows.append(about | {"seed": seed, "split": "test", "value": 1 - mean, "key": key})
    pq.write_table(pa.Table.from_pylist(rows, schema=SCHEMA), path)
    return path


def test_the_best_of_others_does_not_lead_and_the_first_wins_a_tie(tmp_path: Path) -> None:
    path = scores(tmp_path / "s.parquet")
    assert list(ranked(read_scores(path, "p"), "plain")) == ["high", "same", "low"]
    assert next(iter(ranked(read_scores(path, "p"), "plain", "test"))) == "low"
    best = winner(read_scores(path, "p"), "plain")
    assert best and best.variant == "high"
    inputs = Inputs(scores={"p": path}, facts={"rules": {"p": "plain"}})
    names = {name: name for name in ("low", "same", "chosen", "high")}
    figure, notes = drawn("ranking", replace(inputs, variants=names))
    shown = [text.get_text() for text in figure.axes[0].get_yticklabels()]
    assert shown == ["high", "same", "low"]
    assert "Not ranked: chosen, the best of others." in notes


def run(folder: Path, name: str, predicted: list[float]) -> dict[str, Any]:
    """Return variant `name`, which predicts the same of each task; all labels are 0, 1, 2."""
    rows = [
        {"id": str(n), "task": task, "split": "dev", "prediction": value, "label": float(n)}
        for task in OVERALL_TASKS
        for n, value in enumerate(predicted)
    ]
    files = {"predictions": folder / f"{name}.parquet", "history": history(folder / f"{name}.h")}
    pq.write_table(pa.Table.from_pylist(rows), files["predictions"])
    tasks = {task: {"key": name, **files} for task in OVERALL_TASKS}
    return {"variant": name, "key": name, "tasks": tasks}


def test_the_best_of_others_by_overall_score_does_not_lead_either(tmp_path: Path) -> None:
    """It has the scores of the best, and here it is the first in the grid."""
    chosen = {
        "variant": "chosen",
        "best_of": ["a", "b"],
        "by": "overall",
        "rule": "plain",
        "key": "",
    }
    runs = [chosen, run(tmp_path, "a", [0, 0, 1]), run(tmp_path, "b", [0, 1, 1])]
    about = {"paper": "p", "seed": 0, "tested": False}
    score_runs([{**each, **about} for each in runs], tmp_path / "s.parquet")
    found = read_scores(tmp_path / "s.parquet", "p")
    value = {name: found[Of(name, "dev", "plain")][0].value for name in ("chosen", "b")}
    assert value["chosen"] == value["b"]
    assert list(ranked(found, "plain")) == ["b", "a"]
